/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "records_peer.h"

#define QUIET_MAX 32

static uint8_t text[200000];

static int start(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * 31 + i / 251);
    }
    return aead_usable() ? 0 : -1;
}

/* A client's records; what it sends, and what the test's own server sends it. */
struct talk {
    struct tls_records *client;
    struct tls_handover server;
    struct buf to_client;
    struct buf to_server;
    struct buf plain; /* what the client has read */
    struct err e;
};

static void talk_with(struct talk *t, const struct tls_handover *client, const struct form *f)
{
    *t = (struct talk){.client = tls_records_new(client), .server = make_handover(f, false)};
    assert_non_null(t->client);
    buf_init(&t->to_client, PEER_MAX);
    buf_init(&t->to_server, PEER_MAX);
    buf_init(&t->plain, PEER_MAX);
}

static void talk_init(struct talk *t, const struct form *f)
{
    struct tls_handover h = make_handover(f, true);
    talk_with(t, &h, f);
}

static void talk_deinit(struct talk *t)
{
    tls_records_free(t->client);
    buf_reset(&t->to_client);
    buf_reset(&t->to_server);
    buf_reset(&t->plain);
}

static void say(struct talk *t, enum tls_content type, const void *data, size_t len)
{
    peer_put(&t->server, type, data, len, &t->to_client);
}

/* The client reads `bytes`, at most `most` at a time, until it has no more or it ends. */
static enum tls_result read_bytes(struct talk *t, struct slice bytes, size_t most)
{
    static uint8_t data[100000];
    enum tls_result r = TLS_OK;
    while (r == TLS_OK) {
        size_t got = 0;
        r = tls_records_read(t->client, &bytes, data, most, &got, &t->to_server, &t->e);
        assert_int_equal(r == TLS_OK, got > 0);
        assert_true(got <= most);
        assert_int_equal(buf_append(&t->plain, data, got), 0);
    }
    assert_true(r != TLS_MORE || bytes.len == 0);
    return r;
}

static enum tls_result read_all(struct talk *t)
{
    enum tls_result r = read_bytes(t, buf_slice(&t->to_client), 65536);
    buf_clear(&t->to_client);
    return r;
}

/* The next thing that the client sent is that alert. */
static void expect_alert(struct talk *t, int level, enum tls_alert alert)
{
    uint8_t to[100];
    enum tls_content type = TLS_HANDSHAKE;
    assert_int_equal(peer_take(&t->server, &t->to_server, &type, to), 2);
    assert_int_equal(type, TLS_ALERT);
    assert_int_equal(to[0], level);
    assert_int_equal(to[1], alert);
}

static void expect_fault(struct talk *t, enum tls_alert alert)
{
    assert_int_equal(read_all(t), TLS_FAILED);
    assert_int_equal(t->e.code, -EPROTO);
    expect_alert(t, TLS_ALERT_LEVEL_FATAL, alert);
    assert_int_equal(t->to_server.len, 0);
    assert_int_equal(tls_records_write(t->client, "x", 1, &t->to_server, &t->e), -EPROTO);
}

static void expect_plain(struct talk *t, const void *data, size_t len)
{
    assert_int_equal(t->plain.len, len);
    assert_memory_equal(len == 0 ? data : buf_data(&t->plain), data, len);
    buf_clear(&t->plain);
}

/* ---- data ---- */

/* The client wrote so much of the text, into as few records as possible. */
static void expect_data(struct talk *t, size_t len)
{
    static uint8_t to[TLS_RECORD_DATA_MAX + 300];
    size_t read = 0;
    while (t->to_server.len > 0) {
        enum tls_content type = TLS_ALERT;
        size_t n = peer_take(&t->server, &t->to_server, &type, to);
        assert_int_equal(type, TLS_APPLICATION_DATA);
        assert_memory_equal(to, text + read, n);
        assert_int_equal(n, len - read < TLS_RECORD_DATA_MAX ? len - read : TLS_RECORD_DATA_MAX);
        read += n;
    }
    assert_int_equal(read, len);
}

