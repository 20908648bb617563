/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three forms:
 *
 *   TLS 1.2, AES-GCM     header | 8 bytes of nonce | ciphertext | tag   RFC 5288 section 3
 *   TLS 1.2, ChaCha20    header | ciphertext | tag                      RFC 7905 section 2
 *   TLS 1.3              header | ciphertext | tag                      RFC 8446 section 5.2
 *
 * The plaintext of TLS 1.3 has the true type behind the content, and zeros behind that.
 */
#include "crypto/tls_record.h"

#include <errno.h>
#include <string.h>

#define EXPLICIT_NONCE 8u
#define IMPLICIT_NONCE 4u
#define VERSION_MAJOR 3
#define VERSION_MINOR 3 /* of TLS 1.2, and of what 1.3 pretends to be */
/* Ciphertext, beyond TLS_RECORD_DATA_MAX. */
#define EXPANSION_TLS12 2048u
#define EXPANSION_TLS13 256u

static bool has_explicit_nonce(const struct tls_handover *h)
{
    return !h->tls13 && h->algorithm != AEAD_CHACHA20_POLY1305;
}

size_t tls_record_body(const struct tls_handover *h)
{
    return TLS_RECORD_HEADER + (has_explicit_nonce(h) ? EXPLICIT_NONCE : 0);
}

size_t tls_record_overhead(const struct tls_handover *h)
{
    return tls_record_body(h) + (h->tls13 ? 1 : 0) + AEAD_TAG_SIZE;
}

static void put_be64(uint8_t *to, uint64_t n)
{
    for (int i = 7; i >= 0; i--) {
        to[i] = (uint8_t)n;
        n >>= 8;
    }
}

static void put_header(uint8_t *to, enum tls_content type, size_t body)
{
    to[0] = (uint8_t)type;
    to[1] = VERSION_MAJOR;
    to[2] = VERSION_MINOR;
    to[3] = (uint8_t)(body >> 8);
    to[4] = (uint8_t)body;
}

/* `explicit` is NULL where a record carries nothing of its nonce. */
static void make_nonce(const struct tls_direction *d, const uint8_t *explicit,
                       uint8_t nonce[AEAD_NONCE_SIZE])
{
    uint8_t sequence[8];
    memcpy(nonce, d->iv, AEAD_NONCE_SIZE);
    if (explicit != NULL) {
        memcpy(nonce + IMPLICIT_NONCE, explicit, EXPLICIT_NONCE);
        return;
    }
    put_be64(sequence, d->sequence);
    for (size_t i = 0; i < sizeof sequence; i++) {
        nonce[AEAD_NONCE_SIZE - sizeof sequence + i] ^= sequence[i];
    }
}

/* What is authenticated beside the plaintext: in TLS 1.2 the sequence, the header and the length of
 * the plaintext (RFC 5246 section 6.2.3.3), in TLS 1.3 the header. */
struct extra {
    uint8_t bytes[8 + TLS_RECORD_HEADER];
    size_t len;
};

static struct slice make_extra(struct extra *x, const struct tls_handover *h, uint64_t sequence,
                               const uint8_t *header, size_t plain)
{
    if (h->tls13) {
        memcpy(x->bytes, header, TLS_RECORD_HEADER);
        return slice_of((const char *)x->bytes, TLS_RECORD_HEADER);
    }
    put_be64(x->bytes, sequence);
    put_header(x->bytes + 8, header[0], plain);
    return slice_of((const char *)x->bytes, sizeof x->bytes);
}

