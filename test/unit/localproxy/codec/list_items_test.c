/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "capture.h"
#include "codec/list_items.h"
#include "codec/watch_frame.h"
#include "random_json.h"

/* What came of a list: items with the types known by then, one a line. */
struct outcome {
    int rc;
    struct buf items;
    unsigned count;
    char kind[400];
    char api_version[400];
    char *token;
    uint64_t version;
};

static void note_item(struct outcome *o, struct object_type type, struct slice item)
{
    assert_int_equal(buf_printf(&o->items, "%.*s %.*s ", (int)type.kind.len, type.kind.ptr,
                                (int)type.api_version.len, type.api_version.ptr),
                     0);
    assert_int_equal(buf_append(&o->items, item.ptr, item.len), 0);
    put_text(&o->items, "\n");
    o->count++;
}

static int feed(struct list_items *l, struct slice piece, struct outcome *o)
{
    struct err e = ERR_INIT;
    struct slice item;
    int rc;
    while ((rc = list_items_next(l, &piece, &item, &e)) > 0) {
        note_item(o, list_items_type(l), item);
    }
    assert_true(rc != 0 || piece.len == 0);
    assert_int_equal(e.code, rc);
    return rc;
}

static void note_end(const struct list_items *l, struct outcome *o)
{
    struct err e = ERR_INIT;
    struct object_type type = list_items_type(l);
    struct slice token = list_items_token(l);
    int rc = list_items_finish(l, &e);
    assert_true(o->rc == 0 || o->rc == rc);
    assert_int_equal(e.code, rc);
    o->rc = rc;
    (void)snprintf(o->kind, sizeof o->kind, "%.*s", (int)type.kind.len, type.kind.ptr);
    (void)snprintf(o->api_version, sizeof o->api_version, "%.*s", (int)type.api_version.len,
                   type.api_version.ptr);
    o->token = token.len == 0 ? NULL : strndup(token.ptr, token.len);
    o->version = list_items_version(l);
}

/* Feeds copies of exactly the piece's size; `piece` 0: random sizes. */
static struct outcome take_apart(enum encoding encoding, struct slice body, size_t piece)
{
    struct outcome o = {.items = BUF_INIT(SIZE_MAX / 2)};
    struct list_items *l = list_items_new(encoding);
    assert_non_null(l);
    for (size_t at = 0; at < body.len && o.rc == 0;) {
        size_t n = piece == 0 ? 1 + random_below(200) : piece;
        n = n < body.len - at ? n : body.len - at;
        struct slice copy = exact_copy(slice_of(body.ptr + at, n));
        o.rc = feed(l, copy, &o);
        free((void *)copy.ptr);
        at += n;
    }
    note_end(l, &o);
    list_items_free(l);
    return o;
}

static void outcome_deinit(struct outcome *o)
{
    buf_reset(&o->items);
    free(o->token);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->rc, b->rc);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->items.len, b->items.len);
    if (a->items.len > 0) {
        assert_memory_equal(buf_data(&a->items), buf_data(&b->items), a->items.len);
    }
    assert_string_equal(a->kind, b->kind);
    assert_string_equal(a->api_version, b->api_version);
    assert_true((a->token == NULL) == (b->token == NULL));
    if (a->token != NULL) {
        assert_string_equal(a->token, b->token);
    }
    assert_int_equal(a->version, b->version);
}

/* However it is cut into pieces. */
static struct outcome take_apart_in_every_way(enum encoding encoding, struct slice body)
{
    static const size_t pieces[] = {1, 2, 3, 7, 64, 1000, 0, 0, 0};
    struct outcome whole = take_apart(encoding, body, SIZE_MAX);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct outcome o = take_apart(encoding, body, pieces[i]);
        assert_same(&whole, &o);
        outcome_deinit(&o);
    }
    return whole;
}

/* ---- what a real server sends ---- */

