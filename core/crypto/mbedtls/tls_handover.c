/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library agreed on in a handshake goes to records of our own (crypto/tls_records.h), and
 * the library's session is freed: when the handshake is over, or for clients of TLS 1.3 when the
 * first data has been read. The tickets that resume their sessions come right behind the handshake,
 * and the library keeps them for us. A session whose keys our records cannot use stays with it.
 */
#include "crypto/mbedtls/tls_internal.h"

#include <stdlib.h>
#include <string.h>

#include "crypto/tls_key_schedule.h"
#include "crypto/tls_records.h"

/* Records that a handshake may have sent with the keys of the data: few. */
#define HANDSHAKE_RECORDS_MAX 1000

struct tls_exported {
    /* TLS 1.2, RFC 5246 section 6.3: the client's key, the server's, the client's IV, the server's
     * (a prefix, so that it does not depend on the cipher). */
    uint8_t block[2 * (AEAD_KEY_MAX + AEAD_NONCE_SIZE)];
    bool has_block;
    /* TLS 1.3, RFC 8446 section 7.1. */
    uint8_t client_secret[TLS_SECRET_MAX];
    uint8_t server_secret[TLS_SECRET_MAX];
    size_t secret_len; /* 0: none */
};

/* ---- what the library gives out during the handshake ---- */

#if MBEDTLS_VERSION_MAJOR >= 3

static void take_secret(struct tls_exported *x, uint8_t *to, const unsigned char *secret,
                        size_t len)
{
    if (len <= TLS_SECRET_MAX) {
        memcpy(to, secret, len);
        x->secret_len = len;
    }
}

static void on_secret(void *data, mbedtls_ssl_key_export_type type, const unsigned char *secret,
                      size_t len, const unsigned char client_random[32],
                      const unsigned char server_random[32], mbedtls_tls_prf_types prf)
{
    struct tls_session *s = data;
    struct tls_exported *x = s->exported;
    unsigned char randoms[64];
    if (x == NULL) {
        return;
    }
    if (type == MBEDTLS_SSL_KEY_EXPORT_TLS1_3_CLIENT_APPLICATION_TRAFFIC_SECRET) {
        take_secret(x, x->client_secret, secret, len);
    } else if (type == MBEDTLS_SSL_KEY_EXPORT_TLS1_3_SERVER_APPLICATION_TRAFFIC_SECRET) {
        take_secret(x, x->server_secret, secret, len);
    } else if (type == MBEDTLS_SSL_KEY_EXPORT_TLS12_MASTER_SECRET) {
        memcpy(randoms, server_random, 32);
        memcpy(randoms + 32, client_random, 32);
        x->has_block = mbedtls_ssl_tls_prf(prf, secret, len, "key expansion", randoms,
                                           sizeof randoms, x->block, sizeof x->block) == 0;
    }
}

void tls_export_keys(struct tls_session *s)
{
    if (s->exported != NULL) {
        mbedtls_ssl_set_export_keys_cb(s->ssl, on_secret, s);
    }
}

void tls_config_export_keys(struct tls_config *c)
{
    (void)c;
}

#else

static int on_key_block(void *data, const unsigned char *master, const unsigned char *block,
                        size_t mac_len, size_t key_len, size_t iv_len,
                        const unsigned char client_random[32],
                        const unsigned char server_random[32], mbedtls_tls_prf_types prf)
{
    struct tls_config *c = data;
    struct tls_exported *x = c->shaking->exported;
    size_t len = 2 * (mac_len + key_len + iv_len);
    (void)master;
    (void)client_random;
    (void)server_random;
    (void)prf;
    if (x != NULL && len <= sizeof x->block) {
        memcpy(x->block, block, len);
        x->has_block = true;
    }
    return 0;
}

void tls_export_keys(struct tls_session *s)
{
    (void)s;
}

void tls_config_export_keys(struct tls_config *c)
{
    mbedtls_ssl_conf_export_keys_ext_cb(&c->conf, on_key_block, c);
}

#endif

struct tls_exported *tls_exported_new(void)
{
    return calloc(1, sizeof(struct tls_exported));
}

void tls_exported_free(struct tls_exported *x)
{
    if (x != NULL) {
        explicit_bzero(x, sizeof *x);
        free(x);
    }
}

