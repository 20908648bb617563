/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/refusal_log.h"

enum { PER_SECOND = 1, BURST = 10 };

void refusal_log_init(struct refusal_log *l)
{
    *l = (struct refusal_log){.suppressed = {0}};
    for (unsigned i = 0; i < REFUSAL_KINDS; i++) {
        token_bucket_init(&l->buckets[i], PER_SECOND, BURST);
    }
}

enum refusal_kind refusal_kind_of(unsigned status)
{
    switch (status) {
    case 401:
        return REFUSAL_UNAUTHORIZED;
    case 403:
        return REFUSAL_FORBIDDEN;
    case 410:
        return REFUSAL_EXPIRED;
    case 429:
        return REFUSAL_TOO_MANY;
    default:
        return status >= 500 ? REFUSAL_UNAVAILABLE : REFUSAL_INVALID;
    }
}

bool refusal_log_take(struct refusal_log *l, enum refusal_kind kind, uint64_t now_ms,
                      uint64_t *suppressed)
{
    if (token_bucket_take(&l->buckets[kind], now_ms) != 0) {
        l->suppressed[kind]++;
        return false;
    }
    *suppressed = l->suppressed[kind];
    l->suppressed[kind] = 0;
    return true;
}
