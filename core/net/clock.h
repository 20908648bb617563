/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - time and chance behind one struct, so that tests need not wait for either.
 *
 * Who uses it must take a timer that fires too soon, or after it was cleared, for nothing: a test
 * moves the clock and then makes every timer fire that it was asked to set.
 */
#ifndef CORE_NET_CLOCK_H
#define CORE_NET_CLOCK_H

#include <stdint.h>

#include "net/loop.h"
#include "net/timer.h"

struct net_clock {
    /* Milliseconds that never go back, and go on while the machine sleeps: now, not as of the start
     * of the loop's turn. */
    uint64_t (*now)(void *data);
    /* Microseconds since 1970, as people have it. */
    int64_t (*wall)(void *data);
    /* As net_timer_set. */
    void (*set_timer)(void *data, struct net_timer *t, uint64_t ms);
    /* Any number from the whole range, each as likely as the others. */
    uint32_t (*random)(void *data);
    void *data;
};

/* The system's. */
extern const struct net_clock net_clock_system;

/* Nanoseconds that never go back, now: to measure how long something took. */
uint64_t net_clock_ns(void);

static inline uint64_t net_clock_now(const struct net_clock *c)
{
    return c->now(c->data);
}

static inline int64_t net_clock_wall(const struct net_clock *c)
{
    return c->wall(c->data);
}

static inline void net_clock_set_timer(const struct net_clock *c, struct net_timer *t, uint64_t ms)
{
    c->set_timer(c->data, t, ms);
}

static inline uint32_t net_clock_random(const struct net_clock *c)
{
    return c->random(c->data);
}

#endif
