/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/pod_traffic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "json/json.h"

#define HEX16 "0123456789abcdef"
#define SUM "sha256:" HEX16 HEX16 HEX16 HEX16
#define IN_FORCE                                                                                   \
    "\"inForce\":true,\"shard\":{\"namespace\":\"demo\",\"name\":\"blue\"},\"generation\":3,"      \
    "\"checksum\":\"" SUM "\",\"since\":1764150000,"
#define TRAFFIC(members, breakers)                                                                 \
    "{\"traffic\":{\"reads\":\"cmesh/v1\"," members "\"breakers\":[" breakers "]}}"
#define ROW(uid, rule, state, more)                                                                \
    "{\"policy\":\"p\",\"uid\":\"" uid "\",\"rule\":\"" rule "\",\"state\":\"" state "\"" more "}"

static struct pod_traffic *read_text(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, strlen(text), &e);
    if (root == NULL) {
        fail_msg("%s", e.msg);
    }
    struct pod_traffic *t = pod_traffic_read(root);
    cJSON_Delete(root);
    return t;
}

static void test_one_that_is_too_old(void **state)
{
    static const char *const texts[] = {"{}", "{\"traffic\":null}", "{\"traffic\":{}}",
                                        "{\"traffic\":{\"inForce\":true}}", "[]"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_null(read_text(texts[i]));
    }
}

static void test_none_in_force(void **state)
{
    struct pod_traffic *t = read_text(TRAFFIC("\"inForce\":false,\"error\":\"no\\nlabels\",", ""));
    (void)state;
    assert_non_null(t);
    assert_true(pod_traffic_enforces(t, ""));
    assert_false(pod_traffic_enforces(t, SUM));
    assert_false(pod_traffic_is_of(t, "demo/blue"));
    assert_string_equal(t->error, "no labels");
    assert_int_equal(t->count, 0);
    pod_traffic_free(t);
}

static void test_rows(void **state)
{
    struct pod_traffic *t = read_text(TRAFFIC(
        IN_FORCE "\"faults\":[{\"policy\":\"f\",\"rule\":\"r\",\"delayed\":1}],\"leftOut\":2,",
        ROW("u1", "b", "Closed", "") "," ROW(
            "u2", "x", "Opened",
            ",\"since\":\"2026-11-26T10:00:00Z\",\"until\":\"2026-11-26T11:00:00Z\",\"why\":"
            "\"over the limit\"") "," ROW("u1", "a", "HalfOpened", "") ",7,{}"));
    size_t count = 0;
    (void)state;
    assert_non_null(t);
    assert_true(pod_traffic_is_of(t, "demo/blue"));
    assert_false(pod_traffic_is_of(t, "demo/green"));
    assert_true(pod_traffic_enforces(t, SUM));
    assert_false(pod_traffic_enforces(t, ""));
    assert_true(t->has_faults);
    assert_int_equal(t->left_out, 2);
    assert_int_equal(t->generation, 3);
    assert_int_equal(t->count, 3);
    const struct pod_breaker *b = pod_traffic_find(t, "u1", &count);
    assert_int_equal(count, 2);
    assert_string_equal(b[0].rule.name, "a");
    assert_int_equal(b[0].state, CONTROL_BREAKER_HALF_OPENED);
    assert_string_equal(b[1].rule.name, "b");
    assert_int_equal(b[1].state, CONTROL_BREAKER_CLOSED);
    assert_true(b[1].since == 0);
    b = pod_traffic_find(t, "u2", &count);
    assert_int_equal(count, 1);
    assert_int_equal(b->state, CONTROL_BREAKER_OPENED);
    assert_true(b->until - b->since == 3600);
    assert_string_equal(b->why, "over the limit");
    (void)pod_traffic_find(t, "u3", &count);
    assert_int_equal(count, 0);
    pod_traffic_free(t);
}

