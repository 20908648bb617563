/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_records.h - the records of a TLS session whose handshake is over: TLS 1.2 (RFC 5246 section
 * 6.2, RFC 5288, RFC 7905) and TLS 1.3 (RFC 8446 section 5), bytes in, bytes out.
 *
 * The library makes the handshake and hands over its keys. What comes afterwards is done here:
 * data, alerts, close_notify; in TLS 1.2 requests for renegotiation, which are refused; in TLS 1.3
 * KeyUpdate (which is answered, and sent before a key is worn out) and tickets (passed over). Any
 * other message is an error, and so are more than 32 records in a row that bring no data.
 *
 * Nothing but keys and counters is kept between whole records; of one that is not whole, or not
 * fetched yet, no more than itself.
 */
#ifndef CORE_CRYPTO_TLS_RECORDS_H
#define CORE_CRYPTO_TLS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "crypto/aead.h"
#include "crypto/tls.h"

#define TLS_SECRET_MAX 48u         /* of a hash in use: SHA-384 */
#define TLS_RECORD_DATA_MAX 16384u /* plaintext in a record, RFC 5246 section 6.2.1 */

/* One direction, as the handshake left it. */
struct tls_direction {
    uint8_t key[AEAD_KEY_MAX];
    uint8_t iv[AEAD_NONCE_SIZE]; /* of AES-GCM in TLS 1.2 the first four bytes, the implicit ones */
    uint8_t secret[TLS_SECRET_MAX]; /* TLS 1.3: what the next key is made of */
    uint64_t sequence;              /* of the next record */
};

struct tls_handover {
    enum aead_algorithm algorithm;
    bool client; /* we are: the peer is the server */
    bool tls13;
    size_t secret_len; /* TLS 1.3: 32 (SHA-256) or 48 (SHA-384) */
    size_t record_max; /* plaintext in a record that is sent: 1 to TLS_RECORD_DATA_MAX */
    struct tls_direction in;
    struct tls_direction out;
};

struct tls_records;

/* `h` is copied; overwriting it is the caller's. NULL without memory. */
MUST_CHECK struct tls_records *tls_records_new(const struct tls_handover *h);
/* Overwrites all secrets. NULL is ignored. */
void tls_records_free(struct tls_records *r);

/* As tls_session_read, tls_session_write and tls_session_shutdown; after TLS_FAILED they are not
 * called again, and after TLS_CLOSED there is nothing to read. */
MUST_CHECK enum tls_result tls_records_read(struct tls_records *r, struct slice *in, void *data,
                                            size_t len, size_t *got, struct buf *out,
                                            struct err *e);
MUST_CHECK int tls_records_write(struct tls_records *r, const void *data, size_t len,
                                 struct buf *out, struct err *e);
void tls_records_shutdown(struct tls_records *r, struct buf *out);
/* Frees what the next record gets anew: for sessions that have been quiet for a while. */
void tls_records_idle(struct tls_records *r);

/* TLS 1.3: takes a KeyUpdate that somebody else has read, with the `request_update` in it, as if it
 * had come as a record. To be called before anything is read. */
void tls_records_take_key_update(struct tls_records *r, uint8_t wish, struct buf *out);

#endif
