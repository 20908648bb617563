/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "kube/request_info.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define TRY(row, expr)                                                                             \
    do {                                                                                           \
        if (!(expr)) {                                                                             \
            fail_msg("%s %s: %s", (row)->method, (row)->target, #expr);                            \
        }                                                                                          \
    } while (0)

struct row {
    const char *method;
    const char *target;
    const char *verb;
    const char *prefix;
    const char *group;
    const char *version;
    const char *namespace;
    const char *resource;
    const char *subresource;
    const char *name;
    const char *parts;
};

static void expect(const struct row *row, const char *what, struct slice got, const char *want)
{
    if (!slice_eq(got, slice_str(want))) {
        fail_msg("%s %s: %s is '%.*s', not '%s'", row->method, row->target, what, (int)got.len,
                 got.ptr == NULL ? "" : got.ptr, want);
    }
}

static void check_behind(const struct row *row, const struct api_prefixes *prefixes,
                         const char *gateway)
{
    struct request_info ri;
    struct err e = ERR_INIT;
    int rc = request_info_parse_behind(&ri, prefixes, slice_str(row->method),
                                       slice_str(row->target), &e);
    if (rc != 0) {
        fail_msg("%s %s: %s", row->method, row->target, e.msg);
    }
    TRY(row, ri.is_resource == (row->version != NULL));
    expect(row, "verb", ri.verb_name, row->verb);
    expect(row, "prefix", ri.api_prefix, row->prefix);
    expect(row, "group", ri.group, row->group);
    expect(row, "version", ri.version, row->version);
    expect(row, "namespace", ri.namespace, row->namespace);
    expect(row, "resource", ri.resource, row->resource);
    expect(row, "subresource", ri.subresource, row->subresource);
    expect(row, "name", ri.name, row->name);
    expect(row, "parts", ri.parts, row->parts);
    expect(row, "gateway", ri.gateway, gateway);
    request_info_deinit(&ri);
}

static void check(const struct row *row)
{
    check_behind(row, NULL, "");
}

#define CHECK_ALL(rows)                                                                            \
    for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++) {                                \
        check(&(rows)[i]);                                                                         \
    }

static void resources(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* the core group, all namespaces and one */
        {"GET", "/api/v1/pods", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"HEAD", "/api/v1/pods", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"POST", "/api/v1/nodes", "create", "api", "", "v1", "", "nodes", "", "", "nodes"},
        {"GET", "/api/v1/nodes/n1", "get", "api", "", "v1", "", "nodes", "", "n1", "nodes/n1"},
        {"GET", "/api/v1/nodes/n1/status", "get", "api", "", "v1", "", "nodes", "status", "n1",
         "nodes/n1/status"},
        {"GET", "/api/v1/namespaces/a/pods", "list", "api", "", "v1", "a", "pods", "", "", "pods"},
        {"GET", "/api/v1/namespaces/a/pods/p", "get", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"HEAD", "/api/v1/namespaces/a/pods/p", "get", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"POST", "/api/v1/namespaces/a/pods", "create", "api", "", "v1", "a", "pods", "", "",
         "pods"},
        {"PUT", "/api/v1/namespaces/a/pods/p", "update", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"PATCH", "/api/v1/namespaces/a/pods/p", "patch", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"DELETE", "/api/v1/namespaces/a/pods/p", "delete", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"DELETE", "/api/v1/namespaces/a/pods", "deletecollection", "api", "", "v1", "a", "pods",
         "", "", "pods"},
        {"DELETE", "/api/v1/nodes", "deletecollection", "api", "", "v1", "", "nodes", "", "",
         "nodes"},
        /* a field selector does not give a deletion its name */
        {"DELETE", "/api/v1/nodes?fieldSelector=metadata.name%3Dn1", "deletecollection", "api", "",
         "v1", "", "nodes", "", "", "nodes"},
        /* methods without a verb */
        {"OPTIONS", "/api/v1/pods", "", "api", "", "v1", "", "pods", "", "", "pods"},
        {"get", "/api/v1/pods", "", "api", "", "v1", "", "pods", "", "", "pods"},
        /* named groups */
        {"GET", "/apis/apps/v1/deployments", "list", "apis", "apps", "v1", "", "deployments", "",
         "", "deployments"},
        {"GET", "/apis/apps/v1/namespaces/a/deployments/d/scale", "get", "apis", "apps", "v1", "a",
         "deployments", "scale", "d", "deployments/d/scale"},
        {"PATCH", "/apis/example.com/v1alpha1/namespaces/a/widgets/w", "patch", "apis",
         "example.com", "v1alpha1", "a", "widgets", "", "w", "widgets/w"},
        {"DELETE", "/apis/batch/v1beta1/namespaces/a/jobs", "deletecollection", "apis", "batch",
         "v1beta1", "a", "jobs", "", "", "jobs"},
        /* subresources and what may follow them */
        {"GET", "/api/v1/namespaces/a/pods/p/log?follow=true", "get", "api", "", "v1", "a", "pods",
         "log", "p", "pods/p/log"},
        {"POST", "/api/v1/namespaces/a/pods/p/exec?command=ls", "create", "api", "", "v1", "a",
         "pods", "exec", "p", "pods/p/exec"},
        {"GET", "/api/v1/namespaces/a/services/http:s:80/proxy/x/y/", "get", "api", "", "v1", "a",
         "services", "proxy", "http:s:80", "services/http:s:80/proxy/x/y"},
        {"GET", "/api/v1/namespaces/a/pods/p/proxy/watch/z", "get", "api", "", "v1", "a", "pods",
         "proxy", "p", "pods/p/proxy/watch/z"},
        {"DELETE", "/api/v1/namespaces/a/pods/p/x/y/z", "delete", "api", "", "v1", "a", "pods", "x",
         "p", "pods/p/x/y/z"},
    };
    CHECK_ALL(rows);
}

