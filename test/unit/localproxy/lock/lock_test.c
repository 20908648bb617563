/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/lock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "kube/query.h"
#include "temp_dir.h"

static const struct lock_rule rule = {
    .name = "leader",
    .renamed = "leader---shard-a",
    .namespace = "ops",
};

#define GATEWAY "/apis/g/v1/clusterextensions/c/proxy"
#define LEASES "/apis/coordination.k8s.io/v1/namespaces/ops/leases"
#define MAPS "/api/v1/namespaces/ops/configmaps"

static const char *const found_names[] = {"other", "own", "renamed"};

static const char *const named[] = {"/apis/g/v1/clusterextensions/*/proxy"};
static const struct api_prefixes prefixes = {named, 1};

/* Asks about a request. What is sent on must be `want`; NULL: as it was. */
static struct lock_request examine(const char *method, const char *target, const char *want)
{
    struct request_info ri;
    struct lock_request result;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(4096);
    struct slice t = slice_str(target);
    assert_int_equal(request_info_parse_behind(&ri, &prefixes, slice_str(method), t, &e), 0);
    assert_false(ri.ambiguous);
    if (lock_examine(&rule, &ri, t, &out, &result, &e) != 0) {
        fail_msg("%s %s: %s", method, target, e.msg);
    }
    const char *got = buf_cstr(&out);
    assert_non_null(got);
    if ((result.found == LOCK_RENAMED) != (want != NULL) || strcmp(got, want ? want : "") != 0) {
        fail_msg("%s %s: %s, \"%s\"", method, target, found_names[result.found], got);
    }
    buf_reset(&out);
    request_info_deinit(&ri);
    return result;
}

static void renamed(const char *method, const char *target, const char *want)
{
    struct lock_request r = examine(method, target, want);
    assert_false(r.needs_body);
}

static void left_alone(const char *method, const char *target)
{
    struct lock_request r = examine(method, target, NULL);
    if (r.found != LOCK_OTHER || r.needs_body) {
        fail_msg("%s %s: %s", method, target, found_names[r.found]);
    }
}

static void own(const char *method, const char *target)
{
    struct lock_request r = examine(method, target, NULL);
    if (r.found != LOCK_OWN || r.needs_body) {
        fail_msg("%s %s: %s", method, target, found_names[r.found]);
    }
}

static void by_path(void **state)
{
    (void)state;
    renamed("GET", LEASES "/leader", LEASES "/leader---shard-a");
    renamed("GET", MAPS "/leader", MAPS "/leader---shard-a");
    renamed("GET", "/api/v1/namespaces/ops/endpoints/leader",
            "/api/v1/namespaces/ops/endpoints/leader---shard-a");
    renamed("GET", "/apis/coordination.k8s.io/v1beta1/namespaces/ops/leases/leader",
            "/apis/coordination.k8s.io/v1beta1/namespaces/ops/leases/leader---shard-a");
    renamed("HEAD", LEASES "/leader", LEASES "/leader---shard-a");
    renamed("DELETE", LEASES "/leader", LEASES "/leader---shard-a");
    renamed("DELETE", LEASES "/leader/", LEASES "/leader---shard-a/");
    renamed("GET", LEASES "/leader?timeout=5s&x=leader",
            LEASES "/leader---shard-a?timeout=5s&x=leader");
    renamed("GET", "//apis/coordination.k8s.io/v1/namespaces/ops/leases/leader//",
            "//apis/coordination.k8s.io/v1/namespaces/ops/leases/leader---shard-a//");
    renamed("GET", MAPS "/leader/status", MAPS "/leader---shard-a/status");
    renamed("POST", MAPS "/leader/what", MAPS "/leader---shard-a/what");
    renamed("GET", "/api/v1/watch/namespaces/ops/configmaps/leader",
            "/api/v1/watch/namespaces/ops/configmaps/leader---shard-a");
}

static void by_encoded_path(void **state)
{
    (void)state;
    renamed("GET", "/api/v1/namespaces/%6fps/configmaps/l%65ader?a=%41",
            "/api/v1/namespaces/%6fps/configmaps/leader---shard-a?a=%41");
    renamed("GET", "/api/v1/%6eamespaces/ops/configmaps/%6c%65%61%64%65%72/x%20y",
            "/api/v1/%6eamespaces/ops/configmaps/leader---shard-a/x%20y");
    renamed("GET", "/api/v1/namespaces/ops/configmaps%2fleader%2Fstatus",
            "/api/v1/namespaces/ops/configmaps%2fleader---shard-a%2Fstatus");
    left_alone("GET", MAPS "/leader%00");
    left_alone("GET", MAPS "/leader%20");
    left_alone("GET", MAPS "/le+der");
}

/* Also of another cluster, where shards lead for themselves as well. */
static void behind_a_gateway(void **state)
{
    (void)state;
    static const char *const places[] = {LEASES, MAPS};
    char target[256];
    char want[256];
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        (void)snprintf(target, sizeof target, GATEWAY "%s/leader?x=y", places[i]);
        (void)snprintf(want, sizeof want, GATEWAY "%s/leader---shard-a?x=y", places[i]);
        renamed("GET", target, want);
    }
    renamed("GET",
            "/apis/g/v1/clusterextensions/%63/proxy//api/v1/namespaces/ops/configmaps/le%61der",
            "/apis/g/v1/clusterextensions/%63/proxy//api/v1/namespaces/ops/configmaps/"
            "leader---shard-a");
    renamed("GET", GATEWAY LEASES "?watch=1&fieldSelector=metadata.name%3Dleader",
            GATEWAY LEASES "?watch=1&fieldSelector=metadata.name%3Dleader---shard-a");
    struct lock_request r = examine("POST", GATEWAY LEASES, NULL);
    assert_true(r.needs_body);
    left_alone("GET", "/apis/g/v1/clusterextensions/leader");
    left_alone("GET", "/apis/g/v1/clusterextensions/leader/proxy/version");
}

