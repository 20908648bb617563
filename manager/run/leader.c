/* SPDX-License-Identifier: Apache-2.0 */
#include "run/leader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/state_machine.h"
#include "base/xalloc.h"
#include "kube/client/lease.h"
#include "label/labeller.h"
#include "net/timer.h"
#include "rolling/deployment_roller.h"
#include "rolling/roller.h"
#include "root/roots.h"
#include "route/routes.h"
#include "shard/controller.h"

enum {
    MS = 1000,
    MIB = 1024 * 1024,
    POLICIES_PART = 4, /* of --shards-memory, beside it, may policies take */
};

/* What is missing when the API server refuses the Lease, and when it cannot be asked. */
#define NEEDED "the manager's namespace, and its Role: see k8s/base/role.yaml"
#define REACHABLE "an API server that answers"

/* STANDBY <-- holds the Lease, or holds it no more --> LEADING */
enum state { STANDBY, LEADING };

static const struct state_machine states = {
    .object = "leader",
    .states = {[STANDBY] = {"Standby", STATE(LEADING)}, [LEADING] = {"Leading", STATE(STANDBY)}},
};

struct leader {
    struct net_loop *loop;
    struct leader_options o;
    struct lease *lease; /* NULL: without election */
    enum state state;
    struct net_timer *timer; /* begins without election */
    struct controller *controller;
    struct controller_counts counts;
    struct roller *roller;
    struct deployment_roller *deployment_roller;
    struct roller_counts rolled;
    struct roots *roots;
    struct roots_counts root_counts;
    struct routes *routes;
    struct routes_counts route_counts;
    struct labeller *labeller;
    struct shard_cache_listener listener;  /* for it */
    struct label_progress_source labelled; /* tells what it has done */
    uint64_t changes;                      /* times that it came to lead */
    void (*on_resigned)(void *data);
    void *resigned_data;
};

static void set_state(struct leader *l, enum state state)
{
    l->state = state_change(&states, l->state, state, slice_str(l->o.identity));
}

static bool leads(const struct leader *l)
{
    return l->state == LEADING;
}

bool leader_may_write(void *data)
{
    const struct leader *l = data;
    return leads(l) && (l->lease == NULL || lease_held(l->lease));
}

/* ---- what a leader does ---- */

static enum label_progress_knowledge
labelled_resources(void *data, const struct discovery_resource **all, size_t *count)
{
    return labeller_resources(((const struct leader *)data)->labeller, all, count);
}

static void label_progress(void *data, const struct discovery_resource *r,
                           struct label_progress *out)
{
    labeller_progress(((const struct leader *)data)->labeller, r, out);
}

static void on_labelled(void *data)
{
    controller_look_again(((const struct leader *)data)->controller);
}

/* ---- which traffic policies there are ---- */

static bool has_resource(const struct leader *l, const char *plural)
{
    size_t count = 0;
    const struct discovery_resource *all = discovery_all(l->o.discovery, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].group, POLICY_GROUP) == 0 &&
            strcmp(all[i].version, POLICY_VERSION) == 0 && strcmp(all[i].plural, plural) == 0) {
            return true;
        }
    }
    return false;
}

/* What is not known of a group says nothing, unless another of its resources is. */
static enum policy_served served(const struct leader *l, enum traffic_kind kind)
{
    if (!discovery_ready(l->o.discovery)) {
        return POLICY_NOT_ASKED;
    }
    if (has_resource(l, policy_kind_plural(kind))) {
        return POLICY_SERVED;
    }
    bool answered =
        discovery_error(l->o.discovery) == NULL || has_resource(l, SHARD_CACHE_RESOURCE);
    return answered ? POLICY_ABSENT : POLICY_UNKNOWN;
}

static void serve_policies(struct leader *l)
{
    for (size_t kind = 0; l->controller != NULL && kind < POLICY_KINDS; kind++) {
        enum policy_served s = served(l, (enum traffic_kind)kind);
        if (s != POLICY_NOT_ASKED) {
            controller_serve(l->controller, (enum traffic_kind)kind, s);
        }
    }
}