static void namespaces(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"GET", "/api/v1/namespaces", "list", "api", "", "v1", "", "namespaces", "", "",
         "namespaces"},
        {"GET", "/api/v1/namespaces/", "list", "api", "", "v1", "", "namespaces", "", "",
         "namespaces"},
        {"POST", "/api/v1/namespaces", "create", "api", "", "v1", "", "namespaces", "", "",
         "namespaces"},
        {"DELETE", "/api/v1/namespaces", "deletecollection", "api", "", "v1", "", "namespaces", "",
         "", "namespaces"},
        {"GET", "/api/v1/namespaces/a", "get", "api", "", "v1", "a", "namespaces", "", "a",
         "namespaces/a"},
        {"DELETE", "/api/v1/namespaces/a", "delete", "api", "", "v1", "a", "namespaces", "", "a",
         "namespaces/a"},
        {"GET", "/api/v1/namespaces/a?watch=true", "get", "api", "", "v1", "a", "namespaces", "",
         "a", "namespaces/a"},
        {"PUT", "/api/v1/namespaces/a/finalize", "update", "api", "", "v1", "a", "namespaces",
         "finalize", "a", "namespaces/a/finalize"},
        {"PATCH", "/api/v1/namespaces/a/status", "patch", "api", "", "v1", "a", "namespaces",
         "status", "a", "namespaces/a/status"},
        {"GET", "/api/v1/namespaces/a/status/x", "get", "api", "", "v1", "a", "namespaces",
         "status", "a", "namespaces/a/status/x"},
        /* no subresource of a namespace: a resource in it */
        {"GET", "/api/v1/namespaces/a/scale", "list", "api", "", "v1", "a", "scale", "", "",
         "scale"},
        {"GET", "/api/v1/namespaces/a/namespaces/b", "get", "api", "", "v1", "a", "namespaces", "",
         "b", "namespaces/b"},
        {"GET", "/api/v1/namespaces/namespaces/pods", "list", "api", "", "v1", "namespaces", "pods",
         "", "", "pods"},
        {"GET", "/apis/apps/v1/namespaces", "list", "apis", "apps", "v1", "", "namespaces", "", "",
         "namespaces"},
    };
    CHECK_ALL(rows);
}

