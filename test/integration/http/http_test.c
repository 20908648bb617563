/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certs.h"
#include "http/client.h"
#include "http/server.h"
#include "loop_fixture.h"
#include "raw_peer.h"

/* What the server under test does with the next requests. */
enum behaviour {
    ANSWER_AT_ONCE,
    ANSWER_AT_END,  /* echoes the request's body */
    ANSWER_CHUNKED, /* two chunks and no end until told */
    ANSWER_LARGE,   /* LARGE bytes with back-pressure */
    ANSWER_NEVER,
    ANSWER_UPGRADE,
};

/* More than the kernel keeps of one connection, however much it gave it after an earlier answer. */
enum { LARGE = 48 * 1024 * 1024, LONG_MS = 60000 };

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct http_client *client;
    enum behaviour behaviour;
    struct http_exchange *serving; /* the exchange the server is at */
    struct buf echo;
    size_t large_left;
    unsigned requests;
    unsigned server_closed;
    struct err server_error;
    bool server_broke; /* on_close with an error */
    bool drained;
    bool drain_on_close;
    char last_target[256];
    bool background; /* what is asked next */
    bool unhurried;  /* what is answered next */
};

/* One request of the client under test. */
struct ask {
    struct http_exchange *x;
    unsigned status;
    struct buf body;
    size_t received;
    bool keep_body;
    bool headed;
    bool ended;
    bool drained;
    bool closed;
    bool failed;
    bool sent; /* when it had failed */
    struct err error;
    char type[64];
};

/* ---- the server's user ---- */

static void send_large(struct world *w)
{
    static const char block[16 * 1024];
    while (w->large_left > 0 && !http_exchange_blocked(w->serving)) {
        size_t n = w->large_left < sizeof block ? w->large_left : sizeof block;
        assert_int_equal(http_exchange_send_body(w->serving, slice_of(block, n)), 0);
        w->large_left -= n;
    }
    if (w->large_left == 0) {
        assert_int_equal(http_exchange_send_end(w->serving), 0);
    }
}

static void serve_body(struct http_exchange *x, struct slice data)
{
    struct world *w = x->data;
    if (w->behaviour == ANSWER_UPGRADE) {
        assert_int_equal(http_exchange_send_body(x, data), 0);
    } else {
        assert_int_equal(buf_append(&w->echo, data.ptr, data.len), 0);
    }
}

static void serve_end(struct http_exchange *x)
{
    struct world *w = x->data;
    if (w->behaviour == ANSWER_AT_END) {
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), buf_slice(&w->echo), NULL, 0),
                         0);
    } else if (w->behaviour == ANSWER_UPGRADE) {
        assert_int_equal(http_exchange_send_end(x), 0); /* the tunnel's end */
    }
}

static void serve_drain(struct http_exchange *x)
{
    send_large(x->data);
}

static void serve_close(struct http_exchange *x, const struct err *e)
{
    struct world *w = x->data;
    w->server_closed++;
    w->server_broke = w->server_broke || e != NULL;
    w->serving = NULL;
    if (w->drain_on_close) {
        http_server_drain(w->server);
    }
}

static const struct http_exchange_handlers serve_handlers = {
    .on_body = serve_body,
    .on_end = serve_end,
    .on_drain = serve_drain,
    .on_close = serve_close,
};

static void send_head(struct http_exchange *x, unsigned status, enum http_framing framing,
                      uint64_t length)
{
    struct http_header headers[] = {{SLICE("Upgrade"), SLICE("echo")}};
    struct http_head head = {
        .status = status,
        .headers = headers,
        .header_count = status == 101 ? 1 : 0,
        .framing = framing,
        .content_length = length,
        .unhurried = ((struct world *)x->data)->unhurried,
    };
    assert_int_equal(http_exchange_send_head(x, &head), 0);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    x->handlers = &serve_handlers;
    x->data = w;
    w->serving = x;
    w->requests++;
    buf_clear(&w->echo);
    (void)snprintf(w->last_target, sizeof w->last_target, "%.*s", (int)head->target.len,
                   head->target.ptr);
    switch (w->behaviour) {
    case ANSWER_AT_ONCE:
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), SLICE("hello"), NULL, 0), 0);
        break;
    case ANSWER_CHUNKED:
        send_head(x, 200, HTTP_BODY_CHUNKED, 0);
        assert_int_equal(http_exchange_send_body(x, SLICE("one ")), 0);
        assert_int_equal(http_exchange_send_body(x, SLICE("two")), 0);
        break;
    case ANSWER_LARGE:
        send_head(x, 200, HTTP_BODY_CHUNKED, 0);
        w->large_left = LARGE;
        send_large(w);
        break;
    case ANSWER_UPGRADE:
        assert_true(head->upgrade);
        send_head(x, 101, HTTP_BODY_NONE, 0);
        break;
    case ANSWER_AT_END:
    case ANSWER_NEVER:
        break;
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

/* ---- the client's user ---- */

static void ask_head(struct http_exchange *x, const struct http_head *head)
{
    struct ask *a = x->data;
    const struct http_header *type = http_head_find(head, SLICE("Content-Type"));
    assert_false(a->headed);
    a->headed = true;
    a->status = head->status;
    if (type != NULL) {
        (void)snprintf(a->type, sizeof a->type, "%.*s", (int)type->value.len, type->value.ptr);
    }
}

static void ask_body(struct http_exchange *x, struct slice data)
{
    struct ask *a = x->data;
    assert_true(a->headed);
    a->received += data.len;
    if (a->keep_body) {
        assert_int_equal(buf_append(&a->body, data.ptr, data.len), 0);
    }
}

