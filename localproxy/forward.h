/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h - carries one request of the operator to the API server and the response back.
 *
 *     operator --- down: request in, response out ---+
 *                                                    | forward
 *     API server - up: response in, request out -----+
 *
 * Bodies are passed on as they come; when one side takes no more, the other is not read. A watch
 * can be ended between two events.
 */
#ifndef LOCALPROXY_FORWARD_H
#define LOCALPROXY_FORWARD_H

#include "http/exchange.h"
#include "kube/client.h"
#include "kube/request_info.h"
#include "metrics.h"

/* What all forwards of a proxy share. */
struct forward_context {
    struct net_loop *loop;
    struct kube_client *upstream;
    struct metrics *metrics;
    struct list running;
    bool draining; /* watches end at their next boundary */
};

void forward_context_init(struct forward_context *ctx, struct net_loop *l,
                          struct kube_client *upstream, struct metrics *metrics);

/* Forwards `head` (the operator's, with the target to be asked upstream) on the exchange `down`.
 * Answers it itself when that cannot be done. */
void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct http_head *head, enum request_verb verb);

/* Ends all watches cleanly, each between two events. Other requests go on. */
void forward_drain(struct forward_context *ctx);

/* Answers with a metav1.Status. `retry_after`: seconds, 0: none. False: that failed, and the
 * exchange was aborted. */
bool forward_refuse(struct metrics *m, struct http_exchange *down, enum request_verb verb,
                    unsigned code, unsigned retry_after, const char *message);

#endif
