/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/resource_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "json/json.h"

struct world {
    struct resource_table table;
    struct list versions;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    list_init(&w->versions);
    *state = w;
    return 0;
}

static void forget_versions(struct world *w)
{
    while (!list_empty(&w->versions)) {
        struct list *n = w->versions.next;
        list_remove(n);
        free(LIST_ITEM(n, struct resource_version, link));
    }
}

static int teardown(void **state)
{
    struct world *w = *state;
    resource_table_deinit(&w->table);
    forget_versions(w);
    free(w);
    return 0;
}

static int add_root(struct world *w, const char *text)
{
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    int rc = resource_table_add_root(&w->table, root, &w->versions, &e);
    assert_true(rc == 0 || e.msg[0] != '\0');
    cJSON_Delete(root);
    return rc;
}

static int add_list(struct world *w, const char *group, const char *version, unsigned rank,
                    const char *text)
{
    struct resource_version v = {.group = group, .version = version, .rank = rank};
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, strlen(text), NULL);
    assert_non_null(root);
    int rc = resource_table_add_list(&w->table, root, &v, &e);
    cJSON_Delete(root);
    return rc;
}

/* "group/version/plural:Kind[!][*]" for each: `*` preferred, `!` of the cluster. */
static void expect_items(const struct resource_table *t, const char *expected)
{
    struct buf out = BUF_INIT(65536);
    assert_int_equal(buf_append_str(&out, ""), 0);
    for (size_t i = 0; i < t->count; i++) {
        const struct discovery_resource *r = &t->items[i];
        assert_int_equal(buf_printf(&out, "%s/%s/%s:%s%s%s ", r->group, r->version, r->plural,
                                    r->kind, r->namespaced ? "" : "!", r->preferred ? "*" : ""),
                         0);
    }
    assert_string_equal(buf_cstr(&out), expected);
    buf_reset(&out);
}

static void expect_versions(struct world *w, const char *expected)
{
    struct buf out = BUF_INIT(65536);
    LIST_FOR_EACH(n, &w->versions)
    {
        struct resource_version *v = LIST_ITEM(n, struct resource_version, link);
        assert_int_equal(
            buf_printf(&out, "%s/%s@%u%s ", v->group, v->version, v->rank, v->stale ? "?" : ""), 0);
    }
    assert_string_equal(buf_cstr(&out), expected);
    buf_reset(&out);
}

