/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic shards of a Deployment, against a small API server. What makes its pods, and the
 * webhook that gives each of them a shard, are played.
 */
#include "root/roots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "object/names.h"
#include "object/root_child.h"
#include "roots_fixture.h"
#include "json/field.h"

enum { STARTING_MS = 2000, SHARDS = 8, MINUTE_MS = 60000 };

#define RESOURCES                                                                                  \
    "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"pods/eviction\",\"group\":"          \
    "\"policy\",\"version\":\"v1\",\"kind\":\"Eviction\"}]}"

/* The Deployment, of one world at a time. */
static struct {
    unsigned replicas;
    unsigned made;       /* pods, ever */
    unsigned outdated;   /* pods of an old template, as its status says */
    bool unobserved;     /* its status is about an earlier spec */
    const char *sticky;  /* all pods get this shard; NULL: the one that lacks one most */
    bool without_shards; /* no pod gets any */
    bool broken;         /* no new pod is ever ready */
    char text[512];      /* of the object as it was written last */
} deployment;

/* ---- pods ---- */

static bool is_pod_of(const cJSON *pod, const char *shard)
{
    return strcmp(field_text(field_get(field_get(pod, "metadata"), "labels"),
                             WORLD_PREFIX "/" POD_SHARD),
                  shard) == 0;
}

/* NULL: all. */
static unsigned count_pods(struct world *w, const char *shard)
{
    unsigned count = 0;
    for (const cJSON *p = NULL; (p = store_next(&w->store, "pods", p)) != NULL;) {
        count += shard == NULL || is_pod_of(p, shard);
    }
    return count;
}

static unsigned count_ready(struct world *w)
{
    unsigned count = 0;
    for (const cJSON *p = NULL; (p = store_next(&w->store, "pods", p)) != NULL;) {
        count += strcmp(store_text(p, "status/conditions/0/status"), "True") == 0;
    }
    return count;
}

static void put_pod(struct world *w, const char *name, const char *shard, bool ready)
{
    char labels[256] = "";
    if (shard[0] != '\0') {
        (void)snprintf(labels, sizeof labels,
                       "\"labels\":{\"" WORLD_PREFIX "/" POD_SHARD "\":\"%s\"},\"annotations\":"
                       "{\"" WORLD_PREFIX "/sharding-config-injected\":\"%s\"},",
                       shard, shard);
    }
    store_put_text(&w->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"%s\",%s\"ownerReferences\":[{\"kind\":"
                   "\"ReplicaSet\",\"name\":\"op-1\",\"uid\":\"rs\",\"controller\":true}]},"
                   "\"spec\":{\"containers\":[{\"name\":\"cmesh-localproxy\"}]},\"status\":{"
                   "\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]"
                   "}}",
                   name, labels, ready ? "True" : "False");
}

static void new_pod(struct world *w, const char *shard, bool ready)
{
    char name[32];
    (void)snprintf(name, sizeof name, "op-1-%u", deployment.made++);
    put_pod(w, name, shard, ready);
}

/* As the webhook does it, which refuses a pod for which there is no shard: one without pods first,
 * then who has the smallest part of what it is to have; no canary beyond that. "": there is no
 * shard. */
static const char *choose_shard(struct world *w)
{
    const cJSON *root = store_get(&w->store, "shardingconfigs", "n", "r");
    const char *best = "";
    unsigned lowest = 0;
    if (deployment.sticky != NULL) {
        return deployment.sticky;
    }
    for (const cJSON *c = NULL; (c = store_next(&w->store, "shardingconfigs", c)) != NULL;) {
        struct root_child_seat seat;
        const char *name = field_meta(c, "name");
        unsigned pods = count_pods(w, name);
        if (deployment.without_shards || !root_child_seat(root, c, WORLD_PREFIX, &seat) ||
            seat.leaving || (seat.number == 0 && pods >= seat.wanted)) {
            continue;
        }
        unsigned part = pods * 1000 / seat.wanted;
        best = best[0] == '\0' || part < lowest ? name : best;
        lowest = best == name ? part : lowest;
    }
    return best;
}

