/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cache knows of a small API server, and what it tells whoever listens.
 */
#include <stdlib.h>

#include "base/log.h"
#include "shard_cache_fixture.h"
#include "json/digest.h"

static void test_what_there_is(void **state)
{
    struct place *p = *state;
    place_put_config(p, "n", "a", "a");
    place_put_config(p, "n", "b", "b");
    place_put_pod(p, "n", "p2", "a");
    place_put_pod(p, "n", "p1", "a");
    place_put_pod(p, "n", "p3", "x");
    place_put_pod(p, "elsewhere", "p4", "a");
    place_put_map(p, "n", "a", "true");
    place_put_map(p, "n", "foreign", "false");
    place_begin(p, NULL);
    place_await_synced(p);
    assert_null(shard_cache_error(p->cache));
    const struct shard_cache_config *a = shard_cache_find_config(p->cache, "n/a");
    assert_string_equal(a->name, "a");
    assert_int_equal(a->pod_count, 2);
    assert_false(a->root);
    assert_string_equal(store_text(a->object, "kind"), "ShardingConfig");
    assert_string_equal(store_text(a->object, "apiVersion"), "ctrlmesh.kusionstack.io/v1alpha1");
    assert_string_equal(store_text(a->object, "metadata/managedFields/0/manager"), "");
    assert_string_equal(
        store_text(a->object,
                   "metadata/annotations/kubectl.kubernetes.io~last-applied-configuration"),
        "");
    const struct pod **pods = shard_cache_pods_of(a);
    assert_string_equal(pods[0]->name, "p1"); /* by name */
    assert_string_equal(pods[1]->name, "p2");
    assert_ptr_equal(shard_cache_shard_of(pods[0], NULL), a);
    assert_null(shard_cache_shard_of(pods[0], a));
    free(pods);
    assert_non_null(shard_cache_find_pod(p->cache, "elsewhere/p4"));
    assert_int_equal(place_metric(p, "cmesh_manager_known_namespaces"), 2);
    assert_non_null(shard_cache_find_map(p->cache, "n/a"));
    assert_null(shard_cache_find_map(p->cache, "n/foreign"));
    assert_null(shard_cache_find_config(p->cache, "n/c"));
}

/* The whole spec of a root, and who changed its children. */
static void test_roots_and_children(void **state)
{
    struct place *p = *state;
    store_put_text(&p->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r\",\"labels\":{\"l\":\"m\"}},\"spec\":{\"root\":{"
                   "\"prefix\":\"x\"},\"webhook\":{\"port\":1}}}");
    store_put_text(&p->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"x-1-normal\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/auto-sharding-root\":\"r\"},\"ownerReferences\":["
                   "{\"uid\":\"u\",\"controller\":true}],\"managedFields\":["
                   "{\"manager\":\"kubectl-edit\",\"time\":\"2026-01-01T00:00:00Z\"},"
                   "{\"manager\":\"cmesh-root\",\"time\":\"2026-01-02T00:00:00Z\"},"
                   "{\"manager\":\"cmesh-manager\",\"time\":\"2026-01-03T00:00:00Z\"}]},"
                   "\"spec\":{\"limits\":[]}}");
    place_begin(p, NULL);
    place_await_synced(p);
    const struct shard_cache_config *root = shard_cache_find_config(p->cache, "n/r");
    cJSON *whole = shard_cache_whole(root);
    assert_true(root->root);
    assert_string_equal(root->changed_by, "");
    assert_string_equal(store_text(whole, "spec/root/prefix"), "x");
    assert_string_equal(store_text(whole, "spec/webhook/port"), "1");
    assert_string_equal(store_text(whole, "metadata/name"), "r");
    assert_true(root->digest == json_digest(cJSON_GetObjectItem(whole, "spec")));
    cJSON_Delete(whole);
    const struct shard_cache_config *child = shard_cache_find_config(p->cache, "n/x-1-normal");
    assert_string_equal(child->changed_by, "kubectl-edit at 2026-01-01T00:00:00Z");
    assert_string_equal(store_text(child->object, "metadata/ownerReferences/0/uid"), "u");
    assert_string_equal(
        store_text(child->object, "metadata/labels/ctrlmesh.kusionstack.io~auto-sharding-root"),
        "r");
}

