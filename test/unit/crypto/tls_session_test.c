/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/array.h"
#include "crypto/aead.h"
#include "crypto/mbedtls/tls_internal.h"
#include "link.h"
#include "rounds.h"

static struct certs_pair ca;
static struct certs_pair pair;
static struct tls_config *client;
static struct tls_config *server;
static unsigned pair_of_ends;         /* which of the four of main() */
static enum tls_records_by client_by; /* all tests run with each pair of the two */
static enum tls_records_by server_by;

static struct tls_config *new_client(const char *const *alpn)
{
    struct err e = ERR_INIT;
    tls_use_records(client_by);
    struct tls_config *c = tls_config_new_client(
        &(struct tls_client_options){
            .ca = slice_str(ca.cert), .server_name = "localhost", .alpn = alpn},
        &e);
    assert_string_equal(e.msg, "");
    return c;
}

static struct tls_config *new_server(const char *const *alpn)
{
    struct err e = ERR_INIT;
    tls_use_records(server_by);
    struct tls_config *c = tls_config_new_server(
        &(struct tls_server_options){
            .cert = slice_str(pair.cert), .key = slice_str(pair.key), .alpn = alpn},
        &e);
    assert_string_equal(e.msg, "");
    return c;
}

static int make_configs(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    (void)state;
    certs_make_ca("test CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.dns = names}, &pair);
    client = new_client(NULL);
    server = new_server(NULL);
    return 0;
}

static int free_configs(void **state)
{
    (void)state;
    tls_config_unref(client);
    tls_config_unref(server);
    certs_free(&ca);
    certs_free(&pair);
    return 0;
}

/* Whether TLS 1.3 is spoken: see version_limit.c. */
static bool speaks_13(void)
{
    return tls_has_13() && getenv("TEST_TLS_MAX") == NULL;
}

/* Whether the records of an established session are our own. */
static bool has_own(const struct link_end *end)
{
    assert_true((end->tls->ssl == NULL) == (end->tls->records != NULL));
    return end->tls->records != NULL;
}

static void open_link_of(struct link *l, struct tls_config *c, struct tls_config *s)
{
    link_init(l, c, s);
    link_shake(l);
    assert_int_equal(l->client.result, TLS_OK);
    assert_int_equal(l->server.result, TLS_OK);
    assert_int_equal(l->client.out.len, 0);
    assert_int_equal(l->server.out.len, 0);
    if (speaks_13()) {
        assert_false(has_own(&l->client)); /* until the first data, for the sake of tickets */
        send_and_check(&l->server, &l->client, 1, LINK_MAX);
    }
    assert_int_equal(has_own(&l->client), client_by == TLS_RECORDS_OWN && aead_usable());
    assert_int_equal(has_own(&l->server), server_by == TLS_RECORDS_OWN && aead_usable());
}

static void open_link(struct link *l)
{
    open_link_of(l, client, server);
}

static void a_handshake_works_byte_by_byte(void **state)
{
    struct link l;
    (void)state;
    link_init(&l, client, server);
    l.step = 1;
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_OK);
    assert_int_equal(l.server.result, TLS_OK);
    send_and_check(&l.client, &l.server, 1000, 1);
    send_and_check(&l.server, &l.client, 40000, 1);
    link_deinit(&l);
}

static void data_of_all_sizes_goes_both_ways(void **state)
{
    static const size_t sizes[] = {1,     2,     100,   4095,  4096,   16383,  16384,
                                   16385, 32768, 32769, 65535, 100000, 1 << 20};
    struct link l;
    (void)state;
    open_link(&l);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        send_and_check(&l.client, &l.server, sizes[i], LINK_MAX);
        send_and_check(&l.server, &l.client, sizes[i], LINK_MAX);
        send_and_check(&l.server, &l.client, sizes[i], 1000);
    }
    link_deinit(&l);
}

static void writing_nothing_sends_nothing(void **state)
{
    struct link l;
    (void)state;
    open_link(&l);
    assert_int_equal(tls_session_write(l.client.tls, "", 0, &l.client.out, &l.client.e), 0);
    assert_int_equal(l.client.out.len, 0);
    link_deinit(&l);
}

