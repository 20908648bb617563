/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time_zone.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"

static struct time_zone parse(const char *rule)
{
    struct err e = ERR_INIT;
    struct time_zone z;
    if (time_zone_parse(rule, &z, &e) != 0) {
        fail_msg("%s: %s", rule, e.msg);
    }
    return z;
}

/* 26 October 2025, 01:00 UTC: summer time of Central Europe ends. */
#define CET_ENDS INT64_C(1761440400)

static void known_zones(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        int64_t now;
        int32_t offset;
    } cases[] = {
        {"UTC0", 0, 0},
        {"<+0530>-5:30", 1000000000, 19800},
        {"<-0330>3:30", 1000000000, -12600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", CET_ENDS - 1, 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", CET_ENDS, 3600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1743296399, 3600}, /* 30 March 2025, 01:00 UTC */
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1743296400, 7200},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", 1735689600, 39600}, /* the south: January is summer */
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", 1751328000, 36000},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", 1735689600, 0}, /* "summer" time in winter */
        {"EST5EDT4,0/0,J365/25", 1735689600, -14400},  /* all the year */
        {"EST5EDT4,0/0,J365/25", 1735707600, -14400},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct time_zone z = parse(cases[i].rule);
        if (time_zone_offset(&z, cases[i].now) != cases[i].offset) {
            fail_msg("%s at %lld: %d", cases[i].rule, (long long)cases[i].now,
                     (int)time_zone_offset(&z, cases[i].now));
        }
    }
}

/* The C library is asked about the same rules: every seven hours for some 60 years. */
static void as_the_c_library(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "UTC0",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "EST5EDT,M3.2.0,M11.1.0",
        "AEST-10AEDT,M10.1.0,M4.1.0/3",
        "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
        "EET-2EEST,M4.5.5/0,M10.5.4/24",
        "NZST-12NZDT,M9.5.0,M4.1.0/3",
        "XXX-3YYY,J60,J300",
        "XXX-3YYY,59/1,299/4:30:10",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
    };
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        struct time_zone z = parse(rules[i]);
        assert_int_equal(setenv("TZ", rules[i], 1), 0);
        tzset();
        for (int64_t now = 0; now < INT64_C(60) * 366 * 24 * 3600; now += 7 * 3600 - 1) {
            time_t t = now;
            struct tm tm;
            assert_non_null(localtime_r(&t, &tm));
            if (time_zone_offset(&z, now) != tm.tm_gmtoff) {
                fail_msg("%s at %lld: %d, not %ld", rules[i], (long long)now,
                         (int)time_zone_offset(&z, now), tm.tm_gmtoff);
            }
        }
    }
}

static void refused(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "",
        "CE-1",
        "CET",
        "CET-25",
        "CET-1CEST",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3-5-0,M10.5.0",
        "CET-1CEST,J0,J300",
        "CET-1CEST,J366,J300",
        "CET-1CEST,366,300",
        "CET-1CEST,M3.5.0/168,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/3x",
        "CET-1:60",
        "<CET-1",
        "Europe/Berlin",
        "CET-1CEST,M3.5.0,M10.5.0/3,",
        "CET-99999999999",
    };
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        struct time_zone z;
        struct err e = ERR_INIT;
        if (time_zone_parse(rules[i], &z, &e) != -EINVAL || strstr(e.msg, rules[i]) == NULL) {
            fail_msg("%s: %s", rules[i], e.msg);
        }
        assert_int_equal(time_zone_offset(&z, CET_ENDS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_zones),
        cmocka_unit_test(as_the_c_library),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
