/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum { NOW = 1764150000, MANY = 150 };

#define SUM "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LIMITING                                                                                   \
    "{\"name\":\"deletePod\",\"bucket\":{\"burst\":1,\"interval\":\"10s\",\"limit\":1},"           \
    "\"triggerPolicy\":\"LimiterOnly\",\"resourceRules\":[{\"apiGroups\":[\"\"],\"resources\":["   \
    "\"pods\"],\"verbs\":[\"delete\"],\"namespaces\":[\"*\"]}]}"
#define OBJECT(labels, limitings)                                                                  \
    "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"CircuitBreaker\","            \
    "\"metadata\":{\"name\":\"guard\",\"namespace\":\"n\",\"uid\":\"u1\",\"generation\":4,"        \
    "\"labels\":{" labels "}},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"x\"}},"           \
    "\"rateLimitings\":[" limitings "]}}"

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, strlen(text), &e);
    if (root == NULL) {
        fail_msg("%s in %s", e.msg, text);
    }
    return root;
}

static struct policy *read_policy_text(const char *text)
{
    const struct policy_options o = {.now = NOW};
    cJSON *object = parse(text);
    struct policy *p = policy_read(TRAFFIC_BREAKER, object, &o, NULL);
    assert_non_null(p);
    cJSON_Delete(object);
    return p;
}

static struct pod_traffic *says(const char *state, unsigned second)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"traffic\":{\"inForce\":false,\"breakers\":[{\"policy\":\"guard\",\"uid\":"
                   "\"u1\",\"rule\":\"deletePod\",\"state\":\"%s\",\"why\":\"%s\","
                   "\"since\":\"2026-11-26T10:00:%02uZ\"}]}}",
                   state, strcmp(state, "Closed") == 0 ? "" : "over the limit", second);
    cJSON *root = parse(text);
    struct pod_traffic *t = pod_traffic_read(root);
    assert_non_null(t);
    cJSON_Delete(root);
    return t;
}

static const struct policy_shard in_a = {
    .name = "a", .placed = true, .outcome = TRAFFIC_COMPILED, .reason = "", .why = ""};

/* ---- one policy, and what is known of it ---- */

struct facts {
    struct policy *policy;
    struct policy_facts f;
    struct policy_pod pods[MANY];
    char names[MANY][16];
};

static void init(struct facts *x, const char *object)
{
    *x = (struct facts){.policy = read_policy_text(object)};
    x->f = (struct policy_facts){.policy = x->policy,
                                 .errors = policy_valid(x->policy) ? "" : "spec.x: Invalid value",
                                 .warnings = "",
                                 .shards = &in_a,
                                 .shard_count = 1,
                                 .pods = x->pods,
                                 .now = NOW};
}

static struct policy_pod *add_pod(struct facts *x, enum policy_pod_state state,
                                  const struct pod_traffic *t)
{
    size_t i = x->f.pod_count++;
    (void)snprintf(x->names[i], sizeof x->names[i], "a-%03zu", i);
    x->pods[i] = (struct policy_pod){.name = x->names[i],
                                     .ip = "10.0.0.1",
                                     .state = state,
                                     .answers = t != NULL,
                                     .text = "",
                                     .traffic = t};
    return &x->pods[i];
}

static const cJSON *condition(const cJSON *status, const char *type)
{
    return edit_find(field_get(status, "conditions"), "type", type);
}

/* The reasons of Published and Enforced. */
static void expect(const struct facts *x, const char *published, const char *enforced,
                   enum policy_enforced e)
{
    struct policy_status_result r;
    cJSON *status = policy_status_make(&x->f, &r);
    assert_non_null(status);
    assert_string_equal(field_text(condition(status, "Published"), "reason"), published);
    assert_string_equal(field_text(condition(status, "Enforced"), "reason"), enforced);
    assert_int_equal(r.enforced, e);
    assert_true(strlen(field_text(condition(status, "Enforced"), "message")) > 0);
    cJSON_Delete(status);
}

