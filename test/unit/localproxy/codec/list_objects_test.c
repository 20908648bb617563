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
#include "codec/list_objects.h"
#include "random_json.h"

/* The namespaces that were found, one a line. */
static void on_object(void *data, struct slice ns)
{
    assert_int_equal(buf_printf(data, "%.*s\n", (int)ns.len, ns.ptr), 0);
}

/* Feeds copies of exactly the piece's size; `piece` 0: random sizes. */
static struct buf find(enum encoding encoding, bool namespaces, struct slice body, size_t piece)
{
    struct buf said = BUF_INIT(SIZE_MAX / 2);
    struct list_objects l;
    list_objects_init(&l, encoding, namespaces, on_object, &said);
    for (size_t at = 0; at < body.len;) {
        size_t n = piece == 0 ? 1 + random_below(200) : piece;
        n = n < body.len - at ? n : body.len - at;
        struct slice copy = exact_copy(slice_of(body.ptr + at, n));
        list_objects_feed(&l, copy);
        free((void *)copy.ptr);
        at += n;
    }
    return said;
}

/* However it is cut into pieces. */
static void assert_finds(enum encoding encoding, struct slice body, const char *expected)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 7, 64, 1000, 0, 0, 0};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct buf said = find(encoding, true, body, pieces[i]);
        assert_string_equal(buf_cstr(&said), expected);
        buf_reset(&said);
        said = find(encoding, false, body, pieces[i]);
        size_t lines = 0;
        for (const char *p = expected; (p = strchr(p, '\n')) != NULL; p++) {
            lines++;
        }
        assert_int_equal(said.len, lines);
        buf_reset(&said);
    }
}

static void assert_finds_json(const char *text, const char *expected)
{
    assert_finds(ENCODING_JSON, slice_str(text), expected);
}

static void test_captures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *namespaces;
    } lists[] = {
        {"list_pods_all.json", "scan\nscan\nscan\n"},
        {"list_pods_all.protobuf", "scan\nscan\nscan\n"},
        {"list_pods.json", "scan\n"},
        {"list_pods.protobuf", "scan\n"},
        {"list_pods.partial.json", "scan\nscan\nscan\n"},
        {"list_pods.partial.protobuf", "scan\nscan\nscan\n"},
        {"list_widgets.json", "scan\n"},
        {"list_widgets_all.json", "scan\nscan\nscan\n"},
        {"list_widgets.partial.json", "scan\nscan\nscan\n"},
        {"list_widgets.table.json", "scan\nscan\nscan\n"},
        {"list_empty.json", ""},
        {"list_empty.protobuf", ""},
        {"list_widgets_empty.json", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct buf b = capture_read(lists[i].name);
        assert_finds(capture_encoding(lists[i].name), capture_slice(&b), lists[i].namespaces);
        buf_reset(&b);
    }
}

