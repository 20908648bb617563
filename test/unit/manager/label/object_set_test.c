/* SPDX-License-Identifier: Apache-2.0 */
#include "label/object_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { OBJECTS = 5000 };

static const char *name_of(unsigned i, char out[32])
{
    (void)snprintf(out, 32, "object-%u", i);
    return out;
}

static void keeps_each_once(void **state)
{
    (void)state;
    struct object_set s = {0};
    assert_false(object_set_remove(&s, "ns", "x"));
    assert_true(object_set_add(&s, "ns", "x"));
    assert_false(object_set_add(&s, "ns", "x"));
    assert_true(object_set_add(&s, "n", "sx"));
    assert_true(object_set_add(&s, "", "x"));
    assert_int_equal(s.count, 3);
    assert_true(object_set_remove(&s, "ns", "x"));
    assert_false(object_set_remove(&s, "ns", "x"));
    assert_int_equal(s.count, 2);
    object_set_clear(&s);
    assert_int_equal(s.count, 0);
    assert_false(object_set_remove(&s, "n", "sx"));
    object_set_clear(&s);
}

/* As a plain list would have it. */
static void many(void **state)
{
    (void)state;
    struct object_set s = {0};
    bool there[OBJECTS] = {false};
    size_t count = 0;
    uint32_t random = 1;
    char name[32];
    for (int step = 0; step < 200000; step++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = (random >> 8) % OBJECTS;
        if ((random & 1) != 0) {
            assert_int_equal(object_set_add(&s, "ns", name_of(i, name)), !there[i]);
            count += there[i] ? 0 : 1;
            there[i] = true;
        } else {
            assert_int_equal(object_set_remove(&s, "ns", name_of(i, name)), there[i]);
            count -= there[i] ? 1 : 0;
            there[i] = false;
        }
        assert_int_equal(s.count, count);
    }
    assert_true(count > OBJECTS / 4);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_int_equal(object_set_remove(&s, "ns", name_of(i, name)), there[i]);
    }
    object_set_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_each_once),
        cmocka_unit_test(many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
