/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody writes over the rules of a shard, in each state in which nothing newer can be
 * published: what the manager wrote last is put back.
 */
#include <stdlib.h>

#include "controller_fixture.h"

/* It would show everything then. */
static void overwrite(struct fixture *s, unsigned generation)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                   "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":%u,"
                   "\"spec\":{\"limits\":[]}}",
                   generation);
    fixture_set_rules(s, "a", text);
}

static void expect_put_back(struct fixture *s, uint64_t generation)
{
    fixture_expect_generation(s, "a", generation);
    assert_non_null(strstr(fixture_rules(s, "a"), "app=a"));
    fixture_settle(s);
}

static void spoil_spec(struct fixture *s)
{
    fixture_config(s, "a", "pods", "no key=x");
    fixture_expect_condition(s, "a", "Compiled", "False");
    fixture_settle(s);
}

static void test_the_spec_is_refused(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    spoil_spec(s);
    overwrite(s, 2);
    expect_put_back(s, 3);
    fixture_set_rules(s, "a", "nonsense");
    expect_put_back(s, 3);
    fixture_expect_condition(s, "a", "Compiled", "False");
}

/* New pods could not mount it; and without its label nobody sees what is in it. */
static void test_it_is_taken_away_while_the_spec_is_refused(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    spoil_spec(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    expect_put_back(s, 1);
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\"},\"data\":{\"rules.json\":\"x\"}}");
    expect_put_back(s, 1);
    fixture_expect_condition(s, "a", "Compiled", "False");
}

/* By a leader that did not write it, too. */
static void test_under_another_leader(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    spoil_spec(s);
    fixture_retire(s);
    fixture_lead(s);
    fixture_settle(s);
    overwrite(s, 2);
    expect_put_back(s, 3);
}

static void test_its_config_is_gone(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    store_delete(&s->store, "shardingconfigs", "n", "a");
    fixture_settle(s);
    overwrite(s, 2);
    expect_put_back(s, 3);
}

/* What nobody wants any more is not read, and so nobody knows whether it is the shard's own. */
static void test_nobody_has_read_it(void **state)
{
    enum { ORPHAN_MS = 500, PAUSE_MS = 50 };
    struct fixture *s = *state;
    s->orphan_ms = ORPHAN_MS;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_settle(s);
    store_delete(&s->store, "shardingconfigs", "n", "a");
    run_for(s->store.api.loop, PAUSE_MS);
    overwrite(s, 2);
    run_for(s->store.api.loop, PAUSE_MS);
    assert_int_equal(fixture_generation(s, "a"), 2);
    fixture_await_gone(s, "configmaps", "cmesh-rules-a");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_spec_is_refused),  TEST(test_it_is_taken_away_while_the_spec_is_refused),
        TEST(test_under_another_leader), TEST(test_its_config_is_gone),
        TEST(test_nobody_has_read_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
