/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_balance.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "lock/shard_lock.h"
#include "object/names.h"
#include "object/root_child.h"
#include "rolling/roll.h"
#include "root/roots_internal.h"
#include "json/field.h"

enum {
    BLOCKED_MS = 10000, /* until an eviction that was refused is tried again */
    DOUBLINGS = 7,      /* of the pause, at most: about an hour */
    SHORT_MS = 10000,   /* until pods that are not seen are said to have no shard */
    MS = 1000,
    MICROSECONDS = 1000000,
    TEXT_SIZE = 320,
};

/* What there is of the Deployment in its shards. */
struct view {
    struct root *root;
    struct balance_shard shards[ROOT_CHILDREN_MAX];
    const struct shard_cache_config *configs[ROOT_CHILDREN_MAX];
    size_t shard_count;
    const struct pod **objects;
    struct balance_pod *pods;
    size_t pod_count; /* with those that are ending, of no shard */
    size_t live;
    bool ending; /* one of them at least */
    bool whole;  /* all shards that are to be have their child */
};

static struct root_balance_report *report_of(struct root *t)
{
    return &t->balance.report;
}

static void say(struct root *t, const char *status, const char *reason)
{
    report_of(t)->status = status;
    report_of(t)->reason = reason;
}

/* ---- what there is ---- */

/* Its eviction was answered, and the cache does not show it yet. */
static bool was_evicted(const struct root *t, const struct pod *p)
{
    return t->balance.gone[0] != '\0' && strcmp(t->balance.gone, p->uid) == 0 &&
           roots_now(t->roots) - t->balance.gone_at <= RECONCILE_BELIEF_MS;
}

static void add_pod(struct view *v, size_t shard, const struct pod *p)
{
    bool ending = p->ending || was_evicted(v->root, p);
    v->ending = v->ending || ending;
    v->live += !ending;
    v->shards[shard].pods += !ending;
    v->objects[v->pod_count] = p;
    v->pods[v->pod_count++] = (struct balance_pod){
        .shard = ending ? BALANCE_NONE : shard,
        .ready = p->ready,
        .since = p->ready ? p->ready_since : p->unready_since,
    };
}

static void add_pods(struct view *v, size_t shard)
{
    const struct shard_cache_config *config = v->configs[shard];
    const struct pod **pods = shard_cache_pods_of(config);
    size_t count = v->pod_count + config->pod_count + 1;
    v->objects = xrealloc(v->objects, count * sizeof *v->objects);
    v->pods = xrealloc(v->pods, count * sizeof *v->pods);
    for (size_t i = 0; i < config->pod_count; i++) {
        if (!pods[i]->over && pods[i]->owner[0] != '\0') {
            add_pod(v, shard, pods[i]);
        }
    }
    free(pods);
}

static void add_shard(struct view *v, const struct layout_shard *s)
{
    struct root *t = v->root;
    const struct shard_cache_config *config = root_find_child(t, s->number);
    bool there = config != NULL && root_owns(t, config) && t->children[s->number].base == 0;
    if (!there) {
        v->whole = v->whole && s->leaving;
        return;
    }
    const struct root_auto *a = &t->pass.spec.automatic;
    bool less = s->number != 0 && a->there && a->every < s->pods;
    v->configs[v->shard_count] = config;
    v->shards[v->shard_count] = (struct balance_shard){
        .number = s->number, .wanted = less ? a->every : s->pods, .leaving = s->leaving};
    add_pods(v, v->shard_count++);
}

static void view_init(struct view *v, struct root *t)
{
    const struct layout *l = &t->pass.layout;
    *v = (struct view){.root = t, .whole = true};
    for (size_t i = 0; i < l->count; i++) {
        add_shard(v, &l->shards[i]);
    }
}

static void view_deinit(struct view *v)
{
    free(v->objects);
    free(v->pods);
}

/* ---- who leads ---- */

static void drop_lock(struct root *t)
{
    struct root_balance *b = &t->balance;
    t->roots->locks -= b->lock != NULL;
    shard_lock_free(b->lock);
    b->lock = NULL;
}

static void follow_lock(struct root *t, const struct shard_cache_config *config)
{
    struct root_balance *b = &t->balance;
    struct lock_place place;
    bool has = shard_lock_find(config, &place);
    if (b->lock != NULL && has && lock_place_same(&b->place, &place)) {
        return;
    }
    drop_lock(t);
    if (t->roots->locks >= BALANCE_LOCKS_MAX || !has) {
        return;
    }
    const struct shard_lock_options o = {.client = t->roots->options.client,
                                         .place = place,
                                         .clock = t->roots->clock,
                                         .ops = t->roots->options.ops};
    b->lock = shard_lock_new(t->roots->loop, &o);
    b->place = place;
    t->roots->locks++;
}

