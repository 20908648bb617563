/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum encoding expected;
    } cases[] = {
        {"", ENCODING_JSON},
        {"*/*", ENCODING_JSON},
        {"application/json", ENCODING_JSON},
        {"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ENCODING_JSON},
        {"application/vnd.kubernetes.protobuf;stream=watch", ENCODING_PROTOBUF},
        {"application/vnd.kubernetes.protobuf,application/json", ENCODING_PROTOBUF},
        {"application/json, application/vnd.kubernetes.protobuf", ENCODING_JSON},
        {"application/json;q=0.8,application/vnd.kubernetes.protobuf;q=0.9", ENCODING_PROTOBUF},
        {"application/json; Q=0.85 ,application/vnd.kubernetes.protobuf;q=0.8", ENCODING_JSON},
        {"application/json;q=0.855,application/vnd.kubernetes.protobuf;q=0.86", ENCODING_PROTOBUF},
        {"application/json;q=0,application/vnd.kubernetes.protobuf;q=0.001", ENCODING_PROTOBUF},
        {"*/*,application/vnd.kubernetes.protobuf", ENCODING_PROTOBUF},
        {"application/vnd.kubernetes.protobuf;q=0.5,*/*", ENCODING_JSON},
        {"application/cbor-seq,application/*;q=0.1", ENCODING_JSON},
        {"application/cbor-seq, application/yaml", ENCODING_OTHER},
        {"*/*;q=0.001", ENCODING_JSON},
        {"application/json;q=0.000", ENCODING_OTHER},
        {"text/*", ENCODING_OTHER},
        {",;q,", ENCODING_OTHER},
        {"application/json;q=0;q=1", ENCODING_JSON},
        {"application/json;q=7,application/vnd.kubernetes.protobuf", ENCODING_JSON},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (encoding_accepted(slice_str(cases[i].accept)) != cases[i].expected) {
            fail_msg("%s", cases[i].accept);
        }
    }
    assert_int_equal(encoding_accepted(slice_of(NULL, 0)), ENCODING_JSON);
}

#define PROTO "application/vnd.kubernetes.protobuf"
#define PARTIAL ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#define TABLE ";as=Table;v=v1;g=meta.k8s.io"

static void test_form(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum encoding answer;
        enum object_form expected;
    } cases[] = {
        {"", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json" PARTIAL, ENCODING_JSON, OBJECT_FORM_PARTIAL},
        {"application/json ; v=v1; As = PartialObjectMetadataList", ENCODING_JSON,
         OBJECT_FORM_PARTIAL},
        {"application/json;stream=watch" TABLE ",application/json", ENCODING_JSON,
         OBJECT_FORM_TABLE},
        /* The first of the best that fit the answer. */
        {"application/json, application/json" PARTIAL, ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json;q=0.8, application/json" PARTIAL ";q=0.9", ENCODING_JSON,
         OBJECT_FORM_PARTIAL},
        {"application/json" TABLE ";q=0.1, */*;q=1.000", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json" TABLE ";q=0", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json" TABLE ";q=0.999, */*;q=1", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json" TABLE ";q=0.12345, */*;q=0.2", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {PROTO PARTIAL ",application/json", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {PROTO PARTIAL ",application/json", ENCODING_PROTOBUF, OBJECT_FORM_PARTIAL},
        {"application/*" PARTIAL, ENCODING_PROTOBUF, OBJECT_FORM_PARTIAL},
        /* Not what looks like it elsewhere. */
        {"application/json;x=\"as=Table\"", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"application/json;as=Tables", ENCODING_JSON, OBJECT_FORM_WHOLE},
        {"text/as=Table,;,=,;as", ENCODING_JSON, OBJECT_FORM_WHOLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(encoding_form(slice_str(cases[i].accept), cases[i].answer),
                         cases[i].expected);
    }
    assert_int_equal(encoding_form(slice_of(NULL, 0), ENCODING_JSON), OBJECT_FORM_WHOLE);
}

static void test_without_cbor(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        const char *left; /* NULL: it stays */
    } cases[] = {
        {"application/cbor,application/json;q=0.9", "application/json;q=0.9"},
        {PROTO ", Application/CBOR-seq ;q=1 , */*", PROTO ",*/*"},
        {"application/json", NULL},
        {"application/cbor", NULL},
        {"application/cbor2,application/json;x=application/cbor", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = BUF_INIT(256);
        bool changed = encoding_without_cbor(slice_str(cases[i].accept), &out);
        assert_int_equal(changed, cases[i].left != NULL);
        if (changed) {
            assert_string_equal(buf_cstr(&out), cases[i].left);
        }
        buf_reset(&out);
    }
    struct buf small = BUF_INIT(4);
    assert_false(encoding_without_cbor(SLICE("application/cbor,text/plain"), &small));
    buf_reset(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_without_cbor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