static void special_verbs(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"GET", "/api/v1/watch/pods", "watch", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "/api/v1/watch/namespaces", "watch", "api", "", "v1", "", "namespaces", "", "",
         "namespaces"},
        {"GET", "/api/v1/watch/namespaces/a", "watch", "api", "", "v1", "a", "namespaces", "", "a",
         "namespaces/a"},
        {"GET", "/api/v1/watch/namespaces/a/pods", "watch", "api", "", "v1", "a", "pods", "", "",
         "pods"},
        {"GET", "/api/v1/watch/namespaces/a/pods/p", "watch", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"GET", "/api/v1/watch/namespaces/a/pods/p/status", "watch", "api", "", "v1", "a", "pods",
         "status", "p", "pods/p/status"},
        {"GET", "/apis/apps/v1/watch/deployments?watch=false", "watch", "apis", "apps", "v1", "",
         "deployments", "", "", "deployments"},
        /* whatever the method, and the field selector is not looked at */
        {"DELETE", "/api/v1/watch/pods?fieldSelector=metadata.name%3Dx", "watch", "api", "", "v1",
         "", "pods", "", "", "pods"},
        /* only the first one is a verb */
        {"GET", "/api/v1/watch/watch/pods", "watch", "api", "", "v1", "", "watch", "", "pods",
         "watch/pods"},
        {"GET", "/api/v1/proxy/nodes/n1", "proxy", "api", "", "v1", "", "nodes", "", "n1",
         "nodes/n1"},
        {"GET", "/api/v1/proxy/namespaces/a/pods/p", "proxy", "api", "", "v1", "a", "pods", "", "p",
         "pods/p"},
        {"PUT", "/api/v1/proxy/namespaces/a/pods/p/no/sub", "proxy", "api", "", "v1", "a", "pods",
         "", "p", "pods/p/no/sub"},
        {"GET", "/api/v1/proxy/namespaces/a/pods", "proxy", "api", "", "v1", "a", "pods", "", "",
         "pods"},
        {"GET", "/apis/g/v1/proxy/x/y", "proxy", "apis", "g", "v1", "", "x", "", "y", "x/y"},
    };
    CHECK_ALL(rows);
}

static void list_or_watch(void **state)
{
    (void)state;
#define LIST(query, verb)                                                                          \
    {                                                                                              \
        "GET", "/api/v1/pods" query, verb, "api", "", "v1", "", "pods", "", "", "pods"             \
    }
    static const struct row rows[] = {
        LIST("?", "list"),
        LIST("?watch=true", "watch"),
        LIST("?watch=1", "watch"),
        LIST("?watch=yes", "watch"),
        LIST("?watch=", "watch"),
        LIST("?watch", "watch"),
        LIST("?watch=false", "list"),
        LIST("?watch=FALSE", "list"),
        LIST("?watch=fAlSe", "list"),
        LIST("?watch=%66alse", "list"),
        LIST("?watch=fal%C5%BFx", "watch"),
        LIST("?watch=0", "list"),
        LIST("?watch=%30", "list"),
        LIST("?watch=00", "watch"),
        LIST("?watch=false%20", "watch"),
        LIST("?watch=+false", "watch"),
        LIST("?Watch=true", "list"),
        LIST("?w%61tch=true", "watch"),
        LIST("?limit=500&watch=true", "watch"),
        /* the first one that Go takes counts */
        LIST("?watch=0&watch=1", "list"),
        LIST("?watch=1&watch=0", "watch"),
        LIST("?watch=%&watch=1", "watch"),
        LIST("?watch=%zz", "list"),
        LIST("?watch=1;", "list"),
        LIST("?a;watch=1", "list"),
        LIST("?&&watch=1", "watch"),
        LIST("?x?watch=1", "list"),
        LIST("??watch=1", "list"),
        /* options that the server cannot decode leave the watch alone */
        LIST("?watch=1&limit=x", "watch"),
        LIST("?watch=0&labelSelector=%3D", "list"),
        /* U+017F folds to an s, but is not its lower case */
        LIST("?watch=fal%C5%BFe", "list"),
        LIST("?watch=FAL%c5%bfE", "list"),
        LIST("?watch=fal%C5%BFe&limit=x", "watch"),
        LIST("?watch=fal%C5%BFe&labelSelector=%3D", "watch"),
    };
#undef LIST
    CHECK_ALL(rows);
}