static void ask_end(struct http_exchange *x)
{
    struct ask *a = x->data;
    a->ended = true;
}

static void ask_drain(struct http_exchange *x)
{
    struct ask *a = x->data;
    a->drained = true;
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
    .on_end = ask_end,
    .on_drain = ask_drain,
    .on_close = ask_close,
};

static void ask_begin(struct world *w, struct ask *a, const char *method, enum http_framing framing,
                      uint64_t length, bool upgrade)
{
    struct err e = ERR_INIT;
    struct http_header headers[] = {{SLICE("Host"), SLICE("test")},
                                    {SLICE("Upgrade"), SLICE("echo")}};
    struct http_head head = {
        .method = slice_str(method),
        .target = SLICE("/path"),
        .headers = headers,
        .header_count = upgrade ? 2 : 1,
        .framing = framing,
        .content_length = length,
        .upgrade = upgrade,
        .background = w->background,
    };
    memset(a, 0, sizeof *a);
    a->keep_body = true;
    buf_init(&a->body, 1024 * 1024);
    a->x = http_client_request(w->client, &head, &ask_handlers, a, &e);
    assert_non_null(a->x);
    assert_false(a->headed || a->closed);
}

static void ask_get(struct world *w, struct ask *a)
{
    ask_begin(w, a, "GET", HTTP_BODY_NONE, 0, false);
    if (!http_exchange_blocked(a->x)) {
        assert_int_equal(http_exchange_send_end(a->x), 0);
    }
}

/* Runs until the answer is over; sends the (empty) rest of the request when it can be sent. */
static void ask_finish(struct world *w, struct ask *a)
{
    bool sent = a->x != NULL && !http_exchange_blocked(a->x);
    for (int turn = 0; turn < 4000 && !a->closed; turn++) {
        if (!sent && a->drained && a->x != NULL) {
            sent = true;
            assert_int_equal(http_exchange_send_end(a->x), 0);
        }
        run_for(w->loop, sent ? 2 : 1);
    }
    assert_true(a->closed);
}

static void get(struct world *w, struct ask *a)
{
    ask_get(w, a);
    ask_finish(w, a);
}

static void check_body(struct ask *a, const char *text)
{
    assert_int_equal(a->body.len, strlen(text));
    assert_memory_equal(buf_data(&a->body), text, strlen(text));
    buf_reset(&a->body);
}

/* ---- set-up ---- */

static struct http_client *new_client(struct world *w, unsigned port)
{
    struct err e = ERR_INIT;
    struct http_client_options co = {
        .host = "127.0.0.1",
        .port = port,
        .connect_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .max_idle = 4,
    };
    struct http_client *c = http_client_new(w->loop, &co, &e);
    assert_non_null(c);
    return c;
}

static struct http_server *new_server(struct world *w, struct tls_config *tls,
                                      uint64_t head_timeout_ms)
{
    struct err e = ERR_INIT;
    struct http_server_options so = {
        .address = "127.0.0.1:0",
        .tls = tls,
        .head_timeout_ms = head_timeout_ms,
        .idle_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .max_connections = 32,
    };
    return http_server_new(w->loop, &so, &server_handlers, w, &e);
}

static int setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    buf_init(&w.echo, 1024 * 1024);
    w.server = new_server(&w, NULL, LONG_MS);
    if (w.server == NULL) {
        return -1;
    }
    w.client = new_client(&w, (unsigned)atoi(strrchr(http_server_address(w.server), ':') + 1));
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    http_client_free(w->client);
    http_server_free(w->server);
    buf_reset(&w->echo);
    return loop_teardown((void **)&w->loop);
}

/* ---- tests ---- */

static void test_get(void **state)
{
    struct world *w = *state;
    static struct ask a;
    get(w, &a);
    assert_false(a.failed);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.type, "text/plain");
    assert_string_equal(w->last_target, "/path");
    check_body(&a, "hello");
}

static void test_connections_are_reused(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 20; i++) {
        static struct ask a;
        get(w, &a);
        assert_false(a.failed);
        check_body(&a, "hello");
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    assert_int_equal(http_client_stats(w->client)->requests, 20);
    assert_int_equal(w->server_closed, 20);
    assert_false(w->server_broke);
}

static void test_idle_connections_are_bounded(void **state)
{
    struct world *w = *state;
    static struct ask a[7];
    for (int i = 0; i < 7; i++) {
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 7; i++) {
        ask_finish(w, &a[i]);
        check_body(&a[i], "hello");
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 7);
    assert_int_equal(http_client_stats(w->client)->idle, 4);
    assert_int_equal(http_client_stats(w->client)->open, 4);
}

static void send_when_open(struct world *w, struct ask *a)
{
    if (http_exchange_blocked(a->x)) {
        run_until(w->loop, &a->drained);
    }
}

static void test_post_with_length(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_AT_END;
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 6, false);
    send_when_open(w, &a);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("abc")), 0);
    assert_int_equal(http_exchange_send_end(a.x), UV_EPROTO); /* three are missing */
    assert_int_equal(http_exchange_send_body(a.x, SLICE("def")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("x")), UV_EPROTO);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    check_body(&a, "abcdef");
}

