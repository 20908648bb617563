/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "codec/list_meta.h"
#include "upstream/request_attributes.h"

static const char *const named[] = {"/apis/g/v1/clusterextensions/*/proxy"};
static const struct api_prefixes prefixes = {named, 1};

static void read_request(const char *method, const char *target, struct request_attributes *s)
{
    static struct request_info ri;
    struct err e = ERR_INIT;
    assert_int_equal(
        request_info_parse_behind(&ri, &prefixes, slice_str(method), slice_str(target), &e), 0);
    request_attributes_read(s, &ri);
    request_info_deinit(&ri);
}

static uint64_t view_of(const char *target)
{
    struct request_attributes s;
    read_request("GET", target, &s);
    return s.key.view;
}

static void test_list_and_watch_of_one_client_are_one_view(void **state)
{
    (void)state;
    uint64_t view = view_of("/api/v1/namespaces/n/pods?limit=500&labelSelector=a%3Db");
    assert_int_equal(view, view_of("/api/v1/namespaces/n/pods?watch=1&labelSelector=a%3Db"
                                   "&resourceVersion=7&allowWatchBookmarks=true"));
    assert_int_equal(view, view_of("/api/v1/watch/namespaces/n/pods?labelSelector=a%3Db"));
    assert_int_not_equal(view, view_of("/api/v1/namespaces/m/pods?labelSelector=a%3Db"));
    assert_int_not_equal(view, view_of("/api/v1/pods?labelSelector=a%3Db"));
    assert_int_not_equal(view, view_of("/api/v1/namespaces/n/secrets?labelSelector=a%3Db"));
    assert_int_not_equal(view, view_of("/api/v1/namespaces/n/pods?labelSelector=a%3Dc"));
    assert_int_not_equal(view, view_of("/api/v1/namespaces/n/pods?fieldSelector=a%3Db"));
    assert_int_not_equal(view, view_of("/api/v1/namespaces/n/pods"));
    /* As the server reads it: decoded, and the first. */
    assert_int_equal(view, view_of("/api/v1/namespaces/n/pods?label%53elector=%61%3db"));
    assert_int_equal(view, view_of("/api/v1/namespaces/n/pods?labelSelector=a=b&labelSelector=c"));
    const char *half = "/api/v1/namespaces/n/pods?labelSelector=a=b&shardSelector=shardRange()";
    assert_int_not_equal(view, view_of(half));
    assert_int_equal(view_of(half), view_of("/api/v1/namespaces/n/pods?watch=1&labelSelector=a%3Db"
                                            "&shardSelector=shardRange%28%29"));
}

static bool answers_object(const char *method, const char *target)
{
    struct request_attributes s;
    read_request(method, target, &s);
    return s.object;
}

static void test_which_answers_are_the_object_that_was_written(void **state)
{
    (void)state;
    assert_true(answers_object("POST", "/api/v1/namespaces/n/pods"));
    assert_true(answers_object("PATCH", "/api/v1/namespaces/n/pods/p"));
    assert_true(answers_object("DELETE", "/api/v1/namespaces/n/pods/p"));
    assert_true(answers_object("PUT", "/apis/apps/v1/namespaces/n/deployments/d/status"));
    assert_false(answers_object("PUT", "/apis/apps/v1/namespaces/n/deployments/d/scale"));
    assert_false(answers_object("POST", "/api/v1/namespaces/n/pods/p/eviction"));
    assert_false(answers_object("DELETE", "/api/v1/namespaces/n/pods"));
}

#define GATEWAY(cluster) "/apis/g/v1/clusterextensions/" cluster "/proxy"

/* What was seen in one cluster is not what is there in another. */
static void test_each_cluster_is_a_view_and_a_resource_of_its_own(void **state)
{
    (void)state;
    static const char *const targets[] = {"/api/v1/pods", GATEWAY("c") "/api/v1/pods",
                                          GATEWAY("d") "/api/v1/pods"};
    struct request_attributes s[ARRAY_LEN(targets)];
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        read_request("GET", targets[i], &s[i]);
        assert_true(slice_eq(s[i].resource, SLICE("pods")));
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(s[i].key.view, s[k].key.view);
            assert_int_not_equal(s[i].key.resource, s[k].key.resource);
        }
    }
    uint64_t view = view_of(GATEWAY("c") "/api/v1/pods?limit=5");
    assert_int_equal(view, s[1].key.view);
    assert_int_equal(view, view_of("/" GATEWAY("%63") "//api/v1/pods?watch=1"));
}

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        uint64_t version;
    } rows[] = {
        {"watch=1", 0},
        {"watch=1&resourceVersion=", 0},
        {"watch=1&resourceVersion=0", 0},
        {"watch=1&resourceVersion=12345", 12345},
        {"watch=1&resourceVersion=18446744073709551615", 1}, /* too large to be one */
        {"watch=1&resourceVersion=abc", 1},
        {"watch=1&resourceVersion=%31%32", 12},
        {"watch=1&resourceVersion=150&resourceVersion=0", 150}, /* the first counts */
        {"watch=1&resourceVersion=&resourceVersion=150", 0},
        {"watch=1&resourceVersion=%zz&resourceVersion=150", 150}, /* that is none */
        {"resourceVersion=12345", 0},                             /* a list shows all there is */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_attributes s;
        char target[128] = "/api/v1/pods?";
        strcat(target, rows[i].query);
        read_request("GET", target, &s);
        assert_int_equal(s.version, rows[i].version);
    }
}