static void check_size(struct talk *t, size_t len)
{
    size_t record = len < TLS_RECORD_DATA_MAX ? len : TLS_RECORD_DATA_MAX;
    say(t, TLS_APPLICATION_DATA, text, record);
    assert_int_equal(read_all(t), TLS_MORE);
    expect_plain(t, text, record);
    assert_int_equal(tls_records_write(t->client, text, len, &t->to_server, &t->e), 0);
    expect_data(t, len);
}

static void data_of_all_sizes_goes_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        for (size_t len = 1; len <= TLS_RECORD_DATA_MAX; len += len < 600 ? 1 : 97) {
            check_size(&t, len);
        }
        for (size_t len = TLS_RECORD_DATA_MAX - 40; len < TLS_RECORD_DATA_MAX + 40; len++) {
            check_size(&t, len);
        }
        check_size(&t, 2 * TLS_RECORD_DATA_MAX);
        check_size(&t, sizeof text);
        assert_int_equal(tls_records_write(t.client, "", 0, &t.to_server, &t.e), 0);
        assert_int_equal(t.to_server.len, 0);
        talk_deinit(&t);
    }
}

/* Records of all kinds of sizes, and what is in them. */
static size_t say_much(struct talk *t)
{
    static const size_t sizes[] = {1, 50, 0, 700, 16384, 3, 16383, 16384, 16384, 16384, 9000, 2};
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        say(t, TLS_APPLICATION_DATA, text + at, sizes[i]);
        at += sizes[i];
    }
    return at;
}

static void pieces_make_no_difference(void **state)
{
    static const size_t pieces[] = {1, 4, 5, 6, 29, 1000, 16384, 16413, 40000, 65536, PEER_MAX};
    static const size_t rooms[] = {1, 7, 1000, 16383, 16384, 16385, 65536};
    (void)state;
    for (size_t i = 0; i < FORMS * ARRAY_LEN(pieces) * ARRAY_LEN(rooms); i++) {
        size_t piece = pieces[i / FORMS % ARRAY_LEN(pieces)];
        size_t room = rooms[i / FORMS / ARRAY_LEN(pieces)];
        struct talk t;
        talk_init(&t, &forms[i % FORMS]);
        size_t len = say_much(&t);
        struct slice all = buf_slice(&t.to_client);
        while (all.len > 0) {
            size_t n = all.len < piece ? all.len : piece;
            /* Memory of its own shows reads outside. */
            char *copy = malloc(n);
            assert_non_null(copy);
            memcpy(copy, all.ptr, n);
            assert_int_equal(read_bytes(&t, slice_of(copy, n), room), TLS_MORE);
            free(copy);
            all = slice_of(all.ptr + n, all.len - n);
        }
        expect_plain(&t, text, len);
        talk_deinit(&t);
    }
}

/* Allocations of reading a record that comes in so many pieces. */
static long allocations_of(struct talk *t, size_t pieces)
{
    enum { PLENTY = 1000000 };
    say(t, TLS_APPLICATION_DATA, text, TLS_RECORD_DATA_MAX);
    struct slice rest = buf_slice(&t->to_client);
    sweep_left = PLENTY;
    for (size_t left = pieces; left > 0; left--) {
        size_t n = rest.len / left;
        assert_int_equal(read_bytes(t, slice_of(rest.ptr, n), 65536), TLS_MORE);
        rest = slice_of(rest.ptr + n, rest.len - n);
    }
    long count = PLENTY - sweep_left;
    sweep_left = -1;
    buf_clear(&t->to_client);
    expect_plain(t, text, TLS_RECORD_DATA_MAX);
    return count;
}

/* What a record is gathered in and its cipher are there for the next one, until the session is
 * quiet. */
static void records_that_flow_in_pieces_need_no_memory_each(void **state)
{
    struct talk t;
    (void)state;
    talk_init(&t, &forms[0]);
    for (int i = 0; i < 10; i++) {
        (void)allocations_of(&t, 2);
    }
    assert_int_equal(allocations_of(&t, 1), 0);
    assert_int_equal(allocations_of(&t, 2), 0);
    tls_records_idle(t.client);
    assert_true(allocations_of(&t, 1) > 0);
    assert_true(allocations_of(&t, 1) > 0);
    for (int i = 0; i < 10; i++) { /* the cipher is kept when it is used often */
        (void)allocations_of(&t, 1);
    }
    assert_int_equal(allocations_of(&t, 1), 0);
    assert_int_equal(allocations_of(&t, 2), 1);
    /* Not while there is something in it. */
    say(&t, TLS_APPLICATION_DATA, text, 1000);
    struct slice all = buf_slice(&t.to_client);
    for (size_t i = 0; i < all.len; i++) {
        assert_int_equal(read_bytes(&t, slice_of(all.ptr + i, 1), i < 900 ? 65536 : 7), TLS_MORE);
        tls_records_idle(t.client);
    }
    expect_plain(&t, text, 1000);
    talk_deinit(&t);
}

