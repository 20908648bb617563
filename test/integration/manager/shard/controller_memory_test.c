/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of the controller and its cache fail, one in each run: nothing crashes, nothing
 * leaks, and in the end the rules, and traffic policies, are published and told all the same.
 */
#include <stdio.h>

#include "alloc_sweep.h"
#include "base/log.h"
#include "controller_fixture.h"
#include "net/deadline.h"
#include "rounds.h"

enum { HURRY = 200, LONG_MS = 30000, PATIENCE_TURNS = 4000, CALLS = 100 };

/* ---- time goes 200 times as fast ---- */

static uint64_t hurried_now(void *data)
{
    (void)data;
    return net_clock_now(&net_clock_system) * HURRY;
}

static int64_t hurried_wall(void *data)
{
    (void)data;
    return net_clock_wall(&net_clock_system);
}

static void hurried_timer(void *data, struct net_timer *t, uint64_t ms)
{
    (void)data;
    net_timer_set(t, ms / HURRY + 1);
}

static uint32_t hurried_random(void *data)
{
    (void)data;
    return 0;
}

static const struct net_clock hurried = {
    .now = hurried_now, .wall = hurried_wall, .set_timer = hurried_timer, .random = hurried_random};

/* Jumps when it is asked for the so many-th time: what is believed for a time ends within a step.
 */
static unsigned calls_to_jump;
static uint64_t jumped_ms;

static uint64_t jumping_now(void *data)
{
    if (calls_to_jump > 0 && --calls_to_jump == 0) {
        jumped_ms += RECONCILE_BELIEF_MS + 1;
    }
    return hurried_now(data) + jumped_ms;
}

static const struct net_clock jumping = {
    .now = jumping_now, .wall = hurried_wall, .set_timer = hurried_timer, .random = hurried_random};

static struct net_loop *the_loop;
static struct list due;
static struct net_task passing;

static void pass(struct net_task *t)
{
    (void)t;
    while (!list_empty(&due)) {
        struct net_deadline *d = LIST_ITEM(due.next, struct net_deadline, link);
        net_deadline_clear(d);
        d->cb(d);
    }
}

/* Pauses are over at once, time limits are not. */
static void hurried_deadline(void *data, struct net_deadline *d, uint64_t ms)
{
    (void)data;
    net_deadline_clear(d);
    if (ms > LONG_MS) {
        net_deadline_set(the_loop, d, ms);
    } else {
        list_append(&due, &d->link);
        net_task_queue(the_loop, &passing);
    }
}

static const struct reflector_ops ops = {.set_deadline = hurried_deadline,
                                         .random = hurried_random};

/* ---- one run ---- */

static const char *published(struct fixture *s)
{
    const cJSON *o = store_get(&s->store, "circuitbreakers", "n", "guard");
    return store_text(o, "status/conditions/1/status");
}

static bool has_policies(struct fixture *s)
{
    return strstr(fixture_text(s, "configmaps", "cmesh-rules-a", "data/traffic.json"),
                  "\"guard\"") != NULL &&
           strcmp(fixture_text(s, "pods", "a-0",
                               "metadata/annotations/ctrlmesh.kusionstack.io~traffic-generation"),
                  "1") == 0 &&
           strcmp(published(s), "True") == 0;
}

static bool is_done(struct fixture *s)
{
    return (!s->policies || has_policies(s)) &&
           strcmp(fixture_condition(s, "a", "Published", "status"), "True") == 0 &&
           strcmp(fixture_text(s, "pods", "a-0",
                               "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation"),
                  "1") == 0;
}

static void put_breaker(struct fixture *s)
{
    store_put_text(&s->store, "circuitbreakers", "n",
                   "{\"metadata\":{\"name\":\"guard\",\"finalizers\":[\"" POLICY_FINALIZER
                   "\"]},\"spec\":{\"selector\":{\"matchLabels\":{\"shard\":\"a\"}},"
                   "\"rateLimitings\":[{\"name\":\"all\",\"triggerPolicy\":\"ForceOpened\","
                   "\"resourceRules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],"
                   "\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]}]}]}}");
}