static void mark_holder(struct view *v, size_t shard)
{
    const struct shard_lock *lock = v->root->balance.lock;
    if (lock == NULL || shard_lock_state(lock) == LOCK_STATE_FREE) {
        return;
    }
    for (size_t i = 0; i < v->pod_count; i++) {
        bool holds = roll_holds(shard_lock_holder(lock), v->objects[i]->name);
        v->pods[i].holder = v->pods[i].shard == shard && holds;
    }
}

/* ---- for how long ---- */

static void note_since(uint64_t *since, bool same, bool holds, uint64_t now)
{
    *since = !holds ? 0 : *since != 0 && same ? *since : now;
}

/* Whether the controller of the Deployment has nothing to do, as far as is known. */
static bool is_rolled(const struct view *v)
{
    const struct target *target = &v->root->pass.target;
    return target->rolled && !v->ending && v->live >= (size_t)target->replicas;
}

static uint64_t pause_ms(const struct root_balance *b)
{
    unsigned doublings = b->fruitless < DOUBLINGS ? b->fruitless : DOUBLINGS;
    return (uint64_t)BALANCE_PAUSE_MS << doublings;
}

static int64_t wall_s(const struct root *t)
{
    return net_clock_wall(t->roots->clock) / MICROSECONDS;
}

/* Since the last eviction that the status tells of; a clock that went wrong is not waited for. */
static uint64_t since_last_ms(const struct root *t)
{
    int64_t at_s = t->balance.report.at_s;
    int64_t now_s = wall_s(t);
    return at_s == 0 || at_s > now_s ? UINT64_MAX : (uint64_t)(now_s - at_s) * MS;
}

/* Until the pod may be evicted: ms; 0: it may be. UINT64_MAX: not before something else happens. */
static uint64_t wait_ms(const struct root *t, bool ready)
{
    const struct root_balance *b = &t->balance;
    uint64_t now = roots_now(t->roots);
    uint64_t pause = pause_ms(b);
    uint64_t since = ready ? b->rest_since : b->rolled_since;
    uint64_t last = since_last_ms(t);
    if (since == 0) {
        return UINT64_MAX;
    }
    uint64_t rest = now - since >= pause ? 0 : pause - (now - since);
    uint64_t next = last >= pause ? 0 : pause - last;
    return rest > next ? rest : next;
}

/* ---- what is said ---- */

static void describe(struct view *v, const struct balance *b, char out[TEXT_SIZE])
{
    const struct balance_shard *from = &v->shards[b->from];
    int n = snprintf(out, TEXT_SIZE, "Shard %.100s has %zu pod%s", v->configs[b->from]->name,
                     from->pods, from->pods == 1 ? "" : "s");
    if (from->leaving) {
        (void)snprintf(out + n, TEXT_SIZE - (size_t)n, ", and is to have none any more.");
    } else if (b->to != BALANCE_NONE) {
        (void)snprintf(out + n, TEXT_SIZE - (size_t)n, ", and shard %.100s %zu.",
                       v->configs[b->to]->name, v->shards[b->to].pods);
    } else {
        (void)snprintf(out + n, TEXT_SIZE - (size_t)n, ", and is to have %u.", from->wanted);
    }
}

/* There are fewer pods than the Deployment says. A pod that has just gone is in its status yet. */
static bool lacks_pods(struct view *v)
{
    struct root *t = v->root;
    uint64_t *since = &t->balance.short_since;
    const struct target *target = &t->pass.target;
    bool less = target->rolled && !v->ending && v->live < (size_t)target->replicas;
    uint64_t now = roots_now(t->roots);
    *since = !less ? 0 : *since != 0 ? *since : now;
    if (less && now - *since < SHORT_MS) {
        reconcile_after(&t->run, SHORT_MS - (now - *since));
        return false;
    }
    return less;
}

/* The root that gets the pods of the Deployment instead of this one; NULL: there is none. */
static const struct shard_cache_config *find_rival(const struct root *t)
{
    const struct shard_cache *cache = t->roots->options.cache;
    const struct shard_cache_config *own = root_config(t);
    for (const struct shard_cache_config *c = NULL;
         own != NULL && (c = shard_cache_next_config_in(cache, own->ns, c)) != NULL;) {
        if (c->root && strcmp(root_child_deployment(c->object), t->pass.spec.target) == 0 &&
            root_child_precedes(c->object, own->object)) {
            return c;
        }
    }
    return NULL;
}

