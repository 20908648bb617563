/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_clock.h - a clock that stands still until a test moves it.
 *
 *     fake_clock_init(&c, loop);
 *     ... {.clock = &c.clock} ...
 *     fake_clock_pass(&c, 2000);     what is due within 2 s happens, each at its time
 */
#ifndef TEST_SUPPORT_FAKE_CLOCK_H
#define TEST_SUPPORT_FAKE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "net/clock.h"

#define FAKE_CLOCK_TIMERS 16

/* Where a fake clock begins: 2026-01-01T00:00:00.000123Z. */
#define FAKE_CLOCK_WALL INT64_C(1767225600000123)

struct fake_clock {
    struct net_clock clock;
    struct net_loop *loop;
    uint64_t now;
    int64_t wall;
    uint32_t random; /* every random number */
    struct {
        struct net_timer *timer;
        uint64_t at;
    } timers[FAKE_CLOCK_TIMERS];
    size_t timer_count;
};

void fake_clock_init(struct fake_clock *c, struct net_loop *l);
/* Moves the clock, fires what becomes due, and runs the loop some turns each time. */
void fake_clock_pass(struct fake_clock *c, uint64_t ms);
/* Moves the clock, and nothing else notices yet: as if the process had been stopped. */
void fake_clock_jump(struct fake_clock *c, uint64_t ms);
/* Milliseconds to the next timer that was set; UINT64_MAX: there is none. */
uint64_t fake_clock_next(const struct fake_clock *c);
/* Timers were freed: all are forgotten. */
void fake_clock_forget(struct fake_clock *c);

#endif
