/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The condition Covered, as namespaces and rules change.
 */
#include <stdlib.h>

#include "controller_fixture.h"
#include "shard/controller_internal.h"

#define IN(ns) "ctrlmesh.kusionstack.io/namespace=" ns

static void put(struct fixture *s, const char *ns)
{
    store_put_text(&s->store, "namespaces", "", "{\"metadata\":{\"name\":\"%s\"}}", ns);
}

static void expect(struct fixture *s, const char *shard, const char *key, const char *text)
{
    for (int i = 0; i < 5000 && strcmp(fixture_condition(s, shard, "Covered", key), text) != 0;
         i++) {
        run_for(s->store.api.loop, 2);
    }
    assert_string_equal(fixture_condition(s, shard, "Covered", key), text);
}

static void begin_with(struct fixture *s, const char *reason)
{
    s->coverage = true;
    put(s, "x");
    put(s, "y");
    put(s, "kube-system");
    fixture_config(s, "a", "pods", IN("x"));
    fixture_config(s, "b", "pods", IN("y"));
    fixture_lead(s);
    expect(s, "a", "reason", reason);
    expect(s, "b", "reason", reason);
}

static void begin(struct fixture *s)
{
    begin_with(s, "Covered");
}

static void namespaces_come_and_go(void **state)
{
    struct fixture *s = *state;
    begin(s);
    put(s, "z");
    expect(s, "a", "message", "In no shard: z.");
    expect(s, "b", "reason", "Gaps");
    store_delete(&s->store, "namespaces", "", "z");
    expect(s, "a", "reason", "Covered");
    expect(s, "b", "reason", "Covered");
}

static void rules_change(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_config(s, "b", "pods", IN("x"));
    expect(s, "a", "message", "In no shard: y. In two shards: x (a, b).");
    expect(s, "b", "reason", "Overlaps");
}

/* It stays so until there is less to compare, and is no number in the metrics. */
static void what_takes_too_long_is_not_known(void **state)
{
    struct fixture *s = *state;
    struct buf text = BUF_INIT(4096);
    s->cover_steps = 5;
    begin(s);
    put(s, "z");
    expect(s, "a", "reason", "TooManyLimits");
    expect(s, "b", "status", "Unknown");
    assert_non_null(strstr(fixture_condition(s, "a", "Covered", "message"), "manager coverage"));
    operator_coverage_metrics(s->controller->operator_coverage, &text);
    assert_int_equal(buf_error(&text), 0);
    assert_null(strstr(buf_cstr(&text), "operator="));
    buf_reset(&text);
    store_delete(&s->store, "namespaces", "", "z");
    expect(s, "a", "reason", "Covered");
    expect(s, "b", "reason", "Covered");
}

/* Its pods go on with what they have. */
static void a_spec_that_is_refused_changes_nothing(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_config(s, "b", "pods", "no key=x");
    fixture_expect_condition(s, "b", "Compiled", "False");
    put(s, "z");
    expect(s, "a", "message", "In no shard: z.");
}

/* Each look at a shard would be as expensive as it has neighbours. */
static void a_change_that_covers_the_same_concerns_nobody_else(void **state)
{
    enum { OTHERS = 40, AFTER_ALL_IS_FOUND_MS = 1500 };
    struct fixture *s = *state;
    for (int i = 0; i < OTHERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%d", i);
        fixture_config(s, name, "pods", IN("x"));
    }
    fixture_config(s, "d", "pods", IN("not-there-yet"));
    begin_with(s, "Overlaps");
    run_for(s->store.api.loop, AFTER_ALL_IS_FOUND_MS);
    unsigned long before = fixture_adds(s, "shards");
    fixture_config(s, "d", "pods", IN("not-there-either"));
    fixture_expect_generation(s, "d", 2);
    run_for(s->store.api.loop, AFTER_ALL_IS_FOUND_MS);
    assert_in_range(fixture_adds(s, "shards") - before, 1, OTHERS / 2);
    expect(s, "d", "reason", "Overlaps");
}

/* It asked before anybody knew: it is looked at as soon as that is known, not when all are again.
 */
