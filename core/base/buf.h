/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h - a growing run of bytes with a declared maximum.
 *
 * Bytes are appended at the end and consumed from the front. A buffer never grows past its maximum:
 * an append that would is refused whole. All functions that append return 0, -ENOBUFS (over the
 * maximum) or -ENOMEM, and leave the content as it was on error.
 *
 * The first error stays: each later append is refused with it, and so is taking the content as
 * text. A series of appends needs one check at its end, by buf_error or buf_settle. Only what drops
 * the content or its end (buf_settle, buf_truncate, buf_clear, buf_reset) forgets the error.
 *
 * One that is marked as secret overwrites all memory that it gives back, also as it grows.
 */
#ifndef CORE_BASE_BUF_H
#define CORE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct buf {
    uint8_t *base; /* the allocation; NULL while empty */
    size_t off;    /* bytes consumed from the front of it */
    size_t len;    /* bytes held */
    size_t cap;    /* size of the allocation */
    size_t max;    /* bound on len */
    int error;     /* the first one, or 0 */
    bool secret;   /* set by its user, and kept until buf_init */
};

#define BUF_INIT(maximum)                                                                          \
    {                                                                                              \
        .base = NULL, .off = 0, .len = 0, .cap = 0, .max = (maximum), .error = 0, .secret = false  \
    }

void buf_init(struct buf *b, size_t max);
/* Frees the memory; the buffer is empty and usable again with the same maximum. */
void buf_reset(struct buf *b);

/* The first byte of the content; may be NULL while empty. */
static inline uint8_t *buf_data(const struct buf *b)
{
    return b->base == NULL ? NULL : b->base + b->off;
}

/* The content, until the buffer changes. */
static inline struct slice buf_slice(const struct buf *b)
{
    return slice_of((const char *)buf_data(b), b->len);
}

int buf_append(struct buf *b, const void *data, size_t len);
int buf_append_str(struct buf *b, const char *str);
int buf_append_char(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Notes an error of who writes, unless there is one already; returns the one that stays. */
int buf_fail(struct buf *b, int error);

/* The first error of the appends so far, or 0. */
MUST_CHECK static inline int buf_error(const struct buf *b)
{
    return b->error;
}
/* Ends a series of appends that found `before` bytes: 0; or the first error, and then the content
 * is those bytes again and the error is forgotten. */
MUST_CHECK int buf_settle(struct buf *b, size_t before);

/* What the allocation will have when `len` more bytes, within the maximum, are appended. */
size_t buf_size_with(const struct buf *b, size_t len);

/* Room for `len` more bytes behind the content; NULL when refused, which is not remembered. Fill
 * it, then buf_commit. */
MUST_CHECK uint8_t *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);

/* Drops `len` (at most b->len) bytes from the front, keeping the memory. */
void buf_consume(struct buf *b, size_t len);
/* Drops all but the first `len` (at most b->len) bytes. */
void buf_truncate(struct buf *b, size_t len);
/* Gives back the memory that the content does not need. */
void buf_fit(struct buf *b);
/* Drops all content, keeping the memory. */
void buf_clear(struct buf *b);

/* The content as a NUL-terminated string (the NUL is not counted in len); NULL without memory. */
MUST_CHECK const char *buf_cstr(struct buf *b);
/* Takes the content as a NUL-terminated string that the caller frees; the buffer is empty then. */
MUST_CHECK char *buf_take_str(struct buf *b);

#endif
