/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy_connect_test.c - requests through an HTTP proxy, which the test plays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "certs.h"
#include "http/client.h"
#include "http/server.h"
#include "loop_fixture.h"
#include "net/dial_gate.h"
#include "raw_peer.h"

enum { LONG_MS = 600000 };

/* The names of origins are not looked up here: there is none of this name. */
#define ORIGIN "api.invalid"
#define TUNNEL "HTTP/1.1 200 Connection established\r\n\r\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

struct ask {
    struct http_exchange *x;
    unsigned status;
    bool closed;
    bool failed;
    bool sent; /* when it had failed */
    struct err error;
};

struct world {
    struct net_loop *loop;
    int listener; /* the proxy's */
    unsigned port;
    struct http_client *client;
    struct ask ask;
    struct raw_peer peer; /* the proxy's end of the first connection */
    /* An origin that speaks TLS, for some. */
    struct http_server *origin;
    struct tls_config *origin_tls;
    struct tls_config *client_tls;
};

/* ---- the client's user ---- */

static void ask_head(struct http_exchange *x, const struct http_head *head)
{
    struct ask *a = x->data;
    a->status = head->status;
}

static void ask_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void ask_drain(struct http_exchange *x)
{
    assert_int_equal(http_exchange_send_end(x), 0);
}

static void ask_close(struct http_exchange *x, const struct err *e)
{
    struct ask *a = x->data;
    assert_false(a->closed);
    a->closed = true;
    a->failed = e != NULL;
    if (e != NULL) {
        a->error = *e;
        a->sent = http_client_sent(x);
    }
    a->x = NULL;
}

static const struct http_exchange_handlers ask_handlers = {
    .on_head = ask_head,
    .on_body = ask_body,
    .on_end = ignore,
    .on_drain = ask_drain,
    .on_close = ask_close,
};

/* False: refused at once. */
static bool ask_begin(struct world *w)
{
    struct http_header headers[] = {{SLICE("Host"), SLICE(ORIGIN)}};
    struct http_head head = {
        .method = SLICE("GET"), .target = SLICE("/"), .headers = headers, .header_count = 1};
    struct err e = ERR_INIT;
    memset(&w->ask, 0, sizeof w->ask);
    w->ask.x = http_client_request(w->client, &head, &ask_handlers, &w->ask, &e);
    return w->ask.x != NULL;
}

/* What the proxy is asked to connect to is not judged, nor is the proxy. */
static bool refuse(void *data, const struct sockaddr *address)
{
    (void)data;
    (void)address;
    return false;
}

static struct net_dial_gate gate;

static bool client_open_within(struct world *w, const char *host, const char *authorization,
                               uint64_t timeout_ms)
{
    const struct http_proxy proxy = {
        .host = "127.0.0.1", .port = w->port, .authorization = authorization};
    struct http_client_options o = {
        .host = host,
        .port = 6443,
        .proxy = &proxy,
        .gate = &gate,
        .tls = w->client_tls,
        .connect_timeout_ms = timeout_ms,
        .idle_timeout_ms = LONG_MS,
        .max_idle = 4,
    };
    net_dial_gate_init(&gate, refuse, NULL, 1);
    w->client = http_client_new(w->loop, &o, NULL);
    return w->client != NULL;
}

static bool client_open(struct world *w, const char *host, const char *authorization)
{
    return client_open_within(w, host, authorization, LONG_MS);
}

/* ---- the origin ---- */

static void serve_close(struct http_exchange *x, const struct err *e)
{
    (void)x;
    (void)e;
}

