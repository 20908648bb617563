/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/traffic.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "crypto/digest.h"
#include "kube/selector.h"

#define HEAD                                                                                       \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\n"                                    \
    "\"shard\":{\"namespace\":\"ns\",\"name\":\"shard-a\"},\n\"generation\":7,\n"
#define SPEC(members) HEAD "\"spec\":{" members "}}"
#define ROW                                                                                        \
    "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]" \
    "}"
#define POLICY(rules, list) "{\"name\":\"p\",\"spec\":{\"selector\":{},\"" rules "\":[" list "]}}"
#define BREAKERS(list) SPEC("\"breakers\":[" POLICY("rateLimitings", list) "]")
#define FAULTS(list) SPEC("\"faults\":[" POLICY("httpFault", list) "]")
#define LIMITING(members) "{\"name\":\"r\",\"resourceRules\":[" ROW "]," members "}"
#define FAULT(members) "{\"name\":\"f\",\"match\":{\"resources\":[{}]}," members "}"
#define DELAY "\"delay\":{\"fixedDelay\":\"1ms\",\"percent\":1}"
#define BUCKET "\"bucket\":{\"burst\":1,\"limit\":1,\"interval\":\"10000ms\"}"
#define LIMITER "\"triggerPolicy\":\"LimiterOnly\"," BUCKET
#define HEALTH(members)                                                                            \
    BREAKERS(LIMITING("\"triggerPolicy\":\"Health\",\"recoverPolicy\":{\"type\":\"Manual\"},"      \
                      "\"healthPolicy\":{" members "}"))

#define INTERCEPTS(list) SPEC("\"breakers\":[" POLICY("trafficInterceptRules", list) "]")
#define INTERCEPT(content, contents, methods)                                                      \
    "{\"name\":\"i\",\"interceptType\":\"Whitelist\",\"contentType\":\"" content                   \
    "\",\"contents\":[" contents "],\"methods\":[" methods "]}"
#define URLS(list) BREAKERS("{\"name\":\"r\",\"restRules\":[" list "]," LIMITER "}")
#define HTTP(match)                                                                                \
    FAULTS("{\"name\":\"f\",\"match\":{\"httpMatch\":[" match                                      \
           "]},\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"}}")

