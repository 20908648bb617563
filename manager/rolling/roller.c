/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/roller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "cache/rules_map.h"
#include "rolling/roller_internal.h"
#include "json/field.h"

enum {
    PARALLEL = 8,
    TICK_MS = 1000,    /* a roll that is under way is looked at so often, */
    QUIET_MS = 30000,  /* and any other */
    EACH_MS = 1000,    /* between two writes of annotations */
    GATHER_MS = 50,    /* changes of pods are gathered for so long */
    BLOCKED_MS = 5000, /* until an eviction that was refused is tried again */
    STATUS_ITEMS = 200,
    UNSEEN_MS = 10000, /* until a change that its controller has not observed is reported */
    MS = 1000,
};

/* ---- what is remembered ---- */

static void leave_namespace(struct roll *r)
{
    if (--r->ns->rolls == 0) {
        table_remove(&r->roller->namespaces, &r->ns->node);
        free(r->ns);
    }
}

static void begin(void *state)
{
    struct roll *r = state;
    r->roller = r->run.data;
    r->key = r->run.key;
}

static void drop(void *state)
{
    struct roll *r = state;
    roll_forget_locks(r);
    if (r->ns != NULL) {
        leave_namespace(r);
    }
    stateful_set_free(r->set);
}

static uint64_t now(const struct roll *r)
{
    return net_clock_now(r->roller->clock);
}

/* It is looked at again after so many ms, or when something happens. */
static void done_until(struct roll *r, uint64_t ms)
{
    reconcile_after(&r->run, ms);
    reconcile_done(&r->run, WORK_DONE, 0);
}

/* ---- annotations ---- */

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct roll *r = data;
    if (object != NULL) {
        roll_tell(r);
        reconcile_done(&r->run, WORK_DONE, 0);
    } else {
        reconcile_failed(&r->run, error, "cannot write how far a roll has come");
    }
}

static void send_patch(struct roll *r, const struct roll_status *status, const char *expected,
                       object_request_cb cb)
{
    char *path = xasprintf("/apis/apps/v1/namespaces/%s/statefulsets", r->set->ns);
    cJSON *body = roll_patch(r, status, expected);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = r->set->name,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
        .metadata_only = true,
    };
    reconcile_write(&r->run, &q, NULL, cb);
    cJSON_Delete(body);
    free(path);
}

/* `revision` NULL: the annotation that names it stays as it is. */
static void write_status(struct roll *r, const struct roll_status *before,
                         const struct roll_status *status, const char *revision)
{
    if (reconcile_too_early(&r->run, r->set->uid, r->set->version, EACH_MS)) {
        reconcile_done(&r->run, WORK_DONE, 0);
        return;
    }
    r->before = *before;
    r->writing = *status;
    r->begins = revision != NULL && strcmp(r->set->expected, revision) != 0;
    reconcile_over(&r->run, r->set->uid, r->set->version);
    send_patch(r, status, revision, on_written);
}

static bool is_written(const struct roll *r, const struct roll_status *status, const char *revision)
{
    char text[ROLL_STATUS_SIZE];
    roll_status_print(status, text);
    return strcmp(text, r->set->status) == 0 &&
           (revision == NULL || strcmp(revision, r->set->expected) == 0);
}

/* Whether this version was written over just now, and its successor is not seen yet. */
static bool is_answer_due(const struct roll *r)
{
    return reconcile_unseen(&r->run, r->set->uid, r->set->version);
}

/* ---- evictions ---- */

static void count(const struct roll *r, enum eviction_result result)
{
    r->roller->options.counts->evictions[result]++;
}

static void hold_back(struct roll *r, enum eviction_result result, const struct api_error *error)
{
    uint64_t wait = (uint64_t)error->retry_after * MS;
    count(r, result);
    r->not_before = now(r) + (wait > BLOCKED_MS ? wait : BLOCKED_MS);
    bool told = r->blocked[0] != '\0';
    (void)snprintf(r->blocked, sizeof r->blocked, "the API server does not evict it: %.300s",
                   error->msg);
    LOG_AT(told ? LOG_DEBUG : LOG_WARN, "a pod is not evicted", log_str("statefulset", r->key),
           log_str("error", error->msg));
    done_until(r, TICK_MS);
}

static void not_evicted(struct roll *r, enum eviction_result result, const struct api_error *error)
{
    if (error->code == 0) { /* it may have been done all the same */
        count(r, result);
        reconcile_done(&r->run, WORK_RETRY, 0);
    } else if (result == EVICTION_GONE) {
        count(r, result);
        done_until(r, TICK_MS);
    } else {
        hold_back(r, result, error);
    }
}

