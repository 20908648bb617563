/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controller of shards does for reviews that are routed to them: it says whose rules are
 * in force, publishes nothing that reviews are not ready for, and writes what became of them.
 */
#include "base/log.h"
#include "controller_fixture.h"

enum { HURRY = 20, MOMENT_MS = 100 };

static uint64_t hurried_now(void *data)
{
    (void)data;
    return net_clock_now(&net_clock_system) * HURRY;
}

static int64_t hurried_wall(void *data)
{
    (void)data;
    return net_clock_wall(&net_clock_system);
}

static void hurried_timer(void *data, struct net_timer *t, uint64_t ms)
{
    (void)data;
    net_timer_set(t, ms / HURRY + 1);
}

static uint32_t hurried_random(void *data)
{
    (void)data;
    return 0;
}

static const struct net_clock hurried = {
    .now = hurried_now, .wall = hurried_wall, .set_timer = hurried_timer, .random = hurried_random};

/* ---- in force ---- */

static unsigned noticed;

static void on_in_force(void *fixture, const char *key)
{
    (void)fixture;
    noticed += strcmp(key, "n/a") == 0;
}

static bool is_in_force(struct fixture *s, bool known)
{
    struct rules *published = NULL;
    const struct shard_cache_config *config = shard_cache_find_config(s->cache, "n/a");
    bool is = controller_in_force(s->controller, config, &published);
    assert_int_equal(published != NULL, known);
    return is;
}

static void rules_are_in_force_when_all_ready_pods_say_so(void **state)
{
    struct fixture *s = *state;
    s->on_in_force = on_in_force;
    fixture_begin_enforced(s);
    fixture_settle(s);
    assert_true(is_in_force(s, true));
    fixture_pod(s, "a-1", "a", "a");
    fixture_settle(s);
    assert_false(is_in_force(s, true));
    noticed = 0;
    fixture_enforces(s, "a-1", "a");
    assert_int_equal(noticed, 1);
    assert_true(is_in_force(s, true));
    fixture_config(s, "a", "pods", "app=bronze");
    fixture_expect_generation(s, "a", 2);
    assert_false(is_in_force(s, true));
    fixture_enforces(s, "a-0", "a");
    assert_false(is_in_force(s, true));
    fixture_enforces(s, "a-1", "a");
    assert_true(is_in_force(s, true));
    store_delete(&s->store, "pods", "n", "a-0");
    store_delete(&s->store, "pods", "n", "a-1");
    fixture_settle(s);
    assert_false(is_in_force(s, true)); /* nobody is there */
}

/* ---- release ---- */

static bool released;
static unsigned asked;

static bool release(void *fixture, const char *key, struct rules *to)
{
    (void)fixture;
    assert_string_equal(key, "n/a");
    assert_true(rules_generation(to) > 0);
    asked++;
    return released;
}

static void rules_wait_until_reviews_go_elsewhere(void **state)
{
    struct fixture *s = *state;
    released = true;
    s->release = release;
    fixture_begin_enforced(s);
    released = false;
    asked = 0;
    fixture_config(s, "a", "pods", "app=bronze");
    while (asked < 3) {
        run_for(s->store.api.loop, 1);
    }
    assert_int_equal(fixture_generation(s, "a"), 1);
    released = true;
    fixture_expect_rules(s, "a", "bronze");
}

static void rules_do_not_wait_for_ever(void **state)
{
    struct fixture *s = *state;
    s->clock = &hurried;
    released = true;
    s->release = release;
    fixture_begin_enforced(s);
    released = false;
    fixture_config(s, "a", "pods", "app=bronze");
    run_for(s->store.api.loop, MOMENT_MS);
    assert_int_equal(fixture_generation(s, "a"), 1);
    fixture_expect_rules(s, "a", "bronze");
    /* The next ones wait as long. */
    fixture_enforces(s, "a-0", "a");
    released = true;
    fixture_config(s, "a", "pods", "app=copper");
    fixture_expect_rules(s, "a", "copper");
    released = false;
    fixture_config(s, "a", "pods", "app=duralumin");
    run_for(s->store.api.loop, MOMENT_MS);
    assert_int_equal(fixture_generation(s, "a"), 3);
    fixture_expect_rules(s, "a", "duralumin");
}

/* ---- what users see ---- */

static struct route_report report;

static const struct route_report *routed(void *fixture, const char *key)
{
    (void)fixture;
    (void)key;
    return &report;
}

static void say(struct fixture *s, enum route_state state, enum route_reason reason,
                const char *message)
{
    report.state = state;
    route_verdict_set(&report.verdict, reason, "%s", message);
    controller_look_again(s->controller);
    fixture_settle(s);
}

static void what_became_of_reviews_is_said(void **state)
{
    struct fixture *s = *state;
    report.state = ROUTE_NOT_ASKED;
    s->routed = routed;
    fixture_begin_enforced(s);
    fixture_settle(s);
    assert_string_equal(fixture_condition(s, "a", ROUTE_CONDITION, "status"), "");
    say(s, ROUTE_KNOWN, ROUTE_SETTLING, "wait");
    fixture_expect_condition(s, "a", ROUTE_CONDITION, "False");
    fixture_expect_event(s, "a", "WebhookNotRouted", 0);
    say(s, ROUTE_KNOWN, ROUTE_ROUTED, "all is well");
    fixture_expect_condition(s, "a", ROUTE_CONDITION, "True");
    fixture_expect_event(s, "a", "WebhookRouted", 1);
    say(s, ROUTE_UNKNOWN, ROUTE_ROUTED, ""); /* to a new leader */
    assert_string_equal(fixture_condition(s, "a", ROUTE_CONDITION, "message"), "all is well.");
    say(s, ROUTE_KNOWN, ROUTE_SEEN_BY_ALL, "name pods in limits");
    fixture_expect_event(s, "a", "WebhookNotRouted", 1);
    say(s, ROUTE_KNOWN, ROUTE_CONTESTED, "somebody undoes it");
    fixture_expect_event(s, "a", "WebhookContested", 1);
    say(s, ROUTE_NOT_ASKED, ROUTE_ROUTED, "");
    assert_string_equal(fixture_condition(s, "a", ROUTE_CONDITION, "status"), "");
    assert_string_equal(fixture_condition(s, "a", "Ready", "status"), "True");
}

static int setup(void **state)
{
    noticed = 0;
    asked = 0;
    return fixture_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rules_are_in_force_when_all_ready_pods_say_so, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(rules_wait_until_reviews_go_elsewhere, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(rules_do_not_wait_for_ever, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_became_of_reviews_is_said, setup, fixture_teardown),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
