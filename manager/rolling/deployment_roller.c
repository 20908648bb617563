/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/deployment_roller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "cache/rules_map.h"
#include "kube/client/informer.h"
#include "kube/name.h"
#include "object/names.h"
#include "rolling/deployment.h"
#include "rolling/roll_status.h"
#include "rolling/stateful_set.h"
#include "runtime/reconciler.h"
#include "json/edit.h"
#include "json/field.h"

enum {
    PARALLEL = 8,
    TICK_MS = 1000,   /* one that is under way is looked at so often, */
    QUIET_MS = 30000, /* and any other */
    EACH_MS = 500,    /* between two writes */
    GATHER_MS = 50,   /* changes of pods are gathered for so long */
};

struct deployment_roll {
    struct reconcile run;
    struct deployment_roller *roller;
    struct deployment *d; /* NULL: it has just been forgotten */
    bool gone;            /* the label was taken away, or the Deployment deleted */
    enum roll_state state;
    uint64_t waits_since;              /* for pods; 0: it does not */
    char revision[NAME_LABEL_MAX + 1]; /* of new pods; "": not known */
    struct roll_status before;
    struct roll_status writing;
};

struct deployment_roller {
    struct net_loop *loop;
    struct roller_options options;
    const struct net_clock *clock;
    struct informer *informer;
    struct reconciler *reconciler; /* struct deployment_roll */
    struct shard_cache_listener pods;
};

static uint64_t now(const struct deployment_roll *r)
{
    return net_clock_now(r->roller->clock);
}

static void begin(void *state)
{
    struct deployment_roll *r = state;
    r->roller = r->run.data;
}

static void drop(void *state)
{
    struct deployment_roll *r = state;
    deployment_free(r->d);
}

static void done_until(struct deployment_roll *r, uint64_t ms)
{
    reconcile_after(&r->run, ms);
    reconcile_done(&r->run, WORK_DONE, 0);
}

/* ---- pods ---- */

/* "": it is as it should be. */
static void judge_pod(const struct deployment_roll *r, const struct pod *p,
                      char why[CONTROLLER_WHY_SIZE])
{
    const struct roller_options *o = &r->roller->options;
    const struct shard_cache_config *config = shard_cache_shard_of(p, NULL);
    struct controller_pod state = {.enforces = false};
    if (p->ending) {
        (void)snprintf(why, CONTROLLER_WHY_SIZE, "it is being deleted");
    } else if (!p->ready) {
        (void)snprintf(why, CONTROLLER_WHY_SIZE, "it is not Ready%s%s",
                       p->failing == NULL ? "" : ": ", p->failing == NULL ? "" : p->failing);
    } else if (config != NULL) {
        controller_look_pod(o->controller, config, p, &state);
        (void)snprintf(why, CONTROLLER_WHY_SIZE, "%s",
                       state.open_breaker     ? "a breaker is open there"
                       : state.enforces       ? ""
                       : state.why[0] != '\0' ? state.why
                                              : "it does not enforce the rules of its shard");
    }
}

/* Pods of one template. */
struct revision {
    const char *name;
    uint64_t count;
    int64_t newest; /* seconds of the epoch */
};

enum { REVISIONS_MAX = 16 };

static bool is_of(const struct deployment_roll *r, const struct pod *p)
{
    return !p->over && pod_selected(p, r->d->pods);
}

static const char *revision_of(const struct pod *p)
{
    const char *revision = pod_label(p, DEPLOYMENT_REVISION);
    return revision == NULL ? "" : revision;
}

static void count_pod(struct revision *revisions, const struct pod *p)
{
    int64_t since = p->ready ? p->ready_since : p->unready_since;
    for (size_t i = 0; i < REVISIONS_MAX; i++) {
        struct revision *v = &revisions[i];
        if (v->name == NULL || strcmp(v->name, revision_of(p)) == 0) {
            v->name = revision_of(p);
            v->count++;
            v->newest = since > v->newest ? since : v->newest;
            return;
        }
    }
}

/* Its status says how many pods are of the present template, and not which: if that leaves a
 * choice, it is the one that was written, or that of the newest pod. "": none. */
