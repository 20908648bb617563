/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "control/status.h"
#include "json/json.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define CHECKSUM "sha256:" ZEROS
#define RULES                                                                                      \
    "\"shard\":{\"namespace\":\"demo\",\"name\":\"demo-1\"},\"generation\":7,\"checksum\":"        \
    "\"" CHECKSUM "\""

static const struct control_state rules = {
    .enforcing = true,
    .shard_namespace = "demo",
    .shard_name = "demo-1",
    .generation = 7,
    .checksum = CHECKSUM,
    .since = 1000000000,
};

/* Deletes the tree. */
static void expect_text(cJSON *root, const char *text)
{
    char *printed = cJSON_PrintUnformatted(root);
    assert_string_equal(printed, text);
    cJSON_free(printed);
    cJSON_Delete(root);
}

static cJSON *tree(const char *text)
{
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    return root;
}

static void test_what_localproxy_writes(void **state)
{
    (void)state;
    struct control_proxy_status s = {.rules = rules, .settled = true};
    cJSON *root = cJSON_CreateObject();
    control_proxy_status_add(root, &s);
    expect_text(root, "{\"inForce\":true,\"reads\":\"cmesh/v2\"," RULES
                      ",\"since\":1000000000,\"settled\":true}");
    s = (struct control_proxy_status){.settled = false};
    root = cJSON_CreateObject();
    control_proxy_status_add(root, &s);
    expect_text(root, "{\"inForce\":false,\"reads\":\"cmesh/v2\"}");
}

static void test_what_rulesync_writes(void **state)
{
    (void)state;
    cJSON *root = cJSON_CreateObject();
    cJSON *source = control_rulesync_part_add(root, CONTROL_SOURCE);
    control_rulesync_error_add(source, "no file", 1000000000);
    control_rulesync_warning_add(source, "a subPath");
    control_rulesync_error_add(control_rulesync_part_add(root, CONTROL_SEEN), "old", 0);
    (void)control_rulesync_part_add(root, CONTROL_ENFORCED);
    expect_text(root, "{\"source\":{\"error\":\"no file\",\"errorSince\":\"2001-09-09T01:46:40Z\","
                      "\"warning\":\"a subPath\"},\"seen\":{\"error\":\"old\"},\"enforced\":{}}");
}

/* Seconds, as localproxy says it, and text, as all others do. */
static void test_both_forms_of_a_time_are_read(void **state)
{
    static const char *const texts[] = {
        "{" RULES ",\"since\":1000000000}",
        "{" RULES ",\"since\":\"2001-09-09T01:46:40Z\"}",
        "{\"later\":[]," RULES ",\"since\":1000000000.0}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct control_state s = {.enforcing = false};
        cJSON *root = tree(texts[i]);
        assert_int_equal(control_rules_read(root, "rules", &s, NULL), 0);
        assert_memory_equal(&s, &rules, sizeof s);
        cJSON_Delete(root);
    }
}

static void test_odd_times_are_refused(void **state)
{
    static const char *const texts[] = {
        "-1", "1.5", "253402300800", "1e300", "true", "null", "\"\"", "\"1969-12-31T23:59:59Z\"",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct control_state s;
        struct err e = ERR_INIT;
        char text[256];
        (void)snprintf(text, sizeof text, "{" RULES ",\"since\":%s}", texts[i]);
        cJSON *root = tree(text);
        if (control_rules_read(root, "x", &s, &e) != -EPROTO ||
            strncmp(e.msg, "x.since: ", strlen("x.since: ")) != 0) {
            fail_msg("%s: %s", texts[i], e.msg);
        }
        cJSON_Delete(root);
    }
}

