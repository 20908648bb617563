/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves from one shard to another: the controller takes it away first and gives it then,
 * whatever order the configs were edited in. Proxies are played by the test.
 */
#include <stdlib.h>

#include "base/log.h"
#include "controller_fixture.h"

enum { LONG_MS = 60000, SHORT_MS = 400, PAUSE_MS = 300 };

/* A config whose shard sees the pods of these namespaces: "\"1\",\"2\"". */
static void sees(struct fixture *s, const char *name, const char *values)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\","
                   "\"operator\":\"In\",\"values\":[%s]}]}}]}}",
                   name, name, values);
}

static void pod_of(struct fixture *s, const char *name, const char *shard, const char *account)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"},\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"%s\"}},\"spec\":{"
                   "\"serviceAccountName\":\"%s\",\"containers\":[{\"name\":\"cmesh-localproxy\"},"
                   "{\"name\":\"operator\"}]},\"status\":{\"podIP\":\"10.0.0.1\",\"conditions\":[{"
                   "\"type\":\"Ready\",\"status\":\"True\"}]}}",
                   name, shard, shard, account);
}

/* Blue sees 1 to 3 and green 4 and 5, each on one pod; all is enforced. */
static void begin(struct fixture *s, uint64_t handover_ms)
{
    s->handover_ms = handover_ms;
    pod_of(s, "blue-0", "blue", "operator");
    pod_of(s, "green-0", "green", "operator");
    sees(s, "blue", "\"1\",\"2\",\"3\"");
    sees(s, "green", "\"4\",\"5\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Enforced", "True");
    fixture_expect_condition(s, "green", "Enforced", "True");
    fixture_settle(s);
}

static void expect_waiting(struct fixture *s, const char *shard, const char *other)
{
    fixture_expect_condition(s, shard, "Published", "False");
    assert_string_equal(fixture_condition(s, shard, "Published", "reason"), "WaitingForHandover");
    assert_non_null(strstr(fixture_condition(s, shard, "Published", "message"), other));
    assert_string_equal(fixture_condition(s, shard, "Enforced", "reason"), "NotPublished");
}

/* No pod is in the way, and so none can be let go. */
static void expect_no_pods_waited_for(struct fixture *s, const char *shard)
{
    assert_null(strstr(fixture_condition(s, shard, "Published", "message"), "let-go"));
}

/* In the metrics. */
static void expect_state(struct fixture *s, const char *shard, const char *state)
{
    char line[128];
    struct buf out = BUF_INIT(1024 * 1024);
    (void)snprintf(line, sizeof line,
                   "cmesh_manager_shard_state{shard_namespace=\"n\",shard=\"%s\",state=\"%s\"} 1\n",
                   shard, state);
    controller_metrics(s->controller, &s->counts, &out);
    assert_non_null(strstr(buf_cstr(&out), line));
    buf_reset(&out);
}

static void stays_at(struct fixture *s, const char *shard, uint64_t generation)
{
    run_for(s->store.api.loop, PAUSE_MS);
    assert_int_equal(fixture_generation(s, shard), generation);
}

static void shows_nothing_at(struct fixture *s, const char *shard, uint64_t generation)
{
    fixture_expect_generation(s, shard, generation);
    assert_non_null(strstr(fixture_rules(s, shard), "\"selector\":\"k,!k\""));
    stays_at(s, shard, generation);
}

/* Its pods can start, and get nothing yet that another one has. */
static void shows_nothing(struct fixture *s, const char *shard)
{
    shows_nothing_at(s, shard, 1);
}

static void both_published(struct fixture *s)
{
    fixture_expect_condition(s, "blue", "Published", "True");
    fixture_expect_condition(s, "green", "Published", "True");
    fixture_settle(s);
    fixture_expect_event(s, "blue", "PublishFailed", 0);
    fixture_expect_event(s, "green", "PublishFailed", 0);
}

/* ---- what waits ---- */

static void move(struct fixture *s, bool loser_first)
{
    begin(s, LONG_MS);
    if (loser_first) {
        sees(s, "blue", "\"1\",\"2\"");
        sees(s, "green", "\"3\",\"4\",\"5\"");
    } else {
        sees(s, "green", "\"3\",\"4\",\"5\"");
        sees(s, "blue", "\"1\",\"2\"");
    }
    fixture_expect_generation(s, "blue", 2);
    expect_waiting(s, "green", "n/blue");
    stays_at(s, "green", 1);
    fixture_settle(s);
    unsigned writes = s->store.writes;
    stays_at(s, "green", 1);
    assert_int_equal(s->store.writes, writes);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "green", "Enforced", "True");
    both_published(s);
    fixture_expect_event(s, "green", "HandoverTimedOut", 0);
    assert_int_equal(s->counts.waits, 1);
    assert_int_equal(s->counts.late, 0);
}

static void test_the_loser_is_edited_first(void **state)
{
    move(*state, true);
}

static void test_the_gainer_is_edited_first(void **state)
{
    move(*state, false);
}

/* Some time later. */
static void test_the_gainer_waits_for_the_other_edit(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "green", "\"2\",\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    expect_state(s, "green", "handover");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    stays_at(s, "green", 1);
    fixture_settle(s);
    assert_int_equal(s->counts.waits, 2); /* each edit has its own time */
    sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    both_published(s);
}

/* What either loses, it loses at once. */
static void test_a_swap(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\",\"4\"");
    sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    fixture_expect_rules(s, "blue", "ns in (1,2,3)");
    fixture_expect_rules(s, "blue", "ns in (1,2,4)");
    fixture_expect_rules(s, "green", "ns in (4,5)");
    fixture_expect_rules(s, "green", "ns in (3,5)");
    expect_waiting(s, "blue", "n/green");
    expect_waiting(s, "green", "n/blue");
    fixture_expect_told(s, "blue-0", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 3); /* blue does not show 3 any more */
    stays_at(s, "blue", 2);
    assert_null(strstr(fixture_rules(s, "green"), "ns in (4,5)"));
    fixture_enforces(s, "green-0", "green");
    fixture_expect_generation(s, "blue", 3);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_condition(s, "blue", "Enforced", "True");
    fixture_expect_condition(s, "green", "Enforced", "True");
    both_published(s);
    assert_int_equal(s->counts.late, 0);
}

/* Who leads next knows by the ConfigMaps what either has. */
static void test_a_swap_under_another_leader(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    fixture_retire(s);
    fixture_lead(s);
    fixture_settle(s);
    sees(s, "blue", "\"1\",\"2\",\"4\"");
    sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    expect_waiting(s, "blue", "n/green");
    expect_waiting(s, "green", "n/blue");
}

/* It enforces what is published, but writes to what it lost may still be executed. */
static void is_unsettled(struct fixture *s, const char *pod, const char *shard)
{
    char key[64];
    (void)snprintf(key, sizeof key, "n/%s", pod);
    fixture_enforces(s, pod, shard);
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        if (strcmp(s->entries[i].key, key) == 0) {
            s->entries[i].result.enforcing = false;
        }
    }
}