/* ---- handing over ---- */

static bool find_algorithm(const mbedtls_ssl_context *ssl, enum aead_algorithm *out)
{
    switch (compat_cipher_suite(ssl)) {
    case MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:
    case MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:
    case COMPAT_TLS13_AES_128_GCM:
        *out = AEAD_AES_128_GCM;
        return true;
    case MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:
    case MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
    case COMPAT_TLS13_AES_256_GCM:
        *out = AEAD_AES_256_GCM;
        return true;
    case MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
    case MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
    case COMPAT_TLS13_CHACHA20_POLY1305:
        *out = AEAD_CHACHA20_POLY1305;
        return true;
    default:
        return false;
    }
}

static uint64_t be64(const unsigned char *from)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) {
        n = n << 8 | from[i];
    }
    return n;
}

static bool take_sequences(const struct tls_session *s, struct tls_handover *h)
{
    h->in.sequence = be64(compat_in_sequence(s->ssl));
    h->out.sequence = be64(compat_out_sequence(s->ssl));
    /* In TLS 1.2 each side's Finished was the first record with its key. */
    uint64_t least = h->tls13 ? 0 : 1;
    return h->in.sequence >= least && h->out.sequence >= least &&
           (h->tls13 ||
            (h->in.sequence <= HANDSHAKE_RECORDS_MAX && h->out.sequence <= HANDSHAKE_RECORDS_MAX));
}

static bool take_tls12_keys(const struct tls_session *s, struct tls_handover *h)
{
    const uint8_t *block = s->exported->block;
    struct tls_direction *client = s->client ? &h->out : &h->in;
    struct tls_direction *server = s->client ? &h->in : &h->out;
    size_t key = aead_key_size(h->algorithm);
    size_t iv = h->algorithm == AEAD_CHACHA20_POLY1305 ? AEAD_NONCE_SIZE : 4; /* RFC 5288 */
    memcpy(client->key, block, key);
    memcpy(server->key, block + key, key);
    memcpy(client->iv, block + 2 * key, iv);
    memcpy(server->iv, block + 2 * key + iv, iv);
    return s->exported->has_block;
}

static bool take_tls13_keys(const struct tls_session *s, struct tls_handover *h)
{
    const struct tls_exported *x = s->exported;
    h->secret_len = x->secret_len;
    memcpy(h->out.secret, s->client ? x->client_secret : x->server_secret, TLS_SECRET_MAX);
    memcpy(h->in.secret, s->client ? x->server_secret : x->client_secret, TLS_SECRET_MAX);
    return x->secret_len == (h->algorithm == AEAD_AES_256_GCM ? 48 : 32) &&
           tls_keys_derive(&h->in, h->algorithm, h->secret_len) == 0 &&
           tls_keys_derive(&h->out, h->algorithm, h->secret_len) == 0;
}

static bool fill(const struct tls_session *s, struct tls_handover *h)
{
    int record_max = mbedtls_ssl_get_max_out_record_payload(s->ssl);
    h->client = s->client;
    h->tls13 = compat_is_tls13(s->ssl);
    h->record_max = record_max > 0 ? (size_t)record_max : 0;
    if (h->tls13 && h->record_max == TLS_RECORD_DATA_MAX - 1) {
        h->record_max++; /* the library pads records so that it has no room for the last byte */
    }
    return h->record_max > 0 && h->record_max <= TLS_RECORD_DATA_MAX &&
           find_algorithm(s->ssl, &h->algorithm) && take_sequences(s, h) &&
           (h->tls13 ? take_tls13_keys(s, h) : take_tls12_keys(s, h));
}

void tls_hand_over(struct tls_session *s)
{
    struct tls_handover h = {.client = false};
    if (s->exported == NULL || mbedtls_ssl_check_pending(s->ssl) != 0 ||
        !compat_is_at_rest(s->ssl)) {
        return;
    }
    if (fill(s, &h)) {
        s->records = tls_records_new(&h);
    }
    explicit_bzero(&h, sizeof h);
    tls_exported_free(s->exported);
    s->exported = NULL;
    if (s->records != NULL) {
        tls_session_free_library(s);
    }
}
