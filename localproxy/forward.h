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
 * (forward_change); all others do not notice.
 */
#ifndef LOCALPROXY_FORWARD_H
#define LOCALPROXY_FORWARD_H

#include <cjson/cJSON.h>

#include "base/list.h"
#include "guard/delivered_versions.h"
#include "guard/request_attributes.h"
#include "http/exchange.h"
#include "kube/client/client.h"
#include "kube/request_info.h"
#include "metrics.h"
#include "net/deadline.h"
#include "watch/cut_pacing.h"
#include "watch/difference_cache.h"
#include "watch/list_pages.h"

/* What all forwards of a proxy share. */
struct forward_context {
    struct net_loop *loop;
    struct kube_client *upstream;
    struct metrics *metrics;
    struct delivered_versions *points;
    struct cut_pacing pace;
    struct list running;
    struct list_pages *pages;
    struct difference_cache differences;
    bool seamless;             /* open watches are carried over to new rules, not cut */
    bool draining;             /* watches end at their next boundary */
    unsigned affected;         /* watches that the last change hit */
    unsigned cut_index;        /* of the next of them that is cut */
    unsigned lost;             /* writes under way to what the shard has lost */
    net_deadline_cb on_due;    /* of a forward: see forward_internal.h */
    char why_cut[ERR_MSG_MAX]; /* the last change, for those who must list again */
    /* Sends a request through the rules again: they changed before it was answered. */
    void (*again)(void *data, struct http_exchange *down, const struct http_head *head,
                  bool request_ended);
    /* No write to what was lost is under way any more. */
    void (*on_settled)(void *data);
    void *data;
};

/* Takes `points`, which is not NULL, in any case. 0 or -ENOMEM. Callbacks and pace are the caller's
 * to set. */
MUST_CHECK int forward_context_init(struct forward_context *ctx, struct net_loop *l,
                                    struct kube_client *upstream, struct metrics *metrics,
                                    struct delivered_versions *points);
/* Breaks off what still runs. */
void forward_context_deinit(struct forward_context *ctx);

struct forward_request {
    const struct http_head *head; /* the operator's */
    struct slice target;          /* what is asked upstream */
    enum request_verb verb;
    const struct request_attributes
        *attributes;          /* what a change of the rules concerns; NULL: nothing. Copied */
    const struct slice *body; /* collected already; NULL: it passes as it comes */
    bool request_ended;       /* the operator has sent all of it */
};

/* Forwards a request that came on `down`. Answers it itself when that cannot be done. */
void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct forward_request *r);

/* The rules `now` are in force instead of `old` (NULL: none). Of the requests that see collections,
 * those whose selector is another now: watches are silenced and carried over (difference_writer.h),
 * or cut with 410 where that is not possible or not wanted (cut_pacing.h says when); lists are
 * asked again, or broken off if their answer has begun. Of the writes, those that the shard may not
 * make any more are waited for: on_settled follows, perhaps before return. The rest goes on
 * untouched. */
void forward_change(struct forward_context *ctx, struct rules *old, struct rules *now,
                    const char *why);

/* Ends all watches cleanly, each between two events. Other requests go on. */
void forward_drain(struct forward_context *ctx);

/* Appends an object for each open watch to the JSON array: what it sees, and how it stands. At most
 * FORWARD_DESCRIBED_MAX; returns how many there are. */
#define FORWARD_DESCRIBED_MAX 500
unsigned forward_describe_watches(const struct forward_context *ctx, cJSON *array);

/* Answers with a metav1.Status. `retry_after`: seconds, 0: none. False: that failed, and the
 * exchange was aborted. */
bool forward_refuse(struct metrics *m, struct http_exchange *down, enum request_verb verb,
                    unsigned code, unsigned retry_after, const char *message);

#endif
