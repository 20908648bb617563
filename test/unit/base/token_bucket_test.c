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

static unsigned take_all(struct token_bucket *b, uint64_t now)
{
    unsigned taken = 0;
    while (token_bucket_take(b, now) == 0) {
        taken++;
    }
    return taken;
}

static void test_a_look_takes_nothing(void **state)
{
    (void)state;
    struct token_bucket b;
    token_bucket_init_limit(&b, 1, 10000, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(token_bucket_look(&b, 77), 0);
    }
    assert_int_equal(token_bucket_take(&b, 77), 0);
    assert_int_equal(token_bucket_look(&b, 77), 10000);
    assert_int_equal(token_bucket_look(&b, 10076), 1);
    assert_int_equal(token_bucket_look(&b, 10077), 0);
    assert_int_equal(token_bucket_take(&b, 10077), 0);
}

static void test_zeros(void **state)
{
    (void)state;
    struct token_bucket b;
    token_bucket_init_limit(&b, 0, 1000, 3); /* never refilled */
    assert_int_equal(take_all(&b, 5), 3);
    assert_true(token_bucket_take(&b, 5) == TOKEN_BUCKET_NEVER);
    assert_true(token_bucket_look(&b, UINT64_MAX) == TOKEN_BUCKET_NEVER);
    token_bucket_init_limit(&b, 100, 1000, 0); /* refuses */
    assert_true(token_bucket_look(&b, 0) == TOKEN_BUCKET_NEVER);
    assert_true(token_bucket_take(&b, 1000000) == TOKEN_BUCKET_NEVER);
    token_bucket_init_limit(&b, 0, 1000, 0);
    assert_true(token_bucket_take(&b, 1000000) == TOKEN_BUCKET_NEVER);
}

/* Three in 10 s are three in 10 s, not one in 3,334 ms, where there is room for more than one. */
static void test_nothing_is_rounded(void **state)
{
    (void)state;
    struct token_bucket b;
    unsigned taken = 0;
    token_bucket_init_limit(&b, 3, 10000, 2);
    for (uint64_t now = 0; now <= 300000; now++) {
        taken += take_all(&b, now);
    }
    assert_int_equal(taken, 2 + 90);
    taken = 0;
    token_bucket_init_limit(&b, 7, 604800000, 2);
    for (uint64_t now = 0; now <= 604800000; now += 100) {
        taken += take_all(&b, now);
    }
    assert_int_equal(taken, 2 + 7);
}

static void test_the_largest_ones(void **state)
{
    (void)state;
    struct token_bucket b;
    token_bucket_init_limit(&b, UINT32_MAX, 604800000, UINT32_MAX);
    uint64_t size = b.size;
    assert_true(size == UINT64_C(604800000) * UINT32_MAX);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(token_bucket_take(&b, 1), 0);
    }
    assert_true(b.level == size - UINT64_C(604800000) * 1000);
    assert_int_equal(token_bucket_take(&b, UINT64_MAX), 0);
    assert_true(b.level == size - 604800000);
    token_bucket_init_limit(&b, UINT32_MAX, 1, 1);
    assert_int_equal(token_bucket_take(&b, 1), 0);
    assert_int_equal(token_bucket_take(&b, 1), 1);
    assert_int_equal(token_bucket_take(&b, 2), 0);
    token_bucket_init_limit(&b, 1, 604800000, UINT32_MAX);
    assert_int_equal(token_bucket_take(&b, 1), 0);
    b.level = 0;
    assert_int_equal(token_bucket_take(&b, 1), 604800000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_at_once_and_then_at_a_rate),
        cmocka_unit_test(test_slow_and_fast_ones),
        cmocka_unit_test(test_waiting_is_enough),
        cmocka_unit_test(test_a_look_takes_nothing),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_nothing_is_rounded),
        cmocka_unit_test(test_the_largest_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
