/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream.h - one API server: how it is reached, and all that localproxy knows of it alone.
 *
 * Versions mean something to the server that counts them only, and a write can be executed there
 * alone: so what was delivered, what is under way, and what is asked on localproxy's own account
 * belong to one of these. What clients, rules and policies are about is the proxy's, which has a
 * table of upstreams; a request has one of them from the beginning to the end.
 */
#ifndef LOCALPROXY_UPSTREAM_UPSTREAM_H
#define LOCALPROXY_UPSTREAM_UPSTREAM_H

#include <cjson/cJSON.h>

#include "base/byte_budget.h"
#include "base/err.h"
#include "base/list.h"
#include "kube/client/client.h"
#include "net/clock.h"
#include "net/loop.h"
#include "upstream/delivered_versions.h"
#include "upstream/list_pages.h"
#include "upstream/pending_writes.h"
#include "upstream/start_version.h"

/* The name of the one to which requests go that name none. */
#define UPSTREAM_HOME "home"

struct upstream {
    struct list link; /* in the table */
    struct net_loop *loop;
    const char *name; /* in metrics, /status and logs */
    struct kube_client *client;
    struct delivered_versions *delivered;
    struct pending_writes writes; /* on_settled is the proxy's to set */
    struct start_versions starts;
    struct list_pages *pages;
    struct byte_budget memory; /* upstream/watch_memory.h */
    struct list waiting;       /* watches that it could not be asked for just now */
    size_t refused_len; /* the shortest target that was refused for its length; 0: none was */
    uint64_t errors;    /* requests that it did not answer, or not to the end */
    bool limited;       /* rules are in force: where it was at the start is of use */
    bool outage_told;   /* that watches wait, since connections could be opened last */
};

struct upstream_options {
    const char *name;                  /* must outlive it */
    struct kube_client_options client; /* on_change and its data are set by upstream_new */
    const char *state;                 /* as delivered_open; NULL: in memory alone */
    uint64_t doubt_ms;                 /* likewise */
    const struct net_clock *clock;     /* of writes; NULL: the system's; must outlive it */
};

/* Begins to fetch credentials. NULL with `e` set. */
MUST_CHECK struct upstream *upstream_new(struct net_loop *l, const struct upstream_options *o,
                                         struct err *e);

/* Rules are in force: asks where it is, once there are credentials, if that is of use and not
 * known. */
void upstream_ask_start(struct upstream *u);

/* Adds the member "upstream" of /status. */
void upstream_describe(const struct upstream *u, cJSON *root);
/* Appends its metrics (base/prometheus.h). 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int upstream_write_metrics(const struct upstream *u, struct buf *out);

/* No request is left. NULL is ignored. */
void upstream_free(struct upstream *u);

/* ---- all of a table ---- */

/* As those of upstream/pending_writes.h. */
unsigned upstreams_lost_writes(const struct list *all);
bool upstreams_may_settle(const struct list *all, uint64_t within_ms);

#endif
