/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook for pods with a Deployment that has automatic shards: what it decides from a cache
 * that follows an API server, with the steps that a review takes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "assign/assigner.h"
#include "assign/assignments.h"
#include "base/log.h"
#include "object/names.h"
#include "patch_apply.h"
#include "run/admission_snapshot.h"
#include "storing_api.h"
#include "webhook/handlers.h"

#define PREFIX "ctrlmesh.kusionstack.io"
#define COST "controller.kubernetes.io/pod-deletion-cost"
#define COST_PATH "controller.kubernetes.io~pod-deletion-cost"

enum { PATIENCE_TURNS = 5000, TEXT_SIZE = 4096 };

static const struct compile_options options = {
    .generation = 1,
    .labels = {.prefix = PREFIX,
               .namespace = "namespace",
               .shard_hash = "sharding-hash",
               .control = "control"},
};

struct place {
    struct storing_api store;
    struct shard_cache *cache;
    struct admission_snapshot snapshot;
    struct labels_keys keys;
    struct inject_settings inject;
    struct webhook_context context;
    bool leads;
    unsigned pods;
    struct shard_cache_listener listener;
    char error[ERR_MSG_MAX];
    char warning[1024];
};

static int look(void *data, const char *ns, struct validate_context *w, struct err *e)
{
    return admission_snapshot_look(&((struct place *)data)->snapshot, ns, w, e);
}

static void pods_of(void *data, size_t shard, assigner_pod_cb cb, void *arg)
{
    admission_snapshot_pods(&((const struct place *)data)->snapshot, shard, cb, arg);
}

static bool leads(void *data)
{
    return ((const struct place *)data)->leads;
}

static void on_pod(void *data, const struct pod *pod, bool gone)
{
    (void)gone;
    assigner_see(((const struct place *)data)->context.assigner, &pod->place);
}

static const struct shard_cache_handlers handlers = {.on_pod = on_pod};

static int setup(void **state)
{
    if (store_setup(state, sizeof(struct place)) != 0) {
        return -1;
    }
    struct place *p = *state;
    const struct shard_cache_options o = {
        .client = p->store.api.client, .prefix = PREFIX, .clock = &p->store.api.clock.clock};
    p->cache = shard_cache_new(p->store.api.loop, &o);
    p->snapshot = (struct admission_snapshot){.cache = p->cache, .compile = &options};
    p->inject = inject_defaults;
    p->inject.image = "image";
    p->leads = true;
    p->context = (struct webhook_context){.keys = &p->keys,
                                          .inject = &p->inject,
                                          .compile = &options,
                                          .look = look,
                                          .assigner = assigner_new(&p->store.api.clock.clock),
                                          .pods_of = pods_of,
                                          .leads = leads,
                                          .data = p};
    p->listener = (struct shard_cache_listener){.handlers = &handlers, .data = p};
    shard_cache_listen(p->cache, &p->listener);
    return labels_keys_init(&p->keys, &options.labels, NULL);
}

static int teardown(void **state)
{
    struct place *p = *state;
    shard_cache_unlisten(p->cache, &p->listener);
    assigner_free(p->context.assigner);
    admission_snapshot_deinit(&p->snapshot);
    shard_cache_free(p->cache);
    return store_teardown(state);
}

/* The cache shows what there is. */
static void settle(struct place *p)
{
    store_settle(&p->store);
    for (int i = 0; i < PATIENCE_TURNS && !shard_cache_synced(p->cache); i++) {
        run_for(p->store.api.loop, 1);
    }
    assert_true(shard_cache_synced(p->cache));
    store_settle(&p->store);
}

static void put_root(struct place *p)
{
    store_put_text(&p->store, "shardingconfigs", "demo",
                   "{\"metadata\":{\"name\":\"op\"},\"spec\":{\"selector\":{"
                   "\"matchLabels\":{\"app\":\"op\"}},\"root\":{\"prefix\":\"op\","
                   "\"targetDeployment\":\"op\"}}}");
}