/* ---- reviews ---- */

static void on_in_force(void *data, const char *key)
{
    const struct leader *l = data;
    if (l->routes != NULL) {
        routes_look(l->routes, key);
    }
}

static bool release_rules(void *data, const char *key, struct rules *to)
{
    const struct leader *l = data;
    return l->routes == NULL || routes_release(l->routes, key, to);
}

static const struct route_report *report_routes(void *data, const char *key)
{
    static const struct route_report unknown = {.state = ROUTE_UNKNOWN};
    const struct leader *l = data;
    return l->routes == NULL ? &unknown : routes_report(l->routes, key);
}

static bool in_force(void *data, const struct shard_cache_config *config, struct rules **published)
{
    const struct leader *l = data;
    return controller_in_force(l->controller, config, published);
}

static void on_report(void *data, const char *key)
{
    const struct leader *l = data;
    if (key == NULL) {
        controller_look_again(l->controller);
    } else {
        controller_look_at(l->controller, key);
    }
}

static void begin_routes(struct leader *l)
{
    const struct routes_options o = {
        .client = l->o.client,
        .cache = l->o.cache,
        .originals = l->o.originals,
        .counts = &l->route_counts,
        .namespaces = l->o.namespaces,
        .keys = l->o.keys,
        .namespace = l->o.namespace,
        .labels = l->o.settings->labels,
        .may_write = leader_may_write,
        .in_force = in_force,
        .on_report = on_report,
        .data = l,
    };
    l->routes = routes_new(l->loop, &o);
}

/* ---- shards ---- */

static void begin_controller(struct leader *l)
{
    const struct manager_flags *s = l->o.settings;
    const struct controller_options o = {
        .client = l->o.client,
        .cache = l->o.cache,
        .events = l->o.events,
        .counts = &l->counts,
        .labels = s->labels,
        .prefix = s->labels.prefix,
        .may_write = leader_may_write,
        .data = l,
        .handover = (enum handover_mode)s->handover,
        .handover_ms = s->handover_wait_s * MS,
        .takeover_margin_ms = s->takeover_margin_s * MS,
        .labelled = &l->labelled,
        .wait_for_labels = s->wait_for_labels,
        .namespaces = l->o.namespaces,
        .coverage = true,
        .left_out = l->o.left_out,
        .on_in_force = on_in_force,
        .release = release_rules,
        .routed = report_routes,
        .bypass_wait_ms = s->bypass_wait_s * MS,
        .watch_namespace = s->watch_namespace,
        .policies = true,
        .policy_memory = s->shards_memory_mib * MIB / POLICIES_PART,
        .probes = {.interval_ms = s->probe_interval_s * MS, .any_address = s->probe_any_address},
    };
    l->controller = controller_new(l->loop, &o);
    serve_policies(l);
}

static void begin_roller(struct leader *l)
{
    const struct roller_options o = {
        .client = l->o.client,
        .cache = l->o.cache,
        .controller = l->controller,
        .events = l->o.events,
        .counts = &l->rolled,
        .prefix = l->o.settings->labels.prefix,
        .namespace = l->o.settings->watch_namespace,
        .may_write = leader_may_write,
        .data = l,
    };
    l->roller = roller_new(l->loop, &o);
    l->deployment_roller = deployment_roller_new(l->loop, &o);
}

static const struct control_load *load_of(void *data, const char *pod)
{
    const struct leader *l = data;
    return controller_load(l->controller, pod);
}

static void begin_roots(struct leader *l)
{
    const struct roots_options o = {
        .client = l->o.client,
        .cache = l->o.cache,
        .events = l->o.events,
        .counts = &l->root_counts,
        .labels = l->o.settings->labels,
        .may_write = leader_may_write,
        .load_of = load_of,
        .minute_ms = l->o.minute_ms,
        .targets = l->o.settings->root_statefulsets,
        .data = l,
    };
    l->roots = roots_new(l->loop, &o);
}

