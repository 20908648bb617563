/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of roots against a small API server.
 */
#include "root/roots.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "root/buckets.h"
#include "root/targets.h"
#include "roots_fixture.h"
#include "json/edit.h"
#include "json/field.h"

/* Two shards of a pod each, which are ready. */
static void begin_two(struct world *w)
{
    world_size(w, 2, 1);
    world_stateful_set(w, 2);
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 1, "x-2-normal", true);
    world_lead(w);
    world_expect_buckets(w, 1, "0-15");
    world_expect_buckets(w, 2, "16-31");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
}

/* ---- the usual way ---- */

static void test_children(void **state)
{
    struct world *w = *state;
    world_root_with(w,
                    "\"canary\":{\"replicas\":1,\"inShardHash\":[\"3\"]},"
                    "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":2}",
                    ",\"controller\":{\"leaderElectionName\":\"lock\"}");
    world_stateful_set(w, 4);
    world_lead(w);
    world_expect_buckets(w, 1, "0-2,4-16");
    world_expect_buckets(w, 2, "17-31");
    const cJSON *root = store_get(&w->store, "shardingconfigs", "n", "r");
    const cJSON *child = world_child(w, 2);
    assert_string_equal(store_text(child, "metadata/ownerReferences/0/uid"),
                        field_meta(root, "uid"));
    assert_string_equal(store_text(child, "metadata/labels/ctrlmesh.kusionstack.io~auto-sharding-"
                                          "root"),
                        "r");
    assert_string_equal(store_text(child, "spec/controller/leaderElectionName"), "lock");
    assert_string_equal(store_text(child, "spec/selector/matchExpressions/0/values/0"), "op-3");
    assert_non_null(world_child(w, 0));
    world_expect_condition(w, "Sized", "False", "TooFewReplicas");
    assert_non_null(strstr(world_condition(w, "Sized", "message"), "5 are needed."));
    world_stateful_set(w, 5);
    world_expect_condition(w, "Sized", "True", "Sized");
    world_expect_condition(w, "Ready", "False", "WaitingForPods");
    world_pod(w, 0, "x-0-canary", true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 3, "x-2-normal", true);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_condition(w, "Conflict", "False", "NoConflict");
    root = store_get(&w->store, "shardingconfigs", "n", "r");
    assert_string_equal(store_text(root, "status/enforced"), "3/3");
    assert_string_equal(store_text(root, "status/podCount"), "3");
    assert_string_equal(store_text(root, "status/root/childShardingConfigs/0"), "x-0-canary");
    assert_string_equal(store_text(root, "status/root/size"), "2");
    assert_string_equal(store_text(root, "status/root/shards/1/buckets"), "0-2,4-16");
    assert_string_equal(store_text(root, "status/root/shards/1/readyPods"), "1");
}

static void test_nothing_is_written_when_nothing_changed(void **state)
{
    struct world *w = *state;
    begin_two(w);
    unsigned writes = w->store.writes;
    unsigned requests = w->store.requests;
    store_end_watches(&w->store);
    world_pass(w, 300);
    world_retire(w);
    world_lead(w);
    world_settle(w);
    assert_int_equal(w->store.writes, writes);
    assert_int_equal(w->store.requests, requests);
}

static void put_foreign(struct world *w, const char *name, const char *owner)
{
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"a\":\"b\"}},\"limits\":[]}}",
                   name, owner);
}

static uint64_t adds(const struct world *w)
{
    return work_queue_stats(roots_queue(w->roots)).adds;
}

/* However many roots there are: what is no child of theirs does not concern them. */
static void test_others_do_not_concern_it(void **state)
{
    struct world *w = *state;
    begin_two(w);
    uint64_t before = adds(w);
    put_foreign(w, "other", "");
    put_foreign(w, "xx-1-normal", "");
    world_settle(w);
    store_delete(&w->store, "shardingconfigs", "n", "other");
    world_settle(w);
    assert_int_equal(adds(w), before);
    put_foreign(w, "x-0-canary", ""); /* this may be one */
    world_settle(w);
    assert_true(adds(w) > before);
}

static void test_spec_goes_to_children(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_root_with(w, "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1}",
                    ",\"controller\":{\"leaderElectionName\":\"other\"}");
    world_expect_text(w, "x-1-normal", "spec/controller/leaderElectionName", "other");
    world_expect_text(w, "x-2-normal", "spec/controller/leaderElectionName", "other");
    world_size(w, 2, 1);
    world_expect_text(w, "x-2-normal", "spec/controller/leaderElectionName", "");
    assert_string_equal(world_buckets(w, 1), "0-15");
    assert_int_equal(world_events(w, "Resized"), 0);
    assert_int_equal(world_events(w, "ChildPutBack"), 0);
}

/* ---- another size ---- */

