/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "shard/controller_internal.h"
#include "shard/ownership_facts.h"

enum {
    PARALLEL = 8,
    ORPHAN_MS = 1000,
    RESYNC_MS = 300000,      /* each shard is looked at again after this and up to twice this */
    GATHER_MS = 10,          /* changes of pods are gathered for so long, */
    GATHER_PODS_PER_MS = 20, /* and longer where there are many */
    SHARDS_OF_POD_MAX = 32,
};

uint64_t controller_now(const struct controller *c)
{
    return net_clock_now(c->clock);
}

char *controller_path(const char *group, const char *ns, const char *resource)
{
    return xasprintf("%s/namespaces/%s/%s", group, ns, resource);
}

void shard_request(struct shard *s, const char *group, const char *resource,
                   struct object_request_options q, uint64_t *counts, object_request_cb next)
{
    char *ns = xstrndup(s->key, strcspn(s->key, "/"));
    char *path = controller_path(group, ns, resource);
    q.path = path;
    reconcile_write(&s->run, &q, counts, next);
    free(path);
    free(ns);
}

/* ---- shards ---- */

struct shard *controller_find_shard(const struct controller *c, const char *key)
{
    return reconciler_find(c->reconciler, key);
}

static void begin(void *state)
{
    struct shard *s = state;
    s->controller = s->run.data;
    s->key = s->run.key;
    list_init(&s->waiting);
}

static void drop(void *state)
{
    struct shard *s = state;
    cJSON_Delete(s->status);
    free(s->unbound);
    rules_map_free(s->written);
    rules_map_free(s->outdated);
    shard_wait_end(s);
    lock_change_free(s->relock);
    free(s->message);
    rules_unref(s->compiled);
    handover_deinit(&s->past);
    rules_unref(s->sent);
    rules_unref(s->own);
    shard_traffic_deinit(&s->traffic);
    free(s->base);
    free(s->uid);
}

const struct shard_cache_config *shard_config_or_root(const struct shard *s)
{
    return shard_cache_find_config(s->controller->options.cache, s->key);
}

const struct shard_cache_config *shard_config(const struct shard *s)
{
    const struct shard_cache_config *config = shard_config_or_root(s);
    return config == NULL || config->root ? NULL : config;
}

const struct rules_map *shard_map(struct shard *s)
{
    const struct rules_map *seen = shard_cache_find_map(s->controller->options.cache, s->key);
    if (s->written == NULL) {
        return seen;
    }
    bool old = controller_now(s->controller) - s->written_at > RECONCILE_BELIEF_MS;
    if (old || strcmp(seen == NULL ? "" : seen->version, s->base) != 0) {
        rules_map_free(s->outdated);
        s->outdated = s->written; /* whoever has it from this step may still use it */
        s->written = NULL;
        return seen;
    }
    return s->written;
}

const char *shard_refusal(const struct shard *s)
{
    return s->refusal.code == 0 ? NULL : s->refusal.msg;
}

void shard_set_reason(struct shard *s, enum publish_reason reason, char *message)
{
    free(s->message);
    s->message = message;
    s->reason = reason;
    s->retry_after = 0;
}

bool shard_is_beside(const struct shard *s, const char *key)
{
    size_t len = strcspn(key, "/");
    return strncmp(key, s->key, len) == 0 && s->key[len] == '/';
}

bool shard_is_given_up(const struct shard *s)
{
    return s->refusal.code == -EDQUOT;
}

void shard_keep_rules(struct rules **at, struct rules *rules)
{
    struct rules *before = *at;
    *at = rules == NULL ? NULL : rules_ref(rules);
    rules_unref(before);
}

/* It is a root by now, and its ConfigMap is gone. */
static void forget_rules(struct shard *s)
{
    shard_keep_rules(&s->own, NULL);
    shard_keep_rules(&s->sent, NULL);
    handover_deinit(&s->past);
    s->past.lost = false;
}

static void give_up_all(struct shard *s)
{
    operator_coverage_note(s->controller->operator_coverage, s->compiled);
    shard_keep_rules(&s->compiled, NULL);
    shard_keep_rules(&s->own, NULL);
    shard_keep_rules(&s->sent, NULL);
    if (s->written != NULL) {
        rules_map_give_up(s->written);
    }
}

