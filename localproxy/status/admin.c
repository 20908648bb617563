/* SPDX-License-Identifier: Apache-2.0 */
#include "status/admin.h"

#include <stdlib.h>
#include <string.h>

#include "admin/admin_server.h"
#include "status/proxy_status.h"

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

static int write_metrics(void *data, struct buf *out)
{
    const struct admin_options *o = data;
    const struct upstream *u = proxy_upstream(o->proxy);
    const struct rules_lease *lease = proxy_facts(o->proxy).lease;
    char why[ADMIN_WHY_MAX];
    struct metrics_sources s = {
        .server = proxy_facts(o->proxy).server,
        .rules = proxy_rules(o->proxy),
        .memory = proxy_memory(o->proxy),
        .lease_remaining_ms = lease != NULL ? rules_lease_remaining_ms(lease) : 0,
        .lease_expirations = lease != NULL ? rules_lease_expirations(lease) : 0,
        .ready = proxy_ready(o->proxy, why, sizeof why),
    };
    if (o->egress != NULL) {
        egress_add_memory(o->egress, &s.memory);
    }
    int rc = metrics_write(o->metrics, &s, out);
    if (rc == 0) {
        rc = upstream_write_metrics(u, out);
    }
    if (rc == 0) {
        rc = health_write_metrics(kube_client_health(u->client), "cmesh_proxy", out);
    }
    if (rc == 0) {
        rc = resource_requests_write_metrics(proxy_facts(o->proxy).resources, out);
    }
    if (rc == 0 && proxy_facts(o->proxy).load != NULL) {
        rc = bucket_load_write_metrics(proxy_facts(o->proxy).load, out);
    }
    if (rc == 0 && o->policies != NULL) {
        const struct delays *of_api = proxy_facts(o->proxy).delays;
        const struct delays *of_egress = o->egress != NULL ? egress_delays(o->egress) : NULL;
        size_t delayed = delays_count(of_api) + (of_egress != NULL ? delays_count(of_egress) : 0);
        uint64_t skipped = of_api->skipped + (of_egress != NULL ? of_egress->skipped : 0);
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
    const struct policies_view view = {.rules = CONTROL_TRAFFIC_RULES_MAX, .bytes = TRAFFIC_BYTES};
    const struct upstream *u = proxy_upstream(o->proxy);
    struct reload_source source = {.known = false};
    struct control_rules_lease rules_lease;
    struct control_proxy_use use;
    if (o->pod.name != NULL && o->pod.name[0] != '\0' && o->pod.uid[0] != '\0') {
        control_pod_add(root, &o->pod);
    }
    cJSON_AddStringToObject(root, "listen", proxy_address(o->proxy));
    if (o->flags->listen_tls.count > 0) {
        cJSON_AddStringToObject(root, "listenTLS", proxy_address_at(o->proxy, 1));
    }
    add_rules(o, root);
    cJSON *fences = cJSON_AddObjectToObject(root, "fences");
    cJSON_AddStringToObject(fences, "writes", fence_mode_name(o->flags->write_fence));
    cJSON_AddStringToObject(fences, "reads", fence_mode_name(o->flags->read_fence));
    if (o->policies != NULL) {
        policies_describe(o->policies, &view, root);
    }
    egress_describe(o->egress, true, root);
    upstream_describe(u, root);
    health_describe(kube_client_health(u->client), root);
    proxy_status_use(o->proxy, o->bypass, &use);
    control_proxy_use_add(root, &use);
    proxy_status_load(o->proxy, root);
    if (o->reload != NULL) {
        reload_source(o->reload, &source);
    }
    if (source.known) {
        control_proxy_source_add(root, source.trouble);
    }
    if (o->lease != NULL) { /* by which the manager knows the same */
        cJSON *lease = cJSON_AddObjectToObject(root, "statusLease");
        cJSON_AddNumberToObject(lease, "written", (double)o->metrics->lease_written);
        if (status_lease_error(o->lease) != NULL) {
            cJSON_AddStringToObject(lease, "error", status_lease_error(o->lease));
        }
    }
    proxy_status_lease(o->proxy, &rules_lease);
    control_rules_lease_add(root, &rules_lease, true);
    cJSON_AddNumberToObject(root, "requestsInFlight", proxy_facts(o->proxy).server->busy);
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
