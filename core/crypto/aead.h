/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aead.h - authenticated encryption with associated data (RFC 5116), as fast as the processor does
 * it.
 */
#ifndef CORE_CRYPTO_AEAD_H
#define CORE_CRYPTO_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

#define AEAD_NONCE_SIZE 12u
#define AEAD_TAG_SIZE 16u
#define AEAD_KEY_MAX 32u

enum aead_algorithm {
    AEAD_AES_128_GCM, /* NIST SP 800-38D */
    AEAD_AES_256_GCM,
    AEAD_CHACHA20_POLY1305, /* RFC 8439 */
};

struct aead;

/* Whether the library works here: it is started, and each algorithm gives what its standard says,
 * once for a process. False where the machine forbids nonces of one's own (FIPS mode). */
bool aead_usable(void);
/* Whether the processor has instructions for AES-GCM, so that it is faster than ChaCha20. */
bool aead_prefers_aes(void);

size_t aead_key_size(enum aead_algorithm a);

/* `key` has aead_key_size bytes, and is copied. NULL without memory. */
MUST_CHECK struct aead *aead_new(enum aead_algorithm a, const uint8_t *key);
/* Overwrites the key. NULL is ignored. */
void aead_free(struct aead *a);

/* Encrypts `len` bytes of `in` to `out`, AEAD_TAG_SIZE bytes behind them; `out` may be `in`. Not 0:
 * the library failed, and `out` is of no use. A nonce must not be used twice with a key. */
MUST_CHECK int aead_seal(struct aead *a, const uint8_t nonce[AEAD_NONCE_SIZE], struct slice extra,
                         const uint8_t *in, size_t len, uint8_t *out);
/* Decrypts `len` bytes, of which the last AEAD_TAG_SIZE are the tag, to `out`. -EBADMSG: they are
 * not authentic (or too few), and `out` is overwritten with zeros. */
MUST_CHECK int aead_open(struct aead *a, const uint8_t nonce[AEAD_NONCE_SIZE], struct slice extra,
                         const uint8_t *in, size_t len, uint8_t *out);

#endif
