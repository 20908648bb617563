/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_size.h - what an allocation takes of memory, for sums that are held against a bound.
 *
 * Source: glibc's malloc keeps 8 bytes before each, and gives out multiples of 16, 32 at least.
 */
#ifndef CORE_BASE_HEAP_SIZE_H
#define CORE_BASE_HEAP_SIZE_H

#include <stddef.h>

static inline size_t heap_size(size_t bytes)
{
    size_t rounded = (bytes + 8 + 15) / 16 * 16;
    return rounded < 32 ? 32 : rounded;
}

#endif
