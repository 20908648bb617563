/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/policy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "schema/openapi.h"
#include "json/json.h"

struct reading {
    struct traffic_reading x;
    cJSON *tree;
    struct traffic_spec spec;
    char findings[4096]; /* a line each: "E ..." or "W ..." */
};

static void on_finding(void *data, bool error, const char *text)
{
    struct reading *r = data;
    size_t used = strlen(r->findings);
    (void)snprintf(r->findings + used, sizeof r->findings - used, "%s%s\n", error ? "E " : "W ",
                   text);
}

/* One more spec, with what is counted so far. */
static int read_more(struct reading *r, enum traffic_kind kind, const char *text)
{
    struct err e = ERR_INIT;
    cJSON_Delete(r->tree);
    r->tree = json_parse(text, strlen(text), &e);
    if (r->tree == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    struct schema_reader reader = traffic_reader(&r->x);
    const struct schema_path at = SCHEMA_AT(NULL, "spec", r->tree);
    r->spec = (struct traffic_spec){0};
    int rc = schema_read(&reader,
                         kind == TRAFFIC_BREAKER ? &circuit_breaker_spec : &fault_injection_spec,
                         &at, &r->spec);
    if (rc != 0 && r->x.on_finding == NULL) {
        on_finding(r, true, reader.first.msg);
    }
    return rc;
}

static int read_one(struct reading *r, enum traffic_kind kind, const char *text, bool collect)
{
    *r = (struct reading){.x = {.on_finding = collect ? on_finding : NULL, .data = r}};
    return read_more(r, kind, text);
}

static void end(struct reading *r)
{
    traffic_reading_deinit(&r->x);
    cJSON_Delete(r->tree);
}

#define ROWS                                                                                       \
    "\"resourceRules\":[{\"apiGroups\":[\"\",null],\"resources\":[\"pods\",\"*/scale\"],"          \
    "\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]}]"
#define BUCKET "\"bucket\":{\"burst\":3,\"limit\":2,\"interval\":\"1.5s\"}"
#define HEALTH                                                                                     \
    "\"healthPolicy\":{\"window\":\"10s\",\"minimumRequests\":20,\"errorPercent\":50,"             \
    "\"slowCallDuration\":\"2s\",\"slowCallPercent\":80}"
#define BREAKER                                                                                    \
    "{\"selector\":{\"matchLabels\":{\"app\":\"a\"}},\"rateLimitings\":["                          \
    "{\"name\":\"a\",\"triggerPolicy\":\"Normal\"," ROWS "," BUCKET                                \
    ",\"recoverPolicy\":{\"type\":\"SleepingWindow\",\"sleepingWindowSize\":\"1m\"}},"             \
    "{\"name\":\"b\",\"triggerPolicy\":\"Health\"," HEALTH "," BUCKET                              \
    ",\"restRules\":[{\"url\":\"https://a/*\",\"method\":\"*\"}],\"maxInFlight\":4},"              \
    "{\"name\":\"c\",\"triggerPolicy\":\"ForceOpened\"," ROWS "," BUCKET                           \
    ",\"recoverPolicy\":{\"type\":\"SleepingWindow\",\"sleepingWindowSize\":\"1m\"}}],"            \
    "\"trafficInterceptRules\":[{\"name\":\"a\",\"interceptType\":\"Blacklist\","                  \
    "\"contentType\":\"Regexp\",\"contents\":[\"^a$\",\"b\"],\"methods\":[\"GET\",\"*\"]}]}"

static void a_breaker(void **state)
{
    (void)state;
    static const struct traffic_health none;
    struct reading r;
    assert_int_equal(read_one(&r, TRAFFIC_BREAKER, BREAKER, true), 0);
    assert_string_equal(r.findings, "");
    assert_int_equal(r.spec.limitings.count, 3);
    const struct traffic_limiting *l = r.spec.limitings.items;
    assert_string_equal(l[0].name, "a");
    assert_int_equal(l[0].trigger, TRAFFIC_NORMAL);
    assert_true(l[0].has_bucket);
    assert_int_equal(l[0].bucket.burst, 3);
    assert_int_equal(l[0].bucket.limit, 2);
    assert_int_equal(l[0].bucket.interval_ms, 1500);
    assert_int_equal(l[0].recover, TRAFFIC_SLEEPING_WINDOW);
    assert_int_equal(l[0].window_ms, 60000);
    assert_memory_equal(&l[0].health, &none, sizeof none);
    const struct traffic_resource_rule *rows = l[0].resources.items;
    assert_int_equal(l[0].resources.count, 1);
    assert_string_equal(rows[0].groups.items[1], ""); /* null */
    assert_string_equal(rows[0].resources.items[1], "*/scale");
    assert_int_equal(l[1].trigger, TRAFFIC_HEALTH);
    assert_false(l[1].has_bucket); /* not used */
    assert_int_equal(l[1].max_in_flight, 4);
    assert_int_equal(l[1].recover, TRAFFIC_MANUAL);
    assert_int_equal(l[1].health.slow_ms, 2000);
    assert_int_equal(l[1].health.half_open, 1);
    assert_string_equal(((const struct traffic_rest_rule *)l[1].urls.items)[0].url, "https://a/*");
    assert_false(l[2].has_bucket);
    assert_int_equal(l[2].recover, TRAFFIC_MANUAL);
    assert_int_equal(l[2].window_ms, 0);
    const struct traffic_intercept *x = r.spec.intercepts.items;
    assert_int_equal(x[0].type, TRAFFIC_BLACKLIST);
    assert_true(x[0].any_method);
    assert_non_null(x[0].patterns[1]);
    assert_non_null(r.spec.pods);
    end(&r);
}

#define FAULT(fields) "{\"httpFault\":[{" fields "}]}"
#define PODS "\"match\":{\"resources\":[{\"resources\":[\"pods\"]}]}"
#define DELAY "\"delay\":{\"fixedDelay\":\"3s\",\"percent\":\"0.5\"}"

static void a_fault_injection(void **state)
{
    (void)state;
    struct reading r;
    assert_int_equal(
        read_one(&r, TRAFFIC_FAULT_INJECTION,
                 FAULT(DELAY ",\"abort\":{\"httpStatus\":200,\"percent\":5},\"match\":{"
                             "\"httpMatch\":[{\"host\":{\"exact\":\"A.example:80\",\"regex\":\"(\"}"
                             ",\"path\":{\"regex\":\"^/a\"},\"headers\":[{\"name\":\"X\"}]}]},"
                             "\"effectiveTime\":{\"startTime\":\"22:00:00\",\"endTime\":"
                             "\"06:00:00\",\"daysOfWeek\":[1,5,1],\"timeZone\":\"Europe/Berlin\"}"),
                 true),
        0);
    assert_string_equal(r.findings, "");
    assert_int_equal(r.spec.faults.count, 1);
    const struct traffic_fault *f = r.spec.faults.items;
    assert_string_equal(f->name, "httpFault-0");
    assert_int_equal(f->delay_ms, 3000);
    assert_int_equal(f->delay_ppm, 5000);
    assert_int_equal(f->abort_status, 0); /* 200 switches it off */
    assert_true(traffic_fault_acts(f));
    const struct traffic_http *h = f->http.items;
    assert_string_equal(h->host.exact, "A.example:80");
    assert_null(h->host.pattern); /* not used beside exact */
    assert_non_null(h->path.pattern);
    assert_string_equal(((const struct traffic_header *)h->headers.items)->value, "");
    assert_int_equal(f->time->schedule.start, 79200);
    assert_int_equal(f->time->schedule.end, 21600);
    assert_int_equal(f->time->schedule.days_of_week, 1 << 1 | 1 << 5);
    assert_string_equal(f->time->zone, "Europe/Berlin");
    assert_non_null(r.spec.pods); /* of no pod */
    end(&r);
    assert_int_equal(read_one(&r, TRAFFIC_FAULT_INJECTION,
                              FAULT("\"delay\":{\"fixedDelay\":\"3s\"}," PODS), true),
                     0);
    assert_false(traffic_fault_acts(r.spec.faults.items));
    end(&r);
}

/* Those that concern several fields; policies of manager have the rest. */
static void what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        enum traffic_kind kind;
        const char *spec;
        const char *findings; /* when all are collected */
    } rows[] = {
        {TRAFFIC_BREAKER, "{\"rateLimitings\":[{\"name\":\"a\",\"triggerPolicy\":\"Normal\"}]}",
         "E spec.rateLimitings[0].resourceRules: Required value: this, or restRules\n"
         "E spec.rateLimitings[0].bucket: Required value: with triggerPolicy Normal\n"},
        {TRAFFIC_BREAKER,
         "{\"rateLimitings\":[{\"name\":\"a\",\"triggerPolicy\":\"ForceOpened\"," ROWS
         ",\"properties\":{\"a\":[]}}]}",
         "E spec.rateLimitings[0].properties: Invalid value: must be an object of strings\n"},
        {TRAFFIC_BREAKER,
         "{\"trafficInterceptRules\":[{\"name\":\"a\",\"interceptType\":\"White\",\"contentType\":"
         "\"Regexp\",\"contents\":[\"(\",\"\",\"a\",\"a\"],\"methods\":[]}]}",
         "E spec.trafficInterceptRules[0].interceptType: Unsupported value: \"White\": supported "
         "values: \"Whitelist\", \"Blacklist\"; write \"Whitelist\"\n"
         "E spec.trafficInterceptRules[0].contents[3]: Duplicate value: \"a\"\n"
         "E spec.trafficInterceptRules[0].methods: Required value: must have at least 1 entry\n"
         "E spec.trafficInterceptRules[0].contents[0]: Invalid value: \"(\": must be a regular "
         "expression: at offset 1: missing closing parenthesis\n"
         "E spec.trafficInterceptRules[0].contents[1]: Invalid value: \"\": must not be empty\n"},
        {TRAFFIC_BREAKER, "{\"selector\":{\"matchLabel\":{}}}",
         "E spec.selector.matchLabel: Forbidden: unknown field; is \"matchLabels\" meant?\n"},
        {TRAFFIC_FAULT_INJECTION, FAULT(DELAY ",\"match\":{}"),
         "E spec.httpFault[0].match: Required value: must say in resources or httpMatch which "
         "requests are meant\n"},
        {TRAFFIC_FAULT_INJECTION, FAULT(PODS),
         "E spec.httpFault[0].delay: Required value: this, or abort\n"},
        {TRAFFIC_FAULT_INJECTION,
         FAULT("\"name\":\"httpFault-1\"," DELAY "," PODS "},{" DELAY "," PODS),
         "E spec.httpFault[1].name: Duplicate value: \"httpFault-1\"\n"},
        {TRAFFIC_FAULT_INJECTION,
         FAULT(DELAY "," PODS ",\"effectiveTime\":{\"startTime\":\"01:00:00\"}"),
         "E spec.httpFault[0].effectiveTime.endTime: Required value: with startTime\n"},
        {TRAFFIC_FAULT_INJECTION, FAULT("\"abort\":{\"httpStatus\":399,\"percent\":1}," PODS),
         "E spec.httpFault[0].abort.httpStatus: Invalid value: must be a whole number from 400 to "
         "599, or 0 or 200 for none\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reading r;
        char first[512];
        assert_true(read_one(&r, rows[i].kind, rows[i].spec, true) < 0);
        assert_string_equal(r.findings, rows[i].findings);
        (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(r.findings, "\n") + 1, r.findings);
        end(&r);
        assert_true(read_one(&r, rows[i].kind, rows[i].spec, false) < 0);
        assert_string_equal(r.findings, first);
        end(&r);
    }
}