static void records_are_as_few_as_possible(void **state)
{
    static char data[3 * 16384];
    struct link l;
    size_t records = 0;
    (void)state;
    open_link(&l);
    assert_int_equal(
        tls_session_write(l.client.tls, data, sizeof(data), &l.client.out, &l.client.e), 0);
    for (size_t at = 0; at < l.client.out.len; records++) {
        const uint8_t *head = buf_data(&l.client.out) + at;
        at += 5 + (size_t)(head[3] << 8 | head[4]);
    }
    /* In TLS 1.3 the library pads records, and so has no room for the last byte of each. */
    assert_int_equal(records, has_own(&l.client) || !speaks_13() ? 3 : 4);
    link_deinit(&l);
}

static void plaintext_comes_in_the_pieces_asked_for(void **state)
{
    struct link l;
    char data[3];
    size_t got = 0;
    (void)state;
    open_link(&l);
    assert_int_equal(tls_session_write(l.client.tls, "abcdefgh", 8, &l.client.out, NULL), 0);
    struct slice in = buf_slice(&l.client.out);
    const char *const pieces[] = {"abc", "def", "gh"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tls_session_read(l.server.tls, &in, data, sizeof(data), &got,
                                          &l.server.out, &l.server.e),
                         TLS_OK);
        assert_int_equal(got, strlen(pieces[i]));
        assert_memory_equal(data, pieces[i], got);
    }
    assert_int_equal(
        tls_session_read(l.server.tls, &in, data, sizeof(data), &got, &l.server.out, &l.server.e),
        TLS_MORE);
    assert_int_equal(got, 0);
    link_deinit(&l);
}

/* What comes in one packet with the end of the handshake must not get lost. */
static void data_behind_the_handshake_is_left_for_reading(void **state)
{
    struct link l;
    struct buf plain = BUF_INIT(100);
    (void)state;
    link_init(&l, client, server);
    while (l.server.result != TLS_OK) {
        link_shake_end(&l.client, &l.server, LINK_MAX);
        link_shake_end(&l.server, &l.client, LINK_MAX);
    }
    assert_int_equal(tls_session_write(l.server.tls, "hello", 5, &l.server.out, NULL), 0);
    struct slice in = buf_slice(&l.server.out);
    size_t all = in.len;
    if (l.client.result == TLS_MORE) {
        l.client.result = tls_session_handshake(l.client.tls, &in, &l.client.out, &l.client.e);
    }
    assert_int_equal(l.client.result, TLS_OK);
    assert_true(in.len > 0);
    buf_consume(&l.server.out, all - in.len);
    assert_int_equal(drain(&l.client, &l.server, LINK_MAX, &plain), TLS_MORE);
    assert_string_equal(buf_cstr(&plain), "hello");
    buf_reset(&plain);
    link_deinit(&l);
}

static void a_write_that_does_not_fit_leaves_the_session_usable(void **state)
{
    static char data[20000];
    struct link l;
    struct buf small = BUF_INIT(20001);
    (void)state;
    open_link(&l);
    assert_int_equal(tls_session_write(l.client.tls, data, sizeof(data), &small, &l.client.e),
                     -ENOBUFS);
    assert_int_equal(small.len, 0);
    assert_string_not_equal(l.client.e.msg, "");
    small.max = link_records_max(sizeof(data));
    assert_int_equal(tls_session_write(l.client.tls, data, sizeof(data), &small, &l.client.e), 0);
    assert_int_equal(buf_append(&l.client.out, buf_data(&small), small.len), 0);
    buf_reset(&small);
    struct buf plain = BUF_INIT(sizeof(data));
    assert_int_equal(drain(&l.server, &l.client, LINK_MAX, &plain), TLS_MORE);
    assert_int_equal(plain.len, sizeof(data));
    buf_reset(&plain);
    link_deinit(&l);
}

static void a_handshake_without_room_fails(void **state)
{
    struct link l;
    struct slice none = slice_of(NULL, 0);
    (void)state;
    link_init(&l, client, server);
    l.client.out.max = 10;
    assert_int_equal(tls_session_handshake(l.client.tls, &none, &l.client.out, &l.client.e),
                     TLS_FAILED);
    assert_int_equal(l.client.e.code, -ENOBUFS);
    link_deinit(&l);
}

