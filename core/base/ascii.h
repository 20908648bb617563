/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascii.h - classes of bytes, whatever the locale.
 */
#ifndef CORE_BASE_ASCII_H
#define CORE_BASE_ASCII_H

#include <stdbool.h>

/* White space of JSON (RFC 8259), base64 texts and selectors. */
static inline bool ascii_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* White space within a line: that of HTTP (RFC 9110 section 5.6.3). */
static inline bool ascii_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* -1: it is no hexadecimal digit. */
static inline int ascii_hex_value(char c)
{
    if (ascii_is_digit(c)) {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

#endif
