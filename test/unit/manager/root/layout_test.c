/* SPDX-License-Identifier: Apache-2.0 */
#include "root/layout.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "rounds.h"

static uint64_t random_state = 362436069521288629u;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

static unsigned count_bits(uint32_t bits)
{
    unsigned count = 0;
    for (; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

/* ---- a world of children ---- */

struct world {
    struct root_spec spec;
    struct layout_child children[1 + ROOT_SHARDS_MAX]; /* by number */
    bool there[1 + ROOT_SHARDS_MAX];
    int replicas;
    int64_t first;
    struct layout made;
};

static struct world world_of(unsigned size)
{
    return (struct world){.spec = {.automatic = {.there = true, .size = size, .every = 2}},
                          .replicas = -1,
                          .first = -1};
}

static void make(struct world *w)
{
    struct layout_child list[1 + ROOT_SHARDS_MAX];
    size_t count = 0;
    for (unsigned i = 0; i <= ROOT_SHARDS_MAX; i++) {
        if (w->there[i]) {
            list[count] = w->children[i];
            list[count++].number = i;
        }
    }
    const struct layout_facts facts = {
        .children = list, .child_count = count, .replicas = w->replicas, .first = w->first};
    layout_make(&w->spec, &facts, &w->made);
}

static const struct layout_shard *find(const struct world *w, unsigned number)
{
    for (size_t i = 0; i < w->made.count; i++) {
        if (w->made.shards[i].number == number) {
            return &w->made.shards[i];
        }
    }
    return NULL;
}

static uint32_t share_of(const struct world *w, unsigned number)
{
    const struct layout_shard *shard = find(w, number);
    return shard == NULL ? 0 : shard->buckets;
}

/* What was made is applied. */
static void apply(struct world *w)
{
    for (unsigned i = 0; i <= ROOT_SHARDS_MAX; i++) {
        const struct layout_shard *shard = find(w, i);
        w->there[i] = shard != NULL;
        w->children[i].buckets = shard == NULL ? 0 : shard->buckets;
        w->children[i].taken_over = shard != NULL && shard->taken_over;
        w->children[i].pods = shard == NULL ? 0 : shard->pods;
        w->children[i].first = shard == NULL ? 0 : shard->first;
    }
}

static void live(struct world *w, unsigned from, unsigned to, enum layout_life life)
{
    for (unsigned i = from; i <= to; i++) {
        w->children[i].life = life;
        w->children[i].has_pods = life == LAYOUT_ALIVE || life == LAYOUT_LONG_ALIVE;
    }
}

/* Until nothing is left to be done: how many buckets moved on the way. */
static size_t settle(struct world *w)
{
    size_t moved = 0;
    for (unsigned i = 0; i < 5; i++) {
        make(w);
        moved += w->made.moved;
        apply(w);
    }
    make(w);
    assert_false(w->made.changed);
    assert_int_equal(w->made.moved, 0);
    return moved;
}

static void expect_shares(const struct world *w, const unsigned *shares, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(count_bits(share_of(w, (unsigned)i + 1)), shares[i]);
    }
}

#define EXPECT_SHARES(w, ...)                                                                      \
    do {                                                                                           \
        const unsigned shares_[] = {__VA_ARGS__};                                                  \
        expect_shares((w), shares_, ARRAY_LEN(shares_));                                           \
    } while (0)

/* ---- size ---- */

static void first_shares(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.canary.replicas = 1;
    make(&w);
    assert_int_equal(w.made.count, 3);
    assert_int_equal(w.made.size, 2);
    assert_int_equal(w.made.needed, 5);
    assert_int_equal(w.made.room, 5);
    assert_int_equal(w.made.moved, 0);
    assert_true(w.made.changed);
    assert_true(w.made.fresh);
    const struct layout_shard want[] = {
        {.number = 0, .first = 0, .pods = 1},
        {.number = 1, .first = 1, .pods = 2, .buckets = 0xffff},
        {.number = 2, .first = 3, .pods = 2, .buckets = 0xffff0000},
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_int_equal(w.made.shards[i].number, want[i].number);
        assert_int_equal(w.made.shards[i].first, want[i].first);
        assert_int_equal(w.made.shards[i].pods, want[i].pods);
        assert_int_equal(w.made.shards[i].buckets, want[i].buckets);
        assert_false(w.made.shards[i].leaving || w.made.shards[i].taken_over);
    }
}

static void sizes_change(void **state)
{
    (void)state;
    struct world w = world_of(2);
    static const struct {
        unsigned size;
        size_t moved;
    } steps[] = {{2, 0}, {3, 10}, {10, 21}, {2, 24}};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        w.spec.automatic.size = steps[i].size;
        live(&w, 1, 32, LAYOUT_ALIVE);
        /* A shard gets nothing before its pods live: here they do as soon as it is there. */
        assert_int_equal(settle(&w), steps[i].moved);
    }
    EXPECT_SHARES(&w, 16, 16);
    assert_int_equal(w.made.count, 10); /* the rest still has pods */
    for (unsigned i = 3; i <= 10; i++) {
        assert_true(find(&w, i)->leaving);
        assert_int_equal(find(&w, i)->first, 2 * (i - 1));
    }
    live(&w, 3, 10, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 0);
    assert_int_equal(w.made.count, 2);
}

