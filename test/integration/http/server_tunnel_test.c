/* SPDX-License-Identifier: Apache-2.0 */
/* The server as a proxy: absolute targets, and the tunnels of CONNECT. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server.h"
#include "raw_peer.h"

enum { LONG_MS = 60000, BLOCK = 64 * 1024, KERNEL_BYTES = 64 * 1024 };

#define CONNECT "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"
#define OPENED "HTTP/1.1 200 OK\r\n\r\n"

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct http_exchange *x; /* the last one, until it is over */
    unsigned answer;         /* what is answered inside of on_request; 0: nothing */
    unsigned requests;
    char target[64];
    bool connect;
    bool count_only; /* nothing is kept of what comes */
    char text[4096]; /* what came */
    size_t received;
    unsigned ends;
    unsigned closes;
    bool closed;
    bool failed;
    bool drained;
};

static void on_body(struct http_exchange *x, struct slice data)
{
    struct world *w = x->data;
    assert_true(w->ends == 0);
    if (!w->count_only) {
        assert_true(w->received + data.len < sizeof w->text);
        memcpy(w->text + w->received, data.ptr, data.len);
        w->text[w->received + data.len] = '\0';
    }
    w->received += data.len;
}

static void on_end(struct http_exchange *x)
{
    struct world *w = x->data;
    w->ends++;
}

static void on_drain(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct world *w = x->data;
    w->closes++;
    w->closed = true;
    w->failed = e != NULL;
    w->x = NULL;
}

static const struct http_exchange_handlers handlers = {
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_close = on_close,
};

static void open_tunnel(struct world *w)
{
    const struct http_head head = {.status = 200, .framing = HTTP_BODY_CHUNKED};
    assert_int_equal(http_exchange_send_head(w->x, &head), 0);
}

