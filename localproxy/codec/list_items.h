/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_items.h - takes a list apart into its items while its body arrives in pieces.
 *
 * The body is not compressed. Items are the bytes that stand in the body, unread. At most one item
 * is held, and only when it is spread over pieces. Tables are not taken apart: -ENOTSUP.
 *
 *     struct list_items *l = list_items_new(encoding);
 *     for each piece:
 *         while ((rc = list_items_next(l, &piece, &item, &e)) > 0) ...
 *     rc = list_items_finish(l, &e);
 *
 * Sources: k8s.io/apimachinery/pkg/apis/meta/v1 (ListMeta), pkg/runtime/generated.proto (Unknown).
 */
#ifndef LOCALPROXY_CODEC_LIST_ITEMS_H
#define LOCALPROXY_CODEC_LIST_ITEMS_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "codec/encoding.h"

#define LIST_ITEMS_ITEM_MAX ((size_t)4 * 1024 * 1024)
#define LIST_ITEMS_TOKEN_MAX ((size_t)16 * 1024)

/* Kind and apiVersion of an object, as they stand in its encoding. */
struct object_type {
    struct slice kind;
    struct slice api_version;
};

struct list_items;

/* NULL without memory. */
MUST_CHECK struct list_items *list_items_new(enum encoding encoding);
/* NULL is ignored. */
void list_items_free(struct list_items *l);

/* Takes the next item. 1: `item` is valid until the next call and as long as the piece. 0: the
 * piece is used up. Negative: -EINVAL (no list, or malformed), -ENOTSUP (an encoding or form that
 * cannot be taken apart), -ENOBUFS (an item above LIST_ITEMS_ITEM_MAX, or other parts too large),
 * -ENOMEM; it stays so then. */
MUST_CHECK int list_items_next(struct list_items *l, struct slice *piece, struct slice *item,
                               struct err *e);

/* Bytes that it has in memory of an item that is not whole. */
size_t list_items_held(const struct list_items *l);

/* After the last piece: 0 when the list is whole, else the error, -EINVAL when it broke off. */
MUST_CHECK int list_items_finish(const struct list_items *l, struct err *e);

/* What the items are: what the first one says of itself, else the list's kind without "List" and
 * its apiVersion. Parts are empty that have not come: the lists of custom resources say their kind
 * at the end. Valid until list_items_free. */
struct object_type list_items_type(const struct list_items *l);

/* metadata.resourceVersion, 0 when there is none; metadata.continue, empty on the last page. After
 * list_items_finish. */
uint64_t list_items_version(const struct list_items *l);
struct slice list_items_token(const struct list_items *l);

#endif
