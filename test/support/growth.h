/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.h - whether what a step takes grows with its input, and no faster.
 *
 * Counted is the CPU time of this thread, the least of several runs: what else the machine does
 * adds to it, but never takes away.
 */
#ifndef TEST_SUPPORT_GROWTH_H
#define TEST_SUPPORT_GROWTH_H

#include <stdint.h>
#include <time.h>

enum { GROWTH_RUNS = 5, GROWTH_FACTOR = 8 };

/* One run with an input of that size. */
typedef void (*growth_cb)(void *data, size_t size);

static inline uint64_t growth_ns(growth_cb cb, void *data, size_t size)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < GROWTH_RUNS; i++) {
        struct timespec a;
        struct timespec b;
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        cb(data, size);
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        uint64_t ns = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec -
                      (uint64_t)a.tv_nsec;
        least = ns < least ? ns : least;
    }
    return least;
}

/* How many times as long eight times the input takes: 8 if it is linear, 64 if it is quadratic. */
static inline double growth_of(growth_cb cb, void *data, size_t size)
{
    uint64_t once = growth_ns(cb, data, size);
    return (double)growth_ns(cb, data, size * GROWTH_FACTOR) / (double)(once == 0 ? 1 : once);
}

#endif