static void writes_by_path_need_their_body(void **state)
{
    (void)state;
    struct lock_request r = examine("PUT", LEASES "/leader", LEASES "/leader---shard-a");
    assert_true(r.needs_body);
    r = examine("PATCH", MAPS "/leader?fieldManager=x", MAPS "/leader---shard-a?fieldManager=x");
    assert_true(r.needs_body);
    r = examine("PUT", MAPS "/leader/status", MAPS "/leader---shard-a/status");
    assert_true(r.needs_body);
}

static void creates_are_decided_by_their_body(void **state)
{
    (void)state;
    static const char *const collections[] = {LEASES, MAPS, MAPS "?dryRun=All&fieldManager=leader",
                                              "/api/v1/namespaces/ops/endpoints"};
    for (size_t i = 0; i < ARRAY_LEN(collections); i++) {
        struct lock_request r = examine("POST", collections[i], NULL);
        assert_int_equal(r.found, LOCK_OTHER);
        assert_true(r.needs_body);
    }
    left_alone("POST", "/api/v1/namespaces/ops/secrets");
    left_alone("POST", "/api/v1/namespaces/other/configmaps");
    left_alone("POST", "/api/v1/configmaps");
    left_alone("POST", "/apis/x.io/v1/namespaces/ops/leases");
}

#define CANDIDATES "/apis/coordination.k8s.io/v1beta1/namespaces/ops/leasecandidates"

static void candidates_name_the_lock_in_their_body(void **state)
{
    (void)state;
    static const char *const writes[][2] = {
        {"POST", CANDIDATES}, {"PUT", CANDIDATES "/leader"}, {"PATCH", CANDIDATES "/pod-1"}};
    for (size_t i = 0; i < ARRAY_LEN(writes); i++) {
        struct lock_request r = examine(writes[i][0], writes[i][1], NULL);
        assert_int_equal(r.found, LOCK_OWN);
        assert_true(r.needs_body);
        assert_int_equal(r.field, LOCK_SPEC_LEASE_NAME);
    }
    own("GET", CANDIDATES "/leader");
    own("DELETE", CANDIDATES "/pod-1");
    own("GET", CANDIDATES "?watch=true&fieldSelector=metadata.name%3Dpod-1");
    left_alone("DELETE", CANDIDATES);
    left_alone("POST", "/apis/coordination.k8s.io/v1beta1/namespaces/other/leasecandidates");
    left_alone("POST", "/apis/x.io/v1beta1/namespaces/ops/leasecandidates");
}

static void what_is_not_the_lock(void **state)
{
    (void)state;
    left_alone("GET", "/apis/coordination.k8s.io/v1/namespaces/other/leases/leader");
    left_alone("GET", LEASES "/leader2");
    left_alone("GET", LEASES "/Leader");
    left_alone("GET", LEASES "/leader---shard-b");
    left_alone("PUT", LEASES "/leader---shard-b");
    left_alone("GET", "/apis/x.io/v1/namespaces/ops/leases/leader");
    left_alone("GET", "/apis/coordination.k8s.io/v1/namespaces/ops/configmaps/leader");
    left_alone("GET", "/api/v1/namespaces/ops/leases/leader");
    left_alone("GET", "/api/v1/namespaces/ops/secrets/leader");
    left_alone("GET", "/api/v1/namespaces/leader");
    left_alone("GET", "/apis/coordination.k8s.io/v1/leases/leader");
    left_alone("OPTIONS", LEASES "/leader");
    left_alone("GET", "/version");
    left_alone("GET", LEASES);
    left_alone("GET", LEASES "?watch=1");
    left_alone("DELETE", LEASES);
}

/* Whether it is a lock of that name in another namespace. The request goes on as it is. */
static void elsewhere(const char *method, const char *target, bool want)
{
    struct lock_request r = examine(method, target, NULL);
    if (r.elsewhere != want || r.found != LOCK_OTHER || r.needs_body) {
        fail_msg("%s %s", method, target);
    }
}

#define SYSTEM_LEASES "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

static void locks_elsewhere(void **state)
{
    (void)state;
    static const char *const methods[] = {"GET", "PUT", "PATCH", "DELETE"};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        elsewhere(methods[i], SYSTEM_LEASES "/leader", true);
        elsewhere(methods[i], GATEWAY SYSTEM_LEASES "/leader", true);
        elsewhere(methods[i], SYSTEM_LEASES "/leader2", false);
        elsewhere(methods[i], SYSTEM_LEASES "/leader---shard-a", false);
    }
    elsewhere("GET", SYSTEM_LEASES "?watch=1&fieldSelector=metadata.name%3Dleader", true);
    elsewhere("GET", SYSTEM_LEASES "?fieldSelector=metadata.name%3Dother", false);
    elsewhere("GET", SYSTEM_LEASES, false);
    elsewhere("GET", "/apis/x.io/v1/namespaces/kube-system/leases/leader", false);
    /* Things of other kinds may well have the operator's name: only what renews a lock is one. */
    elsewhere("GET", "/api/v1/namespaces/other/configmaps/leader", false);
    elsewhere("PATCH", "/api/v1/namespaces/other/endpoints/leader", false);
    elsewhere("PUT", "/api/v1/namespaces/other/configmaps/leader", true);
    elsewhere("PUT", "/api/v1/namespaces/other/endpoints/leader", true);
    elsewhere("PUT", "/api/v1/namespaces/other/secrets/leader", false);
    elsewhere("GET", "/apis/coordination.k8s.io/v1/leases/leader", false); /* no namespace */
    assert_false(examine("GET", LEASES "/leader", LEASES "/leader---shard-a").elsewhere);
}

static void the_name_that_the_server_returned(void **state)
{
    (void)state;
    own("GET", LEASES "/leader---shard-a");
    own("PUT", LEASES "/leader---shard-a");
    own("PATCH", MAPS "/leader---shard-%61");
    own("DELETE", MAPS "/leader---shard-a");
    own("GET", LEASES "?fieldSelector=metadata.name%3Dleader---shard-a&watch=true");
}

#define SELECTED "metadata.name%3Dleader---shard-a"