static void test_captures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned count;
        const char *kind;
        const char *api_version;
        const char *token;
    } lists[] = {
        {"list_pods_all.json", 3, "Pod", "v1", NULL},
        {"list_pods_all.protobuf", 3, "Pod", "v1", NULL},
        {"list_pods.json", 1, "Pod", "v1",
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDA5LCJzdGFydCI6InAtMFx1MDAwMCJ9"},
        {"list_pods.protobuf", 1, "Pod", "v1",
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDA5LCJzdGFydCI6InAtMFx1MDAwMCJ9"},
        {"list_pods.partial.json", 3, "PartialObjectMetadata", "meta.k8s.io/v1", NULL},
        {"list_pods.partial.protobuf", 3, "PartialObjectMetadata", "meta.k8s.io/v1", NULL},
        {"list_widgets_all.json", 3, "Widget", "example.com/v1", NULL},
        {"list_widgets.json", 1, "Widget", "example.com/v1",
         "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDA5LCJzdGFydCI6InctMFx1MDAwMCJ9"},
        {"list_widgets_empty.json", 0, "Widget", "example.com/v1", NULL},
        {"list_empty.json", 0, "ConfigMap", "v1", NULL},
        {"list_empty.protobuf", 0, "ConfigMap", "v1", NULL},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct buf b = capture_read(lists[i].name);
        enum encoding encoding = capture_encoding(lists[i].name);
        struct outcome o = take_apart_in_every_way(encoding, capture_slice(&b));
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.count, lists[i].count);
        assert_string_equal(o.kind, lists[i].kind);
        assert_string_equal(o.api_version, lists[i].api_version);
        assert_int_equal(o.version, 409);
        assert_true((o.token == NULL) == (lists[i].token == NULL));
        if (o.token != NULL) {
            assert_string_equal(o.token, lists[i].token);
        }
        outcome_deinit(&o);
        /* Broken off anywhere it is not whole. */
        for (size_t len = 0; len + 1 < b.len; len += len < 200 ? 1 : 61) {
            o = take_apart(encoding, slice_of((const char *)buf_data(&b), len), SIZE_MAX);
            assert_true(o.rc == -EINVAL || encoding == ENCODING_PROTOBUF);
            outcome_deinit(&o);
        }
        buf_reset(&b);
    }
}

static void test_items_are_the_objects(void **state)
{
    (void)state;
    static const char *const names[] = {"list_pods_all.json", "list_pods_all.protobuf"};
    for (size_t i = 0; i < 2; i++) {
        struct buf b = capture_read(names[i]);
        enum encoding encoding = capture_encoding(names[i]);
        struct list_items *l = list_items_new(encoding);
        struct slice piece = capture_slice(&b);
        struct slice item;
        char name[] = "p-0";
        while (list_items_next(l, &piece, &item, NULL) > 0) {
            assert_non_null(memmem(item.ptr, item.len, name, strlen(name)));
            name[2]++;
        }
        assert_string_equal(name, "p-3");
        list_items_free(l);
        buf_reset(&b);
    }
}

/* ---- JSON by hand ---- */

static struct outcome of_json(const char *body)
{
    return take_apart_in_every_way(ENCODING_JSON, slice_str(body));
}

static void assert_items(const char *body, const char *items)
{
    struct outcome o = of_json(body);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.items.len, strlen(items));
    assert_string_equal(buf_cstr(&o.items), items);
    outcome_deinit(&o);
}

