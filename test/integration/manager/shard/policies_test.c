/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic policies in the controller: what is published for which shard and when, what pods are
 * told, and what stands in the policies' status. Proxies are played by the test.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "controller_fixture.h"
#include "traffic/traffic.h"

enum { PATIENCE_MS = 60000, TURN_MS = 2, LONG_MS = 60000 };

#define KEY "configmaps", "cmesh-rules-a", "data/traffic.json"
#define TOLD "metadata/annotations/ctrlmesh.kusionstack.io~traffic-generation"
#define FINALIZER "finalizer.ctrlmesh.kusionstack.io/protected"

/* ---- what there is ---- */

/* Refuses to delete pods more than once in so many seconds, in pods with that label. */
static void guard_for(struct fixture *s, const char *name, const char *shard, const char *interval,
                      const char *more)
{
    store_put_text(&s->store, "circuitbreakers", "n",
                   "{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"%s\"}},\"rateLimitings\":[{\"name\":\"deletePod\",\"bucket\":{"
                   "\"burst\":1,\"interval\":\"%s\",\"limit\":1},\"triggerPolicy\":\"Normal\","
                   "\"recoverPolicy\":{\"type\":\"SleepingWindow\",\"sleepingWindowSize\":\"1h\"},"
                   "\"resourceRules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],"
                   "\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]}]}]}}",
                   name, more, shard, interval);
}

static void guard(struct fixture *s, const char *interval)
{
    guard_for(s, "guard", "a", interval, "");
}

/* One that the API server took, and that makes no sense. */
static void spoil(struct fixture *s)
{
    guard(s, "no time");
}

static void slow_lists(struct fixture *s)
{
    store_put_text(&s->store, "faultinjections", "n",
                   "{\"metadata\":{\"name\":\"slow\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"a\"}},\"httpFault\":[{\"name\":\"lists\",\"delay\":{"
                   "\"fixedDelay\":\"3s\",\"percent\":\"10\"},\"match\":{\"resources\":[{"
                   "\"resources\":[\"pods\"],\"verbs\":[\"list\"]}]}}]}}");
}

static void lead(struct fixture *s)
{
    s->policies = true;
    fixture_lead(s);
    fixture_serve(s, POLICY_SERVED);
}

/* A shard "a" whose rules are enforced on its only pod, and no policy. */
static void begin(struct fixture *s)
{
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    lead(s);
    fixture_expect_generation(s, "a", 1);
    fixture_enforces(s, "a-0", "a");
    fixture_expect_condition(s, "a", "Enforced", "True");
    fixture_settle(s);
}

/* ---- looking ---- */

static const char *published(struct fixture *s)
{
    return fixture_text(s, KEY);
}

static void expect_published(struct fixture *s, const char *part)
{
    unsigned waited = 0;
    for (; strstr(published(s), part) == NULL && waited < PATIENCE_MS; waited += TURN_MS) {
        run_for(s->store.api.loop, TURN_MS);
    }
    if (strstr(published(s), part) == NULL) {
        fail_msg("%s is not in what is published: \"%s\"", part, published(s));
    }
}

static bool has_key(struct fixture *s)
{
    const cJSON *map = store_get(&s->store, "configmaps", "n", "cmesh-rules-a");
    return cJSON_HasObjectItem(cJSON_GetObjectItem(map, "data"), "traffic.json");
}

static void expect_no_key(struct fixture *s)
{
    for (unsigned waited = 0; has_key(s) && waited < PATIENCE_MS; waited += TURN_MS) {
        run_for(s->store.api.loop, TURN_MS);
    }
    assert_false(has_key(s));
}

static struct traffic *parse(struct fixture *s)
{
    struct traffic *t = traffic_parse(published(s), strlen(published(s)), NULL);
    assert_non_null(t);
    return t;
}

static uint64_t generation(struct fixture *s)
{
    struct traffic *t = parse(s);
    uint64_t generation = traffic_generation(t);
    traffic_unref(t);
    return generation;
}

static const char *status_of(struct fixture *s, const char *name, const char *path)
{
    return fixture_text(s, "circuitbreakers", name, path);
}

static const char *condition_of(struct fixture *s, const char *name, const char *type,
                                const char *key)
{
    const cJSON *o = store_get(&s->store, "circuitbreakers", "n", name);
    const cJSON *c = NULL;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(cJSON_GetObjectItem(o, "status"), "conditions"))
    {
        if (strcmp(store_text(c, "type"), type) == 0) {
            return store_text(c, key);
        }
    }
    return "";
}

static void expect_reason(struct fixture *s, const char *name, const char *type, const char *reason)
{
    for (unsigned waited = 0; waited < PATIENCE_MS; waited += TURN_MS) {
        if (strcmp(condition_of(s, name, type, "reason"), reason) == 0) {
            return;
        }
        run_for(s->store.api.loop, TURN_MS);
    }
    fail_msg("%s of %s is %s (%s), not %s", type, name, condition_of(s, name, type, "reason"),
             condition_of(s, name, type, "message"), reason);
}

/* ---- what a pod says ---- */

static const char *uid_of(struct fixture *s, const char *name)
{
    return fixture_text(s, "circuitbreakers", name, "metadata/uid");
}