static void by_field_selector(void **state)
{
    (void)state;
    renamed("GET", LEASES "?fieldSelector=metadata.name%3Dleader",
            LEASES "?fieldSelector=" SELECTED);
    renamed("GET", LEASES "?watch=true&fieldSelector=metadata.name=leader&resourceVersion=7",
            LEASES "?watch=true&fieldSelector=metadata.name=leader---shard-a&resourceVersion=7");
    renamed("GET", MAPS "?allowWatchBookmarks=1&fieldSelector=metadata.name%3Dleader&watch=1",
            MAPS "?allowWatchBookmarks=1&fieldSelector=" SELECTED "&watch=1");
    renamed("DELETE", MAPS "?fieldSelector=metadata.name%3Dleader",
            MAPS "?fieldSelector=" SELECTED);
    renamed("GET", MAPS "?fieldSelector=metadata.name%3D%3Dleader",
            MAPS "?fieldSelector=metadata.name%3D%3Dleader---shard-a");
    renamed("GET", MAPS "?field%53elector=%6detadata.name=%6C%65ader",
            MAPS "?field%53elector=%6detadata.name=leader---shard-a");
    renamed("GET", "/api/v1/watch/namespaces/ops/configmaps?fieldSelector=metadata.name=leader",
            "/api/v1/watch/namespaces/ops/configmaps?fieldSelector=metadata.name=leader---shard-a");
    /* the client's own label selector stays */
    renamed("GET", MAPS "?labelSelector=a&fieldSelector=metadata.name%3Dleader",
            MAPS "?labelSelector=a&fieldSelector=" SELECTED);
}

static void with_further_terms(void **state)
{
    (void)state;
    renamed("GET", MAPS "?fieldSelector=metadata.namespace%3Dops%2Cmetadata.name%3Dleader",
            MAPS "?fieldSelector=metadata.namespace%3Dops%2C" SELECTED);
    renamed("GET", MAPS "?fieldSelector=metadata.name%3Dleader,metadata.namespace=ops",
            MAPS "?fieldSelector=" SELECTED ",metadata.namespace=ops");
    renamed("GET", MAPS "?fieldSelector=,x!=leader,metadata.name=leader,",
            MAPS "?fieldSelector=,x!=leader,metadata.name=leader---shard-a,");
    renamed("GET", MAPS "?fieldSelector=a=x\\,metadata.name\\=leader,metadata.name=leader",
            MAPS "?fieldSelector=a=x\\,metadata.name\\=leader,metadata.name=leader---shard-a");
    /* what matches nothing goes on matching nothing */
    renamed("GET", MAPS "?fieldSelector=metadata.name=leader,metadata.name!=leader",
            MAPS "?fieldSelector=metadata.name=leader---shard-a,metadata.name!=leader---shard-a");
    renamed("GET", MAPS "?fieldSelector=metadata.name=a,metadata.name=leader",
            MAPS "?fieldSelector=metadata.name=a,metadata.name=leader---shard-a");
}

static void field_selectors_of_other_things(void **state)
{
    (void)state;
    left_alone("GET", MAPS "?fieldSelector=metadata.name!=leader");
    left_alone("GET", MAPS "?fieldSelector=metadata.name%3Dleader2");
    left_alone("GET", MAPS "?fieldSelector=metadata.namespace=leader");
    left_alone("GET", MAPS "?fieldSelector=");
    left_alone("GET", MAPS "?fieldSelector");
    left_alone("GET", MAPS "?fieldselector=metadata.name=leader");
    left_alone("GET", MAPS "?labelSelector=metadata.name=leader");
    left_alone("GET", "/api/v1/configmaps?fieldSelector=metadata.name=leader");
    left_alone("GET", "/api/v1/namespaces/other/configmaps?fieldSelector=metadata.name=leader");
    /* the server answers 400 to these */
    left_alone("GET", MAPS "?fieldSelector=metadata.name=leader,x");
    left_alone("GET", MAPS "?fieldSelector=metadata.name=leader=");
    /* it reads the first one only, and none that is not well-formed */
    left_alone("GET", MAPS "?fieldSelector=a=b&fieldSelector=metadata.name=leader");
    left_alone("GET", MAPS "?fieldSelector=%zz&fieldSelector=a&metadata.name=leader");
    renamed("GET", MAPS "?fieldSelector=%zz&fieldSelector=metadata.name=leader&fieldSelector=x",
            MAPS "?fieldSelector=%zz&fieldSelector=metadata.name=leader---shard-a&fieldSelector=x");
}

static void refuse(const char *target, size_t max, int code, const char *says)
{
    struct request_info ri;
    struct lock_request result;
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT(max);
    assert_int_equal(request_info_parse(&ri, SLICE("GET"), slice_str(target), &e), 0);
    assert_int_equal(lock_examine(&rule, &ri, slice_str(target), &out, &result, &e), code);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("%s: %s", target, e.msg);
    }
    assert_int_equal(result.found, LOCK_OTHER);
    assert_int_equal(out.len, 0);
    buf_reset(&out);
    request_info_deinit(&ri);
}

/* Nothing else would narrow these. */
static void queries_that_servers_read_differently(void **state)
{
    (void)state;
    refuse(MAPS "?fieldSelector=metadata.name=leader&a;b", 4096, -EINVAL, "';'");
    refuse(MAPS "?fieldSelector=metadata.name=leader---shard-a&a;b", 4096, -EINVAL, "';'");
    char target[QUERY_PIECES_MAX + 256];
    int n = snprintf(target, sizeof target, MAPS "?fieldSelector=metadata.name=leader");
    memset(target + n, '&', QUERY_PIECES_MAX);
    target[n + QUERY_PIECES_MAX] = '\0';
    refuse(target, 4096, -EINVAL, "parameters");
}

static void bounded_by_the_buffer(void **state)
{
    (void)state;
    refuse(LEASES "/leader", sizeof LEASES "/leader---shard-a" - 2, -ENOBUFS, "too long");
    refuse(MAPS "?fieldSelector=metadata.name=leader",
           sizeof MAPS "?fieldSelector=metadata.name=leader---shard-a" - 2, -ENOBUFS, "too long");
}

/* --- bodies --- */

/* Where the bodies of a test name the lock; set back by the test that changes it. */
static enum lock_field named_in = LOCK_METADATA_NAME;