/* ---- several listeners ---- */

struct counting {
    struct place *place;
    struct shard_cache_listener listener;
    struct shard_cache_listener *parting; /* who leaves when this one is told */
    unsigned told;
};

static void count_shard(void *data, const char *key, enum shard_cache_part part)
{
    struct counting *c = data;
    (void)key;
    c->told += part == SHARD_CACHE_CONFIG;
    if (c->parting != NULL) {
        shard_cache_unlisten(c->place->cache, c->parting);
    }
}

static const struct shard_cache_handlers counting_handlers = {.on_shard = count_shard};

static void begin_counting(struct place *p, struct counting *c)
{
    *c = (struct counting){.place = p, .listener = {.handlers = &counting_handlers, .data = c}};
    shard_cache_unlisten(p->cache, &c->listener); /* it does not listen */
    shard_cache_listen(p->cache, &c->listener);
}

static void test_several_listen(void **state)
{
    struct place *p = *state;
    struct counting all[4];
    place_begin(p, NULL);
    for (size_t i = 0; i < 4; i++) {
        begin_counting(p, &all[i]);
    }
    all[0].parting = &all[1].listener; /* the next one */
    all[2].parting = &all[2].listener; /* itself */
    place_put_config(p, "n", "a", "a");
    place_expect(p, "config(n/a) ");
    assert_int_equal(all[0].told, 1);
    assert_int_equal(all[1].told, 0);
    assert_int_equal(all[2].told, 1);
    assert_int_equal(all[3].told, 1);
    all[3].parting = &all[0].listener; /* one before it */
    place_put_config(p, "n", "b", "b");
    place_expect(p, "config(n/b) ");
    assert_int_equal(all[0].told, 2);
    assert_int_equal(all[2].told, 1);
    assert_int_equal(all[3].told, 2);
    shard_cache_unlisten(p->cache, &all[3].listener);
    store_delete(&p->store, "shardingconfigs", "n", "a");
    place_expect(p, "config(n/a) ");
    assert_int_equal(all[3].told, 2);
}

static unsigned known_namespaces(struct place *p)
{
    return place_metric(p, "cmesh_manager_known_namespaces");
}

static void await_config(struct place *p, const char *key)
{
    for (int i = 0; i < 500 && shard_cache_find_config(p->cache, key) == NULL; i++) {
        place_run(p, 10);
    }
    assert_non_null(shard_cache_find_config(p->cache, key));
}

/* Anybody may make a ConfigMap: nothing is kept of it that anybody sees, and its namespace is not
 * followed, before there is a config, or a pod, of that name. */
static void test_maps_of_nobody(void **state)
{
    struct place *p = *state;
    place_put_map(p, "n", "a", "true");
    place_put_map(p, "n", "b", "true");
    place_begin(p, NULL);
    place_await_synced(p);
    assert_null(shard_cache_find_map(p->cache, "n/a"));
    assert_null(shard_cache_next_map(p->cache, NULL));
    assert_int_equal(known_namespaces(p), 0);
    place_put_config(p, "n", "a", "a");
    await_config(p, "n/a");
    const struct rules_map *map = shard_cache_find_map(p->cache, "n/a");
    assert_non_null(map);
    assert_true(map->unread);
    assert_ptr_equal(shard_cache_next_map(p->cache, NULL), map);
    assert_null(shard_cache_next_map(p->cache, map));
    char *version = strdup(map->version);
    place_put_map(p, "n", "a", "true");
    for (int i = 0; i < 500 && strcmp(map->version, version) == 0; i++) {
        place_run(p, 10);
        map = shard_cache_find_map(p->cache, "n/a");
    }
    assert_string_not_equal(map->version, version);
    assert_false(map->unread);
    free(version);
    place_put_map(p, "n", "b", "false");
    store_delete(&p->store, "shardingconfigs", "n", "a");
    place_expect(p, "config(n/a) ");
    place_run(p, 20);
    assert_int_equal(known_namespaces(p), 1); /* for its ConfigMap */
    store_delete(&p->store, "configmaps", "n", "cmesh-rules-a");
    for (int i = 0; i < 500 && known_namespaces(p) > 0; i++) {
        place_run(p, 10);
    }
    assert_int_equal(known_namespaces(p), 0);
}

