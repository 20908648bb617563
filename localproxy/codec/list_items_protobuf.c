/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list in protobuf: "k8s\0", Unknown{1: TypeMeta{1: apiVersion, 2: kind}, 2: raw, 3, 4}, where
 * raw is XList{1: ListMeta{2: resourceVersion, 3: continue}, 2: item, 2: item, ...}.
 */
#include "codec/list_items_internal.h"

#include <errno.h>

#include "base/decimal.h"

/* What is awaited. */
enum {
    AT_MAGIC,
    AT_HEAD, /* number and length of a field */
    IN_VALUE /* what is left of its value */
};

enum {
    KEPT = 1, /* TypeMeta in the envelope, ListMeta in the list */
    LIST_ITEM = 2,
    METADATA_VERSION = 2,
    METADATA_CONTINUE = 3,
};

/* Room for a metadata with the longest token. */
enum { VALUE_MAX = 2 * LIST_ITEMS_TOKEN_MAX };

static int take_type_meta(struct list_items *l, struct slice message)
{
    struct protobuf_field f;
    int rc = 0;
    while (rc == 0 && protobuf_next(&message, &f) == PROTOBUF_FIELD) {
        if (f.wire == PROTOBUF_BYTES && f.number == TYPE_META_API_VERSION) {
            rc = list_items_set_name(l, &l->api_version, f.bytes);
        } else if (f.wire == PROTOBUF_BYTES && f.number == TYPE_META_KIND) {
            rc = list_items_set_name(l, &l->kind, f.bytes);
        }
    }
    if (rc == 0 && list_items_type(l).kind.len == 0) {
        rc = list_items_fail(l, -EINVAL, "the object is no list");
    }
    return rc;
}

static int take_metadata(struct list_items *l, struct slice message)
{
    struct protobuf_field f;
    int rc = 0;
    enum protobuf_result result = PROTOBUF_END;
    while (rc == 0 && (result = protobuf_next(&message, &f)) == PROTOBUF_FIELD) {
        if (f.wire == PROTOBUF_BYTES && f.number == METADATA_VERSION) {
            l->version = decimal_or_zero(f.bytes);
        } else if (f.wire == PROTOBUF_BYTES && f.number == METADATA_CONTINUE) {
            rc = list_items_set_token(l, f.bytes);
        }
    }
    return rc != 0 || result == PROTOBUF_END ? rc : list_items_malformed(l);
}

static int take_magic(struct list_items *l, struct slice *piece)
{
    const struct slice magic = PROTOBUF_MAGIC;
    struct list_items_protobuf *p = &l->protobuf;
    if (piece->ptr[0] != magic.ptr[p->head_len]) {
        return list_items_malformed(l);
    }
    list_items_skip(piece, 1);
    if (++p->head_len == magic.len) {
        p->head_len = 0;
        p->state = AT_HEAD;
    }
    return 0;
}

/* A field of the envelope begins. */
static int begin_outer(struct list_items *l)
{
    struct list_items_protobuf *p = &l->protobuf;
    bool is_bytes = p->field.wire == PROTOBUF_BYTES;
    if (p->field.number == UNKNOWN_RAW) {
        if (!is_bytes || p->list_seen) {
            return list_items_malformed(l);
        }
        p->list_seen = true;
        p->list_left = p->field.value;
        p->state = AT_HEAD;
        return 0;
    }
    if ((p->field.number == UNKNOWN_ENCODING || p->field.number == UNKNOWN_CONTENT_TYPE) &&
        p->field.value > 0) {
        return list_items_fail(l, -ENOTSUP, "the list in the envelope has another encoding");
    }
    return p->field.number == UNKNOWN_TYPE_META && !is_bytes ? list_items_malformed(l) : 0;
}

/* A field of the list begins; its head had `head_len` bytes. */
static int begin_inner(struct list_items *l, size_t head_len)
{
    struct list_items_protobuf *p = &l->protobuf;
    bool is_known = p->field.number == OBJECT_METADATA || p->field.number == LIST_ITEM;
    if (head_len > p->list_left || p->value_left > p->list_left - head_len ||
        (is_known && p->field.wire != PROTOBUF_BYTES)) {
        return list_items_malformed(l);
    }
    p->list_left -= head_len + p->value_left;
    return 0;
}

static int take_head(struct list_items *l, struct slice *piece)
{
    struct list_items_protobuf *p = &l->protobuf;
    p->head[p->head_len++] = piece->ptr[0];
    list_items_skip(piece, 1);
    struct slice head = slice_of(p->head, p->head_len);
    enum protobuf_result result = protobuf_head(&head, &p->field);
    if (result == PROTOBUF_CUT) {
        return 0;
    }
    if (result != PROTOBUF_FIELD) {
        return list_items_malformed(l);
    }
    p->value_left = p->field.wire == PROTOBUF_VARINT ? 0 : p->field.value;
    p->state = IN_VALUE;
    size_t head_len = p->head_len;
    p->head_len = 0;
    p->in_list = p->list_left > 0;
    return p->in_list ? begin_inner(l, head_len) : begin_outer(l);
}

/* The value of field 1: TypeMeta or ListMeta. */
static int take_kept(struct list_items *l, struct slice value)
{
    int rc = l->protobuf.in_list ? take_metadata(l, value) : take_type_meta(l, value);
    buf_clear(&l->held);
    return rc;
}

static int take_value(struct list_items *l, struct slice *piece, struct slice *item)
{
    struct list_items_protobuf *p = &l->protobuf;
    bool is_item = p->in_list && p->field.number == LIST_ITEM;
    bool is_kept = p->field.number == KEPT;
    size_t max = is_item ? LIST_ITEMS_ITEM_MAX : VALUE_MAX;
    size_t n = piece->len < p->value_left ? piece->len : (size_t)p->value_left;
    p->value_left -= n;
    bool complete = p->value_left == 0;
    p->state = complete ? AT_HEAD : IN_VALUE;
    if (!is_item && !is_kept) {
        list_items_skip(piece, n);
        return 0;
    }
    if (!complete) {
        return list_items_hold(l, piece, n, max);
    }
    struct slice value;
    int rc = list_items_complete(l, piece, n, max, &value);
    if (rc != 0 || !is_item) {
        return rc != 0 ? rc : take_kept(l, value);
    }
    l->held_is_item = true;
    *item = value;
    return 1;
}

int list_items_next_protobuf(struct list_items *l, struct slice *piece, struct slice *item)
{
    const struct list_items_protobuf *p = &l->protobuf;
    int rc = 0;
    while (rc == 0 && (piece->len > 0 || (p->state == IN_VALUE && p->value_left == 0))) {
        if (p->state == AT_MAGIC) {
            rc = take_magic(l, piece);
        } else if (p->state == AT_HEAD) {
            rc = take_head(l, piece);
        } else {
            rc = take_value(l, piece, item);
        }
    }
    return rc;
}

bool list_items_protobuf_whole(const struct list_items *l)
{
    const struct list_items_protobuf *p = &l->protobuf;
    return p->list_seen && p->list_left == 0 && p->state == AT_HEAD && p->head_len == 0;
}
