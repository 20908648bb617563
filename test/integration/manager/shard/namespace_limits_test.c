/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits by labels of namespaces, as namespaces come, go and change their labels.
 */
#include <stdio.h>
#include <stdlib.h>

#include "compile/namespace_selectors.h"
#include "controller_fixture.h"
#include "shard/controller_internal.h"

enum { STORM = 300, MEMORY = 850 * 1024, LARGE = 30000 };

#define NAMES(list) "ctrlmesh.kusionstack.io/namespace in (" list ")"
#define NOBODY "ctrlmesh.kusionstack.io/namespace,!ctrlmesh.kusionstack.io/namespace"

static void put(struct fixture *s, const char *ns, const char *team)
{
    store_put_text(&s->store, "namespaces", "",
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"team\":\"%s\"}}}", ns, team);
}

/* A shard of the namespaces of a team. */
static void shard(struct fixture *s, const char *name, const char *team)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"configmaps\"]}],\"namespaceSelector\":{\"matchLabels\":{"
                   "\"team\":\"%s\"}}}]}}",
                   name, name, team);
}

static void expect_count(struct fixture *s, const char *name, const char *want)
{
    fixture_expect_text(s, "shardingconfigs", name, "status/namespaces", want);
}

static void begin(struct fixture *s)
{
    put(s, "x", "red");
    put(s, "y", "blue");
    put(s, "kube-system", "red");
    put(s, "cmesh-system", "red");
    shard(s, "a", "red");
    shard(s, "b", "blue");
    fixture_lead(s);
    fixture_expect_rules(s, "a", NAMES("x"));
    fixture_expect_rules(s, "b", NAMES("y"));
}

static void labels_decide(void **state)
{
    struct fixture *s = *state;
    begin(s);
    expect_count(s, "a", "1");
    fixture_expect_condition(s, "a", "Compiled", "True");
    put(s, "z", "red");
    fixture_expect_rules(s, "a", NAMES("x,z"));
    expect_count(s, "a", "2");
    put(s, "x", "blue");
    fixture_expect_rules(s, "a", NAMES("z"));
    fixture_expect_rules(s, "b", NAMES("x,y"));
    store_delete(&s->store, "namespaces", "", "z");
    fixture_expect_rules(s, "a", NOBODY);
    expect_count(s, "a", "0");
    put(s, "y", "red");
    fixture_expect_rules(s, "a", NAMES("y"));
    fixture_expect_rules(s, "b", NAMES("x"));
}

/* A spec that is edited meanwhile goes its own way. */
static void the_spec_changes_too(void **state)
{
    struct fixture *s = *state;
    begin(s);
    put(s, "z", "green");
    shard(s, "a", "green");
    fixture_expect_rules(s, "a", NAMES("z"));
    fixture_config(s, "a", "configmaps", "app=x");
    fixture_expect_rules(s, "a", "app=x");
    put(s, "z", "red");
    put(s, "y", "red");
    fixture_expect_rules(s, "b", NOBODY);
    fixture_settle(s);
    assert_non_null(strstr(fixture_rules(s, "a"), "app=x"));
    assert_string_equal(
        store_text(store_get(&s->store, "shardingconfigs", "n", "a"), "status/namespaces"), "");
}

static void others_are_left_alone(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_settle(s);
    uint64_t compiled = s->counts.compiled;
    store_put_text(&s->store, "namespaces", "",
                   "{\"metadata\":{\"name\":\"x\",\"labels\":{\"team\":\"red\",\"z\":\"1\"}}}");
    put(s, "other", "green");
    store_delete(&s->store, "namespaces", "", "other");
    store_expire_watches(&s->store, "/api/v1/namespaces?"); /* all are listed again */
    put(s, "kube-public", "blue");
    put(s, "z", "red");
    fixture_expect_rules(s, "a", NAMES("x,z"));
    fixture_settle(s);
    assert_int_equal(s->counts.compiled, compiled + 1);
}

