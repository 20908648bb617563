/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller and its cache against a small API server; proxies are played by the test.
 */
#include "shard/controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "compile/compile.h"
#include "controller_fixture.h"
#include "json/edit.h"
#include "json/field.h"

/* ---- the usual way ---- */

static void test_apply_edit(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_text(s, "configmaps", "cmesh-rules-a",
                        "metadata/labels/ctrlmesh.kusionstack.io~rules", "true");
    const cJSON *map = store_get(&s->store, "configmaps", "n", "cmesh-rules-a");
    const cJSON *config = store_get(&s->store, "shardingconfigs", "n", "a");
    assert_string_equal(
        store_text(map, "metadata/annotations/ctrlmesh.kusionstack.io~sharding-config-uid"),
        store_text(config, "metadata/uid"));
    /* Garbage collection would delete it when the config is, under pods that mount it. */
    assert_string_equal(store_text(map, "metadata/ownerReferences/0/uid"), "");
    assert_int_equal(fixture_generation(s, "a"), 1);
    fixture_expect_text(s, "pods", "a-0",
                        "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", "1");
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_expect_condition(s, "a", "Enforced", "False");
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    fixture_expect_event(s, "a", "Published", 1);
    fixture_expect_event(s, "a", "Enforced", 1);

    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 2);
    fixture_expect_text(s, "pods", "a-0",
                        "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", "2");
    fixture_expect_condition(s, "a", "Enforced", "False");
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
}

static void test_nothing_is_written_when_nothing_changed(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    unsigned writes = s->store.writes;
    unsigned requests = s->store.requests;
    store_end_watches(&s->store);
    run_for(s->store.api.loop, 300);
    fixture_retire(s);
    fixture_lead(s);
    fixture_settle(s);
    assert_int_equal(s->store.writes, writes);
    assert_int_equal(s->store.requests, requests);
}

/* No version of its status says of a spec that it is published with the rules of another one. */
static void expect_truth(struct fixture *s, const char *newest, const char *checksum)
{
    LIST_FOR_EACH(n, &s->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        for (size_t i = 0; strcmp(o->resource, "shardingconfigs") == 0 && i < o->count; i++) {
            const cJSON *published =
                edit_find(field_get(field_get(o->history[i].json, "status"), "conditions"), "type",
                          "Published");
            if (strcmp(store_text(published, "observedGeneration"), newest) == 0 &&
                strcmp(store_text(published, "status"), "True") == 0) {
                assert_string_equal(store_text(o->history[i].json, "status/checksum"), checksum);
            }
        }
    }
}

static void test_edited_while_it_is_published(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    s->store.held = true;
    fixture_config(s, "a", "pods", "app=b");
    while (!store_holds(&s->store)) {
        run_for(s->store.api.loop, 1);
    }
    fixture_config(s, "a", "pods", "app=c");
    const struct shard_cache_config *known = NULL;
    while (known == NULL || strcmp(store_text(known->object, "metadata/generation"), "3") != 0) {
        run_for(s->store.api.loop, 1);
        known = shard_cache_find_config(s->cache, "n/a");
    }
    s->store.held = false;
    store_go_on(&s->store);
    fixture_expect_generation(s, "a", 3);
    fixture_settle(s);
    assert_non_null(strstr(fixture_rules(s, "a"), "app=c"));
    const cJSON *config = store_get(&s->store, "shardingconfigs", "n", "a");
    assert_string_equal(store_text(config, "status/generation"), "3");
    expect_truth(s, "3", store_text(config, "status/checksum"));
}

static void test_bad_spec(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    char *before = strdup(fixture_rules(s, "a"));
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{\"matchLabels\":"
                   "{\"shard\":\"a\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"]}]}]}}");
    fixture_expect_condition(s, "a", "Compiled", "False");
    fixture_expect_event(s, "a", "CompileFailed", 1);
    assert_string_equal(fixture_rules(s, "a"), before);
    assert_int_equal(fixture_generation(s, "a"), 1);
    free(before);
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_condition(s, "a", "Compiled", "True");
    fixture_expect_generation(s, "a", 2);
}