static void test_sizes(void **state)
{
    struct world *w = *state;
    begin_two(w);
    unsigned since = w->store.version;
    world_size(w, 3, 1);
    world_stateful_set(w, 3);
    world_expect_buckets(w, 3, "");
    world_settle(w);
    assert_string_equal(world_buckets(w, 1), "0-15"); /* it has no pod yet */
    world_expect_condition(w, "Ready", "False", "WaitingForPods");
    world_pod(w, 2, "x-3-normal", true);
    world_expect_event(w, "Resized", "From 2 to 3 shards; 10 buckets moved.");
    assert_int_equal(world_gained(w, since), 10);
    assert_int_equal(w->counts.moved, 10);
    world_expect_condition(w, "Ready", "True", "Enforced");

    world_size(w, 10, 1);
    world_stateful_set(w, 10);
    for (unsigned i = 4; i <= 10; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "x-%u-normal", i);
        world_expect_buckets(w, i, "");
        world_pod(w, i - 1, name, true);
    }
    world_expect_event(w, "Resized", "From 3 to 10 shards");
    world_expect_condition(w, "Ready", "True", "Enforced");

    since = w->store.version;
    world_size(w, 2, 1);
    world_expect_event(w, "Resized", "From 10 to 2 shards");
    assert_non_null(world_child(w, 10)); /* as long as it has a pod */
    assert_string_equal(world_buckets(w, 10), "");
    assert_true(world_gained(w, since) <= 26);
    for (unsigned i = 2; i < 10; i++) {
        world_delete_pod(w, i);
    }
    world_expect_gone(w, "x-10-normal");
    world_expect_gone(w, "x-3-normal");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_attended(w);
}

/* Buckets move again when the last ones have arrived, or after a while. */
static void test_one_step_at_a_time(void **state)
{
    struct world *w = *state;
    begin_two(w);
    w->waiting = 3;
    world_size(w, 3, 1);
    world_pod(w, 2, "x-3-normal", true);
    world_expect_event(w, "Resized", "From 2 to 3 shards");
    world_expect_condition(w, "Ready", "False", "Resizing");
    char *before = strdup(world_buckets(w, 3));
    world_size(w, 4, 1);
    world_pod(w, 3, "x-4-normal", true);
    world_pass(w, 20000);
    assert_string_equal(world_buckets(w, 4), "");
    assert_string_equal(world_buckets(w, 3), before);
    world_expect_condition(w, "Ready", "False", "Resizing");
    world_pass(w, 11000);
    assert_string_not_equal(world_buckets(w, 4), "");
    free(before);

    world_size(w, 5, 1);
    world_pod(w, 4, "x-5-normal", true);
    world_pass(w, 5000);
    assert_string_equal(world_buckets(w, 5), "");
    w->waiting = 0;
    world_expect_event(w, "Resized", "From 4 to 5 shards");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_attended(w);
}

#define CANARY(size, hash)                                                                         \
    "\"canary\":{\"replicas\":1,\"inNamespaces\":[\"a\"]" hash "},"                                \
    "\"auto\":{\"shardingSize\":" size ",\"everyShardReplicas\":1}"

/* What the canary is to have is let go at once: it waits for that. And what it had is given. */
static void test_canary_does_not_wait_for_other_moves(void **state)
{
    struct world *w = *state;
    world_namespace(w, "a");
    world_root(w, CANARY("2", ""));
    world_pod(w, 0, "x-0-canary", true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    w->waiting = 3;
    world_root(w, CANARY("3", ""));
    world_pod(w, 3, "x-3-normal", true);
    world_expect_event(w, "Resized", "From 2 to 3 shards");
    world_root(w, CANARY("3", ",\"inShardHash\":[\"20\"]"));
    world_pass(w, 2000);
    for (unsigned i = 1; i <= 3; i++) {
        uint32_t buckets = 0;
        assert_int_equal(buckets_parse(world_buckets(w, i), &buckets), 0);
        assert_false(buckets >> 20 & 1);
    }
    world_root(w, CANARY("3", ""));
    world_pass(w, 2000);
    uint32_t all = 0;
    for (unsigned i = 1; i <= 3; i++) {
        uint32_t buckets = 0;
        assert_int_equal(buckets_parse(world_buckets(w, i), &buckets), 0);
        all |= buckets;
    }
    assert_int_equal(all, UINT32_MAX);
}

/* Shards whose pods are others for a moment are refused, and come again. */
static void test_other_pods(void **state)
{
    struct world *w = *state;
    static const struct {
        unsigned size;
        unsigned every;
    } steps[] = {{4, 3}, {4, 1}, {2, 5}, {6, 2}, {3, 1}, {3, 4}};
    w->refuses = true;
    begin_two(w);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        char first[16];
        world_size(w, steps[i].size, steps[i].every);
        for (unsigned n = 0; n < steps[i].size; n++) {
            char name[32];
            (void)snprintf(name, sizeof name, "x-%u-normal", n + 1);
            (void)snprintf(first, sizeof first, "op-%u", n * steps[i].every);
            world_expect_text(w, name, "spec/selector/matchExpressions/0/values/0", first);
            world_pod(w, n * steps[i].every, name, true);
        }
        world_settle(w);
    }
    assert_true(w->refusals > 0);
    world_expect_attended(w);
}

static void test_pods_of_another_shard(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_pod(w, 2, "x-2-normal", true);
    world_size(w, 2, 2);
    world_stateful_set(w, 4);
    world_expect_text(w, "x-1-normal", "spec/selector/matchExpressions/0/values/1", "op-1");
    world_settle(w);
    assert_non_null(strstr(world_condition(w, "Sized", "message"),
                           "Recreate pods that have the sidecars of another shard: op-1."));
}

/* ---- what others do ---- */