struct body {
    const char *type;
    const char *encoding;
    struct slice text;
};

static int rewrite(const struct body *b, struct buf *out, enum lock_found *found, struct err *e)
{
    return lock_rewrite_body(&rule, named_in, slice_str(b->type), slice_str(b->encoding), b->text,
                             out, found, e);
}

static void check_body(const char *type, struct slice text, enum lock_found want,
                       struct slice want_text)
{
    struct body b = {.type = type, .encoding = "", .text = text};
    struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    enum lock_found found;
    if (rewrite(&b, &out, &found, &e) != 0) {
        fail_msg("%.*s: %s", (int)text.len, text.ptr, e.msg);
    }
    struct slice got = buf_slice(&out);
    if (found != want || !slice_eq(got, want_text)) {
        fail_msg("%.*s: %s, %.*s", (int)text.len, text.ptr, found_names[found], (int)got.len,
                 got.ptr);
    }
    buf_reset(&out);
}

static void body_becomes(const char *type, const char *text, const char *want)
{
    check_body(type, slice_str(text), LOCK_RENAMED, slice_str(want));
}

static void body_stays(const char *type, const char *text, enum lock_found want)
{
    check_body(type, slice_str(text), want, SLICE(""));
}

#define JSON "application/json"

static void json_objects(void **state)
{
    (void)state;
    body_becomes(JSON, "{\"metadata\":{\"name\":\"leader\"}}",
                 "{\"metadata\":{\"name\":\"leader---shard-a\"}}");
    body_becomes("", "{\"metadata\":{\"name\":\"leader\"}}",
                 "{\"metadata\":{\"name\":\"leader---shard-a\"}}");
    body_becomes("Application/JSON; charset=utf-8", "{\"metadata\":{\"name\":\"leader\"}}",
                 "{\"metadata\":{\"name\":\"leader---shard-a\"}}");
    /* every other byte stays: spaces, order, numbers, escapes, bytes that are not UTF-8 */
    body_becomes(
        JSON,
        "\t{ \"a\" : [1.0e5,-0,{\"name\":\"leader\"}], \"metadata\" :{\"labels\":{\"name\":"
        "\"leader\"},\r\n\"name\": \"leader\" ,\"uid\":\"\\ud83d\\ude00\xff\"} "
        ",\"name\":\"leader\","
        "\"spec\":{\"metadata\":{\"name\":\"leader\"}},\"b\":12345678901234567890 }\n",
        "\t{ \"a\" : [1.0e5,-0,{\"name\":\"leader\"}], \"metadata\" :{\"labels\":{\"name\":"
        "\"leader\"},\r\n\"name\": \"leader---shard-a\" ,\"uid\":\"\\ud83d\\ude00\xff\"} ,\"name\":"
        "\"leader\",\"spec\":{\"metadata\":{\"name\":\"leader\"}},\"b\":12345678901234567890 }\n");
    /* escaped keys and values */
    body_becomes(JSON, "{\"met\\u0061data\":{\"\\u006eame\":\"l\\u0065\\u0061der\"}}",
                 "{\"met\\u0061data\":{\"\\u006eame\":\"leader---shard-a\"}}");
}

static void json_of_other_things(void **state)
{
    (void)state;
    body_stays(JSON, "{\"metadata\":{\"name\":\"leader2\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"name\":\"leade\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"name\":\"leader---shard-a\"}}", LOCK_OWN);
    body_stays(JSON, "{\"metadata\":{\"name\":\"leader---shard-b\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"generateName\":\"leader\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"Name\":\"leader\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"Metadata\":{\"name\":\"leader\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"name\":\"leader\"}", LOCK_OTHER);
    body_stays(JSON, "{\"data\":{\"metadata\":\"{\\\"name\\\":\\\"leader\\\"}\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":null}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":[\"name\",\"leader\"]}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"name\":[\"leader\"]}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"name\":null}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{}}", LOCK_OTHER);
    body_stays(JSON, "{}", LOCK_OTHER);
    body_stays(JSON, "[{\"metadata\":{\"name\":\"leader\"}}]", LOCK_OTHER);
    body_stays(JSON, "null", LOCK_OTHER);
    body_stays(JSON, "", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"name\":\"\\ud83d\\ude00leader\"}}", LOCK_OTHER);
}

static void json_patches(void **state)
{
    (void)state;
    body_becomes(
        "application/merge-patch+json",
        "{\"spec\":{\"holderIdentity\":\"x\"},\"metadata\":{\"name\":\"leader\"}}",
        "{\"spec\":{\"holderIdentity\":\"x\"},\"metadata\":{\"name\":\"leader---shard-a\"}}");
    body_becomes("application/strategic-merge-patch+json",
                 "{\"metadata\":{\"$patch\":\"replace\",\"name\":\"leader\"}}",
                 "{\"metadata\":{\"$patch\":\"replace\",\"name\":\"leader---shard-a\"}}");
    body_stays("application/strategic-merge-patch+json", "{\"data\":{\"name\":\"leader\"}}",
               LOCK_OTHER);
    static const char type[] = "application/json-patch+json";
    body_becomes(
        type,
        "[{\"op\":\"test\",\"path\":\"/metadata/name\",\"value\":\"leader\"},\n"
        " {\"op\":\"add\",\"path\":\"/data/name\",\"value\":\"leader\"},\n"
        " {\"value\":{\"name\":\"leader\",\"x\":1},\"op\":\"replace\",\"path\":\"\\/metadata\"},\n"
        " {\"op\":\"replace\",\"path\":\"\",\"value\":{\"metadata\":{\"name\":\"leader\"}}} ]",
        "[{\"op\":\"test\",\"path\":\"/metadata/name\",\"value\":\"leader---shard-a\"},\n"
        " {\"op\":\"add\",\"path\":\"/data/name\",\"value\":\"leader\"},\n"
        " {\"value\":{\"name\":\"leader---shard-a\",\"x\":1},\"op\":\"replace\",\"path\":"
        "\"\\/metadata\"},\n"
        " {\"op\":\"replace\",\"path\":\"\",\"value\":{\"metadata\":{\"name\":\"leader---shard-a\"}"
        "}} ]");
    body_stays(type, "[]", LOCK_OTHER);
    body_stays(type, "[1,null,{\"path\":\"/metadata/name\"},{\"value\":\"leader\"}]", LOCK_OTHER);
    body_stays(type, "[{\"path\":\"/metadata/name\",\"value\":\"x\"}]", LOCK_OTHER);
    body_stays(type, "[{\"path\":\"/metadata/name\",\"value\":\"leader---shard-a\"}]", LOCK_OWN);
    body_stays(type, "{\"metadata\":{\"name\":\"leader\"}}", LOCK_OTHER);
}

