/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/probe_answer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "control/status.h"

#define HEX16 "0123456789abcdef"
#define SUM "sha256:" HEX16 HEX16 HEX16 HEX16
#define SHARD "\"shard\":{\"namespace\":\"demo\",\"name\":\"shard-a\"}"
#define RULES                                                                                      \
    "{\"path\":\"/r\",\"inForce\":true," SHARD ",\"generation\":7,\"checksum\":\"" SUM             \
    "\",\"limits\":1,\"since\":1700000000,\"settled\":true}"
#define PROXY(rules) "{\"program\":\"localproxy\",\"ready\":true,\"rules\":" rules "}"
#define RULESYNC(members) "{\"program\":\"rulesync\"" members "}"

static int read_proxy(struct slice body, struct probe_result *r, struct err *e)
{
    return probe_answer_proxy(body, "demo/blue-0", "u", r, e);
}

static void test_rules_in_force(void **state)
{
    struct probe_result r = {.state = PROBE_SILENT, .message = "kept"};
    (void)state;
    assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0);
    assert_true(r.enforcing);
    assert_int_equal(r.generation, 7);
    assert_string_equal(r.checksum, SUM);
    assert_string_equal(r.shard, "demo/shard-a");
    assert_true(r.since_ms == INT64_C(1700000000000));
    assert_int_equal(r.state, PROBE_SILENT);
    assert_string_equal(r.message, "kept");
}

/* Of a proxy that tells of clients and of others' connections. */
#define USED(uptime, requests, connections)                                                        \
    "{\"program\":\"localproxy\",\"uptimeSeconds\":" uptime ",\"rules\":" RULES                    \
    ",\"clients\":{\"requests\":" requests "},\"bypass\":{\"connections\":" connections "}}"

#define TOLD(name, uid)                                                                            \
    "{\"program\":\"localproxy\",\"pod\":{\"name\":\"" name "\",\"uid\":\"" uid                    \
    "\"},\"rules\":" RULES "}"

static void test_what_a_pod_tells(void **state)
{
    static const char *const others[] = {TOLD("blue-1", "u"), TOLD("blue-0", "v"),
                                         TOLD("demo/blue-0", "u"), PROXY(RULES),
                                         RULESYNC(",\"pod\":{\"name\":\"blue-0\",\"uid\":\"u\"}")};
    struct probe_result r = {.state = PROBE_SILENT, .message = "kept"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_int_equal(probe_answer_told(slice_str(others[i]), "demo/blue-0", "u", &r, NULL),
                         -EINVAL);
        int rc = strstr(others[i], "pod") == NULL ? 0 : -EINVAL; /* one that names none will do */
        struct probe_result answered = {.generation = 0};
        assert_int_equal(read_proxy(slice_str(others[i]), &answered, NULL), rc);
        assert_int_equal(r.generation, 0);
    }
    assert_int_equal(read_proxy(SLICE(TOLD("blue-0", "u")), &r, NULL), 0);
    r = (struct probe_result){.state = PROBE_SILENT, .message = "kept"};
    assert_int_equal(probe_answer_told(SLICE(TOLD("blue-0", "u")), "demo/blue-0", "u", &r, NULL),
                     0);
    assert_true(r.enforcing);
    assert_int_equal(r.generation, 7);
    assert_string_equal(r.message, "kept");
}

static void test_the_lease_on_its_rules(void **state)
{
    static const struct {
        const char *lease;
        unsigned seconds;
        bool expired;
    } cases[] = {
        {"{\"seconds\":30}", 30, false},
        {"{\"seconds\":10,\"remaining\":3,\"expired\":false}", 10, false},
        {"{\"seconds\":3600,\"expired\":true}", 3600, true},
        {"{\"seconds\":9,\"expired\":true}", 0, false},
        {"{\"seconds\":3601}", 0, false},
        {"{\"seconds\":\"30\"}", 0, false},
        {"{\"seconds\":30.5}", 0, false},
        {"{\"expired\":true}", 0, false},
        {"30", 0, false},
        {"null", 0, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[1024];
        struct probe_result r = {.lease_s = 77, .expired = true};
        (void)snprintf(text, sizeof text,
                       "{\"program\":\"localproxy\",\"rules\":" RULES ",\"lease\":%s}",
                       cases[i].lease);
        assert_int_equal(read_proxy(slice_str(text), &r, NULL), 0);
        assert_int_equal(r.lease_s, cases[i].seconds);
        assert_int_equal(r.expired, cases[i].expired);
    }
}

#define COUNTING(load) "{\"program\":\"localproxy\",\"rules\":" RULES ",\"load\":" load "}"

static void test_what_it_counts(void **state)
{
    struct probe_result r = {.message = "kept"};
    (void)state;
    assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0);
    assert_null(r.load);
    const struct slice answer = SLICE(COUNTING("{\"sinceSeconds\":9,\"buckets\":{\"7\":[1,2,3]}}"));
    assert_int_equal(read_proxy(answer, &r, NULL), 0);
    assert_non_null(r.load);
    assert_int_equal(r.load->since_s, 9);
    assert_int_equal(r.load->of[7].objects, 3);
    free(r.load);
    assert_int_equal(read_proxy(SLICE(COUNTING("{\"buckets\":7}")), &r, NULL), 0);
    assert_null(r.load);
}

