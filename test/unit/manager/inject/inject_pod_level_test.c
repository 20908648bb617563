/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "kube/quantity.h"
#include "pod_case.h"
#include "json/field.h"

/* ---- as the API server checks it, from 1.34 on ---- */

static double amount(const cJSON *resources, const char *which, const char *resource)
{
    const char *text = cJSON_GetStringValue(field_get(field_get(resources, which), resource));
    double value = -1;
    struct err e = ERR_INIT;
    if (text != NULL && quantity_parse(text, &value, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return value;
}

/* What is not requested is what the limit is. */
static double request_of(const cJSON *container, const char *resource)
{
    const cJSON *resources = field_get(container, "resources");
    double request = amount(resources, "requests", resource);
    request = request < 0 ? amount(resources, "limits", resource) : request;
    return request < 0 ? 0 : request;
}

/* Of the containers together: init containers run one by one, beside the native sidecars that stand
 * before them. */
static double requested(const cJSON *spec, const char *resource)
{
    double most = 0;
    double lasting = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(spec, "initContainers"))
    {
        double request = request_of(item, resource);
        most = lasting + request > most ? lasting + request : most;
        lasting += field_get(item, "restartPolicy") != NULL ? request : 0;
    }
    cJSON_ArrayForEach(item, field_get(spec, "containers"))
    {
        lasting += request_of(item, resource);
    }
    return lasting > most ? lasting : most;
}

static void check_limits(const cJSON *containers, const char *resource, double limit)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, containers)
    {
        double own = amount(field_get(item, "resources"), "limits", resource);
        if (limit >= 0 && own > limit) {
            fail_msg("%s: limit %f of %s is more than %f", field_text(item, "name"), own, resource,
                     limit);
        }
    }
}

static void expect_taken(const cJSON *spec)
{
    static const char *const resources[] = {"cpu", "memory"};
    for (size_t i = 0; i < ARRAY_LEN(resources); i++) {
        double request = amount(field_get(spec, "resources"), "requests", resources[i]);
        double limit = amount(field_get(spec, "resources"), "limits", resources[i]);
        double all = requested(spec, resources[i]);
        if (request >= 0 && all > request + 1e-9) {
            fail_msg("%s: %f is requested, and %f for the pod", resources[i], all, request);
        }
        assert_true(limit < 0 || request <= limit);
        check_limits(field_get(spec, "initContainers"), resources[i], limit);
        check_limits(field_get(spec, "containers"), resources[i], limit);
    }
}

/* ---- tests ---- */

struct pod_level {
    const char *annotations;
    const char *spec;
    const char *want[5];
};

#define POD(requests, limits)                                                                      \
    "resources: {requests: {" requests "}, limits: {" limits "}}, containers: [{name: op, "        \
    "command: [/op], resources: {requests: {cpu: 100m, memory: 64Mi}}}]"

static void check(const struct pod_level *c, bool native)
{
    struct inject_settings s = settings_of(native);
    s.prefix = "m.io";
    cJSON *pod = pod_of(c->annotations, "", c->spec);
    cJSON *made = inject(&s, pod, NULL);
    for (size_t i = 0; i < ARRAY_LEN(c->want) && c->want[i] != NULL; i++) {
        expect(made, c->want[i]);
    }
    expect_taken(field_get(made, "spec"));
    assert_null(inject(&s, made, NULL)); /* not a second time */
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

/* localproxy: 50m, 32Mi to 256Mi; rulesync: 5m, 16Mi to 64Mi. */
static const struct pod_level cases[] = {
    {"", "containers: [" OPERATOR "]", {"!spec.resources"}},
    {"", "resources: {}, containers: [" OPERATOR "]", {"!spec.resources.requests"}},
    {"",
     POD("memory: 64Mi", "memory: 100Mi"),
     {"spec.resources.requests.memory=112Mi", "spec.resources.limits.memory=420Mi",
      "!spec.resources.requests.cpu", "!spec.resources.limits.cpu"}},
    /* What no sidecar limits gets room for what they request. */
    {"",
     POD("cpu: 100m, memory: 64Mi", "cpu: '1', memory: 1Gi"),
     {"spec.resources.requests.cpu=155m", "spec.resources.limits.cpu=1055m",
      "spec.resources.requests.memory=112Mi", "spec.resources.limits.memory=1344Mi"}},
    {"", POD("cpu: '0.945'", ""), {"spec.resources.requests.cpu=1", "!spec.resources.limits.cpu"}},
    {"", POD("memory: 100M", ""), {"spec.resources.requests.memory=150331648"}},
    {"",
     POD("cpu: 100m", "hugepages-2Mi: 4Mi"),
     {"spec.resources.limits.hugepages-2Mi=4Mi", "spec.resources.requests.cpu=155m"}},
    {"m.io/proxy-resource: '{\"limits\": {\"cpu\": \"2\", \"memory\": \"1Gi\"}}'",
     POD("cpu: 100m, memory: 64Mi", "cpu: 200m, memory: 64Mi"),
     {"spec.resources.requests.cpu=2105m", "spec.resources.limits.cpu=2205m",
      "spec.resources.requests.memory=1104Mi", "spec.resources.limits.memory=1152Mi"}},
    {"m.io/proxy-resource: '{}'",
     POD("cpu: 100m, memory: 64Mi", "memory: 64Mi"),
     {"spec.resources.requests.cpu=105m", "spec.resources.requests.memory=80Mi",
      "spec.resources.limits.memory=128Mi"}},
    /* As much as these need at most, at some time. */
    {"",
     "resources: {requests: {memory: 300Mi}, limits: {memory: 300Mi}}, initContainers: [{name: a, "
     "restartPolicy: Always, resources: {requests: {memory: 100Mi}}}, {name: b, resources: "
     "{requests: {memory: 200Mi}}}], containers: [{name: op, command: [/op], resources: "
     "{requests: {memory: 200Mi}}}]",
     {"spec.resources.requests.memory=348Mi", "spec.resources.limits.memory=620Mi"}},
};

static void the_pod_has_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check(&cases[i], true);
        check(&cases[i], false);
    }
}

/* The API server tells who wrote it. */
static void what_is_no_amount_stays(void **state)
{
    (void)state;
    struct inject_settings s = settings_of(true);
    s.prefix = "m.io";
    cJSON *pod = pod_of("", "", POD("memory: much", "memory: -1"));
    cJSON *made = inject(&s, pod, NULL);
    expect(made, "spec.resources.requests.memory=much");
    expect(made, "spec.resources.limits.memory");
    cJSON_Delete(made);
    cJSON_Delete(pod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pod_has_more),
        cmocka_unit_test(what_is_no_amount_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