static void name_by_field_selector(void **state)
{
    (void)state;
#define NAMED(query, verb, name)                                                                   \
    {                                                                                              \
        "GET", "/api/v1/pods?" query, verb, "api", "", "v1", "", "pods", "", name, "pods"          \
    }
    static const struct row rows[] = {
        NAMED("fieldSelector=metadata.name=p", "list", "p"),
        NAMED("fieldSelector=metadata.name%3Dp", "list", "p"),
        NAMED("fieldSelector=metadata.name%3D%3Dp", "list", "p"),
        NAMED("fieldSelector=metadata.name%3Dp&watch=true", "watch", "p"),
        NAMED("fieldSelector=metadata.name!=p", "list", ""),
        NAMED("fieldSelector=metadata.namespace=p", "list", ""),
        NAMED("fieldSelector=spec.nodeName=n,metadata.name=p", "list", "p"),
        NAMED("fieldSelector=metadata.name=p,", "list", "p"),
        NAMED("fieldSelector=,,metadata.name=p", "list", "p"),
        NAMED("fieldSelector=", "list", ""),
        NAMED("fieldSelector", "list", ""),
        NAMED("fieldSelector=metadata.name=", "list", ""),
        NAMED("fieldSelector=+metadata.name=p", "list", ""),
        /* terms are sorted: the least one is the name */
        NAMED("fieldSelector=metadata.name=q,metadata.name=p", "list", "p"),
        NAMED("fieldSelector=metadata.name=a,metadata.name==z", "list", "z"),
        NAMED("fieldSelector=metadata.name=pp,metadata.name=p", "list", "p"),
        /* escapes in values */
        NAMED("fieldSelector=metadata.name=a\\,b", "list", "a,b"),
        NAMED("fieldSelector=metadata.name=a%5C%3Db", "list", "a=b"),
        NAMED("fieldSelector=metadata.name=a\\\\", "list", "a\\"),
        NAMED("fieldSelector=metadata.name=a\\b", "list", ""),
        NAMED("fieldSelector=metadata.name=a\\", "list", ""),
        NAMED("fieldSelector=metadata.name=a=b", "list", ""),
        NAMED("fieldSelector=metadata.name=\xff\\,", "list", "\xef\xbf\xbd,"),
        NAMED("fieldSelector=metadata.name=%FF", "list", "\xff"),
        /* names that cannot stand in a path are none */
        NAMED("fieldSelector=metadata.name=.", "list", ""),
        NAMED("fieldSelector=metadata.name=..", "list", ""),
        NAMED("fieldSelector=metadata.name=...", "list", "..."),
        NAMED("fieldSelector=metadata.name=a%2Fb", "list", ""),
        NAMED("fieldSelector=metadata.name=a%25b", "list", ""),
        /* any option that cannot be decoded takes the name away, the verb stays */
        NAMED("fieldSelector=metadata.name=p,foo", "list", ""),
        NAMED("fieldSelector=metadata.name=p,foo&watch=true", "watch", ""),
        NAMED("fieldSelector=metadata.name=p,foo&watch=false", "list", ""),
        NAMED("fieldSelector=metadata.name=p&limit=", "list", ""),
        NAMED("fieldSelector=metadata.name=p&limit=-1", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&limit=%2B1", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&limit=+1", "list", ""),
        NAMED("fieldSelector=metadata.name=p&limit=9223372036854775807", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&limit=-9223372036854775808", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&limit=9223372036854775808", "list", ""),
        NAMED("fieldSelector=metadata.name=p&timeoutSeconds=1s", "list", ""),
        NAMED("fieldSelector=metadata.name=p&timeoutSeconds=1&timeoutSeconds=x", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&labelSelector=a%3Db", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&labelSelector=a+in", "list", ""),
        NAMED("fieldSelector=metadata.name=p&labelSelector=", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&resourceVersion=x", "list", "p"),
        NAMED("fieldSelector=metadata.name=p&fieldSelector=,x", "list", "p"),
    };
#undef NAMED
    CHECK_ALL(rows);
}

static void paths(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* slashes at both ends do not count */
        {"GET", "/api/v1/pods/", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "/api/v1/pods///", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "///api/v1/pods", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"DELETE", "/api/v1/pods/?x", "deletecollection", "api", "", "v1", "", "pods", "", "",
         "pods"},
        /* those between segments do */
        {"GET", "/api//v1/pods", "get", "api", "", "", "", "v1", "", "pods", "v1/pods"},
        {"GET", "/api/v1//pods", "get", "api", "", "v1", "", "", "", "pods", "/pods"},
        {"GET", "/api/v1/pods//log", "list", "api", "", "v1", "", "pods", "log", "", "pods//log"},
        {"GET", "/api/v1/namespaces//pods", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "/api/v1/namespaces//pods/p", "get", "api", "", "v1", "", "pods", "", "p",
         "pods/p"},
        {"GET", "/api/v1/namespaces/a//pods", "get", "api", "", "v1", "a", "", "", "pods", "/pods"},
        {"GET", "/apis//v1/pods", "list", "apis", "", "v1", "", "pods", "", "", "pods"},
        /* decoded before they are split */
        {"GET", "/api/v1/namespaces%2Fa%2fpods", "list", "api", "", "v1", "a", "pods", "", "",
         "pods"},
        {"GET", "/%61pi/v1/%70ods/p%20q", "get", "api", "", "v1", "", "pods", "", "p q",
         "pods/p q"},
        {"GET", "/api/v1/pods%2F", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "/api/v1/pods%3Fwatch=1", "list", "api", "", "v1", "", "pods?watch=1", "", "",
         "pods?watch=1"},
        {"GET", "/api/v1/pods/a+b", "get", "api", "", "v1", "", "pods", "", "a+b", "pods/a+b"},
        {"GET", "/api/v1/pods/a%252F", "get", "api", "", "v1", "", "pods", "", "a%2F", "pods/a%2F"},
        {"GET", "/api/v1/w%61tch/pods", "watch", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "/api/v1/pods;x=1", "list", "api", "", "v1", "", "pods;x=1", "", "", "pods;x=1"},
        /* not cleaned */
        {"GET", "/api/v1/./pods", "get", "api", "", "v1", "", ".", "", "pods", "./pods"},
        {"GET", "/api/v1/pods/..", "get", "api", "", "v1", "", "pods", "", "..", "pods/.."},
        /* case counts */
        {"GET", "/API/v1/pods", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/api/V1/Pods", "list", "api", "", "V1", "", "Pods", "", "", "Pods"},
    };
    CHECK_ALL(rows);
}

static void non_resources(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"GET", "/", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "///", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/healthz", "get", "", "", NULL, "", "", "", "", ""},
        {"HEAD", "/healthz/etcd", "head", "", "", NULL, "", "", "", "", ""},
        {"POST", "/version?watch=true", "post", "", "", NULL, "", "", "", "", ""},
        {"GET", "/api", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/api/v1", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/api/v1/", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/apis", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/apis/apps", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/apis/apps/v1", "get", "apis", "", NULL, "", "", "", "", ""},
        {"GET", "/apis/apps/v1//", "get", "apis", "", NULL, "", "", "", "", ""},
        {"GET", "/openapi/v3/apis/apps/v1", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/x/api/v1/pods", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/apix/v1/pods", "get", "", "", NULL, "", "", "", "", ""},
        {"DELETE", "/logs/a/b/c", "delete", "", "", NULL, "", "", "", "", ""},
        {"OPTIONS", "/api", "options", "", "", NULL, "", "", "", "", ""},
    };
    CHECK_ALL(rows);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *says;
    } rows[] = {
        {"", "not an absolute path"},
        {"*", "not an absolute path"},
        {"api/v1/pods", "not an absolute path"},
        {"http://host/api/v1/pods", "not an absolute path"},
        {"host:443", "not an absolute path"},
        {"/api/v1/pods%", "percent-escape"},
        {"/api/v1/pods%2", "percent-escape"},
        {"/api/v1/%zz/p?watch=1", "percent-escape"},
        {"/%", "percent-escape"},
        {"/api/v1/pods#x", "'#'"},
        {"/api/v1/pods?watch=1#", "'#'"},
        {"/api/v1/pods?a b", "white space"},
        {"/api/v1/po\tds", "white space"},
        {"/api/v1/pods?a\x7f", "control character"},
        {"/api/v1/watch", "unable to determine"},
        {"/api/v1/watch/", "unable to determine"},
        {"/api/v1/proxy", "unable to determine"},
        {"/apis/apps/v1/watch?watch=1", "unable to determine"},
        {"/%61pi/v1/watch", "unable to determine"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_info ri;
        struct err e = ERR_INIT;
        int rc = request_info_parse(&ri, SLICE("GET"), slice_str(rows[i].target), &e);
        if (rc != -EINVAL || e.code != -EINVAL || strstr(e.msg, rows[i].says) == NULL) {
            fail_msg("'%s': %d '%s'", rows[i].target, rc, e.msg);
        }
    }
    struct request_info ri;
    assert_int_equal(
        request_info_parse(&ri, SLICE("AVERYLONGMETHODTHATNOBODYHASXXXX"), SLICE("/"), NULL),
        -EINVAL);
}

static void ambiguous(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        bool ambiguous;
    } rows[] = {
        {"/api/v1/pods", false},
        {"/", false},
        {"//api/v1/pods//", false},
        {"/api/v1/namespaces/a/services/s/proxy/a//b", false},
        {"/api/v1/namespaces/a/services/s/proxy/...", false},
        {"/healthz//x", false},
        {"/api/v1/../v1/pods", true},
        {"/api/v1/%2e%2E/v1/pods", true},
        {"/api/v1/namespaces/a/services/s/proxy/../../../pods", true},
        {"/healthz/../api/v1/pods", true},
        {"/api/v1/pods/.", true},
        {"/api//v1/pods", true},
        {"/api/v1//pods", true},
        {"/api/v1/%2fpods", true},
        {"/api/v1/namespaces//pods", true},
        {"/api/v1/namespaces/a//pods", true},
        {"/api/v1/pods//log", true},
        {"/api/v1/pods/p//log", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_info ri;
        assert_int_equal(request_info_parse(&ri, SLICE("GET"), slice_str(rows[i].target), NULL), 0);
        if (ri.ambiguous != rows[i].ambiguous) {
            fail_msg("'%s': %d", rows[i].target, ri.ambiguous);
        }
        request_info_deinit(&ri);
    }
}

static const char *const named[] = {
    "/apis/g/v1/clusterextensions/*/proxy",
    "/k8s/clusters/*",
};
static const struct api_prefixes prefixes = {named, ARRAY_LEN(named)};

#define EXTENSION "apis/g/v1/clusterextensions/c/proxy"

/* What is behind a gateway is read as if it stood there alone. */
static void behind_a_gateway(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"GET", "/" EXTENSION "/api/v1/pods", "list", "api", "", "v1", "", "pods", "", "", "pods"},
        {"GET", "/" EXTENSION "/api/v1/pods?watch=1", "watch", "api", "", "v1", "", "pods", "", "",
         "pods"},
        {"GET", "/" EXTENSION "/api/v1/watch/namespaces/a/pods", "watch", "api", "", "v1", "a",
         "pods", "", "", "pods"},
        {"GET", "/" EXTENSION "/api/v1/pods?fieldSelector=metadata.name=p", "list", "api", "", "v1",
         "", "pods", "", "p", "pods"},
        {"PUT", "/" EXTENSION "/apis/apps/v1/namespaces/a/deployments/d/scale", "update", "apis",
         "apps", "v1", "a", "deployments", "scale", "d", "deployments/d/scale"},
        {"DELETE", "/" EXTENSION "/api/v1/namespaces/a/pods", "deletecollection", "api", "", "v1",
         "a", "pods", "", "", "pods"},
        {"POST", "/" EXTENSION "/api/v1/namespaces/a/pods/p/exec", "create", "api", "", "v1", "a",
         "pods", "exec", "p", "pods/p/exec"},
        /* slashes around either path, and escapes that kube-apiserver resolves, change nothing */
        {"GET", "///" EXTENSION "//api/v1/pods//", "list", "api", "", "v1", "", "pods", "", "",
         "pods"},
        {"GET", "/apis%2Fg/v1/cluster%65xtensions/c%2F%70roxy%2fapi%2Fv1/%70ods", "list", "api", "",
         "v1", "", "pods", "", "", "pods"},
        /* no resources */
        {"GET", "/" EXTENSION, "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/" EXTENSION "/", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/" EXTENSION "/version", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/" EXTENSION "/api/v1", "get", "", "", NULL, "", "", "", "", ""},
        {"GET", "/" EXTENSION "/apis/apps/v1", "get", "apis", "", NULL, "", "", "", "", ""},
        {"GET", "/" EXTENSION "/openapi/v3/apis/apps/v1", "get", "", "", NULL, "", "", "", "", ""},
        /* another one, which nobody named */
        {"GET", "/" EXTENSION "/" EXTENSION "/api/v1/pods", "get", "apis", "g", "v1", "",
         "clusterextensions", "proxy", "c", "clusterextensions/c/proxy/api/v1/pods"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_behind(&rows[i], &prefixes, EXTENSION);
    }
    const struct row other = {
        "GET", "/k8s/clusters/c-1/api/v1/pods", "list", "api", "", "v1", "", "pods", "", "",
        "pods"};
    check_behind(&other, &prefixes, "k8s/clusters/c-1");
    const struct row own = {"GET",
                            "/apis/g/v1/clusterextensions/c",
                            "get",
                            "apis",
                            "g",
                            "v1",
                            "",
                            "clusterextensions",
                            "",
                            "c",
                            "clusterextensions/c"};
    check_behind(&own, &prefixes, "");
}