static void a_cut_anywhere_makes_no_difference(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        size_t all = 1;
        for (size_t cut = 0; cut < all; cut++) {
            struct talk t;
            talk_init(&t, &forms[i]);
            say(&t, TLS_APPLICATION_DATA, text, 100);
            say(&t, TLS_APPLICATION_DATA, text + 100, 1);
            say(&t, TLS_APPLICATION_DATA, text + 101, 33);
            all = t.to_client.len;
            struct slice s = buf_slice(&t.to_client);
            assert_int_equal(read_bytes(&t, slice_of(s.ptr, cut), 1000), TLS_MORE);
            assert_int_equal(read_bytes(&t, slice_of(s.ptr + cut, all - cut), 1000), TLS_MORE);
            expect_plain(&t, text, 134);
            talk_deinit(&t);
        }
    }
}

static void as_many_records_as_fit_come_at_once(void **state)
{
    static uint8_t data[65536];
    struct talk t;
    size_t got = 0;
    (void)state;
    talk_init(&t, &forms[0]);
    for (size_t i = 0; i < 5; i++) {
        say(&t, TLS_APPLICATION_DATA, text + i * 16384, 16384);
    }
    struct slice in = buf_slice(&t.to_client);
    assert_int_equal(tls_records_read(t.client, &in, data, sizeof data, &got, &t.to_server, &t.e),
                     TLS_OK);
    assert_int_equal(got, 65536);
    assert_memory_equal(data, text, got);
    assert_int_equal(in.len, 16384 + tls_record_overhead(&t.server));
    assert_int_equal(tls_records_read(t.client, &in, data, sizeof data, &got, &t.to_server, &t.e),
                     TLS_OK);
    assert_int_equal(got, 16384);
    assert_memory_equal(data, text + 65536, got);
    assert_int_equal(in.len, 0);
    talk_deinit(&t);
}

static void no_record_is_longer_than_agreed(void **state)
{
    struct tls_handover h = make_handover(&forms[0], true);
    struct talk t;
    (void)state;
    h.record_max = 512;
    talk_with(&t, &h, &forms[0]);
    assert_int_equal(tls_records_write(t.client, text, 1025, &t.to_server, &t.e), 0);
    for (size_t i = 0; i < 3; i++) {
        static uint8_t to[TLS_RECORD_DATA_MAX];
        enum tls_content type = TLS_ALERT;
        assert_int_equal(peer_take(&t.server, &t.to_server, &type, to), i < 2 ? 512 : 1);
    }
    assert_int_equal(t.to_server.len, 0);
    talk_deinit(&t);
}

static void a_write_that_does_not_fit_leaves_the_session_usable(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        size_t need = 20000 + 2 * tls_record_overhead(&t.server);
        assert_int_equal(buf_append(&t.to_server, "before", 6), 0);
        t.to_server.max = 6 + need - 1;
        assert_int_equal(tls_records_write(t.client, text, 20000, &t.to_server, &t.e), -ENOBUFS);
        assert_int_equal(t.to_server.len, 6);
        t.to_server.max++;
        assert_int_equal(tls_records_write(t.client, text, 20000, &t.to_server, &t.e), 0);
        assert_int_equal(t.to_server.len, 6 + need);
        buf_consume(&t.to_server, 6);
        t.to_server.max = PEER_MAX;
        expect_data(&t, 20000);
        check_size(&t, 20000);
        talk_deinit(&t);
    }
}

/* ---- what is not authentic ---- */

