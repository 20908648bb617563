/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decimal.h - decimal integers as Go's strconv.ParseInt(s, 10, 64) and ParseUint read them.
 */
#ifndef CORE_BASE_DECIMAL_H
#define CORE_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* An optional sign and digits only. False for anything else and outside 64 bits. */
static inline bool decimal_parse(struct slice text, int64_t *value)
{
    size_t i = 0;
    bool negative = false;
    if (text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+')) {
        negative = text.ptr[0] == '-';
        i = 1;
    }
    if (i == text.len) {
        return false;
    }
    /* Counts downwards: the negative range is the larger one. */
    int64_t n = 0;
    for (; i < text.len; i++) {
        char c = text.ptr[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_sub_overflow(n, c - '0', &n)) {
            return false;
        }
    }
    if (!negative && n == INT64_MIN) {
        return false;
    }
    *value = negative ? n : -n;
    return true;
}

/* Digits only, within 64 bits; 0 for anything else. */
static inline uint64_t decimal_or_zero(struct slice text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned char)text.ptr[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, digit, &n)) {
            return 0;
        }
    }
    return n;
}

#endif
