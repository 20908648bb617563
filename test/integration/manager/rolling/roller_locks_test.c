/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many Leases rolls watch: the bounds, and what becomes of the others when they are reached.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rolling/roller_internal.h"
#include "storing_api.h"

enum { SHARDS = 300, ROLLS = 12 };

/* A roll of a StatefulSet in a namespace, whose pods are of the first so many shards. */
struct member {
    struct stateful_set set;
    struct roll *roll; /* NULL: there is none */
};

struct world {
    struct storing_api store;
    struct roller roller;
    struct roll_namespace *namespaces[ROLLS];
    struct member members[ROLLS];
    cJSON *spec;
    struct shard_cache_config configs[SHARDS];
    const struct shard_cache_config *all[SHARDS];
    char names[SHARDS][16];
};

static const struct reconciler_handlers handlers = {.reconcile = NULL};

static int setup(void **state)
{
    const struct reconciler_options o = {.name = "rolls", .state_size = sizeof(struct roll)};
    if (store_setup(state, sizeof(struct world)) != 0) {
        return -1;
    }
    struct world *w = *state;
    struct net_loop *l = w->store.api.loop;
    w->roller.loop = l;
    w->roller.options.client = w->store.api.client;
    w->roller.reconciler = reconciler_new(l, &o, &handlers);
    w->roller.clock = &w->store.api.clock.clock;
    w->spec = cJSON_Parse("{\"spec\":{\"controller\":{\"leaderElectionName\":\"lead\"}}}");
    for (size_t i = 0; i < SHARDS; i++) {
        (void)snprintf(w->names[i], sizeof w->names[i], "s-%zu", i);
        w->configs[i] =
            (struct shard_cache_config){.object = w->spec, .ns = "n", .name = w->names[i]};
        w->all[i] = &w->configs[i];
    }
    return w->roller.reconciler == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < ROLLS; i++) {
        if (w->members[i].roll != NULL) {
            roll_forget_locks(w->members[i].roll);
        }
    }
    for (size_t i = 0; i < ROLLS; i++) {
        assert_true(w->namespaces[i] == NULL || w->namespaces[i]->locks == 0);
        free(w->namespaces[i]);
    }
    assert_int_equal(w->roller.locks.count, 0);
    reconciler_free(w->roller.reconciler);
    table_deinit(&w->roller.locks);
    cJSON_Delete(w->spec);
    return store_teardown(state);
}

/* Roll number i, in namespace number `ns`. */
static struct roll *add(struct world *w, size_t i, size_t ns)
{
    char key[16];
    struct member *m = &w->members[i];
    struct roll_namespace *s = w->namespaces[ns];
    if (s == NULL) {
        s = w->namespaces[ns] = calloc(1, sizeof *s + 16);
    }
    (void)snprintf(key, sizeof key, "%zu", i);
    m->roll = reconciler_provide(w->roller.reconciler, key);
    assert_true(m->roll != NULL && s != NULL);
    (void)snprintf(s->name, 16, "ns-%zu", ns);
    m->set.ns = s->name;
    m->roll->roller = &w->roller;
    m->roll->key = m->roll->run.key;
    m->roll->ns = s;
    m->roll->set = &m->set;
    return m->roll;
}

/* It looks at `count` shards, from that one on. */
static bool take(struct world *w, struct roll *r, size_t from, size_t count)
{
    const struct roll_view v = {.facts = {.shard_count = count}, .configs = w->all + from};
    return roll_take_locks(r, &v);
}

static size_t watched(const struct world *w)
{
    return w->roller.locks.count;
}

static void test_one_watch_for_all_rolls_of_a_namespace(void **state)
{
    struct world *w = *state;
    struct roll *a = add(w, 0, 0);
    struct roll *b = add(w, 1, 0);
    struct roll *c = add(w, 2, 1);
    assert_true(take(w, a, 0, 60));
    assert_true(take(w, b, 0, 60));
    assert_int_equal(watched(w), 60);
    assert_ptr_equal(roll_lock_of(a, 7), roll_lock_of(b, 7));
    assert_true(take(w, c, 0, 60));
    assert_int_equal(watched(w), 120);
    assert_true(take(w, a, 59, 2)); /* its shards are others now */
    assert_int_equal(watched(w), 121);
    roll_forget_locks(b);
    assert_int_equal(watched(w), 62);
    assert_int_equal(a->ns->locks, 2);
}

static void test_a_namespace_has_a_part(void **state)
{
    struct world *w = *state;
    struct roll *a = add(w, 0, 0);
    struct roll *b = add(w, 1, 0);
    assert_true(take(w, a, 0, ROLLER_NAMESPACE_LOCKS_MAX));
    assert_true(take(w, b, 0, ROLLER_NAMESPACE_LOCKS_MAX)); /* the same ones */
    assert_false(take(w, b, 1, ROLLER_NAMESPACE_LOCKS_MAX));
    assert_int_equal(b->lock_count, ROLLER_NAMESPACE_LOCKS_MAX); /* as before */
    assert_true(take(w, add(w, 2, 1), 1, ROLLER_NAMESPACE_LOCKS_MAX));
    roll_forget_locks(b);
    roll_forget_locks(a);
    assert_true(take(w, b, 1, ROLLER_NAMESPACE_LOCKS_MAX));
}

/* Namespaces that take all they may leave room for others. */
static void test_a_namespace_that_has_most_gives_up(void **state)
{
    enum { GREEDY = ROLLER_LOCKS_MAX / ROLLER_NAMESPACE_LOCKS_MAX };
    struct world *w = *state;
    for (size_t i = 0; i < GREEDY; i++) {
        assert_true(take(w, add(w, i, i), 0, ROLLER_NAMESPACE_LOCKS_MAX));
    }
    assert_int_equal(watched(w), ROLLER_LOCKS_MAX);
    struct roll *modest = add(w, GREEDY, GREEDY);
    assert_true(take(w, modest, 0, 3));
    assert_int_equal(watched(w), ROLLER_LOCKS_MAX - ROLLER_NAMESPACE_LOCKS_MAX + 3);
    size_t lost = 0;
    for (size_t i = 0; i < GREEDY; i++) {
        struct roll *r = w->members[i].roll;
        bool has = r->lock_count > 0;
        lost += !has;
        /* It does not get them back at the cost of others. */
        assert_int_equal(take(w, r, 0, ROLLER_NAMESPACE_LOCKS_MAX), has);
    }
    assert_int_equal(lost, 1);
    assert_int_equal(modest->lock_count, 3);
    assert_true(watched(w) <= ROLLER_LOCKS_MAX);
}

static void test_shards_without_a_lock(void **state)
{
    struct world *w = *state;
    struct roll *r = add(w, 0, 0);
    cJSON *plain = cJSON_Parse("{\"spec\":{}}");
    w->configs[0].object = plain;
    assert_true(take(w, r, 0, 2));
    assert_null(roll_lock_of(r, 0));
    assert_non_null(roll_lock_of(r, 1));
    assert_int_equal(watched(w), 1);
    assert_true(take(w, r, 0, 0));
    assert_int_equal(watched(w), 0);
    cJSON_Delete(plain);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_watch_for_all_rolls_of_a_namespace),
        TEST(test_a_namespace_has_a_part),
        TEST(test_a_namespace_that_has_most_gives_up),
        TEST(test_shards_without_a_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
