/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the encoding, the second the way the rest is cut. What comes out must not
 * depend on the pieces; items in JSON are those that a parser finds; and an event made of an item
 * is one, on one line.
 */
#include "codec/list_items.h"

#include "check.h"
#include "codec/watch_frame.h"
#include "codec/watch_frame_write.h"
#include "pieces.h"
#include "plain_json.h"

struct run {
    enum encoding encoding;
    struct slice body;
    uint32_t random;
    const cJSON *next; /* the item that a parser found here, or NULL when there is no parser */
    bool parsed;
    struct buf said;
};

static void put(struct buf *b, struct slice s)
{
    CHECK(buf_append(b, s.ptr, s.len) == 0);
}

static void check_event(enum encoding encoding, const struct object_type *type, struct slice item)
{
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    size_t skip = encoding == ENCODING_PROTOBUF ? 4 : 0;
    if (watch_frame_write_item(encoding, WATCH_FRAME_ADDED, type, item, &b) == 0) {
        const char *event = (const char *)buf_data(&b) + skip;
        struct watch_frame e;
        watch_frame_scan(encoding, slice_of(event, b.len - skip), &e);
        CHECK(e.type == WATCH_FRAME_ADDED && e.code == 0);
        CHECK(encoding == ENCODING_PROTOBUF || memchr(event, '\n', b.len) == event + b.len - 1);
    }
    buf_reset(&b);
}

static void check_item(struct run *r, struct slice item)
{
    if (!r->parsed) {
        return;
    }
    struct buf a = BUF_INIT(SIZE_MAX / 2);
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    cJSON *found = json_parse(item.ptr, item.len, NULL);
    CHECK(found != NULL && r->next != NULL);
    CHECK(json_canonical(found, &a) == 0 && json_canonical(r->next, &b) == 0);
    CHECK(a.len == b.len && memcmp(buf_data(&a), buf_data(&b), a.len) == 0);
    r->next = r->next->next;
    cJSON_Delete(found);
    buf_reset(&a);
    buf_reset(&b);
}

static void on_item(struct run *r, const struct list_items *l, struct slice item)
{
    struct object_type type = list_items_type(l);
    put(&r->said, type.kind);
    put(&r->said, SLICE("|"));
    put(&r->said, type.api_version);
    put(&r->said, SLICE("|"));
    put(&r->said, item);
    put(&r->said, SLICE("|"));
    check_item(r, item);
    if (r->parsed || r->encoding == ENCODING_PROTOBUF) {
        check_event(r->encoding, &type, item);
    }
}

static int take_apart(struct run *r, enum pieces_way way)
{
    struct list_items *l = list_items_new(r->encoding);
    CHECK(l != NULL);
    struct pieces p = {.rest = r->body, .way = way, .random = r->random};
    int rc = 0;
    for (struct slice piece; pieces_next(&p, &piece);) {
        struct slice item;
        while ((rc = list_items_next(l, &piece, &item, NULL)) > 0) {
            on_item(r, l, item);
        }
        CHECK(rc < 0 || piece.len == 0);
    }
    int end = list_items_finish(l, NULL);
    CHECK(rc == 0 || rc == end);
    put(&r->said, list_items_token(l));
    CHECK(buf_printf(&r->said, "|%llu|%d", (unsigned long long)list_items_version(l), end) == 0);
    list_items_free(l);
    return end;
}

static void check_same(struct run *whole, enum pieces_way way)
{
    struct run r = {.encoding = whole->encoding, .body = whole->body, .random = whole->random};
    buf_init(&r.said, SIZE_MAX / 2);
    (void)take_apart(&r, way);
    CHECK(r.said.len == whole->said.len &&
          memcmp(buf_data(&r.said), buf_data(&whole->said), r.said.len) == 0);
    buf_reset(&r.said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct run whole = {
        .encoding = (data[0] & 1) != 0 ? ENCODING_PROTOBUF : ENCODING_JSON,
        .body = slice_of((const char *)data + 2, size - 2),
        .random = data[1],
    };
    buf_init(&whole.said, SIZE_MAX / 2);
    cJSON *root = whole.encoding == ENCODING_JSON ? plain_parse(whole.body) : NULL;
    const cJSON *items = plain_get(root, "items");
    whole.parsed = root != NULL;
    whole.next = cJSON_IsArray(items) ? items->child : NULL;
    int rc = take_apart(&whole, PIECES_WHOLE);
    CHECK(rc != 0 || !whole.parsed || whole.next == NULL);
    check_same(&whole, PIECES_BYTES);
    check_same(&whole, PIECES_RANDOM);
    cJSON_Delete(root);
    buf_reset(&whole.said);
    return 0;
}
