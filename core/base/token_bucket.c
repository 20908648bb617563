/* SPDX-License-Identifier: Apache-2.0 */
#include "base/token_bucket.h"

void token_bucket_init(struct token_bucket *b, double per_second, unsigned burst)
{
    uint64_t interval_us = (uint64_t)(1e6 / per_second);
    *b = (struct token_bucket){
        .token = interval_us,
        .per_ms = 1000,
        .size = interval_us * burst,
        .level = interval_us * burst,
    };
}

/* The largest size is below 2^62: 2^32 tokens of 2^30 units. */
void token_bucket_init_limit(struct token_bucket *b, uint32_t limit, uint64_t interval_ms,
                             uint32_t burst)
{
    *b = (struct token_bucket){
        .token = interval_ms,
        .per_ms = limit,
        .size = interval_ms * burst,
        .level = interval_ms * burst,
    };
}

static uint64_t level_at(const struct token_bucket *b, uint64_t now_ms)
{
    uint64_t missing = b->size - b->level;
    uint64_t passed = now_ms > b->at_ms ? now_ms - b->at_ms : 0;
    if (b->per_ms == 0) {
        return b->level;
    }
    return passed > missing / b->per_ms ? b->size : b->level + passed * b->per_ms;
}

uint64_t token_bucket_look(const struct token_bucket *b, uint64_t now_ms)
{
    uint64_t level = level_at(b, now_ms);
    if (level >= b->token) {
        return 0;
    }
    if (b->per_ms == 0 || b->size < b->token) {
        return TOKEN_BUCKET_NEVER;
    }
    return (b->token - level + b->per_ms - 1) / b->per_ms;
}

uint64_t token_bucket_take(struct token_bucket *b, uint64_t now_ms)
{
    uint64_t wait = token_bucket_look(b, now_ms);
    if (wait == 0) {
        b->level = level_at(b, now_ms) - b->token;
        b->at_ms = now_ms;
    }
    return wait;
}
