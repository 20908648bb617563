/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entries.h - from a webhook of the operator and a partition to the webhooks of our own
 * configuration, and back.
 *
 * Glossary: the *original* is the operator's Validating- or MutatingWebhookConfiguration; the
 * *routes object* is ours, of the same kind; an *entry* is a webhook in it. The entries of one
 * webhook have all namespaces with control labels between them, and each such namespace matches
 * exactly one, but for the entry of `others`, which has rules of its own. Where somebody has set
 * the label of another hash, a namespace that is named matches the entry of that hash, too, until
 * the manager puts the label right: to leave out all names in all entries would multiply their
 * size.
 *
 * The routes object is the only memory of the manager: entries_read gets the partition from it.
 */
#ifndef MANAGER_ROUTE_ENTRIES_H
#define MANAGER_ROUTE_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "label/labels.h"
#include "route/partition.h"
#include "route/route_rules.h"

/* The Service that a webhook leads to; points into it. */
struct entries_service {
    const char *namespace;
    const char *name;
    int port;
};

/* False: it leads to none. */
bool entries_service_of(const cJSON *webhook, struct entries_service *out);

struct entries_shard {
    const char *key; /* "NAMESPACE/NAME" */
    int port;        /* of the Service; 0: none that may be used, so it owns no class */
};

/* One webhook. */
struct entries_webhook {
    const struct labels_keys *keys;
    const char *configuration;          /* name of the original */
    const cJSON *webhook;               /* as the API server shows it; leads to a Service */
    const struct entries_shard *shards; /* by their places, as in the partition */
    size_t shard_count;
    const char *service; /* with our ports; NULL: that of the webhook */
    int hold_port;       /* 0: nothing may be held */
};

/* Appends the entries to an array. `p` NULL: nothing is routed, and all rules that a narrowed
 * original is not asked about any more are those of `others`. */
void entries_make(const struct entries_webhook *w, const struct route_rules *rules,
                  const struct partition *p, cJSON *entries);

/* Appends copies of those that there are, whatever they say. */
void entries_keep(const struct entries_webhook *w, const cJSON *entries, cJSON *kept);

/* Whether an entry is of the installation of the mesh that has this control label; another one
 * gives its entries the same names. */
bool entries_is_ours(const cJSON *entry, const char *control);
/* Whether some of ours may be of that webhook, by their names: another one of the same name may
 * have them, too. */
bool entries_may_have(const struct labels_keys *keys, const cJSON *entries, const cJSON *webhook);

/* What the webhooks of the routes object say of it: whether there are any entries of it, and
 * *present, which the caller deinits in any case. ports[i]: by which port of the Service that is
 * ours an entry leads to shard i; 0: none. `ports` may be NULL. What leads to shards without a
 * port, or by another Service, as before the webhook led to this one, counts as the rest. */
bool entries_read(const struct entries_webhook *w, const cJSON *entries, struct partition *present,
                  int *ports);

#endif
