/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decider.h - decides about reviews and answers them: small ones at once, large ones in a thread.
 *
 * There are two lanes, so that what is small never waits for what is large, and in each of them one
 * review at a time; addresses take turns (review_queue.h): to keep others waiting one has to have
 * many of them. Bounded: reviews that wait, and their bytes; over it those are told to come again
 * whose address asks for most.
 *
 *     WAITING --> READING (thread) --> decided (loop) --> ANSWERING (thread) --> answered (loop)
 *
 * What is in a thread cannot be stopped: when its connection is gone, or the decider, its result is
 * dropped.
 */
#ifndef MANAGER_WEBHOOK_DECIDER_H
#define MANAGER_WEBHOOK_DECIDER_H

#include "base/buf.h"
#include "http/exchange.h"
#include "net/loop.h"
#include "webhook/metrics.h"
#include "webhook/route.h"

struct decider;

struct decider_options {
    const struct webhook_route *routes; /* kept, not copied */
    struct webhook_stats *stats;        /* of each; kept */
    void *data; /* of all routes; threads may use it until the loop is freed */
};

struct decider *decider_new(struct net_loop *l, const struct decider_options *o);
/* Takes an exchange without handlers and the whole body of its request. */
void decider_take(struct decider *d, size_t route, struct http_exchange *x, struct buf *body);
void decider_count(const struct decider *d, struct webhook_thread_counts *out);
/* At once: no answer is given any more. The exchanges must be gone. NULL is ignored. */
void decider_free(struct decider *d);

#endif
