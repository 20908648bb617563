/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of roots takes over from shards without pods, against a small API server.
 */
#include "root/roots.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "root/buckets.h"
#include "roots_fixture.h"
#include "json/field.h"

/* ---- takeover ---- */

#define TAKEOVER                                                                                   \
    "\"auto\":{\"shardingSize\":3,\"everyShardReplicas\":1,\"takeover\":{\"afterSeconds\":30}}"

/* Three shards with a pod each, for longer than a takeover takes: nobody moves anything now. */
static void begin_three(struct world *w)
{
    world_stateful_set(w, 3);
    world_root(w, TAKEOVER);
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 1, "x-2-normal", true);
    world_pod(w, 2, "x-3-normal", true);
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_pass(w, 31000);
}

static void test_takeover(void **state)
{
    struct world *w = *state;
    begin_three(w);
    char *before = strdup(world_buckets(w, 2));
    world_delete_pod(w, 1);
    world_pass(w, 25000);
    assert_string_equal(world_buckets(w, 2), before);
    world_pass(w, 6000);
    assert_string_equal(world_buckets(w, 2), "");
    world_expect_event(w, "TakenOver", "x-2-normal");
    assert_int_equal(w->counts.takeovers, 1);
    world_expect_condition(w, "Ready", "False", "WaitingForPods");
    world_expect_text(w, "x-2-normal",
                      "metadata/annotations/ctrlmesh.kusionstack.io~auto-"
                      "sharding-taken-over",
                      "true");
    world_pod(w, 1, "x-2-normal", true);
    world_pass(w, 25000);
    assert_string_equal(world_buckets(w, 2), "");
    world_pass(w, 6000);
    assert_string_not_equal(world_buckets(w, 2), "");
    world_expect_event(w, "GivenBack", "x-2-normal");
    world_expect_condition(w, "Ready", "True", "Enforced");
    assert_int_equal(world_events(w, "Resized"), 0);
    world_expect_text(w, "x-2-normal",
                      "metadata/annotations/ctrlmesh.kusionstack.io~auto-"
                      "sharding-taken-over",
                      "");
    world_expect_attended(w);
    free(before);
}

/* One that is being deleted works for nobody before long. */
static void test_takeover_of_what_ends(void **state)
{
    struct world *w = *state;
    begin_three(w);
    world_end_pod(w, 1, "x-2-normal");
    world_pass(w, 31000);
    assert_string_equal(world_buckets(w, 2), "");
    world_expect_event(w, "TakenOver", "x-2-normal");
}

/* The next leader counts anew, and goes on where shards were taken over. */
static void test_takeover_and_another_leader(void **state)
{
    struct world *w = *state;
    world_root(w, TAKEOVER);
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 2, "x-3-normal", true);
    world_lead(w);
    world_expect_buckets(w, 2, "11-21");
    world_pass(w, 25000);
    world_retire(w);
    world_lead(w);
    world_pass(w, 25000);
    assert_string_equal(world_buckets(w, 2), "11-21");
    world_pass(w, 6000);
    assert_string_equal(world_buckets(w, 2), "");
    world_retire(w);
    world_lead(w);
    world_settle(w);
    assert_string_equal(world_buckets(w, 2), "");
    assert_int_equal(w->counts.takeovers, 1);
}

/* ---- takeover of the canary ---- */

#define CANARY_TAKEOVER(lists)                                                                     \
    "\"canary\":{\"replicas\":1," lists "},\"auto\":{\"shardingSize\":2,"                          \
    "\"everyShardReplicas\":1,\"takeover\":{\"afterSeconds\":5}}"
#define BY_NAMES CANARY_TAKEOVER("\"inNamespaces\":[\"a\"]")
#define BY_HASHES CANARY_TAKEOVER("\"inShardHash\":[\"1\",\"20\"]")
#define BY_BOTH CANARY_TAKEOVER("\"inNamespaces\":[\"z\"],\"inShardHash\":[\"1\"]")

