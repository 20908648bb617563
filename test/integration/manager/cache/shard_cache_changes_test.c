/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces come and go, and objects are edited and replaced: whatever a cache gives out can be
 * read at any time, what is ready stays ready, and after each change it knows all.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "shard_cache_fixture.h"
#include "json/json.h"

enum { PATIENCE_TURNS = 3000, PASSED_MS = 1000 };

#define ALL_PODS "/api/v1/pods?"

typedef void (*event_fn)(struct place *p);

static void put_namespace(struct place *p, const char *ns)
{
    place_put_config(p, ns, "a", "a");
    place_put_pod(p, ns, "p1", "a");
    place_put_pod(p, ns, "p2", "b");
}

/* ---- what happens, one after the other ---- */

static void two_more(struct place *p)
{
    put_namespace(p, "n1");
    put_namespace(p, "n2");
}

static void one_that_comes_later(struct place *p)
{
    put_namespace(p, "n3");
}

static void listed_again(struct place *p)
{
    store_delete(&p->store, "pods", "n2", "p1");
    store_expire_watches(&p->store, ALL_PODS);
    place_put_pod(p, "n1", "p3", "a");
}

static void few(struct place *p)
{
    for (unsigned i = 1; i < 4; i++) {
        char ns[16];
        (void)snprintf(ns, sizeof ns, "n%u", i);
        store_delete(&p->store, "shardingconfigs", ns, "a");
    }
    place_put_pod(p, "n0", "p3", "a");
}

static event_fn visits[] = {two_more, one_that_comes_later, listed_again, few, NULL};

/* ---- what is changed in place ---- */

static void put_child(struct place *p, const char *editor, const char *label)
{
    store_put_text(&p->store, "shardingconfigs", "n0",
                   "{\"metadata\":{\"name\":\"c\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/auto-sharding-root\":\"r\"},\"managedFields\":[{"
                   "\"manager\":\"%s\",\"time\":\"2026-01-01T00:00:00Z\"}]},\"spec\":{"
                   "\"selector\":{\"matchLabels\":{\"shard\":\"%s\"}},\"limits\":[]}}",
                   editor, label);
}

static void put_injected(struct place *p, const char *name, const char *label)
{
    store_put_text(&p->store, "pods", "n0",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"},"
                   "\"annotations\":{\"ctrlmesh.kusionstack.io/sharding-config-injected\":\"c\"}}}",
                   name, label);
}

static void another_editor(struct place *p)
{
    put_child(p, "kubectl-patch", "a");
}

static void another_selector(struct place *p)
{
    put_child(p, "kubectl-patch", "b");
}

static void a_root(struct place *p)
{
    store_put_text(&p->store, "shardingconfigs", "n0",
                   "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"root\":{\"prefix\":\"x\"},"
                   "\"selector\":{\"matchLabels\":{\"shard\":\"a\"}}}}");
}

static void no_root(struct place *p)
{
    place_put_config(p, "n0", "a", "a");
}

static void another_pod(struct place *p)
{
    store_end_watches(&p->store);
    store_delete(&p->store, "pods", "n0", "p1");
    put_injected(p, "p1", "b");
    place_put_map(p, "n0", "c", "true");
}

static void another_config(struct place *p)
{
    store_end_watches(&p->store);
    store_delete(&p->store, "shardingconfigs", "n0", "c");
    put_child(p, "kubectl-create", "b");
}

static void pods_without_configs(struct place *p)
{
    store_delete(&p->store, "shardingconfigs", "n0", "a");
    store_delete(&p->store, "shardingconfigs", "n0", "c");
}

static void configs_again(struct place *p)
{
    place_put_config(p, "n0", "a", "a");
    put_child(p, "kubectl-create", "b");
}

static event_fn edits[] = {
    another_editor, another_selector,     a_root,        no_root, another_pod,
    another_config, pods_without_configs, configs_again, NULL};

/* ---- whether it knows ---- */

/* Whatever is given out can be read. */
static void read_all(struct place *p)
{
    size_t sum = 0;
    const struct shard_cache_config *c = NULL;
    while ((c = shard_cache_next_config(p->cache, c)) != NULL) {
        sum += strlen(c->key) + strlen(c->uid) + strlen(c->version) + strlen(c->changed_by);
        sum += json_weight(c->object);
    }
    for (const struct rules_map *m = NULL; (m = shard_cache_next_map(p->cache, m)) != NULL;) {
        sum += strlen(m->key) + strlen(m->version) + strlen(m->text_hash) + strlen(m->changed_by);
    }
    assert_int_not_equal(sum, SIZE_MAX);
}

static bool is_settled(struct place *p)
{
    read_all(p);
    bool settled = shard_cache_synced(p->cache) && place_difference(p)[0] == '\0';
    buf_clear(&p->log);
    return settled;
}

static void turn(struct place *p)
{
    store_end_pauses(&p->store);
    loop_skip(p->store.api.loop, PASSED_MS);
    for (unsigned i = 0; i < 3; i++) {
        (void)uv_run(&p->store.api.loop->uv, UV_RUN_NOWAIT);
    }
}

/* `synced`: it was before. */
static void settle(struct place *p, bool synced)
{
    unsigned quiet = 0;
    for (int i = 0; i < PATIENCE_TURNS && quiet < 4; i++) {
        turn(p);
        quiet = is_settled(p) ? quiet + 1 : 0;
        assert_true(!synced || shard_cache_synced(p->cache));
    }
    assert_int_equal(quiet, 4);
}

static void play(const event_fn *event)
{
    struct place p = {.hurried = true};
    p.store.page_max = 3;
    assert_true(place_open(&p));
    put_namespace(&p, "n0");
    put_child(&p, "kubectl-edit", "a");
    put_injected(&p, "p3", "b");
    place_begin(&p, NULL);
    settle(&p, false);
    for (; *event != NULL; event++) {
        (*event)(&p);
        settle(&p, true);
    }
    assert_true(place_close(&p));
}

static void test_namespaces_come_and_go(void **state)
{
    (void)state;
    play(visits);
}

static void test_edits(void **state)
{
    (void)state;
    play(edits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_namespaces_come_and_go),
        cmocka_unit_test(test_edits),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