static void test_post_chunked(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_AT_END;
    ask_begin(w, &a, "POST", HTTP_BODY_CHUNKED, 0, false);
    send_when_open(w, &a);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("abc")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("")), 0); /* must not end the message */
    assert_int_equal(http_exchange_send_body(a.x, SLICE("0123456789abcdefg")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    check_body(&a, "abc0123456789abcdefg");
}

static void test_head_has_no_body(void **state)
{
    struct world *w = *state;
    static struct ask a;
    ask_begin(w, &a, "HEAD", HTTP_BODY_NONE, 0, false);
    ask_finish(w, &a);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.received, 0);
    get(w, &a); /* the connection is still in step */
    check_body(&a, "hello");
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
}

static void test_bodies_arrive_before_the_end(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_CHUNKED;
    ask_get(w, &a);
    for (int i = 0; i < 1000 && a.received < 7; i++) {
        if (a.drained) {
            a.drained = false;
            assert_int_equal(http_exchange_send_end(a.x), 0);
        }
        run_for(w->loop, 1);
    }
    assert_int_equal(a.received, 7);
    assert_false(a.ended);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    check_body(&a, "one two");
}

static void test_a_paused_client_blocks_the_server(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_LARGE;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    a.keep_body = false;
    send_when_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    http_exchange_pause(a.x);
    run_for(w->loop, 100);
    size_t before = a.received;
    run_for(w->loop, 100);
    assert_int_equal(a.received, before);
    assert_true(w->large_left > 0); /* the server could not send all */
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.received, LARGE);
}

/* Asks for a large answer, and reads none of it for more than a minute. */
static void stall(struct world *w, struct ask *a)
{
    ask_begin(w, a, "GET", HTTP_BODY_NONE, 0, false);
    a->keep_body = false;
    send_when_open(w, a);
    assert_int_equal(http_exchange_send_end(a->x), 0);
    run_until(w->loop, &a->headed);
    http_exchange_pause(a->x);
    run_for(w->loop, 100);
    assert_true(w->large_left > 0);
    loop_skip(w->loop, LONG_MS);
    run_for(w->loop, 300);
}

static void test_a_reader_may_take_its_time_where_it_is_given(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_LARGE;
    w->unhurried = true;
    stall(w, &a);
    assert_int_equal(w->server_closed, 0);
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.received, LARGE);
    w->unhurried = false;
    stall(w, &a); /* on the same connection */
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    assert_true(w->server_broke);
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
}

static void test_an_aborted_request_ends_the_servers(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_NEVER;
    ask_get(w, &a);
    send_when_open(w, &a);
    run_for(w->loop, 20);
    assert_non_null(w->serving);
    http_exchange_abort(a.x);
    for (int i = 0; i < 1000 && w->server_closed == 0; i++) {
        run_for(w->loop, 2);
    }
    assert_true(w->server_broke);
    assert_false(a.closed); /* abort is silent */
}

static void test_an_aborted_answer_is_an_error(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_CHUNKED;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    send_when_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    http_exchange_abort(w->serving);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
    assert_false(a.ended);
    buf_reset(&a.body);
}

static void test_a_refused_connection_closes_the_request(void **state)
{
    struct world *w = *state;
    static struct ask a;
    unsigned port;
    int fd = raw_reserve(&port);
    struct http_client *good = w->client;
    w->client = new_client(w, port);
    ask_get(w, &a);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ECONNREFUSED);
    assert_false(a.sent);
    assert_int_equal(http_client_stats(w->client)->failed, 1);
    http_client_free(w->client);
    w->client = good;
    assert_int_equal(close(fd), 0);
}

static void test_many_requests_at_once_wait_for_connections(void **state)
{
    struct world *w = *state;
    static struct ask a[7 + 12];
    for (int i = 0; i < 19; i++) {
        ask_get(w, &a[i]);
    }
    http_exchange_abort(a[18].x); /* one that still waits */
    for (int i = 0; i < 18; i++) {
        ask_finish(w, &a[i]);
        assert_false(a[i].failed);
        check_body(&a[i], "hello");
    }
    assert_false(a[18].closed);
    assert_int_equal(w->server_closed, 18);
    assert_in_range(http_client_stats(w->client)->dialled, 8, 18);
}

static void test_patient_requests_wait_behind_others(void **state)
{
    struct world *w = *state;
    static struct ask patient[30];
    static struct ask others[12];
    w->background = true;
    for (int i = 0; i < 30; i++) {
        ask_get(w, &patient[i]);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 6); /* two are left to others */
    w->background = false;
    for (int i = 0; i < 12; i++) {
        ask_get(w, &others[i]);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 8);
    run_until(w->loop, &others[11].drained);
    unsigned opened = 0;
    for (int i = 0; i < 30; i++) {
        opened += patient[i].drained ? 1 : 0;
    }
    assert_in_range(opened, 0, 20);
    http_exchange_abort(patient[29].x); /* one that still waits */
    for (int i = 0; i < 29; i++) {
        ask_finish(w, &patient[i]);
        check_body(&patient[i], "hello");
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &others[i]);
        check_body(&others[i], "hello");
    }
}