/* ---- tests ---- */

static void test_the_same_facts_are_no_change(void **state)
{
    struct facts x;
    struct policy_status_result r;
    struct pod_traffic *t = says("Closed", 1);
    (void)state;
    init(&x, OBJECT("", LIMITING));
    add_pod(&x, POLICY_POD_ENFORCES, t);
    cJSON *first = policy_status_make(&x.f, &r);
    assert_non_null(first);
    assert_true(r.changed);
    assert_int_equal(r.enforced, POLICY_ENFORCED);
    assert_string_equal(field_text(first, "enforced"), "1/1");
    assert_string_equal(field_text(first, "lastUpdatedTime"), "2025-11-26T09:40:00Z");
    x.f.old = first;
    x.f.now = NOW + 60;
    cJSON *again = policy_status_make(&x.f, &r);
    assert_false(r.changed);
    assert_true(cJSON_Compare(first, again, true));
    cJSON_Delete(again);
    x.pods[0].state = POLICY_POD_WAITING;
    again = policy_status_make(&x.f, &r);
    assert_true(r.changed);
    assert_string_equal(field_text(condition(again, "Compiled"), "lastTransitionTime"),
                        "2025-11-26T09:40:00Z");
    assert_string_equal(field_text(condition(again, "Enforced"), "lastTransitionTime"),
                        "2025-11-26T09:41:00Z");
    assert_string_equal(field_text(again, "lastUpdatedTime"), "2025-11-26T09:41:00Z");
    cJSON_Delete(again);
    cJSON_Delete(first);
    policy_unref(x.policy);
    pod_traffic_free(t);
}

static void test_what_hinders_most_is_the_reason(void **state)
{
    static const struct {
        enum policy_pod_state state;
        const char *reason;
        enum policy_enforced enforced;
    } rows[] = {
        {POLICY_POD_ENFORCES, "Enforced", POLICY_ENFORCED},
        {POLICY_POD_NO_EGRESS, "NoEgress", POLICY_NO_EGRESS},
        {POLICY_POD_WITHOUT, "NotPublished", POLICY_NOT_PUBLISHED},
        {POLICY_POD_WAITING, "PodsWaiting", POLICY_PODS_WAITING},
        {POLICY_POD_SILENT, "PodsSilent", POLICY_PODS_SILENT},
        {POLICY_POD_REFUSING, "PodsRefusing", POLICY_PODS_REFUSING},
        {POLICY_POD_OLD, "PodsOld", POLICY_PODS_OLD},
        {POLICY_POD_NO_SHARD, "NoShard", POLICY_NO_SHARD},
    };
    struct facts x;
    (void)state;
    init(&x, OBJECT("", LIMITING));
    expect(&x, "Published", "NoPods", POLICY_NO_PODS);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        add_pod(&x, rows[i].state, NULL);
        expect(&x, "Published", rows[i].reason, rows[i].enforced);
        assert_string_not_equal(policy_enforced_text(rows[i].enforced), "");
    }
    policy_unref(x.policy);
}

static void test_where_it_does_not_stand(void **state)
{
    struct policy_shard shards[2] = {in_a, in_a};
    struct facts x;
    (void)state;
    init(&x, OBJECT("", LIMITING));
    x.f.shards = shards;
    x.f.shard_count = 2;
    add_pod(&x, POLICY_POD_ENFORCES, NULL);
    shards[1].name = "b";
    expect(&x, "Published", "Enforced", POLICY_ENFORCED);
    shards[1].outcome = TRAFFIC_TOO_LARGE;
    expect(&x, "TooLarge", "NotPublished", POLICY_NOT_PUBLISHED);
    shards[1].outcome = TRAFFIC_TOO_MANY;
    expect(&x, "TooMany", "NotPublished", POLICY_NOT_PUBLISHED);
    shards[1].placed = false;
    shards[1].reason = "NameTaken";
    expect(&x, "NameTaken", "NotPublished", POLICY_NOT_PUBLISHED);
    x.f.shard_count = 0;
    expect(&x, "NoShard", "NoShard", POLICY_NO_SHARD);
    policy_unref(x.policy);
}

