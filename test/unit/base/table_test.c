/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/list.h"

enum { MANY = 500 };

struct thing {
    struct table_node node;
    char name[16];
};

static void test_find_remove_next(void **state)
{
    static struct thing things[MANY];
    struct table t = {.buckets = NULL};
    (void)state;
    assert_null(table_find(&t, "x"));
    assert_null(table_next(&t, NULL));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(things[i].name, sizeof things[i].name, "thing-%d", i);
        assert_int_equal(table_insert(&t, &things[i].node, things[i].name), 0);
    }
    assert_int_equal(t.count, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(table_find(&t, things[i].name), &things[i].node);
    }
    assert_null(table_find(&t, "thing-500"));
    /* Every second one is removed on the way. */
    size_t seen = 0;
    struct table_node *next = table_next(&t, NULL);
    while (next != NULL) {
        struct table_node *n = next;
        next = table_next(&t, n);
        if (seen++ % 2 == 0) {
            table_remove(&t, n);
        }
    }
    assert_int_equal(seen, MANY);
    assert_int_equal(t.count, MANY / 2);
    seen = 0;
    for (struct table_node *n = NULL; (n = table_next(&t, n)) != NULL;) {
        assert_ptr_equal(table_find(&t, n->key), n);
        seen++;
    }
    assert_int_equal(seen, MANY / 2);
    table_deinit(&t);
}

struct named {
    int number;
    struct table_node node;
    char name[];
};

static void test_provide(void **state)
{
    struct table t = {.buckets = NULL};
    (void)state;
    assert_null(TABLE_FIND(&t, SLICE("a"), struct named));
    struct named *a = TABLE_PROVIDE(&t, slice_of("abc", 1), struct named, name);
    assert_non_null(a);
    assert_string_equal(a->name, "a");
    assert_int_equal(a->number, 0);
    a->number = 1;
    assert_ptr_equal(TABLE_PROVIDE(&t, SLICE("a"), struct named, name), a);
    assert_ptr_equal(TABLE_FIND(&t, SLICE("a"), struct named), a);
    struct named *empty = TABLE_PROVIDE(&t, SLICE(""), struct named, name);
    assert_ptr_not_equal(empty, a);
    assert_ptr_equal(TABLE_FIND(&t, slice_of("abc", 0), struct named), empty);
    assert_null(TABLE_FIND(&t, SLICE("abc"), struct named));
    assert_int_equal(t.count, 2);
    assert_int_equal(a->number, 1);
    table_remove(&t, &a->node);
    table_remove(&t, &empty->node);
    free(a);
    free(empty);
    table_deinit(&t);
}

static bool provide(void *data)
{
    struct table t = {.buckets = NULL};
    struct named *n = TABLE_PROVIDE(&t, SLICE("a"), struct named, name);
    (void)data;
    assert_int_equal(t.count, n != NULL);
    free(n);
    table_deinit(&t);
    return n != NULL;
}

static bool fill(void *data)
{
    static struct thing things[MANY];
    struct table t = {.buckets = NULL};
    bool ok = true;
    (void)data;
    for (int i = 0; ok && i < MANY; i++) {
        (void)snprintf(things[i].name, sizeof things[i].name, "thing-%d", i);
        ok = table_insert(&t, &things[i].node, things[i].name) == 0;
        assert_true(ok || i == 0); /* later it grows, or does not */
        assert_ptr_equal(table_find(&t, things[i].name), ok ? &things[i].node : NULL);
    }
    table_deinit(&t);
    return ok;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(fill, NULL) > 2);
    assert_int_equal(sweep_allocations(provide, NULL), 2);
}

/* Once there is room, memory for more of it may be missing. */
static bool reserve(void *data)
{
    static struct thing things[MANY];
    struct table t = {.buckets = NULL};
    (void)data;
    bool ok = table_reserve(&t) == 0;
    for (int i = 0; ok && i < MANY; i++) {
        (void)snprintf(things[i].name, sizeof things[i].name, "thing-%d", i);
        assert_int_equal(table_insert(&t, &things[i].node, things[i].name), 0);
    }
    table_deinit(&t);
    return ok;
}

static void test_reserve(void **state)
{
    (void)state;
    assert_true(sweep_allocations(reserve, NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_remove_next),
        cmocka_unit_test(test_provide),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
