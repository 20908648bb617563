/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each handling of an object is one request, for which the queue waits for a token:
 *
 *     PATCH -- 409: it was changed meanwhile --> GET --> PATCH
 *       |                                         |
 *       +-----> done, refused, or again later <---+
 */
#include "label/patcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/token_bucket.h"
#include "base/xalloc.h"
#include "kube/client/watch_event.h"
#include "kube/name.h"
#include "runtime/reconciler.h"

enum {
    KEY_MAX = 1536,      /* more than two names and a number can be */
    PATH_MAX_LEN = 2048, /* no collection that was listed has a longer one */
    ROUNDS_MAX = 5,      /* patches of an object that changes all the time, before a pause */
    FAILURES_MAX = 6,    /* attempts, pauses of 0.2 to 6.4 s between them */
    BURSTS = 10,         /* a second */
};

/* An object that waits, or is being dealt with. */
struct job {
    struct reconcile run; /* its key: "RESOURCE NAMESPACE NAME" */
    unsigned resource;
    const char *name; /* the end of the key */
    char ns[NAME_LABEL_MAX + 1];
    bool later; /* it waits since its user wanted it */
    bool looks; /* the next request is a GET */
    unsigned rounds;
    bool newer;                             /* than what the last request was about: `version` */
    char version[RESOURCE_VERSION_MAX + 1]; /* "": it was seen without one */
};

struct patcher {
    struct patcher_options options;
    const struct patcher_handlers *handlers;
    void *data;
    struct reconciler *jobs;
    size_t later;
    struct token_bucket tokens;
    uint64_t not_before; /* the server asked for a pause */
    struct patcher_stats stats;
};

static const struct patcher_options *options_of(const struct job *j)
{
    return &((const struct patcher *)j->run.data)->options;
}

static void tell_level(const struct patcher *p, const struct job *j, bool more)
{
    if (p->handlers->on_level != NULL) {
        p->handlers->on_level(p->data, j->resource, more);
    }
}

/* ---- the end of a handling ---- */

static bool is_wanted(void *state, enum work_result result)
{
    const struct job *j = state;
    struct patcher *p = j->run.data;
    p->stats.retries += result == WORK_RETRY;
    return result != WORK_DONE || j->newer;
}

/* A patch names the version that it is for. */
static void start_over(struct job *j)
{
    j->looks = j->version[0] == '\0';
    j->rounds = 0;
}

static void finish(struct job *j, enum patcher_outcome outcome, const struct api_error *error)
{
    const struct patcher *p = j->run.data;
    if (!j->newer) {
        tell_level(p, j, false);
    } else {
        start_over(j);
        reconcile_after(&j->run, 0);
    }
    p->handlers->on_done(p->data, j->resource, j->ns, j->name, outcome, error);
    reconcile_done(&j->run, WORK_DONE, 0);
}

/* All wait for as long as the server wants. */
static void hold_back(struct patcher *p, unsigned seconds)
{
    uint64_t until = net_clock_now(p->options.clock) + (uint64_t)seconds * 1000;
    if (until > p->not_before) {
        p->not_before = until;
    }
}

/* The server, or what is before it, cannot do this now; perhaps not ever for this object. */
static void fail_for_now(struct job *j, const struct api_error *error)
{
    struct patcher *p = j->run.data;
    bool of_object = error->code == 409 || (error->code >= 500 && error->retry_after == 0);
    if (error->code == 429) {
        p->stats.throttled++;
        hold_back(p, error->retry_after > 0 ? error->retry_after : 1);
    } else if (error->retry_after > 0) {
        hold_back(p, error->retry_after);
    }
    if (of_object && work_queue_failures(reconciler_queue(p->jobs), j->run.key) >= FAILURES_MAX) {
        finish(j, PATCHER_REFUSED, error);
    } else {
        start_over(j);
        reconcile_done(&j->run, WORK_RETRY, error->retry_after);
    }
}

static void fail(struct job *j, const struct api_error *error)
{
    unsigned code = error->code;
    if (code == 404) {
        finish(j, PATCHER_GONE, NULL);
    } else if (code == 409 && ++j->rounds < ROUNDS_MAX) {
        j->looks = true;
        reconcile_done(&j->run, WORK_AGAIN, 0);
    } else if (code == 0 || code == 401 || code == 408 || code == 409 || code == 429 ||
               code >= 500) {
        fail_for_now(j, error);
    } else {
        finish(j, PATCHER_REFUSED, error);
    }
}

/* ---- what an object needs ---- */

/* A Namespace belongs to itself. */
static const char *owner(const struct job *j)
{
    return j->ns[0] == '\0' ? j->name : j->ns;
}

static enum patcher_outcome to_be_labelled(const struct job *j, const cJSON *object)
{
    struct labels_plan plan;
    labels_plan_init(&plan, options_of(j)->keys, object, owner(j));
    return plan.state == LABELS_MISSING   ? PATCHER_CHANGED
           : plan.state == LABELS_FOREIGN ? PATCHER_FOREIGN
                                          : PATCHER_NEEDLESS;
}

/* PATCHER_CHANGED: a patch. */
static enum patcher_outcome needs(const struct job *j, const cJSON *object)
{
    const struct patcher_options *o = options_of(j);
    return !o->remove                         ? to_be_labelled(j, object)
           : labels_are_ours(o->keys, object) ? PATCHER_CHANGED
                                              : PATCHER_NEEDLESS;
}

