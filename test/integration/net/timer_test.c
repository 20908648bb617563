/* SPDX-License-Identifier: Apache-2.0 */
#include "net/timer.h"

#include "base/array.h"
#include "loop_fixture.h"

struct ticks {
    struct net_loop *loop;
    struct net_timer *timer;
    unsigned count;
    bool again; /* the callback sets it anew */
    bool done;
    bool task_ran;
    struct net_task task;
};

static void on_task(struct net_task *t)
{
    struct ticks *k = (struct ticks *)(void *)((char *)t - offsetof(struct ticks, task));
    k->task_ran = true;
}

static void on_timer(void *data)
{
    struct ticks *k = data;
    k->count++;
    k->done = true;
    net_task_queue(k->loop, &k->task);
    if (k->again && k->count < 3) {
        k->done = false;
        net_timer_set(k->timer, 1);
    }
}

static struct ticks ticks_make(void **state)
{
    return (struct ticks){.loop = *state};
}

static void start(struct ticks *k)
{
    net_task_init(&k->task, on_task);
    k->timer = net_timer_new(k->loop, on_timer, k);
    assert_non_null(k->timer);
}

static void fires_once_and_in_time(void **state)
{
    struct ticks k = ticks_make(state);
    start(&k);
    uint64_t before = uv_hrtime();
    net_timer_set(k.timer, 30);
    run_until(k.loop, &k.done);
    uint64_t ms = (uv_hrtime() - before) / 1000000;
    assert_in_range(ms, 29, 5000);
    assert_true(k.task_ran);
    run_for(k.loop, 50);
    assert_int_equal(k.count, 1);
    net_timer_free(k.timer);
}

static void can_be_moved_set_again_and_cleared(void **state)
{
    struct ticks k = ticks_make(state);
    k.again = true;
    start(&k);
    net_timer_set(k.timer, 60000);
    net_timer_set(k.timer, 1);
    run_until(k.loop, &k.done);
    assert_int_equal(k.count, 3);
    net_timer_set(k.timer, 1);
    net_timer_clear(k.timer);
    net_timer_clear(k.timer);
    run_for(k.loop, 20);
    assert_int_equal(k.count, 3);
    net_timer_free(k.timer);
}

static void on_timer_free(void *data)
{
    struct ticks *k = data;
    net_timer_free(k->timer);
    k->done = true;
}

static void can_be_freed_at_any_time(void **state)
{
    struct ticks k = ticks_make(state);
    start(&k);
    net_timer_set(k.timer, 1);
    net_timer_free(k.timer);
    net_timer_free(NULL);
    run_for(k.loop, 20);
    assert_int_equal(k.count, 0);
    k.timer = net_timer_new(k.loop, on_timer_free, &k);
    assert_non_null(k.timer);
    net_timer_set(k.timer, 0);
    run_until(k.loop, &k.done);
}

/* Timers that are always due, and take a while each time; and an event that comes meanwhile. */
struct greedy {
    struct net_loop *loop;
    struct net_timer *timers[2];
    unsigned count;
    unsigned count_before_event;
    bool done;
    uv_async_t event;
};

static void on_greedy(void *data)
{
    enum { TAKES_NS = 3000000, ENOUGH = 40 };
    struct greedy *g = data;
    uint64_t begun = uv_hrtime();
    while (uv_hrtime() - begun < TAKES_NS) {
    }
    g->count++;
    g->done = g->count > ENOUGH;
    assert_int_equal(uv_async_send(&g->event), 0);
    for (size_t i = 0; i < ARRAY_LEN(g->timers) && !g->done; i++) {
        net_timer_set(g->timers[i], i);
    }
}

static void on_event(uv_async_t *event)
{
    struct greedy *g = event->data;
    g->count_before_event = g->count;
    g->done = true;
    for (size_t i = 0; i < ARRAY_LEN(g->timers); i++) {
        net_timer_clear(g->timers[i]);
    }
}

static void leaves_others_their_turn(void **state)
{
    struct greedy g = {.loop = *state};
    assert_int_equal(uv_async_init(&g.loop->uv, &g.event, on_event), 0);
    g.event.data = &g;
    for (size_t i = 0; i < ARRAY_LEN(g.timers); i++) {
        g.timers[i] = net_timer_new(g.loop, on_greedy, &g);
        assert_non_null(g.timers[i]);
        net_timer_set(g.timers[i], 0);
    }
    run_until(g.loop, &g.done);
    for (size_t i = 0; i < ARRAY_LEN(g.timers); i++) {
        net_timer_free(g.timers[i]);
    }
    uv_close((uv_handle_t *)&g.event, NULL);
    run_to_end(g.loop);
    assert_in_range(g.count_before_event, 1, ARRAY_LEN(g.timers));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_setup, loop_teardown)
    const struct CMUnitTest tests[] = {
        TEST(fires_once_and_in_time),
        TEST(can_be_moved_set_again_and_cleared),
        TEST(can_be_freed_at_any_time),
        TEST(leaves_others_their_turn),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
