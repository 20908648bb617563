/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.h - how late things were, in buckets of a microsecond up to a second.
 */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stdint.h>

#include "event.h"

enum { LATENCY_BUCKETS = 1000000 };

struct latency {
    uint64_t count;
    uint64_t slowest; /* ns */
    uint32_t buckets[LATENCY_BUCKETS + 1];
};

static inline void latency_add(struct latency *l, uint64_t ns)
{
    uint64_t us = ns / NSEC_PER_USEC;
    l->count++;
    l->buckets[us < LATENCY_BUCKETS ? us : LATENCY_BUCKETS]++;
    l->slowest = ns > l->slowest ? ns : l->slowest;
}

/* Microseconds that so many of a hundred did not exceed. */
static inline uint64_t latency_percentile(const struct latency *l, uint64_t percent)
{
    uint64_t rank = (l->count * percent + 99) / 100;
    uint64_t seen = 0;
    for (uint64_t us = 0; us <= LATENCY_BUCKETS; us++) {
        seen += l->buckets[us];
        if (seen >= rank) {
            return us;
        }
    }
    return LATENCY_BUCKETS;
}

#endif