static void test_json(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *namespaces;
    } cases[] = {
        {"", ""},
        {"{}", ""},
        {"{\"items\":[]}", ""},
        {"{\"items\":null}", ""},
        {"{\"items\":[{}]}", "\n"},
        {"{\"items\":[{\"metadata\":{}}]}", "\n"},
        {"{\"items\":[{\"metadata\":null},{\"metadata\":7}]}", "\n\n"},
        {"{\"items\":[{\"metadata\":{\"namespace\":\"\"}}]}", "\n"},
        {"{\"items\":[{\"metadata\":{\"namespace\":7}}]}", "\n"},
        {"{\"items\":[{\"metadata\":{\"namespace\":\"a\"}}]}", "a\n"},
        {" { \"items\" : [ { \"metadata\" : { \"namespace\" : \"a\" } } , { } ] } ", "a\n\n"},
        /* Of cluster-scoped objects, and of others between them. */
        {"{\"items\":[{\"metadata\":{\"name\":\"n\"},\"spec\":{\"metadata\":{\"namespace\":\"x\"}}}"
         ","
         "{\"metadata\":{\"namespace\":\"b\"}}]}",
         "\nb\n"},
        /* What looks like one and is none. */
        {"{\"items\":[{\"spec\":{\"namespace\":\"x\"},\"namespace\":\"x\",\"metadata\":{\"labels\":"
         "{"
         "\"namespace\":\"x\"},\"a\":\"\\\"namespace\\\":\\\"x\\\"\",\"namespace\":\"c\"},"
         "\"status\":{\"metadata\":{\"namespace\":\"x\"},\"t\":\"}]}\"}}]}",
         "c\n"},
        {"{\"metadata\":{\"namespace\":\"x\"},\"items\":[{\"metadata\":{\"namespace\":\"d\"}}],"
         "\"more\":[{\"metadata\":{\"namespace\":\"x\"}}]}",
         "d\n"},
        /* Words and numbers in between. */
        {"{\"a\":1,\"b\":true,\"c\":null ,\"items\":[{\"d\":-1.5e3,\"metadata\":{\"generation\":12,"
         "\"namespace\":\"e\"}}]}",
         "e\n"},
        /* Tables. */
        {"{\"kind\":\"Table\",\"metadata\":{},\"columnDefinitions\":[{\"name\":\"x\"}],\"rows\":[{"
         "\"cells\":[\"x\",{\"object\":1}],\"object\":{\"kind\":\"PartialObjectMetadata\","
         "\"metadata\":{\"name\":\"n\",\"namespace\":\"f\"}}},{\"cells\":[],\"object\":{"
         "\"metadata\":"
         "{}}},{\"cells\":[],\"object\":null},{\"cells\":[]}]}",
         "f\n\n\n\n"},
        /* No list. */
        {"[]", ""},
        {"7", ""},
        {"{\"items\":[7]}", ""},
        {"{\"items\" \"x\"}", ""},
        {"{\"items\":]", ""},
        {"{\"items\":[{]", ""},
        {"{}{\"items\":[{}]}", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf said = find(ENCODING_JSON, true, slice_str(cases[i].text), SIZE_MAX);
        assert_string_equal(buf_cstr(&said), cases[i].namespaces);
        buf_reset(&said);
        for (size_t piece = 1; piece < 9; piece++) {
            said = find(ENCODING_JSON, true, slice_str(cases[i].text), piece);
            assert_string_equal(buf_cstr(&said), cases[i].namespaces);
            buf_reset(&said);
        }
    }
}

static void test_long_names(void **state)
{
    (void)state;
    char name[200];
    char text[1024];
    char expected[300];
    for (size_t len = 60; len < sizeof name; len += len < 66 ? 1 : 50) {
        memset(name, 'n', len);
        name[len] = '\0';
        (void)snprintf(text, sizeof text,
                       "{\"%s\":1,\"items\":[{\"%s\":{},\"metadata\":{\"namespace\":\"%s\"}}]}",
                       name, name, name);
        (void)snprintf(expected, sizeof expected, "%s\n", len <= LIST_OBJECTS_TEXT_MAX ? name : "");
        assert_finds_json(text, expected);
    }
}

static void test_huge_objects(void **state)
{
    (void)state;
    enum { FILLING = 3000000 };
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    char *filling = malloc(FILLING + 1);
    assert_non_null(filling);
    memset(filling, '{', FILLING);
    filling[FILLING] = '\0';
    assert_int_equal(buf_printf(&b,
                                "{\"items\":[{\"metadata\":{\"annotations\":{\"a\":\"%s\"},"
                                "\"namespace\":\"a\",\"x\":\"%s\"},\"data\":{\"x\":\"%s\"}},"
                                "{\"metadata\":{\"namespace\":\"b\"}}]}",
                                filling, filling, filling),
                     0);
    struct buf said = find(ENCODING_JSON, true, buf_slice(&b), 16384);
    assert_string_equal(buf_cstr(&said), "a\nb\n");
    buf_reset(&said);
    buf_reset(&b);
    free(filling);
}

/* ---- protobuf by hand ---- */

