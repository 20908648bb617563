/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records_peer.h - keys of made-up sessions, and a peer that says whatever a test wants. Include
 * cmocka.h first.
 */
#ifndef TEST_UNIT_CRYPTO_RECORDS_PEER_H
#define TEST_UNIT_CRYPTO_RECORDS_PEER_H

#include "crypto/tls_key_schedule.h"
#include "crypto/tls_record.h"

#define PEER_MAX (8 * 1024 * 1024)

static const struct form {
    enum aead_algorithm algorithm;
    bool tls13;
} forms[] = {
    {AEAD_AES_128_GCM, false}, {AEAD_AES_256_GCM, false}, {AEAD_CHACHA20_POLY1305, false},
    {AEAD_AES_128_GCM, true},  {AEAD_AES_256_GCM, true},  {AEAD_CHACHA20_POLY1305, true},
};
#define FORMS (sizeof forms / sizeof *forms)

static inline void make_direction(struct tls_direction *d, const struct form *f, uint8_t first)
{
    *d = (struct tls_direction){.sequence = f->tls13 ? 0 : 1};
    for (size_t i = 0; i < sizeof d->key; i++) {
        d->key[i] = (uint8_t)(first + i);
    }
    memset(d->iv, first, sizeof d->iv);
    memset(d->secret, first, sizeof d->secret);
    if (f->tls13) {
        assert_int_equal(
            tls_keys_derive(d, f->algorithm, f->algorithm == AEAD_AES_256_GCM ? 48 : 32), 0);
    }
}

/* What the client has, or the server. */
static inline struct tls_handover make_handover(const struct form *f, bool client)
{
    struct tls_handover h = {.algorithm = f->algorithm,
                             .client = client,
                             .tls13 = f->tls13,
                             .secret_len = f->algorithm == AEAD_AES_256_GCM ? 48 : 32,
                             .record_max = TLS_RECORD_DATA_MAX};
    make_direction(client ? &h.out : &h.in, f, 10);
    make_direction(client ? &h.in : &h.out, f, 100);
    return h;
}

static inline struct tls_records *make_records(const struct form *f, bool client)
{
    struct tls_handover h = make_handover(f, client);
    struct tls_records *r = tls_records_new(&h);
    assert_non_null(r);
    return r;
}

/* Appends a record of any type and content. */
static inline void peer_put(struct tls_handover *h, enum tls_content type, const void *data,
                            size_t len, struct buf *out)
{
    struct aead *a = aead_new(h->algorithm, h->out.key);
    size_t all = len + tls_record_overhead(h);
    uint8_t *to = buf_reserve(out, all);
    assert_non_null(a);
    assert_non_null(to);
    assert_int_equal(tls_record_seal(h, a, type, data, len, to), 0);
    buf_commit(out, all);
    aead_free(a);
}

/* Takes the first record of `in`: its content goes to `to`, and its length is returned. */
static inline size_t peer_take(struct tls_handover *h, struct buf *in, enum tls_content *type,
                               uint8_t *to)
{
    struct aead *a = aead_new(h->algorithm, h->in.key);
    size_t body = 0;
    size_t len = 0;
    assert_non_null(a);
    assert_true(in->len >= TLS_RECORD_HEADER);
    assert_null(tls_record_check(h, buf_data(in), &body).why);
    assert_true(in->len >= TLS_RECORD_HEADER + body);
    assert_null(tls_record_open(h, a, buf_data(in), body, to, &len, type).why);
    buf_consume(in, TLS_RECORD_HEADER + body);
    aead_free(a);
    return len;
}

#endif
