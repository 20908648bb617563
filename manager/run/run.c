/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - wiring: flags, the parts, a clean end.
 *
 * running -- signal --> ending -- Lease given back, webhooks answered, Events written,
 *     or grace over --> stopped
 *
 * A second signal stops it at once (program/program.h).
 */
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "cache/namespaces.h"
#include "crypto/tls.h"
#include "inject/inject_alias.h"
#include "net/timer.h"
#include "program/program.h"
#include "route/originals.h"
#include "run/admin.h"
#include "run/admission_snapshot.h"
#include "run/crd_watch.h"
#include "run/leader.h"
#include "run/permissions.h"
#include "run/server_version.h"
#include "webhook/serving.h"

enum { EVENTS_MS = 2000, DAY_SECONDS = 24 * 3600, MS = 1000, IDENTITY_SIZE = 320 };

struct run {
    struct program program;
    struct manager_flags settings;
    struct labels_keys keys;
    struct compile_options compile;
    char host[256];
    char identity[IDENTITY_SIZE];
    const char *namespace;
    uint64_t minute_ms; /* of roots */

    struct kube_access access;
    struct kube_client *client;
    struct health health;
    struct discovery *discovery;
    struct crd_watch *definitions;
    struct sharding_resources *resources;
    struct namespaces *namespaces; /* with their labels */
    struct shard_cache *cache;
    struct event_recorder *events;
    struct server_version *version;
    struct admission_snapshot outlook;
    struct excluded_namespaces *left_out; /* of the webhook for pods */
    struct namespaces *restricted;        /* whose pods Pod Security keeps capabilities from */
    struct originals *originals;          /* webhook configurations whose reviews are routed */
    struct leader *leader;
    uint64_t lead_round; /* of discovery, since it led: what is known before may be old */
    struct assigner *assigner;
    struct shard_cache_listener assigned; /* for it */
    struct webhook_context context;
    struct webhook_serving *webhook; /* NULL: there is none */
    struct manager_admin pages;
    struct admin_server *admin;

    struct net_timer *delay; /* of the webhooks' end */
    struct net_timer *grace;
    unsigned unfinished; /* of what is to end before the process does */
};

/* ---- the end ---- */

static void stop(void *data)
{
    struct run *r = data;
    program_stop(&r->program, EXIT_DONE);
}

static void on_grace_over(void *data)
{
    log_warn("the grace period is over, exiting immediately");
    stop(data);
}

static void on_part_ended(void *data)
{
    struct run *r = data;
    if (--r->unfinished == 0) {
        event_recorder_flush(r->events, EVENTS_MS, stop, r);
    }
}

static void on_delay_over(void *data)
{
    struct run *r = data;
    webhook_serving_drain(r->webhook, on_part_ended, r);
}

static void on_shutdown(void *data)
{
    struct run *r = data;
    uint64_t delay_s = r->webhook != NULL ? r->settings.shutdown_delay_s : 0;
    net_timer_set(r->grace, (delay_s + r->settings.shutdown_grace_s) * MS);
    r->unfinished = r->webhook != NULL ? 2 : 1;
    if (r->webhook != NULL) {
        net_timer_set(r->delay, delay_s * MS);
    }
    leader_resign(r->leader, on_part_ended, r);
}

/* ---- what happens while it runs ---- */

/* What webhooks decide from, and the resources that the API server sends to the webhook for labels,
 * follow what it has. A leader that does not know all of that yet takes nothing away that the last
 * one added. */
static void follow_resources(struct run *r)
{
    struct warnings warnings = WARNINGS_INIT;
    size_t count = 0;
    bool all = discovery_complete_round(r->discovery) >= r->lead_round;
    if (r->webhook == NULL || !discovery_ready(r->discovery)) {
        return;
    }
    struct sharding_resource *found =
        sharding_resources_resolve(r->resources, r->discovery, &count, &warnings);
    admission_snapshot_discovered(&r->outlook, found, count);
    webhook_serving_set_resources(r->webhook, found, count, all);
    free(found);
    warnings_deinit(&warnings);
}

static void on_discovered(void *data)
{
    struct run *r = data;
    admission_snapshot_undiscovered(&r->outlook);
    if (r->leader != NULL) {
        leader_discovered(r->leader);
    }
    follow_resources(r);
}