static void test_no_sidecar(void **state)
{
    struct fixture *s = *state;
    fixture_plain_pod(s, "a-0", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Enforced", "False");
    fixture_settle(s);
    assert_string_equal(
        fixture_text(s, "pods", "a-0",
                     "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation"),
        "");
}

static void test_overlap_is_seen_on_both(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_config_for(s, "b", "pods", "app=b", "a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Enforced", "False");
    fixture_expect_condition(s, "b", "Enforced", "False");
    fixture_expect_generation(s, "b", 1);
    fixture_enforces(s, "a-0", "a");
    fixture_settle(s);
    assert_non_null(strstr(fixture_condition(s, "a", "Enforced", "message"), "b"));
    assert_non_null(strstr(fixture_condition(s, "b", "Enforced", "message"), "a"));
    /* Told of by the shard whose sidecars it has alone. */
    fixture_config(s, "b", "pods", "app=c");
    fixture_expect_generation(s, "b", 2);
    fixture_settle(s);
    assert_string_equal(
        fixture_text(s, "pods", "a-0",
                     "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation"),
        "1");
}

static void test_pods_that_are_not_selected_any_more(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_told(s, "a-0", 1);
    fixture_config_for(s, "a", "pods", "app=b", "other");
    fixture_expect_told(s, "a-0", 2);
}

/* ---- what others do to the ConfigMap ---- */

static void test_deleted_map_comes_back(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 2);
    fixture_settle(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_expect_generation(s, "a", 2);
    /* and by a leader that knows nothing of it */
    fixture_settle(s);
    fixture_retire(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 2);
}

static uint64_t published_edits(const struct fixture *s)
{
    uint64_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(s->counts.published.counts); i++) {
        count += s->counts.published.counts[i];
    }
    return count;
}

/* Nor is it counted how long it took: nobody waits for it. */
static void test_a_map_that_comes_back_is_no_edit(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_settle(s);
    assert_int_equal(published_edits(s), 1);
    fixture_retire(s);
    fixture_lead(s);
    fixture_settle(s);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_expect_text(s, "configmaps", "cmesh-rules-a", "metadata/name", "cmesh-rules-a");
    fixture_settle(s);
    assert_int_equal(published_edits(s), 1);
}

/* The next leader counts on from what the status tells, however far that is from nothing. */
static void test_a_large_generation_that_the_status_tells(void **state)
{
    static const double large = 8589934592; /* GENERATION_FAR, twice */
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_settle(s);
    fixture_retire(s);
    cJSON *config = cJSON_Duplicate(store_get(&s->store, "shardingconfigs", "n", "a"), true);
    cJSON *status = cJSON_GetObjectItem(config, "status");
    assert_true(cJSON_ReplaceItemInObject(status, "generation", cJSON_CreateNumber(large)));
    store_put(&s->store, "shardingconfigs", "n", config);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    run_for(s->store.api.loop, 200); /* until the cache shows it */
    fixture_lead(s);
    fixture_expect_generation(s, "a", (uint64_t)large);
}

/* Only the manager that wrote it knows which generation that was. */
static void test_deleted_map_comes_back_before_there_is_a_status(void **state)
{
    struct fixture *s = *state;
    store_fail(&s->store, "/status", 500, STORE_NONE, 1000);
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    run_for(s->store.api.loop, 100); /* until the cache shows it */
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_expect_text(s, "configmaps", "cmesh-rules-a", "metadata/name", "cmesh-rules-a");
    assert_int_equal(fixture_generation(s, "a"), 1);
}

static void test_edited_map_is_put_right(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_settle(s);
    fixture_set_rules(
        s, "a",
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
        "\"namespace\":\"n\",\"name\":\"a\"},\"generation\":1,\"spec\":{\"limits\":[]}}");
    fixture_expect_generation(s, "a", 2);
    assert_non_null(strstr(fixture_rules(s, "a"), "app=a"));
    fixture_settle(s);
    fixture_set_rules(s, "a", "nonsense");
    fixture_expect_text(s, "configmaps", "cmesh-rules-a", "metadata/name", "cmesh-rules-a");
    fixture_settle(s);
    assert_non_null(strstr(fixture_rules(s, "a"), "app=a"));
    assert_int_equal(fixture_generation(s, "a"), 2);
}

static void test_label_is_put_back(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_settle(s);
    cJSON *map = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", "cmesh-rules-a"), true);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(map, "metadata"), "labels");
    store_put(&s->store, "configmaps", "n", map);
    fixture_expect_text(s, "configmaps", "cmesh-rules-a",
                        "metadata/labels/ctrlmesh.kusionstack.io~rules", "true");
    assert_int_equal(fixture_generation(s, "a"), 1);
}

/* `more`: of its metadata. */
static void somebody_elses_map(struct fixture *s, const char *more)
{
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\"%s},\"data\":{\"x\":\"y\"}}", more);
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Published", "False");
    fixture_expect_event(s, "a", "PublishFailed", 1);
    assert_non_null(strstr(fixture_condition(s, "a", "Published", "message"), "cmesh-rules-a"));
    assert_string_equal(fixture_text(s, "configmaps", "cmesh-rules-a", "data/x"), "y");
    assert_string_equal(fixture_rules(s, "a"), "");
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_expect_condition(s, "a", "Published", "True");
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

