/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/delivered_versions.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "temp_dir.h"
#include "upstream/delivered_versions_internal.h"

enum { PODS = 100, VIEW = 200, OTHER_VIEW, A = 300, B, DOUBT_MS = 60000 };

static const struct delivered_key pods_a = {PODS, VIEW, A};
static const struct delivered_key pods_b = {PODS, VIEW, B};

struct fixture {
    struct temp_dir dir;
    char path[256];
    const char *upstream;
    struct delivered_versions *r;
};

static struct delivered_versions *try_open(struct fixture *f, struct err *e)
{
    return delivered_open(f->path, f->upstream, DOUBT_MS, e);
}

static void open_again(struct fixture *f)
{
    struct err e = ERR_INIT;
    f->r = try_open(f, &e);
    if (f->r == NULL) {
        print_error("%s\n", e.msg);
    }
    assert_non_null(f->r);
}

static int setup(void **state)
{
    static struct fixture f;
    temp_dir_init(&f.dir);
    f.upstream = "home";
    (void)temp_dir_path(&f.dir, "state", f.path);
    open_again(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    delivered_free(f->r);
    temp_dir_deinit(&f->dir);
    return 0;
}

static void read_file(struct fixture *f, struct buf *content)
{
    struct err e = ERR_INIT;
    assert_int_equal(file_read(f->path, content, &e), 0);
}

static void write_file(struct fixture *f, const void *data, size_t len)
{
    struct err e = ERR_INIT;
    assert_int_equal(file_write_atomic(f->path, data, len, 0600, &e), 0);
}

/* As it stands in the file now it is found by the next process: nothing was ended before. */
static void die(struct fixture *f)
{
    struct buf content = BUF_INIT((size_t)4 * 1024 * 1024);
    read_file(f, &content);
    struct delivered_versions *gone = f->r;
    f->r = NULL;
    write_file(f, buf_data(&content), content.len);
    buf_reset(&content);
    delivered_free(gone);
}

static void restart(struct fixture *f)
{
    die(f);
    open_again(f);
}

static void give(struct fixture *f, struct delivered_key key, uint64_t version)
{
    delivered_give(f->r, &key, (struct delivered_range){.from = version, .to = version});
}

static struct delivered_account *open_account(struct fixture *f, struct delivered_key key,
                                              uint64_t from, uint64_t to)
{
    struct delivered_account *a = delivered_account_open(f->r, &key, 0);
    assert_non_null(a);
    a->synced = 1;
    a->delivered = (struct delivered_range){.from = from, .to = to};
    delivered_saw(f->r, &key, to);
    return a;
}

static void test_nobody_has_seen_anything_at_first(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(delivered_watch(f->r, &pods_a, 10));
    give(f, pods_b, 20);
    assert_false(delivered_watch(f->r, &pods_a, 20));
    assert_true(delivered_watch(f->r, &pods_a, 21));
}

static void test_points_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    give(f, pods_a, 10);
    give(f, pods_b, 30);
    delivered_give_page(f->r, &pods_a, 77);
    restart(f);
    assert_true(delivered_watch(f->r, &pods_a, 10));
    restart(f);
    assert_true(delivered_watch(f->r, &pods_a, 10));
    assert_false(delivered_watch(f->r, &pods_a, 10));
    assert_true(delivered_page(f->r, &pods_a, 77));
    assert_false(delivered_page(f->r, &pods_b, 77));
}

static void test_writes_outlive_the_process(void **state)
{
    static const struct pending_record none;
    static const struct pending_record some = {
        .under_way = 3, .until_ms = 5000, .lost = 1, .rules = 77};
    struct fixture *f = *state;
    assert_memory_equal(delivered_writes(f->r), &none, sizeof none);
    *delivered_writes(f->r) = some;
    restart(f);
    assert_memory_equal(delivered_writes(f->r), &some, sizeof some);
}

static void test_open_watches_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    open_account(f, pods_a, 10, 19);
    open_account(f, (struct delivered_key){PODS, OTHER_VIEW, A}, 10, 19);
    restart(f);
    assert_true(delivered_watch(f->r, &pods_a, 15));
    assert_false(delivered_watch(f->r, &(struct delivered_key){PODS, OTHER_VIEW, B}, 15));
    give(f, pods_b, 20);
    assert_false(delivered_watch(f->r, &pods_a, 15)); /* it was one watch */
}

