/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

#define HEAD                                                                                       \
    "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":\"ns\","      \
    "\"name\":\"s\"},\"generation\":1,\"spec\":{"

/* A rule for one of each; "" in the list of namespaces is what belongs to none. */
struct row {
    const char *name;
    const char *namespace;
    const char *group;
    const char *resource;
    const char *verb;
};

/* `before` and `after` stand around the list of a rule's rows. */
static void write_rows(struct buf *out, const struct row *rows, size_t count, const char *before,
                       const char *after)
{
    for (size_t i = 0; i < count; i++) {
        buf_printf(out,
                   "%s{\"name\":\"%s\",%s[{\"apiGroups\":[\"%s\"],\"resources\":[\"%s\"],"
                   "\"verbs\":[\"%s\"],\"namespaces\":[\"%s\"]}]%s}",
                   i == 0 ? "" : ",", rows[i].name, before, rows[i].group, rows[i].resource,
                   rows[i].verb, rows[i].namespace, after);
    }
}

static struct traffic *parse(const struct buf *text)
{
    struct err e = ERR_INIT;
    struct traffic *t = traffic_parse((const char *)buf_data(text), text->len, &e);
    if (t == NULL) {
        fail_msg("%.*s: %s", (int)text->len, (const char *)buf_data(text), e.msg);
    }
    return t;
}

/* The same rows as a breaker's and as faults. */
static struct traffic *make(const struct row *rows, size_t count)
{
    struct buf text = BUF_INIT(1 << 20);
    buf_append_str(&text, HEAD
                   "\"breakers\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"rateLimitings\":[");
    write_rows(&text, rows, count, "\"triggerPolicy\":\"ForceOpened\",\"resourceRules\":", "");
    buf_append_str(&text,
                   "]}}],\"faults\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"httpFault\":[");
    write_rows(
        &text, rows, count,
        "\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"},\"match\":{\"resources\":", "}");
    buf_append_str(&text, "]}}]}}");
    assert_int_equal(buf_error(&text), 0);
    struct traffic *t = parse(&text);
    buf_reset(&text);
    return t;
}

static struct traffic_request ask(const char *namespace, const char *group, const char *resource,
                                  const char *subresource, const char *verb)
{
    return (struct traffic_request){.namespace = slice_str(namespace),
                                    .group = slice_str(group),
                                    .resource = slice_str(resource),
                                    .subresource = slice_str(subresource),
                                    .verb = slice_str(verb)};
}

/* The names of what was found, in order. */
static const char *limitings(const struct traffic *t, const struct traffic_request *r)
{
    static char names[256];
    struct traffic_active a;
    struct traffic_found found;
    names[0] = '\0';
    traffic_active_set(&a, t, NULL, 0);
    traffic_find_limitings(t, &a, r, &found);
    for (size_t i = 0; i < found.count; i++) {
        (void)strcat(strcat(names, i == 0 ? "" : " "),
                     traffic_limiting_at(t, found.index[i])->name);
    }
    return names;
}

static const char *faults(const struct traffic *t, const struct traffic_request *r)
{
    static char names[256];
    struct traffic_active a;
    struct traffic_found found;
    names[0] = '\0';
    traffic_active_set(&a, t, NULL, 0);
    traffic_find_faults(t, &a, r, &found);
    for (size_t i = 0; i < found.count; i++) {
        (void)strcat(strcat(names, i == 0 ? "" : " "), traffic_fault_at(t, found.index[i])->name);
    }
    return names;
}

/* All 16, from the most specific: each decides as long as no better one is there. */
static const struct row ladder[] = {
    {"0", "n", "g", "r", "get"},  {"n", "*", "g", "r", "get"},  {"g", "n", "*", "r", "get"},
    {"r", "n", "g", "*", "get"},  {"get", "n", "g", "r", "*"},  {"ng", "*", "*", "r", "get"},
    {"nr", "*", "g", "*", "get"}, {"gr", "n", "*", "*", "get"}, {"nv", "*", "g", "r", "*"},
    {"gv", "n", "*", "r", "*"},   {"rv", "n", "g", "*", "*"},   {"ngr", "*", "*", "*", "get"},
    {"ngv", "*", "*", "r", "*"},  {"nrv", "*", "g", "*", "*"},  {"grv", "n", "*", "*", "*"},
    {"ngrv", "*", "*", "*", "*"},
};

static void most_specific(void **state)
{
    (void)state;
    struct traffic_request r = ask("n", "g", "r", "", "get");
    for (size_t from = 0; from < ARRAY_LEN(ladder); from++) {
        struct row rows[ARRAY_LEN(ladder)];
        size_t count = ARRAY_LEN(ladder) - from;
        for (size_t i = 0; i < count; i++) {
            rows[i] = ladder[ARRAY_LEN(ladder) - 1 - i];
        }
        struct traffic *t = make(rows, count);
        assert_string_equal(limitings(t, &r), ladder[from].name);
        traffic_unref(t);
    }
}

