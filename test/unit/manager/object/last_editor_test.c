/* SPDX-License-Identifier: Apache-2.0 */
#include "object/last_editor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void test_the_last_of_the_others(void **state)
{
    static const char *const but[] = {"us", "us-too", NULL};
    static const struct {
        const char *fields;
        const char *found;
    } cases[] = {
        {"null", ""},
        {"[]", ""},
        {"[{\"manager\":\"us\",\"time\":\"2\"}]", ""},
        {"[{\"manager\":\"a\",\"time\":\"1\"},{\"manager\":\"us-too\",\"time\":\"2\"}]", "a at 1"},
        {"[{\"manager\":\"a\",\"time\":\"1\"},{\"manager\":\"b\",\"time\":\"3\"},"
         "{\"manager\":\"c\",\"time\":\"2\"}]",
         "b at 3"},
        {"[{\"manager\":\"a\"}]", "a"},
        {"[7,{}]", ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char found[LAST_EDITOR_SIZE];
        cJSON *meta = cJSON_CreateObject();
        assert_true(cJSON_AddItemToObject(meta, "managedFields", cJSON_Parse(cases[i].fields)));
        last_editor_find(meta, but, found);
        assert_string_equal(found, cases[i].found);
        cJSON_Delete(meta);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_last_of_the_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
