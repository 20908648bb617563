/* SPDX-License-Identifier: Apache-2.0 */
#include "base/due_heap.h"

#include <errno.h>
#include <stdlib.h>

enum { ROOM_MIN = 16 };

int due_heap_reserve(struct due_heap *h, size_t count)
{
    if (count <= h->room) {
        return 0;
    }
    size_t room = h->room == 0 ? ROOM_MIN : h->room * 2;
    room = room < count ? count : room;
    struct due **items = realloc(h->items, room * sizeof *items);
    if (items == NULL) {
        return -ENOMEM;
    }
    h->items = items;
    h->room = room;
    return 0;
}

void due_heap_deinit(struct due_heap *h)
{
    free(h->items);
    *h = (struct due_heap){0};
}

static void place(struct due_heap *h, size_t i, struct due *d)
{
    h->items[i] = d;
    d->slot = i + 1;
}

static void rise(struct due_heap *h, size_t i)
{
    struct due *d = h->items[i];
    while (i > 0 && h->items[(i - 1) / 2]->at > d->at) {
        place(h, i, h->items[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(h, i, d);
}

static void sink(struct due_heap *h, size_t i)
{
    struct due *d = h->items[i];
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && h->items[child + 1]->at < h->items[child]->at) {
            child++;
        }
        if (h->items[child]->at >= d->at) {
            break;
        }
        place(h, i, h->items[child]);
    }
    place(h, i, d);
}

void due_heap_set(struct due_heap *h, struct due *d, uint64_t at)
{
    d->at = at;
    if (!due_is_set(d)) {
        place(h, h->count++, d);
    }
    rise(h, d->slot - 1);
    sink(h, d->slot - 1);
}

void due_heap_remove(struct due_heap *h, struct due *d)
{
    if (!due_is_set(d)) {
        return;
    }
    size_t i = d->slot - 1;
    struct due *last = h->items[--h->count];
    d->slot = 0;
    if (last != d) {
        place(h, i, last);
        rise(h, i);
        sink(h, last->slot - 1);
    }
}