static void several_of_one_key(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"b", "n", "g", "r", "get"}, {"wide", "*", "g", "r", "get"}, {"a", "n", "g", "r", "get"}};
    struct traffic *t = make(rows, ARRAY_LEN(rows));
    struct traffic_request r = ask("n", "g", "r", "", "get");
    assert_string_equal(limitings(t, &r), "b a"); /* as the policy lists them */
    assert_string_equal(faults(t, &r), "b wide a");
    traffic_unref(t);
}

static void nothing_matches(void **state)
{
    (void)state;
    static const struct row rows[] = {{"x", "n", "g", "r", "get"}};
    static const char *const asked[][4] = {
        {"n2", "g", "r", "get"}, {"n", "g2", "r", "get"}, {"n", "g", "r2", "get"},
        {"n", "g", "r", "v2"},   {"", "g", "r", "get"},   {"n", "", "r", "get"},
        {"n", "g", "", "get"},   {"n", "g", "r", ""},     {"N", "g", "r", "get"},
        {"*", "g", "r", "get"},  {"n", "g", "*", "get"},
    };
    struct traffic *t = make(rows, 1);
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        struct traffic_request r = ask(asked[i][0], asked[i][1], asked[i][2], "", asked[i][3]);
        assert_string_equal(limitings(t, &r), "");
        assert_string_equal(faults(t, &r), "");
    }
    struct traffic_request nul = {
        .namespace = {"n\0", 2}, .group = SLICE("g"), .resource = SLICE("r"), .verb = SLICE("get")};
    assert_string_equal(limitings(t, &nul), "");
    traffic_unref(t);
}

static void belongs_to_none(void **state)
{
    (void)state;
    static const struct row rows[] = {{"none", "", "", "nodes", "get"},
                                      {"any", "*", "", "nodes", "get"}};
    struct traffic *t = make(rows, ARRAY_LEN(rows));
    struct traffic_request r = ask("", "", "nodes", "", "get");
    assert_string_equal(limitings(t, &r), "none");
    r = ask("n", "", "nodes", "", "get");
    assert_string_equal(limitings(t, &r), "any");
    traffic_unref(t);
}

static void subresources(void **state)
{
    (void)state;
    static const struct row rows[] = {{"pods", "*", "", "pods", "create"},
                                      {"eviction", "*", "", "pods/eviction", "create"},
                                      {"all-exec", "*", "", "*/exec", "create"},
                                      {"all", "*", "", "*", "create"}};
    static const struct {
        const char *resource;
        const char *subresource;
        const char *limiting;
        const char *fault;
    } cases[] = {
        {"pods", "", "pods", "pods all"},
        {"pods", "eviction", "eviction", "pods eviction all"},
        {"pods", "exec", "all-exec", "pods all-exec all"},
        {"pods", "binding", "pods", "pods all"},
        {"x", "exec", "all-exec", "all-exec all"},
        {"x", "", "all", "all"},
        {"x", "eviction", "all", "all"},
    };
    struct traffic *t = make(rows, ARRAY_LEN(rows));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct traffic_request r = ask("n", "", cases[i].resource, cases[i].subresource, "create");
        assert_string_equal(limitings(t, &r), cases[i].limiting);
        assert_string_equal(faults(t, &r), cases[i].fault);
    }
    traffic_unref(t);
}

/* What has two verbs meets the rules for either, each once. */
static void two_verbs(void **state)
{
    (void)state;
    static const struct row rows[] = {{"get", "*", "", "pods/exec", "get"},
                                      {"create", "*", "", "pods/exec", "create"},
                                      {"delete", "*", "", "pods/exec", "delete"},
                                      {"any", "*", "", "pods/exec", "*"},
                                      {"attach", "*", "", "pods/attach", "create"}};
    static const struct {
        const char *subresource;
        const char *verb;
        const char *or_verb;
        const char *limiting;
        const char *fault;
    } cases[] = {
        {"exec", "get", "create", "get create", "get create any"},
        {"exec", "create", "get", "get create", "get create any"},
        {"exec", "get", "", "get", "get any"},
        {"exec", "patch", "update", "any", "any"},
        {"attach", "get", "create", "attach", "attach"},
        {"attach", "create", "get", "attach", "attach"},
        {"attach", "get", "", "", ""},
    };
    struct traffic *t = make(rows, ARRAY_LEN(rows));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct traffic_request r = ask("n", "", "pods", cases[i].subresource, cases[i].verb);
        r.or_verb = slice_str(cases[i].or_verb);
        assert_string_equal(limitings(t, &r), cases[i].limiting);
        assert_string_equal(faults(t, &r), cases[i].fault);
    }
    traffic_unref(t);
}