/* The newest one. */
static void remove_pod(struct world *w)
{
    const cJSON *last = NULL;
    for (const cJSON *p = NULL; (p = store_next(&w->store, "pods", p)) != NULL;) {
        last = p;
    }
    char *name = strdup(field_meta(last, "name"));
    store_delete(&w->store, "pods", "n", name);
    free(name);
}

static void report(struct world *w)
{
    char text[sizeof deployment.text];
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"op\"},\"spec\":{\"replicas\":%u},\"status\":{"
                   "\"observedGeneration\":%u,\"replicas\":%u,\"updatedReplicas\":%u,"
                   "\"availableReplicas\":%u}}",
                   deployment.replicas, deployment.unobserved ? 0 : 1000000, count_pods(w, NULL),
                   count_pods(w, NULL) - deployment.outdated, count_ready(w));
    if (strcmp(text, deployment.text) != 0) {
        memcpy(deployment.text, text, sizeof text);
        store_put_text(&w->store, "deployments", "n", "%s", text);
    }
}

/* Pods are made, and ready after some time: one thing in a turn. */
static void play(struct world *w)
{
    static uint64_t since;
    uint64_t now = net_clock_now(&w->clock.clock);
    unsigned pods = count_pods(w, NULL);
    const char *shard = choose_shard(w);
    if (pods < deployment.replicas && (shard[0] != '\0' || deployment.without_shards)) {
        new_pod(w, shard, false);
        since = now;
    } else if (pods > deployment.replicas) {
        remove_pod(w);
    } else if (now - since >= STARTING_MS && !deployment.broken) {
        for (const cJSON *p = NULL; (p = store_next(&w->store, "pods", p)) != NULL;) {
            if (strcmp(store_text(p, "status/conditions/0/status"), "True") != 0) {
                char *name = strdup(field_meta(p, "name"));
                char *copy = strdup(store_text(p, "metadata/labels/" WORLD_PREFIX "~" POD_SHARD));
                put_pod(w, name, copy, true);
                free(copy);
                free(name);
                break;
            }
        }
    }
    report(w);
}

/* ---- the beginning ---- */

static void put_root_of(struct world *w, const char *spec, const char *more)
{
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r\",\"creationTimestamp\":"
                   "\"2026-01-01T00:00:00Z\"},\"spec\":{%s\"controller\":{"
                   "\"leaderElectionName\":\"lock\"},\"root\":{\"prefix\":\"x\","
                   "\"targetDeployment\":\"op\",\"resourceSelector\":[{\"relateResources\":["
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}]}],%s}}}",
                   spec, more);
}

static void put_root(struct world *w, const char *more)
{
    put_root_of(w, "", more);
}

#define ELASTIC "\"auto\":{\"shardingSize\":\"auto\",\"everyShardReplicas\":2}"
#define TWO "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":2}"
#define CANARY "\"canary\":{\"replicas\":1,\"inNamespaces\":[\"a\"]},"

static void begin(struct world *w, unsigned replicas, const char *root)
{
    memset(&deployment, 0, sizeof deployment);
    deployment.replicas = replicas;
    w->store.served = RESOURCES;
    w->on_turn = play;
    put_root(w, root);
    world_lead(w);
}

static void expect_pods(struct world *w, const char *shard, unsigned count)
{
    for (unsigned i = 0; count_pods(w, shard) != count && i < 600; i++) {
        world_stride(w, 1000);
    }
    assert_int_equal(count_pods(w, shard), count);
}

/* The shards have these pods, all ready, whatever the webhook would say. */
static void begin_uneven(struct world *w, const unsigned pods[SHARDS], const char *root)
{
    begin(w, 0, root);
    world_settle(w);
    for (unsigned i = 0; i < SHARDS; i++) {
        char shard[32];
        (void)snprintf(shard, sizeof shard, i == 0 ? "x-%u-canary" : "x-%u-normal", i);
        for (unsigned k = 0; k < pods[i]; k++) {
            new_pod(w, shard, true);
            deployment.replicas++;
        }
    }
}

static uint64_t evicted(const struct world *w)
{
    return w->counts.evictions[EVICTION_DONE];
}

static void expect_evictions(struct world *w, uint64_t count)
{
    for (unsigned i = 0; evicted(w) < count && i < 400; i++) {
        world_stride(w, 250);
    }
    assert_int_equal(evicted(w), count);
}

