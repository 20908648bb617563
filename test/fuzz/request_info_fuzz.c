/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the method, the rest is the target. How the path is encoded, and slashes
 * around it, must not change what is read from it; all that is read must lie in the path. What is
 * behind a gateway must be read as if it stood alone.
 */
#include "kube/request_info.h"

#include "base/array.h"
#include "base/buf.h"
#include "check.h"
#include "kube/query.h"

static const char *const methods[] = {"GET",   "HEAD",   "POST",    "PUT",
                                      "PATCH", "DELETE", "OPTIONS", "x"};

static const char *const named[] = {"/apis/g/v1/clusterextensions/*/proxy", "/k8s/clusters/*"};
static const struct api_prefixes prefixes = {named, ARRAY_LEN(named)};

static bool inside(struct slice part, struct slice whole)
{
    return part.len == 0 || (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len);
}

static void check_places(const struct request_info *ri)
{
    const struct slice parts[] = {ri->api_prefix, ri->group,       ri->version, ri->namespace,
                                  ri->resource,   ri->subresource, ri->parts};
    CHECK(inside(ri->gateway, ri->path) && inside(ri->own_path, ri->path));
    CHECK(inside(request_info_unnamed_gateway(ri), ri->path));
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        CHECK(inside(parts[i], ri->own_path));
        CHECK(i + 1 == ARRAY_LEN(parts) || parts[i].len == 0 ||
              memchr(parts[i].ptr, '/', parts[i].len) == NULL);
    }
    CHECK(ri->name_mem != NULL || inside(ri->name, ri->parts));
    CHECK(inside(ri->resource, ri->parts) && inside(ri->subresource, ri->parts));
    CHECK(ri->is_resource || (ri->verb == VERB_OTHER && ri->parts.len == 0));
    CHECK(ri->name.len == 0 || (ri->verb != VERB_DELETECOLLECTION && ri->verb != VERB_OTHER) ||
          ri->verb_name.len == 0);
}

static void check_same(const struct request_info *a, const struct request_info *b)
{
    CHECK(a->is_resource == b->is_resource && a->verb == b->verb);
    CHECK(slice_eq(a->verb_name, b->verb_name) && slice_eq(a->api_prefix, b->api_prefix));
    CHECK(slice_eq(a->group, b->group) && slice_eq(a->version, b->version));
    CHECK(slice_eq(a->namespace, b->namespace) && slice_eq(a->resource, b->resource));
    CHECK(slice_eq(a->subresource, b->subresource) && slice_eq(a->name, b->name));
    CHECK(slice_eq(a->parts, b->parts) && slice_eq(a->query, b->query));
}

/* The same target: slashes around the path, and each of its bytes encoded. */
static void rewrite(const struct request_info *ri, bool has_query, struct buf *out)
{
    CHECK(buf_append_str(out, "//") == 0);
    CHECK(query_encode(ri->path, out) == 0);
    CHECK(buf_append_str(out, has_query ? "//?" : "//") == 0);
    CHECK(buf_append(out, ri->query.ptr, ri->query.len) == 0);
}

static void check_rewritten(const struct request_info *ri, struct slice method, bool has_query)
{
    struct buf other = BUF_INIT(1 << 20);
    struct request_info again;
    rewrite(ri, has_query, &other);
    CHECK(request_info_parse_behind(&again, &prefixes, method, buf_slice(&other), NULL) == 0);
    check_same(ri, &again);
    CHECK(ri->ambiguous == again.ambiguous && slice_eq(ri->gateway, again.gateway));
    struct slice unnamed = request_info_unnamed_gateway(&again);
    CHECK(slice_eq(request_info_unnamed_gateway(ri), unnamed));
    request_info_deinit(&again);
    buf_reset(&other);
}

static void check_alone(struct request_info ri, struct slice method, bool has_query)
{
    struct buf other = BUF_INIT(1 << 20);
    struct request_info alone;
    bool behind = ri.gateway.len > 0;
    ri.path = ri.own_path;
    rewrite(&ri, has_query, &other);
    CHECK(request_info_parse(&alone, method, buf_slice(&other), NULL) == 0);
    check_same(&ri, &alone);
    CHECK(behind ? ri.ambiguous || !alone.ambiguous : ri.ambiguous == alone.ambiguous);
    CHECK(alone.gateway.len == 0);
    request_info_deinit(&alone);
    buf_reset(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct slice method = slice_str(methods[data[0] % 8]);
    struct slice target = slice_of((const char *)data + 1, size - 1);
    struct request_info ri;
    struct err e = ERR_INIT;
    if (request_info_parse_behind(&ri, &prefixes, method, target, &e) != 0) {
        CHECK(e.code < 0 && e.msg[0] != '\0');
        return 0;
    }
    check_places(&ri);
    CHECK(ri.path_mem == NULL || memchr(target.ptr, '%', target.len) != NULL);
    bool has_query = memchr(target.ptr, '?', target.len) != NULL;
    check_rewritten(&ri, method, has_query);
    check_alone(ri, method, has_query);
    request_info_deinit(&ri);
    return 0;
}
