/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/reconciler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "object/preconditions.h"

struct reconciler {
    struct net_loop *loop;
    struct reconciler_options o;
    const struct reconciler_handlers *handlers;
    struct work_queue *queue;
    struct table states;
};

/* ---- states ---- */

static struct reconcile *state_of(struct table_node *n)
{
    return n == NULL ? NULL : LIST_ITEM(n, struct reconcile, node);
}

void *reconciler_find(const struct reconciler *r, const char *key)
{
    return state_of(table_find(&r->states, key));
}

void *reconciler_next(const struct reconciler *r, const void *state)
{
    const struct reconcile *s = state;
    return state_of(table_next(&r->states, s == NULL ? NULL : &s->node));
}

size_t reconciler_count(const struct reconciler *r)
{
    return r->states.count;
}

void *reconciler_provide(struct reconciler *r, const char *key)
{
    struct reconcile *s = reconciler_find(r, key);
    size_t size = strlen(key) + 1;
    if (s != NULL) {
        return s;
    }
    s = xcalloc(1, r->o.state_size + size);
    s->key = memcpy((char *)s + r->o.state_size, key, size);
    s->data = r->o.data;
    s->reconciler = r;
    xok(table_insert(&r->states, &s->node, s->key));
    if (r->handlers->begin != NULL) {
        r->handlers->begin(s);
    }
    return s;
}

static void drop(struct reconcile *s)
{
    const struct reconciler_handlers *h = s->reconciler->handlers;
    table_remove(&s->reconciler->states, &s->node);
    object_request_cancel(s->request);
    if (h->drop != NULL) {
        h->drop(s);
    }
    free(s);
}

void reconciler_forget(struct reconciler *r, const char *key)
{
    struct reconcile *s = reconciler_find(r, key);
    if (s != NULL && !s->active) {
        drop(s);
    }
}

/* ---- the queue ---- */

void reconciler_look(struct reconciler *r, const char *key, uint64_t ms)
{
    work_queue_add_after(r->queue, key, ms);
}

static void on_work(void *data, const char *key)
{
    struct reconciler *r = data;
    struct reconcile *s = reconciler_provide(r, key);
    s->active = true;
    r->handlers->reconcile(s);
}

static uint64_t wait(void *data)
{
    const struct reconciler *r = data;
    return r->o.wait(r->o.data);
}

void reconcile_done(struct reconcile *s, enum work_result result, unsigned retry_after)
{
    struct reconciler *r = s->reconciler;
    bool remembers = r->handlers->done != NULL;
    bool gone = remembers && !r->handlers->done(s, result);
    s->active = false;
    work_queue_done(r->queue, s->key, gone ? WORK_DONE : result, retry_after);
    if (gone || !remembers) {
        drop(s);
    }
}

void reconcile_after(const struct reconcile *s, uint64_t ms)
{
    work_queue_add_after(s->reconciler->queue, s->key, ms);
}

/* ---- requests ---- */

static void end_request(struct reconcile *s, bool written)
{
    s->request = NULL;
    s->written = s->over ? written : s->written;
    s->over = false;
}

/* What became of a write: `error` NULL: it succeeded. */
static void count_result(uint64_t *counts, const struct api_error *error)
{
    enum reconcile_result result = RECONCILE_WRITTEN;
    if (error != NULL) {
        bool conflict = error->code == 404 || error->code == 409;
        result = conflict ? RECONCILE_CONFLICT : RECONCILE_FAILED;
    }
    counts[result]++;
}

static void on_answer(void *data, const cJSON *object, const struct api_error *error)
{
    struct reconcile *s = data;
    if (s->counts != NULL) {
        count_result(s->counts, error);
    }
    if (s->over && object != NULL) {
        reconcile_after(s, RECONCILE_BELIEF_MS + 1);
    }
    end_request(s, object != NULL);
    s->next(s, object, error);
}

