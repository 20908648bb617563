/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/aead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gcrypt.h>

#include "base/array.h"
#include "crypto/gcrypt/aead_vectors.h"

struct aead {
    gcry_cipher_hd_t handle;
};

static const struct {
    int cipher;
    int mode;
    size_t key_size;
} algorithms[] = {
    [AEAD_AES_128_GCM] = {GCRY_CIPHER_AES128, GCRY_CIPHER_MODE_GCM, 16},
    [AEAD_AES_256_GCM] = {GCRY_CIPHER_AES256, GCRY_CIPHER_MODE_GCM, 32},
    [AEAD_CHACHA20_POLY1305] = {GCRY_CIPHER_CHACHA20, GCRY_CIPHER_MODE_POLY1305, 32},
};

size_t aead_key_size(enum aead_algorithm a)
{
    return algorithms[a].key_size;
}

struct aead *aead_new(enum aead_algorithm a, const uint8_t *key)
{
    struct aead *new = malloc(sizeof *new);
    if (new == NULL) {
        return NULL;
    }
    if (gcry_cipher_open(&new->handle, algorithms[a].cipher, algorithms[a].mode, 0) != 0) {
        free(new);
        return NULL;
    }
    if (gcry_cipher_setkey(new->handle, key, algorithms[a].key_size) != 0) {
        aead_free(new);
        return NULL;
    }
    return new;
}

void aead_free(struct aead *a)
{
    if (a != NULL) {
        gcry_cipher_close(a->handle); /* overwrites what it held */
        free(a);
    }
}

static gcry_error_t begin(struct aead *a, const uint8_t nonce[AEAD_NONCE_SIZE], struct slice extra)
{
    gcry_error_t rc = gcry_cipher_setiv(a->handle, nonce, AEAD_NONCE_SIZE);
    return rc != 0 ? rc : gcry_cipher_authenticate(a->handle, extra.ptr, extra.len);
}

/* What is worked on in its place is given to the library as the output alone. */
static gcry_error_t encrypt(struct aead *a, const uint8_t *in, size_t len, uint8_t *out)
{
    return in == out ? gcry_cipher_encrypt(a->handle, out, len, NULL, 0)
                     : gcry_cipher_encrypt(a->handle, out, len, in, len);
}

static gcry_error_t decrypt(struct aead *a, const uint8_t *in, size_t len, uint8_t *out)
{
    return in == out ? gcry_cipher_decrypt(a->handle, out, len, NULL, 0)
                     : gcry_cipher_decrypt(a->handle, out, len, in, len);
}

int aead_seal(struct aead *a, const uint8_t nonce[AEAD_NONCE_SIZE], struct slice extra,
              const uint8_t *in, size_t len, uint8_t *out)
{
    gcry_error_t rc = begin(a, nonce, extra);
    if (rc == 0 && len > 0) {
        rc = encrypt(a, in, len, out);
    }
    if (rc == 0) {
        rc = gcry_cipher_gettag(a->handle, out + len, AEAD_TAG_SIZE);
    }
    return rc == 0 ? 0 : -EINVAL;
}

int aead_open(struct aead *a, const uint8_t nonce[AEAD_NONCE_SIZE], struct slice extra,
              const uint8_t *in, size_t len, uint8_t *out)
{
    if (len < AEAD_TAG_SIZE) {
        return -EBADMSG;
    }
    len -= AEAD_TAG_SIZE;
    gcry_error_t rc = begin(a, nonce, extra);
    if (rc == 0 && len > 0) {
        rc = decrypt(a, in, len, out);
    }
    if (rc == 0) {
        rc = gcry_cipher_checktag(a->handle, in + len, AEAD_TAG_SIZE);
    }
    if (rc != 0) {
        explicit_bzero(out, len);
        return -EBADMSG;
    }
    return 0;
}

/* ---- starting the library ---- */

static const struct known_answer {
    const uint8_t *key;
    const uint8_t *nonce;
    struct slice extra;
    struct slice text;
    const uint8_t *sealed;
} known_answers[] = {
#define BYTES(array)                                                                               \
    {                                                                                              \
        (const char *)(array), sizeof(array)                                                       \
    }
    [AEAD_AES_128_GCM] = {gcm_key, gcm_nonce, BYTES(gcm_extra), BYTES(gcm_text),
                          aes_128_gcm_sealed},
    [AEAD_AES_256_GCM] = {gcm_key, gcm_nonce, BYTES(gcm_extra), BYTES(gcm_text),
                          aes_256_gcm_sealed},
    [AEAD_CHACHA20_POLY1305] = {chacha20_key,
                                chacha20_nonce,
                                BYTES(chacha20_extra),
                                {chacha20_text, sizeof chacha20_text - 1},
                                chacha20_sealed},
#undef BYTES
};

static bool seals_and_opens(struct aead *a, const struct known_answer *k)
{
    uint8_t sealed[sizeof chacha20_sealed];
    uint8_t text[sizeof chacha20_sealed];
    size_t len = k->text.len;
    size_t all = len + AEAD_TAG_SIZE;
    if (aead_seal(a, k->nonce, k->extra, (const uint8_t *)k->text.ptr, len, sealed) != 0 ||
        memcmp(sealed, k->sealed, all) != 0 ||
        aead_open(a, k->nonce, k->extra, sealed, all, text) != 0 ||
        memcmp(text, k->text.ptr, len) != 0) {
        return false;
    }
    sealed[0] ^= 1;
    return aead_open(a, k->nonce, k->extra, sealed, all, text) == -EBADMSG;
}

static bool gives_known_answer(enum aead_algorithm a)
{
    struct aead *aead = aead_new(a, known_answers[a].key);
    bool well = aead != NULL && seals_and_opens(aead, &known_answers[a]);
    aead_free(aead);
    return well;
}

static bool start(void)
{
    if (gcry_check_version("1.10.0") == NULL) {
        return false;
    }
    if (gcry_control(GCRYCTL_INITIALIZATION_FINISHED_P) == 0 &&
        (gcry_control(GCRYCTL_DISABLE_SECMEM, 0) != 0 ||
         gcry_control(GCRYCTL_INITIALIZATION_FINISHED, 0) != 0)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
        if (!gives_known_answer((enum aead_algorithm)i)) {
            return false;
        }
    }
    return true;
}

bool aead_usable(void)
{
    static enum { UNKNOWN, USABLE, UNUSABLE } state;
    if (state == UNKNOWN) {
        state = start() ? USABLE : UNUSABLE;
    }
    return state == USABLE;
}

bool aead_prefers_aes(void)
{
    static const char *const pairs[][2] = {
        {":intel-aesni:", ":intel-pclmul:"},
        {":arm-aes:", ":arm-pmull:"},
    };
    char *features = aead_usable() ? gcry_get_config(0, "hwflist") : NULL;
    bool found = false;
    for (size_t i = 0; features != NULL && i < ARRAY_LEN(pairs); i++) {
        found = found ||
                (strstr(features, pairs[i][0]) != NULL && strstr(features, pairs[i][1]) != NULL);
    }
    gcry_free(features);
    return found;
}
