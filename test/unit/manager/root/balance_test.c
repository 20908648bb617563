/* SPDX-License-Identifier: Apache-2.0 */
#include "root/balance.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "assign/assignment.h"
#include "base/array.h"
#include "rounds.h"

enum { SHARDS_MAX = 8, NONE = -1 };

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

/* Of a row: {number, wanted, leaving, pods}; a shard without `wanted` is behind the last one. */
static size_t count_shards(const struct balance_shard *shards)
{
    size_t count = 0;
    while (count < SHARDS_MAX && shards[count].wanted != 0) {
        count++;
    }
    return count;
}

static void by_hand(void **state)
{
    (void)state;
    static const struct {
        struct balance_shard shards[SHARDS_MAX];
        int from; /* indices */
        int to;
    } cases[] = {
        /* Nothing to do: none, as wanted, too few for all, a little uneven beyond what is wanted.
         */
        {{{1, 2, false, 0}, {2, 2, false, 0}}, NONE, NONE},
        {{{1, 2, false, 2}, {2, 2, false, 2}}, NONE, NONE},
        {{{0, 1, false, 1}, {1, 2, false, 1}, {2, 2, false, 0}}, NONE, NONE},
        {{{1, 2, false, 2}, {2, 2, false, 1}}, NONE, NONE},
        {{{1, 2, false, 4}, {2, 2, false, 2}}, NONE, NONE},
        /* One without pods. */
        {{{1, 2, false, 2}, {2, 2, false, 0}}, 0, 1},
        {{{1, 2, false, 4}, {2, 2, false, 0}}, 0, 1},
        {{{1, 1, false, 1}, {2, 1, false, 3}, {3, 1, false, 0}}, 1, 2},
        {{{0, 3, false, 3}, {1, 1, false, 0}}, 0, 1},
        {{{0, 1, false, 0}, {1, 2, false, 2}, {2, 2, false, 2}}, 2, 0},
        /* Of two that have as many the last one gives: it is to have no more than the first. */
        {{{0, 3, false, 2}, {1, 2, false, 2}, {2, 1, false, 2}}, 2, 0},
        /* One that lacks some of what it is to have, or has far less than another. */
        {{{1, 2, false, 3}, {2, 2, false, 1}}, 0, 1},
        {{{1, 2, false, 5}, {2, 2, false, 2}, {3, 2, false, 3}}, 0, 1},
        {{{0, 2, false, 1}, {1, 2, false, 4}, {2, 2, false, 3}}, 1, 0},
        /* A canary that has more than it is to have, whoever lacks any. */
        {{{0, 1, false, 2}, {1, 2, false, 2}, {2, 2, false, 2}}, 0, NONE},
        {{{0, 1, false, 3}, {1, 2, false, 1}, {2, 2, false, 3}}, 0, 1},
        /* Leaving shards, the smallest first. */
        {{{1, 2, false, 2}, {2, 2, true, 2}, {3, 2, true, 1}}, 2, NONE},
        {{{1, 2, false, 0}, {2, 2, true, 1}}, 1, 0},
        {{{0, 1, true, 1}, {1, 2, false, 2}, {2, 2, false, 2}}, 0, NONE},
        {{{0, 1, false, 2}, {1, 2, false, 2}, {2, 2, true, 1}}, 2, NONE},
        {{{1, 2, false, 2}, {2, 2, true, 0}}, NONE, NONE},
        {{{0, 1, false, 2}}, NONE, NONE}, /* the child of the normal one is not there yet */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct balance b = balance_look(cases[i].shards, count_shards(cases[i].shards));
        size_t from = cases[i].from == NONE ? BALANCE_NONE : (size_t)cases[i].from;
        size_t to = cases[i].to == NONE ? BALANCE_NONE : (size_t)cases[i].to;
        if (b.from != from || b.to != to) {
            fail_msg("case %zu: from %zd to %zd", i, (ssize_t)b.from, (ssize_t)b.to);
        }
    }
}