static void on_evicted(void *data, const cJSON *object, const struct api_error *error)
{
    struct roll *r = data;
    enum eviction_result result =
        eviction_judge(&r->roller->eviction, object == NULL ? error : NULL);
    if (result != EVICTION_DONE) {
        not_evicted(r, result, error);
        return;
    }
    count(r, result);
    log_info("evicted a pod", log_str("statefulset", r->key), log_str("pod", r->target_name));
    memcpy(r->evicted, r->target, sizeof r->evicted);
    r->evicted_at = now(r);
    r->missed = true;
    r->blocked[0] = '\0';
    done_until(r, TICK_MS);
}

static void evict(struct roll *r, const struct pod *p)
{
    const struct eviction_pod pod = {.ns = p->ns, .name = p->name, .uid = p->uid};
    (void)snprintf(r->target, sizeof r->target, "%s", p->uid);
    (void)snprintf(r->target_name, sizeof r->target_name, "%s", p->name);
    eviction_send(&r->run, &r->roller->eviction, &pod, on_evicted);
}

static void on_resources(void *data, const cJSON *object, const struct api_error *error)
{
    struct roll *r = data;
    const struct api_error *unknown = eviction_learn(&r->roller->eviction, object, error);
    if (unknown != NULL) {
        hold_back(r, EVICTION_FAILED, unknown);
    } else {
        done_until(r, 0);
    }
}

/* The annotation names the pod: nobody evicts another one as long as it does. */
static void try_to_evict(struct roll *r, const struct pod *p)
{
    uint64_t at = now(r);
    if (at < r->not_before) {
        done_until(r, r->not_before - at);
    } else if (r->roller->eviction.version[0] == '\0') {
        eviction_ask(&r->run, on_resources);
    } else {
        evict(r, p);
    }
}

/* ---- a look ---- */

static void go_on(struct roll *r, const struct roll_status *before, const struct roll_view *v)
{
    struct roll_status status;
    const struct roll_step step = roll_decide(&v->facts);
    roll_describe(r, v, &step, before, &status);
    const char *revision = v->facts.unseen ? NULL : r->set->revision;
    r->state = status.state;
    if (!is_written(r, &status, revision)) {
        write_status(r, before, &status, revision);
    } else if (step.what == ROLL_EVICT) {
        try_to_evict(r, v->objects[step.pod]);
    } else {
        done_until(r, step.what == ROLL_DONE ? QUIET_MS : TICK_MS);
    }
}

static void refuse(struct roll *r, const struct roll_status *before, const char *why)
{
    struct roll_status status = {.total = r->set->replicas, .state = ROLL_STATE_REFUSED};
    (void)snprintf(status.message, sizeof status.message, "%s", why);
    r->state = ROLL_STATE_REFUSED;
    roll_forget_locks(r);
    if (is_written(r, &status, NULL)) {
        done_until(r, QUIET_MS);
    } else {
        write_status(r, before, &status, NULL);
    }
}

/* Whether the StatefulSet's controller has not taken note of a change for so short a time that it
 * is to be expected. It may not for ever: that of Kubernetes 1.20 reports nothing while a pod is
 * refused. */
static bool is_just_changed(struct roll *r)
{
    if (r->set->current && r->set->revision[0] != '\0') {
        r->unseen_since = 0;
        return false;
    }
    r->unseen_since = r->unseen_since != 0 ? r->unseen_since : now(r);
    return now(r) - r->unseen_since < UNSEEN_MS;
}

/* Whether all that is needed is known, as it is now. */
static bool knows_enough(struct roll *r)
{
    const struct shard_cache *w = r->roller->options.cache;
    return shard_cache_synced(w) && shard_cache_error(w) == NULL && !is_just_changed(r) &&
           !is_answer_due(r);
}

static void look_closely(struct roll *r, const struct roll_status *before)
{
    struct roll_view view;
    if (roll_view_look(r, before, &view)) {
        go_on(r, before, &view);
        roll_view_deinit(&view);
        return;
    }
    LOG_AT(r->state == ROLL_STATE_REFUSED ? LOG_DEBUG : LOG_WARN,
           "a StatefulSet is not rolled: too many Leases of shards would be watched",
           log_str("statefulset", r->key));
    refuse(r, before,
           "too many shards are being rolled, in its namespace or in all; it is tried again every "
           "30 seconds");
}

static void look(struct roll *r)
{
    struct roll_status before;
    roll_status_parse(r->set->status, &before);
    char why[ROLL_STATUS_MESSAGE_SIZE];
    bool refused =
        shard_cache_synced(r->roller->options.cache) && !is_answer_due(r) && roll_refusal(r, why);
    if (r->set->ending) {
        done_until(r, QUIET_MS);
    } else if (refused) {
        refuse(r, &before, why);
    } else if (!knows_enough(r)) {
        done_until(r, TICK_MS);
    } else {
        look_closely(r, &before);
    }
}

/* ---- the label is taken away ---- */