static void answer(struct world *w, unsigned status)
{
    assert_int_equal(http_respond(w->x, status, SLICE("text/plain"), SLICE("said"), NULL, 0), 0);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    x->handlers = &handlers;
    x->data = w;
    w->x = x;
    w->requests++;
    w->connect = head->connect;
    w->ends = 0;
    w->received = 0;
    w->closed = false;
    (void)snprintf(w->target, sizeof w->target, "%.*s", (int)head->target.len, head->target.ptr);
    if (w->answer == 200 && head->connect) {
        open_tunnel(w);
    } else if (w->answer != 0) {
        answer(w, w->answer);
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    assert_int_equal(buf_printf(body, "refused %u: %s", status, why), 0);
}

static void on_drained(void *data)
{
    struct world *w = data;
    w->drained = true;
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
    .on_drained = on_drained,
};

static struct http_server *serve(struct world *w, bool proxy)
{
    struct err e = ERR_INIT;
    const struct http_server_options o = {
        .address = "127.0.0.1:0",
        .head_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .max_connections = 32,
        .kernel_bytes = KERNEL_BYTES,
        .proxy = proxy,
    };
    struct http_server *s = http_server_new(w->loop, &o, &server_handlers, w, &e);
    assert_non_null(s);
    return s;
}

static int setup(void **state)
{
    static struct world w;
    w = (struct world){0};
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    w.server = serve(&w, true);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    http_server_free(w->server);
    return loop_teardown((void **)&w->loop);
}

/* Runs the loop until so many bytes have come in all. */
static void receive(struct world *w, size_t count)
{
    for (int turn = 0; turn < 20000 && w->received < count; turn++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->received, count);
}

static void wait_for_requests(struct world *w, unsigned count)
{
    for (int turn = 0; turn < 20000 && w->requests < count; turn++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->requests, count);
}

static void wait_for_ends(struct world *w)
{
    for (int turn = 0; turn < 20000 && w->ends == 0; turn++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->ends, 1);
}

static void ask(struct world *w, struct raw_peer *p, const char *text)
{
    unsigned before = w->requests;
    raw_connect(p, http_server_address(w->server));
    raw_send(p, text, strlen(text));
    wait_for_requests(w, before + 1);
}

static void ask_and_open(struct world *w, struct raw_peer *p)
{
    ask(w, p, CONNECT);
    open_tunnel(w);
    raw_expect(w->loop, p, OPENED);
    assert_string_equal(p->text, OPENED);
}

static void send_text(struct world *w, const char *text)
{
    assert_int_equal(http_exchange_send_body(w->x, slice_str(text)), 0);
}

/* How the connection ended for the peer: 0 in order, ECONNRESET. */
static int end_of(struct world *w, struct raw_peer *p)
{
    for (int turn = 0; turn < 20000; turn++) {
        ssize_t n = recv(p->fd, p->text, sizeof p->text, 0);
        if (n == 0) {
            return 0;
        }
        if (n < 0 && errno != EAGAIN) {
            return errno;
        }
        run_for(w->loop, 1);
    }
    return -1;
}

static void test_absolute_targets(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->answer = 200;
    ask(w, &p, "GET http://a.test/b?c HTTP/1.1\r\nHost: a.test\r\n\r\n");
    raw_expect(w->loop, &p, "said");
    assert_string_equal(w->target, "http://a.test/b?c");
    assert_false(w->connect);
    raw_send(&p, "GET /d HTTP/1.1\r\nHost: a.test\r\n\r\n", 33);
    wait_for_requests(w, 2);
    assert_string_equal(w->target, "/d");
    raw_close(&p);
}

static void test_only_of_a_proxy(void **state)
{
    struct world *w = *state;
    static const char *const requests[] = {"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", CONNECT};
    static struct raw_peer p;
    http_server_free(w->server);
    w->server = serve(w, false);
    for (size_t i = 0; i < 2; i++) {
        raw_connect(&p, http_server_address(w->server));
        raw_send(&p, requests[i], strlen(requests[i]));
        raw_expect(w->loop, &p, "HTTP/1.1 400 Bad Request\r\n");
        raw_expect(w->loop, &p, NULL);
        raw_close(&p);
    }
    assert_int_equal(w->requests, 0);
}

static void test_opens_and_ends(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask_and_open(w, &p);
    assert_string_equal(w->target, "a.test:443");
    assert_true(w->connect);
    assert_int_equal(w->ends, 0);
    raw_send(&p, CONNECT, strlen(CONNECT));
    receive(w, strlen(CONNECT));
    assert_string_equal(w->text, CONNECT);
    assert_int_equal(w->requests, 1);
    send_text(w, "HTTP/1.1 ");
    send_text(w, "raw");
    raw_expect(w->loop, &p, OPENED "HTTP/1.1 raw");
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    wait_for_ends(w);
    assert_int_equal(http_exchange_send_end(w->x), 0);
    raw_expect(w->loop, &p, NULL);
    run_until(w->loop, &w->closed);
    assert_false(w->failed);
    assert_string_equal(p.text, OPENED "HTTP/1.1 raw");
    raw_close(&p);
}

static void test_any_success_opens(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    const struct http_header header = {SLICE("Via"), SLICE("x")};
    const struct http_head head = {.status = 204,
                                   .headers = &header,
                                   .header_count = 1,
                                   .framing = HTTP_BODY_LENGTH,
                                   .content_length = 7};
    ask(w, &p, "CONNECT a:1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_int_equal(http_exchange_send_head(w->x, &head), 0);
    send_text(w, "more than 7 bytes");
    raw_expect(w->loop, &p, "bytes");
    assert_string_equal(p.text, "HTTP/1.1 204 No Content\r\nVia: x\r\n\r\nmore than 7 bytes");
    raw_send(&p, "raw", 3);
    receive(w, 3);
    raw_close(&p);
}

/* A TLS hello that does not wait for the answer, here one that looks like a request. */
static void test_bytes_before_the_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask(w, &p, CONNECT "GET / HTTP/1.1\r\n\r\n");
    raw_send(&p, "more", 4);
    run_for(w->loop, 20);
    assert_int_equal(w->received, 0);
    open_tunnel(w);
    assert_int_equal(w->received, 0); /* nothing is told inside of it */
    receive(w, 22);
    assert_string_equal(w->text, "GET / HTTP/1.1\r\n\r\nmore");
    assert_int_equal(w->requests, 1);
    assert_int_equal(w->ends, 0);
    raw_close(&p);
}

static void test_bytes_and_the_end_before_the_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask(w, &p, CONNECT "all");
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    run_for(w->loop, 20);
    open_tunnel(w);
    wait_for_ends(w);
    assert_string_equal(w->text, "all");
    send_text(w, "answer");
    assert_int_equal(http_exchange_send_end(w->x), 0);
    raw_expect(w->loop, &p, OPENED "answer");
    run_until(w->loop, &w->closed);
    assert_false(w->failed);
    raw_close(&p);
}

static void test_answered_at_once(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->answer = 200;
    ask(w, &p, CONNECT "raw");
    receive(w, 3);
    raw_expect(w->loop, &p, OPENED);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    wait_for_ends(w);
    raw_close(&p);
}