static void test_what_is_not_to_be_enforced(void **state)
{
    struct policy_shard shard = in_a;
    struct facts x;
    (void)state;
    init(&x, OBJECT("\"circuitbreaker.ctrlmesh.kusionstack.io/disable\":\"\"", LIMITING));
    expect(&x, "Disabled", "Disabled", POLICY_DISABLED);
    policy_unref(x.policy);

    init(&x, OBJECT("", "{\"name\":\"deletePod\"}"));
    assert_false(policy_valid(x.policy));
    shard.outcome = TRAFFIC_INVALID;
    x.f.shards = &shard;
    expect(&x, "NotCompiled", "NotPublished", POLICY_INVALID);
    shard.outcome = TRAFFIC_KEPT;
    struct policy_status_result r;
    cJSON *status = policy_status_make(&x.f, &r);
    assert_non_null(
        strstr(field_text(condition(status, "Published"), "message"), "stays in force"));
    assert_string_equal(field_text(condition(status, "Compiled"), "message"),
                        "spec.x: Invalid value");
    cJSON_Delete(status);
    policy_unref(x.policy);
}

/* A pod that says nothing now: what it said before stands. */
static void test_what_a_silent_pod_said(void **state)
{
    struct facts x;
    struct policy_status_result r;
    struct pod_traffic *t = says("Opened", 1);
    (void)state;
    init(&x, OBJECT("", LIMITING));
    add_pod(&x, POLICY_POD_ENFORCES, t);
    cJSON *first = policy_status_make(&x.f, &r);
    assert_int_equal(r.open, 1);
    const cJSON *row = field_get(first, "targetStatus")->child;
    assert_string_equal(field_text(row, "message"), "deletePod: over the limit");
    x.f.old = first;
    x.pods[0].state = POLICY_POD_SILENT;
    x.pods[0].answers = false;
    x.pods[0].traffic = NULL;
    x.pods[0].text = "it did not answer";
    cJSON *again = policy_status_make(&x.f, &r);
    assert_int_equal(r.open, 1);
    row = field_get(again, "targetStatus")->child;
    const cJSON *rule = field_get(row, "limitingSnapshots")->child;
    assert_string_equal(field_text(rule, "state"), "Opened");
    assert_string_equal(field_text(row, "message"), "it did not answer");
    assert_string_equal(field_text(row, "configHash"), policy_spec_hash(x.policy));
    cJSON_Delete(again);
    cJSON_Delete(first);
    policy_unref(x.policy);
    pod_traffic_free(t);
}

static void test_many_pods(void **state)
{
    struct facts x;
    struct policy_status_result r;
    struct pod_traffic *closed = says("Closed", 1);
    struct pod_traffic *open = says("Opened", 2);
    (void)state;
    init(&x, OBJECT("", LIMITING));
    for (size_t i = 0; i < MANY; i++) {
        add_pod(&x, POLICY_POD_ENFORCES, i % 50 == 7 ? open : closed);
    }
    cJSON *status = policy_status_make(&x.f, &r);
    assert_non_null(status);
    assert_int_equal(cJSON_GetArraySize(field_get(status, "targetStatus")), 3);
    assert_int_equal(field_get(status, "pods")->valueint, MANY);
    assert_int_equal(field_get(status, "open")->valueint, 3);
    assert_string_equal(field_text(status, "enforced"), "150/150");
    cJSON_Delete(status);
    policy_unref(x.policy);
    pod_traffic_free(closed);
    pod_traffic_free(open);
}

