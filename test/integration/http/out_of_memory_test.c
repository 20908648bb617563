/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out_of_memory_test.c - the n-th allocation of ours fails, for every n that a request needs.
 *
 * Nothing may crash, leak or hang: a request either works or ends with an error, and all handles
 * close.
 */
#include <stdlib.h>

#include "alloc_sweep.h"
#include "http/client.h"
#include "http/server.h"
#include "loop_fixture.h"

/* A POST with a body that the server echoes in chunks. */
struct scene {
    struct net_loop *loop;
    struct http_server *server;
    struct http_client *client;
    struct http_exchange *asking;
    size_t received;
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

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    (void)data;
    (void)head;
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
    if (http_exchange_send_body(s->asking, SLICE("0123456789")) != 0 ||
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
    s->worked = e == NULL && s->received == 10;
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

static void ask_once(struct scene *s)
{
    struct http_header headers[] = {{SLICE("Host"), SLICE("test")}};
    struct http_head head = {
        .method = SLICE("POST"),
        .target = SLICE("/"),
        .headers = headers,
        .header_count = 1,
        .framing = HTTP_BODY_LENGTH,
        .content_length = 10,
    };
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

/* Two requests, the second over the kept connection. True: both worked. */
static bool play(void *data)
{
    struct scene s = {.over = false};
    (void)data;
    s.loop = net_loop_new(NULL);
    if (s.loop == NULL) {
        return false;
    }
    bool both = open_scene(&s);
    if (both) {
        ask_once(&s);
        both = s.worked;
        ask_once(&s);
        both = both && s.worked;
    }
    sweep_left = -1;
    http_client_free(s.client);
    http_server_free(s.server);
    assert_int_equal(loop_free(s.loop), 0);
    return both;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    assert_true(sweep_allocations(play, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