static void put(struct buf *b, unsigned number, struct slice value)
{
    char head[2 * PROTOBUF_VARINT_MAX];
    size_t n = protobuf_put_varint(head, (uint64_t)number << 3 | PROTOBUF_BYTES);
    n += protobuf_put_varint(head + n, value.len);
    assert_int_equal(buf_append(b, head, n), 0);
    assert_int_equal(buf_append(b, value.ptr, value.len), 0);
}

static void put_buf(struct buf *b, unsigned number, struct buf *value)
{
    put(b, number, buf_slice(value));
    buf_reset(value);
}

/* With a namespace, unless it is NULL, and a body of that size. */
static void put_item(struct buf *list, const char *ns, size_t size)
{
    static char filling[100000];
    struct buf meta = BUF_INIT(SIZE_MAX / 2);
    struct buf item = BUF_INIT(SIZE_MAX / 2);
    put(&meta, 1, SLICE("name"));
    if (ns != NULL) {
        put(&meta, 3, slice_str(ns));
    }
    put(&meta, 6, SLICE("17"));
    put_buf(&item, 1, &meta);
    put(&item, 2, slice_of(filling, size));
    put_buf(list, 2, &item);
}

static struct buf list_of(struct buf *list)
{
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    assert_int_equal(buf_append(&b, "k8s\0", 4), 0);
    put(&b, 1, SLICE("\x0a\x02v1\x12\x07PodList"));
    put_buf(&b, 2, list);
    put(&b, 3, SLICE(""));
    put(&b, 4, SLICE(""));
    return b;
}

static void test_protobuf(void **state)
{
    (void)state;
    struct buf list = BUF_INIT(SIZE_MAX / 2);
    put(&list, 1, SLICE("\x12\x01\x37")); /* ListMeta */
    put_item(&list, "a", 0);
    put_item(&list, NULL, 300);
    put_item(&list, "", 5);
    put_item(&list, "bb", 100000);
    put(&list, 2, SLICE(""));                      /* an empty item */
    put(&list, 2, SLICE("\x0a\x00"));              /* with empty metadata */
    put(&list, 2, SLICE("\x08\x05\x12\x01x"));     /* with metadata that is none */
    put(&list, 2, SLICE("\x0a\x02\x1a\x00"));      /* with an empty namespace */
    put(&list, 2, SLICE("\x0a\x02\x1a\x00\x12x")); /* broken off inside */
    struct buf b = list_of(&list);
    assert_finds(ENCODING_PROTOBUF, buf_slice(&b), "a\n\n\nbb\n\n\n\n\n\n");
    buf_reset(&b);
}

static void test_long_name_in_protobuf(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'n', sizeof name);
    name[LIST_OBJECTS_TEXT_MAX + 1] = '\0';
    struct buf list = BUF_INIT(SIZE_MAX / 2);
    put_item(&list, name, 3);
    put_item(&list, name + 1, 3);
    struct buf b = list_of(&list);
    char expected[300];
    (void)snprintf(expected, sizeof expected, "\n%s\n", name + 1);
    assert_finds(ENCODING_PROTOBUF, buf_slice(&b), expected);
    buf_reset(&b);
}

static void test_odd_protobuf(void **state)
{
    (void)state;
    static const struct slice texts[] = {
        {"", 0},
        {"k8s", 3},
        {"k8x\0\x12\x02\x12\x00", 8}, /* no envelope */
        {"k8s\0\x12\x02\x12\x05", 8}, /* an item longer than its list */
        {"k8s\0\x00\x02\x12\x00", 8}, /* field 0 */
        {"k8s\0\x13\x02\x12\x00", 8}, /* a group */
        {"k8s\0\x10\x02\x12", 7},     /* the list is a number */
        {"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 15},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_finds(ENCODING_PROTOBUF, texts[i], "");
    }
    assert_finds(ENCODING_OTHER, SLICE("{\"items\":[{}]}"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captures),     cmocka_unit_test(test_json),
        cmocka_unit_test(test_long_names),   cmocka_unit_test(test_huge_objects),
        cmocka_unit_test(test_protobuf),     cmocka_unit_test(test_long_name_in_protobuf),
        cmocka_unit_test(test_odd_protobuf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
