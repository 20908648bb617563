/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "policy_case.h"
#include "json/json.h"

#define SELECTOR " selector: {matchLabels: {app: demo}}\n"
#define PODS                                                                                       \
    "resourceRules: [{apiGroups: [''], resources: [pods], verbs: [delete], namespaces: ['*']}]"
#define BUCKET "bucket: {burst: 1, interval: 10s, limit: 1}"
/* A rule without braces, of which all is well but for what follows. */
#define LIMITER "name: a, triggerPolicy: LimiterOnly, " BUCKET
#define RULE(fields) SELECTOR " rateLimitings:\n - {" fields "}\n"

#define MAX_FINDINGS 7

struct sample {
    const char *spec;
    const char *errors[MAX_FINDINGS];
    const char *warnings[MAX_FINDINGS];
};

static void check(const struct sample *s)
{
    struct policy_findings f = POLICY_FINDINGS_INIT;
    const char *text = policy_case_text(TRAFFIC_BREAKER, "guard", s->spec);
    struct policy *p = policy_case_object(text, &f);
    print_message("%s", s->spec);
    policy_case_expect(&f.errors, "error", s->errors);
    policy_case_expect(&f.warnings, "warning", s->warnings);
    assert_int_equal(policy_valid(p), s->errors[0] == NULL);
    assert_int_equal(policy_findings_failed(&f), s->errors[0] != NULL);
    policy_unref(p);
    policy_findings_deinit(&f);
}

static void check_all(const struct sample *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check(&all[i]);
    }
}

/* The document has the spec as it is. */
static void test_entry(void **state)
{
    (void)state;
    struct policy *p = policy_case_object(
        policy_case_text(
            TRAFFIC_BREAKER, "guard",
            RULE("name: deletePod, triggerPolicy: Normal, " PODS
                 ", bucket: {burst: 2, interval: 1m30s, limit: 3}, recoverPolicy: "
                 "{type: SleepingWindow, sleepingWindowSize: 2.5s}, properties: null")),
        NULL);
    char want[1024];
    const struct policy_entry *entry = policy_entry(p);
    assert_non_null(entry);
    (void)snprintf(
        want, sizeof want,
        "{\"name\":\"guard\",\"spec\":{\"rateLimitings\":[{\"bucket\":{\"burst\":2,\"interval\":"
        "\"1m30s\",\"limit\":3},\"name\":\"deletePod\",\"properties\":null,\"recoverPolicy\":{"
        "\"sleepingWindowSize\":\"2.5s\",\"type\":\"SleepingWindow\"},\"resourceRules\":[{"
        "\"apiGroups\":[\"\"],\"namespaces\":[\"*\"],\"resources\":[\"pods\"],\"verbs\":["
        "\"delete\"]}],\"triggerPolicy\":\"Normal\"}],\"selector\":{\"matchLabels\":{\"app\":"
        "\"demo\"}}},\"specHash\":\"%s\",\"uid\":\"uid-of-guard\"}",
        policy_spec_hash(p));
    assert_string_equal(entry->text, want);
    assert_int_equal(entry->len, strlen(entry->text));
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_LIMITING_ROWS], 1);
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_NAMES], 4);
    policy_unref(p);
}

/* KusionStack's manager reads a Normal without a recoverPolicy and fails on the first request over
 * the limit. */
static void test_k2_normal_without_recover_policy_is_manual(void **state)
{
    (void)state;
    static const struct sample s = {
        RULE("name: a, triggerPolicy: Normal, " PODS ", " BUCKET),
        {NULL},
        {"spec.rateLimitings[0].recoverPolicy: is not set, as if type were Manual: once open it "
         "stays open until it is closed by annotation "
         "circuitbreaker.ctrlmesh.kusionstack.io/recover",
         NULL}};
    check(&s);
}

/* What it does not know it takes for the strictest: `Black`, as its documentation has it, makes a
 * whitelist that denies everything. */