/* What waits is bounded, and nothing of it is lost. */
static void test_many_bytes_before_the_answer(void **state)
{
    enum { ENOUGH = 64 * 1024 * 1024 };
    struct world *w = *state;
    static struct raw_peer p;
    static const char block[BLOCK];
    size_t sent = 0;
    w->count_only = true;
    ask(w, &p, CONNECT);
    for (int idle = 0; idle < 50 && sent < ENOUGH;) {
        ssize_t n = send(p.fd, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        run_for(w->loop, 1);
    }
    assert_in_range(sent, BLOCK, ENOUGH - 1);
    assert_false(w->closed);
    open_tunnel(w);
    receive(w, sent);
    raw_close(&p);
}

static void test_half_closed_by_the_client(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask_and_open(w, &p);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    wait_for_ends(w);
    send_text(w, "still ");
    raw_expect(w->loop, &p, OPENED "still ");
    send_text(w, "here");
    assert_int_equal(http_exchange_send_end(w->x), 0);
    raw_expect(w->loop, &p, OPENED "still here");
    raw_expect(w->loop, &p, NULL);
    run_until(w->loop, &w->closed);
    assert_false(w->failed);
    raw_close(&p);
}

static void test_half_closed_by_the_server(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask_and_open(w, &p);
    send_text(w, "last");
    assert_int_equal(http_exchange_send_end(w->x), 0);
    raw_expect(w->loop, &p, OPENED "last");
    raw_expect(w->loop, &p, NULL);
    raw_send(&p, "still here", 10);
    receive(w, 10);
    assert_false(w->closed);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    run_until(w->loop, &w->closed);
    assert_int_equal(w->ends, 1);
    assert_false(w->failed);
    raw_close(&p);
}

static void test_pauses(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask(w, &p, CONNECT "one");
    http_exchange_pause(w->x);
    open_tunnel(w);
    run_for(w->loop, 20);
    assert_int_equal(w->received, 0);
    http_exchange_resume(w->x);
    receive(w, 3);
    http_exchange_pause(w->x);
    raw_send(&p, "two", 3);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    run_for(w->loop, 20);
    assert_int_equal(w->received, 3);
    assert_int_equal(w->ends, 0);
    send_text(w, "meanwhile");
    raw_expect(w->loop, &p, "meanwhile");
    http_exchange_resume(w->x);
    wait_for_ends(w);
    assert_string_equal(w->text, "onetwo");
    raw_close(&p);
}

/* The client reads nothing for longer than an answer may wait, and then all. */
static void test_may_stall(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static const char block[BLOCK];
    size_t sent = 0;
    size_t got = 0;
    ask_and_open(w, &p);
    while (!http_exchange_blocked(w->x)) {
        assert_int_equal(http_exchange_send_body(w->x, slice_of(block, sizeof block)), 0);
        sent += sizeof block;
        run_for(w->loop, 1);
    }
    loop_skip(w->loop, 10 * (uint64_t)LONG_MS);
    run_for(w->loop, 100);
    assert_false(w->closed);
    for (int turn = 0; turn < 20000 && got < sent; turn++) {
        p.len = 0;
        raw_read(&p);
        got += p.len;
        run_for(w->loop, 1);
    }
    assert_int_equal(got, sent);
    raw_close(&p);
}

/* What stands behind it must not become a request. */
static void check_refused(struct world *w, unsigned at_once, const char *request)
{
    static struct raw_peer p;
    w->answer = at_once;
    ask(w, &p, request);
    raw_send(&p, "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", 35);
    run_for(w->loop, 20);
    if (at_once == 0) {
        assert_false(w->closed);
        answer(w, 403);
    }
    raw_expect(w->loop, &p, NULL);
    assert_non_null(strstr(p.text, "HTTP/1.1 403 "));
    assert_non_null(strstr(p.text, "Connection: close\r\n"));
    assert_string_equal(p.text + p.len - 8, "\r\n\r\nsaid");
    assert_true(w->closed);
    assert_false(w->failed);
    assert_int_equal(w->received, 0);
    raw_close(&p);
}

static void test_a_refusal_ends_the_connection(void **state)
{
    struct world *w = *state;
    check_refused(w, 0, CONNECT);
    check_refused(w, 403, CONNECT);
    check_refused(w, 0, CONNECT CONNECT);
    check_refused(w, 0, CONNECT "\x16\x03\x01");
    check_refused(w, 403, CONNECT "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    check_refused(w, 0, "CONNECT a:1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_int_equal(w->requests, 6);
}

static void test_bodies_are_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 52);
    raw_expect(w->loop, &p, "HTTP/1.1 400 Bad Request\r\n");
    raw_expect(w->loop, &p, NULL);
    assert_int_equal(w->requests, 0);
    raw_close(&p);
}

