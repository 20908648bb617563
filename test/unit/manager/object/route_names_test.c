/* SPDX-License-Identifier: Apache-2.0 */
#include "object/route_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void the_port_of_a_shard(void **state)
{
    (void)state;
    char name[ROUTE_PORT_SIZE];
    /* printf ops/shard-a | sha256sum */
    assert_string_equal(route_port_name("ops/shard-a", name), "wh-ac0a24b5");
    assert_true(strlen(name) <= 15);
    assert_true(route_port_is(name));
    assert_string_not_equal(route_port_name("ops/shard-b", name), "wh-ac0a24b5");
}

static void what_is_such_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is;
    } cases[] = {
        {"wh-00000000", true},  {"wh-89abcdef", true}, {ROUTE_HOLD_PORT, true},
        {"wh-89ABCDEF", false}, {"wh-0000000", false}, {"wh-000000000", false},
        {"wh-0000000g", false}, {"wh-", false},        {"wh-holds", false},
        {"webhook", false},     {"", false},           {"w", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(route_port_is(cases[i].name), cases[i].is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_port_of_a_shard),
        cmocka_unit_test(what_is_such_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
