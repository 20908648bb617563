/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespaces.h - the names of namespaces, followed at the API server: of those whose objects get
 * control labels, or of those that a selector selects.
 */
#ifndef MANAGER_SHARD_NAMESPACES_H
#define MANAGER_SHARD_NAMESPACES_H

#include <stdbool.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

struct namespaces;

struct namespaces_options {
    struct kube_client *client; /* must outlive it */
    const char *own;            /* the manager's, left out as system namespaces are; NULL: none */
    bool system;                /* none is left out */
    const char *label_selector; /* NULL: all; copied */
    const char *unknown;        /* what is not known without them, for the log; kept */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    /* There is another one, or one less, or all are known now. From the loop; may not free. NULL:
     * nobody is told. */
    void (*on_change)(void *data);
    void *data;
};

/* NULL with `e` set: -ENOMEM. */
MUST_CHECK struct namespaces *namespaces_new(struct net_loop *l, const struct namespaces_options *o,
                                             struct err *e);
/* All were listed. */
bool namespaces_synced(const struct namespaces *n);
bool namespaces_has(const struct namespaces *n, const char *name);
/* One after the other, in no order; NULL begins, and ends. */
const char *namespaces_next(const struct namespaces *n, const char *name);
/* NULL is ignored. */
void namespaces_free(struct namespaces *n);

#endif
