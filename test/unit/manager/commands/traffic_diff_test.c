/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/traffic_diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static struct traffic *parse(unsigned generation, const char *spec)
{
    char text[8192];
    struct err e = ERR_INIT;
    (void)snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":"
        "\"ns\",\"name\":\"a\"},\"generation\":%u,\"spec\":{%s}}",
        generation, spec);
    struct traffic *t = traffic_parse(text, strlen(text), &e);
    if (t == NULL) {
        fail_msg("the test's own document: %s", e.msg);
    }
    return t;
}

#define BREAKER(name, more, rule)                                                                  \
    "\"breakers\":[{\"name\":\"" name "\"," more                                                   \
    "\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"a\"}},\"rateLimitings\":[{\"name\":\"r\"," \
    "\"triggerPolicy\":\"LimiterOnly\",\"resourceRules\":[{\"apiGroups\":[\"\"],\"resources\":["   \
    "\"pods\"],\"verbs\":[\"get\",\"list\"],\"namespaces\":[\"*\"]}]," rule "}]}}]"
#define BUCKET(limit) "\"bucket\":{\"burst\":1,\"limit\":" limit ",\"interval\":\"1s\"}"
#define FAULTS                                                                                     \
    "\"faults\":[{\"name\":\"f\",\"spec\":{\"selector\":{},\"httpFault\":[{\"name\":\"r\","        \
    "\"match\":{\"resources\":[{}]},\"delay\":{\"fixedDelay\":\"1ms\",\"percent\":\"0.5\"},"       \
    "\"effectiveTime\":{\"months\":[1,2],\"timeZone\":\"X\"}}]}}],\"zones\":{\"X\":\"XXX-1\"}"

static const char *unwanted = "none";

static bool wants(void *data, enum traffic_kind kind, const char *name)
{
    assert_ptr_equal(data, &unwanted);
    (void)kind;
    return strcmp(name, unwanted) != 0;
}

/* The caller frees. */
static char *diff(const struct traffic *before, const struct traffic *after, bool *equal)
{
    struct buf out = BUF_INIT(65536);
    *equal = traffic_diff(before, after, wants, &unwanted, &out);
    char *text = buf_take_str(&out);
    assert_non_null(text);
    return text;
}

static void expect(const char *before, const char *after, const char *want)
{
    struct traffic *a = before == NULL ? NULL : parse(3, before);
    struct traffic *b = after == NULL ? NULL : parse(1, after);
    bool equal = false;
    char *text = diff(a, b, &equal);
    const char *got = text;
    assert_int_equal(equal, strncmp(text, "---", 3) != 0);
    if (!equal) {
        got = strstr(text, "\n@@");
        assert_non_null(got);
        got++;
    }
    if (strncmp(got, want, strlen(want)) != 0) {
        fail_msg("wanted:\n%s\ngot:\n%s", want, text);
    }
    free(text);
    traffic_unref(a);
    traffic_unref(b);
}

static void differences(void **state)
{
    (void)state;
    expect(BREAKER("g", "", BUCKET("1")), BREAKER("g", "", BUCKET("2")) "," FAULTS,
           "@@ -1,7 +1,14 @@\n"
           " CircuitBreaker g:\n"
           "   rateLimitings r:\n"
           "-    bucket: burst 1, interval 1s, limit 1\n"
           "+    bucket: burst 1, interval 1s, limit 2\n"
           "     resourceRules: apiGroups \"\", namespaces *, resources pods, verbs get list\n"
           "     triggerPolicy: LimiterOnly\n"
           "   selector:\n"
           "     matchLabels: app a\n"
           "+FaultInjection f:\n"
           "+  httpFault r:\n"
           "+    delay: fixedDelay 1ms, percent 0.5\n"
           "+    effectiveTime: months 1 2, timeZone X (XXX-1)\n"
           "+    match:\n"
           "+      resources: {}\n"
           "+  selector: {}\n");
    expect(NULL, FAULTS, "@@ -0,0 +1,7 @@\n+FaultInjection f:\n");
    expect(FAULTS, NULL, "@@ -1,7 +0,0 @@\n-FaultInjection f:\n");
    expect(BREAKER("g", "\"reset\":{\"r\":\"1\"},", BUCKET("1")),
           BREAKER("g", "\"reset\":{\"r\":\"2\"},", BUCKET("1")),
           "@@ -3,6 +3,6 @@ rateLimitings r:\n"
           "     bucket: burst 1, interval 1s, limit 1\n"
           "     resourceRules: apiGroups \"\", namespaces *, resources pods, verbs get list\n"
           "     triggerPolicy: LimiterOnly\n"
           "-  recover r: 1\n"
           "+  recover r: 2\n");
}

