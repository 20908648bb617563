/* SPDX-License-Identifier: Apache-2.0 */
#include "label/patcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/state_machine.h"
#include "base/token_bucket.h"
#include "kube/client/object_request.h"
#include "kube/client/watch_event.h"
#include "label/object_set.h"
#include "net/work_queue.h"

enum {
    OBJECT_MAX = 1536, /* more than two names and a number can be */
    KEY_MAX = OBJECT_MAX + RESOURCE_VERSION_MAX + 2,
    PATH_MAX_LEN = 2048,
    ROUNDS_MAX = 5,   /* patches of an object that changes all the time, before a pause */
    FAILURES_MAX = 6, /* attempts, pauses of 0.2 to 6.4 s between them */
    BURSTS = 10,      /* a second */
};

#define FIELD_MANAGER "cmesh-manager"

/*
 *   IDLE -- a key --> TO_PATCH -- a token --> PATCHING --> IDLE: done, refused, or again later
 *                       ^                        |
 *                       |                        | 409: it was changed meanwhile
 *                    LOOKING <-- a token -- TO_LOOK
 */
enum job_state { JOB_IDLE, JOB_TO_PATCH, JOB_PATCHING, JOB_TO_LOOK, JOB_LOOKING };

static const struct state_machine job_states = {
    .object = "labelling",
    .states = {[JOB_IDLE] = {"Idle", STATE(JOB_TO_PATCH)},
               [JOB_TO_PATCH] = {"ToPatch", STATE(JOB_PATCHING) | STATE(JOB_IDLE)},
               [JOB_PATCHING] = {"Patching", STATE(JOB_TO_LOOK) | STATE(JOB_IDLE)},
               [JOB_TO_LOOK] = {"ToLook", STATE(JOB_LOOKING) | STATE(JOB_IDLE)},
               [JOB_LOOKING] = {"Looking",
                                STATE(JOB_TO_PATCH) | STATE(JOB_TO_LOOK) | STATE(JOB_IDLE)}},
};

struct job {
    struct patcher *patcher;
    enum job_state state;
    struct list link;               /* TO_PATCH, TO_LOOK: in patcher.ready */
    const char *key;                /* NULL: IDLE */
    struct object_request *request; /* PATCHING, LOOKING */
    unsigned rounds;
    unsigned resource;
    char *text; /* that these point into */
    const char *ns;
    const char *name;
    char version[RESOURCE_VERSION_MAX + 1];
    char newer[RESOURCE_VERSION_MAX + 1]; /* seen meanwhile; "": none */
};

struct patcher {
    struct net_loop *loop;
    struct patcher_options options;
    const struct patcher_handlers *handlers;
    void *data;
    struct work_queue *queue;
    struct object_set known; /* those in the queue, and */
    struct object_set later; /* of them those that are to wait */
    struct token_bucket tokens;
    struct net_timer *timer; /* set while jobs wait for a token */
    uint64_t not_before;     /* the server asked for a pause */
    struct list ready;
    struct patcher_stats stats;
    struct job jobs[]; /* options.parallel */
};

static void send_ready(struct patcher *p);

/* ---- keys: "RESOURCE NAMESPACE NAME VERSION", of which the first three name the object ---- */

/* False: longer than names can be. */
static bool write_object(char out[OBJECT_MAX], unsigned resource, const char *ns, const char *name)
{
    int n = snprintf(out, OBJECT_MAX, "%u %s %s", resource, ns, name);
    return n >= 0 && n < OBJECT_MAX;
}

static struct job *find_job(struct patcher *p, unsigned resource, const char *ns, const char *name)
{
    for (unsigned i = 0; i < p->options.parallel; i++) {
        struct job *j = &p->jobs[i];
        if (j->text != NULL && j->resource == resource && strcmp(j->ns, ns) == 0 &&
            strcmp(j->name, name) == 0) {
            return j;
        }
    }
    return NULL;
}