/* It follows what is published, and says this of the breakers: rows of JSON. */
static void says_with(struct fixture *s, const char *pod, const char *rows, const char *error)
{
    struct buf out = BUF_INIT(65536);
    struct traffic *t = has_key(s) ? parse(s) : NULL;
    buf_append_str(&out, "{\"traffic\":{\"reads\":\"cmesh/v1\",");
    if (t != NULL) {
        buf_printf(&out,
                   "\"inForce\":true,\"shard\":{\"namespace\":\"n\",\"name\":\"a\"},"
                   "\"generation\":%llu,\"checksum\":\"%s\",\"since\":1764150000,",
                   (unsigned long long)traffic_generation(t), traffic_checksum(t));
    } else {
        buf_append_str(&out, "\"inForce\":false,");
    }
    buf_printf(&out, "\"error\":\"%s\",\"breakers\":[%s],\"faults\":[],\"leftOut\":0}}", error,
               rows);
    fixture_says(s, pod, buf_cstr(&out));
    traffic_unref(t);
    buf_reset(&out);
}

static void says(struct fixture *s, const char *pod, const char *rows)
{
    says_with(s, pod, rows, "");
}

#define ROW(rule, state)                                                                           \
    "{\"policy\":\"guard\",\"uid\":\"%s\",\"rule\":\"" rule "\",\"state\":\"" state                \
    "\",\"since\":\"2026-11-26T10:00:0%uZ\",\"why\":\"over the limit\",\"refused\":%u}"

static void says_state(struct fixture *s, const char *pod, bool open, unsigned second)
{
    char rows[512];
    (void)snprintf(rows, sizeof rows,
                   open ? ROW("deletePod", "Opened") : ROW("deletePod", "Closed"),
                   uid_of(s, "guard"), second, second);
    says(s, pod, rows);
}

/* ---- publishing ---- */

static size_t versions_of(struct fixture *s, const char *resource, const char *name)
{
    LIST_FOR_EACH(n, &s->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(n, struct stored_object, link);
        if (strcmp(o->resource, resource) == 0 && strcmp(o->name, name) == 0) {
            return o->count;
        }
    }
    return 0;
}

/* Rules and policies come together, and the first version waits for the policies to be known. */
static void test_both_keys_from_the_first_version(void **state)
{
    struct fixture *s = *state;
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    guard(s, "10s");
    slow_lists(s);
    s->store.paused = "circuitbreakers";
    lead(s);
    run_for(s->store.api.loop, 200);
    assert_int_equal(versions_of(s, "configmaps", "cmesh-rules-a"), 0);
    s->store.paused = NULL;
    store_go_on(&s->store);
    fixture_expect_generation(s, "a", 1);
    expect_published(s, "\"interval\":\"10s\"");
    expect_published(s, "\"faults\":[{\"name\":\"slow\"");
    fixture_settle(s);
    assert_int_equal(versions_of(s, "configmaps", "cmesh-rules-a"), 1);
    fixture_expect_text(s, "pods", "a-0", TOLD, "1");
    fixture_expect_told(s, "a-0", 1);
}

static void test_a_change_of_policies_is_one_write_of_the_key(void **state)
{
    struct fixture *s = *state;
    begin(s);
    assert_false(has_key(s));
    size_t before = versions_of(s, "configmaps", "cmesh-rules-a");
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    assert_int_equal(generation(s), 1);
    guard(s, "20s");
    expect_published(s, "\"interval\":\"20s\"");
    assert_int_equal(generation(s), 2);
    assert_int_equal(fixture_generation(s, "a"), 1);
    fixture_expect_text(s, "pods", "a-0", TOLD, "2");
    fixture_settle(s);
    assert_int_equal(versions_of(s, "configmaps", "cmesh-rules-a"), before + 2);
    assert_string_equal(s->entries[0].key, "n/a-0");
    assert_true(s->entries[0].attended);

    store_delete(&s->store, "circuitbreakers", "n", "guard");
    expect_no_key(s);
    fixture_settle(s);
    assert_false(s->entries[0].attended);
    assert_string_equal(s->entries[0].traffic, "");
    assert_int_equal(fixture_generation(s, "a"), 1);
}

/* For the pods of another shard, or of none, nothing is written. */
static void test_only_where_it_may_be_for_a_pod(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard_for(s, "guard", "b", "10s", "");
    expect_reason(s, "guard", "Published", "NoShard");
    fixture_settle(s);
    assert_false(has_key(s));
    assert_string_equal(fixture_text(s, "pods", "a-0", TOLD), "");
    assert_string_equal(status_of(s, "guard", "status/pods"), "0");
}

/* Nor are pods looked at again for each of many policies that are not for them. */
static void test_policies_for_other_pods_cost_little(void **state)
{
    struct fixture *s = *state;
    begin(s);
    unsigned before = s->entries[0].attends;
    for (unsigned i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "g-%u", i);
        guard_for(s, name, "b", "10s", "");
    }
    expect_reason(s, "g-19", "Published", "NoShard");
    assert_int_equal(s->entries[0].attends, before);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    assert_true(s->entries[0].attended);
    store_delete(&s->store, "circuitbreakers", "n", "g-0");
    guard_for(s, "guard-2", "a", "20s", "");
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    expect_published(s, "\"guard-2\"");
    fixture_settle(s);
    assert_true(s->entries[0].attended);
    guard_for(s, "guard-2", "b", "20s", "");
    expect_no_key(s);
    fixture_settle(s);
    assert_false(s->entries[0].attended);
}

/* A breaker does not wait for what rules wait for: here that they make sense. */
static void test_while_the_rules_are_refused(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_config(s, "a", "pods", "no key=x");
    fixture_expect_condition(s, "a", "Compiled", "False");
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    assert_int_equal(fixture_generation(s, "a"), 1);
    fixture_expect_condition(s, "a", "Compiled", "False");
}

