/* SPDX-License-Identifier: Apache-2.0 */
/*
 * percent.h - percent-escapes of URLs (RFC 3986 section 2.1).
 */
#ifndef CORE_KUBE_PERCENT_H
#define CORE_KUBE_PERCENT_H

#include "base/slice.h"

static inline int percent_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* The byte that `%XY` at the start of `text` stands for; -1 when this is not an escape. */
static inline int percent_byte(struct slice text)
{
    if (text.len < 3 || text.ptr[0] != '%') {
        return -1;
    }
    int high = percent_digit(text.ptr[1]);
    int low = percent_digit(text.ptr[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

#endif