static int enqueue(struct patcher *p, const char *object, const char *version, uint64_t after_ms)
{
    char key[KEY_MAX];
    int n = snprintf(key, sizeof key, "%s %s", object, version);
    if (n < 0 || n >= KEY_MAX) {
        return -ENOMEM;
    }
    if (after_ms == 0) {
        return work_queue_add(p->queue, key);
    }
    int rc = object_set_add(&p->later, "", object);
    rc = rc < 0 ? rc : work_queue_add_after(p->queue, key, after_ms);
    if (rc != 0) {
        (void)object_set_remove(&p->later, "", object);
    }
    return rc;
}

static void tell_level(const struct patcher *p, unsigned resource, bool more)
{
    if (p->handlers->on_level != NULL) {
        p->handlers->on_level(p->data, resource, more);
    }
}

int patcher_add(struct patcher *p, unsigned resource, const char *ns, const char *name,
                const char *version, uint64_t after_ms)
{
    char object[OBJECT_MAX];
    if (strlen(version) > RESOURCE_VERSION_MAX || !write_object(object, resource, ns, name)) {
        return -ENOMEM;
    }
    int rc = object_set_add(&p->known, "", object);
    struct job *j = rc == 0 ? find_job(p, resource, ns, name) : NULL;
    if (rc != 1) {
        if (j != NULL) {
            memcpy(j->newer, version, strlen(version) + 1);
        }
        return rc;
    }
    rc = enqueue(p, object, version, after_ms);
    if (rc != 0) {
        (void)object_set_remove(&p->known, "", object);
    } else if (after_ms == 0) {
        tell_level(p, resource, true);
    }
    return rc;
}

static void set_state(struct job *j, enum job_state state)
{
    j->state = state_change(&job_states, j->state, state, slice_str(j->key));
}

/* ---- the end of a job ---- */

static const char *release_job(struct job *j, char **text)
{
    const char *key = j->key;
    set_state(j, JOB_IDLE);
    *text = j->text;
    j->key = NULL;
    j->text = NULL;
    return key;
}

static void finish_job(struct job *j, enum patcher_outcome outcome, const struct api_error *error)
{
    static const struct api_error no_memory = {.msg = "out of memory"};
    struct patcher *p = j->patcher;
    const struct job done = *j;
    char object[OBJECT_MAX];
    char *text;
    if (write_object(object, done.resource, done.ns, done.name)) {
        (void)object_set_remove(&p->known, "", object);
    }
    work_queue_done(p->queue, release_job(j, &text), WORK_DONE, 0);
    tell_level(p, done.resource, false);
    if (done.newer[0] != '\0' &&
        patcher_add(p, done.resource, done.ns, done.name, done.newer, 0) != 0) {
        outcome = PATCHER_REFUSED;
        error = &no_memory;
    }
    p->handlers->on_done(p->data, done.resource, done.ns, done.name, outcome, error);
    free(text);
}

static void put_off(struct job *j, unsigned retry_after)
{
    struct patcher *p = j->patcher;
    char *text;
    p->stats.retries++;
    work_queue_done(p->queue, release_job(j, &text), WORK_RETRY, retry_after);
    free(text);
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
    struct patcher *p = j->patcher;
    bool of_object = error->code == 409 || (error->code >= 500 && error->retry_after == 0);
    if (error->code == 429) {
        p->stats.throttled++;
        hold_back(p, error->retry_after > 0 ? error->retry_after : 1);
    } else if (error->retry_after > 0) {
        hold_back(p, error->retry_after);
    }
    if (of_object && work_queue_failures(p->queue, j->key) >= FAILURES_MAX) {
        finish_job(j, PATCHER_REFUSED, error);
    } else {
        put_off(j, error->retry_after);
    }
}

static void make_ready(struct job *j, enum job_state state)
{
    set_state(j, state);
    list_append(&j->patcher->ready, &j->link);
    send_ready(j->patcher);
}

