/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roller against an API server in the same process: what it asks for, in which order, and what
 * it says of it. The StatefulSet's controller, the pods and their proxies are played by the test.
 */
#include "rolling/roller.h"

#include <stdio.h>
#include <stdlib.h>

#include "../shard/controller_fixture.h"

#define PREFIX "ctrlmesh.kusionstack.io"
#define STATUS "metadata/annotations/" PREFIX "~roll-status"
#define EXPECTED "metadata/annotations/" PREFIX "~roll-expected"
#define PROGRESS "metadata/labels/" PREFIX "~roll-progress"
#define RESOURCES(version)                                                                         \
    "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"pods\"},{\"name\":\"pods/"           \
    "eviction\",\"group\":\"policy\",\"version\":\"" version "\",\"kind\":\"Eviction\"}]}"

enum { PODS = 3, PATIENCE_TURNS = 3000, TURN_MS = 2, STEP_MS = 100 };

static const char *const names[PODS] = {"op-0", "op-1", "op-2"};
static const char *const shards[PODS] = {"x-0-canary", "x-1-normal", "x-1-normal"};

struct world {
    struct fixture f;
    struct roller *roller;
    struct roller_counts counts;
    unsigned replicas;   /* 0: PODS */
    bool locks;          /* holders renew their Leases */
    const char *lock_ns; /* where these are; NULL: in the namespace of the pods */
    unsigned renewals;
    bool unseen;       /* the StatefulSet's controller reports nothing of its changes */
    const char *shard; /* as the annotation names it; NULL: it does not */
};

/* ---- what there is ---- */

static struct storing_api *store(struct world *w)
{
    return &w->f.store;
}

static void put_pod(struct world *w, size_t i, const char *revision, const char *status)
{
    const char *owner = store_text(store_get(store(w), "statefulsets", "n", "op"), "metadata/uid");
    store_put_text(store(w), "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"statefulset.kubernetes.io/"
                   "pod-name\":\"%s\",\"app\":\"op\",\"controller-revision-hash\":\"%s\"},"
                   "\"annotations\":{\"" PREFIX
                   "/sharding-config-injected\":\"%s\"},\"ownerReferences\":[{\"uid\":\"%s\","
                   "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":"
                   "\"cmesh-localproxy\"},{\"name\":\"operator\"}]},\"status\":{%s}}",
                   names[i], names[i], revision, shards[i], owner, status);
}

#define NOT_READY                                                                                  \
    "\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]"
#define FAILING                                                                                    \
    NOT_READY ",\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":"                       \
              "\"ImagePullBackOff\"}}}]"
#define READY                                                                                      \
    "\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\","              \
    "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]"

static void put_set(struct world *w, const char *revision, const char *label, const char *strategy)
{
    const cJSON *old = store_get(store(w), "statefulsets", "n", "op");
    const cJSON *annotations =
        cJSON_GetObjectItem(cJSON_GetObjectItem(old, "metadata"), "annotations");
    cJSON *copy = annotations == NULL ? cJSON_CreateObject() : cJSON_Duplicate(annotations, true);
    cJSON_DeleteItemFromObject(copy, PREFIX "/rolling-shard");
    if (w->shard != NULL) {
        assert_non_null(cJSON_AddStringToObject(copy, PREFIX "/rolling-shard", w->shard));
    }
    char *text = cJSON_PrintUnformatted(copy);
    cJSON_Delete(copy);
    store_put_text(store(w), "statefulsets", "n",
                   "{\"metadata\":{\"name\":\"op\",\"labels\":{%s%s%s},\"annotations\":%s},"
                   "\"spec\":{\"template\":{\"metadata\":{\"labels\":{\"app\":\"op\"}}},"
                   "\"replicas\":%u,\"podManagementPolicy\":\"Parallel\","
                   "\"updateStrategy\":{\"type\":\"%s\"}},\"status\":{\"observedGeneration\":%u,"
                   "\"updateRevision\":\"%s\"}}",
                   label == NULL ? "" : "\"" PREFIX "/rolling\":\"", label == NULL ? "" : label,
                   label == NULL ? "" : "\"", text, w->replicas != 0 ? w->replicas : PODS, strategy,
                   w->unseen ? 0 : 99, revision);
    free(text);
}

