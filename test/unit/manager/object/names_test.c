/* SPDX-License-Identifier: Apache-2.0 */
#include "object/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "object/root_child.h"
#include "json/json.h"

static void test_keys_have_the_prefix_unless_they_are_whole(void **state)
{
    char key[NAMES_KEY_SIZE];
    (void)state;
    assert_ptr_equal(names_key("m.io", "control", key), key);
    assert_string_equal(key, "m.io/control");
    assert_string_equal(names_key("m.io", "other.io/control", key), "other.io/control");
}

static const char *parent_of(const char *labels)
{
    static char name[64];
    char text[256];
    (void)snprintf(text, sizeof text, "{\"metadata\":{\"labels\":%s}}", labels);
    cJSON *config = json_parse(text, strlen(text), NULL);
    assert_non_null(config);
    (void)snprintf(name, sizeof name, "%s", root_child_parent(config, "m.io"));
    cJSON_Delete(config);
    return name;
}

static void test_a_child_names_its_root(void **state)
{
    (void)state;
    assert_string_equal(parent_of("{\"m.io/" ROOT_LABEL "\":\"web\"}"), "web");
    assert_string_equal(parent_of("{\"" ROOT_LABEL "\":\"web\"}"), "");
    assert_string_equal(parent_of("{\"m.io/" ROOT_LABEL "\":7}"), "");
    assert_string_equal(parent_of("null"), "");
}

static void test_the_shard_of_a_config_map(void **state)
{
    (void)state;
    assert_string_equal(names_shard_of_map(RULES_MAP_PREFIX "a-b"), "a-b");
    assert_string_equal(names_shard_of_map(RULES_MAP_PREFIX), "");
    assert_null(names_shard_of_map("cmesh-rule-a"));
    assert_int_equal(RULES_MAP_SHARD_MAX, 241);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_shard_of_a_config_map),
        cmocka_unit_test(test_keys_have_the_prefix_unless_they_are_whole),
        cmocka_unit_test(test_a_child_names_its_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
