/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/roller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "rolling/roller_internal.h"
#include "shard/rules_map.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    PARALLEL = 8,
    TICK_MS = 1000,    /* a roll that is under way is looked at so often, */
    QUIET_MS = 30000,  /* and any other */
    EACH_MS = 1000,    /* between two writes of annotations */
    GATHER_MS = 50,    /* changes of pods are gathered for so long */
    BLOCKED_MS = 5000, /* until an eviction that was refused is tried again */
    STATUS_ITEMS = 200,
    UNSEEN_MS = 10000, /* until it is told that a change was not taken note of */
    MS = 1000,
};

/* ---- what is remembered ---- */

static struct roll *roll_of(struct table_node *n)
{
    return LIST_ITEM(n, struct roll, node);
}

static struct roll *find_roll(const struct roller *o, const char *key)
{
    struct table_node *n = table_find(&o->rolls, key);
    return n == NULL ? NULL : roll_of(n);
}

static struct roll_namespace *find_namespace(const struct roller *o, const char *name)
{
    struct table_node *n = table_find(&o->namespaces, name);
    return n == NULL ? NULL : LIST_ITEM(n, struct roll_namespace, node);
}

static struct roll_namespace *provide_namespace(struct roller *o, const char *name)
{
    struct roll_namespace *s = find_namespace(o, name);
    size_t size = strlen(name) + 1;
    s = s != NULL ? s : calloc(1, sizeof *s + size);
    if (s != NULL && s->rolls == 0) {
        memcpy(s->name, name, size);
        if (table_insert(&o->namespaces, &s->node, s->name) != 0) {
            free(s);
            return NULL;
        }
    }
    return s;
}

static void leave_namespace(struct roll *r)
{
    if (--r->ns->rolls == 0) {
        table_remove(&r->roller->namespaces, &r->ns->node);
        free(r->ns);
    }
}

static void free_roll(struct roll *r)
{
    table_remove(&r->roller->rolls, &r->node);
    object_request_cancel(r->request);
    roll_forget_locks(r);
    leave_namespace(r);
    stateful_set_free(r->set);
    free(r->base);
    free(r);
}

static struct roll *add_roll(struct roller *o, const struct stateful_set *set)
{
    size_t size = strlen(set->key) + 1;
    struct roll *r = calloc(1, sizeof *r + size);
    struct roll_namespace *ns = r == NULL ? NULL : provide_namespace(o, set->ns);
    if (ns == NULL) {
        free(r);
        return NULL;
    }
    memcpy(r->key, set->key, size);
    r->roller = o;
    r->ns = ns;
    ns->rolls++;
    if (table_insert(&o->rolls, &r->node, r->key) != 0) {
        leave_namespace(r);
        free(r);
        return NULL;
    }
    return r;
}

static uint64_t now(const struct roll *r)
{
    return net_clock_now(r->roller->clock);
}

static void enqueue(struct roller *o, const char *key, uint64_t ms)
{
    int rc = ms == 0 ? work_queue_add(o->queue, key) : work_queue_add_after(o->queue, key, ms);
    if (rc != 0) {
        log_error("out of memory; this StatefulSet is looked at again with its next change",
                  log_str("statefulset", key));
    }
}

/* ---- steps ---- */

/* `r` may be gone afterwards. */
static void done(struct roll *r, enum work_result result, unsigned retry_after)
{
    work_queue_done(r->roller->queue, r->key, result, retry_after);
}

/* It is looked at again after so many ms, or when something happens. */
static void done_until(struct roll *r, uint64_t ms)
{
    enqueue(r->roller, r->key, ms);
    done(r, WORK_DONE, 0);
}

/* If it cannot be sent, it is done. */
static void send_request(struct roll *r, const struct object_request_options *q,
                         object_request_cb cb)
{
    struct roller *o = r->roller;
    struct err e = ERR_INIT;
    if (q->verb != OBJECT_REQUEST_GET && !o->options.may_write(o->options.data)) {
        done(r, WORK_RETRY, 0);
        return;
    }
    r->request = object_request_start(o->loop, o->options.client, q, cb, r, &e);
    if (r->request == NULL) {
        log_at(kube_client_failure_level(o->options.client, 0), "request to the API server failed",
               log_str("statefulset", r->key), log_str("error", e.msg));
        done(r, WORK_RETRY, 0);
    }
}

