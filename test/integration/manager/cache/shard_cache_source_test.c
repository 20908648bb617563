/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods of few namespaces are followed by a watch for each, those of many by one for all; whatever
 * the order in which the watches tell, nothing is lost by going over, and nothing comes back.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "shard_cache_fixture.h"

#define ALL_PODS "/api/v1/pods?"

enum { PATIENCE_MS = 45000 };

/* Two namespaces may have watches of their own. */
static int setup(void **state)
{
    int rc = place_setup(state);
    struct place *p = *state;
    p->own_watches = 2;
    p->hurried = true;
    return rc;
}

/* ---- steps ---- */

/* A namespace with a shard "a", and a pod of it. */
static void put_namespace(struct place *p, const char *ns)
{
    place_put_config(p, ns, "a", "a");
    place_put_pod(p, ns, "p1", "a");
}

static void put_namespaces(struct place *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "n%u", i);
        put_namespace(p, ns);
    }
}

static void pause_part(struct place *p, const char *part)
{
    p->store.paused = part;
    store_go_on(&p->store);
}

/* n0, n1, n2 by the shared watch. */
static void begin_shared(struct place *p)
{
    put_namespaces(p, 3);
    place_begin(p, NULL);
    place_await_synced(p);
    place_await_watches(p, 1);
    place_await_same(p);
}

/* n0, n1 by their own watches. */
static void begin_own(struct place *p)
{
    put_namespaces(p, 2);
    place_begin(p, NULL);
    place_await_synced(p);
    place_await_watches(p, 2);
}

static void assert_ready(struct place *p, const char *ns)
{
    if (!shard_cache_ready(p->cache, ns)) {
        fail_msg("%s is not ready any more", ns);
    }
}

static const char *version_of(struct place *p, const char *key)
{
    const struct pod *pod = shard_cache_find_pod(p->cache, key);
    return pod == NULL ? "" : pod->version;
}

static const char *label_of(struct place *p, const char *key)
{
    const struct pod *pod = shard_cache_find_pod(p->cache, key);
    return pod == NULL ? "" : pod_label(pod, "shard");
}

static bool was_told(const struct place *p, const char *text)
{
    return p->log.len > 0 && strstr(buf_cstr((struct buf *)&p->log), text) != NULL;
}

/* ---- few and many ---- */

static void test_few(void **state)
{
    struct place *p = *state;
    begin_own(p);
    place_run(p, 10);
    assert_int_equal(p->shared_lists, 0);
    assert_int_equal(p->own_lists, 2);
    assert_int_equal(place_metric(p, "cmesh_manager_pod_watches"), 2);
    assert_int_equal(place_metric(p, "cmesh_manager_known_namespaces"), 2);
}

static void test_many_from_the_start(void **state)
{
    struct place *p = *state;
    put_namespaces(p, 7);
    place_put_pod(p, "elsewhere", "p1", "a");
    place_begin(p, NULL);
    place_await_synced(p);
    assert_string_equal(place_difference(p), "");
    place_await_watches(p, 1);
    place_put_pod(p, "n5", "p2", "a");
    place_put_pod(p, "elsewhere", "p2", "a");
    store_delete(&p->store, "pods", "n6", "p1");
    place_await_same(p);
    assert_int_equal(place_metric(p, "cmesh_manager_known_pods"), 7);
    assert_int_equal(place_metric(p, "cmesh_manager_known_namespaces"), 7);
    assert_int_equal(p->own_lists, 0);
    assert_int_equal(p->shared_lists, 1);
    assert_int_equal(p->shared_opened, 1);
}

/* How many there are is known when all configs are listed; until then few are not taken for many,
 * nor are many served one by one. */
static void test_pages_of_configs(void **state)
{
    struct place *p = *state;
    p->store.page_max = 3;
    pause_part(p, "continue=");
    put_namespaces(p, 7);
    place_begin(p, NULL);
    place_expect(p, "config(n2/a) ");
    place_run(p, 20);
    assert_int_equal(p->own_lists + p->shared_lists, 0);
    pause_part(p, NULL);
    place_await_synced(p);
    place_await_watches(p, 1);
    place_await_same(p);
    assert_int_equal(p->own_lists, 0);
    assert_int_equal(p->shared_lists, 1);
}