static const char *find_revision(const struct deployment_roll *r)
{
    struct revision revisions[REVISIONS_MAX] = {{.name = NULL}};
    const struct revision *best = NULL;
    const struct shard_cache *w = r->roller->options.cache;
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(w, r->d->ns, p)) != NULL;) {
        if (is_of(r, p) && !p->ending) {
            count_pod(revisions, p);
        }
    }
    for (size_t i = 0; i < REVISIONS_MAX && revisions[i].name != NULL; i++) {
        const struct revision *v = &revisions[i];
        bool written = strcmp(v->name, r->d->expected) == 0;
        bool better = best == NULL || written ||
                      (v->newest > best->newest && strcmp(best->name, r->d->expected) != 0);
        best = v->count == r->d->is.updated && better ? v : best;
    }
    return best == NULL ? "" : best->name;
}

/* The first that is not well goes into `status`. */
static void look_at_pods(const struct deployment_roll *r, struct deployment_roll_facts *f,
                         const char *revision, struct roll_status *status)
{
    const struct shard_cache *w = r->roller->options.cache;
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(w, r->d->ns, p)) != NULL;) {
        bool counts = is_of(r, p) && (p->ending || strcmp(revision_of(p), revision) == 0);
        char why[CONTROLLER_WHY_SIZE] = "";
        if (!counts) {
            continue;
        }
        judge_pod(r, p, why);
        f->ending = f->ending || p->ending;
        f->new_pods += !p->ending;
        f->new_well += why[0] == '\0';
        if (why[0] != '\0' && status->pod[0] == '\0') {
            (void)snprintf(status->pod, sizeof status->pod, "%s", p->name);
            (void)snprintf(status->message, sizeof status->message, "%s", why);
        }
    }
}

/* ---- what is said ---- */

static const char *refusal(const struct deployment_roll *r)
{
    const struct deployment *d = r->d;
    if (strcmp(d->label, ROLLING_ALL) != 0) {
        return "a Deployment is rolled as a whole: the label must be `" ROLLING_ALL "`";
    }
    if (!d->one_by_one) {
        return "spec.strategy must be RollingUpdate with maxSurge: 1 and maxUnavailable: 0, so "
               "that "
               "one pod is replaced at a time";
    }
    if (d->pods == NULL) {
        return "spec.selector is invalid";
    }
    return shard_cache_next_config_in(r->roller->options.cache, d->ns, NULL) == NULL
               ? "there is no ShardingConfig in its namespace"
               : NULL;
}

static bool is_under_way(enum roll_state s)
{
    return s == ROLL_STATE_WAITING || s == ROLL_STATE_RESUMED || s == ROLL_STATE_STUCK;
}

static void tell(const struct deployment_roll *r)
{
    const struct roll_status *was = &r->before;
    const struct roll_status *is = &r->writing;
    struct event_recorder *events = r->roller->options.events;
    const struct event_object about = {.api_version = "apps/v1",
                                       .kind = "Deployment",
                                       .namespace = r->d->ns,
                                       .name = r->d->name,
                                       .uid = r->d->uid};
    bool other = was->state != is->state;
    if (is->state == ROLL_STATE_REFUSED && other) {
        event_record(events, &about, EVENT_WARNING, "RollRefused", "It cannot be rolled: %s.",
                     is->message);
    } else if (is->state == ROLL_STATE_DONE && is_under_way(was->state)) {
        event_record(events, &about, EVENT_NORMAL, "RollDone", "All %zu pods are new.", is->total);
    } else if (is->state == ROLL_STATE_STUCK && other) {
        event_record(
            events, &about, EVENT_WARNING, "RollStuck",
            "%s%s: %s. No further pod is replaced until that is mended, or the template is "
            "changed or rolled back.",
            is->pod[0] == '\0' ? "The roll waits" : "Pod ", is->pod, is->message);
    } else if (is->state == ROLL_STATE_PAUSED) {
        event_record(events, &about, EVENT_WARNING, "RollPaused",
                     "Its label was taken away: it stays paused, with %zu of %zu pods new, until "
                     "kubectl rollout resume.",
                     is->done, is->total);
    } else if (is_under_way(is->state) && !is_under_way(was->state)) {
        event_record(events, &about, EVENT_NORMAL, "RollStarted",
                     "Its pods are replaced, one at a time: %zu of %zu are new.", is->done,
                     is->total);
    }
}

/* ---- writing ---- */

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct deployment_roll *r = data;
    if (object != NULL) {
        tell(r);
        done_until(r, TICK_MS);
    } else {
        reconcile_failed(&r->run, error, "cannot write how far the roll of a Deployment has come");
    }
}

