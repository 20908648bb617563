/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/encoding.h"

#include <string.h>

#include "base/ascii.h"

static struct slice trim(struct slice s)
{
    while (s.len > 0 && ascii_is_blank(s.ptr[0])) {
        s = slice_of(s.ptr + 1, s.len - 1);
    }
    while (s.len > 0 && ascii_is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* Takes what stands before the first `mark` off `rest`. */
static struct slice next_part(struct slice *rest, char mark)
{
    const char *at = rest->len > 0 ? memchr(rest->ptr, mark, rest->len) : NULL;
    struct slice part = slice_of(rest->ptr, at != NULL ? (size_t)(at - rest->ptr) : rest->len);
    size_t taken = part.len + (at != NULL ? 1 : 0);
    *rest = slice_of(rest->ptr + taken, rest->len - taken);
    return trim(part);
}

struct slice encoding_media_type(struct slice s)
{
    return next_part(&s, ';');
}

enum encoding encoding_of(struct slice content_type)
{
    struct slice type = encoding_media_type(content_type);
    if (slice_ieq(type, SLICE("application/json"))) {
        return ENCODING_JSON;
    }
    return slice_ieq(type, SLICE("application/vnd.kubernetes.protobuf")) ? ENCODING_PROTOBUF
                                                                         : ENCODING_OTHER;
}

enum { QUALITY_ONE = 1000, WILDCARD_COST = 1 };

/* Its parameter q in thousandths. What cannot be read counts as 1. */
static unsigned quality_of(struct slice range)
{
    const char *end = range.ptr + range.len;
    for (const char *p = range.ptr; (p = memchr(p, ';', (size_t)(end - p))) != NULL;) {
        for (p++; p < end && ascii_is_blank(*p); p++) {
        }
        if (end - p < 3 || (p[0] | 0x20) != 'q' || p[1] != '=') {
            continue;
        }
        if (p[2] != '0') {
            break;
        }
        unsigned quality = 0;
        unsigned unit = QUALITY_ONE / 10;
        for (p += 3; p < end && (*p == '.' || (*p >= '0' && *p <= '9')); p++) {
            quality += *p == '.' ? 0 : (unsigned)(*p - '0') * unit;
            unit /= *p == '.' ? 1 : 10;
        }
        return quality;
    }
    return QUALITY_ONE;
}

/* 0: it is not wanted. Else the more the better. */
static unsigned rank_of(struct slice range, enum encoding *encoding)
{
    struct slice type = encoding_media_type(range);
    bool wildcard = slice_eq(type, SLICE("*/*")) || slice_ieq(type, SLICE("application/*"));
    unsigned quality = quality_of(range);
    *encoding = wildcard ? ENCODING_JSON : encoding_of(range);
    if (*encoding == ENCODING_OTHER || quality == 0) {
        return 0;
    }
    return 2 * quality - (wildcard ? WILDCARD_COST : 0);
}

enum encoding encoding_accepted(struct slice accept)
{
    enum encoding best = accept.len == 0 ? ENCODING_JSON : ENCODING_OTHER;
    unsigned most = 0;
    while (accept.len > 0) {
        const char *comma = memchr(accept.ptr, ',', accept.len);
        size_t len = comma != NULL ? (size_t)(comma - accept.ptr) : accept.len;
        enum encoding encoding;
        unsigned rank = rank_of(slice_of(accept.ptr, len), &encoding);
        if (rank > most) {
            most = rank;
            best = encoding;
        }
        size_t taken = comma != NULL ? len + 1 : len;
        accept = slice_of(accept.ptr + taken, accept.len - taken);
    }
    return best;
}
