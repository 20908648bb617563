/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shard shows while the lock of its operator changes, and when everything is left to it.
 */
#include "base/log.h"
#include "handover_fixture.h"

/* Blue, that had none: it shows nothing until its pod has confirmed that. */
static void gets_lock(struct fixture *s)
{
    fixture_expect_generation(s, "blue", 2);
    handover_expect_waiting(s, "blue", "pod blue-0 of shard n/blue (has not confirmed the lock");
    handover_shows_nothing_at(s, "blue", 2);
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

/* Its pods would compete for the operator's lock with the pod, and see nothing. */
static void test_leaving_beside_a_pod_without_a_sidecar(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    handover_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 4);
    leaves(s, "blue", "lead");
    fixture_expect_condition(s, "blue", "Published", "False");
    handover_stays_at(s, "blue", 4);
    assert_non_null(strstr(fixture_rules(s, "blue"), "\"name\":\"lead\""));
    assert_null(strstr(fixture_rules(s, "blue"), "\"limits\":[]"));
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
    handover_begin_strict(s, LONG_MS);
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    handover_pod(s, "blue-1", "blue", "operator");
    fixture_enforces(s, "blue-1", "blue");
    hold(s, "lead---blue", "blue-0_x", "2026-01-01T00:00:00.000000Z");
    store_delete(&s->store, "shardingconfigs", "n", "green");
    store_delete(&s->store, "pods", "n", "green-0");
    fixture_settle(s);
    leaves(s, "blue", "lead");
    handover_shows_nothing_at(s, "blue", 4);
    assert_null(strstr(fixture_rules(s, "blue"), "leaderElection"));
    handover_expect_waiting(s, "blue", "pod blue-1 of shard n/blue (has not confirmed the lock");
    fixture_enforces(s, "blue-0", "blue");
    handover_stays_at(s, "blue", 4);
    fixture_enforces(s, "blue-1", "blue");
    handover_expect_waiting(s, "blue",
                            "its leader by the lock that it had before may not have given up");
    hold(s, "lead---blue", "blue-0_x", "2026-01-01T00:00:02.000000Z");
    handover_stays_at(s, "blue", 4);
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
    handover_stays_at(s, "blue", 4);
    hold(s, "lead", "blue-1_x", "2026-01-01T00:00:04.000000Z");
    handover_stays_at(s, "blue", 4);
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
    handover_expect_waiting(s, "blue", "pod blue-1 of shard n/blue (has not confirmed the lock");
    fixture_enforces(s, "blue-1", "blue");
    handover_expect_waiting(s, "blue",
                            "its leader by the lock that it had before may not have given up");
    handover_stays_at(s, "blue", 4);
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
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    handover_shows_nothing_at(s, "blue", 5);
    fixture_expect_rules(s, "blue", "\"name\":\"lead\"");
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "blue-1", "blue");
    handover_expect_waiting(s, "blue",
                            "its leader by the lock that it had before may not have given up");
    handover_stays_at(s, "blue", 5);
    give_back(s, "lead");
    fixture_expect_generation(s, "blue", 6);
    fixture_expect_rules(s, "blue", "ns in (1,2,3)");
}

/* Who led by the first lock may do so still, whichever lock it was that came last. */
static void test_a_lock_that_changes_twice(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    handover_sees_with_lock(s, "blue", "lead2", "\"1\",\"2\",\"3\"");
    handover_shows_nothing_at(s, "blue", 5);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "blue-1", "blue");
    handover_expect_waiting(s, "blue",
                            "its leader by the lock that it had before may not have given up");
    run_for(s->store.api.loop, SHORT_MS);
    handover_stays_at(s, "blue", 5);
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
    handover_stays_at(s, "blue", 4);
}

static void test_leaving_when_a_person_empties_the_old_lock(void **state)
{
    struct fixture *s = *state;
    begin_to_leave(s);
    hold(s, "lead---blue", "", "2026-01-01T00:00:02.000000Z");
    run_for(s->store.api.loop, SHORT_MS);
    handover_stays_at(s, "blue", 4);
}

/* The manager hears late of what happens to the Lease. */
static void test_leaving_when_the_watch_is_behind(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    store_delete(&s->store, "shardingconfigs", "n", "green");
    store_delete(&s->store, "pods", "n", "green-0");
    give_back(s, "lead---blue");
    fixture_settle(s);
    leaves(s, "blue", "lead");
    handover_shows_nothing_at(s, "blue", 4);
    s->store.silent = true;
    hold(s, "lead---blue", "blue-0_x", "2026-01-01T00:00:01.000000Z");
    fixture_enforces(s, "blue-0", "blue");
    run_for(s->store.api.loop, SHORT_MS);
    handover_stays_at(s, "blue", 4);
}

