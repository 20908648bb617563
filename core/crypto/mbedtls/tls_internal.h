/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_internal.h - what the files of the TLS adapter share; nobody else includes it.
 */
#ifndef CORE_CRYPTO_MBEDTLS_TLS_INTERNAL_H
#define CORE_CRYPTO_MBEDTLS_TLS_INTERNAL_H

#include "crypto/mbedtls/compat.h"
#include "crypto/tls.h"
#include "crypto/tls_names.h"

/* Certificates of authorities that are trusted. */
struct tls_trust {
    unsigned refs;
    mbedtls_x509_crt ca;
    char *name;
};

struct tls_config {
    unsigned refs;
    bool server;
    bool insecure;
    mbedtls_ssl_config conf;
    struct tls_trust *trust; /* NULL: nobody is verified */
    mbedtls_x509_crt cert;
    mbedtls_pk_context key;
    char *server_name; /* client only */
    char *client_name; /* server only: whom it admits; NULL: anybody who is verified */
    struct tls_peer_name peer;
    char **alpn; /* NULL-terminated; NULL: none */

    /* Client: the newest session, without certificate. */
    mbedtls_ssl_session resumable;
    bool has_resumable;
    mbedtls_x509_time resumable_until;

    /* Server. */
    mbedtls_ssl_ticket_context tickets;
    bool ticket_taken; /* by the handshake step that is running */
};

/* What the library's I/O callbacks work on while a function of ours runs; all NULL otherwise. */
struct tls_io {
    struct slice *in;
    struct buf *out;
    struct err *e;
    bool verify_failed; /* `e` says why */
    bool alert_sent;    /* the last record for `out` is one */
    int send_rc;        /* what appending to `out` returned */
};

/*
 *  SHAKING --> OPEN --> ENDED (close_notify received)
 *     |         |         |
 *     +---------+---------+--> DEAD
 */
enum tls_state { TLS_SHAKING, TLS_OPEN, TLS_ENDED, TLS_DEAD };

struct tls_session {
    mbedtls_ssl_context ssl;
    struct tls_config *config;
    enum tls_state state;
    bool client;
    bool resumed;
    bool close_sent;
    bool heard;   /* the peer has sent something */
    bool not_tls; /* its first byte is of no record that begins a handshake */
    struct tls_io io;
    mbedtls_x509_time valid_until; /* the earliest end in the verified chain */

    /* Where the library keeps records: learned from what it asks to read and send. */
    unsigned char *in_base;
    unsigned char *out_base;
    bool between_records; /* nothing of a record has been read */
};

/* The library's verification callback; `data` is the session. Refusals go to io.e. */
int tls_verify(void *data, mbedtls_x509_crt *crt, int depth, uint32_t *flags);

/* Words for verification flags that the library raised outside the callback. */
void tls_verify_explain_usage(uint32_t flags, bool client, struct err *e);

/* Sets `e` to "<what>: <the library's words>" for a code of the library. */
int tls_error(struct err *e, int code, const char *what, int rc);

#endif
