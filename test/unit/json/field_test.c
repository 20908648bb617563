/* SPDX-License-Identifier: Apache-2.0 */
#include "json/field.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
    const char *text = NULL;
    const cJSON *item = NULL;
    int number = 0;
    struct err e = ERR_INIT;
    assert_int_equal(field_string(object, "a", "text", &text, &e), 0);
    assert_string_equal(text, "t");
    assert_int_equal(field_required(object, "a", "text", &text, &e), 0);
    assert_int_equal(field_object(object, "a", "object", &item, &e), 0);
    assert_true(cJSON_IsObject(item));
    assert_int_equal(field_array(object, "a", "list", &item, &e), 0);
    assert_true(cJSON_IsArray(item));
    assert_true(cJSON_IsObject(field_map(object, "object")));
    assert_null(field_map(object, "list"));
    assert_int_equal(field_int(object, "a", "five", 5, 5, &number, &e), 0);
    assert_int_equal(number, 5);
}

static void fields_that_are_absent(void **state)
{
    (void)state;
    static const char *const keys[] = {"none", "missing"};
    for (size_t i = 0; i < 2; i++) {
        const char *text = NULL;
        const cJSON *item = object;
        int number = 7;
        assert_null(field_get(object, keys[i]));
        assert_int_equal(field_string(object, "a", keys[i], &text, NULL), 0);
        assert_string_equal(text, "");
        assert_int_equal(field_object(object, "a", keys[i], &item, NULL), 0);
        assert_null(item);
        assert_int_equal(field_array(object, "a", keys[i], &item, NULL), 0);
        assert_null(item);
        assert_int_equal(field_int(object, "a", keys[i], 1, 2, &number, NULL), 0);
        assert_int_equal(number, 7);
    }
    assert_null(field_get(NULL, "a"));
}

static void expect(int rc, const struct err *e, const char *want)
{
    assert_int_equal(rc, -EINVAL);
    assert_string_equal(e->msg, want);
}

static void fields_that_are_wrong(void **state)
{
    (void)state;
    static const char *const known[] = {"text", "empty", "none", NULL};
    static const char *const near[] = {"text", "empty", "none", "objects", NULL};
    const char *text = NULL;
    const cJSON *item = NULL;
    int number = 0;
    struct err e = ERR_INIT;
    expect(field_string(object, "a.b", "five", &text, &e), &e,
           "a.b.five: Invalid value: must be a string");
    expect(field_string(object, "", "five", &text, &e), &e,
           "five: Invalid value: must be a string");
    expect(field_object(object, "a", "list", &item, &e), &e,
           "a.list: Invalid value: must be an object");
    expect(field_array(object, "a", "object", &item, &e), &e,
           "a.object: Invalid value: must be an array");
    expect(field_int(object, "a", "five", 6, 9, &number, &e), &e,
           "a.five: Invalid value: must be a whole number from 6 to 9");
    expect(field_int(object, "a", "half", 0, 9, &number, &e), &e,
           "a.half: Invalid value: must be a whole number from 0 to 9");
    expect(field_int(object, "a", "text", 0, 9, &number, &e), &e,
           "a.text: Invalid value: must be a whole number from 0 to 9");
    expect(field_required(object, "a", "empty", &text, &e), &e, "a.empty: Required value");
    expect(field_required(object, "a", "none", &text, &e), &e, "a.none: Required value");
    expect(field_known(object, "a", known, &e), &e, "a.object: Forbidden: unknown field");
    expect(field_known(object, "", known, &e), &e, "object: Forbidden: unknown field");
    expect(field_known(object, "", near, &e), &e,
           "object: Forbidden: unknown field; is \"objects\" meant?");
    expect(field_invalid(&e, "a", "text", "t", "is bad"), &e,
           "a.text: Invalid value: \"t\": is bad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_that_are_there),
        cmocka_unit_test(fields_that_are_absent),
        cmocka_unit_test(fields_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
