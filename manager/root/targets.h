/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - which pods the StatefulSets have that roots spread, each followed by its name.
 */
#ifndef MANAGER_ROOT_TARGETS_H
#define MANAGER_ROOT_TARGETS_H

#include <stddef.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

/* A watch is a connection: so many StatefulSets are followed, unless options.max says otherwise;
 * and of one namespace a quarter of them: who makes roots there crowds out no others. */
#define TARGETS_MAX 64
#define TARGETS_PART 4

struct targets;
struct target_watch;

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

struct targets_options {
    struct kube_client *client;      /* must outlive it */
    size_t max;                      /* that are followed; 0: TARGETS_MAX */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    /* Something else is known of that one, "namespace/name". From the loop, never inside a function
     * of this header. */
    void (*on_change)(void *data, const char *key);
    void *data;
};

/* NULL without memory. */
MUST_CHECK struct targets *targets_new(struct net_loop *l, const struct targets_options *o);

/* What is known of that one, which is followed from now on in place of what *held was; NULL:
 * nothing is held yet. Several may hold the same. */
struct target targets_hold(struct targets *t, struct target_watch **held, const char *ns,
                           const char *name);
/* Nothing is held any more. */
void targets_leave(struct targets *t, struct target_watch **held);

/* Nothing is held. NULL is ignored. */
void targets_free(struct targets *t);

#endif
