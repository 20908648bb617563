/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What webhooks decide from a cache is what follows from the objects themselves: shards and pods by
 * chance, whose admission is compared with the plain rule.
 */
#include "run/admission_snapshot.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "inject/inject.h"
#include "kube/selector_overlap.h"
#include "selects.h"
#include "storing_api.h"

enum { PATIENCE_TURNS = 5000, WORLDS = 12, ASKED = 40, SHARDS = 6, PODS = 10, CONFIG_SIZE = 1024 };

static const struct compile_options options = {
    .generation = 1,
    .labels = {.prefix = "ctrlmesh.kusionstack.io",
               .namespace = "namespace",
               .shard_hash = "sharding-hash",
               .control = "control"},
};

struct place {
    struct storing_api store;
    struct shard_cache *cache;
    struct discovery *discovery;
    struct admission_snapshot snapshot;
    void (*serve)(struct scripted_api *a, struct api_request *q); /* the store's */
    unsigned metrics_asked;                                       /* rounds of discovery */
};

/* ---- an API server with an aggregated API that is down ---- */

static const char *document_at(const char *target)
{
    static const char *const documents[][2] = {
        {"/api", "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}"},
        {"/apis", "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"metrics.k8s.io\","
                  "\"versions\":[{\"version\":\"v1beta1\"}],"
                  "\"preferredVersion\":{\"version\":\"v1beta1\"}}]}"},
        {"/api/v1", "{\"kind\":\"APIResourceList\",\"resources\":["
                    "{\"name\":\"pods\",\"kind\":\"Pod\",\"namespaced\":true,"
                    "\"verbs\":[\"list\",\"watch\",\"patch\"]},"
                    "{\"name\":\"nodes\",\"kind\":\"Node\",\"verbs\":[\"list\"]}]}"},
    };
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        if (strcmp(target, documents[i][0]) == 0) {
            return documents[i][1];
        }
    }
    return NULL;
}

static void serve_discovery(struct scripted_api *a, struct api_request *q)
{
    struct storing_api *store = a->data;
    struct place *p = LIST_ITEM(store, struct place, store);
    const char *document = document_at(q->target);
    if (document != NULL) {
        api_answer(q, 200, NULL, document);
    } else if (strcmp(q->target, "/apis/metrics.k8s.io/v1beta1") == 0) {
        p->metrics_asked++;
        api_answer(q, 503, NULL, "");
    } else {
        p->serve(a, q);
    }
}

/* As the manager does it. */
static void on_discovered(void *data)
{
    static const struct sharding_resource labelled = {"", "v1", "pods", "Pod"};
    struct place *p = data;
    admission_snapshot_discovered(&p->snapshot, &labelled, 1);
}

static const struct discovery_handlers discovery_handlers = {.on_change = on_discovered};

/* So many rounds of discovery are over. */
static void await_rounds(struct place *p, unsigned rounds)
{
    for (int i = 0; i < PATIENCE_TURNS && p->metrics_asked < rounds; i++) {
        fake_clock_pass(&p->store.api.clock, 100);
        run_for(p->store.api.loop, 1);
    }
    assert_in_range(p->metrics_asked, rounds, UINT_MAX);
    store_settle(&p->store);
}

static int setup(void **state)
{
    if (store_setup(state, sizeof(struct place)) != 0) {
        return -1;
    }
    struct place *p = *state;
    struct net_loop *l = p->store.api.loop;
    const struct shard_cache_options o = {.client = p->store.api.client,
                                          .prefix = "ctrlmesh.kusionstack.io"};
    const struct discovery_options d = {.client = p->store.api.client,
                                        .clock = &p->store.api.clock.clock};
    p->store.random = 4711;
    p->cache = shard_cache_new(l, &o);
    p->serve = p->store.api.serve;
    p->store.api.serve = serve_discovery;
    p->discovery = discovery_new(l, &d, &discovery_handlers, p);
    p->snapshot = (struct admission_snapshot){
        .cache = p->cache, .discovery = p->discovery, .compile = &options};
    return p->cache == NULL || p->discovery == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    admission_snapshot_deinit(&p->snapshot);
    discovery_free(p->discovery);
    shard_cache_free(p->cache);
    return store_teardown(state);
}

static void await_synced(struct place *p)
{
    store_settle(&p->store);
    for (int i = 0; i < PATIENCE_TURNS && !shard_cache_synced(p->cache); i++) {
        run_for(p->store.api.loop, 1);
    }
    assert_true(shard_cache_synced(p->cache));
}

/* ---- by chance ---- */

