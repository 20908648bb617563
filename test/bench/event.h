/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - what watch_source writes into each watch event and watch_load reads out of it.
 *
 * An event is one line of JSON holding two annotations of fixed width: when it was sent
 * (CLOCK_MONOTONIC, nanoseconds; both ends run on one machine) and its number on its watch, from 1.
 */
#ifndef BENCH_EVENT_H
#define BENCH_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { EVENT_DIGITS = 20, EVENT_MAX = 8192 };

#define EVENT_SENT "\"bench/sent\":\""
#define EVENT_SEQUENCE "\"bench/sequence\":\""

#define NSEC_PER_SEC UINT64_C(1000000000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_USEC UINT64_C(1000)

static inline uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Where the digits behind `field` begin in the event's text; NULL when they are not all there. */
static inline char *event_find(char *text, size_t len, const char *field)
{
    char *at = memmem(text, len, field, strlen(field));
    if (at == NULL) {
        return NULL;
    }
    at += strlen(field);
    return (size_t)(text + len - at) < EVENT_DIGITS ? NULL : at;
}

static inline void event_put(char *digits, uint64_t value)
{
    for (int i = EVENT_DIGITS - 1; i >= 0; i--) {
        digits[i] = (char)('0' + value % 10);
        value /= 10;
    }
}

static inline bool event_get(const char *digits, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < EVENT_DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return false;
        }
        *value = *value * 10 + (uint64_t)(digits[i] - '0');
    }
    return true;
}

#endif
