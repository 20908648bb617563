/* SPDX-License-Identifier: Apache-2.0 */
#include "admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin_server.h"
#include "proxy_status.h"

/* Of the status: a manager reads no more than 256 KiB in all. */
enum { TRAFFIC_BYTES = 128 * 1024 };

struct admin {
    struct admin_options o;
    struct admin_server *server;
};

static void check(void *data, struct admin_checks *checks)
{
    const struct admin_options *o = data;
    proxy_check(o->proxy, checks);
}

/* Of both listeners. */
static void count_delays(const struct admin_options *o, size_t *delayed, uint64_t *skipped)
{
    const struct delays *d = proxy_delays(o->proxy);
    *delayed = delays_count(d);
    *skipped = d->skipped;
    if (o->egress != NULL) {
        d = egress_delays(o->egress);
        *delayed += delays_count(d);
        *skipped += d->skipped;
    }
}

static int write_metrics(void *data, struct buf *out)
{
    const struct admin_options *o = data;
    char why[ADMIN_WHY_MAX];
    struct metrics_sources s = {
        .server = proxy_stats(o->proxy),
        .client = kube_client_stats(o->upstream),
        .rules = proxy_rules(o->proxy),
        .memory = proxy_memory(o->proxy),
        .ready = proxy_ready(o->proxy, why, sizeof why),
        .reachable = kube_client_unreachable(o->upstream) == NULL,
    };
    if (proxy_lease(o->proxy) != NULL) {
        s.lease_remaining_ms = rules_lease_remaining_ms(proxy_lease(o->proxy));
        s.lease_expirations = rules_lease_expirations(proxy_lease(o->proxy));
    }
    if (o->egress != NULL) {
        egress_add_memory(o->egress, &s.memory);
    }
    int rc = metrics_write(o->metrics, &s, out);
    if (rc == 0) {
        rc = health_write_metrics(kube_client_health(o->upstream), "cmesh_proxy", out);
    }
    if (rc == 0 && proxy_load(o->proxy) != NULL) {
        rc = load_write_metrics(proxy_load(o->proxy), out);
    }
    if (rc == 0 && o->policies != NULL) {
        size_t delayed;
        uint64_t skipped;
        count_delays(o, &delayed, &skipped);
        rc = policies_write_metrics(o->policies, delayed, skipped, out);
    }
    return rc == 0 && o->egress != NULL ? egress_write_metrics(o->egress, out) : rc;
}

static void add_rules(const struct admin_options *o, cJSON *root)
{
    const struct rules *r = proxy_rules(o->proxy);
    cJSON *rules = cJSON_AddObjectToObject(root, "rules");
    cJSON_AddStringToObject(rules, "path", o->flags->rules != NULL ? o->flags->rules : "");
    cJSON_AddStringToObject(rules, "control", o->flags->control != NULL ? o->flags->control : "");
    struct control_proxy_status status;
    proxy_status_rules(o->proxy, &status);
    control_proxy_status_add(rules, &status);
    if (r == NULL) {
        return;
    }
    cJSON_AddNumberToObject(rules, "lostWrites", proxy_lost_writes(o->proxy));
    cJSON_AddNumberToObject(rules, "limits", (double)rules_limit_count(r));
    cJSON_AddNumberToObject(rules, "reloads", (double)o->metrics->reloads);
}

static void add_fences(const struct admin_options *o, cJSON *root)
{
    cJSON *fences = cJSON_AddObjectToObject(root, "fences");
    cJSON_AddStringToObject(fences, "writes", fence_mode_name(o->flags->write_fence));
    cJSON_AddStringToObject(fences, "reads", fence_mode_name(o->flags->read_fence));
}

static void add_traffic(const struct admin_options *o, cJSON *root)
{
    const struct policies_view view = {.rules = CONTROL_TRAFFIC_RULES_MAX, .bytes = TRAFFIC_BYTES};
    if (o->policies != NULL) {
        policies_describe(o->policies, &view, root);
    }
}