static struct traffic *parse(const char *text)
{
    struct err e = ERR_INIT;
    struct traffic *t = traffic_parse(text, strlen(text), &e);
    if (t == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return t;
}

static void whole_document(void **state)
{
    (void)state;
    struct traffic *t = parse(SPEC(
        "\"faults\":[{\"name\":\"slow\",\"spec\":{\"selector\":{},\"httpFault\":["
        "{\"name\":\"lists\",\"match\":{\"resources\":[{\"resources\":[\"pods\"],\"verbs\":["
        "\"list\"]}]},"
        "\"delay\":{\"fixedDelay\":\"3000ms\",\"percent\":\"10\"},\"abort\":{\"httpStatus\":503,"
        "\"percent\":\"100\"},"
        "\"effectiveTime\":{\"startTime\":\"22:00:00\",\"endTime\":\"06:00:00\",\"daysOfWeek\":[1,"
        "5],"
        "\"daysOfMonth\":[31],\"months\":[2],"
        "\"timeZone\":\"Europe/Berlin\"}},{\"name\":\"never\",\"match\":{\"resources\":[{}]},"
        "\"delay\":{\"fixedDelay\":\"1s\"}},{\"match\":{\"resources\":[{}]}," DELAY
        ",\"effectiveTime\":{\"timeZone\":\"Europe/Berlin\"}}]}}],"
        "\"zones\":{\"Europe/Berlin\":\"CET-1CEST,M3.5.0,M10.5.0/3\"},"
        "\"breakers\":["
        "{\"name\":\"z\",\"uid\":\"u-z\",\"specHash\":\"0d9f\","
        "\"reset\":{\"api\":\"t1\",\"gone\":\"t2\"},\"spec\":{\"rateLimitings\":["
        "{\"name\":\"api\",\"resourceRules\":[" ROW "],\"triggerPolicy\":\"Health\","
        "\"healthPolicy\":{\"window\":\"10000ms\",\"minimumRequests\":20,\"errorPercent\":50,"
        "\"slowCallDuration\":\"2000ms\","
        "\"slowCallPercent\":80,\"halfOpenRequests\":3},\"recoverPolicy\":{\"type\":"
        "\"SleepingWindow\","
        "\"sleepingWindowSize\":\"30000ms\"},\"maxInFlight\":9}]}},"
        "{\"name\":\"a\",\"spec\":{\"selector\":{},\"rateLimitings\":["
        "{\"name\":\"one\",\"resourceRules\":[" ROW "]," LIMITER "},"
        "{\"name\":\"two\",\"resourceRules\":[" ROW "],\"triggerPolicy\":\"Normal\"," BUCKET ","
        "\"recoverPolicy\":{\"type\":\"Manual\"}}]}}]"));
    assert_int_equal(traffic_generation(t), 7);
    assert_string_equal(traffic_shard_namespace(t), "ns");
    assert_string_equal(traffic_shard_name(t), "shard-a");
    /* by name, whatever the order of the document */
    assert_int_equal(traffic_policy_count(t), 3);
    assert_string_equal(traffic_policy_at(t, 0)->name, "a");
    assert_string_equal(traffic_policy_at(t, 0)->uid, "");
    assert_string_equal(traffic_policy_at(t, 1)->name, "z");
    assert_string_equal(traffic_policy_at(t, 1)->uid, "u-z");
    assert_string_equal(traffic_policy_at(t, 1)->spec_hash, "0d9f");
    assert_int_equal(traffic_policy_at(t, 2)->kind, TRAFFIC_FAULT_INJECTION);

    assert_int_equal(traffic_limiting_count(t), 3);
    const struct traffic_limiting *l = traffic_limiting_at(t, 0);
    assert_string_equal(l->name, "one");
    assert_ptr_equal(l->policy, traffic_policy_at(t, 0));
    assert_int_equal(l->trigger, TRAFFIC_LIMITER_ONLY);
    assert_true(l->has_bucket);
    assert_int_equal(l->bucket.burst, 1);
    assert_int_equal(l->bucket.limit, 1);
    assert_int_equal(l->bucket.interval_ms, 10000);
    assert_int_equal(l->max_in_flight, 0);
    assert_string_equal(l->reset, "");
    assert_string_equal(traffic_limiting_at(t, 1)->name, "two");
    l = traffic_limiting_at(t, 2);
    assert_int_equal(l->trigger, TRAFFIC_HEALTH);
    assert_false(l->has_bucket);
    assert_int_equal(l->max_in_flight, 9);
    assert_int_equal(l->recover, TRAFFIC_SLEEPING_WINDOW);
    assert_int_equal(l->window_ms, 30000);
    assert_int_equal(l->health.window_ms, 10000);
    assert_int_equal(l->health.minimum_requests, 20);
    assert_int_equal(l->health.error_percent, 50);
    assert_int_equal(l->health.slow_ms, 2000);
    assert_int_equal(l->health.slow_percent, 80);
    assert_int_equal(l->health.half_open, 3);
    assert_string_equal(l->reset, "t1");

    assert_int_equal(traffic_fault_count(t), 2); /* one never does anything */
    const struct traffic_fault *f = traffic_fault_at(t, 1);
    assert_string_equal(f->name, "httpFault-2");
    assert_null(f->when); /* any time of any day, in any zone */
    f = traffic_fault_at(t, 0);
    assert_int_equal(f->delay_ms, 3000);
    assert_int_equal(f->delay_ppm, 100000);
    assert_int_equal(f->abort_status, 503);
    assert_int_equal(f->abort_ppm, TRAFFIC_PPM);
    assert_int_equal(f->when->start, 79200);
    assert_int_equal(f->when->days_of_week, 1 << 1 | 1 << 5);
    assert_int_equal(f->when->days_of_month, UINT32_C(1) << 31);
    assert_int_equal(f->when->months, 1 << 2);
    assert_int_equal(f->when->zone.standard, 3600);
    traffic_unref(t);
}

static void external_rules(void **state)
{
    (void)state;
    static const char text[] = SPEC(
        "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"rateLimitings\":[{\"name\":"
        "\"l\",\"restRules\":"
        "[{\"url\":\"https://Example.com/a/../*\",\"method\":\"POST\"}]," LIMITER
        "}],\"trafficInterceptRules\":[{\"name\":\"l\",\"interceptType\":\"Blacklist\","
        "\"contentType\":\"Normal\","
        "\"contents\":[\"Example.com\"],\"methods\":[\"PUT\",\"GET\"]}]}},{\"name\":\"a\",\"spec\":"
        "{\"trafficInterceptRules\":[" INTERCEPT("Regexp", "\"^a\"", "\"*\"") "]}}]");
    struct buf out = BUF_INIT(4096);
    struct buf again = BUF_INIT(4096);
    struct traffic *t = parse(text);
    assert_int_equal(traffic_intercept_count(t), 2);
    const struct traffic_intercept *i = traffic_intercept_at(t, 0);
    assert_string_equal(i->policy->name, "a");
    assert_true(i->any_method);
    assert_int_equal(i->type, TRAFFIC_WHITELIST);
    i = traffic_intercept_at(t, 1);
    assert_ptr_equal(i->policy, traffic_policy_at(t, 1));
    assert_string_equal(i->name, "l"); /* names are of their kind */
    assert_string_equal(i->methods.items[1], "GET");
    assert_int_equal(i->type, TRAFFIC_BLACKLIST);
    assert_int_equal(traffic_limiting_count(t), 1);
    /* Texts are told as they were written. */
    assert_int_equal(traffic_to_json(t, &out), 0);
    assert_non_null(strstr(buf_cstr(&out), "\"https://Example.com/a/../*\""));
    struct traffic *second = parse(buf_cstr(&out));
    assert_int_equal(traffic_to_json(second, &again), 0);
    assert_string_equal(buf_cstr(&again), buf_cstr(&out));
    assert_string_equal(traffic_checksum(t), traffic_checksum(second));
    traffic_unref(second);
    traffic_unref(t);
    buf_reset(&out);
    buf_reset(&again);
}

static void canonical(void **state)
{
    (void)state;
    static const char spec[] =
        "{\"breakers\":[{\"name\":\"p\",\"spec\":{\"rateLimitings\":[{\"bucket\":{\"burst\":1,"
        "\"interval\":\"10000ms\",\"limit\":1},\"name\":\"r\",\"resourceRules\":[{\"apiGroups\":["
        "\"\"],\"namespaces\":[\"*\"],\"resources\":[\"pods\"],\"verbs\":[\"delete\"]}],"
        "\"triggerPolicy\":\"LimiterOnly\"}],\"selector\":{}}}]}";
    char hex[SHA256_HEX_LEN + 1];
    char text[1024];
    struct buf out = BUF_INIT(4096);
    struct traffic *t = parse(BREAKERS(LIMITING(LIMITER)));
    sha256_hex(spec, strlen(spec), hex);
    (void)snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"cmesh/v1\",\"checksum\":\"sha256:%s\",\"generation\":7,"
        "\"kind\":\"ShardTraffic\",\"shard\":{\"name\":\"shard-a\",\"namespace\":\"ns\"},"
        "\"spec\":%s}",
        hex, spec);
    assert_int_equal(traffic_to_json(t, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    assert_string_equal(traffic_checksum(t) + 7, hex);
    struct traffic *again = parse(text);
    assert_string_equal(traffic_checksum(again), traffic_checksum(t));
    traffic_unref(again);
    traffic_unref(t);
    buf_reset(&out);
}

static void no_policies(void **state)
{
    (void)state;
    struct traffic *t = parse(SPEC(""));
    assert_int_equal(traffic_policy_count(t), 0);
    traffic_unref(traffic_ref(t));
    traffic_unref(t);
    traffic_unref(NULL);
}

/* What is wrong with the document itself, and how a spec's errors are told. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[]", "line 1: Invalid value: must be an object"},
        {"{", "line 1"},
        {"{\"apiVersion\":\"cmesh/v2\"}", "line 1: apiVersion: Unsupported value: \"cmesh/v2\""},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\"}", "kind: Unsupported value"},
        {HEAD "\"x\":1}", "spec: Required value"},
        {HEAD "\"spec\":[]}", "line 4: spec: Invalid value: must be an object"},
        {SPEC("\"limits\":[]"), "line 4: spec.limits: Forbidden: unknown field"},
        {SPEC("\"breakers\":{}"), "spec.breakers: Invalid value: must be an array"},
        {SPEC("\"breakers\":[1]"), "spec.breakers[0]: Invalid value: must be an object"},
        {SPEC("\"breakers\":[{\"spec\":{}}]"), "spec.breakers[0].name: Required value"},
        {SPEC("\"breakers\":[{\"name\":\"P\",\"spec\":{}}]"),
         "spec.breakers[0].name: Invalid value: \"P\""},
        {SPEC("\"breakers\":[{\"name\":\"p\"}]"), "spec.breakers[0].spec: Required value"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"spec\":{\"httpFault\":[]}}]"),
         "spec.breakers[0].spec.httpFault: Forbidden: unknown field"},
        {SPEC("\"faults\":[{\"name\":\"p\",\"reset\":{},\"spec\":{}}]"),
         "spec.faults[0].reset: Forbidden: unknown field"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{\"matchLabel\":{}}}}]"),
         "line 4: spec.breakers[0].spec.selector.matchLabel: Forbidden: unknown field"},
        {SPEC("\"breakers\":[" POLICY("rateLimitings", LIMITING(LIMITER)) "," POLICY(
             "rateLimitings", LIMITING(LIMITER)) "]"),
         "spec.breakers[1].name: Duplicate value: \"p\""},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"reset\":{\"r\":\"\"},\"spec\":{}}]"),
         "spec.breakers[0].reset: Invalid value"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"reset\":[\"r\"],\"spec\":{}}]"),
         "spec.breakers[0].reset: Invalid value"},
        {SPEC("\"zones\":[]"), "spec.zones: Invalid value: must be texts of 1 to 255 bytes"},
        {BREAKERS(LIMITING(LIMITER) ",\n" LIMITING(LIMITER)),
         "line 5: spec.breakers[0].spec.rateLimitings[1].name: Duplicate value: \"r\""},
        {BREAKERS(LIMITING("\"triggerPolicy\":\"LimiterOnly\"")),
         "spec.rateLimitings[0].bucket: Required value"},
        {BREAKERS(LIMITING(LIMITER ",\"maxInFlights\":1")),
         "rateLimitings[0].maxInFlights: Forbidden: unknown field; is \"maxInFlight\" meant?"},
        {INTERCEPTS(INTERCEPT("Regexp", "\"a\",\"b(\"", "\"*\"")),
         "line 4: spec.breakers[0].spec.trafficInterceptRules[0].contents[1]: Invalid value: "
         "\"b(\": must be a regular expression: at offset 2: "},
        {FAULTS(FAULT(DELAY ",\"effectiveTime\":{\"timeZone\":\"Mars\"}")),
         "spec.faults[0].spec.httpFault[0].effectiveTime.timeZone: Invalid value: \"Mars\": "
         "spec.zones has no rule for it"},
        {SPEC("\"faults\":[" POLICY(
             "httpFault",
             FAULT(DELAY ",\"effectiveTime\":{\"timeZone\":\"X\"}")) "],"
                                                                     "\"zones\":{\"X\":\"Y\"}"),
         "effectiveTime.timeZone: Invalid value: \"X\": \"Y\" is no time zone rule"},
        /* the policies not in the order of their names */
        {SPEC("\"breakers\":[{\"name\":\"q\",\"spec\":{\"rateLimitings\":[1]}},"
              "{\"name\":\"p\",\"spec\":{\"rateLimitings\":[1]}}]"),
         "spec.breakers[0].spec.rateLimitings[0]: Invalid value: must be an object"},
        {HEAD "\"checksum\":\"sha256:00\",\"spec\":{}}",
         "checksum: Invalid value: \"sha256:00\": must be \"sha256:\""},
        {HEAD "\"checksum\":\"sha256:"
              "0000000000000000000000000000000000000000000000000000000000000000\",\"spec\":{}}",
         "it was changed after it was written, or damaged"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct traffic *t = traffic_parse(cases[i].text, strlen(cases[i].text), &e);
        if (t != NULL || e.code != -EINVAL || strstr(e.msg, cases[i].message) == NULL) {
            fail_msg("%s: %d %s", cases[i].text, e.code, e.msg);
        }
    }
}

/* A breaker with so many rules, each with one resource rule of so many namespaces. */
static void write_rules(struct buf *out, const char *policy, size_t rules, size_t namespaces)
{
    buf_printf(out, "{\"name\":\"%s\",\"spec\":{\"selector\":{},\"rateLimitings\":[", policy);
    for (size_t i = 0; i < rules; i++) {
        buf_printf(out,
                   "%s{\"name\":\"r%zu\"," LIMITER ",\"resourceRules\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"],\"verbs\":[\"get\"],\"namespaces\":[",
                   i == 0 ? "" : ",", i);
        for (size_t n = 0; n < namespaces; n++) {
            buf_printf(out, "%s\"n%zu\"", n == 0 ? "" : ",", n);
        }
        buf_append_str(out, "]}]}");
    }
    buf_append_str(out, "]}}");
}