static void put_child(struct place *p, const char *name, unsigned wanted)
{
    store_put_text(
        &p->store, "shardingconfigs", "demo",
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"" PREFIX
        "/auto-sharding-root\":\"op\"},\"annotations\":{\"" PREFIX
        "/auto-sharding-pods\":\"%u\"},\"ownerReferences\":[{\"uid\":\"%s\",\"controller\":true}]},"
        "\"spec\":{\"selector\":{\"matchLabels\":{"
        "\"app\":\"op\",\"" PREFIX "/shard\":\"%s\"}},\"limits\":[]}}",
        name, wanted,
        store_text(store_get(&p->store, "shardingconfigs", "demo", "op"), "metadata/uid"), name);
}

/* A pod of the ReplicaSet op-SET, with these labels beside. */
static cJSON *make_pod(const char *app, const char *set, const char *labels)
{
    char text[TEXT_SIZE];
    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"generateName\":"
                   "\"op-%s-\",\"labels\":{\"" PREFIX "/enable-proxy\":\"true\",\"app\":\"%s\","
                   "\"pod-template-hash\":\"%s\"%s},\"ownerReferences\":[{\"apiVersion\":"
                   "\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"op-%s\",\"uid\":\"%s\","
                   "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"op\",\"image\":"
                   "\"op\"}]}}",
                   set, app, set, labels, set, set);
    return cJSON_Parse(text);
}

/* As the API server has it; NULL: it is refused, p->error says why. Takes the pod. */
static cJSON *review(struct place *p, cJSON *pod, bool dry_run)
{
    const struct webhook_route *route = &webhook_routes[0];
    struct webhook_decision d = {.patch = NULL};
    struct err e = ERR_INIT;
    const struct admission_request r = {
        .operation = ADMISSION_CREATE,
        .resource = {.group = "", .version = "v1", .resource = "pods", .subresource = ""},
        .namespace = "demo",
        .name = "",
        .dry_run = dry_run,
        .object = pod};
    assert_string_equal(route->name, "pods");
    int rc = route->decide(&p->context, &r, &d, &e);
    rc = rc != 0 ? rc : route->finish(&p->context, &r, &d, &e);
    (void)snprintf(p->error, sizeof p->error, "%s", e.msg);
    p->warning[0] = '\0';
    for (size_t i = 0; i < d.warnings.count; i++) {
        bool is_of_label = strncmp(d.warnings.items[i], "metadata.labels", 15) == 0;
        if (is_of_label) {
            (void)snprintf(p->warning, sizeof p->warning, "%s", d.warnings.items[i]);
        }
    }
    if (d.state != NULL) {
        route->forget(d.state);
    }
    warnings_deinit(&d.warnings);
    if (rc != 0) {
        cJSON_Delete(pod);
        cJSON_Delete(d.patch);
        return NULL;
    }
    cJSON *made = patch_apply(pod, d.patch);
    assert_non_null(made);
    cJSON_Delete(pod);
    cJSON_Delete(d.patch);
    return made;
}

/* A pod of that ReplicaSet is created; returns the shard's name in `out`, "" if it is refused. */
static const char *create(struct place *p, const char *set, char out[64])
{
    cJSON *pod = review(p, make_pod("op", set, ""), false);
    out[0] = '\0';
    if (pod != NULL) {
        cJSON *meta = cJSON_GetObjectItem(pod, "metadata");
        char name[32];
        (void)snprintf(name, sizeof name, "op-%s-%u", set, p->pods++);
        cJSON_AddStringToObject(meta, "name", name);
        (void)snprintf(out, 64, "%s", store_text(pod, "metadata/labels/" PREFIX "~" POD_SHARD));
        store_put(&p->store, "pods", "demo", pod);
    }
    return out;
}

static void three_shards(struct place *p)
{
    put_root(p);
    put_child(p, "op-0-canary", 1);
    put_child(p, "op-1-normal", 2);
    put_child(p, "op-2-normal", 2);
    settle(p);
}

