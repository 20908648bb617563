/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "capture.h"
#include "codec/object_meta.h"
#include "random_json.h"

#define HEAD "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"labels\":"
#define TAIL ",\"resourceVersion\":\"7\"},\"spec\":{\"labels\":{\"no\":\"x\"}}}"

struct row {
    const char *json;
    const char *said; /* kind, apiVersion, version, labels; NULL: it cannot be read */
};

static const struct row rows[] = {
    {HEAD "{\"a\":\"b\",\"c/d\":\"\"}" TAIL, "Pod v1 7 a=b c/d="},
    {HEAD "{}" TAIL, "Pod v1 7"},
    {HEAD "null" TAIL, "Pod v1 7"},
    /* Of a custom resource. */
    {"{\"apiVersion\":\"e.example/v1\",\"kind\":\"Gear\",\"metadata\":{\"annotations\":{\"labels\":"
     "\"x\"},\"labels\":{\"a\":\"b\"},\"managedFields\":[{\"fieldsV1\":{\"f:labels\":{}}}],"
     "\"resourceVersion\":\"18446744073709551615\"}}",
     "Gear e.example/v1 18446744073709551615 a=b"},
    /* What is behind is not needed. */
    {"{\"metadata\":{\"resourceVersion\":\"7\"},\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":[",
     "Pod v1 7"},
    {" {\n \"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": { \"resourceVersion\": \"7\" } "
     "}",
     "Pod v1 7"},
    /* No object with a version. */
    {"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\"}", NULL},
    {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"x\"}}", NULL},
    {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":7}}", NULL},
    {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}", NULL},
    {"", NULL},
    {"[]", NULL},
    /* Labels that are none. */
    {HEAD "{\"a\":1}" TAIL, NULL},
    {HEAD "{\"a\":\"\\u0062\"}" TAIL, NULL},
    {HEAD "{\"\\u0061\":\"b\"}" TAIL, NULL},
    {HEAD "[\"a\"]" TAIL, NULL},
};

static void say(const struct object_meta *m, struct buf *out)
{
    buf_printf(out, "%.*s %.*s %llu", (int)m->type.kind.len, m->type.kind.ptr,
               (int)m->type.api_version.len, m->type.api_version.ptr,
               (unsigned long long)m->resource_version);
    for (size_t i = 0; i < m->label_count; i++) {
        const struct selector_label *l = &m->labels[i];
        buf_printf(out, " %.*s=%.*s", (int)l->key.len, l->key.ptr, (int)l->value.len, l->value.ptr);
    }
}

static void assert_says(enum encoding encoding, struct slice object, const char *said)
{
    struct object_meta m;
    struct buf out = BUF_INIT(1 << 20);
    struct slice copy = exact_copy(object);
    bool read = object_meta_read(encoding, copy, &m);
    assert_int_equal(read, said != NULL);
    if (read) {
        say(&m, &out);
        assert_string_equal(buf_cstr(&out), said);
    }
    buf_reset(&out);
    free((void *)copy.ptr);
}

static void test_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_says(ENCODING_JSON, slice_str(rows[i].json), rows[i].said);
    }
}

#define PROTOBUF(labels) "k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12" labels "\x1a\x00\x22\x00"

static void test_protobuf(void **state)
{
    (void)state;
    static const char two[] = PROTOBUF("\x19\x0a\x15\x0a\x01p\x32\x01"
                                       "7"
                                       "\x5a\x06\x0a\x01"
                                       "a"
                                       "\x12\x01"
                                       "b"
                                       "\x5a\x05\x0a\x01"
                                       "c"
                                       "\x12\x00\x12\x00");
    static const char none[] = PROTOBUF("\x05\x0a\x03\x0a\x01p");
    assert_says(ENCODING_PROTOBUF, slice_of(two, sizeof two - 1), "Pod v1 7 a=b c=");
    assert_says(ENCODING_PROTOBUF, slice_of(none, sizeof none - 1), NULL);
    assert_says(ENCODING_PROTOBUF, SLICE("k8s"), NULL);
    assert_says(ENCODING_OTHER, slice_of(two, sizeof two - 1), NULL);
    for (size_t cut = 0; cut < sizeof two - 1; cut++) { /* stays inside, whatever it makes of it */
        struct object_meta m;
        struct slice copy = exact_copy(slice_of(two, cut));
        if (object_meta_read(ENCODING_PROTOBUF, copy, &m)) {
            assert_int_equal(m.resource_version, 7);
        }
        free((void *)copy.ptr);
    }
}

static void test_more_labels_than_are_read(void **state)
{
    (void)state;
    for (unsigned count = OBJECT_META_LABELS; count <= OBJECT_META_LABELS + 1; count++) {
        struct object_meta m;
        struct buf text = BUF_INIT(1 << 20);
        buf_append_str(&text, HEAD "{\"k\":\"v\"");
        for (unsigned i = 1; i < count; i++) {
            buf_printf(&text, ",\"k%u\":\"v\"", i);
        }
        buf_append_str(&text, "}" TAIL);
        assert_int_equal(object_meta_read(ENCODING_JSON, buf_slice(&text), &m),
                         count == OBJECT_META_LABELS);
        buf_reset(&text);
    }
}

static void test_any_bytes_are_read_inside(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct object_meta m;
        struct slice text = slice_str(rows[random_below(ARRAY_LEN(rows))].json);
        struct slice copy =
            exact_copy(slice_of(text.ptr, text.len == 0 ? 0 : random_below((unsigned)text.len)));
        if (copy.len > 0) {
            ((char *)(uintptr_t)copy.ptr)[random_below((unsigned)copy.len)] =
                (char)random_below(256);
        }
        if (object_meta_read(i % 2 ? ENCODING_JSON : ENCODING_PROTOBUF, copy, &m)) {
            assert_int_not_equal(m.resource_version, 0);
        }
        free((void *)copy.ptr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_protobuf),
        cmocka_unit_test(test_more_labels_than_are_read),
        cmocka_unit_test(test_any_bytes_are_read_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
