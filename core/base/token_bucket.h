/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_bucket.h - so many at once and then so many in a time
 * (https://en.wikipedia.org/wiki/Token_bucket).
 *
 * All is counted in whole numbers: a token is so many units, and each millisecond brings so many,
 * so that nothing is lost or won by rounding.
 */
#ifndef CORE_BASE_TOKEN_BUCKET_H
#define CORE_BASE_TOKEN_BUCKET_H

#include <stdint.h>

struct token_bucket {
    uint64_t token;  /* units of one */
    uint64_t per_ms; /* units that come */
    uint64_t size;   /* units that it holds */
    uint64_t level;  /* units, as of `at_ms` */
    uint64_t at_ms;
};

/* There is none, however long one waits. */
#define TOKEN_BUCKET_NEVER UINT64_MAX

/* Full. `per_second` is more than 0 and at most a million, `burst` at least 1. */
void token_bucket_init(struct token_bucket *b, double per_second, unsigned burst);
/* The same with `limit` tokens in each interval, which is from 1 ms to seven days. With a limit of
 * 0 none comes but those that are there at first; with a burst of 0 there is never one. */
void token_bucket_init_limit(struct token_bucket *b, uint32_t limit, uint64_t interval_ms,
                             uint32_t burst);

/* In how many milliseconds there is one: 0 is now. Nothing is taken. `now_ms` is of a clock that
 * never goes back. */
uint64_t token_bucket_look(const struct token_bucket *b, uint64_t now_ms);
/* The same, and takes it if there is one. */
uint64_t token_bucket_take(struct token_bucket *b, uint64_t now_ms);

#endif
