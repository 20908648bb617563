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

static void test_form(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum object_form expected;
    } cases[] = {
        {"application/json", FORM_FULL},
        {"application/json;stream=watch", FORM_FULL},
        {"application/json;as=Table;v=v1;g=meta.k8s.io", FORM_TABLE},
        {"application/json; g=meta.k8s.io ; v=v1; AS = \"Table\" ", FORM_TABLE},
        {"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
         FORM_PARTIAL},
        {"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", FORM_PARTIAL},
        {"application/json;has=Table", FORM_FULL},
        {"application/json;as=Tables;;=;", FORM_FULL},
        {"as=Table", FORM_FULL},
        {"", FORM_FULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(encoding_form(slice_str(cases[i].type)), cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