static const struct http_exchange_handlers serve_handlers = {
    .on_body = ask_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = serve_close,
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    (void)data;
    (void)head;
    x->handlers = &serve_handlers;
    if (http_respond(x, 200, SLICE("text/plain"), SLICE("ok"), NULL, 0) != 0) {
        http_exchange_abort(x);
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)why;
    (void)body;
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

static void origin_open(struct world *w)
{
    struct certs_pair ca;
    struct certs_pair cert;
    struct err e = ERR_INIT;
    const char *const names[] = {ORIGIN, NULL};
    certs_make_ca("CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.dns = names}, &cert);
    struct tls_server_options so = {.cert = slice_str(cert.cert), .key = slice_str(cert.key)};
    struct tls_client_options co = {.ca = slice_str(ca.cert), .server_name = ORIGIN};
    w->origin_tls = tls_config_new_server(&so, &e);
    w->client_tls = tls_config_new_client(&co, &e);
    certs_free(&ca);
    certs_free(&cert);
    assert_true(w->origin_tls != NULL && w->client_tls != NULL);
    struct http_server_options o = {
        .address = "127.0.0.1:0",
        .tls = w->origin_tls,
        .head_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .max_connections = 32,
    };
    w->origin = http_server_new(w->loop, &o, &server_handlers, w, &e);
    assert_non_null(w->origin);
}

/* ---- the proxy ---- */

/* A request is on its way, and the proxy has been asked for a tunnel. */
static void ask_for_tunnel(struct world *w)
{
    assert_true(client_open(w, ORIGIN, NULL));
    assert_true(ask_begin(w));
    raw_accept(w->loop, w->listener, &w->peer);
    raw_expect(w->loop, &w->peer, "\r\n\r\n");
}

static void say(struct world *w, const char *text)
{
    raw_send(&w->peer, text, strlen(text));
}

/* What is expected from here on has not come yet. */
static void forget(struct world *w)
{
    w->peer.len = 0;
    w->peer.text[0] = '\0';
}

/* Moves what has come from one socket to the other, with `more` behind it. False: there is nothing
 * more to come. */
static bool pass(int from, int to, const char *more)
{
    char block[16 * 1024 + 64];
    size_t len = strlen(more);
    ssize_t n = recv(from, block, sizeof block - 64, MSG_DONTWAIT);
    if (n > 0) {
        memcpy(block + n, more, len);
        return send(to, block, (size_t)n + len, MSG_NOSIGNAL) == n + (ssize_t)len;
    }
    return n < 0 && errno == EAGAIN;
}

/* A tunnel to the origin, until the request is over. */
static void relay_through(struct world *w, struct raw_peer *origin, const char *behind)
{
    bool there = true;
    for (int turn = 0; turn < 8000 && !w->ask.closed; turn++) {
        if (there) {
            there = pass(w->peer.fd, origin->fd, "") && pass(origin->fd, w->peer.fd, behind);
        }
        if (!there && w->peer.fd >= 0) {
            raw_close(&w->peer);
        }
        run_for(w->loop, 1);
    }
    assert_true(w->ask.closed);
}

static void relay(struct world *w)
{
    static struct raw_peer origin;
    raw_connect(&origin, http_server_address(w->origin));
    relay_through(w, &origin, "");
    raw_close(&origin);
}

/* ---- set-up ---- */

static int setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    w.peer.fd = -1;
    w.listener = raw_listen(&w.port);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    http_client_free(w->client);
    http_server_free(w->origin);
    tls_config_unref(w->origin_tls);
    tls_config_unref(w->client_tls);
    if (w->peer.fd >= 0) {
        raw_close(&w->peer);
    }
    (void)close(w->listener);
    return loop_teardown((void **)&w->loop);
}

/* ---- tests ---- */

static void check_answered(struct world *w)
{
    run_until(w->loop, &w->ask.closed);
    if (w->ask.failed) {
        fail_msg("%s", w->ask.error.msg);
    }
    assert_int_equal(w->ask.status, 200);
}

static void test_a_tunnel_is_asked_for_once(void **state)
{
    struct world *w = *state;
    assert_true(client_open(w, ORIGIN, "Basic dXNlcjpwYXNz"));
    assert_true(ask_begin(w));
    raw_accept(w->loop, w->listener, &w->peer);
    raw_expect(w->loop, &w->peer, "\r\n\r\n");
    assert_string_equal(w->peer.text, "CONNECT " ORIGIN ":6443 HTTP/1.1\r\nHost: " ORIGIN
                                      ":6443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n");
    assert_false(http_client_sent(w->ask.x));
    assert_true(http_exchange_blocked(w->ask.x));
    forget(w);
    say(w, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 O");
    run_for(w->loop, 20);
    assert_false(http_client_sent(w->ask.x));
    /* The length of an answer to CONNECT is of no meaning (RFC 9110 section 9.3.6). */
    say(w, "K\r\nContent-Length: 10\r\n\r\n");
    raw_expect(w->loop, &w->peer, "\r\n\r\n");
    assert_memory_equal(w->peer.text, "GET / HTTP/1.1\r\n", 16);
    assert_null(strstr(w->peer.text, "Proxy-Authorization"));
    say(w, OK_ANSWER);
    check_answered(w);
    forget(w);
    assert_true(ask_begin(w));
    raw_expect(w->loop, &w->peer, "\r\n\r\n");
    assert_memory_equal(w->peer.text, "GET / HTTP/1.1\r\n", 16);
    say(w, OK_ANSWER);
    check_answered(w);
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    assert_int_equal(http_client_stats(w->client)->failed, 0);
}

static void test_addresses_of_ipv6_are_in_brackets(void **state)
{
    struct world *w = *state;
    assert_true(client_open(w, "fd00::1%lo", NULL));
    assert_true(ask_begin(w));
    raw_accept(w->loop, w->listener, &w->peer);
    raw_expect(w->loop, &w->peer, "\r\n\r\n");
    assert_string_equal(w->peer.text,
                        "CONNECT [fd00::1]:6443 HTTP/1.1\r\nHost: [fd00::1]:6443\r\n\r\n");
}

static void test_tls_is_spoken_with_the_origin(void **state)
{
    struct world *w = *state;
    origin_open(w);
    for (int i = 0; i < 2; i++) {
        ask_for_tunnel(w);
        say(w, TUNNEL);
        relay(w);
        check_answered(w);
        raw_close(&w->peer);
        http_client_free(w->client);
        w->client = NULL;
    }
}

/* It breaks in the moment in which all of the answer is there: what has been answered is not asked
 * for again. */
static void test_a_connection_that_breaks_behind_an_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer origin;
    origin_open(w);
    ask_for_tunnel(w);
    say(w, TUNNEL);
    raw_connect(&origin, http_server_address(w->origin));
    relay_through(w, &origin, "");
    check_answered(w);
    assert_true(ask_begin(w));
    assert_int_equal(http_exchange_send_end(w->ask.x), 0);
    relay_through(w, &origin, "no record of TLS");
    assert_int_equal(w->ask.status, 200);
    assert_int_equal(http_client_stats(w->client)->repeated, 0);
    raw_close(&origin);
}

static void check_failed(struct world *w, int code, const char *words)
{
    char proxy[64];
    (void)snprintf(proxy, sizeof proxy, "the proxy http://127.0.0.1:%u", w->port);
    run_until(w->loop, &w->ask.closed);
    assert_true(w->ask.failed);
    assert_false(w->ask.sent);
    if (strstr(w->ask.error.msg, words) == NULL || strstr(w->ask.error.msg, proxy) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, w->ask.error.msg);
    }
    assert_int_equal(w->ask.error.code, code);
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    assert_int_equal(http_client_stats(w->client)->failed, 1);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    assert_non_null(strstr(http_client_unreachable(w->client), words));
}

