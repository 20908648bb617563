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
    if (rest->len == 0) {
        return *rest;
    }
    const char *at = memchr(rest->ptr, mark, rest->len);
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

/* ---- the ranges of an Accept header ---- */

enum { QUALITY_DIGITS = 4, QUALITY_ONE = 1000, WILDCARD_COST = 1 };

struct range {
    struct slice type;
    bool wildcard;    /* for every encoding there is */
    unsigned quality; /* 0 to QUALITY_ONE */
    enum object_form form;
};

/* "0.8" is 800: up to three digits after the point, as RFC 9110 has it. */
static unsigned read_quality(struct slice text)
{
    unsigned quality = 0;
    unsigned digits = 0;
    for (size_t i = 0; i < text.len && digits < QUALITY_DIGITS; i++) {
        if (text.ptr[i] >= '0' && text.ptr[i] <= '9') {
            quality = quality * 10 + (unsigned)(text.ptr[i] - '0');
            digits++;
        }
    }
    for (; digits < QUALITY_DIGITS; digits++) {
        quality *= 10;
    }
    return quality < QUALITY_ONE ? quality : QUALITY_ONE;
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

/* Takes the first one off. */
static struct range next_range(struct slice *accept)
{
    struct slice text = next_part(accept, ',');
    struct range r = {.type = next_part(&text, ';'), .quality = QUALITY_ONE};
    r.wildcard = slice_eq(r.type, SLICE("*/*")) || slice_ieq(r.type, SLICE("application/*"));
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

/* 0: it is not wanted. Else the more the better. */
static unsigned rank_of(const struct range *r)
{
    if (r->quality == 0 || (!r->wildcard && encoding_of(r->type) == ENCODING_OTHER)) {
        return 0;
    }
    return 2 * r->quality - (r->wildcard ? WILDCARD_COST : 0);
}

enum encoding encoding_accepted(struct slice accept)
{
    enum encoding best = accept.len == 0 ? ENCODING_JSON : ENCODING_OTHER;
    unsigned most = 0;
    while (accept.len > 0) {
        struct range r = next_range(&accept);
        unsigned rank = rank_of(&r);
        if (rank > most) {
            most = rank;
            best = r.wildcard ? ENCODING_JSON : encoding_of(r.type);
        }
    }
    return best;
}

enum object_form encoding_form(struct slice accept, enum encoding answer)
{
    struct range best = {.quality = 0};
    while (accept.len > 0) {
        struct range r = next_range(&accept);
        bool fits = r.wildcard || encoding_of(r.type) == answer;
        if (fits && r.quality > best.quality) {
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
