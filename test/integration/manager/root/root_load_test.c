/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roots whose buckets move for the sake of load, against a small API server. A minute is a second
 * here, and what a bucket costs is counted by the pod of the shard that has it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "root/buckets.h"
#include "roots_fixture.h"
#include "json/edit.h"
#include "json/field.h"

enum { MINUTE = 1000, PODS = 3, MS = 1000 };

/* Of the pods op-0 and so on, which are one shard each. */
static struct {
    struct control_load loads[PODS];
    uint64_t started_at[PODS];
    bool silent[PODS];
    unsigned rate[SHARDING_HASH_SIZE]; /* events of a bucket in a turn */
} counts;

static const struct control_load *load_of(void *world, const char *pod)
{
    (void)world;
    unsigned long i = strtoul(pod + strlen("n/op-"), NULL, 10);
    return i < PODS && !counts.silent[i] ? &counts.loads[i] : NULL;
}

static void on_turn(struct world *w)
{
    for (unsigned i = 0; i < PODS; i++) {
        uint32_t buckets = 0;
        struct control_load *l = &counts.loads[i];
        if (buckets_parse(world_buckets(w, i + 1), &buckets) != 0) {
            continue;
        }
        l->since_s = (w->clock.now - counts.started_at[i]) / MS;
        for (unsigned k = 0; k < SHARDING_HASH_SIZE; k++) {
            l->of[k].events += (buckets >> k & 1) != 0 ? counts.rate[k] : 0;
        }
    }
}

static int setup(void **state)
{
    if (world_setup(state) != 0) {
        return -1;
    }
    struct world *w = *state;
    memset(&counts, 0, sizeof counts);
    w->minute_ms = MINUTE;
    w->load_of = load_of;
    w->on_turn = on_turn;
    return 0;
}

static void lead(struct world *w)
{
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
}

/* Two shards of a pod each, which are ready. `more`: members of auto. */
static void begin(struct world *w, const char *more)
{
    char root[256];
    (void)snprintf(root, sizeof root, "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1%s}",
                   more);
    world_root(w, root);
    world_stateful_set(w, 2);
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 1, "x-2-normal", true);
    lead(w);
    world_expect_buckets(w, 1, "0-15");
    world_expect_buckets(w, 2, "16-31");
}

#define MOVES(n) ",\"rebalance\":{\"maxMovesPerHour\":" #n "}"

/* The first shard carries 100, the second 10: 60 and 50 are the best. */
static void skew(void)
{
    counts.rate[0] = 40;
    counts.rate[1] = 40;
    counts.rate[2] = 20;
    counts.rate[16] = 10;
}

static const char *of_root(struct world *w, const char *path)
{
    return store_text(store_get(&w->store, "shardingconfigs", "n", "r"), path);
}

static void expect_even(struct world *w)
{
    world_expect_buckets(w, 1, "0-15");
    world_expect_buckets(w, 2, "16-31");
    assert_int_equal(world_events(w, "Rebalanced"), 0);
}

/* ---- one move ---- */

static void a_skewed_load_leads_to_one_move(void **state)
{
    struct world *w = *state;
    skew();
    begin(w, MOVES(32));
    assert_string_equal(
        store_text(world_child(w, 1), "metadata/annotations/ctrlmesh.kusionstack.io~count-load"),
        "true");
    unsigned since = w->store.version;
    world_pass(w, 4 * MINUTE);
    expect_even(w); /* not known for long enough */
    world_expect_buckets(w, 2, "0,16-31");
    world_expect_buckets(w, 1, "1-15");
    world_expect_event(
        w, "Rebalanced",
        "Bucket 0 moves from shard x-1-normal to x-2-normal: x-1-normal carried 91 % "
        "of the load, 36 % of all by this bucket.");
    world_expect_condition(w, "Ready", "True", "Enforced");
    assert_int_equal(w->counts.rebalanced, 1);
    /* It stays so, with shares that differ by two. */
    world_pass(w, 70 * MINUTE);
    world_expect_buckets(w, 1, "1-15");
    world_expect_buckets(w, 2, "0,16-31");
    assert_int_equal(world_gained(w, since), 1);
    assert_int_equal(world_events(w, "Rebalanced"), 1);
    assert_int_equal(world_events(w, "Resized"), 0);
    world_expect_attended(w);
    /* The move is more than an hour ago. */
    assert_string_equal(of_root(w, "status/root/moves/0"), "");
}