static void a_new_shard_waits_for_its_pods(void **state)
{
    (void)state;
    struct world w = world_of(2);
    (void)settle(&w);
    live(&w, 1, 2, LAYOUT_ALIVE);
    w.spec.automatic.size = 3;
    assert_int_equal(settle(&w), 0);
    assert_int_equal(find(&w, 3)->pods, 2);
    assert_false(find(&w, 3)->leaving);
    EXPECT_SHARES(&w, 16, 16, 0);
    live(&w, 3, 3, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 0);
    live(&w, 3, 3, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 10);
    EXPECT_SHARES(&w, 11, 11, 10);
    live(&w, 3, 3, LAYOUT_DEAD); /* without takeover it keeps what it has */
    assert_int_equal(settle(&w), 0);
    live(&w, 3, 3, LAYOUT_LONG_DEAD);
    assert_int_equal(settle(&w), 0);
}

static void size_by_replicas(void **state)
{
    (void)state;
    /* The last shard may have fewer pods: each pod is in a shard, whatever an autoscaler says. */
    static const struct {
        int replicas;
        unsigned size;
    } cases[] = {{0, 1}, {1, 1}, {2, 1},   {3, 1},   {4, 2},   {5, 2},
                 {6, 3}, {7, 3}, {63, 31}, {64, 32}, {67, 32}, {100000, 32}};
    struct world w = world_of(0);
    w.spec.canary.replicas = 1;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        w.replicas = cases[i].replicas;
        make(&w);
        assert_int_equal(w.made.size, cases[i].size);
        assert_int_equal(w.made.needed, 2 * cases[i].size);
        assert_int_equal(w.made.room, 1 + 2 * cases[i].size);
    }
}

/* All pods are some shard's. */
static void size_of_a_deployment(void **state)
{
    (void)state;
    static const struct {
        int replicas;
        unsigned size;
    } cases[] = {{0, 1}, {2, 1}, {4, 1}, {5, 2}, {6, 2}, {7, 3}, {64, 31}, {65, 32}, {1000, 32}};
    struct world w = world_of(0);
    w.spec.deployment = true;
    w.spec.canary.replicas = 1;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        w.replicas = cases[i].replicas;
        make(&w);
        assert_int_equal(w.made.size, cases[i].size);
        assert_int_equal(w.made.needed, 2);
        assert_int_equal(w.made.room, UINT_MAX);
        assert_int_equal(find(&w, 0)->pods, 1);
        unsigned pods = 0;
        for (unsigned n = 1; n <= cases[i].size; n++) {
            unsigned share = find(&w, n)->pods;
            assert_true(share <= find(&w, 1)->pods && share + 1 >= find(&w, 1)->pods);
            pods += share;
        }
        assert_int_equal(pods, cases[i].replicas < 2 ? 1 : cases[i].replicas - 1);
    }
    w.spec.automatic.size = 3;
    make(&w);
    assert_int_equal(w.made.needed, 7);
    w.replicas = 6;
    make(&w);
    assert_int_equal(find(&w, 1)->pods, 2);
    assert_int_equal(find(&w, 2)->pods, 2);
    assert_int_equal(find(&w, 3)->pods, 1);
    w.replicas = -1;
    make(&w);
    assert_int_equal(find(&w, 3)->pods, 2);
    w.spec.automatic.there = false;
    w.replicas = 8;
    make(&w);
    assert_int_equal(find(&w, 1)->pods, 7);
}

