/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "last_good.h"
#include "temp_dir.h"

struct fixture {
    struct net_loop *loop;
    struct temp_dir dir;
    char path[256];
    struct last_good *copy;
    struct rules *found; /* in the file, when the copy was opened */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || loop_setup((void **)&f->loop) != 0) {
        return -1;
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f->dir);
    (void)temp_dir_path(&f->dir, "stored.json", f->path);
    *state = f;
    return 0;
}

static void shut(struct fixture *f)
{
    last_good_free(f->copy);
    rules_unref(f->found);
    f->copy = NULL;
    f->found = NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    shut(f);
    int rc = loop_free(f->loop);
    temp_dir_deinit(&f->dir);
    free(f);
    return rc;
}

/* Opens it anew, as after a restart. */
static void reopen(struct fixture *f)
{
    struct err e = ERR_INIT;
    shut(f);
    f->copy = last_good_new(f->loop, f->path, &f->found, &e);
    if (f->copy == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void expect_no_copy(struct fixture *f, const char *words)
{
    struct err e = ERR_INIT;
    assert_null(last_good_new(f->loop, f->path, &f->found, &e));
    assert_null(f->found);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("wanted \"%s\", got \"%s\"", words, e.msg);
    }
}

/* The caller unrefs. */
static struct rules *rules(unsigned generation)
{
    char text[512];
    struct err e = ERR_INIT;
    int len = snprintf(text, sizeof text,
                       "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                       "\"namespace\":\"ns\",\"name\":\"a\"},\"generation\":%u,\"spec\":"
                       "{\"limits\":[]}}",
                       generation);
    struct rules *r = rules_parse(text, (size_t)len, &e);
    assert_non_null(r);
    return r;
}

static void store(struct fixture *f, unsigned generation)
{
    struct rules *r = rules(generation);
    last_good_store(f->copy, r);
    rules_unref(r);
}

static void expect_text(struct fixture *f, const char *text)
{
    struct buf b = BUF_INIT(65536);
    struct err e = ERR_INIT;
    assert_int_equal(file_read(f->path, &b, &e), 0);
    assert_string_equal(buf_cstr(&b), text);
    buf_reset(&b);
}

static void wait_stored(struct fixture *f, unsigned generation)
{
    for (unsigned i = 0; i < 200 && last_good_status(f->copy)->trouble.open; i++) {
        run_for(f->loop, 50);
    }
    assert_false(last_good_status(f->copy)->trouble.open);
    assert_int_equal(last_good_status(f->copy)->generation, generation);
}

static void is_in_canonical_form_with_its_checksum(void **state)
{
    struct fixture *f = *state;
    reopen(f);
    assert_null(f->found);
    assert_int_equal(last_good_status(f->copy)->generation, 0);
    store(f, 7);
    expect_text(f,
                "{\"apiVersion\":\"cmesh/v1\",\"checksum\":"
                "\"sha256:04412774254598c0e6ca767aed55a9ca48306ba35a67476313d192bd0ad49d14\","
                "\"generation\":7,\"kind\":\"ShardRules\",\"shard\":{\"name\":\"a\",\"namespace\":"
                "\"ns\"},\"spec\":{\"limits\":[]}}\n");
    assert_int_equal(last_good_status(f->copy)->generation, 7);
    assert_true(last_good_status(f->copy)->at > 0);
}

static void is_found_after_a_restart(void **state)
{
    struct fixture *f = *state;
    reopen(f);
    store(f, 7);
    reopen(f);
    assert_int_equal(rules_generation(f->found), 7);
    assert_int_equal(last_good_status(f->copy)->generation, 7);
    assert_int_equal(last_good_status(f->copy)->at, 0);
    assert_string_equal(last_good_status(f->copy)->checksum, rules_checksum(f->found));
}

static void is_not_written_without_need(void **state)
{
    struct fixture *f = *state;
    struct stat before;
    struct stat after;
    reopen(f);
    store(f, 7);
    assert_int_equal(stat(f->path, &before), 0);
    store(f, 7);
    reopen(f);
    store(f, 7);
    assert_int_equal(stat(f->path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(last_good_status(f->copy)->stores, 0);
}

static void is_tried_again(void **state)
{
    struct fixture *f = *state;
    reopen(f);
    assert_int_equal(mkdir(f->path, 0755), 0); /* nothing can be written there */
    store(f, 7);
    assert_true(last_good_status(f->copy)->trouble.open);
    assert_int_equal(last_good_status(f->copy)->failures, 1);
    assert_int_equal(last_good_status(f->copy)->generation, 0);
    store(f, 8); /* newer ones take the place of what waits */
    assert_int_equal(last_good_status(f->copy)->failures, 2);
    assert_int_equal(rmdir(f->path), 0);
    wait_stored(f, 8);
    assert_int_equal(last_good_status(f->copy)->stores, 1);
    reopen(f);
    assert_int_equal(rules_generation(f->found), 8);
}

static void is_tried_at_once_when_told_to(void **state)
{
    struct fixture *f = *state;
    reopen(f);
    last_good_retry(f->copy); /* nothing waits */
    assert_int_equal(mkdir(f->path, 0755), 0);
    store(f, 7);
    assert_int_equal(rmdir(f->path), 0);
    last_good_retry(f->copy);
    assert_false(last_good_status(f->copy)->trouble.open);
    assert_int_equal(last_good_status(f->copy)->generation, 7);
}

static void a_damaged_one_is_replaced(void **state)
{
    struct fixture *f = *state;
    temp_dir_write(&f->dir, "stored.json", "{\"apiVersion\":\"cmesh/v1\",\"gen", 0644);
    reopen(f);
    assert_null(f->found);
    store(f, 1);
    reopen(f);
    assert_int_equal(rules_generation(f->found), 1);
}

static void one_that_cannot_be_read_stops_everything(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(f->path, 0755), 0);
    expect_no_copy(f, "stored.json: not a file");
    (void)snprintf(f->path, sizeof f->path, "%s/nowhere/stored.json", f->dir.path);
    expect_no_copy(f, "nowhere/stored.json: its folder: No such file or directory");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(is_in_canonical_form_with_its_checksum),
        TEST(is_found_after_a_restart),
        TEST(is_not_written_without_need),
        TEST(is_tried_again),
        TEST(is_tried_at_once_when_told_to),
        TEST(a_damaged_one_is_replaced),
        TEST(one_that_cannot_be_read_stops_everything),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
