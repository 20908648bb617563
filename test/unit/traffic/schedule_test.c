/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/rfc3339.h"

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
#define ON(day) (UINT32_C(1) << (day))

struct sample {
    const char *start; /* NULL: all day */
    const char *end;
    uint32_t days_of_week;
    uint32_t days_of_month;
    uint32_t months;
    const char *zone; /* NULL: UTC */
    const char *now;
    bool covered;
};

static void check(const struct sample *c)
{
    struct schedule s;
    int64_t now = 0;
    schedule_init(&s);
    if (c->start != NULL) {
        assert_true(schedule_read_time(c->start, &s.start));
        assert_true(schedule_read_time(c->end, &s.end));
    }
    s.days_of_week = (uint8_t)c->days_of_week;
    s.days_of_month = c->days_of_month;
    s.months = (uint16_t)c->months;
    if (c->zone != NULL) {
        assert_int_equal(time_zone_parse(c->zone, &s.zone, NULL), 0);
    }
    assert_true(rfc3339_parse(c->now, &now));
    if (schedule_covers(&s, now) != c->covered) {
        fail_msg("%s to %s at %s: %d", c->start, c->end, c->now, !c->covered);
    }
}

static void table(void **state)
{
    (void)state;
    /* 26 November 2026 is a Thursday. */
    static const struct sample samples[] = {
        {.now = "2026-11-26T00:00:00Z", .covered = true},
        /* both ends belong to it */
        {.start = "09:00:00", .end = "17:00:00", .now = "2026-11-26T08:59:59Z", .covered = false},
        {.start = "09:00:00", .end = "17:00:00", .now = "2026-11-26T09:00:00Z", .covered = true},
        {.start = "09:00:00", .end = "17:00:00", .now = "2026-11-26T17:00:00Z", .covered = true},
        {.start = "09:00:00", .end = "17:00:00", .now = "2026-11-26T17:00:01Z", .covered = false},
        {.start = "00:00:00", .end = "23:59:59", .now = "2026-11-26T23:59:59Z", .covered = true},
        {.start = "12:00:00", .end = "12:00:00", .now = "2026-11-26T12:00:00Z", .covered = true},
        {.start = "12:00:00", .end = "12:00:00", .now = "2026-11-26T12:00:01Z", .covered = false},
        /* days alone */
        {.days_of_week = ON(4), .now = "2026-11-26T10:00:00Z", .covered = true},
        {.days_of_week = ON(0) | ON(5), .now = "2026-11-26T10:00:00Z", .covered = false},
        {.days_of_month = ON(26), .now = "2026-11-26T10:00:00Z", .covered = true},
        {.days_of_month = ON(25) | ON(27), .now = "2026-11-26T10:00:00Z", .covered = false},
        {.months = ON(11), .now = "2026-11-26T10:00:00Z", .covered = true},
        {.months = ON(10) | ON(12), .now = "2026-11-26T10:00:00Z", .covered = false},
        {.days_of_week = ON(4),
         .days_of_month = ON(26),
         .months = ON(11),
         .now = "2026-11-26T10:00:00Z",
         .covered = true},
        {.days_of_week = ON(4),
         .days_of_month = ON(26),
         .months = ON(12),
         .now = "2026-11-26T10:00:00Z",
         .covered = false},
        /* over midnight, the day is that on which it begins */
        {.start = "22:00:00", .end = "06:00:00", .now = "2026-11-26T21:59:59Z", .covered = false},
        {.start = "22:00:00", .end = "06:00:00", .now = "2026-11-26T22:00:00Z", .covered = true},
        {.start = "22:00:00", .end = "06:00:00", .now = "2026-11-27T06:00:00Z", .covered = true},
        {.start = "22:00:00", .end = "06:00:00", .now = "2026-11-27T06:00:01Z", .covered = false},
        {.start = "22:00:00",
         .end = "06:00:00",
         .days_of_week = ON(4),
         .now = "2026-11-27T05:00:00Z",
         .covered = true},
        {.start = "22:00:00",
         .end = "06:00:00",
         .days_of_week = ON(4),
         .now = "2026-11-26T05:00:00Z",
         .covered = false},
        {.start = "22:00:00",
         .end = "06:00:00",
         .days_of_week = ON(5),
         .now = "2026-11-27T05:00:00Z",
         .covered = false},
        {.start = "22:00:00",
         .end = "06:00:00",
         .days_of_week = ON(6),
         .now = "2026-11-29T05:00:00Z",
         .covered = true},
        /* ends of months, of February and of the year */
        {.start = "22:00:00",
         .end = "06:00:00",
         .days_of_month = ON(30),
         .now = "2026-12-01T05:00:00Z",
         .covered = true},
        {.days_of_month = ON(31), .now = "2026-11-30T12:00:00Z", .covered = false},
        {.days_of_month = ON(29), .now = "2028-02-29T12:00:00Z", .covered = true},
        {.days_of_month = ON(29), .now = "2027-03-01T12:00:00Z", .covered = false},
        {.start = "23:00:00",
         .end = "01:00:00",
         .months = ON(12),
         .now = "2027-01-01T00:30:00Z",
         .covered = true},
        {.start = "23:00:00",
         .end = "01:00:00",
         .months = ON(1),
         .now = "2027-01-01T00:30:00Z",
         .covered = false},
        /* in a zone, the day is that of the zone */
        {.start = "09:00:00",
         .end = "17:00:00",
         .zone = BERLIN,
         .now = "2026-11-26T08:00:00Z",
         .covered = true},
        {.start = "09:00:00",
         .end = "17:00:00",
         .zone = BERLIN,
         .now = "2026-07-26T07:00:00Z",
         .covered = true},
        {.start = "09:00:00",
         .end = "17:00:00",
         .zone = BERLIN,
         .now = "2026-07-26T15:00:01Z",
         .covered = false},
        {.days_of_week = ON(5), .zone = BERLIN, .now = "2026-11-26T23:30:00Z", .covered = true},
        {.days_of_week = ON(3),
         .zone = "PST8PDT,M3.2.0,M11.1.0",
         .now = "2026-11-26T07:30:00Z",
         .covered = true},
        /* the hour that does not exist on 28 March 2027, and the one that comes twice */
        {.start = "02:00:00",
         .end = "02:59:59",
         .zone = BERLIN,
         .now = "2027-03-28T00:59:59Z",
         .covered = false},
        {.start = "02:00:00",
         .end = "02:59:59",
         .zone = BERLIN,
         .now = "2027-03-28T01:00:00Z",
         .covered = false},
        {.start = "02:00:00",
         .end = "02:59:59",
         .zone = BERLIN,
         .now = "2026-10-25T00:30:00Z",
         .covered = true},
        {.start = "02:00:00",
         .end = "02:59:59",
         .zone = BERLIN,
         .now = "2026-10-25T01:30:00Z",
         .covered = true},
        {.start = "02:00:00",
         .end = "02:59:59",
         .zone = BERLIN,
         .now = "2026-10-25T02:00:00Z",
         .covered = false},
        /* before 1970 */
        {.start = "22:00:00", .end = "23:00:00", .now = "1969-12-31T22:30:00Z", .covered = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        check(&samples[i]);
    }
}

static void times(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "9:00:00",  "24:00:00",  "00:60:00", "00:00:60",
                                      "00-00-00", "0a:00:00", "00:00:00 ", "-1:00:00", "00:00"};
    uint32_t out = 7;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(schedule_read_time(bad[i], &out));
    }
    assert_int_equal(out, 7);
    assert_true(schedule_read_time("23:59:59", &out));
    assert_int_equal(out, 86399);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
