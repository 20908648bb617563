/* SPDX-License-Identifier: Apache-2.0 */
#include "root/root_life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct root_life life;
static uint64_t wake;

static enum layout_life look(uint64_t now, bool alive, uint64_t alive_ms, unsigned takeover_s)
{
    const struct root_life_sight sight = {
        .now = now, .alive = alive, .alive_ms = alive_ms, .takeover_s = takeover_s};
    return root_life_look(&life, &sight, &wake);
}

static int setup(void **state)
{
    (void)state;
    life = (struct root_life){.seen = false};
    return 0;
}

/* However long it was dead before: who begins to look counts from then on. */
static void test_dead_for_long(void **state)
{
    (void)state;
    assert_int_equal(look(1000000, false, 0, 30), LAYOUT_DEAD);
    assert_int_equal(wake, 30000);
    assert_int_equal(look(1029999, false, 0, 30), LAYOUT_DEAD);
    assert_int_equal(wake, 1);
    assert_int_equal(look(1030000, false, 0, 30), LAYOUT_LONG_DEAD);
    assert_int_equal(wake, 0);
    assert_int_equal(look(1030001, true, 0, 30), LAYOUT_ALIVE);
    assert_int_equal(look(1030002, false, 0, 30), LAYOUT_DEAD);
    assert_int_equal(wake, 30000);
}

/* By what its pods say, or by what was seen, whichever is longer. */
static void test_alive_for_long(void **state)
{
    (void)state;
    assert_int_equal(look(1000, true, 0, 5), LAYOUT_ALIVE);
    assert_int_equal(wake, 5000);
    assert_int_equal(look(2000, true, 4000, 5), LAYOUT_ALIVE);
    assert_int_equal(wake, 1000);
    assert_int_equal(look(3000, true, 5000, 5), LAYOUT_LONG_ALIVE);
    assert_int_equal(look(4000, true, 0, 5), LAYOUT_ALIVE);
    assert_int_equal(wake, 2000);
    assert_int_equal(look(6000, true, 0, 5), LAYOUT_LONG_ALIVE);
}

static void test_without_takeover(void **state)
{
    (void)state;
    assert_int_equal(look(0, false, 0, 0), LAYOUT_DEAD);
    assert_int_equal(look(90000000, false, 0, 0), LAYOUT_DEAD);
    assert_int_equal(wake, 0);
    assert_int_equal(look(90000000, true, 90000000, 0), LAYOUT_ALIVE);
    assert_int_equal(wake, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_dead_for_long, setup),
        cmocka_unit_test_setup(test_alive_for_long, setup),
        cmocka_unit_test_setup(test_without_takeover, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
