/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holders.h - who else may show what a shard sees, or is to see.
 *
 * Only shards of the same operator are looked at: those of the same namespace with the same
 * leaderElectionName; where one of both has none, those whose pods have a service account in
 * common, and those of which neither is known. A shard may show what its ConfigMap says, with pods
 * or without, since one may start at any time; and what its pods have not given up. A pod of the
 * operator that has no sidecar, or those of nobody knows which shard, shows everything.
 */
#ifndef MANAGER_SHARD_HOLDERS_H
#define MANAGER_SHARD_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "shard/controller_internal.h"

/* Annotation on a ShardingConfig, below the prefix: the names of others, separated by commas, or
 * "*", with which it shares objects on purpose. */
#define HOLDERS_SHARES_WITH "shares-with"

struct holders {
    size_t count;      /* pods, and shards whose ConfigMap shows it; 0: nobody */
    size_t intended;   /* of them those with which it is shared on purpose: holders_now only */
    struct buf text;   /* who they are, for people, and what to do */
    bool unsettled;    /* a pod says that writes to it may still be executed */
    uint64_t again_ms; /* when it may be other by itself; UINT64_MAX: never; holders_find only */
    bool unasked;      /* of a pod it is not known yet: it was not asked, or is in between */
};

/* Of what is seen under `to` and not under `from` (NULL: nothing is), but in namespaces that the
 * config shares (compile/sharing.h): for these nobody waits. 0, then holders_deinit is due, or
 * -ENOMEM. */
MUST_CHECK int holders_find(struct shard *s, const struct shard_cache_config *config,
                            const struct rules *from, struct rules *to, struct holders *out);
/* Who else may show what the shard's own `rules` show, as far as is known: also those with which it
 * is shared on purpose, but not pods that merely start. `all`: in shared namespaces, too. As
 * holders_find. */
MUST_CHECK int holders_now(struct shard *s, const struct shard_cache_config *config,
                           struct rules *rules, bool all, struct holders *out);
void holders_deinit(struct holders *h);

#endif
