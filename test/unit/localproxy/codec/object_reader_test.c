/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "capture.h"
#include "codec/gunzip.h"
#include "codec/object_reader.h"
#include "random_json.h"

#define VERSION "\"resourceVersion\":\"7\""
#define LABELS "\"labels\":{\"a\":\"b\",\"c/d\":\"\"}"

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

/* Feeds copies of exactly the piece's size; `piece` 0: random sizes. */
static void read_pieces(enum encoding encoding, bool gzip, struct slice body, size_t piece,
                        struct buf *said)
{
    struct byte_budget budget = {.max = SIZE_MAX};
    struct object_reader *r = object_reader_new(encoding, gzip, &budget);
    assert_non_null(r);
    bool more = true;
    for (size_t at = 0; at < body.len;) {
        size_t n = piece == 0 ? 1 + random_below(300) : piece;
        n = n < body.len - at ? n : body.len - at;
        struct slice copy = exact_copy(slice_of(body.ptr + at, n));
        bool now = object_reader_feed(r, copy);
        assert_true(more || !now);
        more = now;
        free((void *)copy.ptr);
        at += n;
        assert_true(budget.used <= 2 * OBJECT_READER_HELD_MAX + GUNZIP_MEMORY);
    }
    struct object_meta m;
    if (object_reader_read(r, &m)) {
        say(&m, said);
    }
    object_reader_free(r);
    assert_int_equal(budget.used, 0);
}

/* In blocks that are stored as they are, and a sum that nobody looks at (RFC 1951, 1952). */
static void zip(struct slice body, struct buf *out)
{
    static const char head[10] = {'\x1f', '\x8b', 8};
    static const char sums[8];
    buf_append(out, head, sizeof head);
    do {
        uint16_t n = body.len < 60000 ? (uint16_t)body.len : 60000;
        unsigned char block[5] = {n == body.len, (unsigned char)n, (unsigned char)(n >> 8)};
        block[3] = (unsigned char)~block[1];
        block[4] = (unsigned char)~block[2];
        buf_append(out, block, sizeof block);
        buf_append(out, body.ptr, n);
        body = slice_of(body.ptr + n, body.len - n);
    } while (body.len > 0);
    buf_append(out, sums, sizeof sums);
    assert_int_equal(buf_error(out), 0);
}

static const size_t pieces[] = {SIZE_MAX, 1, 2, 1000, 0};

/* `said` is what object_meta_read says; empty: nothing. */
static void assert_says(enum encoding encoding, struct slice body, const char *said)
{
    struct buf zipped = BUF_INIT(SIZE_MAX / 2);
    zip(body, &zipped);
    for (size_t i = 0; i < 2 * ARRAY_LEN(pieces); i++) {
        struct buf out = BUF_INIT(1 << 20);
        bool gzip = i >= ARRAY_LEN(pieces);
        read_pieces(encoding, gzip, gzip ? buf_slice(&zipped) : body, pieces[i % ARRAY_LEN(pieces)],
                    &out);
        assert_string_equal(buf_cstr(&out), said);
        buf_reset(&out);
    }
    buf_reset(&zipped);
}

static void test_json(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *said;
    } rows[] = {
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\"," VERSION "," LABELS
         ",\"managedFields\":[{\"labels\":1}]},\"spec\":{\"resourceVersion\":\"9\"}}",
         "Pod v1 7 a=b c/d="},
        {"{\"apiVersion\":\"v1\",\"data\":{\"metadata\":{\"resourceVersion\":\"9\"}},\"kind\":"
         "\"G\","
         "\"metadata\":{\"annotations\":{\"labels\":\"{\\\"}\"},\"generation\":1,\"name\":"
         "\"a\\\\\","
         "\"x\":null," LABELS ",\"managedFields\":[{},[]]," VERSION "}}",
         "G v1 7 a=b c/d="},
        {"{\"apiVersion\":\"v1\",\"kind\":\"G\",\"metadata\":{" VERSION "},\"spec\":{}}", "G v1 7"},
        {"{\"metadata\":{" VERSION "},\"a\":1,\"kind\":\"G\",\"b\":\"{\",\"apiVersion\":\"v1\"}",
         "G v1 7"},
        {" {\n \"apiVersion\" : \"v1\" ,\n \"n\" : 1 ,\n \"kind\" : \"G\" , \"metadata\" : {\n "
         "\"labels\" : { \"a\" : \"b\" } , " VERSION " }\n}\n",
         "G v1 7 a=b"},
        {"{\"metadata\":{" VERSION "}}", "  7"},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{" VERSION ",\"labels\":null}}",
         "Pod v1 7"},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{" VERSION
         ",\"labels\":null ,\"x\":0}}",
         "Pod v1 7"},
        /* Cut off before it is clear that there are no labels. */
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{" VERSION, ""},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{" VERSION "}", "Pod v1 7"},
        {"{\"metadata\":{" VERSION "}", ""},
        /* No object with a version. */
        {"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\"}", ""},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":[" VERSION "]}", ""},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":[1]," VERSION "}}", ""},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{" VERSION "::", ""},
        {"{\"kind\":,}", ""},
        {"[]", ""},
        {"x", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_says(ENCODING_JSON, slice_str(rows[i].json), rows[i].said);
    }
}

