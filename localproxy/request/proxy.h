/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h - the listener for the operator: what each request may see and change.
 *
 * Per request: the token, if one is demanded, or whom it was meant for; the request info as
 * kube-apiserver derives it; the name of the leader election lock; faults; the rules: what it may
 * go on from, what it may write, the selector into the query; circuit breakers; then forward.h.
 */
#ifndef LOCALPROXY_REQUEST_PROXY_H
#define LOCALPROXY_REQUEST_PROXY_H

#include <cjson/cJSON.h>

#include "admin/checks.h"
#include "exchange/delays.h"
#include "flags.h"
#include "guard/rules_lease.h"
#include "http/server.h"
#include "listen/listener_secrets.h"
#include "metrics/bucket_load.h"
#include "metrics/metrics.h"
#include "metrics/resource_requests.h"
#include "net/clock.h"
#include "rules/rules.h"
#include "traffic/policies.h"
#include "upstream/upstream.h"

struct proxy;

struct proxy_options {
    const struct localproxy_flags *flags;
    struct upstream *upstream; /* must outlive the proxy, which has it in its table */
    const struct url *server;  /* the API server's */
    struct metrics *metrics;
    struct listener_secrets *secrets; /* must outlive the proxy */
    struct policies *policies;        /* NULL: none; must outlive the proxy */
    const struct net_clock *clock;    /* NULL: the system's; must outlive the proxy */
    struct rules_lease *lease; /* NULL: rules are valid while they are in force; must outlive the
                                  proxy, which listens to it */
    const char *pod_namespace; /* NULL: take the shard's; must outlive the proxy */
    void (*on_drained)(void *data); /* after proxy_drain */
    void *data;
};

/* Listens. NULL with `e` set. */
MUST_CHECK struct proxy *proxy_new(struct net_loop *l, const struct proxy_options *o,
                                   struct err *e);

/* Asks API servers where they are, if there are rules (upstream_ask_start): when rules were set. */
void proxy_ask_start_version(struct proxy *p);

/* Rules were put in force, and no write to what they took away is under way any more. Whether some
 * can still be executed by the API server proxy_settled says; when they cannot, it is called again.
 */
typedef void (*proxy_settled_cb)(void *data);
void proxy_on_settled(struct proxy *p, proxy_settled_cb cb, void *data);

/* Puts rules in force (a reference is taken): from now on nothing is shown or written by others.
 * What runs under the old ones ends as in_flight_change_rules says; on_settled follows, perhaps
 * before return. */
void proxy_set_rules(struct proxy *p, struct rules *rules);
/* Why there are none. */
void proxy_explain_no_rules(struct proxy *p, const char *why);

/* NULL: none. */
const struct rules *proxy_rules(const struct proxy *p);
/* Writes to what was lost that are under way, or can still be executed; and whether there are none.
 */
unsigned proxy_lost_writes(const struct proxy *p);
bool proxy_settled(const struct proxy *p);
/* As pending_writes_may_settle. */
bool proxy_may_settle(const struct proxy *p, uint64_t within_ms);
bool proxy_draining(const struct proxy *p);

/* The one that gets what names no other. */
struct upstream *proxy_upstream(const struct proxy *p);

const char *proxy_address(const struct proxy *p);
/* Each one on which it listens, --listen first; "": there are no more. */
const char *proxy_address_at(const struct proxy *p, size_t n);
struct metrics_memory proxy_memory(const struct proxy *p);

/* Requests of clients since the start, also those that were refused. */
struct proxy_clients {
    uint64_t requests;
    int64_t first; /* seconds since 1970; 0: there was none */
    int64_t last;
};

/* What others tell of it, as it is now. */
struct proxy_facts {
    int64_t rules_since; /* seconds since 1970; 0: none are in force */
    const char *why_no_rules;
    const struct rules_lease *lease; /* NULL: there is none */
    const struct proxy_clients *clients;
    const struct http_server_stats *server;
    const struct bucket_load *load; /* NULL: it does not count that */
    const struct resource_requests *resources;
    const struct delays *delays;
};
struct proxy_facts proxy_facts(const struct proxy *p);

/* Appends what is known of each open watch to the JSON array; returns how many there are. */
unsigned proxy_describe_watches(const struct proxy *p, cJSON *array);

/* Rules are in force and valid (or not needed), and there are credentials, which the API server has
 * not refused for long. */
void proxy_check(const struct proxy *p, struct admin_checks *c);
/* The same at once; if not, `why` says it. */
bool proxy_ready(const struct proxy *p, char *why, size_t size);

/* Stops accepting, ends watches between events, lets requests in flight finish. */
void proxy_drain(struct proxy *p);
/* Ends what is left at once. NULL is ignored. */
void proxy_free(struct proxy *p);

#endif