/* Also when nothing has changed: then what the last leader added may be too much. */
static void on_discovery_complete(void *data)
{
    struct run *r = data;
    if (r->leader != NULL) {
        leader_discovery_complete(r->leader);
    }
    follow_resources(r);
}

static void on_discovery_state(void *data, const char *error, enum log_level level)
{
    (void)data;
    if (error != NULL) {
        log_at(level, "not all resources of the API server are known", log_str("error", error));
    }
}

static void on_version(void *data, const char *major, const char *minor)
{
    struct run *r = data;
    if (r->settings.native == NATIVE_SIDECARS_AUTO) {
        r->settings.inject.native = inject_native_sidecars(major, minor);
    }
    r->settings.inject.low_ports = inject_alias_possible(major, minor);
    if (r->webhook != NULL) {
        webhook_serving_set_version(r->webhook, major, minor);
    }
}

static void on_lead(void *data)
{
    struct run *r = data;
    r->lead_round = discovery_next_round(r->discovery);
    discovery_refresh(r->discovery);
    follow_resources(r);
    if (r->webhook != NULL) {
        webhook_serving_lead(r->webhook);
    }
}

static int take_snapshot(void *data, const char *ns, struct validate_context *w, struct err *e)
{
    struct run *r = data;
    int rc = admission_snapshot_look(&r->outlook, ns, w, e);
    w->left_out = excluded_namespaces_has(r->left_out, ns);
    w->routed = !originals_synced(r->originals) || originals_lead_to(r->originals, ns);
    return rc;
}

static void give_pods(void *data, size_t shard, assigner_pod_cb cb, void *arg)
{
    const struct run *r = data;
    admission_snapshot_pods(&r->outlook, shard, cb, arg);
}

static bool may_write(void *data)
{
    const struct run *r = data;
    return leader_may_write(r->leader);
}

static void on_left_out(void *data)
{
    const struct run *r = data;
    leader_left_out(r->leader);
}

static bool is_restricted(void *data, const char *ns)
{
    const struct run *r = data;
    return namespaces_has(r->restricted, ns);
}

static void on_pods(void *data, bool known, const cJSON *selector)
{
    struct run *r = data;
    if (!known) {
        excluded_namespaces_forget(r->left_out);
        return;
    }
    int rc = excluded_namespaces_set(r->left_out, selector);
    if (rc < 0) {
        log_warn("it is not known which namespaces the webhook for pods leaves out",
                 log_str("error", err_text(rc)));
    } else if (rc > 0) {
        on_left_out(r);
    }
}

/* ---- the beginning ---- */

static int open_client(struct run *r, struct err *e)
{
    const struct manager_flags *s = &r->settings;
    int rc = kube_flags_open(&s->kube, &r->access, e);
    if (rc != 0) {
        return rc;
    }
    r->namespace = s->namespace != NULL ? s->namespace : r->access.ns;
    const struct kube_client_options o = {
        .access = &r->access,
        .max_idle = 16,
        .http1_only = s->kube.protocol == UPSTREAM_HTTP1,
        .health = &r->health,
        .granted_by = permissions_granted_by,
    };
    r->client = kube_client_new(r->program.loop, &o, e);
    return r->client == NULL ? e->code : 0;
}

static int open_resources(struct run *r, struct err *e)
{
    static const struct discovery_handlers handlers = {
        .on_change = on_discovered,
        .on_state = on_discovery_state,
        .on_complete = on_discovery_complete,
    };
    const char *path = r->settings.sharding_resources;
    r->resources = path != NULL ? sharding_resources_load(path, e) : sharding_resources_default();
    if (r->resources == NULL) {
        return e->code;
    }
    const struct discovery_options o = {.client = r->client};
    r->discovery = discovery_new(r->program.loop, &o, &handlers, r);
    r->definitions = crd_watch_new(r->program.loop, r->client, r->discovery, NULL);
    return 0;
}

static void open_namespaces(struct run *r)
{
    const struct namespaces_options o = {
        .client = r->client,
        .own = r->namespace,
        .system = r->settings.label_system_namespaces,
        .labels = true,
        .effect = "it is not known whether each is in a shard, nor what namespaceSelectors select",
    };
    r->namespaces = namespaces_new(r->program.loop, &o);
    r->compile.namespaces = namespaces_set(r->namespaces);
}

