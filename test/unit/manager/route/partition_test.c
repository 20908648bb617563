/* SPDX-License-Identifier: Apache-2.0 */
#include "route/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void all_is_rest_at_first(void **state)
{
    struct partition p;
    (void)state;
    partition_init(&p);
    assert_int_equal(partition_owner(&p, "any"), PARTITION_REST);
    assert_true(partition_has(&p, PARTITION_REST));
    assert_false(partition_has(&p, 0));
}

static void names_come_before_hashes(void **state)
{
    static const struct partition_name names[] = {{"b", 1}, {"a", 0}, {"b", 2}, {"a", 3}};
    struct partition p;
    (void)state;
    partition_init(&p);
    p.hashes[sharding_hash("a")] = 4;
    partition_set_names(&p, names, ARRAY_LEN(names));
    assert_int_equal(p.count, 2);
    assert_int_equal(partition_owner(&p, "a"), 0); /* the first of each */
    assert_int_equal(partition_owner(&p, "b"), 1);
    assert_int_equal(partition_owner(&p, "wj"), 4); /* of the hash of "a" */
    assert_true(partition_has(&p, 1) && partition_has(&p, 4));
    assert_false(partition_has(&p, 2) || partition_has(&p, PARTITION_HELD));
    partition_set_names(&p, NULL, 0);
    assert_int_equal(partition_owner(&p, "a"), 4);
    partition_deinit(&p);
}

static void what_is_equal(void **state)
{
    static const struct partition_name names[] = {{"a", 0}, {"b", 1}};
    static const struct partition_name reversed[] = {{"b", 1}, {"a", 0}};
    static const struct partition_name others[] = {{"a", 0}, {"c", 1}};
    static const struct partition_name owners[] = {{"a", 0}, {"b", 2}};
    struct partition a;
    struct partition b;
    (void)state;
    partition_init(&a);
    partition_init(&b);
    assert_true(partition_equal(&a, &b));
    partition_set_names(&a, names, 2);
    assert_false(partition_equal(&a, &b));
    partition_set_names(&b, reversed, 2);
    assert_true(partition_equal(&a, &b));
    partition_set_names(&b, others, 2);
    assert_false(partition_equal(&a, &b));
    partition_set_names(&b, owners, 2);
    assert_false(partition_equal(&a, &b));
    partition_set_names(&b, names, 2);
    b.hashes[31] = 0;
    assert_false(partition_equal(&a, &b));
    partition_deinit(&a);
    partition_deinit(&b);
}

static void no_more_names_than_the_maximum(void **state)
{
    enum { COUNT = PARTITION_NAMES_MAX + 10 };
    static char texts[COUNT][16];
    static struct partition_name names[COUNT];
    struct partition p;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "ns-%d", i);
        names[i] = (struct partition_name){texts[i], 0};
    }
    partition_init(&p);
    partition_set_names(&p, names, COUNT);
    assert_int_equal(p.count, PARTITION_NAMES_MAX);
    partition_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_rest_at_first),
        cmocka_unit_test(names_come_before_hashes),
        cmocka_unit_test(what_is_equal),
        cmocka_unit_test(no_more_names_than_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