/* And here that another shard gives them up. */
static void test_while_a_handover_is_waited_for(void **state)
{
    struct fixture *s = *state;
    s->handover_ms = LONG_MS;
    fixture_pod(s, "b-0", "b", "b");
    fixture_config(s, "b", "pods", "app=b");
    begin(s);
    fixture_expect_generation(s, "b", 1);
    fixture_enforces(s, "b-0", "b");
    fixture_expect_condition(s, "b", "Enforced", "True");
    fixture_config(s, "b", "pods", "app=c");
    fixture_expect_generation(s, "b", 2);
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_condition(s, "a", "Published", "False");
    assert_string_equal(fixture_condition(s, "a", "Published", "reason"), "WaitingForHandover");
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    assert_string_equal(fixture_condition(s, "a", "Published", "reason"), "WaitingForHandover");
    expect_reason(s, "guard", "Published", "Published");
}

/* The pods keep the rules that they have, and what policies come to, for as long as they run. */
static void test_after_the_shard_is_gone(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    says_state(s, "a-0", true, 1);
    expect_reason(s, "guard", "Enforced", "Enforced");
    store_delete(&s->store, "shardingconfigs", "n", "a");
    expect_reason(s, "guard", "Published", "NoShard");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "1/1");
    assert_string_equal(condition_of(s, "guard", "Enforced", "reason"), "NoShard");
    guard(s, "20s");
    expect_published(s, "\"interval\":\"20s\"");
    fixture_expect_text(s, "pods", "a-0", TOLD, "2");

    fixture_retire(s); /* also by who did not know the config */
    lead(s);
    fixture_settle(s);
    expect_published(s, "\"interval\":\"20s\"");
    says_state(s, "a-0", true, 1);
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    expect_no_key(s);
    fixture_expect_text(s, "pods", "a-0", TOLD, "0");
    assert_string_not_equal(fixture_rules(s, "a"), "");
}

/* Which pods the shard has cannot be told: each localproxy can. */
static void test_while_the_selector_of_the_shard_is_not_valid(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_config_for(s, "a", "pods", "app=a", "not valid!");
    fixture_expect_condition(s, "a", "Compiled", "False");
    guard(s, "20s");
    expect_published(s, "\"interval\":\"20s\"");
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    expect_no_key(s);
}

/* ---- what is not valid ---- */

static void test_an_invalid_edit_keeps_the_last(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    spoil(s);
    expect_reason(s, "guard", "Compiled", "Invalid");
    expect_reason(s, "guard", "Published", "NotCompiled");
    assert_non_null(strstr(condition_of(s, "guard", "Compiled", "message"), "interval"));
    fixture_settle(s);
    expect_published(s, "\"interval\":\"10s\"");
    assert_int_equal(generation(s), 1);

    slow_lists(s); /* another policy changes beside it */
    expect_published(s, "\"slow\"");
    expect_published(s, "\"interval\":\"10s\"");
    assert_int_equal(generation(s), 2);
    fixture_settle(s);

    fixture_retire(s);
    lead(s);
    fixture_settle(s);
    expect_published(s, "\"interval\":\"10s\"");
    assert_int_equal(generation(s), 2);

    store_delete(&s->store, "faultinjections", "n", "slow"); /* also after the restart */
    for (unsigned i = 0; i < PATIENCE_MS && strstr(published(s), "slow") != NULL; i += TURN_MS) {
        run_for(s->store.api.loop, TURN_MS);
    }
    assert_null(strstr(published(s), "slow"));
    expect_published(s, "\"interval\":\"10s\"");
    guard(s, "30s");
    expect_published(s, "\"interval\":\"30s\"");
    expect_reason(s, "guard", "Published", "Published");
}

static void set_key(struct fixture *s, const char *text)
{
    cJSON *map = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", "cmesh-rules-a"), true);
    cJSON *data = cJSON_GetObjectItem(map, "data");
    cJSON_DeleteItemFromObject(data, "traffic.json");
    if (text != NULL) {
        assert_non_null(cJSON_AddStringToObject(data, "traffic.json", text));
    }
    store_put(&s->store, "configmaps", "n", map);
}

/* What is published, with another interval and without a checksum. The caller frees. */
static char *changed_document(struct fixture *s)
{
    cJSON *document = cJSON_Parse(published(s));
    assert_non_null(document);
    cJSON_DeleteItemFromObject(document, "checksum");
    char *text = cJSON_PrintUnformatted(document);
    assert_non_null(text);
    memcpy(strstr(text, "\"10s\""), "\"90s\"", 5);
    cJSON_Delete(document);
    return text;
}

/* Also when somebody changes it, or takes it away. */
static void test_what_is_kept_is_put_right(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    spoil(s);
    expect_reason(s, "guard", "Published", "NotCompiled");
    fixture_settle(s);
    char *changed = changed_document(s);
    const char *const edits[] = {changed, "nonsense", NULL};
    for (size_t i = 0; i < ARRAY_LEN(edits); i++) {
        set_key(s, edits[i]);
        expect_published(s, "\"interval\":\"10s\"");
        fixture_settle(s);
    }
    free(changed);
    slow_lists(s); /* and goes on beside others */
    expect_published(s, "\"slow\"");
    expect_published(s, "\"interval\":\"10s\"");
    set_key(s, NULL);
    expect_published(s, "\"slow\"");
    expect_published(s, "\"interval\":\"10s\"");
}

