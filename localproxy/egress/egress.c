/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "control/status.h"
#include "kube/status.h"
#include "net/own_address.h"

enum {
    HEAD_TIMEOUT_MS = 10000,
    IDLE_TIMEOUT_MS = 300000,
    WRITE_TIMEOUT_MS = 60000,
    CONNECT_TIMEOUT_MS = 15000,
    CONNECTIONS_SPARE = 1000, /* beside one for each tunnel */
    STREAMS_SPARE = ORIGINS_IDLE_MAX + 256,
    REQUEST_BYTES_MAX = 8 * 1024 * 1024, /* large heads, and bodies that are not passed on yet */
    SENT_BYTES_MAX = 4 * 1024 * 1024,    /* large heads as they are sent, and of answers */
    UNREAD_BYTES_MAX = 16 * 1024 * 1024, /* that clients or origins do not read */
};

/* ---- the listener ---- */

/* As the API's listener answers what is no request (http/server.h). */
static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    struct egress *g = data;
    g->requests++;
    g->refused++;
    egress_log_refusal(g, "refused an external request that is not well-formed HTTP", status, "",
                       why);
    if (status_write(body, status, NULL, 0, "%s", why) != 0) {
        buf_clear(body);
    }
}

static void on_over(void *data, const struct destination *t, uint64_t sent, uint64_t received)
{
    (void)data;
    log_debug("tunnel over", log_str("host", t->host), log_num("sent", (int64_t)sent),
              log_num("received", (int64_t)received));
}

static void on_drained(void *data)
{
    struct egress *g = data;
    g->o.on_drained(g->o.data);
}

static const struct http_server_handlers server_handlers = {
    .on_request = egress_on_request,
    .on_refuse = on_refuse,
    .on_drained = on_drained,
};

static unsigned connections_max(const struct localproxy_flags *flags)
{
    return (unsigned)flags->egress_max_tunnels + CONNECTIONS_SPARE;
}

unsigned egress_streams_max(const struct localproxy_flags *flags)
{
    return flags->egress == NULL ? 0 : 2 * connections_max(flags) + STREAMS_SPARE;
}

/* Whoever reaches it from elsewhere must show the token. */
static int decide_token(struct egress *g, struct err *e)
{
    struct sockaddr_storage listen;
    int rc = net_address_parse(g->o.flags->egress, &listen, e);
    if (rc != 0 || net_address_is_loopback(&listen)) {
        return rc;
    }
    g->asks_token = true;
    if (listener_secrets_token(g->o.secrets).len == 0) {
        return err_set(e, -EINVAL,
                       "the address is reached from elsewhere, and no token is asked for "
                       "(--token-file=off): listen on 127.0.0.1, or ask for one");
    }
    return 0;
}

static int open_server(struct egress *g, struct err *e)
{
    const struct http_server_options o = {
        .address = g->o.flags->egress,
        .head_timeout_ms = HEAD_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
        .max_connections = connections_max(g->o.flags),
        .proxy = true,
        .replace_silent = true,
        .budget = &g->budget,
        .backlog = g->backlog,
    };
    g->server = http_server_new(g->loop, &o, &server_handlers, g, e);
    if (g->server == NULL) {
        return e->code;
    }
    (void)snprintf(g->address, sizeof g->address, "%s", http_server_address(g->server));
    return 0;
}

/* ---- rules come into force ---- */

static void on_faults(void *data)
{
    struct egress *g = data;
    delays_review(&g->delays);
}

static void on_intercepts(void *data)
{
    struct egress *g = data;
    tunnels_review(&g->tunnels, egress_still_allows, g);
    relays_review(&g->relays, egress_still_allows, g);
    origins_forget(g->origins);
}

/* ---- life ---- */

/* Each request would come back, and be sent again. */
static int refuse_itself(const struct egress *g, struct err *e)
{
    struct url url;
    struct sockaddr_storage listen;
    struct err ignored = ERR_INIT;
    const char *via = via_name(g->via);
    if (via[0] == '\0' || url_parse(via, &url, &ignored) != 0) {
        return 0;
    }
    int rc = net_address_parse(g->address, &listen, e);
    if (rc == 0 && net_address_leads_to(url.host, url.port, &listen)) {
        rc = err_set(e, -ELOOP, "--egress-via=%s is --egress itself", via);
    }
    return rc;
}

static int open_reach(struct egress *g, struct err *e)
{
    struct reach_options o = {.server = g->o.server};
    size_t n = 0;
    o.own[n++] = g->address;
    for (size_t i = 0; n < REACH_OWN_MAX && g->o.own[i] != NULL; i++) {
        o.own[n++] = g->o.own[i];
    }
    g->reach = reach_new(&o, g->o.policies);
    return g->reach == NULL ? err_memory(e) : 0;
}

