/* SPDX-License-Identifier: Apache-2.0 */
#include "root/load_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "root/root_spec.h"

enum { MINUTE = 60000, LOOK = 15000 };

/* Two shards with a pod each: a has bucket 3, b the others. */
struct world {
    struct load_window *w;
    struct control_load loads[2];
    struct load_window_pod pods[3];
    struct buckets owners;
    uint64_t now;
};

static void world_init(struct world *x)
{
    *x = (struct world){.w = load_window_new(MINUTE), .now = 7 * MINUTE};
    assert_non_null(x->w);
    x->pods[0] = (struct load_window_pod){"ns/a-0", "ua", 1, &x->loads[0]};
    x->pods[1] = (struct load_window_pod){"ns/b-0", "ub", 2, &x->loads[1]};
    memset(x->owners.owner, 2, sizeof x->owners.owner);
    x->owners.owner[3] = 1;
}

static void look(struct world *x)
{
    load_window_look(x->w, x->now, x->pods, 2, &x->owners);
}

/* So many times, each time a quarter of a minute later, while both count in both buckets. */
static void pass(struct world *x, unsigned looks, unsigned events)
{
    for (unsigned i = 0; i < looks; i++) {
        x->now += LOOK;
        for (int k = 0; k < 2; k++) {
            x->loads[k].since_s += LOOK / 1000;
            x->loads[k].of[3].events += events;
            x->loads[k].of[4].requests += 2 * events;
            x->loads[k].of[5].objects += 1;
        }
        look(x);
    }
}

static void expect(struct world *x, unsigned minutes, uint64_t events_of_3, uint64_t requests_of_4)
{
    struct load_counts rates[SHARDING_HASH_SIZE];
    load_window_rates(x->w, rates);
    assert_int_equal(load_window_minutes(x->w), minutes);
    assert_int_equal(rates[3].events, events_of_3);
    assert_int_equal(rates[3].requests, 0);
    assert_int_equal(rates[4].requests, requests_of_4);
    assert_int_equal(rates[4].events, 0);
    assert_int_equal(rates[5].objects, minutes > 0 && requests_of_4 > 0 ? 4 : rates[5].objects);
}

/* Of each bucket what its shard's pod counts, and no other. */
static void rates_are_per_minute(void **state)
{
    (void)state;
    struct world x;
    world_init(&x);
    expect(&x, 0, 0, 0);
    look(&x);
    expect(&x, 0, 0, 0);
    pass(&x, 7, 10); /* 1:45: the first minute is not looked at whole */
    expect(&x, 0, 0, 0);
    pass(&x, 1, 10);
    expect(&x, 1, 40, 80);
    pass(&x, 16, 10);
    expect(&x, 5, 40, 80);
    pass(&x, 40, 10);
    expect(&x, 5, 40, 80);
    pass(&x, 5,
         0); /* of the last whole minute one look saw something, which was at its beginning */
    expect(&x, 5, 34, 68);
    pass(&x, 20, 0);
    expect(&x, 5, 0, 0);
    load_window_free(x.w);
    load_window_free(NULL);
}

/* In whichever pods of the shard. */
static void pods_of_a_shard_add_up(void **state)
{
    (void)state;
    struct world x;
    struct control_load third = {.since_s = 1};
    world_init(&x);
    x.pods[2] = (struct load_window_pod){"ns/a-1", "uc", 1, &third};
    for (int i = 0; i < 30; i++) {
        x.now += LOOK;
        x.loads[0].of[3].events += 10;
        third.of[3].events += 5;
        third.since_s += 15;
        load_window_look(x.w, x.now, x.pods, 3, &x.owners);
    }
    struct load_counts rates[SHARDING_HASH_SIZE];
    load_window_rates(x.w, rates);
    assert_int_equal(rates[3].events, 60);
    assert_true(load_window_covers(x.w, 1));
    load_window_free(x.w);
}

static void what_goes_back_adds_nothing(void **state)
{
    (void)state;
    struct world x;
    world_init(&x);
    x.loads[0].of[3].events = 1000000;
    look(&x);
    pass(&x, 28, 10);
    expect(&x, 5, 40, 80);
    assert_true(load_window_covers(x.w, 1));
    /* Started again: all from 0, and for some seconds; its first counts are of no known time. */
    x.loads[0] = (struct control_load){.since_s = 5};
    x.loads[0].of[3].events = 500000;
    x.now += LOOK;
    look(&x);
    assert_false(load_window_covers(x.w, 1));
    assert_true(load_window_covers(x.w, 2));
    pass(&x, 3, 10);
    expect(&x, 5, 38, 76); /* a look less */
    /* The same, and it has counted more by now than before. */
    x.loads[0].since_s = 1;
    x.loads[0].of[3].events += 900000;
    x.now += LOOK;
    look(&x);
    pass(&x, 3, 10);
    /* One count went back, whatever the time says. */
    x.loads[0].of[3].events += 900000;
    x.loads[0].of[9].objects = 5;
    x.now += LOOK;
    look(&x);
    x.loads[0].of[9].objects = 4;
    x.loads[0].of[3].events += 900000;
    x.now += LOOK;
    look(&x);
    struct load_counts rates[SHARDING_HASH_SIZE];
    pass(&x, 4, 0);
    load_window_rates(x.w, rates);
    assert_in_range(rates[3].events, 20 + 900000 / 5, 40 + 900000 / 5);
    load_window_free(x.w);
}

