/* SPDX-License-Identifier: Apache-2.0 */
#include "root/load.h"

#include <stddef.h>

#include "root/root_spec.h"

/* So large a cost is no larger than that one: sums have room. */
#define COST_MAX ((uint64_t)1 << 50)

uint64_t load_cost(const struct load_counts *c)
{
    const uint64_t counts[] = {c->objects, c->events, c->requests};
    const uint64_t weights[] = {1, LOAD_EVENT_OBJECTS, LOAD_EVENT_OBJECTS * LOAD_REQUEST_EVENTS};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        sum += counts[i] < COST_MAX / weights[i] ? counts[i] * weights[i] : COST_MAX;
    }
    return sum < COST_MAX ? sum : COST_MAX;
}

static bool is_eligible(uint32_t eligible, unsigned shard)
{
    return shard >= 1 && shard <= ROOT_SHARDS_MAX && (eligible >> (shard - 1) & 1) != 0;
}

struct weighing {
    uint64_t cost[SHARDING_HASH_SIZE];
    uint64_t carried[ROOT_SHARDS_MAX + 1];
    unsigned heaviest; /* 0: there is none that may have any */
    unsigned lightest;
    uint64_t mean;
};

/* Of several that carry the same the first. */
static void find_ends(struct weighing *w, uint32_t eligible)
{
    uint64_t total = 0;
    unsigned shards = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        if (!is_eligible(eligible, i)) {
            continue;
        }
        total += w->carried[i];
        shards++;
        w->heaviest = w->heaviest == 0 || w->carried[i] > w->carried[w->heaviest] ? i : w->heaviest;
        w->lightest = w->lightest == 0 || w->carried[i] < w->carried[w->lightest] ? i : w->lightest;
    }
    w->mean = shards == 0 ? 0 : total / shards;
}

static void weigh(struct weighing *w, const struct buckets *b,
                  const uint64_t cost[SHARDING_HASH_SIZE], uint32_t eligible)
{
    *w = (struct weighing){.heaviest = 0};
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        w->cost[i] = cost[i] < COST_MAX ? cost[i] : COST_MAX;
        if (is_eligible(eligible, b->owner[i])) {
            w->carried[b->owner[i]] += w->cost[i];
        }
    }
    find_ends(w, eligible);
}

/* What the one of both carries that carries more then. */
static uint64_t larger_after(const struct weighing *w, unsigned bucket)
{
    uint64_t from = w->carried[w->heaviest] - w->cost[bucket];
    uint64_t to = w->carried[w->lightest] + w->cost[bucket];
    return from > to ? from : to;
}

bool load_choose(const struct buckets *b, const uint64_t cost[SHARDING_HASH_SIZE],
                 uint32_t eligible, unsigned *bucket, unsigned *to)
{
    struct weighing w;
    weigh(&w, b, cost, eligible);
    uint64_t most = w.carried[w.heaviest];
    uint64_t best = most;
    if ((most - w.mean) * 100 <= w.mean * LOAD_TOLERANCE) {
        return false;
    }
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (b->owner[i] == w.heaviest && larger_after(&w, i) < best) {
            best = larger_after(&w, i);
            *bucket = i;
        }
    }
    *to = w.lightest;
    return best < most && (most - best) * 10 >= w.mean;
}
