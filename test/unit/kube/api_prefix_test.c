/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "kube/api_prefix.h"

static void what_can_only_be_a_gateway_is_taken(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "/apis/cluster.example/v1/clusterextensions/*/proxy",
        "/apis/cluster.example/v1/clusterextensions/east/proxy",
        "/apis/*/v1/clusterextensions/*/proxy",
        "/apis/*/*/clusterextensions/*/proxy",
        "/apis/cluster.example/v1/clusterextensions/api/proxy",
        "/apis/cluster.example/v1/namespaces/*/clusterextensions/*/proxy",
        "/apis/cluster.core.oam.dev/v1alpha1/clustergateways/*/proxy",
        "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy",
        "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy",
        "/apis/proxies.clusternet.io/v1alpha1/sockets/*/proxy/direct",
        "/apis/proxies.clusternet.io/v1alpha1/sockets/*/proxy/https/*",
        /* one behind the other */
        "/apis/a.example/v1/clusterextensions/*/proxy/apis/b.example/v1/clusters/*/proxy",
        /* of servers that are more than an API server */
        "/k8s/clusters/*",
        "/clusters/root:org:team",
        "/kubernetes/cluster/c/apis/cluster.example/v1/clusterextensions/*/proxy",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        if (api_prefix_check(rows[i], &e) != 0) {
            fail_msg("%s: %s", rows[i], e.msg);
        }
    }
}

static void what_the_api_itself_has_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *prefix;
        const char *says;
    } rows[] = {
        {"", "not the path of a gateway"},
        {"/", "not the path of a gateway"},
        {"apis/g/v1/clusterextensions/*/proxy", "not the path of a gateway"},
        {"https://host/k8s/clusters/*", "not the path of a gateway"},
        {"//k8s", "empty"},
        {"/k8s//clusters", "empty"},
        {"/k8s/", "empty"},
        {"/apis/g/v1/clusterextensions/*/proxy/", "empty"},
        {"/k8s/../api", "\"..\""},
        {"/./k8s", "\".\""},
        {"/k8s/a b", "plain path"},
        {"/k8s/a%2Fb", "plain path"},
        {"/k8s?x", "plain path"},
        {"/k8s#x", "plain path"},
        {"/k8s/\x7f", "plain path"},
        {"/k8s/\xc3\xa4", "plain path"},
        {"/k8s/c-*", "whole segment"},
        {"/k8s/**", "whole segment"},
        {"/api", "/api"},
        {"/api/v1", "/api"},
        {"/api/v1/namespaces/*/pods/*/proxy", "/api"},
        {"/k8s/clusters/*/api", "/api"},
        {"/apis/g/v1/clusterextensions/*/proxy/api/v1", "/api"},
        {"/apis", "below /apis"},
        {"/apis/g/v1", "below /apis"},
        {"/apis/g/v1/clusterextensions", "below /apis"},
        {"/apis/g/v1/clusterextensions/*", "below /apis"},
        {"/apis/g/v1/clusterextensions/*/status", "below /apis"},
        {"/apis/g/v1/proxy/clusterextensions/*", "below /apis"},
        {"/apis/g/v1/proxy/clusterextensions/*/proxy", "below /apis"},
        {"/apis/g/v1/watch/clusterextensions/*/proxy", "below /apis"},
        {"/apis/g/v1/watch", "unable to determine"},
        /* * could be "namespaces" */
        {"/apis/g/v1/*/*/proxy", "below /apis"},
        {"/apis/g/v1/namespaces/*/proxy", "below /apis"},
        {"/apis/g/v1/namespaces/*/*/*/proxy", "below /apis"},
        {"/apis/g/v1/namespaces/*/status/*/proxy", "below /apis"},
        {"/apis/g/v1/clusterextensions/*/proxy/apis/g/v1", "below /apis"},
        {"/k8s/clusters/*/apis/apps/v1", "below /apis"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        int rc = api_prefix_check(rows[i].prefix, &e);
        if (rc != -EINVAL || strstr(e.msg, rows[i].says) == NULL) {
            fail_msg("'%s': %d '%s'", rows[i].prefix, rc, e.msg);
        }
    }
}

static const char *const named[] = {
    "/apis/g/v1/clusterextensions/*/proxy",
    "/apis/g/v1/clusters/east/proxy",
    "/apis/g/v1/sockets/*/proxy/https/*",
    "/apis/g/v1/clusterextensions/*/proxy/apis/h/v1/clusters/*/proxy",
    "/apis/*/v1/clusterextensions/*/proxy",
    "/k8s/clusters/*",
};

static void the_longest_match_counts(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *gateway; /* "": none */
    } rows[] = {
        {"apis/g/v1/clusterextensions/c/proxy", "apis/g/v1/clusterextensions/c/proxy"},
        {"apis/g/v1/clusterextensions/c/proxy/", "apis/g/v1/clusterextensions/c/proxy"},
        {"apis/g/v1/clusterextensions/c/proxy//", "apis/g/v1/clusterextensions/c/proxy"},
        {"apis/g/v1/clusterextensions/c/proxy/api/v1/pods", "apis/g/v1/clusterextensions/c/proxy"},
        {"apis/g/v1/clusterextensions/*/proxy/x", "apis/g/v1/clusterextensions/*/proxy"},
        {"apis/g/v1/clusters/east/proxy/api", "apis/g/v1/clusters/east/proxy"},
        {"apis/g/v1/sockets/s/proxy/https/h:6443/api", "apis/g/v1/sockets/s/proxy/https/h:6443"},
        {"apis/g/v1/clusterextensions/c/proxy/apis/h/v1/clusters/d/proxy/version",
         "apis/g/v1/clusterextensions/c/proxy/apis/h/v1/clusters/d/proxy"},
        {"apis/g/v1/clusterextensions/c/proxy/apis/h/v1/clusters/d/status",
         "apis/g/v1/clusterextensions/c/proxy"},
        {"k8s/clusters/c-1/api/v1/pods", "k8s/clusters/c-1"},
        {"", ""},
        {"apis", ""},
        {"apis/g/v1/clusterextensions/c", ""},
        {"apis/g/v1/clusterextensions/c/proxyx", ""},
        {"apis/g/v1/clusterextensions/c/Proxy", ""},
        {"apis/g/v1/clusterextensions//proxy", ""},
        {"apis/g/v1/clusterextensions/c//proxy", ""},
        {"apis//g/v1/clusterextensions/c/proxy", ""},
        {"apis/g/v1/clusterextensions/c/d/proxy", ""},
        {"apis/g/v1/clusters/west/proxy", ""},
        {"apis/g/v1/sockets/s/proxy", ""},
        {"apis/g/v1/sockets/s/proxy/direct/api", ""},
        /* The API of k8s/clusters itself, if there is one. */
        {"k8s/clusters/api/v1/pods", ""},
        {"k8s/clusters/apis/apps/v1/deployments", ""},
        {"k8s/clusters", ""},
        {"k8s/clusters/", ""},
    };
    const struct api_prefixes prefixes = {named, ARRAY_LEN(named)};
    const struct api_prefixes none = {NULL, 0};
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        assert_int_equal(api_prefix_check(named[i], NULL), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice path = slice_str(rows[i].path);
        size_t n = api_prefix_match(&prefixes, path);
        if (!slice_eq(slice_of(path.ptr, n), slice_str(rows[i].gateway))) {
            fail_msg("'%s': %zu bytes", rows[i].path, n);
        }
        assert_int_equal(api_prefix_match(&none, path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_only_be_a_gateway_is_taken),
        cmocka_unit_test(what_the_api_itself_has_is_refused),
        cmocka_unit_test(the_longest_match_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