static void ambiguous_behind_a_gateway(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        bool ambiguous;
    } rows[] = {
        {"/" EXTENSION "/api/v1/pods", false},
        {"/" EXTENSION "//api/v1/pods", false},
        {"/" EXTENSION "/%61pi/v1/pods?a=%2525", false},
        {"/" EXTENSION "/api/v1/namespaces/a/services/s/proxy/a//b", false},
        {"/" EXTENSION "/api//v1/pods", true},
        {"/" EXTENSION "/api/v1//pods", true},
        {"/" EXTENSION "/api/v1/pods//log", true},
        {"/" EXTENSION "/../../d/proxy/api/v1/pods", true},
        {"/" EXTENSION "/./api/v1/pods", true},
        {"/" EXTENSION "/version/%2e%2e/api/v1/pods", true},
        {"/../" EXTENSION "/api/v1/pods", true},
        /* decoded once more: /api/v1/pods, /version/../api/v1/pods, /api/v1/pods?watch=1 */
        {"/" EXTENSION "/%2561pi/v1/pods", true},
        {"/" EXTENSION "/api%252Fv1%252Fpods", true},
        {"/" EXTENSION "/version/%252e%252e/api/v1/pods", true},
        {"/" EXTENSION "/api/v1/pods%3Fwatch=1", true},
        {"/" EXTENSION "/api/v1/pods%23/x", true},
        {"/apis/g/v1/clusterextensions/c%252F/proxy/api/v1/pods", true},
        /* as ever elsewhere */
        {"/api/v1/services/%2525%3F%23", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_info ri;
        struct slice target = slice_str(rows[i].target);
        assert_int_equal(request_info_parse_behind(&ri, &prefixes, SLICE("GET"), target, NULL), 0);
        if (ri.ambiguous != rows[i].ambiguous) {
            fail_msg("'%s': %d", rows[i].target, ri.ambiguous);
        }
        request_info_deinit(&ri);
    }
}

