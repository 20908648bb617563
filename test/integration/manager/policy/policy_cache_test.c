/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which policies there are, and when that is known: followed at an API server in the same process.
 */
#include "policy/policy_cache.h"

#include <stdio.h>
#include <stdlib.h>

#include "loop_fixture.h"
#include "storing_api.h"

enum { PATIENCE_TURNS = 2000 };

struct fixture {
    struct storing_api store;
    struct policy_cache *cache;
    unsigned told;
    unsigned gone;
    unsigned same;
    unsigned known;
};

static void on_policy(void *data, const struct policy_object *o, bool gone, bool same)
{
    struct fixture *f = data;
    assert_true(o->key[0] != '\0' && o->ns[0] != '\0' && o->name[0] != '\0');
    f->told++;
    f->gone += gone;
    f->same += same;
}

static void on_known(void *data)
{
    ((struct fixture *)data)->known++;
}

static const struct policy_cache_handlers handlers = {.on_policy = on_policy, .on_known = on_known};

static struct policy_cache *open_cache(struct fixture *f, size_t memory)
{
    const struct policy_cache_options o = {
        .client = f->store.api.client, .memory = memory, .ops = &f->store.ops};
    return policy_cache_new(f->store.api.loop, &o, &handlers, f);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct net_loop *l = NULL;
    if (f == NULL || loop_setup((void **)&l) != 0 || !store_open(&f->store, l)) {
        return -1;
    }
    f->cache = open_cache(f, 0);
    *state = f;
    return f->cache == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    policy_cache_free(f->cache);
    store_close(&f->store);
    int rc = loop_free(f->store.api.loop);
    free(f);
    return rc;
}

static void put(struct fixture *f, const char *ns, const char *name, const char *interval)
{
    store_put_text(&f->store, "circuitbreakers", ns,
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{},\"rateLimitings\":[{"
                   "\"name\":\"r\",\"bucket\":{\"burst\":1,\"interval\":\"%s\",\"limit\":1},"
                   "\"triggerPolicy\":\"LimiterOnly\",\"resourceRules\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"pods\"],\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]}]}]}}",
                   name, interval);
}

static void put_fault(struct fixture *f, const char *ns, const char *name)
{
    store_put_text(&f->store, "faultinjections", ns,
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{},\"httpFault\":[{"
                   "\"name\":\"r\",\"abort\":{\"httpStatus\":503,\"percent\":\"1\"},\"match\":{"
                   "\"resources\":[{\"resources\":[\"pods\"]}]}}]}}",
                   name);
}

static void serve(struct fixture *f, enum policy_served served)
{
    policy_cache_serve(f->cache, TRAFFIC_BREAKER, served);
    policy_cache_serve(f->cache, TRAFFIC_FAULT_INJECTION, served);
}

static const struct policy_object *find(struct fixture *f, const char *key)
{
    return policy_cache_find(f->cache, key);
}

static void test_followed(void **state)
{
    struct fixture *f = *state;
    put(f, "n", "a", "10s");
    put_fault(f, "n", "a");
    put(f, "m", "b", "10s");
    assert_false(policy_cache_knows(f->cache, "n"));
    assert_true(policy_cache_waits_ms(f->cache) > 0);
    serve(f, POLICY_SERVED);
    assert_false(policy_cache_knows(f->cache, "n"));
    store_settle(&f->store);
    assert_true(policy_cache_knows(f->cache, "n"));
    assert_true(policy_cache_knows(f->cache, "nowhere"));
    assert_true(policy_cache_waits_ms(f->cache) == 0);
    assert_null(policy_cache_error(f->cache));
    assert_int_equal(policy_cache_count(f->cache, TRAFFIC_BREAKER), 2);
    assert_int_equal(policy_cache_count(f->cache, TRAFFIC_FAULT_INJECTION), 1);
    const struct policy_object *o = find(f, "n/circuitbreakers/a");
    assert_non_null(o);
    assert_string_equal(o->ns, "n");
    assert_string_equal(o->name, "a");
    assert_true(policy_valid(o->policy));
    assert_string_equal(o->errors, "");
    assert_non_null(find(f, "n/faultinjections/a"));
    unsigned count = 0;
    for (o = NULL; (o = policy_cache_next_in(f->cache, "n", o)) != NULL; count++) {
        assert_string_equal(o->ns, "n");
    }
    assert_int_equal(count, 2);
    for (o = NULL; (o = policy_cache_next(f->cache, o)) != NULL; count++) {
    }
    assert_int_equal(count, 2 + 3);
}

/* Of what changes only what a policy says counts. */
static void test_revisions(void **state)
{
    struct fixture *f = *state;
    put(f, "n", "a", "10s");
    serve(f, POLICY_SERVED);
    store_settle(&f->store);
    uint64_t first = policy_cache_revision(f->cache, "n");
    uint64_t other = policy_cache_revision(f->cache, "m");
    store_put_text(&f->store, "circuitbreakers", "n",
                   "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"x\":\"y\"}},\"status\":{"
                   "\"open\":1},\"spec\":{\"selector\":{},\"rateLimitings\":[{\"name\":\"r\","
                   "\"bucket\":{\"burst\":1,\"interval\":\"10s\",\"limit\":1},\"triggerPolicy\":"
                   "\"LimiterOnly\",\"resourceRules\":[{\"apiGroups\":[\"\"],\"resources\":["
                   "\"pods\"],\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]}]}]}}");
    store_settle(&f->store);
    assert_int_equal(f->same, 1);
    assert_true(policy_cache_revision(f->cache, "n") == first);
    assert_non_null(strstr(find(f, "n/circuitbreakers/a")->rest, "\"open\":1"));
    put(f, "n", "a", "20s");
    store_settle(&f->store);
    uint64_t second = policy_cache_revision(f->cache, "n");
    assert_true(second != first);
    put(f, "n", "a", "never");
    store_settle(&f->store);
    assert_non_null(strstr(find(f, "n/circuitbreakers/a")->errors, "interval"));
    assert_false(policy_valid(find(f, "n/circuitbreakers/a")->policy));
    store_delete(&f->store, "circuitbreakers", "n", "a");
    store_settle(&f->store);
    assert_null(find(f, "n/circuitbreakers/a"));
    assert_int_equal(f->gone, 1);
    assert_true(policy_cache_revision(f->cache, "n") != second);
    assert_true(policy_cache_revision(f->cache, "m") == other);
    put(f, "n", "a", "20s");
    store_settle(&f->store);
    assert_true(policy_cache_revision(f->cache, "n") > second);
}

