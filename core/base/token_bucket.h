/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_bucket.h - so many at once and then so many a second, as a leaky bucket counts
 * (https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm).
 */
#ifndef CORE_BASE_TOKEN_BUCKET_H
#define CORE_BASE_TOKEN_BUCKET_H

#include <stdint.h>

struct token_bucket {
    uint64_t interval_us; /* between two tokens */
    uint64_t burst;       /* what it holds */
    uint64_t full_at_us;
};

/* Full. `per_second` is more than 0 and at most a million, `burst` at least 1. */
void token_bucket_init(struct token_bucket *b, double per_second, unsigned burst);

/* Takes one: 0; or leaves it, and returns in how many milliseconds there is one. `now_ms` is of a
 * clock that never goes back. */
uint64_t token_bucket_take(struct token_bucket *b, uint64_t now_ms);

#endif