/* Versions are the same where nothing changes: who has which cannot be told, so both list. */
static void test_a_client_from_before_takes_no_others_list(void **state)
{
    struct fixture *f = *state;
    open_account(f, pods_a, 10, 10);
    restart(f);
    give(f, pods_b, 10);
    delivered_newest(f->r, &pods_a, 10);
    give(f, pods_b, 10);
    /* Two that have listed, and between them the one from before: who is who cannot be told. */
    for (int i = 0; i < 4; i++) {
        assert_false(delivered_watch(f->r, &pods_b, 10));
    }
    restart(f);
    assert_false(delivered_watch(f->r, &pods_b, 10));
    give(f, pods_b, 11);
    assert_true(delivered_watch(f->r, &pods_b, 11));
}

static void test_ended_watches_are_no_account_any_more(void **state)
{
    struct fixture *f = *state;
    delivered_account_close(f->r, open_account(f, pods_a, 10, 10), 1);
    delivered_account_close(f->r, open_account(f, pods_a, 12, 12), 0);
    give(f, pods_b, 20);
    restart(f);
    assert_false(delivered_watch(f->r, &pods_a, 10)); /* was told to list */
    assert_true(delivered_watch(f->r, &pods_a, 12));
    assert_false(delivered_watch(f->r, &pods_a, 12));
}

/* The version of an object, say. */
static void test_what_nobody_was_shown_is_served(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    delivered_newest(f->r, &pods_a, 10);
    for (int i = 0; i < 2; i++) {
        assert_true(delivered_watch(f->r, &pods_a, 5));
        assert_true(delivered_watch(f->r, &pods_a, 11));
        assert_false(delivered_watch(f->r, &pods_b, 5));
        assert_true(delivered_watch(f->r, &pods_b, 12));
        restart(f);
    }
}

static void test_ended_in_the_midst_of_a_change(void **state)
{
    struct fixture *f = *state;
    open_account(f, pods_a, 10, 10)->changing = 1;
    restart(f);
    assert_false(delivered_watch(f->r, &pods_a, 10));
    assert_false(delivered_watch(f->r, &pods_b, 10));
}

static void test_ended_before_all_initial_events(void **state)
{
    struct fixture *f = *state;
    open_account(f, pods_a, 10, 10)->synced = 0;
    restart(f);
    assert_false(delivered_watch(f->r, &pods_b, 10));
    assert_true(delivered_watch(f->r, &pods_b, 11));
}

static void test_versions_that_could_not_be_read(void **state)
{
    struct fixture *f = *state;
    open_account(f, pods_a, 10, 10)->unknown = 1;
    restart(f);
    assert_true(delivered_watch(f->r, &pods_a, 15)); /* whatever it was */
    assert_false(delivered_watch(f->r, &pods_b, 15));
}

static void test_a_change_that_is_over(void **state)
{
    struct fixture *f = *state;
    struct delivered_account *a = open_account(f, pods_a, 10, 10);
    a->mixed = a->delivered;
    a->delivered = (struct delivered_range){.from = 12, .to = 14};
    restart(f);
    assert_false(delivered_watch(f->r, &pods_a, 10));
    assert_true(delivered_watch(f->r, &pods_a, 13));
}

static void test_accounts_are_used_again(void **state)
{
    struct fixture *f = *state;
    struct delivered_account *all[DELIVERED_ACCOUNTS_MAX];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < DELIVERED_ACCOUNTS_MAX; i++) {
            all[i] = open_account(f, pods_a, 10 + i, 10 + i);
        }
        for (size_t i = 0; i < DELIVERED_ACCOUNTS_MAX; i++) {
            delivered_account_close(f->r, all[i], 1);
        }
    }
    open_account(f, pods_a, 10, 10);
    restart(f);
    assert_true(delivered_watch(f->r, &pods_a, 10));
}

static void test_more_watches_than_accounts(void **state)
{
    struct fixture *f = *state;
    struct delivered_account *elsewhere = NULL;
    for (size_t i = 0; i <= DELIVERED_ACCOUNTS_MAX; i++) {
        elsewhere = open_account(f, pods_a, 10, 10);
    }
    die(f);
    free(elsewhere); /* with its process */
    open_again(f);
    assert_false(delivered_watch(f->r, &pods_a, 10)); /* not all is known: all is doubted */
    delivered_newest(f->r, &pods_a, 20);
    open_account(f, pods_a, 20, 20);
    restart(f);
    assert_true(delivered_watch(f->r, &pods_a, 20)); /* there are few again */
}

static void damage(struct fixture *f, size_t at, int byte)
{
    struct buf content = BUF_INIT((size_t)4 * 1024 * 1024);
    read_file(f, &content);
    ((char *)buf_data(&content))[at] = (char)byte;
    write_file(f, buf_data(&content), content.len);
    buf_reset(&content);
}

