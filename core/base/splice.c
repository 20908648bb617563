/* SPDX-License-Identifier: Apache-2.0 */
#include "base/splice.h"

void splice_init(struct splice *s, struct slice text, struct buf *out)
{
    *s = (struct splice){.rest = text, .out = out, .before = out->len};
}

void splice_replace(struct splice *s, struct slice part, struct slice with)
{
    const char *end = s->rest.ptr + s->rest.len;
    buf_append(s->out, s->rest.ptr, (size_t)(part.ptr - s->rest.ptr));
    buf_append(s->out, with.ptr, with.len);
    s->rest.ptr = part.ptr + part.len;
    s->rest.len = (size_t)(end - s->rest.ptr);
}

int splice_finish(struct splice *s)
{
    buf_append(s->out, s->rest.ptr, s->rest.len);
    return buf_settle(s->out, s->before);
}
