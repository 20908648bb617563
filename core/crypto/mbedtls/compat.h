/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compat.h - what differs between mbedTLS 2.28 and 3.6, and the headers that all need.
 */
#ifndef CORE_CRYPTO_MBEDTLS_COMPAT_H
#define CORE_CRYPTO_MBEDTLS_COMPAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

/* Random bytes for the library, from getrandom(2). `ctx` is not used. */
int crypto_random(void *ctx, unsigned char *out, size_t len);

#if MBEDTLS_VERSION_MAJOR >= 3

#include <psa/crypto.h>

#define COMPAT_FIELD(object, field) ((object)->MBEDTLS_PRIVATE(field))
#define COMPAT_HAS_TLS13 true

static inline int compat_parse_key(mbedtls_pk_context *pk, const unsigned char *key, size_t len)
{
    return mbedtls_pk_parse_key(pk, key, len, NULL, 0, crypto_random, NULL);
}

static inline int compat_check_pair(const mbedtls_pk_context *pub, const mbedtls_pk_context *key)
{
    return mbedtls_pk_check_pair(pub, key, crypto_random, NULL);
}

static inline int compat_set_serial(mbedtls_x509write_cert *w, unsigned char *serial, size_t len)
{
    return mbedtls_x509write_crt_set_serial_raw(w, serial, len);
}

/* X25519, P-256, P-384, P-521: key exchange by measured speed; the list also says which curves a
 * peer's certificate may use. */
static inline void compat_conf_groups(mbedtls_ssl_config *conf)
{
    static const uint16_t groups[] = {
        MBEDTLS_SSL_IANA_TLS_GROUP_X25519,    MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
        MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1, MBEDTLS_SSL_IANA_TLS_GROUP_SECP521R1,
        MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
    };
    mbedtls_ssl_conf_groups(conf, groups);
}

/* RSA-PSS, which TLS 1.3 needs, comes last: the library refuses a server that takes it in TLS 1.2,
 * where it may (RFC 8446 section 4.2.3), and all but those that insist on an order of their own
 * take the first that they can. */
static inline void compat_conf_signatures(mbedtls_ssl_config *conf)
{
    static const uint16_t algorithms[] = {
        MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, MBEDTLS_TLS1_3_SIG_ECDSA_SECP384R1_SHA384,
        MBEDTLS_TLS1_3_SIG_ECDSA_SECP521R1_SHA512, MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256,
        MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA384,       MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA512,
        MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256,    MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384,
        MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512,    MBEDTLS_TLS1_3_SIG_NONE,
    };
    mbedtls_ssl_conf_sig_algs(conf, algorithms);
}

