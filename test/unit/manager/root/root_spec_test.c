/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_spec.h"

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

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s: %s", e.msg, text);
    }
    return tree;
}

#define ROOT(more) "spec: {root: {prefix: op, targetStatefulSet: sts, " more "}}"
#define LIMITS "resourceSelector: [{relateResources: [{apiGroups: [''], resources: [pods]}]}]"
#define AUTO "auto: {shardingSize: 2, everyShardReplicas: 3}"
#define AUTO_AND(more) "auto: {shardingSize: 2, everyShardReplicas: 3, " more "}"
#define CANARY(what) "canary: {" what "}, " AUTO ", " LIMITS

static void all_fields(void **state)
{
    (void)state;
    cJSON *config = parse(
        ROOT("disable: true, canary: {replicas: 4, inNamespaces: [a, b], inShardHash: ['0', '31', "
             "'0']}," AUTO_AND(
                 "takeover: {afterSeconds: 30}, rebalance: {maxMovesPerHour: 5}") "," LIMITS));
    struct root_spec spec;
    struct err e = ERR_INIT;
    assert_int_equal(root_spec_read(config, &spec, &e), 0);
    assert_true(spec.disable);
    assert_string_equal(spec.prefix, "op");
    assert_string_equal(spec.target, "sts");
    assert_int_equal(spec.canary.replicas, 4);
    assert_int_equal(cJSON_GetArraySize(spec.canary.namespaces), 2);
    assert_int_equal(spec.canary.buckets, 0x80000001);
    assert_true(spec.automatic.there);
    assert_int_equal(spec.automatic.size, 2);
    assert_int_equal(spec.automatic.every, 3);
    assert_int_equal(spec.automatic.takeover_s, 30);
    assert_int_equal(spec.automatic.moves_per_hour, 5);
    assert_int_equal(cJSON_GetArraySize(spec.resources), 1);
    cJSON_Delete(config);
}

/* "" is as nothing. */
static void targets(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        const char *kind;
    } cases[] = {
        {"targetStatefulSet: op", "StatefulSet"},
        {"targetDeployment: op", "Deployment"},
        {"targetDeployment: op, targetStatefulSet: ''", "Deployment"},
        {"targetDeployment: null, targetStatefulSet: op", "StatefulSet"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct root_spec spec;
        struct err e = ERR_INIT;
        char text[512];
        (void)snprintf(text, sizeof text, "spec: {root: {prefix: op, %s, " AUTO ", " LIMITS "}}",
                       cases[i].fields);
        cJSON *config = parse(text);
        assert_int_equal(root_spec_read(config, &spec, &e), 0);
        assert_string_equal(spec.target, "op");
        assert_string_equal(root_target_kind(&spec), cases[i].kind);
        cJSON_Delete(config);
    }
}

static void what_is_left_out(void **state)
{
    (void)state;
    static const char *const same[] = {
        ROOT(AUTO ", " LIMITS),
        ROOT("disable: null, canary: null, " AUTO_AND(
            "takeover: null, rebalance: null") ", " LIMITS),
        ROOT(CANARY("")),
        ROOT(CANARY("inNamespaces: [], inShardHash: null")),
        ROOT(CANARY("replicas: 0, inNamespaces: [a], inShardHash: ['3']")),
    };
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        cJSON *config = parse(same[i]);
        struct root_spec spec;
        struct err e = ERR_INIT;
        assert_int_equal(root_spec_read(config, &spec, &e), 0);
        assert_false(spec.disable);
        assert_int_equal(spec.canary.replicas, 0);
        assert_null(spec.canary.namespaces);
        assert_int_equal(spec.canary.buckets, 0);
        assert_int_equal(spec.automatic.takeover_s, 0);
        assert_int_equal(spec.automatic.moves_per_hour, 0);
        cJSON_Delete(config);
    }
}

