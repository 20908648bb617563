/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watch/cut_pacing.h"

enum { INTERVAL = 5000, SPREAD = 2000, VIEW = 42 };

static void test_few_are_cut_at_once(void **state)
{
    (void)state;
    struct cut_pacing p;
    cut_pacing_init(&p, INTERVAL, SPREAD);
    for (unsigned i = 0; i < CUT_PACING_AT_ONCE; i++) {
        assert_int_equal(cut_pacing_delay(&p, VIEW, 100, i, CUT_PACING_AT_ONCE), 0);
    }
}

static void test_many_are_spread_evenly(void **state)
{
    (void)state;
    struct cut_pacing p;
    cut_pacing_init(&p, INTERVAL, SPREAD);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 100, 0, 1000), 0);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 100, 500, 1000), SPREAD / 2);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 100, 999, 1000), 1998);
    cut_pacing_init(&p, INTERVAL, 0);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 100, 999, 1000), 0);
}

static void test_a_view_that_was_cut_waits_for_the_interval(void **state)
{
    (void)state;
    struct cut_pacing p;
    cut_pacing_init(&p, INTERVAL, SPREAD);
    cut_pacing_note(&p, VIEW, 1000);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 1000, 0, 1), INTERVAL);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 3000, 0, 1), 3000);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 6000, 0, 1), 0);
    /* Whichever is later. */
    assert_int_equal(cut_pacing_delay(&p, VIEW, 3000, 999, 1000), 3000);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 5900, 500, 1000), 1000);
    assert_int_equal(cut_pacing_delay(&p, VIEW + 1, 3000, 0, 1), 0);
    cut_pacing_init(&p, 0, SPREAD);
    cut_pacing_note(&p, VIEW, 1000);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 1000, 0, 1), 0);
}

static void test_a_view_in_the_same_place_takes_over(void **state)
{
    (void)state;
    struct cut_pacing p;
    cut_pacing_init(&p, INTERVAL, SPREAD);
    cut_pacing_note(&p, VIEW, 1000);
    cut_pacing_note(&p, VIEW + CUT_PACING_VIEWS, 1001);
    assert_int_equal(cut_pacing_delay(&p, VIEW, 1002, 0, 1), 0);
    assert_int_equal(cut_pacing_delay(&p, VIEW + CUT_PACING_VIEWS, 1002, 0, 1), INTERVAL - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_are_cut_at_once),
        cmocka_unit_test(test_many_are_spread_evenly),
        cmocka_unit_test(test_a_view_that_was_cut_waits_for_the_interval),
        cmocka_unit_test(test_a_view_in_the_same_place_takes_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