/* The patch is the same whatever the object has: it was seen to need it in that version. */
static cJSON *make_patch(const struct job *j)
{
    const struct patcher_options *o = options_of(j);
    struct labels_plan plan;
    cJSON *patch;
    if (o->remove) {
        patch = labels_removal_patch(o->keys);
    } else {
        labels_plan_init(&plan, o->keys, NULL, owner(j));
        patch = labels_merge_patch(&plan, o->keys);
    }
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(patch, "metadata");
    cJSON_AddStringToObject(metadata, "resourceVersion", j->version);
    return patch;
}

/* ---- requests ---- */

static void take_look(struct job *j, const cJSON *object)
{
    const char *version = object_version(object);
    enum patcher_outcome what = needs(j, object);
    if (what != PATCHER_CHANGED || version == NULL) {
        finish(j, version == NULL ? PATCHER_GONE : what, NULL);
        return;
    }
    memcpy(j->version, version, strlen(version) + 1);
    j->looks = false;
    reconcile_done(&j->run, WORK_FIRST, 0); /* before it changes again */
}

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct job *j = data;
    if (object == NULL) {
        fail(j, error);
    } else if (j->looks) {
        take_look(j, object);
    } else {
        finish(j, needs(j, object) == PATCHER_NEEDLESS ? PATCHER_CHANGED : PATCHER_UNDONE, NULL);
    }
}

static void send_request(struct job *j, const char *path)
{
    struct patcher *p = j->run.data;
    cJSON *patch = j->looks ? NULL : make_patch(j);
    const struct object_request_options q = {
        .verb = j->looks ? OBJECT_REQUEST_GET : OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = j->name,
        .body = patch,
        .field_manager = j->looks ? NULL : "cmesh-manager",
        .metadata_only = true,
    };
    p->stats.looks += j->looks;
    p->stats.patches += !j->looks;
    reconcile_write(&j->run, &q, NULL, on_answer);
    cJSON_Delete(patch);
}

static void begin(void *state)
{
    struct job *j = state;
    struct patcher *p = j->run.data;
    struct buf path = BUF_INIT(PATH_MAX_LEN);
    j->newer = false;
    if (j->later) {
        j->later = false;
        p->later--;
        tell_level(p, j, true);
    }
    if (xrc(p->handlers->path(p->data, j->resource, j->ns, &path)) != 0) {
        finish(j, PATCHER_GONE, NULL);
    } else {
        send_request(j, xptr(buf_cstr(&path)));
    }
    buf_reset(&path);
}

static bool may_write(void *data)
{
    const struct patcher_options *o = &((const struct patcher *)data)->options;
    return o->may_write == NULL || o->may_write(o->may_write_data);
}

/* 0: a request may be sent now. */
static uint64_t wait_for_token(void *data)
{
    struct patcher *p = data;
    uint64_t now = net_clock_now(p->options.clock);
    return now < p->not_before ? p->not_before - now : token_bucket_take(&p->tokens, now);
}

static const struct reconciler_handlers job_handlers = {.reconcile = begin, .done = is_wanted};

bool patcher_add(struct patcher *p, unsigned resource, const char *ns, const char *name,
                 const char *version, uint64_t after_ms)
{
    char key[KEY_MAX];
    int n = snprintf(key, sizeof key, "%u %s %s", resource, ns, name);
    version = version == NULL ? "" : version;
    if (n < 0 || n >= KEY_MAX || strlen(ns) > NAME_LABEL_MAX ||
        strlen(version) > RESOURCE_VERSION_MAX) {
        return false;
    }
    struct job *j = reconciler_find(p->jobs, key);
    if (j != NULL) {
        if (j->run.active) {
            j->newer = true;
            memcpy(j->version, version, strlen(version) + 1);
        }
        return true;
    }
    j = reconciler_provide(p->jobs, key);
    reconciler_look(p->jobs, key, after_ms);
    j->resource = resource;
    j->name = j->run.key + (size_t)n - strlen(name);
    memcpy(j->ns, ns, strlen(ns) + 1);
    memcpy(j->version, version, strlen(version) + 1);
    start_over(j);
    j->later = after_ms > 0;
    p->later += j->later;
    if (!j->later) {
        tell_level(p, j, true);
    }
    return true;
}

/* ---- life ---- */

struct patcher *patcher_new(struct net_loop *l, const struct patcher_options *o,
                            const struct patcher_handlers *handlers, void *data)
{
    struct patcher *p = xcalloc(1, sizeof *p);
    const struct reconciler_options ro = {
        .name = "labels",
        .kind = "object",
        .parallel = o->parallel,
        .state_size = sizeof(struct job),
        .data = p,
        .client = o->client,
        .may_write = may_write,
        .gate = p,
        .wait = wait_for_token,
        .clock = o->clock,
    };
    p->options = *o;
    p->handlers = handlers;
    p->data = data;
    token_bucket_init(&p->tokens, o->qps, o->qps / BURSTS + 1);
    p->jobs = reconciler_new(l, &ro, &job_handlers);
    return p;
}

size_t patcher_level(const struct patcher *p)
{
    return reconciler_count(p->jobs);
}

size_t patcher_later(const struct patcher *p)
{
    return p->later;
}

const struct patcher_stats *patcher_stats(const struct patcher *p)
{
    return &p->stats;
}

void patcher_free(struct patcher *p)
{
    if (p != NULL) {
        reconciler_free(p->jobs);
        free(p);
    }
}