/* Requests of before are under way: it has not given anything up yet. */
static void test_a_proxy_that_has_not_settled(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    is_unsettled(s, "blue-0", "blue");
    stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* Also for longer than for pods of which nothing is known. */
static void test_writes_that_may_be_executed_are_waited_for(void **state)
{
    struct fixture *s = *state;
    begin(s, SHORT_MS);
    pod_of(s, "blue-1", "blue", "operator");
    fixture_enforces(s, "blue-1", "blue");
    pod_of(s, "aqua-0", "aqua", "operator");
    sees(s, "aqua", "\"6\"");
    fixture_expect_generation(s, "aqua", 1);
    fixture_enforces(s, "aqua-0", "aqua");
    is_unsettled(s, "blue-0", "blue");
    sees(s, "green", "\"3\",\"4\",\"5\",\"6\""); /* of aqua too, which comes first */
    expect_waiting(s, "green", "n/aqua");
    stays_at(s, "green", 1);
    run_for(s->store.api.loop, SHORT_MS);
    is_unsettled(s, "blue-0", "blue");
    stays_at(s, "green", 1);
    assert_int_equal(s->counts.late, 0);
    sees(s, "aqua", "\"7\"");
    fixture_expect_generation(s, "aqua", 2);
    fixture_enforces(s, "aqua-0", "aqua");
    sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    expect_waiting(s, "green", "n/blue");
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "blue-1", "blue");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.late, 0);
}

static void test_the_longer_of_both_times_is_waited_for(void **state)
{
    struct fixture *s = *state;
    begin(s, 160000);
    is_unsettled(s, "blue-0", "blue");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "for 160 s at most");
}

static void test_writes_of_another_operator_are_not_waited_for(void **state)
{
    struct fixture *s = *state;
    begin(s, SHORT_MS);
    pod_of(s, "other-0", "other", "somebody");
    sees(s, "other", "\"3\"");
    fixture_expect_generation(s, "other", 1);
    is_unsettled(s, "other-0", "other");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.late, 1);
}

static void test_all_pods_must_confirm(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    pod_of(s, "blue-1", "blue", "operator");
    fixture_expect_told(s, "blue-1", 1);
    fixture_enforces(s, "blue-1", "blue");
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-1"); /* it is gone: so is what it showed */
    fixture_expect_generation(s, "green", 2);
}

/* ---- what does not wait ---- */

static void test_nothing_in_common(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    sees(s, "green", "\"4\",\"5\",\"6\""); /* blue's pods have confirmed nothing yet */
    fixture_expect_generation(s, "green", 2);
    sees(s, "green", "\"4\"");
    fixture_expect_generation(s, "green", 3);
    both_published(s);
    assert_int_equal(s->counts.waits, 0);
}

static void test_another_operator(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    pod_of(s, "other-0", "other", "another");
    sees(s, "other", "\"1\",\"4\"");
    fixture_expect_generation(s, "other", 1);
    fixture_enforces(s, "other-0", "other");
    sees(s, "other", "\"1\",\"4\",\"5\"");
    fixture_expect_generation(s, "other", 2);
    sees(s, "green", "\"1\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    sees(s, "blue", "\"2\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.waits, 1);
}

/* A pod may start at any time, and shows what its ConfigMap says then. */
static void test_a_shard_without_pods_holds_what_it_has(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "empty", "\"6\",\"7\",\"8\"");
    fixture_expect_generation(s, "empty", 1);
    sees(s, "green", "\"4\",\"5\",\"6\"");
    expect_waiting(s, "green", "n/empty");
    sees(s, "empty", "\"7\"");
    fixture_expect_generation(s, "empty", 2);
    fixture_expect_generation(s, "green", 2);
}

/* Scale-out: a new shard has a config before it can have pods. */
static void test_a_new_shard_waits(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "red", "\"3\"");
    fixture_expect_generation(s, "blue", 2);
    expect_waiting(s, "red", "blue-0");
    shows_nothing(s, "red");
    pod_of(s, "red-0", "red", "operator");
    shows_nothing(s, "red");
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "red", 2);
}

/* What somebody else has put where its rules should stand is nothing that the shard has. */
static void test_somebody_elses_map_is_not_waited_for(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-teal\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"},\"ownerReferences\":[{"
                   "\"controller\":true,\"kind\":\"Deployment\",\"name\":\"d\",\"uid\":\"x\"}]},"
                   "\"data\":{\"rules.json\":\"{\\\"apiVersion\\\":\\\"cmesh/v1\\\",\\\"kind\\\":"
                   "\\\"ShardRules\\\",\\\"shard\\\":{\\\"namespace\\\":\\\"n\\\",\\\"name\\\":"
                   "\\\"teal\\\"},\\\"generation\\\":1,\\\"spec\\\":{\\\"limits\\\":[]}}\"}}");
    sees(s, "teal", "\"8\"");
    fixture_expect_event(s, "teal", "PublishFailed", 1);
    sees(s, "green", "\"4\",\"5\",\"6\"");
    fixture_expect_generation(s, "green", 2);
}

/* What keeps it from being published then is something else; afterwards the wait has its whole time
 * again. */
static void test_a_wait_begins_with_the_name(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-red\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"},\"ownerReferences\":[{"
                   "\"controller\":true,\"kind\":\"Deployment\",\"name\":\"d\",\"uid\":\"x\"}]},"
                   "\"data\":{\"x\":\"y\"}}");
    sees(s, "red", "\"3\"");
    fixture_expect_event(s, "red", "PublishFailed", 1);
    assert_string_equal(fixture_condition(s, "red", "Published", "reason"), "NameTaken");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-red");
    fixture_settle(s);
    expect_waiting(s, "red", "n/blue");
    assert_int_equal(s->counts.waits, 1);
}

/* Confirmed rules are of a generation, not only of these words. */
static void test_edited_and_taken_back(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\",\"3\",\"6\"");
    fixture_expect_generation(s, "blue", 2);
    sees(s, "blue", "\"1\",\"2\",\"3\"");
    fixture_expect_generation(s, "blue", 3); /* blue-0 said that it enforces this, of 1 */
    sees(s, "green", "\"4\",\"5\",\"6\"");
    expect_waiting(s, "green", "blue-0");
    stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* ---- until it is proven ---- */

static void begin_strict(struct fixture *s, uint64_t handover_ms)
{
    s->strict = true;
    s->orphan_ms = 100;
    begin(s, handover_ms);
}

static void test_strict_waits_for_a_silent_pod(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, SHORT_MS);
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_forget_probes(s);
    fixture_expect_event(s, "green", "HandoverBlocked", 1);
    stays_at(s, "green", 1);
    fixture_enforces(s, "green-0", "green"); /* it is looked at again */
    stays_at(s, "green", 1);
    fixture_expect_event(s, "green", "HandoverBlocked", 1); /* once */
    assert_int_equal(s->counts.blocked, 1);
    expect_waiting(s, "green", "pod blue-0 of shard n/blue");
    expect_waiting(s, "green", "kubectl annotate pod POD ctrlmesh.kusionstack.io/let-go=true");
    fixture_let_go(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    fixture_expect_event(s, "green", "HandoverTimedOut", 0);
    assert_int_equal(s->counts.late, 0);
}

/* Its pods keep its rules until they are gone, and so does the ConfigMap that they mount. */
static void test_strict_waits_for_pods_of_a_deleted_shard(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    stays_at(s, "green", 1);
    fixture_retire(s); /* nor does the next leader forget it */
    fixture_lead(s);
    stays_at(s, "green", 1);
    assert_non_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-blue"));
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_await_gone(s, "configmaps", "cmesh-rules-blue");
    fixture_expect_generation(s, "green", 2);
}

/* Somebody takes from the ConfigMap of a shard what says whose it is. */
static void strip_map(struct fixture *s, const char *name, bool label, const char *rules)
{
    char map[64];
    (void)snprintf(map, sizeof map, "cmesh-rules-%s", name);
    cJSON *object = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", map), true);
    assert_non_null(object);
    cJSON *meta = cJSON_GetObjectItem(object, "metadata");
    cJSON_DeleteItemFromObject(meta, "annotations");
    cJSON_DeleteItemFromObject(meta, "ownerReferences");
    if (!label) {
        cJSON_DeleteItemFromObject(meta, "labels");
    }
    if (rules != NULL) {
        cJSON *data = cJSON_GetObjectItem(object, "data");
        cJSON_ReplaceItemInObject(data, "rules.json", cJSON_CreateString(rules));
    }
    store_put(&s->store, "configmaps", "n", object);
    run_for(s->store.api.loop, PAUSE_MS);
}