static void edit_child(struct world *w, const char *text)
{
    cJSON *child = cJSON_Duplicate(world_child(w, 1), true);
    cJSON *patch = cJSON_Parse(text);
    cJSON *spec = cJSON_GetObjectItem(child, "spec");
    cJSON *item = patch->child;
    cJSON_DeleteItemFromObject(spec, item->string);
    assert_true(cJSON_AddItemToObject(spec, item->string, cJSON_Duplicate(item, true)));
    cJSON *fields =
        cJSON_Parse("[{\"manager\":\"kubectl-edit\",\"time\":\"2026-01-01T00:00:00Z\"}]");
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(child, "metadata"), "managedFields");
    cJSON_AddItemToObject(cJSON_GetObjectItem(child, "metadata"), "managedFields", fields);
    store_put(&w->store, "shardingconfigs", "n", child);
    cJSON_Delete(patch);
}

static void test_edited_child_is_put_back(void **state)
{
    struct world *w = *state;
    begin_two(w);
    char *spec = cJSON_PrintUnformatted(cJSON_GetObjectItem(world_child(w, 1), "spec"));
    edit_child(w, "{\"limits\":[]}");
    world_expect_event(w, "ChildPutBack", "x-1-normal was changed by kubectl-edit");
    world_settle(w);
    char *again = cJSON_PrintUnformatted(cJSON_GetObjectItem(world_child(w, 1), "spec"));
    assert_string_not_equal(again, "");
    assert_non_null(strstr(again, "sharding-hash"));
    cJSON_free(again);
    /* A field that nobody else asks for goes, too. */
    edit_child(w, "{\"webhook\":{\"port\":7}}");
    world_expect_text(w, "x-1-normal", "spec/webhook/port", "7");
    world_expect_text(w, "x-1-normal", "spec/webhook/port", "");
    world_settle(w);
    assert_int_equal(world_events(w, "ChildPutBack"), 2);
    assert_string_equal(world_buckets(w, 1), "0-15");
    cJSON_free(spec);
}

/* Before that one of the requests that it takes. */
static void touch_child_before(struct world *w, unsigned request)
{
    if (w->refusals++ == request) {
        cJSON *child = cJSON_Duplicate(world_child(w, 1), true);
        struct edit ed = {.rc = 0};
        edit_string(&ed, edit_object(&ed, child, "status"), "touched", "yes");
        store_put(&w->store, "shardingconfigs", "n", child);
    }
}

static void touch_at_once(struct storing_api *s)
{
    touch_child_before(LIST_ITEM(s, struct world, store), 0);
}

static void touch_between(struct storing_api *s)
{
    touch_child_before(LIST_ITEM(s, struct world, store), 1);
}

static void is_put_back(struct world *w, void (*touch)(struct storing_api *s))
{
    begin_two(w);
    w->store.before_write = touch;
    edit_child(w, "{\"webhook\":{\"port\":7}}");
    world_expect_text(w, "x-1-normal", "spec/webhook/port", "7");
    world_expect_text(w, "x-1-normal", "spec/webhook/port", "");
    world_settle(w);
    assert_true(w->store.conflicts > 0);
    assert_int_equal(world_events(w, "ChildPutBack"), 1);
    world_expect_condition(w, "Ready", "True", "Enforced");
}

/* As the status of a shard does that was edited. */
static void test_edited_child_changes_before_it_is_put_back(void **state)
{
    is_put_back(*state, touch_at_once);
}

static void test_edited_child_changes_while_it_is_put_back(void **state)
{
    is_put_back(*state, touch_between);
}

static void test_edited_buckets_are_put_back(void **state)
{
    struct world *w = *state;
    begin_two(w);
    cJSON *child = cJSON_Duplicate(world_child(w, 1), true);
    cJSON *annotations = cJSON_GetObjectItem(cJSON_GetObjectItem(child, "metadata"), "annotations");
    struct edit ed = {.rc = 0};
    edit_string(&ed, annotations, WORLD_PREFIX "/auto-sharding-buckets", "0-31");
    store_put(&w->store, "shardingconfigs", "n", child);
    world_expect_buckets(w, 1, "0-31");
    world_expect_buckets(w, 1, "0-15");
    world_settle(w);
    assert_string_equal(world_buckets(w, 2), "16-31");
    world_expect_event(w, "ChildPutBack", "x-1-normal");
}

static void test_deleted_child_is_made_again(void **state)
{
    struct world *w = *state;
    begin_two(w);
    store_delete(&w->store, "shardingconfigs", "n", "x-2-normal");
    world_expect_buckets(w, 2, "16-31");
    world_expect_event(w, "ChildPutBack", "x-2-normal was deleted");
    world_settle(w);
    assert_string_equal(world_buckets(w, 1), "0-15");
}

static void test_conflict(void **state)
{
    struct world *w = *state;
    put_foreign(w, "x-3-normal", "");
    begin_two(w);
    world_size(w, 3, 1);
    world_pod(w, 2, "x-3-normal", true);
    world_expect_condition(w, "Conflict", "True", "NameTaken");
    world_expect_condition(w, "Ready", "False", "Conflict");
    world_expect_condition(w, "Stalled", "True", "Conflict");
    world_expect_event(w, "ChildConflict", "x-3-normal");
    world_settle(w);
    assert_string_equal(world_buckets(w, 1), "0-15");
    assert_string_equal(world_buckets(w, 3), "");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(
                         cJSON_GetObjectItem(world_child(w, 3), "spec"), "limits")),
                     0);
    store_delete(&w->store, "shardingconfigs", "n", "x-3-normal");
    world_expect_condition(w, "Conflict", "False", "NoConflict");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_attended(w);
}