static void size_while_replicas_are_unknown(void **state)
{
    (void)state;
    struct world w = world_of(0);
    make(&w);
    assert_int_equal(w.made.size, 1);
    w.there[3] = true; /* one that waits for its pods, and no buckets anywhere */
    make(&w);
    assert_int_equal(w.made.size, 3);
    w.there[3] = false;
    w.replicas = 10;
    (void)settle(&w);
    w.replicas = -1;
    live(&w, 1, 5, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 0);
    assert_int_equal(w.made.size, 5);
    w.replicas = 6;
    (void)settle(&w);
    assert_int_equal(w.made.count, 5);
    w.replicas = -1; /* those that leave come back to nothing by it */
    assert_int_equal(settle(&w), 0);
    assert_int_equal(w.made.size, 3);
    w.children[5].taken_over = true;
    make(&w);
    assert_int_equal(w.made.size, 5);
}

static void without_auto(void **state)
{
    (void)state;
    struct world w = {.spec = {.canary = {.replicas = 2, .buckets = 0xf}}, .replicas = 5};
    make(&w);
    assert_int_equal(w.made.count, 2);
    assert_int_equal(w.made.needed, 3);
    assert_int_equal(w.made.room, 5);
    assert_int_equal(find(&w, 0)->pods, 2);
    assert_int_equal(find(&w, 1)->first, 2);
    assert_int_equal(find(&w, 1)->pods, 3);
    assert_int_equal(find(&w, 1)->buckets, 0xfffffff0);
    apply(&w);
    w.replicas = -1;
    make(&w);
    assert_int_equal(find(&w, 1)->pods, 3);
    w.replicas = 2;
    make(&w);
    assert_int_equal(find(&w, 1)->pods, 1);
    w.there[1] = false;
    w.replicas = -1;
    make(&w);
    assert_int_equal(find(&w, 1)->pods, 1);
    w.replicas = 1000000;
    make(&w);
    assert_int_equal(find(&w, 1)->pods, ROOT_REPLICAS_MAX);
}

static void pods_from_another_ordinal_on(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.canary.replicas = 1;
    w.first = 5;
    make(&w);
    assert_int_equal(find(&w, 0)->first, 5);
    assert_int_equal(find(&w, 1)->first, 6);
    assert_int_equal(find(&w, 2)->first, 8);
    assert_int_equal(w.made.needed, 5);
    apply(&w);
    w.first = -1; /* while it is not known they stay */
    make(&w);
    assert_int_equal(w.made.first, 5);
    assert_int_equal(find(&w, 2)->first, 8);
    w.spec.canary.replicas = 2;
    make(&w);
    assert_int_equal(find(&w, 1)->first, 7);
    w.first = 0;
    make(&w);
    assert_int_equal(find(&w, 0)->first, 0);
    assert_int_equal(find(&w, 1)->first, 2);
}

/* The normal shards have made room for a canary that the API server refuses. */
static void pods_beside_a_canary_that_there_is_not(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.canary.replicas = 1;
    (void)settle(&w);
    for (unsigned i = 0; i < 3; i++) {
        w.there[0] = false;
        make(&w); /* by managers that know no StatefulSet */
        assert_int_equal(w.made.first, 0);
        assert_int_equal(find(&w, 1)->first, 1);
        assert_int_equal(find(&w, 2)->first, 3);
        apply(&w);
    }
}

/* ---- the canary ---- */

