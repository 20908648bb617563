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
#define POLICY(rules, list) "{\"name\":\"p\",\"pods\":\"\",\"" rules "\":[" list "]}"
#define BREAKERS(list) SPEC("\"breakers\":[" POLICY("limitings", list) "]")
#define FAULTS(list) SPEC("\"faults\":[" POLICY("rules", list) "]")
#define LIMITING(members) "{\"name\":\"r\",\"resources\":[" ROW "]," members "}"
#define FAULT(members) "{\"name\":\"f\",\"resources\":[{}]," members "}"
#define BUCKET "\"bucket\":{\"burst\":1,\"limit\":1,\"intervalMs\":10000}"
#define LIMITER "\"trigger\":\"LimiterOnly\"," BUCKET
#define HEALTH(members)                                                                            \
    BREAKERS(LIMITING(                                                                             \
        "\"trigger\":\"Health\",\"recover\":{\"type\":\"Manual\"},\"health\":{" members "}"))

#define INTERCEPTS(list) SPEC("\"breakers\":[" POLICY("intercepts", list) "]")
#define INTERCEPT(content, contents, methods)                                                      \
    "{\"name\":\"i\",\"type\":\"Whitelist\",\"content\":\"" content "\",\"contents\":[" contents   \
    "],\"methods\":[" methods "]}"
