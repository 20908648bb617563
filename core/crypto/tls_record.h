/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_record.h - one record of TLS 1.2 or 1.3, sealed and opened.
 */
#ifndef CORE_CRYPTO_TLS_RECORD_H
#define CORE_CRYPTO_TLS_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "crypto/tls_alert.h"
#include "crypto/tls_records.h"

#define TLS_RECORD_HEADER 5u
enum tls_content {
    TLS_CHANGE_CIPHER_SPEC = 20,
    TLS_ALERT = 21,
    TLS_HANDSHAKE = 22,
    TLS_APPLICATION_DATA = 23,
};

/* What is wrong with a record, to whom it is said, and in our own words. */
struct tls_fault {
    enum tls_alert alert;
    const char *why; /* NULL: nothing is wrong */
};

/* What a record of ours has more than its content. */
size_t tls_record_overhead(const struct tls_handover *h);

/* Seals `len` (at most h->record_max) bytes as the next record of h->out and puts it to `to`, which
 * has tls_record_overhead bytes more than `len`. `a` has h->out.key. Not 0: the library failed, or
 * there are no more numbers; nothing more may be sent. */
MUST_CHECK int tls_record_seal(struct tls_handover *h, struct aead *a, enum tls_content type,
                               const uint8_t *data, size_t len, uint8_t *to);

/* Looks at the TLS_RECORD_HEADER bytes at `head`: *body is what follows them. */
MUST_CHECK struct tls_fault tls_record_check(const struct tls_handover *h, const uint8_t *head,
                                             size_t *body);
/* How many bytes tls_record_open puts out at the most for a body of `body` bytes that was checked.
 */
size_t tls_record_room(const struct tls_handover *h, size_t body);

/* Opens the next record of h->in, whose header was checked: its content goes to `to` (which has
 * room for tls_record_room bytes, and may be the body's own place as tls_record_body says), *len of
 * it, and its true type to *type. `a` has h->in.key. After a fault there is nothing at `to`. */
MUST_CHECK struct tls_fault tls_record_open(struct tls_handover *h, struct aead *a,
                                            const uint8_t *record, size_t body, uint8_t *to,
                                            size_t *len, enum tls_content *type);
/* How far behind a record's begin its ciphertext lies. */
size_t tls_record_body(const struct tls_handover *h);

#endif