/* Nothing else changes, and status is written once a minute at most. */
static void people_are_told(void **state)
{
    struct world *w = *state;
    skew();
    begin(w, ""); /* counted all the same, as pods may be told to */
    world_expect_text(w, "r", "status/root/load/0/bucket", "0");
    world_expect_text(w, "r", "status/root/load/0/shard", "x-1-normal");
    world_pass(w, 6 * MINUTE);
    assert_string_equal(of_root(w, "status/root/load/0/events"), "4000"); /* 40 in 10 ms */
    assert_string_equal(of_root(w, "status/root/load/0/cost"), "16000");
    assert_string_equal(of_root(w, "status/root/load/0/percent"), "36");
    assert_string_equal(of_root(w, "status/root/load/3/bucket"), "16");
    assert_string_equal(of_root(w, "status/root/load/3/shard"), "x-2-normal");
    assert_string_equal(of_root(w, "status/root/load/4/bucket"), "");
    assert_string_equal(of_root(w, "status/root/shards/0/loadPercent"), "91");
    assert_string_equal(of_root(w, "status/root/shards/1/loadPercent"), "9");
    expect_even(w);
    unsigned writes = w->store.writes;
    world_pass(w, 10 * MINUTE);
    assert_int_equal(w->store.writes, writes); /* for it is the same */
    for (unsigned i = 0; i < 10; i++) {
        counts.rate[2] *= 2;
        world_pass(w, MINUTE);
    }
    assert_in_range(w->store.writes, writes + 5, writes + 11);
    /* Nobody counts any more. */
    counts.silent[0] = true;
    counts.silent[1] = true;
    world_expect_text(w, "r", "status/root/load/0/bucket", "");
    world_expect_text(w, "r", "status/root/shards/0/loadPercent", "");
    expect_even(w);
}

/* ---- not more than may move ---- */

/* 120 and 0: two moves make 60 and 60 of it. */
static void pile(void)
{
    for (unsigned i = 0; i < 4; i++) {
        counts.rate[i] = 30;
    }
}

static void the_bound_of_an_hour(void **state)
{
    struct world *w = *state;
    pile();
    begin(w, MOVES(1));
    world_expect_buckets(w, 2, "0,16-31");
    world_pass(w, 30 * MINUTE);
    world_expect_buckets(w, 1, "1-15");
    world_retire(w); /* the next leader knows of it */
    lead(w);
    world_pass(w, 20 * MINUTE);
    world_expect_buckets(w, 1, "1-15");
    assert_int_equal(w->counts.rebalanced, 1);
    world_pass(w, 15 * MINUTE);
    world_expect_buckets(w, 1, "2-15");
    world_expect_buckets(w, 2, "0-1,16-31");
    world_pass(w, 70 * MINUTE);
    world_expect_buckets(w, 1, "2-15");
    assert_int_equal(w->counts.rebalanced, 2);
    world_expect_attended(w);
}

static void one_after_the_other(void **state)
{
    struct world *w = *state;
    pile();
    begin(w, MOVES(32));
    world_expect_buckets(w, 2, "0,16-31");
    uint64_t first = w->clock.now;
    world_expect_buckets(w, 2, "0-1,16-31");
    assert_in_range(w->clock.now - first, 4 * MINUTE, 8 * MINUTE);
    world_pass(w, 30 * MINUTE);
    assert_int_equal(w->counts.rebalanced, 2);
    world_expect_attended(w);
}

/* As a leader does that dies before it moves something. */
static void tell_of_a_move(struct world *w)
{
    char text[RFC3339_SIZE];
    struct edit ed = {.rc = 0};
    cJSON *copy = cJSON_Duplicate(store_get(&w->store, "shardingconfigs", "n", "r"), true);
    assert_int_equal(rfc3339_format(w->clock.wall / 1000000, text), 0);
    cJSON *root = edit_object(&ed, edit_object(&ed, copy, "status"), "root");
    edit_append_string(&ed, edit_array(&ed, root, "moves"), text);
    assert_int_equal(ed.rc, 0);
    store_put(&w->store, "shardingconfigs", "n", copy);
}

