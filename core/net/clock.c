/* SPDX-License-Identifier: Apache-2.0 */
#include "net/clock.h"

#include <sys/random.h>
#include <time.h>

#include "base/log.h"

static uint64_t system_now(void *data)
{
    struct timespec t;
    (void)data;
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int64_t system_wall(void *data)
{
    struct timespec t;
    (void)data;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void system_set_timer(void *data, struct net_timer *t, uint64_t ms)
{
    (void)data;
    net_timer_set(t, ms);
}

static uint32_t system_random(void *data)
{
    (void)data;
    uint32_t number = UINT32_MAX / 2;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        log_warn("no random bytes from the system");
    }
    return number;
}

const struct net_clock net_clock_system = {
    .now = system_now,
    .wall = system_wall,
    .set_timer = system_set_timer,
    .random = system_random,
};

uint64_t net_clock_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
