/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage_scan.h - one look at all namespaces and all shards of an operator, for the condition
 * Covered: in a thread, for it takes as long as there are shards times namespaces.
 */
#ifndef MANAGER_SHARD_COVERAGE_SCAN_H
#define MANAGER_SHARD_COVERAGE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cache/namespaces.h"
#include "cache/shard_cache.h"
#include "compile/sharing.h"
#include "net/loop.h"
#include "rules/rules.h"

struct coverage_scan;

struct covered {
    bool applies; /* all of its shards are limited by control labels */
    bool unknown; /* it would take too long to find out */
    size_t gaps;
    size_t overlaps;
    char text[1024]; /* for people: the first few, by name */
};

/* Requirements and values that one look compares: a few seconds. 1,000 shards by one limit each and
 * 10,000 namespaces take 10 million. */
#define COVERAGE_SCAN_STEPS ((size_t)50 * 1000 * 1000)

/* What was found, and how long it took. From the loop; the look is gone then. */
typedef void coverage_scan_fn(void *data, const struct covered *found, uint64_t took_ms);

/* `rules` are sorted by name and may be counted in the cache; the look holds references of its own,
 * the list is the caller's; namespaces are copied. Takes what the shards share, and leaves none, in
 * any case. NULL: there are too many namespaces. */
MUST_CHECK struct coverage_scan *coverage_scan_start(struct net_loop *l, struct shard_cache *cache,
                                                     struct rules *const *rules, size_t count,
                                                     struct sharing_set *shared,
                                                     const struct namespaces *all, size_t steps,
                                                     coverage_scan_fn *done, void *data);
/* Nobody is told of the end. NULL is ignored. */
void coverage_scan_drop(struct coverage_scan *look);

#endif