static void test_what_is_settled(void **state)
{
    static const struct {
        const char *text;
        bool enforcing;
        bool settled;
    } cases[] = {
        {"{\"rules\":{\"inForce\":false,\"settled\":true}}", false, false},
        {"{\"rules\":{\"inForce\":true," RULES ",\"since\":1,\"settled\":true}}", true, true},
        {"{\"rules\":{\"inForce\":true," RULES ",\"since\":1,\"settled\":1}}", true, false},
        {"{\"rules\":{\"inForce\":true," RULES ",\"since\":1}}", true, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct control_proxy_status s;
        cJSON *root = tree(cases[i].text);
        assert_int_equal(control_proxy_status_read(root, &s, NULL), 0);
        assert_int_equal(s.rules.enforcing, cases[i].enforcing);
        assert_int_equal(s.settled, cases[i].settled);
        cJSON_Delete(root);
    }
}

static enum rules_version read_version(const char *more)
{
    char text[256];
    struct err e = ERR_INIT;
    struct control_proxy_status status;
    (void)snprintf(text, sizeof text, "{\"rules\":{\"inForce\":false%s}}", more);
    cJSON *root = tree(text);
    assert_int_equal(control_proxy_status_read(root, &status, &e), 0);
    cJSON_Delete(root);
    return status.reads;
}

static void test_which_versions_it_reads(void **state)
{
    (void)state;
    assert_int_equal(read_version(""), RULES_V1); /* 0.1.0 */
    assert_int_equal(read_version(",\"reads\":\"cmesh/v2\""), RULES_V2);
    assert_int_equal(read_version(",\"reads\":\"cmesh/v7\""), RULES_NEWEST);
    assert_int_equal(read_version(",\"reads\":2"), RULES_V1);
}

static void test_who_answers(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    cJSON *root =
        control_status_parse(SLICE("{\"program\":\"rulesync\"}"), CONTROL_STATUS_RULESYNC, NULL);
    assert_non_null(root);
    assert_string_equal(control_rulesync_trouble(root), "");
    cJSON_Delete(root);
    assert_null(
        control_status_parse(SLICE("{\"program\":\"rulesync\"}"), CONTROL_STATUS_LOCALPROXY, &e));
    assert_int_equal(e.code, -EPROTO);
    assert_null(control_status_parse((struct slice){0}, CONTROL_STATUS_LOCALPROXY, &e));
}

static void test_who_comes_and_who_goes_around(void **state)
{
    (void)state;
    struct control_proxy_use use = {.clients_known = true};
    cJSON *root = cJSON_CreateObject();
    control_proxy_use_add(root, &use);
    expect_text(root, "{\"clients\":{\"requests\":0}}");
    use = (struct control_proxy_use){.clients_known = true,
                                     .requests = 3,
                                     .first = 1000000000,
                                     .last = 1000000001,
                                     .bypass_known = true,
                                     .bypass_connections = 2};
    root = cJSON_CreateObject();
    control_proxy_use_add(root, &use);
    expect_text(root, "{\"clients\":{\"requests\":3,\"first\":\"2001-09-09T01:46:40Z\","
                      "\"last\":\"2001-09-09T01:46:41Z\"},\"bypass\":{\"connections\":2}}");
    use = (struct control_proxy_use){.clients_known = true, .bypass_error = "no file"};
    root = cJSON_CreateObject();
    control_proxy_use_add(root, &use);
    expect_text(root, "{\"clients\":{\"requests\":0},\"bypass\":{\"error\":\"no file\"}}");
}

static struct control_proxy_use read_use(const char *text)
{
    struct control_proxy_use use;
    cJSON *root = tree(text);
    memset(&use, 0xff, sizeof use);
    control_proxy_use_read(root, &use);
    cJSON_Delete(root);
    return use;
}

static void test_a_lease_is_read_as_it_was_written(void **state)
{
    static const struct control_rules_lease cases[] = {
        {.seconds = 0},
        {.seconds = CONTROL_RULES_LEASE_MIN_S},
        {.seconds = CONTROL_RULES_LEASE_MAX_S, .expired = true, .remaining_s = 7},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct control_rules_lease out;
        cJSON *root = cJSON_CreateObject();
        control_rules_lease_add(root, &cases[i], i % 2 == 0);
        control_rules_lease_read(root, &out);
        assert_int_equal(out.seconds, cases[i].seconds);
        assert_int_equal(out.expired, cases[i].expired);
        assert_int_equal(cJSON_GetObjectItem(root, "lease") != NULL, cases[i].seconds != 0);
        cJSON_Delete(root);
    }
}

static void test_which_generation_is_required(void **state)
{
    (void)state;
    assert_int_equal(control_lease_required(""), 0);
    assert_int_equal(control_lease_required("7"), 7);
    assert_int_equal(control_lease_required("4503599627370496"), RULES_GENERATION_MAX);
    static const char *const none[] = {
        CONTROL_LEASE_REQUIRED_UNKNOWN, "0", "-1", "+1", " 1", "4503599627370497", "1.", "1e3",
        "18446744073709551617"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        assert_true(control_lease_required(none[i]) == UINT64_MAX);
    }
}

static void test_what_makes_no_sense_is_not_known(void **state)
{
    static const char *const texts[] = {
        "{}", /* an older localproxy */
        "{\"uptimeSeconds\":9}",
        "{\"clients\":{\"requests\":1},\"bypass\":{\"error\":\"no file\"}}",
        "{\"uptimeSeconds\":-1,\"clients\":{\"requests\":1},\"bypass\":{\"connections\":-1}}",
        "{\"uptimeSeconds\":9,\"clients\":{\"requests\":\"1\"},\"bypass\":{\"connections\":0.5}}",
        "{\"uptimeSeconds\":9,\"clients\":[1],\"bypass\":1}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct control_proxy_use use = read_use(texts[i]);
        assert_false(use.clients_known);
        assert_false(use.bypass_known);
    }
    struct control_proxy_use use = read_use(
        "{\"uptimeSeconds\":90,\"clients\":{\"requests\":0},\"bypass\":{\"connections\":2}}");
    assert_true(use.clients_known && use.bypass_known);
    assert_int_equal(use.uptime_s, 90);
    assert_int_equal(use.requests, 0);
    assert_int_equal(use.bypass_connections, 2);
}

#define GUARD "\"policy\":\"guard\",\"uid\":\"u-1\",\"rule\":\"deletePod\""

static void test_what_localproxy_writes_of_traffic(void **state)
{
    const struct control_breaker open = {
        "guard",    "u-1",      "deletePod",      CONTROL_BREAKER_OPENED,
        1000000000, 1000000060, "over the limit", 12};
    const struct control_breaker closed = {"guard", "", "other", CONTROL_BREAKER_CLOSED,
                                           0,       0,  "",      0};
    const struct control_fault fault = {"slow", "u-2", "lists", 3, 1};
    (void)state;
    struct control_traffic_status s = {.document = rules, .left_out = 4};
    cJSON *root = cJSON_CreateObject();
    cJSON *traffic = control_traffic_status_add(root, &s);
    assert_true(control_traffic_breaker_add(traffic, &open));
    assert_true(control_traffic_breaker_add(traffic, &closed));
    assert_true(control_traffic_fault_add(traffic, &fault));
    const struct control_intercept intercept = {"guard", "u-1", "inside", 5};
    assert_true(control_traffic_intercept_add(traffic, &intercept));
    expect_text(root, "{\"traffic\":{\"inForce\":true,\"reads\":\"cmesh/v1\"," RULES
                      ",\"since\":1000000000,\"breakers\":[{" GUARD
                      ",\"state\":\"Opened\",\"since\":\"2001-09-09T01:46:40Z\","
                      "\"until\":\"2001-09-09T01:47:40Z\",\"why\":\"over the limit\","
                      "\"refused\":12},{\"policy\":\"guard\",\"rule\":\"other\","
                      "\"state\":\"Closed\",\"refused\":0}],\"faults\":[{\"policy\":\"slow\","
                      "\"uid\":\"u-2\",\"rule\":\"lists\",\"delayed\":3,\"aborted\":1}],"
                      "\"intercepts\":[{\"policy\":\"guard\",\"uid\":\"u-1\",\"rule\":\"inside\","
                      "\"refused\":5}],\"leftOut\":4}}");
    s = (struct control_traffic_status){.error = "bad"};
    root = cJSON_CreateObject();
    (void)control_traffic_status_add(root, &s);
    expect_text(root, "{\"traffic\":{\"inForce\":false,\"reads\":\"cmesh/v1\",\"error\":\"bad\","
                      "\"breakers\":[],\"faults\":[],\"intercepts\":[],\"leftOut\":0}}");
}

static cJSON *printed_and_parsed(cJSON *root)
{
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    root = tree(text);
    cJSON_free(text);
    return root;
}

static void test_traffic_is_read_as_it_was_written(void **state)
{
    const struct control_breaker half = {"guard",    "u-1", "health", CONTROL_BREAKER_HALF_OPENED,
                                         1000000000, 0,     "errors", 123456789012};
    const struct control_traffic_status s = {.document = rules, .error = "old", .left_out = 7};
    struct control_traffic_status status;
    struct control_breaker breaker;
    struct control_fault fault = {"slow", "", "lists", 3, 1};
    struct control_intercept intercept = {"guard", "u-1", "inside", 123456789012};
    (void)state;
    cJSON *root = cJSON_CreateObject();
    cJSON *traffic = control_traffic_status_add(root, &s);
    assert_true(control_traffic_breaker_add(traffic, &half));
    assert_true(control_traffic_fault_add(traffic, &fault));
    assert_true(control_traffic_intercept_add(traffic, &intercept));
    root = printed_and_parsed(root);
    control_traffic_status_read(root, &status);
    assert_true(status.known);
    assert_memory_equal(&status.document, &rules, sizeof rules);
    assert_string_equal(status.error, "old");
    assert_int_equal(status.left_out, 7);
    const cJSON *row = NULL;
    assert_true(control_traffic_next_breaker(root, &row, &breaker));
    assert_string_equal(breaker.policy, "guard");
    assert_string_equal(breaker.uid, "u-1");
    assert_string_equal(breaker.rule, "health");
    assert_string_equal(breaker.why, "errors");
    assert_int_equal(breaker.state, CONTROL_BREAKER_HALF_OPENED);
    assert_int_equal(breaker.since, 1000000000);
    assert_int_equal(breaker.until, 0);
    assert_true(breaker.refused == half.refused);
    assert_false(control_traffic_next_breaker(root, &row, &breaker));
    fault = (struct control_fault){NULL, NULL, NULL, 0, 0};
    row = NULL;
    assert_true(control_traffic_next_fault(root, &row, &fault));
    assert_string_equal(fault.policy, "slow");
    assert_string_equal(fault.uid, "");
    assert_int_equal(fault.delayed, 3);
    assert_int_equal(fault.aborted, 1);
    assert_false(control_traffic_next_fault(root, &row, &fault));
    intercept = (struct control_intercept){NULL, NULL, NULL, 0};
    row = NULL;
    assert_true(control_traffic_next_intercept(root, &row, &intercept));
    assert_string_equal(intercept.policy, "guard");
    assert_string_equal(intercept.uid, "u-1");
    assert_string_equal(intercept.rule, "inside");
    assert_true(intercept.refused == 123456789012);
    assert_false(control_traffic_next_intercept(root, &row, &intercept));
    cJSON_Delete(root);
}

static void test_unknown_traffic(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"traffic\":null}",
        "{\"traffic\":[]}",
        "{\"traffic\":{}}",
        "{\"traffic\":{\"inForce\":1}}",
        "{\"traffic\":{\"inForce\":true}}",
        "{\"traffic\":{\"inForce\":true," RULES "}}",
        "{\"traffic\":{\"inForce\":true," RULES ",\"since\":-1}}",
    };
    struct control_traffic_status status;
    struct control_breaker breaker;
    struct control_fault fault;
    struct control_intercept intercept;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cJSON *root = tree(texts[i]);
        control_traffic_status_read(root, &status);
        assert_false(status.known);
        assert_false(status.document.enforcing);
        const cJSON *row = NULL;
        assert_false(control_traffic_next_breaker(root, &row, &breaker));
        assert_false(control_traffic_next_fault(root, &row, &fault));
        assert_false(control_traffic_next_intercept(root, &row, &intercept));
        cJSON_Delete(root);
    }
    cJSON *root = tree("{\"traffic\":{\"inForce\":false,\"error\":3,\"leftOut\":-1}}");
    control_traffic_status_read(root, &status);
    assert_true(status.known);
    assert_null(status.error);
    assert_int_equal(status.left_out, 0);
    cJSON_Delete(root);
}