static void set_text(struct edit *ed, cJSON *map, const char *prefix, const char *name,
                     const char *value)
{
    char key[NAMES_KEY_SIZE];
    edit_string(ed, map, names_key(prefix, name, key), value);
}

/* Over the version that was looked at. `pause` NULL: it stays as it is. */
static cJSON *make_patch(const struct deployment_roll *r, const bool *pause)
{
    struct edit ed = {.rc = 0};
    char text[ROLL_STATUS_SIZE];
    char label[ROLL_STATUS_LABEL_SIZE];
    const char *prefix = r->roller->options.prefix;
    cJSON *patch = cJSON_CreateObject();
    cJSON *meta = edit_object(&ed, patch, "metadata");
    roll_status_print(&r->writing, text);
    roll_status_label(&r->writing, label);
    edit_string(&ed, meta, "uid", r->d->uid);
    edit_string(&ed, meta, "resourceVersion", r->d->version);
    set_text(&ed, edit_object(&ed, meta, "labels"), prefix, ROLLING_PROGRESS, label);
    cJSON *annotations = edit_object(&ed, meta, "annotations");
    set_text(&ed, annotations, prefix, ROLLING_STATUS, text);
    if (r->revision[0] != '\0' || r->d->is.updated == 0) { /* no pod is of another template yet */
        set_text(&ed, annotations, prefix, ROLLING_EXPECTED, r->revision);
    }
    if (pause != NULL) {
        edit_bool(&ed, edit_object(&ed, patch, "spec"), "paused", *pause);
    }
    return xptr(edit_result(&ed, patch));
}

static void write_status(struct deployment_roll *r, const struct roll_status *status,
                         const bool *pause)
{
    char text[ROLL_STATUS_SIZE];
    roll_status_print(status, text);
    r->state = status->state;
    if (pause == NULL && strcmp(text, r->d->status) == 0) {
        done_until(r, is_under_way(status->state) ? TICK_MS : QUIET_MS);
        return;
    }
    if (reconcile_too_early(&r->run, r->d->uid, r->d->version, pause == NULL ? EACH_MS : 0)) {
        reconcile_done(&r->run, WORK_DONE, 0);
        return;
    }
    r->writing = *status;
    char *path = xasprintf("/apis/apps/v1/namespaces/%s/deployments", r->d->ns);
    cJSON *body = make_patch(r, pause);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = r->d->name,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
        .metadata_only = true,
    };
    reconcile_over(&r->run, r->d->uid, r->d->version);
    reconcile_write(&r->run, &q, NULL, on_written);
    cJSON_Delete(body);
    free(path);
}

/* ---- a look ---- */

static void wait_for_pods(struct deployment_roll *r, const struct deployment_roll_facts *f,
                          struct roll_status *status)
{
    uint64_t at = now(r);
    r->waits_since = r->waits_since != 0 ? r->waits_since : at;
    if (status->message[0] == '\0') {
        (void)snprintf(status->message, sizeof status->message,
                       "%" PRIu64 " of %" PRIu64 " new pods are seen", f->new_pods, f->updated);
    }
    bool stuck = at - r->waits_since >= r->d->deadline_ms;
    status->state = stuck ? ROLL_STATE_STUCK : ROLL_STATE_WAITING;
    write_status(r, status, NULL);
}

static void take_step(struct deployment_roll *r, const struct deployment_roll_facts *f,
                      struct roll_status *status)
{
    static const bool pause = true;
    static const bool resume = false;
    enum deployment_roll_step step = deployment_roll_decide(f);
    if (step != DEPLOYMENT_ROLL_WAIT) {
        r->waits_since = 0;
        status->pod[0] = '\0';
        status->message[0] = '\0';
    }
    switch (step) {
    case DEPLOYMENT_ROLL_DONE:
        status->state = ROLL_STATE_DONE;
        write_status(r, status, NULL);
        break;
    case DEPLOYMENT_ROLL_PAUSE:
        status->state = f->updated == f->replicas && f->total == f->replicas ? ROLL_STATE_DONE
                                                                             : ROLL_STATE_WAITING;
        write_status(r, status, &pause);
        break;
    case DEPLOYMENT_ROLL_RESUME:
        status->state = ROLL_STATE_RESUMED;
        write_status(r, status, &resume);
        break;
    case DEPLOYMENT_ROLL_OBSERVE:
        done_until(r, TICK_MS);
        break;
    case DEPLOYMENT_ROLL_WAIT:
        wait_for_pods(r, f, status);
        break;
    }
}