/* One that was asked for is read, unless there is another one by now. */
static void test_maps_that_are_asked_for(void **state)
{
    struct place *p = *state;
    place_put_map(p, "n", "a", "true");
    place_begin(p, NULL);
    place_await_synced(p);
    place_put_config(p, "n", "a", "a");
    await_config(p, "n/a");
    cJSON *object = cJSON_Duplicate(store_get(&p->store, "configmaps", "n", "cmesh-rules-a"), true);
    struct rules_map *map = rules_map_new(object, "ctrlmesh.kusionstack.io");
    assert_true(shard_cache_learn_map(p->cache, map));
    assert_ptr_equal(shard_cache_find_map(p->cache, "n/a"), map);
    map = rules_map_new(object, "ctrlmesh.kusionstack.io");
    assert_false(shard_cache_learn_map(p->cache, map)); /* it is read already */
    rules_map_free(map);
    cJSON_Delete(object);
}

static void test_one_namespace(void **state)
{
    struct place *p = *state;
    place_put_config(p, "n", "a", "a");
    place_put_config(p, "m", "a", "a");
    place_put_map(p, "m", "a", "true");
    place_begin(p, "n");
    place_await_synced(p);
    assert_non_null(shard_cache_find_config(p->cache, "n/a"));
    assert_null(shard_cache_find_config(p->cache, "m/a"));
    assert_null(shard_cache_find_map(p->cache, "m/a"));
}

/* Until something fails, with this in its text. */
static void await_error(struct place *p, const char *part)
{
    const char *error = NULL;
    for (int i = 0; i < PLACE_PATIENCE_TURNS && (error == NULL || strstr(error, part) == NULL);
         i++) {
        place_run(p, 1);
        error = shard_cache_error(p->cache);
    }
    assert_non_null(error);
    assert_non_null(strstr(error, part));
}

static void refuse(struct place *p, const char *part, unsigned status)
{
    p->store.refused.part = part;
    p->store.refused.status = status;
}

static void test_the_definition_is_missing(void **state)
{
    struct place *p = *state;
    p->hurried = true;
    refuse(p, "/shardingconfigs", 404);
    place_put_pod(p, "n", "p1", "a");
    place_begin(p, NULL);
    await_error(p, "shardingconfigs.ctrlmesh.kusionstack.io is not installed: apply "
                   "k8s/base/crd.yaml");
    assert_null(shard_cache_find_pod(p->cache, "n/p1")); /* pods wait for the configs */
    refuse(p, NULL, 0);
    place_await_synced(p);
}

/* Nothing is ready without the pods; what is known stays when they are refused later. */
static void test_pods_are_refused(void **state)
{
    struct place *p = *state;
    p->hurried = true;
    refuse(p, "/api/v1/pods?", 403);
    place_put_config(p, "n", "a", "a");
    place_put_pod(p, "n", "p1", "a");
    place_begin(p, NULL);
    await_error(p, "403");
    assert_non_null(shard_cache_find_config(p->cache, "n/a"));
    assert_false(shard_cache_synced(p->cache));
    refuse(p, NULL, 0);
    place_await_synced(p);
    place_expect(p, "ready() ");
    assert_null(shard_cache_error(p->cache));
    refuse(p, "/api/v1/pods?", 403);
    store_expire_watches(&p->store, "/api/v1/pods?");
    store_delete(&p->store, "pods", "n", "p1");
    await_error(p, "403");
    assert_true(shard_cache_synced(p->cache));
    assert_non_null(shard_cache_find_pod(p->cache, "n/p1"));
    refuse(p, NULL, 0);
    place_await_same(p);
    assert_null(strstr(buf_cstr(&p->log), "ready"));
}