/* ---- shards ---- */

static void test_shards(void **state)
{
    struct world *w = *state;
    begin(w, 5, CANARY ELASTIC);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_condition(w, "Sized", "True", "Sized");
    world_expect_condition(w, "Balanced", "True", "Balanced");
    expect_pods(w, "x-0-canary", 1);
    expect_pods(w, "x-1-normal", 2);
    expect_pods(w, "x-2-normal", 2);
    world_expect_text(w, "x-1-normal", "spec/selector/matchLabels/" WORLD_PREFIX "~" POD_SHARD,
                      "x-1-normal");
    assert_int_equal(evicted(w), 0);
    world_expect_attended(w);
}

/* An autoscaler makes more pods before there is their shard, and fewer than go by chance. */
static void test_the_size_follows_the_replicas(void **state)
{
    struct world *w = *state;
    begin(w, 4, ELASTIC);
    world_expect_condition(w, "Ready", "True", "Enforced");
    deployment.replicas = 8;
    expect_pods(w, "x-3-normal", 2);
    expect_pods(w, "x-4-normal", 2);
    world_expect_condition(w, "Ready", "True", "Enforced");
    deployment.replicas = 3;
    expect_pods(w, "x-1-normal", 3);
    world_expect_gone(w, "x-4-normal");
    world_expect_gone(w, "x-3-normal");
    world_expect_gone(w, "x-2-normal");
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_condition(w, "Balanced", "True", "Balanced");
    world_expect_attended(w);
}

#define LEAVING "metadata/annotations/" WORLD_PREFIX "~" ROOT_LEAVING

/* There were to be fewer shards for a moment, before those that came had any bucket: nothing else
 * of them is different. The webhook gives a shard that is leaving no pod. */
static void test_shards_that_stay_after_all(void **state)
{
    struct world *w = *state;
    begin(w, 4, ELASTIC);
    world_expect_condition(w, "Ready", "True", "Enforced");
    deployment.broken = true;
    deployment.replicas = 8;
    expect_pods(w, "x-3-normal", 2);
    expect_pods(w, "x-4-normal", 2);
    w->on_turn = NULL;
    deployment.replicas = 4;
    report(w);
    world_expect_text(w, "x-3-normal", LEAVING, "true");
    world_expect_text(w, "x-4-normal", LEAVING, "true");
    deployment.replicas = 8;
    report(w);
    world_expect_text(w, "x-3-normal", LEAVING, "");
    world_expect_text(w, "x-4-normal", LEAVING, "");
}

/* Pods that are left over are of the shards that there are. */
static void test_more_pods_than_are_needed(void **state)
{
    struct world *w = *state;
    begin(w, 7, TWO);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_expect_condition(w, "Sized", "True", "Sized");
    assert_int_equal(count_pods(w, "x-1-normal") + count_pods(w, "x-2-normal"), 7);
    deployment.replicas = 3;
    world_expect_condition(w, "Sized", "False", "TooFewReplicas");
    assert_int_equal(evicted(w), 0);
}

static void test_without_the_deployment(void **state)
{
    struct world *w = *state;
    begin(w, 0, ELASTIC);
    w->on_turn = NULL;
    world_expect_condition(w, "Sized", "False", "NotFound");
    world_expect_condition(w, "Ready", "False", "DeploymentNotFound");
    world_expect_condition(w, "Balanced", "Unknown", "DeploymentUnknown");
    world_expect_event(w, "NotSized", "There is no Deployment op.");
}

/* The pods that there were keep their sidecars, and their shards go on. */
static void test_from_a_stateful_set(void **state)
{
    struct world *w = *state;
    world_stateful_set(w, 2);
    world_size(w, 2, 1);
    world_pod(w, 0, "x-1-normal", true);
    world_pod(w, 1, "x-2-normal", true);
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_retire(w);
    begin(w, 4, TWO);
    world_expect_text(w, "x-2-normal", "spec/selector/matchLabels/" WORLD_PREFIX "~" POD_SHARD,
                      "x-2-normal");
    world_expect_text(w, "x-2-normal", "spec/selector/matchExpressions/0/key", "");
    world_stateful_set(w, 2);
    world_size(w, 2, 1); /* and back */
    world_expect_text(w, "x-2-normal", "spec/selector/matchExpressions/0/key", POD_NAME_LABEL);
    world_expect_text(w, "x-2-normal", "metadata/annotations/" WORLD_PREFIX "~" ROOT_PODS, "");
    world_expect_attended(w);
}