/* With the longest names there are: more than a message has room for. */
static void test_many_conflicts(void **state)
{
    struct world *w = *state;
    char prefix[228] = "";
    char name[256];
    memset(prefix, 'p', sizeof prefix - 1);
    for (int i = 1; i <= 32; i++) {
        (void)snprintf(name, sizeof name, "%s-%d-normal", prefix, i);
        put_foreign(w, name, "");
    }
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r\"},\"spec\":{\"root\":{\"prefix\":\"%s\","
                   "\"targetStatefulSet\":\"op\",\"resourceSelector\":[{\"relateResources\":["
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}]}],\"auto\":{"
                   "\"shardingSize\":32,\"everyShardReplicas\":1}}}}",
                   prefix);
    world_lead(w);
    world_expect_condition(w, "Conflict", "True", "NameTaken");
    assert_non_null(strstr(world_condition(w, "Conflict", "message"), "-5-normal and 27 more."));
    world_expect_event(w, "ChildConflict", "-1-normal, ");
    world_settle(w);
}

static void test_children_of_an_earlier_root(void **state)
{
    struct world *w = *state;
    put_foreign(w, "x-1-normal",
                ",\"ownerReferences\":[{\"kind\":\"ShardingConfig\",\"name\":\"r\",\"uid\":"
                "\"earlier\",\"controller\":true}]");
    world_size(w, 2, 1);
    world_lead(w);
    world_expect_condition(w, "Conflict", "True", "WaitingForGarbageCollector");
    assert_string_equal(world_condition(w, "Stalled", "status"), "");
    assert_int_equal(world_events(w, "ChildConflict"), 0);
    store_delete(&w->store, "shardingconfigs", "n", "x-1-normal");
    world_expect_condition(w, "Conflict", "False", "NoConflict");
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 1, "x-2-normal", true);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_attended(w);
}

/* A foreign object comes between the look and the write. */
static void take_name(struct storing_api *s)
{
    s->before_write = NULL;
    put_foreign(LIST_ITEM(s, struct world, store), "x-1-normal", "");
}

static void test_name_is_taken_at_the_last_moment(void **state)
{
    struct world *w = *state;
    world_size(w, 1, 1);
    w->store.before_write = take_name;
    world_lead(w);
    world_expect_condition(w, "Conflict", "True", "NameTaken");
    world_settle(w);
    assert_string_equal(world_buckets(w, 1), "");
}

static void test_made_again_root(void **state)
{
    struct world *w = *state;
    begin_two(w);
    store_delete(&w->store, "shardingconfigs", "n", "r");
    world_settle(w);
    assert_non_null(world_child(w, 1)); /* the garbage collector's */
    world_size(w, 2, 1);
    world_expect_condition(w, "Conflict", "True", "WaitingForGarbageCollector");
    store_delete(&w->store, "shardingconfigs", "n", "x-1-normal");
    store_delete(&w->store, "shardingconfigs", "n", "x-2-normal");
    world_expect_condition(w, "Ready", "True", "Enforced");
}

/* ---- what the root says ---- */

static void test_disabled(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_root(w, "\"disable\":true,\"auto\":{\"shardingSize\":3,\"everyShardReplicas\":2}");
    world_expect_condition(w, "Ready", "True", "Disabled");
    store_delete(&w->store, "shardingconfigs", "n", "x-2-normal");
    world_expect_text(w, "r", "status/root/shards/1/name", "");
    world_settle(w);
    assert_null(world_child(w, 2));
    assert_null(world_child(w, 3));
    assert_string_equal(store_text(world_child(w, 1), "spec/selector/matchExpressions/0/values/1"),
                        "");
    world_size(w, 2, 1);
    world_expect_condition(w, "Ready", "True", "Enforced");
}

static void test_being_deleted(void **state)
{
    struct world *w = *state;
    begin_two(w);
    cJSON *root = cJSON_Duplicate(store_get(&w->store, "shardingconfigs", "n", "r"), true);
    struct edit ed = {.rc = 0};
    edit_string(&ed, cJSON_GetObjectItem(root, "metadata"), "deletionTimestamp",
                "2026-01-01T00:00:00Z");
    store_put(&w->store, "shardingconfigs", "n", root);
    world_settle(w);
    unsigned writes = w->store.writes;
    store_delete(&w->store, "shardingconfigs", "n", "x-2-normal");
    world_settle(w);
    assert_int_equal(w->store.writes, writes);
}

static void test_invalid(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_root(w, "\"auto\":{\"shardingSize\":33,\"everyShardReplicas\":1}");
    world_expect_condition(w, "Compiled", "False", "Invalid");
    world_expect_condition(w, "Stalled", "True", "Invalid");
    assert_string_equal(world_buckets(w, 1), "0-15");
    const cJSON *root = store_get(&w->store, "shardingconfigs", "n", "r");
    assert_string_equal(store_text(root, "status/root/size"), "2");
    world_size(w, 2, 1);
    world_expect_condition(w, "Ready", "True", "Enforced");
    assert_string_equal(world_condition(w, "Stalled", "status"), "");
}

