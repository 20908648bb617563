/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/stateful_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "yaml/yaml.h"
#include "json/field.h"

static const char whole[] =
    "metadata: {name: op, namespace: \"n\", uid: u1, resourceVersion: \"7\", generation: 3,\n"
    "  labels: {p/rolling: all}, annotations: {p/roll-status: 1/2 state=Done,\n"
    "  p/roll-expected: op-1, p/rolling-shard: x-1-normal, p/rolling-deadline-seconds: \"30\"}}\n"
    "spec: {replicas: 4, ordinals: {start: 2}, minReadySeconds: 5, podManagementPolicy: Parallel,\n"
    "  updateStrategy: {type: OnDelete}, template: {metadata: {labels: {app: op}}}}\n"
    "status: {observedGeneration: 3, updateRevision: op-2}\n";

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s", e.msg);
    }
    return tree;
}

static struct stateful_set *make(const char *text)
{
    cJSON *tree = parse(text);
    struct stateful_set *s = stateful_set_new(tree, "p");
    assert_non_null(s);
    cJSON_Delete(tree); /* nothing of it is kept */
    return s;
}

static void test_all_of_it(void **state)
{
    struct stateful_set *s = make(whole);
    (void)state;
    assert_string_equal(s->key, "n/op");
    assert_string_equal(s->ns, "n");
    assert_string_equal(s->name, "op");
    assert_string_equal(s->uid, "u1");
    assert_string_equal(s->version, "7");
    assert_string_equal(s->revision, "op-2");
    assert_string_equal(s->strategy, "OnDelete");
    assert_string_equal(s->label, "all");
    assert_string_equal(s->scope, "x-1-normal");
    assert_string_equal(s->status, "1/2 state=Done");
    assert_string_equal(s->expected, "op-1");
    assert_string_equal(field_text(s->labels, "app"), "op");
    assert_int_equal(s->replicas, 4);
    assert_int_equal(s->first, 2);
    assert_int_equal(s->min_ready_s, 5);
    assert_int_equal(s->deadline_ms, 30000);
    assert_false(s->ordered);
    assert_true(s->current);
    assert_false(s->ending);
    stateful_set_free(s);
}

static void test_what_is_missing(void **state)
{
    struct stateful_set *s = make("metadata: {name: op, namespace: \"n\", generation: 1,\n"
                                  "  deletionTimestamp: \"2026-01-01T00:00:00Z\"}\n");
    (void)state;
    assert_string_equal(s->revision, "");
    assert_string_equal(s->label, "");
    assert_string_equal(s->status, "");
    assert_null(s->labels);
    assert_int_equal(s->replicas, 1);
    assert_int_equal(s->first, 0);
    assert_int_equal(s->min_ready_s, 0);
    assert_int_equal(s->deadline_ms, 1000 * ROLLING_DEADLINE_DEFAULT);
    assert_true(s->ordered && s->ending);
    assert_false(s->current); /* no status yet */
    stateful_set_free(s);
    stateful_set_free(NULL);
}

static void test_deadlines(void **state)
{
    static const struct {
        const char *text;
        unsigned seconds;
    } cases[] = {{"10", 10}, {"86400", 86400}, {"9", 600},   {"86401", 600},
                 {"", 600},  {"30s", 600},     {"-30", 600}, {"+30", 600}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "metadata: {name: op, namespace: \"n\", annotations: "
                       "{p/rolling-deadline-seconds: \"%s\"}}",
                       cases[i].text);
        struct stateful_set *s = make(text);
        assert_int_equal(s->deadline_ms, 1000 * cases[i].seconds);
        stateful_set_free(s);
    }
}

static void test_what_makes_no_sense(void **state)
{
    struct stateful_set *s = make("metadata: {name: op, namespace: \"n\", labels: [x]}\n"
                                  "spec: {replicas: -1, ordinals: 7, minReadySeconds: x,\n"
                                  "  template: {metadata: {labels: [a]}}}\n"
                                  "status: {observedGeneration: 99999999999999}\n");
    (void)state;
    assert_int_equal(s->replicas, 1);
    assert_int_equal(s->first, 0);
    assert_int_equal(s->min_ready_s, 0);
    assert_null(s->labels);
    stateful_set_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),
        cmocka_unit_test(test_what_is_missing),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