static void test_initial_events_and_pages(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool initial_events;
    } rows[] = {{"=true", true}, {"=1", true},      {"=", true},   {"", true},
                {"=no", true},   {"=false", false}, {"=0", false}, {"=False", false}};
    struct request_attributes s;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char target[128] = "/api/v1/pods?watch=1&sendInitialEvents";
        strcat(target, rows[i].value);
        read_request("GET", target, &s);
        assert_int_equal(s.initial_events, rows[i].initial_events);
    }
    read_request("GET", "/api/v1/pods?limit=5&continue=a%2Bb", &s);
    assert_int_equal(s.page, list_meta_hash(SLICE("a+b")));
    read_request("GET", "/api/v1/pods?limit=5&continue=", &s);
    assert_int_equal(s.page, 0);
}

static void test_lists_of_what_there_is_now(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        bool newest;
    } rows[] = {
        {"limit=5", true},
        {"resourceVersion=&continue=", true},
        {"resourceVersion=0", false},
        {"resource%56ersion=0", false},
        {"resourceVersion=7&resourceVersionMatch=Exact", false},
        {"limit=5&continue=ab", false},
        {"watch=1&sendInitialEvents=true", true},
        {"watch=1&sendInitialEvents=true&resourceVersion=0", false},
        {"resourceVersion=0&resourceVersion=", false}, /* the first counts */
        {"resourceVersion=&resourceVersion=0", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_attributes s;
        char target[128] = "/api/v1/pods?";
        strcat(target, rows[i].query);
        read_request("GET", target, &s);
        assert_int_equal(s.newest, rows[i].newest);
    }
}

static void test_what_it_does(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *target;
        bool selected;
        bool write;
    } rows[] = {
        {"GET", "/api/v1/pods", true, false},
        {"GET", "/api/v1/pods?watch=1", true, false},
        {"GET", "/api/v1/namespaces/n/pods/p", false, false},
        {"DELETE", "/api/v1/namespaces/n/pods", true, true},
        {"DELETE", "/api/v1/namespaces/n/pods/p", false, true},
        {"POST", "/api/v1/namespaces/n/pods", false, true},
        {"PUT", "/api/v1/namespaces/n/pods/p", false, true},
        {"PATCH", "/api/v1/namespaces/n/pods/p/status", false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_attributes s;
        read_request(rows[i].method, rows[i].target, &s);
        assert_int_equal(request_attributes_is_selected(&s), rows[i].selected);
        assert_int_equal(request_verb_is_write(s.verb), rows[i].write);
    }
}

static void test_a_copy_outlives_the_request(void **state)
{
    (void)state;
    char target[] = GATEWAY("c") "/apis/apps/v1/namespaces/n/deployments/d";
    struct request_info ri;
    struct err e = ERR_INIT;
    struct request_attributes s;
    struct request_attributes kept;
    assert_int_equal(request_info_parse_behind(&ri, &prefixes, SLICE("PUT"), slice_str(target), &e),
                     0);
    request_attributes_read(&s, &ri);
    assert_int_equal(request_attributes_keep(&kept, &s), 0);
    request_info_deinit(&ri);
    memset(target, 'x', sizeof target - 1);
    assert_true(slice_eq(kept.gateway, SLICE("apis/g/v1/clusterextensions/c/proxy")));
    struct request_info again;
    request_attributes_to_request_info(&kept, &again);
    assert_true(again.is_resource);
    assert_int_equal(again.verb, VERB_UPDATE);
    assert_true(slice_eq(again.group, SLICE("apps")));
    assert_true(slice_eq(again.resource, SLICE("deployments")));
    assert_true(slice_eq(again.namespace, SLICE("n")));
    assert_true(slice_eq(again.name, SLICE("d")));
    request_attributes_deinit(&kept);
}

static void test_the_selector_is_that_of_the_rules(void **state)
{
    (void)state;
    static const char text[] =
        "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\","
        "\"shard\":{\"namespace\":\"n\",\"name\":\"s\"},\"generation\":1,\"spec\":{\"limits\":[{"
        "\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"a=b\"}]}}";
    struct err e = ERR_INIT;
    struct rules *rules = rules_parse(text, sizeof text - 1, &e);
    struct request_attributes s;
    assert_non_null(rules);
    read_request("GET", "/api/v1/pods", &s);
    assert_int_equal(request_attributes_selector(&s, rules),
                     rules_match(rules, SLICE(""), SLICE("pods"))->id);
    assert_int_equal(request_attributes_selector(&s, NULL), 0);
    read_request("GET", "/api/v1/secrets", &s);
    assert_int_equal(request_attributes_selector(&s, rules), 0);
    rules_unref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_and_watch_of_one_client_are_one_view),
        cmocka_unit_test(test_which_answers_are_the_object_that_was_written),
        cmocka_unit_test(test_each_cluster_is_a_view_and_a_resource_of_its_own),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_initial_events_and_pages),
        cmocka_unit_test(test_lists_of_what_there_is_now),
        cmocka_unit_test(test_what_it_does),
        cmocka_unit_test(test_a_copy_outlives_the_request),
        cmocka_unit_test(test_the_selector_is_that_of_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
