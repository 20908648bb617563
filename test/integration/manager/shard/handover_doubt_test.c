/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves from one shard to another while it is not proven that the other one has let go of it:
 * pods that are silent, without a sidecar, or of a shard that is gone.
 */
#include "base/log.h"
#include "handover_fixture.h"

static void test_strict_waits_for_a_silent_pod(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, SHORT_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_forget_probes(s);
    fixture_expect_event(s, "green", "HandoverBlocked", 1);
    handover_stays_at(s, "green", 1);
    fixture_enforces(s, "green-0", "green"); /* it is looked at again */
    handover_stays_at(s, "green", 1);
    fixture_expect_event(s, "green", "HandoverBlocked", 1); /* once */
    assert_int_equal(s->counts.blocked, 1);
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue");
    handover_expect_waiting(s, "green",
                            "kubectl annotate pod POD ctrlmesh.kusionstack.io/let-go=true");
    fixture_let_go(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    fixture_expect_event(s, "green", "HandoverTimedOut", 0);
    assert_int_equal(s->counts.late, 0);
}

/* Its pods keep its rules until they are gone, and so does the ConfigMap that they mount. */
static void test_strict_waits_for_pods_of_a_deleted_shard(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    handover_stays_at(s, "green", 1);
    fixture_retire(s); /* nor does the next leader forget it */
    fixture_lead(s);
    handover_stays_at(s, "green", 1);
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
    handover_begin_strict(s, LONG_MS);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    if (anew) {
        fixture_retire(s);
    }
    strip_map(s, "blue", label, rules);
    if (anew) {
        fixture_lead(s);
    }
    handover_stays_at(s, "green", 1);
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
    handover_pod(s, "blue-0", "blue", "of-blue");
    run_for(s->store.api.loop, PAUSE_MS);
}

/* Green is to see 3 of blue, which is gone but for its pod, when another process leads. */
static void lead_anew_without_blue(struct fixture *s, const char *lock_of_blue)
{
    s->handover_ms = LONG_MS;
    s->strict = true;
    handover_pod(s, "blue-0", "blue", "of-blue");
    handover_pod(s, "green-0", "green", "of-green");
    handover_sees_with_lock(s, "blue", lock_of_blue, "\"1\",\"2\",\"3\"");
    handover_sees_with_lock(s, "green", "lock", "\"4\",\"5\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "green", "Enforced", "True");
    fixture_settle(s);
    fixture_retire(s);
    know_no_more_of_blue(s);
    handover_sees_with_lock(s, "green", "lock", "\"3\",\"4\",\"5\"");
    run_for(s->store.api.loop, PAUSE_MS);
    fixture_lead(s);
}

/* By the lock in its rules it is of the same operator, and these are read after the start. */
static void test_strict_waits_for_a_deleted_shard_that_was_not_read_yet(void **state)
{
    struct fixture *s = *state;
    lead_anew_without_blue(s, "lock");
    handover_expect_waiting(s, "green", "n/blue");
    handover_stays_at(s, "green", 1);
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
    handover_begin_strict(s, LONG_MS);
    fixture_retire(s);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-blue");
    handover_sees(s, "green", "\"4\",\"5\",\"9\"");
    run_for(s->store.api.loop, PAUSE_MS); /* until the cache shows it */
    fixture_lead(s);
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue, which was deleted");
    handover_stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

/* The selector has changed: its old pods mount its rules all the same. */
static void test_strict_waits_for_pods_no_longer_selected(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"blue\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"azure\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\","
                   "\"operator\":\"In\",\"values\":[\"1\",\"2\"]}]}}]}}");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_told(s, "blue-0", 2);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue");
    handover_stays_at(s, "green", 1);
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
    handover_pod(s, "blue-0", "blue", "operator");
    handover_sees(s, "blue", "\"1\"");
    fixture_lead(s);
    handover_expect_waiting(s, "blue", "pod old-0 (has no sidecar, and so sees everything once");
    handover_shows_nothing(s, "blue");
    store_delete(&s->store, "pods", "n", "old-0");
    fixture_expect_generation(s, "blue", 2);
    bare_pod(s, "somebody"); /* another operator's */
    handover_sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 3);
}

/* Somebody took the annotation off that says whose sidecars it has, and no shard selects it. */
static void test_strict_waits_for_pods_of_nobody_knows_which_shard(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"lost-0\",\"labels\":{\"shard\":\"azure\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{\"podIP\":"
                   "\"10.0.0.1\"}}");
    handover_sees(s, "green", "\"4\",\"5\",\"9\"");
    handover_expect_waiting(s, "green",
                            "pod lost-0 (has the sidecars of a shard that nobody knows)");
    handover_stays_at(s, "green", 1);
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
    handover_begin_strict(s, LONG_MS);
    fixture_config_for(s, "teal", "secrets", "ns=7", "blue");
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"both-0\",\"labels\":{\"shard\":\"blue\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{\"podIP\":"
                   "\"10.0.0.1\"}}");
    run_for(s->store.api.loop, PAUSE_MS); /* until the cache shows both */
    handover_sees(s, "green", "\"4\",\"5\",\"9\"");
    handover_expect_waiting(s, "green",
                            "pod both-0 (has the sidecars of a shard that nobody knows)");
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
    handover_begin_strict(s, LONG_MS);
    turn_into_root(s, "blue");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue, which has become a root");
    const char *first = strstr(fixture_condition(s, "green", "Published", "message"), "blue-0");
    assert_null(strstr(first + 1, "blue-0"));
    fixture_expect_event(s, "blue", "RulesKept", 1);
    fixture_expect_event(s, "blue-0", "RulesKept", 1);
    fixture_retire(s); /* nor does the next leader forget it */
    fixture_lead(s);
    handover_stays_at(s, "green", 1);
    assert_non_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-blue"));
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_await_gone(s, "configmaps", "cmesh-rules-blue");
    fixture_expect_generation(s, "green", 2);
    fixture_enforces(s, "green-0", "green");

    handover_sees(s, "blue", "\"1\",\"3\""); /* back, as a shard without pods */
    handover_expect_waiting(s, "blue", "n/green");
    handover_sees(s, "green", "\"4\",\"5\"");
    fixture_expect_generation(s, "green", 3);
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Published", "True");
}

