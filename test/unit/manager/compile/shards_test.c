/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/shards.h"

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

struct configs {
    cJSON *list;
    struct shards_item items[16];
    size_t count;
};

/* A list of ShardingConfigs. */
static struct configs configs_of(const char *text)
{
    struct configs c = {.list = parse(text)};
    const cJSON *item;
    cJSON_ArrayForEach(item, c.list)
    {
        c.items[c.count++] = shards_item_of(item);
    }
    return c;
}

#define WORLD                                                                                      \
    "- {metadata: {name: a, namespace: demo}, spec: {selector: {matchLabels: {shard: a}}}}\n"      \
    "- {metadata: {name: b, namespace: demo}, spec: {selector: {matchExpressions: "                \
    "[{key: shard, operator: NotIn, values: [a]}, {key: app, operator: Exists}]}}}\n"              \
    "- {metadata: {name: two, namespace: demo}, spec: {selector: {matchLabels: {app: two}}}}\n"    \
    "- {metadata: {name: root, namespace: demo}, spec: {root: {}, selector: {matchLabels: "        \
    "{shard: a}}}}\n"                                                                              \
    "- {metadata: {name: all, namespace: demo}, spec: {selector: {}}}\n"                           \
    "- {metadata: {name: none, namespace: demo}, spec: {}}\n"                                      \
    "- {metadata: {name: wrong, namespace: demo}, spec: {selector: 7}}\n"                          \
    "- {metadata: {name: elsewhere, namespace: other}, spec: {selector: {matchLabels: {shard: "    \
    "a}}}}\n"

static void the_shard_of_a_pod(void **state)
{
    (void)state;
    static const struct {
        const char *labels;
        const char *want; /* the shard; NULL: an error */
        const char *error;
    } cases[] = {
        {"{shard: a}", "a", NULL},
        {"{shard: a, app: x}", "a", NULL},
        {"{shard: b, app: x}", "b", NULL},
        {"{app: x}", "b", NULL},
        {"{shard: b}", NULL, "no ShardingConfig in namespace \"demo\" selects this pod"},
        {"null", NULL, "no ShardingConfig in namespace \"demo\" selects this pod"},
        {"{app: two}", NULL, "the ShardingConfigs \"b\" and \"two\" both select this pod"},
    };
    struct configs c = configs_of(WORLD);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        struct err e = ERR_INIT;
        (void)snprintf(text, sizeof text, "{metadata: {labels: %s}}", cases[i].labels);
        cJSON *pod = parse(text);
        const struct shards_list list = {.items = c.items, .count = c.count};
        const cJSON *found = shards_of_pod(&list, "demo", pod, &e);
        if (cases[i].want != NULL) {
            assert_non_null(found);
            assert_string_equal(shards_name(found), cases[i].want);
        } else {
            assert_null(found);
            assert_true(e.code == -ENOENT || e.code == -EEXIST);
            assert_true(strncmp(e.msg, cases[i].error, strlen(cases[i].error)) == 0);
        }
        cJSON_Delete(pod);
    }
    cJSON_Delete(c.list);
}

static void names(void **state)
{
    (void)state;
    cJSON *object = parse("{metadata: {name: a, namespace: 5}}");
    assert_string_equal(shards_name(object), "a");
    assert_string_equal(shards_namespace(object), "");
    assert_string_equal(shards_name(NULL), "");
    cJSON_Delete(object);
}

/* Who asks may be anybody. */
static void names_are_withheld(void **state)
{
    char withheld[ERR_MSG_MAX] = "";
    struct err e = ERR_INIT;
    struct configs c = configs_of(WORLD);
    cJSON *pod = parse("{metadata: {labels: {app: two}}}");
    const struct shards_list list = {.items = c.items, .count = c.count, .withheld = withheld};
    (void)state;
    assert_null(shards_of_pod(&list, "demo", pod, &e));
    assert_int_equal(e.code, -EEXIST);
    assert_string_equal(
        e.msg, "several ShardingConfigs select this pod: a pod can be in one shard only: see "
               "kubectl -n demo get shardingconfigs -o "
               "custom-columns=NAME:.metadata.name,SELECTOR:.spec.selector");
    assert_string_equal(withheld, "ShardingConfigs \"b\" and \"two\" both select the pod");
    cJSON_Delete(pod);
    cJSON_Delete(c.list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shard_of_a_pod),
        cmocka_unit_test(names),
        cmocka_unit_test(names_are_withheld),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
