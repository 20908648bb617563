/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/request_info.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/decimal.h"
#include "kube/field_selector.h"
#include "kube/percent.h"
#include "kube/query.h"
#include "kube/selector.h"

/* The path's segments that are not consumed yet. */
struct cursor {
    struct slice rest;
    size_t left; /* segments in `rest`: one more than it has slashes */
};

/* The list options that decide verb and name: the encoded value of each first occurrence. */
struct list_options {
    struct slice watch;
    struct slice field_selector;
    struct slice label_selector;
    struct slice limit;
    struct slice timeout;
    bool has_watch;
    bool has_field_selector;
    bool has_label_selector;
    bool has_limit;
    bool has_timeout;
};

static struct slice after(struct slice s, size_t n)
{
    return slice_of(s.ptr + n, s.len - n);
}

static int check_target(struct slice target, struct err *e)
{
    if (target.len == 0 || target.ptr[0] != '/') {
        return err_set(e, -EINVAL, "the request target is not an absolute path");
    }
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= ' ' || c == 0x7f) {
            return err_set(e, -EINVAL,
                           "the request target contains white space or a control character");
        }
        if (c == '#') {
            return err_set(e, -EINVAL, "the request target contains a '#'");
        }
    }
    return 0;
}

/* Sets path: a slice of the target, or decoded memory of its own when there are escapes. */
static int decode_path(struct request_info *ri, struct slice raw, struct err *e)
{
    ri->path = raw;
    if (memchr(raw.ptr, '%', raw.len) == NULL) {
        return 0;
    }
    char *mem = malloc(raw.len);
    if (mem == NULL) {
        return err_memory(e);
    }
    size_t n = 0;
    for (size_t i = 0; i < raw.len; n++) {
        int byte = raw.ptr[i] == '%' ? percent_byte(after(raw, i)) : (unsigned char)raw.ptr[i];
        if (byte < 0) {
            free(mem);
            return err_set(e, -EINVAL, "the path contains an invalid percent-escape");
        }
        mem[n] = (char)byte;
        i += raw.ptr[i] == '%' ? 3 : 1;
    }
    ri->path_mem = mem;
    ri->path = slice_of(mem, n);
    return 0;
}

static struct slice without_slashes(struct slice path)
{
    while (path.len > 0 && path.ptr[0] == '/') {
        path = after(path, 1);
    }
    return path;
}

static struct cursor cursor_of(struct slice path)
{
    path = without_slashes(path);
    while (path.len > 0 && path.ptr[path.len - 1] == '/') {
        path.len--;
    }
    struct cursor c = {.rest = path, .left = path.len > 0};
    for (size_t i = 0; i < path.len; i++) {
        c.left += path.ptr[i] == '/';
    }
    return c;
}

static struct slice pop(struct cursor *c)
{
    const char *slash = c->rest.len == 0 ? NULL : memchr(c->rest.ptr, '/', c->rest.len);
    size_t n = slash == NULL ? c->rest.len : (size_t)(slash - c->rest.ptr);
    struct slice segment = slice_of(c->rest.ptr, n);
    c->rest = after(c->rest, slash == NULL ? n : n + 1);
    c->left--;
    return segment;
}

static struct slice peek(struct cursor c, size_t index)
{
    while (index-- > 0) {
        (void)pop(&c);
    }
    return pop(&c);
}

static void set_verb(struct request_info *ri, enum request_verb verb)
{
    static const struct slice names[] = {
        [VERB_OTHER] = {.ptr = "", .len = 0},
        [VERB_GET] = {.ptr = "get", .len = 3},
        [VERB_LIST] = {.ptr = "list", .len = 4},
        [VERB_WATCH] = {.ptr = "watch", .len = 5},
        [VERB_CREATE] = {.ptr = "create", .len = 6},
        [VERB_UPDATE] = {.ptr = "update", .len = 6},
        [VERB_PATCH] = {.ptr = "patch", .len = 5},
        [VERB_DELETE] = {.ptr = "delete", .len = 6},
        [VERB_DELETECOLLECTION] = {.ptr = "deletecollection", .len = 16},
        [VERB_PROXY] = {.ptr = "proxy", .len = 5},
    };
    ri->verb = verb;
    ri->verb_name = names[verb];
}

static enum request_verb method_verb(struct slice method)
{
    if (slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD"))) {
        return VERB_GET;
    }
    if (slice_eq(method, SLICE("POST"))) {
        return VERB_CREATE;
    }
    if (slice_eq(method, SLICE("PUT"))) {
        return VERB_UPDATE;
    }
    if (slice_eq(method, SLICE("PATCH"))) {
        return VERB_PATCH;
    }
    return slice_eq(method, SLICE("DELETE")) ? VERB_DELETE : VERB_OTHER;
}

