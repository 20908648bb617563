/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/buf.h"
#include "guard/fence.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NS_KEY "ctrlmesh.kusionstack.io/namespace"
#define HASH_KEY "ctrlmesh.kusionstack.io/sharding-hash"

/* sharding_hash of the namespaces below */
#define HASH_A "1" /* of "a" */
#define HASH_B "2" /* of "b" */

static struct rules *make(unsigned generation, const char *limits, const char *labels)
{
    char text[2048];
    struct err e = ERR_INIT;
    int n = snprintf(text, sizeof text,
                     "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\","
                     "\"shard\":{\"namespace\":\"ops\",\"name\":\"shard-a\"},\"generation\":%u,"
                     "\"spec\":{\"labels\":{%s},\"limits\":[%s]}}",
                     generation, labels, limits);
    assert_in_range(n, 1, sizeof text - 1);
    struct rules *r = rules_parse(text, (size_t)n, &e);
    if (r == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return r;
}

/* Pods are limited by `selector`. */
static struct rules *limit_pods(unsigned generation, const char *selector)
{
    char limit[1024];
    (void)snprintf(limit, sizeof limit,
                   "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"%s\"}", selector);
    return make(generation, limit, "");
}

static bool asks(const struct rules *r, const char *method, const char *target)
{
    struct request_info ri;
    assert_int_equal(request_info_parse(&ri, slice_str(method), slice_str(target), NULL), 0);
    bool applies = fence_applies(r, &ri);
    request_info_deinit(&ri);
    return applies;
}

static void expect_read(const struct rules *r, const char *method, const char *target, bool fenced)
{
    struct request_info ri;
    assert_int_equal(request_info_parse(&ri, slice_str(method), slice_str(target), NULL), 0);
    if (fence_applies_to_read(r, &ri) != fenced) {
        fail_msg("%s %s: %s", method, target, fenced ? "passes" : "is fenced");
    }
    request_info_deinit(&ri);
}

static void expect(const struct rules *r, const char *method, const char *target, bool fenced)
{
    if (asks(r, method, target) != fenced) {
        fail_msg("%s %s: %s", method, target, fenced ? "passes" : "is fenced");
    }
}

static void write_by_selector(const char *selector, const char *namespace, bool fenced)
{
    char target[256];
    struct rules *r = limit_pods(1, selector);
    (void)snprintf(target, sizeof target, "/api/v1/namespaces/%s/pods/web-0", namespace);
    if (asks(r, "DELETE", target) != fenced) {
        fail_msg("%s: namespace %s %s", selector, namespace, fenced ? "passes" : "is fenced");
    }
    rules_unref(r);
}

static void every_operator_on_the_namespace(void **state)
{
    (void)state;
    write_by_selector(NS_KEY " in (a,c)", "a", false);
    write_by_selector(NS_KEY " in (a,c)", "b", true);
    write_by_selector(NS_KEY "=a", "a", false);
    write_by_selector(NS_KEY "=a", "b", true);
    write_by_selector(NS_KEY "==a", "a", false);
    write_by_selector(NS_KEY "==a", "b", true);
    write_by_selector(NS_KEY "!=a", "a", true);
    write_by_selector(NS_KEY "!=a", "b", false);
    write_by_selector(NS_KEY " notin (a,c)", "a", true);
    write_by_selector(NS_KEY " notin (a,c)", "b", false);
    write_by_selector(NS_KEY ">5", "6", false);
    write_by_selector(NS_KEY ">5", "5", true);
    write_by_selector(NS_KEY ">5", "six", true);
    write_by_selector(NS_KEY "<5", "4", false);
    write_by_selector(NS_KEY "<5", "5", true);
    /* what is not in the values, but begins like one of them */
    write_by_selector(NS_KEY " in (a)", "aa", true);
    write_by_selector(NS_KEY " in (aa)", "a", true);
}

/* There the label is the namespace's name, for all shards that list it. */
static void shared_namespaces_are_listed_by_name(void **state)
{
    (void)state;
    write_by_selector(HASH_KEY " in (" HASH_A ",ops)", "ops", false);
    write_by_selector(HASH_KEY "=ops", "ops", false);
    write_by_selector(HASH_KEY " in (" HASH_A ",ops)", "a", false);
    write_by_selector(HASH_KEY " in (" HASH_A ",ops)", "b", true);
    write_by_selector(HASH_KEY " in (" HASH_A ")", "ops", true);
    /* not listed, though it is another text than the hash */
    write_by_selector(HASH_KEY " notin (" HASH_B ")", "b", true);
    write_by_selector(HASH_KEY " != " HASH_B, "b", true);
    /* namespace "3", whose hash is 19, cannot be shared: 3 is a hash */
    write_by_selector(HASH_KEY " in (3)", "3", true);
    write_by_selector(HASH_KEY " in (19)", "3", false);
    write_by_selector(HASH_KEY " in (32)", "32", false);
}

static void every_operator_on_the_hash(void **state)
{
    (void)state;
    write_by_selector(HASH_KEY " in (0," HASH_A ")", "a", false);
    write_by_selector(HASH_KEY " in (0," HASH_A ")", "b", true);
    write_by_selector(HASH_KEY "=" HASH_A, "a", false);
    write_by_selector(HASH_KEY "=" HASH_A, "b", true);
    write_by_selector(HASH_KEY "==" HASH_A, "b", true);
    write_by_selector(HASH_KEY "!=" HASH_A, "a", true);
    write_by_selector(HASH_KEY " notin (" HASH_A ")", "a", true);
    write_by_selector(HASH_KEY " notin (" HASH_A ")", "b", false);
    write_by_selector(HASH_KEY ">" HASH_A, "a", true);
    write_by_selector(HASH_KEY ">" HASH_A, "b", false);
    write_by_selector(HASH_KEY "<" HASH_B, "a", false);
    write_by_selector(HASH_KEY "<" HASH_B, "b", true);
    /* two digits: "z" hashes to 26 */
    write_by_selector(HASH_KEY " in (2,6)", "z", true);
    write_by_selector(HASH_KEY " in (26)", "z", false);
}

static void all_requirements_count(void **state)
{
    (void)state;
    write_by_selector(NS_KEY " in (a,b)," NS_KEY " in (b,c)", "a", true);
    write_by_selector(NS_KEY " in (a,b)," NS_KEY " in (b,c)", "b", false);
    write_by_selector(NS_KEY " in (a,b)," HASH_KEY "=" HASH_A, "a", false);
    write_by_selector(NS_KEY " in (a,b)," HASH_KEY "=" HASH_A, "b", true);
    write_by_selector("app=x," NS_KEY "=a,zone", "a", false);
    write_by_selector("app=x," NS_KEY "=a,zone", "b", true);
}

static void what_cannot_be_decided_passes(void **state)
{
    (void)state;
    write_by_selector(NS_KEY, "a", false);
    write_by_selector("!" NS_KEY, "a", false);
    write_by_selector(HASH_KEY, "a", false);
    write_by_selector("!" HASH_KEY, "a", false);
    write_by_selector("app=x,!legacy,tier in (a,b)", "a", false);
    write_by_selector("ctrlmesh.kusionstack.io/control=true", "a", false);
    write_by_selector("app!=a,app!=b,app notin (c)", "a", false);
    write_by_selector("app,app!=b,app>3", "a", false);
    write_by_selector("app in (1,5),app>3,app!=1", "a", false);
    write_by_selector("!app,app!=b", "a", false);
}

static void a_limit_that_matches_nothing_fences_all(void **state)
{
    (void)state;
    write_by_selector("k,!k", "a", true);
    write_by_selector("a=b,k,!k,x=y", "a", true);
    write_by_selector(NS_KEY ",!" NS_KEY, "a", true);
    write_by_selector(NS_KEY "=a,!" NS_KEY, "a", true);
    write_by_selector("!k,k=v", "a", true);
    write_by_selector("!k,k>1", "a", true);
    write_by_selector("k=v,k=w", "a", true);
    write_by_selector("k in (v,w),k notin (v,w,x)", "a", true);
    write_by_selector("k in (1,2),k>2", "a", true);
}

static void writes_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *target;
        bool fenced;
    } cases[] = {
        {"POST", "/api/v1/namespaces/b/pods", true},
        {"PUT", "/api/v1/namespaces/b/pods/x", true},
        {"PATCH", "/api/v1/namespaces/b/pods/x?fieldManager=me", true},
        {"DELETE", "/api/v1/namespaces/b/pods/x", true},
        {"DELETE", "/api/v1/namespaces/b/pods?labelSelector=x", true},
        {"PUT", "/api/v1/namespaces/b/pods/x/status", true},
        {"PATCH", "/api/v1/namespaces/b/pods/x/ephemeralcontainers", true},
        {"POST", "/api/v1/namespaces/b/pods/x/eviction", true},
        {"POST", "/api/v1/namespaces/b/pods/x/binding", true},
        {"POST", "/api/v1/namespaces/b/pods/x/exec?command=ls", true},
        {"GET", "/api/v1/namespaces/b/pods/x/exec?command=ls", true},
        {"GET", "/api/v1/namespaces/b/pods/x/attach", true},
        {"GET", "/api/v1/namespaces/b/pods/x/portforward", true},
        {"POST", "/api/v1/namespaces/b/pods/x/proxy/do", true},
        {"PUT", "/api/v1/namespaces/%62/pods/x", true},
        {"GET", "/api/v1/namespaces/b/pods/x", false},
        {"GET", "/api/v1/namespaces/b/pods/x/log", false},
        {"GET", "/api/v1/namespaces/b/pods/x/proxy/", false},
        {"GET", "/api/v1/namespaces/b/pods", false},
        {"GET", "/api/v1/namespaces/b/pods?watch=1", false},
        {"GET", "/api/v1/watch/namespaces/b/pods", false},
        {"OPTIONS", "/api/v1/namespaces/b/pods", false},
        /* not limited */
        {"PUT", "/api/v1/namespaces/b/services/x", false},
        {"PUT", "/apis/metrics.k8s.io/v1/namespaces/b/pods/x", false},
        {"PUT", "/version", false},
    };
    struct rules *r = limit_pods(1, NS_KEY "=a");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect(r, cases[i].method, cases[i].target, cases[i].fenced);
    }
    expect(r, "PUT", "/api/v1/namespaces/a/pods/x/status", false);
    expect(r, "POST", "/api/v1/namespaces/a/pods", false);
    rules_unref(r);
}