static void test_json(void **state)
{
    (void)state;
    assert_items("{\"items\":[]}", "");
    assert_items(" { \"x\" : 1 , \"items\" : null } \n", "");
    assert_items("{\"items\":[{}]}", "  {}\n");
    assert_items(
        "{\"kind\":\"AList\",\"apiVersion\":\"v1\",\"items\" : [ {\"a\":\"]}\\\"\"} , { } ] }",
        "A v1 {\"a\":\"]}\\\"\"}\nA v1 { }\n");
    /* Members that look like the list's own, before and behind. */
    assert_items(
        "{\"x\":{\"items\":[{\"a\":1}],\"kind\":\"BList\"},\"kind\":\"AList\","
        "\"apiVersion\":\"v1\",\"items\":[{\"b\":1}],\"y\":[{\"items\":[{}]}],\"z\":\"items\"}",
        "A v1 {\"b\":1}\n");
    /* What the first item says goes for all, whatever the list is called. */
    assert_items("{\"apiVersion\":\"l/v1\",\"items\":[{\"kind\":\"W\",\"apiVersion\":\"x/v1\"},{}],"
                 "\"kind\":\"ManyList\"}",
                 "W x/v1 {\"kind\":\"W\",\"apiVersion\":\"x/v1\"}\nW x/v1 {}\n");
    assert_items("{\"kind\":\"Many\",\"apiVersion\":\"v1\",\"items\":[{}]}", " v1 {}\n");
    assert_items("{\"apiVersion\":\"l/v1\",\"items\":[{\"kind\":\"W\"}]}",
                 " l/v1 {\"kind\":\"W\"}\n");
    assert_items("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{}]}", " v1 {}\n");
    struct outcome o =
        of_json("{\"metadata\":{\"x\":{\"resourceVersion\":\"1\"},\"remainingItemCount\":1,"
                "\"resourceVersion\":\"77\",\"continue\":\"t\"},\"items\":[{}]}");
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.version, 77);
    assert_string_equal(o.token, "t");
    outcome_deinit(&o);
}

static void test_json_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int rc;
    } cases[] = {
        {"", -EINVAL},
        {"{}", -EINVAL},
        {"[]", -EINVAL},
        {"null", -EINVAL},
        {"{\"kind\":\"Status\",\"code\":410}", -EINVAL},
        {"{\"items\":[}", -EINVAL},
        {"{\"items\":[{}", -EINVAL},
        {"{\"items\":[{}]", -EINVAL},
        {"{\"items\":[{}]}x", -EINVAL},
        {"{\"items\":[{}]}{}", -EINVAL},
        {"{\"items\":[{},]}", -EINVAL},
        {"{\"items\":[,{}]}", -EINVAL},
        {"{\"items\":[{}{}]}", -EINVAL},
        {"{\"items\":[1]}", -EINVAL},
        {"{\"items\":[[]]}", -EINVAL},
        {"{\"items\":{}}", -EINVAL},
        {"{\"items\":\"x\"}", -EINVAL},
        {"{\"items\"[{}]}", -EINVAL},
        {"{\"items\":,}", -EINVAL},
        {"{\"items\":[],}", -EINVAL},
        {"{,\"items\":[]}", -EINVAL},
        {"{\"items\":[] \"x\":1}", -EINVAL},
        {"{\"kind\":\"Table\",\"rows\":[]}", -ENOTSUP},
        {"{\"metadata\":{\"continue\":\"a\\u003c\"},\"items\":[]}", -ENOTSUP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = of_json(cases[i].body);
        assert_int_equal(o.rc, cases[i].rc);
        outcome_deinit(&o);
    }
    struct outcome o = take_apart(ENCODING_OTHER, SLICE("{\"items\":[]}"), SIZE_MAX);
    assert_int_equal(o.rc, -ENOTSUP);
    outcome_deinit(&o);
}

