/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time_zone.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/ascii.h"

enum {
    DAY = 24 * 3600,
    OFFSET_HOURS_MAX = 24,
    CHANGE_HOURS_MAX = 167, /* RFC 8536 */
    CHANGE_DEFAULT = 2 * 3600,
    NAME_MIN = 3,
};

/* ---- reading ---- */

/* What is left of the rule, and the first thing that is wrong with it. */
struct reading {
    const char *at;
    const char *wrong; /* NULL: nothing */
};

static void wrong(struct reading *r, const char *why)
{
    if (r->wrong == NULL) {
        r->wrong = why;
    }
}

static bool take(struct reading *r, char c)
{
    if (*r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "CET", or "<+03>". */
static void read_name(struct reading *r)
{
    const char *begin = r->at;
    bool quoted = take(r, '<');
    size_t len = 0;
    while (is_letter(*r->at) ||
           (quoted && (ascii_is_digit(*r->at) || *r->at == '+' || *r->at == '-'))) {
        r->at++;
        len++;
    }
    if (len < NAME_MIN || (quoted && !take(r, '>'))) {
        r->at = begin;
        wrong(r, "a name of at least three letters is missing");
    }
}

static int read_number(struct reading *r, int min, int max)
{
    int n = 0;
    const char *begin = r->at;
    while (ascii_is_digit(*r->at) && r->at - begin < 3) {
        n = n * 10 + (*r->at++ - '0');
    }
    if (r->at == begin || n < min || n > max) {
        wrong(r, "a number is missing or out of its bounds");
        return min;
    }
    return n;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static int32_t read_time(struct reading *r, int hours_max)
{
    bool negative = take(r, '-');
    if (!negative) {
        (void)take(r, '+');
    }
    int32_t seconds = read_number(r, 0, hours_max) * 3600;
    if (take(r, ':')) {
        seconds += read_number(r, 0, 59) * 60;
        if (take(r, ':')) {
            seconds += read_number(r, 0, 59);
        }
    }
    return negative ? -seconds : seconds;
}

static void read_change(struct reading *r, struct time_zone_change *out)
{
    if (!take(r, ',')) {
        wrong(r, "summer time needs the days on which it begins and ends");
        return;
    }
    if (take(r, 'J')) {
        out->form = TIME_ZONE_JULIAN;
        out->day = (uint16_t)read_number(r, 1, 365);
    } else if (take(r, 'M')) {
        out->form = TIME_ZONE_MONTH;
        out->month = (uint8_t)read_number(r, 1, 12);
        bool dot = take(r, '.');
        out->week = (uint8_t)read_number(r, 1, 5);
        dot = dot && take(r, '.');
        out->day = (uint16_t)read_number(r, 0, 6);
        if (!dot) {
            wrong(r, "a day of a month is written M3.5.0");
        }
    } else {
        out->form = TIME_ZONE_DAY;
        out->day = (uint16_t)read_number(r, 0, 365);
    }
    out->seconds = take(r, '/') ? read_time(r, CHANGE_HOURS_MAX) : CHANGE_DEFAULT;
}

int time_zone_parse(const char *rule, struct time_zone *out, struct err *e)
{
    struct reading r = {.at = rule};
    *out = (struct time_zone){0};
    read_name(&r);
    /* POSIX counts west of Greenwich. */
    out->standard = -read_time(&r, OFFSET_HOURS_MAX);
    if (*r.at != '\0' && r.wrong == NULL) {
        out->has_summer = true;
        read_name(&r);
        out->summer = *r.at == ',' ? out->standard + 3600 : -read_time(&r, OFFSET_HOURS_MAX);
        read_change(&r, &out->begins);
        read_change(&r, &out->ends);
    }
    if (r.wrong == NULL && *r.at != '\0') {
        wrong(&r, "something follows that does not belong to it");
    }
    if (r.wrong != NULL) {
        *out = (struct time_zone){0};
        return err_set(
            e, -EINVAL,
            "\"%.60s\" is no time zone rule like CET-1CEST,M3.5.0,M10.5.0/3: %s, at character %d",
            rule, r.wrong, (int)(r.at - rule) + 1);
    }
    return 0;
}

/* ---- the calendar ---- */

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970 of the first of a month, 0 to 12 (timegm makes January of that). */
static int64_t month_begin(int year, int month)
{
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month, .tm_mday = 1};
    return timegm(&tm) / DAY;
}

static int weekday(int64_t day)
{
    return (int)(((day + 4) % 7 + 7) % 7); /* 1 January 1970 was a Thursday */
}

/* Seconds since 1970, as if local time were UTC. */
static int64_t change_in(const struct time_zone_change *c, int year)
{
    int64_t day;
    switch (c->form) {
    case TIME_ZONE_JULIAN:
        day = month_begin(year, 0) + c->day - 1 + (is_leap(year) && c->day >= 60);
        break;
    case TIME_ZONE_DAY:
        day = month_begin(year, 0) + c->day;
        break;
    default:
        day = month_begin(year, c->month - 1);
        day += (c->day - weekday(day) + 7) % 7 + (c->week - 1) * 7;
        day -= day >= month_begin(year, c->month) ? 7 : 0;
        break;
    }
    return day * DAY + c->seconds;
}

static int year_of(int64_t now)
{
    time_t t = now;
    struct tm tm;
    return gmtime_r(&t, &tm) == NULL ? 1970 : tm.tm_year + 1900;
}

int32_t time_zone_offset(const struct time_zone *z, int64_t now)
{
    if (!z->has_summer) {
        return z->standard;
    }
    /* The last change so far decides; those of the years beside may be the nearest. */
    int64_t latest = INT64_MIN;
    int32_t offset = z->standard;
    int year = year_of(now);
    for (int y = year - 1; y <= year + 1; y++) {
        int64_t begins = change_in(&z->begins, y) - z->standard;
        int64_t ends = change_in(&z->ends, y) - z->summer;
        if (ends <= now && ends > latest) {
            latest = ends;
            offset = z->standard;
        }
        /* Summer time that ends when it begins goes on. */
        if (begins <= now && begins >= latest) {
            latest = begins;
            offset = z->summer;
        }
    }
    return offset;
}