static void put_config(struct world *w, const char *name, const char *pods)
{
    const char *ns = w->lock_ns;
    store_put_text(store(w), "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"app\":\"op\"},\"matchExpressions\":[{\"key\":\"statefulset.kubernetes.io/"
                   "pod-name\",\"operator\":\"In\",\"values\":[%s]}]},\"controller\":{"
                   "\"leaderElectionName\":\"lead\"%s%s%s},"
                   "\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":["
                   "\"pods\"]}],\"selector\":{\"matchLabels\":{\"app\":\"%s\"}}}]}}",
                   name, pods, ns == NULL ? "" : ",\"leaderElectionNamespace\":\"",
                   ns == NULL ? "" : ns, ns == NULL ? "" : "\"", name);
}

static void put_lease(struct world *w, const char *shard, const char *holder)
{
    store_put_text(store(w), "leases", w->lock_ns == NULL ? "n" : w->lock_ns,
                   "{\"metadata\":{\"name\":\"lead---%s\"},\"spec\":{\"holderIdentity\":\"%s\","
                   "\"leaseDurationSeconds\":15,\"renewTime\":\"t%u\"}}",
                   shard, holder, w->renewals++);
}

/* ---- time ---- */

static void turn(struct world *w)
{
    run_for(store(w)->api.loop, TURN_MS);
    fake_clock_pass(&store(w)->api.clock, STEP_MS);
    if (w->locks) {
        put_lease(w, shards[0], "op-0_1");
        put_lease(w, shards[1], "op-1_1");
    }
}

static void turns(struct world *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        turn(w);
    }
}

static const char *status(struct world *w)
{
    return fixture_text(&w->f, "statefulsets", "op", STATUS);
}

static void expect_status(struct world *w, const char *text)
{
    unsigned i = 0;
    for (; i < PATIENCE_TURNS && strcmp(status(w), text) != 0; i++) {
        turn(w);
    }
    assert_string_equal(status(w), text);
}

static bool is_there(struct world *w, size_t i)
{
    return store_get(store(w), "pods", "n", names[i]) != NULL;
}

static void expect_evicted(struct world *w, size_t pod)
{
    for (unsigned i = 0; i < PATIENCE_TURNS && is_there(w, pod); i++) {
        turn(w);
    }
    for (size_t i = 0; i < PODS; i++) {
        assert_int_equal(is_there(w, i), i != pod);
    }
}

static void expect_none_evicted(struct world *w, unsigned count)
{
    turns(w, count);
    for (size_t i = 0; i < PODS; i++) {
        assert_true(is_there(w, i));
    }
}

static void make_anew(struct world *w, size_t pod, const char *revision)
{
    put_pod(w, pod, revision, READY);
    turns(w, 2);
    fixture_enforces(&w->f, names[pod], shards[pod]);
}

/* ---- life ---- */

static bool may_write(void *data)
{
    return ((const struct world *)data)->f.holds;
}

static struct roller *make_roller(struct world *w)
{
    const struct roller_options o = {
        .client = store(w)->api.client,
        .cache = w->f.cache,
        .controller = w->f.controller,
        .events = w->f.events,
        .counts = &w->counts,
        .prefix = PREFIX,
        .may_write = may_write,
        .data = w,
        .clock = &store(w)->api.clock.clock,
    };
    return roller_new(store(w)->api.loop, &o);
}

static void begin_roller(struct world *w)
{
    w->roller = make_roller(w);
    assert_non_null(w->roller);
}