static void test_random_json(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 300; seed++) {
        random_state = seed * 69069;
        struct buf b = BUF_INIT(1 << 22);
        struct buf expected = BUF_INIT(1 << 22);
        put_text(&b, "{\"kind\":\"AList\",\"y\":");
        put_random_value(&b, 0);
        put_text(&b, ",\"items\":[");
        unsigned n = random_below(6);
        for (unsigned i = 0; i < n; i++) {
            put_text(&b, i > 0 ? "," : "");
            put_blank(&b);
            size_t from = b.len;
            put_text(&b, "{");
            put_random_members(&b, 0, random_below(6));
            put_text(&b, "}");
            put_text(&expected, "A  ");
            assert_int_equal(buf_append(&expected, buf_data(&b) + from, b.len - from), 0);
            put_text(&expected, "\n");
            put_blank(&b);
        }
        put_text(&b, "],\"z\":");
        put_random_value(&b, 0);
        put_text(&b, "}");
        struct outcome o = take_apart_in_every_way(ENCODING_JSON, capture_slice(&b));
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.count, n);
        assert_int_equal(o.items.len, expected.len);
        if (n > 0) {
            assert_memory_equal(buf_data(&o.items), buf_data(&expected), expected.len);
        }
        outcome_deinit(&o);
        buf_reset(&expected);
        buf_reset(&b);
    }
}

/* ---- protobuf by hand ---- */

#define TYPE "\x0a\x0d\x0a\x02v1\x12\x07PodList"