/* What the spec comes to stays: it may have to be put back. */
static void give_up_earlier(struct shard *s)
{
    if (s->own != NULL && (s->compiled == NULL || !rules_share(s->own, s->compiled))) {
        shard_keep_rules(&s->own, NULL);
    }
    if (s->sent != NULL && (s->compiled == NULL || !rules_share(s->sent, s->compiled))) {
        shard_keep_rules(&s->sent, NULL);
    }
}

void shard_give_up_rules(struct shard *s, const struct shard_cache_config *config)
{
    const struct rules_map *map = shard_cache_find_map(s->controller->options.cache, s->key);
    bool over = config != NULL && config->over;
    if (!over && (map == NULL || map->given_up == 0)) {
        return;
    }
    if (over) {
        give_up_all(s);
    } else {
        give_up_earlier(s);
    }
    s->past.lost = s->past.lost || s->past.count > 0;
    handover_deinit(&s->past);
}

void controller_look_after(const struct shard *s, uint64_t ms)
{
    reconcile_after(&s->run, ms);
}

static void notice_in_force(const struct controller *c, const char *key)
{
    if (c->options.on_in_force != NULL) {
        c->options.on_in_force(c->options.data, key);
    }
}

/* Whether it is known what there is. */
static bool is_ready(const struct shard *s)
{
    return shard_cache_synced(s->controller->options.cache);
}

static bool end(void *state, enum work_result result)
{
    struct shard *s = state;
    bool gone = shard_config(s) == NULL && is_ready(s);
    if (gone && shard_map(s) == NULL && result == WORK_DONE) {
        forget_rules(s);
        return shard_config_or_root(s) != NULL;
    }
    if (gone && s->written != NULL) {
        controller_look_after(s, RECONCILE_BELIEF_MS + 1); /* the ConfigMap may be gone, too */
    }
    rules_map_free(s->outdated);
    s->outdated = NULL;
    notice_in_force(s->controller, s->key);
    reconcile_after(&s->run, RESYNC_MS + net_clock_random(s->controller->clock) % RESYNC_MS);
    return true;
}

void shard_done(struct shard *s, enum work_result result, unsigned retry_after)
{
    reconcile_done(&s->run, result, retry_after);
}

/* ---- what is to be done ---- */

void controller_look(struct controller *c, const char *key)
{
    reconciler_look(c->reconciler, key, GATHER_MS);
}

void controller_look_now(struct controller *c, const char *key)
{
    reconciler_look(c->reconciler, key, 0);
}

void controller_look_again(struct controller *c)
{
    for (const struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
        controller_look(c, s->key);
    }
}

void controller_look_at(struct controller *c, const char *key)
{
    if (controller_find_shard(c, key) != NULL) {
        controller_look(c, key);
    }
}

static uint64_t gather_ms(const struct shard_cache_config *config)
{
    return GATHER_MS + (config == NULL ? 0 : config->pod_count / GATHER_PODS_PER_MS);
}

static void look(void *state)
{
    struct shard *s = state;
    const struct shard_cache_config *config = shard_config_or_root(s);
    if (!is_ready(s)) {
        shard_done(s, WORK_DONE, 0); /* on_ready brings it again */
    } else if (config == NULL || !config->root || !shard_unbind(s, config)) {
        shard_publish(s);
    }
}

static const struct reconciler_handlers shard_handlers = {
    .begin = begin, .reconcile = look, .done = end, .drop = drop};

