/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard for whose limits there is no memory says so, changes nothing that is in force, and is
 * published as soon as there is.
 */
#include <stdlib.h>
#include <string.h>

#include "controller_fixture.h"

enum { MEMORY = 850 * 1024, LARGE = 6000 };

static int setup(void **state)
{
    struct fixture *s = calloc(1, sizeof *s);
    *state = s;
    if (s == NULL || !fixture_open(s)) {
        return -1;
    }
    s->memory = MEMORY;
    return fixture_begin(s, NULL) ? 0 : -1;
}

static void begin(struct fixture *s)
{
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Ready", "True");
    fixture_settle(s);
}

static void expect_given_up(struct fixture *s, const char *shard)
{
    fixture_expect_condition(s, shard, "Compiled", "False");
    assert_string_equal(fixture_condition(s, shard, "Compiled", "reason"), "OverBudget");
    assert_non_null(strstr(fixture_condition(s, shard, "Compiled", "message"), "namespace n"));
    fixture_expect_condition(s, shard, "Ready", "False");
}

static void test_rules_stay_in_force(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_config_in(s, "a", 4 * LARGE, false);
    expect_given_up(s, "a");
    fixture_settle(s);
    fixture_expect_event(s, "a", "CompileFailed", 1);
    assert_non_null(
        strstr(fixture_condition(s, "a", "Published", "message"), "which stays in force"));
    assert_int_equal(fixture_generation(s, "a"), 1);
    assert_non_null(strstr(fixture_rules(s, "a"), "app=a"));
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_rules(s, "a", "app=b");
    fixture_expect_generation(s, "a", 2);
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Ready", "True");
}

/* Also of a shard that is large by itself, whose rules the next leader reads. */
static void test_another_shard_pushes_it_out(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_config_in(s, "b", LARGE, false);
    fixture_expect_generation(s, "b", 1);
    fixture_settle(s);
    fixture_config_in(s, "c", LARGE + 600, false);
    fixture_config_in(s, "d", LARGE + 300, false);
    expect_given_up(s, "c");
    fixture_settle(s);
    assert_string_equal(fixture_condition(s, "b", "Compiled", "status"), "True");
    fixture_retire(s);
    fixture_lead(s);
    fixture_settle(s);
    expect_given_up(s, "c");
    assert_string_equal(fixture_condition(s, "b", "Compiled", "status"), "True");
    store_delete(&s->store, "shardingconfigs", "n", "b");
    store_delete(&s->store, "shardingconfigs", "n", "d");
    fixture_expect_condition(s, "c", "Compiled", "True");
    fixture_expect_rules(s, "c", "value-number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rules_stay_in_force, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_another_shard_pushes_it_out, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
