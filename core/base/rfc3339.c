/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

static bool two_digits(const char **p, int *out)
{
    if (!isdigit((unsigned char)(*p)[0]) || !isdigit((unsigned char)(*p)[1])) {
        return false;
    }
    *out = ((*p)[0] - '0') * 10 + ((*p)[1] - '0');
    *p += 2;
    return true;
}

static bool take_char(const char **p, const char *any_of)
{
    if (**p == '\0' || strchr(any_of, **p) == NULL) {
        return false;
    }
    (*p)++;
    return true;
}

/* `Z`, or `+hh:mm`; the offset in seconds. */
static bool parse_zone(const char **p, int64_t *offset)
{
    int hours;
    int minutes;
    *offset = 0;
    if (take_char(p, "Zz")) {
        return true;
    }
    int sign = **p == '-' ? -1 : 1;
    if (!take_char(p, "+-") || !two_digits(p, &hours) || !take_char(p, ":") ||
        !two_digits(p, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *offset = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool parse_date(const char **p, struct tm *tm)
{
    int century;
    int year;
    if (!two_digits(p, &century) || !two_digits(p, &year) || !take_char(p, "-") ||
        !two_digits(p, &tm->tm_mon) || !take_char(p, "-") || !two_digits(p, &tm->tm_mday)) {
        return false;
    }
    tm->tm_year = century * 100 + year - 1900;
    tm->tm_mon--;
    /* timegm takes 30 February for 2 March. */
    struct tm day = {.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday};
    (void)timegm(&day);
    return day.tm_mon == tm->tm_mon && day.tm_mday == tm->tm_mday;
}

static bool parse_clock(const char **p, struct tm *tm)
{
    if (!two_digits(p, &tm->tm_hour) || !take_char(p, ":") || !two_digits(p, &tm->tm_min) ||
        !take_char(p, ":") || !two_digits(p, &tm->tm_sec)) {
        return false;
    }
    if (take_char(p, ".")) {
        if (!isdigit((unsigned char)**p)) {
            return false;
        }
        *p += strspn(*p, "0123456789");
    }
    return tm->tm_hour <= 23 && tm->tm_min <= 59 && tm->tm_sec <= 60;
}

bool rfc3339_parse(const char *text, int64_t *out)
{
    struct tm tm = {.tm_isdst = 0};
    int64_t offset;
    const char *p = text;
    if (!parse_date(&p, &tm) || !take_char(&p, "Tt ") || !parse_clock(&p, &tm) ||
        !parse_zone(&p, &offset) || *p != '\0') {
        return false;
    }
    *out = (int64_t)timegm(&tm) - offset;
    return true;
}

int rfc3339_format(int64_t seconds, char out[RFC3339_SIZE])
{
    struct tm tm;
    time_t t = (time_t)seconds;
    if (gmtime_r(&t, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) {
        return -EINVAL;
    }
    /* %Y does not pad years below 1000. */
    int year = tm.tm_year + 1900;
    out[0] = (char)('0' + year / 1000);
    out[1] = (char)('0' + year / 100 % 10);
    out[2] = (char)('0' + year / 10 % 10);
    out[3] = (char)('0' + year % 10);
    return strftime(out + 4, RFC3339_SIZE - 4, "-%m-%dT%H:%M:%SZ", &tm) > 0 ? 0 : -EINVAL;
}