/* "matchLabels" of one to three labels, or a list of values of one. */
static void random_selector(struct place *p, char *out, size_t size)
{
    static const char *const keys[] = {"app", "shard", "track"};
    unsigned first = store_chance(&p->store, 3);
    unsigned value = store_chance(&p->store, 3);
    if (store_chance(&p->store, 4) == 0) {
        (void)snprintf(out, size,
                       "{\"matchExpressions\":[{\"key\":\"%s\",\"operator\":\"%s\",\"values\":["
                       "\"%u\",\"%u\"]}]}",
                       keys[first], store_chance(&p->store, 2) == 0 ? "In" : "NotIn", value,
                       (value + 1) % 3);
    } else if (store_chance(&p->store, 2) == 0) {
        (void)snprintf(out, size, "{\"matchLabels\":{\"%s\":\"%u\"}}", keys[first], value);
    } else {
        (void)snprintf(out, size, "{\"matchLabels\":{\"%s\":\"%u\",\"%s\":\"%u\"}}", keys[first],
                       value, keys[(first + 1) % 3], store_chance(&p->store, 3));
    }
}

static void random_config(struct place *p, unsigned number, char *out, size_t size)
{
    char selector[256];
    random_selector(p, selector, sizeof selector);
    (void)snprintf(out, size,
                   "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":"
                   "\"ShardingConfig\",\"metadata\":{\"name\":\"s%u\",\"namespace\":\"n\","
                   "\"generation\":%u},\"spec\":{\"selector\":%s,\"controller\":{"
                   "\"leaderElectionName\":\"lock%u\"},\"limits\":[{\"relateResources\":[{"
                   "\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}],\"selector\":{"
                   "\"matchLabels\":{\"x\":\"%u\"}}}]}}",
                   number, p->store.version, selector, store_chance(&p->store, 2),
                   store_chance(&p->store, 2));
}

static void random_pod(struct place *p, unsigned number)
{
    store_put_text(&p->store, "pods", store_chance(&p->store, 5) == 0 ? "elsewhere" : "n",
                   "{\"metadata\":{\"name\":\"p%u\",\"labels\":{\"app\":\"%u\",\"shard\":\"%u\","
                   "\"track\":\"%u\"}}}",
                   number, store_chance(&p->store, 3), store_chance(&p->store, 3),
                   store_chance(&p->store, 3));
}

static void random_world(struct place *p)
{
    char text[CONFIG_SIZE];
    for (unsigned i = 0; i < SHARDS; i++) {
        random_config(p, i, text, sizeof text);
        store_put_text(&p->store, "shardingconfigs", "n", "%s", text);
    }
    for (unsigned i = 0; i < PODS; i++) {
        random_pod(p, i);
    }
    await_synced(p);
}

/* ---- the plain rule ---- */

static bool both_select_a_pod(const struct place *p, const struct selector *a,
                              const struct selector *b)
{
    for (const cJSON *pod = NULL; (pod = store_next(&p->store, "pods", pod)) != NULL;) {
        if (strcmp(shards_namespace(pod), "n") == 0 && selects(a, pod) && selects(b, pod)) {
            return true;
        }
    }
    return false;
}

struct verdict {
    bool refused;
    bool by_pod;
    unsigned possible; /* shards whose pods could be this one's */
    unsigned shared;   /* of the same operator, and both see something */
};

static bool sees_the_same(const cJSON *a, const cJSON *b)
{
    return strcmp(store_text(a, "spec/controller/leaderElectionName"),
                  store_text(b, "spec/controller/leaderElectionName")) == 0 &&
           strcmp(store_text(a, "spec/limits/0/selector/matchLabels/x"),
                  store_text(b, "spec/limits/0/selector/matchLabels/x")) == 0;
}

static struct verdict judge(const struct place *p, const cJSON *config)
{
    struct verdict v = {.refused = false};
    struct selector *own = shards_pod_selector(config, NULL);
    for (const cJSON *o = NULL; (o = store_next(&p->store, "shardingconfigs", o)) != NULL;) {
        struct selector *theirs = shards_pod_selector(o, NULL);
        if (strcmp(shards_name(o), shards_name(config)) != 0) {
            enum overlap overlap = selector_overlap(own, theirs);
            bool pod = both_select_a_pod(p, own, theirs);
            assert_true(!pod || overlap != OVERLAP_NONE);
            v.by_pod = v.by_pod || pod;
            v.refused = v.refused || pod || overlap == OVERLAP_CERTAIN;
            v.possible += overlap == OVERLAP_POSSIBLE ? 1 : 0;
            v.shared += sees_the_same(o, config) ? 1 : 0;
        }
        selector_free(theirs);
    }
    selector_free(own);
    return v;
}

static unsigned count_notes(const struct warnings *notes, const char *text)
{
    unsigned n = 0;
    for (size_t i = 0; i < notes->count; i++) {
        n += strstr(notes->items[i], text) != NULL ? 1 : 0;
    }
    return n;
}

/* Three shards are named, of more it is said how many. */
static void expect_notes(const struct warnings *notes, const char *text, const char *field,
                         unsigned count)
{
    char more[128];
    (void)snprintf(more, sizeof more, "%s: so it is with %u more ShardingConfigs", field,
                   count > 3 ? count - 3 : 0);
    assert_int_equal(count_notes(notes, text), count > 3 ? 3 : count);
    assert_int_equal(count_notes(notes, more), count > 3 ? 1 : 0);
}

