/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

#include <string.h>

enum { HEADER_SIZE = 4 };

static bool contains(struct slice text, struct slice part)
{
    return text.len >= part.len && memmem(text.ptr, text.len, part.ptr, part.len) != NULL;
}

void frames_init(struct frames *f, struct slice content_type)
{
    *f = (struct frames){.boundary = true};
    f->kind = contains(content_type, SLICE("protobuf")) ? FRAMES_LENGTH : FRAMES_LINES;
}

static size_t feed_lines(struct frames *f, struct slice data)
{
    const char *end = memrchr(data.ptr, '\n', data.len);
    f->boundary = data.ptr[data.len - 1] == '\n';
    return end == NULL ? 0 : (size_t)(end - data.ptr) + 1;
}

static size_t feed_lengths(struct frames *f, struct slice data)
{
    size_t complete = 0;
    size_t at = 0;
    while (at < data.len) {
        if (f->header_len < HEADER_SIZE) {
            f->length = f->length << 8 | (unsigned char)data.ptr[at++];
            f->header_len++;
            f->body_left = f->length;
        } else {
            size_t step = data.len - at < f->body_left ? data.len - at : f->body_left;
            at += step;
            f->body_left -= (uint32_t)step;
        }
        if (f->header_len == HEADER_SIZE && f->body_left == 0) {
            f->header_len = 0;
            f->length = 0;
            complete = at;
        }
    }
    return complete;
}

size_t frames_feed(struct frames *f, struct slice data)
{
    if (data.len == 0) {
        return 0;
    }
    return f->kind == FRAMES_LINES ? feed_lines(f, data) : feed_lengths(f, data);
}

bool frames_at_boundary(const struct frames *f)
{
    return f->kind == FRAMES_LINES ? f->boundary : f->header_len == 0;
}
