/* SPDX-License-Identifier: Apache-2.0 */
#include "request/proxy_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "egress/egress.h"
#include "forward/in_flight.h"
#include "kube/status.h"
#include "listen/listen_tls.h"
#include "upstream/upstream_refusal.h"

enum {
    HEAD_TIMEOUT_MS = 10000,
    IDLE_TIMEOUT_MS = 300000,
    WRITE_TIMEOUT_MS = 60000,
    TARGET_MAX = 4 * 1024 * 1024,
    HEAD_MAX = 1024 * 1024, /* as kube-apiserver takes it (Go's http.DefaultMaxHeaderBytes) */
    HEADER_COUNT_MAX = 128,
    CONNECTIONS = 5000, /* unless --max-connections says how many */
    CONNECTIONS_TLS = 2000,
    /* Injected containers have 256 MiB in all. */
    REQUEST_BYTES_MAX = 32 * 1024 * 1024, /* large heads and bodies that are not passed on yet */
    SENT_BYTES_MAX = 16 * 1024 * 1024,   /* large heads for the API server, of those with a token */
    UNREAD_BYTES_MAX = 32 * 1024 * 1024, /* that operators or the API server do not read */
    STREAMS_SPARE = 512,                 /* beside two for each connection of an operator */
};

/* ---- what the forwards call ---- */

static void on_settled(void *data)
{
    struct proxy *p = data;
    if (p->on_settled != NULL) {
        p->on_settled(p->settled_data);
    }
}

void proxy_explain_expired(const struct proxy *p, char out[PROXY_EXPIRED_SIZE])
{
    const char *why = rules_lease_why(p->o.lease);
    (void)snprintf(out, PROXY_EXPIRED_SIZE,
                   "the rules are not valid: the Lease of this pod was not renewed in time%s%s",
                   why[0] != '\0' ? ": " : "", why);
}

static void on_expired(void *data)
{
    struct proxy *p = data;
    char why[PROXY_EXPIRED_SIZE];
    proxy_explain_expired(p, why);
    in_flight_expire(&p->forward, why);
    LIST_FOR_EACH(node, &p->forward.upstreams)
    { /* what was given up may be on its way there */
        kube_client_break_off(LIST_ITEM(node, struct upstream, link)->client);
    }
}

/* ---- the listener ---- */

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    bool busy = status == HTTP_PARSE_NO_ROOM || status == HTTP_PARSE_NO_ROOM_FOR_REST;
    proxy_log_refusal(data,
                      busy ? "refused a request" : "refused a request that is not well-formed HTTP",
                      status, why);
    unsigned retry_after = status == HTTP_PARSE_NO_ROOM ? PROXY_RETRY_AFTER_S : 0;
    if (status_write(body, status, NULL, retry_after, "%s", why) != 0) {
        buf_clear(body);
    }
}

static void on_drained(void *data)
{
    struct proxy *p = data;
    p->o.on_drained(p->o.data);
}

/* Such a client says nothing else: to whoever runs it, localproxy does not seem to be there. */
static void on_tls_failed(void *data, const struct err *e)
{
    struct proxy *p = data;
    uint64_t suppressed;
    if (refusal_log_take(&p->refusals, REFUSAL_TLS, net_loop_now(p->loop), &suppressed)) {
        log_warn("a client failed at TLS: does it trust the authority of --local-tls, as ca.crt of "
                 "the service account's folder?",
                 log_str("error", e->msg), log_num("suppressed", (int64_t)suppressed));
    }
}

static const struct http_server_handlers server_handlers = {
    .on_request = request_begin,
    .on_refuse = on_refuse,
    .on_tls_failed = on_tls_failed,
    .on_drained = on_drained,
};

static void on_tls(void *data)
{
    struct proxy *p = data;
    http_server_set_tls(p->server, listener_secrets_tls(p->o.secrets));
}

/* One takes 16 KiB with a request to the API server under way, over TLS 20 KiB more. */
static unsigned connections_max(const struct proxy *p)
{
    uint64_t given = p->o.flags->max_connections;
    unsigned usual = listener_secrets_tls(p->o.secrets) != NULL ? CONNECTIONS_TLS : CONNECTIONS;
    return given != 0 ? (unsigned)given : usual;
}

