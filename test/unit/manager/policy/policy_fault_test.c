/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "policy_case.h"
#include "temp_dir.h"
#include "traffic/match.h"
#include "traffic/traffic.h"
#include "zone_text.h"

#define SELECTOR " selector: {}\n"
#define PODS "match: {resources: [{resources: [pods]}]}"
#define DELAY "delay: {fixedDelay: 3s, percent: 10}"
#define ABORT "abort: {httpStatus: 503, percent: '0.5'}"
#define FAULT(fields) SELECTOR " httpFault:\n - {" fields "}\n"
#define NAMED(fields) FAULT("name: a, " fields)

#define MAX_FINDINGS 6

struct sample {
    const char *spec;
    const char *errors[MAX_FINDINGS];
    const char *warnings[MAX_FINDINGS];
};

static struct policy *read_spec(const char *spec, struct policy_findings *f)
{
    return policy_case_object(policy_case_text(TRAFFIC_FAULT_INJECTION, "slow", spec), f);
}

static void check_all(const struct sample *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct policy_findings f = POLICY_FINDINGS_INIT;
        struct policy *p = read_spec(all[i].spec, &f);
        print_message("%s", all[i].spec);
        policy_case_expect(&f.errors, "error", all[i].errors);
        policy_case_expect(&f.warnings, "warning", all[i].warnings);
        assert_int_equal(policy_valid(p), all[i].errors[0] == NULL);
        policy_unref(p);
        policy_findings_deinit(&f);
    }
}

/* What its document says of the one fault that it has. */
static struct traffic *document_of(const char *spec)
{
    struct policy_findings f = POLICY_FINDINGS_INIT;
    struct policy *p = read_spec(spec, &f);
    policy_case_expect(&f.errors, "error", (const char *const[]){NULL});
    struct traffic *t = policy_case_document(p);
    policy_unref(p);
    policy_findings_deinit(&f);
    return t;
}

static void expect_fault(const char *spec, uint64_t delay_ms, uint32_t delay_ppm, unsigned status,
                         uint32_t abort_ppm)
{
    struct traffic *t = document_of(spec);
    assert_int_equal(traffic_fault_count(t), 1);
    const struct traffic_fault *f = traffic_fault_at(t, 0);
    assert_int_equal(f->delay_ms, delay_ms);
    assert_int_equal(f->delay_ppm, delay_ppm);
    assert_int_equal(f->abort_status, status);
    assert_int_equal(f->abort_ppm, abort_ppm);
    traffic_unref(t);
}

/* The zone of its schedule, seconds east of UTC in winter; -1: it is always in effect. */
static void expect_schedule(const char *spec, int32_t zone, uint32_t start, uint32_t end)
{
    struct traffic *t = document_of(spec);
    const struct schedule *when = traffic_fault_at(t, 0)->when;
    assert_int_equal(when == NULL ? -1 : when->zone.standard, zone);
    if (when != NULL) {
        assert_int_equal(when->start, start);
        assert_int_equal(when->end, end);
    }
    traffic_unref(t);
}

static void test_entry(void **state)
{
    (void)state;
    expect_fault(FAULT("name: lists, " DELAY ", " ABORT ", match: {resources: [{apiGroups: ['', "
                       "apps], resources: [pods], verbs: [list], namespaces: [ns]}, {}]}"),
                 3000, 100000, 503, 5000);
}

/* KusionStack's: "0" is always, and none at all ends the proxy. */
static void test_k12_percent_0_or_absent_is_never(void **state)
{
    (void)state;
    static const struct sample never[] = {
        {NAMED("delay: {fixedDelay: 1s, percent: '0'}, " PODS),
         {NULL},
         {"spec.httpFault[0].delay.percent: is 0: no request is affected", NULL}},
        {NAMED("delay: {fixedDelay: 1s, percent: 0}, " PODS),
         {NULL},
         {"spec.httpFault[0].delay.percent: is 0: no request is affected", NULL}},
        {NAMED("delay: {fixedDelay: 1s}, " PODS),
         {NULL},
         {"spec.httpFault[0].delay.percent: is not set: no request is affected, write \"100\"",
          NULL}},
        {NAMED("abort: {httpStatus: 500}, " PODS),
         {NULL},
         {"spec.httpFault[0].abort.percent: is not set: no request is affected", NULL}},
    };
    check_all(never, ARRAY_LEN(never));
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        assert_null(document_of(never[i].spec));
    }
    /* What else the rule does stays. */
    expect_fault(NAMED("delay: {fixedDelay: 1s, percent: '0'}, " ABORT ", " PODS), 0, 0, 503, 5000);
}