#define URLS(list) BREAKERS("{\"name\":\"r\",\"urls\":[" list "]," LIMITER "}")
#define HTTP(match)                                                                                \
    FAULTS("{\"name\":\"f\",\"http\":[" match "],\"abort\":{\"status\":503,\"ppm\":1}}")

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
        "\"faults\":[{\"name\":\"slow\",\"pods\":\"\",\"rules\":["
        "{\"name\":\"lists\",\"resources\":[{\"resources\":[\"pods\"],\"verbs\":[\"list\"]}],"
        "\"delay\":{\"ms\":3000,\"ppm\":100000},\"abort\":{\"status\":503,\"ppm\":1000000},"
        "\"when\":{\"start\":\"22:00:00\",\"end\":\"06:00:00\",\"daysOfWeek\":[1,5],"
        "\"daysOfMonth\":[31],\"months\":[2],"
        "\"zone\":{\"name\":\"Europe/Berlin\",\"rule\":\"CET-1CEST,M3.5.0,M10.5.0/3\"}}}]}],"
        "\"breakers\":["
        "{\"name\":\"z\",\"uid\":\"u-z\",\"pods\":\"b=1,a in (y,x)\",\"specHash\":\"0d9f\","
        "\"reset\":{\"api\":\"t1\",\"gone\":\"t2\"},\"limitings\":["
        "{\"name\":\"api\",\"resources\":[" ROW "],\"trigger\":\"Health\","
        "\"health\":{\"windowMs\":10000,\"minimumRequests\":20,\"errorPercent\":50,\"slowMs\":2000,"
        "\"slowPercent\":80,\"halfOpen\":3},\"recover\":{\"type\":\"SleepingWindow\","
        "\"windowMs\":30000},\"maxInFlight\":9}]},"
        "{\"name\":\"a\",\"pods\":\"\",\"limitings\":["
        "{\"name\":\"one\",\"resources\":[" ROW "]," LIMITER "},"
        "{\"name\":\"two\",\"resources\":[" ROW "],\"trigger\":\"Normal\"," BUCKET ","
        "\"recover\":{\"type\":\"Manual\"}}]}]"));
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

    assert_int_equal(traffic_fault_count(t), 1);
    const struct traffic_fault *f = traffic_fault_at(t, 0);
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
        "\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"limitings\":[{\"name\":\"l\",\"urls\":"
        "[{\"url\":\"https://Example.com/a/../*\",\"method\":\"POST\"}]," LIMITER
        "}],\"intercepts\":[{\"name\":\"l\",\"type\":\"Blacklist\",\"content\":\"Normal\","
        "\"contents\":[\"Example.com\"],\"methods\":[\"PUT\",\"GET\"]}]},{\"name\":\"a\",\"pods\":"
        "\"\",\"intercepts\":[" INTERCEPT("Regexp", "\"^a\"", "\"*\"") "]}]");
    struct buf out = BUF_INIT(4096);
    struct buf again = BUF_INIT(4096);
    struct traffic *t = parse(text);
    assert_int_equal(traffic_intercept_count(t), 2);
    const struct traffic_intercept *i = traffic_intercept_at(t, 0);
    assert_string_equal(i->policy->name, "a");
    assert_string_equal(i->methods, "*");
    assert_true(i->whitelist);
    i = traffic_intercept_at(t, 1);
    assert_ptr_equal(i->policy, traffic_policy_at(t, 1));
    assert_string_equal(i->name, "l"); /* names are of their kind */
    assert_string_equal(i->methods, "PUT, GET");
    assert_false(i->whitelist);
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
        "{\"breakers\":[{\"limitings\":[{\"bucket\":{\"burst\":1,\"intervalMs\":10000,\"limit\":1},"
        "\"name\":\"r\",\"resources\":[{\"apiGroups\":[\"\"],\"namespaces\":[\"*\"],"
        "\"resources\":[\"pods\"],\"verbs\":[\"delete\"]}],\"trigger\":\"LimiterOnly\"}],"
        "\"name\":\"p\",\"pods\":\"a in (x,y),b=1\"}]}";
    char hex[SHA256_HEX_LEN + 1];
    char text[1024];
    struct buf out = BUF_INIT(4096);
    struct traffic *t = parse(SPEC("\"breakers\":[{\"pods\": \"b=1,  a in (y, x)\", \"name\":\"p\","
                                   "\"limitings\":[" LIMITING(LIMITER) "]}]"));
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

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[]", "must be a JSON object"},
        {"{", "line 1"},
        {"{\"apiVersion\":\"cmesh/v2\"}", "line 1: apiVersion: Unsupported value: \"cmesh/v2\""},
        {"{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\"}", "kind: Unsupported value"},
        {HEAD "\"x\":1}", "spec: Required value"},
        {HEAD "\"spec\":[]}", "line 4: spec: Invalid value: must be an object"},
        {SPEC("\"limits\":[]"), "line 4: spec: unknown field \"limits\""},
        {SPEC("\"breakers\":{}"), "spec.breakers: Invalid value: must be an array"},
        {SPEC("\"breakers\":[1]"), "spec.breakers[0]: Invalid value: must be an object"},
        {SPEC("\"breakers\":[{\"pods\":\"\"}]"), "spec.breakers[0].name: Required value"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"limitings\":[]}]"),
         "spec.breakers[0].pods: Required value"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"a in\",\"limitings\":[]}]"),
         "spec.breakers[0].pods: Invalid value: \"a in\""},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\"}]"),
         "spec.breakers[0].limitings: Required value"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"limitings\":[]}]"),
         "spec.breakers[0].limitings: Required value: must have at least one entry"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"rules\":[]}]"),
         "spec.breakers[0]: unknown field \"rules\""},
        {SPEC("\"breakers\":[" POLICY("limitings", LIMITING(LIMITER)) "," POLICY(
             "limitings", LIMITING(LIMITER)) "]"),
         "spec.breakers: Duplicate value: \"p\""},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"reset\":{\"r\":\"\"},"
              "\"limitings\":[" LIMITING(LIMITER) "]}]"),
         "spec.breakers[0].reset: Invalid value"},
        {BREAKERS(LIMITING(LIMITER) "," LIMITING(LIMITER)),
         "spec.breakers[0].limitings[1].name: Duplicate value: \"r\""},
        {BREAKERS("{\"name\":\"a:b\"}"),
         "spec.breakers[0].limitings[0].name: Invalid value: \"a:b\""},
        {BREAKERS("{\"name\":\"r\",\"trigger\":\"Normal\"}"),
         "spec.breakers[0].limitings[0].bucket: Required value"},
        {BREAKERS(LIMITING("\"trigger\":\"Normal\"," BUCKET)),
         "spec.breakers[0].limitings[0].recover: Required value"},
        {BREAKERS(LIMITING("\"trigger\":\"LimiterOnly\"")), "limitings[0].bucket: Required value"},
        {BREAKERS(LIMITING("\"trigger\":\"normal\"")), "trigger: Unsupported value: \"normal\""},
        {BREAKERS(LIMITING(LIMITER ",\"maxInFlight\":0")),
         "maxInFlight: Invalid value: must be an integer from 1 to 4294967295"},
        {BREAKERS(LIMITING(LIMITER ",\"maxInFlight\":1.5")), "maxInFlight: Invalid value"},
        {BREAKERS(LIMITING("\"trigger\":\"LimiterOnly\",\"bucket\":{\"burst\":1,\"limit\":-1,"
                           "\"intervalMs\":1}")),
         "bucket.limit: Invalid value"},
        {BREAKERS(LIMITING("\"trigger\":\"LimiterOnly\",\"bucket\":{\"burst\":1,\"limit\":1,"
                           "\"intervalMs\":0}")),
         "bucket.intervalMs: Invalid value: must be an integer from 1 to 604800000"},
        {BREAKERS(LIMITING("\"trigger\":\"Normal\"," BUCKET
                           ",\"recover\":{\"type\":\"SleepingWindow\"}")),
         "recover.windowMs: Required value"},
        {BREAKERS(LIMITING("\"trigger\":\"Health\",\"recover\":{\"type\":\"Manual\"}")),
         "limitings[0].health: Required value"},
        {BREAKERS(LIMITING(LIMITER ",\"health\":{}")),
         "health: Forbidden: only with the trigger Health"},
        {HEALTH("\"windowMs\":10,\"minimumRequests\":1"),
         "health: Required value: errorPercent, or"},
        {HEALTH("\"windowMs\":10,\"minimumRequests\":1,\"slowMs\":1"),
         "slowMs and slowPercent go together"},
        {HEALTH("\"windowMs\":10,\"minimumRequests\":0,\"errorPercent\":1"),
         "minimumRequests: Invalid value"},
        {HEALTH("\"windowMs\":9,\"minimumRequests\":1,\"errorPercent\":1"),
         "windowMs: Invalid value"},
        {HEALTH("\"windowMs\":10,\"minimumRequests\":1,\"errorPercent\":101"),
         "errorPercent: Invalid value"},
        {BREAKERS("{\"name\":\"r\"," LIMITER "}"), "limitings[0].resources: Required value"},
        {BREAKERS("{\"name\":\"r\"," LIMITER ",\"resources\":[]}"), "must have at least one entry"},
        {BREAKERS("{\"name\":\"r\"," LIMITER ",\"resources\":[{\"apiGroups\":[\"\"]}]}"),
         "limitings[0].resources[0].namespaces: Required value"},
        {BREAKERS("{\"name\":\"r\"," LIMITER ",\"resources\":[{\"namespaces\":[\"*\"],"
                  "\"apiGroups\":[\"\"],\"verbs\":[\"get\"],\"resources\":[\"pods/\"]}]}"),
         "resources[0].resources[0]: Invalid value: \"pods/\""},
        {BREAKERS("{\"name\":\"r\"," LIMITER ",\"resources\":[{\"namespaces\":[\"*\"],"
                  "\"apiGroups\":[\"\"],\"verbs\":[\"get\",\"get\"],\"resources\":[\"pods\"]}]}"),
         "verbs[1]: Duplicate value: \"get\""},
        {FAULTS("{\"name\":\"f\",\"resources\":[{}]}"), "rules[0]: Required value: delay or abort"},
        {FAULTS(FAULT("\"delay\":{\"ms\":600001,\"ppm\":1}")), "delay.ms: Invalid value"},
        {FAULTS(FAULT("\"delay\":{\"ms\":1,\"ppm\":1000001}")), "delay.ppm: Invalid value"},
        {FAULTS(FAULT("\"abort\":{\"status\":200,\"ppm\":1}")), "abort.status: Invalid value"},
        {FAULTS(FAULT("\"delay\":{\"ms\":1,\"ppm\":1},\"when\":{\"start\":\"01:00:00\"}")),
         "when: Required value: start and end go together"},
        {FAULTS(FAULT("\"delay\":{\"ms\":1,\"ppm\":1},\"when\":{\"start\":\"1\",\"end\":\"2\"}")),
         "when.start: Invalid value: \"1\""},
        {FAULTS(FAULT("\"delay\":{\"ms\":1,\"ppm\":1},\"when\":{\"daysOfWeek\":[7]}")),
         "when.daysOfWeek: Invalid value: must be integers from 0 to 6"},
        {FAULTS(FAULT("\"delay\":{\"ms\":1,\"ppm\":1},\"when\":{\"months\":[0]}")),
         "when.months: Invalid value"},
        {FAULTS(FAULT("\"delay\":{\"ms\":1,\"ppm\":1},\"when\":{\"zone\":{\"rule\":\"X\"}}")),
         "when.zone.rule: Invalid value: \"X\" is no time zone rule"},
        {FAULTS(
             FAULT("\"delay\":{\"ms\":1,\"ppm\":1}") "," FAULT("\"delay\":{\"ms\":1,\"ppm\":1}")),
         "rules[1].name: Duplicate value: \"f\""},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"intercepts\":[]}]"),
         "spec.breakers[0].intercepts: Required value: must have at least one entry"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"intercepts\":{}}]"),
         "spec.breakers[0].intercepts: Invalid value: must be an array"},
        {SPEC("\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"limitings\":[],\"intercepts\":"
              "[" INTERCEPT("Normal", "\"a\"", "\"*\"") "]}]"),
         "spec.breakers[0].limitings: Required value: must have at least one entry"},
        {SPEC("\"faults\":[" POLICY("intercepts", "") "]"),
         "spec.faults[0]: unknown field \"intercepts\""},
        {INTERCEPTS("{\"name\":\"i\",\"urls\":[]}"), "intercepts[0]: unknown field \"urls\""},
        {INTERCEPTS("{\"name\":\"i\",\"type\":\"White\"}"),
         "intercepts[0].type: Unsupported value: \"White\""},
        {INTERCEPTS("{\"name\":\"i\",\"type\":\"Blacklist\",\"content\":\"Regex\"}"),
         "intercepts[0].content: Unsupported value: \"Regex\""},
        {INTERCEPTS(INTERCEPT("Normal", "", "\"*\"")), "intercepts[0].contents: Required value"},
        {INTERCEPTS(INTERCEPT("Normal", "\"a\"", "")), "intercepts[0].methods: Required value"},
        {INTERCEPTS(INTERCEPT("Normal", "\"a\"", "\"get\"")),
         "intercepts[0].methods[0]: Invalid value: \"get\": must be a method in upper case"},
        {INTERCEPTS(INTERCEPT("Normal", "\"a\",\"http://b\"", "\"*\"")),
         "intercepts[0].contents[1]: Invalid value: \"http://b\": must be a host"},
        {INTERCEPTS(INTERCEPT("Normal", "\"*\"", "\"*\"")), "contents[0]: Invalid value: \"*\""},
        {INTERCEPTS(INTERCEPT("Regexp", "\"a\",\"b(\"", "\"*\"")),
         "line 4: spec.breakers[0].intercepts[0].contents[1]: Invalid value: \"b(\": at offset "
         "2: "},
        {INTERCEPTS(INTERCEPT("Regexp", "\"\"", "\"*\"")), "contents[0]: Invalid value: \"\""},
        {INTERCEPTS(
             INTERCEPT("Normal", "\"a\"", "\"*\"") "," INTERCEPT("Normal", "\"a\"", "\"*\"")),
         "intercepts[1].name: Duplicate value: \"i\""},
        {URLS(""), "limitings[0].urls: Required value: must have at least one entry"},
        {URLS("{\"url\":\"http://a/\"}"), "urls[0].method: Required value"},
        {URLS("{\"method\":\"*\"}"), "urls[0].url: Required value"},
        {URLS("{\"url\":\"a/\",\"method\":\"*\"}"),
         "urls[0].url: Invalid value: \"a/\": must begin with http:// or https://"},
        {URLS("{\"url\":\"http://a/\",\"method\":\"\"}"), "urls[0].method: Invalid value"},
        {URLS("{\"url\":\"http://a/\",\"method\":\"*\",\"host\":\"\"}"), "unknown field \"host\""},
        {HTTP(""), "rules[0].http: Required value: must have at least one entry"},
        {HTTP("{}"), "http[0]: Required value: host, path, method or headers"},
        {HTTP("{\"host\":{}}"), "http[0].host: Required value: exact or regex, and not both"},
        {HTTP("{\"host\":{\"exact\":\"a\",\"regex\":\"a\"}}"), "exact or regex, and not both"},
        {HTTP("{\"host\":{\"exact\":\"a/b\"}}"), "http[0].host.exact: Invalid value: \"a/b\""},
        {HTTP("{\"host\":{\"regex\":\"[\"}}"),
         "http[0].host.regex: Invalid value: \"[\": at offset"},
        {HTTP("{\"path\":{\"exact\":\"a\"}}"), "http[0].path.exact: Invalid value: \"a\""},
        {HTTP("{\"path\":{\"exact\":\"/a?b\"}}"), "http[0].path.exact: Invalid value: \"/a?b\""},
        {HTTP("{\"path\":{\"regex\":1}}"), "http[0].path.regex: Invalid value: must be a string"},
        {HTTP("{\"method\":\"a b\"}"), "http[0].method: Invalid value: \"a b\""},
        {HTTP("{\"headers\":[]}"), "http[0].headers: Required value"},
        {HTTP("{\"headers\":[{\"value\":\"a\"}]}"), "headers[0].name: Required value"},
        {HTTP("{\"headers\":[{\"name\":\"a:\"}]}"), "headers[0].name: Invalid value: \"a:\""},
        {HTTP("{\"headers\":[{\"name\":\"a\",\"value\":\" b\"}]}"),
         "headers[0].value: Invalid value"},
        /* wrong in a rule, the policies not in the order of their names */
        {SPEC("\"breakers\":[{\"name\":\"q\",\"pods\":\"a\",\"limitings\":[1]},"
              "{\"name\":\"p\",\"pods\":\"b\",\"limitings\":[1]}]"),
         "spec.breakers[1].limitings[0]: Invalid value: must be an object"},
        {HEAD "\"checksum\":\"sha256:00\",\"spec\":{}}",
         "checksum: Invalid value: must be \"sha256:\""},
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
    buf_printf(out, "{\"name\":\"%s\",\"pods\":\"\",\"limitings\":[", policy);
    for (size_t i = 0; i < rules; i++) {
        buf_printf(out,
                   "%s{\"name\":\"r%zu\"," LIMITER ",\"resources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"],\"verbs\":[\"get\"],\"namespaces\":[",
                   i == 0 ? "" : ",", i);
        for (size_t n = 0; n < namespaces; n++) {
            buf_printf(out, "%s\"n%zu\"", n == 0 ? "" : ",", n);
        }
        buf_append_str(out, "]}]}");
    }
    buf_append_str(out, "]}");
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
    assert_non_null(strstr(e.msg, "more than 16384 names"));
    assert_int_equal(parse_many(1, 300, TRAFFIC_LIST_MAX, &e), -E2BIG);
    assert_non_null(strstr(e.msg, "more than 1048576 bytes"));
}