static void reads_of_one_object_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *target;
        bool fenced;
    } cases[] = {
        {"GET", "/api/v1/namespaces/b/pods/x", true},
        {"HEAD", "/api/v1/namespaces/b/pods/x", true},
        {"GET", "/api/v1/namespaces/b/pods/x?watch=1", true}, /* of a name it is a get */
        {"GET", "/api/v1/namespaces/b/pods/x/log?follow=true", true},
        {"GET", "/api/v1/namespaces/b/pods/x/status", true},
        {"GET", "/api/v1/namespaces/b/pods/x/proxy/metrics", true},
        {"GET", "/api/v1/namespaces/%62/pods/x", true},
        {"GET", "/api/v1/proxy/namespaces/b/pods/x", true},
        {"POST", "/api/v1/proxy/namespaces/b/pods/x", true},
        /* narrowed */
        {"GET", "/api/v1/namespaces/b/pods", false},
        {"GET", "/api/v1/namespaces/b/pods?watch=1", false},
        {"GET", "/api/v1/namespaces/b/pods?fieldSelector=metadata.name%3Dx", false},
        {"GET", "/api/v1/watch/namespaces/b/pods/x", false},
        {"GET", "/api/v1/pods", false},
        /* the other fence's */
        {"GET", "/api/v1/namespaces/b/pods/x/exec?command=ls", false},
        {"GET", "/api/v1/namespaces/b/pods/x/attach", false},
        {"GET", "/api/v1/namespaces/b/pods/x/portforward", false},
        {"PUT", "/api/v1/namespaces/b/pods/x", false},
        {"DELETE", "/api/v1/namespaces/b/pods/x", false},
        {"POST", "/api/v1/namespaces/b/pods/x/proxy/do", false},
        /* not limited, in no namespace, of no resource */
        {"GET", "/api/v1/namespaces/b/services/x", false},
        {"GET", "/api/v1/namespaces/b", false},
        {"GET", "/version", false},
    };
    struct rules *r = limit_pods(1, NS_KEY "=a");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_read(r, cases[i].method, cases[i].target, cases[i].fenced);
        expect_read(NULL, cases[i].method, cases[i].target, false);
    }
    expect_read(r, "GET", "/api/v1/namespaces/a/pods/x", false);
    expect_read(r, "GET", "/api/v1/namespaces/a/pods/x/log", false);
    rules_unref(r);
    r = make(1, "{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"selector\":\"" NS_KEY "=a\"}", "");
    expect_read(r, "GET", "/api/v1/nodes/n", false);
    expect_read(r, "GET", "/api/v1/namespaces/b", false);
    expect_read(r, "GET", "/apis/apps/v1/namespaces/b/deployments/x/scale", true);
    rules_unref(r);
    r = limit_pods(1, "k,!k");
    expect_read(r, "GET", "/api/v1/namespaces/a/pods/x", true);
    rules_unref(r);
    r = limit_pods(1, "app=x");
    expect_read(r, "GET", "/api/v1/namespaces/a/pods/x", false);
    rules_unref(r);
}