static void close_notify_is_seen_after_the_data(void **state)
{
    struct link l;
    struct buf plain = BUF_INIT(100);
    char data[10];
    size_t got = 0;
    struct slice none = slice_of(NULL, 0);
    (void)state;
    open_link(&l);
    assert_int_equal(tls_session_write(l.server.tls, "bye", 3, &l.server.out, NULL), 0);
    tls_session_shutdown(l.server.tls, &l.server.out);
    size_t len = l.server.out.len;
    tls_session_shutdown(l.server.tls, &l.server.out);
    assert_int_equal(l.server.out.len, len);
    assert_int_equal(drain(&l.client, &l.server, LINK_MAX, &plain), TLS_CLOSED);
    assert_string_equal(buf_cstr(&plain), "bye");
    assert_int_equal(
        tls_session_read(l.client.tls, &none, data, sizeof(data), &got, &l.client.out, &l.client.e),
        TLS_CLOSED);

    /* The other direction is still open. */
    buf_clear(&plain);
    buf_clear(&l.client.out);
    assert_int_equal(tls_session_write(l.client.tls, "me too", 6, &l.client.out, NULL), 0);
    tls_session_shutdown(l.client.tls, &l.client.out);
    assert_int_equal(drain(&l.server, &l.client, LINK_MAX, &plain), TLS_CLOSED);
    assert_string_equal(buf_cstr(&plain), "me too");
    assert_int_equal(tls_session_write(l.client.tls, "x", 1, &l.client.out, &l.client.e), -EPROTO);
    buf_reset(&plain);
    link_deinit(&l);
}

static void tampered_data_kills_the_session(void **state)
{
    struct link l;
    struct buf plain = BUF_INIT(100);
    char data[10];
    size_t got = 0;
    struct slice none = slice_of(NULL, 0);
    (void)state;
    open_link(&l);
    assert_int_equal(tls_session_write(l.server.tls, "hello", 5, &l.server.out, NULL), 0);
    buf_data(&l.server.out)[l.server.out.len - 1] ^= 1;
    assert_int_equal(drain(&l.client, &l.server, LINK_MAX, &plain), TLS_FAILED);
    assert_int_equal(plain.len, 0);
    assert_int_equal(l.client.e.code, -EPROTO);
    assert_int_equal(
        tls_session_read(l.client.tls, &none, data, sizeof(data), &got, &l.client.out, &l.client.e),
        TLS_FAILED);
    assert_int_equal(tls_session_write(l.client.tls, "x", 1, &l.client.out, &l.client.e), -EPROTO);

    /* The other side learns of it. */
    assert_int_equal(drain(&l.server, &l.client, LINK_MAX, &plain), TLS_FAILED);
    assert_string_equal(l.server.e.msg, "the client ended TLS with an alert: bad record MAC");
    buf_reset(&plain);
    link_deinit(&l);
}

static void data_before_the_handshake_is_refused(void **state)
{
    struct link l;
    char data[10];
    size_t got = 0;
    struct slice none = slice_of(NULL, 0);
    (void)state;
    link_init(&l, client, server);
    assert_int_equal(
        tls_session_read(l.client.tls, &none, data, sizeof(data), &got, &l.client.out, &l.client.e),
        TLS_FAILED);
    assert_int_equal(tls_session_write(l.client.tls, "x", 1, &l.client.out, &l.client.e), -EPROTO);
    tls_session_shutdown(l.client.tls, &l.client.out);
    assert_int_equal(l.client.out.len, 0);
    link_deinit(&l);
}

/* ---- what is agreed on ---- */

/* The suite that a server chose, or that a client would like best, after the record's header, the
 * message's, the version, the random bytes and the session. */
static unsigned suite_in(const struct buf *hello, bool of_client)
{
    size_t at = 5 + 4 + 2 + 32;
    assert_true(hello->len > at + 40);
    at += 1 + (size_t)buf_data(hello)[at] + (of_client ? 2 : 0);
    return (unsigned)(buf_data(hello)[at] << 8 | buf_data(hello)[at + 1]);
}

static void check_suite(unsigned suite, enum tls_records_by by)
{
    if (by == TLS_RECORDS_OWN && aead_prefers_aes()) {
        assert_true(suite == 0xc02b || suite == 0x1301); /* with AES-128-GCM */
    } else {
        assert_true(suite == 0xcca9 || suite == 0x1303); /* with ChaCha20-Poly1305 */
    }
}

