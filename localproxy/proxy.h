/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h - the listener for the operator: what each request may see.
 *
 * Per request: the token, if one is demanded; the request info as kube-apiserver derives it; the
 * rules; the selector into the query; then forward.h.
 */
#ifndef LOCALPROXY_PROXY_H
#define LOCALPROXY_PROXY_H

#include "config.h"
#include "forward.h"
#include "http/server.h"
#include "kube/rules.h"

struct proxy;

struct proxy_options {
    const struct config *config;
    struct kube_client *upstream;
    struct metrics *metrics;
    struct tls_config *tls;         /* NULL: plain */
    struct slice token;             /* empty: none is demanded; must outlive the proxy */
    void (*on_drained)(void *data); /* after proxy_drain */
    void *data;
};

/* Listens. NULL with `e` set. */
MUST_CHECK struct proxy *proxy_new(struct net_loop *l, const struct proxy_options *o,
                                   struct err *e);

/* Puts rules in force (a reference is taken), or none (NULL) with the reason why. */
void proxy_set_rules(struct proxy *p, struct rules *rules, const char *why_none);
const struct rules *proxy_rules(const struct proxy *p);

const char *proxy_address(const struct proxy *p);
const struct http_server_stats *proxy_stats(const struct proxy *p);

/* Rules are in force (or not needed) and there are credentials; if not, `why` says it. */
bool proxy_ready(const struct proxy *p, char *why, size_t size);

/* Stops accepting, ends watches between events, lets requests in flight finish. */
void proxy_drain(struct proxy *p);
/* Ends what is left at once. NULL is ignored. */
void proxy_free(struct proxy *p);

#endif