static void look(struct deployment_roll *r)
{
    const struct shard_cache *w = r->roller->options.cache;
    struct deployment_roll_facts f = r->d->is;
    struct roll_status status = {.done = f.updated, .total = f.replicas};
    roll_status_parse(r->d->status, &r->before);
    const char *why = shard_cache_synced(w) ? refusal(r) : NULL;
    if (r->d->ending) {
        done_until(r, QUIET_MS);
    } else if (why != NULL) {
        status.state = ROLL_STATE_REFUSED;
        (void)snprintf(status.message, sizeof status.message, "%s", why);
        write_status(r, &status, NULL);
    } else if (!shard_cache_synced(w) || shard_cache_error(w) != NULL ||
               reconcile_unseen(&r->run, r->d->uid, r->d->version)) {
        done_until(r, TICK_MS);
    } else {
        f.resumed = r->before.state == ROLL_STATE_RESUMED ? (int64_t)r->before.done : -1;
        (void)snprintf(r->revision, sizeof r->revision, "%s", find_revision(r));
        look_at_pods(r, &f, r->revision, &status);
        take_step(r, &f, &status);
    }
}

/* ---- the label is taken away ---- */

/* 404: it was deleted. 422: it is not paused, or another one. */
static void on_left(void *data, const cJSON *object, const struct api_error *error)
{
    struct deployment_roll *r = data;
    if (object != NULL) {
        tell(r);
    }
    if (object != NULL || error->code == 404 || error->code == 422) {
        reconcile_done(&r->run, WORK_DONE, 0);
    } else {
        reconcile_failed(&r->run, error, "cannot write that a Deployment stays paused");
    }
}

static void add_operation(struct edit *ed, cJSON *patch, const char *op, const char *path,
                          cJSON *value)
{
    cJSON *item = edit_append_object(ed, patch);
    edit_string(ed, item, "op", op);
    edit_string(ed, item, "path", path);
    edit_set(ed, item, "value", value);
}

/* `map`: of its metadata. */
static void add_text(struct edit *ed, cJSON *patch, const char *map, const char *prefix,
                     const char *name, const char *value)
{
    char *path = xasprintf("/metadata/%s/%s~1%s", map, prefix, name);
    add_operation(ed, patch, "add", path, cJSON_CreateString(value));
    free(path);
}

/* If it is paused. */
static cJSON *make_leave_patch(const struct deployment_roll *r)
{
    struct edit ed = {.rc = 0};
    char text[ROLL_STATUS_SIZE];
    char label[ROLL_STATUS_LABEL_SIZE];
    const char *prefix = r->roller->options.prefix;
    cJSON *patch = cJSON_CreateArray();
    roll_status_print(&r->writing, text);
    roll_status_label(&r->writing, label);
    add_operation(&ed, patch, "test", "/metadata/uid", cJSON_CreateString(r->d->uid));
    add_operation(&ed, patch, "test", "/spec/paused", cJSON_CreateTrue());
    add_text(&ed, patch, "labels", prefix, ROLLING_PROGRESS, label);
    add_text(&ed, patch, "annotations", prefix, ROLLING_STATUS, text);
    return xptr(edit_result(&ed, patch));
}

/* It is not resumed, as that is how a user stops a roll. */
static void leave(struct deployment_roll *r)
{
    roll_status_parse(r->d->status, &r->before);
    if (r->d->ending || !(r->before.state == ROLL_STATE_DONE || is_under_way(r->before.state))) {
        reconcile_done(&r->run, WORK_DONE, 0);
        return;
    }
    r->writing = r->before;
    r->writing.state = ROLL_STATE_PAUSED;
    r->writing.pod[0] = '\0';
    char *path = xasprintf("/apis/apps/v1/namespaces/%s/deployments", r->d->ns);
    cJSON *body = make_leave_patch(r);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_JSON_PATCH,
        .path = path,
        .name = r->d->name,
        .body = body,
        .field_manager = RULES_MAP_MANAGER,
        .metadata_only = true,
    };
    reconcile_write(&r->run, &q, NULL, on_left);
    cJSON_Delete(body);
    free(path);
}

static void handle(void *state)
{
    struct deployment_roll *r = state;
    if (r->d == NULL) {
        reconcile_done(&r->run, WORK_DONE, 0);
    } else if (r->gone) {
        leave(r);
    } else {
        look(r);
    }
}

