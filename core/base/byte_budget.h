/* SPDX-License-Identifier: Apache-2.0 */
/*
 * byte_budget.h - a bound on memory that many buffers share.
 *
 * Each owner of a buffer has a *share*, says how large the buffer is to become before it grows, and
 * gives back when it is freed. A share of at most BYTE_SHARE_FREE bytes is not counted: what is
 * that small is always to be had, whoever has used up the rest.
 */
#ifndef CORE_BASE_BYTE_BUDGET_H
#define CORE_BASE_BYTE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BYTE_SHARE_FREE ((size_t)4096)

struct byte_budget {
    size_t max;
    size_t used;
    uint64_t refused; /* times that a share could not grow */
};

struct byte_share {
    struct byte_budget *budget; /* outlives it; NULL: no bound */
    size_t size;
};

static inline void byte_share_init(struct byte_share *s, struct byte_budget *budget)
{
    *s = (struct byte_share){.budget = budget};
}

/* The buffer is to have `size` bytes. False: it may not grow so far, and the share is as before.
 * One that shrinks always may. */
MUST_CHECK bool byte_share_set(struct byte_share *s, size_t size);
/* The same, as if the budget's maximum were `max`: for who leaves the rest to others. */
MUST_CHECK bool byte_share_set_within(struct byte_share *s, size_t size, size_t max);
/* The same, of what its owner can do without: it does not count as refused. */
MUST_CHECK bool byte_share_try_within(struct byte_share *s, size_t size, size_t max);
/* The buffer has `size` bytes, whether it may or not: the budget can be overdrawn by it. */
void byte_share_force(struct byte_share *s, size_t size);

static inline void byte_share_give_back(struct byte_share *s)
{
    if (s->size > 0) {
        byte_share_force(s, 0);
    }
}

static inline bool byte_budget_overdrawn(const struct byte_budget *b)
{
    return b->used > b->max;
}

#endif
