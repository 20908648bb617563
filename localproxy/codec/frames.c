/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/frames.h"

#include <string.h>

void frames_init(struct frames *f, enum encoding encoding)
{
    *f = (struct frames){.encoding = encoding};
}

static size_t next_line(struct frames *f, struct slice data)
{
    const char *end = data.len > 0 ? memchr(data.ptr, '\n', data.len) : NULL;
    f->have = end != NULL ? 0 : f->have + data.len;
    return end != NULL ? (size_t)(end - data.ptr) + 1 : 0;
}

static size_t next_length(struct frames *f, struct slice data)
{
    size_t at = 0;
    while (f->have < FRAMES_HEADER && at < data.len) {
        f->length = f->length << 8 | (unsigned char)data.ptr[at++];
        f->have++;
    }
    if (f->have < FRAMES_HEADER) {
        return 0;
    }
    uint64_t left = FRAMES_HEADER + (uint64_t)f->length - f->have;
    if (data.len - at < left) {
        f->have += data.len - at;
        return 0;
    }
    f->have = 0;
    return at + (size_t)left;
}

size_t frames_next(struct frames *f, struct slice data)
{
    return f->encoding == ENCODING_JSON ? next_line(f, data) : next_length(f, data);
}

bool frames_at_boundary(const struct frames *f)
{
    return f->have == 0;
}
