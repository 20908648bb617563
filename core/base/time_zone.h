/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time_zone.h - the offset from UTC by a rule as the environment's TZ has it:
 * "CET-1CEST,M3.5.0,M10.5.0/3".
 *
 * Nothing global is asked or changed, other than by the C library's functions, which know one zone
 * for the whole process. Source: POSIX.1-2017 section 8.3, and RFC 8536 section 3.3.1 for hours
 * from -167 to 167.
 */
#ifndef CORE_BASE_TIME_ZONE_H
#define CORE_BASE_TIME_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A day in each year, and a time on it. */
struct time_zone_change {
    enum { TIME_ZONE_JULIAN, TIME_ZONE_DAY, TIME_ZONE_MONTH } form; /* Jn, n, Mm.w.d */
    uint16_t day;    /* of the year: 1 to 365 without 29 February, or 0 to 365; or of the week */
    uint8_t month;   /* 1 to 12 */
    uint8_t week;    /* 1 to 5, the last */
    int32_t seconds; /* local time of that day, at which the clock is changed */
};

struct time_zone {
    int32_t standard; /* seconds east of UTC */
    int32_t summer;
    bool has_summer;
    struct time_zone_change begins; /* summer time */
    struct time_zone_change ends;
};

/* 0, or -EINVAL with `e` saying why it is no such rule. */
MUST_CHECK int time_zone_parse(const char *rule, struct time_zone *out, struct err *e);

/* Seconds east of UTC at that time (seconds since 1970). UTC is all zero. */
int32_t time_zone_offset(const struct time_zone *z, int64_t now);

#endif