/* ---- annotations ---- */

static void forget_base(struct roll *r)
{
    free(r->base);
    r->base = NULL;
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct roll *r = data;
    r->request = NULL;
    if (object != NULL) {
        roll_tell(r);
        done_until(r, ROLLER_BELIEF_MS); /* or sooner, when the watch shows it */
        return;
    }
    forget_base(r);
    if (error->code != 409 && error->code != 404) {
        log_at(error->level, "cannot write how far a roll has come", log_str("statefulset", r->key),
               log_str("error", error->msg));
    }
    done(r, WORK_RETRY, error->retry_after);
}

static void send_patch(struct roll *r, const struct roll_status *status, const char *expected,
                       object_request_cb cb)
{
    char *path = NULL;
    cJSON *body = roll_patch(r, status, expected);
    if (body == NULL ||
        asprintf(&path, "/apis/apps/v1/namespaces/%s/statefulsets", r->set->ns) < 0) {
        cJSON_Delete(body);
        done(r, WORK_RETRY, 0);
        return;
    }
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = r->set->name,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
        .metadata_only = true,
    };
    send_request(r, &q, cb);
    cJSON_Delete(body);
    free(path);
}

/* `revision` NULL: the annotation that names it stays as it is. */
static void write_status(struct roll *r, const struct roll_status *before,
                         const struct roll_status *status, const char *revision)
{
    uint64_t passed = now(r) - r->written_at;
    if (r->written_at != 0 && passed < EACH_MS) {
        done_until(r, EACH_MS - passed);
        return;
    }
    forget_base(r);
    r->base = strdup(r->set->version);
    if (r->base == NULL) {
        done(r, WORK_RETRY, 0);
        return;
    }
    r->before = *before;
    r->writing = *status;
    r->begins = revision != NULL && strcmp(r->set->expected, revision) != 0;
    r->written_at = now(r);
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
    return r->base != NULL && strcmp(r->base, r->set->version) == 0 &&
           now(r) - r->written_at <= ROLLER_BELIEF_MS;
}

/* ---- evictions ---- */

static void count(const struct roll *r, enum roller_result result)
{
    r->roller->options.counts->evictions[result]++;
}

static void hold_back(struct roll *r, enum roller_result result, const struct api_error *error)
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

static void not_evicted(struct roll *r, const struct api_error *error)
{
    switch (error->code) {
    case 0: /* it may have been done all the same */
        count(r, ROLLER_FAILED);
        done(r, WORK_RETRY, 0);
        break;
    case 429:
        hold_back(r, ROLLER_BLOCKED, error);
        break;
    case 400:
    case 415: /* the API server was replaced by one of another version */
        r->roller->eviction[0] = '\0';
        hold_back(r, ROLLER_FAILED, error);
        break;
    case 404:
    case 409: /* what is there now will be seen */
        r->roller->eviction[0] = '\0';
        count(r, ROLLER_GONE);
        done_until(r, TICK_MS);
        break;
    default:
        hold_back(r, ROLLER_FAILED, error);
        break;
    }
}

static void on_evicted(void *data, const cJSON *object, const struct api_error *error)
{
    struct roll *r = data;
    r->request = NULL;
    if (object == NULL) {
        not_evicted(r, error);
        return;
    }
    count(r, ROLLER_EVICTED);
    log_info("evicted a pod", log_str("statefulset", r->key), log_str("pod", r->target_name));
    memcpy(r->evicted, r->target, sizeof r->evicted);
    r->evicted_at = now(r);
    r->missed = true;
    r->blocked[0] = '\0';
    done_until(r, TICK_MS);
}