static void open_world(struct run *r)
{
    const struct shard_cache_options o = {
        .client = r->client,
        .namespace = r->settings.watch_namespace,
        .prefix = r->settings.labels.prefix,
        .memory = r->settings.shards_memory_mib * 1024 * 1024,
        .namespaces = r->namespaces,
        .shareable = r->settings.shareable,
    };
    r->cache = shard_cache_new(r->program.loop, &o);
    r->keys.shared = shard_cache_shared(r->cache);
    r->outlook = (struct admission_snapshot){
        .cache = r->cache, .discovery = r->discovery, .compile = &r->compile};
    const struct event_recorder_options events = {
        .client = r->client, .component = "cmesh-manager", .host = r->host};
    r->events = event_recorder_new(r->program.loop, &events);
}

static void open_knowledge(struct run *r)
{
    const struct excluded_namespaces_options o = {
        .client = r->client, .on_change = on_left_out, .data = r};
    r->left_out = excluded_namespaces_new(r->program.loop, &o);
    const struct namespaces_options restricted = {
        .client = r->client,
        .system = true,
        .label_selector = "pod-security.kubernetes.io/enforce in (baseline,restricted)",
        .effect = "it is not known where Pod Security refuses the label enable-iptables",
    };
    r->restricted = namespaces_new(r->program.loop, &restricted);
    r->version = server_version_new(r->program.loop, r->client, NULL, on_version, r);
}

static void open_originals(struct run *r)
{
    const struct originals_options o = {.client = r->client, .prefix = r->settings.labels.prefix};
    r->originals = originals_new(r->program.loop, &o);
}

/* What is followed at the API server. */
static int open_caches(struct run *r, struct err *e)
{
    (void)e;
    open_namespaces(r);
    open_world(r);
    open_knowledge(r);
    open_originals(r);
    return 0;
}

static int open_leader(struct run *r, struct err *e)
{
    const struct leader_options o = {
        .settings = &r->settings,
        .client = r->client,
        .namespace = r->namespace,
        .identity = r->identity,
        .minute_ms = r->minute_ms,
        .namespaces = r->namespaces,
        .cache = r->cache,
        .discovery = r->discovery,
        .events = r->events,
        .resources = r->resources,
        .keys = &r->keys,
        .left_out = r->left_out,
        .originals = r->originals,
        .on_lead = on_lead,
        .data = r,
    };
    r->leader = leader_new(r->program.loop, &o, e);
    return r->leader == NULL ? e->code : 0;
}

static void on_pod(void *data, const struct pod *pod, bool gone)
{
    const struct run *r = data;
    (void)gone;
    assigner_see(r->assigner, &pod->place);
}

static const struct shard_cache_handlers assigned_handlers = {.on_pod = on_pod};

static int open_webhook(struct run *r, struct err *e)
{
    const struct manager_flags *s = &r->settings;
    if (s->webhook[0] == '\0') {
        return 0;
    }
    r->assigner = assigner_new(NULL);
    r->assigned = (struct shard_cache_listener){.handlers = &assigned_handlers, .data = r};
    shard_cache_listen(r->cache, &r->assigned);
    r->context = (struct webhook_context){.keys = &r->keys,
                                          .inject = &s->inject,
                                          .compile = &r->compile,
                                          .namespaces = r->compile.namespaces,
                                          .look = take_snapshot,
                                          .is_restricted = is_restricted,
                                          .assigner = r->assigner,
                                          .pods_of = give_pods,
                                          .leads = may_write,
                                          .known_askers = s->webhook_client_ca != NULL,
                                          .data = r};
    const struct webhook_serving_options o = {
        .address = s->webhook,
        .client = r->client,
        .namespace = r->namespace,
        .service = s->webhook_service,
        .secret = s->webhook_secret,
        .client_ca = s->webhook_client_ca,
        .client_name = s->webhook_client_name,
        .names = s->webhook_hosts.items,
        .name_count = s->webhook_hosts.count,
        .serving_seconds = s->certificate_days * DAY_SECONDS,
        .context = &r->context,
        .may_write = may_write,
        .on_pods = on_pods,
        .data = r,
    };
    r->webhook = webhook_serving_new(r->program.loop, &o, e);
    return r->webhook == NULL ? e->code : 0;
}

static int write_ready_file(const struct run *r, struct err *e)
{
    const struct program_address addresses[] = {
        {"admin", admin_server_address(r->admin)},
        {"webhook", r->webhook == NULL ? "" : webhook_serving_address(r->webhook)},
    };
    return program_write_ready_file(r->settings.ready_file, addresses, ARRAY_LEN(addresses), e);
}

