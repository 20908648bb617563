/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/generation.h"

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

static void test_what_is_far_is_void(void **state)
{
    struct generation g = {.own = 0};
    (void)state;
    generation_known(&g, 7, "c", "c");
    assert_int_equal(generation_voids(&g, 0), 0);
    generation_heard(&g, GENERATION_FAR); /* an annotation, which no pod takes for rules */
    assert_int_equal(generation_voids(&g, 0), 0);
    generation_known(&g, RULES_GENERATION_MAX, "c", "c");
    generation_known(&g, GENERATION_FAR, "x", "c");
    generation_seen(&g, GENERATION_FAR + 1);
    assert_int_equal(generation_next(&g), 7);
    assert_int_equal(generation_voids(&g, 0), GENERATION_FAR);
}

/* However far the generations are that managers wrote, whatever else there is can be voided. */
static void test_far_from_the_own(void **state)
{
    struct generation g = {.own = GENERATION_TOLD_MAX};
    (void)state;
    generation_known(&g, GENERATION_TOLD_MAX, "other", "c");
    generation_seen(&g, GENERATION_TOLD_MAX + GENERATION_FAR - 1); /* the last that is counted on */
    assert_int_equal(generation_next(&g), GENERATION_TOLD_MAX + GENERATION_FAR);
    assert_int_equal(generation_voids(&g, 0), 0);
    generation_seen(&g, RULES_GENERATION_MAX);
    assert_int_equal(generation_next(&g), GENERATION_TOLD_MAX + GENERATION_FAR);
    assert_true(generation_voids(&g, 0) > generation_next(&g));
    assert_true(generation_voids(&g, 0) <= RULES_GENERATION_MAX);
}

/* It stays, for a pod may come back that nobody hears of. */
static void test_voids_stays_while_it_will_do(void **state)
{
    struct generation g = {.own = 7};
    (void)state;
    generation_known(&g, 7, "other", "c");
    assert_int_equal(generation_voids(&g, GENERATION_FAR), GENERATION_FAR);
    assert_int_equal(generation_voids(&g, 9), 9);
    assert_int_equal(generation_voids(&g, 8), 0); /* that is the next one */
    generation_seen(&g, 7 + GENERATION_FAR);
    assert_int_equal(generation_voids(&g, GENERATION_FAR), GENERATION_FAR);
    assert_int_equal(generation_voids(&g, 8 + GENERATION_FAR), 7 + GENERATION_FAR);
}

static void test_who_was_told(void **state)
{
    (void)state;
    assert_false(generation_was_told(0, 1));
    assert_false(generation_was_told(6, 7));
    assert_true(generation_was_told(7, 7));
    assert_true(generation_was_told(8, 7)); /* what is known of the published one may be old */
    assert_true(generation_was_told(6 + GENERATION_FAR, 7));
    assert_false(generation_was_told(7 + GENERATION_FAR, 7));
    assert_false(generation_was_told(RULES_GENERATION_MAX, 7));
    assert_true(generation_was_told(GENERATION_FAR + 1, GENERATION_FAR + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_stays_for_the_same_rules),
        cmocka_unit_test(test_rises_for_other_rules),
        cmocka_unit_test(test_rises_above_what_is_only_heard_of),
        cmocka_unit_test(test_what_is_far_is_void),
        cmocka_unit_test(test_far_from_the_own),
        cmocka_unit_test(test_voids_stays_while_it_will_do),
        cmocka_unit_test(test_who_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
