/* SPDX-License-Identifier: Apache-2.0 */
#include "handover_fixture.h"

void handover_sees(struct fixture *s, const char *name, const char *values)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchExpressions\":[{\"key\":\"ns\","
                   "\"operator\":\"In\",\"values\":[%s]}]}}]}}",
                   name, name, values);
}

void handover_pod(struct fixture *s, const char *name, const char *shard, const char *account)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"},\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"%s\"}},\"spec\":{"
                   "\"serviceAccountName\":\"%s\",\"containers\":[{\"name\":\"cmesh-localproxy\"},"
                   "{\"name\":\"operator\"}]},\"status\":{\"podIP\":\"10.0.0.1\",\"conditions\":[{"
                   "\"type\":\"Ready\",\"status\":\"True\"}]}}",
                   name, shard, shard, account);
}

void handover_begin(struct fixture *s, uint64_t handover_ms)
{
    s->handover_ms = handover_ms;
    handover_pod(s, "blue-0", "blue", "operator");
    handover_pod(s, "green-0", "green", "operator");
    handover_sees(s, "blue", "\"1\",\"2\",\"3\"");
    handover_sees(s, "green", "\"4\",\"5\"");
    fixture_lead(s);
    fixture_expect_generation(s, "blue", 1);
    fixture_expect_generation(s, "green", 1);
    fixture_enforces(s, "blue-0", "blue");
    fixture_enforces(s, "green-0", "green");
    fixture_expect_condition(s, "blue", "Enforced", "True");
    fixture_expect_condition(s, "green", "Enforced", "True");
    fixture_settle(s);
}

void handover_expect_waiting(struct fixture *s, const char *shard, const char *other)
{
    fixture_expect_condition(s, shard, "Published", "False");
    assert_string_equal(fixture_condition(s, shard, "Published", "reason"), "WaitingForHandover");
    assert_non_null(strstr(fixture_condition(s, shard, "Published", "message"), other));
    assert_string_equal(fixture_condition(s, shard, "Enforced", "reason"), "NotPublished");
}

void handover_expect_no_pods(struct fixture *s, const char *shard)
{
    assert_null(strstr(fixture_condition(s, shard, "Published", "message"), "let-go"));
}

void handover_stays_at(struct fixture *s, const char *shard, uint64_t generation)
{
    run_for(s->store.api.loop, PAUSE_MS);
    assert_int_equal(fixture_generation(s, shard), generation);
}

void handover_shows_nothing_at(struct fixture *s, const char *shard, uint64_t generation)
{
    fixture_expect_generation(s, shard, generation);
    assert_non_null(strstr(fixture_rules(s, shard), "\"selector\":\"k,!k\""));
    handover_stays_at(s, shard, generation);
}

void handover_shows_nothing(struct fixture *s, const char *shard)
{
    handover_shows_nothing_at(s, shard, 1);
}

void handover_begin_strict(struct fixture *s, uint64_t handover_ms)
{
    s->strict = true;
    s->orphan_ms = 100;
    handover_begin(s, handover_ms);
}

void handover_sees_with_lock(struct fixture *s, const char *name, const char *lock,
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

void handover_bare_pod(struct fixture *s, const char *let_go)
{
    store_put_text(&s->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"new-0\",\"labels\":{\"shard\":\"blue\"},"
                   "\"annotations\":{\"ctrlmesh.kusionstack.io/let-go\":\"%s\"}},\"spec\":{"
                   "\"serviceAccountName\":\"operator\",\"containers\":[{\"name\":\"operator\"}]}}",
                   let_go);
}