static int open_server(struct proxy *p, struct err *e)
{
    /* A certificate of the user's is for whom it names, and nobody is served without it. */
    const struct flag_list *tls_addresses = &p->o.flags->listen_tls;
    bool given = p->o.flags->listen_tls_cert != NULL;
    bool plain = given && tls_addresses->count > 0;
    p->backlog = net_backlog_new(p->loop, UNREAD_BYTES_MAX);
    if (p->backlog == NULL) {
        return err_memory(e);
    }
    struct http_server_options so = {
        .address = p->o.flags->listen,
        .tls = plain ? NULL : listener_secrets_tls(p->o.secrets),
        .plain_too = !given,
        .limits = {.head_bytes = HEAD_MAX, .header_count = HEADER_COUNT_MAX},
        .head_timeout_ms = HEAD_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
        .max_connections = connections_max(p),
        .replace_silent = true,
        .max_streams = 2 * connections_max(p) + STREAMS_SPARE + egress_streams_max(p->o.flags),
        .budget = &p->budget,
        .backlog = p->backlog,
    };
    p->server = http_server_new(p->loop, &so, &server_handlers, p, e);
    if (p->server == NULL) {
        err_prefix(e, "--listen");
        return e->code;
    }
    for (size_t i = 0; i < tls_addresses->count; i++) {
        if (listen_tls_open(p->server, tls_addresses->items[i], listener_secrets_tls(p->o.secrets),
                            e) != 0) {
            err_prefix(e, "--listen-tls");
            http_server_free(p->server);
            return e->code;
        }
    }
    listener_secrets_on_tls(p->o.secrets, on_tls, p);
    kube_client_set_backlog(p->o.upstream->client, p->backlog);
    return 0;
}

static const struct rules *rules_in_force(void *data)
{
    const struct proxy *p = data;
    return p->rules;
}

static void init_forward(struct proxy *p)
{
    forward_context_init(&p->forward, p->loop, p->o.metrics);
    cut_pacing_init(&p->forward.migrations.pacing, p->o.flags->cut_interval_s * 1000,
                    p->o.flags->cut_spread_s * 1000);
    p->forward.migrations.seamless = p->o.flags->reload_mode == RELOAD_SEAMLESS;
    if (p->o.flags->count_load) {
        bucket_load_init(&p->load, p->o.clock);
        p->forward.load = &p->load;
    }
    p->forward.budget = &p->budget;
    p->forward.sent = &p->sent;
    p->forward.user_agent = slice_str(p->o.flags->user_agent);
    p->forward.lease = p->o.lease;
    p->forward.again = request_again;
    p->forward.fences = request_fences;
    p->forward.rules = rules_in_force;
    p->forward.write_bookmarks = p->o.flags->write_bookmarks != 0;
    p->forward.on_settled = on_settled;
    p->forward.data = p;
    forward_context_add(&p->forward, p->o.upstream);
}

static void on_faults(void *data)
{
    struct proxy *p = data;
    delays_review(&p->delays);
}

static void close_delays(struct proxy *p)
{
    if (p->o.policies != NULL) {
        policies_forget_faults(p->o.policies, p);
    }
    delays_deinit(&p->delays);
}

struct proxy *proxy_new(struct net_loop *l, const struct proxy_options *o, struct err *e)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        err_memory(e);
        return NULL;
    }
    p->loop = l;
    p->o = *o;
    p->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    p->budget.max = REQUEST_BYTES_MAX;
    p->sent.max = SENT_BYTES_MAX;
    buf_init(&p->target, TARGET_MAX);
    buf_init(&p->newest, TARGET_MAX);
    buf_init(&p->lock_target, TARGET_MAX);
    fence_history_init(&p->history);
    refusal_log_init(&p->refusals);
    local_token_scope(o->server, p->scope);
    list_init(&p->refused);
    if (delays_init(&p->delays, p->loop, p->o.clock, request_delay_over, p) != 0) {
        err_memory(e);
        goto no_delays;
    }
    if (p->o.policies != NULL) {
        policies_on_faults(p->o.policies, on_faults, p);
    }
    init_forward(p);
    if (open_server(p, e) != 0) {
        goto no_server;
    }
    if (o->lease != NULL) {
        rules_lease_listen(o->lease, RULES_LEASE_PROXY, on_expired, p);
    }
    return p;

no_server:
    forward_context_deinit(&p->forward);
    net_backlog_unref(p->backlog);
    close_delays(p);
no_delays:
    free(p);
    return NULL;
}

/* ---- rules come into force ---- */

void proxy_on_settled(struct proxy *p, proxy_settled_cb cb, void *data)
{
    p->on_settled = cb;
    p->settled_data = data;
}

void proxy_ask_start_version(struct proxy *p)
{
    if (p->rules != NULL && p->o.flags->resume_doubt_s > 0) {
        LIST_FOR_EACH(node, &p->forward.upstreams)
        {
            upstream_ask_start(LIST_ITEM(node, struct upstream, link));
        }
    }
}