#define RULES_OF(generation)                                                                       \
    "{\\\"apiVersion\\\":\\\"cmesh/v1\\\",\\\"generation\\\":" generation                          \
    ",\\\"kind\\\":\\\"ShardRules\\\",\\\"shard\\\":{\\\"name\\\":\\\"a\\\",\\\"namespace\\\":"    \
    "\\\"n\\\"},"                                                                                  \
    "\\\"spec\\\":{\\\"limits\\\":[]}}"

/* The operator takes its rules away, and the ConfigMap with them: no label, no annotation, another
 * owner, and a generation that its pods take. */
static void put_hostile_map(struct fixture *s, const char *more, const char *generation)
{
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\",\"ownerReferences\":[{\"controller\":"
                   "true,\"kind\":\"ServiceAccount\",\"name\":\"x\",\"uid\":\"other\"}],"
                   "\"managedFields\":[{\"manager\":\"cmesh-manager\",\"time\":"
                   "\"2026-01-01T00:00:00Z\"},{\"manager\":\"kubectl-patch\",\"time\":"
                   "\"2026-01-02T00:00:00Z\"}]%s},\"data\":{\"rules.json\":\"%s\"}}",
                   more, generation);
}

#define LABELLED ",\"labels\":{\"ctrlmesh.kusionstack.io/rules\":\"true\"}"

static void expect_taken_back(struct fixture *s, uint64_t generation)
{
    fixture_expect_generation(s, "a", generation);
    fixture_expect_text(s, "configmaps", "cmesh-rules-a", "metadata/ownerReferences/0/uid", "");
    fixture_expect_text(s, "configmaps", "cmesh-rules-a",
                        "metadata/labels/ctrlmesh.kusionstack.io~rules", "true");
    fixture_expect_rules(s, "a", "app=a");
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_settle(s);
}

static void test_what_was_written_is_taken_back(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_settle(s);
    put_hostile_map(s, LABELLED, RULES_OF("8"));
    expect_taken_back(s, 9);
    fixture_expect_event(s, "a", "RulesChanged", 1);
    put_hostile_map(s, "", RULES_OF("20"));
    expect_taken_back(s, 21);
}

/* That a generation which nobody reaches by counting is void stays in the rules. */
static void test_what_is_void_is_put_back(void **state)
{
    static const char *const voids = ",\"voids\":4294967297";
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_settle(s);
    put_hostile_map(s, LABELLED, RULES_OF("9000000000"));
    fixture_expect_rules(s, "a", voids);
    fixture_settle(s);
    char *text = strdup(fixture_rules(s, "a"));
    assert_non_null(text);
    char *found = strstr(text, voids);
    memmove(found, found + strlen(voids), strlen(found + strlen(voids)) + 1);
    fixture_set_rules(s, "a", text);
    free(text);
    fixture_expect_rules(s, "a", voids);
    assert_int_equal(fixture_generation(s, "a"), 1);
}

/* The next leader knows by the status whose it was. */
static void test_what_another_leader_wrote_is_taken_back(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_settle(s);
    for (int labelled = 0; labelled < 2; labelled++) {
        fixture_retire(s);
        put_hostile_map(s, labelled ? LABELLED : "", labelled ? RULES_OF("20") : RULES_OF("8"));
        fixture_settle(s);
        fixture_lead(s);
        expect_taken_back(s, labelled ? 21 : 9);
    }
}

/* A garbage collector deletes it when its owner was never there: what stood in it may be in force.
 */
static void test_generation_of_a_map_that_was_deleted(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Published", "True");
    fixture_settle(s);
    put_hostile_map(s, LABELLED, RULES_OF("8"));
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    expect_taken_back(s, 9);
}

/* A config of that name comes later: what stands there is read by then. */
static void test_rules_that_nobody_had(void **state)
{
    struct fixture *s = *state;
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\"" LABELLED
                   "},\"data\":{\"rules.json\":\"" RULES_OF("5") "\"}}");
    fixture_lead(s);
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "a"), 5);
    fixture_config(s, "a", "pods", "app=a");
    expect_taken_back(s, 6);
}

#define FOREIGN "finalizer.ctrlmesh.kusionstack.io/protected"

static void put_bound_config(struct fixture *s, const char *more)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":"
                   "\"ShardingConfig\",\"metadata\":{\"name\":\"a\",\"finalizers\":["
                   "\"x.io/keep\",\"" FOREIGN "\"]%s},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"a\"}},\"root\":{\"prefix\":\"a\"}}}",
                   more);
}