static void wildcards(void **state)
{
    (void)state;
    struct rules *r =
        make(1, "{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"selector\":\"" NS_KEY "=a\"}", "");
    expect(r, "PATCH", "/apis/apps/v1/namespaces/b/deployments/x/scale", true);
    expect(r, "PATCH", "/apis/apps/v1/namespaces/a/deployments/x/scale", false);
    expect(r, "POST", "/api/v1/namespaces/b/events", true);
    /* what has no namespace, and namespaces themselves, though they are limited */
    expect(r, "POST", "/api/v1/nodes", false);
    expect(r, "PATCH", "/api/v1/nodes/n", false);
    expect(r, "DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles", false);
    expect(r, "POST", "/api/v1/namespaces", false);
    expect(r, "PATCH", "/api/v1/namespaces/b", false);
    expect(r, "DELETE", "/api/v1/namespaces/b", false);
    expect(r, "PUT", "/api/v1/namespaces/b/status", false);
    expect(r, "PUT", "/api/v1/namespaces/b/finalize", false);
    rules_unref(r);
}

static void keys_of_ones_own(void **state)
{
    (void)state;
    struct rules *r =
        make(1,
             "{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"x/ns in (a,b)\"},"
             "{\"apiGroups\":[\"*\"],\"resources\":[\"pods\"],\"selector\":\"x/hash=" HASH_A "," //
             NS_KEY "=c\"}",
             "\"namespace\":\"x/ns\",\"shardHash\":\"x/hash\"");
    expect(r, "POST", "/api/v1/namespaces/a/pods", false);
    expect(r, "POST", "/api/v1/namespaces/b/pods", true);
    expect(r, "POST", "/api/v1/namespaces/c/pods", true);
    rules_unref(r);
}