static void end_roller(struct world *w)
{
    roller_free(w->roller);
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
    store(w)->served = RESOURCES("v1");
    fixture_begin(&w->f);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    end_roller(w);
    bool well = fixture_close(&w->f);
    free(w);
    return well ? 0 : -1;
}

/* Two shards whose rules are enforced on three pods of revision "r1"; and the label. */
static void begin_with(struct world *w, const char *revision, const char *strategy)
{
    put_set(w, revision, "all", strategy);
    put_config(w, shards[0], "\"op-0\"");
    put_config(w, shards[1], "\"op-1\",\"op-2\"");
    for (size_t i = 0; i < PODS; i++) {
        put_pod(w, i, "r1", READY);
    }
    fixture_lead(&w->f);
    fixture_expect_generation(&w->f, shards[0], 1);
    fixture_expect_generation(&w->f, shards[1], 1);
    for (size_t i = 0; i < PODS; i++) {
        fixture_enforces(&w->f, names[i], shards[i]);
    }
    fixture_expect_condition(&w->f, shards[1], "Enforced", "True");
    begin_roller(w);
}

static void begin(struct world *w)
{
    begin_with(w, "r2", "OnDelete");
}

/* ---- tests ---- */

static void roll_to_the_end(struct world *w)
{
    w->locks = true;
    begin(w);
    expect_evicted(w, 0);
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Waiting: it has not been made yet");
    put_pod(w, 0, "r2", NOT_READY);
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Waiting: it is not Ready");
    expect_none_evicted(w, 50);
    put_pod(w, 0, "r2", READY);
    fixture_probe(&w->f, "op-0", shards[0], 7, "other");
    expect_status(w, "1/3 shard=x-0-canary pod=op-0 state=Waiting: it does not enforce the rules "
                     "of its shard: it still enforces generation 7");
    expect_none_evicted(w, 50);
    fixture_enforces(&w->f, "op-0", shards[0]);
    expect_evicted(w, 2); /* pod 1 holds the lock */
    make_anew(w, 2, "r2");
    expect_evicted(w, 1);
    make_anew(w, 1, "r2");
    expect_status(w, "3/3 state=Done");
    assert_string_equal(fixture_text(&w->f, "statefulsets", "op", EXPECTED), "r2");
    assert_string_equal(fixture_text(&w->f, "statefulsets", "op", PROGRESS), "Done-3-of-3");
    assert_int_equal(w->counts.evictions[EVICTION_DONE], PODS);
    fixture_expect_event(&w->f, "op", "RollStarted", 1);
    fixture_expect_event(&w->f, "op", "RollProceeded", 1);
    fixture_expect_event(&w->f, "op", "RollDone", 1);
    /* The label stays: the next change of the template is rolled out as well. */
    put_set(w, "r3", "all", "OnDelete");
    expect_evicted(w, 0);
}

static void test_to_the_end(void **state)
{
    roll_to_the_end(*state);
}

static void test_locks_in_another_namespace(void **state)
{
    struct world *w = *state;
    w->lock_ns = "kube-system";
    roll_to_the_end(w);
}

static unsigned lock_watches(struct world *w)
{
    unsigned count = 0;
    for (struct list *n = store(w)->api.requests.next; n != &store(w)->api.requests; n = n->next) {
        const struct api_request *q = LIST_ITEM(n, struct api_request, link);
        bool lock = strstr(q->target, "lead---") != NULL && strstr(q->target, "watch=") != NULL;
        count += lock && !q->gone;
    }
    return count;
}

static void expect_lock_watches(struct world *w, unsigned count)
{
    for (unsigned i = 0; i < PATIENCE_TURNS && lock_watches(w) != count; i++) {
        turn(w);
    }
    turns(w, 20);
    assert_int_equal(lock_watches(w), count);
}