static void test_answers_that_are_no_tunnel(void **state)
{
    static const struct {
        const char *answer;
        int code;
        const char *words;
    } rows[] = {
        {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 4\r\n\r\nbody",
         UV_ECONNREFUSED,
         " refused the connection to " ORIGIN ":6443: 407 Proxy Authentication Required"},
        {"HTTP/1.1 502 \r\n\r\n", UV_ECONNREFUSED, ORIGIN ":6443: 502 Bad Gateway"},
        {"HTTP/1.1 403 No such host\r\n\r\n", UV_ECONNREFUSED, ORIGIN ":6443: 403 No such host"},
        {"HTTP/1.1 300 Multiple Choices\r\n\r\n", UV_ECONNREFUSED, ": 300 Multiple Choices"},
        {"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", UV_ECONNREFUSED, ": 302 Found"},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
         UV_ECONNREFUSED, ": 101 Switching Protocols"},
        {"SSH-2.0-OpenSSH\r\n\r\n", UV_EPROTO, " sent an invalid answer: "},
        {TUNNEL "early", UV_EPROTO, " sent data for which nobody has asked"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ask_for_tunnel(w);
        say(w, rows[i].answer);
        check_failed(w, rows[i].code, rows[i].words);
        raw_expect(w->loop, &w->peer, NULL);
        raw_close(&w->peer);
        http_client_free(w->client);
        w->client = NULL;
    }
}

