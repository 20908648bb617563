/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deployments are rolled pod by pod, against a small API server. Their controller is played as
 * Kubernetes has it, with maxSurge 1 and maxUnavailable 0.
 */
#include "rolling/deployment_roller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "json/field.h"

#include "../shard/controller_fixture.h"

#define PREFIX "ctrlmesh.kusionstack.io"
#define STATUS "metadata/annotations/" PREFIX "~roll-status"
#define SHARD "x-1-normal"
#define ONE_BY_ONE "\"maxSurge\":1,\"maxUnavailable\":0"

enum { REPLICAS = 3, PODS_MAX = 16, PATIENCE_TURNS = 3000, TURN_MS = 2, STEP_MS = 100 };

struct world {
    struct fixture f;
    struct deployment_roller *roller;
    const char *template; /* of the Deployment */
    bool ready[PODS_MAX];
    const char *made_of[PODS_MAX]; /* NULL: it is not there */
    unsigned made;
    unsigned most; /* pods at a time */
    bool away;     /* the Deployment's controller */
};

static struct storing_api *store(struct world *w)
{
    return &w->f.store;
}

static const cJSON *deployment(struct world *w)
{
    return store_get(store(w), "deployments", "n", "op");
}

/* ---- pods ---- */

static void put_pod(struct world *w, unsigned i)
{
    store_put_text(store(w), "pods", "n",
                   "{\"metadata\":{\"name\":\"op-%u\",\"labels\":{\"app\":\"op\",\"pod-template-"
                   "hash\":\"%s\"},"
                   "\"annotations\":{\"" PREFIX "/sharding-config-injected\":\"" SHARD "\"},"
                   "\"ownerReferences\":[{\"uid\":\"%s\",\"controller\":true}]},\"spec\":{"
                   "\"containers\":[{\"name\":\"cmesh-localproxy\"}]},\"status\":{\"podIP\":"
                   "\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]}}",
                   i, w->made_of[i], w->made_of[i], w->ready[i] ? "True" : "False");
}

static void make_pod(struct world *w, bool ready)
{
    unsigned i = w->made++;
    assert_true(i < PODS_MAX);
    w->made_of[i] = w->template;
    w->ready[i] = ready;
    put_pod(w, i);
}

static unsigned count(const struct world *w, const char *template, bool ready)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->made; i++) {
        bool is =
            w->made_of[i] != NULL && (template == NULL || strcmp(w->made_of[i], template) == 0);
        n += is && (!ready || w->ready[i]);
    }
    return n;
}

/* The newest pod is ready, and enforces what is published. */
static void become_well(struct world *w)
{
    char name[16];
    unsigned i = w->made - 1;
    (void)snprintf(name, sizeof name, "op-%u", i);
    w->ready[i] = true;
    put_pod(w, i);
    run_for(store(w)->api.loop, TURN_MS);
    fixture_enforces(&w->f, name, SHARD);
}

/* ---- the Deployment's controller ---- */

/* One that is not ready first. */
static void remove_old(struct world *w)
{
    bool ready = count(w, NULL, true) - count(w, w->template, true) ==
                 count(w, NULL, false) - count(w, w->template, false);
    for (unsigned i = 0; i < w->made; i++) {
        if (w->made_of[i] != NULL && strcmp(w->made_of[i], w->template) != 0 &&
            w->ready[i] == ready) {
            char name[16];
            (void)snprintf(name, sizeof name, "op-%u", i);
            w->made_of[i] = NULL;
            store_delete(store(w), "pods", "n", name);
            return;
        }
    }
}

static void report(struct world *w)
{
    char text[256];
    const cJSON *generation = field_get(field_get(deployment(w), "metadata"), "generation");
    (void)snprintf(text, sizeof text,
                   "{\"observedGeneration\":%d,\"replicas\":%u,\"updatedReplicas\":%u,"
                   "\"availableReplicas\":%u}",
                   generation->valueint, count(w, NULL, false), count(w, w->template, false),
                   count(w, NULL, true));
    cJSON *status = cJSON_Parse(text);
    if (!cJSON_Compare(status, field_get(deployment(w), "status"), true)) {
        cJSON *copy = cJSON_Duplicate(deployment(w), true);
        cJSON_DeleteItemFromObject(copy, "status");
        assert_true(cJSON_AddItemToObject(copy, "status", status));
        store_put(store(w), "deployments", "n", copy);
    } else {
        cJSON_Delete(status);
    }
}

static void control(struct world *w)
{
    bool paused = cJSON_IsTrue(field_get(field_get(deployment(w), "spec"), "paused"));
    unsigned total = count(w, NULL, false);
    bool all = count(w, w->template, true) == count(w, w->template, false) &&
               count(w, NULL, true) >= REPLICAS;
    w->template = field_text(field_get(deployment(w), "spec"), "template");
    w->template = strcmp(w->template, "t1") == 0   ? "t1"
                  : strcmp(w->template, "t2") == 0 ? "t2"
                                                   : "t3";
    if (!paused && total > REPLICAS && all) {
        remove_old(w);
    } else if (!paused && total <= REPLICAS && count(w, w->template, false) < REPLICAS) {
        make_pod(w, false);
    }
    total = count(w, NULL, false);
    w->most = total > w->most ? total : w->most;
    report(w);
}

