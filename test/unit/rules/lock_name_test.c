/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/lock_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void name_and_shard(void **state)
{
    char out[LOCK_NAME_SIZE];
    (void)state;
    assert_true(lock_name_of_shard("demo", "a", out));
    assert_string_equal(out, "demo---a");
}

static void as_long_as_names_may_be(void **state)
{
    char name[NAME_SUBDOMAIN_MAX + 1];
    char out[LOCK_NAME_SIZE];
    (void)state;
    memset(name, 'n', sizeof name);
    name[NAME_SUBDOMAIN_MAX - 4] = '\0'; /* "---" and one more */
    assert_true(lock_name_of_shard(name, "a", out));
    assert_int_equal(strlen(out), NAME_SUBDOMAIN_MAX);
    assert_false(lock_name_of_shard(name, "ab", out));
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_and_shard),
        cmocka_unit_test(as_long_as_names_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