static void a_leader_that_dies_before_its_move(void **state)
{
    struct world *w = *state;
    pile();
    begin(w, MOVES(1));
    world_retire(w);
    tell_of_a_move(w);
    lead(w);
    world_pass(w, 50 * MINUTE);
    expect_even(w);
    assert_string_not_equal(of_root(w, "status/root/moves/0"), "");
    world_pass(w, 15 * MINUTE);
    world_expect_buckets(w, 2, "0,16-31");
    assert_string_equal(of_root(w, "status/root/moves/1"), "");
    world_expect_attended(w);
}

/* Somebody changes the child that is to lose the bucket, when the other one has it: the write is
 * refused, and the pass begins anew. Only once. */
static void disturb(struct storing_api *s)
{
    struct world *w = LIST_ITEM(s, struct world, store);
    bool both =
        strcmp(world_buckets(w, 1), "0-15") == 0 && strcmp(world_buckets(w, 2), "0,16-31") == 0;
    if (both) {
        struct edit ed = {.rc = 0};
        cJSON *copy = cJSON_Duplicate(world_child(w, 1), true);
        edit_string(&ed, edit_object(&ed, edit_object(&ed, copy, "metadata"), "labels"), "x", "y");
        s->before_write = NULL;
        store_put(s, "shardingconfigs", "n", copy);
    }
}

static void a_move_that_is_broken_off_goes_on(void **state)
{
    struct world *w = *state;
    skew();
    begin(w, MOVES(32));
    unsigned since = w->store.version;
    w->store.before_write = disturb;
    world_expect_buckets(w, 1, "1-15");
    assert_true(w->store.before_write == NULL);
    world_expect_buckets(w, 2, "0,16-31");
    assert_int_equal(w->counts.applies[ROOTS_CONFLICT], 1);
    world_pass(w, 30 * MINUTE);
    assert_int_equal(world_gained(w, since), 1);
    assert_int_equal(world_events(w, "Rebalanced"), 1);
    world_expect_attended(w);
}

/* ---- only when all is well ---- */

static void who_does_not_tell_holds_it_up(void **state)
{
    struct world *w = *state;
    skew();
    counts.silent[1] = true;
    begin(w, MOVES(32));
    world_pass(w, 20 * MINUTE);
    expect_even(w);
    counts.silent[1] = false;
    world_pass(w, 4 * MINUTE);
    expect_even(w);
    /* Started again: for five minutes more. */
    counts.loads[0] = (struct control_load){.known = true};
    counts.started_at[0] = w->clock.now;
    world_pass(w, 4 * MINUTE);
    expect_even(w);
    world_expect_buckets(w, 2, "0,16-31");
    assert_int_equal(w->counts.rebalanced, 1);
}

static void what_is_under_way_comes_first(void **state)
{
    struct world *w = *state;
    skew();
    begin(w, MOVES(32));
    w->waiting = 2;
    world_pass(w, MINUTE);
    world_root(w, "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1" MOVES(31) "}");
    world_pass(w, 20 * MINUTE);
    if (strcmp(world_condition(w, "Ready", "status"), "True") == 0) {
        fail_msg("the root is Ready while a shard waits");
    }
    expect_even(w);
    w->waiting = 0;
    world_expect_buckets(w, 2, "0,16-31");
}

static void shards_that_come_are_spread_over_evenly(void **state)
{
    struct world *w = *state;
    skew();
    begin(w, MOVES(32));
    world_expect_buckets(w, 2, "0,16-31");
    world_root(w, "\"auto\":{\"shardingSize\":3,\"everyShardReplicas\":1" MOVES(32) "}");
    world_stateful_set(w, 3);
    world_pod(w, 2, "x-3-normal", true);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_buckets(w, 1, "1-11");
    world_expect_attended(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_skewed_load_leads_to_one_move, setup, world_teardown),
        cmocka_unit_test_setup_teardown(people_are_told, setup, world_teardown),
        cmocka_unit_test_setup_teardown(the_bound_of_an_hour, setup, world_teardown),
        cmocka_unit_test_setup_teardown(one_after_the_other, setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_leader_that_dies_before_its_move, setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_move_that_is_broken_off_goes_on, setup, world_teardown),
        cmocka_unit_test_setup_teardown(who_does_not_tell_holds_it_up, setup, world_teardown),
        cmocka_unit_test_setup_teardown(what_is_under_way_comes_first, setup, world_teardown),
        cmocka_unit_test_setup_teardown(shards_that_come_are_spread_over_evenly, setup,
                                        world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
