/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_plan.h - what comes next for one webhook of an original: whether it has entries, and
 * whether it is narrowed. From facts, without clock or cluster; the state is what the API server
 * has, and a new leader reads it there.
 *
 *     asked for -> entries -> 5 s -> narrowed                     by us, or by its owner at any
 * time not any more -> widened, if it was us -> 5 s -> no entries
 *
 * The pause is for the API servers, which each learn of a write in their own time. So a webhook
 * that is narrowed always has entries, which are for all namespaces together; in between reviews
 * may be asked for twice, and never not at all.
 */
#ifndef MANAGER_ROUTE_ROUTE_PLAN_H
#define MANAGER_ROUTE_ROUTE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTE_PLAN_PAUSE_MS 5000

struct route_plan_facts {
    bool asked;    /* its configuration has the label, this alone, and is not contested */
    bool routable; /* there are entries that it could have */
    bool ready;    /* and a shard that may be asked, or is */
    bool narrowed;
    bool ours;           /* we have narrowed it, by the annotation */
    bool of_shards;      /* its Service selects pods of shards that serve webhooks */
    bool has_entries;    /* in the routes object, as it was seen */
    bool gone;           /* its Service is not there any more: nobody is asked in any case */
    uint64_t entries_ms; /* for so long it has had them, without a break */
    uint64_t widened_ms; /* for so long it has been seen not narrowed */
};

enum route_plan_selector { ROUTE_PLAN_LEAVE, ROUTE_PLAN_NARROW, ROUTE_PLAN_WIDEN };

struct route_plan {
    bool entries; /* it is to have them, as they are now: those of a narrowed one that is not
                     routable are for all of its rules alike */
    enum route_plan_selector selector;
    uint64_t again_ms; /* when it is to be asked again, if nothing changes; UINT64_MAX: not */
};

struct route_plan route_plan(const struct route_plan_facts *f);

#endif