static void test_all_withdraw_from_a_pod_without_a_sidecar(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    assert_non_null(strstr(fixture_rules(s, "blue"), "k,!k"));
    assert_non_null(strstr(fixture_rules(s, "green"), "k,!k"));
    handover_expect_waiting(s, "green", "sees nothing: pod new-0 (has no sidecar");
    fixture_expect_event(s, "blue", "Withdrawn", 1);
    fixture_expect_event(s, "green", "Withdrawn", 1);
    handover_sees(s, "green", "\"4\""); /* an edit changes nothing of that */
    handover_stays_at(s, "green", 2);
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
    handover_begin_strict(s, LONG_MS);
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
    handover_expect_waiting(s, "green", "sees nothing: pod old-0 (has no sidecar");
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
    handover_bare_pod(s, "");
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
    handover_stays_at(s, "blue", 1);
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
    handover_expect_waiting(s, "op-1-normal", "pod op-5d4f-x7z (has no sidecar");
    store_delete(&s->store, "pods", "n", "op-5d4f-x7z");
    fixture_expect_generation(s, "op-1-normal", 3);
    store_put_text(&s->store, "pods", "n", /* another Deployment's, op-x */
                   "{\"metadata\":{\"name\":\"op-x-5d4f-x7z\",\"labels\":{"
                   "\"pod-template-hash\":\"5d4f\"}},\"spec\":{\"containers\":[{"
                   "\"name\":\"operator\"}]}}");
    handover_stays_at(s, "op-1-normal", 3);
}