static void odd_namespaces(void **state)
{
    (void)state;
    char target[512];
    char ns[128];
    memset(ns, 'a', sizeof ns);
    ns[sizeof ns - 1] = '\0';
    (void)snprintf(target, sizeof target, "/api/v1/namespaces/%s/pods/x", ns);
    struct rules *r = limit_pods(1, NS_KEY "=a");
    expect(r, "PUT", target, true);
    rules_unref(r);
    /* no namespace is called so: nothing can be said of its hash, the server will refuse it */
    r = limit_pods(1, HASH_KEY "=0");
    expect(r, "PUT", target, false);
    rules_unref(r);
    r = limit_pods(1, HASH_KEY "!=0");
    expect(r, "PUT", target, false);
    rules_unref(r);
}

static void no_rules_fence_nothing(void **state)
{
    (void)state;
    expect(NULL, "DELETE", "/api/v1/namespaces/b/pods/x", false);
}

static void message_says_what_to_do(void **state)
{
    (void)state;
    struct rules *r = make(
        12, "{\"apiGroups\":[\"apps\"],\"resources\":[\"*\"],\"selector\":\"" NS_KEY "=a\"}", "");
    struct request_info ri;
    struct err e = ERR_INIT;
    struct slice target = SLICE("/apis/apps/v1/namespaces/b/deployments/x/scale");
    assert_int_equal(request_info_parse(&ri, SLICE("PUT"), target, NULL), 0);
    fence_message(r, &ri, false, &e);
    assert_int_equal(e.code, -EACCES);
    assert_string_equal(e.msg,
                        "update of deployments.apps/scale in namespace \"b\" is fenced: by "
                        "generation 12 of the rules this does not belong to shard ops/shard-a; "
                        "widen the limits of the shard's ShardingConfig, or run localproxy with "
                        "--write-fence=audit or off");
    fence_message(r, &ri, true, &e);
    assert_string_equal(e.msg,
                        "update of deployments.apps/scale in namespace \"b\" is fenced: by "
                        "generation 12 of the rules this no longer belongs to shard ops/shard-a; "
                        "another shard may own it now: drop it and do not retry");
    request_info_deinit(&ri);
    assert_int_equal(request_info_parse(&ri, SLICE("GET"), target, NULL), 0);
    fence_message(r, &ri, false, &e);
    assert_string_equal(e.msg,
                        "get of deployments.apps/scale in namespace \"b\" is fenced: by "
                        "generation 12 of the rules this does not belong to shard ops/shard-a; "
                        "widen the limits of the shard's ShardingConfig, or run localproxy with "
                        "--read-fence=audit or off");
    request_info_deinit(&ri);
    rules_unref(r);
}