/* The order of rows is no difference; what they say is. */
static void test_same(void **state)
{
    static const char *const others[] = {
        TRAFFIC(IN_FORCE, ROW("u", "a", "Opened", "") "," ROW("u", "b", "Closed", "")),
        TRAFFIC(IN_FORCE, ROW("u", "a", "Closed", "")),
        TRAFFIC(IN_FORCE, ROW("v", "a", "Closed", "") "," ROW("u", "b", "Closed", "")),
        TRAFFIC(IN_FORCE "\"error\":\"e\",",
                ROW("u", "a", "Closed", "") "," ROW("u", "b", "Closed", "")),
        TRAFFIC("\"inForce\":false,", ""),
        TRAFFIC(IN_FORCE, ROW("u", "a", "Closed", ",\"since\":\"2026-11-26T10:00:00Z\"") "," ROW(
                              "u", "b", "Closed", "")),
    };
    struct pod_traffic *a = read_text(TRAFFIC(
        IN_FORCE, ROW("u", "a", "Closed", ",\"refused\":1") "," ROW("u", "b", "Closed", "")));
    struct pod_traffic *b = read_text(TRAFFIC(
        IN_FORCE, ROW("u", "b", "Closed", "") "," ROW("u", "a", "Closed", ",\"refused\":9")));
    (void)state;
    assert_true(pod_traffic_same(a, b));
    assert_true(pod_traffic_same(NULL, NULL));
    assert_false(pod_traffic_same(a, NULL));
    assert_false(pod_traffic_same(NULL, a));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct pod_traffic *o = read_text(others[i]);
        assert_non_null(o);
        assert_false(pod_traffic_same(a, o));
        pod_traffic_free(o);
    }
    pod_traffic_free(a);
    pod_traffic_free(b);
}

/* What a Lease left out stays as it was known, if it was closed, and of the same document. */
static void test_complete(void **state)
{
    static const char all[] =
        TRAFFIC(IN_FORCE, ROW("u", "a", "Closed", "") "," ROW("u", "b", "Opened",
                                                              "") "," ROW("v", "c", "Closed", ""));
    static const char part[] = TRAFFIC(IN_FORCE "\"leftOut\":2,", ROW("u", "a", "Opened", ""));
    struct pod_traffic *before = read_text(all);
    size_t count = 0;
    (void)state;
    struct pod_traffic *t = pod_traffic_complete(read_text(part), before);
    assert_int_equal(t->count, 2);
    assert_int_equal(t->left_out, 1);
    assert_int_equal(pod_traffic_find(t, "u", &count)->state, CONTROL_BREAKER_OPENED);
    assert_int_equal(count, 1);
    (void)pod_traffic_find(t, "v", &count);
    assert_int_equal(count, 1);
    pod_traffic_free(t);
    t = pod_traffic_complete(read_text(part), NULL);
    assert_int_equal(t->count, 1);
    pod_traffic_free(t);
    t = pod_traffic_complete(read_text(TRAFFIC("\"inForce\":false,\"leftOut\":2,", "")), before);
    assert_int_equal(t->count, 0);
    pod_traffic_free(t);
    pod_traffic_free(before);
}

/* ---- rules that allow and forbid ---- */

#define INTERCEPT(uid, rule, refused)                                                              \
    "{\"policy\":\"p\",\"uid\":\"" uid "\",\"rule\":\"" rule "\",\"refused\":" refused "}"
#define WITH(members, intercepts)                                                                  \
    "{\"traffic\":{\"reads\":\"cmesh/v1\"," IN_FORCE members "\"intercepts\":[" intercepts "]}"    \
    ",\"egress\":{\"address\":\"127.0.0.1:15002\"}}"

static const struct pod_intercept *only(const struct pod_traffic *t, const char *uid)
{
    size_t count = 0;
    const struct pod_intercept *n = pod_traffic_find_intercepts(t, uid, &count);
    assert_int_equal(count, 1);
    return n;
}

static void test_intercepts(void **state)
{
    struct pod_traffic *t =
        read_text(WITH("", INTERCEPT("u2", "b", "5") "," INTERCEPT("u1", "z", "0") "," INTERCEPT(
                               "u2", "a", "123456789") ",7,{}"));
    size_t count = 0;
    (void)state;
    assert_non_null(t);
    assert_true(t->has_egress);
    assert_int_equal(t->count, 0);
    const struct pod_intercept *n = pod_traffic_find_intercepts(t, "u2", &count);
    assert_int_equal(count, 2);
    assert_string_equal(n[0].rule.name, "a");
    assert_string_equal(n[1].rule.name, "b");
    assert_int_equal(n[1].refused, 5);
    assert_string_equal(only(t, "u1")->rule.name, "z");
    (void)pod_traffic_find_intercepts(t, "u3", &count);
    assert_int_equal(count, 0);
    pod_traffic_free(t);
}