static void another_pod_begins_anew(void **state)
{
    (void)state;
    struct world x;
    world_init(&x);
    look(&x);
    pass(&x, 28, 10);
    assert_true(load_window_covers(x.w, 1));
    x.pods[0].uid = "other";
    x.loads[0].of[3].events += 1000000;
    pass(&x, 1, 10);
    assert_false(load_window_covers(x.w, 1));
    pass(&x, 19, 10);
    assert_false(load_window_covers(x.w, 1));
    pass(&x, 1, 10);
    assert_true(load_window_covers(x.w, 1));
    pass(&x, 4, 10);
    expect(&x, 5, 40, 80);
    /* The same pod in another shard. */
    x.pods[0].shard = 7;
    x.loads[0].of[3].events += 1000000;
    pass(&x, 8, 10);
    assert_false(load_window_covers(x.w, 1));
    assert_false(load_window_covers(x.w, 7));
    pass(&x, 20, 10);
    expect(&x, 5, 0, 80); /* its bucket is still shard 1's, which has no pod */
    assert_true(load_window_covers(x.w, 7));
    load_window_free(x.w);
}

/* For a look nobody's growth counts, then that of the new owner. */
static void a_bucket_moves(void **state)
{
    (void)state;
    struct world x;
    world_init(&x);
    look(&x);
    pass(&x, 27, 10);
    x.loads[1].of[3].events = 1000000; /* of long ago, when it had it before */
    look(&x);
    pass(&x, 1, 10);
    expect(&x, 5, 40, 80);
    x.owners.owner[3] = 2;
    pass(&x, 4, 10);
    expect(&x, 5, 38, 80); /* 19 of 20 looks */
    pass(&x, 40, 10);
    expect(&x, 5, 40, 80);
    x.owners.owner[3] = 0; /* nobody's */
    pass(&x, 40, 10);
    expect(&x, 5, 0, 80);
    load_window_free(x.w);
}

static void who_does_not_tell(void **state)
{
    (void)state;
    struct world x;
    world_init(&x);
    look(&x);
    pass(&x, 28, 10);
    assert_true(load_window_covers(x.w, 1) && load_window_covers(x.w, 2));
    assert_false(load_window_covers(x.w, 3)); /* without pods */
    assert_false(load_window_covers(x.w, ROOT_SHARDS_MAX));
    x.pods[0].load = NULL;
    pass(&x, 1, 10);
    assert_false(load_window_covers(x.w, 1));
    assert_true(load_window_covers(x.w, 2));
    x.pods[0].load = &x.loads[0];
    x.loads[0].of[3].events += 1000000;
    pass(&x, 20, 10);
    assert_false(load_window_covers(x.w, 1));
    pass(&x, 1, 10);
    assert_true(load_window_covers(x.w, 1));
    pass(&x, 4, 10);
    expect(&x, 5, 40, 80);
    /* One of two. */
    x.pods[2] = (struct load_window_pod){"ns/a-1", "uc", 1, NULL};
    x.now += LOOK;
    load_window_look(x.w, x.now, x.pods, 3, &x.owners);
    assert_false(load_window_covers(x.w, 1));
    load_window_free(x.w);
}

static void who_was_away_begins_anew(void **state)
{
    (void)state;
    struct world x;
    world_init(&x);
    look(&x);
    pass(&x, 28, 10);
    expect(&x, 5, 40, 80);
    x.now += 2 * MINUTE;
    x.loads[0].of[3].events += 1000000;
    look(&x);
    expect(&x, 0, 0, 0);
    assert_false(load_window_covers(x.w, 1));
    pass(&x, 28, 10);
    expect(&x, 5, 40, 80);
    load_window_free(x.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_per_minute),
        cmocka_unit_test(pods_of_a_shard_add_up),
        cmocka_unit_test(what_goes_back_adds_nothing),
        cmocka_unit_test(another_pod_begins_anew),
        cmocka_unit_test(a_bucket_moves),
        cmocka_unit_test(who_does_not_tell),
        cmocka_unit_test(who_was_away_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
