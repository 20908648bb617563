/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/upstream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "upstream/watch_memory.h"

static void on_credentials(void *data)
{
    struct upstream *u = data;
    if (u->limited) {
        start_versions_begin(&u->starts);
    }
}

static struct delivered_versions *open_delivered(const struct upstream_options *o, struct err *e)
{
    struct delivered_versions *d = o->state != NULL
                                       ? delivered_open(o->state, o->name, o->doubt_ms, e)
                                       : delivered_new(o->doubt_ms);
    if (d == NULL && o->state != NULL) {
        err_prefix(e, "--state");
    } else if (d == NULL) {
        err_memory(e);
    }
    return d;
}

struct upstream *upstream_new(struct net_loop *l, const struct upstream_options *o, struct err *e)
{
    const struct net_clock *clock = o->clock != NULL ? o->clock : &net_clock_system;
    struct kube_client_options client = o->client;
    struct upstream *u = calloc(1, sizeof *u);
    if (u == NULL) {
        err_memory(e);
        return NULL;
    }
    u->loop = l;
    u->name = o->name;
    u->memory.max = WATCH_MEMORY_MAX;
    list_init(&u->link);
    list_init(&u->waiting);
    client.on_change = on_credentials;
    client.data = u;
    u->client = kube_client_new(l, &client, e);
    if (u->client == NULL) {
        goto no_client;
    }
    u->delivered = open_delivered(o, e);
    if (u->delivered == NULL) {
        goto no_delivered;
    }
    u->pages = list_pages_new(l, u->client, &u->memory);
    if (u->pages == NULL ||
        pending_writes_init(&u->writes, l, clock, delivered_writes(u->delivered)) != 0) {
        err_memory(e);
        goto no_pages;
    }
    start_versions_init(&u->starts, l, u->client, u->delivered);
    return u;

no_pages:
    list_pages_free(u->pages);
    delivered_free(u->delivered);
no_delivered:
    kube_client_close(u->client, NULL, NULL);
no_client:
    free(u);
    return NULL;
}

void upstream_ask_start(struct upstream *u)
{
    u->limited = true;
    start_versions_begin(&u->starts);
}

void upstream_free(struct upstream *u)
{
    if (u == NULL) {
        return;
    }
    list_remove(&u->link);
    start_versions_deinit(&u->starts);
    pending_writes_deinit(&u->writes);
    list_pages_free(u->pages);
    delivered_free(u->delivered);
    kube_client_close(u->client, NULL, NULL);
    free(u);
}

/* ---- what it says of itself ---- */

void upstream_describe(const struct upstream *u, cJSON *root)
{
    const struct http_client_stats *s = kube_client_stats(u->client);
    const char *error = kube_client_error(u->client);
    const char *unreachable = kube_client_unreachable(u->client);
    cJSON *up = cJSON_AddObjectToObject(root, "upstream");
    cJSON_AddStringToObject(up, "name", u->name);
    cJSON_AddStringToObject(up, "server", kube_client_server(u->client));
    cJSON_AddBoolToObject(up, "credentials", kube_client_ready(u->client));
    if (error != NULL) {
        cJSON_AddStringToObject(up, "credentialsError", error);
    }
    cJSON_AddBoolToObject(up, "reachable", unreachable == NULL);
    if (unreachable != NULL) {
        cJSON_AddStringToObject(up, "connectionError", unreachable);
    }
    if (u->starts.version != 0) {
        char text[32];
        (void)snprintf(text, sizeof text, "%" PRIu64, u->starts.version);
        cJSON_AddStringToObject(up, "versionAtStart", text);
    }
    cJSON_AddNumberToObject(up, "connections", s->open);
    cJSON_AddNumberToObject(up, "http2Connections", s->h2);
    cJSON_AddNumberToObject(up, "stalledConnections", (double)s->stalled);
    cJSON_AddNumberToObject(up, "requestsInFlight", s->busy);
    cJSON_AddNumberToObject(up, "dialFailures", (double)s->failed);
}

int upstream_write_metrics(const struct upstream *u, struct buf *out)
{
    const struct http_client_stats *stats = kube_client_stats(u->client);
    const struct prometheus_metric numbers[] = {
        {"cmesh_proxy_upstream_errors_total", "counter",
         "Requests that failed because the API server could not be reached or closed the "
         "connection.",
         u->errors},
        {"cmesh_proxy_upstream_requests_total", "counter", "Requests sent to the API server.",
         stats->requests},
        {"cmesh_proxy_upstream_dials_total", "counter", "Attempts to connect to the API server.",
         stats->dialled},
        {"cmesh_proxy_upstream_dial_failures_total", "counter",
         "Attempts to connect to the API server that failed.", stats->failed},
        {"cmesh_proxy_upstream_reachable", "gauge",
         "0 after no connection to the API server could be opened, until one could be or an open "
         "one answers; 1 otherwise.",
         kube_client_unreachable(u->client) == NULL},
        {"cmesh_proxy_upstream_tls_resumed_total", "counter",
         "TLS sessions with the API server that were resumed.", stats->resumed},
        {"cmesh_proxy_upstream_repeated_total", "counter",
         "Requests to the API server sent again because a reused connection was closed.",
         stats->repeated},
        {"cmesh_proxy_upstream_connections", "gauge", "Open connections to the API server.",
         stats->open},
        {"cmesh_proxy_upstream_connections_idle", "gauge", "Idle connections to the API server.",
         stats->idle},
        {"cmesh_proxy_upstream_connections_http2", "gauge",
         "Open connections to the API server with HTTP/2, each of which carries many requests.",
         stats->h2},
        {"cmesh_proxy_upstream_connections_stalled_total", "counter",
         "Connections given up because the API server answered PINGs on them, but no requests.",
         stats->stalled},
        {"cmesh_proxy_upstream_requests_in_flight", "gauge",
         "Requests to the API server in flight, watches and those that wait for a connection "
         "included.",
         stats->busy},
    };
    prometheus_head(out, "cmesh_proxy_upstream_info", "gauge",
                    "Name and address of the API server that the other metrics of it are about; "
                    "always 1.");
    buf_printf(out, "cmesh_proxy_upstream_info{upstream=\"%s\",server=\"%s\"} 1\n", u->name,
               kube_client_server(u->client));
    return prometheus_write(out, numbers, ARRAY_LEN(numbers));
}

/* ---- all of a table ---- */

static struct upstream *upstream_of(struct list *node)
{
    return LIST_ITEM(node, struct upstream, link);
}

unsigned upstreams_lost_writes(const struct list *all)
{
    unsigned count = 0;
    LIST_FOR_EACH(node, all)
    {
        count += pending_writes_lost(&upstream_of(node)->writes);
    }
    return count;
}

bool upstreams_may_settle(const struct list *all, uint64_t within_ms)
{
    LIST_FOR_EACH(node, all)
    {
        if (!pending_writes_may_settle(&upstream_of(node)->writes, within_ms)) {
            return false;
        }
    }
    return true;
}