static void test_a_lock_of_two_rolls_is_watched_once(void **state)
{
    struct world *w = *state;
    begin(w);
    expect_evicted(w, 0);
    put_config(w, shards[0], "\"op-0\",\"oq-0\"");
    store_put_text(store(w), "statefulsets", "n",
                   "{\"metadata\":{\"name\":\"oq\",\"labels\":{\"" PREFIX "/rolling\":\"all\"}},"
                   "\"spec\":{\"template\":{\"metadata\":{\"labels\":{\"app\":\"op\"}}},"
                   "\"replicas\":1,\"updateStrategy\":{\"type\":\"OnDelete\"}},"
                   "\"status\":{\"observedGeneration\":99,\"updateRevision\":\"r2\"}}");
    fixture_expect_text(&w->f, "statefulsets", "oq", STATUS,
                        "0/1 shard=x-0-canary pod=oq-0 state=Waiting: it has not been made yet");
    expect_lock_watches(w, 2);
    store_delete(store(w), "statefulsets", "n", "op");
    expect_lock_watches(w, 1);
    store_delete(store(w), "statefulsets", "n", "oq");
    expect_lock_watches(w, 0);
}

static void test_nothing_to_do(void **state)
{
    struct world *w = *state;
    begin_with(w, "r1", "OnDelete");
    expect_status(w, "3/3 state=Done");
    expect_none_evicted(w, 400);
    assert_string_equal(status(w), "3/3 state=Done");
    assert_int_equal(fixture_adds(&w->f, "shards") > 0, 1);
}

static void test_rolling_updates_are_refused(void **state)
{
    struct world *w = *state;
    begin_with(w, "r2", "RollingUpdate");
    expect_status(w, "0/3 state=Refused: updateStrategy.type must be OnDelete: the canary has the "
                     "lowest ordinals, and RollingUpdate begins with the highest, with a partition "
                     "or without");
    expect_none_evicted(w, 400);
    fixture_expect_event(&w->f, "op", "RollRefused", 1);
    put_set(w, "r2", "all", "OnDelete");
    expect_evicted(w, 0);
}

static void test_a_shard_without_a_leader(void **state)
{
    struct world *w = *state;
    put_lease(w, shards[0], "");
    begin(w);
    expect_status(w, "0/3 shard=x-0-canary state=Waiting: nobody leads shard x-0-canary: its Lease "
                     "is not renewed");
    put_lease(w, shards[0], "op-0_1");
    expect_evicted(w, 0);
    make_anew(w, 0, "r2");
    expect_status(w, "1/3 shard=x-0-canary state=Waiting: nobody leads shard x-0-canary: its Lease "
                     "is not renewed");
    expect_none_evicted(w, 50);
    put_lease(w, shards[0], "op-0_2");
    expect_evicted(w, 1); /* nobody has ever held the lock of that shard */
}

static void test_a_budget(void **state)
{
    struct world *w = *state;
    store_fail(store(w), "eviction", 429, STORE_NONE, 1000000);
    begin(w);
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Blocked: the API server does not evict "
                     "it: 429 InternalError: the test said 429");
    turns(w, 300);
    assert_true(w->counts.evictions[EVICTION_BLOCKED] > 3);
    assert_true(w->counts.evictions[EVICTION_BLOCKED] < 12); /* in half a minute */
    unsigned writes = store(w)->writes;
    expect_none_evicted(w, 300);
    assert_int_equal(store(w)->writes, writes);
    fake_clock_pass(&store(w)->api.clock, 600000);
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Stuck: the API server does not evict "
                     "it: 429 InternalError: the test said 429");
    fixture_expect_event(&w->f, "op", "RollStuck", 1);
    expect_none_evicted(w, 100);
    store_fail(store(w), "eviction", 0, STORE_NONE, 0);
    expect_evicted(w, 0);
}

static void test_which_evictions_are_served(void **state)
{
    struct world *w = *state;
    store(w)->served = "{\"resources\":[]}";
    begin(w);
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Blocked: the API server does not evict "
                     "it: it has no evictions");
    store(w)->served = RESOURCES("v1beta1");
    expect_evicted(w, 0);
    make_anew(w, 0, "r2");
    /* It was upgraded. */
    store_fail(store(w), "eviction", 400, STORE_NONE, 1);
    store(w)->served = RESOURCES("v1");
    expect_evicted(w, 1);
}