/* Its definition has no such field, and the API server would drop it each time. */
static void test_a_fault_is_never_open(void **state)
{
    static const char text[] =
        "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"FaultInjection\","
        "\"metadata\":{\"name\":\"slow\",\"namespace\":\"n\",\"uid\":\"u2\"},\"spec\":{"
        "\"selector\":{},\"httpFault\":[{\"name\":\"l\",\"match\":{\"resources\":[{}]},"
        "\"delay\":{\"fixedDelay\":\"1s\",\"percent\":\"1\"}}]}}";
    const struct policy_options o = {.now = NOW};
    struct facts x = {.f = {.errors = "", .warnings = "", .now = NOW}};
    struct policy_status_result r;
    cJSON *object = parse(text);
    (void)state;
    x.policy = policy_read(TRAFFIC_FAULT_INJECTION, object, &o, NULL);
    assert_non_null(x.policy);
    x.f.policy = x.policy;
    cJSON *status = policy_status_make(&x.f, &r);
    assert_non_null(status);
    assert_false(cJSON_HasObjectItem(status, "open"));
    assert_true(cJSON_HasObjectItem(status, "enforced"));
    cJSON_Delete(status);
    cJSON_Delete(object);
    policy_unref(x.policy);
}

/* ---- what is new ---- */

struct heard {
    unsigned opened;
    unsigned recovered;
    unsigned refusing; /* rules in pods */
    uint64_t refused;  /* requests */
};

static void on_news(void *data, const struct policy_news *n)
{
    struct heard *h = data;
    assert_int_equal(strncmp(n->pod, "a-", 2), 0);
    assert_string_equal(n->rule, n->kind == POLICY_NEWS_REFUSED ? "only" : "deletePod");
    h->opened += n->kind == POLICY_NEWS_OPENED;
    h->recovered += n->kind == POLICY_NEWS_RECOVERED;
    h->refusing += n->kind == POLICY_NEWS_REFUSED;
    h->refused += n->refused;
}

static cJSON *status_with(const char *state, unsigned second)
{
    struct facts x;
    struct policy_status_result r;
    struct pod_traffic *t = says(state, second);
    init(&x, OBJECT("", LIMITING));
    add_pod(&x, POLICY_POD_ENFORCES, t);
    cJSON *status = policy_status_make(&x.f, &r);
    assert_non_null(status);
    policy_unref(x.policy);
    pod_traffic_free(t);
    return status;
}

static void test_news(void **state)
{
    static const struct {
        const char *before; /* NULL: there is no status */
        const char *now;
        unsigned second; /* of now; before it is 1 */
        unsigned opened;
        unsigned recovered;
    } rows[] = {
        {NULL, "Closed", 1, 0, 0},         {NULL, "Opened", 1, 1, 0},
        {"Closed", "Closed", 2, 0, 0},     {"Closed", "Opened", 2, 1, 0},
        {"Opened", "Opened", 1, 0, 0},     {"Opened", "Opened", 2, 1, 0},
        {"Opened", "Closed", 2, 0, 1},     {"Opened", "HalfOpened", 2, 0, 0},
        {"HalfOpened", "Opened", 2, 0, 0}, {"HalfOpened", "Closed", 2, 0, 1},
        {"Closed", "HalfOpened", 2, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct heard h = {.opened = 0};
        cJSON *before = rows[i].before == NULL ? NULL : status_with(rows[i].before, 1);
        cJSON *now = status_with(rows[i].now, rows[i].second);
        policy_status_compare(before, now, on_news, &h);
        if (h.opened != rows[i].opened || h.recovered != rows[i].recovered) {
            fail_msg("%s to %s", rows[i].before, rows[i].now);
        }
        cJSON_Delete(before);
        cJSON_Delete(now);
    }
}

/* ---- rules for other places ---- */

#define EXTERNAL(more, intercepts)                                                                 \
    "{\"apiVersion\":\"ctrlmesh.kusionstack.io/v1alpha1\",\"kind\":\"CircuitBreaker\","            \
    "\"metadata\":{\"name\":\"guard\",\"namespace\":\"n\",\"uid\":\"u1\"},\"spec\":{"              \
    "\"selector\":{}," more "\"trafficInterceptRules\":[" intercepts "]}}"
#define ONLY(methods)                                                                              \
    "{\"name\":\"only\",\"interceptType\":\"Whitelist\",\"contentType\":\"Normal\",\"contents\":[" \
    "\"a.example\"],\"methods\":[" methods "]}"

static struct pod_traffic *has_refused(unsigned refused)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"traffic\":{\"inForce\":false,\"intercepts\":[{\"policy\":\"guard\",\"uid\":"
                   "\"u1\",\"rule\":\"only\",\"refused\":%u}]},\"egress\":{\"address\":"
                   "\"127.0.0.1:15002\"}}",
                   refused);
    cJSON *root = parse(text);
    struct pod_traffic *t = pod_traffic_read(root);
    assert_non_null(t);
    cJSON_Delete(root);
    return t;
}

