/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconciler.h - what each controller of this manager needs: a queue of keys, a state for each of
 * them, and writes that only the leader sends.
 *
 *     struct shard { struct reconcile run; ... };    begins with it
 *
 *     reconciler_look(r, "namespace/name", 0);       something about that object has changed
 *     -> handlers.reconcile(state)                   looks at what there is, and either
 *          -> reconcile_write(&s->run, ...) -> next  one request at a time, or
 *          -> reconcile_done(&s->run, ...)           ends it; the key may come again
 *
 * As in controller-runtime, a handler that needs to know more than the key looks it up.
 */
#ifndef MANAGER_RUNTIME_RECONCILER_H
#define MANAGER_RUNTIME_RECONCILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "kube/client/object_request.h"
#include "net/work_queue.h"

/* What the answer to a write told is believed for so long, until the cache shows it: ms. */
#define RECONCILE_BELIEF_MS 10000

struct reconciler;

enum reconcile_result {
    RECONCILE_WRITTEN,
    RECONCILE_CONFLICT, /* 404, 409: somebody else was faster, or it is gone; tried again */
    RECONCILE_FAILED,
    RECONCILE_RESULTS,
};

/* The beginning of the state of a key, all else of which is zero at first. Users read the first
 * two. */
struct reconcile {
    const char *key;
    void *data; /* of the options */
    struct reconciler *reconciler;
    struct table_node node;
    bool active;                    /* from handlers.reconcile to reconcile_done */
    struct object_request *request; /* under way; NULL: none */
    object_request_cb next;
    uint64_t *counts;
    bool over;    /* the request writes over `base` */
    bool written; /* and the last such one did */
    uint64_t base;
    uint64_t written_at;
};

/* From the loop; none may free the reconciler. `state` begins with a struct reconcile. */
struct reconciler_handlers {
    void (*begin)(void *state); /* a new one; NULL: nothing is to be done */
    void (*reconcile)(void *state);
    /* Right before the end of each handling. False: the object is gone: the state is freed, and
     * nothing is tried again. NULL: nothing is remembered from one handling to the next. */
    bool (*done)(void *state, enum work_result result);
    void (*drop)(void *state); /* frees what the state has, not itself; NULL: it has nothing */
};

struct reconciler_options {
    const char *name;            /* of the queue in metrics; kept, as are all texts here */
    const char *kind;            /* what a key is, in logs */
    unsigned parallel;           /* as in work_queue_options, */
    unsigned namespace_parallel; /* likewise: of keys that are the same up to the first slash */
    size_t state_size;
    void *data;
    struct kube_client *client; /* must outlive it */
    /* Whether this process leads at this very moment: asked right before each write. */
    bool (*may_write)(void *gate);
    void *gate;
    uint64_t (*wait)(void *data);  /* as in work_queue_options; NULL: at any time */
    const struct net_clock *clock; /* NULL: the system's */
};

/* Never NULL. */
MUST_CHECK struct reconciler *reconciler_new(struct net_loop *l, const struct reconciler_options *o,
                                             const struct reconciler_handlers *handlers);
/* Queues the key, to be handled soon or after so many ms. */
void reconciler_look(struct reconciler *r, const char *key, uint64_t ms);
/* The state of a key. NULL: there is none. */
void *reconciler_find(const struct reconciler *r, const char *key);
/* The same, or a new one. */
void *reconciler_provide(struct reconciler *r, const char *key) __attribute__((returns_nonnull));
/* Frees the state of a key, unless that is being handled. */
void reconciler_forget(struct reconciler *r, const char *key);
/* One state after the other, as table_next does. */
void *reconciler_next(const struct reconciler *r, const void *state);
size_t reconciler_count(const struct reconciler *r);
struct work_queue *reconciler_queue(const struct reconciler *r);
/* At once: what was sent may be done all the same. NULL is ignored. */
void reconciler_free(struct reconciler *r);

/* ---- for a key that is being handled ---- */

/* Nothing may be done with the state afterwards. */
void reconcile_done(struct reconcile *s, enum work_result result, unsigned retry_after);
/* The key is handled again after so many ms at the latest. */
void reconcile_after(const struct reconcile *s, uint64_t ms);
/* Sends a request, whose `next` has the state as its data. If this process does not lead, or it
 * cannot be sent now, the handling is done, and tried again. One that can never be sent, for its
 * name, is answered at once with 400. `counts`: RECONCILE_RESULTS of this purpose; NULL: not
 * counted. */
void reconcile_write(struct reconcile *s, const struct object_request_options *q, uint64_t *counts,
                     object_request_cb next);
/* Ends the handling after a failure of a request, which `what` tells in the log, unless the object
 * has changed or is gone. */
void reconcile_failed(struct reconcile *s, const struct api_error *error, const char *what);

/* ---- writes of what was made of a version of the object ---- */

/* The next write is over this version. Once that has succeeded the key is handled again when it is
 * not believed any more, at the latest. */
void reconcile_over(struct reconcile *s, const char *uid, const char *version);
/* Whether this is the version that was written over, so that the cache is behind. */
bool reconcile_unseen(const struct reconcile *s, const char *uid, const char *version);
/* The same, or that the last write over one is less than so many ms ago: then the key is handled
 * again when neither is so. */
bool reconcile_too_early(struct reconcile *s, const char *uid, const char *version,
                         uint64_t apart_ms);

/* A status over the version of its object (object/preconditions.h). */
struct reconcile_status {
    char *path; /* of the collection; is freed */
    const char *name;
    const char *uid;
    const char *version;
    const cJSON *old; /* NULL: there was none */
    const cJSON *status;
    const char *field_manager;
    uint64_t *counts;
    object_request_cb next;
};
void reconcile_status(struct reconcile *s, const struct reconcile_status *w);

#endif
