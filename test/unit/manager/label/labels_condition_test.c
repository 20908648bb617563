/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the expressions say is seen where an API server evaluates them, in test/e2e/webhook_test.py.
 */
#include "label/labels_condition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BEGIN                                                                                      \
    "!(request.operation == 'UPDATE' && [object, oldObject].all(o, o != null && "                  \
    "has(o.metadata) && has(o.metadata.labels) && type(o.metadata.labels) == map) && "
#define IGNORED(key)                                                                               \
    "('" key "' in object.metadata.labels && object.metadata.labels['" key "'] == 'true' && "
#define AS_BEFORE                                                                                  \
    ".all(k, (k in object.metadata.labels) == (k in oldObject.metadata.labels) && "                \
    "(!(k in object.metadata.labels) || "                                                          \
    "object.metadata.labels[k] == oldObject.metadata.labels[k])) || "
#define SAME                                                                                       \
    ".all(k, k in object.metadata.labels && k in oldObject.metadata.labels && "                    \
    "object.metadata.labels[k] == oldObject.metadata.labels[k]) && "

static const struct compile_labels defaults = {
    .namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"};

static void expect(const struct compile_labels *names, enum labels_condition_of of,
                   const char *wanted)
{
    struct labels_keys k;
    struct buf text = BUF_INIT(LABELS_CONDITION_MAX);
    assert_int_equal(labels_keys_init(&k, names, NULL), 0);
    labels_condition_write(&k, of, &text);
    assert_int_equal(buf_error(&text), 0);
    assert_string_equal(buf_cstr(&text), wanted);
    buf_reset(&text);
}

static void test_of_resources(void **state)
{
    (void)state;
    expect(
        &defaults, LABELS_CONDITION_RESOURCES,
        BEGIN IGNORED(
            "ctrlmesh.kusionstack.io/ignore-webhook") "['ctrlmesh.kusionstack.io/ignore-webhook', "
                                                      "'ctrlmesh.kusionstack.io/namespace', "
                                                      "'ctrlmesh.kusionstack.io/sharding-hash', "
                                                      "'ctrlmesh.kusionstack.io/control']" AS_BEFORE
                                                      "['ctrlmesh.kusionstack.io/namespace', "
                                                      "'ctrlmesh.kusionstack.io/sharding-hash', "
                                                      "'ctrlmesh.kusionstack.io/control']" SAME
                                                      "object.metadata.labels['ctrlmesh."
                                                      "kusionstack.io/control'] == 'true' && "
                                                      "has(request.namespace) && "
                                                      "object.metadata.labels['ctrlmesh."
                                                      "kusionstack.io/namespace'] == "
                                                      "request.namespace))");
}

static void test_of_namespaces_with_other_keys(void **state)
{
    const struct compile_labels names = {
        .prefix = "example.com", .namespace = "n_s", .shard_hash = "x.org/Hash", .control = "c"};
    (void)state;
    expect(
        &names, LABELS_CONDITION_NAMESPACES,
        BEGIN IGNORED(
            "example.com/ignore-webhook") "['example.com/ignore-webhook', "
                                          "'example.com/n_s', 'x.org/Hash', "
                                          "'example.com/c']" AS_BEFORE
                                          "['example.com/n_s', 'x.org/Hash', 'example.com/c']" SAME
                                          "object.metadata.labels['example.com/c'] == 'true' && "
                                          "has(object.metadata.name) "
                                          "&& object.metadata.labels['example.com/n_s'] == "
                                          "object.metadata.name))");
}

/* Nothing that would end a text in CEL gets into a key. */
static void test_no_key_needs_an_escape(void **state)
{
    static const char strange[] = "'\"\\`\n\r\t {}[]()$%";
    (void)state;
    for (size_t i = 0; i < sizeof strange; i++) {
        const char name[] = {'a', strange[i], 'b', '\0'};
        const struct compile_labels prefix = {
            .prefix = name, .namespace = "n", .shard_hash = "h", .control = "c"};
        const struct compile_labels key = {.namespace = name, .shard_hash = "h", .control = "c"};
        struct labels_keys k;
        bool ends = strange[i] == '\0'; /* the name is "a" */
        assert_int_equal(labels_keys_init(&k, &prefix, NULL) == 0, ends);
        assert_int_equal(labels_keys_init(&k, &key, NULL) == 0, ends);
    }
}

static void test_the_longest_keys_fit(void **state)
{
    char label[64];
    char prefix[254];
    char names[LABELS_COUNT][64];
    struct labels_keys k;
    struct buf text = BUF_INIT(LABELS_CONDITION_MAX);
    (void)state;
    memset(label, 'a', 63);
    label[63] = '\0';
    (void)snprintf(prefix, sizeof prefix, "%s.%s.%s.%.61s", label, label, label, label);
    assert_int_equal(strlen(prefix), 253);
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "%zu%.62s", i, label);
    }
    const struct compile_labels long_names = {
        .prefix = prefix, .namespace = names[0], .shard_hash = names[1], .control = names[2]};
    assert_int_equal(labels_keys_init(&k, &long_names, NULL), 0);
    labels_condition_write(&k, LABELS_CONDITION_NAMESPACES, &text);
    assert_int_equal(buf_error(&text), 0);
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_resources),
        cmocka_unit_test(test_of_namespaces_with_other_keys),
        cmocka_unit_test(test_no_key_needs_an_escape),
        cmocka_unit_test(test_the_longest_keys_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