/* Nobody deletes it then: it is waited for only as long as there are pods that mount it. */
static void check_stripped(struct fixture *s, bool label, const char *rules, bool anew)
{
    begin_strict(s, LONG_MS);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    if (anew) {
        fixture_retire(s);
    }
    strip_map(s, "blue", label, rules);
    if (anew) {
        fixture_lead(s);
    }
    stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

static void test_strict_deleted_map_without_annotations(void **state)
{
    check_stripped(*state, true, NULL, false);
}

static void test_strict_deleted_map_without_annotations_and_another_leader(void **state)
{
    check_stripped(*state, true, NULL, true);
}

static void test_strict_deleted_map_of_nobody(void **state)
{
    check_stripped(*state, false, NULL, false);
}

static void test_strict_deleted_map_of_nobody_and_another_leader(void **state)
{
    check_stripped(*state, false, NULL, true);
}

static void test_strict_deleted_map_of_nobody_with_nonsense(void **state)
{
    check_stripped(*state, false, "nonsense", false);
}

/* A config whose shard sees these namespaces, and whose operator elects a leader by this lock. */
static void sees_with_lock(struct fixture *s, const char *name, const char *lock,
                           const char *values)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"controller\":{"
                   "\"leaderElectionName\":\"%s\"},\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\","
                   "\"operator\":\"In\",\"values\":[%s]}]}}]}}",
                   name, lock, name, values);
}

/* Blue, that had none: it shows nothing until its pod has confirmed that. */
static void gets_lock(struct fixture *s)
{
    fixture_expect_generation(s, "blue", 2);
    expect_waiting(s, "blue", "pod blue-0 of shard n/blue (has not confirmed the lock");
    shows_nothing_at(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "blue", 3);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_condition(s, "blue", "Enforced", "True");
}

/* All is to be its own. */
static void leaves(struct fixture *s, const char *name, const char *lock)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"leaving\":\"%s\",\"controller\":{"
                   "\"leaderElectionName\":\"%s\"},\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[]}}",
                   name, name, lock, name);
}

/* The process is another one: what it has of blue's ConfigMap is what it was listed with, before
 * anybody wanted to know what is in it. */
static void know_no_more_of_blue(struct fixture *s)
{
    cJSON *map = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", "cmesh-rules-blue"), true);
    assert_non_null(map);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    store_delete(&s->store, "pods", "n", "blue-0");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-blue");
    run_for(s->store.api.loop, PAUSE_MS); /* until the cache shows it */
    store_put(&s->store, "configmaps", "n", map);
    run_for(s->store.api.loop, PAUSE_MS);
    assert_true(shard_cache_find_map(s->cache, "n/blue")->unread);
    pod_of(s, "blue-0", "blue", "of-blue");
    run_for(s->store.api.loop, PAUSE_MS);
}

/* Green is to see 3 of blue, which is gone but for its pod, when another process leads. */
static void lead_anew_without_blue(struct fixture *s, const char *lock_of_blue)
{
    s->handover_ms = LONG_MS;
    s->strict = true;
    pod_of(s, "blue-0", "blue", "of-blue");
    pod_of(s, "green-0", "green", "of-green");
    sees_with_lock(s, "blue", lock_of_blue, "\"1\",\"2\",\"3\"");
    sees_with_lock(s, "green", "lock", "\"4\",\"5\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "green", "Enforced", "True");
    fixture_settle(s);
    fixture_retire(s);
    know_no_more_of_blue(s);
    sees_with_lock(s, "green", "lock", "\"3\",\"4\",\"5\"");
    run_for(s->store.api.loop, PAUSE_MS);
    fixture_lead(s);
}

/* By the lock in its rules it is of the same operator, and these are read after the start. */
static void test_strict_waits_for_a_deleted_shard_that_was_not_read_yet(void **state)
{
    struct fixture *s = *state;
    lead_anew_without_blue(s, "lock");
    expect_waiting(s, "green", "n/blue");
    stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

static void test_strict_does_not_wait_for_one_that_turns_out_to_be_anothers(void **state)
{
    struct fixture *s = *state;
    lead_anew_without_blue(s, "other");
    fixture_expect_generation(s, "green", 2);
}

/* Somebody has deleted its ConfigMap, too: nobody knows what they show. */
static void test_strict_waits_for_pods_of_which_nothing_is_left(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    fixture_retire(s);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-blue");
    sees(s, "green", "\"4\",\"5\",\"9\"");
    run_for(s->store.api.loop, PAUSE_MS); /* until the cache shows it */
    fixture_lead(s);
    expect_waiting(s, "green", "pod blue-0 of shard n/blue, which was deleted");
    stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

/* The selector has changed: its old pods mount its rules all the same. */
static void test_strict_waits_for_pods_no_longer_selected(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"blue\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"azure\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\","
                   "\"operator\":\"In\",\"values\":[\"1\",\"2\"]}]}}]}}");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_told(s, "blue-0", 2);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "pod blue-0 of shard n/blue");
    stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

static void bare_pod(struct fixture *s, const char *account)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"old-0\",\"labels\":{\"app\":\"old\"}},\"spec\":{"
                   "\"serviceAccountName\":\"%s\",\"containers\":[{\"name\":\"operator\"}]}}",
                   account);
}

/* Adoption: the operator's old pods, which have no sidecar, see everything. */
static void test_strict_waits_for_pods_without_a_sidecar(void **state)
{
    struct fixture *s = *state;
    s->strict = true;
    s->handover_ms = LONG_MS;
    bare_pod(s, "operator");
    pod_of(s, "blue-0", "blue", "operator");
    sees(s, "blue", "\"1\"");
    fixture_lead(s);
    expect_waiting(s, "blue", "pod old-0 (has no sidecar, and so sees everything once");
    shows_nothing(s, "blue");
    store_delete(&s->store, "pods", "n", "old-0");
    fixture_expect_generation(s, "blue", 2);
    bare_pod(s, "somebody"); /* another operator's */
    sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 3);
}

/* Somebody took the annotation off that says whose sidecars it has, and no shard selects it. */
static void test_strict_waits_for_pods_of_nobody_knows_which_shard(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"lost-0\",\"labels\":{\"shard\":\"azure\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{\"podIP\":"
                   "\"10.0.0.1\"}}");
    sees(s, "green", "\"4\",\"5\",\"9\"");
    expect_waiting(s, "green", "pod lost-0 (has the sidecars of a shard that nobody knows)");
    stays_at(s, "green", 1);
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"lost-0\",\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/let-go\":\"true\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]}}");
    fixture_expect_generation(s, "green", 2);
}

static void test_strict_waits_for_pods_that_two_shards_select(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    fixture_config_for(s, "teal", "secrets", "ns=7", "blue");
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"both-0\",\"labels\":{\"shard\":\"blue\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{\"podIP\":"
                   "\"10.0.0.1\"}}");
    run_for(s->store.api.loop, PAUSE_MS); /* until the cache shows both */
    sees(s, "green", "\"4\",\"5\",\"9\"");
    expect_waiting(s, "green", "pod both-0 (has the sidecars of a shard that nobody knows)");
}

/* On purpose. */
static void turn_into_root(struct fixture *s, const char *name)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"app\":\"x\"}},\"root\":{\"prefix\":\"r\",\"targetStatefulSet\":\"x\"}}}",
                   name);
}