/* What namespace "a" is to a limit: its hash is 1. */
static bool selects_a(const cJSON *child)
{
    const cJSON *limit = cJSON_GetArrayItem(field_get(field_get(child, "spec"), "limits"), 0);
    const cJSON *terms = field_get(field_get(limit, "selector"), "matchExpressions");
    const cJSON *term = NULL;
    bool selects = cJSON_GetArraySize(terms) > 0;
    cJSON_ArrayForEach(term, terms)
    {
        bool by_hash = strstr(field_text(term, "key"), "sharding-hash") != NULL;
        bool has = false;
        const cJSON *value = NULL;
        cJSON_ArrayForEach(value, field_get(term, "values"))
        {
            has = has || strcmp(value->valuestring, by_hash ? "1" : "a") == 0;
        }
        selects = selects && has == (strcmp(field_text(term, "operator"), "In") == 0);
    }
    return selects;
}

/* How many children select it at that version; *canary: it is one of them. */
static unsigned count_owners(const struct world *w, unsigned version, bool *canary)
{
    unsigned owners = 0;
    *canary = false;
    LIST_FOR_EACH(n, &w->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        const struct stored_version *v = stored_at(o, version);
        bool child = v != NULL && v->json != NULL && strncmp(o->name, "x-", 2) == 0;
        if (child && strcmp(o->resource, "shardingconfigs") == 0 && selects_a(v->json)) {
            owners++;
            *canary = *canary || strcmp(o->name, "x-0-canary") == 0;
        }
    }
    return owners;
}

/* At no version it is nobody's. */
static void expect_no_gap(const struct world *w, unsigned since)
{
    bool canary = false;
    for (unsigned version = since; version <= w->store.version; version++) {
        if (count_owners(w, version, &canary) == 0) {
            fail_msg("at version %u it is nobody's", version);
        }
    }
}

/* Nor was it, and now it is one's. */
static void expect_one_owner(const struct world *w, unsigned since, bool of_canary)
{
    bool canary = false;
    expect_no_gap(w, since);
    assert_int_equal(count_owners(w, w->store.version, &canary), 1);
    assert_int_equal(canary, of_canary);
}

