/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the encoding, the second the way the rest is cut. What is found must not
 * depend on the pieces; of JSON it is what a parser finds; and without namespaces there are as many
 * objects.
 */
#include "codec/list_objects.h"

#include "base/buf.h"
#include "check.h"
#include "pieces.h"
#include "plain_json.h"

static void on_object(void *data, struct slice ns)
{
    CHECK(ns.len <= LIST_OBJECTS_TEXT_MAX);
    CHECK(buf_printf(data, "%zu:", ns.len) == 0);
    CHECK(buf_append(data, ns.ptr, ns.len) == 0);
    CHECK(buf_append(data, "\n", 1) == 0);
}

static void count_object(void *data, struct slice ns)
{
    CHECK(ns.len == 0);
    ++*(size_t *)data;
}

static void feed(struct list_objects *l, struct slice body, enum pieces_way way, uint32_t random)
{
    struct pieces p = {.rest = body, .way = way, .random = random};
    for (struct slice piece; pieces_next(&p, &piece);) {
        list_objects_feed(l, piece);
    }
}

static struct buf find(enum encoding encoding, struct slice body, enum pieces_way way,
                       uint32_t random)
{
    struct buf said = BUF_INIT(SIZE_MAX / 2);
    struct list_objects l;
    list_objects_init(&l, encoding, true, on_object, &said);
    feed(&l, body, way, random);
    return said;
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(buf_data(a), buf_data(b), a->len) == 0);
}

static void check_way(const struct buf *whole, enum encoding encoding, struct slice body,
                      enum pieces_way way, uint32_t random)
{
    struct buf said = find(encoding, body, way, random);
    CHECK(same(whole, &said));
    buf_reset(&said);
}

/* An object that says its namespace as servers do, or not at all. */
static void say_plain(struct buf *out, const cJSON *object)
{
    struct slice ns = plain_string(plain_get(object, "metadata"), "namespace");
    on_object(out, ns.len <= LIST_OBJECTS_TEXT_MAX ? ns : slice_of("", 0));
}

/* Whether no object in it has a key twice, and no string has escapes: these are read as written. */
static bool is_simple(const cJSON *item)
{
    for (const cJSON *a = item->child; a != NULL; a = a->next) {
        for (const cJSON *b = a->next; cJSON_IsObject(item) && b != NULL; b = b->next) {
            if (strcmp(a->string, b->string) == 0) {
                return false;
            }
        }
        if (!is_simple(a)) {
            return false;
        }
    }
    return true;
}

/* False: it is none of which a parser must say the same. */
static bool say_array(struct buf *out, const cJSON *array, bool rows)
{
    for (const cJSON *e = cJSON_IsArray(array) ? array->child : NULL; e != NULL; e = e->next) {
        if (!cJSON_IsObject(e)) {
            return false;
        }
        say_plain(out, rows ? plain_get(e, "object") : e);
    }
    return true;
}

static void check_json(struct slice body, const struct buf *said)
{
    cJSON *root = memchr(body.ptr, '\\', body.len) == NULL ? plain_parse(body) : NULL;
    const cJSON *items = plain_get(root, "items");
    const cJSON *rows = plain_get(root, "rows");
    struct buf expected = BUF_INIT(SIZE_MAX / 2);
    if (root != NULL && is_simple(root) && (items == NULL || rows == NULL) &&
        say_array(&expected, items, false) && say_array(&expected, rows, true)) {
        CHECK(same(&expected, said));
    }
    buf_reset(&expected);
    cJSON_Delete(root);
}

/* Behind a namespace less is looked at than without. */
static void check_count(enum encoding encoding, struct slice body, const struct buf *said)
{
    size_t count = 0;
    struct list_objects l;
    list_objects_init(&l, encoding, false, count_object, &count);
    feed(&l, body, PIECES_WHOLE, 0);
    CHECK(count > 0 || said->len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    enum encoding encoding = (data[0] & 1) != 0 ? ENCODING_PROTOBUF : ENCODING_JSON;
    struct slice body = slice_of((const char *)data + 2, size - 2);
    struct buf whole = find(encoding, body, PIECES_WHOLE, 0);
    check_way(&whole, encoding, body, PIECES_BYTES, 0);
    check_way(&whole, encoding, body, PIECES_RANDOM, data[1]);
    check_count(encoding, body, &whole);
    if (encoding == ENCODING_JSON) {
        check_json(body, &whole);
    }
    buf_reset(&whole);
    return 0;
}