/* A root is no shard, but pods with its sidecars show what they showed. */
static void test_a_shard_that_becomes_a_root_is_waited_for(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    turn_into_root(s, "blue");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "pod blue-0 of shard n/blue, which has become a root");
    const char *first = strstr(fixture_condition(s, "green", "Published", "message"), "blue-0");
    assert_null(strstr(first + 1, "blue-0"));
    fixture_expect_event(s, "blue", "RulesKept", 1);
    fixture_expect_event(s, "blue-0", "RulesKept", 1);
    fixture_retire(s); /* nor does the next leader forget it */
    fixture_lead(s);
    stays_at(s, "green", 1);
    assert_non_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-blue"));
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_await_gone(s, "configmaps", "cmesh-rules-blue");
    fixture_expect_generation(s, "green", 2);
    fixture_enforces(s, "green-0", "green");

    sees(s, "blue", "\"1\",\"3\""); /* back, as a shard without pods */
    expect_waiting(s, "blue", "n/green");
    sees(s, "green", "\"4\",\"5\"");
    fixture_expect_generation(s, "green", 3);
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Published", "True");
}

/* Both locks are of one operator, whichever of both edits comes first. */
/* Selected by blue, as a pod of the operator that is not to be in the mesh any more. */
static void selected_bare_pod(struct fixture *s, const char *let_go)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"new-0\",\"labels\":{\"shard\":\"blue\"},"
                   "\"annotations\":{\"ctrlmesh.kusionstack.io/let-go\":\"%s\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":\"operator\"}]}}",
                   let_go);
}

static void test_all_withdraw_from_a_pod_without_a_sidecar(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    selected_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    assert_non_null(strstr(fixture_rules(s, "blue"), "k,!k"));
    assert_non_null(strstr(fixture_rules(s, "green"), "k,!k"));
    expect_waiting(s, "green", "sees nothing: pod new-0 (has no sidecar");
    fixture_expect_event(s, "blue", "Withdrawn", 1);
    fixture_expect_event(s, "green", "Withdrawn", 1);
    sees(s, "green", "\"4\""); /* an edit changes nothing of that */
    stays_at(s, "green", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    store_delete(&s->store, "pods", "n", "new-0");
    fixture_expect_generation(s, "blue", 3);
    fixture_expect_generation(s, "green", 3);
    fixture_expect_event(s, "green", "Withdrawn", 1);
}

/* Its label and annotation are those that pods have here. */
static void test_all_withdraw_from_sidecars_of_another_mesh(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    store_put_text(
        &s->store, "pods", "n",
        "{\"metadata\":{\"name\":\"old-0\",\"labels\":{\"shard\":\"blue\","
        "\"ctrlmesh.kusionstack.io/enable-proxy\":\"true\","
        "\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"blue\"},\"annotations\":{"
        "\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"blue\"}},\"spec\":{"
        "\"serviceAccountName\":\"operator\",\"initContainers\":[{\"name\":\"ctrlmesh-init\"}],"
        "\"containers\":[{"
        "\"name\":\"ctrlmesh-proxy\",\"ports\":[{\"name\":\"metrics\","
        "\"containerPort\":5441}]},{\"name\":\"operator\"}]},\"status\":{"
        "\"podIP\":\"10.0.0.9\"}}");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    expect_waiting(s, "green", "sees nothing: pod old-0 (has no sidecar");
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    store_delete(&s->store, "pods", "n", "old-0");
    fixture_expect_generation(s, "blue", 3);
    fixture_expect_generation(s, "green", 3);
}

/* Pods may need what is there to become Ready. */
static void test_a_new_shard_shows_what_is_shared(void **state)
{
    struct fixture *s = *state;
    s->strict = true;
    s->handover_ms = LONG_MS;
    selected_bare_pod(s, "");
    store_put_text(
        &s->store, "shardingconfigs", "n",
        "{\"metadata\":{\"name\":\"blue\"},\"spec\":{\"selector\":{\"matchLabels\":{"
        "\"shard\":\"blue\"}},\"sharedNamespaces\":[\"n\"],\"limits\":[{"
        "\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":[\"secrets\"]}],"
        "\"selector\":{\"matchExpressions\":[{\"key\":"
        "\"ctrlmesh.kusionstack.io/namespace\",\"operator\":\"In\",\"values\":[\"a\"]}]}}]}}");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    assert_non_null(strstr(fixture_rules(s, "blue"), "/namespace in (a,n),ctrlmesh.kusionstack.io/"
                                                     "namespace in (n)\""));
    stays_at(s, "blue", 1);
    store_delete(&s->store, "pods", "n", "new-0");
    fixture_expect_generation(s, "blue", 2);
}

/* No shard selects it: only pods with sidecars get the label of one. */
static void test_old_pods_of_a_deployment(void **state)
{
    struct fixture *s = *state;
    s->strict = true;
    s->handover_ms = LONG_MS;
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"op\"},\"spec\":{\"root\":{\"prefix\":\"op\","
                   "\"targetDeployment\":\"op\"}}}");
    store_put_text(
        &s->store, "shardingconfigs", "n",
        "{\"metadata\":{\"name\":\"op-1-normal\",\"labels\":{"
        "\"ctrlmesh.kusionstack.io/auto-sharding-root\":\"op\"}},\"spec\":{\"selector\":{"
        "\"matchLabels\":{\"ctrlmesh.kusionstack.io/shard\":\"op-1-normal\"}},"
        "\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":["
        "\"pods\"]}],\"selector\":{\"matchLabels\":{\"app\":\"a\"}}}]}}");
    fixture_lead(s);
    fixture_expect_generation(s, "op-1-normal", 1);
    assert_non_null(strstr(fixture_rules(s, "op-1-normal"), "app=a"));
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"op-5d4f-x7z\",\"labels\":{"
                   "\"pod-template-hash\":\"5d4f\"}},\"spec\":{\"containers\":[{"
                   "\"name\":\"operator\"}]}}");
    fixture_expect_generation(s, "op-1-normal", 2);
    assert_non_null(strstr(fixture_rules(s, "op-1-normal"), "k,!k"));
    expect_waiting(s, "op-1-normal", "pod op-5d4f-x7z (has no sidecar");
    store_delete(&s->store, "pods", "n", "op-5d4f-x7z");
    fixture_expect_generation(s, "op-1-normal", 3);
    store_put_text(&s->store, "pods", "n", /* another Deployment's, op-x */
                   "{\"metadata\":{\"name\":\"op-x-5d4f-x7z\",\"labels\":{"
                   "\"pod-template-hash\":\"5d4f\"}},\"spec\":{\"containers\":[{"
                   "\"name\":\"operator\"}]}}");
    stays_at(s, "op-1-normal", 3);
}

static void test_a_job_of_the_operator_takes_nothing_away(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    bare_pod(s, "operator");
    stays_at(s, "blue", 1);
    sees(s, "blue", "\"1\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "pod old-0 (has no sidecar");
    stays_at(s, "green", 1);
}

/* Its spec names another resource than what it has, of which it would come to see everything. */
static void test_a_withdrawn_shard_does_not_gain(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    selected_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 2);
    fixture_config(s, "blue", "secrets", "ns=1");
    fixture_expect_generation(s, "blue", 3);
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"pods\""));
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"secrets\""));
    assert_null(strstr(fixture_rules(s, "blue"), "ns "));
    stays_at(s, "blue", 3);
    store_delete(&s->store, "pods", "n", "new-0");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Published", "False"); /* green has some of the pods */
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"pods\""));
}

/* Its pods would compete for the operator's lock with the pod, and see nothing. */
static void test_leaving_beside_a_pod_without_a_sidecar(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    selected_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 4);
    leaves(s, "blue", "lead");
    fixture_expect_condition(s, "blue", "Published", "False");
    stays_at(s, "blue", 4);
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"name\":\"lead\""));
    assert_null(strstr(fixture_rules(s, "blue"), "\"limits\":[]"));
}

