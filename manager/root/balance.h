/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balance.h - whether the pods of a Deployment are spread evenly over its shards, and which one is
 * to be evicted if not: its successor is given to the shard that lacks one most. Functions of their
 * input alone.
 *
 *   - A shard without a pod gets one while another has two.
 *   - A shard that is leaving gives all its pods away, whether others lack any or not.
 *   - A canary has as many pods as it is to have, or its part of them when there are too few for
 *     all. It gives away what is above that.
 *   - Of normal shards the one with the fewest pods gets one from the one with the most, if that
 *     has three more; or two more, if the former has fewer than it is to have.
 */
#ifndef MANAGER_ROOT_BALANCE_H
#define MANAGER_ROOT_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BALANCE_NONE SIZE_MAX

struct balance_shard {
    unsigned number; /* 0: the canary */
    unsigned wanted; /* pods that it is to have */
    bool leaving;    /* it is to have none, and there is another that is not leaving */
    size_t pods;     /* that it has, without those that are being deleted */
};

struct balance {
    size_t from; /* has a pod too many; BALANCE_NONE: nobody has */
    size_t to;   /* lacks one; BALANCE_NONE: nobody does, or there is no `from` */
    uint64_t
        off; /* how uneven they are: it is less when an eviction has helped; 0 without `from` */
};

/* Indices are those of `shards`, which stand in the order of their numbers. */
struct balance balance_look(const struct balance_shard *shards, size_t count);

struct balance_pod {
    size_t shard; /* BALANCE_NONE: it cannot be chosen */
    bool ready;
    bool holder;   /* of its shard's lock, as far as is known */
    int64_t since; /* it is as it is, ready or not: seconds of the epoch; 0: not known */
};

/* Which pod of the shard costs least: one that is not ready, then one that does not hold the lock,
 * then the one that is so for the shortest time. BALANCE_NONE: it has none. */
size_t balance_choose(const struct balance_pod *pods, size_t count, size_t shard);

#endif