static void the_canary_changes(void **state)
{
    (void)state;
    struct world w = world_of(2);
    (void)settle(&w);
    live(&w, 0, 2, LAYOUT_ALIVE);
    w.spec.canary = (struct root_canary){.replicas = 1, .buckets = 0x3};
    assert_int_equal(settle(&w), 3); /* two to the canary, one to be even again */
    EXPECT_SHARES(&w, 15, 15);
    w.spec.canary.buckets = 0xc;
    (void)settle(&w);
    EXPECT_SHARES(&w, 15, 15);
    assert_int_equal(share_of(&w, 1) | share_of(&w, 2), ~(uint32_t)0xc);
    w.spec.canary = (struct root_canary){.replicas = 0};
    assert_int_equal(settle(&w), 0);
    EXPECT_SHARES(&w, 16, 16);
    assert_true(find(&w, 0)->leaving); /* it still has pods */
    assert_int_equal(find(&w, 0)->pods, 0);
    assert_int_equal(find(&w, 1)->first, 0);
    live(&w, 0, 0, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 0);
    assert_null(find(&w, 0));
}

static void a_canary_with_everything(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.canary = (struct root_canary){.replicas = 1, .buckets = UINT32_MAX};
    (void)settle(&w);
    EXPECT_SHARES(&w, 0, 0);
    assert_int_equal(w.made.count, 3);
}

/* ---- life and death ---- */

static void takeover(void **state)
{
    (void)state;
    struct world w = world_of(3);
    w.spec.automatic.takeover_s = 30;
    (void)settle(&w);
    live(&w, 1, 3, LAYOUT_LONG_ALIVE);
    const uint32_t share = share_of(&w, 2);
    live(&w, 2, 2, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 0);
    live(&w, 2, 2, LAYOUT_LONG_DEAD);
    assert_int_equal(settle(&w), 11);
    EXPECT_SHARES(&w, 16, 0, 16);
    assert_true(find(&w, 2)->taken_over);
    live(&w, 2, 2, LAYOUT_ALIVE); /* not for long enough yet */
    assert_int_equal(settle(&w), 0);
    assert_true(find(&w, 2)->taken_over);
    live(&w, 2, 2, LAYOUT_DEAD); /* and it was not */
    assert_int_equal(settle(&w), 0);
    live(&w, 2, 2, LAYOUT_LONG_ALIVE);
    assert_int_equal(settle(&w), 10);
    EXPECT_SHARES(&w, 11, 10, 11);
    assert_false(find(&w, 2)->taken_over);
    assert_int_not_equal(share, 0);
}

static void nobody_is_left_to_take_over(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.automatic.takeover_s = 30;
    (void)settle(&w);
    live(&w, 1, 2, LAYOUT_LONG_DEAD);
    assert_int_equal(settle(&w), 0);
    EXPECT_SHARES(&w, 16, 16);
    w.children[1].life = LAYOUT_UNKNOWN; /* is not known to live */
    assert_int_equal(settle(&w), 0);
    live(&w, 1, 1, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 16);
    EXPECT_SHARES(&w, 32, 0);
    live(&w, 1, 1, LAYOUT_LONG_DEAD); /* now this one, and the other has just come back */
    live(&w, 2, 2, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 0);
    live(&w, 2, 2, LAYOUT_LONG_ALIVE);
    assert_int_equal(settle(&w), 32);
    EXPECT_SHARES(&w, 0, 32);
    assert_true(find(&w, 1)->taken_over);
}

static void takeover_is_switched_off(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.automatic.takeover_s = 30;
    (void)settle(&w);
    live(&w, 1, 1, LAYOUT_LONG_ALIVE);
    live(&w, 2, 2, LAYOUT_LONG_DEAD);
    (void)settle(&w);
    EXPECT_SHARES(&w, 32, 0);
    w.spec.automatic.takeover_s = 0;
    assert_int_equal(settle(&w), 0);
    assert_false(find(&w, 2)->taken_over);
    live(&w, 2, 2, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 16);
}