/* Which part of the path should have been named. */
static void gateways_that_nobody_named(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *gateway; /* "": there is none */
    } rows[] = {
        {"/apis/h/v1/clusterextensions/c/proxy/api/v1/pods", "apis/h/v1/clusterextensions/c/proxy"},
        {"/apis/h/v1/clusterextensions/c/proxy", "apis/h/v1/clusterextensions/c/proxy"},
        {"/apis/h/v1/clusterextensions/c/proxy/", "apis/h/v1/clusterextensions/c/proxy"},
        {"/apis/h/v1/clusterextensions/c/proxy/version", "apis/h/v1/clusterextensions/c/proxy"},
        {"//apis/h/v1/clusterextensions/c/proxy//api", "apis/h/v1/clusterextensions/c/proxy"},
        {"/apis/h/v1/clusterextensions%2Fc/%70roxy%2Fapi", "apis/h/v1/clusterextensions/c/proxy"},
        {"/apis/h/v1/namespaces/n/clusterextensions/c/proxy/api/v1/pods",
         "apis/h/v1/namespaces/n/clusterextensions/c/proxy"},
        {"/apis/h/v1/watch/clusterextensions/c/proxy/api",
         "apis/h/v1/watch/clusterextensions/c/proxy"},
        {"/apis/h/v1/proxy/clusterextensions/c/api/v1/pods", "apis/h/v1/proxy"},
        {"/apis/cluster.karmada.io/v1alpha1/clusters/m/proxy/api/v1/pods",
         "apis/cluster.karmada.io/v1alpha1/clusters/m/proxy"},
        {"/apis/proxies.clusternet.io/v1alpha1/sockets/s/proxy/direct/api/v1/pods",
         "apis/proxies.clusternet.io/v1alpha1/sockets/s/proxy"},
        {"/apis/h/v1/pods/p/proxy", "apis/h/v1/pods/p/proxy"},
        {"/api/v1/clusterextensions/c/proxy/api/v1/pods", "api/v1/clusterextensions/c/proxy"},
        {"/k8s/projects/p/api/v1/pods", "k8s/projects/p"},
        {"/k8s/projects/p//apis/apps/v1/deployments", "k8s/projects/p"},
        {"/x/clusterextensions/c/proxy/api/v1/pods?watch=1", "x/clusterextensions/c/proxy"},
        {"/" EXTENSION "/" EXTENSION "/api/v1/pods", EXTENSION "/" EXTENSION},
        {"/" EXTENSION "/direct/api/v1/pods", EXTENSION "/direct"},
        /* those that were, and what is no gateway */
        {"/" EXTENSION "/api/v1/pods", ""},
        {"/" EXTENSION "/openapi/v3/apis/apps/v1", ""},
        {"/k8s/clusters/c/api/v1/pods", ""},
        {"/" EXTENSION "/api/v1/namespaces/n/pods/p/proxy/api/v1/x", ""},
        {"/apis/h/v1/clusterextensions/c", ""},
        {"/apis/h/v1/clusterextensions/proxy", ""},
        {"/apis/h/v1/clusterextensions/c/status", ""},
        {"/apis/h/v1/clusterextensions/c/proxies/x", ""},
        {"/apis/h/v1/namespaces/n/proxy", ""},
        {"/api/v1/namespaces/n/pods/p/proxy/api/v1/pods", ""},
        {"/api/v1/namespaces/n/pods/p/proxy", ""},
        {"/api/v1/namespaces/n/services/https:s:443/proxy/apis/apps/v1/deployments", ""},
        {"/api/v1/nodes/n/proxy/pods", ""},
        {"/api/v1/proxy/nodes/n/api/v1/pods", ""},
        {"/api/v1/proxy/namespaces/n/services/s/api", ""},
        {"/api/v1/pods", ""},
        {"/openapi/v3/apis/apps/v1", ""},
        {"/openapi/v3/api/v1", ""},
        {"/api/v1", ""},
        {"/apis/apis/v1", ""},
        {"/", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request_info ri;
        struct slice target = slice_str(rows[i].target);
        assert_int_equal(request_info_parse_behind(&ri, &prefixes, SLICE("GET"), target, NULL), 0);
        struct slice gateway = request_info_unnamed_gateway(&ri);
        if (!slice_eq(gateway, slice_str(rows[i].gateway))) {
            fail_msg("'%s': '%.*s'", rows[i].target, (int)gateway.len, gateway.ptr);
        }
        request_info_deinit(&ri);
    }
}

