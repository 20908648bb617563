/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_window.h - what the buckets of a root cost in the last minutes, from what the pods of its
 * shards count since they were started. No cluster; the clock is the caller's.
 *
 * Only what grows between two looks counts, in pods of the shard that had the bucket at both. So a
 * pod that is new, was started again or goes back in any of its counts adds nothing until the next
 * look, nor does one for a bucket that its shard has just got or lost. What a bucket cost where it
 * was goes on to count where it is. Who has not looked for more than a minute begins anew.
 */
#ifndef MANAGER_ROOT_LOAD_WINDOW_H
#define MANAGER_ROOT_LOAD_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "control/status.h"
#include "root/buckets.h"
#include "root/load.h"

/* So many minutes make a rate, and so long all pods must have told what they count. */
#define LOAD_WINDOW_MINUTES 5

struct load_window;

/* A pod that has the sidecars of a shard. */
struct load_window_pod {
    const char *key;                 /* "namespace/name" */
    const char *uid;                 /* another one: another pod */
    unsigned shard;                  /* its number */
    const struct control_load *load; /* NULL: it does not count, or is not known to */
};

/* `minute_ms`: how long a minute is. */
MUST_CHECK struct load_window *load_window_new(uint64_t minute_ms);
/* NULL is ignored. */
void load_window_free(struct load_window *w);

/* All pods of all shards as they are at `now` (ms of any clock that does not go back), and who has
 * which bucket; to be called some times a minute. */
void load_window_look(struct load_window *w, uint64_t now, const struct load_window_pod *pods,
                      size_t count, const struct buckets *owners);

/* Whole minutes that have passed since the first look, LOAD_WINDOW_MINUTES at most: of so many is
 * load_window_rates. */
unsigned load_window_minutes(const struct load_window *w);
/* Per minute, the one that has begun left out; all 0 before there is one. */
void load_window_rates(const struct load_window *w, struct load_counts out[SHARDING_HASH_SIZE]);

/* Of the last look: whether the shard has pods, and all of them have told what they count for
 * LOAD_WINDOW_MINUTES, without having been started again. */
bool load_window_covers(const struct load_window *w, unsigned shard);

#endif
