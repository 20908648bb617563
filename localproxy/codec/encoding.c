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

/* "0.8" is 800: up to three digits after the point, as RFC 9110 has it. */
static unsigned read_quality(struct slice text)
{
    unsigned quality = 0;
    unsigned digits = 0;
    for (size_t i = 0; i < text.len && digits < 4; i++) {
        if (text.ptr[i] >= '0' && text.ptr[i] <= '9') {
            quality = quality * 10 + (unsigned)(text.ptr[i] - '0');
            digits++;
        }
    }
    for (; digits < 4; digits++) {
        quality *= 10;
    }
    return quality;
}

static enum object_form form_of(struct slice as)
{
    if (slice_eq(as, SLICE("Table"))) {
        return OBJECT_FORM_TABLE;
    }
    bool partial = slice_eq(as, SLICE("PartialObjectMetadata")) ||
                   slice_eq(as, SLICE("PartialObjectMetadataList"));
    return partial ? OBJECT_FORM_PARTIAL : OBJECT_FORM_WHOLE;
}

struct range {
    bool fits;
    unsigned quality; /* 0 to 1000 */
    enum object_form form;
};

static struct range read_range(struct slice text, enum encoding answer)
{
    struct slice type = next_part(&text, ';');
    struct range r = {.quality = 1000};
    r.fits = slice_eq(type, SLICE("*/*")) || slice_ieq(type, SLICE("application/*")) ||
             encoding_of(type) == answer;
    while (text.len > 0) {
        struct slice value = next_part(&text, ';');
        struct slice key = next_part(&value, '=');
        if (slice_ieq(key, SLICE("as"))) {
            r.form = form_of(trim(value));
        } else if (slice_ieq(key, SLICE("q"))) {
            r.quality = read_quality(trim(value));
        }
    }
    return r;
}

enum object_form encoding_form(struct slice accept, enum encoding answer)
{
    struct range best = {.quality = 0};
    while (accept.len > 0) {
        struct range r = read_range(next_part(&accept, ','), answer);
        if (r.fits && r.quality > best.quality) {
            best = r;
        }
    }
    return best.form;
}

static bool is_cbor(struct slice range)
{
    struct slice type = encoding_media_type(range);
    return slice_ieq(type, SLICE("application/cbor")) ||
           slice_ieq(type, SLICE("application/cbor-seq"));
}

bool encoding_without_cbor(struct slice accept, struct buf *out)
{
    bool found = false;
    while (accept.len > 0) {
        struct slice range = next_part(&accept, ',');
        if (is_cbor(range)) {
            found = true;
        } else if (range.len > 0) {
            buf_append_str(out, out->len > 0 ? "," : "");
            buf_append(out, range.ptr, range.len);
        }
    }
    return found && out->len > 0 && buf_error(out) == 0;
}