static void the_dead_gain_nothing_while_others_work(void **state)
{
    (void)state;
    struct world w = world_of(3);
    (void)settle(&w);
    live(&w, 1, 3, LAYOUT_ALIVE);
    w.spec.automatic.size = 2;
    live(&w, 2, 2, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 10);
    EXPECT_SHARES(&w, 21, 11, 0);
    live(&w, 2, 2, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 5);
    EXPECT_SHARES(&w, 16, 16);
    /* What it has too many it gives all the same. */
    w.spec.automatic.size = 4;
    w.there[4] = true;
    live(&w, 2, 2, LAYOUT_DEAD);
    live(&w, 3, 4, LAYOUT_ALIVE);
    assert_int_equal(settle(&w), 16);
    EXPECT_SHARES(&w, 8, 8, 8, 8);
}

/* What the normal shards have, and whether the canary is one whose share they have too. */
static void expect_canary(const struct world *w, bool taken, uint32_t spread)
{
    uint32_t all = 0;
    assert_int_equal(find(w, 0)->taken_over, taken);
    for (unsigned i = 1; i <= w->made.size; i++) {
        assert_int_equal(find(w, i)->with_canary, taken);
        all |= share_of(w, i);
    }
    assert_int_equal(all, spread);
}

static void takeover_of_the_canary(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.canary = (struct root_canary){.replicas = 1, .buckets = 0xf};
    (void)settle(&w);
    live(&w, 0, 2, LAYOUT_LONG_ALIVE);
    live(&w, 0, 0, LAYOUT_LONG_DEAD);
    assert_int_equal(settle(&w), 0);
    expect_canary(&w, false, ~(uint32_t)0xf); /* nobody wishes it */
    w.spec.automatic.takeover_s = 30;
    live(&w, 0, 0, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 0);
    expect_canary(&w, false, ~(uint32_t)0xf);
    live(&w, 0, 0, LAYOUT_LONG_DEAD);
    make(&w);
    assert_true(w.made.changed);
    assert_int_equal(w.made.moved, 0); /* from one normal shard to another */
    (void)settle(&w);
    expect_canary(&w, true, UINT32_MAX);
    EXPECT_SHARES(&w, 16, 16);
    assert_false(find(&w, 0)->leaving);
    assert_int_equal(find(&w, 0)->pods, 1);
    live(&w, 0, 0, LAYOUT_ALIVE); /* not for long enough yet */
    assert_int_equal(settle(&w), 0);
    expect_canary(&w, true, UINT32_MAX);
    live(&w, 1, 2, LAYOUT_LONG_DEAD); /* whatever became of the others */
    assert_int_equal(settle(&w), 0);
    expect_canary(&w, true, UINT32_MAX);
    live(&w, 0, 0, LAYOUT_LONG_ALIVE);
    assert_int_equal(settle(&w), 4); /* all of them to the canary */
    expect_canary(&w, false, ~(uint32_t)0xf);
    EXPECT_SHARES(&w, 14, 14);
    live(&w, 0, 0, LAYOUT_LONG_DEAD); /* no normal shard lives */
    assert_int_equal(settle(&w), 0);
    expect_canary(&w, false, ~(uint32_t)0xf);
    live(&w, 2, 2, LAYOUT_ALIVE);
    (void)settle(&w);
    expect_canary(&w, true, UINT32_MAX);
    EXPECT_SHARES(&w, 0, 32);
    w.spec.automatic.takeover_s = 0;
    (void)settle(&w);
    expect_canary(&w, false, ~(uint32_t)0xf);
}

/* Of names alone buckets do not move; of all hashes no normal shard has any before. */
static void takeover_of_a_canary_with_nothing_or_everything(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.automatic.takeover_s = 30;
    w.spec.canary = (struct root_canary){.replicas = 1};
    (void)settle(&w);
    live(&w, 1, 2, LAYOUT_ALIVE);
    live(&w, 0, 0, LAYOUT_LONG_DEAD);
    assert_int_equal(settle(&w), 0);
    expect_canary(&w, true, UINT32_MAX);
    w.spec.canary.buckets = UINT32_MAX;
    live(&w, 0, 0, LAYOUT_LONG_ALIVE);
    (void)settle(&w);
    expect_canary(&w, false, 0);
    live(&w, 2, 2, LAYOUT_DEAD);
    live(&w, 0, 0, LAYOUT_LONG_DEAD);
    (void)settle(&w);
    expect_canary(&w, true, UINT32_MAX);
    EXPECT_SHARES(&w, 32, 0); /* to who works */
    live(&w, 0, 0, LAYOUT_LONG_ALIVE);
    (void)settle(&w);
    expect_canary(&w, false, 0);
}

