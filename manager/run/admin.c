/* SPDX-License-Identifier: Apache-2.0 */
#include "run/admin.h"

#include <stdio.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "root/root_summary.h"
#include "shard/summary.h"

enum { SHARDS_MAX = 200 /* that /status lists, and so many roots */ };

/* What it lets the kubelet start must not depend on what it happens to know. */
static bool version_ready(const struct manager_admin *p, char *why)
{
    if (!p->version_needed || server_version_known(p->version)) {
        return true;
    }
    const char *error = server_version_error(p->version);
    (void)snprintf(why, ADMIN_WHY_MAX,
                   "the version of the API server is not known, by which --native-sidecars=auto "
                   "decides: %s",
                   error != NULL ? error : "it is being asked for");
    return false;
}

/* A manager that does not lead is ready too: it serves webhooks, and knows all that it needs to
 * lead. But somebody must. One whose credentials are refused serves webhooks from what it knows. */
static void check(void *data, struct admin_checks *checks)
{
    const struct manager_admin *p = data;
    char text[ADMIN_WHY_MAX];
    const char *why = NULL;
    admin_check_client(checks, p->client, false);
    if (!shard_cache_synced(p->cache)) {
        why = shard_cache_error(p->cache);
        why = why != NULL ? why : "the ShardingConfigs are being listed";
    }
    admin_check(checks, "shardingconfigs", why);
    admin_check(checks, "version", version_ready(p, text) ? NULL : text);
    admin_check(checks, "leader", leader_ready(p->leader, text, sizeof text) ? NULL : text);
    if (p->webhook != NULL) {
        bool ready = webhook_serving_ready(p->webhook, &why);
        admin_check(checks, "webhook", ready ? NULL : why != NULL ? why : "it is starting");
    }
}

static void events_metrics(const struct event_recorder *events, struct buf *out)
{
    const struct event_recorder_stats *s = event_recorder_stats(events);
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_events_recorded_total", "counter", "Events recorded by the manager.",
         s->recorded},
        {"cmesh_manager_events_written_total", "counter",
         "Requests to the API server that wrote an Event; one may combine several Events.",
         s->written},
        {"cmesh_manager_events_lost_total", "counter",
         "Events dropped before they were written to the API server.", s->failed + s->dropped},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

static void api_metrics(const struct manager_admin *p, struct buf *out)
{
    const struct http_client_stats *s = kube_client_stats(p->client);
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_upstream_connections", "gauge", "Open connections to the API server.",
         s->open},
        {"cmesh_manager_upstream_connections_http2", "gauge",
         "Open connections to the API server with HTTP/2, each of which carries many requests.",
         s->h2},
        {"cmesh_manager_upstream_connections_stalled_total", "counter",
         "Connections given up because the API server answered PINGs on them, but no requests.",
         s->stalled},
        {"cmesh_manager_upstream_requests_in_flight", "gauge",
         "Requests to the API server in flight, watches and those that wait for a connection "
         "included.",
         s->busy},
        {"cmesh_manager_discovery_complete", "gauge",
         "1 while it is known of every group of the API server which resources it has, 0 "
         "otherwise.",
         discovery_ready(p->discovery) && discovery_error(p->discovery) == NULL ? 1 : 0},
        {"cmesh_manager_definitions_followed", "gauge",
         "1 while CustomResourceDefinitions are watched, 0 when they cannot be.",
         crd_watch_error(p->definitions) == NULL ? 1 : 0},
        {"cmesh_manager_native_sidecars", "gauge",
         "1 while sidecars are injected as native ones, 0 otherwise.", *p->native ? 1 : 0},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

static int add_metrics(void *data, struct buf *out)
{
    const struct manager_admin *p = data;
    leader_metrics(p->leader, out);
    shard_cache_metrics(p->cache, out);
    api_metrics(p, out);
    health_write_metrics(p->health, "cmesh_manager", out);
    events_metrics(p->events, out);
    if (p->webhook != NULL) {
        webhook_serving_metrics(p->webhook, out);
    }
    return xrc(buf_error(out));
}

static void add_error(cJSON *object, const char *error)
{
    if (error != NULL) {
        cJSON_AddStringToObject(object, "error", error);
    }
}

/* What the status of each shard, or of each root, says, which any replica knows. */
static void add_configs(const struct manager_admin *p, cJSON *to, bool roots,
                        void (*add)(cJSON *array, const cJSON *config))
{
    cJSON *items = cJSON_AddArrayToObject(to, "items");
    double count = 0;
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config(p->cache, c)) != NULL;) {
        if (c->root == roots && ++count <= SHARDS_MAX) {
            add(items, c->object);
        }
    }
    cJSON_AddNumberToObject(to, "count", count);
}

static void add_version(const struct manager_admin *p, cJSON *api)
{
    const struct server_version *v = p->version;
    if (server_version_known(v)) {
        char text[ADMIN_WHY_MAX];
        (void)snprintf(text, sizeof text, "%s.%s", server_version_major(v),
                       server_version_minor(v));
        cJSON_AddStringToObject(api, "version", text);
    }
    if (server_version_error(v) != NULL) {
        cJSON_AddStringToObject(api, "versionError", server_version_error(v));
    }
    cJSON_AddBoolToObject(api, "nativeSidecars", *p->native);
}

static void add_status(void *data, cJSON *root)
{
    const struct manager_admin *p = data;
    cJSON *api = cJSON_AddObjectToObject(root, "apiServer");
    cJSON_AddStringToObject(api, "server", kube_client_server(p->client));
    cJSON_AddBoolToObject(api, "credentials", kube_client_ready(p->client));
    add_error(api, kube_client_error(p->client));
    add_version(p, api);
    health_describe(p->health, root);
    cJSON *found = cJSON_AddObjectToObject(root, "discovery");
    cJSON_AddBoolToObject(found, "ready", discovery_ready(p->discovery));
    add_error(found, discovery_error(p->discovery));
    cJSON *definitions = cJSON_AddObjectToObject(root, "customResourceDefinitions");
    cJSON_AddBoolToObject(definitions, "following", crd_watch_error(p->definitions) == NULL);
    add_error(definitions, crd_watch_error(p->definitions));
    cJSON *shards = cJSON_AddObjectToObject(root, "shards");
    cJSON_AddBoolToObject(shards, "synced", shard_cache_synced(p->cache));
    add_error(shards, shard_cache_error(p->cache));
    add_configs(p, shards, false, summary_add);
    add_configs(p, cJSON_AddObjectToObject(root, "roots"), true, root_summary_add);
    leader_status(p->leader, root);
    if (p->webhook != NULL) {
        webhook_serving_status(p->webhook, root);
    }
}

const struct admin_server_ops manager_admin_ops = {
    .check = check,
    .metrics = add_metrics,
    .status = add_status,
};