static void test_percent(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        long ppm; /* -1: is refused */
    } all[] = {
        {"100", 1000000},
        {"'100'", 1000000},
        {"'100.000'", 1000000},
        {"1", 10000},
        {"'1'", 10000},
        {"'0.5'", 5000},
        {"'0.0001'", 1},
        {"'0.00000001'", 1},
        {"'33.3333'", 333333},
        {"'99.99999'", 999999},
        {"'099'", 990000},
        {"'100.0001'", -1},
        {"'100.0000001'", -1},
        {"101", -1},
        {"'101'", -1},
        {"-1", -1},
        {"'-1'", -1},
        {"0.5", -1},
        {"99.9999999", -1},
        {"1.0000000001", -1},
        {"''", -1},
        {"'.5'", -1},
        {"'5.'", -1},
        {"'1e1'", -1},
        {"'10%'", -1},
        {"' 10'", -1},
        {"'10 '", -1},
        {"'+10'", -1},
        {"'ten'", -1},
        {"true", -1},
        {"[10]", -1},
        {"1e300", -1},
        {"99999999999999999999", -1},
        {"'99999999999999999999'", -1},
        {"'NaN'", -1},
        {"1000000000000000128", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        char spec[256];
        (void)snprintf(spec, sizeof spec, NAMED("delay: {fixedDelay: 1s, percent: %s}, " PODS),
                       all[i].text);
        if (all[i].ppm < 0) {
            const struct sample s = {spec,
                                     {"spec.httpFault[0].delay.percent: Invalid value: must be a "
                                      "whole number from 0 to 100, or a text with a number, such "
                                      "as \"0.5\"",
                                      NULL},
                                     {NULL}};
            check_all(&s, 1);
        } else {
            expect_fault(spec, 1000, (uint32_t)all[i].ppm, 0, 0);
        }
    }
}

