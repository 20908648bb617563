/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "certs.h"
#include "crypto/aead.h"
#include "heap_in_use.h"
#include "loop_fixture.h"
#include "net/listener.h"
#include "net/stream.h"
#include "raw_peer.h"

struct end {
    struct net_stream *stream;
    bool opened;
    bool eof;
    bool failed;
    bool drained;
    bool enough;
    bool echo;
    bool shut_on_read;
    struct err error;
    size_t received;
    size_t want;
    unsigned checksum;
};

/* A TLS listener that echoes, a client that dials it, and the certificates of both. */
struct world {
    struct net_loop *loop;
    struct net_listener *listener;
    struct certs_pair ca;
    struct certs_pair cert;
    struct tls_config *server_config;
    struct end server;
    struct end client;
};

static void on_open(void *data)
{
    struct end *t = data;
    t->opened = true;
    net_stream_read_start(t->stream);
}

static void on_read(void *data, struct slice bytes)
{
    struct end *t = data;
    for (size_t i = 0; i < bytes.len; i++) {
        t->checksum = t->checksum * 31 + (unsigned char)bytes.ptr[i];
    }
    t->received += bytes.len;
    t->enough = t->want > 0 && t->received >= t->want;
    if (t->echo) {
        assert_int_equal(net_stream_write(t->stream, &bytes, 1), 0);
        if (net_stream_blocked(t->stream)) {
            net_stream_read_stop(t->stream);
        }
    }
    if (t->shut_on_read) {
        net_stream_shutdown(t->stream);
    }
}

static void on_eof(void *data)
{
    struct end *t = data;
    t->eof = true;
}

static void on_drain(void *data)
{
    struct end *t = data;
    t->drained = true;
    net_stream_read_start(t->stream);
}

static void on_error(void *data, const struct err *e)
{
    struct end *t = data;
    t->failed = true;
    t->error = *e;
    net_stream_close(t->stream);
    t->stream = NULL;
}

static const struct net_stream_handlers handlers = {
    .on_open = on_open,
    .on_read = on_read,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_error = on_error,
};

static void on_accept(void *data, struct net_stream *s)
{
    struct world *w = data;
    bool shut = w->server.shut_on_read;
    w->server = (struct end){.stream = s, .echo = true, .opened = true, .shut_on_read = shut};
    net_stream_set_handlers(s, &handlers, &w->server);
    net_stream_read_start(s);
}

static int world_setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    certs_make_ca("integration CA", &w.ca);
    *state = &w;
    return loop_setup((void **)&w.loop);
}

static void close_end(struct end *t)
{
    if (t->stream != NULL) {
        net_stream_close(t->stream);
        t->stream = NULL;
    }
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    close_end(&w->client);
    close_end(&w->server);
    net_listener_close(w->listener);
    tls_config_unref(w->server_config);
    certs_free(&w->cert);
    certs_free(&w->ca);
    return loop_teardown((void **)&w->loop);
}

static void serve_as(struct world *w, const struct certs_spec *spec, bool plain_too)
{
    struct err e = ERR_INIT;
    certs_issue(&w->ca, spec, &w->cert);
    struct tls_server_options so = {.cert = slice_str(w->cert.cert), .key = slice_str(w->cert.key)};
    w->server_config = tls_config_new_server(&so, &e);
    assert_non_null(w->server_config);
    struct net_listener_options lo = {
        .address = "127.0.0.1:0", .tls = w->server_config, .plain_too = plain_too};
    w->listener = net_listener_new(w->loop, &lo, on_accept, w, &e);
    assert_non_null(w->listener);
}

static void serve(struct world *w, const struct certs_spec *spec)
{
    serve_as(w, spec, false);
}

static void serve_localhost(struct world *w)
{
    const char *const ips[] = {"127.0.0.1", NULL};
    serve(w, &(struct certs_spec){.ips = ips});
}

static unsigned port_of(const struct net_listener *n)
{
    return (unsigned)atoi(strrchr(net_listener_address(n), ':') + 1);
}