static bool lost(const struct fence_history *h, const struct rules *now, const char *target,
                 uint64_t now_ms)
{
    struct request_info ri;
    assert_int_equal(request_info_parse(&ri, SLICE("PATCH"), slice_str(target), NULL), 0);
    bool is = fence_lost(h, now, &ri, now_ms);
    request_info_deinit(&ri);
    return is;
}

#define POD_IN(ns) "/api/v1/namespaces/" ns "/pods/x"

/* Puts `r` into the history at `now_ms` and lets go of it. */
static void replace(struct fence_history *h, struct rules *r, uint64_t now_ms)
{
    fence_history_add(h, r, now_ms);
    rules_unref(r);
}

static void lost_is_what_was_the_shards(void **state)
{
    (void)state;
    struct fence_history h;
    fence_history_init(&h);
    struct rules *now = limit_pods(2, NS_KEY "=a");
    assert_false(lost(&h, now, POD_IN("b"), 0));
    replace(&h, limit_pods(1, NS_KEY " in (a,b)"), 1000);
    assert_true(lost(&h, now, POD_IN("b"), 1000));
    assert_false(lost(&h, now, POD_IN("a"), 1000));
    assert_false(lost(&h, now, POD_IN("c"), 1000));
    assert_false(lost(&h, now, "/api/v1/namespaces/b/services/x", 1000));
    assert_false(lost(&h, NULL, POD_IN("b"), 1000));

    /* won back, and lost once more */
    replace(&h, now, 2000);
    now = limit_pods(3, NS_KEY " in (a,b,c)");
    assert_false(lost(&h, now, POD_IN("b"), 2000));
    replace(&h, now, 3000);
    now = limit_pods(4, NS_KEY "=a");
    assert_true(lost(&h, now, POD_IN("b"), 3000));
    assert_true(lost(&h, now, POD_IN("c"), 3000));
    rules_unref(now);
    fence_history_deinit(&h);
}