static void test_what_rulesync_has_told_localproxy(void **state)
{
    struct probe_result r = {.message = "kept"};
    (void)state;
    assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0);
    assert_false(r.says_why);
    assert_string_equal(r.message, "kept");
    assert_int_equal(read_proxy(SLICE("{\"program\":\"localproxy\",\"rules\":" RULES
                                      ",\"rulesync\":{\"error\":\"no key\\nrules.json\"}}"),
                                &r, NULL),
                     0);
    assert_true(r.says_why);
    assert_string_equal(r.message, "no key rules.json");
    assert_int_equal(read_proxy(SLICE("{\"program\":\"localproxy\",\"rules\":" RULES
                                      ",\"rulesync\":{\"error\":\"\"}}"),
                                &r, NULL),
                     0);
    assert_false(r.says_why);
    assert_string_equal(r.message, "no key rules.json"); /* the prober's business */
    assert_int_equal(read_proxy(SLICE("{\"program\":\"localproxy\",\"rules\":" RULES
                                      ",\"rulesync\":{\"error\":7}}"),
                                &r, NULL),
                     0);
    assert_false(r.says_why);
}

static void test_version(void **state)
{
    struct probe_result r = {.version = "1"};
    (void)state;
    assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0);
    assert_string_equal(r.version, "");
    assert_int_equal(
        read_proxy(
            SLICE("{\"program\":\"localproxy\",\"version\":\"0.2.0\\n\",\"rules\":" RULES "}"), &r,
            NULL),
        0);
    assert_string_equal(r.version, "0.2.0 ");
    assert_int_equal(
        read_proxy(SLICE("{\"program\":\"localproxy\",\"version\":"
                         "\"0123456789012345678901234567890123456789\",\"rules\":" RULES "}"),
                   &r, NULL),
        0);
    assert_int_equal(strlen(r.version), PROBE_VERSION_SIZE - 1);
}

static void test_who_comes_and_who_goes_around(void **state)
{
    struct probe_result r = {.unused = true, .up_ms = 7, .bypassed = true};
    (void)state;
    assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0); /* an older one */
    assert_false(r.unused);
    assert_true(r.bypassed); /* what it does not say stands */
    assert_true(r.up_ms == 0);
    assert_int_equal(read_proxy(SLICE(USED("90", "0", "0")), &r, NULL), 0);
    assert_true(r.unused && !r.bypassed);
    assert_true(r.up_ms == 90000);
    assert_int_equal(read_proxy(SLICE(USED("90", "1", "2")), &r, NULL), 0);
    assert_true(!r.unused && r.bypassed);
    assert_int_equal(read_proxy(SLICE(USED("90", "-1", "\"2\"")), &r, NULL), 0);
    assert_true(!r.unused && r.bypassed);
    assert_true(r.enforcing);
}

static void test_what_is_not_settled_is_not_enforced(void **state)
{
    static const char *const texts[] = {
        PROXY("{\"inForce\":true," SHARD ",\"generation\":7,\"checksum\":\"" SUM
              "\",\"since\":1,\"settled\":false}"),
        PROXY("{\"inForce\":true," SHARD ",\"generation\":7,\"checksum\":\"" SUM "\",\"since\":1}"),
        PROXY("{\"inForce\":true," SHARD ",\"generation\":7,\"checksum\":\"" SUM
              "\",\"since\":1,\"settled\":1}"),
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct probe_result r = {.enforcing = true};
        assert_int_equal(read_proxy(slice_str(texts[i]), &r, NULL), 0);
        assert_false(r.enforcing);
        assert_int_equal(r.generation, 7);
    }
}

static void test_no_rules_in_force(void **state)
{
    struct probe_result r = {0};
    (void)state;
    assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0);
    assert_int_equal(read_proxy(SLICE(PROXY("{\"inForce\":false}")), &r, NULL), 0);
    assert_false(r.enforcing);
    assert_int_equal(r.generation, 0);
    assert_string_equal(r.checksum, "");
    assert_string_equal(r.shard, "");
    assert_true(r.since_ms == 0);
}

#define ODD(shard, generation, checksum, since)                                                    \
    PROXY("{\"inForce\":true,\"shard\":" shard ",\"generation\":" generation                       \
          ",\"checksum\":" checksum ",\"since\":" since ",\"settled\":true}")
#define OK_SHARD "{\"namespace\":\"n\",\"name\":\"s\"}"
#define OK_SUM "\"" SUM "\""