static int parse_many(size_t policies, size_t rules, size_t namespaces, struct err *e)
{
    struct buf out = BUF_INIT(64 << 20);
    buf_append_str(&out, HEAD "\"spec\":{\"breakers\":[");
    for (size_t i = 0; i < policies; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "p%zu", i);
        buf_append_str(&out, i == 0 ? "" : ",");
        write_rules(&out, name, rules, namespaces);
    }
    buf_append_str(&out, "]}}");
    assert_int_equal(buf_error(&out), 0);
    *e = (struct err)ERR_INIT;
    struct traffic *t = traffic_parse((const char *)buf_data(&out), out.len, e);
    int rc = t == NULL ? e->code : 0;
    traffic_unref(t);
    buf_reset(&out);
    return rc;
}

static void bounds(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(
        parse_many(TRAFFIC_POLICIES_MAX, TRAFFIC_ROWS_MAX / TRAFFIC_POLICIES_MAX, 1, &e), 0);
    assert_int_equal(parse_many(TRAFFIC_POLICIES_MAX + 1, 1, 1, &e), -E2BIG);
    assert_int_equal(parse_many(1, TRAFFIC_ROWS_MAX, 1, &e), 0);
    assert_int_equal(parse_many(1, TRAFFIC_ROWS_MAX + 1, 1, &e), -E2BIG);
    assert_int_equal(parse_many(1, 1, TRAFFIC_LIST_MAX, &e), 0);
    assert_int_equal(parse_many(1, 1, TRAFFIC_LIST_MAX + 1, &e), -E2BIG);
    assert_int_equal(parse_many(1, 16, TRAFFIC_LIST_MAX, &e), 0);
    assert_int_equal(parse_many(1, 17, TRAFFIC_LIST_MAX, &e), -E2BIG);
    assert_non_null(strstr(e.msg, "must have at most 16384 groups, "));
    assert_int_equal(parse_many(2, 9, TRAFFIC_LIST_MAX, &e), -E2BIG); /* together */
    assert_int_equal(parse_many(2, TRAFFIC_ROWS_MAX / 2 + 1, 1, &e), -E2BIG);
    assert_int_equal(parse_many(1, 300, TRAFFIC_LIST_MAX, &e), -E2BIG);
    assert_non_null(strstr(e.msg, "more than 1048576 bytes"));
}

