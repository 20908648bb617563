/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origins.h - connections to the servers that requests were sent to, kept for the next request.
 *
 * One pool (http/client.h) for each scheme, host and port, and one for the proxy to which plain
 * requests go in absolute form; those that were not used for longest go when there are too many, if
 * no request is under way on them. TLS is verified by the system's authorities or those of
 * --egress-ca.
 */
#ifndef LOCALPROXY_EGRESS_ORIGINS_H
#define LOCALPROXY_EGRESS_ORIGINS_H

#include "base/err.h"
#include "egress/destination.h"
#include "egress/reach.h"
#include "egress/via.h"
#include "http/client.h"
#include "net/backlog.h"
#include "net/loop.h"

/* Pools, and unused connections of all of them, beyond which those go that were not used for
 * longest. */
enum { ORIGINS_MAX = 256, ORIGINS_IDLE_MAX = 512 };

struct origins;

struct origins_options {
    const char *ca_file; /* NULL: the system's */
    struct reach *reach;
    const struct via *via;
    struct net_backlog *backlog;
    uint64_t connect_timeout_ms; /* as http/client.h has them */
    uint64_t write_timeout_ms;
};

/* Reads the authorities. NULL with `e` set: those of the file cannot be read, or -ENOMEM. Where the
 * system has none, requests over TLS fail. What the options name must outlive it. */
MUST_CHECK struct origins *origins_new(struct net_loop *l, const struct origins_options *o,
                                       struct err *e);
/* Users of running exchanges get on_close. NULL is ignored. */
void origins_free(struct origins *all);

/* Sends the request, as http_client_request; plain http through a proxy in absolute form, all else
 * through a tunnel of it. head->target is of no meaning. */
MUST_CHECK struct http_exchange *origins_request(struct origins *all, const struct destination *t,
                                                 const struct http_head *head,
                                                 const struct http_exchange_handlers *handlers,
                                                 void *data, struct err *e);
/* The proxy that requests to it go to in absolute form, and whose answer 407 may be; NULL: none. */
const char *origins_asked_proxy(const struct origins *all, const struct destination *t);

/* Whether the address to which the request's connection leads may still be reached; what a proxy on
 * the way leads to is not seen. */
bool origins_still_reaches(const struct origins *all, const struct destination *t,
                           const struct http_exchange *x);

/* Connections that no request is on are closed: other rules are in force. */
void origins_forget(struct origins *all);

struct origins_stats {
    unsigned pools;
    unsigned open; /* connections now, those that are being dialled included */
    unsigned idle; /* of them unused */
};

struct origins_stats origins_stats(const struct origins *all);

#endif
