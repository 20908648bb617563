/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hmac.h - keyed hashes (RFC 2104), where aead_usable() is true.
 */
#ifndef CORE_CRYPTO_HMAC_H
#define CORE_CRYPTO_HMAC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

enum hmac_hash { HMAC_SHA256, HMAC_SHA384 };

#define HMAC_SIZE_MAX 48u

/* 32 or 48. */
size_t hmac_size(enum hmac_hash hash);

/* Puts hmac_size bytes to `out`. Not 0: the library failed. */
MUST_CHECK int hmac(enum hmac_hash hash, struct slice key, struct slice data, uint8_t *out);

#endif