/* One namespace is all that such a manager looks at. */
static void test_of_one_namespace(void **state)
{
    struct place *p = *state;
    put_namespaces(p, 5);
    place_begin(p, "n3");
    place_await_synced(p);
    place_await_watches(p, 1);
    assert_int_equal(p->shared_lists, 0);
    assert_int_equal(p->own_lists, 1);
}

/* ---- from the own watches to the shared one ---- */

static void test_takeover(void **state)
{
    struct place *p = *state;
    begin_own(p);
    pause_part(p, ALL_PODS);
    put_namespace(p, "n2");
    place_expect(p, "config(n2/a) ");
    place_run(p, 10);
    assert_int_equal(p->shared_lists, 1);
    /* The list is under way: the others go on as before. */
    assert_ready(p, "n0");
    assert_false(shard_cache_ready(p->cache, "n2"));
    place_put_pod(p, "n0", "p2", "a");
    place_put_pod(p, "n1", "p1", "b");
    place_expect(p, "pod(n0/p2 1) ");
    store_delete(&p->store, "pods", "n0", "p1");
    place_expect(p, "gone(n0/p1 0) ");
    assert_string_equal(label_of(p, "n1/p1"), "b");
    assert_int_equal(place_metric(p, "cmesh_manager_pod_watches"), 2);
    pause_part(p, NULL);
    place_await_ready(p, "n2");
    place_await_watches(p, 1);
    assert_ready(p, "n0");
    place_put_pod(p, "n0", "p3", "a");
    place_put_pod(p, "n2", "p3", "a");
    store_delete(&p->store, "pods", "n1", "p1");
    place_await_same(p);
    assert_int_equal(p->shared_lists, 1);
    assert_int_equal(p->own_lists, 3); /* n1 once more: its watch had told less than the list */
}

/* Nothing is dropped for what the first pages of a list do not show, and nobody waits for it who
 * was served. */
static void test_half_a_list(void **state)
{
    struct place *p = *state;
    p->store.page_max = 2;
    begin_own(p);
    place_put_pod(p, "n1", "p2", "a");
    place_await_same(p);
    pause_part(p, "/api/v1/pods?limit=500&continue");
    put_namespace(p, "n2");
    place_expect(p, "config(n2/a) ");
    place_run(p, 10);
    assert_false(shard_cache_ready(p->cache, "n2"));
    assert_int_equal(place_metric(p, "cmesh_manager_known_pods"), 3);
    store_delete(&p->store, "pods", "n0", "p1"); /* which the first page has shown */
    place_expect(p, "gone(n0/p1 0) ");
    place_put_pod(p, "n0", "p2", "a");
    place_expect(p, "pod(n0/p2 1) ");
    pause_part(p, NULL);
    place_await_watches(p, 1);
    place_await_same(p);
    assert_true(was_told(p, "ready(n2) "));
    assert_false(was_told(p, "(n0/p1"));
}

/* The shared list is of a version that the own watches have passed long ago. */
static void test_own_watches_ahead(void **state)
{
    struct place *p = *state;
    begin_own(p);
    p->store.page_max = 1;
    pause_part(p, "/api/v1/pods?limit=500&continue");
    put_namespace(p, "n2");
    place_expect(p, "config(n2/a) ");
    place_run(p, 10);
    store_delete(&p->store, "pods", "n0", "p1");
    place_expect(p, "gone(n0/p1 0) ");
    place_put_pod(p, "n0", "p1", "b"); /* another one */
    place_expect(p, "pod(n0/p1 0) ");
    store_delete(&p->store, "pods", "n1", "p1");
    place_expect(p, "gone(n1/p1 0) ");
    place_run(p, 10);
    buf_clear(&p->log);
    pause_part(p, NULL); /* complete; and its watch tells all of that once more */
    place_await_watches(p, 1);
    place_put_pod(p, "n1", "p2", "a");
    place_await_same(p);
    assert_true(was_told(p, "pod(n1/p2 1) "));
    assert_false(was_told(p, "n0/p1"));
    assert_false(was_told(p, "n1/p1"));
    assert_string_equal(label_of(p, "n0/p1"), "b");
    assert_int_equal(p->own_lists, 2);
}

/* ---- namespaces that come while the shared watch is there ---- */

static void test_a_new_namespace(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    put_namespace(p, "n3");
    place_await_ready(p, "n3");
    place_await_same(p);
    place_run(p, 10);
    assert_int_equal(p->own_lists, 1);
    assert_int_equal(p->own_opened, 0);
    place_put_pod(p, "n3", "p2", "a");
    place_await_same(p);
    assert_int_equal(p->own_opened, 0);
    assert_int_equal(p->shared_lists, 1);
}