/* The list says what the watch had no time to. */
static void what_a_list_shows(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_settle(s);
    s->store.silent = true;
    put(s, "x", "blue");
    store_delete(&s->store, "namespaces", "", "y");
    store_expire_watches(&s->store, "/api/v1/namespaces?");
    fixture_expect_rules(s, "a", NOBODY);
    fixture_expect_rules(s, "b", NAMES("x"));
    s->store.silent = false;
    store_go_on(&s->store);
}

/* Many changes are few generations: at once, and then one a second. */
static void a_storm(void **state)
{
    struct fixture *s = *state;
    begin(s);
    uint64_t first = fixture_generation(s, "a");
    for (int i = 0; i < STORM; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%03d", i);
        put(s, name, i % 2 == 0 ? "red" : "blue");
        run_for(s->store.api.loop, 2);
    }
    put(s, "last", "red");
    fixture_expect_rules(s, "a", "last,s000");
    expect_count(s, "a", "152");
    expect_count(s, "b", "151");
    fixture_settle(s);
    uint64_t published = fixture_generation(s, "a") - first;
    print_message("%d changes: %llu generations\n", STORM, (unsigned long long)published);
    assert_true(published >= 2 && published <= 5);
}

/* ---- while they are not known ---- */

static void unknown_for_a_moment(void **state)
{
    struct fixture *s = *state;
    s->store.paused = "/api/v1/namespaces?";
    put(s, "x", "red");
    shard(s, "a", "red");
    fixture_config(s, "b", "configmaps", "app=b");
    fixture_lead(s);
    fixture_expect_rules(s, "b", "app=b"); /* which waits for nobody */
    assert_string_equal(fixture_condition(s, "a", "Compiled", "status"), "");
    s->store.paused = NULL;
    store_go_on(&s->store);
    fixture_expect_rules(s, "a", NAMES("x"));
}

static void unknown_for_long(void **state)
{
    struct fixture *s = *state;
    s->store.refused.part = "/api/v1/namespaces?";
    s->store.refused.status = 403;
    put(s, "x", "red");
    shard(s, "a", "red");
    fixture_lead(s);
    fixture_expect_condition(s, "a", "Compiled", "False");
    assert_string_equal(fixture_condition(s, "a", "Compiled", "reason"), "NamespacesUnknown");
    assert_non_null(strstr(fixture_condition(s, "a", "Compiled", "message"),
                           "spec.limits[0].namespaceSelector: cannot be compiled: the namespaces "
                           "are not known yet: "));
    s->store.refused.part = NULL;
    fixture_expect_rules(s, "a", NAMES("x"));
    fixture_expect_condition(s, "a", "Compiled", "True");
}

/* Who leads next finds what changed while nobody did. */
static void changed_while_nobody_leads(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_settle(s);
    fixture_retire(s);
    put(s, "x", "blue");
    run_for(s->store.api.loop, 100);
    fixture_lead(s);
    fixture_expect_rules(s, "a", NOBODY);
    fixture_expect_rules(s, "b", NAMES("x,y"));
}

static void too_many(void **state)
{
    struct fixture *s = *state;
    for (int i = 0; i < NAMESPACE_NAMES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%04d", i);
        put(s, name, "red");
    }
    shard(s, "a", "red");
    fixture_lead(s);
    fixture_expect_rules(s, "a", "n0000,n0001");
    uint64_t before = fixture_generation(s, "a");
    put(s, "one-more", "red");
    fixture_expect_condition(s, "a", "Compiled", "False");
    assert_non_null(strstr(fixture_condition(s, "a", "Compiled", "message"),
                           "Too many: selects 1001 namespaces"));
    expect_count(s, "a", "1001");
    fixture_settle(s);
    assert_int_equal(fixture_generation(s, "a"), before);
    assert_null(strstr(fixture_rules(s, "a"), "one-more"));
    put(s, "n0000", "blue");
    fixture_expect_condition(s, "a", "Compiled", "True");
    fixture_expect_rules(s, "a", "n0999,one-more");
}

/* ---- without memory for all ---- */