static bool begin(struct fixture *s)
{
    bool begun = fixture_begin(s, &ops) && (s->controller != NULL || fixture_try_to_lead(s));
    if (begun) {
        fixture_serve(s, POLICY_SERVED);
    }
    return begun;
}

/* Of a config that is gone; nobody knows what it shows until it is deleted. */
static void put_orphan(struct fixture *s)
{
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-gone\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"},\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/sharding-config-uid\":\"u\"}},\"data\":{"
                   "\"rules.json\":\"{\\\"apiVersion\\\":\\\"cmesh/v9\\\"}\"}}");
}

/* What runs, beside rules that are published. */
struct run {
    bool policies;
    bool handover;
};

static long runs;

static bool publish_and_tell(void *data)
{
    static struct fixture s;
    long left = sweep_left;
    const struct run *run = data;
    /* Of all allocations each so many-th one fails: the whole takes seconds. */
    if (runs++ % rounds(19, 7) != 0) {
        sweep_failed = true; /* passed over */
        return false;
    }
    sweep_left = -1;
    s = (struct fixture){.clock = &hurried,
                         .policies = run->policies,
                         .handover_ms = run->handover ? LONG_MS : 0,
                         .strict = true};
    assert_true(fixture_open(&s));
    the_loop = s.store.api.loop;
    list_init(&due);
    net_task_init(&passing, pass);
    fixture_pod(&s, "a-0", "a", "a");
    fixture_config(&s, "a", "pods", "app=a");
    if (s.policies) {
        put_breaker(&s);
    }
    if (run->handover) {
        put_orphan(&s);
    }
    sweep_left = left;
    assert_true(begin(&s) || (sweep_failed && begin(&s)));
    int turns = 0;
    while (turns++ < PATIENCE_TURNS && !is_done(&s)) {
        run_for(s.store.api.loop, 1);
    }
    sweep_left = -1;
    bool done = is_done(&s);
    if (!done) {
        (void)fprintf(stderr, "allocation %ld failed, and nothing was done about it\n", runs - 1);
    }
    net_task_cancel(&passing);
    assert_true(fixture_close(&s));
    return done;
}

static void test_out_of_memory(void **state)
{
    struct run run = {.policies = false};
    (void)state;
    assert_true(sweep_allocations(publish_and_tell, &run) > 350);
}

static void test_out_of_memory_with_policies(void **state)
{
    struct run run = {.policies = true};
    (void)state;
    runs = 0;
    assert_true(sweep_allocations(publish_and_tell, &run) > 700);
}

static void test_out_of_memory_while_it_waits(void **state)
{
    struct run run = {.handover = true};
    (void)state;
    runs = 0;
    assert_true(sweep_allocations(publish_and_tell, &run) > 450);
}

/* The cache is behind with what the controller has written. */
static void publish_while_time_jumps(unsigned calls)
{
    static struct fixture s;
    s = (struct fixture){.clock = &jumping};
    assert_true(fixture_open(&s));
    fixture_pod(&s, "a-0", "a", "a");
    fixture_config(&s, "a", "pods", "app=a");
    assert_true(fixture_begin(&s, NULL));
    while (!shard_cache_synced(s.cache)) {
        run_for(s.store.api.loop, 1);
    }
    s.store.silent = true;
    calls_to_jump = calls;
    fixture_lead(&s);
    while (s.counts.writes[CONTROLLER_STATUS][RECONCILE_WRITTEN] == 0) {
        run_for(s.store.api.loop, 1);
    }
    s.store.silent = false;
    store_go_on(&s.store);
    fixture_expect_condition(&s, "a", "Published", "True");
    assert_true(fixture_close(&s));
}

static void test_time_jumps_within_a_step(void **state)
{
    (void)state;
    for (unsigned calls = 1; calls < CALLS; calls++) {
        publish_while_time_jumps(calls);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_jumps_within_a_step),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_out_of_memory_with_policies),
        cmocka_unit_test(test_out_of_memory_while_it_waits),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