void reconcile_write(struct reconcile *s, const struct object_request_options *q, uint64_t *counts,
                     object_request_cb next)
{
    const struct reconciler *r = s->reconciler;
    struct err e = ERR_INIT;
    bool reads = q->verb == OBJECT_REQUEST_GET;
    s->counts = counts;
    s->next = next;
    if (reads || r->o.may_write(r->o.gate)) {
        s->request = object_request_start(r->loop, r->o.client, q, on_answer, s, &e);
    }
    if (s->request != NULL) {
        return;
    }
    end_request(s, false);
    if (e.code == -EINVAL) {
        struct api_error never = {.code = 400, .level = LOG_WARN};
        (void)snprintf(never.msg, sizeof never.msg, "%s", e.msg);
        next(s, NULL, &never);
        return;
    }
    if (e.code != 0) {
        log_at(kube_client_failure_level(r->o.client, 0), "request to the API server failed",
               log_str(r->o.kind, s->key), log_str("error", e.msg));
    }
    reconcile_done(s, WORK_RETRY, 0);
}

void reconcile_failed(struct reconcile *s, const struct api_error *error, const char *what)
{
    if (error->code != 404 && error->code != 409) {
        log_at(error->level, what, log_str(s->reconciler->o.kind, s->key),
               log_str("error", error->msg));
    }
    reconcile_done(s, WORK_RETRY, error->retry_after);
}

/* ---- writes over a version ---- */

static uint64_t hash_of(const char *uid, const char *version)
{
    return keyed_hash(keyed_hash(0, slice_str(uid)), slice_str(version));
}

void reconcile_over(struct reconcile *s, const char *uid, const char *version)
{
    s->over = true;
    s->base = hash_of(uid, version);
    s->written_at = net_clock_now(s->reconciler->o.clock);
}

static uint64_t pause_of(const struct reconcile *s, const char *uid, const char *version,
                         uint64_t apart_ms)
{
    uint64_t passed = net_clock_now(s->reconciler->o.clock) - s->written_at;
    uint64_t pause = s->base == hash_of(uid, version) ? RECONCILE_BELIEF_MS : apart_ms;
    return s->written && passed < pause ? pause - passed : 0;
}

bool reconcile_unseen(const struct reconcile *s, const char *uid, const char *version)
{
    return pause_of(s, uid, version, 0) > 0;
}

bool reconcile_too_early(struct reconcile *s, const char *uid, const char *version,
                         uint64_t apart_ms)
{
    uint64_t pause = pause_of(s, uid, version, apart_ms);
    if (pause > 0) {
        reconcile_after(s, pause);
    }
    return pause > 0;
}

void reconcile_status(struct reconcile *s, const struct reconcile_status *w)
{
    cJSON *body = preconditions_status(w->uid, w->version, w->old, w->status);
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_MERGE_PATCH,
        .path = w->path,
        .name = w->name,
        .subresource = "status",
        .body = body,
        .field_manager = w->field_manager,
        .metadata_only = true,
    };
    char *path = w->path;
    reconcile_over(s, w->uid, w->version);
    reconcile_write(s, &q, w->counts, w->next);
    cJSON_Delete(body);
    free(path);
}

/* ---- life ---- */

struct reconciler *reconciler_new(struct net_loop *l, const struct reconciler_options *o,
                                  const struct reconciler_handlers *handlers)
{
    struct reconciler *r = xcalloc(1, sizeof *r);
    const struct work_queue_options queue = {
        .name = o->name,
        .parallel = o->parallel,
        .namespace_parallel = o->namespace_parallel,
        .wait = o->wait == NULL ? NULL : wait,
        .clock = o->clock,
    };
    r->loop = l;
    r->o = *o;
    r->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    r->handlers = handlers;
    r->queue = work_queue_new(l, &queue, on_work, r);
    return r;
}

struct work_queue *reconciler_queue(const struct reconciler *r)
{
    return r->queue;
}

void reconciler_free(struct reconciler *r)
{
    if (r == NULL) {
        return;
    }
    work_queue_free(r->queue);
    for (struct reconcile *s = NULL; (s = reconciler_next(r, NULL)) != NULL;) {
        drop(s);
    }
    table_deinit(&r->states);
    free(r);
}