static void test_k4_black_and_white_are_no_lists(void **state)
{
    (void)state;
    static const char common[] = ", contentType: Normal, contents: [a.example], methods: ['*']}\n";
    static const struct {
        const char *written;
        const char *error;
    } all[] = {
        {"White", "spec.trafficInterceptRules[0].interceptType: Unsupported value: \"White\": "
                  "supported values: \"Whitelist\", \"Blacklist\"; write \"Whitelist\""},
        {"Black", "spec.trafficInterceptRules[0].interceptType: Unsupported value: \"Black\": "
                  "supported values: \"Whitelist\", \"Blacklist\"; write \"Blacklist\""},
        {"whitelist", "spec.trafficInterceptRules[0].interceptType: Unsupported value: "
                      "\"whitelist\": supported values: \"Whitelist\", \"Blacklist\"; write "
                      "\"Whitelist\""},
        {"Grey", "spec.trafficInterceptRules[0].interceptType: Unsupported value: \"Grey\": "
                 "supported values: \"Whitelist\", \"Blacklist\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        char spec[512];
        (void)snprintf(spec, sizeof spec,
                       SELECTOR " trafficInterceptRules:\n - {name: a, interceptType: %s%s",
                       all[i].written, common);
        const struct sample s = {
            spec, {all[i].error, NULL}, {"spec: 1 rule is for requests to other places", NULL}};
        check(&s);
    }
}

static void test_names(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {RULE("triggerPolicy: ForceClosed, " PODS),
         {"spec.rateLimitings[0].name: Required value", NULL},
         {NULL}},
        {RULE("name: 'a:b', triggerPolicy: ForceClosed, " PODS),
         {"spec.rateLimitings[0].name: Invalid value: \"a:b\": must not contain ':'", NULL},
         {NULL}},
        {RULE("name: 'a\"b', triggerPolicy: ForceClosed, " PODS),
         {"spec.rateLimitings[0].name: Invalid value: \"a\"b\": must not contain quotes", NULL},
         {NULL}},
        {RULE("name: \"a\\nb\", triggerPolicy: ForceClosed, " PODS),
         {"spec.rateLimitings[0].name: Invalid value: \"a\nb\": must not contain", NULL},
         {NULL}},
        {RULE("name: aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg, "
              "triggerPolicy: ForceClosed, " PODS),
         {"spec.rateLimitings[0].name: Too long: must have at most 63 bytes", NULL},
         {NULL}},
        {RULE("name: aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg, "
              "triggerPolicy: ForceClosed, " PODS),
         {NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: ForceClosed, " PODS) " - {name: b, triggerPolicy: "
                                                            "ForceClosed, " PODS "}\n"
                                                            " - {name: a, triggerPolicy: "
                                                            "ForceClosed, " PODS "}\n",
         {"spec.rateLimitings[2].name: Duplicate value: \"a\"", NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

static void test_triggers(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {RULE("name: a, " PODS ", " BUCKET),
         {"spec.rateLimitings[0].triggerPolicy: Required value", NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: Sometimes, " PODS ", " BUCKET),
         {"spec.rateLimitings[0].triggerPolicy: Unsupported value: \"Sometimes\": supported "
          "values: \"Normal\", \"LimiterOnly\", \"ForceOpened\", \"ForceClosed\", \"Health\"",
          NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: Normal, " PODS ", recoverPolicy: {type: Manual}"),
         {"spec.rateLimitings[0].bucket: Required value: with triggerPolicy Normal", NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: Normal, maxInFlight: 1, " PODS
              ", recoverPolicy: {type: Manual}"),
         {"spec.rateLimitings[0].bucket: Required value: with triggerPolicy Normal", NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: LimiterOnly, " PODS),
         {"spec.rateLimitings[0].bucket: Required value: with triggerPolicy LimiterOnly and "
          "without maxInFlight",
          NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: LimiterOnly, maxInFlight: 10, " PODS), {NULL}, {NULL}},
        {RULE("name: a, triggerPolicy: LimiterOnly, maxInFlight: 0, " PODS ", " BUCKET),
         {"spec.rateLimitings[0].maxInFlight: Invalid value: must be a whole number from 1 to "
          "4294967295",
          NULL},
         {NULL}},
        {RULE(LIMITER ", maxInFlight: 1.5, " PODS),
         {"spec.rateLimitings[0].maxInFlight: Invalid value: must be a whole number", NULL},
         {NULL}},
        {RULE(LIMITER ", maxInFlight: '5', " PODS),
         {"spec.rateLimitings[0].maxInFlight: Invalid value: must be a whole number", NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

#define BUCKET_RULE(bucket) RULE("name: a, triggerPolicy: LimiterOnly, " PODS ", bucket: " bucket)

static void test_buckets(void **state)
{
    (void)state;
    static const char interval[] = "spec.rateLimitings[0].bucket.interval: Invalid value: ";
    static const struct sample all[] = {
        {BUCKET_RULE("{}"),
         {"spec.rateLimitings[0].bucket.burst: Required value",
          "spec.rateLimitings[0].bucket.interval: Required value",
          "spec.rateLimitings[0].bucket.limit: Required value", NULL},
         {NULL}},
        {BUCKET_RULE("3"),
         {"spec.rateLimitings[0].bucket: Invalid value: must be an object", NULL},
         {NULL}},
        {BUCKET_RULE("{burst: 1, interval: 0s, limit: 1}"), {interval, NULL}, {NULL}},
        {BUCKET_RULE("{burst: 1, interval: -1s, limit: 1}"), {interval, NULL}, {NULL}},
        {BUCKET_RULE("{burst: 1, interval: 10, limit: 1}"),
         {"spec.rateLimitings[0].bucket.interval: Invalid value: must be a string", NULL},
         {NULL}},
        {BUCKET_RULE("{burst: 1, interval: '10', limit: 1}"),
         {"spec.rateLimitings[0].bucket.interval: Invalid value: \"10\": must be a duration, such "
          "as \"10s\"",
          NULL},
         {NULL}},
        {BUCKET_RULE("{burst: 1, interval: '', limit: 1}"),
         {"spec.rateLimitings[0].bucket.interval: Required value", NULL},
         {NULL}},
        {BUCKET_RULE("{burst: 1, interval: 999us, limit: 1}"),
         {"spec.rateLimitings[0].bucket.interval: Invalid value: \"999us\": must be from 1ms to "
          "168h",
          NULL},
         {NULL}},
        {BUCKET_RULE("{burst: 1, interval: 168h1ns, limit: 1}"), {interval, NULL}, {NULL}},
        {BUCKET_RULE("{burst: 1, interval: 168h, limit: 1}"), {NULL}, {NULL}},
        {BUCKET_RULE("{burst: -1, interval: 1s, limit: 4294967296}"),
         {"spec.rateLimitings[0].bucket.burst: Invalid value: must be a whole number from 0 to "
          "4294967295",
          "spec.rateLimitings[0].bucket.limit: Invalid value", NULL},
         {NULL}},
        {BUCKET_RULE("{burst: 0, interval: 1s, limit: 0}"),
         {NULL},
         {"spec.rateLimitings[0].bucket.burst: is 0: refuses every request", NULL}},
        {BUCKET_RULE("{burst: 3, interval: 1s, limit: 0}"),
         {NULL},
         {"spec.rateLimitings[0].bucket.limit: is 0: never refills", NULL}},
        {BUCKET_RULE("{burst: 1, intervall: 1s, limit: 1}"),
         {"spec.rateLimitings[0].bucket.intervall: Forbidden: unknown field; is \"interval\" "
          "meant?",
          "spec.rateLimitings[0].bucket.interval: Required value", NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

#define RECOVER(policy) RULE("name: a, triggerPolicy: Normal, " PODS ", " BUCKET ", " policy)

static void test_recovery(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {RECOVER("recoverPolicy: SleepingWindow"),
         {"spec.rateLimitings[0].recoverPolicy: Invalid value: must be an object", NULL},
         {NULL}},
        {RECOVER("recoverPolicy: {}"),
         {"spec.rateLimitings[0].recoverPolicy.type: Required value", NULL},
         {NULL}},
        {RECOVER("recoverPolicy: {type: Automatic}"),
         {"spec.rateLimitings[0].recoverPolicy.type: Unsupported value: \"Automatic\"", NULL},
         {NULL}},
        {RECOVER("recoverPolicy: {type: SleepingWindow}"),
         {"spec.rateLimitings[0].recoverPolicy.sleepingWindowSize: Required value: with type "
          "SleepingWindow",
          NULL},
         {NULL}},
        {RECOVER("recoverPolicy: {type: SleepingWindow, sleepingWindowSize: soon}"),
         {"spec.rateLimitings[0].recoverPolicy.sleepingWindowSize: Invalid value: \"soon\"", NULL},
         {NULL}},
        {RECOVER("recoverPolicy: {type: SleepingWindow, sleepingWindowSize: 0s}"),
         {"spec.rateLimitings[0].recoverPolicy.sleepingWindowSize: Invalid value: \"0s\"", NULL},
         {NULL}},
        {RECOVER("recoverPolicy: {type: SleepingWindow, sleepingWindowSize: 10s}"), {NULL}, {NULL}},
        {RECOVER("recoverPolicy: {type: SleepingWindow, sleepingWindowSize: 9s}"),
         {NULL},
         {"spec.rateLimitings[0].recoverPolicy.sleepingWindowSize: is less than the 10000 ms",
          NULL}},
        {RECOVER("recoverPolicy: {type: Manual, sleepingWindowSize: 1s}"), {NULL}, {NULL}},
        {RECOVER("recoverPolicy: null"),
         {NULL},
         {"spec.rateLimitings[0].recoverPolicy: is not set", NULL}},
        /* Of no use to it, and no harm. */
        {RULE(LIMITER ", " PODS ", recoverPolicy: {type: Manual}"), {NULL}, {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

#define HEALTH(policy)                                                                             \
    RULE("name: a, triggerPolicy: Health, recoverPolicy: {type: Manual}, " PODS                    \
         ", healthPolicy: " policy)

static void test_health(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {RULE("name: a, triggerPolicy: Health, recoverPolicy: {type: Manual}, " PODS),
         {"spec.rateLimitings[0].healthPolicy: Required value", NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: Health, " PODS
              ", healthPolicy: {window: 1s, minimumRequests: 1, errorPercent: 1}"),
         {NULL},
         {"spec.rateLimitings[0].recoverPolicy: is not set", NULL}},
        {RULE(LIMITER ", " PODS
                      ", healthPolicy: {window: 1s, minimumRequests: 1, errorPercent: 1}"),
         {"spec.rateLimitings[0].healthPolicy: Forbidden: needs triggerPolicy Health", NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: Health, recoverPolicy: {type: Manual}, " PODS ", " BUCKET
              ", healthPolicy: {window: 1s, minimumRequests: 1, errorPercent: 1}"),
         {NULL},
         {"spec.rateLimitings[0].bucket: is not used with triggerPolicy Health", NULL}},
        {HEALTH("{}"),
         {"spec.rateLimitings[0].healthPolicy.window: Required value",
          "spec.rateLimitings[0].healthPolicy.minimumRequests: Required value",
          "spec.rateLimitings[0].healthPolicy.errorPercent: Required value: this, or "
          "slowCallDuration and slowCallPercent",
          NULL},
         {NULL}},
        {HEALTH("{window: 9ms, minimumRequests: 0, errorPercent: 101, halfOpenRequests: 1001}"),
         {"spec.rateLimitings[0].healthPolicy.window: Invalid value: \"9ms\": must be from 10ms",
          "spec.rateLimitings[0].healthPolicy.minimumRequests: Invalid value",
          "spec.rateLimitings[0].healthPolicy.errorPercent: Invalid value",
          "spec.rateLimitings[0].healthPolicy.halfOpenRequests: Invalid value", NULL},
         {NULL}},
        {HEALTH("{window: 1s, minimumRequests: 1, slowCallDuration: 1s}"),
         {"spec.rateLimitings[0].healthPolicy.slowCallPercent: Required value: with "
          "slowCallDuration",
          NULL},
         {NULL}},
        {HEALTH("{window: 1s, minimumRequests: 1, errorPercent: 5, slowCallPercent: 80}"),
         {"spec.rateLimitings[0].healthPolicy.slowCallDuration: Required value: with "
          "slowCallPercent",
          NULL},
         {NULL}},
        {HEALTH("{window: 1s, minimumRequests: 1, slowCallDuration: 1s, slowCallPercent: 80}"),
         {NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

#define RESOURCES(rule) RULE(LIMITER ", resourceRules: [" rule "]")
#define FIRST "spec.rateLimitings[0].resourceRules[0]"

static void test_resources(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {RULE(LIMITER),
         {"spec.rateLimitings[0].resourceRules: Required value: this, or restRules", NULL},
         {NULL}},
        {RULE(LIMITER ", resourceRules: []"),
         {"spec.rateLimitings[0].resourceRules: Required value: this, or restRules", NULL},
         {NULL}},
        {RESOURCES("{}"),
         {FIRST ".apiGroups: Required value: write [\"*\"] for any",
          FIRST ".resources: Required value", FIRST ".verbs: Required value",
          FIRST ".namespaces: Required value", NULL},
         {NULL}},
        {RESOURCES("{apiGroups: [], resources: [], verbs: [], namespaces: []}"),
         {FIRST ".apiGroups: Required value", FIRST ".resources: Required value",
          FIRST ".verbs: Required value", FIRST ".namespaces: Required value", NULL},
         {NULL}},
        {RESOURCES("{apiGroups: apps, resources: [1], verbs: [null], namespaces: [ns, Ns]}"),
         {FIRST ".apiGroups: Invalid value: must be an array",
          FIRST ".resources[0]: Invalid value: must be a string",
          FIRST ".verbs[0]: Invalid value: must be a string",
          FIRST ".namespaces[1]: Invalid value: \"Ns\"", NULL},
         {NULL}},
        {RESOURCES("{apiGroups: [apps/v1], resources: [Pods, 'pods/*', pods/], verbs: [DELETE], "
                   "namespaces: [ns]}"),
         {FIRST ".apiGroups[0]: Invalid value: \"apps/v1\": must be a group without its version",
          FIRST ".resources[0]: Invalid value: \"Pods\": must be a plural name in lower case",
          FIRST ".resources[1]: Invalid value: \"pods/*\": must name the subresource",
          FIRST ".resources[2]: Invalid value: \"pods/\"",
          FIRST ".verbs[0]: Invalid value: \"DELETE\": must be one of get, list", NULL},
         {NULL}},
        {RESOURCES("{apiGroups: [''], resources: [pods], verbs: [get], namespaces: [ns], names: "
                   "[a]}"),
         {FIRST ".names: Forbidden: unknown field", NULL},
         {NULL}},
        {RESOURCES("{apiGroups: ['*'], resources: [leases], verbs: [update], namespaces: [ns]}"),
         {NULL},
         {"spec.rateLimitings[0].resourceRules: names leases", NULL}},
        {RESOURCES("{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [update], "
                   "namespaces: [ns]}"),
         {NULL},
         {"spec.rateLimitings[0].resourceRules: names leases", NULL}},
        {RESOURCES("{apiGroups: ['*'], resources: ['*'], verbs: [update], namespaces: ['*']}"),
         {NULL},
         {NULL}},
        {RESOURCES("{apiGroups: ['*'], resources: [pods], verbs: [list], namespaces: ['*']}"),
         {NULL},
         {"spec.rateLimitings[0].resourceRules: is for list or watch in all namespaces", NULL}},
        {RESOURCES("{apiGroups: ['*'], resources: [pods], verbs: ['*'], namespaces: ['*']}"),
         {NULL},
         {"spec.rateLimitings[0].resourceRules: is for list or watch in all namespaces", NULL}},
        {RESOURCES("{apiGroups: ['*'], resources: [pods], verbs: [watch], namespaces: [ns]}"),
         {NULL},
         {NULL}},
        {RULE("name: a, triggerPolicy: ForceClosed, resourceRules: [{apiGroups: ['*'], resources: "
              "[leases], verbs: ['*'], namespaces: ['*']}]"),
         {NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

#define REST(rule) RULE(LIMITER ", restRules: [" rule "]")
#define EXTERNAL                                                                                   \
    "spec: 1 rule is for requests to other places than the API server: this holds in pods with "   \
    "annotation ctrlmesh.kusionstack.io/egress=proxy, only for requests that are sent to "         \
    "localproxy's proxy; it is no firewall"
#define BLIND "spec: rule \"a\": nobody sees paths, methods and headers in a tunnel"
#define INTERCEPT(rule) SELECTOR " trafficInterceptRules:\n - {" rule "}\n"
#define WHITE "name: a, interceptType: Whitelist, methods: ['*']"
#define BLACK "name: a, interceptType: Blacklist, methods: ['*']"
#define REGEXP ", contentType: Regexp, contents: "
#define HOSTS ", contentType: Normal, contents: "

static void test_rest_rules(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {REST("{url: 'https://example.com/off', method: POST}"), {NULL}, {EXTERNAL, BLIND, NULL}},
        {REST("{url: 'https://example.com', method: '*'}"), {NULL}, {EXTERNAL, NULL}},
        {REST("{url: 'http://*.example.com:8080/*', method: CONNECT}"), {NULL}, {EXTERNAL, NULL}},
        {REST("{url: 'https://example.com', method: GET}"), {NULL}, {EXTERNAL, BLIND, NULL}},
        {REST("{url: 'https://example.com:80', method: '*'}"), {NULL}, {EXTERNAL, BLIND, NULL}},
        {REST("{url: 'https://example.com/a/*', method: '*'}, {url: 'http://b', method: '*'}"),
         {NULL},
         {EXTERNAL, BLIND, NULL}},
        {REST("{}"),
         {"spec.rateLimitings[0].restRules[0].url: Required value",
          "spec.rateLimitings[0].restRules[0].method: Required value", NULL},
         {EXTERNAL, NULL}},
        {REST("{url: example.com, method: post}"),
         {"spec.rateLimitings[0].restRules[0].url: Invalid value: \"example.com\": must begin with "
          "http:// or https://",
          "spec.rateLimitings[0].restRules[0].method: Invalid value: \"post\"", NULL},
         {EXTERNAL, NULL}},
        {REST("{url: 'https://*/trafficOff', method: POST}"),
         {"spec.rateLimitings[0].restRules[0].url: Invalid value: \"https://*/trafficOff\": must "
          "have \"*\" in the host only as in \"*.example.com\"",
          NULL},
         {EXTERNAL, NULL}},
        {REST("{url: 'https://*.com/*/trafficOff', method: POST}"),
         {NULL},
         {"spec.rateLimitings[0].restRules[0].url: \"https://*.com/*/trafficOff\" has a \"*\" in "
          "its path that stands for itself: it hardly ever matches",
          EXTERNAL, BLIND, NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

static void test_intercept_rules(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {INTERCEPT(BLACK REGEXP "['.*(127.0.0.1).*', '[a-z]+']"), {NULL}, {EXTERNAL, NULL}},
        {INTERCEPT(WHITE HOSTS "[a.example, 'a.example:8443', '[::1]:80', 127.0.0.1]"),
         {NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT(WHITE HOSTS "[]"),
         {"spec.trafficInterceptRules[0].contents: Required value: must have at least 1 entry",
          NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT(WHITE HOSTS "['', 7]"),
         {"spec.trafficInterceptRules[0].contents[1]: Invalid value: must be a string",
          "spec.trafficInterceptRules[0].contents[0]: Invalid value: \"\": must not be empty",
          NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT(WHITE HOSTS "[a.example., 'https://a.example', '*.example', 'a:0']"),
         {"spec.trafficInterceptRules[0].contents[1]: Invalid value: \"https://a.example\": must "
          "be "
          "a host, or host:port",
          "spec.trafficInterceptRules[0].contents[2]: Invalid value: \"*.example\": must be a host",
          "spec.trafficInterceptRules[0].contents[3]: Invalid value: \"a:0\": the port must be a "
          "number",
          NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT(WHITE ", contents: [a]"),
         {"spec.trafficInterceptRules[0].contentType: Required value", NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT(WHITE REGEXP "['(a', 'a)', '[a', 'a\\', '*a', '']"),
         {"spec.trafficInterceptRules[0].contents[0]: Invalid value: \"(a\": must be a regular",
          "spec.trafficInterceptRules[0].contents[1]: Invalid value: \"a)\"",
          "spec.trafficInterceptRules[0].contents[2]: Invalid value: \"[a\"",
          "spec.trafficInterceptRules[0].contents[3]: Invalid value: \"a\\\"",
          "spec.trafficInterceptRules[0].contents[4]: Invalid value: \"*a\"",
          "spec.trafficInterceptRules[0].contents[5]: Invalid value: \"\": must not be", NULL},
         {EXTERNAL, NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

/* What lets more through than its author may mean, and what tunnels make of it. */
static void test_warnings_of_intercept_rules(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {INTERCEPT(WHITE REGEXP "['^[a-z]+\\.corp\\.example(:443)?$', '(?i)^(a|b)\\.example$']"),
         {NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT(WHITE REGEXP "['^a\\.example$', corp.example, '\\.example$']"),
         {NULL},
         {"spec.trafficInterceptRules[0].contents[1]: \"corp.example\" and 1 more of this rule: "
          "allows every host that has it somewhere in its name, also one that somebody made for "
          "that: write ^ before and $ behind it, and \\. for a dot",
          EXTERNAL, NULL}},
        {INTERCEPT(WHITE REGEXP "['.*(127.0.0.1).*']"),
         {NULL},
         {"spec.trafficInterceptRules[0].contents[0]: \".*(127.0.0.1).*\": allows every host",
          "spec.trafficInterceptRules[0].contents[0]: \".*(127.0.0.1).*\": matches 127.0.0.1 or "
          "::1, and so opens what is protected without it: what listens there for the pod alone",
          EXTERNAL, NULL}},
        {INTERCEPT(WHITE REGEXP "['.*']"),
         {NULL},
         {"spec.trafficInterceptRules[0].contents[0]: \".*\": matches 127.0.0.1 or ::1 and "
          "169.254.169.254, and so opens what is protected without it: what listens there for the "
          "pod alone, and the metadata service of clouds, which gives out credentials",
          EXTERNAL, NULL}},
        {INTERCEPT("name: a, interceptType: Whitelist, methods: [GET, POST]" HOSTS "[a.example]"),
         {NULL},
         {"spec.trafficInterceptRules[0].methods: has neither \"*\" nor \"CONNECT\": tunnels to "
          "these hosts, which HTTPS_PROXY clients open, are refused",
          EXTERNAL, BLIND, NULL}},
        {INTERCEPT("name: a, interceptType: Whitelist, methods: [CONNECT]" HOSTS "[a.example]"),
         {NULL},
         {EXTERNAL, NULL}},
        {INTERCEPT("name: a, interceptType: Blacklist, methods: [DELETE]" HOSTS "[a.example]"),
         {NULL},
         {"spec.trafficInterceptRules[0].methods: tunnels to these hosts, which HTTPS_PROXY "
          "clients open, are refused whatever",
          EXTERNAL, NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

/* Nothing else need be there. */
static void test_an_entry_of_intercept_rules_alone(void **state)
{
    (void)state;
    struct policy_findings f = POLICY_FINDINGS_INIT;
    struct policy *p = policy_case_object(
        policy_case_text(TRAFFIC_BREAKER, "guard",
                         INTERCEPT("name: a, interceptType: Whitelist, methods: [GET, '*']" REGEXP
                                   "['^a$', '^b$']")),
        &f);
    policy_case_expect(&f.errors, "error", (const char *const[]){NULL});
    const struct policy_entry *entry = policy_entry(p);
    assert_non_null(entry);
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_INTERCEPTS], 1);
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_PATTERNS], 2);
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_URLS], 0);
    assert_int_equal(policy_rules(p), 1);
    assert_int_equal(policy_external_rules(p), 1);
    assert_int_equal(policy_blind_rules(p), 0);
    policy_unref(p);
    policy_findings_deinit(&f);
}

/* Both parts of one rule share its state. */
static void test_a_rule_with_both_parts(void **state)
{
    (void)state;
    struct policy_findings f = POLICY_FINDINGS_INIT;
    struct policy *p = policy_case_object(
        policy_case_text(
            TRAFFIC_BREAKER, "guard",
            RULE(LIMITER ", " PODS ", restRules: [{url: 'https://a/b', method: GET}]")),
        &f);
    const struct policy_entry *entry = policy_entry(p);
    assert_non_null(entry);
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_LIMITING_ROWS], 1);
    assert_int_equal(entry->counts.of[TRAFFIC_BOUND_URLS], 1);
    assert_int_equal(policy_rules(p), 1);
    assert_int_equal(policy_external_rules(p), 1);
    assert_int_equal(policy_blind_rules(p), 1);
    policy_unref(p);
    policy_findings_deinit(&f);
}

/* So many entries of a list, in place of the N. */
static void expect_bound(const char *before, const char *entry, size_t count, const char *after,
                         const char *error)
{
    static char text[262144];
    struct policy_findings f = POLICY_FINDINGS_INIT;
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                                   "kind: CircuitBreaker\nmetadata: {name: a}\nspec:\n%s",
                                   before);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, entry, i);
    }
    (void)snprintf(text + used, sizeof text - used, "%s", after);
    struct policy *p = policy_case_object(text, &f);
    policy_case_expect(&f.errors, "error", (const char *const[]){error, NULL});
    assert_int_equal(policy_valid(p), error == NULL);
    policy_unref(p);
    policy_findings_deinit(&f);
}

static void test_bounds(void **state)
{
    static const char rules[] = SELECTOR " trafficInterceptRules:\n";
    static const char rule[] = " - {name: r%zu, interceptType: Blacklist, methods: ['*'], "
                               "contentType: Normal, contents: [a]}\n";
    static const char expressions[] = SELECTOR " trafficInterceptRules:\n - {name: a, "
                                               "interceptType: Blacklist, methods: ['*'], "
                                               "contentType: Regexp, contents: [";
    static const char urls[] = SELECTOR " rateLimitings:\n - {" LIMITER ", restRules: [";
    static const char more[] = "]}\n - {name: b, triggerPolicy: ForceOpened, restRules: [{url: "
                               "'https://b', method: '*'}]}";
    static const char url[] = "{url: 'https://h%zu', method: '*'}, ";
    (void)state;
    expect_bound(rules, rule, TRAFFIC_INTERCEPTS_MAX, "", NULL);
    expect_bound(rules, rule, TRAFFIC_INTERCEPTS_MAX + 1, "",
                 "spec.trafficInterceptRules: Too many: must have at most 256 entries");
    expect_bound(expressions, "a%zu, ", TRAFFIC_PATTERNS_MAX, "]}\n", NULL);
    expect_bound(expressions, "a%zu, ", TRAFFIC_PATTERNS_MAX + 9, "]}\n",
                 "spec.trafficInterceptRules[0].contents[256]: Too many: must have at most "
                 "256 regular expressions in all");
    expect_bound(urls, url, TRAFFIC_LIST_MAX, more, NULL);
    expect_bound(urls, url, TRAFFIC_LIST_MAX + 1, more,
                 "spec.rateLimitings[0].restRules: Too many: must have at most 1000 entries");
}

static void test_selectors(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {" rateLimitings: []\n", {NULL}, {"spec.selector: is not set: no pod is selected", NULL}},
        {" selector: {}\n", {NULL}, {NULL}},
        {" selector: app=demo\n", {"spec.selector", NULL}, {NULL}},
        {" selector: {matchLabel: {a: b}}\n", {"spec.selector", NULL}, {NULL}},
        {" {}\n", {NULL}, {"spec.selector: is not set", NULL}},
        {" []\n", {"spec: Invalid value: must be an object", NULL}, {"spec.selector", NULL}},
        {" null\n", {"spec: Required value", NULL}, {NULL}},
        {" selector: {}\n rateLimiting: []\n",
         {"spec.rateLimiting: Forbidden: unknown field; is \"rateLimitings\" meant?", NULL},
         {NULL}},
        {RULE(LIMITER ", " PODS ", properties: {sleepingWindowSize: 10s}"),
         {NULL},
         {"spec.rateLimitings[0].properties: is not used", NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

/* In YAML, as an anchor would be refused by kubectl. */
#define DEMO                                                                                       \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\nmetadata:\n"              \
    "  name: guard\n  uid: u\n  annotations: {circuitbreaker.ctrlmesh.kusionstack.io/recover: "    \
    "'%s'"                                                                                         \
    "}\nspec:\n" SELECTOR " rateLimitings:\n"                                                      \
    " - {name: a, triggerPolicy: ForceClosed, " PODS "}\n"                                         \
    " - {name: b, triggerPolicy: ForceClosed, " PODS "}\n"                                         \
    " - {name: 'c=d', triggerPolicy: ForceClosed, " PODS "}\n"

static void test_recover_annotation(void **state)
{
    (void)state;
    static const char path[] = "metadata.annotations[circuitbreaker.ctrlmesh.kusionstack.io/"
                               "recover]: ";
    static const struct {
        const char *text;
        const char *reset; /* NULL: an error */
        const char *finding;
    } all[] = {
        {"a=1", "{\"a\":\"1\"}", NULL},
        {"a=1,b=2", "{\"a\":\"1\",\"b\":\"2\"}", NULL},
        {" a = x y , b=2 ,", "{\"a\":\"x y\",\"b\":\"2\"}", NULL},
        {"*=3", "{\"a\":\"3\",\"b\":\"3\",\"c=d\":\"3\"}", NULL},
        {"*=3,b=4", "{\"a\":\"3\",\"b\":\"4\",\"c=d\":\"3\"}", NULL},
        {"b=4,*=3", "{\"a\":\"3\",\"b\":\"4\",\"c=d\":\"3\"}", NULL},
        {"c=d=e", "{\"c=d\":\"e\"}", NULL},
        {"a=1,a=2", "{\"a\":\"2\"}", NULL},
        {"z=1", "{}", "no rule has the name \"z\""},
        {"a", NULL, "Invalid value: \"a\": must be RULE=TOKEN, or *=TOKEN"},
        {"a=", NULL, "Invalid value: \"\": the token must have 1 to 63 characters"},
        {"a=aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg", NULL,
         "Invalid value: \"aaaa"},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct policy_findings f = POLICY_FINDINGS_INIT;
        char text[2048];
        char want[256];
        (void)snprintf(text, sizeof text, DEMO, all[i].text);
        struct policy *p = policy_case_object(text, &f);
        print_message("%s\n", all[i].text);
        (void)snprintf(want, sizeof want, "%s%s", path,
                       all[i].finding == NULL ? "" : all[i].finding);
        policy_case_expect(all[i].reset == NULL ? &f.errors : &f.warnings, "finding",
                           (const char *const[]){all[i].finding == NULL ? NULL : want, NULL});
        assert_int_equal(policy_valid(p), all[i].reset != NULL);
        (void)snprintf(want, sizeof want, "\"reset\":%s,",
                       all[i].reset == NULL ? "" : all[i].reset);
        assert_true(all[i].reset == NULL || strstr(policy_entry(p)->text, want) != NULL);
        policy_unref(p);
        policy_findings_deinit(&f);
    }
}

/* All that is wrong is told, as far as there is room. */
static void test_findings_are_joined(void **state)
{
    (void)state;
    struct policy_findings f = POLICY_FINDINGS_INIT;
    struct err e = ERR_INIT;
    assert_int_equal(policy_findings_join(&f, &e), 0);
    warnings_add(&f.errors, "a: Required value");
    assert_int_not_equal(policy_findings_join(&f, &e), 0);
    assert_string_equal(e.msg, "a: Required value");
    warnings_add(&f.errors, "b: Required value");
    (void)policy_findings_join(&f, &e);
    assert_string_equal(e.msg, "a: Required value; b: Required value");
    for (size_t i = 0; i < 2 * WARNINGS_MAX; i++) {
        warnings_add(&f.errors, "spec.rateLimitings[%zu].name: Invalid value: \"a very long one\"",
                     i);
    }
    (void)policy_findings_join(&f, &e);
    const char *more = strstr(e.msg, "; and ");
    assert_non_null(more);
    assert_string_equal(strrchr(more, ' '), " more");
    policy_findings_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_k2_normal_without_recover_policy_is_manual),
        cmocka_unit_test(test_k4_black_and_white_are_no_lists),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_triggers),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_recovery),
        cmocka_unit_test(test_health),
        cmocka_unit_test(test_resources),
        cmocka_unit_test(test_rest_rules),
        cmocka_unit_test(test_intercept_rules),
        cmocka_unit_test(test_warnings_of_intercept_rules),
        cmocka_unit_test(test_an_entry_of_intercept_rules_alone),
        cmocka_unit_test(test_a_rule_with_both_parts),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_selectors),
        cmocka_unit_test(test_recover_annotation),
        cmocka_unit_test(test_findings_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
