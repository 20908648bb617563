/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf)BUF_INIT(max);
}

static void give_back(const struct buf *b)
{
    if (b->secret && b->base != NULL) {
        explicit_bzero(b->base, b->cap);
    }
    free(b->base);
}

void buf_reset(struct buf *b)
{
    bool secret = b->secret;
    give_back(b);
    buf_init(b, b->max);
    b->secret = secret;
}

/* Whether they fit without another allocation; with a NUL behind them. */
static bool has_room(const struct buf *b, size_t len)
{
    size_t need = b->len + len + 1;
    return b->off + need <= b->cap || (need <= b->cap && b->off >= b->len);
}

static size_t grown_size(const struct buf *b, size_t need)
{
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    return cap;
}

size_t buf_size_with(const struct buf *b, size_t len)
{
    return len == 0 || has_room(b, len) ? b->cap : grown_size(b, b->len + len + 1);
}

/* Makes room for `len` more bytes and one for a terminating NUL. */
static int grow(struct buf *b, size_t len)
{
    if (b->len > b->max || len > b->max - b->len || len >= SIZE_MAX - b->len) {
        return -ENOBUFS;
    }
    size_t need = b->len + len + 1;
    if (b->off + need <= b->cap) {
        return 0;
    }
    if (need <= b->cap && b->off >= b->len) {
        memmove(b->base, b->base + b->off, b->len);
        b->off = 0;
        return 0;
    }
    size_t cap = grown_size(b, need);
    if (b->off == 0 && !b->secret) {
        uint8_t *p = realloc(b->base, cap);
        if (p == NULL) {
            return -ENOMEM;
        }
        b->base = p;
        b->cap = cap;
        return 0;
    }
    uint8_t *p = malloc(cap);
    if (p == NULL) {
        return -ENOMEM;
    }
    if (b->len > 0) {
        memcpy(p, b->base + b->off, b->len);
    }
    give_back(b);
    b->base = p;
    b->cap = cap;
    b->off = 0;
    return 0;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
    if (len == 0 || b->error != 0) {
        return b->error;
    }
    int rc = grow(b, len);
    if (rc != 0) {
        return buf_fail(b, rc);
    }
    memcpy(b->base + b->off + b->len, data, len);
    b->len += len;
    return 0;
}

int buf_append_str(struct buf *b, const char *str)
{
    return buf_append(b, str, strlen(str));
}

int buf_append_char(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    if (b->error != 0) {
        return b->error;
    }
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int rc = n < 0 ? -EINVAL : grow(b, (size_t)n);
    if (rc != 0) {
        return buf_fail(b, rc);
    }
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->base + b->off + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

int buf_fail(struct buf *b, int error)
{
    b->error = b->error != 0 ? b->error : error;
    return b->error;
}

int buf_settle(struct buf *b, size_t before)
{
    int rc = b->error;
    if (rc != 0) {
        buf_truncate(b, before);
    }
    return rc;
}

uint8_t *buf_reserve(struct buf *b, size_t len)
{
    return b->error == 0 && grow(b, len) == 0 ? b->base + b->off + b->len : NULL;
}

void buf_commit(struct buf *b, size_t len)
{
    b->len += len;
}

void buf_consume(struct buf *b, size_t len)
{
    b->off += len;
    b->len -= len;
    if (b->len == 0) {
        b->off = 0;
    }
}

void buf_truncate(struct buf *b, size_t len)
{
    b->len = len;
    b->error = 0;
}

void buf_fit(struct buf *b)
{
    size_t need = b->off + b->len + 1;
    if (b->secret || need >= b->cap) {
        return;
    }
    uint8_t *p = realloc(b->base, need);
    if (p != NULL) {
        b->base = p;
        b->cap = need;
    }
}

void buf_clear(struct buf *b)
{
    b->off = 0;
    buf_truncate(b, 0);
}

const char *buf_cstr(struct buf *b)
{
    if (b->error != 0 || grow(b, 0) != 0) {
        return NULL;
    }
    b->base[b->off + b->len] = '\0';
    return (const char *)b->base + b->off;
}

char *buf_take_str(struct buf *b)
{
    if (buf_cstr(b) == NULL) {
        return NULL;
    }
    if (b->off > 0) {
        memmove(b->base, b->base + b->off, b->len + 1);
    }
    char *str = (char *)b->base;
    buf_init(b, b->max);
    return str;
}