/* Normal shards have gained, and the canary has lost nothing yet: it stays with it if it lives. */
static void takeover_of_the_canary_is_broken_off(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.spec.automatic.takeover_s = 30;
    w.spec.canary = (struct root_canary){.replicas = 1, .buckets = 0xf};
    (void)settle(&w);
    live(&w, 1, 2, LAYOUT_LONG_ALIVE);
    w.children[1].buckets |= 0x3;
    live(&w, 0, 0, LAYOUT_DEAD);
    (void)settle(&w);
    expect_canary(&w, false, ~(uint32_t)0xf);
    w.children[1].buckets |= 0x3;
    live(&w, 0, 0, LAYOUT_LONG_DEAD);
    make(&w);
    assert_int_equal(share_of(&w, 1) & 0x3, 0x3);
    (void)settle(&w);
    expect_canary(&w, true, UINT32_MAX);
    w.children[0].taken_over = false; /* and given back, but they have it still */
    live(&w, 0, 0, LAYOUT_ALIVE);
    (void)settle(&w);
    expect_canary(&w, false, ~(uint32_t)0xf);
}

static void all_are_dead(void **state)
{
    (void)state;
    struct world w = world_of(3);
    (void)settle(&w);
    live(&w, 1, 3, LAYOUT_DEAD);
    w.spec.automatic.size = 2;
    assert_int_equal(settle(&w), 10);
    EXPECT_SHARES(&w, 16, 16, 0);
}

static void those_that_leave_work_on_while_nobody_else_does(void **state)
{
    (void)state;
    struct world w = world_of(3);
    w.spec.automatic.takeover_s = 30;
    (void)settle(&w);
    live(&w, 2, 3, LAYOUT_LONG_ALIVE);
    live(&w, 1, 1, LAYOUT_LONG_DEAD);
    (void)settle(&w);
    EXPECT_SHARES(&w, 0, 16, 16);
    w.spec.automatic.size = 1;
    assert_int_equal(settle(&w), 0);
    EXPECT_SHARES(&w, 0, 16, 16);
    assert_true(find(&w, 2)->leaving && find(&w, 3)->leaving);
    live(&w, 1, 1, LAYOUT_LONG_ALIVE);
    assert_int_equal(settle(&w), 32);
    EXPECT_SHARES(&w, 32, 0, 0);
    /* Without pods they are nothing to wait for. */
    w = world_of(3);
    (void)settle(&w);
    live(&w, 1, 3, LAYOUT_DEAD);
    w.spec.automatic.size = 1;
    (void)settle(&w);
    EXPECT_SHARES(&w, 32);
    assert_int_equal(w.made.count, 1);
}

/* ---- broken off ---- */

static void gains_without_losses(void **state)
{
    (void)state;
    struct world w = world_of(2);
    (void)settle(&w);
    live(&w, 1, 3, LAYOUT_ALIVE);
    w.spec.automatic.size = 3;
    w.there[3] = true;
    make(&w);
    struct layout first = w.made;
    w.children[3].buckets = share_of(&w, 3); /* the only one that gains */
    make(&w);
    assert_int_equal(w.made.moved, 0);
    assert_true(w.made.changed);
    for (size_t i = 0; i < first.count; i++) {
        assert_int_equal(w.made.shards[i].buckets, first.shards[i].buckets);
    }
    w.spec.automatic.size = 2; /* and back: those who lost nothing yet go on */
    assert_int_equal(settle(&w), 10);
    EXPECT_SHARES(&w, 16, 16, 0);
}

