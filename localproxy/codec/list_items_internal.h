/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_items_internal.h - what list_items.c and the two encodings share.
 */
#ifndef LOCALPROXY_CODEC_LIST_ITEMS_INTERNAL_H
#define LOCALPROXY_CODEC_LIST_ITEMS_INTERNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "codec/list_items.h"
#include "codec/protobuf_scan.h"
#include "json/cursor.h"

/* A group may have 253 characters, a version 63 (RFC 1123). */
#define LIST_ITEMS_NAME_MAX 320

struct list_items_name {
    char text[LIST_ITEMS_NAME_MAX];
    size_t len;
};

struct list_items_json {
    int state;
    bool first;      /* no member or element has come yet */
    bool escaped;    /* in a string: the next byte is */
    bool items_seen; /* the list has a member `items` */
    bool item_seen;
    char key[16]; /* longer ones mean nothing here */
    size_t key_len;
    struct json_nesting nesting;
};

struct list_items_protobuf {
    int state;
    char head[24]; /* of a field or of all: the bytes that have come */
    size_t head_len;
    bool list_seen;
    uint64_t list_left; /* bytes of the list behind this field */
    struct protobuf_field field;
    bool in_list; /* the field is one of the list's, not of the envelope's */
    uint64_t value_left;
};

struct list_items {
    enum encoding encoding;
    struct err err;  /* once something failed */
    struct buf held; /* what came of a value or item with earlier pieces */
    bool held_is_item;
    struct list_items_name kind; /* of the list */
    struct list_items_name api_version;
    struct list_items_name item_kind; /* what the first item says of itself */
    struct list_items_name item_api_version;
    uint64_t version;
    char *token;
    size_t token_len;
    union {
        struct list_items_json json;
        struct list_items_protobuf protobuf;
    };
};

/* As list_items_next, with the error in l->err. */
int list_items_next_json(struct list_items *l, struct slice *piece, struct slice *item);
int list_items_next_protobuf(struct list_items *l, struct slice *piece, struct slice *item);
bool list_items_json_whole(const struct list_items *l);
bool list_items_protobuf_whole(const struct list_items *l);

/* Takes `n` bytes off the piece and holds them, at most `max` in all. */
int list_items_hold(struct list_items *l, struct slice *piece, size_t n, size_t max);
/* Takes the last `n` bytes of a value; all of it is `value` then, until l->held is cleared. */
int list_items_complete(struct list_items *l, struct slice *piece, size_t n, size_t max,
                        struct slice *value);

/* Return 0 or a negative error that is set in l->err. */
int list_items_fail(struct list_items *l, int code, const char *what);
int list_items_malformed(struct list_items *l);
int list_items_set_name(struct list_items *l, struct list_items_name *name, struct slice text);
int list_items_set_token(struct list_items *l, struct slice text);

static inline void list_items_skip(struct slice *piece, size_t n)
{
    *piece = slice_of(piece->ptr + n, piece->len - n);
}

#endif
