/* SPDX-License-Identifier: Apache-2.0 */
#include "base/splice.h"

void splice_init(struct splice *s, struct slice text, struct buf *out)
{
    *s = (struct splice){.rest = text, .out = out, .before = out->len, .rc = 0};
}

static void append(struct splice *s, struct slice text)
{
    s->rc = s->rc != 0 ? s->rc : buf_append(s->out, text.ptr, text.len);
}

void splice_replace(struct splice *s, struct slice part, struct slice with)
{
    const char *end = s->rest.ptr + s->rest.len;
    append(s, slice_of(s->rest.ptr, (size_t)(part.ptr - s->rest.ptr)));
    append(s, with);
    s->rest.ptr = part.ptr + part.len;
    s->rest.len = (size_t)(end - s->rest.ptr);
}

int splice_finish(struct splice *s)
{
    append(s, s->rest);
    if (s->rc != 0) {
        s->out->len = s->before;
    }
    return s->rc;
}
