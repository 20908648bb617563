/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_fixture.h"
#include "net/deadline.h"
#include "net/timer.h"

struct limit {
    struct net_deadline deadline;
    struct net_deadline *victim; /* cleared, or moved, when this one fires */
    uint64_t move_ms;
    bool fired;
    uint64_t fired_at;
    struct net_loop *loop;
};

static void on_fire(struct net_deadline *d)
{
    struct limit *t = LIST_ITEM(d, struct limit, deadline);
    assert_false(t->fired);
    t->fired = true;
    t->fired_at = net_loop_now(t->loop);
    if (t->victim != NULL && t->move_ms > 0) {
        net_deadline_set(t->loop, t->victim, t->move_ms);
    } else if (t->victim != NULL) {
        net_deadline_clear(t->victim);
    }
}

static void set(struct limit *t, struct net_loop *l, uint64_t ms)
{
    *t = (struct limit){.loop = l};
    net_deadline_init(&t->deadline, on_fire);
    net_deadline_set(l, &t->deadline, ms);
}

/* A timer that is due a tick after a deadline. The loop fires timers in the order in which they are
 * due, however late it is itself: so it tells whether the deadline was in time. */
struct witness {
    struct net_timer *timer;
    const struct limit *limit;
    bool over;
    bool in_time;
};

static void on_witness(void *data)
{
    struct witness *w = data;
    w->over = true;
    w->in_time = w->limit->fired;
}

static void watch(struct witness *w, struct net_loop *l, const struct limit *t, uint64_t ms)
{
    *w = (struct witness){.limit = t};
    w->timer = net_timer_new(l, on_witness, w);
    assert_non_null(w->timer);
    net_timer_set(w->timer, ms + NET_TICK_MS + 1);
}

static void expect_in_time(struct witness *w, struct net_loop *l)
{
    run_until(l, &w->over);
    assert_true(w->in_time);
    net_timer_free(w->timer);
}

static void test_fires_in_time(void **state)
{
    struct net_loop *l = *state;
    struct limit a;
    struct limit b;
    struct witness after_a;
    struct witness after_b;
    uv_update_time(&l->uv);
    uint64_t begin = net_loop_now(l);
    set(&a, l, 700);
    set(&b, l, 300); /* earlier than the one that is set */
    watch(&after_a, l, &a, 700);
    watch(&after_b, l, &b, 300);
    expect_in_time(&after_b, l);
    expect_in_time(&after_a, l);
    assert_true(b.fired_at - begin >= 300);
    assert_true(a.fired_at - begin >= 700);
}

static void test_moving_and_clearing(void **state)
{
    struct net_loop *l = *state;
    struct limit moved;
    struct limit cleared;
    uv_update_time(&l->uv);
    uint64_t begin = net_loop_now(l);
    set(&moved, l, 200);
    set(&cleared, l, 200);
    net_deadline_set(l, &moved.deadline, 1000);
    net_deadline_clear(&cleared.deadline);
    run_until(l, &moved.fired);
    assert_true(moved.fired_at - begin >= 1000);
    assert_false(cleared.fired);
}

/* Short deadlines that are set again and again do not put off the others. */
static void test_busy_setting_does_not_starve(void **state)
{
    struct net_loop *l = *state;
    struct limit waiting;
    struct limit busy;
    set(&waiting, l, 300);
    set(&busy, l, 5000);
    for (int i = 0; i < 60 && !waiting.fired; i++) {
        busy.fired = false; /* on a machine that stood still meanwhile */
        net_deadline_set(l, &busy.deadline, 100);
        run_for(l, 20);
    }
    assert_true(waiting.fired);
    net_deadline_clear(&busy.deadline);
}

static void test_one_may_clear_another_that_is_due(void **state)
{
    struct net_loop *l = *state;
    struct limit first;
    struct limit second;
    set(&first, l, 100);
    set(&second, l, 100);
    first.victim = &second.deadline;
    run_until(l, &first.fired);
    run_for(l, 600);
    assert_false(second.fired);
}

static void test_one_may_move_another_that_is_due(void **state)
{
    struct net_loop *l = *state;
    struct limit first;
    struct limit second;
    set(&first, l, 100);
    set(&second, l, 100);
    first.victim = &second.deadline;
    first.move_ms = 1000;
    run_until(l, &first.fired);
    assert_false(second.fired);
    run_until(l, &second.fired);
    assert_true(second.fired_at - first.fired_at >= 1000);
}

/* What sets one after it has kept the loop for long. */
struct slow {
    struct net_timer *timer;
    struct net_timer *other;
    struct net_loop *loop;
    struct limit limit;
    uint64_t set_at;
};

static void on_slow(void *data)
{
    enum { TAKES_NS = 400000000 };
    struct slow *s = data;
    uint64_t begun = uv_hrtime();
    while (uv_hrtime() - begun < TAKES_NS) {
    }
    s->set_at = uv_hrtime() / 1000000;
    net_timer_set(s->other, 60000);
    set(&s->limit, s->loop, 300);
}

static void test_counts_from_when_it_is_set(void **state)
{
    struct net_loop *l = *state;
    struct slow s = {.loop = l};
    s.timer = net_timer_new(l, on_slow, &s);
    s.other = net_timer_new(l, on_slow, &s);
    assert_non_null(s.timer);
    assert_non_null(s.other);
    net_timer_set(s.timer, 0);
    run_until(l, &s.limit.fired);
    assert_true(s.limit.fired_at >= s.set_at + 300);
    net_timer_free(s.timer);
    net_timer_free(s.other);
}

int main(void)
{
#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, loop_setup, loop_teardown)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(test_fires_in_time),
        LOOP_TEST(test_moving_and_clearing),
        LOOP_TEST(test_busy_setting_does_not_starve),
        LOOP_TEST(test_counts_from_when_it_is_set),
        LOOP_TEST(test_one_may_clear_another_that_is_due),
        LOOP_TEST(test_one_may_move_another_that_is_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