static void two_claim_the_same(void **state)
{
    (void)state;
    struct world w = world_of(2);
    w.there[1] = w.there[2] = true;
    w.children[1].buckets = UINT32_MAX;
    w.children[2].buckets = 0xffff0000;
    make(&w);
    assert_int_equal(share_of(&w, 2), 0xffff0000);
    w.children[1].buckets = 0xffff0000; /* as many: the larger number */
    make(&w);
    assert_int_equal(share_of(&w, 2), 0xffff0000);
    assert_int_equal(share_of(&w, 1), 0xffff);
}

static void numbers_that_there_are_not(void **state)
{
    (void)state;
    const struct root_spec spec = {.automatic = {.there = true, .every = 1}};
    const struct layout_child children[] = {{.number = 33, .buckets = 5}, {.number = 2000}};
    const struct layout_facts facts = {.children = children, .child_count = 2, .replicas = -1};
    struct layout made;
    layout_make(&spec, &facts, &made);
    assert_int_equal(made.count, 1);
    assert_int_equal(made.shards[0].buckets, UINT32_MAX);
}

/* ---- by load ---- */

static void what_load_has_moved_stays(void **state)
{
    (void)state;
    struct world w = world_of(3);
    w.spec.automatic.moves_per_hour = 4;
    (void)settle(&w);
    live(&w, 1, 4, LAYOUT_ALIVE);
    w.children[1].buckets = 0x3;
    w.children[2].buckets = 0xffffc;
    w.children[3].buckets = 0xfff00000;
    assert_int_equal(settle(&w), 0);
    EXPECT_SHARES(&w, 2, 18, 12);
    w.spec.canary = (struct root_canary){.replicas = 1, .buckets = 0xc};
    assert_int_equal(settle(&w), 2);
    EXPECT_SHARES(&w, 2, 16, 12);
    w.spec.canary = (struct root_canary){.replicas = 0};
    live(&w, 1, 1, LAYOUT_DEAD);
    assert_int_equal(settle(&w), 0); /* nobody's go to who has fewest and works */
    EXPECT_SHARES(&w, 2, 16, 14);
    live(&w, 1, 1, LAYOUT_ALIVE);
    w.spec.automatic.size = 4; /* one comes: all is even again */
    (void)settle(&w);
    EXPECT_SHARES(&w, 8, 8, 8, 8);
    w.children[1].buckets |= 1u << 31; /* and without, always */
    w.spec.automatic.moves_per_hour = 0;
    (void)settle(&w);
    EXPECT_SHARES(&w, 8, 8, 8, 8);
}

/* ---- whatever there is ---- */

static void random_world(struct world *w)
{
    *w = world_of(random_below(33));
    w->spec.automatic.every = 1 + random_below(3);
    w->spec.automatic.takeover_s = random_below(2) == 0 ? 30 : 0;
    w->spec.automatic.moves_per_hour = random_below(3) == 0 ? 4 : 0;
    w->spec.automatic.there = random_below(8) != 0;
    w->spec.canary.replicas = random_below(3);
    if (w->spec.canary.replicas != 0) {
        w->spec.canary.buckets = random_below(2) == 0 ? 0 : (uint32_t)random_state;
    }
    w->replicas = (int)random_below(100) - 1;
    unsigned last = random_below(33);
    for (unsigned i = 0; i <= last; i++) {
        w->there[i] = random_below(8) != 0;
        w->children[i].life = random_below(5);
        w->children[i].has_pods = random_below(4) != 0;
        w->children[i].taken_over = random_below(8) == 0;
    }
    for (unsigned i = 0; i < 32; i++) {
        unsigned owner = random_below(last + 1);
        unsigned other = random_below(last + 1);
        w->children[owner].buckets |= (uint32_t)1 << i;
        w->children[other].buckets |= random_below(8) == 0 ? (uint32_t)1 << i : 0;
    }
}

