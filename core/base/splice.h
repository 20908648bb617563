/* SPDX-License-Identifier: Apache-2.0 */
/*
 * splice.h - copies a text with some of its parts replaced and the rest byte for byte.
 */
#ifndef CORE_BASE_SPLICE_H
#define CORE_BASE_SPLICE_H

#include "base/buf.h"
#include "base/slice.h"

struct splice {
    struct slice rest; /* of the text, not copied yet */
    struct buf *out;
    size_t before; /* bytes in `out` that are not ours */
    int rc;
};

void splice_init(struct splice *s, struct slice text, struct buf *out);

/* Copies up to `part`, a slice of the text behind all earlier parts, and `with` in its place. */
void splice_replace(struct splice *s, struct slice part, struct slice with);

/* Copies what is left. 0, or -ENOBUFS or -ENOMEM of any step: then `out` is as it was. */
MUST_CHECK int splice_finish(struct splice *s);

#endif
