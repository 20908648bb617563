/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partitioner.h - decides who is to be asked about each namespace, from the rules of the shards
 * that a Service leads to. No clock, no I/O; the state is the partition that stands.
 *
 * A class moves to a shard once that has confirmed the rules that show it, and stays where it is
 * until then; with `hold` it is held meanwhile, also until it is known that no shard wants it. So
 * each class always has one owner.
 */
#ifndef MANAGER_ROUTE_PARTITIONER_H
#define MANAGER_ROUTE_PARTITIONER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "compile/sharing.h"
#include "route/partition.h"
#include "route/route_verdict.h"
#include "rules/rules.h"

struct partition_shard {
    const char *key;               /* "NAMESPACE/NAME" */
    const struct rules *wanted;    /* of its spec; NULL: unknown, so what is published counts */
    const struct rules *published; /* of its ConfigMap; NULL: nothing */
    bool confirmed;                /* it has ready pods, and all of them enforce `published` */
    bool can_gain;                 /* it may be given classes */
    bool hold;                     /* spec.webhook.duringHandover: Hold */
    const char *shares_with;       /* annotation SHARDING_SHARES_WITH; NULL: none */
};

/* Of all shards that take part, sorted by key. They are whole: nobody decides while ConfigMaps or
 * pods are still to be read. */
struct partition_facts {
    const struct partition_shard *shards;
    size_t count;
    const struct sharing_set *shared; /* NULL: none. Nobody decides while it is `unknown` */
    /* Namespaces of which any pod is always asked: where the shards and the manager are, since
     * what is written there must not wait for a shard that waits for it. */
    const char *const *own;
    size_t own_count;
    bool restless; /* a spec has changed a moment ago: what nobody wants may be wanted soon */
};

/* A resource without its subresource. Either may be `*`, which is a pattern of its own. */
struct partition_resource {
    struct slice group;
    struct slice resource;
};

struct partitioner;

/* The facts must outlive it and stay as they are. It remembers what limits accept, so that many
 * webhooks with the same shards cost as little as one. */
struct partitioner *partitioner_new(const struct partition_facts *facts);
void partitioner_free(struct partitioner *p);

const struct partition_facts *partitioner_facts(const struct partitioner *p);

/* The first shard whose rules do not limit it, so that it sees all of it; NULL: all do. Shards
 * whose rules are not known at all count for nothing. */
const struct partition_shard *partitioner_unlimited(const struct partitioner *p,
                                                    const struct partition_resource *r);

/* Whether each shard limits both in the same way: namespace by namespace. */
bool partitioner_same(struct partitioner *p, const struct partition_resource *a,
                      const struct partition_resource *b);
/* Whether that is so of all resources under `r`, which has a `*`, that some limit names; else
 * *other is one of which it is not. */
bool partitioner_same_within(struct partitioner *p, const struct partition_resource *r,
                             struct partition_resource *other);

/* What comes next: ROUTE_ROUTED, with *next, which the caller deinits; ROUTE_NOT_BY_NAMESPACE or
 * ROUTE_TOO_MANY with a text, and *next is left alone. `present` is what stands. Owners are places
 * in the list of shards; those of shards that are gone are REST there. */
enum route_reason partitioner_next(struct partitioner *p, const struct partition_resource *r,
                                   const struct partition *present, struct partition *next,
                                   struct route_verdict *why);

/* Whether these rules show each class that `owner` has. */
bool partition_is_shown(const struct partition *p, int owner, const struct rules *rules,
                        const struct partition_resource *r);

#endif
