/* SPDX-License-Identifier: Apache-2.0 */
#include "root/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "root/root_spec.h"
#include "rounds.h"

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

static void test_cost(void **state)
{
    (void)state;
    static const struct {
        struct load_counts counts;
        uint64_t cost;
    } rows[] = {
        {{0, 0, 0}, 0},
        {{0, 0, 1}, 1},
        {{0, 1, 0}, 4},
        {{1, 0, 0}, 8},
        {{2, 3, 5}, 33},
        {{0, 0, UINT64_MAX}, (uint64_t)1 << 50},
        {{UINT64_MAX, UINT64_MAX, UINT64_MAX}, (uint64_t)1 << 50},
        {{(uint64_t)1 << 47, 0, 0}, (uint64_t)1 << 50},
        {{((uint64_t)1 << 47) - 1, 0, 0}, ((uint64_t)1 << 50) - 8},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(load_cost(&rows[i].counts) == rows[i].cost);
    }
}

/* ---- by hand ---- */

struct world {
    struct buckets b;
    uint64_t cost[SHARDING_HASH_SIZE];
    uint32_t eligible;
};

/* Bucket i belongs to owners[i], and costs costs[i]. */
static struct world world_of(size_t count, const unsigned *owners, const uint64_t *costs)
{
    struct world w = {.eligible = 0};
    for (size_t i = 0; i < count; i++) {
        w.b.owner[i] = (uint8_t)owners[i];
        w.cost[i] = costs[i];
        w.eligible |= owners[i] == 0 ? 0 : (uint32_t)1 << (owners[i] - 1);
    }
    return w;
}

static bool choose(const struct world *w, unsigned *bucket, unsigned *to)
{
    return load_choose(&w->b, w->cost, w->eligible, bucket, to);
}

static void assert_stays(const struct world *w)
{
    unsigned bucket;
    unsigned to;
    assert_false(choose(w, &bucket, &to));
}

static void assert_moves(const struct world *w, unsigned bucket, unsigned to)
{
    unsigned chosen = 99;
    unsigned where = 99;
    assert_true(choose(w, &chosen, &where));
    assert_int_equal(chosen, bucket);
    assert_int_equal(where, to);
}

static void test_the_heaviest_gives_to_the_lightest(void **state)
{
    (void)state;
    const unsigned owners[] = {1, 1, 1, 2, 3};
    struct world w = world_of(5, owners, (const uint64_t[]){40, 30, 30, 20, 10});
    assert_moves(&w, 0, 3); /* 60 and 50 */
    w = world_of(5, owners, (const uint64_t[]){90, 1, 1, 20, 10});
    assert_stays(&w); /* 90 would only weigh elsewhere, and to move 1 is no use */
    w = world_of(5, owners, (const uint64_t[]){50, 40, 0, 20, 10});
    assert_moves(&w, 1, 3); /* 50 and 50: less than 40 and 60 */
}

static void test_what_is_alike_stays(void **state)
{
    (void)state;
    const unsigned owners[] = {1, 1, 2, 2};
    struct world w = world_of(4, owners, (const uint64_t[]){0, 0, 0, 0});
    assert_stays(&w);
    w = world_of(4, owners, (const uint64_t[]){100, 25, 50, 25}); /* 25 % above the mean */
    assert_stays(&w);
    w = world_of(4, owners, (const uint64_t[]){100, 26, 50, 24});
    assert_moves(&w, 1, 2);
    w = world_of(4, owners, (const uint64_t[]){125, 5, 40, 30}); /* 5 is less than a tenth of 100 */
    assert_stays(&w);
    w = world_of(4, owners, (const uint64_t[]){120, 10, 40, 30});
    assert_moves(&w, 1, 2);
}

static void test_who_may_have_none(void **state)
{
    (void)state;
    const unsigned owners[] = {1, 1, 2, 3};
    struct world w = world_of(4, owners, (const uint64_t[]){50, 50, 5, 1});
    assert_moves(&w, 0, 3);
    w.eligible = 3; /* not 3 */
    assert_moves(&w, 0, 2);
    w.eligible = 1; /* nobody to give to */
    assert_stays(&w);
    w.eligible = 6; /* what 1 carries is not looked at: 5 and 1 */
    assert_stays(&w);
    w.eligible = 0;
    assert_stays(&w);
    /* A shard without any takes some. */
    w = world_of(4, owners, (const uint64_t[]){50, 50, 5, 1});
    w.eligible = UINT32_MAX;
    assert_moves(&w, 0, 4);
    /* Nobody's, and what makes no sense, weigh nowhere. */
    w.b.owner[0] = 0;
    w.b.owner[1] = 200;
    w.eligible = 6;
    assert_stays(&w);
}

static void test_huge_costs(void **state)
{
    (void)state;
    const unsigned owners[] = {1, 1, 2};
    struct world w = world_of(3, owners, (const uint64_t[]){UINT64_MAX, UINT64_MAX, 0});
    assert_moves(&w, 0, 2);
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        w.b.owner[i] = 1;
        w.cost[i] = UINT64_MAX;
    }
    w.eligible = UINT32_MAX;
    assert_moves(&w, 0, 2);
}