/* ---- evening out ---- */

static void test_surplus_pods(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO);
    world_expect_condition(w, "Balanced", "False", "Uneven");
    world_expect_metric(w, "\ncmesh_manager_root_balanced{root_namespace=\"n\",root=\"r\"} 0\n");
    world_stride(w, 29000);
    assert_int_equal(evicted(w), 0);
    expect_evictions(w, 1);
    world_expect_event(w, "PodEvicted", "of shard x-1-normal, which had 4, for shard x-2-normal");
    world_expect_event(w, "PodEvicted", "because shard x-1-normal had 4 pods");
    world_expect_text(w, "r", "status/root/eviction/shard", "x-1-normal");
    world_stride(w, 29000);
    assert_int_equal(evicted(w), 1);
    expect_evictions(w, 2);
    expect_pods(w, "x-1-normal", 2);
    expect_pods(w, "x-2-normal", 2);
    world_expect_condition(w, "Balanced", "True", "Balanced");
    world_expect_metric(w, "\ncmesh_manager_root_balanced{root_namespace=\"n\",root=\"r\"} 1\n");
    world_stride(w, 3 * MINUTE_MS);
    assert_int_equal(evicted(w), 2);
    world_expect_condition(w, "Ready", "True", "Enforced");
}

static void test_a_canary_with_too_many(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){3, 1, 1}, CANARY TWO);
    expect_pods(w, "x-0-canary", 1);
    expect_pods(w, "x-1-normal", 2);
    expect_pods(w, "x-2-normal", 2);
    assert_int_equal(evicted(w), 2);
}

static void test_nothing_while_it_is_rolled_out(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO);
    deployment.outdated = 1;
    world_expect_condition(w, "Balanced", "Unknown", "RollingOut");
    world_stride(w, 3 * MINUTE_MS);
    deployment.outdated = 0;
    deployment.unobserved = true;
    world_stride(w, 3 * MINUTE_MS);
    assert_int_equal(evicted(w), 0);
    deployment.unobserved = false;
    world_stride(w, 20000);
    assert_int_equal(evicted(w), 0);
    world_stride(w, 11000);
    assert_int_equal(evicted(w), 1);
}

static void test_a_rollout_in_between(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO);
    world_stride(w, 25000);
    deployment.outdated = 1;
    world_stride(w, 1000);
    deployment.outdated = 0;
    world_stride(w, 25000);
    assert_int_equal(evicted(w), 0);
    world_stride(w, 6000);
    assert_int_equal(evicted(w), 1);
}

static void test_pods_that_are_not_ready(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 3, 0}, TWO);
    deployment.broken = true;
    put_pod(w, "op-1-1", "x-1-normal", false);
    expect_evictions(w, 1); /* though not all are available */
    world_expect_text(w, "r", "status/root/eviction/pod", "op-1-1");
    expect_pods(w, "x-2-normal", 1);
    world_stride(w, 3 * MINUTE_MS);
    assert_int_equal(evicted(w), 1);
    /* And none that is ready, while one does not become so. */
    new_pod(w, "x-1-normal", true);
    new_pod(w, "x-1-normal", true);
    deployment.replicas += 2;
    world_expect_condition(w, "Balanced", "False", "WaitingForPods");
    world_stride(w, 3 * MINUTE_MS);
    assert_int_equal(evicted(w), 1);
    deployment.broken = false;
    expect_evictions(w, 2);
}

static void lead_by(struct world *w, const char *lock, const char *pod)
{
    store_put_text(&w->store, "leases", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"holderIdentity\":\"%s_123\","
                   "\"leaseDurationSeconds\":3600,\"renewTime\":"
                   "\"2026-07-14T09:30:00.000000Z\"}}",
                   lock, pod);
}

static void test_who_leads_is_last(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 2, 0}, TWO);
    lead_by(w, "lock---x-1-normal", "op-1-0");
    expect_evictions(w, 1);
    world_expect_text(w, "r", "status/root/eviction/pod", "op-1-1");
    assert_int_equal(count_pods(w, "x-1-normal"), 1);
}