static void a_changed_record_ends_the_session(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        say(&t, TLS_APPLICATION_DATA, text, 100);
        size_t first = t.to_client.len;
        say(&t, TLS_APPLICATION_DATA, text, 100);
        buf_data(&t.to_client)[first + 50] ^= 1;
        expect_fault(&t, TLS_ALERT_BAD_RECORD_MAC);
        assert_string_equal(t.e.msg, "the TLS session is not open");
        expect_plain(&t, text, 100);
        talk_deinit(&t);
    }
}

/* Repeated, left out, or in another order. */
static void records_come_in_their_order(void **state)
{
    static const int orders[][3] = {{0, 0, 1}, {1, 0, 2}, {0, 2, 1}};
    (void)state;
    for (size_t i = 0; i < FORMS * ARRAY_LEN(orders); i++) {
        const int *order = orders[i / FORMS];
        struct talk t;
        struct buf wire = BUF_INIT(1000);
        talk_init(&t, &forms[i % FORMS]);
        for (size_t j = 0; j < 3; j++) {
            say(&t, TLS_APPLICATION_DATA, text + 10 * j, 10);
        }
        size_t len = t.to_client.len / 3;
        for (size_t j = 0; j < 3; j++) {
            assert_int_equal(
                buf_append(&wire, buf_data(&t.to_client) + (size_t)order[j] * len, len), 0);
        }
        buf_clear(&t.to_client);
        assert_int_equal(buf_append(&t.to_client, buf_data(&wire), wire.len), 0);
        expect_fault(&t, TLS_ALERT_BAD_RECORD_MAC);
        expect_plain(&t, text, order[0] == 0 ? 10 : 0);
        buf_reset(&wire);
        talk_deinit(&t);
    }
}

static void headers_that_are_wrong_end_the_session(void **state)
{
    static const struct {
        const char *head;
        enum tls_alert alert;
    } cases[] = {
        {"\x14\3\3\0\1", TLS_ALERT_UNEXPECTED_MESSAGE},
        {"\x17\3\1\0\x30", TLS_ALERT_PROTOCOL_VERSION},
        {"\x17\3\3\x60\0", TLS_ALERT_RECORD_OVERFLOW},
        {"\x17\3\3\0\1", TLS_ALERT_BAD_RECORD_MAC},
    };
    (void)state;
    for (size_t i = 0; i < FORMS * ARRAY_LEN(cases) * 2; i++) {
        struct talk t;
        talk_init(&t, &forms[i % FORMS]);
        size_t c = i / FORMS / 2;
        if (i / FORMS % 2 == 1) {
            assert_int_equal(read_bytes(&t, slice_of(cases[c].head, 3), 100), TLS_MORE);
            assert_int_equal(buf_append(&t.to_client, cases[c].head + 3, 2), 0);
        } else {
            assert_int_equal(buf_append(&t.to_client, cases[c].head, 5), 0);
        }
        expect_fault(&t, cases[c].alert);
        talk_deinit(&t);
    }
}

/* ---- the end ---- */

static void close_notify_is_seen_after_the_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        say(&t, TLS_APPLICATION_DATA, text, 100);
        say(&t, TLS_ALERT, "\1", 2);
        say(&t, TLS_APPLICATION_DATA, text, 100);
        assert_int_equal(read_all(&t), TLS_CLOSED);
        expect_plain(&t, text, 100);
        assert_int_equal(t.to_server.len, 0);

        /* The other direction is still open. */
        assert_int_equal(tls_records_write(t.client, text, 10, &t.to_server, &t.e), 0);
        tls_records_shutdown(t.client, &t.to_server);
        tls_records_shutdown(t.client, &t.to_server);
        assert_int_equal(tls_records_write(t.client, "x", 1, &t.to_server, &t.e), -EPROTO);
        enum tls_content type = TLS_ALERT;
        uint8_t to[100];
        assert_int_equal(peer_take(&t.server, &t.to_server, &type, to), 10);
        expect_alert(&t, TLS_ALERT_LEVEL_WARNING, TLS_ALERT_CLOSE_NOTIFY);
        assert_int_equal(t.to_server.len, 0);
        talk_deinit(&t);
    }
}

