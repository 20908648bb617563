/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h - carries one request of the operator to the API server and the response back.
 *
 *     operator --- down: request in, response out ---+
 *                                                    | forward
 *     API server - up: response in, request out -----+
 *
 * in_flight.h has what a change of the rules does to those that run.
 */
#ifndef LOCALPROXY_FORWARD_FORWARD_H
#define LOCALPROXY_FORWARD_FORWARD_H

#include "base/byte_budget.h"
#include "base/list.h"
#include "exchange/paused_request.h"
#include "forward/time_limits.h"
#include "guard/rules_lease.h"
#include "http/exchange.h"
#include "kube/request_info.h"
#include "metrics/bucket_load.h"
#include "metrics/metrics.h"
#include "upstream/request_attributes.h"
#include "upstream/upstream.h"
#include "watch/migration.h"

/* What all forwards of a proxy share, to whatever upstream. */
struct forward_context {
    struct net_loop *loop;
    struct metrics *metrics;
    struct list upstreams;
    struct migration_context migrations;
    struct byte_budget
        *budget;               /* for collected bodies; the caller's to set, before forward_start */
    struct byte_budget *sent;  /* likewise, for heads to be sent, and of answers */
    struct rules_lease *lease; /* likewise; NULL: there is none */
    struct slice user_agent;   /* kube/user_agent.h; empty: clients have their own */
    struct list running;
    struct bucket_load
        *load;     /* what is done for clients is counted there; NULL: it is not counted */
    bool draining; /* watches end at their next boundary */
    /* Sends a request through the rules again: they changed before it was answered, or the API
     * server could not be asked. */
    paused_request_cb again;
    /* Whether a write like that would be refused now. */
    bool (*fences)(void *data, const struct request_info *ri);
    /* Those in force; NULL: none. */
    const struct rules *(*rules)(void *data);
    bool write_bookmarks;  /* forward_bookmark.c; the caller's to set */
    unsigned write_probes; /* that are open */
    struct list write_probes_awaited;
    struct net_task write_probe_ended;
    /* As in upstream/pending_writes.h. */
    void (*on_settled)(void *data);
    void *data;
};

/* Callbacks and what migration.h says of its context are the caller's to set. */
void forward_context_init(struct forward_context *ctx, struct net_loop *l, struct metrics *metrics);
/* One more of the table, once callbacks are set. It must outlive the context. */
void forward_context_add(struct forward_context *ctx, struct upstream *u);
/* Breaks off what still runs. */
void forward_context_deinit(struct forward_context *ctx);

struct forward_request {
    struct upstream *upstream;    /* of the context's table */
    const struct http_head *head; /* the operator's */
    struct slice target;          /* what is asked upstream */
    enum request_verb verb;
    bool resource; /* it goes on only while the rules are valid (guard/rules_lease.h) */
    bool carried;  /* the API server passes it on to somebody else, who answers */
    struct time_limits limits;
    const struct request_attributes
        *attributes;          /* what a change of the rules concerns; NULL: nothing. Copied */
    const struct slice *body; /* collected already; NULL: it passes as it comes */
    bool request_ended;       /* the operator has sent all of it */
    struct passage *passage;  /* taken, unless there is no memory */
};

/* Forwards a request that came on `down`. Answers it itself when that cannot be done. */
void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct forward_request *r);

#endif
