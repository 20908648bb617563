/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_internal.h - what the files of the TLS adapter share; nobody else includes it.
 */
#ifndef CORE_CRYPTO_MBEDTLS_TLS_INTERNAL_H
#define CORE_CRYPTO_MBEDTLS_TLS_INTERNAL_H

#include "crypto/mbedtls/certificate_chain.h"
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
    mbedtls_x509_time resumable_from;
    mbedtls_x509_time resumable_until;

    /* Server. */
    mbedtls_ssl_ticket_context tickets;

    bool hands_over; /* established sessions, to records of our own */
    /* By the handshake step that is running. */
    bool ticket_taken;
    struct tls_session *shaking;
};

/* What the library's I/O callbacks work on while a function of ours runs; all NULL otherwise. */
struct tls_io {
    struct slice *in;
    struct buf *out;
    struct err *e;
    struct tls_shown *shown; /* of a handshake step */
    bool verify_failed;      /* `e` says why */
    bool alert_sent;         /* the last record for `out` is one */
    int send_rc;             /* what appending to `out` returned */
};

/*
 *  SHAKING --> OPEN --> ENDED (close_notify received)
 *     |         |         |
 *     +---------+---------+--> DEAD
 */
enum tls_state { TLS_SHAKING, TLS_OPEN, TLS_ENDED, TLS_DEAD };

/* What a handshake step learns of the certificates that the peer shows. */
struct tls_shown {
    struct certificate_chain chain;
    struct err unreadable; /* why the library could not read one of them; no code: it could */
};

struct tls_exported;
struct tls_records;

struct tls_session {
    mbedtls_ssl_context *ssl;      /* NULL: handed over */
    struct tls_records *records;   /* NULL: the library's are in use */
    struct tls_exported *exported; /* until handed over; NULL: stays with the library */
    struct tls_config *config;
    const char *alpn; /* once handed over; the config's */
    enum tls_state state;
    bool client;
    bool resumed;
    bool close_sent;
    bool heard;   /* the peer has sent something */
    bool not_tls; /* its first byte is of no record that begins a handshake */
    struct tls_io io;
    mbedtls_x509_time valid_until; /* the earliest end in the verified chain */
    mbedtls_x509_time valid_from;  /* when the life of that certificate began */

    /* Where the library keeps records: learned from what it asks to read and send. */
    unsigned char *in_base;
    unsigned char *out_base;
    bool between_records; /* nothing of a record has been read */
};

void tls_session_free_library(struct tls_session *s);

/* Keys that the library gives out. NULL without memory; freeing overwrites them, and ignores NULL.
 */
MUST_CHECK struct tls_exported *tls_exported_new(void);
void tls_exported_free(struct tls_exported *x);
/* Has the library give them out; each is for one version of it. */
void tls_config_export_keys(struct tls_config *c);
void tls_export_keys(struct tls_session *s);
/* From the library to records of our own, if that is possible now. */
void tls_hand_over(struct tls_session *s);

/* The library's verification callback; `data` is the session. Refusals go to io.e. */
int tls_verify(void *data, mbedtls_x509_crt *crt, int depth, uint32_t *flags);

/* Words for verification flags that the library raised outside the callback. */
void tls_verify_explain_usage(uint32_t flags, bool client, struct err *e);

/* Sets `e` to "<what>: <the library's words>" for a code of the library. */
int tls_error(struct err *e, int code, const char *what, int rc);

#endif
