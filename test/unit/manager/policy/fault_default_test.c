/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults are on by default: from an object as a user writes it to the requests that meet it,
 * nothing else has to be switched on; and what is switched off meets none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "policy_case.h"
#include "traffic/match.h"
#include "yaml/yaml.h"

static const struct policy_options options = {.now = 1764150000};

static struct policy *policy_of(const char *metadata, const char *spec)
{
    char text[2048];
    struct err e = ERR_INIT;
    struct policy_findings found = POLICY_FINDINGS_INIT;
    (void)snprintf(text, sizeof text,
                   "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                   "kind: FaultInjection\n"
                   "metadata: {name: slow, namespace: demo, uid: u%s}\n"
                   "spec: {selector: {matchLabels: {app: operator}}%s, httpFault: [{name: lists, "
                   "match: {resources: [{verbs: [list]}]}, delay: {fixedDelay: 1s, percent: 100}}]"
                   "}\n",
                   metadata, spec);
    cJSON *object = yaml_parse(text, strlen(text), NULL, &e);
    assert_non_null(object);
    struct policy *p = policy_read(TRAFFIC_FAULT_INJECTION, object, &options, &found);
    assert_non_null(p);
    assert_int_equal(found.errors.count, 0);
    assert_int_equal(found.warnings.count, 0);
    policy_findings_deinit(&found);
    cJSON_Delete(object);
    return p;
}

/* How many faults a list of pods meets in a pod with that label. */
static size_t faults_met(const char *metadata, const char *spec, const char *app)
{
    const struct selector_label labels[] = {{SLICE("app"), slice_str(app)}};
    const struct traffic_request request = {
        .namespace = SLICE("a"), .resource = SLICE("pods"), .verb = SLICE("list")};
    static struct traffic_found found;
    struct traffic_active active;
    struct policy *p = policy_of(metadata, spec);
    struct traffic *t = policy_case_document(p);
    found.count = 0;
    if (t != NULL) {
        traffic_active_set(&active, t, labels, ARRAY_LEN(labels));
        traffic_find_faults(t, &active, &request, &found);
        traffic_unref(t);
    }
    policy_unref(p);
    return found.count;
}

static void an_object_that_selects_the_pod_is_all_it_takes(void **state)
{
    (void)state;
    assert_int_equal(faults_met("", "", "operator"), 1);
    assert_int_equal(faults_met("", ", disabled: false", "operator"), 1);
    assert_int_equal(faults_met("", "", "other"), 0);
}

static void what_is_switched_off_does_nothing(void **state)
{
    (void)state;
    assert_int_equal(faults_met("", ", disabled: true", "operator"), 0);
    assert_int_equal(faults_met(", labels: {" POLICY_DISABLE_FAULT ": 'false'}", "", "operator"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_that_selects_the_pod_is_all_it_takes),
        cmocka_unit_test(what_is_switched_off_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
