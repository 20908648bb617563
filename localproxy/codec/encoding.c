/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/encoding.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct slice trim(struct slice s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* Takes what stands before the next `;`. False when nothing is left. */
static bool next_part(struct slice *rest, struct slice *part)
{
    if (rest->len == 0) {
        return false;
    }
    const char *end = memchr(rest->ptr, ';', rest->len);
    size_t len = end == NULL ? rest->len : (size_t)(end - rest->ptr);
    size_t taken = end == NULL ? len : len + 1;
    *part = trim(slice_of(rest->ptr, len));
    *rest = slice_of(rest->ptr + taken, rest->len - taken);
    return true;
}

/* The value of the parameter, without the quotes it may stand in; empty when it is another one. */
static struct slice value_of(struct slice part, struct slice name)
{
    const char *equals = part.len == 0 ? NULL : memchr(part.ptr, '=', part.len);
    if (equals == NULL || !slice_ieq(trim(slice_of(part.ptr, (size_t)(equals - part.ptr))), name)) {
        return slice_of(NULL, 0);
    }
    struct slice value = trim(slice_of(equals + 1, part.len - (size_t)(equals - part.ptr) - 1));
    if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"') {
        value = slice_of(value.ptr + 1, value.len - 2);
    }
    return value;
}

enum encoding encoding_of(struct slice content_type)
{
    struct slice type;
    if (!next_part(&content_type, &type)) {
        return ENCODING_OTHER;
    }
    if (slice_ieq(type, SLICE("application/json"))) {
        return ENCODING_JSON;
    }
    return slice_ieq(type, SLICE("application/vnd.kubernetes.protobuf")) ? ENCODING_PROTOBUF
                                                                         : ENCODING_OTHER;
}

enum object_form encoding_form(struct slice content_type)
{
    struct slice part;
    (void)next_part(&content_type, &part);
    while (next_part(&content_type, &part)) {
        struct slice as = value_of(part, SLICE("as"));
        if (slice_eq(as, SLICE("Table"))) {
            return FORM_TABLE;
        }
        if (slice_eq(as, SLICE("PartialObjectMetadata")) ||
            slice_eq(as, SLICE("PartialObjectMetadataList"))) {
            return FORM_PARTIAL;
        }
    }
    return FORM_FULL;
}