/* So many of something in one document. */
static int parse_list(const char *before, const char *each, size_t count, const char *after)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(4 << 20);
    buf_append_str(&out, before);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(&out, i == 0 ? "" : ",");
        for (const char *c = each; *c != '\0'; c++) {
            if (*c == '@') {
                buf_printf(&out, "%zu", i);
            } else {
                buf_append_char(&out, *c);
            }
        }
    }
    buf_append_str(&out, after);
    assert_int_equal(buf_error(&out), 0);
    struct traffic *t = traffic_parse((const char *)buf_data(&out), out.len, &e);
    traffic_unref(t);
    buf_reset(&out);
    return t == NULL ? e.code : 0;
}

static void bounds_of_external_rules(void **state)
{
    (void)state;
    static const char breaker[] =
        HEAD "\"spec\":{\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"";
#define TRY(member, before, each, count, after)                                                    \
    do {                                                                                           \
        char text[512];                                                                            \
        (void)snprintf(text, sizeof text, "%s%s\":[%s", breaker, member, before);                  \
        assert_int_equal(parse_list(text, each, count, after "]}}]}}"), 0);                        \
        assert_int_equal(parse_list(text, each, (count) + 1, after "]}}]}}"), -E2BIG);             \
    } while (0)
    static const char white[] =
        "{\"name\":\"i@\",\"interceptType\":\"Whitelist\",\"contentType\":\"Normal\","
        "\"contents\":[\"a\"],\"methods\":[\"*\"]}";
    TRY("trafficInterceptRules", "", white, TRAFFIC_INTERCEPTS_MAX, "");
    static const char normal[] =
        "{\"name\":\"i\",\"interceptType\":\"Whitelist\",\"contentType\":\"Normal\","
        "\"methods\":[\"*\"],\"contents\":[";
    TRY("trafficInterceptRules", normal, "\"a@\"", TRAFFIC_LIST_MAX, "]}");
    static const char regexp[] =
        "{\"name\":\"i\",\"interceptType\":\"Whitelist\",\"contentType\":\"Regexp\","
        "\"methods\":[\"*\"],\"contents\":[";
    TRY("trafficInterceptRules", regexp, "\"a@\"", TRAFFIC_PATTERNS_MAX, "]}");
    static const char urls[] = "{\"name\":\"l\",\"triggerPolicy\":\"ForceOpened\",\"restRules\":[";
    TRY("rateLimitings", urls, "{\"url\":\"http://a/@\",\"method\":\"*\"}", TRAFFIC_LIST_MAX, "]}");
    static const char faults[] =
        HEAD "\"spec\":{\"faults\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"httpFault\":[{"
             "\"name\":\"f\","
             "\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"},\"match\":{\"httpMatch\":[";
    static const char match[] = "{\"host\":{\"exact\":\"a@\"}}";
    assert_int_equal(parse_list(faults, match, TRAFFIC_LIST_MAX, "]}}]}}]}}"), 0);
    assert_int_equal(parse_list(faults, match, TRAFFIC_LIST_MAX + 1, "]}}]}}]}}"), -E2BIG);
