/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - what each bucket costs, and which one to move so that shards carry alike.
 *
 * Cost is a rate: of what localproxy has done for the bucket in the last minutes, in all pods of
 * the shard that has it. Functions of their input alone.
 */
#ifndef MANAGER_ROOT_LOAD_H
#define MANAGER_ROOT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "root/buckets.h"

/* Of each bucket: what was counted since some start, all pods of its shard together. */
struct load_counts {
    uint64_t requests;
    uint64_t events;  /* of watches */
    uint64_t objects; /* in lists */
};

/* An event costs as much as so many objects in a list, and a request as so many events. */
#define LOAD_EVENT_OBJECTS 4
#define LOAD_REQUEST_EVENTS 2

/* In objects; not more than 2^50. */
uint64_t load_cost(const struct load_counts *c);

/* A shard may carry so much more than the mean, in percent, before a bucket is moved away. */
#define LOAD_TOLERANCE 25

/* One move at most, of the shard that carries most to the one that carries least, so that the
 * larger of both becomes as small as can be: *bucket and *to. `cost` by bucket, 2^50 and all above
 * being the same; `eligible` as in buckets_balance. False, and both undefined: shards carry alike,
 * or no move makes it better by a tenth of the mean. A move that is made never leads back: with the
 * same costs there is an end to them. */
bool load_choose(const struct buckets *b, const uint64_t cost[SHARDING_HASH_SIZE],
                 uint32_t eligible, unsigned *bucket, unsigned *to);

#endif