static void test_requests_that_wait_fail_with_the_dial(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    unsigned port;
    int fd = raw_reserve(&port);
    struct http_client *good = w->client;
    w->client = new_client(w, port);
    for (int i = 0; i < 12; i++) {
        w->background = i % 2 == 0;
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &a[i]);
        assert_int_equal(a[i].error.code, UV_ECONNREFUSED);
        assert_false(a[i].sent);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 8);
    assert_non_null(strstr(http_client_unreachable(w->client), "refused"));
    run_for(w->loop, 20);
    ask_get(w, &a[0]);
    ask_finish(w, &a[0]);
    assert_in_range(http_client_failing_ms(w->client), 20, 60000); /* since the first time */
    loop_skip(w->loop, LONG_MS + 6000); /* which says nothing of a failure later on */
    run_for(w->loop, 10);
    assert_int_equal(http_client_failing_ms(w->client), 0);
    ask_get(w, &a[0]);
    ask_finish(w, &a[0]);
    assert_in_range(http_client_failing_ms(w->client), 0, 10000);
    http_client_free(w->client);
    w->client = good;
    assert_int_equal(close(fd), 0);
}

/* From now on the client dials a port that the test has, and that nobody listens on yet. */
static int reserve_server(struct world *w)
{
    unsigned port;
    int fd = raw_reserve(&port);
    http_client_free(w->client);
    w->client = new_client(w, port);
    return fd;
}

/* One of several servers behind the address refuses, others have not answered yet. */
static void test_one_failed_dial_fails_one_request(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    int fd = reserve_server(w);
    ask_get(w, &a[0]); /* the kernel decides at once */
    raw_fill(fd);
    for (int i = 1; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    run_until(w->loop, &a[0].closed);
    assert_int_equal(a[0].error.code, UV_ECONNREFUSED);
    assert_int_equal(listen(fd, 16), 0);
    run_until(w->loop, &a[11].drained);
    for (int i = 1; i < 12; i++) {
        assert_true(a[i].drained && !a[i].closed);
    }
    assert_int_equal(http_client_stats(w->client)->failed, 1);
    assert_null(http_client_unreachable(w->client)); /* since others could be opened */
    assert_int_equal(http_client_failing_ms(w->client), 0);
    assert_int_equal(close(fd), 0);
}

/* No other connection can be opened, and yet the server is there. */
static void test_who_answers_can_be_reached(void **state)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct world *w = *state;
    static struct raw_peer server;
    static struct ask a[2];
    int fd = reserve_server(w);
    assert_int_equal(listen(fd, 16), 0);
    ask_get(w, &a[0]);
    raw_accept(w->loop, fd, &server);
    raw_expect(w->loop, &server, "\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    ask_get(w, &a[1]);
    ask_finish(w, &a[1]);
    assert_non_null(http_client_unreachable(w->client));
    run_for(w->loop, 20);
    raw_send(&server, answer, strlen(answer));
    ask_finish(w, &a[0]);
    assert_null(http_client_unreachable(w->client));
    assert_in_range(http_client_failing_ms(w->client), 20, 60000); /* no less for that */
    raw_close(&server);
    assert_int_equal(close(fd), 0);
}

/* All that are tried at the end fail, but one was opened while they were. */
static void test_what_waits_goes_on_when_one_dial_succeeded(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    int fd = reserve_server(w);
    assert_int_equal(listen(fd, 16), 0);
    ask_get(w, &a[0]);
    assert_int_equal(listen(fd, 0), 0); /* that one fills the queue */
    for (int i = 1; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    run_until(w->loop, &a[0].drained);
    assert_int_equal(http_client_stats(w->client)->dialled, 9);
    loop_skip(w->loop, LONG_MS);
    run_until(w->loop, &a[8].closed);
    assert_int_equal(a[8].error.code, UV_ETIMEDOUT);
    assert_int_equal(listen(fd, 16), 0);
    run_until(w->loop, &a[11].drained);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(a[i].closed, i >= 1 && i <= 8);
    }
    assert_int_equal(close(fd), 0);
}

/* While it is not known whether there is a server, more is not tried; if nobody waits for what is
 * tried any more, it is. */
static void test_what_waits_is_dialled_for_when_all_others_are_aborted(void **state)
{
    struct world *w = *state;
    static struct ask a[9];
    int fd = reserve_server(w);
    ask_get(w, &a[0]);
    raw_fill(fd);
    for (int i = 1; i < 9; i++) {
        ask_get(w, &a[i]);
    }
    run_until(w->loop, &a[0].closed);
    run_for(w->loop, 20);
    assert_int_equal(http_client_stats(w->client)->dialled, 8);
    assert_false(a[8].closed);
    for (int i = 1; i < 8; i++) {
        http_exchange_abort(a[i].x);
    }
    run_for(w->loop, 20);
    assert_int_equal(http_client_stats(w->client)->dialled, 9);
    assert_false(a[8].closed);
    http_exchange_abort(a[8].x);
    assert_int_equal(close(fd), 0);
}

/* An authority of its own, a server's config with a certificate of it, a client's that trusts it.
 */
static void make_tls(struct tls_config **server, struct tls_config **client)
{
    struct certs_pair ca;
    struct certs_pair cert;
    struct err e = ERR_INIT;
    const char *const ips[] = {"127.0.0.1", NULL};
    certs_make_ca("CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.ips = ips}, &cert);
    struct tls_server_options so = {.cert = slice_str(cert.cert), .key = slice_str(cert.key)};
    struct tls_client_options co = {.ca = slice_str(ca.cert), .server_name = "127.0.0.1"};
    *server = tls_config_new_server(&so, &e);
    *client = tls_config_new_client(&co, &e);
    assert_true(*server != NULL && *client != NULL);
    certs_free(&ca);
    certs_free(&cert);
}

static void use_client(struct world *w, struct tls_config *tls)
{
    http_client_free(w->client);
    w->client = new_client(w, (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1));
    http_client_set_tls(w->client, tls);
}

static void use_tls(struct world *w)
{
    struct tls_config *server_tls;
    struct tls_config *client_tls;
    make_tls(&server_tls, &client_tls);
    http_server_free(w->server);
    w->server = new_server(w, server_tls, LONG_MS);
    use_client(w, client_tls);
    tls_config_unref(server_tls);
    tls_config_unref(client_tls);
}

/* Of many connections opened at once over TLS, one pays for the full handshake. */
static void test_tls_connections_resume_the_first_session(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    use_tls(w);
    w->behaviour = ANSWER_AT_END; /* none is done before all are sent */
    for (int i = 0; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &a[i]);
        assert_false(a[i].failed);
    }
    const struct http_client_stats *stats = http_client_stats(w->client);
    assert_true(stats->dialled > 1);
    assert_int_equal(stats->resumed, stats->dialled - 1);
}

/* A session of other settings is no reason to believe that these allow many. */
static void test_new_tls_settings_are_tried_by_one_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[4];
    struct tls_config *server_tls;
    struct tls_config *client_tls;
    make_tls(&server_tls, &client_tls);
    http_server_free(w->server);
    w->server = new_server(w, server_tls, LONG_MS);
    use_client(w, client_tls);
    get(w, &a[3]);
    check_body(&a[3], "hello");

    http_client_set_tls(w->client, client_tls);
    for (int i = 0; i < 3; i++) {
        ask_get(w, &a[i]);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 2);
    for (int i = 0; i < 3; i++) {
        ask_finish(w, &a[i]);
        check_body(&a[i], "hello");
    }
    tls_config_unref(server_tls);
    tls_config_unref(client_tls);
}