static int open_admin(struct run *r, struct err *e)
{
    r->pages = (struct manager_admin){
        .client = r->client,
        .health = &r->health,
        .discovery = r->discovery,
        .definitions = r->definitions,
        .cache = r->cache,
        .events = r->events,
        .version = r->version,
        .native = &r->settings.inject.native,
        .version_needed = r->webhook != NULL && r->settings.native == NATIVE_SIDECARS_AUTO,
        .leader = r->leader,
        .webhook = r->webhook,
    };
    const struct admin_server_options o = {
        .address = r->settings.admin,
        .program = "manager",
        .ops = &manager_admin_ops,
        .data = &r->pages,
    };
    r->admin = admin_server_new(r->program.loop, &o, e);
    if (r->admin == NULL) {
        return e->code;
    }
    log_info("listening", log_str("admin", admin_server_address(r->admin)),
             log_str("webhook", r->webhook == NULL ? "off" : webhook_serving_address(r->webhook)));
    return write_ready_file(r, e);
}

static int check_ready_file(struct run *r, struct err *e)
{
    return program_check_ready_file(r->settings.ready_file, e);
}

static int open_all(void *data, struct err *e)
{
    static int (*const steps[])(struct run *, struct err *) = {
        check_ready_file, open_client,  open_resources, open_caches,
        open_leader,      open_webhook, open_admin,
    };
    struct run *r = data;
    r->delay = xptr(net_timer_new(r->program.loop, on_delay_over, r));
    r->grace = xptr(net_timer_new(r->program.loop, on_grace_over, r));
    int rc = labels_keys_init(&r->keys, &r->settings.labels, e);
    r->keys.policy = (enum labels_policy)r->settings.label_foreign;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(steps); i++) {
        rc = steps[i](r, e);
    }
    return rc;
}

static void close_all(void *data)
{
    struct run *r = data;
    admin_server_free(r->admin);
    webhook_serving_free(r->webhook);
    if (r->cache != NULL) {
        shard_cache_unlisten(r->cache, &r->assigned);
    }
    assigner_free(r->assigner);
    leader_free(r->leader);
    originals_free(r->originals);
    server_version_free(r->version);
    excluded_namespaces_free(r->left_out);
    namespaces_free(r->restricted);
    event_recorder_free(r->events);
    admission_snapshot_deinit(&r->outlook);
    shard_cache_free(r->cache);
    namespaces_free(r->namespaces);
    crd_watch_free(r->definitions);
    discovery_free(r->discovery);
    sharding_resources_free(r->resources);
    net_timer_free(r->delay);
    net_timer_free(r->grace);
    if (r->client != NULL) {
        kube_client_close(r->client, NULL, NULL);
    }
}

/* Who this is: for the Lease, in which no two may be the same. */
static void introduce(struct run *r)
{
    if (gethostname(r->host, sizeof r->host) != 0) {
        r->host[0] = '\0';
    }
    r->host[sizeof r->host - 1] = '\0';
    if (r->settings.identity != NULL) {
        (void)snprintf(r->identity, sizeof r->identity, "%s", r->settings.identity);
        return;
    }
    (void)snprintf(r->identity, sizeof r->identity, "%s_%08x%08x", r->host,
                   (unsigned)net_clock_random(&net_clock_system),
                   (unsigned)net_clock_random(&net_clock_system));
}

static const struct program_ops ops = {
    .open = open_all,
    .on_shutdown = on_shutdown,
    .close = close_all,
};

int run_main_at(int argc, char **argv, uint64_t minute_ms)
{
    struct run r = {.minute_ms = minute_ms};
    health_init(&r.health, NULL);
    manager_flags_parse(&r.settings, argc, argv);
    tls_use_records((enum tls_records_by)r.settings.tls_records);
    r.settings.inject.native = r.settings.native == NATIVE_SIDECARS_ON;
    r.compile = (struct compile_options){
        .generation = 1, .labels = r.settings.labels, .shareable = r.settings.shareable};
    introduce(&r);
    program_raise_file_limit();
    int code = program_run(&r.program, &ops, &r);
    kube_access_deinit(&r.access);
    health_deinit(&r.health);
    return code;
}

int run_main(int argc, char **argv)
{
    return run_main_at(argc, argv, 0);
}
