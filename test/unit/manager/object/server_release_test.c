/* SPDX-License-Identifier: Apache-2.0 */
#include "object/server_release.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

static void test_versions(void **state)
{
    static const struct {
        const char *major;
        const char *minor;
        bool want;
    } cases[] = {{"1", "20", false}, {"1", "27", false}, {"1", "27+", false}, {"1", "28", true},
                 {"1", "28+", true}, {"1", "100", true}, {"2", "0", true},    {"0", "28", false},
                 {"", "", false},    {"1", "", false},   {"", "28", false},   {"1", "x28", false},
                 {"x", "28", false}, {"1", "-28", false}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(server_release_at_least(cases[i].major, cases[i].minor, 28),
                         cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