static void on_paused(void *data, const cJSON *object, const struct api_error *error)
{
    struct roll *r = data;
    if (object == NULL && error->code != 404) {
        log_at(error->level, "cannot write that a roll is paused", log_str("statefulset", r->key),
               log_str("error", error->msg));
    }
    done_until(r, TICK_MS); /* if the label is there again */
}

static void pause_roll(struct roll *r)
{
    struct roll_status status;
    roll_status_parse(r->set->status, &status);
    bool under_way = status.state == ROLL_STATE_WAITING || status.state == ROLL_STATE_EVICTING ||
                     status.state == ROLL_STATE_BLOCKED || status.state == ROLL_STATE_STUCK;
    r->paused = true;
    if (!under_way) {
        reconcile_done(&r->run, WORK_DONE, 0);
        return;
    }
    status.state = ROLL_STATE_PAUSED;
    r->state = ROLL_STATE_PAUSED;
    send_patch(r, &status, NULL, on_paused);
}

static void handle(void *state)
{
    struct roll *r = state;
    if (r->set == NULL) {
        reconcile_done(&r->run, WORK_DONE, 0);
    } else if (r->gone) {
        pause_roll(r);
    } else {
        look(r);
    }
}

/* One that could not be paused is tried again. */
static bool is_there(void *state, enum work_result result)
{
    const struct roll *r = state;
    return r->set != NULL && (!r->paused || result == WORK_RETRY);
}

static const struct reconciler_handlers roll_handlers = {
    .begin = begin, .reconcile = handle, .done = is_there, .drop = drop};

/* ---- following ---- */

static void leave(struct roll *r)
{
    r->gone = true;
    roll_forget_locks(r);
    reconciler_look(r->roller->reconciler, r->key, 0);
}

static void pass_over(struct roller *o, const struct stateful_set *set, const char *where,
                      bool *told)
{
    const struct event_object about = {.api_version = STATEFUL_SET_API_VERSION,
                                       .kind = STATEFUL_SET_KIND,
                                       .namespace = set->ns,
                                       .name = set->name,
                                       .uid = set->uid};
    LOG_AT(*told ? LOG_DEBUG : LOG_WARN, "too many StatefulSets to be rolled by shard",
           log_str("statefulset", set->key), log_str("where", where));
    *told = true;
    event_record(o->options.events, &about, EVENT_WARNING, "RollRefused",
                 "It cannot be rolled by shard: too many StatefulSets %s have the label %s/%s.",
                 where, o->options.prefix, ROLLING_LABEL);
}

static struct roll *provide_roll(struct roller *o, const struct stateful_set *set)
{
    struct roll *r = reconciler_find(o->reconciler, set->key);
    struct roll_namespace *ns =
        TABLE_FIND(&o->namespaces, slice_str(set->ns), struct roll_namespace);
    if (r != NULL) {
        return r;
    }
    if (ns != NULL && ns->rolls >= ROLLER_NAMESPACE_SETS_MAX) {
        pass_over(o, set, "of the namespace", &ns->full);
        return NULL;
    }
    if (reconciler_count(o->reconciler) >= ROLLER_SETS_MAX) {
        pass_over(o, set, "of the cluster", &o->full);
        return NULL;
    }
    r = reconciler_provide(o->reconciler, set->key);
    r->ns = xptr(TABLE_PROVIDE(&o->namespaces, slice_str(set->ns), struct roll_namespace, name));
    r->ns->rolls++;
    r->fresh = informer_synced(o->informer);
    return r;
}

/* Takes `set`. */
static void take(struct roller *o, struct stateful_set *set)
{
    struct roll *r = provide_roll(o, set);
    if (r == NULL) {
        stateful_set_free(set);
        return;
    }
    if (r->set == NULL) {
        struct roll_status status;
        roll_status_parse(set->status, &status);
        (void)snprintf(r->shard, sizeof r->shard, "%s", status.shard);
    }
    stateful_set_free(r->set);
    r->set = set;
    r->fresh = r->fresh || r->gone;
    r->gone = false;
    r->paused = false;
    reconciler_look(o->reconciler, r->key, 0);
}

/* The roll has what is to be known of it, also when it is gone. */
static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct roller *o = data;
    if (*item == NULL) {
        *item = informer_item_new(sizeof **item, key);
    }
    take(o, stateful_set_new(object, o->options.prefix));
    return false;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    const struct roller *o = data;
    struct roll *r = after == NULL ? reconciler_find(o->reconciler, before->node.key) : NULL;
    if (r != NULL) {
        leave(r);
    }
}

static const struct informer_kind kind = {
    .path = "/apis/apps/v1/statefulsets", .keep = keep, .on_change = on_change};

/* ---- pods ---- */