/* A person has to do something, since it may never start. */
static void test_a_pod_without_a_sidecar_that_does_not_start(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, SHORT_MS);
    selected_bare_pod(s, "");
    expect_waiting(s, "green", "sees everything once it starts: delete it if it never will");
    run_for(s->store.api.loop, SHORT_MS);
    fixture_expect_event(s, "green", "HandoverBlocked", 1);
}

/* It has an address, and had when all was late already. */
static void test_a_pod_without_a_sidecar_that_fails_later(void **state)
{
    static const char pod[] =
        "{\"metadata\":{\"name\":\"new-0\",\"labels\":{\"shard\":\"blue\"}},\"spec\":{"
        "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":\"operator\"}]},\"status\":{"
        "\"podIP\":\"10.0.0.9\","
        "\"containerStatuses\":[{\"name\":\"operator\",\"state\":{%s}}]}}";
    struct fixture *s = *state;
    begin_strict(s, SHORT_MS);
    store_put_text(&s->store, "pods", "n", pod, "\"running\":{}");
    fixture_settle(s);
    expect_waiting(s, "green", "pod new-0 (has no sidecar, and so sees everything)");
    run_for(s->store.api.loop, 2 * SHORT_MS);
    fixture_expect_event(s, "green", "HandoverBlocked", 0);
    store_put_text(&s->store, "pods", "n", pod, "\"waiting\":{\"reason\":\"ImagePullBackOff\"}");
    fixture_settle(s);
    expect_waiting(s, "green", "and so sees everything; ImagePullBackOff)");
    fixture_expect_event(s, "green", "HandoverBlocked", 1);
}

static void hold(struct fixture *s, const char *lock, const char *holder, const char *renewed)
{
    store_put_text(&s->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"holderIdentity\":\"%s\","
                   "\"leaseDurationSeconds\":3600,\"renewTime\":\"%s\"}}",
                   lock, holder, renewed);
}

/* Blue has two pods, of which the first one leads. It is left to, and shows nothing until both have
 * confirmed its new lock, and the leader by the old one is no leader any more. */
static void begin_to_leave(struct fixture *s)
{
    begin_strict(s, LONG_MS);
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    pod_of(s, "blue-1", "blue", "operator");
    fixture_enforces(s, "blue-1", "blue");
    hold(s, "lead---blue", "blue-0_x", "2026-01-01T00:00:00.000000Z");
    store_delete(&s->store, "shardingconfigs", "n", "green");
    store_delete(&s->store, "pods", "n", "green-0");
    fixture_settle(s);
    leaves(s, "blue", "lead");
    shows_nothing_at(s, "blue", 4);
    assert_null(strstr(fixture_rules(s, "blue"), "leaderElection"));
    expect_waiting(s, "blue", "pod blue-1 of shard n/blue (has not confirmed the lock");
    fixture_enforces(s, "blue-0", "blue");
    stays_at(s, "blue", 4);
    fixture_enforces(s, "blue-1", "blue");
    expect_waiting(s, "blue", "its leader by the lock that it had before may not have given up");
    hold(s, "lead---blue", "blue-0_x", "2026-01-01T00:00:02.000000Z");
    stays_at(s, "blue", 4);
}

/* As client-go does. */
static void give_back(struct fixture *s, const char *lock)
{
    store_put_text(&s->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"holderIdentity\":\"\","
                   "\"leaseDurationSeconds\":1,\"renewTime\":\"2026-01-01T00:00:03.000000Z\"}}",
                   lock);
}

static void has_everything(struct fixture *s)
{
    fixture_expect_generation(s, "blue", 5);
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"limits\":[]"));
    fixture_expect_event(s, "blue", "Withdrawn", 0);
}

static void test_leaving_when_the_old_leader_gives_its_lock_back(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    give_back(s, "lead---blue");
    has_everything(s);
}

static void test_leaving_when_the_old_leader_gets_the_new_lock(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    hold(s, "lead", "blue-1_x", "2026-01-01T00:00:03.000000Z");
    stays_at(s, "blue", 4);
    hold(s, "lead", "blue-1_x", "2026-01-01T00:00:04.000000Z");
    stays_at(s, "blue", 4);
    hold(s, "lead", "blue-0_x", "2026-01-01T00:00:05.000000Z");
    has_everything(s);
}

/* Who leads managers next does not know which lock the shard had. */
static void test_leaving_under_another_leader(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    fixture_retire(s);
    fixture_probe(s, "blue-1", "blue", 3, "sha256:0");
    fixture_lead(s);
    fixture_settle(s);
    expect_waiting(s, "blue", "pod blue-1 of shard n/blue (has not confirmed the lock");
    fixture_enforces(s, "blue-1", "blue");
    expect_waiting(s, "blue", "its leader by the lock that it had before may not have given up");
    stays_at(s, "blue", 4);
    give_back(s, "lead---blue");
    has_everything(s);
}

/* Half way: some of its pods may have the new lock. */
static void test_leaving_is_taken_back(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    hold(s, "lead", "blue-1_x", "2026-01-01T00:00:03.000000Z");
    hold(s, "lead", "blue-1_x", "2026-01-01T00:00:04.000000Z");
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    shows_nothing_at(s, "blue", 5);
    fixture_expect_rules(s, "blue", "\"name\":\"lead\"");
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "blue-1", "blue");
    expect_waiting(s, "blue", "its leader by the lock that it had before may not have given up");
    stays_at(s, "blue", 5);
    give_back(s, "lead");
    fixture_expect_generation(s, "blue", 6);
    fixture_expect_rules(s, "blue", "ns in (1,2,3)");
}

/* Who led by the first lock may do so still, whichever lock it was that came last. */
static void test_a_lock_that_changes_twice(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    sees_with_lock(s, "blue", "lead2", "\"1\",\"2\",\"3\"");
    shows_nothing_at(s, "blue", 5);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "blue-1", "blue");
    expect_waiting(s, "blue", "its leader by the lock that it had before may not have given up");
    run_for(s->store.api.loop, SHORT_MS);
    stays_at(s, "blue", 5);
    give_back(s, "lead---blue");
    fixture_expect_generation(s, "blue", 6);
}

/* Nobody tells who held it that it is gone. */
static void test_leaving_when_the_old_lock_is_deleted(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    store_delete(&s->store, "leases", "n", "lead---blue");
    run_for(s->store.api.loop, SHORT_MS);
    stays_at(s, "blue", 4);
}

static void test_leaving_when_a_person_empties_the_old_lock(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    hold(s, "lead---blue", "", "2026-01-01T00:00:02.000000Z");
    run_for(s->store.api.loop, SHORT_MS);
    stays_at(s, "blue", 4);
}

/* The manager hears late of what happens to the Lease. */
static void test_leaving_when_the_watch_is_behind(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    store_delete(&s->store, "shardingconfigs", "n", "green");
    store_delete(&s->store, "pods", "n", "green-0");
    give_back(s, "lead---blue");
    fixture_settle(s);
    leaves(s, "blue", "lead");
    shows_nothing_at(s, "blue", 4);
    s->store.silent = true;
    hold(s, "lead---blue", "blue-0_x", "2026-01-01T00:00:01.000000Z");
    fixture_enforces(s, "blue-0", "blue");
    run_for(s->store.api.loop, SHORT_MS);
    stays_at(s, "blue", 4);
}