/* Requests to other places; two rules of one name are told apart by their lists. */
static void external_rules(void **state)
{
    (void)state;
    expect(
        NULL,
        "\"breakers\":[{\"name\":\"g\",\"spec\":{\"selector\":{},\"rateLimitings\":[{\"name\":"
        "\"r\",\"triggerPolicy\":"
        "\"ForceOpened\",\"restRules\":[{\"url\":\"https://a.example/*\",\"method\":\"POST\"}]}],"
        "\"trafficInterceptRules\":[{\"name\":\"r\",\"interceptType\":\"Whitelist\","
        "\"contentType\":\"Normal\","
        "\"contents\":[\"a.example\",\"b.example:8443\"],\"methods\":[\"*\"]}]}}],"
        "\"faults\":[{\"name\":\"f\",\"spec\":{\"selector\":{},\"httpFault\":[{\"name\":\"r\","
        "\"delay\":{\"fixedDelay\":\"1ms\","
        "\"percent\":\"0.0002\"},\"match\":{\"httpMatch\":[{\"host\":{\"exact\":\"a.example\"},"
        "\"path\":{\"regex\":\"^/b\"},"
        "\"method\":\"PUT\",\"headers\":[{\"name\":\"X-A\",\"value\":\"b\"},{\"name\":\"X-B\"}]},"
        "{\"headers\":[{\"name\":\"X-C\"}]}]}}]}}]",
        "@@ -0,0 +1,17 @@\n"
        "+CircuitBreaker g:\n"
        "+  rateLimitings r:\n"
        "+    restRules: method POST, url https://a.example/*\n"
        "+    triggerPolicy: ForceOpened\n"
        "+  selector: {}\n"
        "+  trafficInterceptRules r:\n"
        "+    contentType: Normal\n"
        "+    contents: a.example b.example:8443\n"
        "+    interceptType: Whitelist\n"
        "+    methods: *\n"
        "+FaultInjection f:\n"
        "+  httpFault r:\n"
        "+    delay: fixedDelay 1ms, percent 0.0002\n"
        "+    match:\n"
        "+      httpMatch: headers {\"name\":\"X-A\",\"value\":\"b\"} {\"name\":\"X-B\"}, host "
        "{\"exact\":\"a.example\"}, method PUT, path {\"regex\":\"^/b\"}\n"
        "+      httpMatch: headers {\"name\":\"X-C\"}\n"
        "+  selector: {}\n");
}

/* What the API server gives to an object is in no file. */
static void what_says_the_same(void **state)
{
    (void)state;
    expect(BREAKER("g", "\"uid\":\"u\",\"specHash\":\"1\",", BUCKET("1")),
           BREAKER("g", "\"specHash\":\"2\",", BUCKET("1")),
           "ns/a traffic policies are unchanged\tgeneration 3, sha256:");
    expect(NULL, NULL, "");
}

static void names_of_both(void **state)
{
    (void)state;
    struct traffic *a = parse(3, FAULTS);
    struct traffic *b = parse(1, BREAKER("g", "", BUCKET("1")));
    bool equal = true;
    char want[512];
    char *text = diff(a, b, &equal);
    (void)snprintf(want, sizeof want,
                   "--- ns/a traffic policies\tgeneration 3, %s\n"
                   "+++ ns/a traffic policies\tgeneration 4, %s\n",
                   traffic_checksum(a), traffic_checksum(b));
    assert_int_equal(strncmp(text, want, strlen(want)), 0);
    assert_false(equal);
    free(text);
    traffic_unref(a);
    traffic_unref(b);
}

static void what_is_not_compared(void **state)
{
    (void)state;
    unwanted = "f";
    expect(BREAKER("g", "", BUCKET("1")) "," FAULTS, BREAKER("g", "", BUCKET("1")),
           "ns/a traffic policies are unchanged");
    expect(FAULTS, NULL, "");
    unwanted = "none";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences),    cmocka_unit_test(what_says_the_same),
        cmocka_unit_test(names_of_both),  cmocka_unit_test(what_is_not_compared),
        cmocka_unit_test(external_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
