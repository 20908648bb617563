/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "control/state.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define CHECKSUM "sha256:" ZEROS
#define SHARD "\"shard\":{\"namespace\":\"demo\",\"name\":\"demo-1\"}"
#define REST "\"generation\":7,\"checksum\":\"" CHECKSUM "\",\"since\":\"2001-09-09T01:46:40Z\""
#define ENFORCED "{" SHARD "," REST "}"

static const struct control_state enforcing = {
    .enforcing = true,
    .shard_namespace = "demo",
    .shard_name = "demo-1",
    .generation = 7,
    .checksum = CHECKSUM,
    .since = 1000000000,
};

static void assert_same(const struct control_state *a, const struct control_state *b)
{
    assert_int_equal(a->enforcing, b->enforcing);
    assert_string_equal(a->shard_namespace, b->shard_namespace);
    assert_string_equal(a->shard_name, b->shard_name);
    assert_int_equal(a->generation, b->generation);
    assert_string_equal(a->checksum, b->checksum);
    assert_int_equal(a->since, b->since);
    assert_string_equal(a->reason, b->reason);
}

static void expect_text(const struct control_state *s, const bool *changed, const char *text)
{
    struct buf out = BUF_INIT(CONTROL_BODY_MAX);
    assert_int_equal(control_state_encode(s, changed, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
}

static void test_what_is_written(void **state)
{
    (void)state;
    struct control_state none = {.reason = "a \"bad\" file"};
    bool yes = true;
    bool no = false;
    expect_text(&enforcing, NULL, "{\"version\":1,\"enforced\":" ENFORCED "}\n");
    expect_text(&enforcing, &yes, "{\"version\":1,\"enforced\":" ENFORCED ",\"changed\":true}\n");
    expect_text(&enforcing, &no, "{\"version\":1,\"enforced\":" ENFORCED ",\"changed\":false}\n");
    expect_text(&none, NULL,
                "{\"version\":1,\"enforced\":null,\"reason\":\"a \\\"bad\\\" file\"}\n");
}

/* Said when it is not so; those of earlier versions say nothing. */
static void test_what_is_not_settled(void **state)
{
    (void)state;
    struct control_state s = enforcing;
    struct control_state again;
    bool yes = true;
    s.unsettled = true;
    expect_text(&s, &yes,
                "{\"version\":1,\"enforced\":" ENFORCED ",\"settled\":false,\"changed\":true}\n");
    assert_int_equal(
        control_state_decode(SLICE("{\"version\":1,\"enforced\":" ENFORCED ",\"settled\":false}"),
                             &again, NULL, NULL),
        0);
    assert_true(again.unsettled);
    assert_int_equal(
        control_state_decode(SLICE("{\"version\":1,\"enforced\":" ENFORCED ",\"settled\":true}"),
                             &again, NULL, NULL),
        0);
    assert_false(again.unsettled);
    assert_int_equal(control_state_decode(SLICE("{\"version\":1,\"enforced\":" ENFORCED "}"),
                                          &again, NULL, NULL),
                     0);
    assert_false(again.unsettled);
}

/* To the last digit that a JSON number holds. */
static void test_large_generations_are_written_exactly(void **state)
{
    (void)state;
    struct control_state s = enforcing;
    struct control_state again;
    struct buf out = BUF_INIT(CONTROL_BODY_MAX);
    s.generation = UINT64_C(9007199254740991);
    assert_int_equal(control_state_encode(&s, NULL, &out), 0);
    assert_int_equal(control_state_decode(buf_slice(&out), &again, NULL, NULL), 0);
    assert_same(&again, &s);
    buf_reset(&out);
}

static void test_what_cannot_be_written(void **state)
{
    (void)state;
    struct control_state s = enforcing;
    struct buf out = BUF_INIT(CONTROL_BODY_MAX);
    assert_int_equal(buf_append_str(&out, "kept"), 0);
    s.since = -1;
    assert_int_equal(control_state_encode(&s, NULL, &out), -EINVAL);
    s.since = INT64_MAX;
    assert_int_equal(control_state_encode(&s, NULL, &out), -EINVAL);
    out.max = 40;
    assert_int_equal(control_state_encode(&enforcing, NULL, &out), -ENOBUFS);
    assert_int_equal(control_error_encode("a text that is longer than that maximum", &out),
                     -ENOBUFS);
    assert_string_equal(buf_cstr(&out), "kept");
    buf_reset(&out);
}

static void test_set_from_rules(void **state)
{
    (void)state;
    static const char text[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"demo\","
        "\"name\":\"demo-1\"},\"generation\":7,\"spec\":{\"limits\":[]}}";
    struct rules *r = rules_parse(text, sizeof text - 1, NULL);
    struct control_state s;
    struct control_state expected = enforcing;
    assert_non_null(r);
    (void)snprintf(expected.checksum, sizeof expected.checksum, "%s", rules_checksum(r));
    control_state_set(&s, r, 1000000000, "not said");
    assert_same(&s, &expected);
    rules_unref(r);
}

static void test_set_without_rules(void **state)
{
    (void)state;
    struct control_state s;
    char endless[2 * ERR_MSG_MAX];
    control_state_set(&s, NULL, 0, "the file is damaged");
    assert_false(s.enforcing);
    assert_string_equal(s.reason, "the file is damaged");
    control_state_set(&s, NULL, 0, NULL);
    assert_string_equal(s.reason, "no rules received yet");
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    control_state_set(&s, NULL, 0, endless);
    assert_int_equal(strlen(s.reason), ERR_MSG_MAX - 1);
}

static void test_set_from_traffic(void **state)
{
    (void)state;
    static const char text[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"demo\","
        "\"name\":\"demo-1\"},\"generation\":7,\"spec\":{}}";
    struct traffic *t = traffic_parse(text, sizeof text - 1, NULL);
    struct control_state s;
    struct control_state expected = enforcing;
    assert_non_null(t);
    (void)snprintf(expected.checksum, sizeof expected.checksum, "%s", traffic_checksum(t));
    control_state_set_traffic(&s, t, 1000000000, "not said");
    assert_same(&s, &expected);
    traffic_unref(t);
    control_state_set_traffic(&s, NULL, 0, "the file is damaged");
    assert_false(s.enforcing);
    assert_string_equal(s.reason, "the file is damaged");
    control_state_set_traffic(&s, NULL, 0, "");
    assert_string_equal(s.reason, "there are no traffic policies");
}

static void test_what_is_read(void **state)
{
    (void)state;
    struct control_state s;
    struct control_state none = {.reason = "why"};
    bool changed = true;
    assert_int_equal(control_state_decode(SLICE("{\"version\":1,\"enforced\":" ENFORCED "}"), &s,
                                          &changed, NULL),
                     0);
    assert_same(&s, &enforcing);
    assert_false(changed);
    assert_int_equal(
        control_state_decode(SLICE("{\"changed\":true,\"later\":[],\"enforced\":{\"more\":0," SHARD
                                   "," REST "},\"version\":1.0}"),
                             &s, &changed, NULL),
        0);
    assert_same(&s, &enforcing);
    assert_true(changed);
    assert_int_equal(
        control_state_decode(SLICE("{\"version\":1,\"enforced\":null,\"reason\":\"why\"}"), &s,
                             NULL, NULL),
        0);
    assert_same(&s, &none);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *why;
    } bad[] = {
        {"", "unexpected end"},
        {"{\"version\":1", "unexpected end"},
        {"[]", "must be an object"},
        {"{\"enforced\":" ENFORCED "}", "version: Required value"},
        {"{\"version\":\"1\",\"enforced\":" ENFORCED "}",
         "version: Invalid value: must be a whole number"},
        {"{\"version\":2,\"enforced\":" ENFORCED "}", "version: is 2, but only 1"},
        {"{\"version\":1.5,\"enforced\":" ENFORCED "}",
         "version: Invalid value: must be a whole number"},
        {"{\"version\":1}", "enforced: Invalid value: must be an object or null"},
        {"{\"version\":1,\"enforced\":true}", "enforced: Invalid value: must be an object or null"},
        {"{\"version\":1,\"enforced\":null}", "reason: Required value"},
        {"{\"version\":1,\"enforced\":null,\"reason\":1}", "reason: Required value: a text"},
        {"{\"version\":1,\"changed\":1,\"enforced\":" ENFORCED "}",
         "changed: Invalid value: must be true"},
        {"{\"version\":1,\"enforced\":{" REST "}}", "enforced.shard: Required value"},
        {"{\"version\":1,\"enforced\":{\"shard\":\"a/b\"," REST "}}",
         "enforced.shard: Invalid value: must be an"},
        {"{\"version\":1,\"enforced\":{\"shard\":{\"name\":\"a\"}," REST "}}",
         "enforced.shard.namespace: Required value"},
        {"{\"version\":1,\"enforced\":{\"shard\":{\"namespace\":\"A\",\"name\":\"a\"}," REST "}}",
         "enforced.shard.namespace: "},
        {"{\"version\":1,\"enforced\":{\"shard\":{\"namespace\":\"a\",\"name\":\"" ZEROS ZEROS ZEROS
             ZEROS "\"}," REST "}}",
         "must be no more than 253 characters"},
        {"{\"version\":1,\"enforced\":{\"shard\":{\"namespace\":\"a\",\"name\":7}," REST "}}",
         "enforced.shard.name: Invalid value: must be a string"},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":0}}",
         "enforced.generation: Invalid value: must"},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1.5}}", "enforced.generation: "},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1e300}}", "enforced.generation: "},
        {"{\"version\":1,\"enforced\":{" SHARD "}}", "enforced.generation: Required value"},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1}}",
         "enforced.checksum: Required value"},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1,\"checksum\":\"" ZEROS "\"}}",
         "enforced.checksum: Invalid value: \""},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1,\"checksum\":\"sha256:X" ZEROS
         "\"}}",
         "enforced.checksum: Invalid value: \""},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1,\"checksum\":\"" CHECKSUM "\"}}",
         "enforced.since: Required value"},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1,\"checksum\":\"" CHECKSUM
         "\",\"since\":\"yesterday\"}}",
         "enforced.since: Invalid value: must be a time since 1970, in seconds or in RFC 3339 "
         "format"},
        {"{\"version\":1,\"enforced\":{" SHARD ",\"generation\":1,\"checksum\":\"" CHECKSUM
         "\",\"since\":\"1969-12-31T23:59:59Z\"}}",
         "enforced.since: Invalid value: must be a time since 1970, in seconds or in RFC 3339 "
         "format"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct control_state s;
        struct err e = ERR_INIT;
        bool changed;
        int rc = control_state_decode(slice_str(bad[i].body), &s, &changed, &e);
        if (rc != -EPROTO || strstr(e.msg, bad[i].why) == NULL) {
            fail_msg("%s: %d %s", bad[i].body, rc, e.msg);
        }
    }
}