static void test_odd_intercepts_are_skipped(void **state)
{
    struct control_intercept row;
    (void)state;
    cJSON *root = tree("{\"traffic\":{\"intercepts\":[1,{\"policy\":\"guard\"},{\"policy\":\"A b\","
                       "\"rule\":\"r\"},{\"policy\":\"guard\",\"rule\":\"r\",\"refused\":-1},"
                       "{\"policy\":\"guard\",\"rule\":\"good\"}]}}");
    const cJSON *at = NULL;
    assert_true(control_traffic_next_intercept(root, &at, &row));
    assert_string_equal(row.rule, "good");
    assert_string_equal(row.uid, "");
    assert_int_equal(row.refused, 0);
    assert_false(control_traffic_next_intercept(root, &at, &row));
    cJSON_Delete(root);
}

static void test_egress(void **state)
{
    const struct control_egress_status s = {
        .address = "127.0.0.1:15002", .requests = 9, .refused = 3, .failed = 2, .tunnels = 1};
    struct control_egress_status out;
    (void)state;
    cJSON *root = cJSON_CreateObject();
    control_egress_status_add(root, &s);
    control_egress_status_read(root, &out);
    assert_true(out.known);
    assert_string_equal(out.address, "127.0.0.1:15002");
    expect_text(root, "{\"egress\":{\"address\":\"127.0.0.1:15002\",\"requests\":9,\"refused\":3,"
                      "\"failed\":2,\"tunnels\":1}}");
    root = cJSON_CreateObject();
    control_egress_status_add(root, &(struct control_egress_status){.address = ""});
    control_egress_status_read(root, &out);
    assert_true(out.known);
    assert_string_equal(out.address, "");
    cJSON_Delete(root);
}

