/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delays.h - requests that wait because a fault delays them.
 *
 * Nothing was done with them yet: when the time is over they are taken from the start, by the rules
 * that are in force then. It is over sooner when the faults are not in force any more, or when
 * localproxy drains.
 */
#ifndef LOCALPROXY_EXCHANGE_DELAYS_H
#define LOCALPROXY_EXCHANGE_DELAYS_H

#include "base/due_heap.h"
#include "base/list.h"
#include "exchange/paused_request.h"
#include "http/exchange.h"
#include "net/clock.h"
#include "net/timer.h"
#include "traffic/fault.h"

/* More, or more bytes of their heads, go on at once. */
#define DELAYS_MAX 1000
#define DELAYS_BYTES_MAX (16 * 1024 * 1024)

/* A body that was collected before, and is kept until the request goes on. */
struct delayed_body {
    void *body;
    void (*free)(void *body); /* the client has gone, or the server ends */
};

/* The delay is over, and the client is still there: `drawn` tells whether an error follows, and is
 * released after the call. The rest is as paused_request_cb has it; `body` is the callee's. */
typedef void (*delays_cb)(void *data, struct http_exchange *x, const struct http_head *head,
                          bool ended, void *body, struct fault_drawn *drawn);

struct delays {
    struct net_loop *loop;
    const struct net_clock *clock;
    struct net_timer *timer;
    struct due_heap heap;
    struct list waiting; /* all that are in the heap */
    size_t bytes;
    bool draining;
    uint64_t skipped; /* went on at once, there being too many */
    delays_cb cb;
    void *data;
};

/* 0 or -ENOMEM. */
MUST_CHECK int delays_init(struct delays *d, struct net_loop *l, const struct net_clock *clock,
                           delays_cb cb, void *data);
/* No exchange is left that waits. */
void delays_deinit(struct delays *d);

/* Takes the exchange, of whose body nothing was read but what is in `body`, and that which was
 * drawn. False: it is to go on at once; nothing has happened. */
MUST_CHECK bool delays_begin(struct delays *d, struct http_exchange *x,
                             const struct http_head *head, bool ended,
                             const struct delayed_body *body, struct fault_drawn *drawn);

/* Other faults are in force. */
void delays_review(struct delays *d);
/* All go on now, and nothing is delayed any more. */
void delays_drain(struct delays *d);

static inline size_t delays_count(const struct delays *d)
{
    return d->heap.count;
}

#endif
