/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/rfc3339.h"

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2001-09-09T01:46:40Z", 1000000000},
        {"2001-09-09t01:46:40z", 1000000000},
        {"2001-09-09 01:46:40Z", 1000000000},
        {"2001-09-09T03:46:40+02:00", 1000000000},
        {"2001-09-08T20:16:40-05:30", 1000000000},
        {"2001-09-09T01:46:40.999Z", 1000000000},
        {"2024-02-29T00:00:00Z", 1709164800},
        {"2016-12-31T23:59:60Z", 1483228800}, /* a leap second */
        {"1969-12-31T23:59:59Z", -1},
        {"9999-12-31T23:59:59Z", 253402300799},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t seconds = 42;
        if (!rfc3339_parse(good[i].text, &seconds)) {
            fail_msg("%s is refused", good[i].text);
        }
        assert_int_equal(seconds, good[i].seconds);
    }
}

static void test_what_is_no_time(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2001-09-09",
        "2001-09-09T01:46:40",
        "2001-09-09T01:46Z",
        "2001-09-09T01:46:40ZZ",
        "2001-09-09T01:46:40.Z",
        "2001-09-09T24:00:00Z",
        "2001-09-09T00:60:00Z",
        "2001-09-09T00:00:61Z",
        "2001-13-09T00:00:00Z",
        "2001-00-09T00:00:00Z",
        "2001-09-00T00:00:00Z",
        "2001-09-31T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2001-09-09T01:46:40+24:00",
        "2001-09-09T01:46:40+02",
        "01-09-09T01:46:40Z",
        "-001-09-09T01:46:40Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t seconds;
        if (rfc3339_parse(bad[i], &seconds)) {
            fail_msg("%s is taken", bad[i]);
        }
    }
}

static void test_format(void **state)
{
    (void)state;
    char text[RFC3339_SIZE];
    assert_int_equal(rfc3339_format(1000000000, text), 0);
    assert_string_equal(text, "2001-09-09T01:46:40Z");
    assert_int_equal(rfc3339_format(253402300799, text), 0);
    assert_string_equal(text, "9999-12-31T23:59:59Z");
    assert_int_equal(rfc3339_format(-62135596800, text), 0);
    assert_string_equal(text, "0001-01-01T00:00:00Z");
    assert_int_equal(rfc3339_format(253402300800, text), -EINVAL);
    assert_int_equal(rfc3339_format(INT64_MAX, text), -EINVAL);
    assert_int_equal(rfc3339_format(INT64_MIN, text), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_what_is_no_time),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