static void test_invalid_from_the_beginning(void **state)
{
    struct fixture *s = *state;
    begin(s);
    spoil(s);
    expect_reason(s, "guard", "Compiled", "Invalid");
    fixture_settle(s);
    assert_false(has_key(s));
    expect_reason(s, "guard", "Enforced", "NotPublished");
}

static void test_disabled(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_expect_text(s, "pods", "a-0", TOLD, "1");
    says_state(s, "a-0", false, 1);
    guard_for(s, "guard", "a", "10s",
              ",\"labels\":{\"circuitbreaker.ctrlmesh.kusionstack.io/disable\":\"\"}");
    expect_no_key(s);
    expect_reason(s, "guard", "Published", "Disabled");
    fixture_expect_text(s, "pods", "a-0", TOLD, "0");
    says(s, "a-0", "");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "0/1");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/conditions/2/message",
                        "1 of 1 pods do without it.");
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    assert_true(generation(s) >= 1);
}

/* ---- room ---- */

static void fill_map(struct fixture *s, size_t len)
{
    cJSON *map = cJSON_Duplicate(store_get(&s->store, "configmaps", "n", "cmesh-rules-a"), true);
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    cJSON *data = cJSON_GetObjectItem(map, "data");
    cJSON_DeleteItemFromObject(data, "other");
    assert_non_null(cJSON_AddStringToObject(data, "other", text));
    store_put(&s->store, "configmaps", "n", map);
    free(text);
}

static void test_rules_have_the_first_claim_to_the_room(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fill_map(s, RULES_MAP_MAX - strlen(fixture_rules(s, "a")) - 400);
    expect_no_key(s);
    expect_reason(s, "guard", "Published", "TooLarge");
    says(s, "a-0", "");
    expect_reason(s, "guard", "Enforced", "NotPublished");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "0/1");
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 2);
    fill_map(s, 10);
    expect_published(s, "\"interval\":\"10s\"");
    expect_reason(s, "guard", "Published", "Published");
}

static size_t data_size(const cJSON *map)
{
    size_t size = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(map, "data"))
    {
        size += strlen(item->string) + strlen(item->valuestring);
    }
    return size;
}

/* No version of the ConfigMap ever had more than an API server takes. */
static void expect_room(struct fixture *s)
{
    size_t seen = 0;
    LIST_FOR_EACH(node, &s->store.objects)
    {
        const struct stored_object *o = LIST_ITEM(node, struct stored_object, link);
        for (size_t i = 0; strcmp(o->name, "cmesh-rules-a") == 0 && i < o->count; i++) {
            assert_true(data_size(o->history[i].json) <= RULES_MAP_MAX);
            seen++;
        }
    }
    assert_true(seen > 2);
}