/* Others' stay. Of a root, too, which is not compiled: those have it most often. */
static void test_a_foreign_finalizer_is_taken_off(void **state)
{
    struct fixture *s = *state;
    put_bound_config(s, "");
    fixture_lead(s);
    fixture_expect_text(s, "shardingconfigs", "a", "metadata/finalizers/1", "");
    assert_string_equal(fixture_text(s, "shardingconfigs", "a", "metadata/finalizers/0"),
                        "x.io/keep");
}

/* Whoever puts it back is let have it, until it is in the way. */
static void test_a_foreign_finalizer_that_comes_back(void **state)
{
    struct fixture *s = *state;
    put_bound_config(s, "");
    fixture_lead(s);
    fixture_expect_text(s, "shardingconfigs", "a", "metadata/finalizers/1", "");
    fixture_settle(s);
    const cJSON *config = store_get(&s->store, "shardingconfigs", "n", "a");
    char more[128];
    (void)snprintf(more, sizeof more, ",\"uid\":\"%s\"", store_text(config, "metadata/uid"));
    put_bound_config(s, more);
    fixture_settle(s);
    assert_string_equal(fixture_text(s, "shardingconfigs", "a", "metadata/finalizers/1"), FOREIGN);
    put_bound_config(s, ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    fixture_expect_text(s, "shardingconfigs", "a", "metadata/finalizers/1", "");
}

static void test_too_large(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_config_in(s, "a", 60000, false);
    fixture_expect_condition(s, "a", "Published", "False");
    assert_non_null(strstr(fixture_condition(s, "a", "Published", "message"), "1048576"));
    assert_int_equal(fixture_generation(s, "a"), 1);
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 2);
    fixture_expect_condition(s, "a", "Published", "True");
}

/* ---- generations never go back ---- */

static void set_version(struct fixture *s, unsigned pod, const char *version,
                        enum rules_version reads)
{
    struct fixture_probe_entry *e = &s->entries[pod];
    (void)snprintf(e->result.version, sizeof e->result.version, "%s", version);
    e->result.reads = reads;
    s->probes.on_change(s->probes.data, e->key);
}

/* So many names for three kinds fit only as version 2, which old sidecars do not read. */
static void test_pods_that_read_no_later_rules(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_pod(s, "a-1", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_enforces(s, "a-0", "a");
    fixture_enforces(s, "a-1", "a");
    set_version(s, 0, "0.1.0", RULES_V1);
    set_version(s, 1, "0.2.0", RULES_V2);
    fixture_expect_condition(s, "a", "Enforced", "True");
    fixture_config_in(s, "a", 60000, true);
    fixture_expect_condition(s, "a", "Published", "False");
    assert_string_equal(fixture_condition(s, "a", "Published", "reason"), "HeldBack");
    assert_non_null(strstr(fixture_condition(s, "a", "Published", "message"),
                           "cmesh/v2 only, which these pods do not read: a-0 (cmesh 0.1.0)."));
    assert_null(strstr(fixture_condition(s, "a", "Published", "message"), "a-1"));
    assert_int_equal(fixture_generation(s, "a"), 1); /* what is in force stays */
    /* The old pod is made anew. */
    store_delete(&s->store, "pods", "n", "a-0");
    fixture_expect_generation(s, "a", 2);
    assert_non_null(strstr(fixture_rules(s, "a"), "cmesh/v2"));
    fixture_expect_condition(s, "a", "Published", "True");
    /* Less fits into what all pods read. */
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 3);
    assert_non_null(strstr(fixture_rules(s, "a"), "cmesh/v1"));
}

/* They wait for rules in an init container, before localproxy could say what it reads, and what
 * stands there is none. */
static void test_first_rules_wait_for_no_pod_that_waits_for_them(void **state)
{
    struct fixture *s = *state;
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\"" LABELLED
                   "},\"data\":{\"rules.json\":\"nonsense\"}}");
    fixture_pod(s, "a-0", "a", "a");
    fixture_config_in(s, "a", 60000, true);
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    assert_non_null(strstr(fixture_rules(s, "a"), "cmesh/v2"));
}

/* Whoever may write to pods writes anything there: nobody counts on from it, and the pod is told.
 */
static void test_an_annotation_that_is_not_believed_is_corrected(void **state)
{
    static const char *const values[] = {"2251799813685249", "4503599627370496", "none"};
    struct fixture *s = *state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "a-%zu", i);
        store_put_text(&s->store, "pods", "n",
                       "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"a\"},"
                       "\"annotations\":{\"ctrlmesh.kusionstack.io/sharding-config-injected\":"
                       "\"a\",\"ctrlmesh.kusionstack.io/rules-generation\":\"%s\"}},\"spec\":{"
                       "\"containers\":[{\"name\":\"cmesh-localproxy\"}]}}",
                       name, values[i]);
    }
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "a-%zu", i);
        fixture_expect_told(s, name, 1);
    }
}

