/* SPDX-License-Identifier: Apache-2.0 */
#include "base/byte_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

enum { MAX = 100000 };

static void shares_have_one_bound(void **state)
{
    (void)state;
    struct byte_budget b = {.max = MAX};
    struct byte_share one, two;
    byte_share_init(&one, &b);
    byte_share_init(&two, &b);
    assert_true(byte_share_set(&one, 60000));
    assert_false(byte_share_set(&two, 40001));
    assert_int_equal(two.size, 0);
    assert_true(byte_share_set(&two, 40000));
    assert_int_equal(b.used, MAX);
    assert_int_equal(b.refused, 1);
    assert_true(byte_share_set(&one, 50000));
    assert_true(byte_share_set(&two, 50000));
    byte_share_give_back(&one);
    byte_share_give_back(&one);
    assert_int_equal(b.used, 50000);
    byte_share_give_back(&two);
    assert_int_equal(b.used, 0);
}

static void what_is_small_is_always_there(void **state)
{
    (void)state;
    struct byte_budget b = {.max = MAX};
    struct byte_share large, small;
    byte_share_init(&large, &b);
    byte_share_init(&small, &b);
    assert_true(byte_share_set(&large, MAX));
    assert_true(byte_share_set(&small, BYTE_SHARE_FREE));
    assert_false(byte_share_set(&small, BYTE_SHARE_FREE + 1));
    assert_int_equal(small.size, BYTE_SHARE_FREE);
    assert_int_equal(b.used, MAX);
}

static void a_part_is_left_to_others(void **state)
{
    (void)state;
    struct byte_budget b = {.max = MAX};
    struct byte_share one, two, unbounded = {0};
    byte_share_init(&one, &b);
    byte_share_init(&two, &b);
    assert_false(byte_share_set_within(&one, MAX / 2 + 1, MAX / 2));
    assert_true(byte_share_set_within(&one, MAX / 2, MAX / 2));
    assert_false(byte_share_set_within(&two, 5000, MAX / 2));
    assert_true(byte_share_set(&two, MAX / 2));
    assert_false(byte_share_set_within(&two, MAX, 2 * MAX)); /* the budget's is the last word */
    assert_true(byte_share_set_within(&one, 5000, 0));
    assert_true(byte_share_set_within(&unbounded, MAX, 0));
    assert_int_equal(b.refused, 3);
    assert_false(byte_share_try_within(&one, 6000, 0)); /* is not missed */
    assert_int_equal(b.refused, 3);
    byte_share_give_back(&one);
    byte_share_give_back(&two);
    assert_int_equal(b.used, 0);
}

static void can_be_overdrawn(void **state)
{
    (void)state;
    struct byte_budget b = {.max = MAX};
    struct byte_share one, two;
    byte_share_init(&one, &b);
    byte_share_init(&two, &b);
    byte_share_force(&one, 2 * MAX);
    assert_true(byte_budget_overdrawn(&b));
    assert_false(byte_share_set(&two, 5000));
    assert_true(byte_share_set(&one, 2 * MAX - 1)); /* less than before */
    assert_false(byte_share_set(&one, 2 * MAX));
    byte_share_give_back(&one);
    assert_false(byte_budget_overdrawn(&b));
    assert_true(byte_share_set(&two, 5000));
    byte_share_give_back(&two);
}

static void bounds_nothing_without_a_budget(void **state)
{
    (void)state;
    struct byte_share s;
    byte_share_init(&s, NULL);
    assert_true(byte_share_set(&s, SIZE_MAX));
    byte_share_give_back(&s);
}

/* What is asked for is what a buffer then takes. */
static void knows_how_far_a_buffer_grows(void **state)
{
    (void)state;
    static const char data[5000];
    struct buf b = BUF_INIT(MAX);
    for (size_t n = 0; n < sizeof data; n += 7) {
        size_t expected = buf_size_with(&b, n);
        assert_int_equal(buf_append(&b, data, n), 0);
        if (n > 0) {
            assert_int_equal(b.cap, expected);
        }
        if (b.len > MAX / 2) {
            buf_reset(&b);
        } else if (n % 3 == 0) {
            buf_consume(&b, b.len / 2);
        }
    }
    buf_reset(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_have_one_bound),
        cmocka_unit_test(what_is_small_is_always_there),
        cmocka_unit_test(a_part_is_left_to_others),
        cmocka_unit_test(can_be_overdrawn),
        cmocka_unit_test(bounds_nothing_without_a_budget),
        cmocka_unit_test(knows_how_far_a_buffer_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
