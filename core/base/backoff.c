/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

void backoff_init(struct backoff *b, uint64_t min_ms, uint64_t max_ms)
{
    b->min_ms = min_ms;
    b->max_ms = max_ms;
    b->next_ms = min_ms;
}

uint64_t backoff_next(struct backoff *b, uint32_t random)
{
    uint64_t longest = b->next_ms;
    uint64_t half = longest / 2;
    b->next_ms = longest > b->max_ms / 2 ? b->max_ms : longest * 2;
    return longest - half + random % (half + 1);
}

void backoff_reset(struct backoff *b)
{
    b->next_ms = b->min_ms;
}
