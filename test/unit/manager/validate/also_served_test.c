/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/also_served.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile_limits.h"
#include "object/admission_review.h"

/* An API server of 1.20. */
static bool serves_old(const void *data, const char *group, const char *resource)
{
    (void)data;
    return strcmp(group, "extensions") != 0 || strcmp(resource, "ingresses") == 0;
}

static bool serves_new(const void *data, const char *group, const char *resource)
{
    (void)data;
    (void)resource;
    return strcmp(group, "extensions") != 0 && strstr(group, "openshift") == NULL;
}

/* The warning must be `want`; NULL: there is none. */
static void expect(const char *limits, also_served_cb served, const char *want)
{
    struct rules *rules = compile_limits(limits);
    struct warnings notes = WARNINGS_INIT;
    also_served_note(rules, "spec.limits", served, NULL, &notes);
    if (notes.count != (want == NULL ? 0 : 1)) {
        fail_msg("%zu: %s", notes.count, notes.count > 0 ? notes.items[0] : "");
    }
    if (want != NULL) {
        assert_string_equal(notes.items[0], want);
    }
    warnings_deinit(&notes);
    rules_unref(rules);
}

#define LIMIT(groups, resources)                                                                   \
    "{relateResources: [{apiGroups: [" groups "], resources: [" resources                          \
    "]}], selector: {matchExpressions: [{key: app, operator: Exists}]}}"
#define SEES ", and is not limited: there the shard sees all of them"
#define EVENTS "spec.limits: events.events.k8s.io serves the same objects as events" SEES
#define OLD_EVENTS "spec.limits: events serves the same objects as events.events.k8s.io" SEES
#define INGRESSES                                                                                  \
    "spec.limits: ingresses.extensions serves the same objects as "                                \
    "ingresses.networking.k8s.io" SEES
#define NEW_INGRESSES                                                                              \
    "spec.limits: ingresses.networking.k8s.io serves the same objects as "                         \
    "ingresses.extensions" SEES

static void test_one_of_two(void **state)
{
    (void)state;
    expect(LIMIT("''", "pods, events"), NULL, EVENTS);
    expect(LIMIT("''", "events"), serves_new, EVENTS);
    expect(LIMIT("events.k8s.io", "events"), serves_new, OLD_EVENTS);
    expect(LIMIT("''", "'*'"), serves_new, EVENTS);
    expect(LIMIT("networking.k8s.io", "ingresses"), serves_old, INGRESSES);
    expect(LIMIT("extensions", "ingresses"), serves_old, NEW_INGRESSES);
    expect(LIMIT("extensions", "ingresses"), NULL, NEW_INGRESSES);
}

static void test_both_or_none(void **state)
{
    (void)state;
    expect(LIMIT("'', events.k8s.io", "events"), serves_new, NULL);
    expect(LIMIT("''", "events") ", " LIMIT("events.k8s.io", "events"), NULL, NULL);
    expect(LIMIT("'*'", "'*'"), serves_old, NULL);
    expect(LIMIT("''", "pods"), serves_old, NULL);
    expect("", serves_old, NULL);
}

/* What is not there cannot be seen. */
static void test_what_is_not_served(void **state)
{
    (void)state;
    expect(LIMIT("networking.k8s.io", "ingresses"), serves_new, NULL);
    expect(LIMIT("networking.k8s.io", "ingresses"), NULL, NULL);
    expect(LIMIT("apps", "deployments, daemonsets"), serves_old, NULL);
    expect(LIMIT("''", "namespaces"), serves_new, NULL);
}

/* However much of it is limited, it fits a warning, and all are warned of. */
static void test_all_that_there_is(void **state)
{
    (void)state;
    struct rules *rules = compile_limits(LIMIT("''", "events, namespaces") ", " LIMIT(
        "apps, networking.k8s.io, policy, rbac.authorization.k8s.io", "'*'"));
    struct warnings notes = WARNINGS_INIT;
    also_served_note(rules, "spec.limits", serves_old, NULL, &notes);
    assert_int_equal(notes.dropped, 0);
    assert_int_equal(notes.count, 7);
    for (size_t i = 0; i < notes.count; i++) {
        assert_true(strlen(notes.items[i]) <= ADMISSION_WARNING_MAX);
    }
    warnings_deinit(&notes);
    rules_unref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_two),
        cmocka_unit_test(test_both_or_none),
        cmocka_unit_test(test_what_is_not_served),
        cmocka_unit_test(test_all_that_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