/* Children that do not have a name of its are made by others: deleted, and made anew. */
static void test_another_prefix(void **state)
{
    struct world *w = *state;
    begin_two(w);
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r\"},\"spec\":{\"root\":{\"prefix\":\"y\","
                   "\"targetStatefulSet\":\"op\",\"resourceSelector\":[{\"relateResources\":["
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}]}],\"auto\":{"
                   "\"shardingSize\":2,\"everyShardReplicas\":1}}}}");
    world_expect_gone(w, "x-1-normal");
    world_expect_gone(w, "x-2-normal");
    world_expect_text(w, "y-2-normal", "spec/selector/matchExpressions/0/values/0", "op-1");
    world_settle(w);
    assert_null(world_child(w, 1));
    assert_int_equal(world_events(w, "ChildPutBack"), 0); /* nobody else deleted them */
}

/* Nobody is told to delete another root's shards. */
static void test_two_of_one_prefix(void **state)
{
    struct world *w = *state;
    begin_two(w);
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r2\"},\"spec\":{\"root\":{\"prefix\":\"x\","
                   "\"targetStatefulSet\":\"op2\",\"resourceSelector\":[{\"relateResources\":["
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}]}],\"auto\":{"
                   "\"shardingSize\":1,\"everyShardReplicas\":1}}}}");
    world_expect_text(
        w, "r2", "status/conditions/2/message",
        "Other ShardingConfigs have the names of shards, and stay as they are: "
        "x-1-normal (of root r). Give root another prefix, or delete them if they are "
        "not of another root.");
    world_expect_condition(w, "Conflict", "False", "NoConflict");
}