static inline void compat_conf_versions(mbedtls_ssl_config *conf)
{
    mbedtls_ssl_conf_min_tls_version(conf, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(conf, MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_tls13_key_exchange_modes(conf,
                                              MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ALL);
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
        conf, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
}

/* For tests. */
static inline void compat_conf_no_13(mbedtls_ssl_config *conf)
{
    mbedtls_ssl_conf_max_tls_version(conf, MBEDTLS_SSL_VERSION_TLS1_2);
}

#define COMPAT_TLS13_CIPHERS                                                                       \
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256, MBEDTLS_TLS1_3_AES_128_GCM_SHA256,                    \
        MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
#define COMPAT_TLS13_CIPHERS_AES_FIRST                                                             \
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256, MBEDTLS_TLS1_3_AES_256_GCM_SHA384,                          \
        MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,

#define COMPAT_TLS13_AES_128_GCM MBEDTLS_TLS1_3_AES_128_GCM_SHA256
#define COMPAT_TLS13_AES_256_GCM MBEDTLS_TLS1_3_AES_256_GCM_SHA384
#define COMPAT_TLS13_CHACHA20_POLY1305 MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256

static inline int compat_cipher_suite(const mbedtls_ssl_context *ssl)
{
    return mbedtls_ssl_get_ciphersuite_id_from_ssl(ssl);
}

/* Whether a server gave up because the client offers no version or no cipher that it has. */
static inline bool compat_has_nothing_in_common(int rc)
{
    return rc == MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION || rc == MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE;
}

/* TLS 1.3 needs the library's own state; may be called again. */
static inline int compat_init(void)
{
    return psa_crypto_init() == PSA_SUCCESS ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static inline bool compat_is_tls13(const mbedtls_ssl_context *ssl)
{
    return mbedtls_ssl_get_version_number(ssl) == MBEDTLS_SSL_VERSION_TLS1_3;
}

/* A ticket (RFC 8446 section 4.6.1) interrupts what the library was told to do: it says that it
 * wants more bytes when it has met one, though it needs none, and something else once it has read
 * it. mbedtls_ssl_get_session has it then. */
static inline bool compat_meets_ticket(const mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, state) == MBEDTLS_SSL_TLS1_3_NEW_SESSION_TICKET;
}

static inline bool compat_has_ticket(int rc)
{
    return rc == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET;
}

/* Alerts of a handshake are to be sent with the newest keys (RFC 8446 section A), or the peer has a
 * bad record in place of a reason. The library changes its keys with the next message only: a
 * client's alerts are in the clear where they should have the keys of the handshake, and a server's
 * have these where they should have the keys of the data. From here on it sends with the right
 * ones, which is good for an alert alone: the client when it refuses the server's certificate, the
 * server when it waits for the client's. */
static inline void compat_prepare_alert(mbedtls_ssl_context *ssl, bool client)
{
    mbedtls_ssl_transform *newest =
        client ? COMPAT_FIELD(ssl, transform_in) : COMPAT_FIELD(ssl, transform_application);
    if (compat_is_tls13(ssl) && newest != NULL) {
        COMPAT_FIELD(ssl, transform_out) = newest;
        memset(COMPAT_FIELD(ssl, cur_out_ctr), 0, sizeof COMPAT_FIELD(ssl, cur_out_ctr));
    }
}

/* What a record for which the library has just given up says, if it is an alert in the clear in the
 * middle of a handshake of TLS 1.3: OpenSSL's clients refuse a certificate so. Negative: it is
 * none. */
static inline int compat_alert_in_clear(const mbedtls_ssl_context *ssl, int rc)
{
    enum { TYPE = 0, LENGTH_HIGH = 3, LENGTH_LOW = 4, DESCRIPTION = 6 };
    const unsigned char *record = COMPAT_FIELD(ssl, in_hdr);
    bool is_alert = rc == MBEDTLS_ERR_SSL_INVALID_MAC && compat_is_tls13(ssl) &&
                    record[TYPE] == MBEDTLS_SSL_MSG_ALERT && record[LENGTH_HIGH] == 0 &&
                    record[LENGTH_LOW] == 2;
    return is_alert ? record[DESCRIPTION] : -1;
}

/* Whether what the library sends is the alert no_certificate, which TLS 1.3 does not have. */
static inline bool compat_sends_no_certificate(const mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, send_alert) != 0 &&
           COMPAT_FIELD(ssl, alert_type) == MBEDTLS_SSL_ALERT_MSG_NO_CERT;
}

/* Whether the record for which the library has just given up is a KeyUpdate (RFC 8446
 * section 4.6.3), which it does not know, and nothing else. It has sent no alert then. */
static inline bool compat_has_key_update(const mbedtls_ssl_context *ssl, int rc, uint8_t *wish)
{
    enum { KEY_UPDATE = 24, SIZE = 5 };
    const unsigned char *message = COMPAT_FIELD(ssl, in_msg);
    if (rc != MBEDTLS_ERR_SSL_UNEXPECTED_MESSAGE || !compat_is_tls13(ssl) ||
        COMPAT_FIELD(ssl, in_msgtype) != MBEDTLS_SSL_MSG_HANDSHAKE ||
        COMPAT_FIELD(ssl, in_msglen) != SIZE || COMPAT_FIELD(ssl, in_hslen) != SIZE ||
        message[0] != KEY_UPDATE) {
        return false;
    }
    *wish = message[SIZE - 1];
    return true;
}

#else

#define COMPAT_FIELD(object, field) ((object)->field)
#define COMPAT_HAS_TLS13 false

static inline int compat_parse_key(mbedtls_pk_context *pk, const unsigned char *key, size_t len)
{
    return mbedtls_pk_parse_key(pk, key, len, NULL, 0);
}

static inline int compat_check_pair(const mbedtls_pk_context *pub, const mbedtls_pk_context *key)
{
    return mbedtls_pk_check_pair(pub, key);
}

static inline int compat_set_serial(mbedtls_x509write_cert *w, unsigned char *serial, size_t len)
{
    mbedtls_mpi mpi;
    mbedtls_mpi_init(&mpi);
    int rc = mbedtls_mpi_read_binary(&mpi, serial, len);
    if (rc == 0) {
        rc = mbedtls_x509write_crt_set_serial(w, &mpi);
    }
    mbedtls_mpi_free(&mpi);
    return rc;
}

static inline void compat_conf_groups(mbedtls_ssl_config *conf)
{
    static const mbedtls_ecp_group_id curves[] = {
        MBEDTLS_ECP_DP_CURVE25519, MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_SECP384R1,
        MBEDTLS_ECP_DP_SECP521R1,  MBEDTLS_ECP_DP_NONE,
    };
    mbedtls_ssl_conf_curves(conf, curves);
}

/* The library offers no RSA-PSS. */
static inline void compat_conf_signatures(mbedtls_ssl_config *conf)
{
    (void)conf;
}

static inline void compat_conf_versions(mbedtls_ssl_config *conf)
{
    mbedtls_ssl_conf_min_version(conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
}

static inline void compat_conf_no_13(mbedtls_ssl_config *conf)
{
    (void)conf;
}

/* There is no TLS 1.3: its suites are none that is ever agreed on. */
#define COMPAT_TLS13_CIPHERS
#define COMPAT_TLS13_CIPHERS_AES_FIRST
#define COMPAT_TLS13_AES_128_GCM (-1)
#define COMPAT_TLS13_AES_256_GCM (-2)
#define COMPAT_TLS13_CHACHA20_POLY1305 (-3)

static inline int compat_cipher_suite(const mbedtls_ssl_context *ssl)
{
    const mbedtls_ssl_session *session = COMPAT_FIELD(ssl, session);
    return session == NULL ? 0 : COMPAT_FIELD(session, ciphersuite);
}

static inline bool compat_has_nothing_in_common(int rc)
{
    return rc == MBEDTLS_ERR_SSL_BAD_HS_PROTOCOL_VERSION || rc == MBEDTLS_ERR_SSL_NO_CIPHER_CHOSEN;
}

static inline int compat_init(void)
{
    return 0;
}

static inline bool compat_is_tls13(const mbedtls_ssl_context *ssl)
{
    (void)ssl;
    return false;
}

static inline bool compat_meets_ticket(const mbedtls_ssl_context *ssl)
{
    (void)ssl;
    return false;
}

static inline bool compat_has_ticket(int rc)
{
    (void)rc;
    return false;
}

static inline void compat_prepare_alert(mbedtls_ssl_context *ssl, bool client)
{
    (void)ssl;
    (void)client;
}

static inline int compat_alert_in_clear(const mbedtls_ssl_context *ssl, int rc)
{
    (void)ssl;
    (void)rc;
    return -1;
}

static inline bool compat_sends_no_certificate(const mbedtls_ssl_context *ssl)
{
    (void)ssl;
    return false;
}

static inline bool compat_has_key_update(const mbedtls_ssl_context *ssl, int rc, uint8_t *wish)
{
    (void)ssl;
    (void)rc;
    (void)wish;
    return false;
}

#endif

/* The description of the fatal alert that just made a call return FATAL_ALERT_MESSAGE. The library
 * has no function for it. */
static inline int compat_alert(const mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, in_msg)[1];
}

/* Whether the library holds no part of a record, read or to be sent, beyond what
 * mbedtls_ssl_check_pending knows. */
static inline bool compat_is_at_rest(const mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, in_left) == 0 && COMPAT_FIELD(ssl, out_left) == 0;
}

/* Eight bytes each: the number of the next record. The library has no function for it. */
static inline const unsigned char *compat_in_sequence(const mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, in_ctr);
}

static inline const unsigned char *compat_out_sequence(const mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, cur_out_ctr);
}

/* Frees the peer's certificate, which only renegotiation would still need: it is most of what a
 * session holds. NULL is allowed. */
static inline void compat_session_drop_peer(mbedtls_ssl_session *session)
{
    if (session != NULL && COMPAT_FIELD(session, peer_cert) != NULL) {
        mbedtls_x509_crt_free(COMPAT_FIELD(session, peer_cert));
        mbedtls_free(COMPAT_FIELD(session, peer_cert));
        COMPAT_FIELD(session, peer_cert) = NULL;
    }
}

static inline mbedtls_ssl_session *compat_session(mbedtls_ssl_context *ssl)
{
    return COMPAT_FIELD(ssl, session);
}

#endif
