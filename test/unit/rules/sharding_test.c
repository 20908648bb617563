/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/sharding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Values computed with the Go function `for _, c := range s { h = (h*33 + int(c)) % 32 }`. */
static void as_in_go(void **state)
{
    (void)state;
    assert_int_equal(sharding_hash(""), 0);
    assert_int_equal(sharding_hash("a"), 'a' % 32);
    assert_int_equal(sharding_hash("default"), 5);
    assert_int_equal(sharding_hash("kube-system"), 25);
    assert_int_equal(sharding_hash("\xc3\xa9"), 0xe9 % 32);
    assert_int_equal(sharding_hash("\xf0\x9f\x98\x80"), 0x1f600 % 32);
}

static void invalid_bytes_count_as_the_replacement(void **state)
{
    (void)state;
    assert_int_equal(sharding_hash("\xff"), 0xfffd % 32);
    assert_int_equal(sharding_hash("\xc0\x80"), 2 * 0xfffd % 32);
    assert_int_equal(sharding_hash("\xed\xa0\x80"), 3 * 0xfffd % 32);
    assert_int_equal(sharding_hash("\xe2\x82"), 2 * 0xfffd % 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_go),
        cmocka_unit_test(invalid_bytes_count_as_the_replacement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
