/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/encoding.h"

static void test_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum encoding expected;
    } cases[] = {
        {"application/json", ENCODING_JSON},
        {"application/json;stream=watch", ENCODING_JSON},
        {"application/json; charset=utf-8", ENCODING_JSON},
        {" Application/JSON ;stream=watch", ENCODING_JSON},
        {"application/vnd.kubernetes.protobuf", ENCODING_PROTOBUF},
        {"application/vnd.kubernetes.protobuf;stream=watch", ENCODING_PROTOBUF},
        {"application/json-seq", ENCODING_OTHER},
        {"application/merge-patch+json", ENCODING_OTHER},
        {"application/cbor-seq", ENCODING_OTHER},
        {"application/yaml", ENCODING_OTHER},
        {"text/plain;x=application/json", ENCODING_OTHER},
        {";", ENCODING_OTHER},
        {"", ENCODING_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(encoding_of(slice_str(cases[i].type)), cases[i].expected);
    }
    assert_int_equal(encoding_of(slice_of(NULL, 0)), ENCODING_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