static void nothing_is_sent_behind_a_close_notify(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        tls_records_shutdown(t.client, &t.to_server);
        expect_alert(&t, TLS_ALERT_LEVEL_WARNING, TLS_ALERT_CLOSE_NOTIFY);
        say(&t, TLS_APPLICATION_DATA, text, 100);
        if (forms[i].tls13) {
            say(&t, TLS_HANDSHAKE, "\x18\0\0\1\1", 5);
            assert_int_equal(
                tls_keys_update(&t.server.out, t.server.algorithm, t.server.secret_len), 0);
        } else {
            say(&t, TLS_HANDSHAKE, "\0\0\0", 4);
        }
        say(&t, TLS_CHANGE_CIPHER_SPEC, "\1", 1);
        assert_int_equal(read_all(&t), TLS_FAILED);
        expect_plain(&t, text, 100);
        assert_int_equal(t.to_server.len, 0);
        talk_deinit(&t);
    }
}

static void alerts_of_the_peer_are_said_in_words(void **state)
{
    static const struct {
        const char *bytes;
        const char *words;
    } cases[] = {
        {"\2\x14", "the server ended TLS with an alert: bad record MAC"},
        {"\2\x30", "the server ended TLS with an alert: certificate of an unknown authority"},
        {"\2\x28", "the server ended TLS with an alert: handshake failure"},
        {"\2\x16", "the server ended TLS with an alert: record overflow"},
        {"\2\xee", "the server ended TLS with alert 238"},
    };
    (void)state;
    for (size_t i = 0; i < FORMS * ARRAY_LEN(cases); i++) {
        struct talk t;
        talk_init(&t, &forms[i % FORMS]);
        say(&t, TLS_ALERT, cases[i / FORMS].bytes, 2);
        assert_int_equal(read_all(&t), TLS_FAILED);
        assert_string_equal(t.e.msg, cases[i / FORMS].words);
        assert_int_equal(t.to_server.len, 0);
        talk_deinit(&t);
    }
}

static void warnings_of_tls12_pass_and_those_of_tls13_do_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        say(&t, TLS_ALERT, "\1\x5a", 2); /* user_canceled, which is one in both */
        assert_int_equal(read_all(&t), TLS_MORE);
        say(&t, TLS_ALERT, "\1\x64", 2); /* no_renegotiation */
        assert_int_equal(read_all(&t), forms[i].tls13 ? TLS_FAILED : TLS_MORE);
        talk_deinit(&t);
    }
}

static void alerts_have_two_bytes(void **state)
{
    (void)state;
    for (size_t len = 0; len < 4; len++) {
        for (size_t i = 0; i < FORMS && len != 2; i++) {
            struct talk t;
            talk_init(&t, &forms[i]);
            say(&t, TLS_ALERT, "\1\0\1", len);
            expect_fault(&t, TLS_ALERT_DECODE_ERROR);
            talk_deinit(&t);
        }
    }
}

/* ---- a peer that keeps us busy ---- */

static void records_without_data_are_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        for (size_t n = 0; n < 3 * QUIET_MAX; n++) {
            if (n % QUIET_MAX == 0) {
                say(&t, TLS_APPLICATION_DATA, "x", 1);
            }
            say(&t, TLS_APPLICATION_DATA, "", 0);
        }
        assert_int_equal(read_all(&t), TLS_MORE);
        expect_plain(&t, "xxx", 3);
        say(&t, TLS_ALERT, "\1\x5a", 2);
        expect_fault(&t, TLS_ALERT_UNEXPECTED_MESSAGE);
        talk_deinit(&t);
    }
}

/* ---- TLS 1.2: renegotiation ---- */

static void renegotiation_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        say(&t, TLS_HANDSHAKE, "\0\0\0", 4);
        say(&t, TLS_APPLICATION_DATA, text, 10);
        assert_int_equal(read_all(&t), TLS_MORE);
        expect_plain(&t, text, 10);
        expect_alert(&t, TLS_ALERT_LEVEL_WARNING, TLS_ALERT_NO_RENEGOTIATION);
        say(&t, TLS_HANDSHAKE, "\0\0\0\0\0\0\0", 8);
        assert_int_equal(read_all(&t), TLS_MORE);
        expect_alert(&t, TLS_ALERT_LEVEL_WARNING, TLS_ALERT_NO_RENEGOTIATION);
        assert_int_equal(t.to_server.len, 0);
        t.to_server.max = 10;
        say(&t, TLS_HANDSHAKE, "\0\0\0", 4);
        assert_int_equal(read_all(&t), TLS_FAILED);
        assert_int_equal(t.e.code, -ENOBUFS);
        talk_deinit(&t);
    }
}