static unsigned begin_with_canary(struct world *w, const char *root)
{
    world_stateful_set(w, 3);
    world_namespace(w, "a");
    world_root(w, root);
    world_pod(w, 0, "x-0-canary", true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_owner(w, w->store.version, true);
    return w->store.version;
}

#define CANARY_TAKEN "metadata/annotations/ctrlmesh.kusionstack.io~auto-sharding-taken-over"

static void take_over_and_give_back(struct world *w, const char *root)
{
    unsigned since = begin_with_canary(w, root);
    world_delete_pod(w, 0);
    world_pass(w, 4000);
    expect_one_owner(w, since, true);
    world_expect_event(w, "TakenOver", "x-0-canary has been ready for 5 s: its namespaces go");
    world_expect_condition(w, "Ready", "False", "WaitingForPods");
    world_settle(w);
    expect_one_owner(w, since, false);
    world_expect_text(w, "x-0-canary", CANARY_TAKEN, "true");
    const cJSON *status = store_get(&w->store, "shardingconfigs", "n", "r");
    assert_string_equal(store_text(status, "status/root/shards/0/name"), "x-0-canary");
    assert_non_null(strstr(world_condition(w, "Ready", "message"), "the others have"));
    unsigned writes = w->store.writes;
    world_retire(w);
    world_lead(w);
    world_settle(w);
    assert_int_equal(w->store.writes, writes); /* the children say all */
    world_pod(w, 0, "x-0-canary", true);
    world_pass(w, 4000);
    expect_one_owner(w, since, false);
    world_expect_event(w, "GivenBack", "x-0-canary has been ready for 5 s: it gets its namespaces");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_owner(w, since, true);
    world_expect_text(w, "x-0-canary", CANARY_TAKEN, "");
    assert_int_equal(w->counts.takeovers, 1);
    assert_int_equal(world_events(w, "Resized"), 0);
    assert_int_equal(world_events(w, "ChildPutBack"), 0);
}

static void test_takeover_of_a_canary_by_names(void **state)
{
    take_over_and_give_back(*state, BY_NAMES);
}

static void test_takeover_of_a_canary_by_hashes(void **state)
{
    take_over_and_give_back(*state, BY_HASHES);
}

static void test_takeover_of_a_canary_by_both(void **state)
{
    take_over_and_give_back(*state, BY_BOTH);
}

/* The lease is lost with the last of so many writes. */
static void lose_lease(struct storing_api *s)
{
    struct world *w = LIST_ITEM(s, struct world, store);
    if (w->lasts > 0 && --w->lasts == 0) {
        w->holds = false;
    }
}

/* Stopped after `writes` of the change, and led again: it ends as it would have. */
static void change_with_two_leaders(struct world *w, unsigned writes, bool dies)
{
    unsigned since = w->store.version;
    if (dies) {
        world_delete_pod(w, 0);
    } else {
        world_pod(w, 0, "x-0-canary", true);
    }
    world_pass(w, 4000);
    w->lasts = writes;
    world_pass(w, 3000);
    expect_no_gap(w, since);
    world_retire(w);
    w->lasts = 0;
    world_lead(w);
    world_expect_text(w, "x-0-canary", CANARY_TAKEN, dies ? "true" : "");
    world_settle(w);
    expect_one_owner(w, since, !dies);
}

static void stop_in_the_middle(struct world *w, const char *root)
{
    (void)begin_with_canary(w, root);
    w->store.before_write = lose_lease;
    for (unsigned writes = 1; writes <= 5; writes++) {
        change_with_two_leaders(w, writes, true);
        change_with_two_leaders(w, writes, false);
    }
}

static void test_takeover_by_names_is_broken_off(void **state)
{
    stop_in_the_middle(*state, BY_NAMES);
}

static void test_takeover_by_hashes_is_broken_off(void **state)
{
    stop_in_the_middle(*state, BY_HASHES);
}

/* Whatever fails is tried again, and nobody loses before another one has gained. */
static void test_takeover_of_a_canary_with_failures(void **state)
{
    struct world *w = *state;
    static const char *const paths[] = {"x-0-canary", "x-1-normal", "x-2-normal"};
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {{422, STORE_NONE}, {409, STORE_NONE}, {500, STORE_NONE}, {0, STORE_CUT_DONE}};
    unsigned since = begin_with_canary(w, BY_NAMES);
    for (size_t i = 0; i < ARRAY_LEN(paths) * ARRAY_LEN(faults); i++) {
        const char *path = paths[i % ARRAY_LEN(paths)];
        size_t f = i / ARRAY_LEN(paths);
        store_fail(&w->store, path, faults[f].status, faults[f].fault, 1);
        world_delete_pod(w, 0);
        world_expect_text(w, "x-0-canary", CANARY_TAKEN, "true");
        world_settle(w);
        assert_int_equal(w->store.failing.count, 0);
        expect_one_owner(w, since, false);
        store_fail(&w->store, path, faults[f].status, faults[f].fault, 1);
        world_pod(w, 0, "x-0-canary", true);
        world_expect_text(w, "x-0-canary", CANARY_TAKEN, "");
        world_expect_condition(w, "Ready", "True", "Enforced");
        world_settle(w);
        assert_int_equal(w->store.failing.count, 0);
        expect_one_owner(w, since, true);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_takeover),
        TEST(test_takeover_of_what_ends),
        TEST(test_takeover_and_another_leader),
        TEST(test_takeover_of_a_canary_by_names),
        TEST(test_takeover_of_a_canary_by_hashes),
        TEST(test_takeover_of_a_canary_by_both),
        TEST(test_takeover_by_names_is_broken_off),
        TEST(test_takeover_by_hashes_is_broken_off),
        TEST(test_takeover_of_a_canary_with_failures),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