/* Nothing is dropped for what the first pages of a list do not show. */
static void test_half_a_list(void **state)
{
    struct place *p = *state;
    p->hurried = true;
    p->store.page_max = 2;
    for (unsigned i = 0; i < 5; i++) {
        char name[] = {'p', (char)('0' + i), '\0'};
        place_put_pod(p, "n", name, "a");
    }
    p->store.paused = "/api/v1/pods?limit=500&continue";
    place_begin(p, NULL);
    place_run(p, 20);
    assert_false(shard_cache_synced(p->cache));
    p->store.paused = NULL;
    store_go_on(&p->store);
    place_await_same(p);
    p->store.paused = "/api/v1/pods?limit=500&continue";
    store_expire_watches(&p->store, "/api/v1/pods?");
    store_delete(&p->store, "pods", "n", "p4");
    place_run(p, 20);
    assert_true(shard_cache_synced(p->cache));
    assert_non_null(shard_cache_find_pod(p->cache, "n/p4"));
    p->store.paused = NULL;
    store_go_on(&p->store);
    place_await_same(p);
}

static void test_changes(void **state)
{
    struct place *p = *state;
    place_begin(p, NULL);
    place_await_synced(p);
    place_put_config(p, "n", "a", "a");
    place_expect(p, "config(n/a) ");
    place_put_pod(p, "n", "p1", "a");
    place_expect(p, "pods(n/a) pod(n/p1 1) ");
    place_put_config(p, "n", "b", "a"); /* they overlap */
    place_expect(p, "pods(n/a) pods(n/b) pod(n/p1 2) config(n/b) ");
    place_put_pod(p, "n", "p1", "x"); /* in neither any more */
    place_expect(p, "pods(n/a) pods(n/b) pod(n/p1 0) ");
    place_put_pod(p, "n", "p1", "a");
    place_expect(p, "pod(n/p1 2) ");
    place_put_config(p, "n", "b", "b"); /* another selector */
    place_expect(p, "pods(n/a) pod(n/p1 1) config(n/b) ");
    place_put_map(p, "n", "a", "true");
    place_expect(p, "map(n/a) ");
    place_put_map(p, "n", "a", "no");
    place_expect(p, "map(n/a) ");
    assert_null(shard_cache_find_map(p->cache, "n/a"));
    store_delete(&p->store, "pods", "n", "p1");
    place_expect(p, "pods(n/a) gone(n/p1 0) ");
    place_put_pod(p, "n", "p1", "a");
    place_expect(p, "pod(n/p1 1) ");
    store_delete(&p->store, "shardingconfigs", "n", "a");
    place_expect(p, "pod(n/p1 0) config(n/a) ");
    assert_non_null(shard_cache_find_pod(p->cache, "n/p1"));
    store_delete(&p->store, "shardingconfigs", "n", "b");
    place_expect(p, "config(n/b) ");
    place_put_config(p, "n", "a", "a");
    place_expect(p, "pods(n/a) pod(n/p1 1) config(n/a) ");
    assert_int_equal(shard_cache_find_config(p->cache, "n/a")->pod_count, 1);
}

/* A status, a heartbeat: what is not kept is not told. */
static void test_what_does_not_matter(void **state)
{
    struct place *p = *state;
    place_put_config(p, "n", "a", "a");
    place_put_pod(p, "n", "p1", "a");
    place_begin(p, NULL);
    place_await_synced(p);
    run_for(p->store.api.loop, 20);
    buf_clear(&p->log);
    store_put_text(&p->store, "pods", "n",
                   "{\"metadata\":{\"name\":\"p1\",\"labels\":{\"shard\":\"a\"}},\"status\":{"
                   "\"message\":\"still here\"}}");
    run_for(p->store.api.loop, 50);
    assert_string_equal(buf_cstr(&p->log), "");
}

