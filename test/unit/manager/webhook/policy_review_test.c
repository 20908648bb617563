/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/policy_review.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "yaml/yaml.h"

#define BREAKER "circuitbreakers"
#define FAULT "faultinjections"
#define LIMITS(trigger)                                                                            \
    "selector: {}, rateLimitings: [{name: deletes, triggerPolicy: " trigger                        \
    ", bucket: {burst: 1, limit: 1, interval: 10s}, resourceRules: [{apiGroups: [''], resources: " \
    "[pods], verbs: [delete], namespaces: ['*']}]}]"
#define GOOD LIMITS("LimiterOnly")
#define BAD LIMITS("Never")

static const struct policy_options options = {.zones = "/nowhere", .now = 1764150000};

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s: %s", e.msg, text);
    }
    return tree;
}

/* A policy, with more metadata; NULL for `spec`: it has none. */
static cJSON *object_of(const char *kind, const char *metadata, const char *spec)
{
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                   "kind: %s\n"
                   "metadata: {name: guard, namespace: demo%s%s}\n",
                   kind, metadata[0] == '\0' ? "" : ", ", metadata);
    size_t len = strlen(text);
    if (spec != NULL) {
        (void)snprintf(text + len, sizeof text - len, "spec: {%s}\n", spec);
    }
    return parse(text);
}

struct review {
    struct admission_request request;
    cJSON *objects[2];
    struct warnings warnings;
    struct policy *policy;
    struct err e;
    int rc;
};

/* `old` or `now` is NULL for what is created or deleted. */
static void review(struct review *r, const char *resource, cJSON *old, cJSON *now)
{
    *r = (struct review){
        .request = {.operation = old == NULL   ? ADMISSION_CREATE
                                 : now == NULL ? ADMISSION_DELETE
                                               : ADMISSION_UPDATE,
                    .resource = {POLICY_GROUP, "v1alpha1", resource, ""},
                    .namespace = "demo",
                    .name = "guard",
                    .object = now,
                    .old_object = old},
        .objects = {old, now},
        .e = ERR_INIT,
    };
    r->rc = policy_review(&r->request, &options, &r->warnings, &r->policy, &r->e);
}

static void done(struct review *r)
{
    policy_unref(r->policy);
    warnings_deinit(&r->warnings);
    cJSON_Delete(r->objects[0]);
    cJSON_Delete(r->objects[1]);
}

static bool warned(const struct review *r, const char *text)
{
    for (size_t i = 0; i < r->warnings.count; i++) {
        if (strstr(r->warnings.items[i], text) != NULL) {
            return true;
        }
    }
    return false;
}

static void expect_refused(struct review *r, const char *text)
{
    assert_int_equal(r->rc, -EINVAL);
    assert_null(r->policy);
    if (strstr(r->e.msg, text) == NULL) {
        fail_msg("wanted %s in %s", text, r->e.msg);
    }
    done(r);
}

static void specs_are_validated(void **state)
{
    struct review r;
    (void)state;
    review(&r, BREAKER, NULL, object_of("CircuitBreaker", "", GOOD));
    assert_int_equal(r.rc, 0);
    assert_non_null(r.policy);
    assert_string_equal(policy_name(r.policy), "guard");
    done(&r);
    review(&r, BREAKER, NULL, object_of("CircuitBreaker", "", BAD));
    expect_refused(&r, "spec.rateLimitings[0].triggerPolicy: ");
    review(&r, BREAKER, object_of("CircuitBreaker", "", GOOD),
           object_of("CircuitBreaker", "", BAD));
    expect_refused(&r, "spec.rateLimitings[0].triggerPolicy: ");
    review(&r, FAULT, NULL,
           object_of("FaultInjection", "",
                     "selector: {}, httpFault: [{name: a, match: {resources: [{verbs: [get]}]}}]"));
    expect_refused(&r, "spec.httpFault[0]");
}