#define PODS                                                                                       \
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":["                        \
    "{\"name\":\"pods\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":["    \
    "\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\","            \
    "\"watch\"],\"shortNames\":[\"po\"]},"                                                         \
    "{\"name\":\"pods/status\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":[\"get\"]},"         \
    "{\"name\":\"namespaces\",\"namespaced\":false,\"kind\":\"Namespace\",\"verbs\":[\"get\","     \
    "\"proxy\"]},"                                                                                 \
    "{\"name\":\"bindings\",\"namespaced\":true,\"kind\":\"Binding\",\"verbs\":[\"create\"]}]}"
#define DEPLOYMENTS                                                                                \
    "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"deployments\",\"namespaced\":true,"  \
    "\"kind\":\"Deployment\",\"verbs\":[\"get\",\"list\"]}]}"

static void test_reads_names(void **state)
{
    struct world *w = *state;
    assert_int_equal(add_root(w, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}"), 0);
    assert_int_equal(
        add_root(w, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":["
                    "{\"name\":\"apps\",\"versions\":[{\"groupVersion\":\"apps/v1\","
                    "\"version\":\"v1\"}],\"preferredVersion\":{\"version\":\"v1\"}},"
                    "{\"name\":\"batch\",\"versions\":[{\"version\":\"v2\"},{\"version\":"
                    "\"v1\"},{\"version\":\"v1beta1\"}],\"preferredVersion\":{\"version\":"
                    "\"v1\"}}]}"),
        0);
    expect_versions(w, "/v1@0 apps/v1@0 batch/v2@1 batch/v1@0 batch/v1beta1@3 ");
    assert_int_equal(w->table.count, 0);
}

static void test_reads_lists(void **state)
{
    struct world *w = *state;
    assert_int_equal(add_list(w, "", "v1", 0, PODS), 0);
    assert_int_equal(add_list(w, "apps", "v1", 0, DEPLOYMENTS), 0);
    assert_int_equal(add_list(w, "apps", "v1beta1", 1, DEPLOYMENTS), 0);
    resource_table_finish(&w->table);
    expect_items(&w->table, "/v1/bindings:Binding* /v1/namespaces:Namespace!* /v1/pods:Pod* "
                            "apps/v1/deployments:Deployment* apps/v1beta1/deployments:Deployment ");
    assert_int_equal(w->table.items[0].verbs, DISCOVERY_CREATE);
    assert_int_equal(w->table.items[1].verbs, DISCOVERY_GET);
    assert_int_equal(w->table.items[2].verbs, 0xff);
    assert_int_equal(w->table.items[3].verbs, DISCOVERY_GET | DISCOVERY_LIST);
}

static void test_reads_all_at_once(void **state)
{
    struct world *w = *state;
    assert_int_equal(
        add_root(w, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":"
                    "\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[{\"metadata\":{"
                    "\"creationTimestamp\":null},\"versions\":[{\"version\":\"v1\","
                    "\"resources\":[{\"resource\":\"pods\",\"responseKind\":{\"group\":\"\","
                    "\"version\":\"v1\",\"kind\":\"Pod\"},\"scope\":\"Namespaced\","
                    "\"singularResource\":\"pod\",\"verbs\":[\"list\"],\"subresources\":["
                    "{\"subresource\":\"status\",\"verbs\":[\"get\"]}]}],\"freshness\":"
                    "\"Current\"}]}]}"),
        0);
    assert_int_equal(
        add_root(w, "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{\"metadata\":{\"name\":"
                    "\"batch\"},\"versions\":["
                    "{\"version\":\"v1\",\"resources\":[{\"resource\":\"jobs\","
                    "\"responseKind\":{\"kind\":\"Job\"},\"scope\":\"Namespaced\"}],"
                    "\"freshness\":\"Current\"},"
                    "{\"version\":\"v1beta1\",\"resources\":[{\"resource\":\"jobs\","
                    "\"responseKind\":{\"kind\":\"Job\"},\"scope\":\"Namespaced\"},"
                    "{\"resource\":\"old\",\"responseKind\":{\"kind\":\"Old\"},\"scope\":"
                    "\"Cluster\"}],\"freshness\":\"Current\"}]},"
                    "{\"metadata\":{\"name\":\"metrics.k8s.io\"},\"versions\":[{\"version\":"
                    "\"v1\",\"freshness\":\"Stale\"}]}]}"),
        0);
    expect_versions(w, "metrics.k8s.io/v1@0? ");
    resource_table_finish(&w->table);
    expect_items(&w->table, "/v1/pods:Pod* batch/v1/jobs:Job* batch/v1beta1/jobs:Job "
                            "batch/v1beta1/old:Old!* ");
}

static void test_leaves_out_what_cannot_be(void **state)
{
    struct world *w = *state;
    assert_int_equal(add_list(w, "", "v1", 0,
                              "{\"kind\":\"APIResourceList\",\"resources\":[7,null,{},"
                              "{\"name\":\"..\",\"kind\":\"K\"},{\"name\":\"a b\",\"kind\":"
                              "\"K\"},{\"name\":\"x\"},{\"name\":\"x\",\"kind\":7},"
                              "{\"name\":\"good\",\"kind\":\"Good\",\"verbs\":[7,null,{}]}]}"),
                     0);
    assert_int_equal(add_list(w, "", "v1", 0, "{\"kind\":\"APIResourceList\"}"), 0);
    assert_int_equal(add_list(w, "", "v1", 0, "{\"kind\":\"APIResourceList\",\"resources\":null}"),
                     0);
    assert_int_equal(
        add_root(w, "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a/b\",\"versions\":["
                    "{\"version\":\"v1\"}]},{\"name\":\"a\",\"versions\":[{\"version\":\"../x\"},"
                    "{},7]},9]}"),
        0);
    assert_int_equal(add_root(w, "{\"kind\":\"APIVersions\",\"versions\":[\"\",\"a/b\",7]}"), 0);
    assert_int_equal(
        add_root(w, "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{\"metadata\":{\"name\":"
                    "\"a b\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":"
                    "\"x\",\"responseKind\":{\"kind\":\"X\"}}]}]},{\"versions\":[{\"version\":"
                    "\"..\",\"resources\":[{\"resource\":\"x\",\"responseKind\":{\"kind\":"
                    "\"X\"}}]}]},{}]}"),
        0);
    expect_versions(w, "");
    resource_table_finish(&w->table);
    expect_items(&w->table, "/v1/good:Good!* ");
}

static void test_refuses_other_documents(void **state)
{
    struct world *w = *state;
    assert_int_equal(add_root(w, "{}"), -EINVAL);
    assert_int_equal(add_root(w, "[]"), -EINVAL);
    assert_int_equal(add_root(w, PODS), -EINVAL);
    assert_int_equal(add_root(w, "{\"kind\":7}"), -EINVAL);
    assert_int_equal(add_list(w, "", "v1", 0, "{\"kind\":\"APIGroupList\"}"), -EINVAL);
}

static void test_a_table_has_an_end(void **state)
{
    struct world *w = *state;
    struct buf text = BUF_INIT(SIZE_MAX);
    assert_int_equal(buf_append_str(&text, "{\"kind\":\"APIResourceList\",\"resources\":[{}"), 0);
    for (int i = 0; i < RESOURCE_TABLE_MAX + 5; i++) {
        assert_int_equal(buf_printf(&text, ",{\"name\":\"r%d\",\"kind\":\"R\"}", i), 0);
    }
    assert_int_equal(buf_append_str(&text, "]}"), 0);
    assert_int_equal(add_list(w, "", "v1", 0, buf_cstr(&text)), 0);
    assert_int_equal(w->table.count, RESOURCE_TABLE_MAX);
    buf_reset(&text);
}

static void test_what_is_there_twice_is_there_once(void **state)
{
    struct world *w = *state;
    assert_int_equal(add_list(w, "", "v1", 0, PODS), 0);
    assert_int_equal(add_list(w, "", "v1", 0, PODS), 0);
    resource_table_finish(&w->table);
    expect_items(&w->table, "/v1/bindings:Binding* /v1/namespaces:Namespace!* /v1/pods:Pod* ");
}

static void test_keeps_what_was_known(void **state)
{
    struct world *w = *state;
    assert_int_equal(add_list(w, "", "v1", 0, PODS), 0);
    assert_int_equal(add_list(w, "apps", "v1", 0, DEPLOYMENTS), 0);
    assert_int_equal(add_list(w, "apps", "v1beta1", 1, DEPLOYMENTS), 0);
    resource_table_finish(&w->table);
    struct resource_table t = {0};
    resource_table_copy(&t, &w->table, "apps", "v1beta1");
    resource_table_finish(&t);
    expect_items(&t, "apps/v1beta1/deployments:Deployment* ");
    resource_table_copy_groups(&t, &w->table);
    resource_table_copy(&t, &w->table, "", NULL);
    resource_table_finish(&t);
    assert_true(resource_table_same(&t, &w->table));
    t.items[2].verbs = 1;
    assert_false(resource_table_same(&t, &w->table));
    resource_table_deinit(&t);
    assert_false(resource_table_same(&t, &w->table));
}

static void expect_path(const struct discovery_resource *r, const char *namespace,
                        const char *expected)
{
    struct buf out = BUF_INIT(200);
    assert_int_equal(discovery_path(r, namespace, &out), 0);
    assert_string_equal(buf_cstr(&out), expected);
    buf_reset(&out);
}

static void test_paths(void **state)
{
    struct discovery_resource r = {
        .group = "", .version = "v1", .plural = "pods", .namespaced = true};
    (void)state;
    expect_path(&r, NULL, "/api/v1/pods");
    expect_path(&r, "n", "/api/v1/namespaces/n/pods");
    r.group = "apps";
    expect_path(&r, "n", "/apis/apps/v1/namespaces/n/pods");
    r.namespaced = false;
    expect_path(&r, "n", "/apis/apps/v1/pods");
    struct buf small = BUF_INIT(10);
    assert_int_equal(discovery_path(&r, NULL, &small), -ENOBUFS);
    buf_reset(&small);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reads_names),
        TEST(test_reads_lists),
        TEST(test_reads_all_at_once),
        TEST(test_leaves_out_what_cannot_be),
        TEST(test_refuses_other_documents),
        TEST(test_a_table_has_an_end),
        TEST(test_what_is_there_twice_is_there_once),
        TEST(test_keeps_what_was_known),
        TEST(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