static void test_made_again(void **state)
{
    struct place *p = *state;
    place_put_config(p, "n", "a", "a");
    place_put_pod(p, "n", "p1", "a");
    place_begin(p, NULL);
    place_await_synced(p);
    char *uid = strdup(shard_cache_find_config(p->cache, "n/a")->uid);
    run_for(p->store.api.loop, 20);
    buf_clear(&p->log);
    /* Nobody is told of the end in between: the list shows another one. */
    store_end_watches(&p->store);
    store_delete(&p->store, "shardingconfigs", "n", "a");
    store_delete(&p->store, "pods", "n", "p1");
    place_put_config(p, "n", "a", "a");
    place_put_pod(p, "n", "p1", "a");
    place_expect(p, "pod(n/p1 0) config(n/a) ");
    place_await_synced(p);
    run_for(p->store.api.loop, 20);
    assert_string_not_equal(shard_cache_find_config(p->cache, "n/a")->uid, uid);
    assert_int_equal(shard_cache_find_config(p->cache, "n/a")->pod_count, 1);
    free(uid);
}

static void test_selectors_that_make_no_sense(void **state)
{
    struct place *p = *state;
    place_put_pod(p, "n", "p1", "a");
    store_put_text(&p->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{}}}");
    store_put_text(&p->store, "shardingconfigs", "n", "{\"metadata\":{\"name\":\"b\"}}");
    store_put_text(&p->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"root\":{},\"selector\":{"
                   "\"matchLabels\":{\"shard\":\"a\"}}}}");
    place_begin(p, NULL);
    place_await_synced(p);
    assert_int_equal(shard_cache_find_config(p->cache, "n/a")->pod_count, 0);
    assert_int_equal(shard_cache_find_config(p->cache, "n/b")->pod_count, 0);
    assert_int_equal(shard_cache_find_config(p->cache, "n/c")->pod_count, 0);
    assert_true(shard_cache_find_config(p->cache, "n/c")->root);
    assert_int_equal(shard_cache_shard_count(shard_cache_find_pod(p->cache, "n/p1")), 0);
}

static const struct compile_options options = {
    .generation = 1,
    .labels = {.namespace = "namespace", .shard_hash = "hash", .control = "control"}};

/* A config with that spec but for its selector, and other fields; `generation`: "": it has none. */
static const struct rules *rules_after(struct place *p, const char *generation, const char *spec,
                                       const char *status)
{
    store_put_text(&p->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"a\"%s%s},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"a\"}}%s},\"status\":{\"x\":\"%s\"}}",
                   generation[0] == '\0' ? "" : ",\"generation\":", generation, spec, status);
    place_expect(p, "config(n/a) ");
    return shard_cache_rules(p->cache, shard_cache_find_config(p->cache, "n/a"), &options, NULL);
}

static void test_rules_are_compiled_once(void **state)
{
    struct place *p = *state;
    place_begin(p, NULL);
    place_await_synced(p);
    const struct rules *rules = rules_after(p, "1", ",\"limits\":[]", "1");
    assert_non_null(rules);
    assert_int_equal(rules_limit_count(rules), 0);
    assert_ptr_equal(
        shard_cache_rules(p->cache, shard_cache_find_config(p->cache, "n/a"), &options, NULL),
        rules);
    assert_ptr_equal(rules_after(p, "1", ",\"limits\":[]", "2"), rules); /* a status */
    assert_null(rules_after(p, "2", ",\"limits\":5", "2"));
    assert_null(rules_after(p, "2", ",\"limits\":5", "3"));
    rules = rules_after(p, "3",
                        ",\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],\"resources\":"
                        "[\"pods\"]}],\"selector\":{\"matchLabels\":{\"a\":\"b\"}}}]",
                        "3");
    assert_int_equal(rules_limit_count(rules), 1);
    /* Without a generation any change may be one of the spec. */
    assert_int_equal(rules_limit_count(rules_after(p, "", ",\"limits\":[]", "3")), 0);
    assert_null(rules_after(p, "", ",\"limits\":5", "3"));
    /* Another object of the same name, and of the same generation. */
    store_delete(&p->store, "shardingconfigs", "n", "a");
    place_expect(p, "config(n/a) ");
    assert_non_null(rules_after(p, "3", ",\"limits\":[]", "4"));
}

