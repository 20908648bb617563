/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buckets.h - which normal shard has which bucket, and how that changes with as few moves as there
 * can be. Functions of their input alone.
 */
#ifndef MANAGER_ROOT_BUCKETS_H
#define MANAGER_ROOT_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rules/sharding.h"

#define BUCKETS_TEXT_SIZE 128

/* By bucket: the number of its shard, 1 to 32; 0: nobody's. */
struct buckets {
    uint8_t owner[SHARDING_HASH_SIZE];
};

/* Those of a shard: bit i is bucket i. */
uint32_t buckets_of(const struct buckets *b, unsigned shard);

/* Spreads the buckets of `spread` over the shards of `eligible` (bit i - 1: shard i): their numbers
 * differ by at most one, and no other distribution of that kind moves fewer buckets away from the
 * shard that has them. Buckets beside `spread` become nobody's, and all do without a shard. The
 * same input gives the same output. */
void buckets_balance(struct buckets *b, uint32_t spread, uint32_t eligible);

/* How many have another owner than before; those that were nobody's do not count. */
size_t buckets_moved(const struct buckets *from, const struct buckets *to);

/* "0-3,7"; "" for none. */
void buckets_print(uint32_t buckets, char out[BUCKETS_TEXT_SIZE]);
/* 0, or -EINVAL: it is not of that form. */
MUST_CHECK int buckets_parse(const char *text, uint32_t *out);

#endif
