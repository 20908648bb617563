/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.h - the listener for requests to other places than the API server, an HTTP proxy:
 * --egress.
 *
 * Per request: the destination (destination.h), whether it may be reached (reach.h), faults, the
 * rules that allow and forbid, circuit breakers; then relay.h, or for CONNECT tunnel.h. It is no
 * firewall: clients come here because they were told to.
 *
 * What it answers itself is text/plain, a sentence that begins with "cmesh:", and has the header
 * EGRESS_HEADER, so that nobody takes it for the origin's.
 */
#ifndef LOCALPROXY_EGRESS_EGRESS_H
#define LOCALPROXY_EGRESS_EGRESS_H

#include <cjson/cJSON.h>

#include "egress/reach.h"
#include "egress/via.h"
#include "exchange/delays.h"
#include "flags.h"
#include "http/server.h"
#include "listen/listener_secrets.h"
#include "metrics/metrics.h"
#include "net/clock.h"
#include "traffic/policies.h"

/* Threads that libuv needs with it (net_loop_set_threads): of the half that looks up names, two
 * are left for the API server's beside those of reach.h and via.h. */
enum { EGRESS_THREADS = 2 * (REACH_LOOKUPS_MAX + VIA_LOOKUPS_MAX + 2) };

/* Its value is `invalid` (400, 407, 508: the request itself), `refused` (403: by a rule, or it may
 * not be reached), `limited` (429: by a breaker; 503: there are too many), `fault` (as a rule says)
 * or `failed` (502, 503, 504: the origin). */
#define EGRESS_HEADER "Cmesh-Egress"

struct egress;

struct egress_options {
    const struct localproxy_flags *flags;
    const struct url *server;       /* the API server's */
    const char *own[REACH_OWN_MAX]; /* other addresses where localproxy listens; ends with NULL, the
                                       last place being NULL */
    struct listener_secrets *secrets; /* must outlive it */
    struct policies *policies;        /* must outlive it */
    const struct net_clock *clock;    /* NULL: the system's; must outlive it */
    void (*on_drained)(void *data);   /* after egress_drain */
    void *data;
};

/* Streams that it has at most: for http_server_options.max_streams of all who share the loop. 0
 * without --egress. */
unsigned egress_streams_max(const struct localproxy_flags *flags);

/* Listens. NULL with `e` set: also for an address that is not a loopback one, where no token is
 * asked for. On others the token is demanded, as bearer token or as the password of Basic
 * credentials in Proxy-Authorization. */
MUST_CHECK struct egress *egress_new(struct net_loop *l, const struct egress_options *o,
                                     struct err *e);
/* One more address where localproxy listens, which no request is to reach. */
void egress_add_own(struct egress *g, const char *address);
/* Also when draining. */
const char *egress_address(const struct egress *g);
/* Requests and tunnels under way. */
unsigned egress_busy(const struct egress *g);
/* Connections of clients. */
unsigned egress_connections(const struct egress *g);
/* Requests that a fault delays. */
const struct delays *egress_delays(const struct egress *g);

/* What clients make it keep. */
void egress_add_memory(const struct egress *g, struct metrics_memory *sum);
/* Adds the member "egress" (control/status.h); `full`: with numbers that grow, and with more than
 * is read from it. `g` NULL: there is none, and that is said. */
void egress_describe(const struct egress *g, bool full, cJSON *root);
/* Appends metrics (base/prometheus.h). 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int egress_write_metrics(const struct egress *g, struct buf *out);

/* Stops accepting; requests that came are finished, and tunnels go on until they end. */
void egress_drain(struct egress *g);
/* Ends what is left at once. NULL is ignored. */
void egress_free(struct egress *g);

#endif