/* ---- many worlds ---- */

static struct world random_world(void)
{
    unsigned shards = 1 + random_below(ROOT_SHARDS_MAX);
    unsigned scale = 1 + random_below(5);
    struct world w = {.eligible = 0};
    for (unsigned i = 1; i <= shards; i++) {
        w.eligible |= random_below(8) == 0 ? 0 : (uint32_t)1 << (i - 1);
    }
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        w.b.owner[i] = (uint8_t)(random_below(20) == 0 ? 0 : 1 + random_below(shards));
        w.cost[i] = random_below(3) == 0 ? 0 : random_below(10);
        for (unsigned n = random_below(scale); n > 0; n--) {
            w.cost[i] *= 10;
        }
    }
    return w;
}

static bool is_eligible(const struct world *w, unsigned shard)
{
    return shard >= 1 && shard <= ROOT_SHARDS_MAX && (w->eligible >> (shard - 1) & 1) != 0;
}

static uint64_t carried_by(const struct world *w, unsigned shard)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        sum += w->b.owner[i] == shard ? w->cost[i] : 0;
    }
    return sum;
}

static uint64_t squares(const struct world *w)
{
    uint64_t sum = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        sum += is_eligible(w, i) ? carried_by(w, i) * carried_by(w, i) : 0;
    }
    return sum;
}

static uint64_t mean_of(const struct world *w)
{
    uint64_t sum = 0;
    unsigned shards = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        sum += is_eligible(w, i) ? carried_by(w, i) : 0;
        shards += is_eligible(w, i);
    }
    return shards == 0 ? 0 : sum / shards;
}

static uint64_t most_of(const struct world *w)
{
    uint64_t most = 0;
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        uint64_t carried = is_eligible(w, i) ? carried_by(w, i) : 0;
        most = carried > most ? carried : most;
    }
    return most;
}

static uint64_t larger_after(const struct world *w, unsigned bucket, unsigned to)
{
    uint64_t left = carried_by(w, w->b.owner[bucket]) - w->cost[bucket];
    uint64_t got = carried_by(w, to) + w->cost[bucket];
    return left > got ? left : got;
}

/* None of any bucket of any shard that carries most makes it better by a tenth of the mean. */
static void assert_no_move_helps(const struct world *w)
{
    uint64_t most = most_of(w);
    unsigned heaviest = 1;
    while (!is_eligible(w, heaviest) || carried_by(w, heaviest) != most) {
        heaviest++;
    }
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        for (unsigned to = 1; w->b.owner[i] == heaviest && to <= ROOT_SHARDS_MAX; to++) {
            uint64_t larger = larger_after(w, i, to);
            assert_true(!is_eligible(w, to) || to == heaviest || larger >= most ||
                        (most - larger) * 10 < mean_of(w));
        }
    }
}

static void check_move(const struct world *w, unsigned bucket, unsigned to)
{
    unsigned from = w->b.owner[bucket];
    assert_true(bucket < SHARDING_HASH_SIZE);
    assert_true(is_eligible(w, from) && is_eligible(w, to) && from != to);
    assert_true(carried_by(w, from) == most_of(w));
    assert_true(most_of(w) * 100 > mean_of(w) * (100 + LOAD_TOLERANCE));
    uint64_t larger = larger_after(w, bucket, to);
    assert_true((most_of(w) - larger) * 10 >= mean_of(w));
    /* It is the best one of that shard. */
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        for (unsigned k = 1; w->b.owner[i] == from && k <= ROOT_SHARDS_MAX; k++) {
            assert_true(!is_eligible(w, k) || k == from || larger <= larger_after(w, i, k));
        }
    }
    /* A shard keeps something. */
    assert_true(buckets_of(&w->b, from) != (uint32_t)1 << bucket);
}

/* Until no more is moved: each move makes it better, none leads back, and in the end shards carry
 * alike, or no single move helps. */
static void test_it_comes_to_an_end(void **state)
{
    (void)state;
    for (unsigned round = 0; round < rounds(20000, 100000); round++) {
        struct world w = random_world();
        unsigned bucket;
        unsigned to;
        unsigned moves = 0;
        while (choose(&w, &bucket, &to)) {
            unsigned again = 99;
            unsigned where = 99;
            assert_true(choose(&w, &again, &where));
            assert_true(again == bucket && where == to);
            check_move(&w, bucket, to);
            uint64_t before = squares(&w);
            w.b.owner[bucket] = (uint8_t)to;
            assert_true(squares(&w) < before);
            assert_true(++moves < 1000);
        }
        if (w.eligible != 0 && most_of(&w) * 100 > mean_of(&w) * (100 + LOAD_TOLERANCE)) {
            assert_no_move_helps(&w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_the_heaviest_gives_to_the_lightest),
        cmocka_unit_test(test_what_is_alike_stays),
        cmocka_unit_test(test_who_may_have_none),
        cmocka_unit_test(test_huge_costs),
        cmocka_unit_test(test_it_comes_to_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
