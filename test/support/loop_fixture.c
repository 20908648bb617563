/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_fixture.h"

#include <signal.h>
#include <stdio.h>

#include "net/deadline.h"

enum { PATIENCE_MS = 60000, WAKE_MS = 10, TURNS_MIN = 20 };

/* Of the loop that was run last. Stopped between runs; it does not keep the loop alive. */
static struct limit {
    uv_timer_t timer;
    struct net_loop *loop; /* NULL: the timer is not initialised */
    uint64_t at;
    bool over;
} limit;

int loop_setup(void **state)
{
    struct err e = ERR_INIT;
    (void)signal(SIGPIPE, SIG_IGN);
    *state = net_loop_new(&e);
    return *state == NULL ? -1 : 0;
}

int loop_teardown(void **state)
{
    return loop_free(*state);
}

int loop_free(struct net_loop *l)
{
    if (limit.loop == l) {
        uv_close((uv_handle_t *)&limit.timer, NULL);
        limit.loop = NULL;
    }
    int rc = net_loop_free(l);
    if (rc != 0) {
        uv_print_all_handles(&l->uv, stderr);
    }
    return rc;
}

static void on_wake(uv_timer_t *timer)
{
    limit.over = uv_now(timer->loop) >= limit.at;
}

static void limit_start(struct net_loop *l, uint64_t ms, uint64_t wake)
{
    if (limit.loop != l) {
        assert_null(limit.loop);
        assert_int_equal(uv_timer_init(&l->uv, &limit.timer), 0);
        limit.loop = l;
    }
    uv_update_time(&l->uv);
    limit.at = uv_now(&l->uv) + ms;
    limit.over = false;
    (void)uv_timer_start(&limit.timer, on_wake, wake, WAKE_MS);
}

/* Runs until *flag (when given); `to_end`: or until nothing is left to do. False: after `ms`. */
static bool run(struct net_loop *l, const bool *flag, bool to_end, uint64_t ms)
{
    /* A timer that is due at once runs before the loop sleeps: the flag must be looked at without
     * another event. */
    limit_start(l, ms, flag != NULL && ms > WAKE_MS ? WAKE_MS : ms);
    if (to_end) {
        uv_unref((uv_handle_t *)&limit.timer);
    }
    bool alive = true;
    while (!limit.over && alive && (flag == NULL || !*flag)) {
        alive = uv_run(&l->uv, UV_RUN_ONCE) != 0 || !to_end;
    }
    (void)uv_timer_stop(&limit.timer);
    uv_ref((uv_handle_t *)&limit.timer);
    return !limit.over;
}

void run_until(struct net_loop *l, const bool *flag)
{
    if (!run(l, flag, false, PATIENCE_MS)) {
        fail_msg("what was waited for did not happen");
    }
}

void run_to_end(struct net_loop *l)
{
    if (!run(l, NULL, true, PATIENCE_MS)) {
        uv_print_all_handles(&l->uv, stderr);
        fail_msg("the loop does not come to its end");
    }
}

void run_for(struct net_loop *l, uint64_t ms)
{
    (void)run(l, NULL, false, ms);
    /* A busy machine may have given the time to others. */
    for (int i = 0; i < TURNS_MIN; i++) {
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    }
}

static void on_skipped(struct net_deadline *d)
{
    (void)d;
}

void loop_skip(struct net_loop *l, uint64_t ms)
{
    struct net_deadline now;
    LIST_FOR_EACH(node, &l->deadlines)
    {
        struct net_deadline *d = LIST_ITEM(node, struct net_deadline, link);
        d->at -= ms < d->at ? ms : d->at;
    }
    net_deadline_init(&now, on_skipped);
    net_deadline_set(l, &now, 0); /* so that the loop looks at them */
    net_deadline_clear(&now);
    (void)uv_timer_start(&l->tick, l->tick.timer_cb, 0, 0); /* in its next turn */
}