static void test_a_job_of_the_operator_takes_nothing_away(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    bare_pod(s, "operator");
    handover_stays_at(s, "blue", 1);
    handover_sees(s, "blue", "\"1\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "pod old-0 (has no sidecar");
    handover_stays_at(s, "green", 1);
}

/* Its spec names another resource than what it has, of which it would come to see everything. */
static void test_a_withdrawn_shard_does_not_gain(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 2);
    fixture_config(s, "blue", "secrets", "ns=1");
    fixture_expect_generation(s, "blue", 3);
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"pods\""));
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"secrets\""));
    assert_null(strstr(fixture_rules(s, "blue"), "ns "));
    handover_stays_at(s, "blue", 3);
    store_delete(&s->store, "pods", "n", "new-0");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Published", "False"); /* green has some of the pods */
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"pods\""));
}

/* A person has to do something, since it may never start. */
static void test_a_pod_without_a_sidecar_that_does_not_start(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, SHORT_MS);
    handover_bare_pod(s, "");
    handover_expect_waiting(s, "green",
                            "sees everything once it starts: delete it if it never will");
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
    handover_begin_strict(s, SHORT_MS);
    store_put_text(&s->store, "pods", "n", pod, "\"running\":{}");
    fixture_settle(s);
    handover_expect_waiting(s, "green", "pod new-0 (has no sidecar, and so sees everything)");
    run_for(s->store.api.loop, 2 * SHORT_MS);
    fixture_expect_event(s, "green", "HandoverBlocked", 0);
    store_put_text(&s->store, "pods", "n", pod, "\"waiting\":{\"reason\":\"ImagePullBackOff\"}");
    fixture_settle(s);
    handover_expect_waiting(s, "green", "and so sees everything; ImagePullBackOff)");
    fixture_expect_event(s, "green", "HandoverBlocked", 1);
}

static void test_shares_with(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green",
                            "shard n/blue (its spec selects it too: change one of the specs");
    handover_expect_no_pods(s, "green");
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
    handover_begin(s, 0);
    fixture_expect_condition(s, "blue", "Exclusive", "True");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_condition(s, "green", "Exclusive", "False");
    fixture_expect_condition(s, "blue", "Exclusive", "False");
    assert_string_equal(fixture_condition(s, "blue", "Exclusive", "reason"), "Shared");
    assert_non_null(strstr(fixture_condition(s, "blue", "Exclusive", "message"), "n/green"));
    fixture_settle(s);
    fixture_expect_event(s, "blue", "Shared", 1);
    fixture_enforces(s, "green-0", "green");
    handover_sees(s, "green", "\"4\",\"5\"");
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
    handover_begin_strict(s, LONG_MS);
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        s->entries[i].result.bypassed = strcmp(s->entries[i].key, "n/blue-0") == 0;
    }
    handover_sees(s, "green", "\"4\",\"5\",\"9\"");
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue (goes around its proxy");
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
    handover_stays_at(s, "green", 1);
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue (goes around its proxy");
}

/* A pod without rules takes next what its kubelet has, which may be behind: the next leader does
 * not know what stood there. */
static void test_strict_waits_for_a_pod_that_has_no_rules_yet(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_settle(s);
    fixture_retire(s);
    fixture_probe(s, "blue-0", "blue", 0, "");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_lead(s);
    handover_expect_waiting(s, "green", "pod blue-0 of shard n/blue");
    handover_stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        TEST(test_a_pod_without_a_sidecar_that_does_not_start),
        TEST(test_a_pod_without_a_sidecar_that_fails_later),
        TEST(test_strict_waits_for_pods_of_nobody_knows_which_shard),
        TEST(test_strict_waits_for_pods_that_two_shards_select),
        TEST(test_a_shard_that_becomes_a_root_is_waited_for),
        TEST(test_shares_with),
        TEST(test_what_is_shared_is_told),
        TEST(test_an_operator_that_goes_around_its_proxy),
        TEST(test_a_proxy_that_does_not_know_yet_who_goes_around_it),
        TEST(test_strict_waits_for_a_pod_that_has_no_rules_yet),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