static void request_failed(struct job *j, const struct api_error *error)
{
    unsigned code = error->code;
    if (code == 404) {
        finish_job(j, PATCHER_GONE, NULL);
    } else if (code == 409 && ++j->rounds < ROUNDS_MAX) {
        make_ready(j, JOB_TO_LOOK);
    } else if (code == 0 || code == 401 || code == 408 || code == 409 || code == 429 ||
               code >= 500) {
        fail_for_now(j, error);
    } else {
        finish_job(j, PATCHER_REFUSED, error);
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
    labels_plan_init(&plan, j->patcher->options.keys, object, owner(j));
    return plan.state == LABELS_MISSING   ? PATCHER_CHANGED
           : plan.state == LABELS_FOREIGN ? PATCHER_FOREIGN
                                          : PATCHER_NEEDLESS;
}

/* PATCHER_CHANGED: a patch. */
static enum patcher_outcome needs(const struct job *j, const cJSON *object)
{
    const struct patcher_options *o = &j->patcher->options;
    return !o->remove                         ? to_be_labelled(j, object)
           : labels_are_ours(o->keys, object) ? PATCHER_CHANGED
                                              : PATCHER_NEEDLESS;
}

/* The patch is the same whatever the object has: it was seen to need it in that version. */
static cJSON *make_patch(const struct job *j)
{
    const struct patcher_options *o = &j->patcher->options;
    struct labels_plan plan;
    cJSON *patch;
    if (o->remove) {
        patch = labels_removal_patch(o->keys);
    } else {
        labels_plan_init(&plan, o->keys, NULL, owner(j));
        patch = labels_merge_patch(&plan, o->keys);
    }
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(patch, "metadata");
    if (cJSON_AddStringToObject(metadata, "resourceVersion", j->version) == NULL) {
        cJSON_Delete(patch);
        return NULL;
    }
    return patch;
}

/* ---- requests ---- */

static void take_look(struct job *j, const cJSON *object)
{
    const char *version = object_version(object);
    enum patcher_outcome what = needs(j, object);
    if (what != PATCHER_CHANGED || version == NULL) {
        finish_job(j, version == NULL ? PATCHER_GONE : what, NULL);
        return;
    }
    memcpy(j->version, version, strlen(version) + 1);
    make_ready(j, JOB_TO_PATCH);
}

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct job *j = data;
    struct patcher *p = j->patcher;
    j->request = NULL;
    if (object == NULL) {
        request_failed(j, error);
    } else if (j->state == JOB_LOOKING) {
        take_look(j, object);
    } else {
        finish_job(j, needs(j, object) == PATCHER_NEEDLESS ? PATCHER_CHANGED : PATCHER_UNDONE,
                   NULL);
    }
    send_ready(p);
}

static int send_request(struct job *j, const char *path, const cJSON *patch, struct err *e)
{
    struct patcher *p = j->patcher;
    bool look = j->state == JOB_TO_LOOK;
    const struct object_request_options q = {
        .verb = look ? OBJECT_REQUEST_GET : OBJECT_REQUEST_MERGE_PATCH,
        .path = path,
        .name = j->name,
        .body = patch,
        .field_manager = look ? NULL : FIELD_MANAGER,
        .metadata_only = true,
    };
    j->request = object_request_start(p->loop, p->options.client, &q, on_answer, j, e);
    if (j->request == NULL) {
        return e->code;
    }
    set_state(j, look ? JOB_LOOKING : JOB_PATCHING);
    p->stats.looks += look;
    p->stats.patches += !look;
    return 0;
}

static int start_job(struct job *j, const char *path, struct err *e)
{
    const struct patcher_options *o = &j->patcher->options;
    cJSON *patch = NULL;
    bool look = j->state == JOB_TO_LOOK;
    if (!look && o->may_write != NULL && !o->may_write(o->may_write_data)) {
        return -EAGAIN;
    }
    if (!look && (patch = make_patch(j)) == NULL) {
        return err_memory(e);
    }
    int rc = send_request(j, path, patch, e);
    cJSON_Delete(patch);
    return rc;
}

static void dispatch(struct job *j)
{
    struct patcher *p = j->patcher;
    struct buf path = BUF_INIT(PATH_MAX_LEN);
    struct err e = ERR_INIT;
    int rc = p->handlers->path(p->data, j->resource, j->ns, &path);
    if (rc == 0) {
        const char *text = buf_cstr(&path);
        rc = text == NULL ? -ENOMEM : start_job(j, text, &e);
    }
    buf_reset(&path);
    if (rc == -ENOENT) {
        finish_job(j, PATCHER_GONE, NULL);
    } else if (rc == -ENOMEM || rc == -EAGAIN) {
        put_off(j, 0);
    } else if (rc != 0) {
        struct api_error error = {0};
        (void)snprintf(error.msg, sizeof error.msg, "%s", e.msg);
        finish_job(j, PATCHER_REFUSED, &error);
    }
}

