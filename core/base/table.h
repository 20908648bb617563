/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - things found by a name: a hash table whose nodes are embedded in what they belong to
 * (LIST_ITEM finds it). Nobody who chooses keys can make them collide (base/keyed_hash.h).
 */
#ifndef CORE_BASE_TABLE_H
#define CORE_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct table_node {
    struct table_node *next; /* in its bucket */
    uint64_t hash;
    const char *key; /* its owner's, for as long as it is in the table */
};

/* All zero: empty. */
struct table {
    struct table_node **buckets;
    size_t room; /* of buckets: a power of two, or 0 */
    size_t count;
};

/* The key must not be there. 0; -ENOMEM, which happens only to an empty table that never held
 * anything. */
MUST_CHECK int table_insert(struct table *t, struct table_node *n, const char *key);
/* From then on table_insert cannot fail. 0 or -ENOMEM. */
MUST_CHECK int table_reserve(struct table *t);
void table_remove(struct table *t, struct table_node *n);
/* NULL: there is none. */
struct table_node *table_find(const struct table *t, const char *key);
/* The struct of that type whose `node` is in the table under that key, a slice; NULL: there is
 * none. */
#define TABLE_FIND(table, key, type) ((type *)table_find_struct(table, key, offsetof(type, node)))
/* The same, or a new one: all zero but for `text`, its last member, which is a copy of the key.
 * NULL without memory. It is freed by free(), once removed. */
#define TABLE_PROVIDE(table, key, type, text)                                                      \
    ((type *)table_provide(table, key, sizeof(type), offsetof(type, node), offsetof(type, text)))
void *table_find_struct(const struct table *t, struct slice key, size_t node);
MUST_CHECK void *table_provide(struct table *t, struct slice key, size_t size, size_t node,
                               size_t text);
/* One after the other, in no order; NULL begins, and ends. The one that was given out may be
 * removed once its follower is known; nothing may be inserted meanwhile. */
struct table_node *table_next(const struct table *t, const struct table_node *n);
/* The nodes are their owners'. */
void table_deinit(struct table *t);

#endif
