/* SPDX-License-Identifier: Apache-2.0 */
#include "assign/assignments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static size_t count(const struct assignments *m)
{
    size_t n = 0;
    for (const struct assignment *a = NULL; (a = assignments_next(m, a)) != NULL;) {
        n++;
    }
    return n;
}

static uint64_t add(struct assignments *m, unsigned number, uint64_t at_ms)
{
    const struct assignment a = {.number = number, .at_ms = at_ms};
    uint64_t mark = assignments_mark(m);
    assignments_add(m, &a);
    return mark;
}

static int setup(void **state)
{
    *state = malloc(sizeof(struct assignments));
    assignments_init(*state, UINT64_MAX);
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void test_until_it_is_seen(void **state)
{
    struct assignments *m = *state;
    uint64_t first = add(m, 1, 0);
    uint64_t second = add(m, 2, 0);
    uint64_t third = add(m, 3, 0);
    assert_true(first != 0 && first != second && second != third);
    assert_int_equal(count(m), 3);
    assignments_see(m, second);
    assignments_see(m, second);
    assert_int_equal(count(m), 2);
    assert_int_equal(assignments_next(m, NULL)->number, 1);
    assert_int_equal(assignments_next(m, assignments_next(m, NULL))->number, 3);
    assignments_see(m, first);
    assert_int_equal(assignments_next(m, NULL)->number, 3);
    assignments_see(m, third);
    assert_int_equal(count(m), 0);
}

static void test_marks_of_others(void **state)
{
    struct assignments *m = *state;
    uint64_t mark = add(m, 1, 0);
    assignments_see(m, 0);
    assignments_see(m, mark - 1);
    assignments_see(m, mark + 1);
    assignments_see(m, UINT64_MAX);
    assert_int_equal(count(m), 1);
}

static void test_pods_that_never_come(void **state)
{
    struct assignments *m = *state;
    (void)add(m, 1, 1000);
    (void)add(m, 2, 1500);
    assignments_expire(m, 1000 + ASSIGNMENTS_MS - 1);
    assert_int_equal(count(m), 2);
    assignments_expire(m, 1000 + ASSIGNMENTS_MS);
    assert_int_equal(count(m), 1);
    assert_int_equal(assignments_next(m, NULL)->number, 2);
    assignments_expire(m, 1500 + ASSIGNMENTS_MS);
    assert_int_equal(count(m), 0);
    assert_null(assignments_next(m, NULL));
}

static void test_the_oldest_are_forgotten(void **state)
{
    struct assignments *m = *state;
    uint64_t first = add(m, 0, 0);
    uint64_t last = first;
    for (unsigned i = 1; i < 2 * ASSIGNMENTS_MAX + 10; i++) {
        last = add(m, i, 0);
    }
    assert_int_equal(count(m), ASSIGNMENTS_MAX);
    assert_int_equal(assignments_next(m, NULL)->number, ASSIGNMENTS_MAX + 10);
    assignments_see(m, first);
    assert_int_equal(count(m), ASSIGNMENTS_MAX);
    assignments_see(m, last);
    assert_int_equal(count(m), ASSIGNMENTS_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_until_it_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_marks_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods_that_never_come, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_oldest_are_forgotten, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
