/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_rules.h"

#include "manager/route/route_fixture.h"

#include "base/array.h"
#include "base/xalloc.h"

#define SERVICE "\"clientConfig\":{\"service\":{\"namespace\":\"ops\",\"name\":\"w\"}}"

/* Two shards that limit pods and services alike, secrets and all of `apps` in other ways. */
static const char *const limits[] = {
    "pods:N in (a);services:N in (a);secrets:N in (a,c);*.apps:N in (a);jobs.batch:N in (a)",
    "pods:N in (b);services:N in (b);secrets:N in (b);*.apps:N in (b);*.*:N in (b)",
};

struct fixture {
    struct partition_shard shards[2];
    struct partition_facts facts;
    struct partitioner *partitioner;
};

static void fixture_init(struct fixture *f, const char *const texts[2])
{
    static const char *const keys[] = {"ops/a", "ops/b"};
    *f = (struct fixture){.facts = {.shards = f->shards, .count = 2}};
    for (size_t i = 0; i < 2; i++) {
        struct rules *rules = fixture_rules(texts[i]);
        f->shards[i] =
            (struct partition_shard){.key = keys[i], .wanted = rules, .published = rules};
    }
    f->partitioner = partitioner_new(&f->facts);
}

static void fixture_deinit(struct fixture *f)
{
    partitioner_free(f->partitioner);
    rules_unref((struct rules *)f->shards[0].wanted);
    rules_unref((struct rules *)f->shards[1].wanted);
}

/* Rules as "SCOPE GROUPS RESOURCES", with `core` for "" and `-` for no scope, separated by `;`. */
static void write_list(struct buf *out, const char *key, const char *items, size_t len)
{
    (void)buf_printf(out, ",\"%s\":[", key);
    for (const char *at = items; at < items + len;) {
        size_t n = strcspn(at, ", ;");
        n = n < (size_t)(items + len - at) ? n : (size_t)(items + len - at);
        bool core = n == 4 && strncmp(at, "core", 4) == 0;
        (void)buf_printf(out, "%s\"%.*s\"", at == items ? "" : ",", core ? 0 : (int)n, at);
        at += n + 1;
    }
    (void)buf_append_char(out, ']');
}

static cJSON *rules_json(const char *text)
{
    struct buf out = BUF_INIT(100000);
    (void)buf_append_char(&out, '[');
    for (const char *at = text; *at != '\0';) {
        size_t scope = strcspn(at, " ");
        const char *groups = at + scope + 1;
        const char *resources = groups + strcspn(groups, " ") + 1;
        size_t len = strcspn(resources, ";");
        (void)buf_printf(&out, "%s{\"operations\":[\"CREATE\"]", at == text ? "" : ",");
        if (*at != '-') {
            (void)buf_printf(&out, ",\"scope\":\"%.*s\"", (int)scope, at);
        }
        write_list(&out, "apiGroups", groups, strcspn(groups, " "));
        write_list(&out, "resources", resources, len);
        (void)buf_append_char(&out, '}');
        at = resources + len + (resources[len] == ';');
    }
    (void)buf_append(&out, "]", 2);
    cJSON *json = fixture_json((const char *)buf_data(&out));
    buf_reset(&out);
    return json;
}

static cJSON *webhook_of(const char *rules)
{
    cJSON *webhook = fixture_json("{\"name\":\"v.example.com\"," SERVICE "}");
    cJSON_AddItemToObject(webhook, "rules", rules_json(rules));
    return webhook;
}

/* NULL: there must be none. */
static void expect_rules(const char *of, const char *what, const cJSON *got, const char *want)
{
    cJSON *wanted = want == NULL ? NULL : rules_json(want);
    if (want == NULL ? got != NULL : !cJSON_Compare(got, wanted, true)) {
        fail_msg("%s: %s: %s", of, what, got == NULL ? "none" : cJSON_Print(got));
    }
    cJSON_Delete(wanted);
}

struct rules_case {
    const char *rules;
    const char *routed;
    const char *others;
    enum route_reason verdict;
    enum route_reason left;
};