static void on_shared(void *data, const struct sharing_set *shared)
{
    struct leader *l = data;
    (void)shared; /* which the labeller has */
    if (l->labeller != NULL) {
        labeller_recheck(l->labeller);
    }
}

static void begin_labeller(struct leader *l)
{
    const struct manager_flags *s = l->o.settings;
    if (s->label_qps == 0) {
        return;
    }
    const struct labeller_options o = {
        .client = l->o.client,
        .discovery = l->o.discovery,
        .resources = l->o.resources,
        .keys = l->o.keys,
        .namespace = l->o.namespace,
        .system_namespaces = s->label_system_namespaces,
        .qps = (unsigned)s->label_qps,
        .may_write = leader_may_write,
        .on_progress = on_labelled,
        .data = l,
    };
    static const struct shard_cache_handlers handlers = {.on_shared = on_shared};
    l->listener = (struct shard_cache_listener){.handlers = &handlers, .data = l};
    shard_cache_listen(l->o.cache, &l->listener);
    l->labeller = labeller_new(l->loop, &o);
}

static void end_work(struct leader *l)
{
    net_timer_clear(l->timer);
    shard_cache_unlisten(l->o.cache, &l->listener);
    labeller_free(l->labeller);
    l->labeller = NULL;
    roller_free(l->roller);
    l->roller = NULL;
    deployment_roller_free(l->deployment_roller);
    l->deployment_roller = NULL;
    roots_free(l->roots);
    l->roots = NULL;
    routes_free(l->routes);
    l->routes = NULL;
    controller_free(l->controller);
    l->controller = NULL;
}

static void on_started(void *data)
{
    struct leader *l = data;
    l->changes++;
    set_state(l, LEADING);
    begin_controller(l);
    begin_routes(l);
    begin_roots(l);
    begin_roller(l);
    begin_labeller(l);
    l->o.on_lead(l->o.data);
}

static void on_stopped(void *data)
{
    struct leader *l = data;
    if (leads(l)) {
        set_state(l, STANDBY);
    }
    end_work(l);
}

static void on_leader(void *data, const char *identity)
{
    const struct leader *l = data;
    if (!leads(l)) {
        log_info("leader", log_str("identity", identity[0] == '\0' ? "nobody" : identity));
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)data;
    if (error != NULL) {
        log_at(level, "cannot read or write the Lease", log_str("error", error));
    } else {
        log_at(level, "can read and write the Lease again");
    }
}

/* Shards keep the rules that they have, and that is all: told until it is mended. */
static void on_leaderless(void *data, uint64_t ms)
{
    const struct leader *l = data;
    const char *error = lease_error(l->lease);
    log_warn("no manager leads: no rules are published, nothing is labelled, no webhook is trusted",
             log_num("seconds", (int64_t)(ms / MS)),
             log_str("error", error != NULL ? error : "the Lease is written by others"),
             log_str("needed", error == NULL || lease_refused(l->lease) ? NEEDED : REACHABLE));
}

/* ---- its life ---- */

static int stand(struct leader *l, struct err *e)
{
    static const struct lease_handlers handlers = {
        .on_started = on_started,
        .on_stopped = on_stopped,
        .on_leader = on_leader,
        .on_state = on_state,
        .on_leaderless = on_leaderless,
    };
    const struct manager_flags *s = l->o.settings;
    const uint64_t duration_ms = s->lease_duration_s * MS;
    const struct lease_options o = {
        .client = l->o.client,
        .namespace = l->o.namespace,
        .name = s->lease,
        .identity = l->o.identity,
        .duration_ms = duration_ms,
        .renew_deadline_ms = duration_ms * 2 / 3,
        .retry_period_ms = duration_ms * 2 / 15,
    };
    l->lease = lease_new(l->loop, &o, &handlers, l, e);
    return l->lease == NULL ? e->code : 0;
}

