/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice.h - a run of bytes that somebody else owns.
 */
#ifndef CORE_BASE_SLICE_H
#define CORE_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
    const char *ptr; /* may be NULL when len is 0; not NUL-terminated */
    size_t len;
};

/* A slice over a string literal. */
#define SLICE(literal) ((struct slice){.ptr = "" literal, .len = sizeof(literal) - 1})

static inline struct slice slice_of(const char *ptr, size_t len)
{
    return (struct slice){.ptr = ptr, .len = len};
}

static inline struct slice slice_str(const char *str)
{
    return (struct slice){.ptr = str, .len = str == NULL ? 0 : strlen(str)};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Equal but for the case of ASCII letters. */
static inline bool slice_ieq(struct slice a, struct slice b)
{
    enum { CASE = 0x20 };
    return a.len == b.len && (a.len == 0 || (((a.ptr[0] ^ b.ptr[0]) & ~CASE) == 0 &&
                                             strncasecmp(a.ptr, b.ptr, a.len) == 0));
}

#endif
