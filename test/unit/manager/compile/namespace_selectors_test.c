/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/namespace_selectors.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "entry_text.h"
#include "yaml/yaml.h"

#define HEAD                                                                                       \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"                                               \
    "kind: ShardingConfig\n"                                                                       \
    "metadata: {name: s, namespace: ns}\n"                                                         \
    "spec:\n"                                                                                      \
    " selector: {matchLabels: {app: demo}}\n"                                                      \
    " limits:\n"
#define PODS "relateResources: [{apiGroups: [''], resources: [pods]}]"
#define KEY "ctrlmesh.kusionstack.io/namespace"

static void add(struct namespace_set *s, const char *name, const char *key, const char *value)
{
    struct namespace_entry *before = NULL;
    cJSON *object = cJSON_CreateObject();
    cJSON *meta = cJSON_AddObjectToObject(object, "metadata");
    cJSON_AddStringToObject(meta, "name", name);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(meta, "labels"), key, value);
    assert_int_equal(namespace_set_put(s, object, &before), 1);
    cJSON_Delete(object);
    free(before);
}

static int setup(void **state)
{
    struct namespace_set *s = calloc(1, sizeof *s);
    *state = s;
    add(s, "red-2", "team", "red");
    add(s, "red-1", "team", "red");
    add(s, "blue", "team", "blue");
    return 0;
}

static int teardown(void **state)
{
    namespace_set_deinit(*state);
    free(*state);
    return 0;
}

static struct rules *compile(const struct namespace_set *set, const char *limits, struct err *e)
{
    const struct compile_options o = {
        .namespace = "default",
        .generation = 1,
        .labels = {.namespace = "namespace", .shard_hash = "sharding-hash", .control = "control"},
        .namespaces = set,
    };
    struct buf text = BUF_INIT(1 << 20);
    assert_int_equal(buf_printf(&text, HEAD "%s", limits), 0);
    cJSON *config = yaml_parse((const char *)buf_data(&text), text.len, NULL, e);
    if (config == NULL) {
        fail_msg("the test's own YAML: %s", e->msg);
    }
    struct rules *rules = compile_config(config, &o, e);
    cJSON_Delete(config);
    buf_reset(&text);
    return rules;
}

static void expect(const struct namespace_set *set, const char *limits, const char *want)
{
    struct err e = ERR_INIT;
    struct rules *rules = compile(set, limits, &e);
    if (rules == NULL) {
        fail_msg("%s", e.msg);
    }
    const struct rules_entry *entry = rules_match(rules, SLICE(""), SLICE("pods"));
    assert_string_equal(entry_text(entry), want);
    rules_unref(rules);
}

static void expect_error(const struct namespace_set *set, const char *limits, int code,
                         const char *want)
{
    struct err e = ERR_INIT;
    struct rules *rules = compile(set, limits, &e);
    assert_null(rules);
    assert_int_equal(e.code, code);
    if (strncmp(e.msg, want, strlen(want)) != 0) {
        fail_msg("wanted \"%s...\", got \"%s\"", want, e.msg);
    }
}

static void names_in_place_of_labels(void **state)
{
    const struct namespace_set *s = *state;
    expect(s, " - {" PODS ", namespaceSelector: {matchLabels: {team: red}}}\n",
           KEY " in (red-1,red-2)");
    expect(s, " - objectSelector: {" PODS ", namespaceSelector: {matchLabels: {team: blue}}}\n",
           KEY " in (blue)");
    expect(s,
           " - {" PODS ", namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, "
           "values: [red]}]}, selector: null}\n",
           KEY " in (blue)");
}

static void together_with_a_selector(void **state)
{
    const struct namespace_set *s = *state;
    expect(s,
           " - {" PODS ", selector: {matchLabels: {app: x}}, namespaceSelector: {matchLabels: "
           "{team: red}}}\n",
           "app=x," KEY " in (red-1,red-2)");
    expect(s, " - {" PODS ", selector: {}, namespaceSelector: {matchLabels: {team: red}}}\n",
           KEY " in (red-1,red-2)");
    /* Of two limits on a resource, too. */
    expect(s,
           " - {" PODS ", namespaceSelector: {matchLabels: {team: red}}}\n"
           " - {" PODS ", selector: {matchLabels: {app: x}}}\n",
           "app=x," KEY " in (red-1,red-2)");
}

/* It must show nothing, and ask for the control label all the same. */
static void no_namespace(void **state)
{
    const struct namespace_set *s = *state;
    expect(s, " - {" PODS ", namespaceSelector: {matchLabels: {team: none}}}\n", KEY ",!" KEY);
    expect(s,
           " - {" PODS ", namespaceSelector: {matchExpressions: [{key: team, operator: In, values: "
           "[]}]}}\n",
           KEY ",!" KEY);
}

static void what_is_refused(void **state)
{
    const struct namespace_set *s = *state;
    expect_error(s, " - {" PODS ", namespaceSelector: {}}\n", -EINVAL,
                 "spec.limits[0].namespaceSelector: Invalid value: must not be empty");
    expect_error(s, " - objectSelector: {" PODS ", namespaceSelector: {}}\n", -EINVAL,
                 "spec.limits[0].objectSelector.namespaceSelector: Invalid value: must not be");
    expect_error(s, " - {" PODS ", namespaceSelector: [a]}\n", -EINVAL,
                 "spec.limits[0].namespaceSelector: ");
    expect_error(s, " - {" PODS ", namespaceSelector: null}\n", -EINVAL,
                 "spec.limits[0].selector: Required value");
    expect_error(s, " - {" PODS ", namespaceSelector: {matchLabel: {team: red}}}\n", -EINVAL,
                 "spec.limits[0].namespaceSelector.matchLabel");
    expect_error(s,
                 " - {" PODS ", namespaceSelector: {matchLabels: {team: red}}, selector: "
                 "{matchLabels: [x]}}\n",
                 -EINVAL, "spec.limits[0].selector.matchLabels");
    expect_error(s,
                 " - {objectSelector: {" PODS ", selector: {matchLabels: {app: x}}}, "
                 "namespaceSelector: {matchLabels: {team: red}}}\n",
                 -EINVAL, "spec.limits[0].namespaceSelector: Forbidden");
}