static void test_pods_that_are_shared(void **state)
{
    struct place *p = *state;
    const struct shard_cache_config *other = NULL;
    struct selector *all = selector_parse(SLICE("shard"), NULL);
    struct selector *b = selector_parse(SLICE("shard=b"), NULL);
    place_put_config(p, "n", "a", "a");
    place_put_config(p, "n", "b", "b");
    place_put_pod(p, "n", "p1", "x");
    place_put_pod(p, "n", "p2", "a");
    place_begin(p, NULL);
    place_await_synced(p);
    const struct shard_cache_config *a = shard_cache_find_config(p->cache, "n/a");
    assert_string_equal(shard_cache_shared_pod(p->cache, "n", all, NULL, &other)->name, "p2");
    assert_ptr_equal(other, a);
    assert_null(shard_cache_shared_pod(p->cache, "n", all, a, &other));
    assert_null(shard_cache_shared_pod(p->cache, "n", b, NULL, &other));
    assert_null(shard_cache_shared_pod(p->cache, "elsewhere", all, NULL, &other));
    place_put_pod(p, "n", "p3", "b");
    place_expect(p, "pod(n/p3 1) ");
    assert_string_equal(shard_cache_shared_pod(p->cache, "n", all, a, &other)->name, "p3");
    assert_string_equal(other->name, "b");
    assert_string_equal(shard_cache_shared_pod(p->cache, "n", b, NULL, &other)->name, "p3");
    selector_free(all);
    selector_free(b);
}

static void test_pod_told(void **state)
{
    struct place *p = *state;
    place_put_config(p, "n", "a", "a");
    place_put_pod(p, "n", "p1", "a");
    place_begin(p, NULL);
    place_await_synced(p);
    const char *uid = shard_cache_find_pod(p->cache, "n/p1")->uid;
    shard_cache_pod_told(p->cache, "n/p1", "another", 7);
    shard_cache_pod_told(p->cache, "n/none", uid, 7);
    assert_int_equal(shard_cache_find_pod(p->cache, "n/p1")->generation, 0);
    shard_cache_pod_told(p->cache, "n/p1", uid, 7);
    assert_int_equal(shard_cache_find_pod(p->cache, "n/p1")->generation, 7);
}

/* At any moment of its beginning. */
static void test_freed_early(void **state)
{
    struct place *p = *state;
    place_put_config(p, "n", "a", "a");
    place_put_config(p, "m", "a", "a");
    place_put_pod(p, "n", "p1", "a");
    place_put_map(p, "n", "a", "true");
    for (uint64_t ms = 0; ms < 20; ms++) {
        place_begin(p, NULL);
        run_for(p->store.api.loop, ms);
        shard_cache_free(p->cache);
        p->cache = NULL;
        run_for(p->store.api.loop, 2);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_there_is),
        TEST(test_roots_and_children),
        TEST(test_several_listen),
        TEST(test_maps_of_nobody),
        TEST(test_maps_that_are_asked_for),
        TEST(test_one_namespace),
        TEST(test_the_definition_is_missing),
        TEST(test_pods_are_refused),
        TEST(test_half_a_list),
        TEST(test_changes),
        TEST(test_what_does_not_matter),
        TEST(test_made_again),
        TEST(test_selectors_that_make_no_sense),
        TEST(test_rules_are_compiled_once),
        TEST(test_pods_that_are_shared),
        TEST(test_pod_told),
        TEST(test_freed_early),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