static int setup_bounded(void **state)
{
    struct fixture *s = calloc(1, sizeof *s);
    *state = s;
    if (s == NULL || !fixture_open(s)) {
        return -1;
    }
    s->memory = MEMORY;
    fixture_begin(s);
    return 0;
}

/* The same with a limit that takes much. */
static void large_shard(struct fixture *s, const char *name, const char *team)
{
    struct buf text = BUF_INIT((size_t)4 * 1024 * 1024);
    int rc =
        buf_printf(&text,
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"configmaps\"]}],\"namespaceSelector\":{\"matchLabels\":{"
                   "\"team\":\"%s\"}},\"selector\":{\"matchExpressions\":[{\"key\":\"app\","
                   "\"operator\":\"In\",\"values\":[\"x\"",
                   name, name, team);
    for (unsigned i = 0; rc == 0 && i < LARGE; i++) {
        rc = buf_printf(&text, ",\"value-of-some-length-%u\"", i);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(buf_append_str(&text, "]}]}}]}}"), 0);
    store_put_text(&s->store, "shardingconfigs", "n", "%s", buf_cstr(&text));
    buf_reset(&text);
}

/* It is not compiled when labels change, and follows them as soon as there is memory for it. */
static void given_up(void **state)
{
    struct fixture *s = *state;
    begin(s);
    large_shard(s, "a", "red");
    fixture_expect_condition(s, "a", "Compiled", "False");
    assert_string_equal(fixture_condition(s, "a", "Compiled", "reason"), "OverBudget");
    put(s, "z", "red");
    put(s, "y", "green");
    fixture_expect_rules(s, "b", NOBODY);
    fixture_settle(s);
    assert_non_null(strstr(fixture_rules(s, "a"), NAMES("x")));
    shard(s, "a", "red");
    fixture_expect_rules(s, "a", NAMES("x,z"));
    put(s, "y", "red");
    fixture_expect_rules(s, "a", NAMES("x,y,z"));
}

/* Of an operator of its own, which elects a leader by this lock. */
static void shard_with_lock(struct fixture *s, const char *name, const char *lock)
{
    store_put_text(&s->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"controller\":{"
                   "\"leaderElectionName\":\"%s\"},\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"limits\":[{\"relateResources\":[{\"apiGroups\":[\"\"],"
                   "\"resources\":[\"configmaps\"]}],\"namespaceSelector\":{\"matchLabels\":{"
                   "\"team\":\"red\"}}}]}}",
                   name, lock, name);
}

/* Each waits for the other for a time after an edit, not after each new namespace: these may come
 * faster. */
static void two_operators_that_select_the_same(void **state)
{
    enum { WAIT_MS = 3000, EACH_MS = 100, ROUNDS = 100 };
    struct fixture *s = *state;
    char name[16];
    unsigned i = 0;
    s->strict = true;
    s->handover_ms = WAIT_MS;
    put(s, "x", "red");
    shard_with_lock(s, "a", "lead");
    shard_with_lock(s, "b", "lead2");
    fixture_lead(s);
    fixture_expect_rules(s, "a", NAMES("x"));
    fixture_expect_rules(s, "b", NAMES("x"));
    while (i < ROUNDS && (strstr(fixture_rules(s, "a"), "new-0") == NULL ||
                          strstr(fixture_rules(s, "b"), "new-0") == NULL)) {
        (void)snprintf(name, sizeof name, "new-%u", i++);
        put(s, name, "red");
        run_for(s->store.api.loop, EACH_MS);
    }
    assert_true(i < ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(labels_decide),
        TEST(the_spec_changes_too),
        TEST(others_are_left_alone),
        TEST(what_a_list_shows),
        TEST(a_storm),
        TEST(unknown_for_a_moment),
        TEST(unknown_for_long),
        TEST(changed_while_nobody_leads),
        TEST(too_many),
        TEST(two_operators_that_select_the_same),
        cmocka_unit_test_setup_teardown(given_up, setup_bounded, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