/* A CircuitBreaker that the API server stores may be one that came past the webhook. */
static void what_is_stored_can_be_changed_without_its_spec(void **state)
{
    static const struct {
        const char *before;
        const char *after;
        const char *spec;
    } rows[] = {
        {"", "annotations: {circuitbreaker.ctrlmesh.kusionstack.io/recover: '*=1'}", BAD},
        {"", "labels: {circuitbreaker.ctrlmesh.kusionstack.io/disable: ''}", BAD},
        {"finalizers: [finalizer.ctrlmesh.kusionstack.io/protected]", "", BAD},
        {"finalizers: [a.example/b]", "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct review r;
        review(&r, BREAKER, object_of("CircuitBreaker", rows[i].before, rows[i].spec),
               object_of("CircuitBreaker", rows[i].after, rows[i].spec));
        if (r.rc != 0 || r.policy != NULL || !warned(&r, "not valid, and not used: spec")) {
            fail_msg("%zu: %d %s", i, r.rc, r.e.msg);
        }
        done(&r);
    }
}

static void what_is_being_deleted_is_let_go(void **state)
{
    struct review r;
    (void)state;
    review(&r, BREAKER, object_of("CircuitBreaker", "finalizers: [a.example/b]", GOOD),
           object_of("CircuitBreaker", "deletionTimestamp: '2026-11-26T10:00:00Z'", BAD));
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.warnings.count, 0);
    done(&r);
    review(&r, BREAKER, object_of("CircuitBreaker", "", BAD), NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.warnings.count, 0);
    done(&r);
}

static void others_are_left_alone(void **state)
{
    static const struct admission_resource rows[] = {
        {POLICY_GROUP, "v1alpha1", "shardingconfigs", ""},
        {POLICY_GROUP, "v1alpha1", BREAKER, "status"},
        {"example.com", "v1", BREAKER, ""},
        {"", "v1", "pods", ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct review r;
        review(&r, BREAKER, NULL, object_of("CircuitBreaker", "", BAD));
        assert_int_equal(r.rc, -EINVAL);
        r.request.resource = rows[i];
        assert_int_equal(policy_review(&r.request, &options, &r.warnings, &r.policy, &r.e), 0);
        done(&r);
    }
}

/* More than is read: it is not valid, but may be switched off. */
static void what_is_too_large(void **state)
{
    struct review r;
    (void)state;
    review(&r, BREAKER, object_of("CircuitBreaker", "", NULL),
           object_of("CircuitBreaker", "labels: {a: b}", NULL));
    policy_unref(r.policy);
    r.request.cut = true; /* neither spec is known */
    assert_int_equal(policy_review(&r.request, &options, &r.warnings, &r.policy, &r.e), -E2BIG);
    assert_non_null(strstr(r.e.msg, "spec: Too long"));
    r.request.same_spec = true;
    assert_int_equal(policy_review(&r.request, &options, &r.warnings, &r.policy, &r.e), 0);
    done(&r);
}

/* ---- shards ---- */

static bool is_warned_of_shards(const char *selector, const char *ns)
{
    cJSON *config = parse("{kind: ShardingConfig, metadata: {name: blue, namespace: demo}, spec: "
                          "{selector: {matchLabels: {app: op}}, limits: []}}");
    struct shards_item item = shards_item_of(config);
    const struct shards_list list = {.items = &item, .count = 1};
    char spec[1024];
    struct review r;
    (void)snprintf(spec, sizeof spec, "%s%s", selector, strstr(GOOD, ","));
    review(&r, BREAKER, NULL, object_of("CircuitBreaker", "", spec));
    assert_int_equal(r.rc, 0);
    assert_non_null(r.policy);
    policy_review_shards(r.policy, ns, &list, &r.warnings);
    bool warns = warned(&r, "no ShardingConfig in namespace");
    done(&r);
    cJSON_Delete(config);
    return warns;
}

static void policies_for_no_shard_are_warned_of(void **state)
{
    (void)state;
    assert_false(is_warned_of_shards("selector: {}", "demo"));
    assert_false(is_warned_of_shards("selector: {matchLabels: {app: op, x: z}}", "demo"));
    assert_false(is_warned_of_shards("selector: {matchLabels: {other: label}}", "demo"));
    assert_true(is_warned_of_shards("selector: {matchLabels: {app: other}}", "demo"));
    assert_true(is_warned_of_shards("selector: {}", "elsewhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs_are_validated),
        cmocka_unit_test(what_is_stored_can_be_changed_without_its_spec),
        cmocka_unit_test(what_is_being_deleted_is_let_go),
        cmocka_unit_test(others_are_left_alone),
        cmocka_unit_test(what_is_too_large),
        cmocka_unit_test(policies_for_no_shard_are_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
