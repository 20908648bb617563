/* SPDX-License-Identifier: Apache-2.0 */
/*
 * due_heap.h - things that are due at some time, the first of them at hand: a binary heap whose
 * items are embedded in what they belong to (LIST_ITEM finds it).
 */
#ifndef CORE_BASE_DUE_HEAP_H
#define CORE_BASE_DUE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* All zero: it is in no heap. */
struct due {
    uint64_t at;
    size_t slot; /* 1 + its place */
};

/* All zero: empty. */
struct due_heap {
    struct due **items;
    size_t count;
    size_t room;
};

/* Room for so many items in all, so that inserting them cannot fail. 0 or -ENOMEM. */
MUST_CHECK int due_heap_reserve(struct due_heap *h, size_t count);
/* The items are their owners'. */
void due_heap_deinit(struct due_heap *h);

static inline bool due_is_set(const struct due *d)
{
    return d->slot != 0;
}

/* The one that is due first; NULL: the heap is empty. */
static inline struct due *due_heap_first(const struct due_heap *h)
{
    return h->count == 0 ? NULL : h->items[0];
}

/* Inserts the item, or moves it, to that time. There must be room. */
void due_heap_set(struct due_heap *h, struct due *d, uint64_t at);
/* Removing an item that is not in the heap does nothing. */
void due_heap_remove(struct due_heap *h, struct due *d);

#endif