/* The lock is followed to where the shard has it by now. */
static void test_who_leads_by_another_lock_is_last(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 2, 0}, TWO);
    lead_by(w, "lock---x-1-normal", "op-1-0");
    store_fail(&w->store, "eviction", 429, STORE_NONE, 1000000);
    world_expect_condition(w, "Balanced", "False", "EvictionBlocked");
    lead_by(w, "lock", "op-1-1");
    put_root_of(w, "\"leaving\":\"x-1-normal\",", TWO);
    world_stride(w, MINUTE_MS);
    store_fail(&w->store, "eviction", 0, STORE_NONE, 0);
    expect_evictions(w, 1);
    world_expect_text(w, "r", "status/root/eviction/pod", "op-1-0");
}

static void test_a_budget(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO);
    store_fail(&w->store, "eviction", 429, STORE_NONE, 1000000);
    world_expect_condition(w, "Balanced", "False", "EvictionBlocked");
    world_expect_event(w, "EvictionBlocked", "is not evicted");
    world_stride(w, MINUTE_MS);
    assert_int_equal(evicted(w), 0);
    assert_true(w->counts.evictions[EVICTION_BLOCKED] >= 4);
    assert_true(w->counts.evictions[EVICTION_BLOCKED] <= 9);
    assert_int_equal(world_events(w, "EvictionBlocked"), 1);
    store_fail(&w->store, "eviction", 0, STORE_NONE, 0);
    world_stride(w, 11000);
    assert_int_equal(evicted(w), 1);
    expect_pods(w, "x-2-normal", 2);
}

/* In whatever phase it begins, pods are evicted one at a time, and not within 30 s. */
static void test_another_leader(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 6, 0}, TWO);
    expect_evictions(w, 1);
    for (unsigned i = 0; i < 20; i++) {
        world_retire(w);
        world_lead(w);
        world_stride(w, 1000 * i);
    }
    assert_int_equal(evicted(w), 1);
    world_retire(w);
    world_lead(w);
    expect_pods(w, "x-1-normal", 4);
    expect_pods(w, "x-2-normal", 2);
    assert_int_equal(evicted(w), 2);
}

/* The answer does not come: it is not known whether it was done. */
static void test_an_answer_that_is_lost(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 2, 0}, TWO);
    store_fail(&w->store, "eviction", 0, STORE_CUT_DONE, 1);
    expect_pods(w, "x-2-normal", 1);
    world_stride(w, 2 * MINUTE_MS);
    assert_int_equal(count_pods(w, "x-1-normal"), 1);
    world_expect_condition(w, "Balanced", "True", "Balanced");
}

/* What does not help is done ever more rarely. */
static void test_pods_that_come_back(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO);
    deployment.sticky = "x-1-normal";
    world_pass(w, 60 * MINUTE_MS);
    assert_true(evicted(w) >= 3);
    assert_true(evicted(w) <= 7);
    deployment.sticky = NULL;
    world_pass(w, 60 * MINUTE_MS);
    world_pass(w, 60 * MINUTE_MS);
    expect_pods(w, "x-2-normal", 2);
}

static void test_pods_without_a_shard(void **state)
{
    struct world *w = *state;
    begin(w, 0, TWO);
    deployment.without_shards = true;
    deployment.replicas = 4;
    world_expect_condition(w, "Balanced", "False", "PodsWithoutShard");
    world_expect_event(w, "PodsWithoutShard", "4 of 4 pods of Deployment op have no label");
    world_stride(w, 3 * MINUTE_MS);
    assert_int_equal(evicted(w), 0);
}

/* A template without this label is made again as it was. */
static void test_what_pods_without_a_shard_need(void **state)
{
    struct world *w = *state;
    begin(w, 0, TWO);
    deployment.without_shards = true;
    deployment.replicas = 1;
    world_expect_event(w, "PodsWithoutShard",
                       "Their template needs the label " WORLD_PREFIX "/" SIDECAR_ENABLE
                       ": \"true\"");
}