/* Of an invalid policy the last good version is kept, but not at the cost of rules. */
static void test_rules_take_the_room_of_what_is_kept(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    spoil(s);
    expect_reason(s, "guard", "Compiled", "Invalid");
    fill_map(s, RULES_MAP_MAX - strlen(fixture_rules(s, "a")) - strlen(published(s)) - 80);
    fixture_settle(s);
    assert_true(has_key(s));
    fixture_config(s, "a", "pods",
                   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa="
                   "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
    fixture_expect_generation(s, "a", 2);
    expect_no_key(s);
    expect_room(s);
}

/* ---- what others do ---- */

static void test_a_changed_key_is_put_right(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    set_key(s, "nonsense");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    set_key(s, NULL);
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    set_key(s, "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":"
               "\"n\",\"name\":\"a\"},\"generation\":9,\"spec\":{}}");
    expect_published(s, "\"interval\":\"10s\"");
    assert_int_equal(generation(s), 10);
    fixture_settle(s);
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    expect_no_key(s);
    fixture_settle(s);
    set_key(s, "nonsense");
    expect_no_key(s);
    assert_int_equal(fixture_generation(s, "a"), 1);
}

/* The other key stays, whoever's it is. */
static void test_foreign_keys_stay(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fill_map(s, 10);
    fixture_settle(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    assert_string_equal(fixture_text(s, "configmaps", "cmesh-rules-a", "data/other"), "xxxxxxxxxx");
}

static void test_a_conflict(void **state)
{
    struct fixture *s = *state;
    begin(s);
    store_fail(&s->store, "configmaps/cmesh-rules-a", 409, STORE_NONE, 2);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    store_fail(&s->store, "configmaps/cmesh-rules-a", 403, STORE_NONE, 1);
    guard(s, "20s");
    expect_published(s, "\"interval\":\"20s\"");
    expect_reason(s, "guard", "Published", "Published");
}

static void test_deleted_while_nobody_led(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    fixture_retire(s);
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    lead(s);
    expect_no_key(s);
}

static void test_nothing_is_written_when_nothing_changed(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    says_state(s, "a-0", false, 1);
    expect_reason(s, "guard", "Enforced", "Enforced");
    fixture_settle(s);
    unsigned writes = s->store.writes;
    fixture_retire(s);
    lead(s);
    fixture_settle(s);
    says_state(s, "a-0", false, 1);
    fixture_settle(s);
    assert_int_equal(s->store.writes, writes);
}

/* ---- which kinds there are ---- */

static void test_a_kind_comes_and_goes(void **state)
{
    struct fixture *s = *state;
    guard(s, "10s");
    fixture_pod(s, "a-0", "a", "a");
    fixture_config(s, "a", "pods", "app=a");
    s->policies = true;
    fixture_lead(s);
    fixture_serve(s, POLICY_ABSENT);
    fixture_expect_generation(s, "a", 1);
    fixture_settle(s);
    assert_false(has_key(s));
    fixture_serve(s, POLICY_SERVED);
    expect_published(s, "\"interval\":\"10s\"");
    fixture_serve(s, POLICY_UNKNOWN); /* nobody can tell: it stays */
    fixture_settle(s);
    assert_true(has_key(s));
    fixture_serve(s, POLICY_ABSENT);
    expect_no_key(s);
    fixture_serve(s, POLICY_SERVED);
    expect_published(s, "\"interval\":\"10s\"");
}

/* What is not known is no reason to take anything away. */
static void test_a_kind_that_cannot_be_listed(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    fixture_retire(s);
    s->store.refused.part = "faultinjections";
    s->store.refused.status = 403;
    lead(s);
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    fixture_config(s, "a", "pods", "app=b"); /* rules go on */
    fixture_expect_generation(s, "a", 2);
    fixture_settle(s);
    assert_true(has_key(s));
}

/* Rules do not wait for ever for policies that nobody can tell of. */
static void test_unknown_kinds_do_not_hold_up_rules(void **state)
{
    struct fixture *s = *state;
    fixture_config(s, "a", "pods", "app=a");
    s->policies = true;
    fixture_lead(s);
    fixture_serve(s, POLICY_UNKNOWN);
    fixture_expect_generation(s, "a", 1);
    assert_false(has_key(s));
}

static void test_too_many_for_the_memory(void **state)
{
    struct fixture *s = *state;
    s->policy_memory = 4096;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    for (unsigned i = 0; i < 8; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "g-%u", i);
        guard_for(s, name, "a", "10s", "");
    }
    store_delete(&s->store, "circuitbreakers", "n", "guard");
    fixture_settle(s);
    assert_true(has_key(s)); /* as it was, or with some of them */
    fixture_config(s, "a", "pods", "app=b");
    fixture_expect_generation(s, "a", 2);
    assert_true(has_key(s));
}

/* ---- status ---- */

static void test_status(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_pod(s, "a-1", "a", "a");
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_says(s, "a-0", "{\"traffic\":{\"reads\":\"cmesh/v1\",\"inForce\":false}}");
    expect_reason(s, "guard", "Enforced", "PodsWaiting");
    fixture_says(s, "a-0", NULL);
    says_state(s, "a-1", false, 1);
    expect_reason(s, "guard", "Enforced", "PodsOld");
    assert_non_null(strstr(condition_of(s, "guard", "Enforced", "message"), "a-0"));
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "1/2");
    says_state(s, "a-0", true, 3);
    expect_reason(s, "guard", "Enforced", "Enforced");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "2/2");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/open", "1");
    assert_string_equal(status_of(s, "guard", "status/pods"), "2");
    assert_string_equal(status_of(s, "guard", "status/observedGeneration"), "1");
    assert_string_equal(status_of(s, "guard", "status/targetStatus/0/podName"), "a-0");
    assert_string_equal(status_of(s, "guard", "status/targetStatus/0/podIP"), "10.0.0.1");
    assert_string_equal(status_of(s, "guard", "status/targetStatus/0/configHash"),
                        status_of(s, "guard", "status/currentSpecHash"));
    assert_string_equal(status_of(s, "guard", "status/targetStatus/0/limitingSnapshots/0/state"),
                        "Opened");
    assert_string_equal(
        status_of(s, "guard", "status/targetStatus/0/limitingSnapshots/0/lastTransitionTime"),
        "2026-11-26T10:00:03Z");
    assert_string_equal(status_of(s, "guard", "status/targetStatus/1/limitingSnapshots/0/state"),
                        "Closed");
    fixture_expect_event(s, "guard", "BreakerOpened", 1);
}

/* Its localproxy follows the document, and does not know that the policy is for the pod. */
static void test_a_pod_whose_labels_are_not_known(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    says_with(s, "a-0", "", "the pod's labels are not known");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/conditions/2/message",
                        "0 of 1 pods enforce it. Started by an older version, restart to enforce: "
                        "a-0 (the pod's labels are not known).");
    assert_string_equal(condition_of(s, "guard", "Enforced", "reason"), "PodsOld");
    assert_string_equal(status_of(s, "guard", "status/enforced"), "0/1");
    says(s, "a-0", ""); /* labels that were changed come to it with a delay */
    expect_reason(s, "guard", "Enforced", "PodsWaiting");
    says_state(s, "a-0", false, 1);
    expect_reason(s, "guard", "Enforced", "Enforced");
}

/* A newer manager wrote the document, with what the pod's sidecars do not know: they keep what they
 * have. */
static void test_a_pod_that_is_too_old_for_the_document(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_version(s, "a-0", "0.1.9");
    fixture_says(s, "a-0",
                 "{\"traffic\":{\"reads\":\"cmesh/v1\",\"inForce\":false,\"error\":\"line 1: "
                 "apiVersion: Unsupported value: \\\"cmesh/v2\\\"\"}}");
    expect_reason(s, "guard", "Enforced", "PodsRefusing");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/conditions/2/message",
                        "0 of 1 pods enforce it. Refusing the policies: a-0 (runs cmesh 0.1.9, the "
                        "manager " CMESH_VERSION ": a restart may help: line 1: apiVersion: "
                        "Unsupported value: \"cmesh/v2\").");
    says_state(s, "a-0", false, 1);
    expect_reason(s, "guard", "Enforced", "Enforced");
}

