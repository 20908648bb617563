/* SPDX-License-Identifier: Apache-2.0 */
#include "assign/assignment.h"

#include <errno.h>

#include "config/sharding_config.h"

enum { COST_MAX = 1000000, NUMBERS = ROOT_SHARDS_MAX + 1 };

void assignment_add_pod(struct assignment_shard *s, bool same_revision, unsigned rank)
{
    s->alive = true;
    s->pods += same_revision;
    if (same_revision && rank >= 1 && rank <= ASSIGNMENT_RANKS) {
        s->ranks[(rank - 1) / 64] |= UINT64_C(1) << (rank - 1) % 64;
    }
}

static bool is_taken(const struct assignment_shard *s, unsigned rank)
{
    return (s->ranks[(rank - 1) / 64] >> (rank - 1) % 64 & 1) != 0;
}

static unsigned places_of(const struct assignment_shard *s)
{
    return s->wanted < ASSIGNMENT_RANKS ? s->wanted : ASSIGNMENT_RANKS;
}

/* Of its places the first or the last one that is free; 0: there is none. Pods without a rank of
 * their own are somewhere: it has no more than `wanted`. */
static unsigned free_rank(const struct assignment_shard *s, bool from_back)
{
    unsigned last = places_of(s);
    for (unsigned i = 1; i <= last && s->pods < s->wanted; i++) {
        unsigned rank = from_back ? last + 1 - i : i;
        if (!is_taken(s, rank)) {
            return rank;
        }
    }
    return 0;
}

/* Whether place `a` is before `b`: by (rank - 1) / wanted, then by number. */
static bool is_before(const struct assignment_shard *a, unsigned rank,
                      const struct assignment_shard *b, unsigned other)
{
    uint64_t left = (uint64_t)(rank - 1) * b->wanted;
    uint64_t right = (uint64_t)(other - 1) * a->wanted;
    return left != right ? left < right : a->number < b->number;
}

/* The place of a canary that has one is the first that is taken from the front: the other end
 * leaves it until nothing else is left. */
static bool goes_first(const struct assignment_shard *s, bool from_back)
{
    return !s->alive && !(from_back && s->number == 0 && s->wanted == 1);
}

static bool choose_place(const struct assignment_shard *shards, size_t count, bool from_back,
                         bool first, struct assignment_place *out)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const struct assignment_shard *s = &shards[i];
        bool counts = !s->leaving && (!first || goes_first(s, from_back));
        unsigned rank = counts ? free_rank(s, from_back) : 0;
        if (rank != 0 &&
            (!found || is_before(s, rank, &shards[out->shard], out->rank) != from_back)) {
            *out = (struct assignment_place){.shard = i, .rank = rank};
            found = true;
        }
    }
    return found;
}

/* The normal shard with the lowest share of what it is to have. */
static bool choose_beyond(const struct assignment_shard *shards, size_t count, bool from_back,
                          struct assignment_place *out)
{
    const struct assignment_shard *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct assignment_shard *s = &shards[i];
        if (s->leaving || s->number == 0) {
            continue;
        }
        uint64_t share = best == NULL ? 0 : (uint64_t)s->pods * best->wanted;
        uint64_t lowest = best == NULL ? 1 : (uint64_t)best->pods * s->wanted;
        best = share < lowest || (share == lowest && from_back) ? s : best;
    }
    if (best != NULL) {
        *out = (struct assignment_place){.shard = (size_t)(best - shards), .rank = best->pods + 1};
    }
    return best != NULL;
}

int assignment_choose(const struct assignment_shard *shards, size_t count, bool from_back,
                      bool beyond, struct assignment_place *out)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any = any || !shards[i].leaving;
    }
    if (choose_place(shards, count, from_back, true, out) ||
        choose_place(shards, count, from_back, false, out) ||
        (beyond && choose_beyond(shards, count, from_back, out))) {
        return 0;
    }
    return any ? -EAGAIN : -ENOENT;
}

int32_t assignment_cost(unsigned number, unsigned rank)
{
    const unsigned last = COST_MAX / NUMBERS - 1;
    return number == 0 ? COST_MAX
                       : COST_MAX - (int32_t)((rank < last ? rank : last) * NUMBERS + number);
}
