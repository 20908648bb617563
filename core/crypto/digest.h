/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - SHA-256, base64 and comparison of secrets.
 */
#ifndef CORE_CRYPTO_DIGEST_H
#define CORE_CRYPTO_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

#define SHA256_HEX_LEN 64

/* Lower case hex, NUL-terminated. FIPS 180-4. */
void sha256_hex(const void *data, size_t len, char out[SHA256_HEX_LEN + 1]);

/* Appends the decoded bytes; white space between characters is skipped. 0, -EINVAL, -ENOBUFS or
 * -ENOMEM. RFC 4648 section 4. */
MUST_CHECK int base64_decode(struct slice text, struct buf *out);
MUST_CHECK int base64_encode(struct slice data, struct buf *out);

/* Equal or not, in time that depends on the lengths only. */
bool secret_equal(struct slice a, struct slice b);

#endif