/* Made anew under its name, and deleted while nobody watched. */
static void test_what_lists_show(void **state)
{
    struct fixture *f = *state;
    put(f, "n", "a", "10s");
    put(f, "n", "b", "10s");
    serve(f, POLICY_SERVED);
    store_settle(&f->store);
    f->store.silent = true;
    store_delete(&f->store, "circuitbreakers", "n", "a");
    store_delete(&f->store, "circuitbreakers", "n", "b");
    put(f, "n", "b", "30s");
    f->store.silent = false;
    store_expire_watches(&f->store, "circuitbreakers");
    store_settle(&f->store);
    assert_null(find(f, "n/circuitbreakers/a"));
    assert_non_null(find(f, "n/circuitbreakers/b"));
    assert_int_equal(f->gone, 2);
}

static void test_a_kind_comes_and_goes(void **state)
{
    struct fixture *f = *state;
    put(f, "n", "a", "10s");
    serve(f, POLICY_UNKNOWN);
    assert_true(policy_cache_waits_ms(f->cache) == 0); /* nobody will tell */
    assert_false(policy_cache_knows(f->cache, "n"));
    serve(f, POLICY_ABSENT);
    assert_true(policy_cache_knows(f->cache, "n"));
    store_settle(&f->store);
    assert_int_equal(f->store.lists, 0);
    serve(f, POLICY_SERVED);
    assert_false(policy_cache_knows(f->cache, "n"));
    store_settle(&f->store);
    assert_true(policy_cache_knows(f->cache, "n"));
    assert_non_null(find(f, "n/circuitbreakers/a"));
    serve(f, POLICY_UNKNOWN);
    assert_non_null(find(f, "n/circuitbreakers/a"));
    unsigned known = f->known;
    serve(f, POLICY_ABSENT);
    assert_true(f->known > known);
    assert_null(find(f, "n/circuitbreakers/a"));
    assert_int_equal(f->gone, 1);
    assert_true(policy_cache_knows(f->cache, "n"));
    serve(f, POLICY_SERVED);
    store_settle(&f->store);
    assert_non_null(find(f, "n/circuitbreakers/a"));
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    put(f, "n", "a", "10s");
    f->store.refused.part = "faultinjections";
    f->store.refused.status = 403;
    serve(f, POLICY_SERVED);
    for (int i = 0; i < PATIENCE_TURNS && policy_cache_error(f->cache) == NULL; i++) {
        store_turn(&f->store, 1);
    }
    assert_non_null(policy_cache_error(f->cache));
    assert_false(policy_cache_knows(f->cache, "n"));
    assert_true(policy_cache_waits_ms(f->cache) == 0);
    f->store.refused.part = NULL;
    for (int i = 0; i < PATIENCE_TURNS && !policy_cache_knows(f->cache, "n"); i++) {
        store_turn(&f->store, 1);
    }
    assert_true(policy_cache_knows(f->cache, "n"));
}

/* The namespace that takes the most gives way, and comes back when there is room. */
static void test_too_much(void **state)
{
    enum { SMALL = 2, LARGE = 8, MEMORY = 6000 };
    struct fixture *f = *state;
    policy_cache_free(f->cache);
    f->cache = open_cache(f, MEMORY);
    assert_non_null(f->cache);
    for (unsigned i = 0; i < SMALL + LARGE; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "p-%u", i);
        put(f, i < SMALL ? "small" : "large", name, "10s");
    }
    serve(f, POLICY_SERVED);
    for (int i = 0; i < PATIENCE_TURNS && !policy_cache_knows(f->cache, "small"); i++) {
        run_for(f->store.api.loop, 1); /* no pause passes: it would list again and again */
    }
    assert_true(policy_cache_knows(f->cache, "small"));
    assert_false(policy_cache_knows(f->cache, "large"));
    assert_non_null(find(f, "small/circuitbreakers/p-0"));
    for (unsigned i = SMALL + 1; i < SMALL + LARGE; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "p-%u", i);
        store_delete(&f->store, "circuitbreakers", "large", name);
    }
    for (int i = 0; i < PATIENCE_TURNS && !policy_cache_knows(f->cache, "large"); i++) {
        store_turn(&f->store, 1);
    }
    assert_true(policy_cache_knows(f->cache, "large"));
    assert_non_null(find(f, "large/circuitbreakers/p-2"));
    serve(f, POLICY_ABSENT);
    assert_true(policy_cache_knows(f->cache, "large"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_followed),        TEST(test_revisions),
        TEST(test_what_lists_show), TEST(test_a_kind_comes_and_goes),
        TEST(test_refused),         TEST(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
