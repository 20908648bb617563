/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves from one shard to another: the controller takes it away first and gives it then,
 * whatever order the configs were edited in. Proxies are played by the test.
 */
#include "base/log.h"
#include "handover_fixture.h"

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
    handover_begin(s, LONG_MS);
    if (loser_first) {
        handover_sees(s, "blue", "\"1\",\"2\"");
        handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    } else {
        handover_sees(s, "green", "\"3\",\"4\",\"5\"");
        handover_sees(s, "blue", "\"1\",\"2\"");
    }
    fixture_expect_generation(s, "blue", 2);
    handover_expect_waiting(s, "green", "n/blue");
    handover_stays_at(s, "green", 1);
    fixture_settle(s);
    unsigned writes = s->store.writes;
    handover_stays_at(s, "green", 1);
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
    handover_begin(s, LONG_MS);
    handover_sees(s, "green", "\"2\",\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    expect_state(s, "green", "handover");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_stays_at(s, "green", 1);
    fixture_settle(s);
    assert_int_equal(s->counts.waits, 2); /* each edit has its own time */
    handover_sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    handover_stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    both_published(s);
}

/* What either loses, it loses at once. */
static void test_a_swap(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\",\"4\"");
    handover_sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    fixture_expect_rules(s, "blue", "ns in (1,2,3)");
    fixture_expect_rules(s, "blue", "ns in (1,2,4)");
    fixture_expect_rules(s, "green", "ns in (4,5)");
    fixture_expect_rules(s, "green", "ns in (3,5)");
    handover_expect_waiting(s, "blue", "n/green");
    handover_expect_waiting(s, "green", "n/blue");
    fixture_expect_told(s, "blue-0", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 3); /* blue does not show 3 any more */
    handover_stays_at(s, "blue", 2);
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
    handover_begin(s, LONG_MS);
    fixture_retire(s);
    fixture_lead(s);
    fixture_settle(s);
    handover_sees(s, "blue", "\"1\",\"2\",\"4\"");
    handover_sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    handover_expect_waiting(s, "blue", "n/green");
    handover_expect_waiting(s, "green", "n/blue");
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
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    is_unsettled(s, "blue-0", "blue");
    handover_stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* Also for longer than for pods of which nothing is known. */
static void test_writes_that_may_be_executed_are_waited_for(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, SHORT_MS);
    handover_pod(s, "blue-1", "blue", "operator");
    fixture_enforces(s, "blue-1", "blue");
    handover_pod(s, "aqua-0", "aqua", "operator");
    handover_sees(s, "aqua", "\"6\"");
    fixture_expect_generation(s, "aqua", 1);
    fixture_enforces(s, "aqua-0", "aqua");
    is_unsettled(s, "blue-0", "blue");
    handover_sees(s, "green", "\"3\",\"4\",\"5\",\"6\""); /* of aqua too, which comes first */
    handover_expect_waiting(s, "green", "n/aqua");
    handover_stays_at(s, "green", 1);
    run_for(s->store.api.loop, SHORT_MS);
    is_unsettled(s, "blue-0", "blue");
    handover_stays_at(s, "green", 1);
    assert_int_equal(s->counts.late, 0);
    handover_sees(s, "aqua", "\"7\"");
    fixture_expect_generation(s, "aqua", 2);
    fixture_enforces(s, "aqua-0", "aqua");
    handover_sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    handover_expect_waiting(s, "green", "n/blue");
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "blue-1", "blue");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.late, 0);
}

static void test_the_longer_of_both_times_is_waited_for(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, 160000);
    is_unsettled(s, "blue-0", "blue");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "for 160 s at most");
}

static void test_writes_of_another_operator_are_not_waited_for(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, SHORT_MS);
    handover_pod(s, "other-0", "other", "somebody");
    handover_sees(s, "other", "\"3\"");
    fixture_expect_generation(s, "other", 1);
    is_unsettled(s, "other-0", "other");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.late, 1);
}

static void test_all_pods_must_confirm(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_pod(s, "blue-1", "blue", "operator");
    fixture_expect_told(s, "blue-1", 1);
    fixture_enforces(s, "blue-1", "blue");
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    handover_stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-1"); /* it is gone: so is what it showed */
    fixture_expect_generation(s, "green", 2);
}

/* ---- what does not wait ---- */

static void test_nothing_in_common(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    handover_sees(s, "green", "\"4\",\"5\",\"6\""); /* blue's pods have confirmed nothing yet */
    fixture_expect_generation(s, "green", 2);
    handover_sees(s, "green", "\"4\"");
    fixture_expect_generation(s, "green", 3);
    both_published(s);
    assert_int_equal(s->counts.waits, 0);
}