static void expect(const struct fixture *f, const struct rules_case *c)
{
    struct route_rules r;
    cJSON *webhook = webhook_of(c->rules);
    route_rules_init(&r, f->partitioner, webhook);
    expect_rules(c->rules, "routed", r.routed, c->routed);
    expect_rules(c->rules, "others", r.others, c->others);
    if (r.verdict.reason != c->verdict || r.left.reason != c->left) {
        fail_msg("%s: %s, %s: %s", c->rules, route_reason_text(r.verdict.reason),
                 route_reason_text(r.left.reason), r.left.text);
    }
    assert_int_equal(r.verdict.text[0] != '\0', c->verdict != ROUTE_ROUTED);
    route_rules_deinit(&r);
    cJSON_Delete(webhook);
}

static void what_is_routed(void **state)
{
    (void)state;
    static const struct rules_case cases[] = {
        {"Namespaced core pods", "Namespaced core pods", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        {"* core pods", "Namespaced core pods", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        {"- core pods", "Namespaced core pods", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        {"* core pods/exec,pods/*", "Namespaced core pods/exec,pods/*", NULL, ROUTE_ROUTED,
         ROUTE_ROUTED},
        {"* core pods,services", "Namespaced core pods,services", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        {"* core pods;* core services", "Namespaced core pods;Namespaced core services", NULL,
         ROUTE_ROUTED, ROUTE_ROUTED},
        {"* apps deployments;* core pods", "Namespaced apps deployments;Namespaced core pods", NULL,
         ROUTE_ROUTED, ROUTE_ROUTED},
        {"* apps *", "Namespaced apps *", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        /* What two rules can match is asked about once: both are left. */
        {"Namespaced core *;Namespaced core pods", NULL, "Namespaced core *;Namespaced core pods",
         ROUTE_SEEN_BY_ALL, ROUTE_SEEN_BY_ALL},
        {"Namespaced core pods;Namespaced core *", NULL, "Namespaced core pods;Namespaced core *",
         ROUTE_SEEN_BY_ALL, ROUTE_SEEN_BY_ALL},
        {"Namespaced core */scale;Namespaced core pods;Namespaced core services/*",
         "Namespaced core pods", "Namespaced core */scale;Namespaced core services/*", ROUTE_ROUTED,
         ROUTE_SEEN_BY_ALL},
        {"Namespaced core secrets,pods/exec;Namespaced core pods/*;Namespaced core pods", NULL,
         "Namespaced core secrets,pods/exec;Namespaced core pods/*;Namespaced core pods",
         ROUTE_MIXED, ROUTE_MIXED},
        {"* apps */*", "Namespaced apps */*", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        /* Cluster-scoped: the original. */
        {"Cluster core nodes", NULL, NULL, ROUTE_NOTHING, ROUTE_ROUTED},
        {"Cluster core nodes;* core pods", "Namespaced core pods", NULL, ROUTE_ROUTED,
         ROUTE_ROUTED},
        /* Some of them. */
        {"* core events", NULL, "Namespaced core events", ROUTE_SEEN_BY_ALL, ROUTE_SEEN_BY_ALL},
        {"* core events;* core pods", "Namespaced core pods", "Namespaced core events",
         ROUTE_ROUTED, ROUTE_SEEN_BY_ALL},
        {"* core pods,events", NULL, "Namespaced core pods,events", ROUTE_SEEN_BY_ALL,
         ROUTE_SEEN_BY_ALL},
        {"* core pods,secrets", NULL, "Namespaced core pods,secrets", ROUTE_MIXED, ROUTE_MIXED},
        {"* core pods;* core secrets", "Namespaced core pods", "Namespaced core secrets",
         ROUTE_ROUTED, ROUTE_MIXED},
        {"* core secrets;* core pods", "Namespaced core secrets", "Namespaced core pods",
         ROUTE_ROUTED, ROUTE_MIXED},
        {"* core secrets,events;* core pods", "Namespaced core pods",
         "Namespaced core secrets,events", ROUTE_ROUTED, ROUTE_SEEN_BY_ALL},
        {"* core pods,secrets;* core services", "Namespaced core services",
         "Namespaced core pods,secrets", ROUTE_ROUTED, ROUTE_MIXED},
        /* A star must be limited as a star. */
        {"* batch *", NULL, "Namespaced batch *", ROUTE_SEEN_BY_ALL, ROUTE_SEEN_BY_ALL},
        {"* batch jobs", "Namespaced batch jobs", NULL, ROUTE_ROUTED, ROUTE_ROUTED},
        /* Namespaces: their own labels count, and the narrowed original is not asked. */
        {"* core namespaces", NULL, "Cluster core namespaces", ROUTE_NOTHING, ROUTE_ROUTED},
        {"Cluster core namespaces,nodes", NULL, "Cluster core namespaces", ROUTE_NOTHING,
         ROUTE_ROUTED},
        {"Namespaced core namespaces", NULL, NULL, ROUTE_NOTHING, ROUTE_ROUTED},
        {"* core pods,namespaces", "Namespaced core pods,namespaces", "Cluster core namespaces",
         ROUTE_ROUTED, ROUTE_ROUTED},
        {"* core namespaces/finalize,pods", "Namespaced core namespaces/finalize,pods",
         "Cluster core namespaces/finalize", ROUTE_ROUTED, ROUTE_ROUTED},
        {"Cluster * *", NULL, "Cluster core namespaces", ROUTE_NOTHING, ROUTE_ROUTED},
        {"Cluster * */*", NULL, "Cluster core namespaces/*", ROUTE_NOTHING, ROUTE_ROUTED},
        {"Cluster core */status,namespaces", NULL, "Cluster core namespaces/status,namespaces",
         ROUTE_NOTHING, ROUTE_ROUTED},
        {"Cluster core *,namespaces/*", NULL, "Cluster core namespaces/*", ROUTE_NOTHING,
         ROUTE_ROUTED},
        {"Cluster apps *", NULL, NULL, ROUTE_NOTHING, ROUTE_ROUTED},
        {"* core,apps *", NULL, "Namespaced core,apps *;Cluster core namespaces", ROUTE_SEEN_BY_ALL,
         ROUTE_SEEN_BY_ALL},
    };
    struct fixture f;
    fixture_init(&f, limits);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect(&f, &cases[i]);
    }
    fixture_deinit(&f);
}

static void a_star_is_one_of_all_or_mixed(void **state)
{
    (void)state;
    static const char *const same[] = {"*.*:N in (a);pods:N in (a)", "*.*:N in (b)"};
    static const char *const other[] = {"*.*:N in (a,c);pods:N in (a)", "*.*:N in (b)"};
    static const struct rules_case whole = {"* * *", "Namespaced * *", "Cluster core namespaces",
                                            ROUTE_ROUTED, ROUTE_ROUTED};
    static const struct rules_case mixed = {"* * *", NULL, "Namespaced * *;Cluster core namespaces",
                                            ROUTE_MIXED, ROUTE_MIXED};
    struct fixture f;
    fixture_init(&f, same);
    expect(&f, &whole);
    fixture_deinit(&f);
    fixture_init(&f, other);
    expect(&f, &mixed);
    fixture_deinit(&f);
}

/* By matchPolicy Equivalent either rule matches what comes by the other's group. */
static void one_resource_of_two_groups(void **state)
{
    (void)state;
    static const char *const own[] = {"events:N in (a);pods:N in (a);*.apps:N in (a)",
                                      "events:N in (b);pods:N in (b);*.apps:N in (b)"};
    static const struct rules_case cases[] = {
        {"* core events;* events.k8s.io events", NULL,
         "Namespaced core events;Namespaced events.k8s.io events", ROUTE_SEEN_BY_ALL,
         ROUTE_SEEN_BY_ALL},
        {"* core events,pods;* events.k8s.io *", NULL,
         "Namespaced core events,pods;Namespaced events.k8s.io *", ROUTE_SEEN_BY_ALL,
         ROUTE_SEEN_BY_ALL},
        {"* extensions deployments;* apps */*", NULL,
         "Namespaced extensions deployments;Namespaced apps */*", ROUTE_SEEN_BY_ALL,
         ROUTE_SEEN_BY_ALL},
        {"* core pods;* events.k8s.io events", "Namespaced core pods",
         "Namespaced events.k8s.io events", ROUTE_ROUTED, ROUTE_SEEN_BY_ALL},
        {"* core events;* example.com events", "Namespaced core events",
         "Namespaced example.com events", ROUTE_ROUTED, ROUTE_SEEN_BY_ALL},
        {"* apps deployments;* networking.k8s.io *", "Namespaced apps deployments",
         "Namespaced networking.k8s.io *", ROUTE_ROUTED, ROUTE_SEEN_BY_ALL},
    };
    struct fixture f;
    fixture_init(&f, own);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect(&f, &cases[i]);
    }
    fixture_deinit(&f);
}

static void what_leads_to_no_service(void **state)
{
    (void)state;
    struct fixture f;
    struct route_rules r;
    fixture_init(&f, limits);
    cJSON *webhook = fixture_json("{\"name\":\"v.example.com\",\"clientConfig\":{\"url\":"
                                  "\"https://h/\"},\"rules\":[{\"apiGroups\":[\"\"],"
                                  "\"resources\":[\"pods\",\"namespaces\"]}]}");
    route_rules_init(&r, f.partitioner, webhook);
    assert_int_equal(r.verdict.reason, ROUTE_BY_URL);
    assert_null(r.routed);
    assert_int_equal(cJSON_GetArraySize(r.others), 2);
    route_rules_deinit(&r);
    cJSON_Delete(webhook);
    fixture_deinit(&f);
}

static void what_is_given_up(void **state)
{
    (void)state;
    struct fixture f;
    struct route_rules r;
    fixture_init(&f, limits);
    cJSON *webhook = webhook_of("* core pods;Cluster core nodes");
    route_rules_init(&r, f.partitioner, webhook);
    assert_int_equal(r.verdict.reason, ROUTE_ROUTED);
    route_verdict_set(&r.verdict, ROUTE_NOT_BY_NAMESPACE, "no");
    route_rules_give_up(&r, webhook, &r.verdict);
    assert_int_equal(r.verdict.reason, ROUTE_NOT_BY_NAMESPACE);
    assert_string_equal(r.verdict.text, "no");
    expect_rules("given up", "routed", r.routed, NULL);
    expect_rules("given up", "others", r.others, "Namespaced core pods");
    route_rules_deinit(&r);
    cJSON_Delete(webhook);
    fixture_deinit(&f);
}

static void a_rule_with_very_many_resources(void **state)
{
    (void)state;
    struct fixture f;
    struct route_rules r;
    struct buf rules = BUF_INIT(1000000);
    (void)buf_append_str(&rules, "* core ");
    for (int i = 0; i < 5000; i++) {
        (void)buf_append_str(&rules, i == 0 ? "pods" : ",pods");
    }
    (void)buf_append_char(&rules, '\0');
    fixture_init(&f, limits);
    cJSON *webhook = webhook_of((const char *)buf_data(&rules));
    route_rules_init(&r, f.partitioner, webhook);
    assert_int_equal(r.verdict.reason, ROUTE_TOO_MANY);
    assert_int_equal(cJSON_GetArraySize(r.others), 1);
    route_rules_deinit(&r);
    cJSON_Delete(webhook);
    fixture_deinit(&f);
    buf_reset(&rules);
}

/* What a user is to understand. */
static void texts_name_shard_and_resource(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        const char *text;
    } cases[] = {
        {"* core events", "no limit of shard ops/a names events, so it sees all of them"},
        {"* apps,core deployments,secrets",
         "no limit of shard ops/a names deployments, so it sees all of them"},
        {"* core pods,secrets", "shards limit pods and secrets in different ways: name them in "
                                "webhooks of their own"},
        {"* apps secrets;* core secrets",
         "shards limit secrets.apps and secrets in different ways: name them in webhooks of their "
         "own"},
    };
    struct fixture f;
    fixture_init(&f, limits);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct route_rules r;
        cJSON *webhook = webhook_of(cases[i].rules);
        route_rules_init(&r, f.partitioner, webhook);
        assert_string_equal(r.left.text, cases[i].text);
        route_rules_deinit(&r);
        cJSON_Delete(webhook);
    }
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_routed),
        cmocka_unit_test(a_star_is_one_of_all_or_mixed),
        cmocka_unit_test(one_resource_of_two_groups),
        cmocka_unit_test(what_leads_to_no_service),
        cmocka_unit_test(what_is_given_up),
        cmocka_unit_test(a_rule_with_very_many_resources),
        cmocka_unit_test(texts_name_shard_and_resource),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
