/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exclusive.h - the condition Exclusive: whether nobody else may show what a shard shows.
 */
#ifndef MANAGER_SHARD_EXCLUSIVE_H
#define MANAGER_SHARD_EXCLUSIVE_H

#include <stddef.h>

struct shard;
struct shard_cache_config;
struct rules_map;

enum exclusive_state {
    EXCLUSIVE_UNKNOWN,  /* pods of others were not asked yet: what was said stands */
    EXCLUSIVE_GIVEN_UP, /* there is no memory for its rules: nobody knows */
    EXCLUSIVE_NO_RULES, /* it shows nothing */
    EXCLUSIVE_YES,
    EXCLUSIVE_INTENDED, /* no, but only with those with which it shares on purpose */
    EXCLUSIVE_NO,
    EXCLUSIVE_STATES,
};

#define EXCLUSIVE_TEXT_SIZE 2560

struct exclusive {
    enum exclusive_state state;
    char text[EXCLUSIVE_TEXT_SIZE]; /* for people */
};

/* `map` NULL: it has no rules. If that is other than before, the other shards of the namespace are
 * looked at, too. */
void shard_look_exclusive(struct shard *s, const struct shard_cache_config *config,
                          const struct rules_map *map, struct exclusive *out);

/* "True", "False" or "Unknown", and why in one word. */
const char *exclusive_status(enum exclusive_state state);
const char *exclusive_reason(enum exclusive_state state);

#endif
