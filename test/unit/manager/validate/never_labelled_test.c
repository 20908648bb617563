/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/never_labelled.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "compile_limits.h"
#include "object/admission_review.h"

#define LABEL "ctrlmesh.kusionstack.io/namespace"

static const struct never_labelled list[] = {
    {"", "events"},
    {"", "nodes"},
    {"a-rather-long-name-of-a-group.of-somebody.example.com", "a-rather-long-plural-of-a-resource"},
    {"coordination.k8s.io", "leases"},
    {"rbac.authorization.k8s.io", "roles"},
};

/* Of limits in YAML what is noted, which must be `want`; NULL: nothing. */
static void expect(const char *limits, const char *want)
{
    struct warnings notes = WARNINGS_INIT;
    struct rules *rules = compile_limits(limits);
    never_labelled_note(rules, "spec.limits", list, ARRAY_LEN(list), &notes);
    assert_int_equal(notes.count, want == NULL ? 0 : 1);
    if (want != NULL) {
        assert_string_equal(notes.items[0], want);
        assert_true(strlen(want) <= ADMISSION_WARNING_MAX);
    }
    warnings_deinit(&notes);
    rules_unref(rules);
}

#define LIMIT(groups, resources, selector)                                                         \
    "{relateResources: [{apiGroups: [" groups "], resources: [" resources                          \
    "]}], selector: {matchExpressions: [" selector "]}}"
#define BY_LABEL "{key: " LABEL ", operator: In, values: [x]}"
#define BEGIN "spec.limits: never labelled, so selected by control labels the shard sees none: "
#define END " (not namespaced, or not in --sharding-resources)"

static void test_what_never_gets_labels(void **state)
{
    (void)state;
    expect(LIMIT("''", "pods, nodes", BY_LABEL), BEGIN "nodes" END);
    expect(LIMIT("coordination.k8s.io", "leases", BY_LABEL),
           BEGIN "leases.coordination.k8s.io" END);
    expect(LIMIT("''", "nodes", BY_LABEL) ", " LIMIT("rbac.authorization.k8s.io", "'*'", BY_LABEL),
           BEGIN "nodes, roles.rbac.authorization.k8s.io" END);
    expect(LIMIT("''", "nodes", "{key: " LABEL ", operator: NotIn, values: [x]}"),
           BEGIN "nodes" END);
    expect(LIMIT("''", "nodes", "{key: ctrlmesh.kusionstack.io/sharding-hash, operator: Exists}"),
           BEGIN "nodes" END);
}

/* However many, and however long their names. */
static void test_all_that_there_is(void **state)
{
    (void)state;
    expect(LIMIT("'*'", "'*'", BY_LABEL),
           BEGIN "events, nodes, a-rather-long-plural-of-a-resource."
                 "a-rather-long-name-of-a-group.of-somebod and 2 more" END);
}

static void test_what_is_no_matter(void **state)
{
    (void)state;
    expect(LIMIT("''", "pods", BY_LABEL), NULL);
    expect(LIMIT("''", "nodes", "{key: app, operator: Exists}"), NULL);
    expect(LIMIT("apps", "nodes, deployments", BY_LABEL), NULL);
    expect("", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_never_gets_labels),
        cmocka_unit_test(test_all_that_there_is),
        cmocka_unit_test(test_what_is_no_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