static void test_made_again(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 2);
    fixture_expect_text(s, "pods", "a-0",
                        "metadata/annotations/ctrlmesh.kusionstack.io~rules-generation", "2");
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    store_delete(&s->store, "shardingconfigs", "n", "a");
    fixture_expect_event(s, "a-0", "RulesKept", 1);
    fixture_expect_event(s, "a", "RulesKept", 1);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_settle(s);
    fixture_retire(s);
    fixture_lead(s);
    fixture_forget_probes(s);
    fixture_config(s, "a", "pods", "app=c");
    fixture_expect_generation(s, "a", 3);
}

static void test_a_proxy_knows_more(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_probe(s, "a-0", "a", 7, "sha256:other");
    fixture_expect_generation(s, "a", 8);
    /* the same generation, other rules */
    fixture_probe(s, "a-0", "a", 8, "sha256:other");
    fixture_expect_generation(s, "a", 9);
}

/* It was started for that one. */
static void test_generations_of_another_shard_do_not_count(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    fixture_probe(s, "a-0", "b", 7, "sha256:other");
    fixture_expect_condition(s, "a", "Enforced", "False");
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "a"), 1);
}

/* Nothing but the pod knows: the last leader died before it could tell it by the annotation, and
 * the ConfigMap went with its config. */
static void test_pods_are_asked_first(void **state)
{
    struct fixture *s = *state;
    s->slow_pods = true;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_settle(s);
    assert_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-a"));
    fixture_probe(s, "a-0", "a", 7, "sha256:other");
    fixture_expect_generation(s, "a", 8);
}

