/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "kube/quantity.h"

static void quantities_are_read(void **state)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"0", 0},
        {"1", 1},
        {"+1", 1},
        {"0.5", 0.5},
        {".5", 0.5},
        {"5.", 5},
        {"50m", 0.05},
        {"100u", 0.0001},
        {"1k", 1000},
        {"1M", 1e6},
        {"1G", 1e9},
        {"1T", 1e12},
        {"1P", 1e15},
        {"1E", 1e18},
        {"1Ki", 1024},
        {"64Mi", 67108864},
        {"1Gi", 1073741824},
        {"1e3", 1000},
        {"1E3", 1000},
        {"12e-1", 1.2},
        {"1e+2", 100},
        {"1e18", 1e18},
        {"1e-18", 1e-18},
        {"0000000000000000000000000000000000000000000000000000000000000001", 1},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double value = -1;
        struct err e = ERR_INIT;
        if (quantity_parse(rows[i].text, &value, &e) != 0 ||
            (value - rows[i].value) * 1e9 > rows[i].value ||
            (rows[i].value - value) * 1e9 > rows[i].value) {
            fail_msg("%s: %f %s", rows[i].text, value, e.msg);
        }
    }
}

static void others_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "many",
        ".",
        "1.2.3",
        "1 Mi",
        " 1",
        "1 ",
        "-1",
        "++1",
        "1K",
        "1mi",
        "1KI",
        "1e",
        "1e-",
        "1e3.5",
        "1ee3",
        "0x1",
        "1Mi1",
        "1e99",
        "1B",
        "nan",
        "1e19",
        "1e-19",
        "1e 3",
        "1e-99999999999999999999",
        "1e99999999999999999999",
        "00000000000000000000000000000000000000000000000000000000000000001",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double value = 0;
        struct err e = ERR_INIT;
        if (quantity_parse(rows[i], &value, &e) == 0) {
            fail_msg("\"%s\" was taken", rows[i]);
        }
        assert_non_null(strstr(e.msg, rows[i]));
    }
}

static void quantities_are_written(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {1, "1"},
        {0.155, "155m"},
        {0.1 + 0.05 + 0.005, "155m"},
        {0.945 + 0.055, "1"},
        {0.0001, "1m"},
        {1.0001, "1001m"},
        {1000, "1000"},
        {1024, "1Ki"},
        {1023.5, "1023500m"},
        {440401920, "420Mi"},
        {1073741824, "1Gi"},
        {150331648, "150331648"},
        {1152921504606846976.0 / 1024, "1Pi"},
        {9007199254740991.0, "9007199254740991"},
    };
    char text[QUANTITY_SIZE];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(quantity_print(rows[i].value, text), 0);
        assert_string_equal(text, rows[i].text);
    }
    assert_int_equal(quantity_print(-1, text), -ERANGE);
    assert_int_equal(quantity_print(1e18, text), -ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_read),
        cmocka_unit_test(quantities_are_written),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
