/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.h - arrays that grow one item at a time.
 */
#ifndef CORE_BASE_GROW_H
#define CORE_BASE_GROW_H

#include <stdlib.h>

#include "base/err.h"

/* The array, with room for one item of `size` bytes behind the `count` that it has; it may have
 * moved. *room: items that it has room for. NULL without memory; then it is as it was. */
MUST_CHECK static inline void *grow_array(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room) {
        return items;
    }
    size_t more = *room == 0 ? 4 : *room * 2;
    void *grown = realloc(items, more * size);
    *room = grown == NULL ? *room : more;
    return grown;
}

#endif
