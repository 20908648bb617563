/* SPDX-License-Identifier: Apache-2.0 */
#include "root/balance.h"

static bool is_normal(const struct balance_shard *s)
{
    return s->number != 0 && !s->leaving;
}

static bool is_canary(const struct balance_shard *s)
{
    return s->number == 0 && !s->leaving;
}

/* Pods of the canary: when there are too few for all it has its part, and at least one. 0: there is
 * none. */
static size_t find_canary_share(const struct balance_shard *shards, size_t count)
{
    size_t pods = 0;
    size_t wanted = 0;
    size_t canary = 0;
    for (size_t i = 0; i < count; i++) {
        pods += shards[i].pods;
        wanted += shards[i].leaving ? 0 : shards[i].wanted;
        canary += is_canary(&shards[i]) ? shards[i].wanted : 0;
    }
    if (pods >= wanted || canary == 0) {
        return canary;
    }
    size_t part = pods * canary / wanted;
    return part == 0 ? 1 : part;
}

/* Pods that it must give away, whoever lacks any. */
static size_t surplus_of(const struct balance_shard *s)
{
    size_t most = s->leaving ? 0 : s->number == 0 ? s->wanted : s->pods;
    return s->pods > most ? s->pods - most : 0;
}

/* A leaving shard with few pods, for that ends soon, or the canary. */
static size_t find_forced(const struct balance_shard *shards, size_t count)
{
    size_t found = BALANCE_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct balance_shard *s = &shards[i];
        bool better = found == BALANCE_NONE || (s->leaving && !shards[found].leaving) ||
                      (s->leaving && s->pods <= shards[found].pods);
        found = surplus_of(s) > 0 && better ? i : found;
    }
    return found;
}

/* The first of those with the fewest pods, and the last of those with the most: of two normal
 * shards the first may be to have one more. Otherwise the successor would come back to it. */
static size_t find_fewest(const struct balance_shard *shards, size_t count, bool canary)
{
    size_t found = BALANCE_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct balance_shard *s = &shards[i];
        bool counts = is_normal(s) || (canary && is_canary(s));
        found = counts && (found == BALANCE_NONE || s->pods < shards[found].pods) ? i : found;
    }
    return found;
}

static size_t find_most(const struct balance_shard *shards, size_t count)
{
    size_t found = BALANCE_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct balance_shard *s = &shards[i];
        bool more = found == BALANCE_NONE || s->pods >= shards[found].pods;
        found = is_normal(s) && more ? i : found;
    }
    return found;
}

/* Who lacks a pod, while somebody has one to give. */
static size_t find_lacking(const struct balance_shard *shards, size_t count, size_t share)
{
    size_t fewest = find_fewest(shards, count, false);
    size_t least = find_fewest(shards, count, true);
    size_t most = shards[find_most(shards, count)].pods;
    if (shards[least].pods == 0) {
        return least;
    }
    if (is_canary(&shards[0]) && shards[0].pods < share && most >= 2) {
        return 0;
    }
    size_t apart = shards[fewest].pods < shards[fewest].wanted ? 2 : 3;
    return most - shards[fewest].pods >= apart ? fewest : BALANCE_NONE;
}

/* The canary gives one to an empty shard if nobody else can. */
static size_t find_giver(const struct balance_shard *shards, size_t count)
{
    size_t most = find_most(shards, count);
    if (shards[most].pods >= 2) {
        return most;
    }
    return is_canary(&shards[0]) && shards[0].pods >= 2 ? 0 : BALANCE_NONE;
}

struct balance balance_look(const struct balance_shard *shards, size_t count)
{
    struct balance out = {.from = BALANCE_NONE, .to = BALANCE_NONE};
    if (find_most(shards, count) == BALANCE_NONE) {
        return out;
    }
    size_t lacking = find_lacking(shards, count, find_canary_share(shards, count));
    size_t forced = find_forced(shards, count);
    size_t giver = lacking == BALANCE_NONE ? BALANCE_NONE : find_giver(shards, count);
    out.from = forced != BALANCE_NONE ? forced : giver;
    out.to = out.from != BALANCE_NONE ? lacking : BALANCE_NONE;
    return out;
}

/* ---- the pod ---- */

static bool costs_less(const struct balance_pod *a, const struct balance_pod *b)
{
    if (a->ready != b->ready) {
        return !a->ready;
    }
    if (a->holder != b->holder) {
        return !a->holder;
    }
    return a->since > b->since;
}

size_t balance_choose(const struct balance_pod *pods, size_t count, size_t shard)
{
    size_t found = BALANCE_NONE;
    for (size_t i = 0; i < count; i++) {
        bool better = found == BALANCE_NONE || costs_less(&pods[i], &pods[found]);
        found = pods[i].shard == shard && better ? i : found;
    }
    return found;
}