/* So many limits by the same long list. */
static struct rules *limit_long(unsigned limits)
{
    enum { NAMES = 600 };
    struct buf text = BUF_INIT(8 << 20);
    struct err e = ERR_INIT;
    buf_append_str(&text, "{\"apiVersion\":\"cmesh/v2\",\"kind\":\"ShardRules\",\"shard\":{"
                          "\"namespace\":\"n\",\"name\":\"s\"},\"generation\":1,\"spec\":{"
                          "\"selectors\":[\"" NS_KEY " in (b");
    for (unsigned i = 0; i < NAMES; i++) {
        buf_printf(&text, ",namespace-%u", i);
    }
    buf_append_str(&text, ")\"");
    for (unsigned i = 1; i < limits; i++) {
        buf_printf(&text, ",\"k%u\"", i);
    }
    buf_append_str(&text, "],\"limits\":[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],"
                          "\"selector\":0}");
    for (unsigned i = 1; i < limits; i++) {
        buf_printf(&text, ",{\"apiGroups\":[\"\"],\"resources\":[\"r%u\"],\"selector\":%u}", i, i);
    }
    buf_append_str(&text, "]}}");
    struct rules *r = rules_parse(buf_cstr(&text), text.len, &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    buf_reset(&text);
    return r;
}

/* What it was sent for queries is most of it, and needed no more. */
static void what_is_past_is_small(void **state)
{
    (void)state;
    struct fence_history h;
    fence_history_init(&h);
    struct rules *old = limit_long(60);
    struct rules *now = limit_pods(2, NS_KEY "=a");
    assert_true(rules_match(old, SLICE(""), SLICE("r1"))->escaped.len > 0);
    replace(&h, old, 0);
    assert_int_equal(rules_match(h.past[0].rules, SLICE(""), SLICE("r1"))->escaped.len, 0);
    assert_true(lost(&h, now, POD_IN("b"), 0));
    assert_false(lost(&h, now, POD_IN("c"), 0));
    rules_unref(now);
    fence_history_deinit(&h);
}

static void what_became_limited_is_lost(void **state)
{
    (void)state;
    struct fence_history h;
    fence_history_init(&h);
    replace(&h, make(1, "", ""), 0);
    struct rules *now = limit_pods(2, NS_KEY "=a");
    assert_true(lost(&h, now, POD_IN("b"), 0));
    assert_false(lost(&h, now, POD_IN("a"), 0));
    rules_unref(now);
    fence_history_deinit(&h);
}

static void forgotten_after_a_while(void **state)
{
    (void)state;
    struct fence_history h;
    fence_history_init(&h);
    struct rules *now = limit_pods(3, NS_KEY "=a");
    replace(&h, limit_pods(1, NS_KEY "=b"), 1000);
    replace(&h, limit_pods(2, NS_KEY "=c"), 2000);
    assert_true(lost(&h, now, POD_IN("b"), 1000 + FENCE_HISTORY_MS));
    assert_false(lost(&h, now, POD_IN("b"), 1001 + FENCE_HISTORY_MS));
    assert_true(lost(&h, now, POD_IN("c"), 1001 + FENCE_HISTORY_MS));
    fence_history_add(&h, NULL, 1001 + FENCE_HISTORY_MS);
    assert_int_equal(h.count, 1);
    fence_history_add(&h, NULL, 2001 + FENCE_HISTORY_MS);
    assert_int_equal(h.count, 0);
    rules_unref(now);
    fence_history_deinit(&h);
}

static void bounded_and_the_oldest_goes(void **state)
{
    (void)state;
    struct fence_history h;
    fence_history_init(&h);
    struct rules *now = limit_pods(100, NS_KEY "=a");
    replace(&h, limit_pods(1, NS_KEY "=b"), 0);
    for (unsigned i = 0; i < FENCE_HISTORY_MAX - 1; i++) {
        char selector[128];
        (void)snprintf(selector, sizeof selector, NS_KEY "=ns-%u", i);
        replace(&h, limit_pods(i + 2, selector), i + 1);
    }
    assert_int_equal(h.count, FENCE_HISTORY_MAX);
    assert_true(lost(&h, now, POD_IN("b"), 20));
    replace(&h, limit_pods(50, NS_KEY "=c"), 20);
    assert_int_equal(h.count, FENCE_HISTORY_MAX);
    assert_false(lost(&h, now, POD_IN("b"), 20));
    assert_true(lost(&h, now, POD_IN("ns-0"), 20));
    assert_true(lost(&h, now, POD_IN("c"), 20));
    rules_unref(now);
    fence_history_deinit(&h);
}

static void the_same_rules_take_one_place(void **state)
{
    (void)state;
    struct fence_history h;
    fence_history_init(&h);
    replace(&h, limit_pods(1, NS_KEY "=b"), 0);
    for (unsigned i = 0; i < 40; i++) {
        replace(&h, limit_pods(i + 2, i % 2 == 0 ? NS_KEY "=c" : NS_KEY "=d"), i);
    }
    assert_int_equal(h.count, 3);
    struct rules *now = limit_pods(100, NS_KEY "=a");
    assert_true(lost(&h, now, POD_IN("b"), 40));
    /* counted from the last time they were in force */
    assert_false(lost(&h, now, POD_IN("b"), 38 + FENCE_HISTORY_MS));
    assert_true(lost(&h, now, POD_IN("c"), 38 + FENCE_HISTORY_MS));
    assert_false(lost(&h, now, POD_IN("c"), 39 + FENCE_HISTORY_MS));
    assert_true(lost(&h, now, POD_IN("d"), 39 + FENCE_HISTORY_MS));
    rules_unref(now);
    fence_history_deinit(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_on_the_namespace),
        cmocka_unit_test(shared_namespaces_are_listed_by_name),
        cmocka_unit_test(every_operator_on_the_hash),
        cmocka_unit_test(all_requirements_count),
        cmocka_unit_test(what_cannot_be_decided_passes),
        cmocka_unit_test(a_limit_that_matches_nothing_fences_all),
        cmocka_unit_test(writes_and_nothing_else),
        cmocka_unit_test(reads_of_one_object_and_nothing_else),
        cmocka_unit_test(wildcards),
        cmocka_unit_test(keys_of_ones_own),
        cmocka_unit_test(odd_namespaces),
        cmocka_unit_test(no_rules_fence_nothing),
        cmocka_unit_test(message_says_what_to_do),
        cmocka_unit_test(lost_is_what_was_the_shards),
        cmocka_unit_test(what_became_limited_is_lost),
        cmocka_unit_test(what_is_past_is_small),
        cmocka_unit_test(forgotten_after_a_while),
        cmocka_unit_test(bounded_and_the_oldest_goes),
        cmocka_unit_test(the_same_rules_take_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