static void test_unknown_egress(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"egress\":null}",
        "{\"egress\":\"127.0.0.1:1\"}",
        "{\"egress\":{}}",
        "{\"egress\":{\"address\":null}}",
        "{\"egress\":{\"address\":1}}",
    };
    struct control_egress_status out;
    char longest[512];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cJSON *root = tree(texts[i]);
        control_egress_status_read(root, &out);
        assert_false(out.known);
        assert_string_equal(out.address, "");
        cJSON_Delete(root);
    }
    for (int over = 0; over < 2; over++) {
        (void)snprintf(longest, sizeof longest, "{\"egress\":{\"address\":\"%0*d\"}}",
                       CONTROL_TRAFFIC_TEXT_MAX + over, 0);
        cJSON *root = tree(longest);
        control_egress_status_read(root, &out);
        assert_int_equal(out.known, over == 0);
        cJSON_Delete(root);
    }
}

/* What is between two good ones does not matter. */
static void test_odd_rules_are_skipped(void **state)
{
    static const char *const odd[] = {
        "null",
        "7",
        "[]",
        "{}",
        "{\"policy\":\"guard\",\"rule\":\"a\"}",
        "{" GUARD ",\"state\":\"opened\"}",
        "{" GUARD ",\"state\":1}",
        "{" GUARD ",\"state\":\"Opened\",\"since\":\"today\"}",
        "{" GUARD ",\"state\":\"Opened\",\"until\":-1}",
        "{" GUARD ",\"state\":\"Opened\",\"refused\":-1}",
        "{" GUARD ",\"state\":\"Opened\",\"refused\":\"1\"}",
        "{\"policy\":\"Not a name\",\"rule\":\"a\",\"state\":\"Opened\"}",
        "{\"policy\":\"guard\",\"rule\":\"\",\"state\":\"Opened\"}",
        "{\"rule\":\"a\",\"state\":\"Opened\"}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        char text[1024];
        struct control_breaker breaker;
        (void)snprintf(text, sizeof text,
                       "{\"traffic\":{\"breakers\":[{" GUARD ",\"state\":\"Closed\"},%s,{" GUARD
                       ",\"state\":\"HalfOpened\"}]}}",
                       odd[i]);
        cJSON *root = tree(text);
        const cJSON *row = NULL;
        assert_true(control_traffic_next_breaker(root, &row, &breaker));
        assert_int_equal(breaker.state, CONTROL_BREAKER_CLOSED);
        if (!control_traffic_next_breaker(root, &row, &breaker) ||
            breaker.state != CONTROL_BREAKER_HALF_OPENED ||
            control_traffic_next_breaker(root, &row, &breaker)) {
            fail_msg("%s", odd[i]);
        }
        cJSON_Delete(root);
    }
}