/* Rows in whatever order: the same status. And what only counts is no news. */
static void test_the_order_of_rows_is_no_news(void **state)
{
    struct fixture *s = *state;
    char rows[1024];
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    const char *uid = uid_of(s, "guard");
    (void)snprintf(rows, sizeof rows, ROW("b", "Closed") "," ROW("a", "Closed"), uid, 1, 1, uid, 2,
                   2);
    says(s, "a-0", rows);
    expect_reason(s, "guard", "Enforced", "Enforced");
    fixture_settle(s);
    run_for(s->store.api.loop, 1500); /* a status is written once a second at most */
    fixture_settle(s);
    assert_string_equal(status_of(s, "guard", "status/targetStatus/0/limitingSnapshots/0/name"),
                        "a");
    unsigned writes = s->store.writes;
    for (unsigned i = 0; i < 5; i++) {
        (void)snprintf(rows, sizeof rows, ROW("a", "Closed") "," ROW("b", "Closed"), uid, 2, i, uid,
                       1, i);
        says(s, "a-0", rows);
    }
    fixture_settle(s);
    assert_int_equal(s->store.writes, writes);
}

static void test_written_once_a_second_at_most(void **state)
{
    enum { CHANGES = 40, EACH_MS = 50 };
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    fixture_settle(s);
    size_t before = versions_of(s, "circuitbreakers", "guard");
    for (unsigned i = 0; i < CHANGES; i++) {
        says_state(s, "a-0", i % 2 == 0, i % 10);
        run_for(s->store.api.loop, EACH_MS);
    }
    assert_in_range(versions_of(s, "circuitbreakers", "guard") - before, 1,
                    CHANGES * EACH_MS / 1000 + 2);
    fixture_expect_text(s, "circuitbreakers", "guard", "status/open", "0");
}

/* By a definition of the kind without a field: it would be missing for ever. */
static void test_a_definition_without_a_field(void **state)
{
    struct fixture *s = *state;
    s->store.dropped.path = "circuitbreakers";
    s->store.dropped.field = "enforced";
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    says_state(s, "a-0", false, 1);
    expect_reason(s, "guard", "Enforced", "Enforced");
    run_for(s->store.api.loop, 1500); /* a status is written once a second at most */
    unsigned writes = s->store.writes;
    run_for(s->store.api.loop, 2500);
    assert_int_equal(s->store.writes, writes);
    says_state(s, "a-0", true, 2);
    fixture_expect_text(s, "circuitbreakers", "guard", "status/open", "1");
    guard_for(s, "guard", "a", "10s", ",\"annotations\":{\"a\":\"b\"}"); /* which takes it away */
    expect_reason(s, "guard", "Enforced", "Enforced");
}

static void test_a_conflict_of_the_status(void **state)
{
    struct fixture *s = *state;
    begin(s);
    store_fail(&s->store, "circuitbreakers/guard/status", 409, STORE_NONE, 2);
    guard(s, "10s");
    expect_reason(s, "guard", "Published", "Published");
    says_state(s, "a-0", true, 1);
    fixture_expect_text(s, "circuitbreakers", "guard", "status/open", "1");
    fixture_expect_event(s, "guard", "BreakerOpened", 1);
}

/* The pod is in no shard: its sidecars are of a config that is gone. */
static void test_a_pod_in_no_shard(void **state)
{
    struct fixture *s = *state;
    begin(s);
    fixture_pod(s, "x-0", "a", "gone");
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    says_state(s, "a-0", false, 1);
    expect_reason(s, "guard", "Enforced", "NoShard");
    assert_non_null(strstr(condition_of(s, "guard", "Enforced", "message"), "x-0"));
}

/* Before there is a shard, with one, and without it again. */
static void test_without_a_shard(void **state)
{
    struct fixture *s = *state;
    guard(s, "10s");
    lead(s);
    expect_reason(s, "guard", "Enforced", "NoShard");
    fixture_config(s, "a", "pods", "app=a");
    expect_reason(s, "guard", "Enforced", "NoPods");
    expect_published(s, "\"interval\":\"10s\"");
    store_delete(&s->store, "shardingconfigs", "n", "a");
    expect_reason(s, "guard", "Enforced", "NoShard");
}

/* ---- Events ---- */

static void test_a_breaker_opens_and_recovers(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    says_state(s, "a-0", false, 1);
    expect_reason(s, "guard", "Enforced", "Enforced");
    says_state(s, "a-0", true, 2);
    fixture_expect_event(s, "guard", "BreakerOpened", 1);
    fixture_expect_text(s, "circuitbreakers", "guard", "status/open", "1");
    fixture_settle(s);

    fixture_retire(s); /* the next one finds it open, as it was */
    lead(s);
    says_state(s, "a-0", true, 2);
    fixture_settle(s);
    fixture_expect_event(s, "guard", "BreakerOpened", 1);
    says_state(s, "a-0", false, 3);
    fixture_expect_event(s, "guard", "BreakerRecovered", 1);
    says_state(s, "a-0", true, 4);
    fixture_expect_event(s, "guard", "BreakerOpened", 2);
    says_state(s, "a-0", true, 6); /* closed and opened between two answers */
    fixture_expect_event(s, "guard", "BreakerOpened", 3);
    fixture_expect_event(s, "guard", "BreakerRecovered", 1);
}

/* ---- rules for other places than the API server ---- */