/* Of any object it says what is read of the whole. */
static void test_random_json(void **state)
{
    (void)state;
    static const char *const members[] = {"\"kind\":\"Pod\"", "\"apiVersion\":\"v1\"", NULL, NULL,
                                          NULL};
    for (unsigned i = 0; i < 2000; i++) {
        struct buf body = BUF_INIT(1 << 20);
        struct buf said = BUF_INIT(1 << 20);
        struct object_meta m;
        unsigned first = random_below(5);
        put_text(&body, "{");
        for (unsigned j = 0; j < 5; j++) {
            unsigned which = (first + j) % 5;
            put_blank(&body);
            if (members[which] != NULL) {
                put_text(&body, members[which]);
            } else if (which == 2) {
                put_text(&body, "\"metadata\":{\"x\":");
                put_random_value(&body, 2);
                put_text(&body, random_below(4) > 0 ? "," LABELS : "");
                put_text(&body, ",\"y\":");
                put_random_value(&body, 2);
                put_text(&body, random_below(4) > 0 ? "," VERSION : "");
                put_text(&body, ",\"z\":");
                put_random_value(&body, 2);
                put_text(&body, "}");
            } else {
                put_text(&body, which == 3 ? "\"data\":" : "\"spec\":");
                put_random_value(&body, 1);
            }
            put_text(&body, j < 4 ? "," : "}");
        }
        if (object_meta_read(ENCODING_JSON, buf_slice(&body), &m)) {
            say(&m, &said);
        }
        assert_says(ENCODING_JSON, buf_slice(&body), buf_cstr(&said));
        buf_reset(&body);
        buf_reset(&said);
    }
}

/* Whatever is large stands before or behind. */
static void test_large(void **state)
{
    (void)state;
    struct buf body = BUF_INIT(SIZE_MAX / 2);
    put_text(&body, "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"");
    for (unsigned i = 0; i < 100000; i++) {
        put_text(&body, "0123456789");
    }
    put_text(&body, "\"},\"kind\":\"G\",\"metadata\":{\"annotations\":{\"a\":\"");
    for (unsigned i = 0; i < 20000; i++) {
        put_text(&body, "0123456789");
    }
    put_text(&body, "\"}," LABELS "," VERSION "}}");
    assert_says(ENCODING_JSON, buf_slice(&body), "G v1 7 a=b c/d=");
    buf_reset(&body);
    /* Labels are held. */
    put_text(&body, "{\"apiVersion\":\"v1\",\"kind\":\"G\",\"metadata\":{\"labels\":{\"a\":\"");
    for (unsigned i = 0; i < OBJECT_READER_HELD_MAX / 10; i++) {
        put_text(&body, "0123456789");
    }
    put_text(&body, "\"}," VERSION "}}");
    assert_says(ENCODING_JSON, buf_slice(&body), "");
    buf_reset(&body);
}

static void put_field(struct buf *b, unsigned number, struct slice value)
{
    size_t n = value.len;
    buf_append_char(b, (char)(number << 3 | 2));
    for (; n >= 0x80; n >>= 7) {
        buf_append_char(b, (char)(n | 0x80));
    }
    buf_append_char(b, (char)n);
    buf_append(b, value.ptr, value.len);
}

static void put_protobuf(struct buf *b, size_t annotation, size_t spec)
{
    struct buf fill = BUF_INIT(SIZE_MAX / 2);
    struct buf metadata = BUF_INIT(SIZE_MAX / 2);
    struct buf object = BUF_INIT(SIZE_MAX / 2);
    memset(buf_reserve(&fill, annotation + spec + 1), 'x', annotation + spec);
    buf_commit(&fill, annotation + spec);
    put_field(&metadata, 1, SLICE("p"));
    put_field(&metadata, 6, SLICE("7"));
    put_field(&metadata, 11,
              SLICE("\x0a\x01"
                    "a\x12\x01"
                    "b"));
    if (annotation > 0) {
        put_field(&metadata, 12, slice_of(buf_slice(&fill).ptr, annotation));
    }
    put_field(&object, 1, buf_slice(&metadata));
    put_field(&object, 2, slice_of(buf_slice(&fill).ptr, spec));
    put_text(b, "k8s");
    buf_append_char(b, '\0');
    put_field(b, 1, SLICE("\x0a\x02v1\x12\x03Pod"));
    put_field(b, 2, buf_slice(&object));
    assert_int_equal(buf_error(b), 0);
    buf_reset(&fill);
    buf_reset(&metadata);
    buf_reset(&object);
}

static void test_protobuf(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 10, 100000, 1000000};
    for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(sizes); i++) {
        struct buf body = BUF_INIT(SIZE_MAX / 2);
        put_protobuf(&body, sizes[i % ARRAY_LEN(sizes)], sizes[i / ARRAY_LEN(sizes)]);
        assert_says(ENCODING_PROTOBUF, buf_slice(&body), "Pod v1 7 a=b");
        buf_reset(&body);
    }
}