static void test_no_canary_any_more(void **state)
{
    struct world *w = *state;
    world_root(w, "\"canary\":{\"replicas\":1,\"inNamespaces\":[\"a\"]},"
                  "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1}");
    world_pod(w, 0, "x-0-canary", true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    w->refuses = true;
    world_size(w, 2, 1);
    world_expect_text(w, "x-1-normal", "spec/selector/matchExpressions/0/values/0", "op-0");
    world_settle(w);
    assert_non_null(world_child(w, 0)); /* op-0 has its sidecars */
    world_pod(w, 0, "x-1-normal", true);
    world_expect_gone(w, "x-0-canary");
}

/* ---- as many as there are pods for ---- */

#define AS_MANY "\"auto\":{\"shardingSize\":\"auto\",\"everyShardReplicas\":2}"

static void test_elastic(void **state)
{
    struct world *w = *state;
    world_root(w, AS_MANY);
    world_stateful_set(w, 4);
    world_lead(w);
    world_expect_buckets(w, 2, "16-31");
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_stateful_set(w, 6);
    world_expect_buckets(w, 3, "");
    world_pod(w, 4, "x-3-normal", false);
    world_settle(w);
    assert_string_equal(world_buckets(w, 3), "");
    world_pod(w, 4, "x-3-normal", true);
    world_expect_event(w, "Resized", "From 2 to 3 shards; 10 buckets moved.");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_stateful_set(w, 5); /* the third has one that stands alone */
    world_settle(w);
    assert_string_not_equal(world_buckets(w, 3), "");
    world_expect_condition(w, "Sized", "True", "Sized");
    world_stateful_set(w, 4);
    world_expect_event(w, "Resized", "From 3 to 2 shards");
    assert_non_null(world_child(w, 3));
    world_delete_pod(w, 4);
    world_expect_gone(w, "x-3-normal");
    world_expect_condition(w, "Sized", "True", "Sized");
    store_delete(&w->store, "statefulsets", "n", "op");
    world_expect_condition(w, "Sized", "False", "NotFound");
    world_settle(w);
    assert_string_not_equal(world_buckets(w, 2), "");
    world_expect_attended(w);
}

#define FIRST_POD "spec/selector/matchExpressions/0/values/0"

/* Where the StatefulSet begins they begin, also while it cannot be read by who leads next. */
static void test_another_first_ordinal(void **state)
{
    struct world *w = *state;
    world_stateful_set_from(w, 5, 4);
    world_root(w, AS_MANY);
    world_lead(w);
    world_expect_condition(w, "Sized", "True", "Sized");
    world_expect_text(w, "x-1-normal", FIRST_POD, "op-5");
    world_expect_text(w, "x-2-normal", FIRST_POD, "op-7");
    world_retire(w);
    w->store.refused.part = "statefulsets";
    w->store.refused.status = 403;
    store_end_watches(&w->store);
    world_lead(w);
    world_expect_condition(w, "Sized", "Unknown", "Unreadable");
    world_expect_text(w, "x-1-normal", FIRST_POD, "op-5");
    w->store.refused.part = NULL;
    world_stateful_set_from(w, 0, 4);
    world_expect_condition(w, "Sized", "True", "Sized");
    world_expect_text(w, "x-1-normal", FIRST_POD, "op-0");
    world_expect_text(w, "x-2-normal", FIRST_POD, "op-2");
}

static void test_without_the_right_to_statefulsets(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_retire(w);
    w->store.refused.part = "statefulsets";
    w->store.refused.status = 403;
    store_end_watches(&w->store);
    world_root(w, AS_MANY);
    world_lead(w);
    world_expect_condition(w, "Sized", "Unknown", "Unreadable");
    world_settle(w);
    assert_string_equal(world_buckets(w, 2), "16-31");
    assert_null(world_child(w, 3));
}

static bool is_followed(const struct world *w)
{
    LIST_FOR_EACH(n, &w->store.api.requests)
    {
        const struct api_request *q = LIST_ITEM(n, struct api_request, link);
        if (q->begun && strstr(q->target, "statefulsets") != NULL) {
            return true;
        }
    }
    return false;
}

/* In no status is the reason cut off. */
static void expect_reasons(const struct world *w)
{
    unsigned told = 0;
    LIST_FOR_EACH(n, &w->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        for (size_t i = 0; i < o->count && strcmp(o->name, "r") == 0; i++) {
            const char *text = o->history[i].text;
            const char *reason = text == NULL ? NULL : strstr(text, "op cannot be read: ");
            told += reason != NULL;
            assert_true(reason == NULL ||
                        strstr(reason, "cannot be read: cannot list") == reason + 3);
        }
    }
    assert_in_range(told, 1, 1000);
}

static void test_a_statefulset_that_can_be_read_in_the_midst_of_a_pass(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_retire(w);
    w->store.refused.part = "statefulsets";
    w->store.refused.status = 403;
    store_end_watches(&w->store);
    w->hurried = true;
    world_root(w, AS_MANY);
    world_lead(w);
    world_expect_condition(w, "Sized", "Unknown", "Unreadable");
    world_settle(w);
    w->store.held = true;
    world_root_with(w, AS_MANY, ",\"controller\":{\"leaderElectionName\":\"late\"}");
    for (unsigned i = 0; i < 1000 && !store_holds(&w->store); i++) {
        world_turn(w);
    }
    assert_true(store_holds(&w->store));
    w->store.refused.part = NULL;
    for (unsigned i = 0; i < 1000 && !is_followed(w); i++) {
        world_turn(w);
    }
    assert_true(is_followed(w));
    world_settle(w);
    w->store.held = false;
    store_go_on(&w->store);
    world_expect_condition(w, "Sized", "True", "Sized");
    expect_reasons(w);
}

static void put_other_root(struct world *w, const char *ns, const char *name, const char *size)
{
    store_put_text(&w->store, "shardingconfigs", ns,
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"root\":{\"prefix\":\"z-%s\","
                   "\"targetStatefulSet\":\"other-%s\",\"resourceSelector\":[{"
                   "\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}]}],"
                   "\"auto\":{\"shardingSize\":%s,\"everyShardReplicas\":1}}}}",
                   name, name, name, size);
}

/* A namespace has its part of the places, and others have theirs. */
static void test_too_many_statefulsets(void **state)
{
    struct world *w = *state;
    w->targets = TARGETS_PART;
    begin_two(w);
    put_other_root(w, "n", "r2", "1");
    world_expect_text(w, "r2", "status/conditions/1/reason", "TooMany");
    put_other_root(w, "m", "r3", "1");
    world_expect_text_in(w, "m", "r3", "status/conditions/1/reason", "NotFound");
    store_delete(&w->store, "shardingconfigs", "n", "r");
    world_settle(w);
    cJSON *again = cJSON_Duplicate(store_get(&w->store, "shardingconfigs", "n", "r2"), true);
    store_put(&w->store, "shardingconfigs", "n", again);
    world_expect_text(w, "r2", "status/conditions/1/reason", "NotFound");
}

/* A root that needs to know its StatefulSet takes the place of one that does not. */
static void test_places_for_those_that_need_them(void **state)
{
    struct world *w = *state;
    w->targets = TARGETS_PART;
    begin_two(w);
    put_other_root(w, "n", "r2", "\"auto\"");
    world_expect_text(w, "r2", "status/conditions/1/reason", "NotFound");
    world_size(w, 2, 1); /* or later: it looks again after some minutes */
    world_pass(w, 600000);
    world_expect_condition(w, "Sized", "Unknown", "TooMany");
    world_expect_condition(w, "Ready", "True", "Enforced");
    assert_int_equal(world_events(w, "TooManyStatefulSets"), 0);
    put_other_root(w, "n", "r4", "\"auto\"");
    world_expect_text(w, "r4", "status/conditions/3/reason", "TooManyStatefulSets");
    world_expect_event(w, "TooManyStatefulSets", "--root-statefulsets");
    store_delete(&w->store, "shardingconfigs", "n", "r2");
    world_pass(w, 600000);
    world_expect_text(w, "r4", "status/conditions/1/reason", "NotFound");
}

/* ---- a canary with both lists ---- */

#define BOTH                                                                                       \
    "\"canary\":{\"replicas\":1,\"inNamespaces\":[\"listed\"],\"inShardHash\":[\"0\",\"1\",\"2\"," \
    "\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\",\"15\"]},"       \
    "\"auto\":{\"shardingSize\":1,\"everyShardReplicas\":1}"

static size_t canary_names(struct world *w)
{
    const cJSON *limits = field_get(field_get(world_child(w, 0), "spec"), "limits");
    const cJSON *item = NULL;
    size_t count = 0;
    cJSON_ArrayForEach(
        item, field_get(field_get(cJSON_GetArrayItem(limits, 0), "selector"), "matchExpressions"))
    {
        count += (size_t)cJSON_GetArraySize(field_get(item, "values"));
    }
    return count;
}

static void test_namespaces_of_the_canary(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 40; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "ns-%u", i);
        world_namespace(w, name);
    }
    world_root(w, BOTH);
    world_lead(w);
    world_expect_buckets(w, 1, "16-31");
    world_settle(w);
    size_t before = canary_names(w);
    assert_in_range(before, 2, 40);
    for (unsigned i = 40; i < 800; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "ns-%u", i);
        world_namespace(w, name);
    }
    world_pass(w, 1000);
    assert_true(canary_names(w) > before);
    for (unsigned i = 800; i < 2600; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "ns-%u", i);
        world_namespace(w, name);
    }
    world_expect_condition(w, "Compiled", "False", "TooManyNamespaces");
    world_size(w, 1, 1);
    world_expect_condition(w, "Compiled", "True", "Valid");
    world_settle(w);
    unsigned lists = w->store.lists;
    store_expire_watches(&w->store, "/namespaces?");
    world_settle(w);
    assert_int_equal(w->store.lists, lists); /* nobody needs them any more */
}