static void test_texts_have_a_bound(void **state)
{
    char name[CONTROL_TRAFFIC_TEXT_MAX + 2];
    const cJSON *at = NULL;
    (void)state;
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    struct control_breaker row = {"guard", "", name, CONTROL_BREAKER_CLOSED, 0, 0, "", 0};
    cJSON *root = cJSON_CreateObject();
    cJSON *traffic =
        control_traffic_status_add(root, &(struct control_traffic_status){.known = true});
    assert_true(control_traffic_breaker_add(traffic, &row));
    assert_false(control_traffic_next_breaker(root, &at, &row));
    cJSON_Delete(root);
}

/* ---- load ---- */

static void test_load(void **state)
{
    (void)state;
    struct control_load l = {.since_s = 61};
    cJSON *root = cJSON_CreateObject();
    assert_non_null(control_load_add(root, &l));
    expect_text(root, "{\"load\":{\"sinceSeconds\":61,\"buckets\":{}}}");
    l.of[0] = (struct control_load_counts){.requests = 1};
    l.of[31] = (struct control_load_counts){2, 3, 123456789012345};
    l.of[CONTROL_LOAD_OTHERS].events = 4;
    l.unread = 5;
    static const char text[] = "{\"load\":{\"sinceSeconds\":61,\"buckets\":{\"0\":[1,0,0],"
                               "\"31\":[2,3,123456789012345]},\"others\":[0,4,0],\"unread\":5}}";
    root = cJSON_CreateObject();
    assert_non_null(control_load_add(root, &l));
    expect_text(root, text);
    struct control_load read;
    root = tree(text);
    control_load_read(root, &read);
    cJSON_Delete(root);
    l.known = true;
    assert_memory_equal(&read, &l, sizeof l);
}

