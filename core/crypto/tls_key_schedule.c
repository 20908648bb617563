/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/tls_key_schedule.h"

#include <stdint.h>
#include <string.h>

#include "crypto/hmac.h"

#define LABEL_MAX 32

/* HKDF-Expand-Label with an empty context, for what is no longer than the hash, so that one round
 * of HKDF-Expand (RFC 5869) gives it. */
static int expand_label(const uint8_t *secret, size_t secret_len, const char *label, uint8_t *out,
                        size_t len)
{
    uint8_t info[2 + 1 + LABEL_MAX + 1 + 1];
    uint8_t block[HMAC_SIZE_MAX];
    size_t n = 0;
    size_t label_len = strlen(label);
    info[n++] = 0;
    info[n++] = (uint8_t)len;
    info[n++] = (uint8_t)(strlen("tls13 ") + label_len);
    memcpy(info + n, "tls13 ", strlen("tls13 "));
    n += strlen("tls13 ");
    memcpy(info + n, label, label_len);
    n += label_len;
    info[n++] = 0; /* no context */
    info[n++] = 1; /* the first round */
    int rc =
        hmac(secret_len == hmac_size(HMAC_SHA256) ? HMAC_SHA256 : HMAC_SHA384,
             slice_of((const char *)secret, secret_len), slice_of((const char *)info, n), block);
    if (rc == 0) {
        memcpy(out, block, len);
    }
    explicit_bzero(block, sizeof block);
    return rc;
}

int tls_keys_derive(struct tls_direction *d, enum aead_algorithm a, size_t secret_len)
{
    int rc = expand_label(d->secret, secret_len, "key", d->key, aead_key_size(a));
    return rc != 0 ? rc : expand_label(d->secret, secret_len, "iv", d->iv, sizeof d->iv);
}

int tls_keys_update(struct tls_direction *d, enum aead_algorithm a, size_t secret_len)
{
    int rc = expand_label(d->secret, secret_len, "traffic upd", d->secret, secret_len);
    d->sequence = 0;
    return rc != 0 ? rc : tls_keys_derive(d, a, secret_len);
}
