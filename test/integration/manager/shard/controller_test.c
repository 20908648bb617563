/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller and its cache against a small API server; proxies are played by the test.
 */
#include "shard/controller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "compile/compile.h"
#include "controller_scene.h"
#include "json/field.h"

/* ---- the usual way ---- */

static void test_apply_edit(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_text(s, "configmaps", "cmesh-rules-a",
                      "metadata/labels/ctrlmesh.kusionstack.io~rules", "true");
    const cJSON *map = store_get(&s->store, "configmaps", "n", "cmesh-rules-a");
    const cJSON *config = store_get(&s->store, "shardingconfigs", "n", "a");
    assert_string_equal(store_text(map, "metadata/ownerReferences/0/uid"),
                        store_text(config, "metadata/uid"));
    assert_string_equal(store_text(map, "metadata/ownerReferences/0/kind"), "ShardingConfig");
    assert_int_equal(scene_generation(s, "a"), 1);
    scene_expect_text(s, "pods", "a-0",
                      "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", "1");
    scene_expect_condition(s, "a", "Published", "True");
    scene_expect_condition(s, "a", "Enforced", "False");
    scene_enforces(s, "a-0", "a");
    scene_expect_condition(s, "a", "Enforced", "True");
    scene_expect_event(s, "a", "Published", 1);
    scene_expect_event(s, "a", "Enforced", 1);

    scene_config(s, "a", "pods", "app=b");
    scene_expect_generation(s, "a", 2);
    scene_expect_text(s, "pods", "a-0",
                      "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", "2");
    scene_expect_condition(s, "a", "Enforced", "False");
    scene_enforces(s, "a-0", "a");
    scene_expect_condition(s, "a", "Enforced", "True");
}

static void test_nothing_is_written_when_nothing_changed(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_enforces(s, "a-0", "a");
    scene_expect_condition(s, "a", "Enforced", "True");
    scene_settle(s);
    unsigned writes = s->store.writes;
    unsigned requests = s->store.requests;
    store_end_watches(&s->store);
    run_for(s->store.api.loop, 300);
    scene_retire(s);
    scene_lead(s);
    scene_settle(s);
    assert_int_equal(s->store.writes, writes);
    assert_int_equal(s->store.requests, requests);
}

static void test_bad_spec(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    char *before = strdup(scene_rules(s, "a"));
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{\"matchLabels\":"
                   "{\"shard\":\"a\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}]}]}}");
    scene_expect_condition(s, "a", "Compiled", "False");
    scene_expect_event(s, "a", "CompileFailed", 1);
    assert_string_equal(scene_rules(s, "a"), before);
    assert_int_equal(scene_generation(s, "a"), 1);
    free(before);
    scene_config(s, "a", "pods", "app=b");
    scene_expect_condition(s, "a", "Compiled", "True");
    scene_expect_generation(s, "a", 2);
}