static void test_what_makes_no_sense_changes_nothing(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"", "invalid response: "},
        {"<html>", "invalid response: "},
        {"{\"program\":\"localproxy\"", "invalid response: "},
        {"[]", "the server there is not localproxy"},
        {"null", "the server there is not localproxy"},
        {"{\"program\":7}", "the server there is not localproxy"},
        {RULESYNC(""), "the server there is not localproxy"},
        {"{\"program\":\"localproxy\"}", "invalid response: rules: "},
        {PROXY("[]"), "invalid response: rules: "},
        {PROXY("{\"inForce\":\"true\"}"), "invalid response: rules.inForce"},
        {PROXY("{\"inForce\":true}"), "invalid response: rules.shard: Required value"},
        {ODD(OK_SHARD, "0", OK_SUM, "1"), "invalid response: rules.generation"},
        {ODD(OK_SHARD, "-1", OK_SUM, "1"), "invalid response: rules.generation"},
        {ODD(OK_SHARD, "1.5", OK_SUM, "1"), "invalid response: rules.generation"},
        {ODD(OK_SHARD, "1e300", OK_SUM, "1"), "invalid response: rules.generation"},
        {ODD(OK_SHARD, "\"7\"", OK_SUM, "1"), "invalid response: rules.generation"},
        {ODD(OK_SHARD, "7", "\"\"", "1"), "invalid response: rules.checksum"},
        {ODD(OK_SHARD, "7", "\"" SUM "0\"", "1"), "invalid response: rules.checksum"},
        {ODD(OK_SHARD, "7", "\"md5:0000000" HEX16 HEX16 HEX16 "12345678\"", "1"),
         "invalid response: rules.checksum"},
        {ODD(OK_SHARD, "7", "\"sha256:X123456789abcdef" HEX16 HEX16 HEX16 "\"", "1"),
         "invalid response: rules.checksum"},
        {ODD(OK_SHARD, "7", OK_SUM, "-1"), "invalid response: rules.since"},
        {ODD(OK_SHARD, "7", OK_SUM, "253402300800"), "invalid response: rules.since"},
        {ODD(OK_SHARD, "7", OK_SUM, "null"), "invalid response: rules.since"},
        {ODD("{\"namespace\":\"n/m\",\"name\":\"s\"}", "7", OK_SUM, "1"),
         "invalid response: rules.shard"},
        {ODD("{\"namespace\":\"n\",\"name\":\"S\"}", "7", OK_SUM, "1"),
         "invalid response: rules.shard"},
        {ODD("{\"namespace\":\"n\"}", "7", OK_SUM, "1"), "invalid response: rules.shard"},
        {ODD("\"n/s\"", "7", OK_SUM, "1"), "invalid response: rules.shard"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct probe_result r = {0};
        struct err e = ERR_INIT;
        assert_int_equal(read_proxy(SLICE(PROXY(RULES)), &r, NULL), 0);
        int rc = read_proxy(slice_str(cases[i].text), &r, &e);
        if (rc != -EINVAL || strncmp(e.msg, cases[i].why, strlen(cases[i].why)) != 0) {
            fail_msg("%s: %d %s", cases[i].text, rc, e.msg);
        }
        assert_int_equal(r.generation, 7);
        assert_true(r.enforcing);
    }
}

static void test_why_rulesync_does_not_take_rules(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {RULESYNC(""), ""},
        {RULESYNC(",\"seen\":{\"taken\":true},\"lastError\":{\"message\":\"over\"}"), ""},
        {RULESYNC(",\"source\":{\"path\":\"/rules\",\"error\":\"no file\"}"), "no file"},
        {RULESYNC(",\"seen\":{\"taken\":false,\"error\":\"too old\"}"), "too old"},
        {RULESYNC(",\"enforced\":{\"verdict\":\"refused\",\"error\":\"it says no\"}"),
         "it says no"},
        {RULESYNC(",\"source\":{\"warning\":\"a subPath\"}"), "a subPath"},
        {RULESYNC(",\"source\":{\"warning\":\"w\"},\"seen\":{\"error\":\"s\"},\"enforced\":{"
                  "\"error\":\"e\"}"),
         "s"},
        {RULESYNC(",\"source\":7,\"seen\":{\"error\":7},\"enforced\":null"), ""},
        {RULESYNC(",\"seen\":{\"error\":\"a\\nb\\u001b[2J\\u007f\"}"), "a b [2J "},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char message[PROBE_MESSAGE_SIZE] = "old";
        assert_int_equal(probe_answer_rulesync(slice_str(cases[i].text), message, NULL), 0);
        assert_string_equal(message, cases[i].message);
    }
    char message[PROBE_MESSAGE_SIZE] = "old";
    struct err e = ERR_INIT;
    assert_int_equal(probe_answer_rulesync(SLICE(PROXY(RULES)), message, &e), -EINVAL);
    assert_string_equal(e.msg, "the server there is not rulesync");
    assert_string_equal(message, "old");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_in_force),
        cmocka_unit_test(test_what_a_pod_tells),
        cmocka_unit_test(test_the_lease_on_its_rules),
        cmocka_unit_test(test_what_it_counts),
        cmocka_unit_test(test_what_rulesync_has_told_localproxy),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_who_comes_and_who_goes_around),
        cmocka_unit_test(test_what_is_not_settled_is_not_enforced),
        cmocka_unit_test(test_no_rules_in_force),
        cmocka_unit_test(test_what_makes_no_sense_changes_nothing),
        cmocka_unit_test(test_why_rulesync_does_not_take_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
