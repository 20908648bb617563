/* SPDX-License-Identifier: Apache-2.0 */
/*
 * originals.h - the webhook configurations of operators, whose reviews may be routed: followed at
 * the API server.
 *
 * All configurations of the cluster are listed and watched, and kept: also what nothing points to
 * any more may have entries, which are taken out step by step. The manager's own are never among
 * them.
 *
 * Every replica of the manager has one: the webhook for ShardingConfigs asks it, and the leader's
 * controller (routes.h) listens to it.
 */
#ifndef MANAGER_ROUTE_ORIGINALS_H
#define MANAGER_ROUTE_ORIGINALS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "kube/client/client.h"
#include "kube/client/informer.h"
#include "net/loop.h"

struct originals;

enum originals_kind { ORIGINALS_VALIDATING, ORIGINALS_MUTATING, ORIGINALS_KINDS };

struct original {
    struct informer_item item; /* by its name */
    enum originals_kind kind;
    cJSON *object;     /* whole, but for managedFields */
    bool labelled;     /* PREFIX/route: "true" */
    const char *rival; /* the label of another installation of the mesh that it has, too; NULL:
                          none */
};

struct originals_options {
    struct kube_client *client;      /* must outlive it */
    const char *prefix;              /* of labels and annotations; copied */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

/* "ValidatingWebhookConfiguration"; and the path of such a collection. */
const char *originals_kind_name(enum originals_kind kind);
const char *originals_path(enum originals_kind kind);

/* Never NULL. Begins with the loop's next turn. */
MUST_CHECK struct originals *originals_new(struct net_loop *l, const struct originals_options *o);

/* From now on `on_change` is called when what is kept is other than before, or is known for the
 * first time: from the loop, never inside a function of this header. NULL: nobody wants to know. */
void originals_listen(struct originals *o, void (*on_change)(void *data), void *data);

/* The key of the annotation of narrowing.h. */
const char *originals_annotation(const struct originals *o);
/* All of both kinds were listed, ever. */
bool originals_synced(const struct originals *o);
/* What keeps it from following, for people; NULL: nothing. */
const char *originals_error(const struct originals *o);
/* NULL: there is none. Valid until the loop runs on, as all that is given out. */
const struct original *originals_find(const struct originals *o, enum originals_kind kind,
                                      const char *name);
/* Those of a kind, one after the other, in no order; NULL begins, and ends. */
const struct original *originals_next(const struct originals *o, enum originals_kind kind,
                                      const struct original *original);
/* Whether a webhook of one with the label leads to a Service of the namespace. */
bool originals_lead_to(const struct originals *o, const char *ns);

/* At once. NULL is ignored. */
void originals_free(struct originals *o);

#endif