static void other_sizes(void **state)
{
    (void)state;
    struct root_spec spec;
    struct err e = ERR_INIT;
    cJSON *config = parse(ROOT("auto: {shardingSize: auto, everyShardReplicas: 1}, " LIMITS));
    assert_int_equal(root_spec_read(config, &spec, &e), 0);
    assert_true(spec.automatic.there);
    assert_int_equal(spec.automatic.size, 0);
    cJSON_Delete(config);
    config = parse(ROOT("canary: {replicas: 1, inShardHash: ['7']}, " LIMITS));
    assert_int_equal(root_spec_read(config, &spec, &e), 0);
    assert_false(spec.automatic.there);
    assert_null(spec.canary.namespaces);
    cJSON_Delete(config);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const char *want;
    } cases[] = {
        {"spec: {}", "spec.root: Required value"},
        {"{}", "spec.root: Required value"},
        {"spec: {root: {prefix: op, " AUTO ", " LIMITS "}}",
         "spec.root.targetStatefulSet: Required value: set it, or targetDeployment, to the name"},
        {"spec: {root: {prefix: op, targetDeployment: '', " AUTO ", " LIMITS "}}",
         "spec.root.targetStatefulSet: Required value"},
        {ROOT("targetDeployment: op, " AUTO ", " LIMITS),
         "spec.root.targetDeployment: Forbidden: may not be set together with targetStatefulSet"},
        {"spec: {root: {prefix: op, targetDeployment: A, " AUTO ", " LIMITS "}}",
         "spec.root.targetDeployment: Invalid value: \"A\""},
        {"spec: {selector: {matchLabels: x}, root: {prefix: op, targetDeployment: op, " AUTO
         ", " LIMITS "}}",
         "spec.selector.matchLabels: Invalid value: must be an object"},
        {"spec: {root: x}", "spec.root: Invalid value: must be an object"},
        {ROOT(LIMITS), "spec.root.auto: Required value: says how many shards there are, unless"},
        {ROOT("canary: {}, " LIMITS), "spec.root.auto: Required value"},
        {ROOT(AUTO), "spec.root.resourceSelector: Required value: must have at least one entry"},
        {ROOT(AUTO ", resourceSelector: []"), "spec.root.resourceSelector: Required value"},
        {ROOT(AUTO ", resourceSelector: [3]"), "spec.root.resourceSelector[0]: Invalid value: mus"},
        {ROOT(AUTO ", resourceSelector: [{}]"),
         "spec.root.resourceSelector[0].relateResources: Required value"},
        {ROOT(AUTO ", resourceSelector: [{selector: x}]"),
         "spec.root.resourceSelector[0].selector: Invalid value: must be an object"},
        {ROOT(AUTO ", resourceSelector: [{selector: {matchExpressions: {}}}]"),
         "spec.root.resourceSelector[0].selector.matchExpressions: Invalid value: must be an arra"},
        {ROOT(AUTO ", resourceSelector: [{objectSelector: []}]"),
         "spec.root.resourceSelector[0].objectSelector: Invalid value: must be an object"},
        {ROOT(AUTO ", resourceSelector: [{objectSelector: {selector: 1}}]"),
         "spec.root.resourceSelector[0].objectSelector.selector: Invalid value: must be an object"},
        {ROOT(CANARY("replicas: 1")), "spec.root.canary.inNamespaces: Required value: says what"},
        {ROOT(CANARY("replicas: 1, inNamespaces: []")), "spec.root.canary.inNamespaces: Required"},
        {ROOT(CANARY("inNamespaces: [a]")), "spec.root.canary.replicas: Required value: how many"},
        {ROOT(CANARY("inShardHash: ['1']")), "spec.root.canary.replicas: Required value"},
        {ROOT(CANARY("replicas: 1001")), "spec.root.canary.replicas: Invalid value: must be a who"},
        {ROOT(CANARY("replicas: 1, inShardHash: ['32']")), "spec.root.canary.inShardHash[0]: Inv"},
        {ROOT(CANARY("replicas: 1, inNamespaces: [a, B]")), "spec.root.canary.inNamespaces[1]: I"},
        {ROOT("auto: [], " LIMITS), "spec.root.auto: Invalid value: must be an object"},
        {ROOT("auto: {shardingSize: '3', everyShardReplicas: 1}, " LIMITS),
         "spec.root.auto.shardingSize: Invalid value: must be a whole number from 1 to 32, "
         "or the text \"auto\""},
        {ROOT("auto: {shardingSize: 33, everyShardReplicas: 1}, " LIMITS),
         "spec.root.auto.shardingSize: Invalid value: must be a whole number from 1 to 32"},
        {ROOT("auto: {shardingSize: true, everyShardReplicas: 1}, " LIMITS),
         "spec.root.auto.shardingSize: Invalid value: must be a whole number"},
        {ROOT("auto: {everyShardReplicas: 1}, " LIMITS), "spec.root.auto.shardingSize: Required"},
        {ROOT("auto: {shardingSize: auto}, " LIMITS), "spec.root.auto.everyShardReplicas: Requir"},
        {ROOT("auto: {shardingSize: 1, everyShardReplicas: 1001}, " LIMITS),
         "spec.root.auto.everyShardReplicas: Invalid value"},
        {ROOT(AUTO_AND("takeover: 30") ", " LIMITS), "spec.root.auto.takeover: Invalid value: mu"},
        {ROOT(AUTO_AND("takeover: {}") ", " LIMITS),
         "spec.root.auto.takeover.afterSeconds: Required value"},
        {ROOT(AUTO_AND("takeover: {afterSeconds: 4}") ", " LIMITS),
         "spec.root.auto.takeover.afterSeconds: Invalid value: must be a whole number from 5 to 8"},
        {ROOT(AUTO_AND("takeover: {afterSeconds: 86401}") ", " LIMITS),
         "spec.root.auto.takeover.afterSeconds: Invalid value"},
        {ROOT(AUTO_AND("takeover: {after: 5}") ", " LIMITS), "spec.root.auto.takeover.after: Forb"},
        {ROOT(AUTO_AND("rebalance: {maxMovesPerHour: 33}") ", " LIMITS),
         "spec.root.auto.rebalance.maxMovesPerHour: Invalid value: must be a whole number from 1"},
        {ROOT(AUTO_AND("rebalance: {}") ", " LIMITS),
         "spec.root.auto.rebalance.maxMovesPerHour: Required value"},
        {"spec: {limits: [{}], root: {}}", "spec.limits: Forbidden: may not be set together with"},
        {"spec: {selector: 3, root: {}}", "spec.selector: Invalid value: must be an object"},
        {"spec: {selector: {matchExpressions: 3}, root: {}}",
         "spec.selector.matchExpressions: Invalid value: must be an array"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *config = parse(cases[i].spec);
        struct root_spec spec;
        struct err e = ERR_INIT;
        assert_int_equal(root_spec_read(config, &spec, &e), -EINVAL);
        if (strncmp(e.msg, cases[i].want, strlen(cases[i].want)) != 0) {
            fail_msg("%s: %s", cases[i].spec, e.msg);
        }
        assert_int_equal(root_spec_read(config, &spec, NULL), -EINVAL);
        cJSON_Delete(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields),       cmocka_unit_test(targets),
        cmocka_unit_test(what_is_left_out), cmocka_unit_test(other_sizes),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
