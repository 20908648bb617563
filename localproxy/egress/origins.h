/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origins.h - connections to the servers that requests were sent to, kept for the next request.
 *
 * One pool (http/client.h) for each scheme, host, port and way there; those that were not used for
 * longest go when there are too many, if no request is under way on them. TLS is verified by the
 * system's authorities or those of --egress-ca.
 */
#ifndef LOCALPROXY_EGRESS_ORIGINS_H
#define LOCALPROXY_EGRESS_ORIGINS_H

#include "base/err.h"
#include "egress/reach.h"
#include "egress/target.h"
#include "egress/via.h"
#include "http/client.h"
#include "net/backlog.h"
#include "net/loop.h"

enum { ORIGINS_MAX = 256 };

struct origins;

struct origins_options {
    const char *ca_file; /* NULL: the system's */
    struct reach *reach;
    const struct via *via;
    struct net_backlog *backlog;
};

/* NULL with `e` set: the authorities cannot be read, or -ENOMEM. */
MUST_CHECK struct origins *origins_new(struct net_loop *l, const struct origins_options *o,
                                       struct err *e);
/* No request may be under way. NULL is ignored. */
void origins_free(struct origins *all);

/* Sends the request, as http_client_request; plain http through a proxy in absolute form, all else
 * through a tunnel of it. */
MUST_CHECK struct http_exchange *origins_request(struct origins *all, const struct target *t,
                                                 const struct http_head *head,
                                                 const struct http_exchange_handlers *handlers,
                                                 void *data, struct err *e);
/* Connections that no request is on are closed: other rules are in force. */
void origins_forget(struct origins *all);

#endif