static void test_a_pod_gets_its_shard(void **state)
{
    struct place *p = *state;
    char shard[64];
    three_shards(p);
    cJSON *pod = review(p, make_pod("op", "1", ""), false);
    assert_non_null(pod);
    assert_string_equal(store_text(pod, "metadata/labels/" PREFIX "~" POD_SHARD), "op-0-canary");
    assert_string_equal(store_text(pod, "metadata/labels/" PREFIX "~" SIDECAR_INJECTED),
                        "op-0-canary");
    assert_string_equal(store_text(pod, "metadata/annotations/" COST_PATH), "1000000");
    assert_non_null(strchr(store_text(pod, "metadata/annotations/" PREFIX "~" POD_PLACE), '-'));
    assert_string_equal(p->warning, "");
    char place[64];
    (void)snprintf(place, sizeof place, "%s",
                   store_text(pod, "metadata/annotations/" PREFIX "~" POD_PLACE));
    /* Another webhook has changed it, so this one is asked again. */
    pod = review(p, pod, false);
    assert_non_null(pod);
    assert_string_equal(store_text(pod, "metadata/labels/" PREFIX "~" POD_SHARD), "op-0-canary");
    assert_string_equal(store_text(pod, "metadata/annotations/" PREFIX "~" POD_PLACE), place);
    assert_string_equal(p->warning, "");
    cJSON_Delete(pod);
    assert_string_equal(create(p, "1", shard), "op-1-normal");
}

/* Before and after the cache shows them; the last is refused, for no shard wants it. */
static void test_all_places(void **state)
{
    struct place *p = *state;
    char shard[64];
    three_shards(p);
    assert_string_equal(create(p, "1", shard), "op-0-canary");
    assert_string_equal(create(p, "1", shard), "op-1-normal");
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-2-normal");
    p->leads = false;
    assert_string_equal(create(p, "1", shard), "op-2-normal");
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-1-normal");
    settle(p);
    assert_string_equal(create(p, "1", shard), "");
    assert_non_null(strstr(p->error, "has all its pods"));
    put_child(p, "op-3-normal", 1);
    settle(p);
    fake_clock_pass(&p->store.api.clock, ASSIGNER_SETTLE_MS);
    assert_string_equal(create(p, "1", shard), "op-3-normal");
    assert_string_equal(create(p, "2", shard), "op-2-normal"); /* of a new ReplicaSet */
}

static void test_a_shard_that_grows(void **state)
{
    struct place *p = *state;
    char shard[64];
    put_root(p);
    put_child(p, "op-1-normal", 1);
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-1-normal");
    put_child(p, "op-1-normal", 3);
    settle(p);
    assert_string_equal(create(p, "1", shard), "");
    assert_non_null(strstr(p->error, "have not all been made yet"));
    fake_clock_pass(&p->store.api.clock, ASSIGNER_SETTLE_MS);
    assert_string_equal(create(p, "1", shard), "op-1-normal");
    put_child(p, "op-1-normal", 3); /* something else of it has changed */
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-1-normal");
}

static void test_pods_that_end(void **state)
{
    struct place *p = *state;
    char shard[64];
    three_shards(p);
    for (unsigned i = 0; i < 5; i++) {
        (void)create(p, "1", shard);
    }
    settle(p);
    fake_clock_pass(&p->store.api.clock, ASSIGNMENTS_MS); /* all have been seen, or forgotten */
    store_put_text(&p->store, "pods", "demo",
                   "{\"metadata\":{\"name\":\"op-1-2\",\"labels\":{\"app\":\"op\",\"" PREFIX
                   "/shard\":\"op-2-normal\"},\"ownerReferences\":[{\"uid\":\"1\",\"controller\":"
                   "true}]},\"status\":{\"phase\":\"Failed\"}}");
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-2-normal");
    settle(p);
    store_delete(&p->store, "pods", "demo", "op-1-0");
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-0-canary");
}