static void a_client_that_wants_to_renegotiate_is_refused(void **state)
{
    struct tls_handover client = make_handover(&forms[0], true);
    struct tls_records *server = make_records(&forms[0], false);
    struct buf in = BUF_INIT(1000);
    struct buf out = BUF_INIT(1000);
    uint8_t data[100];
    size_t got = 0;
    struct err e = ERR_INIT;
    (void)state;
    peer_put(&client, TLS_HANDSHAKE, "\1\0\0\5hello", 9, &in);
    struct slice s = buf_slice(&in);
    assert_int_equal(tls_records_read(server, &s, data, sizeof data, &got, &out, &e), TLS_MORE);
    enum tls_content type = TLS_HANDSHAKE;
    assert_int_equal(peer_take(&client, &out, &type, data), 2);
    assert_memory_equal(data, "\1\x64", 2);
    buf_clear(&in);
    peer_put(&client, TLS_HANDSHAKE, "\0\0\0", 4, &in); /* which only servers say */
    s = buf_slice(&in);
    assert_int_equal(tls_records_read(server, &s, data, sizeof data, &got, &out, &e), TLS_FAILED);
    tls_records_free(server);
    buf_reset(&in);
    buf_reset(&out);
}

static void other_messages_end_the_session(void **state)
{
    static const struct {
        bool tls13;
        const char *bytes;
        size_t len;
    } cases[] = {
        {false, "\1\0\0\1x", 5},     /* ClientHello, from a server */
        {false, "\0\0\0", 3},        /* not a whole one */
        {false, "\0\0\0\1x", 5},     /* a HelloRequest with something in it */
        {false, "\x14\0\0\0", 4},    /* Finished */
        {false, "", 0},              /* nothing */
        {true, "", 0},               /* nothing */
        {true, "\0\0\0\0", 4},       /* HelloRequest */
        {true, "\x0d\0\0\1x", 5},    /* CertificateRequest */
        {true, "\2\0\0\1x", 5},      /* ServerHello */
        {true, "\4\0\0\0", 4},       /* a ticket with nothing in it */
        {true, "\4\xff\xff\xff", 4}, /* one that is far too long */
        {true, "\x18\0\0\2\0\0", 6}, /* a KeyUpdate that is too long */
        {true, "\x18\0\0\0", 4},     /* one that is too short */
        {true, "\x18\0\0\1\0\4", 6}, /* one that is not the last with its key */
    };
    (void)state;
    for (size_t i = 0; i < FORMS * ARRAY_LEN(cases); i++) {
        const struct form *f = &forms[i % FORMS];
        if (f->tls13 != cases[i / FORMS].tls13) {
            continue;
        }
        struct talk t;
        talk_init(&t, f);
        say(&t, TLS_HANDSHAKE, cases[i / FORMS].bytes, cases[i / FORMS].len);
        expect_fault(&t, TLS_ALERT_UNEXPECTED_MESSAGE);
        talk_deinit(&t);
    }
}

/* ---- TLS 1.3: tickets and new keys ---- */

/* All in one record, each byte in one, or in two records. */
static void say_in_pieces(struct talk *t, const uint8_t *message, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece) {
        say(t, TLS_HANDSHAKE, message + at, len - at < piece ? len - at : piece);
    }
}

static void tickets_are_passed_over(void **state)
{
    (void)state;
    for (size_t i = 3; i < FORMS; i++) {
        uint8_t tickets[60] = {4, 0, 0, 26};
        struct talk t;
        tickets[30] = 4;
        tickets[33] = 26;
        talk_init(&t, &forms[i]);
        for (size_t piece = 2; piece <= sizeof tickets; piece++) {
            say_in_pieces(&t, tickets, sizeof tickets, piece);
            say(&t, TLS_APPLICATION_DATA, text, 10);
            assert_int_equal(read_all(&t), TLS_MORE);
            expect_plain(&t, text, 10);
        }
        say(&t, TLS_HANDSHAKE, tickets, 10);
        say(&t, TLS_APPLICATION_DATA, text, 10); /* in the middle of one */
        expect_fault(&t, TLS_ALERT_UNEXPECTED_MESSAGE);
        talk_deinit(&t);
    }
}