int tls_record_seal(struct tls_handover *h, struct aead *a, enum tls_content type,
                    const uint8_t *data, size_t len, uint8_t *to)
{
    struct tls_direction *d = &h->out;
    struct extra x;
    uint8_t nonce[AEAD_NONCE_SIZE];
    uint8_t *body = to + tls_record_body(h);
    if (d->sequence == UINT64_MAX) {
        return -EOVERFLOW;
    }
    put_header(to, h->tls13 ? TLS_APPLICATION_DATA : type,
               len + tls_record_overhead(h) - TLS_RECORD_HEADER);
    if (has_explicit_nonce(h)) {
        put_be64(to + TLS_RECORD_HEADER, d->sequence);
    }
    make_nonce(d, has_explicit_nonce(h) ? to + TLS_RECORD_HEADER : NULL, nonce);
    struct slice extra = make_extra(&x, h, d->sequence, to, len);
    if (h->tls13) {
        memcpy(body, data, len);
        body[len++] = (uint8_t)type;
        data = body;
    }
    d->sequence++;
    return aead_seal(a, nonce, extra, data, len, body);
}

static struct tls_fault fault(enum tls_alert alert, const char *why)
{
    return (struct tls_fault){.alert = alert, .why = why};
}

static const struct tls_fault well;

struct tls_fault tls_record_check(const struct tls_handover *h, const uint8_t *head, size_t *body)
{
    size_t max = TLS_RECORD_DATA_MAX + (h->tls13 ? EXPANSION_TLS13 : EXPANSION_TLS12);
    *body = (size_t)head[3] << 8 | head[4];
    if (head[0] != TLS_APPLICATION_DATA &&
        (h->tls13 || (head[0] != TLS_ALERT && head[0] != TLS_HANDSHAKE))) {
        return fault(TLS_ALERT_UNEXPECTED_MESSAGE, "a record of a type that has no place here");
    }
    if (head[1] != VERSION_MAJOR || head[2] != VERSION_MINOR) {
        return fault(TLS_ALERT_PROTOCOL_VERSION, "a record of another version");
    }
    if (*body > max) {
        return fault(TLS_ALERT_RECORD_OVERFLOW, "a record that is too long");
    }
    if (*body + TLS_RECORD_HEADER < tls_record_overhead(h)) {
        return fault(TLS_ALERT_BAD_RECORD_MAC, "a record that is too short");
    }
    return well;
}

size_t tls_record_room(const struct tls_handover *h, size_t body)
{
    return TLS_RECORD_HEADER + body - tls_record_body(h) - AEAD_TAG_SIZE;
}

/* The last byte that is not zero is the type (RFC 8446 section 5.4). */
static struct tls_fault take_type(const uint8_t *plain, size_t *len, enum tls_content *type)
{
    if (*len > TLS_RECORD_DATA_MAX + 1) {
        return fault(TLS_ALERT_RECORD_OVERFLOW, "a record with too much in it");
    }
    while (*len > 0 && plain[*len - 1] == 0) {
        (*len)--;
    }
    if (*len == 0) {
        return fault(TLS_ALERT_UNEXPECTED_MESSAGE, "a record without a type");
    }
    *type = plain[--*len];
    return well;
}

struct tls_fault tls_record_open(struct tls_handover *h, struct aead *a, const uint8_t *record,
                                 size_t body, uint8_t *to, size_t *len, enum tls_content *type)
{
    struct tls_direction *d = &h->in;
    struct extra x;
    uint8_t nonce[AEAD_NONCE_SIZE];
    size_t room = tls_record_room(h, body);
    *len = room;
    *type = record[0];
    if (d->sequence == UINT64_MAX) {
        return fault(TLS_ALERT_INTERNAL_ERROR, "more records than can be counted");
    }
    make_nonce(d, has_explicit_nonce(h) ? record + TLS_RECORD_HEADER : NULL, nonce);
    struct slice extra = make_extra(&x, h, d->sequence, record, room);
    if (aead_open(a, nonce, extra, record + tls_record_body(h), room + AEAD_TAG_SIZE, to) != 0) {
        return fault(TLS_ALERT_BAD_RECORD_MAC, "a record is not authentic");
    }
    d->sequence++;
    struct tls_fault f = well;
    if (h->tls13) {
        f = take_type(to, len, type);
    } else if (room > TLS_RECORD_DATA_MAX) {
        f = fault(TLS_ALERT_RECORD_OVERFLOW, "a record with too much in it");
    }
    if (f.why != NULL) {
        explicit_bzero(to, room);
    }
    return f;
}