static void test_leaving_when_the_old_lock_cannot_be_read(void **state)
{
    struct fixture *s = *state;
    s->store.refused.part = "lead---blue";
    s->store.refused.status = 403;
    begin_to_leave(s);
    expect_waiting(s, "blue", "/namespaces/n/leases: 403 Forbidden");
    s->store.refused.part = NULL;
    give_back(s, "lead---blue");
    has_everything(s);
}

/* Of the operator's own namespace, which all shards see. `leaving`: "", or the shard. */
static void sees_with_shared(struct fixture *s, const char *leaving)
{
    store_put_text(
        &s->store, "shardingconfigs", "n",
        "{\"metadata\":{\"name\":\"blue\"},\"spec\":{\"leaving\":\"%s\",\"controller\":{"
        "\"leaderElectionName\":\"lead\"},\"selector\":{\"matchLabels\":{\"shard\":\"blue\"}},"
        "\"sharedNamespaces\":[\"n\"],\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
        "\"resources\":[\"secrets\"]}],\"selector\":{\"matchExpressions\":[{\"key\":"
        "\"ctrlmesh.kusionstack.io/namespace\",\"operator\":\"In\",\"values\":[\"a\"]}]}}]}}",
        leaving);
}

/* The shards are to stay, and pods without sidecars go. Who leads the managers next sees from its
 * rules that the lock of blue may have changed. */
static void test_leaving_is_taken_back_beside_a_pod_without_a_sidecar(void **state)
{
    struct fixture *s = *state;
    s->strict = true;
    s->handover_ms = LONG_MS;
    pod_of(s, "blue-0", "blue", "operator");
    sees_with_shared(s, "blue");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_enforces(s, "blue-0", "blue");
    selected_bare_pod(s, "");
    fixture_settle(s);
    sees_with_shared(s, "");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_rules(s, "blue", "\"name\":\"lead\"");
    fixture_retire(s);
    store_delete(&s->store, "pods", "n", "new-0");
    fixture_lead(s);
    fixture_settle(s);
    expect_waiting(s, "blue", "pod blue-0 of shard n/blue (has not confirmed the lock");
    stays_at(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "blue", 3);
}

/* Pods that work on nothing for certain do not lead either. */
static void test_leaving_when_all_pods_are_let_go(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    fixture_let_go(s, "blue-0", "blue");
    fixture_let_go(s, "blue-1", "blue");
    has_everything(s);
}

static void test_a_pod_without_a_sidecar_is_let_go(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    selected_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 2);
    selected_bare_pod(s, "true");
    fixture_expect_generation(s, "blue", 3);
}

static void test_a_lock_that_is_renamed(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    pod_of(s, "red-0", "red", "operator");
    sees_with_lock(s, "red", "lead2", "\"3\"");
    expect_waiting(s, "red",
                   "shard n/blue (its spec selects it too, with another leaderElectionName");
    expect_waiting(s, "red", "ends 30 s after the last edit");
    expect_no_pods_waited_for(s, "red");
    sees_with_lock(s, "blue", "lead2", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 4);
    expect_waiting(s, "red", "pod blue-0 of shard n/blue (has not confirmed");
    shows_nothing(s, "red");
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "red", 2);
    fixture_expect_generation(s, "blue", 5);
    fixture_expect_rules(s, "blue", "ns in (1,2)");
}

/* What two operators select for long, as their specs say, is of both. */
static void test_doubt_ends(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, SHORT_MS); /* which is less than OWNERSHIP_DOUBT_MS */
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    pod_of(s, "red-0", "red", "operator");
    sees_with_lock(s, "red", "lead2", "\"3\"");
    expect_waiting(s, "red", "shard n/blue (its spec selects it too, with another");
    stays_at(s, "red", 0); /* which is short */
    fixture_expect_generation(s, "red", 1);
    fixture_enforces(s, "red-0", "red");
    fixture_expect_condition(s, "red", "Enforced", "True");
    fixture_settle(s);
    sees_with_lock(s, "red", "lead2", "\"2\",\"3\""); /* an edit is a doubt again */
    expect_waiting(s, "red", "shard n/blue (its spec selects it too, with another");
    fixture_expect_generation(s, "red", 2);
    fixture_expect_event(s, "red", "HandoverTimedOut", 0);
    fixture_expect_event(s, "red", "HandoverBlocked", 0);
    assert_int_equal(s->counts.late, 0);
}

/* With all that tells whose it was, but its pods. */
static void test_a_shard_that_is_renamed_with_its_lock(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    sees_with_lock(s, "red", "lead2", "\"1\",\"2\",\"3\"");
    pod_of(s, "red-0", "red", "operator");
    expect_waiting(s, "red", "pod blue-0 of shard n/blue, which was deleted");
    shows_nothing(s, "red");
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "red", 2);
}

static void test_shares_with(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "shard n/blue (its spec selects it too: change one of the specs");
    expect_no_pods_waited_for(s, "green");
    assert_string_equal(fixture_condition(s, "green", "Exclusive", "status"), "True");
    store_put_text(
        &s->store, "shardingconfigs", "n",
        "{\"metadata\":{\"name\":\"green\",\"annotations\":{"
        "\"ctrlmesh.kusionstack.io/shares-with\":\"red, blue\"}},\"spec\":{\"selector\":{"
        "\"matchLabels\":{\"shard\":\"green\"}},\"limits\":[{\"relateResources\":[{"
        "\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],\"selector\":{"
        "\"matchExpressions\":[{\"key\":\"ns\",\"operator\":\"In\",\"values\":[\"3\","
        "\"4\",\"5\"]}]}}]}}");
    fixture_expect_generation(s, "green", 2);
    fixture_expect_condition(s, "green", "Exclusive", "False");
    assert_string_equal(fixture_condition(s, "green", "Exclusive", "reason"), "SharedOnPurpose");
    fixture_expect_condition(s, "blue", "Exclusive", "False");
    fixture_settle(s);
    fixture_expect_event(s, "green", "Shared", 0);
}

/* Nobody waits, and so both show it: either says so, until one gives it up. */
static void test_what_is_shared_is_told(void **state)
{
    struct fixture *s = *state;
    begin(s, 0);
    fixture_expect_condition(s, "blue", "Exclusive", "True");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_condition(s, "green", "Exclusive", "False");
    fixture_expect_condition(s, "blue", "Exclusive", "False");
    assert_string_equal(fixture_condition(s, "blue", "Exclusive", "reason"), "Shared");
    assert_non_null(strstr(fixture_condition(s, "blue", "Exclusive", "message"), "n/green"));
    fixture_settle(s);
    fixture_expect_event(s, "blue", "Shared", 1);
    fixture_enforces(s, "green-0", "green");
    sees(s, "green", "\"4\",\"5\"");
    fixture_expect_generation(s, "green", 3);
    fixture_settle(s);
    fixture_expect_condition(s, "blue", "Exclusive", "False"); /* green-0 has not confirmed */
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "green", "Exclusive", "True");
    fixture_expect_condition(s, "blue", "Exclusive", "True");
}

/* It confirms all rules, and sees everything: 9, too, which green is to have. */
static void begin_bypassed(struct fixture *s)
{
    begin_strict(s, LONG_MS);
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        s->entries[i].result.bypassed = strcmp(s->entries[i].key, "n/blue-0") == 0;
    }
    sees(s, "green", "\"4\",\"5\",\"9\"");
    expect_waiting(s, "green", "pod blue-0 of shard n/blue (goes around its proxy");
}

