/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"

enum { FIRST_ROOM = 16 };

static struct table_node **bucket_of(const struct table *t, uint64_t hash)
{
    return &t->buckets[hash & (t->room - 1)];
}

static void push(struct table *t, struct table_node *n)
{
    struct table_node **bucket = bucket_of(t, n->hash);
    n->next = *bucket;
    *bucket = n;
}

/* Without memory it stays as it is, and look-ups take longer. */
static void grow(struct table *t)
{
    size_t room = t->room == 0 ? FIRST_ROOM : 2 * t->room;
    struct table_node **buckets = calloc(room, sizeof *buckets);
    if (buckets == NULL) {
        return;
    }
    struct table old = *t;
    t->buckets = buckets;
    t->room = room;
    for (size_t i = 0; i < old.room; i++) {
        struct table_node *next = NULL;
        for (struct table_node *n = old.buckets[i]; n != NULL; n = next) {
            next = n->next;
            push(t, n);
        }
    }
    free(old.buckets);
}

int table_reserve(struct table *t)
{
    if (t->room == 0) {
        grow(t);
    }
    return t->room == 0 ? -ENOMEM : 0;
}

int table_insert(struct table *t, struct table_node *n, const char *key)
{
    if (t->count >= t->room) {
        grow(t);
    }
    if (t->room == 0) {
        return -ENOMEM;
    }
    n->key = key;
    n->hash = keyed_hash(0, slice_str(key));
    push(t, n);
    t->count++;
    return 0;
}

void table_remove(struct table *t, struct table_node *n)
{
    struct table_node **at = bucket_of(t, n->hash);
    while (*at != n) {
        at = &(*at)->next;
    }
    *at = n->next;
    t->count--;
}

static struct table_node *find(const struct table *t, struct slice key)
{
    if (t->count == 0) {
        return NULL;
    }
    uint64_t hash = keyed_hash(0, key);
    struct table_node *n = *bucket_of(t, hash);
    while (n != NULL && (n->hash != hash || !slice_eq(slice_str(n->key), key))) {
        n = n->next;
    }
    return n;
}

struct table_node *table_find(const struct table *t, const char *key)
{
    return find(t, slice_str(key));
}

void *table_find_struct(const struct table *t, struct slice key, size_t node)
{
    struct table_node *n = find(t, key);
    return n == NULL ? NULL : (char *)n - node;
}

void *table_provide(struct table *t, struct slice key, size_t size, size_t node, size_t text)
{
    char *known = table_find_struct(t, key, node);
    char *item = known != NULL ? known : calloc(1, size + key.len + 1);
    if (known != NULL || item == NULL) {
        return item;
    }
    memcpy(item + text, key.ptr, key.len);
    if (table_insert(t, (void *)(item + node), item + text) != 0) {
        free(item);
        return NULL;
    }
    return item;
}

struct table_node *table_next(const struct table *t, const struct table_node *n)
{
    if (n != NULL && n->next != NULL) {
        return n->next;
    }
    size_t i = n == NULL ? 0 : (n->hash & (t->room - 1)) + 1;
    for (; i < t->room; i++) {
        if (t->buckets[i] != NULL) {
            return t->buckets[i];
        }
    }
    return NULL;
}

void table_deinit(struct table *t)
{
    free(t->buckets);
    *t = (struct table){.buckets = NULL};
}