/* ---- tests ---- */

static void expect_verdict(struct place *p, const cJSON *config)
{
    struct validate_context w;
    struct warnings notes = WARNINGS_INIT;
    struct err e = ERR_INIT;
    const struct verdict v = judge(p, config);
    assert_int_equal(admission_snapshot_look(&p->snapshot, "n", &w, &e), 0);
    int rc = validate_config(config, &options, &w, &notes, &e);
    if ((rc != 0) != v.refused) {
        fail_msg("%s", rc == 0 ? "it is taken" : e.msg);
    }
    if (rc == 0) {
        expect_notes(&notes, "it would be refused", "spec.selector", v.possible);
        expect_notes(&notes, "of the same operator", "spec.limits", v.shared);
    } else {
        assert_true(!v.by_pod || strstr(e.msg, "selects pod") != NULL);
    }
    warnings_deinit(&notes);
}

static void test_configs_are_judged_by_all_that_there_is(void **state)
{
    struct place *p = *state;
    unsigned taken = 0;
    for (unsigned world = 0; world < WORLDS; world++) {
        random_world(p);
        for (unsigned i = 0; i < ASKED; i++) {
            char text[CONFIG_SIZE];
            random_config(p, store_chance(&p->store, SHARDS + 2), text, sizeof text);
            cJSON *config = cJSON_Parse(text);
            taken += judge(p, config).refused ? 0 : 1;
            expect_verdict(p, config);
            cJSON_Delete(config);
        }
    }
    assert_in_range(taken, WORLDS * ASKED / 50, WORLDS * ASKED / 2);
}

/* A pod that asks for the sidecars of some shard. */
static void expect_shard(struct place *p, const cJSON *pod)
{
    struct validate_context w;
    struct err e = ERR_INIT;
    const cJSON *only = NULL;
    unsigned count = 0;
    for (const cJSON *o = NULL; (o = store_next(&p->store, "shardingconfigs", o)) != NULL;) {
        struct selector *theirs = shards_pod_selector(o, NULL);
        if (selects(theirs, pod)) {
            only = o;
            count++;
        }
        selector_free(theirs);
    }
    assert_int_equal(admission_snapshot_look(&p->snapshot, "n", &w, &e), 0);
    const cJSON *found = shards_of_pod(&w.shards, "n", pod, &e);
    assert_int_equal(found != NULL, count == 1);
    assert_int_equal(e.code, count == 1 ? 0 : count == 0 ? -ENOENT : -EEXIST);
    if (found != NULL) {
        assert_string_equal(shards_name(found), shards_name(only));
    }
}

static void test_pods_find_their_shard(void **state)
{
    struct place *p = *state;
    for (unsigned world = 0; world < WORLDS; world++) {
        random_world(p);
        for (const cJSON *pod = NULL; (pod = store_next(&p->store, "pods", pod)) != NULL;) {
            expect_shard(p, pod);
        }
    }
}

static void test_not_known_yet(void **state)
{
    struct place *p = *state;
    struct validate_context w;
    struct err e = ERR_INIT;
    assert_int_equal(admission_snapshot_look(&p->snapshot, "n", &w, &e), -EAGAIN);
    assert_non_null(strstr(e.msg, "have not been listed yet"));
    await_synced(p);
    assert_int_equal(admission_snapshot_look(&p->snapshot, "n", &w, &e), 0);
    assert_int_equal(w.shards.count, 0);
}

/* What the last complete round found is known, however long a group does not answer. */
static void test_an_aggregated_api_that_stays_down(void **state)
{
    static const char text[] =
        "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"ShardingConfig\","
        "\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"selector\":"
        "{\"matchLabels\":{\"app\":\"0\"}},\"limits\":[{\"relateResources\":[{"
        "\"apiGroups\":[\"\"],\"resources\":[\"pods\",\"nodes\",\"pod\"]}],\"selector\":"
        "{\"matchLabels\":{\"ctrlmesh.kusionstack.io/namespace\":\"a\"}}}]}}";
    struct place *p = *state;
    struct validate_context w;
    struct err e = ERR_INIT;
    struct warnings notes = WARNINGS_INIT;
    await_synced(p);
    await_rounds(p, 3);
    cJSON *config = cJSON_Parse(text);
    assert_int_equal(admission_snapshot_look(&p->snapshot, "n", &w, &e), 0);
    assert_int_equal(w.resource_count, 2);
    if (validate_config(config, &options, &w, &notes, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(count_notes(&notes, "is not found"), 1);
    assert_int_equal(count_notes(&notes, "\"pod\" is not found"), 1);
    assert_int_equal(count_notes(&notes, "is \"pods\" meant?"), 1);
    assert_int_equal(count_notes(&notes, "nodes"), 1);
    warnings_deinit(&notes);
    cJSON_Delete(config);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_configs_are_judged_by_all_that_there_is),
        TEST(test_pods_find_their_shard),
        TEST(test_not_known_yet),
        TEST(test_an_aggregated_api_that_stays_down),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
