/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h - carries one request of the operator to the API server and the response back.
 *
 *     operator --- down: request in, response out ---+
 *                                                    | forward
 *     API server - up: response in, request out -----+
 *
 * Bodies are passed on as they come; when one side takes no more, the other is not read. When the
 * rules change, what was asked under the old ones ends, each kind of request in its own way
 * (forward_change_rules); all others do not notice. in_flight.h does it to all that run.
 */
#ifndef LOCALPROXY_FORWARD_H
#define LOCALPROXY_FORWARD_H

#include <cjson/cJSON.h>

#include "base/byte_budget.h"
#include "base/list.h"
#include "guard/delivered_versions.h"
#include "guard/pending_writes.h"
#include "guard/request_attributes.h"
#include "http/exchange.h"
#include "kube/client/client.h"
#include "kube/request_info.h"
#include "load.h"
#include "metrics.h"
#include "paused_request.h"
#include "request_limits.h"
#include "rules/rules_lease.h"
#include "upstream_refusal.h"
#include "watch/migration.h"

struct forward;

/* What all forwards of a proxy share. */
struct forward_context {
    struct net_loop *loop;
    struct kube_client *upstream;
    struct metrics *metrics;
    struct delivered_versions *points;
    struct migration_context migrations;
    struct byte_budget
        *budget;               /* for collected bodies; the caller's to set, before forward_start */
    struct byte_budget *sent;  /* likewise, for heads to be sent, and of answers */
    struct rules_lease *lease; /* likewise; NULL: there is none */
    struct slice user_agent;   /* kube/user_agent.h; empty: clients have their own */
    struct list running;
    struct list waiting; /* watches that the API server could not be asked for just now */
    struct load *load;   /* what is done for clients is counted there; NULL: it is not counted */
    bool outage_told;    /* that they wait, since connections could be opened last */
    bool draining;       /* watches end at their next boundary */
    struct pending_writes writes;
    struct request_lengths lengths;
    /* Sends a request through the rules again: they changed before it was answered, or the API
     * server could not be asked. */
    paused_request_cb again;
    /* Whether a write like that would be refused now. */
    bool (*fences)(void *data, const struct request_info *ri);
    /* As in guard/pending_writes.h. */
    void (*on_settled)(void *data);
    void *data;
};

/* Takes `points`, which is not NULL, in any case. `clock` must outlive it. 0 or -ENOMEM. Callbacks
 * and what migration.h says of its context are the caller's to set. */
MUST_CHECK int forward_context_init(struct forward_context *ctx, struct net_loop *l,
                                    const struct net_clock *clock, struct kube_client *upstream,
                                    struct metrics *metrics, struct delivered_versions *points);
/* Breaks off what still runs. */
void forward_context_deinit(struct forward_context *ctx);

struct forward_request {
    const struct http_head *head; /* the operator's */
    struct slice target;          /* what is asked upstream */
    enum request_verb verb;
    bool resource; /* it goes on only while the rules are valid (rules/rules_lease.h) */
    bool carried;  /* the API server passes it on to somebody else, who answers */
    struct request_limits limits;
    const struct request_attributes
        *attributes;          /* what a change of the rules concerns; NULL: nothing. Copied */
    const struct slice *body; /* collected already; NULL: it passes as it comes */
    bool request_ended;       /* the operator has sent all of it */
    struct passage *passage;  /* taken, unless there is no memory */
};

/* Forwards a request that came on `down`. Answers it itself when that cannot be done. */
void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct forward_request *r);

/* The rules `now` are in force: writes that may still be executed, and would be refused now, are
 * lost (guard/pending_writes.h). Of those under way, what its client has not sent completely after
 * a short time is broken off, and so never executed. */
void forward_judge_writes(struct forward_context *ctx, const struct rules *now);

/* ---- one of context.running ---- */

struct forward *forward_of(struct list *link);

/* An open watch, that is one whose answer has begun. */
bool forward_is_watch(const struct forward *f);

/* Whether it sees a collection, and another part of it than under the rules that it was asked
 * under. */
bool forward_affected(const struct forward *f, const struct rules *now);

/* Of one that is affected, the rules `now` being in force instead of `old` (NULL: none): a watch
 * migrates or is cut (watch/migration.h); what the API server has not begun to answer goes through
 * context.again; the rest is broken off. It may be gone after that. */
void forward_change_rules(struct forward *f, struct rules *old, struct rules *now);

/* Of a request for resources: nothing may be shown or written any more, and `why` tells the client.
 * What was not answered is answered so, a watch ends with 410 Expired, what is being passed on and
 * tunnels are broken off. Of what the API server has not received yet it receives nothing. It may
 * be gone after that. */
void forward_expire(struct forward *f, const char *why);

/* Ends a watch between two events, now or as soon as it can with context.draining. Does nothing to
 * others. It may be gone after that. */
void forward_drain(struct forward *f);

/* Appends to the JSON array what a watch sees, and how it stands. */
void forward_describe(const struct forward *f, cJSON *array);

#endif
