/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handlers.h - which function decides about what is sent to which path.
 */
#ifndef MANAGER_WEBHOOK_HANDLERS_H
#define MANAGER_WEBHOOK_HANDLERS_H

#include <stdbool.h>

#include "assign/assigner.h"
#include "base/err.h"
#include "compile/compile.h"
#include "inject/inject.h"
#include "label/labels.h"
#include "validate/validate.h"
#include "webhook/server.h"

/* What the decisions are made from. Pointers are kept: all must outlive the loop. */
struct webhook_context {
    const struct labels_keys *keys;
    const struct inject_settings *inject;
    const struct compile_options *compile;  /* but for its namespaces, which are: */
    const struct namespace_set *namespaces; /* for the loop alone; NULL: not known */
    bool known_askers; /* only who proves to be the API server is answered: names may be told */
    /* What there is now in a namespace; valid until the loop runs on. 0, or an error with the
     * reason in `e` when it is not known yet (-EAGAIN): then no decision is made. */
    int (*look)(void *data, const char *ns, struct validate_context *w, struct err *e);
    /* Whether Pod Security keeps capabilities from the pods of a namespace; NULL: of none. */
    bool (*is_restricted)(void *data, const char *ns);
    /* Gives pods of Deployments their shards; NULL: nobody does. */
    struct assigner *assigner;
    /* The pods of the shard at that position of the last look. */
    void (*pods_of)(void *data, size_t shard, assigner_pod_cb cb, void *arg);
    /* Whether this replica leads: the others take places from the back. NULL: it does. */
    bool (*leads)(void *data);
    void *data;
};

/* The routes, for webhook_server_options; `data` there is a const struct webhook_context. */
extern const struct webhook_route webhook_routes[];

#endif
