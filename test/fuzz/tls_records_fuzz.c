/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses cipher and version (its value modulo six), and whether the reader is the
 * client (16), and whether it has said close_notify (32). With 64 what follows is read as it is.
 * Without, it is a list of what a peer with the right key sends: a type, two bytes of length, and
 * that much content (all zeros beyond the input's end); in TLS 1.3 a KeyUpdate changes its key.
 *
 * Pieces make no difference to what is read, to what is sent back, and to how it ends. What is read
 * is what the peer sent as data. What is sent back can be opened.
 */
#include <string.h>

#include "check.h"
#include "crypto/tls_key_schedule.h"
#include "crypto/tls_record.h"
#include "pieces.h"

#define WIRE_MAX ((size_t)4 * 1024 * 1024)

static const struct {
    enum aead_algorithm algorithm;
    bool tls13;
} forms[] = {
    {AEAD_AES_128_GCM, false}, {AEAD_AES_256_GCM, false}, {AEAD_CHACHA20_POLY1305, false},
    {AEAD_AES_128_GCM, true},  {AEAD_AES_256_GCM, true},  {AEAD_CHACHA20_POLY1305, true},
};

static void make_direction(struct tls_direction *d, const struct tls_handover *h, int first)
{
    memset(d->key, first, sizeof d->key);
    memset(d->iv, first + 1, sizeof d->iv);
    memset(d->secret, first + 2, sizeof d->secret);
    CHECK(!h->tls13 || tls_keys_derive(d, h->algorithm, h->secret_len) == 0);
}

static struct tls_handover make_handover(uint8_t how, bool peer)
{
    struct tls_handover h = {.algorithm = forms[how % 6].algorithm,
                             .client = ((how & 16) != 0) != peer,
                             .tls13 = forms[how % 6].tls13,
                             .secret_len = forms[how % 6].algorithm == AEAD_AES_256_GCM ? 48 : 32,
                             .record_max = TLS_RECORD_DATA_MAX};
    make_direction(&h.in, &h, peer ? 1 : 7);
    make_direction(&h.out, &h, peer ? 7 : 1);
    return h;
}

/* ---- the peer ---- */

/* A record of type 0 in TLS 1.3 is one with padding. */
static void find_type(const struct tls_handover *h, const uint8_t *content, uint8_t *type,
                      size_t *len)
{
    while (h->tls13 && *type == 0 && *len > 0) {
        *type = content[--*len];
    }
}

static void put(struct tls_handover *h, uint8_t type, const uint8_t *content, size_t len,
                struct buf *wire)
{
    struct aead *a = aead_new(h->algorithm, h->out.key);
    size_t all = len + tls_record_overhead(h);
    uint8_t *to = buf_reserve(wire, all);
    CHECK(a != NULL && to != NULL);
    CHECK(tls_record_seal(h, a, type, content, len, to) == 0);
    buf_commit(wire, all);
    aead_free(a);
    find_type(h, content, &type, &len);
    if (h->tls13 && type == TLS_HANDSHAKE && len == 5 && memcmp(content, "\x18\0\0\1", 4) == 0) {
        CHECK(tls_keys_update(&h->out, h->algorithm, h->secret_len) == 0);
    }
}

static void seal_all(uint8_t how, const uint8_t *data, size_t size, struct buf *wire,
                     struct buf *plain)
{
    static uint8_t content[TLS_RECORD_DATA_MAX + 300];
    struct tls_handover peer = make_handover(how, true);
    while (size >= 3 && wire->len < WIRE_MAX / 4) {
        uint8_t type = data[0];
        size_t len = ((size_t)data[1] << 8 | data[2]) % sizeof content;
        size_t have = len < size - 3 ? len : size - 3;
        memset(content, 0, len);
        memcpy(content, data + 3, have);
        data += 3 + have;
        size -= 3 + have;
        put(&peer, type, content, len, wire);
        find_type(&peer, content, &type, &len);
        if (type == TLS_APPLICATION_DATA) {
            CHECK(buf_append(plain, content, len) == 0);
        }
    }
}

/* ---- the reader ---- */

struct outcome {
    enum tls_result result;
    struct buf plain;
    struct buf out;
    char words[ERR_MSG_MAX];
};

static void read_all(uint8_t how, struct slice wire, enum pieces_way way, size_t room,
                     struct outcome *o)
{
    static char data[70000];
    struct tls_handover h = make_handover(how, false);
    struct tls_records *r = tls_records_new(&h);
    struct pieces p = {.rest = wire, .way = way, .random = (uint32_t)wire.len};
    struct slice piece;
    struct err e = ERR_INIT;
    CHECK(r != NULL);
    *o = (struct outcome){.result = TLS_MORE};
    buf_init(&o->plain, WIRE_MAX);
    buf_init(&o->out, WIRE_MAX);
    if ((how & 32) != 0) {
        tls_records_shutdown(r, &o->out);
    }
    while (o->result == TLS_MORE && pieces_next(&p, &piece)) {
        do {
            size_t got = 0;
            o->result = tls_records_read(r, &piece, data, room, &got, &o->out, &e);
            CHECK((o->result == TLS_OK) == (got > 0) && got <= room);
            CHECK(buf_append(&o->plain, data, got) == 0);
        } while (o->result == TLS_OK);
        CHECK(o->result != TLS_MORE || piece.len == 0);
    }
    free(p.copy);
    CHECK((o->result == TLS_FAILED) == (e.code != 0));
    memcpy(o->words, e.msg, sizeof o->words);
    int rc = tls_records_write(r, "more", 4, &o->out, NULL);
    CHECK((rc == 0) == (o->result != TLS_FAILED && (how & 32) == 0));
    tls_records_free(r);
}

static void outcome_deinit(struct outcome *o)
{
    buf_reset(&o->plain);
    buf_reset(&o->out);
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    CHECK(a->result == b->result);
    CHECK(slice_eq(buf_slice(&a->plain), buf_slice(&b->plain)));
    CHECK(slice_eq(buf_slice(&a->out), buf_slice(&b->out)));
    CHECK(strcmp(a->words, b->words) == 0);
}

/* All that was sent back opens with the keys that the peer has; each KeyUpdate is one. */
static void check_sent(uint8_t how, struct slice sent)
{
    static uint8_t content[TLS_RECORD_DATA_MAX + 300];
    struct tls_handover peer = make_handover(how, true);
    while (sent.len > 0) {
        size_t body = 0;
        size_t len = 0;
        enum tls_content type = TLS_ALERT;
        const uint8_t *at = (const uint8_t *)sent.ptr;
        struct aead *a = aead_new(peer.algorithm, peer.in.key);
        CHECK(a != NULL && sent.len >= TLS_RECORD_HEADER);
        CHECK(tls_record_check(&peer, at, &body).why == NULL);
        CHECK(sent.len >= TLS_RECORD_HEADER + body);
        CHECK(tls_record_open(&peer, a, at, body, content, &len, &type).why == NULL);
        aead_free(a);
        if (type == TLS_HANDSHAKE) {
            CHECK(peer.tls13 && len == 5);
            CHECK(tls_keys_update(&peer.in, peer.algorithm, peer.secret_len) == 0);
        }
        sent = slice_of(sent.ptr + TLS_RECORD_HEADER + body, sent.len - TLS_RECORD_HEADER - body);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf wire = BUF_INIT(WIRE_MAX);
    struct buf plain = BUF_INIT(WIRE_MAX);
    struct outcome whole;
    if (size == 0 || !aead_usable()) {
        return 0;
    }
    uint8_t how = data[0];
    if ((how & 64) != 0) {
        CHECK(buf_append(&wire, data + 1, size - 1) == 0);
    } else {
        seal_all(how, data + 1, size - 1, &wire, &plain);
    }
    read_all(how, buf_slice(&wire), PIECES_WHOLE, 65536, &whole);
    CHECK(whole.plain.len <= plain.len);
    CHECK(whole.plain.len == 0 ||
          memcmp(buf_data(&whole.plain), buf_data(&plain), whole.plain.len) == 0);
    check_sent(how, buf_slice(&whole.out));
    for (int i = 0; i < 3; i++) {
        static const size_t rooms[] = {65536, 1, 1000};
        struct outcome pieces;
        read_all(how, buf_slice(&wire), i == 0 && wire.len < 40000 ? PIECES_BYTES : PIECES_RANDOM,
                 rooms[i], &pieces);
        check_same(&whole, &pieces);
        outcome_deinit(&pieces);
    }
    outcome_deinit(&whole);
    buf_reset(&wire);
    buf_reset(&plain);
    return 0;
}