static void test_many_new_namespaces(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    pause_part(p, "/namespaces/");
    put_namespaces(p, 40);
    place_expect(p, "config(n39/a) ");
    place_run(p, 10);
    assert_int_equal(p->own_lists, 2); /* no more of them at a time */
    pause_part(p, NULL);
    place_await_synced(p);
    place_await_same(p);
    place_run(p, 10);
    assert_int_equal(p->own_lists, 37);
    assert_int_equal(p->own_opened, 0);
    assert_int_equal(p->shared_lists, 1);
}

/* The list shows what the shared watch tells only later: of a pod that came, changed, went, and
 * came anew. */
static void test_a_new_namespace_ahead(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    pause_part(p, ALL_PODS);
    place_put_pod(p, "n3", "p1", "a");
    place_put_pod(p, "n3", "p1", "b");
    place_put_pod(p, "n3", "p2", "a");
    store_delete(&p->store, "pods", "n3", "p1");
    place_put_pod(p, "n3", "p1", "a");
    store_delete(&p->store, "pods", "n3", "p2");
    place_put_config(p, "n3", "a", "a");
    place_expect(p, "ready(n3) ");
    assert_string_equal(place_difference(p), "");
    place_run(p, 10);
    buf_clear(&p->log);
    pause_part(p, NULL);
    place_put_pod(p, "n3", "p3", "a");
    place_await_same(p);
    assert_string_equal(buf_cstr(&p->log), "pods(n3/a) pod(n3/p3 1) ");
    assert_int_equal(p->own_opened, 0);
}

/* How the pods of the namespace are listed now; for the caller to free. */
static char *list_text(struct place *p, const char *ns)
{
    char *list = NULL;
    char *pod = cJSON_PrintUnformatted(store_get(&p->store, "pods", ns, "p1"));
    assert_true(asprintf(&list,
                         "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"%u\"},"
                         "\"items\":[%s]}",
                         p->store.version, pod) > 0);
    free(pod);
    return list;
}

/* Things happen in n3, and the shared watch has told of them. */
static void pass_by(struct place *p)
{
    store_delete(&p->store, "pods", "n3", "p1");
    place_put_pod(p, "n3", "p2", "a");
    place_put_pod(p, "n0", "p2", "a");
    place_expect(p, "pod(n0/p2 1) ");
}

/* Its list shows less than that: it is not enough, and its own watch tells the rest. */
static void expect_a_watch_of_its_own(struct place *p, const char *list)
{
    struct api_request *q = api_expect_part(&p->store.api, "/namespaces/n3/pods?limit");
    api_answer(q, 200, NULL, list);
    place_await_ready(p, "n3");
    place_run(p, 10);
    assert_string_not_equal(version_of(p, "n3/p1"), "");
    assert_int_equal(p->own_opened, 1);
    assert_int_equal(place_metric(p, "cmesh_manager_pod_watches"), 1);
    pause_part(p, NULL);
    place_await_same(p);
    place_put_pod(p, "n3", "p3", "a");
    place_await_same(p);
    place_await_watches(p, 1);
    place_put_pod(p, "n3", "p4", "a");
    place_await_same(p);
    assert_int_equal(p->own_lists, 1);
}

static void test_a_new_namespace_behind(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    pause_part(p, "/namespaces/n3/pods?");
    put_namespace(p, "n3");
    place_expect(p, "config(n3/a) ");
    char *list = list_text(p, "n3");
    pass_by(p);
    expect_a_watch_of_its_own(p, list);
    free(list);
}

/* A list that is older than what the shared watch had told before it was asked for: no API server
 * answers so, but much would be lost if one did. */
static void test_a_stale_list(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    pause_part(p, "/namespaces/n3/pods?");
    place_put_pod(p, "n3", "p1", "a");
    char *list = list_text(p, "n3");
    pass_by(p);
    place_put_config(p, "n3", "a", "a");
    place_expect(p, "config(n3/a) ");
    expect_a_watch_of_its_own(p, list);
    free(list);
}

