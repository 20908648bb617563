/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stateful_sets.h - which pods the StatefulSets have that roots spread, each followed by its name.
 *
 * There is a bounded number of places. Who needs to know a StatefulSet takes the place of one that
 * is only looked at.
 */
#ifndef MANAGER_ROOT_STATEFUL_SETS_H
#define MANAGER_ROOT_STATEFUL_SETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

/* A watch is a connection: so many StatefulSets are followed, unless options.max says otherwise;
 * and of one namespace a quarter of them: who makes roots there crowds out no others. */
#define STATEFUL_SETS_MAX 64
#define STATEFUL_SETS_PART 4

struct stateful_sets;

/* All zero: nothing is held. */
struct target_hold {
    struct target_watch *watch;
    bool needed;
};

enum target_state {
    TARGET_ASKED,   /* not answered yet */
    TARGET_FOUND,   /* `replicas` and `first` are what it says */
    TARGET_ABSENT,  /* there is none of that name */
    TARGET_UNKNOWN, /* the API server does not let it be read, or does not answer: `error` */
    TARGET_OVER,    /* too many are followed, of all or of its namespace */
};

struct target {
    enum target_state state;
    int replicas;
    unsigned first;          /* the ordinal of its first pod */
    char error[ERR_MSG_MAX]; /* TARGET_UNKNOWN */
};

struct stateful_sets_options {
    struct kube_client *client;      /* must outlive it */
    size_t max;                      /* that are followed; 0: STATEFUL_SETS_MAX */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    /* Something else is known of that one, "namespace/name". From the loop, never inside a function
     * of this header. */
    void (*on_change)(void *data, const char *key);
    void *data;
};

MUST_CHECK struct stateful_sets *stateful_sets_new(struct net_loop *l,
                                                   const struct stateful_sets_options *o);

/* What is known of that one, which is followed from now on, if there is room, in place of what was
 * held. Several may hold the same. `needed`: something depends on it. */
struct target stateful_sets_hold(struct stateful_sets *t, struct target_hold *h, const char *ns,
                                 const char *name, bool needed);
/* Nothing is held any more. */
void stateful_sets_leave(struct stateful_sets *t, struct target_hold *h);

/* Nothing is held. NULL is ignored. */
void stateful_sets_free(struct stateful_sets *t);

#endif