static void test_evictions_that_fail(void **state)
{
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {{404, STORE_NONE}, {409, STORE_NONE}, {500, STORE_NONE},
                  {403, STORE_NONE}, {0, STORE_CUT},    {0, STORE_CUT_DONE}};
    struct world *w = *state;
    begin_with(w, "r1", "OnDelete");
    expect_status(w, "3/3 state=Done");
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char revision[8];
        (void)snprintf(revision, sizeof revision, "s%zu", i);
        store_fail(store(w), "eviction", faults[i].status, faults[i].fault, 1);
        put_set(w, revision, "all", "OnDelete");
        for (size_t p = 0; p < PODS; p++) {
            expect_evicted(w, p);
            make_anew(w, p, revision);
        }
        expect_status(w, "3/3 state=Done");
    }
}

static void test_annotations_that_cannot_be_written(void **state)
{
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {{409, STORE_NONE}, {500, STORE_NONE}, {0, STORE_CUT}, {0, STORE_CUT_DONE}};
    struct world *w = *state;
    begin_with(w, "r1", "OnDelete");
    expect_status(w, "3/3 state=Done");
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char revision[8];
        (void)snprintf(revision, sizeof revision, "s%zu", i);
        store_fail(store(w), "statefulsets", faults[i].status, faults[i].fault, 1);
        put_set(w, revision, "all", "OnDelete");
        expect_evicted(w, 0);
        make_anew(w, 0, revision);
        expect_evicted(w, 1);
        make_anew(w, 1, revision);
        expect_evicted(w, 2);
        make_anew(w, 2, revision);
        expect_status(w, "3/3 state=Done");
    }
}

static void test_stuck_and_rolled_back(void **state)
{
    struct world *w = *state;
    begin(w);
    expect_evicted(w, 0);
    make_anew(w, 0, "r2");
    expect_evicted(w, 1);
    put_pod(w, 1, "r2", FAILING);
    expect_status(w, "1/3 shard=x-1-normal pod=op-1 state=Waiting: its container does not start: "
                     "ImagePullBackOff");
    expect_status(w, "1/3 shard=x-1-normal pod=op-1 state=Stuck: its container does not start: "
                     "ImagePullBackOff");
    fixture_expect_event(&w->f, "op", "RollStuck", 1);
    expect_none_evicted(w, 200);
    /* A new leader says it no second time. */
    end_roller(w);
    begin_roller(w);
    expect_none_evicted(w, 200);
    fixture_expect_event(&w->f, "op", "RollStuck", 1);
    /* What is stuck goes first, then the canary. */
    put_set(w, "r1", "all", "OnDelete");
    expect_evicted(w, 1);
    make_anew(w, 1, "r1");
    expect_evicted(w, 0);
    make_anew(w, 0, "r1");
    expect_status(w, "3/3 state=Done");
}

static void test_stuck_after_the_deadline(void **state)
{
    struct world *w = *state;
    begin(w);
    expect_evicted(w, 0);
    put_pod(w, 0, "r2", NOT_READY);
    turns(w, 100);
    fake_clock_pass(&store(w)->api.clock, 500000);
    turns(w, 10);
    assert_string_equal(status(w), "0/3 shard=x-0-canary pod=op-0 state=Waiting: it is not Ready");
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Stuck: it is not Ready");
    put_pod(w, 0, "r2", READY);
    fixture_enforces(&w->f, "op-0", shards[0]);
    expect_evicted(w, 1); /* it has become well */
}

