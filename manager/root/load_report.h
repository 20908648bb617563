/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_report.h - what the status of a root says of load, and of the moves that were made for its
 * sake. Functions of their input alone.
 *
 *   load:   [{bucket: 7, shard: op-1-normal, requests: 120, events: 5200, objects: 0, cost: 22000,
 *            percent: 41}]          per minute, of those that cost anything; two digits of each
 *   moves:  ["2026-07-14T09:30:00Z"]  of the last hour: a new leader keeps the bound by it
 */
#ifndef MANAGER_ROOT_LOAD_REPORT_H
#define MANAGER_ROOT_LOAD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "root/buckets.h"
#include "root/load.h"
#include "root/root_spec.h"
#include "json/edit.h"

struct load_report {
    bool known;
    struct load_counts rates[SHARDING_HASH_SIZE]; /* rounded, as all that follows */
    uint64_t cost[SHARDING_HASH_SIZE];
    unsigned percent[SHARDING_HASH_SIZE];   /* of the cost of all */
    unsigned of_shard[ROOT_SHARDS_MAX + 1]; /* likewise, of all that the shard has */
};

void load_report_make(struct load_report *r, const struct load_counts rates[SHARDING_HASH_SIZE],
                      const struct buckets *owners);

/* Adds `load`. `shards`: by bucket the name of the one that has it; NULL: nobody. Failures are
 * those of `ed`. */
void load_report_add(struct edit *ed, cJSON *root, const struct load_report *r,
                     const char *const shards[SHARDING_HASH_SIZE]);

struct load_moves {
    int64_t at[ROOT_MOVES_MAX]; /* seconds since 1970, oldest first */
    size_t count;
};

/* Those of the last `hour_s` seconds that status.root (NULL: none) tells of. One that is to come,
 * by a clock that went wrong, is as if it were now. */
void load_moves_read(struct load_moves *m, const cJSON *root, int64_t now_s, int64_t hour_s);
/* One more, now; the oldest goes where there are too many. */
void load_moves_note(struct load_moves *m, int64_t now_s);
bool load_moves_has(const struct load_moves *m, int64_t at_s);
/* Whether another one may follow: not more than `per_hour` of those, and none in the last
 * `pause_s`. */
bool load_moves_allow(const struct load_moves *m, unsigned per_hour, int64_t now_s,
                      int64_t pause_s);
/* Adds `moves`, if there are any. */
void load_moves_add(struct edit *ed, cJSON *root, const struct load_moves *m);

#endif