static void on_shard(void *data, const char *key, enum shard_cache_part part)
{
    struct controller *c = data;
    struct shard *s = part == SHARD_CACHE_CONFIG ? reconciler_provide(c->reconciler, key)
                                                 : controller_find_shard(c, key);
    const struct shard_cache_config *config = shard_cache_find_config(c->options.cache, key);
    if (s != NULL && part == SHARD_CACHE_CONFIG && s->noticed_at == 0) {
        s->noticed_at = controller_now(c);
    }
    if (s != NULL && part == SHARD_CACHE_CONFIG && shard_config(s) == NULL) {
        operator_coverage_note(c->operator_coverage, s->compiled);
        shard_keep_rules(&s->compiled, NULL);
        shard_keep_rules(&s->sent, NULL);
    } else if (s != NULL && part != SHARD_CACHE_PODS) {
        shard_give_up_rules(s, config);
    }
    if (s != NULL && part == SHARD_CACHE_CONFIGMAP) {
        shard_hear(s, shard_cache_find_map(c->options.cache, key));
    }
    if (part == SHARD_CACHE_CONFIG) {
        controller_look_policies(c, key);
    }
    controller_wake(c, key);
    reconciler_look(c->reconciler, key, part == SHARD_CACHE_PODS ? gather_ms(config) : 0);
}

static void on_excess(void *data, const char *ns)
{
    struct controller *c = data;
    for (struct shard *s = NULL; (s = reconciler_next(c->reconciler, s)) != NULL;) {
        if (shard_is_beside(s, ns)) {
            handover_lose(&s->past);
        }
    }
}

/* ConfigMaps of configs that are gone, too. */
static void look_at_shards(struct controller *c)
{
    const struct shard_cache *w = c->options.cache;
    for (const struct shard_cache_config *o = NULL; (o = shard_cache_next_config(w, o)) != NULL;) {
        on_shard(c, o->key, SHARD_CACHE_CONFIG);
    }
    for (const struct rules_map *m = NULL; (m = shard_cache_next_map(w, m)) != NULL;) {
        reconciler_look(c->reconciler, m->key, 0);
    }
}

static void on_ready(void *data)
{
    look_at_shards(data);
    controller_look_policies(data, NULL);
}

/* ---- pods ---- */

/* "namespace/name" of it. NULL: there is none, or that cannot be told. */
static const char *mounted_key(const struct pod *p)
{
    if (p->proxy_port == 0 || p->over) {
        return NULL;
    }
    if (p->shard[0] != '\0') {
        return p->shard;
    }
    return shard_cache_shard_count(p) == 1 ? shard_cache_shard_of(p, NULL)->key : NULL;
}

static const struct shard_cache_config *shard_of_pod(const struct controller *c,
                                                     const struct pod *p)
{
    const char *key = mounted_key(p);
    return key == NULL ? NULL : shard_cache_find_config(c->options.cache, key);
}

struct shard *controller_mounted_shard(const struct controller *c, const struct pod *p)
{
    const char *key = mounted_key(p);
    return key == NULL ? NULL : controller_find_shard(c, key);
}

/* Selected are also those that do not say whose sidecars they have. */
struct ownership_pod *controller_own_pods(const struct controller *c, const char *key,
                                          size_t *count)
{
    const struct shard_cache *w = c->options.cache;
    const struct shard_cache_config *config = shard_cache_find_config(w, key);
    size_t injected = 0;
    size_t selected = config == NULL ? 0 : config->pod_count;
    const struct pod **a = shard_cache_injected(w, key, &injected);
    const struct pod **b = selected == 0 ? NULL : shard_cache_pods_of(config);
    struct ownership_pod *out = xcalloc(injected + selected + 1, sizeof *out);
    *count = 0;
    for (size_t i = 0; i < injected; i++) {
        if (a[i]->proxy_port != 0 && !a[i]->over) {
            out[(*count)++] = (struct ownership_pod){a[i], prober_result(c->prober, a[i]->key)};
        }
    }
    for (size_t i = 0; i < selected; i++) {
        if (b[i]->injected[0] == '\0' && shard_of_pod(c, b[i]) == config) {
            out[(*count)++] = (struct ownership_pod){b[i], prober_result(c->prober, b[i]->key)};
        }
    }
    free(a);
    free(b);
    return out;
}

static void expect_generation(struct controller *c, const struct pod *p)
{
    const struct shard_cache_config *config = shard_of_pod(c, p);
    struct shard *s = config == NULL ? NULL : controller_find_shard(c, config->key);
    const struct rules_map *map = s == NULL ? NULL : shard_map(s);
    if (map != NULL && map->generation != 0) {
        prober_expect(c->prober, p->key, map->generation);
    }
}

