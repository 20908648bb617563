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
#include "base/file.h"
#include "policy_case.h"

#define HEAD "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: %s\nmetadata:\n"
#define SPEC                                                                                       \
    "spec:\n selector: {matchLabels: {app: demo}}\n rateLimitings:\n"                              \
    " - {name: a, triggerPolicy: Normal, bucket: {burst: 1, limit: 1, interval: 1s}, "             \
    "resourceRules: [{apiGroups: [''], resources: [pods], verbs: ['*'], namespaces: [a]}]}\n"

static struct policy *read_object(const char *kind, const char *meta, const char *spec)
{
    char text[4096];
    (void)snprintf(text, sizeof text, HEAD "%s%s", kind, meta, spec);
    return policy_case_object(text, NULL);
}

static void test_metadata(void **state)
{
    (void)state;
    struct policy *p =
        read_object("CircuitBreaker",
                    "  name: guard\n  namespace: ns\n  uid: u-1\n  generation: 7\n"
                    "  creationTimestamp: 2026-01-02T03:04:05Z\n"
                    "  finalizers: [a/b, finalizer.ctrlmesh.kusionstack.io/protected]\n",
                    SPEC);
    assert_true(policy_valid(p));
    assert_int_equal(policy_kind(p), TRAFFIC_BREAKER);
    assert_string_equal(policy_name(p), "guard");
    assert_string_equal(policy_namespace(p), "ns");
    assert_string_equal(policy_uid(p), "u-1");
    assert_string_equal(policy_created(p), "2026-01-02T03:04:05Z");
    assert_int_equal(policy_generation(p), 7);
    assert_true(policy_has_finalizer(p));
    assert_false(policy_deleting(p));
    assert_false(policy_disabled(p));
    assert_non_null(policy_selector(p));
    assert_int_equal(policy_rules(p), 1);
    assert_int_equal(policy_external_rules(p), 0);
    assert_ptr_equal(policy_ref(p), p);
    policy_unref(p);
    policy_unref(p);
}

static void test_what_needs_no_valid_spec(void **state)
{
    (void)state;
    struct policy *p =
        read_object("CircuitBreaker",
                    "  name: guard\n  uid: u-1\n  deletionTimestamp: 2026-01-02T03:04:05Z\n"
                    "  finalizers: [finalizer.ctrlmesh.kusionstack.io/protected]\n"
                    "  labels: {circuitbreaker.ctrlmesh.kusionstack.io/disable: ''}\n",
                    "spec: {selector: 5, rateLimitings: {}}\n");
    assert_false(policy_valid(p));
    assert_null(policy_entry(p));
    assert_null(policy_selector(p));
    assert_true(policy_has_finalizer(p));
    assert_true(policy_deleting(p));
    assert_true(policy_disabled(p));
    assert_string_equal(policy_uid(p), "u-1");
    policy_unref(p);
}

/* What cannot be a generation is none. */
static void test_generations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t generation;
    } all[] = {{"9007199254740992", INT64_C(1) << 53}, {"1e300", 0}, {"-1", 0}, {"'7'", 0}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        char meta[64];
        (void)snprintf(meta, sizeof meta, "  name: a\n  generation: %s\n", all[i].text);
        struct policy *p = read_object("CircuitBreaker", meta, SPEC);
        assert_int_equal(policy_generation(p), all[i].generation);
        policy_unref(p);
    }
}

static void test_disabled(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        const char *meta;
        const char *spec;
        bool disabled;
    } all[] = {
        {"CircuitBreaker", "  labels: {circuitbreaker.ctrlmesh.kusionstack.io/disable: 'false'}\n",
         "spec: {}\n", true},
        {"CircuitBreaker", "  labels: {faultinjection.ctrlmesh.kusionstack.io/disable: 'true'}\n",
         "spec: {disabled: true}\n", false},
        {"FaultInjection", "  labels: {faultinjection.ctrlmesh.kusionstack.io/disable: ''}\n",
         "spec: {}\n", true},
        {"FaultInjection", "", "spec: {disabled: true}\n", true},
        {"FaultInjection", "", "spec: {disabled: false}\n", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        char meta[256];
        (void)snprintf(meta, sizeof meta, "  name: a\n%s", all[i].meta);
        struct policy *p = read_object(all[i].kind, meta, all[i].spec);
        assert_int_equal(policy_disabled(p), all[i].disabled);
        policy_unref(p);
    }
}

/* Of the spec alone, however it is written. */
static void test_spec_hash(void **state)
{
    (void)state;
    struct policy *a = read_object("FaultInjection", "  name: a\n", "spec: {a: 1, b: 2}\n");
    struct policy *b = read_object("FaultInjection", "  name: b\n", "spec:\n  b: 2\n  a: 1\n");
    struct policy *c = read_object("FaultInjection", "  name: a\n", "spec: {a: 1, b: 3}\n");
    assert_int_equal(strlen(policy_spec_hash(a)), POLICY_SPEC_HASH_LEN);
    assert_string_equal(policy_spec_hash(a), policy_spec_hash(b));
    assert_string_not_equal(policy_spec_hash(a), policy_spec_hash(c));
    policy_unref(a);
    policy_unref(b);
    policy_unref(c);
}