static void assert_all_is_doubted(struct fixture *f)
{
    open_again(f);
    const struct pending_record unknown = PENDING_UNKNOWN;
    assert_memory_equal(delivered_writes(f->r), &unknown, sizeof unknown);
    assert_false(delivered_watch(f->r, &pods_a, 10));
    assert_false(delivered_watch(f->r, &pods_a, 1000000));
}

static void test_what_was_written_in_another_format(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    die(f);
    damage(f, offsetof(struct delivered_versions, stamp.format), 'x');
    assert_all_is_doubted(f);
}

/* A client from before both may have any version of what another one has watched since. */
static void test_doubts_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    die(f);
    damage(f, offsetof(struct delivered_versions, stamp.format), 'x');
    open_again(f);
    open_account(f, pods_a, 10, 30);
    for (int i = 0; i < 2; i++) {
        restart(f);
        assert_false(delivered_past_is_known(f->r));
        assert_false(delivered_watch(f->r, &pods_a, 20));
    }
}

static void test_lists_from_memory_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    die(f);
    damage(f, offsetof(struct delivered_versions, stamp.format), 'x');
    open_again(f);
    delivered_clock(f->r, 1000);
    delivered_newest(f->r, &pods_a, 10);
    restart(f);
    delivered_clock(f->r, 60999);
    assert_true(delivered_list_newest(f->r, &pods_a));
    delivered_clock(f->r, 61000);
    assert_false(delivered_list_newest(f->r, &pods_a));
}

static void test_what_a_build_with_another_layout_wrote(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    die(f);
    damage(f, offsetof(struct delivered_versions, stamp.layout), 'x');
    assert_all_is_doubted(f);
}

static void test_what_is_of_another_upstream(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    die(f);
    f->upstream = "other";
    assert_all_is_doubted(f);
    restart(f);
    assert_false(delivered_past_is_known(f->r));
}

/* Builds before names read and write as many bytes as there are without one. */
static void test_builds_without_names(void **state)
{
    struct fixture *f = *state;
    struct buf content = BUF_INIT((size_t)4 * 1024 * 1024);
    give(f, pods_a, 10);
    give(f, pods_b, 20);
    die(f);
    read_file(f, &content);
    write_file(f, buf_data(&content), sizeof(struct delivered_versions));
    buf_reset(&content);
    f->upstream = "other";
    open_again(f);
    assert_true(delivered_past_is_known(f->r));
    assert_true(delivered_watch(f->r, &pods_a, 10));
    assert_false(delivered_watch(f->r, &pods_a, 20));
}

static void test_what_was_written_before_the_machine_started(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    die(f);
    damage(f, offsetof(struct delivered_versions, stamp.boot), 'x');
    assert_all_is_doubted(f);
}

static void test_ended_while_it_wrote(void **state)
{
    struct fixture *f = *state;
    give(f, pods_a, 10);
    die(f);
    damage(f, offsetof(struct delivered_versions, busy), 1);
    assert_all_is_doubted(f);
}

static void test_counts_that_cannot_be(void **state)
{
    static const size_t counts[] = {
        offsetof(struct delivered_versions, point_count),
        offsetof(struct delivered_versions, resource_count),
        offsetof(struct delivered_versions, account_count),
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        give(f, pods_a, 10);
        die(f);
        damage(f, counts[i] + 3, 0x7f);
        assert_all_is_doubted(f);
    }
}

static void test_other_content(void **state)
{
    struct fixture *f = *state;
    die(f);
    write_file(f, "hello", 5);
    assert_all_is_doubted(f);
    die(f);
    assert_int_equal(truncate(f->path, 100000), 0);
    assert_all_is_doubted(f);
}

/* What it says of who has seen what is not "nobody has seen anything". */
static void test_a_file_that_cannot_be_read(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(
        delivered_open("/proc/self/mem", "home", DOUBT_MS, &e)); /* nothing is at its beginning */
    assert_int_equal(e.code, -EIO);
    assert_non_null(strstr(e.msg, "cannot be read"));
}

/* What could not be read, and what was forgotten, is known after a restart too. */
static void test_bounds_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    delivered_give(f->r, &pods_a, DELIVERED_ANY);
    restart(f);
    delivered_started(f->r, PODS, 9);
    assert_false(delivered_watch(f->r, &(struct delivered_key){PODS, OTHER_VIEW, B}, 50));
    delivered_newest(f->r, &pods_b, 60);
    assert_true(delivered_watch(f->r, &(struct delivered_key){PODS, OTHER_VIEW, B}, 61));
    for (uint64_t i = 0; i < DELIVERED_POINTS_MAX; i++) {
        give(f, (struct delivered_key){PODS, 1000 + i, A}, 70);
    }
    give(f, (struct delivered_key){PODS, 1, A}, 70); /* pushes the first out */
    delivered_saw(f->r, &pods_b, 80);
    restart(f);
    assert_false(delivered_watch(f->r, &(struct delivered_key){PODS, 1001, A}, 70));
    give(f, (struct delivered_key){PODS, 1000, B}, 70);
    assert_false(delivered_watch(f->r, &(struct delivered_key){PODS, 1000, B}, 70));
}