static void allow_one(struct fixture *s)
{
    store_put_text(&s->store, "circuitbreakers", "n",
                   "{\"metadata\":{\"name\":\"guard\"},\"spec\":{\"selector\":{\"matchLabels\":{"
                   "\"shard\":\"a\"}},\"trafficInterceptRules\":[{\"name\":\"only\","
                   "\"interceptType\":\"Whitelist\",\"contentType\":\"Normal\",\"contents\":["
                   "\"a.example\"],\"methods\":[\"*\"]}]}}");
}

/* It follows what is published; `address`: where it listens for such requests. */
static void says_refused(struct fixture *s, const char *pod, const char *address, unsigned refused)
{
    struct buf out = BUF_INIT(65536);
    struct traffic *t = parse(s);
    buf_printf(
        &out,
        "{\"traffic\":{\"reads\":\"cmesh/v1\",\"inForce\":true,\"shard\":{\"namespace\":\"n\","
        "\"name\":\"a\"},\"generation\":%llu,\"checksum\":\"%s\",\"since\":1764150000,"
        "\"breakers\":[],\"faults\":[],\"intercepts\":[{\"policy\":\"guard\",\"uid\":\"%s\","
        "\"rule\":\"only\",\"refused\":%u}],\"leftOut\":0},\"egress\":{\"address\":\"%s\"}}",
        (unsigned long long)traffic_generation(t), traffic_checksum(t), uid_of(s, "guard"), refused,
        address);
    fixture_says(s, pod, buf_cstr(&out));
    traffic_unref(t);
    buf_reset(&out);
}

#define LISTENS "127.0.0.1:15002"

static void test_pods_that_do_not_listen(void **state)
{
    struct fixture *s = *state;
    begin(s);
    allow_one(s);
    expect_published(s, "\"trafficInterceptRules\":[");
    says_refused(s, "a-0", "", 0);
    expect_reason(s, "guard", "Enforced", "NoEgress");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "0/1");
    assert_non_null(strstr(condition_of(s, "guard", "Enforced", "message"),
                           "annotate the pods with ctrlmesh.kusionstack.io/egress: proxy: a-0"));
    says_refused(s, "a-0", LISTENS, 0);
    expect_reason(s, "guard", "Enforced", "Enforced");
    fixture_expect_text(s, "circuitbreakers", "guard", "status/enforced", "1/1");
    says(s, "a-0", ""); /* it knows other labels of itself */
    expect_reason(s, "guard", "Enforced", "PodsWaiting");
}

/* A clock that a test puts forward. */
static uint64_t ahead_from;
static uint64_t ahead_to;

static uint64_t ahead_now(void *data)
{
    (void)data;
    return ahead_to + net_clock_now(&net_clock_system) - ahead_from;
}

static int64_t ahead_wall(void *data)
{
    (void)data;
    return net_clock_wall(&net_clock_system);
}

static void ahead_timer(void *data, struct net_timer *t, uint64_t ms)
{
    enum { SHORT_MS = 5000, OFTEN_MS = 100 };
    (void)data; /* whoever waits for long looks often whether it is time */
    net_clock_set_timer(&net_clock_system, t, ms < SHORT_MS ? ms : OFTEN_MS);
}

static uint32_t ahead_random(void *data)
{
    (void)data;
    return net_clock_random(&net_clock_system);
}

static const struct net_clock ahead = {
    .now = ahead_now, .wall = ahead_wall, .set_timer = ahead_timer, .random = ahead_random};

static void pass_minutes(uint64_t minutes)
{
    ahead_to += minutes * 60000;
}

static void test_requests_that_are_refused(void **state)
{
    static const char path[] = "status/targetStatus/0/interceptSnapshots/0/refused";
    struct fixture *s = *state;
    ahead_from = ahead_to = net_clock_now(&net_clock_system);
    s->clock = &ahead;
    begin(s);
    allow_one(s);
    expect_published(s, "\"trafficInterceptRules\":[");
    says_refused(s, "a-0", LISTENS, 0);
    expect_reason(s, "guard", "Enforced", "Enforced");
    says_refused(s, "a-0", LISTENS, 3);
    fixture_expect_event(s, "guard", "RequestsRefused", 1); /* the first ones at once */
    fixture_expect_text(s, "circuitbreakers", "guard", path, "3");
    fixture_settle(s);
    size_t versions = versions_of(s, "circuitbreakers", "guard");
    for (unsigned i = 4; i < 20; i++) { /* and for some minutes no more */
        says_refused(s, "a-0", LISTENS, i);
        run_for(s->store.api.loop, TURN_MS);
    }
    pass_minutes(4);
    fixture_settle(s);
    fixture_expect_event(s, "guard", "RequestsRefused", 1);
    assert_int_equal(versions_of(s, "circuitbreakers", "guard"), versions);
    pass_minutes(2); /* without another word of the pod */
    fixture_expect_event(s, "guard", "RequestsRefused", 2);
    fixture_expect_text(s, "circuitbreakers", "guard", path, "19");
    pass_minutes(6);
    fixture_settle(s);
    fixture_expect_event(s, "guard", "RequestsRefused", 2); /* there were none */

    fixture_retire(s); /* the next one knows what was told */
    lead(s);
    says_refused(s, "a-0", LISTENS, 19);
    fixture_settle(s);
    fixture_expect_event(s, "guard", "RequestsRefused", 2);
    says_refused(s, "a-0", LISTENS, 20);
    fixture_expect_event(s, "guard", "RequestsRefused", 3);
}

/* ---- finalizers ---- */

