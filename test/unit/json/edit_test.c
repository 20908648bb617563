/* SPDX-License-Identifier: Apache-2.0 */
#include "json/edit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"

static void expect_text(cJSON *tree, const char *want)
{
    char *got = cJSON_PrintUnformatted(tree);
    assert_string_equal(got, want);
    cJSON_free(got);
}

static void build(struct edit *ed, cJSON *root)
{
    cJSON *list = edit_array(ed, edit_object(ed, root, "a"), "list");
    edit_append_string(ed, list, "x");
    edit_append_format(ed, list, "%d-%s", 7, "y");
    edit_string(ed, edit_append_object(ed, list), "k", "v");
    edit_prepend(ed, list, cJSON_CreateTrue());
    edit_replace(ed, list, cJSON_GetArrayItem(list, 1), cJSON_CreateNull());
    edit_append(ed, list, cJSON_CreateNumber(1));
    edit_number(ed, root, "n", 5);
    edit_bool(ed, root, "b", false);
    edit_string(ed, root, "n", "other");
}

static void steps(void **state)
{
    (void)state;
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_CreateObject();
    build(&ed, root);
    assert_int_equal(ed.rc, 0);
    expect_text(root, "{\"a\":{\"list\":[true,null,\"7-y\",{\"k\":\"v\"},1]},\"n\":\"other\","
                      "\"b\":false}");
    cJSON_Delete(root);
}

static void what_is_there_is_kept(void **state)
{
    (void)state;
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_Parse("{\"o\":{\"x\":1},\"l\":[1],\"none\":null}");
    edit_number(&ed, edit_object(&ed, root, "o"), "y", 2);
    edit_append_string(&ed, edit_array(&ed, root, "l"), "z");
    edit_number(&ed, edit_object(&ed, root, "none"), "w", 3);
    assert_int_equal(ed.rc, 0);
    expect_text(root, "{\"o\":{\"x\":1,\"y\":2},\"l\":[1,\"z\"],\"none\":{\"w\":3}}");
    cJSON_Delete(root);
}

/* After the first failure nothing is changed, and what is given is freed. */
static void another_type_ends_it(void **state)
{
    (void)state;
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_Parse("{\"o\":5,\"l\":[]}");
    assert_null(edit_object(&ed, root, "o"));
    assert_int_equal(ed.rc, -EINVAL);
    assert_null(edit_array(&ed, root, "l"));
    edit_string(&ed, root, "s", "t");
    edit_append(&ed, cJSON_GetObjectItem(root, "l"), cJSON_CreateTrue());
    edit_append(&ed, NULL, NULL);
    assert_int_equal(ed.rc, -EINVAL);
    expect_text(root, "{\"o\":5,\"l\":[]}");
    ed.rc = 0;
    assert_null(edit_array(&ed, root, "o"));
    assert_int_equal(ed.rc, -EINVAL);
    cJSON_Delete(root);
}

static bool build_once(void *data)
{
    (void)data;
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_CreateObject();
    build(&ed, root);
    assert_true(ed.rc == 0 || ed.rc == -ENOMEM);
    cJSON_Delete(root);
    return ed.rc == 0;
}

static void without_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(build_once, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps),
        cmocka_unit_test(what_is_there_is_kept),
        cmocka_unit_test(another_type_ends_it),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