static void test_no_sidecar(void **state)
{
    struct scene *s = *state;
    scene_plain_pod(s, "a-0", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_condition(s, "a", "Enforced", "False");
    scene_settle(s);
    assert_string_equal(scene_text(s, "pods", "a-0",
                                   "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation"),
                        "");
}

static void test_overlap_is_seen_on_both(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_config_for(s, "b", "pods", "app=b", "a");
    scene_lead(s);
    scene_expect_condition(s, "a", "Enforced", "False");
    scene_expect_condition(s, "b", "Enforced", "False");
    scene_expect_generation(s, "b", 1);
    scene_enforces(s, "a-0", "a");
    scene_settle(s);
    assert_non_null(strstr(scene_condition(s, "a", "Enforced", "message"), "b"));
    assert_non_null(strstr(scene_condition(s, "b", "Enforced", "message"), "a"));
    /* Told of by the shard whose sidecars it has alone. */
    scene_config(s, "b", "pods", "app=c");
    scene_expect_generation(s, "b", 2);
    scene_settle(s);
    assert_string_equal(scene_text(s, "pods", "a-0",
                                   "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation"),
                        "1");
}

static void test_pods_that_are_not_selected_any_more(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_told(s, "a-0", 1);
    scene_config_for(s, "a", "pods", "app=b", "other");
    scene_expect_told(s, "a-0", 2);
}

/* ---- what others do to the ConfigMap ---- */

static void test_deleted_map_comes_back(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_condition(s, "a", "Published", "True");
    scene_config(s, "a", "pods", "app=b");
    scene_expect_generation(s, "a", 2);
    scene_settle(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    scene_expect_generation(s, "a", 2);
    /* and by a leader that knows nothing of it */
    scene_settle(s);
    scene_retire(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    scene_lead(s);
    scene_expect_generation(s, "a", 2);
}

static void test_edited_map_is_put_right(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_settle(s);
    scene_set_rules(
        s, "a",
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
        "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":1,\"spec\":{\"limits\":[]}}");
    scene_expect_generation(s, "a", 2);
    assert_non_null(strstr(scene_rules(s, "a"), "app=a"));
    scene_settle(s);
    scene_set_rules(s, "a", "nonsense");
    scene_expect_text(s, "configmaps", "cmesh-rules-a", "metadata/name", "cmesh-rules-a");
    scene_settle(s);
    assert_non_null(strstr(scene_rules(s, "a"), "app=a"));
    assert_int_equal(scene_generation(s, "a"), 2);
}

static void test_label_is_put_back(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_settle(s);
    cJSON *map = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", "cmesh-rules-a"), true);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(map, "metadata"), "labels");
    store_put(&s->store, "configmaps", "n", map);
    scene_expect_text(s, "configmaps", "cmesh-rules-a",
                      "metadata/labels/ctrlmesh.kusionstack.io~rules", "true");
    assert_int_equal(scene_generation(s, "a"), 1);
}

/* `more`: of its metadata. */
static void somebody_elses_map(struct scene *s, const char *more)
{
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\"%s},\"data\":{\"x\":\"y\"}}", more);
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_condition(s, "a", "Published", "False");
    scene_expect_event(s, "a", "PublishFailed", 1);
    assert_non_null(strstr(scene_condition(s, "a", "Published", "message"), "cmesh-rules-a"));
    assert_string_equal(scene_text(s, "configmaps", "cmesh-rules-a", "data/x"), "y");
    assert_string_equal(scene_rules(s, "a"), "");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    scene_expect_condition(s, "a", "Published", "True");
}

static void test_somebody_elses_map(void **state)
{
    somebody_elses_map(*state, "");
}

/* The cache, which has all with this label, shows it. */
static void test_somebody_elses_map_with_our_label(void **state)
{
    somebody_elses_map(*state, ",\"labels\":{\"ctrlmesh.kusionstack.io/rules\":\"true\"},"
                               "\"ownerReferences\":[{\"controller\":true,\"kind\":\"Deployment\","
                               "\"name\":\"d\",\"uid\":\"other\"}]");
}

static void test_too_large(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_config_in(s, "a", 60000);
    scene_expect_condition(s, "a", "Published", "False");
    assert_non_null(strstr(scene_condition(s, "a", "Published", "message"), "1048576"));
    assert_int_equal(scene_generation(s, "a"), 1);
    scene_config(s, "a", "pods", "app=b");
    scene_expect_generation(s, "a", 2);
    scene_expect_condition(s, "a", "Published", "True");
}

/* ---- generations never go back ---- */

static void test_made_again(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_config(s, "a", "pods", "app=b");
    scene_expect_generation(s, "a", 2);
    scene_expect_text(s, "pods", "a-0",
                      "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", "2");
    scene_enforces(s, "a-0", "a");
    scene_expect_condition(s, "a", "Enforced", "True");
    store_delete(&s->store, "shardingconfigs", "n", "a");
    scene_expect_event(s, "a-0", "RulesKept", 1);
    scene_expect_event(s, "a", "RulesKept", 1);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    scene_settle(s);
    scene_retire(s);
    scene_lead(s);
    scene_forget_probes(s);
    scene_config(s, "a", "pods", "app=c");
    scene_expect_generation(s, "a", 3);
}

static void test_a_proxy_knows_more(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_probe(s, "a-0", "a", 7, "sha256:other");
    scene_expect_generation(s, "a", 8);
    /* the same generation, other rules */
    scene_probe(s, "a-0", "a", 8, "sha256:other");
    scene_expect_generation(s, "a", 9);
}

/* Nothing but the pod knows: the last leader died before it could tell it by the annotation, and
 * the ConfigMap went with its config. */
static void test_pods_are_asked_first(void **state)
{
    struct scene *s = *state;
    s->slow_pods = true;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_settle(s);
    assert_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-a"));
    scene_probe(s, "a-0", "a", 7, "sha256:other");
    scene_expect_generation(s, "a", 8);
}

static void test_next_leader_goes_on(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    for (unsigned i = 1; i < 6; i++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=v%u", i);
        scene_config(s, "a", "pods", selector);
        scene_lead(s);
        scene_expect_generation(s, "a", i);
        assert_non_null(strstr(scene_rules(s, "a"), selector));
        scene_retire(s);
    }
}

/* ---- failures ---- */

static const char *const kinds[] = {"configmaps", "/pods/", "/status", "/events"};

static void test_every_failure_is_tried_again(void **state)
{
    struct scene *s = *state;
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {
        {403, STORE_NONE}, {409, STORE_NONE}, {422, STORE_NONE},   {500, STORE_NONE},
        {404, STORE_NONE}, {0, STORE_CUT},    {0, STORE_CUT_DONE},
    };
    unsigned round = 0;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (size_t f = 0; f < ARRAY_LEN(faults); f++) {
            char selector[32];
            scene_enforces(s, "a-0", "a");
            scene_expect_condition(s, "a", "Enforced", "True");
            scene_await_quiet(s, 40);
            uint64_t before = scene_generation(s, "a");
            (void)snprintf(selector, sizeof selector, "app=f%u", ++round);
            store_fail(&s->store, kinds[k], faults[f].status, faults[f].fault,
                       faults[f].fault == STORE_CUT_DONE ? 1 : 2);
            scene_config(s, "a", "pods", selector);
            scene_expect_rules(s, "a", selector);
            if (strcmp(kinds[k], "/events") != 0) { /* of which one object gets so many only */
                scene_await_fault(s);
            }
            /* One that was cut off after it was done is known to be done. */
            assert_int_equal(scene_generation(s, "a"), before + 1);
            scene_expect_told(s, "a-0", before + 1);
        }
    }
}

static void test_leader_lost_in_the_middle(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    uint64_t last = 0;
    for (unsigned round = 0; round < 3 * 3; round++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=l%u", round);
        scene_config(s, "a", "pods", selector);
        store_fail(&s->store, kinds[round % 3], 0, round / 3 == 0 ? STORE_HOLD : STORE_CUT_DONE, 1);
        scene_lead(s);
        scene_await_fault(s);
        scene_retire(s);
        s->holds = false;
        run_for(s->store.api.loop, 20);
        unsigned writes = s->store.writes;
        run_for(s->store.api.loop, 50);
        assert_int_equal(s->store.writes, writes); /* nothing without the lead */
        scene_lead(s);
        scene_expect_rules(s, "a", selector);
        scene_expect_told(s, "a-0", scene_generation(s, "a"));
        assert_true(scene_generation(s, "a") > last);
        last = scene_generation(s, "a");
        scene_enforces(s, "a-0", "a");
        scene_expect_condition(s, "a", "Enforced", "True");
        scene_retire(s);
    }
    assert_int_equal(last, 9);
}

static void test_freed_at_any_moment(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    for (unsigned ms = 0; ms < 40; ms++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=t%u", ms);
        scene_config(s, "a", "pods", selector);
        scene_lead(s);
        run_for(s->store.api.loop, ms / 2);
        scene_retire(s);
    }
    scene_lead(s);
    scene_expect_rules(s, "a", "app=t39");
    scene_expect_told(s, "a-0", scene_generation(s, "a"));
    assert_true(scene_generation(s, "a") <= 40);
}

/* What generations were seen to mean. */
struct meanings {
    char checksums[64][RULES_CHECKSUM_LEN + 1];
    uint64_t last;
};

static void look_at_generation(struct scene *s, struct meanings *m)
{
    const char *text = scene_rules(s, "a");
    struct rules *rules = rules_parse(text, strlen(text), NULL);
    if (rules == NULL) {
        return;
    }
    uint64_t generation = rules_generation(rules);
    assert_true(generation >= m->last && generation < 64);
    m->last = generation;
    char *seen = m->checksums[generation];
    assert_true(seen[0] == '\0' || strcmp(seen, rules_checksum(rules)) == 0);
    (void)snprintf(seen, RULES_CHECKSUM_LEN + 1, "%s", rules_checksum(rules));
    rules_unref(rules);
}

/* It cannot be, but if it were, no generation would go back or mean two things. */
static void test_two_leaders(void **state)
{
    struct scene *s = *state;
    struct meanings m = {.last = 0};
    struct err e = ERR_INIT;
    struct shard_cache_options o = {.client = s->store.api.client,
                                    .prefix = "ctrlmesh.kusionstack.io"};
    struct shard_cache *other_world = shard_cache_new(s->store.api.loop, &o, &e);
    assert_non_null(other_world);
    struct controller *other = scene_controller(s, other_world);
    assert_non_null(other);
    scene_pod(s, "a-0", "a", "a");
    scene_lead(s);
    for (unsigned i = 0; i < 30; i++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=w%u", i);
        scene_config(s, "a", "pods", selector);
        for (unsigned ms = 0; ms < 1 + i % 7; ms++) {
            run_for(s->store.api.loop, 1);
            look_at_generation(s, &m);
        }
    }
    scene_expect_rules(s, "a", "app=w29");
    scene_expect_told(s, "a-0", scene_generation(s, "a"));
    scene_expect_condition(s, "a", "Published", "True");
    look_at_generation(s, &m);
    assert_true(m.last <= 30);
    controller_free(other);
    shard_cache_free(other_world);
}

static void test_nothing_is_written_without_the_lease(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    s->holds = false;
    unsigned writes = s->store.writes;
    scene_lead_without(s);
    run_for(s->store.api.loop, 500);
    assert_int_equal(s->store.writes, writes);
    s->holds = true;
    scene_expect_generation(s, "a", 1);
}

static void test_orphan_is_deleted(void **state)
{
    struct scene *s = *state;
    scene_config(s, "a", "pods", "app=a");
    scene_config(s, "b", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_expect_generation(s, "b", 1);
    scene_settle(s);
    store_delete(&s->store, "shardingconfigs", "n", "a");
    scene_await_gone(s, "configmaps", "cmesh-rules-a");
    assert_non_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-b"));
    /* that it is gone is found out by a leader that never knew it */
    scene_pod(s, "b-0", "b", "b");
    scene_config(s, "c", "pods", "app=a"); /* so that the pods are known */
    scene_settle(s);
    scene_retire(s);
    store_delete(&s->store, "shardingconfigs", "n", "b");
    scene_lead(s);
    scene_await_gone(s, "configmaps", "cmesh-rules-b");
    scene_expect_event(s, "b-0", "RulesKept", 1);
    scene_expect_event(s, "b", "RulesKept", 1);
}

static unsigned long told_pods(struct scene *s)
{
    static const char name[] = "workqueue_adds_total{name=\"pods\"} ";
    struct buf out = BUF_INIT(1024 * 1024);
    assert_int_equal(controller_metrics(s->controller, &s->counts, &out), 0);
    unsigned long adds = strtoul(strstr(buf_cstr(&out), name) + sizeof name - 1, NULL, 10);
    buf_reset(&out);
    return adds;
}

/* Each look at a shard would be as expensive as it has pods. */
static void test_pods_that_know_are_not_told_again(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_told(s, "a-0", 1);
    scene_settle(s);
    unsigned long before = told_pods(s);
    scene_enforces(s, "a-0", "a");
    scene_expect_condition(s, "a", "Enforced", "True");
    assert_int_equal(told_pods(s), before);
}

static void test_metrics(void **state)
{
    struct scene *s = *state;
    scene_pod(s, "a-0", "a", "a");
    scene_config(s, "a", "pods", "app=a");
    scene_lead(s);
    scene_expect_generation(s, "a", 1);
    scene_enforces(s, "a-0", "a");
    scene_expect_condition(s, "a", "Enforced", "True");
    scene_settle(s);
    struct buf out = BUF_INIT(1024 * 1024);
    assert_int_equal(shard_cache_metrics(s->cache, &out), 0);
    assert_int_equal(controller_metrics(s->controller, &s->counts, &out), 0);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "cmesh_manager_shards{state=\"enforced\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_manager_shards_published 1\n"));
    assert_non_null(
        strstr(text, "cmesh_manager_writes_total{what=\"configmap\",result=\"written\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_manager_enforce_seconds_count 1\n"));
    assert_non_null(strstr(text, "cmesh_manager_known_pods 1\n"));
    assert_non_null(strstr(text, "workqueue_depth{name=\"shards\"} 0\n"));
    buf_clear(&out);
    assert_int_equal(controller_metrics(NULL, &s->counts, &out), 0);
    assert_null(strstr(buf_cstr(&out), "workqueue"));
    buf_reset(&out);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_apply_edit),
        TEST(test_nothing_is_written_when_nothing_changed),
        TEST(test_bad_spec),
        TEST(test_no_sidecar),
        TEST(test_overlap_is_seen_on_both),
        TEST(test_pods_that_are_not_selected_any_more),
        TEST(test_deleted_map_comes_back),
        TEST(test_edited_map_is_put_right),
        TEST(test_label_is_put_back),
        TEST(test_somebody_elses_map),
        TEST(test_somebody_elses_map_with_our_label),
        TEST(test_too_large),
        TEST(test_made_again),
        TEST(test_a_proxy_knows_more),
        TEST(test_pods_are_asked_first),
        TEST(test_next_leader_goes_on),
        TEST(test_every_failure_is_tried_again),
        TEST(test_leader_lost_in_the_middle),
        TEST(test_freed_at_any_moment),
        TEST(test_two_leaders),
        TEST(test_nothing_is_written_without_the_lease),
        TEST(test_orphan_is_deleted),
        TEST(test_pods_that_know_are_not_told_again),
        TEST(test_metrics),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
