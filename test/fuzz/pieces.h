/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.h - the ways in which a target cuts its input: what it says must not depend on them.
 */
#ifndef TEST_FUZZ_PIECES_H
#define TEST_FUZZ_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "check.h"

enum pieces_way { PIECES_WHOLE, PIECES_BYTES, PIECES_RANDOM };

struct pieces {
    struct slice rest;
    enum pieces_way way;
    uint32_t random;
    char *copy; /* so that reads outside the piece are seen */
};

/* The next piece, valid until the next call; false at the end. */
static inline bool pieces_next(struct pieces *p, struct slice *piece)
{
    free(p->copy);
    p->copy = NULL;
    if (p->rest.len == 0) {
        return false;
    }
    p->random = p->random * 1664525 + 1013904223;
    size_t n = p->way == PIECES_BYTES ? 1 : 1 + (p->random >> 16) % 90;
    n = p->way == PIECES_WHOLE || n > p->rest.len ? p->rest.len : n;
    p->copy = malloc(n);
    CHECK(p->copy != NULL);
    memcpy(p->copy, p->rest.ptr, n);
    *piece = slice_of(p->copy, n);
    p->rest = slice_of(p->rest.ptr + n, p->rest.len - n);
    return true;
}

#endif