void controller_watch_pod(struct controller *c, const struct pod *p)
{
    char proxy[POD_ADDRESS_SIZE];
    char sync[POD_ADDRESS_SIZE];
    pod_address(p, p->proxy_port, proxy);
    pod_address(p, p->sync_port, sync);
    if (proxy[0] == '\0' || p->over) {
        prober_forget(c->prober, p->key);
        return;
    }
    bool fresh = prober_result(c->prober, p->key) == NULL;
    struct prober_target target = {
        .key = p->key, .uid = p->uid, .proxy = proxy, .rulesync = sync[0] == '\0' ? NULL : sync};
    int rc = prober_watch(c->prober, &target);
    if (rc != 0) {
        log_warn("cannot probe a proxy", log_str("pod", p->key), log_str("address", proxy),
                 log_str("error", err_text(rc)));
        return;
    }
    if (fresh) {
        status_leases_tell(c->leases, p->key); /* it may have told before it was known */
    }
    prober_attend(c->prober, p->key, controller_attends(c, p));
    expect_generation(c, p);
}

/* Those that select it are looked at anyway. */
static void look_at_children(struct controller *c, const struct pod *p)
{
    const struct shard_cache *w = c->options.cache;
    const struct shard_cache_config *o = NULL;
    struct deployment_roots roots;
    if (p->proxy_port != 0) {
        return;
    }
    deployment_roots_find(&roots, w, p->ns);
    bool found = deployment_roots_of(&roots, p) != NULL;
    deployment_roots_deinit(&roots);
    while (found && (o = shard_cache_next_config_in(w, p->ns, o)) != NULL) {
        if (!o->root) {
            controller_look(c, o->key);
        }
    }
}

static void on_pod(void *data, const struct pod *p, bool gone)
{
    struct controller *c = data;
    if (gone || (p->shard[0] == '\0' && shard_cache_shard_count(p) == 0)) {
        prober_forget(c->prober, p->key);
    } else {
        controller_watch_pod(c, p);
    }
    if (gone || p->proxy_port == 0 || p->let_go) {
        controller_wake(c, p->key);
    }
    if (!gone) {
        look_at_children(c, p);
    }
    controller_pod_changed(c, p);
}

static void on_probe(void *data, const char *key)
{
    struct controller *c = data;
    const struct shard_cache_config *configs[SHARDS_OF_POD_MAX];
    const struct pod *p = shard_cache_find_pod(c->options.cache, key);
    size_t count = p == NULL ? 0 : shard_cache_shards_of(p, configs, SHARDS_OF_POD_MAX);
    for (size_t i = 0; i < count; i++) {
        reconciler_look(c->reconciler, configs[i]->key, gather_ms(configs[i]));
        notice_in_force(c, configs[i]->key);
    }
    if (p != NULL && p->shard[0] != '\0') {
        reconciler_look(c->reconciler, p->shard,
                        gather_ms(shard_cache_find_config(c->options.cache, p->shard)));
    }
    controller_wake(c, key);
}

static void on_traffic(void *data, const char *key)
{
    struct controller *c = data;
    const struct pod *p = shard_cache_find_pod(c->options.cache, key);
    if (p != NULL) {
        controller_pod_says(c, p);
    }
}

/* It may ask by its Lease which generation is required of it. */
static void answer_lease(struct controller *c, const struct pod *p)
{
    struct shard *s = controller_mounted_shard(c, p);
    const struct rules_map *map = s == NULL ? NULL : shard_map(s);
    if (map != NULL && c->takeover != NULL) {
        takeover_answer(c->takeover, p, prober_result(c->prober, p->key), s->key, map);
    }
}

static void on_told(void *data, const char *pod, struct slice document)
{
    struct controller *c = data;
    const struct pod *p = shard_cache_find_pod(c->options.cache, pod);
    prober_told(c->prober, pod, document);
    if (p != NULL) {
        answer_lease(c, p);
    }
}

