/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/long_selectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "object/admission_review.h"
#include "yaml/yaml.h"

enum { NAME_LEN = 25, TEXT_MAX = 4 * 1024 * 1024 };

static const char begin[] = "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                            "kind: ShardingConfig\n"
                            "metadata: {name: a, namespace: demo}\n"
                            "spec:\n"
                            "  selector: {matchLabels: {a: b}}\n"
                            "  limits:\n"
                            "  - relateResources: [{apiGroups: [''], resources: [pods]}]\n"
                            "    selector: {matchLabels: {x: z}}\n"
                            "  - relateResources: [{apiGroups: [''], resources: [configmaps]}]\n"
                            "    selector:\n"
                            "      matchExpressions:\n"
                            "      - {key: namespace, operator: In, values: [";

/* Of a shard that has so many namespaces, and pods by another selector. */
static struct rules *rules_of(unsigned namespaces)
{
    static const struct compile_options options = {
        .namespace = "demo",
        .generation = 1,
        .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
    };
    struct buf text = BUF_INIT(TEXT_MAX);
    struct err e = ERR_INIT;
    buf_append_str(&text, begin);
    for (unsigned i = 0; i < namespaces; i++) {
        buf_printf(&text, "%scustomer-%05u-production", i > 0 ? ", " : "", i);
    }
    buf_append_str(&text, "]}\n");
    assert_int_equal(buf_error(&text), 0);
    cJSON *config = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    struct rules *rules = config == NULL ? NULL : compile_config(config, &options, &e);
    cJSON_Delete(config);
    buf_reset(&text);
    if (rules == NULL) {
        fail_msg("%s", e.msg);
    }
    return rules;
}

/* `want` NULL: nothing is noted. */
static void expect(unsigned namespaces, const char *want)
{
    struct warnings notes = WARNINGS_INIT;
    struct rules *rules = rules_of(namespaces);
    long_selectors_note(rules, "spec.limits", &notes);
    assert_int_equal(notes.count, want == NULL ? 0 : 1);
    if (want != NULL && strstr(notes.items[0], want) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", want, notes.items[0]);
    }
    assert_true(want == NULL || strlen(notes.items[0]) <= ADMISSION_WARNING_MAX);
    warnings_deinit(&notes);
    rules_unref(rules);
}

/* Each namespace takes its name and an escaped comma. */
static void what_is_longer_than_8_kb_is_noted(void **state)
{
    (void)state;
    unsigned most = (LONG_SELECTORS_URL - 250) / (NAME_LEN + 3);
    expect(1, NULL);
    expect(most, NULL);
    expect(most + 10, "spec.limits: the selector for \"configmaps\" makes URLs of 8 kB");
    expect(400, "makes URLs of 11 kB");
    expect(10000, "makes URLs of 260 kB"); /* not measured to the byte */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_longer_than_8_kb_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
