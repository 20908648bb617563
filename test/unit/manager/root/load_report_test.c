/* SPDX-License-Identifier: Apache-2.0 */
#include "root/load_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static cJSON *tree(const char *text)
{
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    return root;
}

/* Deletes the tree. */
static void expect_text(cJSON *root, const char *text)
{
    char *printed = cJSON_PrintUnformatted(root);
    assert_string_equal(printed, text);
    cJSON_free(printed);
    cJSON_Delete(root);
}

static void what_is_reported(void **state)
{
    (void)state;
    struct load_counts rates[SHARDING_HASH_SIZE] = {
        [3] = {.events = 12345}, [4] = {.requests = 999, .objects = 101}, [31] = {.objects = 7}};
    const char *shards[SHARDING_HASH_SIZE] = {[3] = "op-1-normal", [4] = "op-2-normal"};
    struct buckets owners = {.owner = {[3] = 1, [4] = 2, [5] = 2, [31] = 0}};
    struct load_report r;
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_CreateObject();
    load_report_make(&r, rates, &owners);
    assert_true(r.known);
    assert_int_equal(r.of_shard[1], 86); /* 49,380 of 57,480 */
    assert_int_equal(r.of_shard[2], 14);
    assert_int_equal(r.of_shard[3], 0);
    load_report_add(&ed, root, &r, shards);
    assert_int_equal(ed.rc, 0);
    expect_text(
        root,
        "{\"load\":[{\"bucket\":3,\"shard\":\"op-1-normal\",\"requests\":0,\"events\":12000,"
        "\"objects\":0,\"cost\":49000,\"percent\":86},{\"bucket\":4,\"shard\":\"op-2-normal\","
        "\"requests\":1000,\"events\":0,\"objects\":100,\"cost\":8100,\"percent\":14},"
        "{\"bucket\":31,\"requests\":0,\"events\":0,\"objects\":7,\"cost\":7,\"percent\":0}]}");
}

static void nothing_costs_nothing(void **state)
{
    (void)state;
    struct load_counts rates[SHARDING_HASH_SIZE] = {{0, 0, 0}};
    const char *shards[SHARDING_HASH_SIZE] = {NULL};
    struct buckets owners = {.owner = {1, 200}};
    struct load_report r;
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_CreateObject();
    load_report_make(&r, rates, &owners);
    assert_int_equal(r.of_shard[1], 0);
    load_report_add(&ed, root, &r, shards);
    expect_text(root, "{\"load\":[]}");
}

static void the_largest_is_reported(void **state)
{
    (void)state;
    struct load_counts rates[SHARDING_HASH_SIZE];
    struct buckets owners = {.owner = {0}};
    struct load_report r;
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        rates[i] = (struct load_counts){UINT64_MAX, UINT64_MAX, UINT64_MAX};
        owners.owner[i] = 1;
    }
    load_report_make(&r, rates, &owners);
    assert_int_equal(r.of_shard[1], 100);
    assert_int_equal(r.percent[0], 3);
}

/* ---- moves ---- */

static void moves_are_kept_for_an_hour(void **state)
{
    (void)state;
    const int64_t now = 1767261600; /* 2026-01-01T10:00:00Z */
    struct load_moves m;
    struct edit ed = {.rc = 0};
    cJSON *root =
        tree("{\"moves\":[\"2026-01-01T09:00:00Z\",\"2026-01-01T09:00:01Z\",7,\"nonsense\","
             "\"2026-01-01T09:50:00Z\",\"2026-01-01T11:00:00Z\"]}");
    load_moves_read(&m, root, now, 3600);
    cJSON_Delete(root);
    assert_int_equal(m.count, 3);
    assert_true(load_moves_has(&m, now - 3599));
    assert_true(load_moves_has(&m, now - 600));
    assert_true(load_moves_has(&m, now)); /* as if it were now */
    assert_false(load_moves_has(&m, now - 3600));
    root = cJSON_CreateObject();
    load_moves_add(&ed, root, &m);
    assert_int_equal(ed.rc, 0);
    expect_text(root, "{\"moves\":[\"2026-01-01T09:00:01Z\",\"2026-01-01T09:50:00Z\","
                      "\"2026-01-01T10:00:00Z\"]}");
    load_moves_read(&m, NULL, now, 3600);
    assert_int_equal(m.count, 0);
    root = cJSON_CreateObject();
    load_moves_add(&ed, root, &m);
    expect_text(root, "{}");
}

static void the_bound_of_moves(void **state)
{
    (void)state;
    struct load_moves m = {.count = 0};
    assert_true(load_moves_allow(&m, 1, 1000, 300));
    assert_false(load_moves_allow(&m, 0, 1000, 300));
    load_moves_note(&m, 1000);
    assert_false(load_moves_allow(&m, 32, 1000, 300));
    assert_false(load_moves_allow(&m, 32, 1299, 300));
    assert_true(load_moves_allow(&m, 2, 1300, 300));
    assert_false(load_moves_allow(&m, 1, 1300, 300));
    for (int i = 0; i < 40; i++) {
        load_moves_note(&m, 2000 + i);
    }
    assert_int_equal(m.count, ROOT_MOVES_MAX);
    assert_true(load_moves_has(&m, 2039) && load_moves_has(&m, 2008) && !load_moves_has(&m, 2007));
    assert_false(load_moves_allow(&m, ROOT_MOVES_MAX, 9999, 300));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_reported),        cmocka_unit_test(nothing_costs_nothing),
        cmocka_unit_test(the_largest_is_reported), cmocka_unit_test(moves_are_kept_for_an_hour),
        cmocka_unit_test(the_bound_of_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