static void turn(struct world *w)
{
    run_for(store(w)->api.loop, TURN_MS);
    fake_clock_pass(&store(w)->api.clock, STEP_MS);
    if (!w->away) {
        control(w);
    }
}

static void turns(struct world *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        turn(w);
    }
}

/* ---- users ---- */

/* `label` NULL: it has none. */
static void put_deployment(struct world *w, const char *template, const char *label,
                           const char *strategy, bool paused)
{
    const cJSON *meta = field_get(deployment(w), "metadata");
    char *notes = cJSON_PrintUnformatted(field_get(meta, "annotations"));
    w->template = template;
    store_put_text(store(w), "deployments", "n",
                   "{\"metadata\":{\"name\":\"op\",\"labels\":{\"" PREFIX "/%s\":\"%s\"},"
                   "\"annotations\":%s},\"spec\":{\"paused\":%s,\"replicas\":%d,\"template\":"
                   "\"%s\",\"selector\":{\"matchLabels\":{\"app\":\"op\"}},\"strategy\":{"
                   "\"type\":\"RollingUpdate\",\"rollingUpdate\":{%s}}}}",
                   label == NULL ? "roll-progress" : "rolling", label == NULL ? "" : label,
                   notes == NULL ? "{\"" PREFIX "/rolling-deadline-seconds\":\"30\"}" : notes,
                   paused ? "true" : "false", REPLICAS, template, strategy);
    free(notes);
}

static const char *status(struct world *w)
{
    return fixture_text(&w->f, "deployments", "op", STATUS);
}

static void expect_status(struct world *w, const char *text)
{
    for (unsigned i = 0; i < PATIENCE_TURNS && strcmp(status(w), text) != 0; i++) {
        turn(w);
    }
    assert_string_equal(status(w), text);
}

static bool is_paused(struct world *w)
{
    return cJSON_IsTrue(field_get(field_get(deployment(w), "spec"), "paused"));
}

static void expect_new(struct world *w, unsigned pods)
{
    for (unsigned i = 0; i < PATIENCE_TURNS && count(w, w->template, false) < pods; i++) {
        turn(w);
    }
    assert_int_equal(count(w, w->template, false), pods);
    turns(w, 20); /* until it is paused */
    assert_true(is_paused(w));
}

/* ---- life ---- */

static bool may_write(void *data)
{
    return ((const struct world *)data)->f.holds;
}

static void begin_rollouts(struct world *w)
{
    const struct roller_options o = {
        .client = store(w)->api.client,
        .cache = w->f.cache,
        .controller = w->f.controller,
        .events = w->f.events,
        .prefix = PREFIX,
        .may_write = may_write,
        .data = w,
        .clock = &store(w)->api.clock.clock,
    };
    w->roller = deployment_roller_new(store(w)->api.loop, &o);
}

static void end_rollouts(struct world *w)
{
    deployment_roller_free(w->roller);
    w->roller = NULL;
    fake_clock_forget(&store(w)->api.clock);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    *state = w;
    if (w == NULL || !fixture_open(&w->f)) {
        return -1;
    }
    fixture_begin(&w->f);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    end_rollouts(w);
    bool well = fixture_close(&w->f);
    free(w);
    return well ? 0 : -1;
}

/* Three pods that are well. */
static void begin(struct world *w)
{
    w->template = "t1";
    put_deployment(w, "t1", "all", ONE_BY_ONE, true);
    store_put_text(store(w), "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"" SHARD "\"},\"spec\":{\"selector\":{\"matchLabels\":"
                   "{\"app\":\"op\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}],\"selector\":{\"matchLabels\":{\"a\":\"b\"}}}]}}");
    for (unsigned i = 0; i < REPLICAS; i++) {
        make_pod(w, true);
    }
    fixture_lead(&w->f);
    fixture_expect_generation(&w->f, SHARD, 1);
    fixture_enforces(&w->f, "op-0", SHARD);
    fixture_enforces(&w->f, "op-1", SHARD);
    fixture_enforces(&w->f, "op-2", SHARD);
    fixture_expect_condition(&w->f, SHARD, "Enforced", "True");
    control(w);
    begin_rollouts(w);
    expect_status(w, "3/3 state=Done");
}

/* ---- tests ---- */

static void test_one_pod_at_a_time(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t2", "all", ONE_BY_ONE, true);
    for (unsigned i = 1; i <= REPLICAS; i++) {
        expect_new(w, i);
        turns(w, 50);
        assert_int_equal(count(w, "t2", false), i); /* while it is not Ready, */
        assert_int_equal(count(w, "t1", false), REPLICAS + 1 - i);
        w->ready[w->made - 1] = true;
        put_pod(w, w->made - 1);
        turns(w, 50);
        assert_int_equal(count(w, "t2", false), i); /* and while it does not enforce */
        become_well(w);
    }
    expect_status(w, "3/3 state=Done");
    assert_true(is_paused(w));
    assert_int_equal(count(w, "t1", false), 0);
    assert_int_equal(w->most, REPLICAS + 1);
    fixture_expect_event(&w->f, "op", "RollStarted", 1);
    fixture_expect_event(&w->f, "op", "RollDone", 1);
}