static cJSON *make_status(struct facts *x)
{
    struct policy_status_result r;
    cJSON *status = policy_status_make(&x->f, &r);
    assert_non_null(status);
    return status;
}

static void test_pods_that_do_not_listen(void **state)
{
    static const char once[] = "only requests that are sent to localproxy's proxy";
    struct facts x;
    (void)state;
    init(&x, EXTERNAL("", ONLY("\"*\"")));
    cJSON *status = make_status(&x); /* for no pods, too */
    assert_non_null(strstr(field_text(condition(status, "Enforced"), "message"), once));
    cJSON_Delete(status);
    add_pod(&x, POLICY_POD_ENFORCES, NULL);
    for (unsigned i = 0; i < 5; i++) {
        add_pod(&x, POLICY_POD_NO_EGRESS, NULL);
    }
    status = make_status(&x);
    const cJSON *enforced = condition(status, "Enforced");
    const char *message = field_text(enforced, "message");
    assert_string_equal(field_text(enforced, "reason"), "NoEgress");
    assert_string_equal(message,
                        "1 of 6 pods enforce it. Without a listener for requests to other places, "
                        "annotate the pods with ctrlmesh.kusionstack.io/egress: proxy: a-001, "
                        "a-002, a-003 and 2 more. Of requests to other places than the API server "
                        "it is for only requests that are sent to localproxy's proxy.");
    assert_null(strstr(strstr(message, once) + 1, once));
    assert_string_equal(field_text(status, "enforced"), "1/6");
    const cJSON *row = field_get(status, "targetStatus")->child->next;
    assert_string_equal(field_text(row, "message"),
                        "it has no listener for requests to other places");
    cJSON_Delete(status);
    policy_unref(x.policy);
    init(&x, OBJECT("", LIMITING));
    status = make_status(&x);
    assert_null(strstr(field_text(condition(status, "Enforced"), "message"), once));
    cJSON_Delete(status);
    policy_unref(x.policy);
}

static void test_what_cannot_hold_in_tunnels(void **state)
{
    static const struct {
        const char *object;
        const char *reason;
    } all[] = {
        {EXTERNAL("", ONLY("\"*\"")), "Valid"},
        {EXTERNAL("", ONLY("\"GET\"")), "PartlyEnforceable"},
        {EXTERNAL("\"rateLimitings\":[" LIMITING "],", ONLY("\"GET\"")), "PartlyEnforceable"},
        {EXTERNAL("\"rateLimitings\":[{\"name\":\"off\",\"triggerPolicy\":\"ForceOpened\","
                  "\"restRules\":[{\"url\":\"https://a/b\",\"method\":\"*\"}]}],",
                  ""),
         "PartlyEnforceable"},
        {EXTERNAL("", ""), "NothingEnforceable"},
    };
    struct facts x;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        init(&x, all[i].object);
        cJSON *status = make_status(&x);
        const cJSON *compiled = condition(status, "Compiled");
        assert_string_equal(field_text(compiled, "status"), "True");
        assert_string_equal(field_text(compiled, "reason"), all[i].reason);
        cJSON_Delete(status);
        policy_unref(x.policy);
    }
}