static void test_pause_and_resume(void **state)
{
    struct world *w = *state;
    begin(w);
    expect_evicted(w, 0);
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Waiting: it has not been made yet");
    put_set(w, "r2", NULL, "OnDelete");
    expect_status(w, "0/3 shard=x-0-canary pod=op-0 state=Paused");
    make_anew(w, 0, "r2");
    expect_none_evicted(w, 200);
    put_set(w, "r2", "all", "OnDelete");
    expect_evicted(w, 1);
    make_anew(w, 1, "r2");
    store_delete(store(w), "statefulsets", "n", "op");
    turns(w, 100);
    fixture_expect_event(&w->f, "op", "RollStarted", 1);
}

static void test_one_shard_alone(void **state)
{
    struct world *w = *state;
    begin_with(w, "r1", "OnDelete");
    put_set(w, "r2", "x-0-canary", "OnDelete");
    expect_evicted(w, 0);
    make_anew(w, 0, "r2");
    expect_status(w, "1/1 state=Done");
    expect_none_evicted(w, 100);
    put_set(w, "r2", "All", "OnDelete");
    expect_status(w, "0/3 state=Refused: there is no shard \"All\" in its namespace: name one, or "
                     "`all`");
    fixture_expect_event(&w->f, "op", "RollRefused", 1);
    put_config(w, "x-7-normal", "\"op-9\"");
    put_set(w, "r2", "x-7-normal", "OnDelete");
    expect_status(w, "0/0 state=Waiting: no pod is of shard x-7-normal");
    fake_clock_pass(&store(w)->api.clock, 600000);
    expect_status(w, "0/0 state=Stuck: no pod is of shard x-7-normal");
    fixture_expect_event(&w->f, "op", "RollStuck", 1);
    fixture_expect_event(&w->f, "op", "RollStarted", 1); /* of the canary */
    w->shard = "x-1-normal";                             /* whatever the label is */
    put_set(w, "r2", "all", "OnDelete");
    expect_evicted(w, 1);
}

#define OTHER                                                                                      \
    "{\"metadata\":{\"name\":\"s%03u\",\"labels\":{\"" PREFIX "/rolling\":\"all\"}},\"spec\":{}}"

static size_t followed(struct world *w)
{
    cJSON *root = cJSON_CreateObject();
    roller_status(w->roller, root);
    size_t count = (size_t)atoi(store_text(root, "rolling/count"));
    cJSON_Delete(root);
    return count;
}

static void test_more_than_a_namespace_may_have(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i <= 500; i++) {
        store_put_text(store(w), "statefulsets", "n", OTHER, i);
    }
    store_put_text(store(w), "statefulsets", "m", OTHER, 0);
    fixture_lead(&w->f);
    w->f.holds = false; /* and so writes nothing */
    begin_roller(w);
    fixture_expect_event(&w->f, "s500", "RollRefused", 1);
    assert_int_equal(followed(w), 501);
    /* There is room for it when another one goes. */
    store_delete(store(w), "statefulsets", "n", "s000");
    turns(w, 10);
    assert_int_equal(followed(w), 500);
    store_put_text(store(w), "statefulsets", "n", OTHER, 500);
    turns(w, 10);
    assert_int_equal(followed(w), 501);
}

/* NULL: none. */
static const char *find_refused(struct world *w)
{
    static const char *const sets[] = {"s0", "s1", "s2", "s3", "s4"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (strcmp(fixture_text(&w->f, "statefulsets", sets[i], STATUS),
                   "0/64 state=Refused: too many shards are being rolled, in its namespace or in "
                   "all; it is tried again every 30 seconds") == 0) {
            return sets[i];
        }
    }
    return NULL;
}