/* Of all that is read, one after the other. */
static void bounds_in_all(void **state)
{
    (void)state;
    struct reading r;
    struct buf text = BUF_INIT(1 << 20);
    (void)buf_append_str(&text, "{\"trafficInterceptRules\":[{\"name\":\"a\",\"interceptType\":"
                                "\"Blacklist\",\"contentType\":\"Regexp\",\"methods\":[\"*\"],"
                                "\"contents\":[\"a\"");
    for (size_t i = 1; i < TRAFFIC_PATTERNS_MAX; i++) {
        (void)buf_printf(&text, ",\"a%zu\"", i);
    }
    (void)buf_append_str(&text, "]}]}");
    assert_int_equal(read_one(&r, TRAFFIC_BREAKER, buf_cstr(&text), false), 0);
    assert_int_equal(r.x.counts.of[TRAFFIC_BOUND_PATTERNS], TRAFFIC_PATTERNS_MAX);
    assert_int_equal(r.x.counts.of[TRAFFIC_BOUND_NAMES], TRAFFIC_PATTERNS_MAX + 1);
    assert_int_equal(read_more(&r, TRAFFIC_FAULT_INJECTION,
                               FAULT(DELAY ",\"match\":{\"httpMatch\":[{\"path\":{\"regex\":"
                                           "\"a\"}}]}")),
                     -E2BIG);
    assert_string_equal(r.findings, "E spec.httpFault[0].match.httpMatch[0].path.regex: Too many: "
                                    "must have at most 256 regular expressions in all\n");
    end(&r);
    assert_int_equal(read_one(&r, TRAFFIC_BREAKER, "{}", true), 0);
    for (size_t i = 1; i < TRAFFIC_POLICIES_MAX; i++) {
        assert_int_equal(read_more(&r, TRAFFIC_BREAKER, "{}"), 0);
    }
    assert_int_equal(read_more(&r, TRAFFIC_BREAKER, "{}"), -E2BIG);
    assert_int_equal(read_more(&r, TRAFFIC_BREAKER, "{}"), 0); /* once is enough */
    end(&r);
    buf_reset(&text);
}

