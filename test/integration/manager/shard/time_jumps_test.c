/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time passes while the controller takes a step: what it believes at its beginning may be over
 * before its end.
 */
#include "base/log.h"
#include "controller_fixture.h"

enum { HURRY = 200, CALLS = 100 };

/* ---- time goes 200 times as fast, and jumps ---- */

static uint64_t hurried_now(void *data)
{
    (void)data;
    return net_clock_now(&net_clock_system) * HURRY;
}

static int64_t hurried_wall(void *data)
{
    (void)data;
    return net_clock_wall(&net_clock_system);
}

static void hurried_timer(void *data, struct net_timer *t, uint64_t ms)
{
    (void)data;
    net_timer_set(t, ms / HURRY + 1);
}

static uint32_t hurried_random(void *data)
{
    (void)data;
    return 0;
}

/* Jumps when it is asked for the so many-th time: what is believed for a time ends within a step.
 */
static unsigned calls_to_jump;
static uint64_t jumped_ms;

static uint64_t jumping_now(void *data)
{
    if (calls_to_jump > 0 && --calls_to_jump == 0) {
        jumped_ms += RECONCILE_BELIEF_MS + 1;
    }
    return hurried_now(data) + jumped_ms;
}

static const struct net_clock jumping = {
    .now = jumping_now, .wall = hurried_wall, .set_timer = hurried_timer, .random = hurried_random};

/* ---- one run ---- */

/* The cache is behind with what the controller has written. */
static void publish_while_time_jumps(unsigned calls)
{
    static struct fixture s;
    s = (struct fixture){.clock = &jumping};
    assert_true(fixture_open(&s));
    fixture_pod(&s, "a-0", "a", "a");
    fixture_config(&s, "a", "pods", "app=a");
    fixture_begin(&s);
    while (!shard_cache_synced(s.cache)) {
        run_for(s.store.api.loop, 1);
    }
    s.store.silent = true;
    calls_to_jump = calls;
    fixture_lead(&s);
    while (s.counts.writes[CONTROLLER_STATUS][RECONCILE_WRITTEN] == 0) {
        run_for(s.store.api.loop, 1);
    }
    s.store.silent = false;
    store_go_on(&s.store);
    fixture_expect_condition(&s, "a", "Published", "True");
    assert_true(fixture_close(&s));
}

static void test_time_jumps_within_a_step(void **state)
{
    (void)state;
    for (unsigned calls = 1; calls < CALLS; calls++) {
        publish_while_time_jumps(calls);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_jumps_within_a_step),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