/* ---- what goes wrong ---- */

static void test_every_failure_is_tried_again(void **state)
{
    struct world *w = *state;
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {
        {403, STORE_NONE}, {409, STORE_NONE}, {422, STORE_NONE},   {500, STORE_NONE},
        {404, STORE_NONE}, {0, STORE_CUT},    {0, STORE_CUT_DONE},
    };
    static const char *const paths[] = {"x-1-normal", "x-2-normal", "x-3-normal", "/r/status"};
    begin_two(w);
    for (size_t p = 0; p < ARRAY_LEN(paths); p++) {
        for (size_t f = 0; f < ARRAY_LEN(faults); f++) {
            world_pod(w, 2, "x-3-normal", true);
            store_fail(&w->store, paths[p], faults[f].status, faults[f].fault, 1);
            world_size(w, 3, 1);
            world_expect_event(w, "Resized", "From 2 to 3");
            world_expect_condition(w, "Ready", "True", "Enforced");
            world_settle(w);
            assert_int_equal(w->store.failing.count, 0);
            store_fail(&w->store, paths[p], faults[f].status, faults[f].fault, 1);
            world_size(w, 2, 1);
            world_delete_pod(w, 2);
            world_expect_gone(w, "x-3-normal");
            world_expect_condition(w, "Ready", "True", "Enforced");
            world_settle(w);
            assert_int_equal(w->store.failing.count, 0);
            assert_string_not_equal(world_buckets(w, 1), world_buckets(w, 2));
        }
    }
    world_expect_attended(w);
}

/* Whoever leads next goes on, wherever the last one was stopped. */
static void test_leader_lost_in_the_middle(void **state)
{
    struct world *w = *state;
    begin_two(w);
    for (unsigned turns = 0; turns < 40; turns++) {
        bool larger = turns % 2 == 0;
        if (larger) {
            world_pod(w, 2, "x-3-normal", true);
        } else {
            world_delete_pod(w, 2);
        }
        world_size(w, larger ? 3 : 2, 1);
        for (unsigned i = 0; i < turns / 2; i++) {
            run_for(w->store.api.loop, 1);
            fake_clock_pass(&w->clock, 4);
        }
        world_retire(w);
        unsigned writes = w->store.writes;
        run_for(w->store.api.loop, 10);
        assert_true(w->store.writes <= writes + 1); /* what was on its way */
        world_lead(w);
        world_expect_condition(w, "Ready", "True", "Enforced");
        world_settle(w);
        assert_int_equal(world_child(w, 3) != NULL, larger);
    }
    world_expect_attended(w);
}

static void test_held_answers(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_pod(w, 2, "x-3-normal", true);
    for (unsigned i = 0; i < 4; i++) {
        static const char *const paths[] = {"x-3-normal", "x-1-normal", "x-2-normal", "/r/status"};
        store_fail(&w->store, paths[i], 0, STORE_HOLD, 1);
        world_size(w, i % 2 == 0 ? 3 : 2, 1);
        for (unsigned k = 0; k < 200 && w->store.failing.count > 0; k++) {
            world_turn(w);
        }
        world_retire(w);
        store_fail(&w->store, "", 0, STORE_NONE, 0);
        world_lead(w);
        world_expect_condition(w, "Ready", i % 2 == 0 ? "True" : "False",
                               i % 2 == 0 ? "Enforced" : "Resizing");
    }
    world_expect_attended(w);
}

static void test_edited_while_it_is_written(void **state)
{
    struct world *w = *state;
    begin_two(w);
    world_pod(w, 2, "x-3-normal", true);
    w->store.held = true;
    world_size(w, 3, 1);
    for (unsigned i = 0; i < 1000 && !store_holds(&w->store); i++) {
        world_turn(w);
    }
    assert_true(store_holds(&w->store));
    world_root_with(w, "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1}",
                    ",\"controller\":{\"leaderElectionName\":\"late\"}");
    run_for(w->store.api.loop, 20);
    w->store.held = false;
    store_go_on(&w->store);
    world_expect_text(w, "x-2-normal", "spec/controller/leaderElectionName", "late");
    world_delete_pod(w, 2);
    world_expect_gone(w, "x-3-normal");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_attended(w);
}