/* 0: a request may be sent now. */
static uint64_t wait_for_token(struct patcher *p)
{
    uint64_t now = net_clock_now(p->options.clock);
    return now < p->not_before ? p->not_before - now : token_bucket_take(&p->tokens, now);
}

static void send_ready(struct patcher *p)
{
    while (!list_empty(&p->ready)) {
        uint64_t wait = wait_for_token(p);
        if (wait > 0) {
            net_clock_set_timer(p->options.clock, p->timer, wait);
            return;
        }
        struct job *j = LIST_ITEM(p->ready.next, struct job, link);
        list_remove(&j->link);
        dispatch(j);
    }
}

static void on_timer(void *data)
{
    send_ready(data);
}

/* ---- what the queue hands out ---- */

static char *cut_word(char **rest)
{
    char *part = *rest;
    char *space = strchr(part, ' ');
    if (space != NULL) {
        *space = '\0';
        *rest = space + 1;
    }
    return part;
}

static void split_key(struct job *j)
{
    char *rest = j->text;
    j->resource = (unsigned)strtoul(cut_word(&rest), NULL, 10);
    j->ns = cut_word(&rest);
    j->name = cut_word(&rest);
    (void)snprintf(j->version, sizeof j->version, "%s", rest);
}

/* It need not wait any more. */
static void forget_pause(const struct job *j)
{
    char object[OBJECT_MAX];
    if (j->patcher->later.count > 0 && write_object(object, j->resource, j->ns, j->name) &&
        object_set_remove(&j->patcher->later, "", object)) {
        tell_level(j->patcher, j->resource, true);
    }
}

static void on_key(void *data, const char *key)
{
    struct patcher *p = data;
    struct job *j = p->jobs;
    while (j->state != JOB_IDLE) { /* the queue hands out no more than there are */
        j++;
    }
    char *text = strdup(key);
    if (text == NULL) {
        p->stats.retries++;
        work_queue_done(p->queue, key, WORK_RETRY, 0);
        return;
    }
    j->key = key;
    j->rounds = 0;
    j->newer[0] = '\0';
    j->text = text;
    split_key(j);
    forget_pause(j);
    make_ready(j, JOB_TO_PATCH);
}

/* ---- life ---- */

struct patcher *patcher_new(struct net_loop *l, const struct patcher_options *o,
                            const struct patcher_handlers *handlers, void *data, struct err *e)
{
    const struct work_queue_options qo = {
        .name = "labels", .parallel = o->parallel, .clock = o->clock};
    struct patcher *p = calloc(1, sizeof *p + o->parallel * sizeof p->jobs[0]);
    if (p == NULL) {
        goto fail;
    }
    p->loop = l;
    p->options = *o;
    p->handlers = handlers;
    p->data = data;
    list_init(&p->ready);
    token_bucket_init(&p->tokens, o->qps, o->qps / BURSTS + 1);
    for (unsigned i = 0; i < o->parallel; i++) {
        p->jobs[i].patcher = p;
        list_init(&p->jobs[i].link);
    }
    p->queue = work_queue_new(l, &qo, on_key, p, e);
    p->timer = net_timer_new(l, on_timer, p);
    if (p->queue != NULL && p->timer != NULL) {
        return p;
    }
fail:
    patcher_free(p);
    err_memory(e);
    return NULL;
}

size_t patcher_level(const struct patcher *p)
{
    struct work_queue_stats s = work_queue_stats(p->queue);
    return s.depth + s.active + s.waiting;
}

size_t patcher_later(const struct patcher *p)
{
    return p->later.count;
}

const struct patcher_stats *patcher_stats(const struct patcher *p)
{
    return &p->stats;
}

void patcher_free(struct patcher *p)
{
    if (p == NULL) {
        return;
    }
    for (unsigned i = 0; i < p->options.parallel; i++) {
        object_request_cancel(p->jobs[i].request);
        free(p->jobs[i].text);
    }
    work_queue_free(p->queue);
    object_set_clear(&p->known);
    object_set_clear(&p->later);
    net_timer_free(p->timer);
    free(p);
}