static cJSON *make_eviction(const struct roll *r, const struct pod *p)
{
    struct edit ed = {.rc = 0};
    cJSON *body = cJSON_CreateObject();
    edit_string(&ed, body, "apiVersion", r->roller->eviction);
    edit_string(&ed, body, "kind", "Eviction");
    cJSON *meta = edit_object(&ed, body, "metadata");
    edit_string(&ed, meta, "name", p->name);
    edit_string(&ed, meta, "namespace", p->ns);
    cJSON *preconditions =
        edit_object(&ed, edit_object(&ed, body, "deleteOptions"), "preconditions");
    edit_string(&ed, preconditions, "uid", p->uid);
    return edit_result(&ed, body);
}

static void evict(struct roll *r, const struct pod *p)
{
    char *path = NULL;
    cJSON *body = make_eviction(r, p);
    if (body == NULL || asprintf(&path, "/api/v1/namespaces/%s/pods", p->ns) < 0) {
        cJSON_Delete(body);
        done(r, WORK_RETRY, 0);
        return;
    }
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_CREATE,
        .path = path,
        .name = p->name,
        .subresource = "eviction",
        .body = body,
    };
    (void)snprintf(r->target, sizeof r->target, "%s", p->uid);
    (void)snprintf(r->target_name, sizeof r->target_name, "%s", p->name);
    send_request(r, &q, on_evicted);
    cJSON_Delete(body);
    free(path);
}

/* ---- which evictions the API server takes ---- */

static const cJSON *find_eviction(const cJSON *list)
{
    const cJSON *resource = NULL;
    cJSON_ArrayForEach(resource, field_get(list, "resources"))
    {
        if (strcmp(field_text(resource, "name"), "pods/eviction") == 0) {
            return resource;
        }
    }
    return NULL;
}

static void on_resources(void *data, const cJSON *object, const struct api_error *error)
{
    static const struct api_error absent = {.msg = "it has no evictions"};
    struct roll *r = data;
    struct roller *o = r->roller;
    const cJSON *resource = find_eviction(object);
    r->request = NULL;
    if (resource == NULL) {
        hold_back(r, ROLLER_FAILED, error != NULL ? error : &absent);
        return;
    }
    (void)snprintf(o->eviction, sizeof o->eviction, "%s/%s", field_text(resource, "group"),
                   field_text(resource, "version"));
    enqueue(o, r->key, 0);
    done(r, WORK_DONE, 0);
}

/* "policy/v1" from 1.22 on; before it "policy/v1beta1", which is gone since 1.25. */
static void ask_for_version(struct roll *r)
{
    const struct object_request_options q = {.verb = OBJECT_REQUEST_GET, .path = "/api/v1"};
    send_request(r, &q, on_resources);
}