static void test_another_operator(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_pod(s, "other-0", "other", "another");
    handover_sees(s, "other", "\"1\",\"4\"");
    fixture_expect_generation(s, "other", 1);
    fixture_enforces(s, "other-0", "other");
    handover_sees(s, "other", "\"1\",\"4\",\"5\"");
    fixture_expect_generation(s, "other", 2);
    handover_sees(s, "green", "\"1\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    handover_sees(s, "blue", "\"2\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.waits, 1);
}

/* A pod may start at any time, and shows what its ConfigMap says then. */
static void test_a_shard_without_pods_holds_what_it_has(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "empty", "\"6\",\"7\",\"8\"");
    fixture_expect_generation(s, "empty", 1);
    handover_sees(s, "green", "\"4\",\"5\",\"6\"");
    handover_expect_waiting(s, "green", "n/empty");
    handover_sees(s, "empty", "\"7\"");
    fixture_expect_generation(s, "empty", 2);
    fixture_expect_generation(s, "green", 2);
}

/* Scale-out: a new shard has a config before it can have pods. */
static void test_a_new_shard_waits(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "red", "\"3\"");
    fixture_expect_generation(s, "blue", 2);
    handover_expect_waiting(s, "red", "blue-0");
    handover_shows_nothing(s, "red");
    handover_pod(s, "red-0", "red", "operator");
    handover_shows_nothing(s, "red");
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "red", 2);
}

/* What somebody else has put where its rules should stand is nothing that the shard has. */
static void test_somebody_elses_map_is_not_waited_for(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-teal\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"},\"ownerReferences\":[{"
                   "\"controller\":true,\"kind\":\"Deployment\",\"name\":\"d\",\"uid\":\"x\"}]},"
                   "\"data\":{\"rules.json\":\"{\\\"apiVersion\\\":\\\"cmesh/v1\\\",\\\"kind\\\":"
                   "\\\"ShardRules\\\",\\\"shard\\\":{\\\"namespace\\\":\\\"n\\\",\\\"name\\\":"
                   "\\\"teal\\\"},\\\"generation\\\":1,\\\"spec\\\":{\\\"limits\\\":[]}}\"}}");
    handover_sees(s, "teal", "\"8\"");
    fixture_expect_event(s, "teal", "PublishFailed", 1);
    handover_sees(s, "green", "\"4\",\"5\",\"6\"");
    fixture_expect_generation(s, "green", 2);
}

/* What keeps it from being published then is something else; afterwards the wait has its whole time
 * again. */
static void test_a_wait_begins_with_the_name(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-red\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"},\"ownerReferences\":[{"
                   "\"controller\":true,\"kind\":\"Deployment\",\"name\":\"d\",\"uid\":\"x\"}]},"
                   "\"data\":{\"x\":\"y\"}}");
    handover_sees(s, "red", "\"3\"");
    fixture_expect_event(s, "red", "PublishFailed", 1);
    assert_string_equal(fixture_condition(s, "red", "Published", "reason"), "NameTaken");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-red");
    fixture_settle(s);
    handover_expect_waiting(s, "red", "n/blue");
    assert_int_equal(s->counts.waits, 1);
}

/* Confirmed rules are of a generation, not only of these words. */
static void test_edited_and_taken_back(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\",\"3\",\"6\"");
    fixture_expect_generation(s, "blue", 2);
    handover_sees(s, "blue", "\"1\",\"2\",\"3\"");
    fixture_expect_generation(s, "blue", 3); /* blue-0 said that it enforces this, of 1 */
    handover_sees(s, "green", "\"4\",\"5\",\"6\"");
    handover_expect_waiting(s, "green", "blue-0");
    handover_stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* ---- for how long ---- */

/* A user may want two shards to see the same. */
static void test_it_waits_no_longer_than_that(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, SHORT_MS);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    fixture_expect_generation(s, "green", 2);
    fixture_expect_event(s, "green", "HandoverTimedOut", 1);
    both_published(s);
    assert_int_equal(s->counts.waits, 1);
    assert_int_equal(s->counts.late, 1);
    /* It is no gain any more. */
    handover_sees(s, "green", "\"3\",\"4\"");
    fixture_expect_generation(s, "green", 3);
    handover_sees(s, "blue", "\"1\",\"3\"");
    fixture_expect_generation(s, "blue", 2);
    both_published(s);
    assert_int_equal(s->counts.waits, 1);
}

static void test_a_silent_pod_is_waited_for(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, SHORT_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_forget_probes(s);
    fixture_expect_generation(s, "green", 2);
    fixture_expect_event(s, "green", "HandoverTimedOut", 1);
}

static void test_switched_off(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, 0);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "green", 2);
    assert_int_equal(s->counts.waits, 0);
}

/* ---- while it waits ---- */

static void test_it_is_edited_back(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    handover_sees(s, "green", "\"4\",\"5\"");
    fixture_expect_condition(s, "green", "Published", "True");
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "green"), 1);
    /* and blue, which has lost something, has it again */
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    handover_expect_waiting(s, "green", "n/blue");
    handover_sees(s, "blue", "\"1\",\"2\",\"3\"");
    fixture_expect_generation(s, "blue", 3);
    handover_stays_at(s, "green", 1);
}

static void test_another_edit_while_it_waits(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"4\""); /* gives 2 and 3, wants 4 */
    fixture_expect_generation(s, "blue", 2);
    handover_expect_waiting(s, "blue", "n/green");
    handover_sees(s, "blue", "\"1\",\"2\""); /* 4 no more, but 2 */
    fixture_expect_generation(s, "blue", 3);
    both_published(s);
    assert_null(strstr(fixture_rules(s, "blue"), "ns in (1,2,3)"));
}