static void test_nothing_is_written_without_the_lease(void **state)
{
    struct world *w = *state;
    world_size(w, 2, 1);
    world_lead(w);
    w->holds = false;
    world_pass(w, 2000);
    assert_int_equal(w->store.writes, 0);
    w->holds = true;
    world_pod(w, 0, "x-1-normal", true);
    world_expect_buckets(w, 1, "0-15");
}

static void test_freed_at_any_moment(void **state)
{
    struct world *w = *state;
    world_root(w, BOTH);
    world_stateful_set(w, 2);
    for (unsigned i = 0; i < 30; i++) {
        world_lead(w);
        for (unsigned k = 0; k < i; k++) {
            run_for(w->store.api.loop, 1);
            fake_clock_pass(&w->clock, 3);
        }
        world_retire(w);
        run_for(w->store.api.loop, 1);
    }
    roots_free(NULL);
}

/* Each root is named, and what it has made counts also while its spec makes no sense. */
static void test_metrics_of_each_root(void **state)
{
    struct world *w = *state;
    static const char *const ready = "\ncmesh_manager_root_ready{root_namespace=\"n\",root=\"r\"} ";
    char line[128];
    begin_two(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    (void)snprintf(line, sizeof line, "%s1\n", ready);
    world_expect_metric(w, line);
    world_expect_metric(
        w, "\ncmesh_manager_root_state{root_namespace=\"n\",root=\"r\",state=\"Enforced\"} "
           "1\n");
    world_expect_metric(w, "\ncmesh_manager_root_sized{root_namespace=\"n\",root=\"r\"} 1\n");
    world_stateful_set(w, 3);
    world_expect_event(w, "NotSized", "Pods from op-2 on are in no shard");
    world_settle(w);
    assert_int_equal(world_events(w, "NotSized"), 1);
    world_expect_metric(w, "\ncmesh_manager_root_sized{root_namespace=\"n\",root=\"r\"} 0\n");
    world_size(w, 99, 1);
    world_expect_condition(w, "Ready", "False", "Invalid");
    (void)snprintf(line, sizeof line, "%s0\n", ready);
    world_expect_metric(w, line);
    world_expect_metric(w, ",root=\"r\",state=\"Invalid\"} 1\n");
    world_expect_metric(w, "\ncmesh_manager_root_children 2\n");
    world_retire(w); /* nor does the next leader see none */
    world_lead(w);
    world_settle(w);
    world_expect_metric(w, "\ncmesh_manager_root_children 2\n");
}

static void test_metrics(void **state)
{
    struct world *w = *state;
    struct buf out = BUF_INIT(65536);
    begin_two(w);
    roots_metrics(w->roots, &w->counts, &out);
    assert_non_null(strstr(buf_cstr(&out), "\ncmesh_manager_root_roots 1\n"));
    assert_non_null(strstr(buf_cstr(&out), "\ncmesh_manager_root_children 2\n"));
    assert_non_null(
        strstr(buf_cstr(&out), "\ncmesh_manager_root_applies_total{result=\"written\"} 2\n"));
    buf_clear(&out);
    roots_metrics(NULL, &w->counts, &out);
    assert_null(strstr(buf_cstr(&out), "cmesh_manager_root_children"));
    buf_reset(&out);
    assert_string_equal(work_queue_name(roots_queue(w->roots)), "roots");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_children),
        TEST(test_nothing_is_written_when_nothing_changed),
        TEST(test_others_do_not_concern_it),
        TEST(test_spec_goes_to_children),
        TEST(test_sizes),
        TEST(test_one_step_at_a_time),
        TEST(test_canary_does_not_wait_for_other_moves),
        TEST(test_other_pods),
        TEST(test_pods_of_another_shard),
        TEST(test_edited_child_is_put_back),
        TEST(test_edited_child_changes_before_it_is_put_back),
        TEST(test_edited_child_changes_while_it_is_put_back),
        TEST(test_edited_buckets_are_put_back),
        TEST(test_deleted_child_is_made_again),
        TEST(test_conflict),
        TEST(test_many_conflicts),
        TEST(test_children_of_an_earlier_root),
        TEST(test_name_is_taken_at_the_last_moment),
        TEST(test_made_again_root),
        TEST(test_disabled),
        TEST(test_being_deleted),
        TEST(test_invalid),
        TEST(test_another_prefix),
        TEST(test_two_of_one_prefix),
        TEST(test_no_canary_any_more),
        TEST(test_elastic),
        TEST(test_another_first_ordinal),
        TEST(test_without_the_right_to_statefulsets),
        TEST(test_a_statefulset_that_can_be_read_in_the_midst_of_a_pass),
        TEST(test_too_many_statefulsets),
        TEST(test_places_for_those_that_need_them),
        TEST(test_namespaces_of_the_canary),
        TEST(test_every_failure_is_tried_again),
        TEST(test_leader_lost_in_the_middle),
        TEST(test_held_answers),
        TEST(test_edited_while_it_is_written),
        TEST(test_nothing_is_written_without_the_lease),
        TEST(test_freed_at_any_moment),
        TEST(test_metrics),
        TEST(test_metrics_of_each_root),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
