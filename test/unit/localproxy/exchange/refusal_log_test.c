/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/refusal_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static unsigned take_many(struct refusal_log *l, enum refusal_kind kind, uint64_t now_ms,
                          unsigned count)
{
    unsigned logged = 0;
    uint64_t suppressed;
    for (unsigned i = 0; i < count; i++) {
        logged += refusal_log_take(l, kind, now_ms, &suppressed) ? 1 : 0;
    }
    return logged;
}

static void a_hot_loop_does_not_fill_the_log(void **state)
{
    struct refusal_log l;
    uint64_t suppressed = 0;
    (void)state;
    refusal_log_init(&l);
    assert_int_equal(take_many(&l, REFUSAL_FORBIDDEN, 5000, 1000), 10);
    assert_false(refusal_log_take(&l, REFUSAL_FORBIDDEN, 5999, &suppressed));
    assert_true(refusal_log_take(&l, REFUSAL_FORBIDDEN, 6000, &suppressed));
    assert_int_equal(suppressed, 991);
    assert_true(refusal_log_take(&l, REFUSAL_FORBIDDEN, 7000, &suppressed));
    assert_int_equal(suppressed, 0);
    assert_int_equal(take_many(&l, REFUSAL_FORBIDDEN, 60000, 1000), 10);
}

static void each_kind_counts_for_itself(void **state)
{
    struct refusal_log l;
    uint64_t suppressed = 1;
    (void)state;
    refusal_log_init(&l);
    assert_int_equal(take_many(&l, REFUSAL_FORBIDDEN, 0, 20), 10);
    for (unsigned kind = 0; kind < REFUSAL_KINDS; kind++) {
        if (kind != REFUSAL_FORBIDDEN) {
            assert_true(refusal_log_take(&l, (enum refusal_kind)kind, 0, &suppressed));
            assert_int_equal(suppressed, 0);
        }
    }
}

static void kinds_follow_the_status(void **state)
{
    (void)state;
    assert_int_equal(refusal_kind_of(400), REFUSAL_INVALID);
    assert_int_equal(refusal_kind_of(415), REFUSAL_INVALID);
    assert_int_equal(refusal_kind_of(401), REFUSAL_UNAUTHORIZED);
    assert_int_equal(refusal_kind_of(403), REFUSAL_FORBIDDEN);
    assert_int_equal(refusal_kind_of(410), REFUSAL_EXPIRED);
    assert_int_equal(refusal_kind_of(429), REFUSAL_TOO_MANY);
    assert_int_equal(refusal_kind_of(500), REFUSAL_UNAVAILABLE);
    assert_int_equal(refusal_kind_of(503), REFUSAL_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hot_loop_does_not_fill_the_log),
        cmocka_unit_test(each_kind_counts_for_itself),
        cmocka_unit_test(kinds_follow_the_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