static void the_fastest_cipher_is_chosen(void **state)
{
    struct link l;
    (void)state;
    link_init(&l, client, server);
    link_shake_end(&l.client, &l.server, LINK_MAX);
    check_suite(suite_in(&l.client.out, true), client_by);
    link_shake_end(&l.server, &l.client, LINK_MAX);
    /* In TLS 1.3 the client has the choice. */
    check_suite(suite_in(&l.server.out, false), speaks_13() ? client_by : server_by);
    link_shake(&l);
    assert_null(tls_session_alpn(l.client.tls));
    assert_null(tls_session_alpn(l.server.tls));
    link_deinit(&l);
}

/* Of all sizes, with each cipher, and with keys of either kind. */
static void check_cipher(struct tls_config *c, struct tls_config *s, int suite)
{
    const int only[] = {suite, 0};
    struct link l;
    mbedtls_ssl_conf_ciphersuites(&c->conf, only);
    open_link_of(&l, c, s);
    for (size_t len = 0; len <= 16500; len += len < 40 || len > 16360 ? 1 : 331) {
        send_and_check(&l.client, &l.server, len, LINK_MAX);
        send_and_check(&l.server, &l.client, len, LINK_MAX);
    }
    send_and_check(&l.client, &l.server, 300000, 20000);
    send_and_check(&l.server, &l.client, 300000, 20000);
    link_deinit(&l);
}

