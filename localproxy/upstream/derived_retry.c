/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/derived_retry.h"

#include "base/decimal.h"

enum { PAUSE_MIN_MS = 200, PAUSE_MAX_MS = 4000, MS = 1000 };

void derived_retry_init(struct derived_retry *r, uint64_t now_ms)
{
    backoff_init(&r->backoff, PAUSE_MIN_MS, PAUSE_MAX_MS);
    r->until_ms = now_ms + DERIVED_RETRY_TIME_MS;
}

static bool may_change_soon(unsigned status)
{
    return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

/* Kubernetes sends seconds, never a date. */
static uint64_t read_retry_after(const struct http_head *head)
{
    const struct http_header *h = http_head_find(head, SLICE("Retry-After"));
    uint64_t seconds = h != NULL ? decimal_or_zero(h->value) : 0;
    return seconds < DERIVED_RETRY_TIME_MS / MS ? seconds * MS : DERIVED_RETRY_TIME_MS;
}

uint64_t derived_retry_pause(struct derived_retry *r, const struct http_head *head, uint64_t now_ms,
                             uint32_t random)
{
    if (head != NULL && !may_change_soon(head->status)) {
        return 0;
    }
    uint64_t pause = head != NULL ? read_retry_after(head) : 0;
    pause += backoff_next(&r->backoff, random); /* so that they do not all come back at once */
    return pause < derived_retry_left(r, now_ms) ? pause : 0;
}

uint64_t derived_retry_left(const struct derived_retry *r, uint64_t now_ms)
{
    return now_ms < r->until_ms ? r->until_ms - now_ms : 0;
}