static void test_other_objects(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *error;
    } all[] = {
        {"apiVersion: v1\nkind: CircuitBreaker\nmetadata: {name: a}\nspec: {selector: {}}\n",
         "apiVersion: Unsupported value: \"v1\""},
        {"kind: CircuitBreaker\nmetadata: {name: a}\nspec: {selector: {}}\n",
         "apiVersion: Required value"},
        {"apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\nspec: {selector: {}}"
         "\n",
         "metadata: Required value"},
        {"apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\nmetadata: {name: A_b}"
         "\nspec: {selector: {}}\n",
         "metadata.name: Invalid value: \"A_b\""},
        {"apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\nmetadata: {name: a, "
         "namespace: N_a}\nspec: {selector: {}}\n",
         "metadata.namespace: Invalid value: \"N_a\""},
        {"apiVersion: ctrlmesh.kusionstack.io/v1alpha1\nkind: CircuitBreaker\nmetadata: {name: a, "
         "uid: u012345678901234567890123456789012345678901234567890123456789012}\nspec: {selector: "
         "{}}\n",
         "metadata.uid: Too long: must have at most 63 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct policy_findings f = POLICY_FINDINGS_INIT;
        struct policy *p = policy_case_object(all[i].text, &f);
        policy_case_expect(&f.errors, "error", (const char *const[]){all[i].error, NULL});
        policy_unref(p);
        policy_findings_deinit(&f);
    }
    enum traffic_kind kind;
    cJSON *tree = policy_case_tree("kind: ShardingConfig\n");
    assert_false(policy_is_one(tree, &kind));
    assert_false(policy_is_one(NULL, &kind));
    cJSON_Delete(tree);
}

/* A manifest of KusionStack's format, as its demo is: all of its rules are enforced, as far as
 * tunnels let them, and what may be meant otherwise is told. */
static void test_kusionstack_manifest(void **state)
{
    (void)state;
    struct policy_findings f = POLICY_FINDINGS_INIT;
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    assert_int_equal(
        file_read(TEST_SOURCES "/manager/policy/kusionstack_circuitbreaker.yaml", &text, &e), 0);
    struct policy *p = policy_case_object(buf_cstr(&text), &f);
    policy_case_expect(&f.errors, "error", (const char *const[]){NULL});
    policy_case_expect(
        &f.warnings, "warning",
        (const char *const[]){
            "spec.trafficInterceptRules[0].contents[0]: \".*(127.0.0.1).*\": allows every host",
            "spec.trafficInterceptRules[0].contents[0]: \".*(127.0.0.1).*\": matches 127.0.0.1",
            "spec.trafficInterceptRules[0].methods: has neither \"*\" nor \"CONNECT\"",
            "spec: 2 rules are for requests to other places",
            "spec: rules \"trafficOffLimit\", \"test\": nobody sees paths", NULL});
    assert_int_equal(policy_rules(p), 3);
    assert_int_equal(policy_external_rules(p), 2);
    assert_int_equal(policy_blind_rules(p), 2);
    assert_non_null(policy_entry(p));
    policy_unref(p);
    policy_findings_deinit(&f);
    buf_reset(&text);
}

/* A policy that has everything. */
static const char everything[] = HEAD
    "  name: a\n  namespace: ns\n  uid: u\n  annotations: "
    "{circuitbreaker.ctrlmesh.kusionstack.io/recover: '*=1,a=2'}\n" SPEC
    " trafficInterceptRules:\n - {name: b, interceptType: Black, contentType: Normal, contents: "
    "[a], methods: [GET]}\n";
static const char faults[] =
    HEAD "  name: a\nspec:\n httpFault:\n - {delay: {fixedDelay: 1s, percent: 5}, match: "
         "{resources: [{}]}, effectiveTime: {timeZone: UTC, months: [1], startTime: '01:00:00', "
         "endTime: '02:00:00'}}\n";

static void expect_valid(const char *format, const char *kind_name, bool valid)
{
    char text[4096];
    struct policy_findings f = POLICY_FINDINGS_INIT;
    enum traffic_kind kind;
    (void)snprintf(text, sizeof text, format, kind_name);
    cJSON *tree = policy_case_tree(text);
    assert_true(policy_is_one(tree, &kind));
    struct policy *p = policy_read(kind, tree, &policy_case_options, &f);
    assert_int_equal(policy_valid(p), valid);
    assert_int_equal(policy_findings_failed(&f), !valid);
    policy_unref(p);
    policy_findings_deinit(&f);
    cJSON_Delete(tree);
}

static void test_whole_ones(void **state)
{
    (void)state;
    expect_valid(everything, "CircuitBreaker", false); /* Black is none of the types */
    expect_valid(HEAD
                 "  name: a\n  annotations: {circuitbreaker.ctrlmesh.kusionstack.io/recover: '*=1'}"
                 "\n" SPEC,
                 "CircuitBreaker", true);
    expect_valid(faults, "FaultInjection", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_ones),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_what_needs_no_valid_spec),
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_spec_hash),
        cmocka_unit_test(test_other_objects),
        cmocka_unit_test(test_kusionstack_manifest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
