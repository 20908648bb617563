/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of the controller of roots and its cache fail, one in each run: nothing crashes,
 * nothing leaks, and in the end the shards are as they are to be, and the status tells of it.
 */
#include <stdio.h>

#include "alloc_sweep.h"
#include "base/log.h"
#include "roots_fixture.h"

/* Of all allocations each so many-th one fails: the whole takes seconds. */
enum { STRIDE = 31, PATIENCE_TURNS = 4000 };

#define ROOT                                                                                       \
    "\"canary\":{\"replicas\":1,\"inNamespaces\":[\"listed\"],\"inShardHash\":[\"0\"]},"           \
    "\"auto\":{\"shardingSize\":\"auto\",\"everyShardReplicas\":1}"

static long runs;

static bool is_done(struct world *w)
{
    return world_child(w, 0) != NULL && strcmp(world_buckets(w, 1), "1-16") == 0 &&
           strcmp(world_buckets(w, 2), "17-31") == 0 &&
           strcmp(world_condition(w, "Sized", "status"), "True") == 0 &&
           strcmp(world_condition(w, "Ready", "status"), "True") == 0;
}

static void begin(struct world *w)
{
    assert_true(world_open(w));
    world_namespace(w, "listed");
    world_root(w, ROOT);
    world_stateful_set(w, 3);
    world_pod(w, 0, "x-0-canary", true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
}

static bool make_shards(void *data)
{
    static struct world w;
    long left = sweep_left;
    (void)data;
    if (runs++ % STRIDE != 0) {
        sweep_failed = true; /* passed over */
        return false;
    }
    sweep_left = -1;
    w = (struct world){.hurried = true};
    begin(&w);
    sweep_left = left;
    assert_true(world_try_to_lead(&w) || (sweep_failed && world_try_to_lead(&w)));
    for (int turns = 0; turns < PATIENCE_TURNS && !is_done(&w); turns++) {
        world_turn(&w);
    }
    sweep_left = -1;
    if (!is_done(&w)) {
        fail_msg("allocation %ld failed, and nothing was done about it", runs - 1);
    }
    assert_true(world_close(&w));
    return true;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(make_shards, NULL) > 50 * (long)STRIDE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_out_of_memory)};
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
