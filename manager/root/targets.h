/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - the StatefulSets and Deployments whose pods roots spread, each watched by its name.
 *
 * The number of watches is bounded. A root that needs to know its target takes the place of one
 * that is only looked at.
 */
#ifndef MANAGER_ROOT_TARGETS_H
#define MANAGER_ROOT_TARGETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

/* A watch is a connection: so many targets are followed, unless options.max says otherwise;
 * and of one namespace a quarter of them: who makes roots there crowds out no others. */
#define TARGETS_MAX 64
#define TARGETS_PART 4

struct targets;

/* All zero: nothing is held. */
struct target_hold {
    struct target_watch *watch;
    bool needed;
};

enum target_state {
    TARGET_ASKED,   /* not answered yet */
    TARGET_FOUND,   /* `replicas` and what follows are what it says */
    TARGET_ABSENT,  /* there is none of that name */
    TARGET_UNKNOWN, /* the API server does not let it be read, or does not answer: `error` */
    TARGET_OVER,    /* too many are followed, of all or of its namespace */
};

struct target {
    enum target_state state;
    int replicas;
    unsigned first; /* the ordinal of the first pod of a StatefulSet */
    /* Of a Deployment. */
    bool rolled;    /* its controller has seen the spec, and there are as many pods as it says, all
                       of the present template, */
    bool available; /* and available */
    char error[ERR_MSG_MAX]; /* TARGET_UNKNOWN */
};

struct target_name {
    const char *name;
    bool deployment;
};

struct targets_options {
    struct kube_client *client;      /* must outlive it */
    size_t max;                      /* that are followed; 0: TARGETS_MAX */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    /* Something else is known of one in that namespace. From the loop, never inside a function of
     * this header. */
    void (*on_change)(void *data, const char *ns);
    void *data;
};

MUST_CHECK struct targets *targets_new(struct net_loop *l, const struct targets_options *o);

/* What is known of the StatefulSet, or `deployment`, of that name, which is followed from now on,
 * if there is room, in place of what was held. Several may hold the same. `needed`: something
 * depends on it. */
struct target targets_hold(struct targets *t, struct target_hold *h, const char *ns,
                           const struct target_name *name, bool needed);
/* Nothing is held any more. */
void targets_leave(struct targets *t, struct target_hold *h);

/* Nothing is held. NULL is ignored. */
void targets_free(struct targets *t);

#endif