static void yaml_objects(void **state)
{
    (void)state;
    static const char apply[] = "application/apply-patch+yaml";
    body_becomes(apply, "{\"metadata\":{\"name\": \"leader\" }}",
                 "{\"metadata\":{\"name\": \"leader---shard-a\" }}");
    static const char *const types[] = {apply, "application/yaml"};
    for (size_t i = 0; i < 2; i++) {
        body_becomes(types[i],
                     "# a lock\napiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: "
                     "{name: leader, namespace: ops}\nspec:\n  leaseDurationSeconds: 15\n"
                     "  holderIdentity: \"12\"\n",
                     "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n"
                     "  name: leader---shard-a\n  namespace: ops\nspec:\n"
                     "  leaseDurationSeconds: 15\n  holderIdentity: \"12\"\n");
        body_stays(types[i], "metadata:\n  name: leader---shard-a\n", LOCK_OWN);
        body_stays(types[i], "metadata:\n  name: leader-b\n", LOCK_OTHER);
        body_stays(types[i], "metadata:\n  generateName: leader\n", LOCK_OTHER);
        body_stays(types[i], "metadata: leader\n", LOCK_OTHER);
        body_stays(types[i], "- metadata: {name: leader}\n", LOCK_OTHER);
        body_stays(types[i], "just text", LOCK_OTHER);
    }
}

static void body_refused(const char *type, const char *encoding, struct slice text, int code,
                         const char *says)
{
    struct body b = {.type = type, .encoding = encoding, .text = text};
    struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    enum lock_found found = LOCK_OWN;
    assert_int_equal(buf_append_str(&out, "kept"), 0);
    int rc = rewrite(&b, &out, &found, &e);
    if (rc != code || strstr(e.msg, says) == NULL) {
        fail_msg("%.*s: %d %s", (int)text.len, text.ptr, rc, e.msg);
    }
    assert_int_equal(found, LOCK_OTHER);
    assert_string_equal(buf_cstr(&out), "kept");
    buf_reset(&out);
}

static void encodings_that_are_not_understood(void **state)
{
    (void)state;
    struct slice json = SLICE("{\"metadata\":{\"name\":\"leader\"}}");
    body_refused("application/cbor", "", SLICE("\xd9\xd9\xf7\xa0"), -ENOTSUP,
                 "Content-Type is \"application/cbor\"");
    body_refused("application/cbor", "", json, -ENOTSUP, "JSON, YAML and Kubernetes protobuf");
    body_refused("application/apply-patch+cbor", "", json, -ENOTSUP, "apply-patch+cbor");
    body_refused("text/plain", "", json, -ENOTSUP, "text/plain");
    body_refused(JSON, "gzip", SLICE("\x1f\x8b"), -ENOTSUP, "Content-Encoding is \"gzip\"");
    body_refused(JSON, "gzip", json, -ENOTSUP, "without Content-Encoding");
    body_refused("", "", SLICE("k8s\0\x0a\x00"), -ENOTSUP, "no Content-Type");
    body_refused("", "", SLICE("\xa1\x61"), -ENOTSUP, "JSON, YAML and Kubernetes protobuf");
    struct body identity = {.type = JSON, .encoding = "identity", .text = json};
    struct buf out = BUF_INIT(1024);
    enum lock_found found;
    assert_int_equal(rewrite(&identity, &out, &found, NULL), 0);
    assert_int_equal(found, LOCK_RENAMED);
    buf_reset(&out);
}

static void bodies_that_are_not_what_they_say(void **state)
{
    (void)state;
    body_refused(JSON, "", SLICE("{\"metadata\":{\"name\":\"leader\"}"), -EINVAL, "not JSON");
    body_refused(JSON, "", SLICE("metadata: {name: leader}"), -EINVAL, "line 1, column 1");
    body_refused(JSON, "", SLICE("{} {}"), -EINVAL, "after the JSON document");
    body_refused("", "", SLICE("{\"a\""), -EINVAL, "not JSON");
    body_refused("application/yaml", "", SLICE("a: [b"), -EINVAL, "not YAML");
    body_refused("application/yaml", "", SLICE("a: 1\na: 2\n"), -EINVAL, "duplicate key");
    body_refused("application/yaml", "", SLICE("a: 1\n---\nb: 2\n"), -EINVAL, "not YAML");
    body_refused("application/json-patch+json", "", SLICE("[{"), -EINVAL, "not JSON");
}

static void names_that_stand_twice(void **state)
{
    (void)state;
    body_refused(JSON, "", SLICE("{\"metadata\":{\"name\":\"leader\",\"name\":\"x\"}}"), -EINVAL,
                 "duplicate key \"name\"");
    body_refused(JSON, "", SLICE("{\"metadata\":{\"name\":\"x\"},\"m\\u0065tadata\":{}}"), -EINVAL,
                 "duplicate key \"metadata\"");
    body_refused("application/yaml", "", SLICE("{\"metadata\":{},\"metadata\":1}"), -EINVAL,
                 "duplicate key \"metadata\"");
    body_refused("application/json-patch+json", "",
                 SLICE("[{\"path\":\"/metadata/name\",\"value\":\"leader\"},"
                       "{\"path\":\"/metadata/name\",\"path\":\"/a\",\"value\":\"leader\"}]"),
                 -EINVAL, "duplicate key \"path\"");
    /* elsewhere it does not matter */
    body_becomes(JSON, "{\"data\":{\"a\":1,\"a\":2},\"metadata\":{\"name\":\"leader\"}}",
                 "{\"data\":{\"a\":1,\"a\":2},\"metadata\":{\"name\":\"leader---shard-a\"}}");
}