/* Nothing is lost, nothing has two owners. */
static void check_whole(const struct world *w)
{
    uint32_t seen = 0;
    unsigned next = 0;
    bool taken = find(w, 0) != NULL && find(w, 0)->taken_over;
    for (size_t i = 0; i < w->made.count; i++) {
        const struct layout_shard *shard = &w->made.shards[i];
        assert_int_equal(seen & shard->buckets, 0);
        seen |= shard->buckets;
        assert_true(shard->number >= next);
        next = shard->number + 1;
        assert_true(shard->leaving == (shard->number > w->made.size) || shard->number == 0);
        assert_false(shard->taken_over && (shard->buckets != 0 || shard->leaving));
        assert_int_equal(shard->with_canary, shard->number != 0 && taken);
    }
    assert_int_equal(seen, taken ? UINT32_MAX : ~w->spec.canary.buckets);
    assert_false(taken && w->spec.automatic.takeover_s == 0);
    assert_false(taken && w->children[0].life == LAYOUT_LONG_ALIVE);
    assert_true(!taken || w->children[0].taken_over || w->children[0].life == LAYOUT_LONG_DEAD);
    for (unsigned i = 1; i <= w->made.size; i++) {
        assert_non_null(find(w, i));
    }
    assert_true(w->made.size >= 1 && w->made.size <= ROOT_SHARDS_MAX);
}

static void whatever_there_is(void **state)
{
    (void)state;
    for (unsigned n = 0; n < rounds(20000, 100000); n++) {
        struct world w;
        random_world(&w);
        make(&w);
        check_whole(&w);
        struct layout first = w.made;
        make(&w);
        assert_memory_equal(&first, &w.made, sizeof first);
        apply(&w);
        if (n % 10 == 0) {
            (void)settle(&w); /* it comes to rest */
        }
    }
}

/* All live, none is to be moved by load: then it is as even as can be, by the fewest moves. */
static void all_that_live_are_even(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 20000; n++) {
        struct world w;
        random_world(&w);
        w.spec.automatic.moves_per_hour = 0;
        w.children[0].life = LAYOUT_LONG_ALIVE;
        struct buckets before = {.owner = {0}};
        for (unsigned i = 1; i <= 32; i++) {
            w.there[i] = true;
            w.children[i] = (struct layout_child){.life = LAYOUT_LONG_ALIVE, .has_pods = true};
        }
        for (unsigned i = 0; i < 32; i++) {
            before.owner[i] = (uint8_t)(1 + random_below(32));
            w.children[before.owner[i]].buckets |= (uint32_t)1 << i;
        }
        make(&w);
        struct buckets after = before;
        buckets_balance(&after, ~w.spec.canary.buckets,
                        (uint32_t)(((uint64_t)1 << w.made.size) - 1));
        assert_int_equal(w.made.moved, buckets_moved(&before, &after));
        for (unsigned i = 1; i <= 32; i++) {
            assert_int_equal(share_of(&w, i), buckets_of(&after, i));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_shares),
        cmocka_unit_test(sizes_change),
        cmocka_unit_test(a_new_shard_waits_for_its_pods),
        cmocka_unit_test(size_by_replicas),
        cmocka_unit_test(size_of_a_deployment),
        cmocka_unit_test(pods_from_another_ordinal_on),
        cmocka_unit_test(pods_beside_a_canary_that_there_is_not),
        cmocka_unit_test(size_while_replicas_are_unknown),
        cmocka_unit_test(without_auto),
        cmocka_unit_test(the_canary_changes),
        cmocka_unit_test(a_canary_with_everything),
        cmocka_unit_test(takeover),
        cmocka_unit_test(nobody_is_left_to_take_over),
        cmocka_unit_test(takeover_of_the_canary),
        cmocka_unit_test(takeover_of_a_canary_with_nothing_or_everything),
        cmocka_unit_test(takeover_of_the_canary_is_broken_off),
        cmocka_unit_test(takeover_is_switched_off),
        cmocka_unit_test(the_dead_gain_nothing_while_others_work),
        cmocka_unit_test(all_are_dead),
        cmocka_unit_test(those_that_leave_work_on_while_nobody_else_does),
        cmocka_unit_test(gains_without_losses),
        cmocka_unit_test(two_claim_the_same),
        cmocka_unit_test(numbers_that_there_are_not),
        cmocka_unit_test(what_load_has_moved_stays),
        cmocka_unit_test(whatever_there_is),
        cmocka_unit_test(all_that_live_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