static void test_without_egress(void **state)
{
    static const char *const texts[] = {
        TRAFFIC(IN_FORCE, ""),
        "{\"traffic\":{" IN_FORCE "\"breakers\":[]},\"egress\":{\"address\":\"\"}}",
        "{\"traffic\":{" IN_FORCE "\"breakers\":[]},\"egress\":7}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct pod_traffic *t = read_text(texts[i]);
        assert_non_null(t);
        assert_false(t->has_egress);
        pod_traffic_free(t);
    }
}

static void test_what_was_refused_is_news(void **state)
{
    static const char *const others[] = {
        WITH("", INTERCEPT("u", "a", "2") "," INTERCEPT("u", "b", "0")),
        WITH("", INTERCEPT("u", "a", "1")),
        WITH("", INTERCEPT("v", "a", "1") "," INTERCEPT("u", "b", "0")),
        TRAFFIC(IN_FORCE
                "\"intercepts\":[" INTERCEPT("u", "a", "1") "," INTERCEPT("u", "b", "0") "],",
                ""),
    };
    struct pod_traffic *a =
        read_text(WITH("", INTERCEPT("u", "a", "1") "," INTERCEPT("u", "b", "0")));
    struct pod_traffic *b =
        read_text(WITH("", INTERCEPT("u", "b", "0") "," INTERCEPT("u", "a", "1")));
    (void)state;
    assert_true(pod_traffic_same(a, b));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct pod_traffic *o = read_text(others[i]);
        assert_false(pod_traffic_same(a, o));
        pod_traffic_free(o);
    }
    pod_traffic_free(a);
    pod_traffic_free(b);
}

/* A Lease says whether there are any, and not of all. */
static void test_rough_numbers(void **state)
{
    struct pod_traffic *before =
        read_text(WITH("", INTERCEPT("u", "a", "7") "," INTERCEPT("v", "b", "3")));
    struct pod_traffic *told = read_text(WITH("\"leftOut\":1,", INTERCEPT("u", "a", "1")));
    (void)state;
    pod_traffic_set_rough(told);
    struct pod_traffic *t = pod_traffic_complete(told, before);
    assert_int_equal(only(t, "u")->refused, 7);
    assert_false(only(t, "u")->rough);
    assert_int_equal(only(t, "v")->refused, 3);
    assert_int_equal(t->left_out, 0);
    pod_traffic_free(before);
    before = t;
    told = read_text(WITH("", INTERCEPT("u", "a", "0") "," INTERCEPT("v", "b", "1")));
    pod_traffic_set_rough(told); /* it was started anew */
    t = pod_traffic_complete(told, before);
    assert_int_equal(only(t, "u")->refused, 0);
    assert_int_equal(only(t, "v")->refused, 3);
    pod_traffic_free(before);
    pod_traffic_free(t);
    told = read_text(WITH("", INTERCEPT("u", "a", "1")));
    pod_traffic_set_rough(told);
    t = pod_traffic_complete(told, NULL);
    assert_int_equal(only(t, "u")->refused, 1);
    assert_true(only(t, "u")->rough);
    pod_traffic_free(t);
}

/* As many as are read, and names that no rule has. */
static void test_bounds(void **state)
{
    struct buf text = BUF_INIT(1024 * 1024);
    (void)state;
    buf_append_str(&text, "{\"traffic\":{\"inForce\":false,\"breakers\":[");
    for (unsigned i = 0; i < CONTROL_TRAFFIC_RULES_MAX + 50; i++) {
        buf_printf(&text, "%s" ROW("u", "%0*u", "Opened", ",\"why\":\"%0200u\""), i == 0 ? "" : ",",
                   i % 2 == 0 ? POLICY_NAME_MAX : POLICY_NAME_MAX + 1, i, i);
    }
    assert_int_equal(buf_append_str(&text, "]}}"), 0);
    struct pod_traffic *t = read_text(buf_cstr(&text));
    assert_non_null(t);
    assert_int_equal(t->count, CONTROL_TRAFFIC_RULES_MAX / 2);
    assert_int_equal(strlen(t->breakers[0].why), POD_TRAFFIC_WHY_SIZE - 1);
    pod_traffic_free(t);
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_is_too_old),
        cmocka_unit_test(test_none_in_force),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_intercepts),
        cmocka_unit_test(test_without_egress),
        cmocka_unit_test(test_what_was_refused_is_news),
        cmocka_unit_test(test_rough_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