static void a_shard_that_changes_nothing_is_told_too(void **state)
{
    enum { LOOKS_AT_ONE = 5 }; /* its config, ConfigMap and status come, and then the coverage */
    struct fixture *s = *state;
    begin(s);
    unsigned long before = fixture_adds(s, "shards");
    fixture_config(s, "c", "pods", IN("not-there-yet"));
    expect(s, "c", "reason", "Covered");
    assert_in_range(fixture_adds(s, "shards") - before, 1, LOOKS_AT_ONE);
}

/* All of these have each namespace, and only after all their limits is it known that no two share
 * an object. */
static void put_large(struct fixture *s, unsigned shard)
{
    enum { LIMITS = 100 };
    struct buf text = BUF_INIT(1 << 20);
    buf_printf(&text,
               "{\"metadata\":{\"name\":\"large-%u\"},\"spec\":{\"selector\":{\"matchLabels\":{"
               "\"shard\":\"%u\"}},\"limits\":[",
               shard, shard);
    for (unsigned i = 0; i < LIMITS; i++) {
        buf_printf(&text,
                   "%s{\"relateResources\":[{\"apiGroups\":[\"g%u.x\"],\"resources\":[\"r\"]}],"
                   "\"selector\":{\"matchLabels\":{\"part\":\"%u\",\"k%u\":\"x\"},"
                   "\"matchExpressions\":[{\"key\":\"ctrlmesh.kusionstack.io/namespace\","
                   "\"operator\":\"Exists\"}]}}",
                   i == 0 ? "" : ",", i, shard, i);
    }
    buf_append_str(&text, "]}}");
    store_put(&s->store, "shardingconfigs", "n", cJSON_Parse(buf_cstr(&text)));
    buf_reset(&text);
}

enum { UNDER_WAY_MS = 2000 };

/* A thread has been busy for a while: a request to the API server is soon done with. */
static void expect_under_way(struct fixture *s)
{
    enum { WHILE_MS = 500, PATIENCE_MS = 60000 };
    unsigned busy = 0;
    for (unsigned i = 0; i < PATIENCE_MS && busy < WHILE_MS; i++) {
        run_for(s->store.api.loop, 1);
        busy = s->store.api.loop->uv.active_reqs.count > 0 ? busy + 1 : 0;
    }
    assert_int_equal(busy, WHILE_MS);
}

/* One that takes a minute. There are no namespaces before all rules are published: a look at some
 * of them would take long, too, and a rest nine times as long would follow. */
static void begin_a_long_look(struct fixture *s)
{
    enum { SHARDS = 40, NAMESPACES = 300 };
    s->coverage = true;
    s->cover_steps = SIZE_MAX;
    for (unsigned i = 0; i < SHARDS; i++) {
        put_large(s, i);
    }
    fixture_lead(s);
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "large-%u", i);
        fixture_expect_generation(s, name, 1);
    }
    for (unsigned i = 0; i < NAMESPACES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "ns-%u", i);
        put(s, name);
    }
    expect_under_way(s);
}

/* Whoever leads no more does not keep a thread busy. */
static void a_look_ends_with_its_controller(void **state)
{
    struct fixture *s = *state;
    begin_a_long_look(s);
    fixture_retire(s);
    run_for(s->store.api.loop, UNDER_WAY_MS);
    assert_int_equal(s->store.api.loop->uv.active_reqs.count, 0);
}

/* It has rules of the cache until the loop runs on. */
static void a_look_outlives_the_cache(void **state)
{
    struct fixture *s = *state;
    begin_a_long_look(s);
    fixture_retire(s);
    shard_cache_free(s->cache);
    s->cache = NULL;
    assert_true(s->store.api.loop->uv.active_reqs.count > 0);
    run_for(s->store.api.loop, UNDER_WAY_MS);
    assert_int_equal(s->store.api.loop->uv.active_reqs.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(namespaces_come_and_go, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(rules_change, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_takes_too_long_is_not_known, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_look_ends_with_its_controller, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_look_outlives_the_cache, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_spec_that_is_refused_changes_nothing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_shard_that_changes_nothing_is_told_too, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_change_that_covers_the_same_concerns_nobody_else,
                                        fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
