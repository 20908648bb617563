/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the canary of a root gains and loses: at no moment is one of its namespaces in no shard,
 * whoever refuses its child, and wherever a manager is stopped.
 */
#include "root/roots.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "log_capture.h"
#include "roots_fixture.h"
#include "rules/sharding.h"
#include "json/edit.h"
#include "json/field.h"

#define CANARY "x-0-canary"
#define AUTO ",\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1}"
#define WITHOUT "\"auto\":{\"shardingSize\":2,\"everyShardReplicas\":1}"
#define OF(lists) "\"canary\":{\"replicas\":1," lists "}" AUTO
#define NAMES(names) "\"inNamespaces\":[" names "]"
#define HASHES(hashes) "\"inShardHash\":[" hashes "]"

static const char *const namespaces[] = {"a", "b", "c"};

/* ---- who has a namespace ---- */

static bool has_value(const cJSON *requirement, const char *text)
{
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, field_get(requirement, "values"))
    {
        if (strcmp(cJSON_GetStringValue(value), text) == 0) {
            return true;
        }
    }
    return false;
}

static bool selects(const cJSON *child, const char *namespace)
{
    char hash[16];
    const cJSON *requirement = NULL;
    const cJSON *limit = field_get(field_get(child, "spec"), "limits")->child;
    (void)snprintf(hash, sizeof hash, "%u", sharding_hash(namespace));
    cJSON_ArrayForEach(requirement, field_get(field_get(limit, "selector"), "matchExpressions"))
    {
        bool by_hash = strstr(field_text(requirement, "key"), "sharding-hash") != NULL;
        bool in = strcmp(field_text(requirement, "operator"), "In") == 0;
        if (has_value(requirement, by_hash ? hash : namespace) != in) {
            return false;
        }
    }
    return true;
}

static bool is_attended(struct world *w, unsigned version, const char *namespace)
{
    LIST_FOR_EACH(n, &w->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        const struct stored_version *v = stored_at(o, version);
        bool child = v != NULL && strcmp(o->resource, "shardingconfigs") == 0 &&
                     store_text(v->json, "metadata/ownerReferences/0/uid")[0] != '\0';
        if (child && selects(v->json, namespace)) {
            return true;
        }
    }
    return false;
}

/* From the first version on at which it is in a shard. */
static void expect_attended(struct world *w)
{
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        bool begun = false;
        for (unsigned v = STORE_FIRST; v <= w->store.version; v++) {
            bool attended = is_attended(w, v, namespaces[i]);
            if (begun && !attended) {
                fail_msg("at version %u namespace %s is in no shard", v, namespaces[i]);
            }
            begun = begun || attended;
        }
        assert_true(begun);
    }
}

static bool canary_has(struct world *w, const char *namespace)
{
    const cJSON *child = world_child(w, 0);
    return child != NULL && store_text(child, "metadata/uid")[0] != '\0' &&
           selects(child, namespace);
}

/* A canary that is not to be any more stays as long as it has a pod. */
static void reach(struct world *w, const char *root)
{
    world_root(w, root);
    if (strstr(root, "canary") != NULL) {
        world_expect_condition(w, "Ready", "True", "Enforced");
    }
    world_settle(w);
}

/* Either the canary or a normal shard, when all is done. */
static void expect_one_shard(struct world *w, const char *namespace, bool canary)
{
    assert_int_equal(canary_has(w, namespace), canary);
    assert_int_equal(selects(world_child(w, 1), namespace) + selects(world_child(w, 2), namespace),
                     !canary);
}

/* ---- who refuses ---- */

static bool refuse_canary(struct storing_api *s, const cJSON *body)
{
    (void)s;
    return strcmp(field_meta(body, "name"), CANARY) != 0 || field_get(body, "spec") == NULL;
}

static void begin(struct world *w, const char *root)
{
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        world_namespace(w, namespaces[i]);
    }
    world_root(w, root);
    world_pod(w, 0, CANARY, true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
    world_lead(w);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
}