/* Cut off where there might be labels still. */
static void test_protobuf_cut(void **state)
{
    (void)state;
    struct buf body = BUF_INIT(SIZE_MAX / 2);
    put_protobuf(&body, 3, 3);
    struct slice whole = buf_slice(&body);
    size_t labels = whole.len - 2 - 3 - 2 - 3; /* behind them: annotations and spec */
    for (size_t n = 0; n <= whole.len; n++) {
        struct buf out = BUF_INIT(1 << 20);
        read_pieces(ENCODING_PROTOBUF, false, slice_of(whole.ptr, n), SIZE_MAX, &out);
        assert_string_equal(buf_cstr(&out), n <= labels ? "" : "Pod v1 7 a=b");
        buf_reset(&out);
    }
    buf_reset(&body);
}

static void test_broken_gzip(void **state)
{
    (void)state;
    struct buf zipped = BUF_INIT(1 << 20);
    struct slice json = SLICE("{\"apiVersion\":\"v1\",\"kind\":\"G\",\"metadata\":{" VERSION "}}");
    zip(json, &zipped);
    for (size_t n = 0; n < zipped.len; n++) {
        struct buf out = BUF_INIT(1 << 20);
        read_pieces(ENCODING_JSON, true, slice_of(buf_slice(&zipped).ptr, n), 5, &out);
        assert_string_equal(buf_cstr(&out), n < 10 + 5 + json.len - 1 ? "" : "G v1 7");
        buf_reset(&out);
        struct slice copy = exact_copy(buf_slice(&zipped));
        ((char *)(uintptr_t)copy.ptr)[n] ^= 0x55;
        read_pieces(ENCODING_JSON, true, copy, SIZE_MAX, &out);
        buf_reset(&out);
        free((void *)copy.ptr);
    }
    buf_reset(&zipped);
}

static void test_a_budget_that_is_used_up(void **state)
{
    (void)state;
    struct byte_budget budget = {.max = 5000};
    assert_null(object_reader_new(ENCODING_JSON, true, &budget));
    struct object_reader *r = object_reader_new(ENCODING_PROTOBUF, false, &budget);
    struct object_meta m;
    static const char fill[OBJECT_META_PROTOBUF_HEAD];
    assert_non_null(r);
    assert_false(object_reader_feed(r, slice_of(fill, sizeof fill)));
    assert_false(object_reader_read(r, &m));
    object_reader_free(r);
    assert_int_equal(budget.used, 0);
}

/* What others cannot do without is left to them, and nothing counts as refused. */
static void test_a_budget_of_others(void **state)
{
    (void)state;
    struct byte_budget budget = {.max = 4 * OBJECT_READER_MEMORY};
    struct byte_share other = {.budget = &budget};
    byte_share_force(&other, OBJECT_READER_MEMORY - GUNZIP_MEMORY);
    struct object_reader *last = object_reader_new(ENCODING_JSON, true, &budget);
    assert_non_null(last);
    assert_null(object_reader_new(ENCODING_JSON, true, &budget));
    struct object_reader *r = object_reader_new(ENCODING_PROTOBUF, false, &budget);
    static const char fill[BYTE_SHARE_FREE + 1];
    assert_non_null(r);
    assert_false(object_reader_feed(r, slice_of(fill, sizeof fill)));
    object_reader_free(r);
    object_reader_free(last);
    byte_share_give_back(&other);
    assert_int_equal(budget.used, 0);
    assert_int_equal(budget.refused, 0);
}

static bool read_once(void *data)
{
    struct slice body = *(struct slice *)data;
    struct object_reader *r = object_reader_new(ENCODING_JSON, true, NULL);
    struct object_meta m;
    bool read = r != NULL && !object_reader_feed(r, body) && object_reader_read(r, &m);
    object_reader_free(r);
    return read;
}

static void test_without_memory(void **state)
{
    (void)state;
    struct buf zipped = BUF_INIT(1 << 20);
    zip(SLICE("{\"apiVersion\":\"v1\",\"kind\":\"G\",\"metadata\":{" VERSION "}}"), &zipped);
    struct slice body = buf_slice(&zipped);
    assert_true(sweep_allocations(read_once, &body) > 0);
    buf_reset(&zipped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_random_json),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_protobuf),
        cmocka_unit_test(test_protobuf_cut),
        cmocka_unit_test(test_broken_gzip),
        cmocka_unit_test(test_a_budget_that_is_used_up),
        cmocka_unit_test(test_a_budget_of_others),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