static void add_upstream(const struct admin_options *o, cJSON *root)
{
    const struct http_client_stats *s = kube_client_stats(o->upstream);
    const char *error = kube_client_error(o->upstream);
    const char *unreachable = kube_client_unreachable(o->upstream);
    cJSON *up = cJSON_AddObjectToObject(root, "upstream");
    cJSON_AddStringToObject(up, "server", kube_client_server(o->upstream));
    cJSON_AddBoolToObject(up, "credentials", kube_client_ready(o->upstream));
    if (error != NULL) {
        cJSON_AddStringToObject(up, "credentialsError", error);
    }
    cJSON_AddBoolToObject(up, "reachable", unreachable == NULL);
    if (unreachable != NULL) {
        cJSON_AddStringToObject(up, "connectionError", unreachable);
    }
    if (proxy_start_version(o->proxy) != 0) {
        char text[32];
        (void)snprintf(text, sizeof text, "%" PRIu64, proxy_start_version(o->proxy));
        cJSON_AddStringToObject(up, "versionAtStart", text);
    }
    cJSON_AddNumberToObject(up, "connections", s->open);
    cJSON_AddNumberToObject(up, "http2Connections", s->h2);
    cJSON_AddNumberToObject(up, "stalledConnections", (double)s->stalled);
    cJSON_AddNumberToObject(up, "requestsInFlight", s->busy);
    cJSON_AddNumberToObject(up, "dialFailures", (double)s->failed);
}

static void add_use(const struct admin_options *o, cJSON *root)
{
    struct control_proxy_use use;
    proxy_status_use(o->proxy, o->bypass, &use);
    control_proxy_use_add(root, &use);
}

static void add_source(const struct admin_options *o, cJSON *root)
{
    struct reload_source source = {.known = false};
    if (o->reload != NULL) {
        reload_source(o->reload, &source);
    }
    if (source.known) {
        control_proxy_source_add(root, source.trouble);
    }
}

static void add_rules_lease(const struct admin_options *o, cJSON *root)
{
    struct control_rules_lease lease;
    proxy_status_lease(o->proxy, &lease);
    control_rules_lease_add(root, &lease, true);
}

/* Whether the Lease is written by which the manager knows the same. */
static void add_lease(const struct admin_options *o, cJSON *root)
{
    if (o->lease == NULL) {
        return;
    }
    cJSON *lease = cJSON_AddObjectToObject(root, "statusLease");
    cJSON_AddNumberToObject(lease, "written", (double)o->metrics->lease_written);
    if (status_lease_error(o->lease) != NULL) {
        cJSON_AddStringToObject(lease, "error", status_lease_error(o->lease));
    }
}

static void on_asked(void *data, struct slice user_agent)
{
    const struct admin_options *o = data;
    const struct slice manager = SLICE(CONTROL_MANAGER_AGENT);
    if (o->lease != NULL && user_agent.len >= manager.len &&
        memcmp(user_agent.ptr, manager.ptr, manager.len) == 0) {
        status_lease_asked(o->lease);
    }
}

static void add_status(void *data, cJSON *root)
{
    const struct admin_options *o = data;
    if (o->pod.name != NULL && o->pod.name[0] != '\0' && o->pod.uid[0] != '\0') {
        control_pod_add(root, &o->pod);
    }
    cJSON_AddStringToObject(root, "listen", proxy_address(o->proxy));
    if (o->flags->listen_tls.count > 0) {
        cJSON_AddStringToObject(root, "listenTLS", proxy_tls_address(o->proxy));
    }
    add_rules(o, root);
    add_fences(o, root);
    add_traffic(o, root);
    egress_describe(o->egress, true, root);
    add_upstream(o, root);
    health_describe(kube_client_health(o->upstream), root);
    add_use(o, root);
    proxy_status_load(o->proxy, root);
    add_source(o, root);
    add_lease(o, root);
    add_rules_lease(o, root);
    cJSON_AddNumberToObject(root, "requestsInFlight", proxy_stats(o->proxy)->busy);
    cJSON_AddNumberToObject(root, "openWatches", (double)o->metrics->open_watches);
    (void)proxy_describe_watches(o->proxy, cJSON_AddArrayToObject(root, "watches"));
}

static const struct admin_server_ops ops = {
    .check = check,
    .metrics = write_metrics,
    .status = add_status,
    .asked = on_asked,
};

struct admin *admin_new(struct net_loop *l, const struct admin_options *o, struct err *e)
{
    struct admin *a = calloc(1, sizeof *a);
    if (a == NULL) {
        err_memory(e);
        return NULL;
    }
    a->o = *o;
    const struct admin_server_options so = {
        .address = o->flags->admin,
        .program = CONTROL_STATUS_LOCALPROXY,
        .ops = &ops,
        .data = &a->o,
    };
    a->server = admin_server_new(l, &so, e);
    if (a->server == NULL) {
        free(a);
        return NULL;
    }
    return a;
}

const char *admin_address(const struct admin *a)
{
    return admin_server_address(a->server);
}

void admin_free(struct admin *a)
{
    if (a != NULL) {
        admin_server_free(a->server);
        free(a);
    }
}