/* ---- */

static void test_canary_that_is_refused(void **state)
{
    struct world *w = *state;
    begin(w, WITHOUT);
    w->store.admit = refuse_canary;
    world_root(w, OF(NAMES("\"a\"")));
    world_expect_condition(w, "Ready", "False", "Refused");
    assert_non_null(strstr(world_condition(w, "Ready", "message"), CANARY));
    assert_non_null(strstr(world_condition(w, "Ready", "message"),
                           "Until then the normal shards keep its namespaces."));
    world_expect_event(w, "ChildRefused", CANARY);
    world_pass(w, 5000);
    expect_one_shard(w, "a", false);
    world_retire(w);
    world_lead(w);
    world_pass(w, 5000);
    expect_one_shard(w, "a", false);
    w->store.admit = NULL;
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_shard(w, "a", true);
    assert_int_equal(world_events(w, "ChildRefused"), 1);
    expect_attended(w);
}

static unsigned occurrences(const char *text, const char *part)
{
    unsigned count = 0;
    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        count++;
    }
    return count;
}

/* It is tried again and again. */
static void test_refusal_is_logged_once(void **state)
{
    struct world *w = *state;
    struct log_capture log = {.saved = 0};
    begin(w, WITHOUT);
    log_init("test", LOG_TEXT, LOG_WARN);
    for (unsigned time = 0; time < 2; time++) {
        log_capture_begin(&log);
        w->store.admit = refuse_canary;
        world_root(w, time == 0 ? OF(NAMES("\"a\"")) : OF(NAMES("\"a\",\"b\"")));
        world_expect_condition(w, "Ready", "False", "Refused");
        world_pass(w, 60000);
        const char *text = log_capture_end(&log);
        assert_int_equal(occurrences(text, "a child was refused"), 1);
        w->store.admit = NULL;
        world_expect_condition(w, "Ready", "True", "Enforced");
        world_settle(w);
    }
    log_init("test", LOG_TEXT, LOG_ERROR);
}

static void test_canary_whose_name_is_taken(void **state)
{
    struct world *w = *state;
    begin(w, WITHOUT);
    store_put_text(&w->store, "shardingconfigs", "n",
                   "{\"metadata\":{\"name\":\"" CANARY "\"},\"spec\":{\"selector\":{"
                   "\"matchLabels\":{\"a\":\"b\"}},\"limits\":[]}}");
    world_root(w, OF(NAMES("\"a\"")));
    world_expect_condition(w, "Conflict", "True", "NameTaken");
    assert_non_null(strstr(world_condition(w, "Conflict", "message"),
                           "Until then the normal shards keep its namespaces."));
    world_settle(w);
    assert_true(selects(world_child(w, 1), "a") || selects(world_child(w, 2), "a"));
    store_delete(&w->store, "shardingconfigs", "n", CANARY);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_shard(w, "a", true);
    expect_attended(w);
}

/* A root that begins so: what nobody has yet is given to those that there can be. */
static void test_first_canary_is_refused(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        world_namespace(w, namespaces[i]);
    }
    w->store.admit = refuse_canary;
    world_root(w, OF(NAMES("\"a\"") "," HASHES("\"3\"")));
    world_lead(w);
    world_expect_condition(w, "Ready", "False", "Refused");
    world_pass(w, 3000);
    assert_true(selects(world_child(w, 1), "a") || selects(world_child(w, 2), "a"));
    world_expect_attended(w);
    w->store.admit = NULL;
    world_pod(w, 0, CANARY, true);
    world_pod(w, 1, "x-1-normal", true);
    world_pod(w, 2, "x-2-normal", true);
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_shard(w, "a", true);
    expect_attended(w);
}

