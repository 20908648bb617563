/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backoff.h - how long to wait before the next attempt: longer each time, and never as long as
 * others that failed at the same moment.
 */
#ifndef CORE_BASE_BACKOFF_H
#define CORE_BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    uint64_t min_ms;
    uint64_t max_ms;
    uint64_t next_ms; /* the longest that the next pause may be */
};

/* `max_ms` is at least `min_ms`, and that at least 1. */
void backoff_init(struct backoff *b, uint64_t min_ms, uint64_t max_ms);

/* The next pause: between half and all of min_ms at first, doubled each time up to max_ms.
 * `random`: any number from the whole range, each as likely as the others. */
uint64_t backoff_next(struct backoff *b, uint32_t random);

/* All is well: the next pause is a short one again. */
void backoff_reset(struct backoff *b);

#endif