static void test_a_new_certificate_leaves_open_connections_alone(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct tls_config *server[2];
    struct tls_config *client[2];
    make_tls(&server[0], &client[0]);
    make_tls(&server[1], &client[1]);
    http_server_free(w->server);
    w->server = new_server(w, server[0], LONG_MS);
    use_client(w, client[0]);
    get(w, &a);
    check_body(&a, "hello");

    http_server_set_tls(w->server, server[1]);
    get(w, &a);
    check_body(&a, "hello");
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    use_client(w, client[0]);
    get(w, &a);
    assert_int_equal(a.error.code, -EACCES);
    use_client(w, client[1]);
    get(w, &a);
    check_body(&a, "hello");
    for (int i = 0; i < 2; i++) {
        tls_config_unref(server[i]);
        tls_config_unref(client[i]);
    }
}

static void test_upgrade_becomes_a_tunnel(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_UPGRADE;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, true);
    send_when_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    assert_int_equal(a.status, 101);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("GET / HTTP/1.1\r\n\r\n\r\nraw")), 0);
    for (int i = 0; i < 1000 && a.received < 23; i++) {
        run_for(w->loop, 2);
    }
    assert_int_equal(a.received, 23);
    assert_false(a.ended);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    check_body(&a, "GET / HTTP/1.1\r\n\r\n\r\nraw");
    for (int i = 0; i < 1000 && w->server_closed == 0; i++) {
        run_for(w->loop, 2);
    }
    assert_false(w->server_broke);
}

/* `exec -i` into what does not read for a while. */
static void test_a_tunnel_may_stall(void **state)
{
    struct world *w = *state;
    static const char block[64 * 1024];
    static struct ask a;
    struct err e = ERR_INIT;
    struct http_client_options co = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1),
        .connect_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .user_timeout_ms = 1000,
    };
    http_client_free(w->client);
    w->client = http_client_new(w->loop, &co, &e);
    assert_non_null(w->client);
    w->behaviour = ANSWER_UPGRADE;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, true);
    a.keep_body = false;
    send_when_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    http_exchange_pause(w->serving);
    size_t sent = 0;
    while (!http_exchange_blocked(a.x)) {
        assert_int_equal(http_exchange_send_body(a.x, slice_of(block, sizeof block)), 0);
        sent += sizeof block;
        run_for(w->loop, 1);
    }
    run_for(w->loop, 3000); /* TCP's user timeout is not the test's to move */
    loop_skip(w->loop, LONG_MS);
    run_for(w->loop, 300);
    assert_false(a.closed);
    http_exchange_resume(w->serving);
    for (int i = 0; i < 10000 && a.received < sent; i++) {
        run_for(w->loop, 2);
    }
    assert_int_equal(a.received, sent);
    http_exchange_abort(a.x);
}

static void raw_exchange(struct world *w, struct raw_peer *p, const char *request,
                         const char *expected)
{
    raw_connect(p, http_server_address(w->server));
    raw_send(p, request, strlen(request));
    raw_expect(w->loop, p, expected);
}

static void test_garbage_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    raw_exchange(w, &p, "\x16\x03\x01 nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n");
    assert_non_null(strstr(p.text, "Connection: close\r\n"));
    raw_expect(w->loop, &p, "refused 400: ");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->requests, 0);
    assert_int_equal(http_server_stats(w->server)->refused, 1);
}

/* What the user of the request before had is gone: nobody may be told a second time. */
static void test_garbage_after_an_answer_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst", "first");
    assert_int_equal(w->server_closed, 1);
    raw_send(&p, "garbage\r\n\r\n", 11);
    raw_expect(w->loop, &p, "HTTP/1.1 400 Bad Request\r\n");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->server_closed, 1);
    assert_false(w->server_broke);
}

static void test_a_bad_body_ends_the_request(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                 "HTTP/1.1 400 Bad Request\r\n");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_true(w->server_broke);
    assert_int_equal(w->server_closed, 1);
}