static void which_pod(void **state)
{
    (void)state;
    static const struct {
        struct balance_pod pods[4];
        size_t want;
    } cases[] = {
        {{{0, true, false, 9}, {BALANCE_NONE, false, false, 9}}, BALANCE_NONE},
        {{{1, true, false, 1}, {1, true, false, 2}, {0, false, false, 3}}, 1},
        {{{1, true, false, 1}, {1, true, true, 2}, {1, true, false, 0}}, 0},
        {{{1, true, false, 9}, {1, false, true, 1}, {1, true, false, 8}}, 1},
        {{{1, false, false, 1}, {1, false, false, 5}, {1, true, false, 8}}, 1},
        {{{1, true, true, 1}}, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(balance_choose(cases[i].pods, ARRAY_LEN(cases[i].pods), 1), cases[i].want);
    }
}

/* ---- until nothing is to be done ---- */

/* As the webhook does it: a shard without pods first, then who has the smallest part of what it is
 * to have; no canary beyond that. */
static void add_pod(struct balance_shard *shards, size_t count)
{
    struct balance_shard *best = NULL;
    for (size_t i = 0; i < count; i++) {
        struct balance_shard *s = &shards[i];
        if (s->leaving || (s->number == 0 && s->pods >= s->wanted)) {
            continue;
        }
        bool better = best == NULL || (s->pods == 0 && best->pods != 0) ||
                      ((s->pods == 0) == (best->pods == 0) &&
                       s->pods * best->wanted < best->pods * s->wanted);
        best = better ? s : best;
    }
    assert_non_null(best);
    best->pods++;
}

static size_t make_shards(struct balance_shard *shards)
{
    size_t count = 0;
    if (random_below(2) == 0) {
        shards[count++] = (struct balance_shard){.number = 0,
                                                 .wanted = 1 + random_below(3),
                                                 .leaving = random_below(8) == 0,
                                                 .pods = random_below(6)};
    }
    unsigned every = 1 + random_below(4);
    unsigned normal = 1 + random_below(6);
    unsigned size = 1 + random_below(normal);
    for (unsigned i = 1; i <= normal; i++) {
        shards[count++] = (struct balance_shard){
            .number = i, .wanted = every, .leaving = i > size, .pods = random_below(9)};
    }
    return count;
}

static size_t count_pods(const struct balance_shard *shards, size_t count)
{
    size_t pods = 0;
    for (size_t i = 0; i < count; i++) {
        pods += shards[i].pods;
    }
    return pods;
}

/* What is promised: no shard is empty while another has two, none is two below its share while
 * another is above, none has less than it is to have while another has two more, no canary has too
 * many, and a leaving shard has none. */
static void expect_balanced(const struct balance_shard *shards, size_t count)
{
    size_t least = SIZE_MAX;
    size_t most = 0;
    size_t most_normal = 0;
    size_t least_normal = SIZE_MAX;
    unsigned wanted = 1;
    for (size_t i = 0; i < count; i++) {
        const struct balance_shard *s = &shards[i];
        if (s->leaving) {
            assert_int_equal(s->pods, 0);
            continue;
        }
        least = s->pods < least ? s->pods : least;
        most = s->pods > most ? s->pods : most;
        if (s->number == 0) {
            assert_true(s->pods <= s->wanted);
            continue;
        }
        wanted = s->wanted;
        most_normal = s->pods > most_normal ? s->pods : most_normal;
        least_normal = s->pods < least_normal ? s->pods : least_normal;
    }
    assert_true(least > 0 || most <= 1);
    assert_true(most_normal - least_normal <= (least_normal < wanted ? 1u : 2u));
}

static void whatever_there_is(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(20000, 1000000); i++) {
        struct balance_shard shards[SHARDS_MAX];
        size_t count = make_shards(shards);
        size_t pods = count_pods(shards, count);
        size_t evictions = 0;
        struct balance b;
        while ((b = balance_look(shards, count)).from != BALANCE_NONE) {
            assert_true(b.from != b.to);
            assert_true(shards[b.from].pods > 0);
            shards[b.from].pods--;
            add_pod(shards, count);
            evictions++;
            assert_true(evictions <= pods);
        }
        expect_balanced(shards, count);
    }
}