static void test_a_proxy_that_closes(void **state)
{
    struct world *w = *state;
    ask_for_tunnel(w);
    say(w, "HTTP/1.1 200 OK\r\n");
    raw_close(&w->peer);
    check_failed(w, UV_ECONNRESET, " closed the connection instead of answering CONNECT");
}

static void test_no_proxy_is_there(void **state)
{
    struct world *w = *state;
    assert_int_equal(close(w->listener), 0);
    w->listener = raw_reserve(&w->port);
    assert_true(client_open(w, ORIGIN, NULL));
    assert_true(ask_begin(w));
    check_failed(w, UV_ECONNREFUSED, ": cannot connect to 127.0.0.1 port ");
}

static void test_a_silent_proxy(void **state)
{
    struct world *w = *state;
    ask_for_tunnel(w);
    loop_skip(w->loop, LONG_MS);
    check_failed(w, UV_ETIMEDOUT, " did not connect to " ORIGIN ":6443 in time");
}

static void test_a_proxy_may_have_all_the_time(void **state)
{
    struct world *w = *state;
    assert_true(client_open_within(w, ORIGIN, NULL, 0));
    assert_true(ask_begin(w));
    raw_accept(w->loop, w->listener, &w->peer);
    raw_expect(w->loop, &w->peer, "\r\n\r\n");
    loop_skip(w->loop, LONG_MS);
    run_for(w->loop, 20);
    assert_false(w->ask.closed);
}

static void test_an_origin_that_speaks_no_tls(void **state)
{
    struct world *w = *state;
    origin_open(w);
    ask_for_tunnel(w);
    say(w, TUNNEL);
    forget(w);
    raw_expect(w->loop, &w->peer, "\x16\x03");
    say(w, "HTTP/1.1 400 Bad Request\r\n\r\n");
    check_failed(w, UV_EPROTO, "through the proxy http://");
}

static void test_a_tunnel_that_ends_in_the_handshake(void **state)
{
    struct world *w = *state;
    origin_open(w);
    ask_for_tunnel(w);
    say(w, TUNNEL);
    forget(w);
    raw_expect(w->loop, &w->peer, "\x16\x03");
    raw_close(&w->peer);
    check_failed(w, UV_ECONNRESET, "closed the connection during the TLS handshake");
}

static void test_a_tunnel_in_which_nobody_answers(void **state)
{
    struct world *w = *state;
    origin_open(w);
    ask_for_tunnel(w);
    say(w, TUNNEL);
    forget(w);
    raw_expect(w->loop, &w->peer, "\x16\x03");
    loop_skip(w->loop, LONG_MS);
    check_failed(w, UV_ETIMEDOUT, "the TLS handshake timed out");
}

/* How far a connection gets before it is given up. */
enum phase { DIALLING, ASKING, SECURING, PHASES };