/* A pod that cannot be asked is known to enforce them, whenever it said so. */
static void test_pods_that_tell(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_told(s, "a-0", 1);
    fixture_tells(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_condition(s, "a", "Enforced", "False");
    fixture_tells(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    /* The next leader is told at its start. */
    fixture_retire(s);
    memset(s->entries, 0, sizeof s->entries);
    fixture_lead(s);
    fixture_settle(s);
    assert_true(s->entries[0].told > 0);
    assert_int_equal(s->entries[0].result.generation, 2);
    fixture_expect_condition(s, "a", "Enforced", "True");
    /* And so when the pod is known after its Lease. */
    fixture_pod(s, "a-1", "a", "a");
    fixture_expect_condition(s, "a", "Enforced", "False");
    store_delete(&s->store, "pods", "n", "a-1");
    fixture_expect_condition(s, "a", "Enforced", "True");
}

static void test_next_leader_goes_on(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    for (unsigned i = 1; i < 6; i++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=v%u", i);
        fixture_config(s, "a", "pods", selector);
        fixture_lead(s);
        fixture_expect_generation(s, "a", i);
        assert_non_null(strstr(fixture_rules(s, "a"), selector));
        fixture_retire(s);
    }
}

/* ---- failures ---- */

static const char *const kinds[] = {"configmaps", "/pods/", "/status", "/events"};

static void test_every_failure_is_tried_again(void **state)
{
    struct fixture *s = *state;
    static const struct {
        unsigned status;
        enum store_fault fault;
    } faults[] = {
        {403, STORE_NONE}, {409, STORE_NONE}, {422, STORE_NONE},   {500, STORE_NONE},
        {404, STORE_NONE}, {0, STORE_CUT},    {0, STORE_CUT_DONE},
    };
    unsigned round = 0;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (size_t f = 0; f < ARRAY_LEN(faults); f++) {
            char selector[32];
            fixture_enforces(s, "a-0", "a");
            fixture_expect_condition(s, "a", "Enforced", "True");
            fixture_await_quiet(s, 40);
            uint64_t before = fixture_generation(s, "a");
            (void)snprintf(selector, sizeof selector, "app=f%u", ++round);
            store_fail(&s->store, kinds[k], faults[f].status, faults[f].fault,
                       faults[f].fault == STORE_CUT_DONE ? 1 : 2);
            fixture_config(s, "a", "pods", selector);
            fixture_expect_rules(s, "a", selector);
            if (strcmp(kinds[k], "/events") != 0) { /* of which one object gets so many only */
                fixture_await_fault(s);
            }
            /* One that was cut off after it was done is known to be done. */
            assert_int_equal(fixture_generation(s, "a"), before + 1);
            fixture_expect_told(s, "a-0", before + 1);
        }
    }
}

static void test_leader_lost_in_the_middle(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    uint64_t last = 0;
    for (unsigned round = 0; round < 3 * 3; round++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=l%u", round);
        fixture_config(s, "a", "pods", selector);
        store_fail(&s->store, kinds[round % 3], 0, round / 3 == 0 ? STORE_HOLD : STORE_CUT_DONE, 1);
        fixture_lead(s);
        fixture_await_fault(s);
        fixture_retire(s);
        s->holds = false;
        run_for(s->store.api.loop, 20);
        unsigned writes = s->store.writes;
        run_for(s->store.api.loop, 50);
        assert_int_equal(s->store.writes, writes); /* nothing without the lead */
        fixture_lead(s);
        fixture_expect_rules(s, "a", selector);
        fixture_expect_told(s, "a-0", fixture_generation(s, "a"));
        assert_true(fixture_generation(s, "a") > last);
        last = fixture_generation(s, "a");
        fixture_enforces(s, "a-0", "a");
        fixture_expect_condition(s, "a", "Enforced", "True");
        fixture_retire(s);
    }
    assert_int_equal(last, 9);
}

static void test_freed_at_any_moment(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    for (unsigned ms = 0; ms < 40; ms++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=t%u", ms);
        fixture_config(s, "a", "pods", selector);
        fixture_lead(s);
        run_for(s->store.api.loop, ms / 2);
        fixture_retire(s);
    }
    fixture_lead(s);
    fixture_expect_rules(s, "a", "app=t39");
    fixture_expect_told(s, "a-0", fixture_generation(s, "a"));
    assert_true(fixture_generation(s, "a") <= 40);
}

/* What generations were seen to mean. */
struct meanings {
    char checksums[64][RULES_CHECKSUM_LEN + 1];
    uint64_t last;
};

static void look_at_generation(struct fixture *s, struct meanings *m)
{
    const char *text = fixture_rules(s, "a");
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
    struct fixture *s = *state;
    struct meanings m = {.last = 0};
    struct shard_cache_options o = {.client = s->store.api.client,
                                    .prefix = "ctrlmesh.kusionstack.io"};
    struct shard_cache *other_cache = shard_cache_new(s->store.api.loop, &o);
    assert_non_null(other_cache);
    struct controller *other = fixture_controller(s, other_cache);
    assert_non_null(other);
    fixture_pod(s, "a-0", "a", "a");
    fixture_lead(s);
    for (unsigned i = 0; i < 30; i++) {
        char selector[32];
        (void)snprintf(selector, sizeof selector, "app=w%u", i);
        fixture_config(s, "a", "pods", selector);
        for (unsigned ms = 0; ms < 1 + i % 7; ms++) {
            run_for(s->store.api.loop, 1);
            look_at_generation(s, &m);
        }
    }
    fixture_expect_rules(s, "a", "app=w29");
    fixture_expect_told(s, "a-0", fixture_generation(s, "a"));
    fixture_expect_condition(s, "a", "Published", "True");
    look_at_generation(s, &m);
    assert_true(m.last <= 30);
    controller_free(other);
    shard_cache_free(other_cache);
}

static void test_nothing_is_written_without_the_lease(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    s->holds = false;
    unsigned writes = s->store.writes;
    fixture_lead_without(s);
    run_for(s->store.api.loop, 500);
    assert_int_equal(s->store.writes, writes);
    s->holds = true;
    fixture_expect_generation(s, "a", 1);
}

static void test_orphan_is_deleted(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    fixture_config(s, "b", "pods", "app=a");
    s->orphan_ms = 300;
    fixture_lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_expect_generation(s, "b", 1);
    fixture_settle(s);
    store_delete(&s->store, "shardingconfigs", "n", "a");
    fixture_await_gone(s, "configmaps", "cmesh-rules-a");
    assert_non_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-b"));
    /* that it is gone is found out by a leader that never knew it */
    fixture_pod(s, "b-0", "b", "b");
    fixture_config(s, "c", "pods", "app=a"); /* so that the pods are known */
    fixture_settle(s);
    fixture_retire(s);
    store_delete(&s->store, "shardingconfigs", "n", "b");
    fixture_lead(s);
    fixture_expect_event(s, "b-0", "RulesKept", 1);
    fixture_expect_event(s, "b", "RulesKept", 1);
    run_for(s->store.api.loop, 500);
    assert_non_null(store_get(&s->store, "configmaps", "n", "cmesh-rules-b")); /* b-0 mounts it */
    store_delete(&s->store, "pods", "n", "b-0");
    fixture_await_gone(s, "configmaps", "cmesh-rules-b");
}

/* Whether the ShardingConfig is still to come, or never had rules. */
static void test_pods_without_rules_keep_none(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "b", "pods", "app=b");
    fixture_lead(s);
    fixture_expect_generation(s, "b", 1);
    fixture_probe(s, "a-0", "a", 0, "");
    fixture_settle(s);
    fixture_expect_event(s, "a-0", "RulesKept", 0);
    fixture_expect_event(s, "a", "RulesKept", 0);
    store_put_text(&s->store, "configmaps", "n", "{\"metadata\":{\"name\":\"cmesh-rules-a\"}}");
    fixture_config(s, "a", "pods", "app=a");
    fixture_expect_condition(s, "a", "Stalled", "True"); /* it is somebody else's */
    store_delete(&s->store, "shardingconfigs", "n", "a");
    fixture_settle(s);
    fixture_expect_event(s, "a-0", "RulesKept", 0);
    fixture_expect_event(s, "a", "RulesKept", 0);
}