/* While the shared list is under way it has a watch of its own, which is ahead of that list. */
static void test_a_new_namespace_during_a_list(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    p->store.page_max = 2;
    pause_part(p, "/api/v1/pods?limit=500&continue");
    store_expire_watches(&p->store, ALL_PODS);
    place_run(p, 10);
    assert_int_equal(p->shared_lists, 2);
    put_namespace(p, "n3");
    place_await_ready(p, "n3");
    place_put_pod(p, "n3", "p2", "a");
    place_expect(p, "pod(n3/p2 1) ");
    assert_int_equal(place_metric(p, "cmesh_manager_pod_watches"), 1);
    assert_ready(p, "n0");
    pause_part(p, NULL);
    place_run(p, 10);
    place_await_watches(p, 1);
    place_put_pod(p, "n0", "p2", "a");
    place_put_pod(p, "n3", "p3", "a");
    place_await_same(p);
    assert_int_equal(p->own_opened, 1);
    assert_int_equal(p->own_lists, 1);
}

/* It was not followed meanwhile, whatever the shared watch has told of it before and tells late. */
static void test_gone_and_back(void **state)
{
    struct place *p = *state;
    put_namespaces(p, 4);
    place_begin(p, NULL);
    place_await_synced(p);
    place_await_watches(p, 1);
    store_delete(&p->store, "shardingconfigs", "n3", "a");
    place_expect(p, "gone(n3/p1 0) ");
    pause_part(p, ALL_PODS);
    place_put_pod(p, "n3", "p1", "b");
    store_delete(&p->store, "pods", "n3", "p1");
    place_put_pod(p, "n3", "p2", "a");
    place_put_config(p, "n3", "a", "a");
    place_expect(p, "ready(n3) ");
    assert_string_equal(place_difference(p), "");
    place_run(p, 10);
    buf_clear(&p->log);
    pause_part(p, NULL);
    place_put_pod(p, "n3", "p3", "a");
    place_await_same(p);
    assert_string_equal(buf_cstr(&p->log), "pods(n3/a) pod(n3/p3 1) ");
}

/* ---- lists again ---- */

static void test_expired(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    p->store.page_max = 2;
    p->store.silent = true;
    place_put_pod(p, "n1", "p2", "a");
    store_delete(&p->store, "pods", "n2", "p1");
    pause_part(p, "/api/v1/pods?limit=500&continue");
    store_expire_watches(&p->store, ALL_PODS);
    p->store.silent = false;
    place_run(p, 10);
    assert_int_equal(p->shared_lists, 2);
    assert_ready(p, "n2");
    assert_true(shard_cache_synced(p->cache));
    assert_string_not_equal(version_of(p, "n2/p1"), ""); /* the list is not complete */
    pause_part(p, NULL);
    place_await_same(p);
    assert_string_equal(version_of(p, "n2/p1"), "");
    assert_int_equal(p->own_lists, 0);
}

/* ---- when there is no shared list ---- */

static void refuse(struct place *p, const char *part, unsigned status)
{
    p->store.refused.part = part;
    p->store.refused.status = status;
}

