/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownership_facts.h - what is known of the shards of a namespace, for ownership/ownership.h.
 */
#ifndef MANAGER_SHARD_OWNERSHIP_FACTS_H
#define MANAGER_SHARD_OWNERSHIP_FACTS_H

#include <stddef.h>

#include "base/err.h"
#include "inject/inject_options.h"
#include "ownership/ownership.h"
#include "shard/controller_internal.h"

struct ownership_gathering {
    struct ownership_facts facts;
    const struct ownership_shard *self;
    struct ownership_wait *waits; /* room for all that there can be */
    struct ownership_shard *shards;
    struct ownership_bare_pod *bare;
    const struct ownership_shard **by_key; /* by the address of their keys; NULL until needed */
    char shares_with[NAMES_KEY_SIZE];      /* keys, which are the same for all shards */
    char root[NAMES_KEY_SIZE];
};

/* The roots of a namespace that have a Deployment. Valid until the loop runs on. */
struct deployment_roots {
    const struct shard_cache_config **items;
    size_t count;
};

void deployment_roots_find(struct deployment_roots *r, const struct shard_cache *w, const char *ns);
/* The one whose Deployment a pod without sidecars is of, which no shard selects, since only those
 * with sidecars have the label of one. NULL: there is none. */
const struct shard_cache_config *deployment_roots_of(const struct deployment_roots *r,
                                                     const struct pod *p);
void deployment_roots_deinit(struct deployment_roots *r);

/* As `s`, which has this config, sees them. Valid until the loop runs on. */
void ownership_facts_gather(struct shard *s, const struct shard_cache_config *config,
                            struct ownership_gathering *out);
void ownership_facts_deinit(struct ownership_gathering *g);

#endif