/* Somebody has deleted the ConfigMap before. */
static void test_rules_kept_without_a_configmap(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    store_fail(&s->store, "configmaps", 403, STORE_NONE, 100);
    store_delete(&s->store, "configmaps", "n", "cmesh-rules-a");
    fixture_expect_condition(s, "a", "Published", "False");
    store_delete(&s->store, "shardingconfigs", "n", "a");
    fixture_expect_event(s, "a-0", "RulesKept", 1);
    fixture_settle(s);
    fixture_expect_event(s, "a", "RulesKept", 1);
}

/* By one that leads before it knows the pods of the namespace, where nothing else is. */
static void test_orphan_without_pods_is_deleted(void **state)
{
    struct fixture *s = *state;
    s->orphan_ms = 300;
    store_put_text(&s->store, "configmaps", "n",
                   "{\"metadata\":{\"name\":\"cmesh-rules-a\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"true\"},\"annotations\":{"
                   "\"ctrlmesh.kusionstack.io/sharding-config-uid\":\"1\"}},\"data\":{}}");
    fixture_lead(s);
    fixture_await_gone(s, "configmaps", "cmesh-rules-a");
}

/* Each look at a shard would be as expensive as it has pods. */
static void test_pods_that_know_are_not_told_again(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    fixture_lead(s);
    fixture_expect_told(s, "a-0", 1);
    fixture_settle(s);
    unsigned long before = fixture_adds(s, "pods");
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    assert_int_equal(fixture_adds(s, "pods"), before);
}

static void test_metrics(void **state)
{
    struct fixture *s = *state;
    fixture_begin_enforced(s);
    struct buf out = BUF_INIT(1024 * 1024);
    shard_cache_metrics(s->cache, &out);
    controller_metrics(s->controller, &s->counts, &out);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "cmesh_manager_shards{state=\"enforced\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_manager_shards_published 1\n"));
    assert_non_null(
        strstr(text, "cmesh_manager_writes_total{what=\"configmap\",result=\"written\"} 1\n"));
    assert_non_null(strstr(text, "cmesh_manager_enforce_seconds_count 1\n"));
    assert_non_null(strstr(text, "cmesh_manager_known_pods 1\n"));
    buf_clear(&out);
    controller_metrics(NULL, &s->counts, &out);
    assert_null(strstr(buf_cstr(&out), "cmesh_manager_shards{"));
    buf_reset(&out);
    assert_int_not_equal(fixture_adds(s, "shards"), 0);
}

static bool has_series(struct fixture *s, const char *line)
{
    struct buf out = BUF_INIT(4 * 1024 * 1024);
    controller_metrics(s->controller, &s->counts, &out);
    bool has = strstr(buf_cstr(&out), line) != NULL;
    buf_reset(&out);
    return has;
}

static void await_series(struct fixture *s, const char *line)
{
    for (unsigned i = 0; i < 5000 && !has_series(s, line); i++) {
        run_for(s->store.api.loop, 1);
    }
    if (!has_series(s, line)) {
        fail_msg("there is no %s", line);
    }
}

#define OF(shard) "{shard_namespace=\"n\",shard=\"" shard "\""

/* Each shard is named, with what is wrong; a root is no shard. */
static void test_series_of_each_shard(void **state)
{
    struct fixture *s = *state;
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"r\"},\"spec\":{\"root\":{}}}");
    fixture_begin_enforced(s);
    await_series(s, "\ncmesh_manager_shard_state" OF("a") ",state=\"enforced\"} 1\n");
    await_series(s, "\ncmesh_manager_shard_ready" OF("a") "} 1\n");
    await_series(s, "\ncmesh_manager_shard_compiled" OF("a") "} 1\n");
    await_series(s, "\ncmesh_manager_shard_labelled" OF("a") "} 1\n");
    await_series(s, "\ncmesh_manager_shard_shared" OF("a") "} 0\n");
    await_series(s, "\ncmesh_manager_shard_handover_late" OF("a") "} 0\n");
    await_series(s, "\ncmesh_manager_shards_compiled 1\n");
    assert_false(has_series(s, "shard=\"r\""));
    store_put_text(
        &s->store, "shardingconfigs", "n",
        "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{\"matchLabels\":{\"shard\":"
        "\"a\"}},\"limits\":7}}");
    await_series(s, "\ncmesh_manager_shard_compiled" OF("a") "} 0\n");
    await_series(s, "\ncmesh_manager_shard_ready" OF("a") "} 0\n");
    await_series(s, "\ncmesh_manager_shard_state" OF("a") ",state=\"no_rules\"} 1\n");
    fixture_retire(s);
    struct buf out = BUF_INIT(65536);
    controller_metrics(NULL, &s->counts, &out);
    assert_null(strstr(buf_cstr(&out), "shard=\""));
    buf_reset(&out);
}

