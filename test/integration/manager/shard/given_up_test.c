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
    fixture_begin(s);
    return 0;
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
    fixture_begin_enforced(s);
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
    fixture_begin_enforced(s);
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

/* ---- ConfigMaps of what was given up ---- */

static void annotate(struct fixture *s, const char *resource, const char *name, const char *value)
{
    cJSON *o = cJSON_Duplicate(store_get(&s->store, resource, "n", name), true);
    cJSON *meta = cJSON_GetObjectItem(o, "metadata");
    cJSON *old = cJSON_GetObjectItem(meta, "annotations");
    cJSON *annotations = old != NULL ? old : cJSON_AddObjectToObject(meta, "annotations");
    cJSON_DeleteItemFromObject(annotations, "x");
    assert_non_null(cJSON_AddStringToObject(annotations, "x", value));
    store_put(&s->store, resource, "n", o);
}

/* Of an operator of its own, or of one with others; it shows app=x, and much that is nobody's. */
static void put_large(struct fixture *s, const char *name, const char *lock, unsigned values)
{
    struct buf text = BUF_INIT((size_t)4 * 1024 * 1024);
    for (unsigned v = 0; v < values; v++) {
        (void)buf_printf(&text, ",\"value-%s-%06u\"", name, v);
    }
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"controller\":{\"leaderElectionName\":\"%s\"},\"limits\":[{"
                   "\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],"
                   "\"selector\":{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"In\","
                   "\"values\":[\"x\"%s]}]}}]}}",
                   name, name, lock, buf_cstr(&text));
    buf_reset(&text);
}

static const struct rules_map *map_of(const struct fixture *s, const char *key)
{
    const struct rules_map *m = shard_cache_find_map(s->cache, key);
    assert_non_null(m);
    return m;
}

/* Somebody touches it, and it is taken up again: nothing of it was forgotten, and nothing is
 * written. */
static void test_its_configmap_is_touched(void **state)
{
    struct fixture *s = *state;
    fixture_lead(s);
    put_large(s, "c", "c", 8000);
    fixture_expect_generation(s, "c", 1);
    fixture_settle(s);
    put_large(s, "b", "b", 7000);
    put_large(s, "d", "d", 7500);
    expect_given_up(s, "c");
    fixture_settle(s);
    for (unsigned i = 0; i < 2; i++) {
        annotate(s, "configmaps", "cmesh-rules-c", i == 0 ? "1" : "2");
        fixture_settle(s);
        assert_true(map_of(s, "n/c")->given_up > 0);
        assert_string_not_equal(map_of(s, "n/c")->checksum, "");
        assert_string_equal(fixture_text(s, "shardingconfigs", "c", "status/checksum"),
                            map_of(s, "n/c")->checksum);
        assert_int_equal(fixture_generation(s, "c"), 1);
    }
    assert_string_equal(fixture_condition(s, "c", "Exclusive", "status"), "Unknown");
    assert_string_equal(fixture_condition(s, "c", "Exclusive", "reason"), "OverBudget");
    store_delete(&s->store, "shardingconfigs", "n", "b");
    store_delete(&s->store, "shardingconfigs", "n", "d");
    fixture_expect_condition(s, "c", "Compiled", "True");
    fixture_settle(s);
    assert_non_null(map_of(s, "n/c")->rules);
    assert_false(map_of(s, "n/c")->later);
    assert_int_equal(fixture_generation(s, "c"), 1);
    fixture_expect_condition(s, "c", "Published", "True");
}

/* By its ConfigMap it is of the operator still that its new spec is not of. */
static void test_it_shows_what_another_wants(void **state)
{
    struct fixture *s = *state;
    s->strict = true;
    s->handover_ms = 600000;
    fixture_lead(s);
    fixture_pod(s, "a-0", "a", "a");
    fixture_pod(s, "c-0", "c", "c");
    put_large(s, "c", "op1", 3);
    fixture_expect_generation(s, "c", 1);
    fixture_enforces(s, "c-0", "c");
    fixture_settle(s);
    put_large(s, "c", "op2", 40000);
    expect_given_up(s, "c");
    annotate(s, "configmaps", "cmesh-rules-c", "1");
    fixture_settle(s);
    put_large(s, "a", "op1", 1);
    fixture_settle(s);
    assert_string_equal(fixture_condition(s, "a", "Published", "reason"), "WaitingForHandover");
    assert_non_null(
        strstr(fixture_condition(s, "a", "Published", "message"), "no memory for its rules"));
    assert_non_null(strstr(fixture_rules(s, "a"), "k,!k"));
}

/* What is written anew needs its old rules in memory no longer. */
static void test_an_edit_above_half_of_the_bound(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    for (unsigned i = 0; i < 4; i++) {
        put_large(s, "c", "c", 13000 + i);
        fixture_expect_generation(s, "c", i + 1);
        fixture_settle(s);
        assert_string_equal(fixture_condition(s, "c", "Compiled", "status"), "True");
        assert_false(shard_cache_find_config(s->cache, "n/c")->over);
    }
}

/* What takes memory of it is not its limits, of which nobody holds anything. */
static void put_heavy(struct fixture *s, const char *name, unsigned finalizers)
{
    struct buf text = BUF_INIT(1024 * 1024);
    for (unsigned i = 0; i < finalizers; i++) {
        (void)buf_printf(&text, "%s\"example.com/f%u\"", i == 0 ? "" : ",", i);
    }
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"finalizers\":[%s]},\"spec\":{\"selector\":{"
                   "\"matchLabels\":{\"shard\":\"%s\"}},\"limits\":[]}}",
                   name, buf_cstr(&text), name);
    buf_reset(&text);
}

static void turns(struct fixture *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        store_go_on(&s->store);
        store_turn(&s->store, 5);
    }
}

/* It is given up and taken up again while its ConfigMap is being written. */
static void test_during_a_write(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    put_large(s, "b", "b", 8000);
    put_large(s, "c", "c", 9500);
    fixture_expect_generation(s, "b", 1);
    fixture_expect_generation(s, "c", 1);
    fixture_settle(s);
    s->store.held = true;
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-c");
    turns(s, 50);
    put_heavy(s, "d", 3200);
    turns(s, 100);
    assert_true(shard_cache_find_config(s->cache, "n/c")->over);
    store_delete(&s->store, "shardingconfigs", "n", "d");
    turns(s, 50);
    annotate(s, "shardingconfigs", "c", "1");
    turns(s, 50);
    assert_false(shard_cache_find_config(s->cache, "n/c")->over);
    s->store.held = false;
    store_go_on(&s->store);
    fixture_set_rules(s, "c", "{}");
    fixture_expect_rules(s, "c", "value-c");
    fixture_expect_condition(s, "c", "Compiled", "True");
}

/* Once all is gone, nothing counts any more. */
static void test_what_is_gone_counts_no_more(void **state)
{
    struct fixture *s = *state;
    fixture_lead(s);
    put_large(s, "c", "c", 7500);
    fixture_expect_generation(s, "c", 1);
    store_delete(&s->store, "shardingconfigs", "n", "c");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-c");
    fixture_settle(s);
    fixture_await_quiet(s, 11000); /* so long a write is believed */
    struct buf text = BUF_INIT(1 << 20);
    shard_cache_metrics(s->cache, &text);
    assert_non_null(strstr(buf_cstr(&text), "\ncmesh_manager_shards_memory_bytes 0\n"));
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rules_stay_in_force, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_another_shard_pushes_it_out, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_its_configmap_is_touched, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_it_shows_what_another_wants, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_edit_above_half_of_the_bound, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_during_a_write, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_gone_counts_no_more, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