struct leader *leader_new(struct net_loop *loop, const struct leader_options *o, struct err *e)
{
    struct leader *l = xcalloc(1, sizeof *l);
    l->loop = loop;
    l->o = *o;
    l->labelled = (struct label_progress_source){
        .resources = labelled_resources, .progress = label_progress, .data = l};
    l->timer = xptr(net_timer_new(loop, on_started, l));
    if (!o->settings->leader_elect) {
        net_timer_set(l->timer, 0);
    } else if (stand(l, e) != 0) {
        leader_free(l);
        return NULL;
    }
    return l;
}

void leader_discovered(struct leader *l)
{
    if (l->labeller != NULL) {
        labeller_discovered(l->labeller);
    }
    serve_policies(l);
}

void leader_discovery_complete(struct leader *l)
{
    serve_policies(l);
}

void leader_left_out(struct leader *l)
{
    if (l->controller != NULL) {
        controller_look_again(l->controller);
    }
}

static void queue_metrics(const struct leader *l, struct buf *out)
{
    const struct work_queue *queues[CONTROLLER_QUEUES_MAX + 2];
    size_t count = l->controller == NULL ? 0 : controller_queues(l->controller, queues);
    if (l->roots != NULL) {
        queues[count++] = roots_queue(l->roots);
    }
    if (l->routes != NULL) {
        queues[count++] = routes_queue(l->routes);
    }
    if (count > 0) {
        work_queue_metrics(out, queues, count);
    }
}

void leader_metrics(const struct leader *l, struct buf *out)
{
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_leader", "gauge", "1 while this manager is the leader, 0 otherwise.",
         leads(l) ? 1 : 0},
        {"cmesh_manager_leader_changes_total", "counter",
         "Times that this manager became the leader.", l->changes},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
    controller_metrics(l->controller, &l->counts, out);
    roller_metrics(l->roller, &l->rolled, out);
    deployment_roller_metrics(l->deployment_roller, out);
    roots_metrics(l->roots, &l->root_counts, out);
    routes_metrics(l->routes, &l->route_counts, out);
    queue_metrics(l, out);
    labeller_metrics(l->labeller, out);
}

/* While the API server cannot be reached nothing is won by taking the webhooks away, too. */
bool leader_ready(const struct leader *l, char *why, size_t size)
{
    uint64_t ms = l->lease == NULL ? 0 : lease_leaderless_ms(l->lease);
    if (ms < LEASE_PATIENCE * l->o.settings->lease_duration_s * MS || !lease_refused(l->lease)) {
        return true;
    }
    (void)snprintf(why, size, "no manager leads: none for %llu s; needed: " NEEDED "; %s",
                   (unsigned long long)(ms / MS), lease_error(l->lease));
    return false;
}

void leader_status(const struct leader *l, cJSON *root)
{
    cJSON *o = cJSON_AddObjectToObject(root, "leader");
    cJSON_AddStringToObject(o, "identity", l->o.identity);
    cJSON_AddBoolToObject(o, "leading", leads(l));
    if (l->lease != NULL) {
        cJSON_AddStringToObject(o, "leader", lease_leader(l->lease));
        cJSON_AddNumberToObject(o, "leaderlessSeconds",
                                (double)(lease_leaderless_ms(l->lease) / MS));
        const char *error = lease_error(l->lease);
        if (error != NULL) {
            cJSON_AddStringToObject(o, "error", error);
        }
    }
    labeller_status(l->labeller, root);
    controller_status(l->controller, root);
    roller_status(l->roller, root);
    routes_status(l->routes, root);
}

static void on_released(void *data)
{
    struct leader *l = data;
    l->on_resigned(l->resigned_data);
}

void leader_resign(struct leader *l, void (*cb)(void *data), void *data)
{
    l->on_resigned = cb;
    l->resigned_data = data;
    if (l->lease != NULL) {
        lease_release(l->lease, on_released, l);
        return;
    }
    on_stopped(l);
    cb(data);
}

void leader_free(struct leader *l)
{
    if (l == NULL) {
        return;
    }
    end_work(l);
    lease_free(l->lease);
    net_timer_free(l->timer);
    free(l);
}
