/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/generation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_first(void **state)
{
    struct generation g = {.largest = 0};
    (void)state;
    assert_int_equal(generation_next(&g), 1);
    generation_known(&g, 0, "c", "c"); /* nothing is known by this */
    generation_heard(&g, 0);
    assert_int_equal(generation_next(&g), 1);
}

static void test_stays_for_the_same_rules(void **state)
{
    struct generation g = {.largest = 0};
    (void)state;
    generation_known(&g, 7, "c", "c");
    generation_known(&g, 6, "old", "c");
    generation_heard(&g, 7);
    assert_int_equal(generation_next(&g), 7);
}

static void test_rises_for_other_rules(void **state)
{
    struct generation g = {.largest = 0};
    (void)state;
    generation_known(&g, 7, "old", "c");
    assert_int_equal(generation_next(&g), 8);
    /* Whoever says that it is the same, another says that it is not. */
    generation_known(&g, 7, "c", "c");
    assert_int_equal(generation_next(&g), 8);
}

static void test_rises_above_what_is_only_heard_of(void **state)
{
    struct generation g = {.largest = 0};
    (void)state;
    generation_known(&g, 7, "c", "c");
    generation_heard(&g, 9);
    assert_int_equal(generation_next(&g), 10);
    generation_known(&g, 9, NULL, "c");
    assert_int_equal(generation_next(&g), 10);
    generation_known(&g, 12, "c", "c"); /* somebody knows a larger one, of these rules */
    assert_int_equal(generation_next(&g), 12);
}

static void test_absurd_ones_are_not_believed(void **state)
{
    struct generation g = {.largest = 0};
    (void)state;
    generation_known(&g, 7, "c", "c");
    generation_known(&g, UINT64_MAX, "x", "c");
    generation_heard(&g, RULES_GENERATION_MAX + 1);
    assert_int_equal(generation_next(&g), 7);
    /* Proxies take it, but nothing newer after it. */
    generation_known(&g, RULES_GENERATION_MAX, "c", "c");
    assert_int_equal(generation_next(&g), 7);
}

/* What is published is always believed the next time, and taken by proxies. */
static void test_the_next_one_is_believed(void **state)
{
    struct generation g = {.largest = 0};
    (void)state;
    generation_heard(&g, GENERATION_TOLD_MAX);
    for (unsigned i = 1; i <= 3; i++) {
        uint64_t next = generation_next(&g);
        assert_true(next == GENERATION_TOLD_MAX + i && next < RULES_GENERATION_MAX);
        generation_known(&g, next, "other", "c");
    }
}

static void test_who_was_told(void **state)
{
    (void)state;
    assert_false(generation_was_told(0, 1));
    assert_false(generation_was_told(6, 7));
    assert_true(generation_was_told(7, 7));
    assert_true(generation_was_told(8, 7)); /* what is known of the published one may be old */
    assert_true(generation_was_told(GENERATION_TOLD_MAX, 7));
    assert_false(generation_was_told(GENERATION_TOLD_MAX + 1, 7));
    assert_true(generation_was_told(GENERATION_TOLD_MAX + 1, GENERATION_TOLD_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_stays_for_the_same_rules),
        cmocka_unit_test(test_rises_for_other_rules),
        cmocka_unit_test(test_rises_above_what_is_only_heard_of),
        cmocka_unit_test(test_absurd_ones_are_not_believed),
        cmocka_unit_test(test_the_next_one_is_believed),
        cmocka_unit_test(test_who_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