static void update_server_out(struct talk *t)
{
    assert_int_equal(tls_keys_update(&t->server.out, t->server.algorithm, t->server.secret_len), 0);
}

static void expect_key_update(struct talk *t)
{
    uint8_t to[100];
    enum tls_content type = TLS_ALERT;
    assert_int_equal(peer_take(&t->server, &t->to_server, &type, to), 5);
    assert_int_equal(type, TLS_HANDSHAKE);
    assert_memory_equal(to, "\x18\0\0\1\0", 5);
    assert_int_equal(tls_keys_update(&t->server.in, t->server.algorithm, t->server.secret_len), 0);
}

static void new_keys_are_taken_and_answered(void **state)
{
    (void)state;
    for (size_t i = 3; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        for (size_t round = 0; round < 10; round++) {
            bool asks = round % 2 == 1;
            say(&t, TLS_APPLICATION_DATA, text, 20);
            say_in_pieces(&t, (const uint8_t *)(asks ? "\x18\0\0\1\1" : "\x18\0\0\1\0"), 5,
                          1 + round % 5);
            update_server_out(&t);
            say(&t, TLS_APPLICATION_DATA, text + 20, 10);
            assert_int_equal(read_all(&t), TLS_MORE);
            expect_plain(&t, text, 30);
            if (asks) {
                expect_key_update(&t);
            }
            assert_int_equal(t.to_server.len, 0);
            check_size(&t, 1000);
        }
        talk_deinit(&t);
    }
}

static void a_wish_that_is_none_ends_the_session(void **state)
{
    struct talk t;
    (void)state;
    talk_init(&t, &forms[3]);
    say(&t, TLS_HANDSHAKE, "\x18\0\0\1\2", 5);
    expect_fault(&t, TLS_ALERT_ILLEGAL_PARAMETER);
    talk_deinit(&t);
}

static void an_answer_without_room_ends_the_session(void **state)
{
    struct talk t;
    (void)state;
    talk_init(&t, &forms[3]);
    t.to_server.max = 10;
    say(&t, TLS_HANDSHAKE, "\x18\0\0\1\1", 5);
    assert_int_equal(read_all(&t), TLS_FAILED);
    assert_int_equal(t.e.code, -ENOBUFS);
    talk_deinit(&t);
}

/* RFC 8446 section 5.5. */
static void keys_of_aes_are_renewed_before_they_are_worn_out(void **state)
{
    (void)state;
    for (size_t i = 3; i < FORMS; i++) {
        struct tls_handover h = make_handover(&forms[i], true);
        struct talk t;
        h.out.sequence = (1u << 24) - 2;
        talk_with(&t, &h, &forms[i]);
        t.server.in.sequence = h.out.sequence;
        check_size(&t, 20000); /* the last two */
        t.to_server.max = 3 + 2 * tls_record_overhead(&t.server);
        bool renews = forms[i].algorithm != AEAD_CHACHA20_POLY1305;
        assert_int_equal(tls_records_write(t.client, "abc", 3, &t.to_server, &t.e),
                         renews ? -ENOBUFS : 0);
        t.to_server.max = PEER_MAX;
        if (renews) {
            assert_int_equal(tls_records_write(t.client, "abc", 3, &t.to_server, &t.e), 0);
            expect_key_update(&t);
        }
        uint8_t to[100];
        enum tls_content type = TLS_ALERT;
        assert_int_equal(peer_take(&t.server, &t.to_server, &type, to), 3);
        assert_int_equal(t.server.in.sequence, renews ? 1 : (1u << 24) + 1);
        check_size(&t, 20000);
        talk_deinit(&t);
    }
}

