/* SPDX-License-Identifier: Apache-2.0 */
#include "base/token_bucket.h"

void token_bucket_init(struct token_bucket *b, double per_second, unsigned burst)
{
    b->interval_us = (uint64_t)(1e6 / per_second);
    b->burst = burst;
    b->full_at_us = 0;
}

uint64_t token_bucket_take(struct token_bucket *b, uint64_t now_ms)
{
    uint64_t now = now_ms * 1000;
    uint64_t full_at = (b->full_at_us > now ? b->full_at_us : now) + b->interval_us;
    uint64_t depth = b->interval_us * b->burst;
    if (full_at - now > depth) {
        return (full_at - now - depth + 999) / 1000;
    }
    b->full_at_us = full_at;
    return 0;
}