static bool is_there(void *state, enum work_result result)
{
    const struct deployment_roll *r = state;
    return r->d != NULL && (!r->gone || result == WORK_RETRY);
}

static const struct reconciler_handlers handlers = {
    .begin = begin, .reconcile = handle, .done = is_there, .drop = drop};

/* ---- following ---- */

/* Takes `d`. */
static void take(struct deployment_roller *o, struct deployment *d)
{
    struct deployment_roll *r = reconciler_find(o->reconciler, d->key);
    if (r == NULL && reconciler_count(o->reconciler) >= DEPLOYMENT_ROLLER_MAX) {
        log_warn("too many Deployments to be rolled", log_str("deployment", d->key));
        deployment_free(d);
        return;
    }
    r = r != NULL ? r : reconciler_provide(o->reconciler, d->key);
    deployment_free(r->d);
    r->d = d;
    r->gone = false;
    reconciler_look(o->reconciler, d->key, 0);
}

/* The Deployment has what is to be known of it, also when it is gone. */
static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct deployment_roller *o = data;
    if (*item == NULL) {
        *item = informer_item_new(sizeof **item, key);
    }
    take(o, deployment_new(object, o->options.prefix));
    return false;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    const struct deployment_roller *o = data;
    struct deployment_roll *r =
        after == NULL ? reconciler_find(o->reconciler, before->node.key) : NULL;
    if (r != NULL) {
        r->gone = true;
        reconciler_look(o->reconciler, before->node.key, 0);
    }
}

static const struct informer_kind kind = {
    .path = "/apis/apps/v1/deployments", .keep = keep, .on_change = on_change};

static void on_pod(void *data, const struct pod *pod, bool gone)
{
    const struct deployment_roller *o = data;
    (void)gone;
    for (const struct deployment_roll *r = NULL; (r = reconciler_next(o->reconciler, r)) != NULL;) {
        if (r->d != NULL && r->d->pods != NULL && strcmp(r->d->ns, pod->ns) == 0 &&
            pod_selected(pod, r->d->pods)) {
            reconciler_look(o->reconciler, r->run.key, GATHER_MS);
        }
    }
}

static const struct shard_cache_handlers pod_handlers = {.on_pod = on_pod};

/* ---- what it says ---- */

void deployment_roller_metrics(const struct deployment_roller *r, struct buf *out)
{
    uint64_t under_way = 0;
    uint64_t stuck = 0;
    const struct deployment_roll *one = NULL;
    while (r != NULL && (one = reconciler_next(r->reconciler, one)) != NULL) {
        under_way += is_under_way(one->state);
        stuck += one->state == ROLL_STATE_STUCK;
    }
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_rolling_deployments", "gauge",
         "Deployments that are being rolled pod by pod and are not done.", under_way},
        {"cmesh_manager_rolling_deployments_stuck", "gauge",
         "Deployments of them whose roll has stopped: a pod is not well.", stuck},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

/* ---- life ---- */

struct deployment_roller *deployment_roller_new(struct net_loop *l, const struct roller_options *o)
{
    char selector[330];
    struct deployment_roller *r = xcalloc(1, sizeof *r);
    r->loop = l;
    r->options = *o;
    r->clock = o->clock != NULL ? o->clock : &net_clock_system;
    const struct reconciler_options reconciler = {
        .name = "roller",
        .kind = "deployment",
        .parallel = PARALLEL,
        .state_size = sizeof(struct deployment_roll),
        .data = r,
        .client = o->client,
        .may_write = o->may_write,
        .gate = o->data,
        .clock = o->clock,
    };
    (void)snprintf(selector, sizeof selector, "%s/%s", o->prefix, ROLLING_LABEL);
    const struct informer_options io = {
        .client = o->client,
        .namespace = o->namespace,
        .label_selector = selector,
        .effect = "no Deployment is rolled pod by pod",
        .ops = o->ops,
    };
    r->reconciler = reconciler_new(l, &reconciler, &handlers);
    r->informer = informer_new(l, &kind, &io, r);
    r->options.namespace = NULL; /* copied by the informer */
    r->pods = (struct shard_cache_listener){.handlers = &pod_handlers, .data = r};
    shard_cache_listen(o->cache, &r->pods);
    return r;
}

void deployment_roller_free(struct deployment_roller *r)
{
    if (r == NULL) {
        return;
    }
    shard_cache_unlisten(r->options.cache, &r->pods);
    informer_free(r->informer);
    reconciler_free(r->reconciler);
    free(r);
}
