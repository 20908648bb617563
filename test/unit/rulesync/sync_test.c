/* SPDX-License-Identifier: Apache-2.0 */
#include "sync.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"
#include "temp_dir.h"

struct fixture {
    struct temp_dir dir;
    char from[256]; /* a mounted folder */
    char to[256];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    log_init("test", LOG_TEXT, LOG_ERROR);
    temp_dir_init(&f->dir);
    assert_int_equal(mkdir(temp_dir_path(&f->dir, "mount", f->from), 0755), 0);
    (void)temp_dir_path(&f->dir, "stored.json", f->to);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_deinit(&f->dir);
    free(f);
    return 0;
}

#define SPEC_A "{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"a=b\"}]}"
#define SPEC_B "{\"limits\":[]}"

static void offer(struct fixture *f, const char *shard, unsigned generation, const char *spec)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                   "\"ns\",\"name\":\"%s\"},\"generation\":%u,\"spec\":%s}",
                   shard, generation, spec);
    temp_dir_write(&f->dir, "mount/rules.json", text, 0644);
}

/* The stored copy as text; the caller frees. */
static char *stored(struct fixture *f)
{
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    if (file_read(f->to, &text, &e) != 0) {
        return strdup("(none)");
    }
    return buf_take_str(&text);
}

static void expect_stored(struct fixture *f, bool unchanged, unsigned generation)
{
    struct sync_options o = {.from = f->from, .to = f->to};
    struct sync_outcome outcome;
    struct err e = ERR_INIT;
    if (sync_once(&o, &outcome, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(outcome.unchanged, unchanged);
    assert_int_equal(rules_generation(outcome.rules), generation);
    rules_unref(outcome.rules);
}

/* Refused with these words, and the copy is as it was, byte for byte. */
static void expect_refused(struct fixture *f, const struct sync_options *o, const char *words)
{
    struct sync_outcome outcome;
    struct err e = ERR_INIT;
    char *before = stored(f);
    int rc = sync_once(o, &outcome, &e);
    char *after = stored(f);
    assert_true(rc < 0);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("wanted \"%s\", got \"%s\"", words, e.msg);
    }
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void refused(struct fixture *f, const char *words)
{
    struct sync_options o = {.from = f->from, .to = f->to};
    expect_refused(f, &o, words);
}

static void stores_with_checksum(void **state)
{
    struct fixture *f = *state;
    offer(f, "a", 7, SPEC_B);
    expect_stored(f, false, 7);
    char *text = stored(f);
    assert_string_equal(
        text,
        "{\"apiVersion\":\"cmesh/v1\",\"checksum\":"
        "\"sha256:04412774254598c0e6ca767aed55a9ca48306ba35a67476313d192bd0ad49d14\","
        "\"generation\":7,\"kind\":\"ShardRules\",\"shard\":{\"name\":\"a\",\"namespace\":\"ns\"},"
        "\"spec\":{\"limits\":[]}}\n");
    free(text);
}

static void takes_newer_and_keeps_equal(void **state)
{
    struct fixture *f = *state;
    offer(f, "a", 7, SPEC_A);
    expect_stored(f, false, 7);
    expect_stored(f, true, 7);
    offer(f, "a", 8, SPEC_B);
    expect_stored(f, false, 8);
}

static void takes_a_file_too(void **state)
{
    struct fixture *f = *state;
    char path[256];
    struct sync_options o = {
        .from = temp_dir_path(&f->dir, "mount/rules.json", path), .to = f->to, .shard = "ns/a"};
    struct sync_outcome outcome;
    struct err e = ERR_INIT;
    offer(f, "a", 1, SPEC_A);
    assert_int_equal(sync_once(&o, &outcome, &e), 0);
    rules_unref(outcome.rules);
}

static void refuses_older(void **state)
{
    struct fixture *f = *state;
    offer(f, "a", 7, SPEC_A);
    expect_stored(f, false, 7);
    offer(f, "a", 6, SPEC_B);
    refused(f, "mount/rules.json: generation 6 is older than generation 7, which ");
    offer(f, "a", 7, SPEC_B);
    refused(f, "rules that change need a higher generation");
}

static void refuses_another_shard(void **state)
{
    struct fixture *f = *state;
    struct sync_options o = {.from = f->from, .to = f->to, .shard = "ns/b"};
    offer(f, "a", 7, SPEC_A);
    expect_refused(f, &o, "these are the rules of shard ns/a, not of ns/b");
    o.shard = "n/a";
    expect_refused(f, &o, "not of n/a");
    o.shard = "ns/aa";
    expect_refused(f, &o, "not of ns/aa");
    expect_stored(f, false, 7);
    offer(f, "b", 8, SPEC_A);
    refused(f, "these are the rules of shard ns/b, but ");
}

static void refuses_what_is_not_valid(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"", "mount/rules.json: "},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",", "mount/rules.json: line 1"},
        {"{\"apiVersion\":\"cmesh/v2\"}", "apiVersion: Unsupported value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","
         "\"name\":\"a\"},\"generation\":9,\"checksum\":\"sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000\",\"spec\":" SPEC_A "}",
         "checksum: Invalid value"},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","
         "\"name\":\"a\"},\"generation\":9,\"spec\":{\"limits\":[],\"faults\":[]}}",
         "unknown field \"faults\""},
    };
    offer(f, "a", 7, SPEC_A);
    expect_stored(f, false, 7);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        temp_dir_write(&f->dir, "mount/rules.json", cases[i].text, 0644);
        refused(f, cases[i].words);
    }
}

static void refuses_what_is_not_there(void **state)
{
    struct fixture *f = *state;
    char path[256];
    refused(f, "mount/rules.json: cannot open: No such file");
    struct sync_options o = {.from = temp_dir_path(&f->dir, "nowhere", path), .to = f->to};
    expect_refused(f, &o, "nowhere: No such file");

    offer(f, "a", 1, SPEC_A);
    o = (struct sync_options){.from = f->from, .to = f->from};
    expect_refused(f, &o, "mount: not a file");
    o.to = temp_dir_path(&f->dir, "nowhere/rules.json", path);
    expect_refused(f, &o, "nowhere");
}

/* A damaged copy says nothing that could be older or newer. */
static void replaces_a_damaged_copy(void **state)
{
    struct fixture *f = *state;
    temp_dir_write(&f->dir, "stored.json", "{\"apiVersion\":\"cmesh/v1\",\"gen", 0644);
    offer(f, "a", 1, SPEC_A);
    expect_stored(f, false, 1);
    expect_stored(f, true, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stores_with_checksum, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_newer_and_keeps_equal, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_a_file_too, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_older, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_another_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_not_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(replaces_a_damaged_copy, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
