/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_pauses_double_up_to_the_longest(void **state)
{
    (void)state;
    static const uint64_t longest[] = {200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    struct backoff b;
    backoff_init(&b, 200, 30000);
    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++) {
        /* The number that gives the longest pause. */
        assert_int_equal(backoff_next(&b, (uint32_t)(longest[i] / 2)), longest[i]);
    }
    backoff_reset(&b);
    assert_int_equal(backoff_next(&b, 100), 200);
}

static void test_pauses_differ_and_stay_in_their_bounds(void **state)
{
    (void)state;
    bool seen[101] = {false};
    for (uint32_t random = 0; random < 100000; random += 7) {
        struct backoff b;
        backoff_init(&b, 200, 30000);
        uint64_t pause = backoff_next(&b, random);
        assert_in_range(pause, 100, 200);
        seen[pause - 100] = true;
        assert_in_range(backoff_next(&b, UINT32_MAX - random), 200, 400);
    }
    for (size_t i = 0; i < 101; i++) {
        assert_true(seen[i]);
    }
}

static void test_extreme_bounds(void **state)
{
    (void)state;
    struct backoff b;
    backoff_init(&b, 1, 1);
    assert_in_range(backoff_next(&b, 0), 1, 1);
    assert_in_range(backoff_next(&b, 1), 1, 1);
    backoff_init(&b, UINT64_MAX / 2, UINT64_MAX);
    for (int i = 0; i < 5; i++) {
        assert_true(backoff_next(&b, UINT32_MAX) >= UINT64_MAX / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_double_up_to_the_longest),
        cmocka_unit_test(test_pauses_differ_and_stay_in_their_bounds),
        cmocka_unit_test(test_extreme_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