/* What a page can hold is kept, and those with trouble are not crowded out. */
static void test_series_have_a_bound(void **state)
{
    enum { SHARDS = 500 };
    struct fixture *s = *state;
    char ns[64]; /* of its own, or each would be compared with all others */
    char name[254];
    memset(ns, 'n', sizeof ns);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    for (unsigned i = 0; i < SHARDS; i++) {
        (void)snprintf(ns + sizeof ns - 6, 6, "%05u", i);
        store_put_text(&s->store, "shardingconfigs", ns,
                       "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                       "\"shard\":\"%u\"}},\"limits\":[]}}",
                       name, i);
    }
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"wrong\"},\"spec\":{\"limits\":7}}");
    fixture_lead(s);
    fixture_settle(s);
    await_series(s, "\ncmesh_manager_shard_compiled" OF("wrong") "} 0\n");
    struct buf out = BUF_INIT(2 * 1024 * 1024);
    controller_metrics(s->controller, &s->counts, &out);
    const char *unnamed = strstr(buf_cstr(&out), "\ncmesh_manager_shards_unnamed ");
    assert_non_null(unnamed);
    unsigned long left = strtoul(strchr(unnamed, ' '), NULL, 10);
    unsigned long named = 0;
    for (const char *at = buf_cstr(&out); (at = strstr(at, "\ncmesh_manager_shard_ready{")) != NULL;
         at++) {
        named++;
    }
    assert_in_range(left, 1, SHARDS);
    assert_int_equal(named + left, SHARDS + 1);
    buf_reset(&out);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_apply_edit),
        TEST(test_nothing_is_written_when_nothing_changed),
        TEST(test_edited_while_it_is_published),
        TEST(test_bad_spec),
        TEST(test_no_sidecar),
        TEST(test_overlap_is_seen_on_both),
        TEST(test_pods_that_are_not_selected_any_more),
        TEST(test_deleted_map_comes_back),
        TEST(test_a_map_that_comes_back_is_no_edit),
        TEST(test_a_large_generation_that_the_status_tells),
        TEST(test_deleted_map_comes_back_before_there_is_a_status),
        TEST(test_edited_map_is_put_right),
        TEST(test_label_is_put_back),
        TEST(test_somebody_elses_map),
        TEST(test_somebody_elses_map_with_our_label),
        TEST(test_what_was_written_is_taken_back),
        TEST(test_what_is_void_is_put_back),
        TEST(test_what_another_leader_wrote_is_taken_back),
        TEST(test_generation_of_a_map_that_was_deleted),
        TEST(test_rules_that_nobody_had),
        TEST(test_a_foreign_finalizer_is_taken_off),
        TEST(test_a_foreign_finalizer_that_comes_back),
        TEST(test_too_large),
        TEST(test_pods_that_read_no_later_rules),
        TEST(test_first_rules_wait_for_no_pod_that_waits_for_them),
        TEST(test_an_annotation_that_is_not_believed_is_corrected),
        TEST(test_made_again),
        TEST(test_a_proxy_knows_more),
        TEST(test_generations_of_another_shard_do_not_count),
        TEST(test_pods_are_asked_first),
        TEST(test_pods_that_tell),
        TEST(test_next_leader_goes_on),
        TEST(test_every_failure_is_tried_again),
        TEST(test_leader_lost_in_the_middle),
        TEST(test_freed_at_any_moment),
        TEST(test_two_leaders),
        TEST(test_nothing_is_written_without_the_lease),
        TEST(test_orphan_is_deleted),
        TEST(test_pods_without_rules_keep_none),
        TEST(test_rules_kept_without_a_configmap),
        TEST(test_orphan_without_pods_is_deleted),
        TEST(test_pods_that_know_are_not_told_again),
        TEST(test_metrics),
        TEST(test_series_of_each_shard),
        TEST(test_series_have_a_bound),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