static struct tls_config *client_config(const char *ca, const char *name)
{
    struct err e = ERR_INIT;
    struct tls_client_options o = {.ca = slice_str(ca), .ca_name = "test", .server_name = name};
    struct tls_config *c = tls_config_new_client(&o, &e);
    assert_non_null(c);
    return c;
}

static void dial(struct world *w, struct tls_config *tls, unsigned port)
{
    struct err e = ERR_INIT;
    struct net_dial_options o = {
        .host = "127.0.0.1", .port = port, .tls = tls, .connect_timeout_ms = 5000};
    w->client = (struct end){.stream = NULL};
    assert_int_equal(net_dial(w->loop, &o, &handlers, &w->client, &w->client.stream, &e), 0);
}

static void connect_with(struct world *w, struct tls_config *tls)
{
    dial(w, tls, port_of(w->listener));
    run_until(w->loop, &w->client.opened);
}

static void expect_refusal(struct world *w, const char *ca, const char *name, const char *words)
{
    struct tls_config *tls = client_config(ca, name);
    dial(w, tls, port_of(w->listener));
    tls_config_unref(tls);
    run_until(w->loop, &w->client.failed);
    assert_false(w->client.opened);
    if (strstr(w->client.error.msg, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", w->client.error.msg, words);
    }
}

static void test_echo_with_back_pressure(void **state)
{
    struct world *w = *state;
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    connect_with(w, tls);
    tls_config_unref(tls);
    char block[20000];
    size_t sent = 0;
    unsigned checksum = 0;
    const size_t total = 6 * 1000 * 1000;
    w->client.want = total;
    while (sent < total) {
        while (sent < total && !net_stream_blocked(w->client.stream)) {
            for (size_t i = 0; i < sizeof block; i++) {
                block[i] = (char)((sent + i) % 251);
                checksum = checksum * 31 + (unsigned char)block[i];
            }
            struct slice part = slice_of(block, sizeof block);
            assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
            sent += sizeof block;
        }
        run_for(w->loop, 2);
    }
    run_until(w->loop, &w->client.enough);
    assert_int_equal(w->client.received, total);
    assert_int_equal(w->client.checksum, checksum);
}

static void test_sessions_are_resumed(void **state)
{
    struct world *w = *state;
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    for (int i = 0; i < 3; i++) {
        connect_with(w, tls);
        w->client.want = 4;
        struct slice part = SLICE("ping");
        assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
        run_until(w->loop, &w->client.enough);
        assert_int_equal(tls_session_resumed(net_stream_tls(w->client.stream)), i > 0);
        close_end(&w->client);
        run_for(w->loop, 10);
        close_end(&w->server);
    }
    tls_config_unref(tls);
}

static void test_bytes_after_a_quiet_time(void **state)
{
    struct world *w = *state;
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    connect_with(w, tls);
    tls_config_unref(tls);
    static char block[60000];
    for (int i = 0; i < 2; i++) {
        w->client.enough = false;
        w->client.want = w->client.received + sizeof block;
        struct slice part = slice_of(block, sizeof block);
        assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
        run_until(w->loop, &w->client.enough);
        run_for(w->loop, 1600); /* both sides have given their buffers back */
    }
    assert_false(w->client.failed || w->server.failed);
}

/* The peer's first byte tells. */
static void test_one_address_for_both(void **state)
{
    struct world *w = *state;
    const char *const ips[] = {"127.0.0.1", NULL};
    serve_as(w, &(struct certs_spec){.ips = ips}, true);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    for (int i = 0; i < 4; i++) {
        bool with_tls = i % 2 == 0;
        struct slice part = SLICE("ping");
        connect_with(w, with_tls ? tls : NULL);
        w->client.want = part.len;
        assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
        run_until(w->loop, &w->client.enough);
        assert_int_equal(net_stream_tls(w->server.stream) != NULL, with_tls);
        assert_int_equal(net_stream_has_tls(w->server.stream), with_tls);
        net_stream_shutdown(w->client.stream);
        run_until(w->loop, &w->server.eof);
        assert_false(w->server.failed);
        close_end(&w->client);
        close_end(&w->server);
    }
    tls_config_unref(tls);
}

/* Nothing tells before that, and whoever has accepted it may wait for as long as it likes. */
static void test_one_that_says_nothing(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    const char *const ips[] = {"127.0.0.1", NULL};
    serve_as(w, &(struct certs_spec){.ips = ips}, true);
    for (int i = 0; i < 3; i++) {
        w->server = (struct end){.stream = NULL};
        raw_connect(&p, net_listener_address(w->listener));
        while (w->server.stream == NULL) {
            run_for(w->loop, 1);
        }
        loop_skip(w->loop, 60000);
        run_for(w->loop, 300);
        assert_false(w->server.failed || w->server.eof);
        if (i == 0) {
            raw_close(&p);
            run_until(w->loop, &w->server.eof);
            assert_false(w->server.failed);
        } else if (i == 1) {
            raw_send(&p, "\x16\x03\x01", 3); /* a handshake has its time */
            run_for(w->loop, 300);
            assert_false(w->server.failed);
            loop_skip(w->loop, 60000);
            run_until(w->loop, &w->server.failed);
            assert_non_null(strstr(w->server.error.msg, "handshake timed out"));
            raw_close(&p);
        } else {
            raw_send(&p, "late", 4);
            raw_expect(w->loop, &p, "late");
            raw_close(&p);
            run_until(w->loop, &w->server.eof);
        }
        close_end(&w->server);
    }
}

static void test_an_unknown_authority_is_refused(void **state)
{
    struct world *w = *state;
    struct certs_pair other;
    serve_localhost(w);
    certs_make_ca("another CA", &other);
    expect_refusal(w, other.cert, "127.0.0.1", "unknown authority");
    certs_free(&other);
}

static void test_an_expired_certificate_is_refused(void **state)
{
    struct world *w = *state;
    const char *const ips[] = {"127.0.0.1", NULL};
    serve(w, &(struct certs_spec){.ips = ips, .not_after = "20200101000000"});
    expect_refusal(w, w->ca.cert, "127.0.0.1", "expired");
}

static void test_a_wrong_name_is_refused(void **state)
{
    struct world *w = *state;
    serve_localhost(w);
    expect_refusal(w, w->ca.cert, "api.example.com", "api.example.com");
}

static void test_close_notify_is_an_end(void **state)
{
    struct world *w = *state;
    w->server.shut_on_read = true;
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    connect_with(w, tls);
    tls_config_unref(tls);
    struct slice part = SLICE("last words");
    assert_int_equal(net_stream_write(w->client.stream, &part, 1), 0);
    run_until(w->loop, &w->client.eof);
    assert_int_equal(w->client.received, 10);
    assert_false(w->client.failed);
}

static void test_an_end_without_close_notify_is_an_error(void **state)
{
    struct world *w = *state;
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    connect_with(w, tls);
    tls_config_unref(tls);
    run_until(w->loop, &w->server.opened);
    close_end(&w->server);
    run_until(w->loop, &w->client.failed);
    assert_false(w->client.eof);
}

static void test_a_peer_that_speaks_no_tls(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    serve_localhost(w);
    raw_connect(&p, net_listener_address(w->listener));
    raw_send(&p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_true(w->server.failed);
    assert_int_equal(w->server.received, 0);
}

static void test_who_says_nothing_has_no_session(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    serve_localhost(w);
    raw_connect(&p, net_listener_address(w->listener));
    run_until(w->loop, &w->server.opened);
    run_for(w->loop, 20);
    assert_null(net_stream_tls(w->server.stream));
    raw_close(&p);
    run_until(w->loop, &w->server.failed);
    assert_string_equal(w->server.error.msg,
                        "the peer closed the connection during the TLS handshake");
}

/* What is staged stays so until there is a session; an end without one is an end. */
static void test_written_and_shut_down_before_anything_came(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    serve_localhost(w);
    raw_connect(&p, net_listener_address(w->listener));
    run_until(w->loop, &w->server.opened);
    const struct slice text = SLICE("secret");
    assert_int_equal(net_stream_write(w->server.stream, &text, 1), 0);
    run_for(w->loop, 20);
    net_stream_shutdown(w->server.stream);
    net_stream_close(w->server.stream);
    w->server.stream = NULL;
    raw_expect(w->loop, &p, NULL);
    assert_int_equal(p.len, 0);
    raw_close(&p);
}

/* A watch is written to, and nothing comes from its client: when it waits it has no more than it
 * had before. */
static void test_who_only_writes_gives_memory_back(void **state)
{
    struct world *w = *state;
    if (!aead_usable()) {
        skip();
    }
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    connect_with(w, tls);
    tls_config_unref(tls);
    run_until(w->loop, &w->server.opened);
    size_t before[2];
    for (int i = 0; i < 2; i++) {
        run_for(w->loop, 1000);
        before[i] = heap_in_use();
        for (int n = 0; n < 20; n++) {
            struct slice part = SLICE("event");
            w->client.enough = false;
            w->client.want = w->client.received + part.len;
            assert_int_equal(net_stream_write(w->server.stream, &part, 1), 0);
            run_until(w->loop, &w->client.enough);
        }
    }
    assert_true(heap_in_use() > before[1] + 1024); /* what is used often is kept */
    run_for(w->loop, 1000);
    assert_in_range(heap_in_use(), 0, before[0] + 1024);
}

/* What was on its way before the handshake arrives during it: the stream is not blocked then, for
 * nobody would be told that it no longer is. */
static void test_bytes_that_go_during_the_handshake(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    static char block[512 * 1024];
    struct slice part = slice_of(block, sizeof block);
    serve_localhost(w);
    struct net_listener_options lo = {.address = "127.0.0.1:0"};
    struct net_listener *plain = net_listener_new(w->loop, &lo, on_accept, w, &e);
    assert_non_null(plain);
    dial(w, NULL, port_of(plain));
    run_until(w->loop, &w->client.opened);
    run_until(w->loop, &w->server.opened);
    net_stream_read_stop(w->client.stream);
    while (!net_stream_blocked(w->server.stream)) {
        assert_int_equal(net_stream_write(w->server.stream, &part, 1), 0);
        w->client.want += part.len;
    }
    assert_int_equal(net_stream_start_tls(w->server.stream, w->server_config, &e), 0);
    net_stream_read_start(w->client.stream);
    run_until(w->loop, &w->client.enough);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    w->client.opened = false;
    assert_int_equal(net_stream_start_tls(w->client.stream, tls, &e), 0);
    tls_config_unref(tls);
    run_until(w->loop, &w->client.opened);
    run_for(w->loop, 10);
    assert_false(net_stream_blocked(w->server.stream));
    net_listener_close(plain);
}

static void test_close_in_each_phase_of_the_handshake(void **state)
{
    struct world *w = *state;
    serve_localhost(w);
    struct tls_config *tls = client_config(w->ca.cert, "127.0.0.1");
    for (int turns = 0; turns < 12; turns++) {
        dial(w, tls, port_of(w->listener));
        for (int i = 0; i < turns; i++) {
            (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
        }
        close_end(&w->client);
        run_for(w->loop, 5);
        close_end(&w->server);
    }
    tls_config_unref(tls);
}

int main(void)
{
#define TLS_TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TLS_TEST(test_echo_with_back_pressure),
        TLS_TEST(test_sessions_are_resumed),
        TLS_TEST(test_bytes_after_a_quiet_time),
        TLS_TEST(test_one_address_for_both),
        TLS_TEST(test_one_that_says_nothing),
        TLS_TEST(test_an_unknown_authority_is_refused),
        TLS_TEST(test_an_expired_certificate_is_refused),
        TLS_TEST(test_a_wrong_name_is_refused),
        TLS_TEST(test_close_notify_is_an_end),
        TLS_TEST(test_an_end_without_close_notify_is_an_error),
        TLS_TEST(test_a_peer_that_speaks_no_tls),
        TLS_TEST(test_who_says_nothing_has_no_session),
        TLS_TEST(test_written_and_shut_down_before_anything_came),
        TLS_TEST(test_who_only_writes_gives_memory_back),
        TLS_TEST(test_bytes_that_go_during_the_handshake),
        TLS_TEST(test_close_in_each_phase_of_the_handshake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