static int open_all(struct egress *g, struct err *e)
{
    const struct localproxy_flags *flags = g->o.flags;
    uint64_t idle_ms = flags->egress_idle_s * 1000;
    if (decide_token(g, e) != 0) {
        return e->code;
    }
    g->backlog = net_backlog_new(g->loop, UNREAD_BYTES_MAX);
    if (g->backlog == NULL) {
        return err_memory(e);
    }
    g->via = via_new(flags->egress_via, flags->egress_no_proxy, e);
    if (g->via == NULL) {
        err_prefix(e, "--egress-via");
        return e->code;
    }
    if (open_server(g, e) != 0 || refuse_itself(g, e) != 0 || open_reach(g, e) != 0) {
        return e->code;
    }
    const struct origins_options o = {
        .ca_file = flags->egress_ca,
        .reach = g->reach,
        .via = g->via,
        .backlog = g->backlog,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .write_timeout_ms = idle_ms,
    };
    g->origins = origins_new(g->loop, &o, e);
    if (g->origins == NULL) {
        return e->code;
    }
    g->relays.origins = g->origins;
    g->relays.pseudonym = &g->pseudonym;
    g->relays.sent = &g->sent;
    g->relays.idle_ms = idle_ms;
    g->relays.on_failed = egress_on_failed;
    g->relays.on_answered = egress_on_answered;
    g->relays.data = g;
    g->tunnels.reach = g->reach;
    g->tunnels.backlog = g->backlog;
    g->tunnels.budget = &g->budget;
    g->tunnels.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    g->tunnels.idle_ms = idle_ms;
    g->tunnels.max = (unsigned)flags->egress_max_tunnels;
    g->tunnels.on_failed = egress_on_failed;
    g->tunnels.on_opened = egress_on_opened;
    g->tunnels.allows_name = egress_allows_name;
    g->tunnels.on_over = on_over;
    g->tunnels.data = g;
    if (delays_init(&g->delays, g->loop, g->o.clock, egress_on_delay_over, g) != 0) {
        return err_memory(e);
    }
    policies_on_faults(g->o.policies, on_faults, g);
    policies_on_intercepts(g->o.policies, on_intercepts, g);
    return 0;
}

struct egress *egress_new(struct net_loop *l, const struct egress_options *o, struct err *e)
{
    struct egress *g = calloc(1, sizeof *g);
    if (g == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    g->loop = l;
    g->o = *o;
    g->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    g->budget.max = REQUEST_BYTES_MAX;
    g->sent.max = SENT_BYTES_MAX;
    pseudonym_init(&g->pseudonym, net_clock_random(g->o.clock));
    local_token_scope(o->server, g->scope);
    refusal_log_init(&g->refusals);
    hosts_init(&g->hosts);
    relays_init(&g->relays, l);
    tunnels_init(&g->tunnels, l);
    if (open_all(g, e) != 0) {
        if (strncmp(e->msg, "--", 2) != 0) {
            err_prefix(e, "--egress");
        }
        egress_free(g);
        return NULL;
    }
    return g;
}

void egress_drain(struct egress *g)
{
    http_server_drain(g->server);
    tunnels_drain(&g->tunnels);
    delays_drain(&g->delays);
}

void egress_free(struct egress *g)
{
    if (g == NULL) {
        return;
    }
    http_server_free(g->server);
    tunnels_deinit(&g->tunnels);
    relays_deinit(&g->relays);
    if (g->delays.timer != NULL) {
        policies_forget_faults(g->o.policies, g);
        policies_on_intercepts(g->o.policies, NULL, NULL);
        delays_deinit(&g->delays);
    }
    origins_free(g->origins);
    reach_free(g->reach);
    via_free(g->via);
    net_backlog_unref(g->backlog);
    hosts_deinit(&g->hosts);
    free(g);
}

/* ---- what it says ---- */

void egress_add_own(struct egress *g, const char *address)
{
    reach_add_own(g->reach, address);
}

const char *egress_address(const struct egress *g)
{
    return g->address;
}

unsigned egress_busy(const struct egress *g)
{
    return http_server_stats(g->server)->busy;
}

unsigned egress_connections(const struct egress *g)
{
    return http_server_stats(g->server)->open;
}

const struct delays *egress_delays(const struct egress *g)
{
    return &g->delays;
}

void egress_add_memory(const struct egress *g, struct metrics_memory *sum)
{
    struct net_backlog_stats unread = net_backlog_stats(g->backlog);
    sum->request_bytes += g->budget.used + g->sent.used;
    sum->requests_refused += g->budget.refused + g->sent.refused;
    sum->unread_bytes += unread.bytes;
    sum->given_up += unread.given_up;
}

void egress_describe(const struct egress *g, bool full, cJSON *root)
{
    struct control_egress_status s = {.known = true, .address = ""};
    if (g != NULL) {
        s.address = egress_address(g);
    }
    if (g != NULL && full) {
        s.requests = g->requests;
        s.refused = g->refused;
        s.failed = g->failed;
        s.tunnels = g->tunnels.count;
    }
    control_egress_status_add(root, &s);
    cJSON *egress = cJSON_GetObjectItemCaseSensitive(root, "egress");
    if (g == NULL || !full || egress == NULL) {
        return;
    }
    cJSON_AddNumberToObject(egress, "inFlight", egress_busy(g));
    cJSON_AddNumberToObject(egress, "connections", egress_connections(g));
    cJSON_AddNumberToObject(egress, "originConnections", origins_stats(g->origins).open);
    if (via_name(g->via)[0] != '\0') {
        cJSON_AddStringToObject(egress, "via", via_name(g->via));
    }
}

int egress_write_metrics(const struct egress *g, struct buf *out)
{
    const struct prometheus_metric numbers[] = {
        {"cmesh_proxy_egress_tunnels", "gauge",
         "Open tunnels (CONNECT), those that are being dialled included.", g->tunnels.count},
        {"cmesh_proxy_egress_tunnels_total", "counter", "Tunnels (CONNECT) that were opened.",
         g->tunnels.opened},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
    prometheus_head(out, "cmesh_proxy_egress_bytes_total", "counter",
                    "Bytes of external requests' bodies, and of tunnels, by direction: sent to "
                    "other places, or received from there.");
    buf_printf(out, "cmesh_proxy_egress_bytes_total{direction=\"sent\"} %" PRIu64 "\n",
               g->relays.sent_bytes + g->tunnels.sent);
    buf_printf(out, "cmesh_proxy_egress_bytes_total{direction=\"received\"} %" PRIu64 "\n",
               g->relays.received_bytes + g->tunnels.bytes - g->tunnels.sent);
    return hosts_write_metrics(&g->hosts, out);
}