static void test_leaving_when_the_old_lock_cannot_be_read(void **state)
{
    struct fixture *s = *state;
    s->store.refused.part = "lead---blue";
    s->store.refused.status = 403;
    begin_to_leave(s);
    handover_expect_waiting(s, "blue", "/namespaces/n/leases: 403 Forbidden");
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
    handover_pod(s, "blue-0", "blue", "operator");
    sees_with_shared(s, "blue");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_enforces(s, "blue-0", "blue");
    handover_bare_pod(s, "");
    fixture_settle(s);
    sees_with_shared(s, "");
    fixture_expect_generation(s, "blue", 2);
    fixture_expect_rules(s, "blue", "\"name\":\"lead\"");
    fixture_retire(s);
    store_delete(&s->store, "pods", "n", "new-0");
    fixture_lead(s);
    fixture_settle(s);
    handover_expect_waiting(s, "blue", "pod blue-0 of shard n/blue (has not confirmed the lock");
    handover_stays_at(s, "blue", 2);
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
    handover_begin_strict(s, LONG_MS);
    handover_bare_pod(s, "");
    fixture_expect_generation(s, "blue", 2);
    handover_bare_pod(s, "true");
    fixture_expect_generation(s, "blue", 3);
}

static void test_a_lock_that_is_renamed(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    handover_pod(s, "red-0", "red", "operator");
    handover_sees_with_lock(s, "red", "lead2", "\"3\"");
    handover_expect_waiting(
        s, "red", "shard n/blue (its spec selects it too, with another leaderElectionName");
    handover_expect_waiting(s, "red", "ends 30 s after the last edit");
    handover_expect_no_pods(s, "red");
    handover_sees_with_lock(s, "blue", "lead2", "\"1\",\"2\"");
    fixture_expect_generation(s, "blue", 4);
    handover_expect_waiting(s, "red", "pod blue-0 of shard n/blue (has not confirmed");
    handover_shows_nothing(s, "red");
    fixture_enforces(s, "blue-0", "blue");
    fixture_expect_generation(s, "red", 2);
    fixture_expect_generation(s, "blue", 5);
    fixture_expect_rules(s, "blue", "ns in (1,2)");
}

/* What two operators select for long, as their specs say, is of both. */
static void test_doubt_ends(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, SHORT_MS); /* which is less than OWNERSHIP_DOUBT_MS */
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    handover_pod(s, "red-0", "red", "operator");
    handover_sees_with_lock(s, "red", "lead2", "\"3\"");
    handover_expect_waiting(s, "red", "shard n/blue (its spec selects it too, with another");
    handover_stays_at(s, "red", 0); /* which is short */
    fixture_expect_generation(s, "red", 1);
    fixture_enforces(s, "red-0", "red");
    fixture_expect_condition(s, "red", "Enforced", "True");
    fixture_settle(s);
    handover_sees_with_lock(s, "red", "lead2", "\"2\",\"3\""); /* an edit is a doubt again */
    handover_expect_waiting(s, "red", "shard n/blue (its spec selects it too, with another");
    fixture_expect_generation(s, "red", 2);
    fixture_expect_event(s, "red", "HandoverTimedOut", 0);
    fixture_expect_event(s, "red", "HandoverBlocked", 0);
    assert_int_equal(s->counts.late, 0);
}

/* With all that tells whose it was, but its pods. */
static void test_a_shard_that_is_renamed_with_its_lock(void **state)
{
    struct fixture *s = *state;
    handover_begin_strict(s, LONG_MS);
    handover_sees_with_lock(s, "blue", "lead", "\"1\",\"2\",\"3\"");
    gets_lock(s);
    store_delete(&s->store, "shardingconfigs", "n", "blue");
    handover_sees_with_lock(s, "red", "lead2", "\"1\",\"2\",\"3\"");
    handover_pod(s, "red-0", "red", "operator");
    handover_expect_waiting(s, "red", "pod blue-0 of shard n/blue, which was deleted");
    handover_shows_nothing(s, "red");
    store_delete(&s->store, "pods", "n", "blue-0");
    fixture_expect_generation(s, "red", 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_leaving_beside_a_pod_without_a_sidecar),
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
        TEST(test_a_lock_that_is_renamed),
        TEST(test_a_shard_that_is_renamed_with_its_lock),
        TEST(test_doubt_ends),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