#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define MAGIC "k8s\0"
/* Unknown.typeMeta: v1 ConfigMap */
#define TYPE                                                                                       \
    "\x0a\x0f\x0a\x02v1\x12\x09"                                                                   \
    "ConfigMap"

static void protobuf_objects(void **state)
{
    (void)state;
    /* Unknown{typeMeta, raw: {metadata: {name, generateName, namespace}, data}, "", ""} */
    check_body(PROTOBUF,
               SLICE(MAGIC TYPE "\x12\x17\x0a\x0f\x0a\x06leader\x12\x00\x1a\x03ops"
                                "\x12\x04\x0a\x02xy\x1a\x00\x22\x00"),
               LOCK_RENAMED,
               SLICE(MAGIC TYPE "\x12\x21\x0a\x19\x0a\x10leader---shard-a\x12\x00\x1a\x03ops"
                                "\x12\x04\x0a\x02xy\x1a\x00\x22\x00"));
    /* the object before its type, the name last, fields of every kind, a content type */
    check_body(PROTOBUF,
               SLICE(MAGIC "\x12\x2c\x12\x02zz\x0a\x16\x38\x96\x01\x41"
                           "12345678"
                           "\x1a\x00\x0a\x06leader"
                           "\x1d"
                           "1234\x40\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                           "\x22\x23" PROTOBUF TYPE),
               LOCK_RENAMED,
               SLICE(MAGIC "\x12\x36\x12\x02zz\x0a\x20\x38\x96\x01\x41"
                           "12345678"
                           "\x1a\x00\x0a\x10leader---shard-a"
                           "\x1d"
                           "1234\x40\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                           "\x22\x23" PROTOBUF TYPE));
}

static void bodies_of_candidates(void **state)
{
    (void)state;
    static const char patch[] = "application/json-patch+json";
    named_in = LOCK_SPEC_LEASE_NAME;
    body_becomes(JSON, "{\"metadata\":{\"name\":\"leader\"},\"spec\":{\"leaseName\":\"leader\"}}",
                 "{\"metadata\":{\"name\":\"leader\"},\"spec\":{\"leaseName\":"
                 "\"leader---shard-a\"}}");
    body_becomes("application/merge-patch+json", "{\"spec\":{\"leaseName\":\"leader\"}}",
                 "{\"spec\":{\"leaseName\":\"leader---shard-a\"}}");
    body_becomes(patch, "[{\"path\":\"/spec/leaseName\",\"value\":\"leader\"}]",
                 "[{\"path\":\"/spec/leaseName\",\"value\":\"leader---shard-a\"}]");
    body_becomes(patch, "[{\"path\":\"/spec\",\"value\":{\"leaseName\":\"leader\"}}]",
                 "[{\"path\":\"/spec\",\"value\":{\"leaseName\":\"leader---shard-a\"}}]");
    body_becomes("application/yaml", "spec:\n  leaseName: leader\n",
                 "spec:\n  leaseName: leader---shard-a\n");
    body_stays(JSON, "{\"spec\":{\"leaseName\":\"leader---shard-a\"}}", LOCK_OWN);
    body_stays(JSON, "{\"spec\":{\"leaseName\":\"other\"}}", LOCK_OTHER);
    body_stays(JSON, "{\"metadata\":{\"name\":\"leader\"}}", LOCK_OTHER);
    body_refused(JSON, "", SLICE("{\"spec\":{\"leaseName\":\"a\",\"leaseName\":\"leader\"}}"),
                 -EINVAL, "duplicate key \"leaseName\"");
    /* Unknown{raw: {metadata: {name}, spec: {leaseName, binaryVersion}}} */
    check_body(PROTOBUF,
               SLICE(MAGIC "\x12\x19\x0a\x08\x0a\x06leader\x12\x0d\x0a\x06leader\x22\x03"
                           "1.2"),
               LOCK_RENAMED,
               SLICE(MAGIC "\x12\x23\x0a\x08\x0a\x06leader\x12\x17\x0a\x10leader---shard-a\x22"
                           "\x03"
                           "1.2"));
    named_in = LOCK_METADATA_NAME;
}

/* Appends a field with bytes. */
static void field(struct buf *out, char tag, const void *data, size_t len)
{
    assert_int_equal(buf_append_char(out, tag), 0);
    size_t n = len;
    for (; n >= 0x80; n >>= 7) {
        assert_int_equal(buf_append_char(out, (char)((n & 0x7f) | 0x80)), 0);
    }
    assert_int_equal(buf_append_char(out, (char)n), 0);
    assert_int_equal(buf_append(out, data, len), 0);
}

static void make_protobuf(struct buf *out, const char *name, size_t filler)
{
    struct buf metadata = BUF_INIT(1 << 20);
    struct buf object = BUF_INIT(1 << 20);
    char *space = calloc(1, filler + 1);
    assert_non_null(space);
    field(&metadata, 0x0a, name, strlen(name));
    field(&metadata, 0x1a, "ops", 3);
    field(&metadata, 0x62, space, filler);
    field(&object, 0x0a, buf_data(&metadata), metadata.len);
    field(&object, 0x12, space, filler);
    assert_int_equal(buf_append(out, MAGIC, 4), 0);
    field(out, 0x12, buf_data(&object), object.len);
    field(out, 0x22, "", 0);
    free(space);
    buf_reset(&metadata);
    buf_reset(&object);
}

/* Lengths around the name grow from one byte to two, and from two to three. */
static void protobuf_lengths(void **state)
{
    (void)state;
    for (size_t filler = 0; filler < 20000; filler += filler < 300 ? 1 : 97) {
        struct buf before = BUF_INIT(1 << 20);
        struct buf after = BUF_INIT(1 << 20);
        make_protobuf(&before, "leader", filler);
        make_protobuf(&after, "leader---shard-a", filler);
        check_body(PROTOBUF, buf_slice(&before), LOCK_RENAMED, buf_slice(&after));
        buf_reset(&before);
        buf_reset(&after);
    }
}

static void protobuf_of_other_things(void **state)
{
    (void)state;
    check_body(PROTOBUF, SLICE(MAGIC "\x12\x0a\x0a\x08\x0a\x06leadex"), LOCK_OTHER, SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC "\x12\x14\x0a\x12\x0a\x10leader---shard-a"), LOCK_OWN,
               SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC "\x12\x0a\x0a\x08\x12\x06leader"), LOCK_OTHER, SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC "\x12\x0a\x12\x08\x0a\x06leader"), LOCK_OTHER, SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC "\x0a\x0a\x0a\x08\x0a\x06leader"), LOCK_OTHER, SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC "\x12\x02\x0a\x00"), LOCK_OTHER, SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC "\x12\x00"), LOCK_OTHER, SLICE(""));
    check_body(PROTOBUF, SLICE(MAGIC), LOCK_OTHER, SLICE(""));
}

