/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_prefix.h"

#include <errno.h>

#include "kube/request_info.h"

/* Takes the next segment, of which there is one more than slashes. False: there is none left. */
static bool next_segment(struct slice *rest, struct slice *segment)
{
    if (rest->ptr == NULL) {
        return false;
    }
    const char *slash = rest->len == 0 ? NULL : memchr(rest->ptr, '/', rest->len);
    size_t n = slash == NULL ? rest->len : (size_t)(slash - rest->ptr);
    *segment = slice_of(rest->ptr, n);
    *rest = slash == NULL ? (struct slice){0} : slice_of(slash + 1, rest->len - n - 1);
    return true;
}

static bool is_any(struct slice segment)
{
    return slice_eq(segment, SLICE("*"));
}

/* With these the API of a server begins. */
static bool is_root(struct slice segment)
{
    return slice_eq(segment, SLICE("api")) || slice_eq(segment, SLICE("apis"));
}

/* ---- what a prefix may be ---- */

static int check_segment(struct slice s, struct err *e)
{
    if (s.len == 0 || slice_eq(s, SLICE(".")) || slice_eq(s, SLICE(".."))) {
        return err_set(e, -EINVAL, "it has an empty, \".\" or \"..\" segment");
    }
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= ' ' || c >= 0x7f || c == '%' || c == '?' || c == '#') {
            return err_set(e, -EINVAL, "it has a character that is none of a plain path");
        }
        if (c == '*' && s.len > 1) {
            return err_set(e, -EINVAL, "* stands for a whole segment");
        }
    }
    return 0;
}

static int check_segments(struct slice path, struct err *e)
{
    for (struct slice s; next_segment(&path, &s);) {
        if (check_segment(s, e) != 0) {
            return e->code;
        }
    }
    return 0;
}

/* Takes "apis/GROUP/VERSION/RESOURCE/NAME/proxy" from `rest`, which is behind a slash. Where the
 * resource is known, all paths that match are read alike. */
static int skip_proxy(struct slice *rest, struct err *e)
{
    struct request_info ri;
    struct slice target = slice_of(rest->ptr - 1, rest->len + 1);
    if (request_info_parse(&ri, SLICE("GET"), target, e) != 0) {
        return e->code;
    }
    bool ok =
        ri.verb == VERB_GET && slice_eq(ri.subresource, SLICE("proxy")) && !is_any(ri.resource);
    const char *end = rest->ptr + rest->len;
    if (ok) {
        const char *after = ri.subresource.ptr + ri.subresource.len;
        *rest = after == end ? (struct slice){0} : slice_of(after + 1, (size_t)(end - after - 1));
    }
    request_info_deinit(&ri);
    return ok ? 0
              : err_set(e, -EINVAL,
                        "below /apis it must be /apis/GROUP/VERSION/RESOURCE/NAME/proxy, or that "
                        "in a namespace, where RESOURCE is not *");
}

int api_prefix_check(const char *prefix, struct err *e)
{
    struct slice rest = slice_str(prefix);
    if (rest.len < 2 || rest.ptr[0] != '/') {
        return err_set(e, -EINVAL, "it is not the path of a gateway: /PATH");
    }
    rest = slice_of(rest.ptr + 1, rest.len - 1);
    int rc = check_segments(rest, e);
    while (rc == 0 && rest.ptr != NULL) {
        struct slice before = rest;
        struct slice s = {0};
        (void)next_segment(&rest, &s);
        if (slice_eq(s, SLICE("api"))) {
            rc = err_set(e, -EINVAL, "it goes into the API itself: /api");
        } else if (is_root(s)) {
            rest = before;
            rc = skip_proxy(&rest, e);
        }
    }
    return rc;
}

/* ---- matching ---- */

static bool matches(struct slice pattern, struct slice segment)
{
    return is_any(pattern) ? segment.len > 0 && !is_root(segment) : slice_eq(pattern, segment);
}

static size_t match(struct slice prefix, struct slice path)
{
    struct slice pattern;
    struct slice segment = {0};
    const char *begin = path.ptr;
    while (next_segment(&prefix, &pattern)) {
        if (!next_segment(&path, &segment) || !matches(pattern, segment)) {
            return 0;
        }
    }
    return (size_t)(segment.ptr + segment.len - begin);
}

size_t api_prefix_match(const struct api_prefixes *prefixes, struct slice path)
{
    size_t longest = 0;
    for (size_t i = 0; i < prefixes->count; i++) {
        struct slice prefix = slice_str(prefixes->items[i] + 1);
        size_t n = match(prefix, path);
        longest = n > longest ? n : longest;
    }
    return longest;
}