static void sums_of_counts(void **state)
{
    (void)state;
    struct traffic_counts sum = {{[TRAFFIC_BOUND_PATTERNS] = TRAFFIC_PATTERNS_MAX - 1}};
    struct traffic_counts more = {{[TRAFFIC_BOUND_NAMES] = 5, [TRAFFIC_BOUND_PATTERNS] = 2}};
    assert_false(traffic_counts_add(&sum, &more));
    assert_int_equal(sum.of[TRAFFIC_BOUND_NAMES], 0);
    more.of[TRAFFIC_BOUND_PATTERNS] = 1;
    assert_true(traffic_counts_add(&sum, &more));
    assert_int_equal(sum.of[TRAFFIC_BOUND_NAMES], 5);
}

static bool read_whole(void *data)
{
    struct reading *r = data;
    struct reading own = {.x = {.on_finding = on_finding, .data = &own}};
    struct schema_reader reader = traffic_reader(&own.x);
    const struct schema_path at = SCHEMA_AT(NULL, "spec", r->tree);
    int rc = schema_read(&reader, &circuit_breaker_spec, &at, &own.spec);
    traffic_reading_deinit(&own.x);
    assert_true(rc == 0 || rc == -ENOMEM);
    assert_string_equal(own.findings, "");
    return rc == 0;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    struct reading r;
    assert_int_equal(read_one(&r, TRAFFIC_BREAKER, BREAKER, true), 0);
    assert_true(sweep_allocations(read_whole, &r) >= 20);
    end(&r);
}

/* What a CustomResourceDefinition needs in particular. */
static void rows_as_a_schema(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "required: [selector]\n",
        "x-kubernetes-list-map-keys: [name]\n",
        "pattern: '^[^:\"[:cntrl:]]+$'\n",
        "nullable: true\n",
        "maxLength: 2048\n",
    };
    struct buf out = BUF_INIT(1 << 20);
    schema_write_openapi(&circuit_breaker_spec, 0, &out);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        assert_non_null(strstr(buf_cstr(&out), parts[i]));
    }
    buf_clear(&out);
    schema_write_openapi(&fault_injection_spec, 0, &out);
    assert_null(strstr(buf_cstr(&out), "list-map-keys")); /* names may be absent */
    assert_null(strstr(buf_cstr(&out), "required: [selector]"));
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_breaker),        cmocka_unit_test(a_fault_injection),
        cmocka_unit_test(what_is_wrong),    cmocka_unit_test(bounds_in_all),
        cmocka_unit_test(sums_of_counts),   cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(rows_as_a_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