static void test_a_huge_head_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static char head[80 * 1024];
    memset(head, 'a', sizeof head);
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, "GET / HTTP/1.1\r\nHost: a\r\nX: ", 28);
    raw_send(&p, head, sizeof head);
    raw_expect(w->loop, &p, "HTTP/1.1 431 ");
    raw_close(&p);
}

static void test_a_slow_head_is_closed(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    http_server_free(w->server);
    w->server = new_server(w, NULL, 300);
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, "GET / HT", 8);
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->requests, 0);
}

static void test_pipelined_requests_are_answered_in_order(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p,
                 "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst"
                 "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond"
                 "POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nthird",
                 "third");
    char *first = strstr(p.text, "\r\n\r\nfirst");
    char *second = strstr(p.text, "\r\n\r\nsecond");
    assert_non_null(first);
    assert_true(second > first);
    raw_close(&p);
}

static void test_expect_continue(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p,
                 "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
                 "HTTP/1.1 100 Continue\r\n\r\n");
    raw_send(&p, "hi", 2);
    raw_expect(w->loop, &p, "\r\n\r\nhi");
    raw_close(&p);
}

static void test_http_1_0_gets_no_chunks(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.0\r\n\r\n", "one two");
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    raw_expect(w->loop, &p, NULL);
    assert_null(strstr(p.text, "chunked"));
    assert_non_null(strstr(p.text, "\r\n\r\none two"));
    raw_close(&p);
}