static void protobuf_that_is_refused(void **state)
{
    (void)state;
    static const char what[] = "not Kubernetes protobuf";
    body_refused(PROTOBUF, "", SLICE("{}"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE("k8s"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE("\x12\x0a\x0a\x08\x0a\x06leader"), -EINVAL, what);
    /* cut off, at each level */
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x0b\x0a\x08\x0a\x06leader"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x0a\x0a\x09\x0a\x06leader"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x0a\x0a\x08\x0a\x07leader"), -EINVAL, what);
    body_refused(PROTOBUF, "",
                 SLICE(MAGIC "\x15"
                             "123"),
                 -EINVAL, what);
    body_refused(PROTOBUF, "",
                 SLICE(MAGIC "\x11"
                             "1234567"),
                 -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x08\x80"), -EINVAL, what);
    /* a group, a field 0, a tag and numbers that are too large */
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x0b\x0c"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x02\x00"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x92\x80\x80\x80\x10\x00"), -EINVAL, what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), -EINVAL,
                 what);
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), -EINVAL,
                 what);
    /* twice, or of another type */
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x00\x12\x0a\x0a\x08\x0a\x06leader"), -EINVAL,
                 "occurs twice");
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x0c\x0a\x00\x0a\x08\x0a\x06leader"), -EINVAL,
                 "occurs twice");
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x0d\x0a\x0b\x0a\x06leader\x0a\x01x"), -EINVAL,
                 "occurs twice");
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x04\x0a\x02\x08\x01"), -EINVAL, "wrong type");
    /* not plain protobuf inside */
    body_refused(PROTOBUF, "", SLICE(MAGIC "\x12\x00\x1a\x04gzip\x22\x00"), -ENOTSUP,
                 "content encoding");
    body_refused(PROTOBUF, "",
                 SLICE(MAGIC "\x22\x10"
                             "application/json\x12\x02{}"),
                 -ENOTSUP, "content type");
}

static void bodies_bounded_by_the_buffer(void **state)
{
    (void)state;
    const struct body bodies[] = {
        {JSON, "", SLICE("{\"metadata\":{\"name\":\"leader\"}}")},
        {"application/json-patch+json", "",
         SLICE("[{\"path\":\"/metadata/name\",\"value\":\"leader\"}]")},
        {"application/yaml", "", SLICE("metadata: {name: leader}")},
        {PROTOBUF, "", SLICE(MAGIC "\x12\x0a\x0a\x08\x0a\x06leader")},
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct buf out = BUF_INIT(24);
        struct err e = ERR_INIT;
        enum lock_found found;
        assert_int_equal(rewrite(&bodies[i], &out, &found, &e), -ENOBUFS);
        assert_non_null(strstr(e.msg, "too large"));
        assert_int_equal(found, LOCK_OTHER);
        assert_int_equal(out.len, 0);
        buf_reset(&out);
    }
}

/* --- the rule --- */

static struct rules *make_rules(const char *election, const char *shard)
{
    char text[1024];
    int n =
        snprintf(text, sizeof text,
                 "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":"
                 "\"shard-ns\",\"name\":\"%s\"},\"generation\":1,\"spec\":{%s\"limits\":[]}}",
                 shard, election);
    struct err e = ERR_INIT;
    struct rules *r = rules_parse(text, (size_t)n, &e);
    if (r == NULL) {
        fail_msg("%s", e.msg);
    }
    return r;
}

static void made_from_rules(void **state)
{
    (void)state;
    struct lock_rule made;
    struct rules *r = make_rules("\"leaderElection\":{\"name\":\"my.lock\"},", "s1");
    assert_int_equal(lock_rule_init(&made, r, "pods", NULL), 0);
    assert_string_equal(made.name, "my.lock");
    assert_string_equal(made.renamed, "my.lock---s1");
    assert_string_equal(made.namespace, "pods");
    assert_int_equal(lock_rule_init(&made, r, NULL, NULL), 0);
    assert_string_equal(made.namespace, "shard-ns");

    struct rules *elsewhere = make_rules(
        "\"leaderElection\":{\"name\":\"my.lock\",\"namespace\":\"kube-system\"},", "s1");
    assert_int_equal(lock_rule_init(&made, elsewhere, "pods", NULL), 0);
    assert_string_equal(made.renamed, "my.lock---s1");
    assert_string_equal(made.namespace, "kube-system");
    rules_unref(elsewhere);

    char long_ns[NAME_LABEL_MAX + 2];
    memset(long_ns, 'n', sizeof long_ns);
    long_ns[sizeof long_ns - 1] = '\0';
    struct err e = ERR_INIT;
    assert_int_equal(lock_rule_init(&made, r, long_ns, &e), -ENAMETOOLONG);
    assert_non_null(strstr(e.msg, "my.lock---s1"));
    assert_string_equal(made.name, "");
    rules_unref(r);
}

