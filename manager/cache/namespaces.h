/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespaces.h - the namespaces, followed at the API server: those whose objects get control
 * labels, or those that a selector selects; with their labels, if these are asked for.
 */
#ifndef MANAGER_CACHE_NAMESPACES_H
#define MANAGER_CACHE_NAMESPACES_H

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "compile/namespace_set.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

struct namespaces;

struct namespaces_options {
    struct kube_client *client; /* must outlive it */
    const char *own;            /* the manager's, left out as system namespaces are; NULL: none */
    bool system;                /* none is left out */
    bool labels;                /* are kept, too */
    const char *label_selector; /* NULL: all; copied */
    const char *effect;         /* what happens without them, for the log; kept */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    /* There is another one, or one less, or all are known now. From the loop; may not free. NULL:
     * nobody is told. */
    void (*on_change)(void *data);
    void *data;
};

/* One of those who are told in detail; its owner's, who removes it before either goes. */
struct namespaces_listener {
    struct list link;
    /* One is other than before; `before` NULL: it is new; `after` NULL: it is gone; both: all are
     * known now, for the first time. From the loop; may not free, nor change who listens. */
    void (*on_change)(void *data, const struct namespace_entry *before,
                      const struct namespace_entry *after);
    void *data;
};

MUST_CHECK struct namespaces *namespaces_new(struct net_loop *l,
                                             const struct namespaces_options *o);
void namespaces_listen(struct namespaces *n, struct namespaces_listener *listener);
/* One that does not listen is ignored, if it is all zero. */
void namespaces_unlisten(struct namespaces_listener *listener);

/* All were listed. */
bool namespaces_synced(const struct namespaces *n);
/* What keeps it from following, for people; NULL: nothing. */
const char *namespaces_error(const struct namespaces *n);
bool namespaces_has(const struct namespaces *n, const char *name);
/* One after the other, in no order; NULL begins, and ends. */
const char *namespaces_next(const struct namespaces *n, const char *name);
/* All of them, to compile with: it says what is missing until they were listed. `n` NULL: NULL. */
const struct namespace_set *namespaces_set(const struct namespaces *n);
/* NULL is ignored. */
void namespaces_free(struct namespaces *n);

#endif
