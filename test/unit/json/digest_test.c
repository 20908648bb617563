/* SPDX-License-Identifier: Apache-2.0 */
#include "json/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/array.h"

static uint64_t digest(const char *text)
{
    cJSON *item = cJSON_Parse(text);
    assert_non_null(item);
    uint64_t found = json_digest(item);
    cJSON_Delete(item);
    return found;
}

static void test_order_of_keys_means_nothing(void **state)
{
    (void)state;
    assert_true(digest("{\"a\":1,\"b\":{\"c\":[1,2],\"d\":\"x\"}}") ==
                digest("{\"b\":{\"d\":\"x\",\"c\":[1,2]},\"a\":1.0}"));
    assert_true(digest("0") == digest("-0"));
}

static void test_each_document_has_its_own(void **state)
{
    static const char *const texts[] = {"{}",
                                        "[]",
                                        "\"\"",
                                        "0",
                                        "null",
                                        "true",
                                        "false",
                                        "1",
                                        "\"1\"",
                                        "[1,2]",
                                        "[2,1]",
                                        "[[1,2]]",
                                        "[[1],2]",
                                        "[1,[2]]",
                                        "{\"a\":1}",
                                        "{\"b\":1}",
                                        "{\"a\":\"\"}",
                                        "{\"a\":null}",
                                        "{\"a\":{}}",
                                        "{\"a\":[]}",
                                        "{\"a\":{\"b\":1}}",
                                        "[\"a\",1]",
                                        "[[]]",
                                        "[null]",
                                        "[{}]",
                                        "{\"a\":1,\"b\":2}",
                                        "{\"a\":2,\"b\":1}",
                                        "[\"ab\"]",
                                        "[\"a\",\"b\"]"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        for (size_t k = 0; k < i; k++) {
            if (digest(texts[i]) == digest(texts[k])) {
                fail_msg("%s and %s have one digest", texts[i], texts[k]);
            }
        }
        assert_true(digest(texts[i]) != json_digest(NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_keys_means_nothing),
        cmocka_unit_test(test_each_document_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