static void on_takeover(void *data, const char *pod)
{
    controller_wake(data, pod);
}

static bool may_write(void *data)
{
    const struct controller *c = data;
    return c->options.may_write(c->options.data);
}

const struct control_load *controller_load(const struct controller *c, const char *pod)
{
    const struct probe_result *r = prober_result(c->prober, pod);
    return r != NULL && r->state == PROBE_ANSWERED ? r->load : NULL;
}

/* ---- life ---- */

static const struct shard_cache_handlers handlers = {
    .on_shard = on_shard,
    .on_pod = on_pod,
    .on_excess = on_excess,
    .on_ready = on_ready,
};

static void follow_leases(struct controller *c)
{
    const struct status_leases_options o = {
        .client = c->options.client,
        .namespace = c->options.watch_namespace,
        .ops = c->options.ops,
        .clock = c->clock,
        .on_told = on_told,
        .data = c,
    };
    c->leases = status_leases_new(c->loop, &o);
    const struct takeover_options t = {
        .client = c->options.client,
        .leases = c->leases,
        .prober = c->prober,
        .margin_ms = c->options.takeover_margin_ms,
        .clock = c->clock,
        .may_write = may_write,
        .on_change = on_takeover,
        .data = c,
    };
    c->takeover = takeover_new(c->loop, &t);
}

struct reconciler *controller_reconciler(struct controller *c, const struct reconciler_options *o,
                                         const struct reconciler_handlers *what)
{
    struct reconciler_options all = *o;
    all.data = c;
    all.client = c->options.client;
    all.may_write = c->options.may_write;
    all.gate = c->options.data;
    all.clock = c->options.clock;
    return reconciler_new(c->loop, &all, what);
}

static void start_parts(struct controller *c)
{
    const struct controller_options *o = &c->options;
    const struct reconciler_options shards = {
        .name = "shards",
        .kind = "shard",
        .parallel = o->parallel,
        .state_size = sizeof(struct shard),
    };
    struct prober_options probes = o->probes;
    probes.on_change = on_probe;
    probes.on_traffic = on_traffic;
    probes.data = c;
    c->reconciler = controller_reconciler(c, &shards, &shard_handlers);
    c->prober = prober_new(c->loop, &probes);
    c->pod_notifier = pod_notifier_new(c);
    c->operator_coverage = o->coverage ? operator_coverage_new(c) : NULL;
    c->gains = gain_cache_new();
    controller_follow_policies(c);
    follow_leases(c);
}

/* What there is already is told to nobody: it is asked for. */
static void look_around(struct controller *c)
{
    look_at_shards(c);
    for (const struct pod *p = NULL; (p = shard_cache_next_pod(c->options.cache, p)) != NULL;) {
        on_pod(c, p, false);
    }
}

struct controller *controller_new(struct net_loop *l, const struct controller_options *o)
{
    struct controller *c = xcalloc(1, sizeof *c);
    c->loop = l;
    c->options = *o;
    list_init(&c->waiting);
    c->clock = o->clock != NULL ? o->clock : &net_clock_system;
    c->options.parallel = o->parallel != 0 ? o->parallel : PARALLEL;
    c->options.cover_steps = o->cover_steps != 0 ? o->cover_steps : COVERAGE_SCAN_STEPS;
    c->options.orphan_ms = o->orphan_ms != 0 ? o->orphan_ms : ORPHAN_MS;
    start_parts(c);
    c->listener = (struct shard_cache_listener){.handlers = &handlers, .data = c};
    shard_cache_listen(o->cache, &c->listener);
    look_around(c);
    return c;
}

void controller_free(struct controller *c)
{
    if (c == NULL) {
        return;
    }
    shard_cache_unlisten(c->options.cache, &c->listener);
    reconciler_free(c->reporter);
    policy_cache_free(c->policies);
    reconciler_free(c->pod_notifier);
    takeover_free(c->takeover);
    status_leases_free(c->leases);
    prober_free(c->prober);
    reconciler_free(c->reconciler);
    operator_coverage_free(c->operator_coverage);
    gain_cache_free(c->gains);
    free(c);
}