/* What only rules are for that name it: no `*`, in either place. */
static void named_only(void **state)
{
    (void)state;
    static const struct row wide[] = {{"all", "*", "*", "*", "*"},
                                      {"sub", "*", "*", "*/status", "*"}};
    static const struct row named[] = {{"all", "*", "*", "*", "*"},
                                       {"leases", "*", "*", "leases", "*"}};
    struct traffic_request r = ask("n", "coordination.k8s.io", "leases", "status", "update");
    r.named_only = true;
    struct traffic *t = make(wide, ARRAY_LEN(wide));
    assert_string_equal(limitings(t, &r), "");
    assert_string_equal(faults(t, &r), "");
    traffic_unref(t);
    t = make(named, ARRAY_LEN(named));
    assert_string_equal(limitings(t, &r), "leases");
    assert_string_equal(faults(t, &r), "leases");
    r.named_only = false;
    assert_string_equal(faults(t, &r), "all leases");
    traffic_unref(t);
}

/* Of faults a list that is left out is any; of several resource rules of one fault, it is met once.
 */
static void open_lists(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(4096);
    buf_append_str(&text,
                   HEAD "\"faults\":[{\"name\":\"p\",\"spec\":{\"selector\":{},\"httpFault\":["
                        "{\"name\":\"any\",\"match\":{\"resources\":[{},{\"verbs\":[\"list\"]}]},"
                        "\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"}},"
                        "{\"name\":\"lists\",\"match\":{\"resources\":[{\"verbs\":[\"list\"]}]},"
                        "\"abort\":{\"httpStatus\":503,\"percent\":\"0.0001\"}}]}}]}}");
    struct traffic *t = parse(&text);
    struct traffic_request r = ask("n", "g", "r", "", "list");
    assert_string_equal(faults(t, &r), "any lists");
    r = ask("", "g", "r", "s", "get");
    assert_string_equal(faults(t, &r), "any");
    r.named_only = true;
    assert_string_equal(faults(t, &r), "");
    traffic_unref(t);
    buf_reset(&text);
}

static void by_the_pods_labels(void **state)
{
    (void)state;
    static const char rule[] = "{\"name\":\"r\",\"triggerPolicy\":\"ForceOpened\","
                               "\"resourceRules\":[{\"apiGroups\":[\"*\"],"
                               "\"resources\":[\"*\"],\"verbs\":[\"*\"],\"namespaces\":[\"*\"]}]}";
    struct buf text = BUF_INIT(4096);
    buf_printf(&text,
               HEAD
               "\"breakers\":[{\"name\":\"a\",\"spec\":{\"selector\":{\"matchLabels\":{\"app\":"
               "\"a\"}},\"rateLimitings\":[%s]}},"
               "{\"name\":\"b\",\"spec\":{\"selector\":{\"matchExpressions\":[{\"key\":\"app\","
               "\"operator\":\"NotIn\",\"values\":[\"a\"]}]},\"rateLimitings\":[%s]}}]}}",
               rule, rule);
    struct traffic *t = parse(&text);
    struct selector_label label = {SLICE("app"), SLICE("a")};
    struct traffic_request r = ask("n", "", "pods", "", "get");
    struct traffic_active a;
    struct traffic_found found;
    assert_true(traffic_policy_selects(traffic_policy_at(t, 0), &label, 1));
    assert_false(traffic_policy_selects(traffic_policy_at(t, 1), &label, 1));
    traffic_active_set(&a, t, &label, 1);
    assert_true(a.any_limiting);
    assert_false(a.any_fault);
    traffic_find_limitings(t, &a, &r, &found);
    assert_int_equal(found.count, 1);
    assert_string_equal(traffic_limiting_at(t, found.index[0])->policy->name, "a");
    traffic_find_faults(t, &a, &r, &found);
    assert_int_equal(found.count, 0);
    traffic_active_set(&a, t, NULL, 0);
    traffic_find_limitings(t, &a, &r, &found);
    assert_string_equal(traffic_limiting_at(t, found.index[0])->policy->name, "b");
    traffic_unref(t);
    buf_reset(&text);
}

/* Over the words of the sets: 200 rules, each for a namespace of its own. */
static void many_rules(void **state)
{
    (void)state;
    struct row rows[200];
    char names[200][8];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(names[i], sizeof names[i], "n%zu", i);
        rows[i] = (struct row){names[i], names[i], "", "pods", "*"};
    }
    struct traffic *t = make(rows, ARRAY_LEN(rows));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct traffic_request r = ask(names[i], "", "pods", "", "get");
        assert_string_equal(limitings(t, &r), names[i]);
        assert_string_equal(faults(t, &r), names[i]);
    }
    traffic_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_specific),      cmocka_unit_test(several_of_one_key),
        cmocka_unit_test(nothing_matches),    cmocka_unit_test(belongs_to_none),
        cmocka_unit_test(subresources),       cmocka_unit_test(two_verbs),
        cmocka_unit_test(named_only),         cmocka_unit_test(open_lists),
        cmocka_unit_test(by_the_pods_labels), cmocka_unit_test(many_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