static void unknown(void **state)
{
    static const char limits[] = " - {" PODS ", namespaceSelector: {matchLabels: {team: red}}}\n";
    struct namespace_set missing = {.missing = "they are on their way"};
    (void)state;
    expect_error(NULL, limits, -EAGAIN,
                 "spec.limits[0].namespaceSelector: cannot be compiled: the namespaces are not "
                 "known");
    expect_error(&missing, limits, -EAGAIN,
                 "spec.limits[0].namespaceSelector: cannot be compiled: they are on their way");
}

/* ---- bounds ---- */

static void so_many_namespaces(void **state)
{
    static const char limits[] = " - {" PODS ", namespaceSelector: {matchLabels: {size: big}}}\n";
    struct namespace_set *s = *state;
    struct err e = ERR_INIT;
    for (int i = 0; i < NAMESPACE_NAMES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "ns-%d", i);
        add(s, name, "size", "big");
    }
    struct rules *rules = compile(s, limits, &e);
    assert_non_null(rules);
    rules_unref(rules);
    add(s, "one-more", "size", "big");
    expect_error(s, limits, -E2BIG,
                 "spec.limits[0].namespaceSelector: Too many: selects 1001 namespaces, and a shard "
                 "can have at most 1000 of one selector: narrow it, or use more shards");
}

static void so_many_selectors(void **state)
{
    const struct namespace_set *s = *state;
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    for (int i = 0; i < NAMESPACE_SELECTORS_MAX; i++) {
        assert_int_equal(
            buf_printf(&text, " - {" PODS ", namespaceSelector: {matchLabels: {team: t%d}}}\n", i),
            0);
    }
    /* One that is there is no other one. */
    assert_int_equal(
        buf_append_str(&text, " - {" PODS ", namespaceSelector: {matchLabels: {team: t0}}}\n"), 0);
    struct rules *rules = compile(s, buf_cstr(&text), &e);
    assert_non_null(rules);
    rules_unref(rules);
    assert_int_equal(
        buf_append_str(&text, " - {" PODS ", namespaceSelector: {matchLabels: {team: more}}}\n"),
        0);
    expect_error(s, buf_cstr(&text), -E2BIG, "spec.limits[9].namespaceSelector: Too many: ");
    buf_reset(&text);
}

static void so_many_requirements(void **state)
{
    const struct namespace_set *s = *state;
    struct buf text = BUF_INIT(65536);
    assert_int_equal(buf_append_str(&text, " - {" PODS ", namespaceSelector: {matchLabels: {"), 0);
    for (int i = 0; i <= NAMESPACE_REQUIREMENTS_MAX; i++) {
        assert_int_equal(buf_printf(&text, "k%d: v, ", i), 0);
    }
    assert_int_equal(buf_append_str(&text, "}}}\n"), 0);
    expect_error(s, buf_cstr(&text), -E2BIG, "spec.limits[0].namespaceSelector: Too long: ");
    buf_reset(&text);
}

/* ---- what is asked when labels change ---- */

static void read_all(struct namespace_selectors *all, const char *limits)
{
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(65536);
    assert_int_equal(buf_printf(&text, HEAD "%s", limits), 0);
    cJSON *config = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    namespace_selectors_read(all, config);
    cJSON_Delete(config);
    buf_reset(&text);
}

static void who_is_told_apart(void **state)
{
    struct namespace_set *s = *state;
    struct namespace_selectors all = {.count = 0};
    read_all(&all, " - {" PODS ", namespaceSelector: {matchLabels: {team: red}}}\n"
                   " - {" PODS ", namespaceSelector: {}}\n" /* which is refused */
                   " - objectSelector: {" PODS ", namespaceSelector: {matchLabels: {team: red}}}\n"
                   " - {" PODS ", selector: {matchLabels: {app: x}}}\n");
    assert_int_equal(all.count, 1);
    const struct namespace_entry *red = namespace_set_find(s, "red-1");
    const struct namespace_entry *blue = namespace_set_find(s, "blue");
    assert_true(namespace_selectors_tell_apart(&all, red, blue));
    assert_true(namespace_selectors_tell_apart(&all, NULL, red));
    assert_true(namespace_selectors_tell_apart(&all, red, NULL));
    assert_false(namespace_selectors_tell_apart(&all, red, namespace_set_find(s, "red-2")));
    assert_false(namespace_selectors_tell_apart(&all, blue, NULL));
    assert_int_equal(namespace_selectors_count(&all, s), 2);
    assert_true(namespace_selectors_weight(&all) > sizeof all);
    namespace_selectors_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_in_place_of_labels, setup, teardown),
        cmocka_unit_test_setup_teardown(together_with_a_selector, setup, teardown),
        cmocka_unit_test_setup_teardown(no_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(so_many_namespaces, setup, teardown),
        cmocka_unit_test_setup_teardown(so_many_selectors, setup, teardown),
        cmocka_unit_test_setup_teardown(so_many_requirements, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_told_apart, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
