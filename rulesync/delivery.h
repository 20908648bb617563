/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery.h - hands a document over to localproxy, rules or traffic policies, and sees to it that
 * it stays enforced.
 *
 * Confirmed means that the proxy itself named the shard, generation and checksum that it was given.
 * Until then, and whenever it cannot be reached, it is tried again: with pauses from 0.1 s to 5 s,
 * without end. After that the proxy is asked every 5 s, so that one that was restarted with an
 * older copy gets them again; if its socket is seen to come anew, at once. Newer rules are handed
 * over at once, whatever is under way. A proxy that enforces a newer generation is left alone, and
 * what it refused is not offered again for a minute, unless it enforces something else by then.
 *
 * Traffic policies have no order, so no proxy is ahead with them; that there are none is handed
 * over as well. A proxy that is too old for them is asked again every 5 s: it may be another one
 * then.
 */
#ifndef RULESYNC_DELIVERY_H
#define RULESYNC_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/condition.h"
#include "control/state.h"
#include "net/loop.h"
#include "rules/rules.h"
#include "shard_document.h"

struct delivery;

enum delivery_verdict {
    DELIVERY_PENDING,     /* nothing to hand over yet, or not confirmed yet */
    DELIVERY_CONFIRMED,   /* the proxy enforces what was given last */
    DELIVERY_REFUSED,     /* it refused that: see the condition */
    DELIVERY_AHEAD,       /* it enforces a newer generation of rules */
    DELIVERY_UNSUPPORTED, /* it is too old for traffic policies */
};

struct delivery_status {
    enum delivery_verdict verdict;
    bool answered;              /* ever; then: */
    struct control_state proxy; /* what it said last */
    int64_t answered_at;        /* seconds since 1970 */
    int64_t confirmed_at;       /* the same, of the last confirmation; 0: never */
    uint64_t offers;            /* hand-overs begun */
    uint64_t confirmations;     /* of them confirmed */
    uint64_t retries;           /* attempts after one that failed */
    uint64_t refusals;
    struct condition trouble; /* why the verdict is not CONFIRMED, but for UNSUPPORTED: */
    bool outdated;            /* there are traffic policies that the proxy is too old for */
};

/* Zero: the default. */
struct delivery_options {
    enum control_document document;
    bool held; /* nothing is asked before a document is given, or delivery_check called */
    const char *socket;
    uint64_t call_ms;  /* for one call; 10,000 */
    uint64_t check_ms; /* between two questions when all is well; 5,000 */
    uint64_t blind_ms; /* the longest pause where the socket's folder cannot be watched; 1,000 */
    uint64_t retry_min_ms; /* the first pause is up to so long; 100 */
    uint64_t retry_max_ms; /* 5,000 */
    uint64_t refused_ms;   /* until what was refused is offered again; 60,000 */
    /* What keeps documents from arriving, which the proxy is told with each question; "": nothing.
     * NULL: it is told nothing. */
    const char *(*trouble)(void *data);
    /* The verdict changed to another one than PENDING, or a call failed. Never inside a function of
     * this header; may not free. May be NULL. */
    void (*on_verdict)(void *data);
    void *data;
};

/* NULL with `e` set. */
MUST_CHECK struct delivery *delivery_new(struct net_loop *l, const struct delivery_options *o,
                                         struct err *e);
/* From now on these are handed over, and no others. */
void delivery_set(struct delivery *d, struct rules *rules);
/* The same of traffic policies. NULL: that there are none. */
void delivery_set_traffic(struct delivery *d, struct traffic *traffic);
/* Ends a pause: tries or asks now. */
void delivery_check(struct delivery *d);

const struct delivery_status *delivery_status(const struct delivery *d);
/* NULL is ignored. */
void delivery_free(struct delivery *d);

#endif