static void test_more_for_the_canary_is_refused(void **state)
{
    struct world *w = *state;
    begin(w, OF(NAMES("\"a\"")));
    w->store.admit = refuse_canary;
    world_root(w, OF(NAMES("\"b\",\"c\"")));
    world_expect_condition(w, "Ready", "False", "Refused");
    world_pass(w, 3000);
    assert_true(canary_has(w, "a"));
    assert_true(selects(world_child(w, 1), "b") || selects(world_child(w, 2), "b"));
    world_root(w, OF(NAMES("\"a\""))); /* and back */
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_shard(w, "a", true);
    expect_one_shard(w, "b", false);
    world_root(w, OF(NAMES("\"b\",\"c\"")));
    world_expect_condition(w, "Ready", "False", "Refused");
    w->store.admit = NULL;
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_shard(w, "a", false);
    expect_one_shard(w, "b", true);
    expect_one_shard(w, "c", true);
    expect_attended(w);
}

/* Deleted by somebody, or under another prefix, and not to be made again. */
static void test_canary_that_is_not_made_again(void **state)
{
    struct world *w = *state;
    begin(w, OF(NAMES("\"a\"") "," HASHES("\"3\"")));
    w->store.admit = refuse_canary;
    store_delete(&w->store, "shardingconfigs", "n", CANARY);
    world_expect_condition(w, "Ready", "False", "Refused");
    world_pass(w, 3000);
    assert_true(selects(world_child(w, 1), "a") || selects(world_child(w, 2), "a"));
    w->store.admit = NULL;
    world_expect_condition(w, "Ready", "True", "Enforced");
    world_settle(w);
    expect_one_shard(w, "a", true);
}

/* Each from the one before, at first while nothing goes wrong. */
static const char *const lists[] = {
    OF(NAMES("\"a\",\"b\"")),
    OF(NAMES("\"a\",\"c\"")),
    OF(HASHES("\"1\",\"3\"")), /* those of a and c */
    OF(HASHES("\"3\"")),
    OF(NAMES("\"b\"") "," HASHES("\"3\"")),
    WITHOUT,
    OF(NAMES("\"c\"")),
    OF(NAMES("\"a\",\"b\",\"c\"")),
};

static void test_edits(void **state)
{
    struct world *w = *state;
    begin(w, lists[0]);
    for (size_t i = 1; i < 2 * ARRAY_LEN(lists); i++) {
        reach(w, lists[i % ARRAY_LEN(lists)]);
    }
    expect_one_shard(w, "c", true);
    expect_attended(w);
}

/* It loses the lease with that write, which is refused. */
static bool lose_lease(struct storing_api *s, const cJSON *body)
{
    struct world *w = LIST_ITEM(s, struct world, store);
    (void)body;
    w->holds = w->holds && w->lasts-- > 0;
    return w->holds;
}

static void test_manager_stopped_after_each_write(void **state)
{
    struct world *w = *state;
    begin(w, lists[0]);
    for (size_t i = 1; i < 2 * ARRAY_LEN(lists); i++) {
        for (unsigned writes = 0; writes < 5; writes++) {
            bool back = writes % 2 == 1;
            w->lasts = writes;
            w->store.admit = lose_lease;
            world_root(w, lists[(i - back) % ARRAY_LEN(lists)]); /* or back in the middle of it */
            world_pass(w, 1000);
            world_retire(w);
            w->store.admit = NULL;
            world_lead(w);
            world_pass(w, 50);
        }
        reach(w, lists[i % ARRAY_LEN(lists)]);
    }
    expect_attended(w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refusal_is_logged_once),
        TEST(test_canary_that_is_refused),
        TEST(test_canary_whose_name_is_taken),
        TEST(test_first_canary_is_refused),
        TEST(test_more_for_the_canary_is_refused),
        TEST(test_canary_that_is_not_made_again),
        TEST(test_edits),
        TEST(test_manager_stopped_after_each_write),
    };
    log_init("test", LOG_TEXT, LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