static void test_a_foreign_finalizer_is_taken_off(void **state)
{
    struct fixture *s = *state;
    begin(s);
    guard_for(s, "guard", "a", "10s", ",\"finalizers\":[\"" FINALIZER "\",\"mine\"]");
    fixture_expect_text(s, "circuitbreakers", "guard", "metadata/finalizers/0", "mine");
    expect_published(s, "\"interval\":\"10s\"");
    /* Put back: by a mesh that runs; it has the say until the object is deleted. */
    guard_for(s, "guard", "a", "20s", ",\"finalizers\":[\"" FINALIZER "\"]");
    expect_published(s, "\"interval\":\"20s\"");
    fixture_settle(s);
    assert_string_equal(status_of(s, "guard", "metadata/finalizers/0"), FINALIZER);
    guard_for(s, "guard", "a", "20s",
              ",\"deletionTimestamp\":\"2026-11-26T10:00:00Z\",\"finalizers\":[\"" FINALIZER "\"]");
    fixture_expect_text(s, "circuitbreakers", "guard", "metadata/finalizers/0", "");
    expect_no_key(s); /* one that is being deleted counts as gone */
}

/* The API server takes no change of an object that breaks a schema which came after it: one that is
 * being deleted could never go. */
static void test_a_finalizer_on_what_the_schema_refuses(void **state)
{
    struct fixture *s = *state;
    begin(s);
    store_fail(&s->store, "circuitbreakers/guard", 422, STORE_NONE, 1);
    guard_for(s, "guard", "a", "10s", ",\"finalizers\":[\"" FINALIZER "\"]");
    expect_published(s, "\"interval\":\"10s\"");
    expect_reason(s, "guard", "Published", "Published"); /* it does not wait for the finalizer */
    assert_string_equal(status_of(s, "guard", "metadata/finalizers/0"), FINALIZER);
    store_fail(&s->store, "circuitbreakers/guard", 422, STORE_NONE, 1);
    guard_for(s, "guard", "a", "10s",
              ",\"deletionTimestamp\":\"2026-11-26T10:00:00Z\",\"finalizers\":[\"" FINALIZER
              "\",\"other\"]");
    fixture_expect_text(s, "circuitbreakers", "guard", "metadata/finalizers/0", "other");
    assert_string_equal(status_of(s, "guard", "spec/rateLimitings/0/name"), "");
}

/* Told once, and tried ever more rarely. */
static void test_a_status_that_is_refused(void **state)
{
    enum { TRIES = 6 };
    struct fixture *s = *state;
    begin(s);
    store_fail(&s->store, "circuitbreakers/guard/status", 403, STORE_NONE, 1000);
    guard(s, "10s");
    expect_published(s, "\"interval\":\"10s\"");
    run_for(s->store.api.loop, 3000);
    assert_in_range(1000 - s->store.failing.count, 2, TRIES);
    fixture_expect_event(s, "guard", "StatusRefused", 1);
    s->store.failing.count = 0;
    expect_reason(s, "guard", "Published", "Published");
}

/* ---- without the lease ---- */

static void test_nothing_is_written_without_the_lease(void **state)
{
    struct fixture *s = *state;
    begin(s);
    s->holds = false;
    unsigned writes = s->store.writes;
    guard_for(s, "guard", "a", "10s", ",\"finalizers\":[\"" FINALIZER "\"]");
    run_for(s->store.api.loop, 500);
    assert_int_equal(s->store.writes, writes);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_both_keys_from_the_first_version),
        TEST(test_a_change_of_policies_is_one_write_of_the_key),
        TEST(test_only_where_it_may_be_for_a_pod),
        TEST(test_policies_for_other_pods_cost_little),
        TEST(test_while_the_rules_are_refused),
        TEST(test_while_a_handover_is_waited_for),
        TEST(test_after_the_shard_is_gone),
        TEST(test_while_the_selector_of_the_shard_is_not_valid),
        TEST(test_an_invalid_edit_keeps_the_last),
        TEST(test_what_is_kept_is_put_right),
        TEST(test_invalid_from_the_beginning),
        TEST(test_disabled),
        TEST(test_rules_have_the_first_claim_to_the_room),
        TEST(test_rules_take_the_room_of_what_is_kept),
        TEST(test_a_changed_key_is_put_right),
        TEST(test_foreign_keys_stay),
        TEST(test_a_conflict),
        TEST(test_deleted_while_nobody_led),
        TEST(test_nothing_is_written_when_nothing_changed),
        TEST(test_a_kind_comes_and_goes),
        TEST(test_a_kind_that_cannot_be_listed),
        TEST(test_unknown_kinds_do_not_hold_up_rules),
        TEST(test_too_many_for_the_memory),
        TEST(test_status),
        TEST(test_a_pod_whose_labels_are_not_known),
        TEST(test_a_pod_that_is_too_old_for_the_document),
        TEST(test_the_order_of_rows_is_no_news),
        TEST(test_written_once_a_second_at_most),
        TEST(test_a_definition_without_a_field),
        TEST(test_a_conflict_of_the_status),
        TEST(test_a_pod_in_no_shard),
        TEST(test_without_a_shard),
        TEST(test_a_breaker_opens_and_recovers),
        TEST(test_pods_that_do_not_listen),
        TEST(test_requests_that_are_refused),
        TEST(test_a_foreign_finalizer_is_taken_off),
        TEST(test_a_finalizer_on_what_the_schema_refuses),
        TEST(test_a_status_that_is_refused),
        TEST(test_nothing_is_written_without_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