static void test_another_leader(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t2", "all", ONE_BY_ONE, true);
    for (unsigned i = 0; i < 60; i++) {
        turns(w, 1 + i % 7);
        end_rollouts(w);
        begin_rollouts(w);
        if (count(w, NULL, true) < count(w, NULL, false) && i % 5 == 0) {
            become_well(w);
        }
        assert_true(count(w, NULL, true) >= REPLICAS);
    }
    for (unsigned i = 0; i < REPLICAS && count(w, NULL, true) < count(w, NULL, false); i++) {
        become_well(w);
        turns(w, 100);
    }
    expect_status(w, "3/3 state=Done");
    assert_int_equal(w->most, REPLICAS + 1);
}

static void test_a_bad_template(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t2", "all", ONE_BY_ONE, true);
    expect_new(w, 1);
    expect_status(w, "1/3 pod=op-3 state=Waiting: it is not Ready");
    expect_status(w, "1/3 pod=op-3 state=Stuck: it is not Ready");
    fixture_expect_event(&w->f, "op", "RollStuck", 1);
    assert_int_equal(count(w, "t1", true), REPLICAS);
    struct buf text = BUF_INIT(65536);
    deployment_roller_metrics(w->roller, &text);
    assert_non_null(strstr(buf_cstr(&text), "\ncmesh_manager_rolling_deployments_stuck 1\n"));
    buf_reset(&text);
    put_deployment(w, "t3", "all", ONE_BY_ONE, true); /* the old one does not keep it */
    expect_new(w, 1);
    assert_int_equal(count(w, "t2", false), 0);
    become_well(w);
    expect_new(w, 2);
    put_deployment(w, "t1", "all", ONE_BY_ONE, true); /* rolled back */
    for (unsigned i = 0; i < 10 && count(w, "t3", false) > 0; i++) {
        turns(w, 50);
        become_well(w);
    }
    expect_status(w, "3/3 state=Done");
    assert_int_equal(count(w, "t1", true), REPLICAS);
}

static void test_one_that_is_not_paused(void **state)
{
    struct world *w = *state;
    begin(w);
    w->away = true;
    put_deployment(w, "t2", "all", ONE_BY_ONE, false);
    turns(w, 20);
    assert_true(is_paused(w));
    assert_int_equal(count(w, "t2", false), 0);
}

static void test_refusals(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t2", "all", "\"maxSurge\":\"25%\",\"maxUnavailable\":0", true);
    expect_status(w, "0/3 state=Refused: spec.strategy must be RollingUpdate with maxSurge: 1 and "
                     "maxUnavailable: 0, so that one pod is replaced at a time");
    fixture_expect_event(&w->f, "op", "RollRefused", 1);
    put_deployment(w, "t2", SHARD, ONE_BY_ONE, true);
    expect_status(w, "0/3 state=Refused: a Deployment is rolled as a whole: the label must be "
                     "`all`");
    turns(w, 100);
    assert_int_equal(count(w, "t2", false), 0);
    put_deployment(w, "t2", "all", ONE_BY_ONE, true);
    expect_new(w, 1);
}

/* It stays paused, and says so. */
static void test_the_label_is_taken_away(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t2", "all", ONE_BY_ONE, true);
    expect_new(w, 1);
    put_deployment(w, "t2", NULL, ONE_BY_ONE, true);
    expect_status(w, "1/3 state=Paused");
    fixture_expect_event(&w->f, "op", "RollPaused", 1);
    assert_string_equal(
        fixture_text(&w->f, "deployments", "op", "metadata/labels/" PREFIX "~roll-progress"),
        "Paused-1-of-3");
    become_well(w);
    turns(w, 100);
    assert_int_equal(count(w, "t2", false), 1);
    put_deployment(w, "t2", "all", ONE_BY_ONE, true); /* and goes on with it */
    expect_new(w, 2);
    expect_status(w, "2/3 pod=op-4 state=Waiting: it is not Ready");
}

static void test_the_label_is_taken_away_when_it_is_done(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t1", NULL, ONE_BY_ONE, true);
    expect_status(w, "3/3 state=Paused");
}

/* By whoever takes the label away. */
static void test_one_that_is_resumed(void **state)
{
    struct world *w = *state;
    begin(w);
    put_deployment(w, "t1", NULL, ONE_BY_ONE, false);
    turns(w, 100);
    assert_string_equal(status(w), "3/3 state=Done");
    fixture_expect_event(&w->f, "op", "RollPaused", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(test_one_pod_at_a_time),
        TEST(test_another_leader),
        TEST(test_a_bad_template),
        TEST(test_one_that_is_not_paused),
        TEST(test_refusals),
        TEST(test_the_label_is_taken_away),
        TEST(test_the_label_is_taken_away_when_it_is_done),
        TEST(test_one_that_is_resumed),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