/* They are seen, though no pod is reviewed meanwhile: their places are free at once. */
static void test_pods_that_come_and_go(void **state)
{
    struct place *p = *state;
    char shard[64];
    three_shards(p);
    for (unsigned i = 0; i < 5; i++) {
        assert_string_not_equal(create(p, "1", shard), "");
    }
    settle(p);
    for (unsigned i = 0; i < 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "op-1-%u", i);
        store_delete(&p->store, "pods", "demo", name);
    }
    settle(p);
    assert_string_equal(create(p, "1", shard), "op-0-canary");
}

static void test_no_children_yet(void **state)
{
    struct place *p = *state;
    char shard[64];
    put_root(p);
    settle(p);
    assert_string_equal(create(p, "1", shard), "");
    assert_non_null(strstr(p->error, "have not all been made yet"));
    put_child(p, "op-1-normal", 1);
    settle(p);
    assert_string_equal(create(p, "1", shard), ""); /* others may come */
    fake_clock_pass(&p->store.api.clock, ASSIGNER_SETTLE_MS);
    assert_string_equal(create(p, "1", shard), "op-1-normal");
}

static void test_the_label_of_the_template(void **state)
{
    struct place *p = *state;
    three_shards(p);
    cJSON *pod = review(p, make_pod("op", "1", ",\"" PREFIX "/shard\":\"op-2-normal\""), false);
    assert_non_null(pod);
    assert_string_equal(store_text(pod, "metadata/labels/" PREFIX "~" POD_SHARD), "op-0-canary");
    assert_non_null(strstr(p->warning, "\"op-2-normal\" is replaced by \"op-0-canary\""));
    cJSON_Delete(pod);
}

/* What no ReplicaSet of the Deployment makes keeps the label that it has. */
static void test_other_pods(void **state)
{
    struct place *p = *state;
    three_shards(p);
    cJSON *pod = make_pod("op", "1", ",\"" PREFIX "/shard\":\"op-2-normal\"");
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(pod, "metadata"), "ownerReferences");
    pod = review(p, pod, false);
    assert_non_null(pod);
    assert_string_equal(store_text(pod, "metadata/labels/" PREFIX "~" POD_SHARD), "op-2-normal");
    assert_string_equal(store_text(pod, "metadata/annotations/" COST_PATH), "");
    assert_string_equal(p->warning, "");
    cJSON_Delete(pod);
}

/* One whose selector the shards have, too, does not fit: nothing is remembered of it. */
static void test_the_selector_does_not_fit(void **state)
{
    struct place *p = *state;
    char shard[64];
    three_shards(p);
    assert_null(review(p, make_pod("another", "1", ""), false));
    assert_non_null(strstr(p->error, "automatic shards of its Deployment do not select this pod: "
                                     "it lacks labels that spec.selector"));
    assert_string_equal(create(p, "1", shard), "op-0-canary");
}

static void test_a_dry_run(void **state)
{
    struct place *p = *state;
    char shard[64];
    three_shards(p);
    cJSON *pod = review(p, make_pod("op", "1", ""), true);
    assert_string_equal(store_text(pod, "metadata/labels/" PREFIX "~" POD_SHARD), "op-0-canary");
    cJSON_Delete(pod);
    assert_string_equal(create(p, "1", shard), "op-0-canary");
}

static void test_a_deletion_cost_of_its_own(void **state)
{
    struct place *p = *state;
    three_shards(p);
    cJSON *pod = make_pod("op", "1", "");
    cJSON *annotations =
        cJSON_AddObjectToObject(cJSON_GetObjectItem(pod, "metadata"), "annotations");
    cJSON_AddStringToObject(annotations, COST, "7");
    pod = review(p, pod, false);
    assert_non_null(pod);
    assert_string_equal(store_text(pod, "metadata/annotations/" COST_PATH), "7");
    cJSON_Delete(pod);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_pod_gets_its_shard),       TEST(test_all_places),
        TEST(test_a_shard_that_grows),         TEST(test_pods_that_end),
        TEST(test_pods_that_come_and_go),      TEST(test_no_children_yet),
        TEST(test_the_label_of_the_template),  TEST(test_other_pods),
        TEST(test_the_selector_does_not_fit),  TEST(test_a_dry_run),
        TEST(test_a_deletion_cost_of_its_own),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
