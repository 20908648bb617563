/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/list_items.h"

#include <errno.h>
#include <stdlib.h>

#include "codec/list_items_internal.h"

struct list_items *list_items_new(enum encoding encoding)
{
    struct list_items *l = calloc(1, sizeof *l);
    if (l != NULL) {
        l->encoding = encoding;
        buf_init(&l->held, LIST_ITEMS_ITEM_MAX);
    }
    return l;
}

void list_items_free(struct list_items *l)
{
    if (l != NULL) {
        buf_reset(&l->held);
        free(l->token);
        free(l);
    }
}

int list_items_fail(struct list_items *l, int code, const char *what)
{
    return err_set(&l->err, code, "%s", what);
}

int list_items_malformed(struct list_items *l)
{
    return list_items_fail(l, -EINVAL, "the list is malformed");
}

int list_items_hold(struct list_items *l, struct slice *piece, size_t n, size_t max)
{
    if (n > max || l->held.len > max - n) {
        return list_items_fail(l, -ENOBUFS, "a part of the list is too large");
    }
    if (buf_append(&l->held, piece->ptr, n) != 0) {
        return list_items_fail(l, -ENOMEM, "out of memory");
    }
    list_items_skip(piece, n);
    return 0;
}

int list_items_complete(struct list_items *l, struct slice *piece, size_t n, size_t max,
                        struct slice *value)
{
    if (l->held.len == 0 && n <= max) {
        *value = slice_of(piece->ptr, n);
        list_items_skip(piece, n);
        return 0;
    }
    int rc = list_items_hold(l, piece, n, max);
    *value = buf_slice(&l->held);
    return rc;
}

int list_items_set_name(struct list_items *l, struct list_items_name *name, struct slice text)
{
    if (text.len > sizeof name->text) {
        return list_items_fail(l, -ENOBUFS, "kind or apiVersion of the list is too long");
    }
    memcpy(name->text, text.ptr, text.len);
    name->len = text.len;
    return 0;
}

int list_items_set_token(struct list_items *l, struct slice text)
{
    if (text.len > LIST_ITEMS_TOKEN_MAX) {
        return list_items_fail(l, -ENOBUFS, "the list's continue token is too long");
    }
    free(l->token);
    l->token = NULL;
    l->token_len = text.len;
    if (text.len == 0) {
        return 0;
    }
    l->token = malloc(text.len);
    if (l->token == NULL) {
        return list_items_fail(l, -ENOMEM, "out of memory");
    }
    memcpy(l->token, text.ptr, text.len);
    return 0;
}

static int next_item(struct list_items *l, struct slice *piece, struct slice *item)
{
    switch (l->encoding) {
    case ENCODING_JSON:
        return list_items_next_json(l, piece, item);
    case ENCODING_PROTOBUF:
        return list_items_next_protobuf(l, piece, item);
    default:
        return list_items_fail(l, -ENOTSUP, "the list is neither JSON nor protobuf");
    }
}

int list_items_next(struct list_items *l, struct slice *piece, struct slice *item, struct err *e)
{
    if (l->held_is_item) {
        buf_clear(&l->held);
        l->held_is_item = false;
    }
    int rc = l->err.code != 0 ? l->err.code : next_item(l, piece, item);
    return rc < 0 ? err_set(e, l->err.code, "%s", l->err.msg) : rc;
}

size_t list_items_held(const struct list_items *l)
{
    return l->held.cap;
}

int list_items_finish(const struct list_items *l, struct err *e)
{
    if (l->err.code != 0) {
        return err_set(e, l->err.code, "%s", l->err.msg);
    }
    bool whole = (l->encoding == ENCODING_JSON && list_items_json_whole(l)) ||
                 (l->encoding == ENCODING_PROTOBUF && list_items_protobuf_whole(l));
    return whole ? 0 : err_set(e, -EINVAL, "the list is not whole");
}

static struct slice name_of(const struct list_items_name *name)
{
    return slice_of(name->text, name->len);
}

static struct slice without_ending(struct slice kind)
{
    static const struct slice ending = {"List", 4};
    bool ends = kind.len > ending.len &&
                memcmp(kind.ptr + kind.len - ending.len, ending.ptr, ending.len) == 0;
    return ends ? slice_of(kind.ptr, kind.len - ending.len) : slice_of(NULL, 0);
}

struct object_type list_items_type(const struct list_items *l)
{
    bool told = l->item_kind.len > 0 && l->item_api_version.len > 0;
    return (struct object_type){
        .kind = told ? name_of(&l->item_kind) : without_ending(name_of(&l->kind)),
        .api_version = name_of(told ? &l->item_api_version : &l->api_version),
    };
}

uint64_t list_items_version(const struct list_items *l)
{
    return l->version;
}

struct slice list_items_token(const struct list_items *l)
{
    return slice_of(l->token, l->token_len);
}
