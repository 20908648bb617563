/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h - times at which something is in effect: of the day, on some days, in some months, in
 * some time zone.
 *
 * Both ends belong to it: until 23:59:59 is until the day ends. A start after the end runs over
 * midnight, and then days and months are those on which it starts. What is left out is any.
 */
#ifndef CORE_TRAFFIC_SCHEDULE_H
#define CORE_TRAFFIC_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time_zone.h"

struct schedule {
    uint32_t start; /* seconds of the day, 0 to 86399 */
    uint32_t end;
    uint32_t days_of_week;  /* bits: 0 is Sunday; 0: any */
    uint32_t days_of_month; /* bits 1 to 31; 0: any */
    uint32_t months;        /* bits 1 to 12; 0: any */
    struct time_zone zone;
};

/* Every day, all day, in UTC. */
void schedule_init(struct schedule *s);

/* "15:04:05" as seconds of the day. False for what is no such time. */
bool schedule_read_time(const char *text, uint32_t *out);

/* Whether it is in effect at that time (seconds since 1970, UTC). */
bool schedule_covers(const struct schedule *s, int64_t now);

#endif
