/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.h - the listener for requests to other places than the API server, an HTTP proxy:
 * --egress.
 *
 * Per request: the target (target.h), whether it may be reached (reach.h), faults, the rules that
 * allow and forbid, circuit breakers; then relay.h, or for CONNECT tunnel.h. It is no firewall:
 * clients come here because they were told to.
 */
#ifndef LOCALPROXY_EGRESS_EGRESS_H
#define LOCALPROXY_EGRESS_EGRESS_H

#include <cjson/cJSON.h>

#include "flags.h"
#include "http/server.h"
#include "listener_secrets.h"
#include "net/clock.h"
#include "traffic/policies.h"

struct egress;

struct egress_options {
    const struct localproxy_flags *flags;
    const struct url *server;         /* the API server's */
    const char *own[8];               /* other addresses where localproxy listens; ends with NULL */
    struct listener_secrets *secrets; /* must outlive it */
    struct policies *policies;        /* must outlive it */
    const struct net_clock *clock;    /* NULL: the system's; must outlive it */
    void (*on_drained)(void *data);   /* after egress_drain */
    void *data;
};

/* Listens. NULL with `e` set: also for an address that is not a loopback one, where no token is
 * asked for. On others the token is demanded, as the password in Proxy-Authorization. */
MUST_CHECK struct egress *egress_new(struct net_loop *l, const struct egress_options *o,
                                     struct err *e);
const char *egress_address(const struct egress *g);
/* Requests and tunnels under way. */
unsigned egress_busy(const struct egress *g);

/* Adds the member "egress" (control/status.h); `full`: with more than is read from it. */
void egress_describe(const struct egress *g, bool full, cJSON *root);
/* Appends metrics (base/prometheus.h). 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int egress_write_metrics(const struct egress *g, struct buf *out);

/* Stops accepting; requests that came are finished, and tunnels go on until they end. */
void egress_drain(struct egress *g);
/* Ends what is left at once. NULL is ignored. */
void egress_free(struct egress *g);

#endif