/* Numbers that grow are told now and then. */
static void test_refusals(void **state)
{
    struct facts x;
    struct policy_status_result r;
    struct heard h = {.opened = 0};
    struct pod_traffic *few = has_refused(3);
    struct pod_traffic *more = has_refused(10);
    (void)state;
    init(&x, EXTERNAL("", ONLY("\"*\"")));
    add_pod(&x, POLICY_POD_ENFORCES, few);
    x.f.tells = true;
    cJSON *first = policy_status_make(&x.f, &r);
    assert_false(r.refused || r.rough);
    const cJSON *rule =
        field_get(field_get(first, "targetStatus")->child, "interceptSnapshots")->child;
    assert_string_equal(field_text(rule, "name"), "only");
    assert_int_equal(field_get(rule, "refused")->valueint, 3);
    policy_status_compare(NULL, first, on_news, &h);
    assert_int_equal(h.refusing, 1);
    assert_int_equal(h.refused, 3);
    x.f.old = first;
    x.f.told = first;
    x.f.tells = false;
    x.pods[0].traffic = more;
    cJSON *again = policy_status_make(&x.f, &r);
    assert_true(r.refused);
    assert_false(r.changed);
    cJSON_Delete(again);
    x.pods[0].answers = false; /* what it said stands */
    x.pods[0].traffic = NULL;
    again = policy_status_make(&x.f, &r);
    assert_false(r.refused);
    assert_true(policy_status_same(first, again));
    cJSON_Delete(again);
    x.pods[0].answers = true;
    x.pods[0].traffic = more;
    x.f.tells = true;
    again = policy_status_make(&x.f, &r);
    assert_true(r.changed);
    policy_status_compare(first, again, on_news, &h);
    assert_int_equal(h.refused, 3 + 7);
    assert_false(r.rough);
    cJSON_Delete(again);
    pod_traffic_set_rough(more); /* as from a Lease */
    again = policy_status_make(&x.f, &r);
    assert_true(r.rough);
    x.pods[0].traffic = few; /* its localproxy was started anew */
    cJSON *third = policy_status_make(&x.f, &r);
    policy_status_compare(again, third, on_news, &h);
    assert_int_equal(h.refused, 3 + 7 + 3);
    assert_int_equal(h.opened + h.recovered, 0);
    cJSON_Delete(third);
    cJSON_Delete(again);
    cJSON_Delete(first);
    policy_unref(x.policy);
    pod_traffic_free(few);
    pod_traffic_free(more);
}

static void test_refusals_in_one_of_many_pods(void **state)
{
    struct facts x;
    struct pod_traffic *none = has_refused(0);
    struct pod_traffic *some = has_refused(1);
    (void)state;
    init(&x, EXTERNAL("", ONLY("\"*\"")));
    x.f.tells = true;
    for (size_t i = 0; i < MANY; i++) {
        add_pod(&x, POLICY_POD_ENFORCES, i == 42 ? some : none);
    }
    cJSON *status = make_status(&x);
    assert_int_equal(cJSON_GetArraySize(field_get(status, "targetStatus")), 1);
    assert_string_equal(field_text(field_get(status, "targetStatus")->child, "podName"), "a-042");
    cJSON_Delete(status);
    policy_unref(x.policy);
    pod_traffic_free(none);
    pod_traffic_free(some);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_facts_are_no_change),
        cmocka_unit_test(test_what_hinders_most_is_the_reason),
        cmocka_unit_test(test_where_it_does_not_stand),
        cmocka_unit_test(test_what_is_not_to_be_enforced),
        cmocka_unit_test(test_what_a_silent_pod_said),
        cmocka_unit_test(test_many_pods),
        cmocka_unit_test(test_a_fault_is_never_open),
        cmocka_unit_test(test_news),
        cmocka_unit_test(test_pods_that_do_not_listen),
        cmocka_unit_test(test_what_cannot_hold_in_tunnels),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refusals_in_one_of_many_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