#undef TRY
}

/* A text of so many bytes at most. */
static void lengths_of_external_texts(void **state)
{
    (void)state;
    char text[4096];
    for (int over = 0; over < 2; over++) {
        int want = over == 0 ? 0 : -EINVAL;
        struct err e = ERR_INIT;
        (void)snprintf(text, sizeof text, URLS("{\"url\":\"http://a/%0*d\",\"method\":\"*\"}"),
                       TRAFFIC_URL_MAX - 9 + over, 0);
        struct traffic *t = traffic_parse(text, strlen(text), &e);
        assert_int_equal(e.code, want);
        traffic_unref(t);
        e = (struct err)ERR_INIT;
        (void)snprintf(text, sizeof text, INTERCEPTS(INTERCEPT("Regexp", "\"%0*d\"", "\"*\"")),
                       TRAFFIC_URL_MAX + over, 0);
        t = traffic_parse(text, strlen(text), &e);
        assert_int_equal(e.code, want);
        traffic_unref(t);
    }
}

static bool same(const char *a, const char *b)
{
    struct traffic *x = parse(a);
    struct traffic *y = parse(b);
    bool result = traffic_limiting_same(traffic_limiting_at(x, 0), traffic_limiting_at(y, 0));
    traffic_unref(x);
    traffic_unref(y);
    return result;
}