static void test_an_operator_that_goes_around_its_proxy(void **state)
{
    struct fixture *s = *state;
    begin_bypassed(s);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

/* Its proxy is started again: that tells at once which rules are in force, and some seconds later
 * who goes around it. */
static void test_a_proxy_that_does_not_know_yet_who_goes_around_it(void **state)
{
    struct fixture *s = *state;
    begin_bypassed(s);
    fixture_tells(s, "blue-0", "blue");
    fixture_settle(s);
    stays_at(s, "green", 1);
    expect_waiting(s, "green", "pod blue-0 of shard n/blue (goes around its proxy");
}

/* A user may want two shards to see the same. */
static void test_it_waits_no_longer_than_that(void **state)
{
    struct fixture *s = *state;
    begin(s, SHORT_MS);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    fixture_expect_generation(s, "green", 2);
    fixture_expect_event(s, "green", "HandoverTimedOut", 1);
    both_published(s);
    assert_int_equal(s->counts.waits, 1);
    assert_int_equal(s->counts.late, 1);
    /* It is no gain any more. */
    sees(s, "green", "\"3\",\"4\"");
    fixture_expect_generation(s, "green", 3);
    sees(s, "blue", "\"1\",\"3\"");
    fixture_expect_generation(s, "blue", 2);
    both_published(s);
    assert_int_equal(s->counts.waits, 1);
}

static void test_a_silent_pod_is_waited_for(void **state)
{
    struct fixture *s = *state;
    begin(s, SHORT_MS);
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_forget_probes(s);
    fixture_expect_generation(s, "green", 2);
    fixture_expect_event(s, "green", "HandoverTimedOut", 1);
}

static void test_switched_off(void **state)
{
    struct fixture *s = *state;
    begin(s, 0);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.waits, 0);
}

/* ---- while it waits ---- */

static void test_it_is_edited_back(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    sees(s, "green", "\"4\",\"5\"");
    fixture_expect_condition(s, "green", "Published", "True");
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "green"), 1);
    /* and blue, which has lost something, has it again */
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    expect_waiting(s, "green", "n/blue");
    sees(s, "blue", "\"1\",\"2\",\"3\"");
    fixture_expect_generation(s, "blue", 3);
    stays_at(s, "green", 1);
}

static void test_another_edit_while_it_waits(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"4\""); /* gives 2 and 3, wants 4 */
    fixture_expect_generation(s, "blue", 2);
    expect_waiting(s, "blue", "n/green");
    sees(s, "blue", "\"1\",\"2\""); /* 4 no more, but 2 */
    fixture_expect_generation(s, "blue", 3);
    both_published(s);
    assert_null(strstr(fixture_rules(s, "blue"), "ns in (1,2,3)"));
}

static void test_the_other_one_is_deleted(void **state)
{
    struct fixture *s = *state;
    s->orphan_ms = 100;
    begin(s, LONG_MS);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

static void test_it_is_deleted(void **state)
{
    struct fixture *s = *state;
    s->orphan_ms = 300;
    begin(s, LONG_MS);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    store_delete(&s->store, "shardingconfigs", "n", "green");
    store_delete(&s->store, "pods", "n", "green-0");
    fixture_await_gone(s, "configmaps", "cmesh-rules-green");
    sees(s, "blue", "\"1\"");
    fixture_expect_generation(s, "blue", 2);
}

/* The ConfigMap is put right without what is waited for. */
static void test_a_map_that_is_deleted_meanwhile(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\",\"4\"");
    sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    fixture_settle(s);
    char *before = strdup(fixture_rules(s, "green"));
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-green");
    fixture_expect_generation(s, "green", 2);
    assert_string_equal(fixture_rules(s, "green"), before);
    free(before);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 3);
}

/* So many values, as long as labels can be, and the one more. */
static char *many(const char *first, const char *stem, unsigned count)
{
    struct buf text = BUF_INIT((size_t)4 * 1024 * 1024);
    int rc = buf_append_str(&text, first);
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        rc = buf_printf(&text, ",\"%s-%059u\"", stem, i);
    }
    assert_int_equal(rc, 0);
    return buf_take_str(&text);
}

/* Old and new limits are too much for one ConfigMap: what is there stays until all can be given. */
static void test_too_large_for_both(void **state)
{
    struct fixture *s = *state;
    char *old = many("\"4\"", "old", 8400);
    char *new = many("\"3\"", "new", 8400);
    begin(s, LONG_MS);
    sees(s, "green", old);
    fixture_expect_generation(s, "green", 2);
    fixture_enforces(s, "green-0", "green");
    sees(s, "green", new);
    expect_waiting(s, "green", "n/blue");
    stays_at(s, "green", 2);
    sees(s, "blue", "\"1\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 3);
    both_published(s);
    free(old);
    free(new);
}

/* It is limited in nothing, and so would show what the others show. */
static void test_a_new_shard_without_limits_waits(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    s->strict = true;
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"all\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"all\"}},\"limits\":[]}}");
    expect_waiting(s, "all", "n/blue");
    shows_nothing(s, "all");
    assert_non_null(strstr(fixture_condition(s, "all", "Published", "message"), "n/green"));
}

/* Somebody writes into its ConfigMap what it shows then. */
static void overwrite(struct fixture *s, const char *shard, unsigned generation, const char *limits)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                   "\"namespace\":\"n\",\"name\":\"%s\"},\"generation\":%u,"
                   "\"spec\":{\"limits\":[%s]}}",
                   shard, generation, limits);
    fixture_set_rules(s, shard, text);
}

#define PODS_OF(ns)                                                                                \
    "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"ns in (" ns ")\"}"

/* Its pods may have taken what they wait for, and yet it waits. */
static void test_nobody_ends_its_wait_by_the_configmap(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    fixture_settle(s);
    overwrite(s, "green", 2, "");
    fixture_expect_generation(s, "green", 3);
    assert_non_null(strstr(fixture_rules(s, "green"), "ns in (4,5)"));
    fixture_settle(s);
    overwrite(s, "green", 4, PODS_OF("3,4,5"));
    fixture_expect_generation(s, "green", 5);
    assert_non_null(strstr(fixture_rules(s, "green"), "ns in (4,5)"));
    expect_waiting(s, "green", "n/blue");
}

static void put_later_rules(struct fixture *s, const char *shard)
{
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-%s\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"}},\"data\":{\"rules.json\":"
                   "\"{\\\"apiVersion\\\":\\\"cmesh/v9\\\"}\"}}",
                   shard);
}

/* Put there by a later release. Pods of that release may start at any time; what they see by it
 * nobody knows, until this manager has put rules there that it can write: so long these are too
 * large. */
static void test_rules_that_cannot_be_read_show_anything(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    fixture_retire(s);
    char *large = many("\"6\"", "old", 17000);
    sees(s, "empty", large);
    put_later_rules(s, "empty");
    sees(s, "green", "\"4\",\"5\",\"6\"");
    fixture_lead(s);
    expect_waiting(s, "green", "n/empty");
    stays_at(s, "green", 1);
    sees(s, "empty", "\"7\"");
    fixture_expect_generation(s, "empty", 1);
    fixture_expect_generation(s, "green", 2);
    free(large);
}

static void test_two_that_cannot_be_read(void **state)
{
    struct fixture *s = *state;
    put_later_rules(s, "blue");
    put_later_rules(s, "green");
    sees(s, "blue", "\"1\"");
    sees(s, "green", "\"2\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
}

/* ---- leaders ---- */

static void test_the_next_leader_goes_on(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\",\"4\"");
    sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    expect_waiting(s, "blue", "n/green");
    expect_waiting(s, "green", "n/blue");
    fixture_settle(s);
    unsigned writes = s->store.writes;
    for (unsigned i = 0; i < 3; i++) {
        fixture_retire(s);
        fixture_lead(s);
        fixture_settle(s);
    }
    assert_int_equal(s->store.writes, writes);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 3);
    fixture_retire(s);
    fixture_lead(s);
    fixture_enforces(s, "green-0", "green");
    fixture_expect_generation(s, "blue", 3);
    both_published(s);
}