/* What the webhook spreads is never put right. */
static void what_comes_evenly_stays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(2000, 100000); i++) {
        struct balance_shard shards[SHARDS_MAX];
        size_t count = make_shards(shards);
        for (size_t k = 0; k < count; k++) {
            shards[k].pods = 0;
        }
        for (unsigned k = 0; k < 40; k++) {
            add_pod(shards, count);
            assert_true(balance_look(shards, count).from == BALANCE_NONE);
        }
    }
}

/* ---- with the webhook's choice of a shard for the successor ---- */

enum { PODS = 20, FRONT = 0, BACK = 1, EITHER = 2, WAYS };

struct placed_pod {
    size_t shard;
    unsigned rank;
};

struct deployment {
    unsigned count;
    struct placed_pod pods[PODS];
    size_t shard_count;
    struct balance_shard shards[SHARDS_MAX];
    unsigned places[SHARDS_MAX]; /* the annotation of the children: without the bound `every` */
};

/* As layout.c does it. */
static void add_normal_shards(struct deployment *d, unsigned size, unsigned leaving, unsigned left)
{
    unsigned every = 1 + random_below(3);
    for (unsigned i = 1; i <= size + leaving; i++) {
        unsigned pods = i > size ? every : left / size + (i <= left % size);
        pods = pods == 0 ? 1 : pods;
        d->places[d->shard_count] = pods;
        d->shards[d->shard_count++] = (struct balance_shard){
            .number = i, .wanted = every < pods ? every : pods, .leaving = i > size};
    }
}

static void make_deployment(struct deployment *d)
{
    unsigned canary = random_below(3) == 0 ? 1 + random_below(3) : 0;
    unsigned replicas = random_below(PODS + 1);
    *d = (struct deployment){.count = replicas};
    if (canary > 0) {
        d->places[0] = canary;
        d->shards[d->shard_count++] = (struct balance_shard){.number = 0, .wanted = canary};
    }
    add_normal_shards(d, 1 + random_below(5), random_below(3),
                      replicas > canary ? replicas - canary : 0);
    for (unsigned i = 0; i < replicas; i++) {
        bool any = d->shard_count > 1 && random_below(2) == 0;
        size_t shard = any ? random_below((unsigned)d->shard_count) : 0;
        d->pods[i].shard = shard;
        d->pods[i].rank = 1 + random_below(d->places[shard] + 2);
        d->shards[shard].pods++;
    }
}

static void evict_one(struct deployment *d, size_t shard)
{
    unsigned i = random_below(d->count);
    while (d->pods[i].shard != shard) {
        i = (i + 1) % d->count;
    }
    d->pods[i] = d->pods[--d->count];
    d->shards[shard].pods--;
}

static void assign_one(struct deployment *d, bool from_back)
{
    struct assignment_shard shards[SHARDS_MAX];
    struct assignment_place place;
    for (size_t i = 0; i < d->shard_count; i++) {
        shards[i] = (struct assignment_shard){
            .number = d->shards[i].number, .wanted = d->places[i], .leaving = d->shards[i].leaving};
    }
    for (unsigned i = 0; i < d->count; i++) {
        assignment_add_pod(&shards[d->pods[i].shard], true, d->pods[i].rank);
    }
    int rc = assignment_choose(shards, d->shard_count, from_back, false, &place);
    if (rc == -EAGAIN) {
        rc = assignment_choose(shards, d->shard_count, from_back, true, &place);
    }
    assert_int_equal(rc, 0);
    d->pods[d->count++] = (struct placed_pod){.shard = place.shard, .rank = place.rank};
    d->shards[place.shard].pods++;
}

/* Whichever webhook is asked: the successor does not come back for ever. */
static void evictions_come_to_an_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(20000, 1000000); i++) {
        unsigned way = i % WAYS;
        unsigned evictions = 0;
        struct deployment d;
        struct balance b;
        make_deployment(&d);
        while ((b = balance_look(d.shards, d.shard_count)).from != BALANCE_NONE) {
            evict_one(&d, b.from);
            assign_one(&d, way == EITHER ? random_below(2) == 0 : way == BACK);
            assert_true(++evictions <= 2 * PODS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(which_pod),
        cmocka_unit_test(whatever_there_is),
        cmocka_unit_test(what_comes_evenly_stays),
        cmocka_unit_test(evictions_come_to_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