static void test_forbidden_and_allowed(void **state)
{
    struct place *p = *state;
    refuse(p, ALL_PODS, 403);
    put_namespaces(p, 5);
    place_begin(p, NULL);
    place_await_synced(p);
    place_await_watches(p, 5);
    assert_null(shard_cache_error(p->cache)); /* nothing is missed */
    place_put_pod(p, "n4", "p2", "a");
    put_namespace(p, "n5"); /* does not wait either */
    place_await_ready(p, "n5");
    place_await_same(p);
    assert_true(p->shared_lists > 1); /* it goes on trying */
    refuse(p, NULL, 0);
    place_await_watches(p, 1);
    assert_true(shard_cache_synced(p->cache));
    place_put_pod(p, "n4", "p3", "a");
    store_delete(&p->store, "pods", "n0", "p1");
    place_await_same(p);
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

static void test_the_definition_is_missing(void **state)
{
    struct place *p = *state;
    refuse(p, "/shardingconfigs", 404);
    place_begin(p, NULL);
    await_error(p, "shardingconfigs.ctrlmesh.kusionstack.io is not installed: apply "
                   "k8s/base/crd.yaml");
    refuse(p, NULL, 0);
    place_await_synced(p);
}

/* Limits come so much nearer. */
static void pass(struct place *p, uint64_t ms)
{
    loop_skip(p->store.api.loop, ms);
    place_run(p, 10);
}

/* To list may be allowed, and to watch not. */
static void test_only_the_watch_is_forbidden(void **state)
{
    struct place *p = *state;
    refuse(p, ALL_PODS "watch", 403);
    put_namespaces(p, 4);
    place_begin(p, NULL);
    place_await_synced(p);
    assert_int_equal(p->own_lists, 0);
    await_error(p, "403");
    pass(p, PATIENCE_MS);
    place_await_watches(p, 4);
    unsigned lists = p->own_lists;
    place_run(p, 30);
    assert_int_equal(p->own_lists, lists); /* they stay where they are */
    assert_true(p->shared_lists > 1);
    place_put_pod(p, "n3", "p2", "a");
    place_await_same(p);
    refuse(p, NULL, 0);
    place_await_watches(p, 1);
    place_put_pod(p, "n3", "p3", "a");
    place_await_same(p);
}

/* The right is taken away while it is used. */
static void test_forbidden_later(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    refuse(p, ALL_PODS, 403);
    store_expire_watches(&p->store, ALL_PODS);
    place_put_pod(p, "n1", "p2", "a");
    store_delete(&p->store, "pods", "n2", "p1");
    await_error(p, "403");
    pass(p, PATIENCE_MS);
    place_await_watches(p, 3);
    place_await_same(p);
    assert_true(shard_cache_synced(p->cache));
    refuse(p, NULL, 0);
    place_await_watches(p, 1);
    place_put_pod(p, "n1", "p3", "a");
    place_await_same(p);
}

/* As by an API server that has just started, and does not know yet what is allowed. */
static void test_forbidden_for_a_moment(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    refuse(p, ALL_PODS, 403);
    store_end_watches(&p->store);
    place_put_pod(p, "n1", "p2", "a");
    await_error(p, "403");
    assert_true(shard_cache_synced(p->cache));
    refuse(p, NULL, 0);
    place_await_same(p);
    place_await_watches(p, 1);
    place_run(p, 10);
    pass(p, PATIENCE_MS);
    place_await_watches(p, 1);
    assert_int_equal(p->own_lists, 0);
    assert_null(shard_cache_error(p->cache));
}

/* For how long it was away before counts for nothing. */
static void test_forbidden_after_an_outage(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    store_lose(&p->store);
    await_error(p, "cannot watch");
    place_run(p, 20); /* the others, too */
    pass(p, PATIENCE_MS - 10000);
    refuse(p, ALL_PODS, 403);
    assert_true(api_listen(&p->store.api));
    await_error(p, "403");
    pass(p, 20000);
    assert_int_equal(p->own_lists, 0);
    pass(p, PATIENCE_MS - 20000);
    place_await_watches(p, 3);
    assert_int_equal(p->own_lists, 3);
}

/* The list is complete at last, and its watch not open yet. */
static void test_a_watch_that_opens_late(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    refuse(p, ALL_PODS, 500);
    store_expire_watches(&p->store, ALL_PODS);
    await_error(p, "500");
    pass(p, PATIENCE_MS - 10000);
    place_put_pod(p, "n1", "p2", "a");
    refuse(p, NULL, 0);
    pause_part(p, ALL_PODS "watch");
    place_await_same(p);
    pass(p, 20000);
    pause_part(p, NULL);
    place_await_watches(p, 1);
    place_put_pod(p, "n1", "p3", "a");
    place_await_same(p);
    assert_int_equal(p->own_lists, 0);
}

/* What keeps a watch from being opened is no reason: it goes on from where it was. */
static void test_a_server_that_is_away(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    store_lose(&p->store);
    await_error(p, "cannot watch");
    place_run(p, 20); /* the others, too */
    pass(p, PATIENCE_MS);
    pass(p, PATIENCE_MS);
    place_put_pod(p, "n1", "p2", "a");
    assert_true(api_listen(&p->store.api));
    place_await_same(p);
    assert_int_equal(p->own_lists, 0);
    assert_int_equal(p->shared_lists, 1);
}

/* Whatever the reason is: who waits does not wait for ever. */
static void test_a_list_that_fails(void **state)
{
    struct place *p = *state;
    begin_own(p);
    refuse(p, ALL_PODS, 500);
    put_namespace(p, "n2");
    place_expect(p, "config(n2/a) ");
    await_error(p, "500");
    assert_false(shard_cache_ready(p->cache, "n2"));
    pass(p, PATIENCE_MS);
    place_await_ready(p, "n2");
    place_await_watches(p, 3);
    refuse(p, NULL, 0);
    place_await_watches(p, 1);
    place_put_pod(p, "n2", "p2", "a");
    place_await_same(p);
}

/* ---- few again ---- */

static void remove_namespace(struct place *p, const char *ns)
{
    char text[64];
    store_delete(&p->store, "shardingconfigs", ns, "a");
    (void)snprintf(text, sizeof text, "config(%s/a) ", ns);
    place_expect(p, text);
}

static void test_few_again(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    remove_namespace(p, "n2");
    place_run(p, 10);
    assert_int_equal(place_metric(p, "cmesh_manager_pod_watches"), 1); /* two are not few enough */
    assert_int_equal(p->own_lists, 0);
    put_namespace(p, "n4"); /* nor one more than that */
    place_await_same(p);
    remove_namespace(p, "n4");
    remove_namespace(p, "n1");
    place_put_pod(p, "n0", "p2", "a");
    assert_ready(p, "n0");
    place_await_same(p);
    place_await_watches(p, 1);
    place_run(p, 10);
    assert_int_equal(p->own_opened, 1);
    unsigned opened = p->shared_opened;
    place_put_pod(p, "n0", "p3", "a");
    place_await_same(p);
    remove_namespace(p, "n0");
    place_await_watches(p, 0);
    put_namespaces(p, 3); /* and from the beginning */
    place_await_synced(p);
    place_await_same(p);
    place_await_watches(p, 1);
    assert_int_equal(p->shared_opened, opened + 1);
}

/* All at once. */
static void test_all_gone(void **state)
{
    struct place *p = *state;
    begin_shared(p);
    for (unsigned i = 0; i < 3; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "n%u", i);
        store_delete(&p->store, "shardingconfigs", ns, "a");
    }
    place_await_watches(p, 0);
    assert_int_equal(place_metric(p, "cmesh_manager_known_pods"), 0);
    assert_int_equal(place_metric(p, "cmesh_manager_known_namespaces"), 0);
    assert_true(shard_cache_synced(p->cache));
}

