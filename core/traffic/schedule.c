/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/schedule.h"

#include <string.h>
#include <time.h>

#include "base/ascii.h"

enum { DAY = 24 * 3600 };

void schedule_init(struct schedule *s)
{
    *s = (struct schedule){.start = 0, .end = DAY - 1};
}

/* Two digits; a number over all bounds for what is no such. */
static uint32_t two_digits(const char *text)
{
    return ascii_is_digit(text[0]) && ascii_is_digit(text[1])
               ? (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[1] - '0')
               : UINT32_MAX;
}

bool schedule_read_time(const char *text, uint32_t *out)
{
    if (strlen(text) != strlen("15:04:05") || text[2] != ':' || text[5] != ':') {
        return false;
    }
    uint32_t hour = two_digits(text);
    uint32_t minute = two_digits(text + 3);
    uint32_t second = two_digits(text + 6);
    if (hour > 23 || minute > 59 || second > 59) {
        return false;
    }
    *out = hour * 3600 + minute * 60 + second;
    return true;
}

/* Whether it may begin on the day of that local time. */
static bool covers_day(const struct schedule *s, int64_t local)
{
    time_t t = local;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL) {
        return false;
    }
    return (s->days_of_week == 0 || (s->days_of_week >> tm.tm_wday & 1) != 0) &&
           (s->days_of_month == 0 || (s->days_of_month >> tm.tm_mday & 1) != 0) &&
           (s->months == 0 || (s->months >> (tm.tm_mon + 1) & 1) != 0);
}

bool schedule_covers(const struct schedule *s, int64_t now)
{
    int64_t local = now + time_zone_offset(&s->zone, now);
    uint32_t second = (uint32_t)((local % DAY + DAY) % DAY);
    if (s->start <= s->end) {
        return second >= s->start && second <= s->end && covers_day(s, local);
    }
    /* Over midnight: since today, or since yesterday. */
    return (second >= s->start && covers_day(s, local)) ||
           (second <= s->end && covers_day(s, local - DAY));
}