/* The controller of the Deployment is at work; or seems to be, because pods of somebody else have
 * the label of a shard. */
static void say_rolling(struct view *v)
{
    struct root *t = v->root;
    const struct target *target = &t->pass.target;
    struct root_balance_report *r = report_of(t);
    const char *name = t->pass.spec.target;
    if (target->rolled && !v->ending && v->live > (size_t)target->replicas) {
        (void)snprintf(r->message, sizeof r->message,
                       "The shards have %zu pods, and Deployment %.253s %d replicas: it is being "
                       "scaled, or pods that are not of it have the label %.100s/" POD_SHARD ".",
                       v->live, name, target->replicas, t->roots->options.labels.prefix);
    } else {
        (void)snprintf(r->message, sizeof r->message,
                       "Deployment %.253s is being rolled out or scaled. kubectl rollout status "
                       "deployment/%.253s says what it waits for.",
                       name, name);
    }
    say(t, "Unknown", "RollingOut");
}

/* Why nothing is judged now; false: it is. */
static bool say_unknown(struct view *v)
{
    struct root *t = v->root;
    const struct root_pass *p = &t->pass;
    struct root_balance_report *r = report_of(t);
    const char *name = p->spec.target;
    const struct shard_cache_config *rival = find_rival(t);
    t->balance.rival = rival != NULL;
    if (p->spec.disable) {
        (void)snprintf(r->message, sizeof r->message, "The shards stay as they are: disable.");
        say(t, "Unknown", "Disabled");
    } else if (rival != NULL) {
        (void)snprintf(r->message, sizeof r->message,
                       "The pods of Deployment %.253s are given to the shards of another root, "
                       "%.253s, which is older: delete one of the two, or change its "
                       "spec.root.targetDeployment.",
                       name, rival->name);
        say(t, "False", "AnotherRoot");
    } else if (p->target.state != TARGET_FOUND) {
        (void)snprintf(r->message, sizeof r->message,
                       "Deployment %.253s is not known: see the condition Sized.", name);
        say(t, "Unknown", "DeploymentUnknown");
    } else if (!v->whole) {
        (void)snprintf(r->message, sizeof r->message, "Shards are being made.");
        say(t, "Unknown", "Resizing");
    } else if (lacks_pods(v)) {
        (void)snprintf(r->message, sizeof r->message,
                       "%zu of %d pods of Deployment %.253s have no label %.100s/" POD_SHARD
                       " of a shard. Their template needs the label %.100s/" SIDECAR_ENABLE
                       ": \"true\"; recreate them, as by kubectl rollout restart.",
                       (size_t)p->target.replicas - v->live, p->target.replicas, name,
                       t->roots->options.labels.prefix, t->roots->options.labels.prefix);
        say(t, "False", "PodsWithoutShard");
    } else if (!p->target.rolled || v->ending || v->live != (size_t)p->target.replicas) {
        say_rolling(v);
    } else {
        return false;
    }
    return true;
}

static void say_balanced(struct root *t)
{
    struct root_balance_report *r = report_of(t);
    (void)snprintf(r->message, sizeof r->message,
                   "Each shard has its part of the pods of Deployment %.253s.",
                   t->pass.spec.target);
    say(t, "True", "Balanced");
    t->balance.fruitless = 0;
    t->balance.judged = true;
}

static void say_uneven(struct view *v, const struct balance *b, size_t pod)
{
    struct root *t = v->root;
    struct root_balance_report *r = report_of(t);
    const char *name = v->objects[pod]->name;
    char text[TEXT_SIZE];
    describe(v, b, text);
    if (v->pods[pod].ready && !t->pass.target.available) {
        (void)snprintf(r->message, sizeof r->message,
                       "%s No pod is evicted while one is not available.", text);
        say(t, "False", "WaitingForPods");
    } else if (t->balance.blocked[0] != '\0') {
        (void)snprintf(r->message, sizeof r->message, "%s Pod %.100s is not evicted: %.300s", text,
                       name, t->balance.blocked);
        say(t, "False", "EvictionBlocked");
    } else {
        (void)snprintf(r->message, sizeof r->message,
                       "%s A pod is evicted when all have been at rest for %" PRIu64 " s.", text,
                       pause_ms(&t->balance) / MS);
        say(t, "False", "Uneven");
    }
}

/* ---- the plan ---- */

static void drop_plan(struct root *t)
{
    t->balance.planned = false;
    t->balance.blocked[0] = '\0';
    t->balance.not_before = 0;
}

