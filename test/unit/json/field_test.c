/* SPDX-License-Identifier: Apache-2.0 */
#include "json/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static cJSON *object;

static int setup(void **state)
{
    (void)state;
    object = cJSON_Parse("{\"text\":\"t\",\"empty\":\"\",\"none\":null,\"object\":{},\"list\":[],"
                         "\"five\":5,\"half\":0.5}");
    return object == NULL;
}

static int teardown(void **state)
{
    (void)state;
    cJSON_Delete(object);
    return 0;
}

static void fields_that_are_there(void **state)
{
    (void)state;
    assert_true(cJSON_IsArray(field_get(object, "list")));
    assert_true(cJSON_IsObject(field_map(object, "object")));
    assert_null(field_map(object, "list"));
    assert_string_equal(field_text(object, "text"), "t");
    assert_string_equal(field_text(object, "five"), "");
}

static void controllers(void **state)
{
    static const struct {
        const char *owners;
        const char *uid;
    } cases[] = {
        {"[{\"uid\":\"a\"},{\"uid\":\"b\",\"controller\":true}]", "b"},
        {"[{\"uid\":\"a\",\"controller\":false},{\"uid\":\"b\",\"controller\":\"true\"}]", ""},
        {"[1,null]", ""},
        {"{}", ""},
        {"null", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{\"metadata\":{\"ownerReferences\":%s}}",
                       cases[i].owners);
        cJSON *owned = cJSON_Parse(text);
        assert_non_null(owned);
        assert_string_equal(field_text(field_controller(owned), "uid"), cases[i].uid);
        cJSON_Delete(owned);
    }
    assert_null(field_controller(NULL));
}

static void fields_that_are_absent(void **state)
{
    (void)state;
    static const char *const keys[] = {"none", "missing"};
    for (size_t i = 0; i < 2; i++) {
        assert_null(field_get(object, keys[i]));
        assert_null(field_map(object, keys[i]));
        assert_string_equal(field_text(object, keys[i]), "");
    }
    assert_null(field_get(NULL, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_that_are_there),
        cmocka_unit_test(controllers),
        cmocka_unit_test(fields_that_are_absent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