static void test_protobuf(void **state)
{
    (void)state;
    static const struct {
        struct slice body;
        int rc;
        unsigned count;
    } cases[] = {
        {{"k8s\0" TYPE "\x12\x0b\x0a\x05\x12\x01"
          "7\x1a\x00\x12\x02xy\x1a\x00\x22\x00",
          36},
         0,
         1},
        /* An item without anything, one with a tag as long as can be, fields that are not known. */
        {{"k8s\0" TYPE "\x12\x04\x12\x00\x12\x00", 25}, 0, 2},
        {{"k8s\0" TYPE "\x12\x0b\x92\x80\x00\x02xy\x18\x05\x1d\x01\x02\x03\x04", 34}, -EINVAL, 1},
        {{"k8s\0" TYPE "\x12\x0d\x92\x80\x00\x02xy\x18\x05\x1d\x01\x02\x03\x04", 34}, 0, 1},
        {{"k8s\0" TYPE "\x12\x00", 21}, 0, 0},
        /* Broken off; not begun. */
        {{"k8s\0" TYPE "\x12\x04\x12\x02x", 24}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x12\x05\x12\x02xy", 25}, -EINVAL, 1},
        {{"k8s\0" TYPE, 19}, -EINVAL, 0},
        {{"k8s\0", 4}, -EINVAL, 0},
        {{"k9s\0" TYPE "\x12\x00", 21}, -EINVAL, 0},
        /* An item beyond the list, two lists, a list that is a number, an item that is one. */
        {{"k8s\0" TYPE "\x12\x03\x12\x02xy", 25}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x12\x00\x12\x00", 23}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x10\x00", 21}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x12\x02\x10\x05", 23}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x12\x02\x08\x05", 23}, -EINVAL, 0},
        {{"k8s\0\x08\x01\x12\x00", 8}, -EINVAL, 0},
        {{"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x04\x12\x02xy", 21}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x13\x00", 21}, -EINVAL, 0},
        {{"k8s\0" TYPE "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 30}, -EINVAL, 0},
        /* Metadata that is malformed; an encoding or content type of its own. */
        {{"k8s\0" TYPE "\x12\x04\x0a\x02\x12\x05", 25}, -EINVAL, 0},
        {{"k8s\0" TYPE "\x12\x00\x1a\x01x", 24}, -ENOTSUP, 0},
        {{"k8s\0" TYPE "\x12\x00\x22\x01x", 24}, -ENOTSUP, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = take_apart_in_every_way(ENCODING_PROTOBUF, cases[i].body);
        assert_int_equal(o.rc, cases[i].rc);
        assert_int_equal(o.count, cases[i].count);
        outcome_deinit(&o);
    }
}

/* ---- bounds ---- */

static void put_filled_item(struct buf *b, size_t len)
{
    uint8_t *p = buf_reserve(b, len);
    assert_non_null(p);
    memset(p, 'x', len);
    memcpy(p, "{\"a\":\"", 6);
    memcpy(p + len - 2, "\"}", 2);
    buf_commit(b, len);
}

static void test_large_items(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct buf b = BUF_INIT(32 << 20);
        put_text(&b, "{\"kind\":\"AList\",\"items\":[");
        put_filled_item(&b, LIST_ITEMS_ITEM_MAX + (size_t)over);
        put_text(&b, ",");
        put_filled_item(&b, 100);
        put_text(&b, "]}");
        static const size_t pieces[] = {SIZE_MAX, 60000};
        for (int i = 0; i < 2; i++) {
            struct outcome o = take_apart(ENCODING_JSON, capture_slice(&b), pieces[i]);
            assert_int_equal(o.rc, over == 0 ? 0 : -ENOBUFS);
            assert_int_equal(o.count, over == 0 ? 2 : 0);
            outcome_deinit(&o);
        }
        buf_reset(&b);
    }
}

static void test_large_parts(void **state)
{
    (void)state;
    static const char *const before[] = {"{\"kind\":\"", "{\"apiVersion\":\"",
                                         "{\"metadata\":{\"continue\":\"",
                                         "{\"metadata\":{\"x\":\""};
    static const char *const behind[] = {"List\",\"items\":[]}", "\",\"items\":[]}",
                                         "\"},\"items\":[]}", "\"},\"items\":[]}"};
    static const size_t good[] = {316, 320, 16384, 32000};
    static const size_t bad[] = {317, 321, 16385, 33000};
    for (int i = 0; i < 4; i++) {
        for (int over = 0; over < 2; over++) {
            struct buf b = BUF_INIT(1 << 20);
            put_text(&b, before[i]);
            size_t n = over == 0 ? good[i] : bad[i];
            uint8_t *p = buf_reserve(&b, n);
            assert_non_null(p);
            memset(p, 'x', n);
            buf_commit(&b, n);
            put_text(&b, behind[i]);
            struct outcome o = take_apart_in_every_way(ENCODING_JSON, capture_slice(&b));
            assert_int_equal(o.rc, over == 0 ? 0 : -ENOBUFS);
            outcome_deinit(&o);
            buf_reset(&b);
        }
    }
    struct outcome o = take_apart_in_every_way(
        ENCODING_PROTOBUF, SLICE("k8s\0" TYPE "\x12\xff\xff\xff\x7f\x12\x81\x80\x80\x02xyz"));
    assert_true(o.rc < 0);
    assert_int_equal(o.count, 0);
    outcome_deinit(&o);
}

static bool take_apart_without_memory(void *data)
{
    const struct buf *b = data;
    struct outcome o = {.items = BUF_INIT(1 << 20)};
    struct list_items *l = list_items_new(ENCODING_JSON);
    if (l == NULL) {
        return false;
    }
    for (size_t at = 0; at < b->len && o.rc == 0; at += 100) {
        size_t n = b->len - at < 100 ? b->len - at : 100;
        struct slice piece = slice_of((const char *)buf_data(b) + at, n);
        struct slice item;
        while ((o.rc = list_items_next(l, &piece, &item, NULL)) > 0) {
        }
    }
    int rc = list_items_finish(l, NULL);
    assert_true(o.rc == 0 || o.rc == rc);
    assert_true(rc == 0 || rc == -ENOMEM);
    list_items_free(l);
    return rc == 0;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct buf b = capture_read("list_widgets.json");
    assert_true(sweep_allocations(take_apart_without_memory, &b) > 3);
    buf_reset(&b);
    list_items_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captures),      cmocka_unit_test(test_items_are_the_objects),
        cmocka_unit_test(test_json),          cmocka_unit_test(test_json_refused),
        cmocka_unit_test(test_random_json),   cmocka_unit_test(test_protobuf),
        cmocka_unit_test(test_large_items),   cmocka_unit_test(test_large_parts),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
