/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out_of_memory_test.c - the n-th allocation of ours fails, for every n that a request needs.
 *
 * Nothing may crash, leak or hang: a request either works or ends with an error, and all handles
 * close.
 */
#include <stdlib.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "h2_server.h"
#include "http/client.h"
#include "http/server.h"
#include "loop_fixture.h"

/* More than the kernel takes of an answer at once. */
#define PIECE ((size_t)2 * 1024 * 1024)
#define LARGE (12 * PIECE)

/* POST: a body that the server echoes in chunks. GET: a large answer in chunks, which begins when
 * the request is whole. */
struct scene {
    struct net_loop *loop;
    struct http_server *server; /* NULL: `h2` is */
    struct h2_server *h2;
    struct http_client *client;
    struct http_exchange *asking;
    size_t received;
    size_t expected;
    size_t served; /* of a large answer */
    bool over;
    bool worked;
};

static void serve_body(struct http_exchange *x, struct slice data)
{
    if (http_exchange_send_body(x, data) != 0) {
        http_exchange_abort(x);
    }
}

static void serve_end(struct http_exchange *x)
{
    if (http_exchange_send_end(x) != 0) {
        http_exchange_abort(x);
    }
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void ignore_close(struct http_exchange *x, const struct err *e)
{
    (void)x;
    (void)e;
}

static const struct http_exchange_handlers serve_handlers = {
    .on_body = serve_body,
    .on_end = serve_end,
    .on_drain = ignore,
    .on_close = ignore_close,
};

static void serve_pieces(struct http_exchange *x)
{
    static const char piece[PIECE];
    struct scene *s = x->data;
    int rc = 0;
    while (rc == 0 && s->served < LARGE && !http_exchange_blocked(x)) {
        s->served += PIECE;
        rc = http_exchange_send_body(x, slice_of(piece, PIECE));
        if (rc == 0 && s->served == LARGE) {
            rc = http_exchange_send_end(x);
        }
    }
    if (rc != 0) {
        http_exchange_abort(x);
    }
}

static void serve_late(struct http_exchange *x)
{
    struct http_head answer = {.status = 200, .framing = HTTP_BODY_CHUNKED};
    if (http_exchange_send_head(x, &answer) != 0) {
        http_exchange_abort(x);
        return;
    }
    serve_pieces(x);
}

static const struct http_exchange_handlers late_handlers = {
    .on_body = serve_body,
    .on_end = serve_late,
    .on_drain = serve_pieces,
    .on_close = ignore_close,
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct scene *s = data;
    if (slice_eq(head->method, SLICE("GET"))) {
        s->served = 0;
        x->data = s;
        x->handlers = &late_handlers;
        return;
    }
    struct http_head answer = {.status = 200, .framing = HTTP_BODY_CHUNKED};
    x->handlers = &serve_handlers;
    if (http_exchange_send_head(x, &answer) != 0) {
        http_exchange_abort(x);
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    if (buf_append_str(body, why) != 0) {
        buf_clear(body);
    }
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

static void ask_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
}

static void ask_body(struct http_exchange *x, struct slice data)
{
    struct scene *s = x->data;
    s->received += data.len;
}

static void send_all(struct scene *s)
{
    bool has_body = s->expected != LARGE;
    if ((has_body && http_exchange_send_body(s->asking, SLICE("0123456789")) != 0) ||
        http_exchange_send_end(s->asking) != 0) {
        http_exchange_abort(s->asking);
        s->asking = NULL;
        s->over = true;
    }
}

static void ask_drain(struct http_exchange *x)
{
    send_all(x->data);
}

static void ask_close(struct http_exchange *x, const struct err *e)
{
    struct scene *s = x->data;
    s->asking = NULL;
    s->over = true;
    s->worked = e == NULL && s->received == s->expected;
}

static const struct http_exchange_handlers ask_handlers = {
    .on_head = ask_head,
    .on_body = ask_body,
    .on_end = ignore,
    .on_drain = ask_drain,
    .on_close = ask_close,
};

static bool open_scene(struct scene *s)
{
    struct http_server_options so = {.address = "127.0.0.1:0",
                                     .head_timeout_ms = 5000,
                                     .idle_timeout_ms = 5000,
                                     .write_timeout_ms = 5000};
    struct http_client_options co = {
        .host = "127.0.0.1", .connect_timeout_ms = 5000, .idle_timeout_ms = 5000, .max_idle = 2};
    s->server = http_server_new(s->loop, &so, &server_handlers, s, NULL);
    if (s->server == NULL) {
        return false;
    }
    co.port = (unsigned)atoi(strrchr(http_server_address(s->server), ':') + 1);
    s->client = http_client_new(s->loop, &co, NULL);
    return s->client != NULL;
}

static bool open_h2_scene(struct scene *s)
{
    static struct h2_server server;
    h2_server_start(&server, s->loop);
    server.echoes = true;
    s->h2 = &server;
    struct http_client_options co = {.host = "127.0.0.1",
                                     .port = server.port,
                                     .tls = server.client,
                                     .connect_timeout_ms = 5000,
                                     .idle_timeout_ms = 5000,
                                     .max_idle = 2};
    s->client = http_client_new(s->loop, &co, NULL);
    return s->client != NULL;
}

static void ask_once(struct scene *s, size_t expected)
{
    bool large = expected == LARGE;
    struct http_header headers[] = {{SLICE("Host"), SLICE("test")}};
    struct http_head head = {
        .method = large ? SLICE("GET") : SLICE("POST"),
        .target = SLICE("/"),
        .headers = headers,
        .header_count = 1,
        .framing = large ? HTTP_BODY_NONE : HTTP_BODY_LENGTH,
        .content_length = large ? 0 : 10,
    };
    s->expected = expected;
    s->over = false;
    s->worked = false;
    s->received = 0;
    s->asking = http_client_request(s->client, &head, &ask_handlers, s, NULL);
    if (s->asking == NULL) {
        return;
    }
    if (!http_exchange_blocked(s->asking)) {
        send_all(s);
    }
    run_until(s->loop, &s->over);
}

/* Requests one after the other, over the kept connection. True: all worked. */
static bool play(void *data)
{
    struct scene s = {.over = false};
    bool (*open)(struct scene * s) = data != NULL ? open_h2_scene : open_scene;
    s.loop = net_loop_new(NULL);
    if (s.loop == NULL) {
        return false;
    }
    static const size_t answers[] = {10, LARGE, 10};
    bool all = open(&s);
    for (size_t i = 0; i < ARRAY_LEN(answers) && s.client != NULL; i++) {
        /* The server of HTTP/2 has no large answers. */
        ask_once(&s, s.h2 != NULL ? 10 : answers[i]);
        all = all && s.worked;
    }
    sweep_left = -1;
    http_client_free(s.client);
    http_server_free(s.server);
    if (s.h2 != NULL) {
        h2_server_stop(s.h2);
    }
    assert_int_equal(loop_free(s.loop), 0);
    return all;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    assert_true(sweep_allocations(play, NULL) > 20);
}

static void test_every_allocation_fails_once_over_http2(void **state)
{
    bool h2 = true;
    (void)state;
    assert_true(sweep_allocations(play, &h2) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once_over_http2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
