/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TURNS = 4 };

static uint64_t now(void *data)
{
    struct fake_clock *c = data;
    return c->now;
}

static int64_t wall(void *data)
{
    struct fake_clock *c = data;
    return c->wall;
}

static uint32_t take_random(void *data)
{
    struct fake_clock *c = data;
    return c->random;
}

static void set_timer(void *data, struct net_timer *t, uint64_t ms)
{
    struct fake_clock *c = data;
    size_t i = 0;
    while (i < c->timer_count && c->timers[i].timer != t) {
        i++;
    }
    if (i == FAKE_CLOCK_TIMERS) {
        (void)fprintf(stderr, "too many timers for a fake clock\n");
        abort();
    }
    c->timer_count += i == c->timer_count ? 1 : 0;
    c->timers[i].timer = t;
    c->timers[i].at = c->now + ms;
}

void fake_clock_init(struct fake_clock *c, struct net_loop *l)
{
    *c = (struct fake_clock){
        .loop = l,
        .now = 1000000,
        .wall = FAKE_CLOCK_WALL,
        .clock = {.now = now, .wall = wall, .set_timer = set_timer, .random = take_random},
    };
    c->clock.data = c;
}

static size_t earliest(const struct fake_clock *c)
{
    size_t found = 0;
    for (size_t i = 1; i < c->timer_count; i++) {
        found = c->timers[i].at < c->timers[found].at ? i : found;
    }
    return found;
}

uint64_t fake_clock_next(const struct fake_clock *c)
{
    return c->timer_count == 0                  ? UINT64_MAX
           : c->timers[earliest(c)].at < c->now ? 0
                                                : c->timers[earliest(c)].at - c->now;
}

void fake_clock_jump(struct fake_clock *c, uint64_t ms)
{
    c->now += ms;
    c->wall += (int64_t)ms * 1000;
}

static void run(struct fake_clock *c)
{
    for (int i = 0; i < TURNS; i++) {
        net_loop_settle(c->loop); /* a loop on which nothing is open does not turn */
        (void)uv_run(&c->loop->uv, UV_RUN_NOWAIT);
    }
}

/* A timer is due a moment later than the loop's turn in which it is set. */
static void fire(struct fake_clock *c, size_t i)
{
    enum { NS_PER_MS = 1000000, LOOK_US = 50 };
    struct net_timer *t = c->timers[i].timer;
    c->timers[i] = c->timers[--c->timer_count];
    net_timer_set(t, 0);
    while (uv_hrtime() / NS_PER_MS <= net_loop_now(c->loop)) {
        (void)usleep(LOOK_US);
    }
}

void fake_clock_pass(struct fake_clock *c, uint64_t ms)
{
    uint64_t end = c->now + ms;
    run(c);
    while (c->timer_count > 0 && c->timers[earliest(c)].at <= end) {
        size_t i = earliest(c);
        if (c->timers[i].at > c->now) {
            fake_clock_jump(c, c->timers[i].at - c->now);
        }
        fire(c, i);
        run(c);
    }
    fake_clock_jump(c, end - c->now);
}

void fake_clock_forget(struct fake_clock *c)
{
    c->timer_count = 0;
}
