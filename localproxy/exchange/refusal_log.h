/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal_log.h - which refusals are logged: ten at once of each kind and then one a second, so
 * that an operator that asks again and again does not fill the log.
 */
#ifndef LOCALPROXY_EXCHANGE_REFUSAL_LOG_H
#define LOCALPROXY_EXCHANGE_REFUSAL_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/token_bucket.h"

enum refusal_kind {
    REFUSAL_INVALID,      /* 400, 404, 413, ...: the request itself */
    REFUSAL_UNAUTHORIZED, /* 401 */
    REFUSAL_FORBIDDEN,    /* 403: the fences, a name in Host */
    REFUSAL_EXPIRED,      /* 410 */
    REFUSAL_TOO_MANY,     /* 429: circuit breakers, too much memory */
    REFUSAL_UNAVAILABLE,  /* 500 and above: no rules, no credentials */
    REFUSAL_AUDITED,      /* not refused, but would have been */
    REFUSAL_TLS,          /* who does not come through TLS */
    REFUSAL_KINDS
};

struct refusal_log {
    struct token_bucket buckets[REFUSAL_KINDS];
    uint64_t suppressed[REFUSAL_KINDS]; /* since the last that was logged */
};

void refusal_log_init(struct refusal_log *l);

/* Of the HTTP status that it is refused with. */
enum refusal_kind refusal_kind_of(unsigned status);

/* Whether one of that kind is to be logged now, and if so how many before it were not. `now_ms` is
 * of a clock that never goes back. */
bool refusal_log_take(struct refusal_log *l, enum refusal_kind kind, uint64_t now_ms,
                      uint64_t *suppressed);

#endif
