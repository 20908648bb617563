/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_key_schedule.h - the part of TLS 1.3's key schedule (RFC 8446 section 7) that comes after the
 * traffic secrets.
 */
#ifndef CORE_CRYPTO_TLS_KEY_SCHEDULE_H
#define CORE_CRYPTO_TLS_KEY_SCHEDULE_H

#include <stddef.h>

#include "crypto/aead.h"
#include "crypto/tls_records.h"

/* Makes key and IV of d->secret, which has `secret_len` bytes; the sequence is left. Not 0: the
 * library failed. */
MUST_CHECK int tls_keys_derive(struct tls_direction *d, enum aead_algorithm a, size_t secret_len);

/* The next secret (section 7.2), key and IV; the sequence begins anew. Not 0: the library failed,
 * and the direction is of no use. */
MUST_CHECK int tls_keys_update(struct tls_direction *d, enum aead_algorithm a, size_t secret_len);

#endif