static void test_load_of_no_sense(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"load\":7}",
        "{\"load\":{}}",
        "{\"load\":{\"buckets\":{}}}",
        "{\"load\":{\"sinceSeconds\":1}}",
        "{\"load\":{\"sinceSeconds\":-1,\"buckets\":{}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":[]}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":5}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[1,2]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[1,2,3,4]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[1,2,-3]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[1,2.5,3]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[1,\"2\",3]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"3\":[1,2,1e17]}}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{},\"others\":[1]}}",
        "{\"load\":{\"sinceSeconds\":1,\"buckets\":{},\"unread\":-1}}",
    };
    struct control_load nothing;
    memset(&nothing, 0, sizeof nothing);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct control_load l;
        cJSON *root = tree(texts[i]);
        control_load_read(root, &l);
        cJSON_Delete(root);
        assert_memory_equal(&l, &nothing, sizeof l);
    }
    /* Buckets that there are none of mean nothing. */
    struct control_load l;
    cJSON *root = tree("{\"load\":{\"sinceSeconds\":1,\"buckets\":{\"32\":7,\"x\":[1,2,3]}}}");
    control_load_read(root, &l);
    cJSON_Delete(root);
    assert_true(l.known);
    assert_int_equal(l.since_s, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_localproxy_writes),
        cmocka_unit_test(test_what_rulesync_writes),
        cmocka_unit_test(test_both_forms_of_a_time_are_read),
        cmocka_unit_test(test_odd_times_are_refused),
        cmocka_unit_test(test_what_is_settled),
        cmocka_unit_test(test_which_versions_it_reads),
        cmocka_unit_test(test_who_answers),
        cmocka_unit_test(test_a_lease_is_read_as_it_was_written),
        cmocka_unit_test(test_which_generation_is_required),
        cmocka_unit_test(test_who_comes_and_who_goes_around),
        cmocka_unit_test(test_what_makes_no_sense_is_not_known),
        cmocka_unit_test(test_what_localproxy_writes_of_traffic),
        cmocka_unit_test(test_traffic_is_read_as_it_was_written),
        cmocka_unit_test(test_unknown_traffic),
        cmocka_unit_test(test_odd_rules_are_skipped),
        cmocka_unit_test(test_texts_have_a_bound),
        cmocka_unit_test(test_odd_intercepts_are_skipped),
        cmocka_unit_test(test_egress),
        cmocka_unit_test(test_unknown_egress),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_load_of_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