/* Of "namespace/NAME-ORDINAL" it is the StatefulSet NAME: which that is, its look finds out. */
static void on_pod(void *data, const struct pod *pod, bool gone)
{
    struct roller *o = data;
    const char *dash = strrchr(pod->key, '-');
    (void)gone;
    if (pod->owner[0] == '\0' || dash == NULL || reconciler_count(o->reconciler) == 0) {
        return;
    }
    char *key = xstrndup(pod->key, (size_t)(dash - pod->key));
    if (reconciler_find(o->reconciler, key) != NULL) {
        reconciler_look(o->reconciler, key, GATHER_MS);
    }
    free(key);
}

static const struct shard_cache_handlers pod_handlers = {.on_pod = on_pod};

/* ---- what it says ---- */

void roller_status(const struct roller *r, cJSON *root)
{
    size_t count = 0;
    if (r == NULL) {
        return;
    }
    cJSON *o = cJSON_AddObjectToObject(root, "rolling");
    cJSON *items = cJSON_AddArrayToObject(o, "items");
    cJSON_AddNumberToObject(o, "count", (double)reconciler_count(r->reconciler));
    for (const struct roll *roll = NULL; (roll = reconciler_next(r->reconciler, roll)) != NULL;) {
        if (count++ == STATUS_ITEMS) {
            break;
        }
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(items, item);
        cJSON_AddStringToObject(item, "statefulSet", roll->key);
        cJSON_AddStringToObject(item, "state", roll_state_text(roll->state));
        cJSON_AddStringToObject(item, "status", roll->set->status);
    }
}

static void count_states(const struct roller *r, uint64_t *under_way, uint64_t *stuck,
                         uint64_t *refused)
{
    *under_way = 0;
    *stuck = 0;
    *refused = 0;
    const struct roll *roll = NULL;
    while (r != NULL && (roll = reconciler_next(r->reconciler, roll)) != NULL) {
        enum roll_state s = roll->state;
        *stuck += s == ROLL_STATE_STUCK;
        *refused += s == ROLL_STATE_REFUSED;
        *under_way += s == ROLL_STATE_WAITING || s == ROLL_STATE_EVICTING ||
                      s == ROLL_STATE_BLOCKED || s == ROLL_STATE_STUCK;
    }
}

void roller_metrics(const struct roller *r, const struct roller_counts *n, struct buf *out)
{
    uint64_t under_way;
    uint64_t stuck;
    uint64_t refused;
    count_states(r, &under_way, &stuck, &refused);
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_rolling_statefulsets", "gauge",
         "StatefulSets that are being rolled by shard and are not done.", under_way},
        {"cmesh_manager_rolling_stuck", "gauge",
         "StatefulSets of them whose roll has stopped: a pod failed, does not end, or is not made "
         "or evicted.",
         stuck},
        {"cmesh_manager_rolling_leases", "gauge", "Leases of shards that are watched for rolls.",
         r == NULL ? 0 : r->locks.count},
        {"cmesh_manager_rolling_refused", "gauge",
         "StatefulSets with the label that cannot be rolled by shard.", refused},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
    eviction_write_counts(out, "cmesh_manager_rolling_evictions_total",
                          "Evictions of pods that are rolled, by result.", n->evictions);
}

/* ---- life ---- */

static void follow(struct roller *r)
{
    char selector[330];
    (void)snprintf(selector, sizeof selector, "%s/%s", r->options.prefix, ROLLING_LABEL);
    const struct informer_options o = {
        .client = r->options.client,
        .namespace = r->options.namespace,
        .label_selector = selector,
        .effect = "nothing is rolled by shard",
        .ops = r->options.ops,
    };
    r->informer = informer_new(r->loop, &kind, &o, r);
}

struct roller *roller_new(struct net_loop *l, const struct roller_options *o)
{
    struct roller *r = xcalloc(1, sizeof *r);
    r->loop = l;
    r->options = *o;
    r->clock = o->clock != NULL ? o->clock : &net_clock_system;
    const struct reconciler_options reconciler = {
        .name = "rolling",
        .kind = "statefulset",
        .parallel = PARALLEL,
        .state_size = sizeof(struct roll),
        .data = r,
        .client = o->client,
        .may_write = o->may_write,
        .gate = o->data,
        .clock = o->clock,
    };
    r->reconciler = reconciler_new(l, &reconciler, &roll_handlers);
    follow(r);
    r->options.namespace = NULL; /* copied by the informer */
    r->pods = (struct shard_cache_listener){.handlers = &pod_handlers, .data = r};
    shard_cache_listen(o->cache, &r->pods);
    return r;
}

void roller_free(struct roller *r)
{
    if (r == NULL) {
        return;
    }
    shard_cache_unlisten(r->options.cache, &r->pods);
    informer_free(r->informer);
    reconciler_free(r->reconciler);
    table_deinit(&r->namespaces);
    table_deinit(&r->locks);
    free(r);
}