static void allocates_only_for_escapes(void **state)
{
    (void)state;
    const char *target = "/api/v1/namespaces/a/pods/p/log?labelSelector=a%3Db&limit=500";
    struct request_info ri;
    assert_int_equal(request_info_parse(&ri, SLICE("GET"), slice_str(target), NULL), 0);
    assert_null(ri.path_mem);
    assert_null(ri.name_mem);
    assert_ptr_equal(ri.resource.ptr, strstr(target, "pods"));
    assert_true(slice_eq(ri.path, SLICE("/api/v1/namespaces/a/pods/p/log")));
    assert_true(slice_eq(ri.query, SLICE("labelSelector=a%3Db&limit=500")));
    request_info_deinit(&ri);
}

static void escaped_nul(void **state)
{
    (void)state;
    struct request_info ri;
    assert_int_equal(request_info_parse(&ri, SLICE("GET"), SLICE("/api/v1/pods/a%00b"), NULL), 0);
    assert_true(slice_eq(ri.name, SLICE("a\0b")));
    request_info_deinit(&ri);
    assert_int_equal(request_info_parse(&ri, SLICE("GET"),
                                        SLICE("/api/v1/pods?fieldSelector=metadata.name=a%00b"),
                                        NULL),
                     0);
    assert_true(slice_eq(ri.name, SLICE("a\0b")));
    request_info_deinit(&ri);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources),
        cmocka_unit_test(namespaces),
        cmocka_unit_test(special_verbs),
        cmocka_unit_test(list_or_watch),
        cmocka_unit_test(name_by_field_selector),
        cmocka_unit_test(paths),
        cmocka_unit_test(non_resources),
        cmocka_unit_test(refused),
        cmocka_unit_test(ambiguous),
        cmocka_unit_test(behind_a_gateway),
        cmocka_unit_test(ambiguous_behind_a_gateway),
        cmocka_unit_test(gateways_that_nobody_named),
        cmocka_unit_test(allocates_only_for_escapes),
        cmocka_unit_test(escaped_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
