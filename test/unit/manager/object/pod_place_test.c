/* SPDX-License-Identifier: Apache-2.0 */
#include "object/pod_place.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/array.h"

static void test_round_trip(void **state)
{
    static const struct pod_place places[] = {{1, 0xabc}, {1000, UINT64_MAX}, {UINT_MAX, 1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char text[POD_PLACE_SIZE];
        pod_place_print(&places[i], text);
        struct pod_place got = pod_place_parse(text);
        assert_int_equal(got.rank, places[i].rank);
        assert_true(got.mark == places[i].mark);
    }
}

static void test_nonsense(void **state)
{
    static const char *const texts[] = {
        "",
        "1",
        "-",
        "1-",
        "x-0000000000000001",
        "-1-0000000000000001",
        "1-1",
        "1-00000000000000001",
        "1-000000000000000x",
        "4294967296-0000000000000001",
        "99999999999999999999-0000000000000001",
        " 1-0000000000000001",
        "1-0000000000000001 ",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct pod_place got = pod_place_parse(texts[i]);
        assert_int_equal(got.rank, 0);
        assert_true(got.mark == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
