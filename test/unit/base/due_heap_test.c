/* SPDX-License-Identifier: Apache-2.0 */
#include "base/due_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"

enum { ITEMS = 200, STEPS = 20000 };

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const struct due *earliest(const struct due *items)
{
    const struct due *found = NULL;
    for (size_t i = 0; i < ITEMS; i++) {
        if (due_is_set(&items[i]) && (found == NULL || items[i].at < found->at)) {
            found = &items[i];
        }
    }
    return found;
}

/* Whatever is inserted, moved and removed: the first is one of those that are due first. */
static void test_the_first_is_the_first(void **state)
{
    (void)state;
    static struct due items[ITEMS];
    struct due_heap h = {0};
    uint32_t random = 1;
    size_t inside = 0;
    assert_null(due_heap_first(&h));
    assert_int_equal(due_heap_reserve(&h, ITEMS), 0);
    for (int step = 0; step < STEPS; step++) {
        struct due *d = &items[next_random(&random) % ITEMS];
        inside -= due_is_set(d) ? 1 : 0;
        if (next_random(&random) % 3 == 0) {
            due_heap_remove(&h, d);
            assert_false(due_is_set(d));
        } else {
            due_heap_set(&h, d, next_random(&random) % 500);
            inside++;
        }
        assert_int_equal(h.count, inside);
        const struct due *first = earliest(items);
        assert_true((due_heap_first(&h) == NULL) == (first == NULL));
        assert_true(first == NULL || due_heap_first(&h)->at == first->at);
    }
    due_heap_deinit(&h);
    assert_null(due_heap_first(&h));
}

static bool reserve(void *data)
{
    struct due_heap *h = data;
    bool well = due_heap_reserve(h, 100) == 0;
    assert_true(well == (h->room >= 100));
    return well;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct due_heap h = {0};
    assert_int_equal(sweep_allocations(reserve, &h), 1);
    due_heap_deinit(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_is_the_first),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