/* KusionStack's: without a match the proxy ends. */
static void test_k13_a_fault_needs_a_match(void **state)
{
    (void)state;
    static const char error[] = "spec.httpFault[0].match: Required value: must say in resources or "
                                "httpMatch which requests are meant";
    static const struct sample all[] = {
        {NAMED(DELAY), {error, NULL}, {NULL}},
        {NAMED(DELAY ", match: null"), {error, NULL}, {NULL}},
        {NAMED(DELAY ", match: {}"), {error, NULL}, {NULL}},
        {NAMED(DELAY ", match: {resources: [], httpMatch: []}"), {error, NULL}, {NULL}},
        {NAMED(DELAY ", match: pods"),
         {"spec.httpFault[0].match: Invalid value: must be an object", NULL},
         {NULL}},
        {NAMED(DELAY ", match: {resources: [{}]}"), {NULL}, {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

/* The first examples of KusionStack's, which its own definition does not take. */
static void test_a_match_of_the_first_examples(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {NAMED(DELAY ", match: [{method: POST, url: 'https://*.com/*/trafficOff'}]"),
         {"spec.httpFault[0].match: Invalid value: must be an object", NULL},
         {"spec.httpFault[0].match: of {method, url}, write httpMatch with method, host and path; "
          "of requests to the API server, write resources",
          NULL}},
        {NAMED(ABORT ", match: {relatedResources: [{resources: [pods], verbs: [delete]}]}"),
         {"spec.httpFault[0].match.relatedResources: Forbidden: unknown field",
          "spec.httpFault[0].match: Required value", NULL},
         {"spec.httpFault[0].match.relatedResources: write resources", NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

/* KusionStack's: days alone are as if there were no schedule, and what runs over midnight is never
 * in effect. */
static void test_k14_days_alone_and_ranges_over_midnight(void **state)
{
    (void)state;
    expect_schedule(NAMED(DELAY ", " PODS ", effectiveTime: {daysOfWeek: [1, 5, 1]}"), 0, 0,
                    24 * 3600 - 1);
    expect_schedule(NAMED(DELAY ", " PODS ", effectiveTime: {startTime: '22:00:00', endTime: "
                                "'06:00:00', daysOfMonth: [31], months: [12]}"),
                    0, 22 * 3600, 6 * 3600);
}

#define WHEN(fields) NAMED(DELAY ", " PODS ", effectiveTime: {" fields "}")
#define TIME "spec.httpFault[0].effectiveTime"

static void test_schedules(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {WHEN(""), {NULL}, {NULL}},
        {WHEN("startTime: '', endTime: '', timeZone: '', daysOfWeek: []"), {NULL}, {NULL}},
        {WHEN("startTime: '10:00:00'"),
         {TIME ".endTime: Required value: with startTime", NULL},
         {NULL}},
        {WHEN("endTime: '10:00:00'"),
         {TIME ".startTime: Required value: with endTime", NULL},
         {NULL}},
        {WHEN("startTime: '24:00:00', endTime: '9:00:00'"),
         {TIME ".startTime: Invalid value: \"24:00:00\": must be a time from \"00:00:00\" to "
               "\"23:59:59\"",
          TIME ".endTime: Invalid value: \"9:00:00\"", NULL},
         {NULL}},
        {WHEN("startTime: 36000, endTime: '11:00:00'"),
         {TIME ".startTime: Invalid value: must be a string", NULL},
         {NULL}},
        {WHEN("daysOfWeek: [7, -1, 1.5, '1']"),
         {TIME ".daysOfWeek[0]: Invalid value: must be a whole number from 0 to 6",
          TIME ".daysOfWeek[1]: Invalid value", TIME ".daysOfWeek[2]: Invalid value",
          TIME ".daysOfWeek[3]: Invalid value", NULL},
         {NULL}},
        {WHEN("daysOfMonth: [0, 32], months: [0, 13]"),
         {TIME ".daysOfMonth[0]: Invalid value: must be a whole number from 1 to 31",
          TIME ".daysOfMonth[1]: Invalid value",
          TIME ".months[0]: Invalid value: must be a whole number from 1 to 12",
          TIME ".months[1]: Invalid value", NULL},
         {NULL}},
        {WHEN("daysOfWeek: 1"),
         {TIME ".daysOfWeek: Invalid value: must be an array", NULL},
         {NULL}},
        {WHEN("daysOfMonth: [30, 31], months: [2]"),
         {NULL},
         {TIME ".daysOfMonth: none of these months has such a day: never in effect", NULL}},
        {WHEN("daysOfMonth: [31], months: [2, 4, 6, 9, 11]"),
         {NULL},
         {TIME ".daysOfMonth: none of these months has such a day", NULL}},
        {WHEN("daysOfMonth: [29, 31], months: [2]"), {NULL}, {NULL}},
        {WHEN("daysOfMonth: [31], months: [2, 12]"), {NULL}, {NULL}},
        {WHEN("dayOfWeek: [1]"),
         {TIME ".dayOfWeek: Forbidden: unknown field; is \"daysOfWeek\" meant?", NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

static void write_zone(const struct temp_dir *d, const char *name,
                       const struct zone_change *changes, size_t count, const char *rule)
{
    static const int32_t offsets[] = {3600, 0};
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    char path[256];
    zone_text(&text, changes, count, offsets, ARRAY_LEN(offsets), rule);
    assert_int_equal(
        file_write_atomic(temp_dir_path(d, name, path), buf_data(&text), text.len, 0644, &e), 0);
    buf_reset(&text);
}

static void test_time_zones(void **state)
{
    static const struct zone_change moon[] = {{POLICY_CASE_NOW + 1000, 1},
                                              {POLICY_CASE_NOW + 2000, 0}};
    static const struct sample all[] = {
        {WHEN("timeZone: Berlin, daysOfWeek: [1]"), {NULL}, {NULL}},
        {WHEN("timeZone: Atlantis"),
         {TIME ".timeZone: Invalid value: \"Atlantis\": is not in the zone database (/tmp/", NULL},
         {NULL}},
        {WHEN("timeZone: ../Berlin"),
         {TIME ".timeZone: Invalid value: \"../Berlin\": must be a name of the IANA zone database",
          NULL},
         {NULL}},
        {WHEN("timeZone: CET-1CEST"),
         {TIME ".timeZone: Invalid value: \"CET-1CEST\": is not in the zone database", NULL},
         {NULL}},
        {WHEN("timeZone: Moon, daysOfWeek: [1]"),
         {NULL},
         {TIME ".timeZone: clocks of Moon do not follow one rule: from 2026-11-25T", NULL}},
        {WHEN("timeZone: Broken"),
         {TIME ".timeZone: Invalid value: \"Broken\": is no time zone", NULL},
         {NULL}},
    };
    struct temp_dir dir;
    (void)state;
    temp_dir_init(&dir);
    write_zone(&dir, "Berlin", NULL, 0, "CET-1CEST,M3.5.0,M10.5.0/3");
    write_zone(&dir, "Moon", moon, ARRAY_LEN(moon), "<+01>-1");
    temp_dir_write(&dir, "Broken", "#", 0644);
    policy_case_options.zones = dir.path;
    check_all(all, ARRAY_LEN(all));
    expect_schedule(WHEN("timeZone: Berlin, daysOfWeek: [1]"), 3600, 0, 24 * 3600 - 1);
    /* Always is always in any zone. */
    expect_schedule(WHEN("timeZone: Berlin"), -1, 0, 0);
    policy_case_options.zones = "/nonexistent";
    temp_dir_deinit(&dir);
    static const struct sample none = {
        WHEN("timeZone: Europe/Berlin"),
        {TIME ".timeZone: Invalid value: \"Europe/Berlin\": is not known here: there is no zone "
              "database in /nonexistent, which Debian's package tzdata has",
         NULL},
        {NULL}};
    check_all(&none, 1);
}

static void test_delays_and_aborts(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {NAMED(PODS), {"spec.httpFault[0].delay: Required value: this, or abort", NULL}, {NULL}},
        {NAMED("delay: {percent: 1}, " PODS),
         {"spec.httpFault[0].delay.fixedDelay: Required value", NULL},
         {NULL}},
        {NAMED("delay: 3s, " PODS),
         {"spec.httpFault[0].delay: Invalid value: must be an object", NULL},
         {NULL}},
        {NAMED("delay: {fixedDelay: '3', percent: 1}, " PODS),
         {"spec.httpFault[0].delay.fixedDelay: Invalid value: \"3\": must be a duration", NULL},
         {NULL}},
        {NAMED("delay: {fixedDelay: 999us, percent: 1}, " PODS),
         {"spec.httpFault[0].delay.fixedDelay: Invalid value: \"999us\": must be from 1ms to 10m",
          NULL},
         {NULL}},
        {NAMED("delay: {fixedDelay: 10m1ms, percent: 1}, " PODS),
         {"spec.httpFault[0].delay.fixedDelay: Invalid value: \"10m1ms\"", NULL},
         {NULL}},
        {NAMED("delay: {fixedDelay: 1ms, percent: 1}, " PODS), {NULL}, {NULL}},
        {NAMED("delay: {fixedDelay: 10m, percent: 1}, " PODS), {NULL}, {NULL}},
        {NAMED("abort: {percent: 1}, " PODS),
         {"spec.httpFault[0].abort.httpStatus: Required value", NULL},
         {NULL}},
        {NAMED("abort: {httpStatus: 0, percent: 1}, " PODS),
         {NULL},
         {"spec.httpFault[0].abort.httpStatus: is 0: no request is aborted", NULL}},
        {NAMED("abort: {httpStatus: 200, percent: 1}, " PODS),
         {NULL},
         {"spec.httpFault[0].abort.httpStatus: is 200: no request is aborted", NULL}},
        {NAMED("abort: {httpStatus: 399, percent: 1}, " PODS),
         {"spec.httpFault[0].abort.httpStatus: Invalid value: must be a whole number from 400 to "
          "599",
          NULL},
         {NULL}},
        {NAMED("abort: {httpStatus: 600, percent: 1}, " PODS),
         {"spec.httpFault[0].abort.httpStatus: Invalid value", NULL},
         {NULL}},
        {NAMED("abort: {httpStatus: 200.5, percent: 1}, " PODS),
         {"spec.httpFault[0].abort.httpStatus: Invalid value", NULL},
         {NULL}},
        {NAMED("abort: {httpStatus: '503', percent: 1}, " PODS),
         {"spec.httpFault[0].abort.httpStatus: Invalid value", NULL},
         {NULL}},
        {NAMED("abort: {httpStatus: 400, percent: 1}, " PODS), {NULL}, {NULL}},
        {NAMED("abort: {httpStatus: 599, percent: 1}, " PODS), {NULL}, {NULL}},
        {NAMED(DELAY ", match: {resources: [{resources: [leases]}]}"),
         {NULL},
         {"spec.httpFault[0].match.resources: names leases", NULL}},
        {NAMED(DELAY ", match: {resources: [{resource: [pods]}]}"),
         {"spec.httpFault[0].match.resources[0].resource: Forbidden: unknown field; is "
          "\"resources\" meant?",
          NULL},
         {NULL}},
        {SELECTOR " disabled: 'yes'\n",
         {"spec.disabled: Invalid value: must be true or false", NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

/* Without names two would be one in KusionStack's. */
static void test_names(void **state)
{
    (void)state;
    static const struct sample all[] = {
        {FAULT(DELAY ", " PODS) " - {" ABORT ", " PODS "}\n",
         {NULL},
         {"spec.httpFault[0].name: is not set: it is called httpFault-0",
          "spec.httpFault[1].name: is not set: it is called httpFault-1", NULL}},
        {FAULT("name: httpFault-1, " DELAY ", " PODS) " - {" ABORT ", " PODS "}\n",
         {"spec.httpFault[1].name: Duplicate value: \"httpFault-1\"", NULL},
         {"spec.httpFault[1].name: is not set", NULL}},
        {FAULT("name: a, " DELAY ", " PODS) " - {name: a, " ABORT ", " PODS "}\n",
         {"spec.httpFault[1].name: Duplicate value: \"a\"", NULL},
         {NULL}},
        {FAULT("name: 1, " DELAY ", " PODS),
         {"spec.httpFault[0].name: Invalid value: must be a string", NULL},
         {NULL}},
    };
    check_all(all, ARRAY_LEN(all));
}

#define HTTP(match) NAMED(DELAY ", match: {httpMatch: [" match "]}")

static void test_http_matches(void **state)
{
    (void)state;
    static const char external[] = "spec: 1 rule is for requests to other places";
    static const char blind[] = "spec: rule \"a\": nobody sees paths, methods and headers";
    static const struct sample all[] = {
        {HTTP("{host: {exact: a.example}, path: {regex: '^/v1/.*'}, method: GET, headers: [{name: "
              "X-A, value: b}, {name: X-B}, {name: X-C, value: ''}]}"),
         {NULL},
         {external, blind, NULL}},
        {HTTP("{host: {regex: '^a'}}, {host: {exact: b}, method: CONNECT}"),
         {NULL},
         {external, NULL}},
        {HTTP("{host: {exact: a}, method: GET}"), {NULL}, {external, blind, NULL}},
        {HTTP("{method: '*'}"), {NULL}, {external, NULL}},
        {HTTP("{headers: [{name: a}]}"), {NULL}, {external, blind, NULL}},
        {HTTP("{host: {exact: a, regex: b}}"),
         {NULL},
         {"spec.httpFault[0].match.httpMatch[0].host.regex: is not used beside exact", external,
          NULL}},
        {HTTP("{}"),
         {"spec.httpFault[0].match.httpMatch[0]: Required value: host, path, method or headers",
          NULL},
         {external, NULL}},
        {HTTP("{host: {exact: 'a/b'}, path: {exact: a}, headers: [{name: a, value: ' b'}]}"),
         {"spec.httpFault[0].match.httpMatch[0].host.exact: Invalid value: \"a/b\": must be a host",
          "spec.httpFault[0].match.httpMatch[0].path.exact: Invalid value: \"a\": must begin with "
          "\"/\"",
          "spec.httpFault[0].match.httpMatch[0].headers[0].value: Invalid value: \" b\": must have "
          "no control characters",
          NULL},
         {external, blind, NULL}},
        {HTTP("{host: {}, path: {regex: '('}, method: get, headers: [{value: a}, {name: 'a b'}]}"),
         {"spec.httpFault[0].match.httpMatch[0].host: Required value: write exact or regex",
          "spec.httpFault[0].match.httpMatch[0].path.regex: Invalid value: \"(\"",
          "spec.httpFault[0].match.httpMatch[0].method: Invalid value: \"get\"",
          "spec.httpFault[0].match.httpMatch[0].headers[0].name: Required value",
          "spec.httpFault[0].match.httpMatch[0].headers[1].name: Invalid value: \"a b\"", NULL},
         {external, blind, NULL}},
        {NAMED("delay: {fixedDelay: 1s, percent: 0}, match: {httpMatch: [{method: GET}]}"),
         {NULL},
         {"spec.httpFault[0].delay.percent: is 0: no request is affected", NULL}},
    };
    check_all(all, ARRAY_LEN(all));
    assert_null(document_of(all[9].spec));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_k12_percent_0_or_absent_is_never),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_k13_a_fault_needs_a_match),
        cmocka_unit_test(test_a_match_of_the_first_examples),
        cmocka_unit_test(test_k14_days_alone_and_ranges_over_midnight),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_time_zones),
        cmocka_unit_test(test_delays_and_aborts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_http_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