static void test_the_other_one_is_deleted(void **state)
{
    struct fixture *s = *state;
    s->orphan_ms = 100;
    handover_begin(s, LONG_MS);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    handover_stays_at(s, "green", 1);
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "green", 2);
}

static void test_it_is_deleted(void **state)
{
    struct fixture *s = *state;
    s->orphan_ms = 300;
    handover_begin(s, LONG_MS);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    store_delete(&s->store, "shardingconfigs", "n", "green");
    store_delete(&s->store, "pods", "n", "green-0");
    fixture_await_gone(s, "configmaps", "cmesh-rules-green");
    handover_sees(s, "blue", "\"1\"");
    fixture_expect_generation(s, "blue", 2);
}

/* The ConfigMap is put right without what is waited for. */
static void test_a_map_that_is_deleted_meanwhile(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\",\"4\"");
    handover_sees(s, "green", "\"3\",\"5\"");
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
    handover_begin(s, LONG_MS);
    handover_sees(s, "green", old);
    fixture_expect_generation(s, "green", 2);
    fixture_enforces(s, "green-0", "green");
    handover_sees(s, "green", new);
    handover_expect_waiting(s, "green", "n/blue");
    handover_stays_at(s, "green", 2);
    handover_sees(s, "blue", "\"1\"");
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
    handover_begin(s, LONG_MS);
    s->strict = true;
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"all\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"all\"}},\"limits\":[]}}");
    handover_expect_waiting(s, "all", "n/blue");
    handover_shows_nothing(s, "all");
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
    handover_begin(s, LONG_MS);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    fixture_settle(s);
    overwrite(s, "green", 2, "");
    fixture_expect_generation(s, "green", 3);
    assert_non_null(strstr(fixture_rules(s, "green"), "ns in (4,5)"));
    fixture_settle(s);
    overwrite(s, "green", 4, PODS_OF("3,4,5"));
    fixture_expect_generation(s, "green", 5);
    assert_non_null(strstr(fixture_rules(s, "green"), "ns in (4,5)"));
    handover_expect_waiting(s, "green", "n/blue");
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
    handover_begin(s, LONG_MS);
    fixture_retire(s);
    char *large = many("\"6\"", "old", 17000);
    handover_sees(s, "empty", large);
    put_later_rules(s, "empty");
    handover_sees(s, "green", "\"4\",\"5\",\"6\"");
    fixture_lead(s);
    handover_expect_waiting(s, "green", "n/empty");
    handover_stays_at(s, "green", 1);
    handover_sees(s, "empty", "\"7\"");
    fixture_expect_generation(s, "empty", 1);
    fixture_expect_generation(s, "green", 2);
    free(large);
}

static void test_two_that_cannot_be_read(void **state)
{
    struct fixture *s = *state;
    put_later_rules(s, "blue");
    put_later_rules(s, "green");
    handover_sees(s, "blue", "\"1\"");
    handover_sees(s, "green", "\"2\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
}

/* ---- leaders ---- */

static void test_the_next_leader_goes_on(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\",\"4\"");
    handover_sees(s, "green", "\"3\",\"5\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_generation(s, "green", 2);
    handover_expect_waiting(s, "blue", "n/green");
    handover_expect_waiting(s, "green", "n/blue");
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
    handover_begin(s, LONG_MS);
    handover_sees(s, "blue", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 2);
    fixture_settle(s);
    fixture_retire(s);
    fixture_lead(s);
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    handover_expect_waiting(s, "green", "n/blue");
    handover_stays_at(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "green", 2);
}

/* Pods are asked before anything is given. */
static void test_a_leader_that_has_asked_nobody(void **state)
{
    struct fixture *s = *state;
    handover_begin(s, LONG_MS);
    fixture_retire(s);
    handover_sees(s, "blue", "\"1\",\"2\"");
    handover_sees(s, "green", "\"3\",\"4\",\"5\"");
    for (size_t i = 0; i < FIXTURE_PROBES; i++) {
        s->entries[i].result = (struct probe_result){.state = PROBE_WAITING};
    }
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 2);
    handover_stays_at(s, "green", 1);
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
    handover_begin(s, LONG_MS);
    for (unsigned i = 0; i < 6; i++) {
        bool there = i % 2 == 0;
        uint64_t blue = fixture_generation(s, "blue");
        uint64_t green = fixture_generation(s, "green");
        store_fail(&s->store, there ? "cmesh-rules-blue" : "cmesh-rules-green",
                   faults[i / 2] == STORE_NONE ? 500 : 0, faults[i / 2], 1);
        handover_sees(s, "green", there ? "\"3\",\"4\",\"5\"" : "\"4\",\"5\"");
        handover_sees(s, "blue", there ? "\"1\",\"2\"" : "\"1\",\"2\",\"3\"");
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
        TEST(test_a_leader_that_has_asked_nobody),
        TEST(test_writes_that_fail),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