/* ---- ends ---- */

/* One turn after the other something happens, and the cache is freed after `turns` of them. */
static void free_after(struct place *p, unsigned turns)
{
    p->store.refused.part = turns % 3 == 0 ? ALL_PODS : NULL;
    p->store.refused.status = 403;
    place_begin(p, NULL);
    for (unsigned i = 0; i < turns; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "n%u", i % 7);
        if (i % 7 == 3) {
            put_namespace(p, ns);
        } else if (i % 7 == 5 && store_get(&p->store, "shardingconfigs", ns, "a") != NULL) {
            store_delete(&p->store, "shardingconfigs", ns, "a");
        } else if (i % 11 == 7) {
            store_expire_watches(&p->store, "/pods?");
        }
        place_run(p, 1);
    }
    shard_cache_free(p->cache);
    p->cache = NULL;
    buf_clear(&p->log);
    place_run(p, 2);
}

static void test_freed_in_each_phase(void **state)
{
    struct place *p = *state;
    p->store.page_max = 2;
    put_namespaces(p, 5);
    for (unsigned turns = 0; turns < 40; turns++) {
        free_after(p, turns);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_few),
        TEST(test_the_definition_is_missing),
        TEST(test_many_from_the_start),
        TEST(test_pages_of_configs),
        TEST(test_of_one_namespace),
        TEST(test_takeover),
        TEST(test_half_a_list),
        TEST(test_own_watches_ahead),
        TEST(test_a_new_namespace),
        TEST(test_many_new_namespaces),
        TEST(test_a_new_namespace_ahead),
        TEST(test_a_new_namespace_behind),
        TEST(test_a_stale_list),
        TEST(test_a_new_namespace_during_a_list),
        TEST(test_gone_and_back),
        TEST(test_expired),
        TEST(test_forbidden_and_allowed),
        TEST(test_only_the_watch_is_forbidden),
        TEST(test_forbidden_later),
        TEST(test_forbidden_for_a_moment),
        TEST(test_forbidden_after_an_outage),
        TEST(test_a_watch_that_opens_late),
        TEST(test_a_server_that_is_away),
        TEST(test_a_list_that_fails),
        TEST(test_few_again),
        TEST(test_all_gone),
        TEST(test_freed_in_each_phase),
    };
    log_init("test", LOG_TEXT, getenv("CMESH_DEBUG") != NULL ? LOG_DEBUG : LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
