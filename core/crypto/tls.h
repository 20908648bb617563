/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - TLS sessions without I/O.
 *
 * A `tls_config` holds what many sessions share (certificates, trust, ciphers, the resumption
 * cache); it is immutable once made and counted. A `tls_session` turns ciphertext into plaintext
 * and back in memory; the net layer moves the bytes. Which library does the work is not seen here.
 *
 * Verification covers the chain, the validity dates, and the name: DNS SANs (with one left-most
 * wildcard label, RFC 6125) or IP SANs; a certificate without SANs names nobody, as in Go. TLS 1.2
 * (RFC 5246), and TLS 1.3 (RFC 8446) where the library has it, with ephemeral keys and
 * authenticated ciphers; no renegotiation, no early data.
 *
 * Error codes: -EACCES when a certificate was refused, -EINVAL for what the user configured,
 * -ENOMEM, -ENOBUFS, and -EPROTO for the rest.
 */
#ifndef CORE_CRYPTO_TLS_H
#define CORE_CRYPTO_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct tls_config;
struct tls_session;
struct tls_trust;

/* All PEM (or DER where it is not text); copied. Empty slices: not given. Names are for messages
 * and may be NULL. */
struct tls_client_options {
    struct slice ca;     /* trusted roots; empty: the file $SSL_CERT_FILE or the system's bundle.
                            Unreadable ones among readable ones are passed over. */
    const char *ca_name; /* where it came from, for messages; as below */
    struct tls_trust *trust; /* in place of `ca`, shared with other configs; referenced. NULL: none
                              */
    struct slice cert;       /* client certificate chain */
    const char *cert_name;
    struct slice key;
    const char *key_name;
    const char *server_name; /* DNS name or IP literal that the certificate must bear; also SNI
                                when it is a name */
    bool insecure;           /* no verification at all; `ca` is not looked at */
    const char *const *alpn; /* NULL-terminated; NULL: none. Copied. */
};

struct tls_server_options {
    struct slice cert;
    const char *cert_name;
    struct slice key;
    const char *key_name;
    struct slice client_ca; /* not empty: clients must show a certificate of it */
    const char *client_ca_name;
    const char *client_name; /* the common name that it must bear; NULL: any */
    const char *const *alpn;
};

/* Roots that many configs of clients trust: read once, and kept once. `ca` and `ca_name` as above.
 * NULL with `e` set. The reference belongs to the caller. */
MUST_CHECK struct tls_trust *tls_trust_new(struct slice ca, const char *ca_name, struct err *e);
/* NULL is ignored. */
void tls_trust_unref(struct tls_trust *t);

/* NULL with `e` set: certificate or key unreadable, encrypted, or not a pair. The reference belongs
 * to the caller. */
MUST_CHECK struct tls_config *tls_config_new_client(const struct tls_client_options *o,
                                                    struct err *e);
MUST_CHECK struct tls_config *tls_config_new_server(const struct tls_server_options *o,
                                                    struct err *e);
/* NULL is allowed, and returned. */
struct tls_config *tls_config_ref(struct tls_config *c);
void tls_config_unref(struct tls_config *c);

/* Of the chain that a server showed last: the certificate that ends first, from when until when it
 * is valid, in seconds since 1970. False: none was verified. */
bool tls_config_peer_validity(const struct tls_config *c, int64_t *from, int64_t *until);

/* Holds a reference on the config. A client session offers the config's newest resumable session,
 * unless the certificate that was verified for it has expired. NULL with `e` set. */
MUST_CHECK struct tls_session *tls_session_new(struct tls_config *c, struct err *e);
void tls_session_free(struct tls_session *s);

enum tls_result {
    TLS_OK,     /* progress was made: see the function */
    TLS_MORE,   /* more ciphertext is needed */
    TLS_CLOSED, /* the peer said close_notify; nothing more comes, but writing still works */
    TLS_FAILED, /* `e` says why; the session is dead. Ciphertext (an alert) may wait in `out`. */
};

/* Advances the handshake with ciphertext from *in (advanced over what was consumed; what is
 * unfinished is kept inside) and appends what must be sent to `out`. TLS_OK: established. A client
 * of TLS 1.3 is so before the server has looked at its certificate: a refusal comes when it reads.
 * Verification failures name the reason: expired and when, unknown authority, wrong name and which
 * names it has. */
MUST_CHECK enum tls_result tls_session_handshake(struct tls_session *s, struct slice *in,
                                                 struct buf *out, struct err *e);

/* Decrypts: consumes from *in and puts at most `len` (not 0) bytes of plaintext to `data`, *got of
 * them.
 * TLS_OK: *got > 0. Call again until TLS_MORE. Also answers renegotiation (refused), tickets and
 * alerts; what it has to send goes to `out`. */
MUST_CHECK enum tls_result tls_session_read(struct tls_session *s, struct slice *in, void *data,
                                            size_t len, size_t *got, struct buf *out,
                                            struct err *e);

/* Encrypts all of `data` into as few records as possible and appends them to `out`. 0; -ENOBUFS or
 * -ENOMEM when `out` has no room for all records, the session staying usable; -EPROTO. */
MUST_CHECK int tls_session_write(struct tls_session *s, const void *data, size_t len,
                                 struct buf *out, struct err *e);

/* Appends close_notify, once; nothing can be written afterwards. */
void tls_session_shutdown(struct tls_session *s, struct buf *out);

/* The protocol agreed on by ALPN, or NULL; resumed or not. The string belongs to the session. Valid
 * once established. */
const char *tls_session_alpn(const struct tls_session *s);
bool tls_session_resumed(const struct tls_session *s);

/* Gives the memory of the library's record buffers back to the system, where they hold nothing; it
 * returns when the next records are. Of records of our own it frees one. Costs a system call each
 * way and, later, page faults: meant for sessions that have been quiet for a while. Allowed in any
 * state. */
void tls_session_idle(struct tls_session *s);

/* Who makes the records of established sessions: the library that shakes hands, or, faster and
 * with less memory, we ourselves (crypto/tls_records.h) where crypto/aead.h is usable and knows the
 * cipher. For `main`, before the first config is made; TLS_RECORDS_OWN otherwise. */
enum tls_records_by { TLS_RECORDS_OWN, TLS_RECORDS_LIBRARY };
void tls_use_records(enum tls_records_by by);

/* Whether TLS 1.3 is spoken, beside 1.2: the library decides. */
bool tls_has_13(void);

/* Makes the C library serve blocks of 16 KiB and more from pages of their own, so that the
 * untouched part of a record buffer takes no memory and a freed one goes back to the system, and
 * does without huge pages. For `main`, once, before anything else; child processes inherit the
 * last. */
void tls_tune_memory(void);

#endif