/* Nothing but the way in which the connection ends tells it from a whole one. */
static void test_http_1_0_is_told_of_an_aborted_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    char byte;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.0\r\n\r\n", "one two");
    http_exchange_abort(w->serving);
    struct pollfd closed = {.fd = p.fd, .events = POLLIN};
    for (int i = 0; i < 1000 && poll(&closed, 1, 0) == 0; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(recv(p.fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, ECONNRESET);
    raw_close(&p);
}

static void test_connection_close_is_honoured(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    raw_exchange(w, &p, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "hello");
    raw_expect(w->loop, &p, NULL);
    assert_non_null(strstr(p.text, "Connection: close\r\n"));
    raw_close(&p);
}

static void test_too_many_connections_are_closed(void **state)
{
    struct world *w = *state;
    static struct raw_peer p[33];
    for (int i = 0; i < 33; i++) {
        raw_connect(&p[i], http_server_address(w->server));
    }
    raw_expect(w->loop, &p[32], NULL);
    raw_send(&p[0], "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    raw_expect(w->loop, &p[0], "hello");
    for (int i = 0; i < 33; i++) {
        raw_close(&p[i]);
    }
}

static void test_drain_finishes_what_runs(void **state)
{
    struct world *w = *state;
    static struct raw_peer busy;
    static struct raw_peer idle;
    w->behaviour = ANSWER_CHUNKED;
    raw_connect(&idle, http_server_address(w->server));
    raw_exchange(w, &busy, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "two");
    http_server_drain(w->server);
    raw_expect(w->loop, &idle, NULL);
    assert_false(w->drained);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    run_until(w->loop, &w->drained);
    raw_expect(w->loop, &busy, "\r\n0\r\n\r\n");
    raw_expect(w->loop, &busy, NULL);
    raw_close(&busy);
    raw_close(&idle);
}

/* Not even one that does not close its own side. */
static void test_drain_waits_for_no_idle_client(void **state)
{
    struct world *w = *state;
    static struct raw_peer idle;
    raw_connect(&idle, http_server_address(w->server));
    run_for(w->loop, 10);
    http_server_drain(w->server);
    run_until(w->loop, &w->drained);
    raw_expect(w->loop, &idle, NULL);
    run_for(w->loop, 20); /* far less than a stream may wait for its peer */
    assert_int_equal(w->loop->streams, 0);
    raw_close(&idle);
}

/* The answer is complete, but has not left yet. */
static void test_drain_delivers_what_is_queued(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->drain_on_close = true;
    get(w, &a);
    assert_false(a.failed);
    check_body(&a, "hello");
    assert_true(w->drained);
}

static void test_freeing_the_server_ends_exchanges(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "two");
    http_server_free(w->server);
    w->server = NULL;
    assert_true(w->server_broke);
    raw_expect(w->loop, &p, NULL);
    assert_null(strstr(p.text, "\r\n0\r\n\r\n")); /* cut off, not ended */
    raw_close(&p);
}

/* A scripted server: takes a connection by hand, and the head of a request on it. */
static void accept_request(struct world *w, int fd, struct raw_peer *p)
{
    raw_accept(w->loop, fd, p);
    raw_expect(w->loop, p, "\r\n\r\n");
}

static const char ok_answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* From now on the client asks a server that the test plays: connections come in at the result. */
static int play_server(struct world *w)
{
    unsigned port;
    int fd = raw_listen(&port);
    http_client_free(w->client);
    w->client = new_client(w, port);
    return fd;
}

/* A first request has `answer`; the server's end of its connection is `p`. */
static void first_request(struct world *w, int fd, struct raw_peer *p, const char *answer)
{
    static struct ask first;
    ask_get(w, &first);
    send_when_open(w, &first);
    assert_int_equal(http_exchange_send_end(first.x), 0);
    accept_request(w, fd, p);
    raw_send(p, answer, strlen(answer));
    run_until(w->loop, &first.closed);
    assert_false(first.failed);
    check_body(&first, "ok");
    p->len = 0;
}

/* A first request puts a connection into the pool, which the server then closes as soon as the next
 * request has reached it, and it has said `last`. */
static void stale_connection(struct world *w, const char *method, bool upgrade, struct ask *second,
                             int fd, const char *last)
{
    static struct raw_peer p;
    first_request(w, fd, &p, ok_answer);
    ask_begin(w, second, method, HTTP_BODY_NONE, 0, upgrade);
    assert_false(http_exchange_blocked(second->x));
    assert_int_equal(http_exchange_send_end(second->x), 0);
    raw_expect(w->loop, &p, "\r\n\r\n");
    raw_send(&p, last, strlen(last));
    raw_close(&p);
}

static void test_a_get_is_repeated_on_a_new_connection(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    stale_connection(w, "GET", false, &a, fd, "");
    raw_accept(w->loop, fd, &p);
    run_until(w->loop, &a.drained);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    raw_expect(w->loop, &p, "\r\n\r\n");
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    check_body(&a, "ok");
    assert_int_equal(http_client_stats(w->client)->repeated, 1);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

/* The server is gone, and with it what it has read. */
static void test_what_would_be_repeated_is_not_sent(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    ask_get(w, &a);
    raw_expect(w->loop, &p, "\r\n\r\n");
    assert_true(http_client_sent(a.x));
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    raw_close(&p);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ECONNREFUSED);
    assert_false(a.sent);
    assert_int_equal(http_client_stats(w->client)->repeated, 1);
    assert_int_equal(close(fd), 0);
}

static void check_failed_for_good(struct world *w, struct ask *a, int fd)
{
    run_until(w->loop, &a->closed);
    assert_true(a->failed);
    run_for(w->loop, 50);
    assert_int_equal(accept4(fd, NULL, NULL, SOCK_NONBLOCK), -1);
    assert_int_equal(http_client_stats(w->client)->repeated, 0);
    assert_int_equal(close(fd), 0);
}

static void check_not_repeated(struct world *w, const char *method, bool upgrade, const char *last)
{
    static struct ask a;
    int fd = play_server(w);
    stale_connection(w, method, upgrade, &a, fd, last);
    check_failed_for_good(w, &a, fd);
}

static void test_a_post_is_not_repeated(void **state)
{
    check_not_repeated(*state, "POST", false, "");
}

static void test_a_get_that_was_answered_in_part_is_not_repeated(void **state)
{
    check_not_repeated(*state, "GET", false, "HTTP/1.1 2");
}

static void test_an_upgrade_is_not_repeated(void **state)
{
    check_not_repeated(*state, "GET", true, "");
}

/* The body is not there any more. */
static void test_a_get_with_a_body_is_not_repeated(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    ask_begin(w, &a, "GET", HTTP_BODY_LENGTH, 4, false);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("body")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    raw_expect(w->loop, &p, "\r\n\r\nbody");
    raw_close(&p);
    check_failed_for_good(w, &a, fd);
}

/* The loop has not seen yet that the server closed; a POST must not find out. */
static void test_a_post_asks_whether_the_connection_is_closed(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    raw_close(&p);
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    assert_int_equal(http_client_stats(w->client)->dialled, 2);
    accept_request(w, fd, &p);
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    check_body(&a, "ok");
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

/* A GET need not: it can be repeated, which is rarer than asking. */
static void test_a_get_does_not_ask(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    raw_close(&p);
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    accept_request(w, fd, &p);
    assert_int_equal(http_client_stats(w->client)->repeated, 1);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

/* A success before those that are tried now is no reason to go on. */
static void test_requests_that_wait_fail_though_one_succeeded_before(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a[12];
    int fd = play_server(w);
    first_request(w, fd, &p, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    raw_close(&p);
    assert_int_equal(close(fd), 0);
    for (int i = 0; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &a[i]);
        assert_int_equal(a[i].error.code, UV_ECONNREFUSED);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 1 + 8);
}

/* What has been answered so leaves no connection behind. */
static void check_not_kept(struct world *w, const char *answer)
{
    static struct raw_peer p;
    int fd = play_server(w);
    first_request(w, fd, &p, answer);
    assert_int_equal(http_client_stats(w->client)->idle, 0);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_a_server_may_close_after_its_answer(void **state)
{
    check_not_kept(*state, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
}

/* With TLS the end of the connection may come in one piece with the answer's. */
static void test_a_server_may_close_together_with_its_answer(void **state)
{
    struct world *w = *state;
    static struct ask a;
    use_tls(w);
    w->behaviour = ANSWER_CHUNKED;
    ask_get(w, &a);
    run_until(w->loop, &a.headed);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    http_server_drain(w->server);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    check_body(&a, "one two");
    assert_int_equal(http_client_stats(w->client)->open, 0);
}

static void test_bytes_behind_an_answer_end_the_connection(void **state)
{
    check_not_kept(*state, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n");
}

static void test_new_tls_settings_end_connections_in_use(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_get(w, &a);
    accept_request(w, fd, &p);
    http_client_set_tls(w->client, NULL);
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_until(w->loop, &a.closed);
    check_body(&a, "ok");
    assert_int_equal(http_client_stats(w->client)->open, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_a_protocol_nobody_asked_for_is_an_error(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    static const char answer[] =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    ask_get(w, &a);
    raw_expect(w->loop, &p, "\r\n\r\n");
    raw_send(&p, answer, strlen(answer));
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, -HTTP_PARSE_BAD);
    assert_true(a.sent);
    assert_false(a.headed);
    assert_int_equal(http_client_stats(w->client)->repeated, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_a_request_may_be_paused_before_it_is_sent(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_get(w, &a);
    http_exchange_pause(a.x);
    accept_request(w, fd, &p);
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_for(w->loop, 50);
    assert_false(a.headed);
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    check_body(&a, "ok");
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_an_early_answer_is_delivered(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 1000000, false);
    accept_request(w, fd, &p);
    static const char answer[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig";
    raw_send(&p, answer, strlen(answer));
    run_until(w->loop, &a.closed);
    assert_int_equal(a.status, 413);
    check_body(&a, "big");
    assert_int_equal(http_client_stats(w->client)->open, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_an_answer_that_is_not_http_is_an_error(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_get(w, &a);
    accept_request(w, fd, &p);
    raw_send(&p, "SSH-2.0-OpenSSH\r\n\r\n", 19);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_freeing_the_client_ends_requests_in_each_phase(void **state)
{
    struct world *w = *state;
    static struct ask dialling;
    static struct ask waiting;
    w->behaviour = ANSWER_NEVER;
    ask_get(w, &waiting);
    send_when_open(w, &waiting);
    assert_int_equal(http_exchange_send_end(waiting.x), 0);
    run_for(w->loop, 20);
    ask_get(w, &dialling);
    http_client_free(w->client);
    w->client = NULL;
    assert_true(waiting.closed && waiting.failed);
    assert_true(dialling.closed && dialling.failed);
}

int main(void)
{
#define HTTP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        HTTP_TEST(test_get),
        HTTP_TEST(test_connections_are_reused),
        HTTP_TEST(test_idle_connections_are_bounded),
        HTTP_TEST(test_post_with_length),
        HTTP_TEST(test_post_chunked),
        HTTP_TEST(test_head_has_no_body),
        HTTP_TEST(test_bodies_arrive_before_the_end),
        HTTP_TEST(test_a_paused_client_blocks_the_server),
        HTTP_TEST(test_a_reader_may_take_its_time_where_it_is_given),
        HTTP_TEST(test_a_tunnel_may_stall),
        HTTP_TEST(test_an_aborted_request_ends_the_servers),
        HTTP_TEST(test_an_aborted_answer_is_an_error),
        HTTP_TEST(test_a_refused_connection_closes_the_request),
        HTTP_TEST(test_many_requests_at_once_wait_for_connections),
        HTTP_TEST(test_patient_requests_wait_behind_others),
        HTTP_TEST(test_requests_that_wait_fail_with_the_dial),
        HTTP_TEST(test_one_failed_dial_fails_one_request),
        HTTP_TEST(test_who_answers_can_be_reached),
        HTTP_TEST(test_what_waits_goes_on_when_one_dial_succeeded),
        HTTP_TEST(test_what_waits_is_dialled_for_when_all_others_are_aborted),
        HTTP_TEST(test_tls_connections_resume_the_first_session),
        HTTP_TEST(test_new_tls_settings_are_tried_by_one_connection),
        HTTP_TEST(test_a_new_certificate_leaves_open_connections_alone),
        HTTP_TEST(test_upgrade_becomes_a_tunnel),
        HTTP_TEST(test_garbage_is_refused),
        HTTP_TEST(test_garbage_after_an_answer_is_refused),
        HTTP_TEST(test_a_bad_body_ends_the_request),
        HTTP_TEST(test_a_huge_head_is_refused),
        HTTP_TEST(test_a_slow_head_is_closed),
        HTTP_TEST(test_pipelined_requests_are_answered_in_order),
        HTTP_TEST(test_expect_continue),
        HTTP_TEST(test_http_1_0_gets_no_chunks),
        HTTP_TEST(test_http_1_0_is_told_of_an_aborted_answer),
        HTTP_TEST(test_connection_close_is_honoured),
        HTTP_TEST(test_too_many_connections_are_closed),
        HTTP_TEST(test_drain_finishes_what_runs),
        HTTP_TEST(test_drain_waits_for_no_idle_client),
        HTTP_TEST(test_drain_delivers_what_is_queued),
        HTTP_TEST(test_freeing_the_server_ends_exchanges),
        HTTP_TEST(test_a_get_is_repeated_on_a_new_connection),
        HTTP_TEST(test_what_would_be_repeated_is_not_sent),
        HTTP_TEST(test_a_post_is_not_repeated),
        HTTP_TEST(test_a_get_that_was_answered_in_part_is_not_repeated),
        HTTP_TEST(test_an_upgrade_is_not_repeated),
        HTTP_TEST(test_a_get_with_a_body_is_not_repeated),
        HTTP_TEST(test_a_post_asks_whether_the_connection_is_closed),
        HTTP_TEST(test_a_get_does_not_ask),
        HTTP_TEST(test_requests_that_wait_fail_though_one_succeeded_before),
        HTTP_TEST(test_a_server_may_close_after_its_answer),
        HTTP_TEST(test_a_server_may_close_together_with_its_answer),
        HTTP_TEST(test_bytes_behind_an_answer_end_the_connection),
        HTTP_TEST(test_new_tls_settings_end_connections_in_use),
        HTTP_TEST(test_a_protocol_nobody_asked_for_is_an_error),
        HTTP_TEST(test_a_request_may_be_paused_before_it_is_sent),
        HTTP_TEST(test_an_early_answer_is_delivered),
        HTTP_TEST(test_an_answer_that_is_not_http_is_an_error),
        HTTP_TEST(test_freeing_the_client_ends_requests_in_each_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