/* Until proven otherwise: the verb is the method in lower case. */
static int set_method(struct request_info *ri, struct slice method, struct err *e)
{
    if (method.len > REQUEST_METHOD_MAX) {
        return err_set(e, -EINVAL, "the request method is too long");
    }
    for (size_t i = 0; i < method.len; i++) {
        char c = method.ptr[i];
        ri->method[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    ri->method[method.len] = '\0';
    ri->verb = VERB_OTHER;
    ri->verb_name = slice_of(ri->method, method.len);
    return 0;
}

/* Takes prefix, group and version; false for a path that names no resource. */
static bool take_version(struct request_info *ri, struct cursor *c)
{
    if (c->left < 3) {
        return false;
    }
    struct slice prefix = peek(*c, 0);
    bool grouped = slice_eq(prefix, SLICE("apis"));
    if (!grouped && !slice_eq(prefix, SLICE("api"))) {
        return false;
    }
    ri->api_prefix = pop(c);
    if (grouped) {
        if (c->left < 3) {
            return false;
        }
        ri->group = pop(c);
    }
    ri->version = pop(c);
    return true;
}

static int take_verb(struct request_info *ri, struct cursor *c, struct slice method, struct err *e)
{
    struct slice first = peek(*c, 0);
    bool watch = slice_eq(first, SLICE("watch"));
    if (!watch && !slice_eq(first, SLICE("proxy"))) {
        set_verb(ri, method_verb(method));
        return 0;
    }
    if (c->left < 2) {
        return err_set(e, -EINVAL, "unable to determine kind and namespace from the path");
    }
    (void)pop(c);
    set_verb(ri, watch ? VERB_WATCH : VERB_PROXY);
    return 0;
}

/* /namespaces/NAME alone and /namespaces/NAME/status or finalize are about the namespace itself,
 * anything longer is about what is in it. */
static void take_namespace(struct request_info *ri, struct cursor *c)
{
    if (!slice_eq(peek(*c, 0), SLICE("namespaces")) || c->left < 2) {
        return;
    }
    ri->namespace = peek(*c, 1);
    if (c->left < 3) {
        return;
    }
    struct slice third = peek(*c, 2);
    if (!slice_eq(third, SLICE("status")) && !slice_eq(third, SLICE("finalize"))) {
        (void)pop(c);
        (void)pop(c);
    }
}

static void take_parts(struct request_info *ri, struct cursor c)
{
    ri->parts = c.rest;
    ri->resource = pop(&c);
    if (c.left > 0) {
        ri->name = pop(&c);
    }
    if (c.left > 0 && ri->verb != VERB_PROXY) {
        ri->subresource = pop(&c);
    }
}

static void collect_options(struct slice query, struct list_options *o)
{
    const struct {
        struct slice key;
        struct slice *value;
        bool *has;
    } fields[] = {
        {SLICE("watch"), &o->watch, &o->has_watch},
        {SLICE("fieldSelector"), &o->field_selector, &o->has_field_selector},
        {SLICE("labelSelector"), &o->label_selector, &o->has_label_selector},
        {SLICE("limit"), &o->limit, &o->has_limit},
        {SLICE("timeoutSeconds"), &o->timeout, &o->has_timeout},
    };
    struct query_piece piece;
    while (query_next(&query, &piece)) {
        if (!piece.valid) {
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            if (!*fields[i].has && query_equal(piece.key, fields[i].key)) {
                *fields[i].value = piece.value;
                *fields[i].has = true;
            }
        }
    }
}

static int check_integer(struct slice encoded)
{
    struct buf text = BUF_INIT(encoded.len);
    int64_t ignored;
    int rc = query_decode(encoded, &text);
    if (rc == 0) {
        struct slice s = slice_of((const char *)text.base, text.len);
        rc = decimal_parse(s, &ignored) ? 0 : -EINVAL;
    }
    buf_reset(&text);
    return rc;
}

static int check_label_selector(struct slice encoded)
{
    struct buf text = BUF_INIT(encoded.len);
    struct err e = ERR_INIT;
    int rc = query_decode(encoded, &text);
    if (rc == 0) {
        struct selector *s = selector_parse(slice_of((const char *)text.base, text.len), &e);
        rc = s == NULL ? e.code : 0;
        selector_free(s);
    }
    buf_reset(&text);
    return rc;
}

/* Whether the server could decode the options, but for the field selector. */
static int check_options(const struct list_options *o)
{
    int rc = o->has_limit ? check_integer(o->limit) : 0;
    if (rc == 0 && o->has_timeout) {
        rc = check_integer(o->timeout);
    }
    if (rc == 0 && o->has_label_selector) {
        rc = check_label_selector(o->label_selector);
    }
    return rc;
}

/* Appends the name that the field selector asks for. 1, 0 (none), or why the server would drop it.
 */
static int selected_name(const struct list_options *o, struct buf *name)
{
    if (o->field_selector.len == 0) {
        return 0;
    }
    struct buf text = BUF_INIT(o->field_selector.len);
    int rc = query_decode(o->field_selector, &text);
    if (rc == 0) {
        struct slice s = slice_of((const char *)text.base, text.len);
        rc = field_selector_exact(s, SLICE("metadata.name"), name);
    }
    buf_reset(&text);
    return rc;
}

static bool path_segment_ok(struct slice name)
{
    return name.len > 0 && !slice_eq(name, SLICE(".")) && !slice_eq(name, SLICE("..")) &&
           memchr(name.ptr, '/', name.len) == NULL && memchr(name.ptr, '%', name.len) == NULL;
}

static void take_name(struct request_info *ri, struct buf *name)
{
    if (path_segment_ok(slice_of((const char *)name->base, name->len))) {
        ri->name_mem = (char *)name->base;
        ri->name = slice_of(ri->name_mem, name->len);
        buf_init(name, 0);
    }
}

/* Any value but `0` and `false` (case ignored) is true, the empty one too. */
static bool is_watch(const struct list_options *o, bool decoded)
{
    struct slice v = o->watch;
    if (!o->has_watch || query_equal(v, SLICE("0"))) {
        return false;
    }
    struct buf text = BUF_INIT(v.len);
    struct slice plain = v;
    if (v.len > 0 && memchr(v.ptr, '%', v.len) != NULL && query_decode(v, &text) == 0) {
        plain = slice_of((const char *)text.base, text.len);
    }
    /* The server compares by Unicode case folding, in which U+017F is an `s` too, or, when it could
     * not decode the options, in lower case, in which it is not. */
    bool no = slice_ieq(plain, SLICE("false")) ||
              (decoded && plain.len == 6 && slice_ieq(slice_of(plain.ptr, 3), SLICE("fal")) &&
               memcmp(plain.ptr + 3, "\xc5\xbf", 2) == 0 && (plain.ptr[5] | 0x20) == 'e');
    buf_reset(&text);
    return !no;
}

/* A get without a name is a list or a watch, possibly of one object. */
static int refine_get(struct request_info *ri, struct err *e)
{
    struct list_options o = {.has_watch = false};
    collect_options(ri->query, &o);
    struct buf name = BUF_INIT(o.field_selector.len * 3);
    int found = selected_name(&o, &name);
    int rc = found < 0 ? found : 0;
    /* Whether the other options are in order shows in the name and in one spelling of watch. */
    if (rc == 0 && (found > 0 || o.watch.len > 5)) {
        rc = check_options(&o);
    }
    if (rc == -ENOMEM || rc == -ENOBUFS) {
        buf_reset(&name);
        return err_memory(e);
    }
    set_verb(ri, is_watch(&o, rc == 0) ? VERB_WATCH : VERB_LIST);
    if (rc == 0 && found > 0) {
        take_name(ri, &name);
    }
    buf_reset(&name);
    return 0;
}

static bool has_dot_segment(struct cursor c)
{
    while (c.left > 0) {
        struct slice segment = pop(&c);
        if (slice_eq(segment, SLICE(".")) || slice_eq(segment, SLICE(".."))) {
            return true;
        }
    }
    return false;
}

/* Whether one of the segments up to and with the third part is empty; `c` is at the first one. */
static bool has_empty_segment(const struct request_info *ri, struct cursor c)
{
    for (size_t parts = 0; c.left > 0 && parts < 3;) {
        parts += c.rest.ptr >= ri->parts.ptr;
        if (pop(&c).len == 0) {
            return true;
        }
    }
    return false;
}

/* `own` is at the first segment of the API server's own path, `c` behind the version. */
static int parse_resource(struct request_info *ri, struct cursor own, struct cursor *c,
                          struct slice method, struct err *e)
{
    ri->is_resource = true;
    int rc = take_verb(ri, c, method, e);
    if (rc != 0) {
        return rc;
    }
    take_namespace(ri, c);
    take_parts(ri, *c);
    ri->ambiguous = ri->ambiguous || has_empty_segment(ri, own);
    if (ri->name.len == 0 && ri->verb == VERB_GET) {
        return refine_get(ri, e);
    }
    if (ri->name.len == 0 && ri->verb == VERB_DELETE) {
        set_verb(ri, VERB_DELETECOLLECTION);
    }
    return 0;
}

/* A server that puts the path into a URL without escaping it would read another one. */
static bool has_special(struct slice path)
{
    return memchr(path.ptr, '%', path.len) != NULL || memchr(path.ptr, '?', path.len) != NULL ||
           memchr(path.ptr, '#', path.len) != NULL;
}

static void take_gateway(struct request_info *ri, const struct api_prefixes *prefixes)
{
    struct slice path = without_slashes(ri->path);
    size_t n = prefixes != NULL ? api_prefix_match(prefixes, path) : 0;
    ri->own_path = ri->path;
    if (n > 0) {
        ri->gateway = slice_of(path.ptr, n);
        ri->own_path = after(path, n);
        ri->ambiguous = ri->ambiguous || has_special(path);
    }
}

int request_info_parse_behind(struct request_info *ri, const struct api_prefixes *prefixes,
                              struct slice method, struct slice target, struct err *e)
{
    *ri = (struct request_info){.is_resource = false};
    int rc = check_target(target, e);
    if (rc != 0) {
        return rc;
    }
    ri->query = query_of(target);
    const char *mark = memchr(target.ptr, '?', target.len);
    struct slice raw = mark == NULL ? target : slice_of(target.ptr, (size_t)(mark - target.ptr));
    rc = set_method(ri, method, e);
    if (rc == 0) {
        rc = decode_path(ri, raw, e);
    }
    if (rc != 0) {
        return rc;
    }
    struct cursor own = cursor_of(ri->path);
    ri->ambiguous = has_dot_segment(own);
    take_gateway(ri, prefixes);
    if (ri->gateway.len > 0) {
        own = cursor_of(ri->own_path);
    }
    struct cursor c = own;
    if (take_version(ri, &c)) {
        rc = parse_resource(ri, own, &c, method, e);
    }
    if (rc != 0) {
        request_info_deinit(ri);
    }
    return rc;
}

int request_info_parse(struct request_info *ri, struct slice method, struct slice target,
                       struct err *e)
{
    return request_info_parse_behind(ri, NULL, method, target, e);
}

/* What serves any HTTP: nothing in it is the API of a cluster. */
static bool is_endpoint(const struct request_info *ri)
{
    return slice_eq(ri->api_prefix, SLICE("api")) &&
           (slice_eq(ri->resource, SLICE("pods")) || slice_eq(ri->resource, SLICE("services")) ||
            slice_eq(ri->resource, SLICE("nodes")));
}

/* Where behind the first segment the path of a resource begins; NULL: nowhere. */
static const char *inner_resource(struct slice path)
{
    struct cursor c = cursor_of(path);
    while (c.left > 1) {
        (void)pop(&c);
        struct request_info ignored = {.is_resource = false};
        struct cursor inner = c;
        if (take_version(&ignored, &inner)) {
            return c.rest.ptr;
        }
    }
    return NULL;
}

struct slice request_info_unnamed_gateway(const struct request_info *ri)
{
    struct slice path = without_slashes(ri->path);
    const char *end = NULL;
    if (!ri->is_resource) {
        end = inner_resource(ri->own_path);
    } else if (ri->verb == VERB_PROXY && !is_endpoint(ri)) {
        end = ri->parts.ptr;
    } else if (slice_eq(ri->subresource, SLICE("proxy")) && !is_endpoint(ri)) {
        end = ri->subresource.ptr + ri->subresource.len;
    }
    size_t n = end == NULL ? 0 : (size_t)(end - path.ptr);
    while (n > 0 && path.ptr[n - 1] == '/') {
        n--;
    }
    return slice_of(path.ptr, n);
}

void request_info_deinit(struct request_info *ri)
{
    free(ri->path_mem);
    free(ri->name_mem);
    *ri = (struct request_info){.is_resource = false};
}

bool request_info_opens_session(const struct request_info *ri)
{
    return ri->is_resource && (ri->verb == VERB_GET || ri->verb == VERB_CREATE) &&
           (slice_eq(ri->subresource, SLICE("exec")) ||
            slice_eq(ri->subresource, SLICE("attach")) ||
            slice_eq(ri->subresource, SLICE("portforward")));
}
