/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the method, the rest is the target. A new target must ask for the same as
 * the old one did, but for the name.
 */
#include "lock/lock.h"

#include "check.h"
#include "kube/field_selector.h"
#include "kube/query.h"

static const struct lock_rule rule = {.name = "leader", .renamed = "leader---s1", .namespace = "n"};

static const char *const gateways[] = {"/apis/g/v1/clusterextensions/*/proxy"};
static const struct api_prefixes prefixes = {gateways, 1};

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"};

static void decode_selector(struct slice target, struct buf *text)
{
    struct slice value;
    CHECK(query_find(query_of(target), SLICE("fieldSelector"), &value));
    CHECK(query_decode(value, text) == 0);
}

/* The terms are the same, but that those about the name have the new one instead of the old. */
static void check_terms(struct slice before, struct slice after)
{
    struct field_term a;
    struct field_term b;
    bool demanded = false;
    while (field_selector_next(&before, &a) == 1) {
        CHECK(field_selector_next(&after, &b) == 1);
        CHECK(slice_eq(a.field, b.field) && a.negated == b.negated);
        bool named =
            slice_eq(a.field, SLICE("metadata.name")) && slice_eq(a.value, slice_str(rule.name));
        CHECK(slice_eq(b.value, named ? slice_str(rule.renamed) : a.value));
        demanded = demanded || (named && !a.negated);
    }
    CHECK(demanded && field_selector_next(&after, &b) == 0);
}

static void check_selectors(struct slice before, struct slice after)
{
    struct buf a = BUF_INIT(SIZE_MAX);
    struct buf b = BUF_INIT(SIZE_MAX);
    decode_selector(before, &a);
    decode_selector(after, &b);
    check_terms(buf_slice(&a), buf_slice(&b));
    buf_reset(&a);
    buf_reset(&b);
}

static void check_same(const struct request_info *a, const struct request_info *b)
{
    CHECK(a->verb == b->verb && b->is_resource && b->ambiguous == a->ambiguous);
    CHECK(slice_eq(a->group, b->group) && slice_eq(a->version, b->version));
    CHECK(slice_eq(a->namespace, b->namespace) && slice_eq(a->resource, b->resource));
    CHECK(slice_eq(a->subresource, b->subresource));
}

static void check_renamed(const struct request_info *ri, struct slice method, struct slice target,
                          const struct buf *out)
{
    struct request_info now;
    struct slice text = buf_slice(out);
    CHECK(request_info_parse_behind(&now, &prefixes, method, text, NULL) == 0);
    CHECK(slice_eq(ri->gateway, now.gateway));
    check_same(ri, &now);
    if (ri->name.len > 0 && ri->name_mem == NULL) {
        CHECK(slice_eq(now.name, slice_str(rule.renamed)) && slice_eq(ri->query, now.query));
    } else {
        CHECK(slice_eq(ri->path, now.path));
        check_selectors(target, text);
    }
    request_info_deinit(&now);
}

static void check(const struct request_info *ri, struct slice method, struct slice target)
{
    struct buf out = BUF_INIT(SIZE_MAX);
    struct err e = ERR_INIT;
    struct lock_request result;
    if (lock_examine(&rule, ri, target, &out, &result, &e) != 0) {
        CHECK(e.msg[0] != '\0' && out.len == 0 && result.found == LOCK_OTHER);
        return;
    }
    CHECK((result.found == LOCK_RENAMED) == (out.len > 0));
    if (result.found == LOCK_RENAMED) {
        check_renamed(ri, method, target, &out);
    }
    buf_reset(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request_info ri;
    if (size < 1) {
        return 0;
    }
    struct slice method = slice_str(methods[data[0] % 6]);
    struct slice target = slice_of((const char *)data + 1, size - 1);
    if (request_info_parse_behind(&ri, &prefixes, method, target, NULL) != 0) {
        return 0;
    }
    if (!ri.ambiguous) {
        check(&ri, method, target);
    }
    request_info_deinit(&ri);
    return 0;
}