/* It failed before anybody was served. */
static void test_an_empty_file(void **state)
{
    struct fixture *f = *state;
    die(f);
    write_file(f, "", 0);
    open_again(f);
    assert_true(delivered_watch(f->r, &pods_a, 10));
}

static void test_what_is_doubted_is_believed_in_time(void **state)
{
    struct fixture *f = *state;
    delivered_clock(f->r, 5000);
    give(f, pods_b, 50);
    restart(f);
    delivered_clock(f->r, 6000);
    assert_false(delivered_watch(f->r, &pods_a, 10));
    restart(f);
    delivered_clock(f->r, 6000 + DOUBT_MS - 1);
    assert_false(delivered_watch(f->r, &pods_a, 10));
    delivered_clock(f->r, 6000 + DOUBT_MS);
    assert_true(delivered_watch(f->r, &pods_a, 10));
}

static void assert_refused(struct fixture *f, int code, const char *reason)
{
    struct err e = ERR_INIT;
    assert_null(try_open(f, &e));
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.msg, f->path));
    assert_non_null(strstr(e.msg, reason));
}

static void test_files_that_cannot_be_used(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, -EBUSY, "another localproxy");
    delivered_free(f->r);
    f->r = NULL;
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_refused(f, -EISDIR, "Is a directory");
    assert_int_equal(rmdir(f->path), 0);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_refused(f, -EINVAL, "not a regular file");
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(symlink("/dev/null", f->path), 0);
    assert_refused(f, -ELOOP, "symbolic links");
    assert_int_equal(unlink(f->path), 0);
    (void)temp_dir_path(&f->dir, "missing/state", f->path);
    assert_refused(f, -ENOENT, "No such file");
}

/* From then on it is not known any more what all have seen. */
static void test_a_forgotten_resource_is_doubted(void **state)
{
    struct fixture *f = *state;
    delivered_saw(f->r, &pods_a, 10);
    for (uint64_t i = 1; i <= DELIVERED_RESOURCES_MAX; i++) {
        assert_true(delivered_watch(f->r, &(struct delivered_key){PODS + i, VIEW, B}, 5));
        delivered_newest(f->r, &(struct delivered_key){PODS + i, VIEW, A}, 5);
    }
    assert_false(delivered_watch(f->r, &pods_b, 5));
    assert_false(delivered_watch(f->r, &(struct delivered_key){PODS - 1, VIEW, B}, 5));
    restart(f);
    assert_false(delivered_watch(f->r, &(struct delivered_key){PODS - 1, VIEW, B}, 10));
    assert_true(delivered_watch(f->r, &(struct delivered_key){PODS - 1, VIEW, B}, 11));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_has_seen_anything_at_first),
        TEST(test_points_outlive_the_process),
        TEST(test_writes_outlive_the_process),
        TEST(test_open_watches_outlive_the_process),
        TEST(test_a_client_from_before_takes_no_others_list),
        TEST(test_ended_watches_are_no_account_any_more),
        TEST(test_what_nobody_was_shown_is_served),
        TEST(test_ended_in_the_midst_of_a_change),
        TEST(test_ended_before_all_initial_events),
        TEST(test_versions_that_could_not_be_read),
        TEST(test_a_change_that_is_over),
        TEST(test_accounts_are_used_again),
        TEST(test_more_watches_than_accounts),
        TEST(test_what_was_written_in_another_format),
        TEST(test_doubts_outlive_the_process),
        TEST(test_lists_from_memory_outlive_the_process),
        TEST(test_what_a_build_with_another_layout_wrote),
        TEST(test_what_is_of_another_upstream),
        TEST(test_builds_without_names),
        TEST(test_what_was_written_before_the_machine_started),
        TEST(test_ended_while_it_wrote),
        TEST(test_counts_that_cannot_be),
        TEST(test_other_content),
        TEST(test_a_file_that_cannot_be_read),
        TEST(test_bounds_outlive_the_process),
        TEST(test_an_empty_file),
        TEST(test_what_is_doubted_is_believed_in_time),
        TEST(test_files_that_cannot_be_used),
        TEST(test_a_forgotten_resource_is_doubted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