/* Whether the last eviction was of use: its shard has one pod less. */
static void judge_last(struct view *v)
{
    struct root_balance *b = &v->root->balance;
    for (size_t i = 0; i < v->shard_count && !b->judged; i++) {
        if (v->shards[i].number == b->from) {
            b->fruitless = v->shards[i].pods >= b->had ? b->fruitless + 1 : 0;
        }
    }
    b->judged = true;
}

static void plan(struct view *v, const struct balance *look, size_t pod)
{
    struct root *t = v->root;
    struct root_balance *b = &t->balance;
    struct root_balance_report *r = &b->report;
    const struct pod *p = v->objects[pod];
    (void)snprintf(b->uid, sizeof b->uid, "%s", p->uid);
    (void)snprintf(r->pod, sizeof r->pod, "%s", p->name);
    (void)snprintf(r->shard, sizeof r->shard, "%s", v->configs[look->from]->name);
    (void)snprintf(b->to, sizeof b->to, "%s",
                   look->to == BALANCE_NONE ? "" : v->configs[look->to]->name);
    r->at_s = wall_s(t);
    b->from = v->shards[look->from].number;
    b->had = v->shards[look->from].pods;
    b->planned = true;
}

static void consider(struct view *v, const struct balance *look)
{
    struct root *t = v->root;
    struct root_balance *b = &t->balance;
    follow_lock(t, v->configs[look->from]);
    mark_holder(v, look->from);
    size_t pod = balance_choose(v->pods, v->pod_count, look->from);
    bool same = b->planned && strcmp(b->uid, v->objects[pod]->uid) == 0;
    bool rests = (v->pods[pod].ready ? b->rest_since : b->rolled_since) != 0;
    if (!same || !rests) {
        drop_plan(t);
    }
    if (!b->planned) {
        judge_last(v);
        uint64_t wait = wait_ms(t, v->pods[pod].ready);
        if (wait == 0) {
            plan(v, look, pod);
        } else if (wait != UINT64_MAX) {
            reconcile_after(&t->run, wait);
        }
    }
    say_uneven(v, look, pod);
}

/* What the status told last, of this leader or another one. */
static void read_last(struct root *t)
{
    struct root_balance_report *r = report_of(t);
    const struct shard_cache_config *config = root_config(t);
    const cJSON *last =
        field_get(field_get(field_get(config->object, "status"), "root"), "eviction");
    int64_t at_s = 0;
    if (!rfc3339_parse(field_text(last, "time"), &at_s) || at_s <= r->at_s) {
        return;
    }
    (void)snprintf(r->pod, sizeof r->pod, "%s", field_text(last, "pod"));
    (void)snprintf(r->shard, sizeof r->shard, "%s", field_text(last, "shard"));
    r->at_s = at_s;
}

void root_balance_look(struct root *t)
{
    struct root_balance *b = &t->balance;
    struct view v;
    if (!t->pass.spec.deployment) {
        root_balance_forget(t);
        return;
    }
    view_init(&v, t);
    read_last(t);
    uint64_t now = roots_now(t->roots);
    bool unknown = say_unknown(&v);
    bool rolled = !unknown && is_rolled(&v);
    note_since(&b->rolled_since, b->live == v.live, rolled, now);
    note_since(&b->rest_since, b->live == v.live, rolled && t->pass.target.available, now);
    b->live = v.live;
    const struct balance look = balance_look(v.shards, v.shard_count);
    if (!unknown && look.from != BALANCE_NONE) {
        consider(&v, &look);
    } else {
        drop_plan(t);
        drop_lock(t);
    }
    if (!unknown && look.from == BALANCE_NONE) {
        say_balanced(t);
    }
    view_deinit(&v);
}

void root_balance_forget(struct root *t)
{
    drop_lock(t);
    t->balance = (struct root_balance){.judged = true};
}

/* ---- evicting ---- */

static void tell(const struct root *t, const char *ns)
{
    const struct root_balance *b = &t->balance;
    const struct root_balance_report *r = &b->report;
    const struct shard_cache_config *config = root_config(t);
    const struct event_object pod = {
        .api_version = "v1", .kind = "Pod", .namespace = ns, .name = r->pod, .uid = b->uid};
    char for_whom[CHILD_NAME_SIZE + 16] = "";
    if (b->to[0] != '\0') {
        (void)snprintf(for_whom, sizeof for_whom, ", for shard %s", b->to);
    }
    if (config != NULL) {
        const struct event_object root = event_object_of(config->object);
        event_record(t->roots->options.events, &root, EVENT_NORMAL, "PodEvicted",
                     "Evicted pod %s of shard %s, which had %zu%s.", r->pod, r->shard, b->had,
                     for_whom);
    }
    event_record(t->roots->options.events, &pod, EVENT_NORMAL, "PodEvicted",
                 "Evicted, because shard %s had %zu pod%s%s: Deployment %s makes another one.",
                 r->shard, b->had, b->had == 1 ? "" : "s", for_whom, t->pass.spec.target);
}