static void test_more_shards_than_a_namespace_may_roll(void **state)
{
    enum { EACH = 64, SETS = 5 };
    struct world *w = *state;
    char text[32];
    for (unsigned i = 0; i < EACH * SETS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "c%u", i);
        (void)snprintf(text, sizeof text, "\"s%u-%u\"", i / EACH, i % EACH);
        put_config(w, name, text);
    }
    for (unsigned i = 0; i < SETS; i++) {
        store_put_text(store(w), "statefulsets", "n",
                       "{\"metadata\":{\"name\":\"s%u\",\"labels\":{\"" PREFIX
                       "/rolling\":\"all\"}},\"spec\":{\"template\":{\"metadata\":{\"labels\":{"
                       "\"app\":\"op\"}}},\"replicas\":64,\"updateStrategy\":{\"type\":"
                       "\"OnDelete\"}},\"status\":{\"observedGeneration\":99,\"updateRevision\":"
                       "\"r\"}}",
                       i);
    }
    begin_roller(w);
    for (unsigned i = 0; i < PATIENCE_TURNS && find_refused(w) == NULL; i++) {
        turn(w);
    }
    assert_non_null(find_refused(w));
    (void)snprintf(text, sizeof text, "%s", find_refused(w));
    fixture_expect_event(&w->f, text, "RollRefused", 1);
    expect_lock_watches(w, EACH * (SETS - 1));
    store_delete(store(w), "statefulsets", "n", text[1] == '0' ? "s1" : "s0");
    for (unsigned i = 0; i < PATIENCE_TURNS && find_refused(w) != NULL; i++) {
        turn(w);
    }
    assert_null(find_refused(w));
    expect_lock_watches(w, EACH * (SETS - 1));
}

/* As Kubernetes 1.20 has it for as long as the API server refuses a pod. */
static void test_a_change_that_was_not_taken_note_of(void **state)
{
    struct world *w = *state;
    begin_with(w, "r1", "OnDelete");
    expect_status(w, "3/3 state=Done");
    fixture_expect_event(&w->f, "op", "RollStarted", 1); /* before it knew what is enforced */
    w->unseen = true;
    put_set(w, "r1", "all", "OnDelete");
    store_delete(store(w), "pods", "n", "op-2");
    turns(w, 90);
    assert_string_equal(status(w), "3/3 state=Done"); /* it may come */
    expect_status(w, "0/3 shard=x-1-normal pod=op-2 state=Waiting: it has not been made, and the "
                     "controller of StatefulSets has not reported on the last change");
    fake_clock_pass(&store(w)->api.clock, 600000);
    expect_status(w, "0/3 shard=x-1-normal pod=op-2 state=Stuck: it has not been made, and the "
                     "controller of StatefulSets has not reported on the last change");
    fixture_expect_event(&w->f, "op", "RollStuck", 1);
    fixture_expect_event(&w->f, "op", "RollStarted", 1);
    w->unseen = false;
    put_set(w, "r2", "all", "OnDelete");
    put_pod(w, 2, "r2", READY);
    fixture_enforces(&w->f, "op-2", shards[2]);
    expect_evicted(w, 0);
    fixture_expect_event(&w->f, "op", "RollStarted", 2);
}

/* Whose they would be is not looked for of those that are far from being made. */
static void test_thousands_that_are_not_there(void **state)
{
    struct world *w = *state;
    put_config(w, "x-8-normal", "\"op-66\"");
    put_config(w, "x-9-normal", "\"op-67\"");
    begin_with(w, "r1", "OnDelete");
    w->replicas = 10000;
    put_set(w, "r1", "x-8-normal", "OnDelete");
    expect_status(w, "0/1 pod=op-3 state=Waiting: it has not been made yet");
    put_set(w, "r1", "x-9-normal", "OnDelete");
    expect_status(w, "0/0 state=Waiting: no pod is of shard x-9-normal");
    put_set(w, "r2", "all", "OnDelete");
    expect_status(w, "0/10000 pod=op-3 state=Waiting: it has not been made yet");
    expect_none_evicted(w, 5);
}

