/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - 64-bit FNV-1a, for tables and identities among friends: not against somebody who looks
 * for collisions.
 */
#ifndef CORE_BASE_HASH_H
#define CORE_BASE_HASH_H

#include <stdint.h>

#include "base/slice.h"

#define HASH_SEED UINT64_C(0xcbf29ce484222325)

/* Goes on from `hash` with the text and its end, so that "a", "bc" is not "ab", "c". */
static inline uint64_t hash_slice(uint64_t hash, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3);
    }
    return (hash ^ 0x100) * UINT64_C(0x100000001b3);
}

#endif
