/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/derived_requests.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "kube/query.h"
#include "upstream/list_pages.h"

enum { TARGET_MAX = 4 * 1024 * 1024 };

static const struct slice begins[] = {
    {"resourceVersion", 15},
    {"resourceVersionMatch", 20},
    {"sendInitialEvents", 17},
};

static const struct slice watches[] = {
    {"watch", 5},    {"allowWatchBookmarks", 19}, {"timeoutSeconds", 14}, {"limit", 5},
    {"continue", 8},
};

static struct slice path_of(struct slice target)
{
    const char *mark = memchr(target.ptr, '?', target.len);
    return mark != NULL ? slice_of(target.ptr, (size_t)(mark - target.ptr)) : target;
}

bool derived_possible(struct slice target)
{
    struct slice path = path_of(target);
    return memmem(path.ptr, path.len, "/watch/", 7) == NULL &&
           memchr(path.ptr, '%', path.len) == NULL;
}

static bool is_one_of(struct slice key, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (query_equal(key, names[i])) {
            return true;
        }
    }
    return false;
}

/* Path and query without what is replaced; ends such that a parameter may follow. */
static void copy_target(struct slice target, bool own, struct buf *out)
{
    struct slice path = path_of(target);
    struct slice rest = query_of(target);
    buf_append(out, path.ptr, path.len);
    buf_append_char(out, '?');
    for (struct query_piece piece; query_next(&rest, &piece);) {
        bool dropped = is_one_of(piece.key, begins, ARRAY_LEN(begins)) ||
                       (own && is_one_of(piece.key, watches, ARRAY_LEN(watches)));
        if (!dropped && piece.text.len > 0) {
            buf_append(out, piece.text.ptr, piece.text.len);
            buf_append_char(out, '&');
        }
    }
}

/* Takes what is in `plain`, with the selector, to `out`. */
static int put_selector(struct buf *plain, struct slice selector, struct buf *out, struct err *e)
{
    int rc = buf_error(plain);
    if (rc == 0 && selector.len > 0) {
        rc = query_inject_selector(buf_slice(plain), selector, out, e);
        buf_reset(plain);
        return rc;
    }
    if (rc == 0) {
        rc = buf_append(out, buf_data(plain), plain->len);
    }
    buf_reset(plain);
    return rc != 0 ? err_set(e, rc, "the request is too long") : 0;
}

int derived_list(struct slice target, struct slice selector, uint64_t version, struct slice token,
                 struct buf *out, struct err *e)
{
    struct buf plain = BUF_INIT(TARGET_MAX);
    copy_target(target, true, &plain);
    buf_printf(&plain, "limit=%d", LIST_PAGES_OBJECTS);
    if (token.len > 0) { /* it knows the version */
        buf_append_str(&plain, "&continue=");
        int rc = query_encode(token, &plain);
        if (rc != 0) {
            buf_fail(&plain, rc);
        }
    } else {
        buf_printf(&plain, "&resourceVersion=%" PRIu64 "%s", version,
                   version != 0 ? "&resourceVersionMatch=Exact" : "");
    }
    return put_selector(&plain, selector, out, e);
}

static int watch_from(struct slice target, struct slice selector, uint64_t version, bool probe,
                      struct buf *out, struct err *e)
{
    struct buf plain = BUF_INIT(TARGET_MAX);
    copy_target(target, probe, &plain);
    if (probe) {
        buf_printf(&plain, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&", DERIVED_PROBE_S);
    }
    buf_printf(&plain, "resourceVersion=%" PRIu64, version);
    return put_selector(&plain, selector, out, e);
}

int derived_watch(struct slice target, struct slice selector, uint64_t version, struct buf *out,
                  struct err *e)
{
    return watch_from(target, selector, version, false, out, e);
}

int derived_probe(struct slice target, struct slice selector, uint64_t version, struct buf *out,
                  struct err *e)
{
    return watch_from(target, selector, version, true, out, e);
}

static void append_segment(struct buf *out, struct slice segment)
{
    if (segment.len > 0) {
        buf_append_char(out, '/');
        (void)query_encode(segment, out);
    }
}

void derived_collection(const struct request_info *ri, struct buf *out)
{
    append_segment(out, ri->api_prefix);
    append_segment(out, ri->group);
    append_segment(out, ri->version);
    if (ri->namespace.len > 0 && !slice_eq(ri->resource, SLICE("namespaces"))) {
        append_segment(out, SLICE("namespaces"));
        append_segment(out, ri->namespace);
    }
    append_segment(out, ri->resource);
}

struct http_exchange *derived_ask(struct kube_client *client, const struct derived_request *r,
                                  const struct http_exchange_handlers *handlers, void *data,
                                  struct err *e)
{
    struct http_header headers[] = {
        {SLICE("Accept"), r->accept},
        {SLICE("User-Agent"), SLICE("cmesh-localproxy/" CMESH_VERSION)},
    };
    struct http_head head = {
        .method = SLICE("GET"),
        .target = r->target,
        .headers = headers,
        .header_count = ARRAY_LEN(headers),
        .framing = HTTP_BODY_NONE,
        .background = r->background,
        .borrowed = true, /* with the operator's rights, which may not suffice */
        .budget = r->budget,
    };
    return kube_client_request(client, &head, handlers, data, e);
}
