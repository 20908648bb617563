/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/duration.h"

#define SECOND INT64_C(1000000000)

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0", 0},
        {"+0", 0},
        {"-0", 0},
        {"0s", 0},
        {"10s", 10 * SECOND},
        {"+10s", 10 * SECOND},
        {"-1s", -SECOND},
        {"100ms", SECOND / 10},
        {"1.5s", SECOND * 3 / 2},
        {"1h30m", 5400 * SECOND},
        {"1h30m10.5s", 5410 * SECOND + SECOND / 2},
        {"5s3m", 185 * SECOND}, /* in any order, and more than once */
        {"1s1s", 2 * SECOND},
        {".5s", SECOND / 2},
        {"5.s", 5 * SECOND},
        {"0.1s", SECOND / 10},
        {"1.0000000019s", SECOND + 2},
        {"0.3333333333333333333h", 1200 * SECOND},
        {"1us", 1000},
        {"1\xc2\xb5s", 1000},
        {"1\xce\xbcs", 1000},
        {"52763797000ns", 52763797000},
        {"9223372036854775807ns", INT64_MAX},
        {"9223372036s", 9223372036 * SECOND},
        {"2562047h47m16.854775807s", INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t ns = 42;
        if (!duration_parse(slice_str(good[i].text), &ns)) {
            fail_msg("%s is refused", good[i].text);
        }
        assert_int_equal(ns, good[i].ns);
    }
}

static void test_what_is_no_duration(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "3",
        "-",
        "+",
        "s",
        ".",
        "-.",
        ".s",
        "+.s",
        "1.5",
        "1 s",
        " 1s",
        "1s ",
        "1d",
        "1S",
        "1sec",
        "--1s",
        "1s-1s",
        "1e3s",
        "1,5s",
        "0x1s",
        "1m0",
        "9223372036854775808ns",
        "9223372036854775.808us",
        "9223372037s",
        "3000000h",
        "2562047h47m16.854775808s",
        "99999999999999999999s",
        "1\xc2s",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ns = 42;
        if (duration_parse(slice_str(bad[i]), &ns)) {
            fail_msg("%s is taken", bad[i]);
        }
        assert_int_equal(ns, 42);
    }
}

static void test_only_the_slice_is_read(void **state)
{
    (void)state;
    int64_t ns = 0;
    assert_true(duration_parse(slice_of("10ss", 3), &ns));
    assert_int_equal(ns, 10 * SECOND);
    assert_false(duration_parse(slice_of("1m", 1), &ns));
    assert_false(duration_parse(slice_of(NULL, 0), &ns));
    assert_false(duration_parse(slice_of("1s\0", 3), &ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_what_is_no_duration),
        cmocka_unit_test(test_only_the_slice_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
