/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/encoding.h"

#include "base/ascii.h"

static struct slice trim(struct slice s)
{
    while (s.len > 0 && ascii_is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && ascii_is_blank(s.ptr[s.len - 1])) {
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
