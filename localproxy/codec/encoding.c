/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/encoding.h"

#include "base/ascii.h"

struct slice encoding_media_type(struct slice s)
{
    const char *end = s.len > 0 ? memchr(s.ptr, ';', s.len) : NULL;
    s.len = end != NULL ? (size_t)(end - s.ptr) : s.len;
    while (s.len > 0 && ascii_is_blank(s.ptr[0])) {
        s = slice_of(s.ptr + 1, s.len - 1);
    }
    while (s.len > 0 && ascii_is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
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
