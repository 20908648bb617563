/* SPDX-License-Identifier: Apache-2.0 */
/*
 * der_write.h - builds DER from the inside out, and the extensions of certificates that tests need.
 */
#ifndef TEST_SUPPORT_DER_WRITE_H
#define TEST_SUPPORT_DER_WRITE_H

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "crypto/der.h"

static inline void der_put(struct buf *b, const void *data, size_t len)
{
    if (buf_reserve(b, len + 1) == NULL || buf_append(b, data, len) != 0) {
        abort();
    }
}

/* Makes one element of what `b` holds behind `from`. */
static inline void der_wrap(struct buf *b, size_t from, uint8_t tag)
{
    size_t len = b->len - from;
    const uint8_t head[] = {tag, 0x82, (uint8_t)(len >> 8), (uint8_t)len};
    der_put(b, head, sizeof head);
    memmove(buf_data(b) + from + sizeof head, buf_data(b) + from, len);
    memcpy(buf_data(b) + from, head, sizeof head);
}

static inline void der_put_element(struct buf *b, uint8_t tag, struct slice value)
{
    size_t from = b->len;
    der_put(b, value.ptr, value.len);
    der_wrap(b, from, tag);
}

/* Makes an extension of what `b` holds behind `from`, its value. */
static inline void der_wrap_extension(struct buf *b, size_t from, struct slice oid)
{
    struct buf value = BUF_INIT(SIZE_MAX);
    der_put(&value, buf_data(b) + from, b->len - from);
    b->len = from;
    der_put_element(b, DER_OID, oid);
    der_put_element(b, DER_OCTET_STRING, buf_slice(&value));
    der_wrap(b, from, DER_SEQUENCE);
    buf_reset(&value);
}

#endif
