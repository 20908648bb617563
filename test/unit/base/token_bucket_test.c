/* SPDX-License-Identifier: Apache-2.0 */
#include "base/token_bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_so_many_at_once_and_then_at_a_rate(void **state)
{
    (void)state;
    struct token_bucket b;
    token_bucket_init(&b, 10, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(token_bucket_take(&b, 5000), 0);
    }
    assert_int_equal(token_bucket_take(&b, 5000), 100);
    assert_int_equal(token_bucket_take(&b, 5099), 1);
    assert_int_equal(token_bucket_take(&b, 5100), 0);
    assert_int_equal(token_bucket_take(&b, 5100), 100);
    /* What is not taken is kept, but no more than it holds. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(token_bucket_take(&b, 900000), 0);
    }
    assert_int_equal(token_bucket_take(&b, 900000), 100);
}

static void test_slow_and_fast_ones(void **state)
{
    (void)state;
    struct token_bucket b;
    token_bucket_init(&b, 1.0 / 300, 1);
    assert_int_equal(token_bucket_take(&b, 1), 0);
    assert_int_equal(token_bucket_take(&b, 1), 300000);
    token_bucket_init(&b, 3000, 1);
    unsigned taken = 0;
    for (uint64_t now = 0; now < 1000; now++) {
        while (token_bucket_take(&b, now) == 0) {
            taken++;
        }
    }
    assert_in_range(taken, 990, 3001);
}

/* Whoever waits for as long as it was told gets one, and never more than the rate allows. */
static void test_waiting_is_enough(void **state)
{
    (void)state;
    struct token_bucket b;
    uint64_t now = 123456789;
    token_bucket_init(&b, 7, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(token_bucket_take(&b, now), 0);
    }
    uint64_t start = now;
    for (int i = 0; i < 700; i++) {
        uint64_t wait = token_bucket_take(&b, now);
        assert_in_range(wait, 1, 143);
        now += wait;
        assert_int_equal(token_bucket_take(&b, now), 0);
    }
    assert_in_range(now - start, 99990, 100800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_at_once_and_then_at_a_rate),
        cmocka_unit_test(test_slow_and_fast_ones),
        cmocka_unit_test(test_waiting_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