/* The annotation names the pod: nobody evicts another one as long as it does. */
static void try_to_evict(struct roll *r, const struct pod *p)
{
    uint64_t at = now(r);
    if (at < r->not_before) {
        done_until(r, r->not_before - at);
    } else if (r->roller->eviction[0] == '\0') {
        ask_for_version(r);
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
    return shard_cache_ready(w, r->set->ns) && shard_cache_error(w) == NULL &&
           !is_just_changed(r) && !is_answer_due(r);
}

static void look_closely(struct roll *r, const struct roll_status *before)
{
    struct roll_view view;
    int rc = roll_view_look(r, before, &view);
    if (rc == -ENOBUFS) {
        LOG_AT(r->state == ROLL_STATE_REFUSED ? LOG_DEBUG : LOG_WARN,
               "a StatefulSet is not rolled: too many Leases of shards would be watched",
               log_str("statefulset", r->key));
        refuse(r, before,
               "too many shards are being rolled, in its namespace or in all; it is tried again "
               "every 30 seconds");
    } else if (rc != 0) {
        done(r, WORK_RETRY, 0);
    } else {
        go_on(r, before, &view);
        roll_view_deinit(&view);
    }
}

static void look(struct roll *r)
{
    struct roll_status before;
    roll_status_parse(r->set->status, &before);
    char why[ROLL_STATUS_MESSAGE_SIZE];
    bool refused = shard_cache_configs_synced(r->roller->options.cache) && !is_answer_due(r) &&
                   roll_refusal(r, why);
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
    struct roller *o = r->roller;
    r->request = NULL;
    if (object == NULL && error->code != 404) {
        log_at(error->level, "cannot write that a roll is paused", log_str("statefulset", r->key),
               log_str("error", error->msg));
    }
    if (r->gone) {
        work_queue_done(o->queue, r->key, WORK_DONE, 0);
        free_roll(r);
    } else {
        done_until(r, TICK_MS); /* the label is there again */
    }
}

static void pause_roll(struct roll *r)
{
    struct roll_status status;
    struct roller *o = r->roller;
    roll_status_parse(r->set->status, &status);
    bool under_way = status.state == ROLL_STATE_WAITING || status.state == ROLL_STATE_EVICTING ||
                     status.state == ROLL_STATE_BLOCKED || status.state == ROLL_STATE_STUCK;
    if (!under_way || !o->options.may_write(o->options.data)) {
        work_queue_done(o->queue, r->key, WORK_DONE, 0);
        free_roll(r);
        return;
    }
    status.state = ROLL_STATE_PAUSED;
    r->state = ROLL_STATE_PAUSED;
    send_patch(r, &status, NULL, on_paused);
}

static void on_work(void *data, const char *key)
{
    struct roller *o = data;
    struct roll *r = find_roll(o, key);
    if (r == NULL) {
        work_queue_done(o->queue, key, WORK_DONE, 0);
    } else if (r->gone) {
        pause_roll(r);
    } else {
        look(r);
    }
}

/* ---- following ---- */

static void on_list(void *data)
{
    struct roller *o = data;
    for (struct table_node *n = NULL; (n = table_next(&o->rolls, n)) != NULL;) {
        roll_of(n)->stale = true;
    }
}

static void leave(struct roll *r)
{
    r->gone = true;
    roll_forget_locks(r);
    enqueue(r->roller, r->key, 0);
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

static struct roll *provide_roll(struct roller *o, enum reflector_change change,
                                 const struct stateful_set *set)
{
    struct roll *r = find_roll(o, set->key);
    struct roll_namespace *ns = find_namespace(o, set->ns);
    if (r != NULL) {
        return r;
    }
    if (ns != NULL && ns->rolls >= ROLLER_NAMESPACE_SETS_MAX) {
        pass_over(o, set, "of the namespace", &ns->full);
        return NULL;
    }
    if (o->rolls.count >= ROLLER_SETS_MAX) {
        pass_over(o, set, "of the cluster", &o->full);
        return NULL;
    }
    r = add_roll(o, set);
    if (r != NULL) {
        r->fresh = change == REFLECTOR_ADDED;
    }
    return r;
}

/* Takes `set`. */
static void take(struct roller *o, enum reflector_change change, struct stateful_set *set)
{
    struct roll *r = provide_roll(o, change, set);
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
    r->stale = false;
    r->fresh = r->fresh || r->gone;
    r->gone = false;
    enqueue(o, r->key, 0);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct roller *o = data;
    struct stateful_set *set = stateful_set_new(object, o->options.prefix);
    if (set == NULL) {
        log_error("out of memory: a change of a StatefulSet is not seen",
                  log_str("statefulset", field_meta(object, "name")));
        return;
    }
    if (change != REFLECTOR_DELETED) {
        take(o, change, set);
        return;
    }
    struct roll *r = find_roll(o, set->key);
    if (r != NULL) {
        leave(r);
    }
    stateful_set_free(set);
}

static void on_synced(void *data)
{
    struct roller *o = data;
    for (struct table_node *n = NULL; (n = table_next(&o->rolls, n)) != NULL;) {
        if (roll_of(n)->stale) {
            leave(roll_of(n));
        }
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)data;
    if (error != NULL) {
        log_at(level, "cannot watch StatefulSets: nothing is rolled by shard",
               log_str("error", error));
    } else {
        log_at(level, "watching StatefulSets again");
    }
}

static const struct reflector_handlers handlers = {
    .on_list = on_list, .on_object = on_object, .on_synced = on_synced, .on_state = on_state};

/* ---- pods ---- */

/* Of "namespace/NAME-ORDINAL" it is the StatefulSet NAME: which that is, its look finds out. */
static void on_pod(void *data, const struct pod *pod, bool gone)
{
    struct roller *o = data;
    const char *dash = strrchr(pod->key, '-');
    (void)gone;
    if (pod->owner[0] == '\0' || dash == NULL || o->rolls.count == 0) {
        return;
    }
    char *key = strndup(pod->key, (size_t)(dash - pod->key));
    if (key != NULL && find_roll(o, key) != NULL) {
        enqueue(o, key, GATHER_MS);
    }
    free(key); /* without memory the next tick does it */
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
    cJSON_AddNumberToObject(o, "count", (double)r->rolls.count);
    for (struct table_node *n = NULL; (n = table_next(&r->rolls, n)) != NULL;) {
        const struct roll *roll = roll_of(n);
        if (count++ == STATUS_ITEMS) {
            break;
        }
        cJSON *item = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(items, item)) {
            cJSON_Delete(item);
            break;
        }
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
    for (struct table_node *n = NULL; r != NULL && (n = table_next(&r->rolls, n)) != NULL;) {
        enum roll_state s = roll_of(n)->state;
        *stuck += s == ROLL_STATE_STUCK;
        *refused += s == ROLL_STATE_REFUSED;
        *under_way += s == ROLL_STATE_WAITING || s == ROLL_STATE_EVICTING ||
                      s == ROLL_STATE_BLOCKED || s == ROLL_STATE_STUCK;
    }
}

int roller_metrics(const struct roller *r, const struct roller_counts *n, struct buf *out)
{
    static const char *const results[ROLLER_RESULTS] = {"evicted", "blocked", "gone", "failed"};
    static const char name[] = "cmesh_manager_rolling_evictions_total";
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
    int rc = prometheus_write(out, metrics, ARRAY_LEN(metrics));
    if (rc == 0) {
        rc = prometheus_head(out, name, "counter", "Evictions of pods that are rolled, by result.");
    }
    for (size_t i = 0; rc == 0 && i < ROLLER_RESULTS; i++) {
        rc = buf_printf(out, "%s{result=\"%s\"} %" PRIu64 "\n", name, results[i], n->evictions[i]);
    }
    return rc;
}

/* ---- life ---- */

static int follow(struct roller *r, struct err *e)
{
    char path[160];
    char selector[330];
    const char *ns = r->options.namespace;
    (void)snprintf(path, sizeof path, "/apis/apps/v1%s%s/statefulsets",
                   ns == NULL ? "" : "/namespaces/", ns == NULL ? "" : ns);
    (void)snprintf(selector, sizeof selector, "%s/%s", r->options.prefix, ROLLING_LABEL);
    const struct reflector_options o = {
        .client = r->options.client,
        .path = path,
        .label_selector = selector,
        .ops = r->options.ops,
    };
    r->reflector = reflector_new(r->loop, &o, &handlers, r, e);
    return r->reflector == NULL ? e->code : 0;
}

struct roller *roller_new(struct net_loop *l, const struct roller_options *o, struct err *e)
{
    struct roller *r = calloc(1, sizeof *r);
    if (r == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    r->loop = l;
    r->options = *o;
    r->clock = o->clock != NULL ? o->clock : &net_clock_system;
    const struct work_queue_options queue = {
        .name = "rolling", .parallel = PARALLEL, .clock = o->clock};
    r->queue = work_queue_new(l, &queue, on_work, r, e);
    if (r->queue == NULL || follow(r, e) != 0) {
        roller_free(r);
        return NULL;
    }
    r->options.namespace = NULL; /* copied by the reflector */
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
    reflector_free(r->reflector);
    for (struct table_node *n = NULL; (n = table_next(&r->rolls, NULL)) != NULL;) {
        free_roll(roll_of(n));
    }
    table_deinit(&r->rolls);
    table_deinit(&r->namespaces);
    table_deinit(&r->locks);
    work_queue_free(r->queue);
    free(r);
}