/* It was evicted by one that leads no more, and this one does not know yet that it is gone. */
static void test_a_new_leader_evicts_no_second_pod(void **state)
{
    struct world *w = *state;
    begin(w);
    for (unsigned i = 0; i < PATIENCE_TURNS && strstr(status(w), "Evicting") == NULL; i++) {
        turn(w);
    }
    end_roller(w);
    store(w)->silent = true; /* watches show nothing */
    if (is_there(w, 0)) {
        store_delete(store(w), "pods", "n", "op-0");
    }
    begin_roller(w);
    turns(w, 300);
    assert_true(is_there(w, 1) && is_there(w, 2));
    assert_true(w->counts.evictions[EVICTION_DONE] <= 1);
    store(w)->silent = false;
    store_go_on(store(w));
    make_anew(w, 0, "r2");
    expect_evicted(w, 1);
}

static void test_who_does_not_lead_writes_nothing(void **state)
{
    struct world *w = *state;
    begin(w);
    w->f.holds = false;
    unsigned writes = store(w)->writes;
    expect_none_evicted(w, 200);
    assert_int_equal(store(w)->writes, writes);
    w->f.holds = true;
    expect_evicted(w, 0);
}

/* Ended at any moment. */
static void test_ends_in_each_phase(void **state)
{
    struct world *w = *state;
    begin(w);
    store(w)->held = true;
    turns(w, 30);
    assert_true(store_holds(store(w))); /* the annotations */
    end_roller(w);
    store(w)->held = false;
    store_go_on(store(w));
    store_fail(store(w), "eviction", 0, STORE_HOLD, 1);
    begin_roller(w);
    expect_evicted(w, 0);
    end_roller(w); /* before the eviction was answered */
    make_anew(w, 0, "r2");
    begin_roller(w);
    expect_evicted(w, 1);
}

static void test_what_is_said(void **state)
{
    struct world *w = *state;
    struct buf out = BUF_INIT(65536);
    begin(w);
    expect_evicted(w, 0);
    turns(w, 20);
    roller_metrics(w->roller, &w->counts, &out);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "\ncmesh_manager_rolling_statefulsets 1\n"));
    assert_non_null(strstr(text, "\ncmesh_manager_rolling_stuck 0\n"));
    assert_non_null(strstr(text, "\ncmesh_manager_rolling_leases 2\n"));
    assert_non_null(
        strstr(text, "\ncmesh_manager_rolling_evictions_total{result=\"evicted\"} 1\n"));
    buf_reset(&out);
    roller_metrics(NULL, &w->counts, &out);
    assert_non_null(strstr(buf_cstr(&out), "\ncmesh_manager_rolling_statefulsets 0\n"));
    buf_reset(&out);
    cJSON *root = cJSON_CreateObject();
    roller_status(NULL, root);
    roller_status(w->roller, root);
    assert_string_equal(store_text(root, "rolling/count"), "1");
    const cJSON *items = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "rolling"), "items");
    assert_string_equal(store_text(cJSON_GetArrayItem(items, 0), "statefulSet"), "n/op");
    assert_string_equal(store_text(cJSON_GetArrayItem(items, 0), "state"), "Waiting");
    cJSON_Delete(root);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_to_the_end),
        TEST(test_locks_in_another_namespace),
        TEST(test_a_lock_of_two_rolls_is_watched_once),
        TEST(test_nothing_to_do),
        TEST(test_rolling_updates_are_refused),
        TEST(test_a_shard_without_a_leader),
        TEST(test_a_budget),
        TEST(test_which_evictions_are_served),
        TEST(test_evictions_that_fail),
        TEST(test_annotations_that_cannot_be_written),
        TEST(test_stuck_and_rolled_back),
        TEST(test_stuck_after_the_deadline),
        TEST(test_pause_and_resume),
        TEST(test_one_shard_alone),
        TEST(test_more_than_a_namespace_may_have),
        TEST(test_more_shards_than_a_namespace_may_roll),
        TEST(test_a_change_that_was_not_taken_note_of),
        TEST(test_thousands_that_are_not_there),
        TEST(test_a_new_leader_evicts_no_second_pod),
        TEST(test_who_does_not_lead_writes_nothing),
        TEST(test_ends_in_each_phase),
        TEST(test_what_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