static void numbers_never_begin_anew(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct tls_handover h = make_handover(&forms[i], true);
        struct talk t;
        h.out.sequence = UINT64_MAX - 1;
        talk_with(&t, &h, &forms[i]);
        assert_int_equal(tls_records_write(t.client, text, 20000, &t.to_server, &t.e), -EPROTO);
        assert_int_equal(t.to_server.len, 0);
        assert_int_equal(tls_records_write(t.client, text, 1, &t.to_server, &t.e), -EPROTO);
        talk_deinit(&t);
    }
}

/* ---- memory ---- */

struct exchange {
    struct buf wire; /* what the peer says */
    const struct form *form;
};

/* Each of the two can fail for want of memory; what was read must be right all the same. */
static bool exchange_in_pieces(void *data)
{
    const struct exchange *x = data;
    static uint8_t to[20000];
    struct tls_handover h = make_handover(x->form, true);
    struct tls_records *r = tls_records_new(&h);
    struct buf out = BUF_INIT(PEER_MAX);
    struct slice rest = buf_slice(&x->wire);
    struct err e = ERR_INIT;
    size_t have = 0;
    bool well = r != NULL;
    while (well && rest.len > 0) {
        struct slice piece = slice_of(rest.ptr, rest.len < 9000 ? rest.len : 9000);
        rest = slice_of(rest.ptr + piece.len, rest.len - piece.len);
        enum tls_result result = TLS_OK;
        while (result == TLS_OK) {
            size_t got = 0;
            result = tls_records_read(r, &piece, to, 3000, &got, &out, &e);
            assert_memory_equal(to, text + have, got);
            have += got;
        }
        well = result == TLS_MORE;
        assert_true(well || (result == TLS_FAILED && e.code == -ENOMEM));
    }
    int rc = well ? tls_records_write(r, text, 20000, &out, &e) : 0;
    assert_true(rc == 0 || rc == -ENOMEM);
    /* It can be tried again. */
    assert_true(rc == 0 || tls_records_write(r, text, 20000, &out, &e) == 0);
    tls_records_free(r);
    buf_reset(&out);
    return well && rc == 0;
}

static void no_memory_ends_a_session_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMS; i++) {
        struct talk t;
        talk_init(&t, &forms[i]);
        say_much(&t);
        say(&t, TLS_HANDSHAKE, forms[i].tls13 ? "\x18\0\0\1\1" : "\0\0\0", forms[i].tls13 ? 5 : 4);
        struct exchange x = {.wire = t.to_client, .form = &forms[i]};
        assert_true(sweep_allocations(exchange_in_pieces, &x) > 5);
        talk_deinit(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_of_all_sizes_goes_both_ways),
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(records_that_flow_in_pieces_need_no_memory_each),
        cmocka_unit_test(a_cut_anywhere_makes_no_difference),
        cmocka_unit_test(as_many_records_as_fit_come_at_once),
        cmocka_unit_test(no_record_is_longer_than_agreed),
        cmocka_unit_test(a_write_that_does_not_fit_leaves_the_session_usable),
        cmocka_unit_test(a_changed_record_ends_the_session),
        cmocka_unit_test(records_come_in_their_order),
        cmocka_unit_test(headers_that_are_wrong_end_the_session),
        cmocka_unit_test(close_notify_is_seen_after_the_data),
        cmocka_unit_test(nothing_is_sent_behind_a_close_notify),
        cmocka_unit_test(alerts_of_the_peer_are_said_in_words),
        cmocka_unit_test(warnings_of_tls12_pass_and_those_of_tls13_do_not),
        cmocka_unit_test(alerts_have_two_bytes),
        cmocka_unit_test(records_without_data_are_counted),
        cmocka_unit_test(renegotiation_is_refused),
        cmocka_unit_test(a_client_that_wants_to_renegotiate_is_refused),
        cmocka_unit_test(other_messages_end_the_session),
        cmocka_unit_test(tickets_are_passed_over),
        cmocka_unit_test(new_keys_are_taken_and_answered),
        cmocka_unit_test(a_wish_that_is_none_ends_the_session),
        cmocka_unit_test(an_answer_without_room_ends_the_session),
        cmocka_unit_test(keys_of_aes_are_renewed_before_they_are_worn_out),
        cmocka_unit_test(numbers_never_begin_anew),
        cmocka_unit_test(no_memory_ends_a_session_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