static void put_other_root(struct world *w, const char *created)
{
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"other\",\"creationTimestamp\":\"%s\"},\"spec\":{"
                   "\"root\":{\"prefix\":\"y\",\"targetDeployment\":\"op\",\"disable\":true,"
                   "\"resourceSelector\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}]}]}}}",
                   created);
}

static void test_another_root_has_the_pods(void **state)
{
    struct world *w = *state;
    begin(w, 0, TWO);
    put_other_root(w, "2025-01-01T00:00:00Z");
    deployment.without_shards = true;
    deployment.replicas = 4;
    world_expect_condition(w, "Balanced", "False", "AnotherRoot");
    world_expect_event(w, "AnotherRoot", "given to the shards of another root, other, which is");
    store_delete(&w->store, "shardingconfigs", "n", "other");
    world_expect_condition(w, "Balanced", "False", "PodsWithoutShard");
    put_other_root(w, "2027-01-01T00:00:00Z");
    world_stride(w, MINUTE_MS);
    world_expect_condition(w, "Balanced", "False", "PodsWithoutShard");
}

/* They have the label, and are nobody's or of another Deployment. */
static void test_pods_that_are_not_its_own(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 2, 2}, TWO);
    world_expect_condition(w, "Balanced", "True", "Balanced");
    w->on_turn = NULL;
    new_pod(w, "x-1-normal", true);
    world_expect_condition(w, "Balanced", "Unknown", "RollingOut");
    assert_non_null(strstr(world_condition(w, "Balanced", "message"),
                           "pods that are not of it have the label"));
}

/* What its status says may be older than what is known of its pods. */
static void test_a_pod_that_has_just_gone(void **state)
{
    struct world *w = *state;
    begin(w, 4, TWO);
    world_expect_condition(w, "Balanced", "True", "Balanced");
    w->on_turn = NULL;
    store_delete(&w->store, "pods", "n", "op-1-0");
    world_expect_condition(w, "Balanced", "Unknown", "RollingOut");
    world_stride(w, 8000);
    assert_int_equal(world_events(w, "PodsWithoutShard"), 0);
    world_stride(w, 3000);
    world_expect_condition(w, "Balanced", "False", "PodsWithoutShard");
}

static void test_disable(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO ",\"disable\":true");
    world_expect_condition(w, "Balanced", "Unknown", "Disabled");
    world_stride(w, 3 * MINUTE_MS);
    assert_int_equal(evicted(w), 0);
    put_root(w, TWO);
    expect_pods(w, "x-1-normal", 2);
}

static void test_the_root_is_made_again(void **state)
{
    struct world *w = *state;
    begin_uneven(w, (const unsigned[SHARDS]){0, 4, 0}, TWO);
    expect_evictions(w, 1);
    store_delete(&w->store, "shardingconfigs", "n", "r");
    store_delete(&w->store, "shardingconfigs", "n", "x-1-normal");
    store_delete(&w->store, "shardingconfigs", "n", "x-2-normal");
    world_stride(w, 2 * MINUTE_MS);
    assert_int_equal(evicted(w), 1);
    put_root(w, TWO);
    expect_pods(w, "x-1-normal", 2);
    expect_pods(w, "x-2-normal", 2);
    assert_int_equal(evicted(w), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
        TEST(test_shards),
        TEST(test_the_size_follows_the_replicas),
        TEST(test_shards_that_stay_after_all),
        TEST(test_more_pods_than_are_needed),
        TEST(test_without_the_deployment),
        TEST(test_from_a_stateful_set),
        TEST(test_surplus_pods),
        TEST(test_a_canary_with_too_many),
        TEST(test_nothing_while_it_is_rolled_out),
        TEST(test_a_rollout_in_between),
        TEST(test_pods_that_are_not_ready),
        TEST(test_who_leads_is_last),
        TEST(test_who_leads_by_another_lock_is_last),
        TEST(test_a_budget),
        TEST(test_another_leader),
        TEST(test_an_answer_that_is_lost),
        TEST(test_pods_that_come_back),
        TEST(test_pods_without_a_shard),
        TEST(test_what_pods_without_a_shard_need),
        TEST(test_another_root_has_the_pods),
        TEST(test_pods_that_are_not_its_own),
        TEST(test_a_pod_that_has_just_gone),
        TEST(test_disable),
        TEST(test_the_root_is_made_again),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
