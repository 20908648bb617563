/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of a cache fail, one in each run, while namespaces come and go: nothing crashes,
 * nothing leaks, what is ready stays ready, and in the end it knows all the same.
 */
#include <stdio.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/log.h"
#include "rounds.h"
#include "shard_cache_fixture.h"

enum { PATIENCE_TURNS = 3000, PASSED_MS = 1000 };

#define ALL_PODS "/api/v1/pods?"

static long runs;

static void put_namespace(struct place *p, const char *ns)
{
    place_put_config(p, ns, "a", "a");
    place_put_pod(p, ns, "p1", "a");
    place_put_pod(p, ns, "p2", "b");
}

/* ---- what happens, one after the other ---- */

static void two_more(struct place *p)
{
    put_namespace(p, "n1");
    put_namespace(p, "n2");
}

static void one_that_comes_later(struct place *p)
{
    put_namespace(p, "n3");
}

static void listed_again(struct place *p)
{
    store_delete(&p->store, "pods", "n2", "p1");
    store_expire_watches(&p->store, ALL_PODS);
    place_put_pod(p, "n1", "p3", "a");
}

static void few(struct place *p)
{
    for (unsigned i = 1; i < 4; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "n%u", i);
        store_delete(&p->store, "shardingconfigs", ns, "a");
    }
    place_put_pod(p, "n0", "p3", "a");
}

static void (*const events[])(struct place *p) = {two_more, one_that_comes_later, listed_again,
                                                  few};

/* ---- one run ---- */

/* Also when memory was short. */
static bool is_settled(struct place *p)
{
    long paused = alloc_sweep_pause();
    bool settled = shard_cache_synced(p->cache) && place_difference(p)[0] == '\0';
    buf_clear(&p->log);
    alloc_sweep_resume(paused);
    return settled;
}

static void turn(struct place *p)
{
    store_end_pauses(&p->store);
    loop_skip(p->store.api.loop, PASSED_MS);
    for (unsigned i = 0; i < 3; i++) {
        (void)uv_run(&p->store.api.loop->uv, UV_RUN_NOWAIT);
    }
}

/* `synced`: it was before. */
static bool settle(struct place *p, bool synced)
{
    unsigned quiet = 0;
    for (int i = 0; i < PATIENCE_TURNS && quiet < 4; i++) {
        turn(p);
        quiet = is_settled(p) ? quiet + 1 : 0;
        assert_true(!synced || shard_cache_synced(p->cache));
    }
    return quiet > 0;
}

static bool play(struct place *p)
{
    bool well = settle(p, false);
    for (unsigned i = 0; well && i < ARRAY_LEN(events); i++) {
        long paused = alloc_sweep_pause();
        events[i](p);
        alloc_sweep_resume(paused);
        well = settle(p, true);
    }
    return well;
}

static bool come_and_go(void *data)
{
    static struct place p;
    long left = sweep_left;
    (void)data;
    /* Of all allocations each so many-th one fails: the whole takes seconds. */
    if (runs++ % rounds(11, 3) != 0) {
        sweep_failed = true; /* passed over */
        return false;
    }
    sweep_left = -1;
    p = (struct place){.hurried = true};
    p.store.page_max = 3;
    assert_true(place_open(&p));
    put_namespace(&p, "n0");
    sweep_left = left;
    assert_true(place_try_to_begin(&p, NULL) || (sweep_failed && place_try_to_begin(&p, NULL)));
    bool well = play(&p);
    sweep_left = -1;
    if (!well) {
        (void)fprintf(stderr, "allocation %ld failed, and nothing was done about it\n", runs - 1);
    }
    assert_true(place_close(&p));
    return well;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    long count = sweep_allocations(come_and_go, NULL);
    print_message("%ld allocations\n", count);
    assert_true(count > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