static void every_cipher_carries_all_sizes(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    static const int suites13[][2] = {
        {COMPAT_TLS13_AES_128_GCM, COMPAT_TLS13_AES_128_GCM},
        {COMPAT_TLS13_AES_256_GCM, COMPAT_TLS13_AES_256_GCM},
        {COMPAT_TLS13_CHACHA20_POLY1305, COMPAT_TLS13_CHACHA20_POLY1305}};
    static const int suites12[][2] = {
        {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
         MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
        {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
         MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
        {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
         MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
    };
    struct certs_pair rsa;
    (void)state;
    certs_issue(&ca, &(struct certs_spec){.dns = names, .rsa_bits = 2048}, &rsa);
    tls_use_records(server_by);
    struct tls_config *with_rsa = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(rsa.cert), .key = slice_str(rsa.key)}, NULL);
    const int(*suites)[2] = speaks_13() ? suites13 : suites12;
    for (size_t i = 0; i < ARRAY_LEN(suites12); i++) {
        struct tls_config *c = new_client(NULL);
        check_cipher(c, server, suites[i][0]);
        tls_config_unref(c);
        c = new_client(NULL);
        check_cipher(c, with_rsa, suites[i][1]);
        tls_config_unref(c);
    }
    tls_config_unref(with_rsa);
    certs_free(&rsa);
}

static void alpn_finds_what_is_common(void **state)
{
    static const char *const both[] = {"h2", "http/1.1", NULL};
    static const char *const one[] = {"http/1.1", NULL};
    static const char *const other[] = {"spdy/3.1", NULL};
    static const struct {
        const char *const *offered;
        const char *const *known;
        const char *chosen;
        bool fails;
    } cases[] = {
        {both, one, "http/1.1", false}, {one, both, "http/1.1", false}, {both, both, "h2", false},
        {NULL, both, NULL, false},      {both, NULL, NULL, false},      {other, both, NULL, true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tls_config *c = new_client(cases[i].offered);
        struct tls_config *s = new_server(cases[i].known);
        struct link l;
        link_init(&l, c, s);
        link_shake(&l);
        if (cases[i].fails) {
            assert_int_equal(l.client.result, TLS_FAILED);
            assert_non_null(strstr(l.client.e.msg, "no application protocol in common"));
        } else if (cases[i].chosen == NULL) {
            assert_null(tls_session_alpn(l.client.tls));
            assert_null(tls_session_alpn(l.server.tls));
        } else {
            assert_string_equal(tls_session_alpn(l.client.tls), cases[i].chosen);
            assert_string_equal(tls_session_alpn(l.server.tls), cases[i].chosen);
        }
        link_deinit(&l);
        tls_config_unref(c);
        tls_config_unref(s);
    }
}

static bool first_flight_holds(const char *server_name, const char *what)
{
    struct err e = ERR_INIT;
    struct slice none = slice_of(NULL, 0);
    struct buf out = BUF_INIT(LINK_MAX);
    struct tls_config *c = tls_config_new_client(
        &(struct tls_client_options){.ca = slice_str(ca.cert), .server_name = server_name}, &e);
    struct tls_session *s = tls_session_new(c, &e);
    assert_int_equal(tls_session_handshake(s, &none, &out, &e), TLS_MORE);
    bool found = memmem(buf_data(&out), out.len, what, strlen(what)) != NULL;
    tls_session_free(s);
    tls_config_unref(c);
    buf_reset(&out);
    return found;
}

static void names_are_sent_as_sni_and_addresses_are_not(void **state)
{
    (void)state;
    assert_true(first_flight_holds("api.example.com", "api.example.com"));
    assert_false(first_flight_holds("api.example.com.", "api.example.com."));
    assert_false(first_flight_holds("127.0.0.1", "127.0.0.1"));
}

/* ---- resumption ---- */

static bool connects_resumed(struct tls_config *c, struct tls_config *s)
{
    struct link l;
    link_init(&l, c, s);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_OK);
    assert_int_equal(l.server.result, TLS_OK);
    bool resumed = tls_session_resumed(l.client.tls);
    assert_int_equal(tls_session_resumed(l.server.tls), resumed);
    send_and_check(&l.client, &l.server, 100, LINK_MAX);
    send_and_check(&l.server, &l.client, 100, LINK_MAX);
    link_deinit(&l);
    return resumed;
}

static void sessions_are_resumed(void **state)
{
    struct tls_config *c = new_client(NULL);
    struct tls_config *s = new_server(NULL);
    (void)state;
    assert_false(connects_resumed(c, s));
    for (int i = 0; i < 5; i++) {
        assert_true(connects_resumed(c, s));
    }
    tls_config_unref(c);
    tls_config_unref(s);
}

static void configs_share_no_sessions(void **state)
{
    struct tls_config *c1 = new_client(NULL);
    struct tls_config *c2 = new_client(NULL);
    struct tls_config *s1 = new_server(NULL);
    struct tls_config *s2 = new_server(NULL);
    (void)state;
    assert_false(connects_resumed(c1, s1));
    assert_false(connects_resumed(c2, s1));
    assert_false(connects_resumed(c1, s2)); /* a restarted server: other ticket keys */
    assert_true(connects_resumed(c1, s2));
    tls_config_unref(c1);
    tls_config_unref(c2);
    tls_config_unref(s1);
    tls_config_unref(s2);
}

static void client_certificates_are_checked_once_and_resumed(void **state)
{
    struct err e = ERR_INIT;
    struct certs_pair mine;
    (void)state;
    certs_issue(&ca, &(struct certs_spec){.is_client = true}, &mine);
    struct tls_config *s =
        tls_config_new_server(&(struct tls_server_options){.cert = slice_str(pair.cert),
                                                           .key = slice_str(pair.key),
                                                           .client_ca = slice_str(ca.cert)},
                              &e);
    struct tls_config *c =
        tls_config_new_client(&(struct tls_client_options){.ca = slice_str(ca.cert),
                                                           .server_name = "localhost",
                                                           .cert = slice_str(mine.cert),
                                                           .key = slice_str(mine.key)},
                              &e);
    assert_false(connects_resumed(c, s));
    assert_true(connects_resumed(c, s));
    tls_config_unref(c);
    tls_config_unref(s);
    certs_free(&mine);
}

/* The clock cannot be turned forward, so the end of the session's time is turned back. */
static void no_session_is_resumed_after_the_certificate_expired(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    struct certs_pair brief;
    struct err e = ERR_INIT;
    (void)state;
    certs_issue(&ca,
                &(struct certs_spec){
                    .dns = names, .not_before = "20240504030201", .not_after = "20470504030201"},
                &brief);
    struct tls_config *s = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(brief.cert), .key = slice_str(brief.key)},
        &e);
    struct tls_config *c = new_client(NULL);
    int64_t from;
    int64_t until;
    assert_false(tls_config_peer_validity(c, &from, &until));
    assert_false(connects_resumed(c, s));
    assert_true(connects_resumed(c, s));
    assert_true(tls_config_peer_validity(c, &from, &until));
    assert_int_equal(from, 1714791721);
    assert_int_equal(until, 2440551721);
    assert_int_equal(c->resumable_until.year, 2047); /* the CA's certificate ends later */
    assert_int_equal(c->resumable_until.mon, 5);
    assert_int_equal(c->resumable_until.sec, 1);
    c->resumable_until.year = 2024;
    assert_false(connects_resumed(c, s));
    assert_int_equal(c->resumable_until.year, 2047);
    assert_true(connects_resumed(c, s));
    tls_config_unref(c);
    tls_config_unref(s);
    certs_free(&brief);
}

