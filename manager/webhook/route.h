/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.h - what is decided about at a path, and in which steps.
 *
 *     begin (the loop) --> prepare (any thread) --> decide (the loop) --> finish (any thread)
 *
 * A large review is read, prepared, finished and answered in a thread, so that whoever sends it
 * holds up neither the Lease nor anybody else. What needs what the loop knows is decided there, in
 * little time. Any step may be missing; the first that does not return 0 is the last.
 */
#ifndef MANAGER_WEBHOOK_ROUTE_H
#define MANAGER_WEBHOOK_ROUTE_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "object/admission_review.h"
#include "object/warnings.h"

#define WEBHOOK_PATH_PODS "/mutate/pods"
#define WEBHOOK_PATH_NAMESPACES "/mutate/namespaces"
#define WEBHOOK_PATH_RESOURCES "/mutate/resources"
#define WEBHOOK_PATH_CONFIGS "/validate/shardingconfigs"
#define WEBHOOK_PATH_POLICIES "/validate/trafficpolicies"

/* What was decided; empty before the first step. */
struct webhook_decision {
    cJSON *patch;               /* freed by the server; NULL: nothing is changed */
    struct warnings warnings;   /* for the user */
    char withheld[ERR_MSG_MAX]; /* of a refusal, what is for the log alone; "" for nothing */
    void *state;                /* from one step to the next */
};

/* 0: goes on, and allowed if it is the last step; -EINVAL, -E2BIG, -ENOENT or -EEXIST: refused, `e`
 * says why; anything else (-EAGAIN: it is not known yet): no decision, with the reason in `e`. May
 * not block. */
typedef int (*webhook_decide_cb)(void *data, const struct admission_request *r,
                                 struct webhook_decision *d, struct err *e);

/* The same from any thread: uses of `data` only what never changes. */
typedef int (*webhook_step_cb)(const void *data, const struct admission_request *r,
                               struct webhook_decision *d, struct err *e);

/* Puts into d->state what `prepare` needs of what the loop knows: a copy, if that runs in another
 * `thread`. */
typedef void (*webhook_begin_cb)(const void *data, bool thread, struct webhook_decision *d);

struct webhook_route {
    const char *path; /* one of WEBHOOK_PATH_*, or another */
    const char *name; /* in metrics and in the log: "pods" */
    webhook_begin_cb begin;
    webhook_decide_cb decide;
    webhook_step_cb prepare;
    webhook_step_cb finish;
    void (*forget)(void *state); /* any thread; NULL is not given to it */
    enum admission_parts parts;  /* of the objects that are needed */
    size_t inline_max;           /* bytes of a review that needs no thread; 0: 64 KiB */
};

#endif
