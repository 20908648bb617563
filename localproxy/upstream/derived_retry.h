/* SPDX-License-Identifier: Apache-2.0 */
/*
 * derived_retry.h - when a derived request that failed is sent once more.
 *
 * After a change of the rules many watches migrate at the same moment, which is when the API server
 * refuses some of their requests for now. The clients stand still meanwhile, and can wait.
 */
#ifndef LOCALPROXY_UPSTREAM_DERIVED_RETRY_H
#define LOCALPROXY_UPSTREAM_DERIVED_RETRY_H

#include <stdint.h>

#include "base/backoff.h"
#include "http/exchange.h"

/* From the first attempt on. */
#define DERIVED_RETRY_TIME_MS 15000

struct derived_retry {
    struct backoff backoff;
    uint64_t until_ms;
};

/* The first attempt is made at `now_ms` (a monotonic clock). */
void derived_retry_init(struct derived_retry *r, uint64_t now_ms);

/* An attempt has failed: answered with `head`, or the connection broke (NULL). How many ms to wait
 * before the next one: longer each time, and not less than Retry-After says. 0: there is none, as
 * the answer is not one that changes soon (429, 500, 502, 503, 504), or the time would be over.
 * `random`: see backoff_next. */
uint64_t derived_retry_pause(struct derived_retry *r, const struct http_head *head, uint64_t now_ms,
                             uint32_t random);

/* ms that are left of the time. */
uint64_t derived_retry_left(const struct derived_retry *r, uint64_t now_ms);

#endif
