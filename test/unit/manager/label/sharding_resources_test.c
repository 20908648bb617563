/* SPDX-License-Identifier: Apache-2.0 */
#include "label/sharding_resources.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "temp_dir.h"

#define CONFIG_MAP                                                                                 \
    "apiVersion: v1\n"                                                                             \
    "kind: ConfigMap\n"                                                                            \
    "metadata: {name: sharding-resources}\n"

static struct sharding_resources *parse(const char *text, struct err *e)
{
    return sharding_resources_parse(slice_str(text), "file", e);
}

static void what_is_read(void **state)
{
    (void)state;
    static const char in_config_map[] =
        CONFIG_MAP "data:\n  config: |\n    groupVersionKinds:\n      v1: [Pod]\n";
    static const char *const good[] = {
        "groupVersionKinds:\n  v1: [Pod, Service]\n  apps/v1: ['*']\n",
        "{\"groupVersionKinds\": {\"apps.kruise.io/v1alpha1\": [\"CloneSet\"]}}",
        "groupVersionKinds: {'*': ['*']}",
        "groupVersionKinds: {}",
        "groupVersionKinds: {v1: []}",
        "apiVersion: v1\nkind: Other\ngroupVersionKinds: {v1: [Pod]}",
        in_config_map,
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct err e = ERR_INIT;
        struct sharding_resources *s = parse(good[i], &e);
        if (s == NULL) {
            fail_msg("%s: %s", good[i], e.msg);
        }
        sharding_resources_free(s);
    }
    sharding_resources_free(NULL);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } bad[] = {
        {"groupVersionKinds:\n  v1: [Pod\n", "file: line 3"},
        {"[1]", "file:1: must be an object with groupVersionKinds"},
        {"", "file: must be an object with groupVersionKinds"},
        {"groupVersionKind: {v1: [Pod]}", "file:1: groupVersionKind: Forbidden: unknown field"},
        {"kind: Other", "file:1: groupVersionKinds: Required value"},
        {"groupVersionKinds: [v1]", "file:1: groupVersionKinds: Invalid value: must be an object"},
        {"groupVersionKinds:\n  v1: Pod",
         "file:2: groupVersionKinds[v1]: Invalid value: must be an array"},
        {"groupVersionKinds:\n  v1: [Pod]\n  apps/v1/x: ['*']",
         "file:3: groupVersionKinds: Invalid value: \"apps/v1/x\": must"},
        {"groupVersionKinds: {'': ['*']}", "file:1: groupVersionKinds: Invalid value: \"\": must"},
        {"groupVersionKinds:\n  v1:\n  - Pod\n  - [Service]",
         "file:4: groupVersionKinds[v1][1]: Invalid value: must be a kind, as \"Pod\", or \"*\""},
        {"groupVersionKinds: {v1: ['pods/status']}",
         "file:1: groupVersionKinds[v1][0]: Invalid value: must be a kind"},
        {"groupVersionKinds: {v1: ['']}", "file:1: groupVersionKinds[v1][0]: Invalid value"},
        {CONFIG_MAP "data: {a: x, b: y}", "file:4: data: must have exactly one key"},
        {CONFIG_MAP "data: {a: 1}", "file:4: data: must have exactly one key"},
        {CONFIG_MAP, "file:1: data: must have exactly one key"},
        {CONFIG_MAP "data:\n  a: '['", "file:5: data: line"},
        {CONFIG_MAP "data:\n  a: 'v1: [Pod]'", "file: v1: Forbidden: unknown field"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        assert_null(parse(bad[i].text, &e));
        assert_int_equal(e.code, -EINVAL);
        if (strncmp(e.msg, bad[i].want, strlen(bad[i].want)) != 0) {
            fail_msg("%s: wanted \"%s\", got \"%s\"", bad[i].text, bad[i].want, e.msg);
        }
    }
}

static void files(void **state)
{
    (void)state;
    struct temp_dir dir;
    char path[256];
    struct err e = ERR_INIT;
    temp_dir_init(&dir);
    temp_dir_path(&dir, "resources.yaml", path);
    assert_null(sharding_resources_load(path, &e));
    assert_non_null(strstr(e.msg, path));
    temp_dir_write(&dir, "resources.yaml", "groupVersionKinds: {v1: [Pod]}", 0600);
    struct sharding_resources *s = sharding_resources_load(path, &e);
    assert_non_null(s);
    sharding_resources_free(s);
    temp_dir_deinit(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