/* It does not know what pods enforce that have not confirmed yet: it may be anything. */
static void test_a_leader_that_does_not_know_what_was(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_settle(s);
    fixture_retire(s);
    fixture_lead(s);
    sees(s, "green", "\"3\",\"4\",\"5\"");
    expect_waiting(s, "green", "n/blue");
    stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* A pod without rules takes next what its kubelet has, which may be behind: the next leader does
 * not know what stood there. */
static void test_strict_waits_for_a_pod_that_has_no_rules_yet(void **state)
{
    struct fixture *s = *state;
    begin_strict(s, LONG_MS);
    sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_settle(s);
    fixture_retire(s);
    fixture_probe(s, "blue-0", "blue", 0, "");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_lead(s);
    expect_waiting(s, "green", "pod blue-0 of shard n/blue");
    stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* Pods are asked before anything is given. */
static void test_a_leader_that_has_asked_nobody(void **state)
{
    struct fixture *s = *state;
    begin(s, LONG_MS);
    fixture_retire(s);
    sees(s, "blue", "\"1\",\"2\"");
    sees(s, "green", "\"3\",\"4\",\"5\"");
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        s->entries[i].result = (struct probe_result){.state = PROBE_WAITING};
    }
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 2);
    stays_at(s, "green", 1);
    fixture_enforces(s, "green-0", "green");
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    both_published(s);
}

/* ---- failures ---- */

/* Whatever becomes of the write that takes away: nothing is given before it is confirmed. */
static void test_writes_that_fail(void **state)
{
    static const enum store_fault faults[] = {STORE_NONE, STORE_CUT, STORE_CUT_DONE};
    struct fixture *s = *state;
    begin(s, LONG_MS);
    for (unsigned i = 0; i < 6; i++) {
        bool there = i % 2 == 0;
        uint64_t blue = fixture_generation(s, "blue");
        uint64_t green = fixture_generation(s, "green");
        store_fail(&s->store, there ? "cmesh-rules-blue" : "cmesh-rules-green",
                   faults[i / 2] == STORE_NONE ? 500 : 0, faults[i / 2], 1);
        sees(s, "green", there ? "\"3\",\"4\",\"5\"" : "\"4\",\"5\"");
        sees(s, "blue", there ? "\"1\",\"2\"" : "\"1\",\"2\",\"3\"");
        const char *loser = there ? "blue" : "green";
        const char *gainer = there ? "green" : "blue";
        fixture_expect_generation(s, loser, (there ? blue : green) + 1);
        assert_int_equal(fixture_generation(s, gainer), there ? green : blue);
        fixture_enforces(s, there ? "blue-0" : "green-0", loser);
        fixture_expect_generation(s, gainer, (there ? green : blue) + 1);
        fixture_enforces(s, there ? "green-0" : "blue-0", gainer);
        fixture_await_fault(s);
        fixture_expect_condition(s, gainer, "Published", "True");
        fixture_settle(s);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_loser_is_edited_first),
        TEST(test_the_gainer_is_edited_first),
        TEST(test_the_gainer_waits_for_the_other_edit),
        TEST(test_a_swap),
        TEST(test_a_swap_under_another_leader),
        TEST(test_a_proxy_that_has_not_settled),
        TEST(test_writes_that_may_be_executed_are_waited_for),
        TEST(test_the_longer_of_both_times_is_waited_for),
        TEST(test_writes_of_another_operator_are_not_waited_for),
        TEST(test_all_pods_must_confirm),
        TEST(test_nothing_in_common),
        TEST(test_another_operator),
        TEST(test_a_shard_without_pods_holds_what_it_has),
        TEST(test_rules_that_cannot_be_read_show_anything),
        TEST(test_two_that_cannot_be_read),
        TEST(test_a_new_shard_waits),
        TEST(test_somebody_elses_map_is_not_waited_for),
        TEST(test_a_wait_begins_with_the_name),
        TEST(test_a_new_shard_without_limits_waits),
        TEST(test_nobody_ends_its_wait_by_the_configmap),
        TEST(test_edited_and_taken_back),
        TEST(test_strict_waits_for_a_silent_pod),
        TEST(test_strict_waits_for_pods_of_a_deleted_shard),
        TEST(test_strict_deleted_map_without_annotations),
        TEST(test_strict_deleted_map_without_annotations_and_another_leader),
        TEST(test_strict_deleted_map_of_nobody),
        TEST(test_strict_deleted_map_of_nobody_and_another_leader),
        TEST(test_strict_deleted_map_of_nobody_with_nonsense),
        TEST(test_strict_waits_for_a_deleted_shard_that_was_not_read_yet),
        TEST(test_strict_does_not_wait_for_one_that_turns_out_to_be_anothers),
        TEST(test_strict_waits_for_pods_of_which_nothing_is_left),
        TEST(test_strict_waits_for_pods_no_longer_selected),
        TEST(test_strict_waits_for_pods_without_a_sidecar),
        TEST(test_all_withdraw_from_a_pod_without_a_sidecar),
        TEST(test_all_withdraw_from_sidecars_of_another_mesh),
        TEST(test_a_new_shard_shows_what_is_shared),
        TEST(test_old_pods_of_a_deployment),
        TEST(test_a_job_of_the_operator_takes_nothing_away),
        TEST(test_a_withdrawn_shard_does_not_gain),
        TEST(test_leaving_beside_a_pod_without_a_sidecar),
        TEST(test_a_pod_without_a_sidecar_that_does_not_start),
        TEST(test_a_pod_without_a_sidecar_that_fails_later),
        TEST(test_leaving_when_the_old_leader_gives_its_lock_back),
        TEST(test_leaving_when_the_old_leader_gets_the_new_lock),
        TEST(test_leaving_is_taken_back_beside_a_pod_without_a_sidecar),
        TEST(test_a_lock_that_changes_twice),
        TEST(test_leaving_when_the_old_lock_is_deleted),
        TEST(test_leaving_when_a_person_empties_the_old_lock),
        TEST(test_leaving_when_the_watch_is_behind),
        TEST(test_leaving_when_the_old_lock_cannot_be_read),
        TEST(test_leaving_when_all_pods_are_let_go),
        TEST(test_leaving_under_another_leader),
        TEST(test_leaving_is_taken_back),
        TEST(test_a_pod_without_a_sidecar_is_let_go),
        TEST(test_strict_waits_for_pods_of_nobody_knows_which_shard),
        TEST(test_strict_waits_for_pods_that_two_shards_select),
        TEST(test_a_shard_that_becomes_a_root_is_waited_for),
        TEST(test_a_lock_that_is_renamed),
        TEST(test_a_shard_that_is_renamed_with_its_lock),
        TEST(test_doubt_ends),
        TEST(test_shares_with),
        TEST(test_what_is_shared_is_told),
        TEST(test_an_operator_that_goes_around_its_proxy),
        TEST(test_a_proxy_that_does_not_know_yet_who_goes_around_it),
        TEST(test_it_waits_no_longer_than_that),
        TEST(test_a_silent_pod_is_waited_for),
        TEST(test_switched_off),
        TEST(test_it_is_edited_back),
        TEST(test_another_edit_while_it_waits),
        TEST(test_the_other_one_is_deleted),
        TEST(test_it_is_deleted),
        TEST(test_a_map_that_is_deleted_meanwhile),
        TEST(test_too_large_for_both),
        TEST(test_the_next_leader_goes_on),
        TEST(test_a_leader_that_does_not_know_what_was),
        TEST(test_strict_waits_for_a_pod_that_has_no_rules_yet),
        TEST(test_a_leader_that_has_asked_nobody),
        TEST(test_writes_that_fail),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