static void sessions_outlive_their_config(void **state)
{
    struct tls_config *c = new_client(NULL);
    struct tls_config *s = new_server(NULL);
    struct link l;
    (void)state;
    link_init(&l, c, s);
    tls_config_unref(c);
    tls_config_unref(s);
    link_shake(&l);
    assert_int_equal(l.client.result, TLS_OK);
    send_and_check(&l.client, &l.server, 100, LINK_MAX);
    link_deinit(&l);
}

/* ---- bad peers ---- */

static void plain_http_is_recognized(void **state)
{
    struct link l;
    struct slice in = SLICE("HTTP/1.1 400 Bad Request\r\n\r\n");
    struct slice request = SLICE("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    (void)state;
    link_init(&l, client, server);
    assert_int_equal(tls_session_handshake(l.client.tls, &in, &l.client.out, &l.client.e),
                     TLS_FAILED);
    assert_non_null(strstr(l.client.e.msg, "the server does not speak TLS (plain HTTP?)"));
    assert_int_equal(tls_session_handshake(l.server.tls, &request, &l.server.out, &l.server.e),
                     TLS_FAILED);
    assert_non_null(strstr(l.server.e.msg, "the client does not speak TLS (plain HTTP?)"));
    assert_true(l.server.out.len > 0);
    link_deinit(&l);
}

/* One byte of a handshake changed: it must fail or wait for more, never succeed, and if it fails,
 * say something, and tell the peer. The pairs of ends share the bytes, unless there is time. */
static void a_changed_byte_breaks_the_handshake(bool from_server)
{
    const size_t shares = rounds(4, 1);
    size_t failures = 0;
    for (size_t at = 19 * (pair_of_ends % shares); at < 1000; at += 19 * shares) {
        struct tls_config *c = new_client(NULL);
        struct link l;
        size_t passed = 0;
        link_init(&l, c, server);
        for (int i = 0; i < 5; i++) {
            link_shake_end(&l.client, &l.server, LINK_MAX);
            struct buf *b = from_server ? &l.server.out : &l.client.out;
            if (!from_server && at >= passed && at - passed < b->len) {
                buf_data(b)[at - passed] ^= 0x55;
            }
            passed += from_server ? 0 : b->len;
            link_shake_end(&l.server, &l.client, LINK_MAX);
            if (from_server && at >= passed && at - passed < b->len) {
                buf_data(b)[at - passed] ^= 0x55;
            }
            passed += from_server ? b->len : 0;
        }
        if (l.client.result == TLS_OK && l.server.out.len > 0) {
            link_shake(&l); /* in TLS 1.3 it may have been the ticket's */
        }
        if (at < passed) {
            assert_false(l.client.result == TLS_OK && l.server.result == TLS_OK);
            if (l.client.result == TLS_FAILED || l.server.result == TLS_FAILED) {
                failures++;
            }
            assert_int_equal(l.client.result == TLS_FAILED, l.client.e.code != 0);
            assert_int_equal(l.server.result == TLS_FAILED, l.server.e.code != 0);
        }
        link_deinit(&l);
        tls_config_unref(c);
    }
    assert_true(failures > 10 / shares);
}

static void a_changed_byte_from_the_client_breaks_the_handshake(void **state)
{
    (void)state;
    a_changed_byte_breaks_the_handshake(false);
}

static void a_changed_byte_from_the_server_breaks_the_handshake(void **state)
{
    (void)state;
    a_changed_byte_breaks_the_handshake(true);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void garbage_fails_at_any_point(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t seed = round;
        char junk[400];
        struct link l;
        struct buf plain = BUF_INIT(LINK_MAX);
        for (size_t i = 0; i < sizeof(junk); i++) {
            junk[i] = (char)next_random(&seed);
        }
        /* Half of them look like records. */
        if (round % 2 == 0) {
            const char types[] = {20, 21, 22, 23, 24};
            const char head[] = {types[round / 2 % 5], 3, 3, 0, (char)(round % 120)};
            memcpy(junk, head, sizeof(head));
        }
        link_init(&l, client, server);
        for (uint32_t i = 0; i < round % 4; i++) {
            link_shake_end(&l.client, &l.server, LINK_MAX);
            link_shake_end(&l.server, &l.client, LINK_MAX);
        }
        struct link_end *to = round % 3 == 0 ? &l.server : &l.client;
        struct link_end from = {.tls = NULL};
        buf_init(&from.out, LINK_MAX);
        assert_int_equal(buf_append(&from.out, junk, sizeof(junk)), 0);
        if (to->result == TLS_OK) {
            enum tls_result r = drain(to, &from, 100, &plain);
            assert_true(r == TLS_FAILED || r == TLS_MORE);
        } else {
            link_shake_end(to, &from, 100);
            assert_true(to->result == TLS_FAILED || to->result == TLS_MORE);
        }
        assert_int_equal(plain.len, 0);
        buf_reset(&from.out);
        link_deinit(&l);
    }
}

static void an_end_in_the_middle_waits_for_more(void **state)
{
    (void)state;
    struct link l;
    struct buf plain = BUF_INIT(100);
    open_link(&l);
    assert_int_equal(tls_session_write(l.client.tls, "hello", 5, &l.client.out, NULL), 0);
    l.client.out.len--;
    assert_int_equal(drain(&l.server, &l.client, LINK_MAX, &plain), TLS_MORE);
    assert_int_equal(plain.len, 0);
    buf_reset(&plain);
    link_deinit(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handshake_works_byte_by_byte),
        cmocka_unit_test(data_of_all_sizes_goes_both_ways),
        cmocka_unit_test(writing_nothing_sends_nothing),
        cmocka_unit_test(records_are_as_few_as_possible),
        cmocka_unit_test(plaintext_comes_in_the_pieces_asked_for),
        cmocka_unit_test(data_behind_the_handshake_is_left_for_reading),
        cmocka_unit_test(a_write_that_does_not_fit_leaves_the_session_usable),
        cmocka_unit_test(a_handshake_without_room_fails),
        cmocka_unit_test(close_notify_is_seen_after_the_data),
        cmocka_unit_test(tampered_data_kills_the_session),
        cmocka_unit_test(data_before_the_handshake_is_refused),
        cmocka_unit_test(the_fastest_cipher_is_chosen),
        cmocka_unit_test(every_cipher_carries_all_sizes),
        cmocka_unit_test(alpn_finds_what_is_common),
        cmocka_unit_test(names_are_sent_as_sni_and_addresses_are_not),
        cmocka_unit_test(sessions_are_resumed),
        cmocka_unit_test(configs_share_no_sessions),
        cmocka_unit_test(client_certificates_are_checked_once_and_resumed),
        cmocka_unit_test(no_session_is_resumed_after_the_certificate_expired),
        cmocka_unit_test(sessions_outlive_their_config),
        cmocka_unit_test(plain_http_is_recognized),
        cmocka_unit_test(a_changed_byte_from_the_client_breaks_the_handshake),
        cmocka_unit_test(a_changed_byte_from_the_server_breaks_the_handshake),
        cmocka_unit_test(garbage_fails_at_any_point),
        cmocka_unit_test(an_end_in_the_middle_waits_for_more),
    };
    int failures = 0;
    for (unsigned i = 0; i < 4; i++) {
        pair_of_ends = i;
        client_by = i & 1 ? TLS_RECORDS_LIBRARY : TLS_RECORDS_OWN;
        server_by = i & 2 ? TLS_RECORDS_LIBRARY : TLS_RECORDS_OWN;
        failures += cmocka_run_group_tests(tests, make_configs, free_configs);
    }
    return failures;
}