static void reach(struct world *w, enum phase phase)
{
    if (phase == DIALLING) {
        assert_true(client_open(w, ORIGIN, NULL));
        assert_true(ask_begin(w));
        return;
    }
    ask_for_tunnel(w);
    if (phase == SECURING) {
        say(w, TUNNEL);
        forget(w);
        raw_expect(w->loop, &w->peer, "\x16\x03");
    }
}

static void test_a_client_is_freed_in_each_phase(void **state)
{
    struct world *w = *state;
    origin_open(w);
    for (enum phase phase = DIALLING; phase < PHASES; phase++) {
        reach(w, phase);
        http_client_free(w->client);
        w->client = NULL;
        assert_true(w->ask.closed && w->ask.failed && !w->ask.sent);
        if (phase == DIALLING) {
            raw_accept(w->loop, w->listener, &w->peer);
        }
        raw_expect(w->loop, &w->peer, NULL);
        raw_close(&w->peer);
    }
}

static void test_a_request_is_aborted_in_each_phase(void **state)
{
    struct world *w = *state;
    origin_open(w);
    for (enum phase phase = DIALLING; phase < PHASES; phase++) {
        reach(w, phase);
        http_exchange_abort(w->ask.x);
        assert_int_equal(http_client_stats(w->client)->open, 0);
        if (phase == DIALLING) {
            raw_accept(w->loop, w->listener, &w->peer);
        }
        raw_expect(w->loop, &w->peer, NULL);
        raw_close(&w->peer);
        http_client_free(w->client);
        w->client = NULL;
    }
}

/* ---- memory ---- */

/* The proxy answers what comes until the request is over. */
static void serve_as_proxy(struct world *w)
{
    raw_accept(w->loop, w->listener, &w->peer);
    for (int turn = 0; turn < 4000 && !w->ask.closed && strstr(w->peer.text, "\r\n\r\n") == NULL;
         turn++) {
        run_for(w->loop, 1);
        raw_read(&w->peer);
    }
    if (!w->ask.closed) {
        say(w, "HTTP/1.1 200 Connection established\r\nA: b\r\nC: ");
        run_for(w->loop, 20);
        say(w, "d\r\n\r\n");
        relay(w);
    }
    if (w->peer.fd >= 0) {
        raw_close(&w->peer);
    }
}

static bool play(void *data)
{
    struct world *w = data;
    bool well = false;
    if (client_open(w, ORIGIN, "Basic dXNlcjpwYXNz") && ask_begin(w)) {
        serve_as_proxy(w);
        well = !w->ask.failed;
        assert_null(strstr(w->ask.error.msg, "invalid answer"));
    }
    sweep_left = -1;
    http_client_free(w->client);
    w->client = NULL;
    run_for(w->loop, 5); /* what is closing is gone before the next one */
    return well;
}

static void test_every_allocation_fails_once(void **state)
{
    struct world *w = *state;
    origin_open(w);
    assert_true(sweep_allocations(play, w) > 10);
}

#define PROXY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROXY_TEST(test_a_tunnel_is_asked_for_once),
        PROXY_TEST(test_addresses_of_ipv6_are_in_brackets),
        PROXY_TEST(test_tls_is_spoken_with_the_origin),
        PROXY_TEST(test_a_connection_that_breaks_behind_an_answer),
        PROXY_TEST(test_answers_that_are_no_tunnel),
        PROXY_TEST(test_a_proxy_that_closes),
        PROXY_TEST(test_no_proxy_is_there),
        PROXY_TEST(test_a_silent_proxy),
        PROXY_TEST(test_a_proxy_may_have_all_the_time),
        PROXY_TEST(test_an_origin_that_speaks_no_tls),
        PROXY_TEST(test_a_tunnel_that_ends_in_the_handshake),
        PROXY_TEST(test_a_tunnel_in_which_nobody_answers),
        PROXY_TEST(test_a_client_is_freed_in_each_phase),
        PROXY_TEST(test_a_request_is_aborted_in_each_phase),
        PROXY_TEST(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