static void hold_back(struct root *t, const struct api_error *error)
{
    struct root_balance *b = &t->balance;
    uint64_t wait = (uint64_t)error->retry_after * MS;
    uint64_t ms = wait > BLOCKED_MS ? wait : BLOCKED_MS;
    LOG_AT(b->blocked[0] != '\0' ? LOG_DEBUG : LOG_WARN, "a surplus pod is not evicted",
           log_str("root", t->key), log_str("pod", b->report.pod), log_str("error", error->msg));
    (void)snprintf(b->blocked, sizeof b->blocked, "%s", error->msg);
    b->not_before = roots_now(t->roots) + ms;
    reconcile_after(&t->run, ms);
    reconciler_look(t->roots->reconciler, t->key, 0); /* the status tells it */
    reconcile_done(&t->run, WORK_DONE, 0);
}

static void on_evicted(void *data, const cJSON *object, const struct api_error *error)
{
    struct root *t = data;
    struct root_balance *b = &t->balance;
    struct roots *r = t->roots;
    enum eviction_result result = eviction_judge(&r->eviction, object == NULL ? error : NULL);
    char ns[ROOT_NS_SIZE];
    r->options.counts->evictions[result]++;
    if (result == EVICTION_DONE) {
        log_info("evicted a surplus pod", log_str("root", t->key), log_str("pod", b->report.pod),
                 log_str("shard", b->report.shard));
        tell(t, root_namespace(t, ns));
        memcpy(b->gone, b->uid, sizeof b->gone);
        b->gone_at = roots_now(r);
        b->rolled_since = 0;
        b->rest_since = 0;
        b->judged = false;
        drop_plan(t);
        reconcile_after(&t->run, RECONCILE_BELIEF_MS + 1);
        reconcile_done(&t->run, WORK_DONE, 0);
    } else if (result == EVICTION_GONE) {
        drop_plan(t);
        reconcile_after(&t->run, BLOCKED_MS);
        reconcile_done(&t->run, WORK_DONE, 0);
    } else if (error->code == 0) { /* it may have been done all the same */
        reconcile_done(&t->run, WORK_RETRY, 0);
    } else {
        hold_back(t, error);
    }
}

static void send_eviction(struct root *t)
{
    char ns[ROOT_NS_SIZE];
    const struct eviction_pod pod = {
        .ns = root_namespace(t, ns), .name = t->balance.report.pod, .uid = t->balance.uid};
    eviction_send(&t->run, &t->roots->eviction, &pod, on_evicted);
}

static void on_resources(void *data, const cJSON *object, const struct api_error *error)
{
    struct root *t = data;
    const struct api_error *unknown = eviction_learn(&t->roots->eviction, object, error);
    if (unknown != NULL) {
        hold_back(t, unknown);
    } else {
        send_eviction(t);
    }
}

/* Whether the root's status, as the cache has it, names the pod. */
static bool is_written(const struct root *t)
{
    const struct shard_cache_config *config = root_config(t);
    const cJSON *status = config == NULL ? NULL : field_get(config->object, "status");
    const cJSON *last = field_get(field_get(status, "root"), "eviction");
    char time[RFC3339_SIZE];
    (void)!rfc3339_format(t->balance.report.at_s, time);
    return strcmp(field_text(last, "pod"), t->balance.report.pod) == 0 &&
           strcmp(field_text(last, "time"), time) == 0;
}

bool root_balance_evict(struct root *t)
{
    const struct root_balance *b = &t->balance;
    uint64_t now = roots_now(t->roots);
    const struct root_pass *p = &t->pass;
    bool looked = p->invalid.code == 0 && p->spec.deployment;
    if (!looked || !b->planned || !is_written(t) || p->progress) {
        return false; /* what was written in this pass brings the root again */
    }
    if (now < b->not_before) {
        reconcile_after(&t->run, b->not_before - now);
        return false;
    }
    if (t->roots->eviction.version[0] == '\0') {
        eviction_ask(&t->run, on_resources);
    } else {
        send_eviction(t);
    }
    return true;
}
