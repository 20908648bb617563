/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_snapshot.h - what webhooks decide from: the shards and pods of the cache and the
 * resources of discovery, in the form that validate.h and inject.h take.
 */
#ifndef MANAGER_RUN_ADMISSION_SNAPSHOT_H
#define MANAGER_RUN_ADMISSION_SNAPSHOT_H

#include <stdbool.h>

#include "assign/assigner.h"
#include "base/err.h"
#include "cache/shard_cache.h"
#include "kube/client/discovery.h"
#include "label/sharding_resources.h"
#include "validate/validate.h"

struct admission_snapshot {
    struct shard_cache *cache;
    const struct discovery *discovery;
    const struct compile_options *compile;
    /* Of the last look. */
    const struct shard_cache_config **configs;
    struct shards_item *items; /* the same ones */
    /* Copied when discovery told of a change. */
    struct validate_resource *resources; /* with its texts */
    size_t resource_count;
    struct never_labelled *unlabelled; /* whose texts are those of `resources` */
    size_t unlabelled_count;
};

/* Copies what discovery has, and notes which of it gets control labels. To be called after each of
 * its changes. */
void admission_snapshot_discovered(struct admission_snapshot *o,
                                   const struct sharding_resource *labelled, size_t count);
/* Nothing is known of resources. */
void admission_snapshot_undiscovered(struct admission_snapshot *o);

/* What there is in the namespace; valid until the loop runs on, or the next call. Resources are
 * left out while they are not known. 0; -EAGAIN: it is not known yet. */
MUST_CHECK int admission_snapshot_look(struct admission_snapshot *o, const char *ns,
                                       struct validate_context *w, struct err *e);
/* Gives the pods of the shard at that position of the last look. */
void admission_snapshot_pods(const struct admission_snapshot *o, size_t shard, assigner_pod_cb cb,
                             void *arg);
void admission_snapshot_deinit(struct admission_snapshot *o);

#endif