static void without_leader_election_nothing_is_the_lock(void **state)
{
    (void)state;
    struct rules *r = make_rules("", "s1");
    for (int i = 0; i < 2; i++) {
        struct lock_rule made;
        struct request_info ri;
        struct lock_request result;
        struct buf out = BUF_INIT(1024);
        enum lock_found found;
        assert_int_equal(lock_rule_init(&made, i == 0 ? r : NULL, "ops", NULL), 0);
        assert_int_equal(request_info_parse(&ri, SLICE("POST"), SLICE(LEASES), NULL), 0);
        assert_int_equal(lock_examine(&made, &ri, SLICE(LEASES), &out, &result, NULL), 0);
        assert_int_equal(result.found, LOCK_OTHER);
        assert_false(result.needs_body);
        assert_int_equal(lock_rewrite_body(&made, LOCK_METADATA_NAME, SLICE("application/cbor"),
                                           SLICE(""), SLICE("\xa0"), &out, &found, NULL),
                         0);
        assert_int_equal(found, LOCK_OTHER);
        request_info_deinit(&ri);
    }
    rules_unref(r);
}

static void expect_namespace(const char *flag, const char *env, const char *dir, const char *want)
{
    char *got;
    struct err e = ERR_INIT;
    if (lock_pod_namespace(flag, env, dir, &got, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    if (want == NULL) {
        assert_null(got);
    } else {
        assert_string_equal(got, want);
    }
    free(got);
}

static void the_pods_namespace(void **state)
{
    (void)state;
    struct temp_dir dir;
    temp_dir_init(&dir);
    expect_namespace(NULL, NULL, dir.path, NULL);
    temp_dir_write(&dir, "namespace", "from-file\n", 0600);
    expect_namespace(NULL, NULL, dir.path, "from-file");
    expect_namespace("", "", dir.path, "from-file");
    expect_namespace(NULL, "from-env", dir.path, "from-env");
    expect_namespace("from-flag", "from-env", dir.path, "from-flag");

    char *got;
    struct err e = ERR_INIT;
    assert_int_equal(lock_pod_namespace("No", NULL, dir.path, &got, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "--pod-namespace: \"No\""));
    assert_null(got);
    assert_int_equal(lock_pod_namespace(NULL, "a/b", dir.path, &got, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "$POD_NAMESPACE"));
    temp_dir_write(&dir, "namespace", "", 0600);
    assert_int_equal(lock_pod_namespace(NULL, NULL, dir.path, &got, &e), -EINVAL);
    assert_non_null(strstr(e.msg, "/namespace: \"\" is not a namespace"));
    temp_dir_deinit(&dir);
}

/* --- memory --- */

static bool examine_scenario(void *data)
{
    struct slice target = slice_str(data);
    struct request_info ri;
    struct lock_request result;
    struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    int rc = request_info_parse(&ri, SLICE("GET"), target, &e);
    if (rc != 0) {
        return false;
    }
    rc = lock_examine(&rule, &ri, target, &out, &result, &e);
    assert_true(rc == 0 || (rc == -ENOMEM && out.len == 0 && result.found == LOCK_OTHER));
    buf_reset(&out);
    request_info_deinit(&ri);
    return rc == 0;
}

static bool body_scenario(void *data)
{
    struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    enum lock_found found;
    int rc = rewrite(data, &out, &found, &e);
    assert_true(rc == 0 ? found == LOCK_RENAMED
                        : rc == -ENOMEM && out.len == 0 && found == LOCK_OTHER);
    buf_reset(&out);
    return rc == 0;
}

static bool namespace_scenario(void *data)
{
    char *got;
    struct err e = ERR_INIT;
    int rc = lock_pod_namespace(NULL, NULL, data, &got, &e);
    assert_true(rc == 0 || got == NULL);
    free(got);
    return rc == 0;
}

static void failing_allocations(void **state)
{
    (void)state;
    char path[] = LEASES "/l%65ader";
    char query[] = LEASES "?fieldSelector=metadata.name%3Dleader";
    struct body bodies[] = {
        {JSON, "", SLICE("{\"metadata\":{\"name\":\"leader\"}}")},
        {"application/yaml", "", SLICE("metadata: {name: leader}\nspec: [a, {b: c}]")},
        {PROTOBUF, "", SLICE(MAGIC "\x12\x0a\x0a\x08\x0a\x06leader")},
    };
    assert_true(sweep_allocations(examine_scenario, path) > 0);
    assert_true(sweep_allocations(examine_scenario, query) > 0);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        assert_true(sweep_allocations(body_scenario, &bodies[i]) > 0);
    }
    struct temp_dir dir;
    temp_dir_init(&dir);
    temp_dir_write(&dir, "namespace", "ops", 0600);
    assert_true(sweep_allocations(namespace_scenario, dir.path) > 0);
    temp_dir_deinit(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_path),
        cmocka_unit_test(by_encoded_path),
        cmocka_unit_test(behind_a_gateway),
        cmocka_unit_test(writes_by_path_need_their_body),
        cmocka_unit_test(creates_are_decided_by_their_body),
        cmocka_unit_test(candidates_name_the_lock_in_their_body),
        cmocka_unit_test(what_is_not_the_lock),
        cmocka_unit_test(locks_elsewhere),
        cmocka_unit_test(the_name_that_the_server_returned),
        cmocka_unit_test(by_field_selector),
        cmocka_unit_test(with_further_terms),
        cmocka_unit_test(field_selectors_of_other_things),
        cmocka_unit_test(queries_that_servers_read_differently),
        cmocka_unit_test(bounded_by_the_buffer),
        cmocka_unit_test(json_objects),
        cmocka_unit_test(json_of_other_things),
        cmocka_unit_test(json_patches),
        cmocka_unit_test(yaml_objects),
        cmocka_unit_test(encodings_that_are_not_understood),
        cmocka_unit_test(bodies_that_are_not_what_they_say),
        cmocka_unit_test(names_that_stand_twice),
        cmocka_unit_test(protobuf_objects),
        cmocka_unit_test(bodies_of_candidates),
        cmocka_unit_test(protobuf_lengths),
        cmocka_unit_test(protobuf_of_other_things),
        cmocka_unit_test(protobuf_that_is_refused),
        cmocka_unit_test(bodies_bounded_by_the_buffer),
        cmocka_unit_test(made_from_rules),
        cmocka_unit_test(without_leader_election_nothing_is_the_lock),
        cmocka_unit_test(the_pods_namespace),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