void proxy_set_rules(struct proxy *p, struct rules *rules)
{
    char why[ERR_MSG_MAX];
    struct err e = ERR_INIT;
    struct rules *old = p->rules;
    p->rules = rules_ref(rules);
    p->rules_since = (int64_t)time(NULL);
    if (lock_rule_init(&p->lock, p->rules, p->o.pod_namespace, &e) != 0) {
        log_error("leader election is not sharded: the shards share one lock",
                  log_str("error", e.msg));
    }
    LIST_FOR_EACH(node, &p->forward.upstreams)
    {
        upstream_refusal_forget(LIST_ITEM(node, struct upstream, link));
    }
    shared_lock_forget(&p->lock_elsewhere, kube_client_health(p->o.upstream->client));
    shared_lock_forget(&p->peering, kube_client_health(p->o.upstream->client));
    fence_history_add(&p->history, old, net_loop_now(p->loop));
    (void)snprintf(why, sizeof why,
                   "the rules of shard %s/%s changed to generation %" PRIu64 ": list again",
                   rules_shard_namespace(rules), rules_shard_name(rules), rules_generation(rules));
    in_flight_change_rules(&p->forward, old, rules, why);
    rules_unref(old);
}

void proxy_explain_no_rules(struct proxy *p, const char *why)
{
    (void)snprintf(p->why_none, sizeof p->why_none, "%s", why);
}

const struct rules *proxy_rules(const struct proxy *p)
{
    return p->rules;
}

unsigned proxy_lost_writes(const struct proxy *p)
{
    return upstreams_lost_writes(&p->forward.upstreams);
}

bool proxy_settled(const struct proxy *p)
{
    return proxy_lost_writes(p) == 0;
}

bool proxy_may_settle(const struct proxy *p, uint64_t within_ms)
{
    return upstreams_may_settle(&p->forward.upstreams, within_ms);
}

bool proxy_draining(const struct proxy *p)
{
    return p->forward.draining;
}

/* ---- what it says about itself, and the end ---- */

struct upstream *proxy_upstream(const struct proxy *p)
{
    return p->o.upstream;
}

const char *proxy_address(const struct proxy *p)
{
    return http_server_address(p->server);
}

const char *proxy_address_at(const struct proxy *p, size_t n)
{
    return http_server_address_at(p->server, n);
}

struct proxy_facts proxy_facts(const struct proxy *p)
{
    return (struct proxy_facts){
        .rules_since = p->rules_since,
        .why_no_rules = p->why_none,
        .lease = p->o.lease,
        .clients = &p->clients,
        .server = http_server_stats(p->server),
        .load = p->forward.load,
        .resources = &p->resources,
        .delays = &p->delays,
    };
}

unsigned proxy_describe_watches(const struct proxy *p, cJSON *array)
{
    return in_flight_describe_watches(&p->forward, array);
}

struct metrics_memory proxy_memory(const struct proxy *p)
{
    struct net_backlog_stats unread = net_backlog_stats(p->backlog);
    size_t watch_bytes = 0;
    LIST_FOR_EACH(node, &p->forward.upstreams)
    {
        watch_bytes += LIST_ITEM(node, struct upstream, link)->memory.used;
    }
    return (struct metrics_memory){
        .request_bytes = p->budget.used + p->sent.used,
        .requests_refused = p->budget.refused + p->sent.refused,
        .unread_bytes = unread.bytes,
        .given_up = unread.given_up,
        .watch_bytes = watch_bytes,
    };
}

void proxy_check(const struct proxy *p, struct admin_checks *c)
{
    char text[PROXY_EXPIRED_SIZE];
    bool needed = p->o.flags->no_rules == NO_RULES_BLOCK;
    admin_check(c, "shutdown", p->forward.draining ? "shutting down" : NULL);
    (void)snprintf(text, sizeof text, "no valid rules: %s", p->why_none);
    admin_check(c, "rules", p->rules == NULL && needed ? text : NULL);
    if (p->o.lease != NULL) {
        proxy_explain_expired(p, text);
        admin_check(c, "rules-lease", rules_lease_valid(p->o.lease) ? NULL : text);
    }
    admin_check_client(c, p->o.upstream->client, true);
}

bool proxy_ready(const struct proxy *p, char *why, size_t size)
{
    struct admin_checks c;
    admin_checks_init(&c, NULL);
    proxy_check(p, &c);
    (void)snprintf(why, size, "%s", c.why);
    return c.ready;
}

void proxy_drain(struct proxy *p)
{
    http_server_drain(p->server);
    in_flight_drain(&p->forward);
    delays_drain(&p->delays);
}

void proxy_free(struct proxy *p)
{
    if (p == NULL) {
        return;
    }
    p->on_settled = NULL;
    if (p->o.lease != NULL) {
        rules_lease_listen(p->o.lease, RULES_LEASE_PROXY, NULL, NULL);
    }
    listener_secrets_on_tls(p->o.secrets, NULL, NULL);
    kube_client_set_backlog(p->o.upstream->client, NULL);
    http_server_free(p->server);
    forward_context_deinit(&p->forward);
    close_delays(p);
    resource_requests_deinit(&p->resources);
    fence_history_deinit(&p->history);
    rules_unref(p->rules);
    buf_reset(&p->target);
    buf_reset(&p->newest);
    buf_reset(&p->lock_target);
    net_backlog_unref(p->backlog);
    free(p);
}