#define OF_UID(uid, name, list)                                                                    \
    SPEC("\"breakers\":[{\"name\":\"" name "\",\"uid\":\"" uid                                     \
         "\",\"spec\":{\"selector\":{},\"rateLimitings\":[" list "]}}]")

static void same_state(void **state)
{
    (void)state;
    static const char base[] = OF_UID("1", "p", LIMITING(LIMITER));
    assert_true(same(base, base));
    assert_false(same(base, OF_UID("1", "q", LIMITING(LIMITER))));
    assert_false(same(base, OF_UID("2", "p", LIMITING(LIMITER))));
    assert_false(same(base, OF_UID("", "p", LIMITING(LIMITER))));
    assert_true(
        same(base, OF_UID("1", "p",
                          "{\"name\":\"r\"," LIMITER ",\"resourceRules\":[{\"apiGroups\":[\"*\"],"
                          "\"resources\":[\"*\"],\"verbs\":[\"*\"],\"namespaces\":[\"*\"]}]}")));
    assert_true(same(base, OF_UID("1", "p",
                                  "{\"name\":\"r\"," LIMITER
                                  ",\"restRules\":[{\"url\":\"http://a\",\"method\":\"*\"}]}")));
    assert_false(same(base, OF_UID("1", "p", LIMITING(LIMITER ",\"maxInFlight\":1"))));
    assert_false(
        same(base, OF_UID("1", "p", LIMITING("\"triggerPolicy\":\"ForceOpened\"," BUCKET))));
    assert_false(
        same(base, OF_UID("1", "p",
                          LIMITING("\"triggerPolicy\":\"LimiterOnly\",\"bucket\":"
                                   "{\"burst\":2,\"limit\":1,\"interval\":\"10000ms\"}"))));
    assert_false(
        same(base, OF_UID("1", "p",
                          LIMITING("\"triggerPolicy\":\"LimiterOnly\",\"bucket\":"
                                   "{\"burst\":1,\"limit\":2,\"interval\":\"10000ms\"}"))));
    assert_false(same(base, OF_UID("1", "p",
                                   LIMITING("\"triggerPolicy\":\"LimiterOnly\",\"bucket\":"
                                            "{\"burst\":1,\"limit\":1,\"interval\":\"9999ms\"}"))));
    static const char health[] =
        HEALTH("\"window\":\"10ms\",\"minimumRequests\":1,\"errorPercent\":1");
    assert_true(same(health, health));
    assert_false(
        same(health, HEALTH("\"window\":\"11ms\",\"minimumRequests\":1,\"errorPercent\":1")));
    assert_false(
        same(health, HEALTH("\"window\":\"10ms\",\"minimumRequests\":2,\"errorPercent\":1")));
    assert_false(
        same(health, HEALTH("\"window\":\"10ms\",\"minimumRequests\":1,\"errorPercent\":2")));
    assert_false(same(health, HEALTH("\"window\":\"10ms\",\"minimumRequests\":1,\"errorPercent\":1,"
                                     "\"halfOpenRequests\":2")));
    assert_false(same(health, HEALTH("\"window\":\"10ms\",\"minimumRequests\":1,\"errorPercent\":1,"
                                     "\"slowCallDuration\":\"2ms\",\"slowCallPercent\":2")));
    static const char window[] = BREAKERS(LIMITING(
        "\"triggerPolicy\":\"Normal\"," BUCKET
        ",\"recoverPolicy\":{\"type\":\"SleepingWindow\",\"sleepingWindowSize\":\"5ms\"}"));
    assert_false(same(window, BREAKERS(LIMITING("\"triggerPolicy\":\"Normal\"," BUCKET
                                                ",\"recoverPolicy\":{\"type\":\"Manual\"}"))));
    assert_false(same(
        window,
        BREAKERS(LIMITING(
            "\"triggerPolicy\":\"Normal\"," BUCKET
            ",\"recoverPolicy\":{\"type\":\"SleepingWindow\",\"sleepingWindowSize\":\"6ms\"}"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_document),
        cmocka_unit_test(canonical),
        cmocka_unit_test(no_policies),
        cmocka_unit_test(refused),
        cmocka_unit_test(bounds),
        cmocka_unit_test(same_state),
        cmocka_unit_test(external_rules),
        cmocka_unit_test(bounds_of_external_rules),
        cmocka_unit_test(lengths_of_external_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