/* Texts may quote what others sent. */
static void test_odd_reasons(void **state)
{
    (void)state;
    struct control_state s = {.enforcing = false};
    struct control_state again;
    struct buf out = BUF_INIT(CONTROL_BODY_MAX);
    memset(s.reason, 0xff, sizeof s.reason - 1);
    assert_int_equal(control_state_encode(&s, NULL, &out), 0);
    assert_int_equal(control_state_decode(buf_slice(&out), &again, NULL, NULL), 0);
    /* Whole replacement characters, as many as fit. */
    assert_int_equal(strlen(again.reason), (ERR_MSG_MAX - 1) / 3 * 3);
    assert_memory_equal(again.reason, "\xef\xbf\xbd\xef\xbf\xbd", 6);
    buf_reset(&out);
}

static void test_errors(void **state)
{
    (void)state;
    char why[ERR_MSG_MAX];
    struct buf out = BUF_INIT(CONTROL_BODY_MAX);
    assert_int_equal(control_error_encode("line 3: \"a\" \xff\n", &out), 0);
    assert_string_equal(buf_cstr(&out), "{\"error\":\"line 3: \\\"a\\\" \xef\xbf\xbd\\n\"}\n");
    control_error_decode(buf_slice(&out), why);
    assert_string_equal(why, "line 3: \"a\" \xef\xbf\xbd\n");
    buf_reset(&out);
    static const char *const none[] = {"", "not JSON", "[]", "{}", "{\"error\":1}", "null"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        control_error_decode(slice_str(none[i]), why);
        assert_string_equal(why, "");
    }
}

static bool write_and_read(void *data)
{
    (void)data;
    struct control_state s;
    struct control_state none = {.reason = "why"};
    struct buf out = BUF_INIT(CONTROL_BODY_MAX);
    char why[ERR_MSG_MAX];
    bool good = control_state_encode(&enforcing, NULL, &out) == 0 &&
                control_state_decode(buf_slice(&out), &s, NULL, NULL) == 0;
    buf_clear(&out);
    good = good && control_state_encode(&none, NULL, &out) == 0;
    buf_clear(&out);
    good = good && control_error_encode("why", &out) == 0;
    if (good) {
        control_error_decode(buf_slice(&out), why);
        good = strcmp(why, "why") == 0;
    }
    buf_reset(&out);
    return good;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    assert_true(sweep_allocations(write_and_read, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written),
        cmocka_unit_test(test_what_is_not_settled),
        cmocka_unit_test(test_large_generations_are_written_exactly),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_set_from_rules),
        cmocka_unit_test(test_set_without_rules),
        cmocka_unit_test(test_set_from_traffic),
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_odd_reasons),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