/* Its canonical text is longer than the selector that was written, and than any may be. */
static void a_selector_at_the_bound(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(TRAFFIC_TEXT_MAX);
    static const char after[] = "\",\"limitings\":[" LIMITING(LIMITER) "]}]}}";
    buf_append_str(&out, HEAD "\"spec\":{\"breakers\":[{\"name\":\"p\",\"pods\":\"");
    for (size_t i = 0; i < SELECTOR_REQUIREMENTS_MAX; i++) {
        size_t left = TRAFFIC_TEXT_MAX - sizeof after - out.len;
        size_t most = i + 1 < SELECTOR_REQUIREMENTS_MAX ? 1018 : left;
        size_t end = out.len + most;
        buf_printf(&out, "%sk%zu in(0", i == 0 ? "" : ",", i);
        for (size_t n = 0; out.len + 64 < end; n++) {
            buf_printf(&out, ",%062zu", n);
        }
        buf_append_char(&out, ')');
    }
    buf_append_str(&out, after);
    assert_int_equal(buf_error(&out), 0);
    assert_true(out.len + SELECTOR_REQUIREMENTS_MAX > TRAFFIC_TEXT_MAX + sizeof HEAD);
    assert_null(traffic_parse((const char *)buf_data(&out), out.len, &e));
    assert_int_equal(e.code, -E2BIG);
    buf_reset(&out);
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
    static const char breaker[] = HEAD "\"spec\":{\"breakers\":[{\"name\":\"p\",\"pods\":\"\",\"";
#define TRY(member, before, each, count, after)                                                    \
    do {                                                                                           \
        char text[512];                                                                            \
        (void)snprintf(text, sizeof text, "%s%s\":[%s", breaker, member, before);                  \
        assert_int_equal(parse_list(text, each, count, after "]}]}}"), 0);                         \
        assert_int_equal(parse_list(text, each, (count) + 1, after "]}]}}"), -E2BIG);              \
    } while (0)
    static const char white[] = "{\"name\":\"i@\",\"type\":\"Whitelist\",\"content\":\"Normal\","
                                "\"contents\":[\"a\"],\"methods\":[\"*\"]}";
    TRY("intercepts", "", white, TRAFFIC_INTERCEPTS_MAX, "");
    static const char normal[] = "{\"name\":\"i\",\"type\":\"Whitelist\",\"content\":\"Normal\","
                                 "\"methods\":[\"*\"],\"contents\":[";
    TRY("intercepts", normal, "\"a@\"", TRAFFIC_LIST_MAX, "]}");
    static const char regexp[] = "{\"name\":\"i\",\"type\":\"Whitelist\",\"content\":\"Regexp\","
                                 "\"methods\":[\"*\"],\"contents\":[";
    TRY("intercepts", regexp, "\"a@\"", TRAFFIC_PATTERNS_MAX, "]}");
    static const char urls[] = "{\"name\":\"l\",\"trigger\":\"ForceOpened\",\"urls\":[";
    TRY("limitings", urls, "{\"url\":\"http://a/@\",\"method\":\"*\"}", TRAFFIC_EXTERNAL_MAX, "]}");
    static const char faults[] =
        HEAD "\"spec\":{\"faults\":[{\"name\":\"p\",\"pods\":\"\",\"rules\":[{\"name\":\"f\","
             "\"abort\":{\"status\":503,\"ppm\":1},\"http\":[";
    static const char match[] = "{\"host\":{\"exact\":\"a@\"}}";
    assert_int_equal(parse_list(faults, match, TRAFFIC_EXTERNAL_MAX, "]}]}]}}"), 0);
    assert_int_equal(parse_list(faults, match, TRAFFIC_EXTERNAL_MAX + 1, "]}]}]}}"), -E2BIG);
    static const char header[] =
        "{\"headers\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},"
        "{\"name\":\"d\"},{\"name\":\"e\"},{\"name\":\"f\"},{\"name\":\"g\"},"
        "{\"name\":\"h\"},{\"name\":\"i\"},{\"name\":\"j\"},{\"name\":\"k\"},"
        "{\"name\":\"l\"},{\"name\":\"m\"},{\"name\":\"n\"},{\"name\":\"o\"},"
        "{\"name\":\"p\"}]}";
    assert_int_equal(parse_list(faults, header, TRAFFIC_NAMES_MAX / 16, "]}]}]}}"), 0);
    assert_int_equal(
        parse_list(faults, header, TRAFFIC_NAMES_MAX / 16, "],\"resources\":[{}]}]}]}}"), -E2BIG);
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
         "\",\"pods\":\"\",\"limitings\":[" list "]}]")

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
                          "{\"name\":\"r\"," LIMITER ",\"resources\":[{\"apiGroups\":[\"*\"],"
                          "\"resources\":[\"*\"],\"verbs\":[\"*\"],\"namespaces\":[\"*\"]}]}")));
    assert_true(same(base, OF_UID("1", "p",
                                  "{\"name\":\"r\"," LIMITER
                                  ",\"urls\":[{\"url\":\"http://a\",\"method\":\"*\"}]}")));
    assert_false(same(base, OF_UID("1", "p", LIMITING(LIMITER ",\"maxInFlight\":1"))));
    assert_false(same(base, OF_UID("1", "p", LIMITING("\"trigger\":\"ForceOpened\"," BUCKET))));
    assert_false(same(base, OF_UID("1", "p",
                                   LIMITING("\"trigger\":\"LimiterOnly\",\"bucket\":"
                                            "{\"burst\":2,\"limit\":1,\"intervalMs\":10000}"))));
    assert_false(same(base, OF_UID("1", "p",
                                   LIMITING("\"trigger\":\"LimiterOnly\",\"bucket\":"
                                            "{\"burst\":1,\"limit\":2,\"intervalMs\":10000}"))));
    assert_false(same(base, OF_UID("1", "p",
                                   LIMITING("\"trigger\":\"LimiterOnly\",\"bucket\":"
                                            "{\"burst\":1,\"limit\":1,\"intervalMs\":9999}"))));
    static const char health[] = HEALTH("\"windowMs\":10,\"minimumRequests\":1,\"errorPercent\":1");
    assert_true(same(health, health));
    assert_false(same(health, HEALTH("\"windowMs\":11,\"minimumRequests\":1,\"errorPercent\":1")));
    assert_false(same(health, HEALTH("\"windowMs\":10,\"minimumRequests\":2,\"errorPercent\":1")));
    assert_false(same(health, HEALTH("\"windowMs\":10,\"minimumRequests\":1,\"errorPercent\":2")));
    assert_false(same(health, HEALTH("\"windowMs\":10,\"minimumRequests\":1,\"errorPercent\":1,"
                                     "\"halfOpen\":2")));
    assert_false(same(health, HEALTH("\"windowMs\":10,\"minimumRequests\":1,\"errorPercent\":1,"
                                     "\"slowMs\":2,\"slowPercent\":2")));
    static const char window[] =
        BREAKERS(LIMITING("\"trigger\":\"Normal\"," BUCKET
                          ",\"recover\":{\"type\":\"SleepingWindow\",\"windowMs\":5}"));
    assert_false(same(window, BREAKERS(LIMITING("\"trigger\":\"Normal\"," BUCKET
                                                ",\"recover\":{\"type\":\"Manual\"}"))));
    assert_false(same(
        window, BREAKERS(LIMITING("\"trigger\":\"Normal\"," BUCKET
                                  ",\"recover\":{\"type\":\"SleepingWindow\",\"windowMs\":6}"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_document),
        cmocka_unit_test(canonical),
        cmocka_unit_test(no_policies),
        cmocka_unit_test(refused),
        cmocka_unit_test(bounds),
        cmocka_unit_test(a_selector_at_the_bound),
        cmocka_unit_test(same_state),
        cmocka_unit_test(external_rules),
        cmocka_unit_test(bounds_of_external_rules),
        cmocka_unit_test(lengths_of_external_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