static void test_behind_other_requests(void **state)
{
    struct world *w = *state;
    static const char both[] = "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n" CONNECT "raw";
    static struct raw_peer p;
    w->answer = 200;
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, both, sizeof both - 1);
    wait_for_requests(w, 2);
    receive(w, 3);
    raw_expect(w->loop, &p, "said" OPENED);
    raw_close(&p);
}

static void test_the_client_leaves_before_the_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask(w, &p, CONNECT);
    raw_close(&p);
    run_until(w->loop, &w->closed);
    assert_true(w->failed);
    assert_int_equal(w->ends, 0);
}

static void test_the_client_breaks_off(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    ask_and_open(w, &p);
    assert_int_equal(setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    raw_close(&p);
    run_until(w->loop, &w->closed);
    assert_true(w->failed);
    assert_int_equal(w->ends, 0);
}

static void test_is_aborted_before_the_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask(w, &p, CONNECT "raw");
    http_exchange_abort(w->x);
    raw_expect(w->loop, &p, NULL);
    assert_int_equal(p.len, 0);
    assert_int_equal(w->closes, 0);
    raw_close(&p);
}

/* A tunnel that is cut off must not look like one that has ended. */
static void test_is_aborted_open(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask_and_open(w, &p);
    http_exchange_abort(w->x);
    assert_int_equal(end_of(w, &p), ECONNRESET);
    raw_close(&p);

    ask_and_open(w, &p);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    wait_for_ends(w);
    http_exchange_abort(w->x);
    assert_int_equal(end_of(w, &p), ECONNRESET);
    raw_close(&p);
    assert_int_equal(w->closes, 0);
}

static void test_is_aborted_after_its_end(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask_and_open(w, &p);
    assert_int_equal(http_exchange_send_end(w->x), 0);
    run_for(w->loop, 5);
    http_exchange_abort(w->x);
    assert_int_equal(end_of(w, &p), 0);
    assert_int_equal(w->closes, 0);
    raw_close(&p);
}

static void test_drain(void **state)
{
    struct world *w = *state;
    static struct raw_peer idle;
    static struct raw_peer p;
    raw_connect(&idle, http_server_address(w->server));
    ask_and_open(w, &p);
    http_server_drain(w->server);
    raw_expect(w->loop, &idle, NULL);
    raw_send(&p, "still", 5);
    receive(w, 5);
    send_text(w, "here");
    raw_expect(w->loop, &p, OPENED "here");
    assert_false(w->drained);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    wait_for_ends(w);
    run_for(w->loop, 20);
    assert_false(w->drained);
    assert_int_equal(http_exchange_send_end(w->x), 0);
    run_until(w->loop, &w->drained);
    assert_true(w->closed);
    assert_false(w->failed);
    raw_close(&idle);
    raw_close(&p);
}

/* It was asked for before, and is opened as any other. */
static void test_drain_before_the_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    ask(w, &p, CONNECT "raw");
    http_server_drain(w->server);
    run_for(w->loop, 20);
    assert_false(w->drained);
    open_tunnel(w);
    receive(w, 3);
    raw_expect(w->loop, &p, OPENED);
    assert_string_equal(p.text, OPENED);
    assert_int_equal(http_exchange_send_end(w->x), 0);
    raw_close(&p);
    run_until(w->loop, &w->drained);
}

static void test_the_server_goes(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct raw_peer other;
    ask_and_open(w, &p);
    ask(w, &other, CONNECT);
    http_server_free(w->server);
    w->server = NULL;
    assert_int_equal(w->closes, 2);
    assert_true(w->failed);
    raw_expect(w->loop, &p, NULL);
    raw_expect(w->loop, &other, NULL);
    raw_close(&p);
    raw_close(&other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_absolute_targets),
        TEST(test_only_of_a_proxy),
        TEST(test_opens_and_ends),
        TEST(test_any_success_opens),
        TEST(test_bytes_before_the_answer),
        TEST(test_bytes_and_the_end_before_the_answer),
        TEST(test_answered_at_once),
        TEST(test_many_bytes_before_the_answer),
        TEST(test_half_closed_by_the_client),
        TEST(test_half_closed_by_the_server),
        TEST(test_pauses),
        TEST(test_may_stall),
        TEST(test_a_refusal_ends_the_connection),
        TEST(test_bodies_are_refused),
        TEST(test_behind_other_requests),
        TEST(test_the_client_leaves_before_the_answer),
        TEST(test_the_client_breaks_off),
        TEST(test_is_aborted_before_the_answer),
        TEST(test_is_aborted_open),
        TEST(test_is_aborted_after_its_end),
        TEST(test_drain),
        TEST(test_drain_before_the_answer),
        TEST(test_the_server_goes),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
