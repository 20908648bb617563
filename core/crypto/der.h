/* SPDX-License-Identifier: Apache-2.0 */
/*
 * der.h - takes DER apart (ITU-T X.690): one element after the other, in place.
 *
 * Tags are single bytes and lengths definite, as in certificates. Lengths that are written with
 * more bytes than they need are read, because libraries read them too.
 */
#ifndef CORE_CRYPTO_DER_H
#define CORE_CRYPTO_DER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum der_tag {
    DER_BOOLEAN = 0x01,
    DER_OCTET_STRING = 0x04,
    DER_OID = 0x06,
    DER_SEQUENCE = 0x30,
    DER_SET = 0x31,
    DER_CONTEXT = 0x80, /* plus the number; DER_CONSTRUCTED too if it has parts */
    DER_CONSTRUCTED = 0x20,
};

static inline uint8_t der_byte(struct slice s, size_t at)
{
    return (uint8_t)s.ptr[at];
}

/* Takes the next element off `rest`. False: there is none, or it is cut off. */
static inline bool der_next(struct slice *rest, uint8_t *tag, struct slice *value)
{
    enum { LONG_FORM = 0x80, LENGTH_BYTES_MAX = 4 };
    if (rest->len < 2) {
        return false;
    }
    size_t len = der_byte(*rest, 1);
    size_t at = 2;
    if (len >= LONG_FORM) {
        size_t bytes = len - LONG_FORM;
        if (bytes == 0 || bytes > LENGTH_BYTES_MAX || bytes > rest->len - at) {
            return false;
        }
        len = 0;
        for (; bytes > 0; bytes--) {
            len = len << 8 | der_byte(*rest, at++);
        }
    }
    if (len > rest->len - at) {
        return false;
    }
    *tag = der_byte(*rest, 0);
    *value = slice_of(rest->ptr + at, len);
    rest->ptr += at + len;
    rest->len -= at + len;
    return true;
}

/* The same if the next element has that tag; otherwise `rest` stays as it is. */
static inline bool der_take(struct slice *rest, uint8_t tag, struct slice *value)
{
    uint8_t found = 0;
    return rest->len > 0 && der_byte(*rest, 0) == tag && der_next(rest, &found, value);
}

#endif
