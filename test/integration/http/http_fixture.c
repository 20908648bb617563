/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

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
    struct world *w = x->data;
    if (w->behaviour == ANSWER_LARGE) { /* a tunnel drains, too */
        send_large(w);
    }
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
    for (uint64_t until = uv_hrtime() + w->work_ns; uv_hrtime() < until;) {
    }
    buf_clear(&w->echo);
    (void)snprintf(w->last_target, sizeof w->last_target, "%.*s", (int)head->target.len,
                   head->target.ptr);
    switch (w->behaviour) {
    case ANSWER_AT_ONCE:
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), SLICE("hello"), NULL, 0), 0);
        break;
    case ANSWER_PAGE: {
        static char page[PAGE];
        memset(page, 'x', sizeof page);
        struct slice body = slice_of(page, sizeof page);
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), body, NULL, 0), 0);
        break;
    }
    case ANSWER_NO:
        x->last = true;
        assert_int_equal(http_respond(x, 401, SLICE("text/plain"), SLICE("who?"), NULL, 0), 0);
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

const struct http_exchange_handlers ask_handlers = {
    .on_head = ask_head,
    .on_body = ask_body,
    .on_end = ask_end,
    .on_drain = ask_drain,
    .on_close = ask_close,
};

void ask_begin(struct world *w, struct ask *a, const char *method, enum http_framing framing,
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
        .guarded = w->guarded,
    };
    memset(a, 0, sizeof *a);
    a->keep_body = true;
    buf_init(&a->body, 1024 * 1024);
    a->x = http_client_request(w->client, &head, &ask_handlers, a, &e);
    assert_non_null(a->x);
    assert_false(a->headed || a->closed);
}

void ask_get(struct world *w, struct ask *a)
{
    ask_begin(w, a, "GET", HTTP_BODY_NONE, 0, false);
    if (!http_exchange_blocked(a->x)) {
        assert_int_equal(http_exchange_send_end(a->x), 0);
    }
}

/* Runs until the answer is over; sends the (empty) rest of the request when it can be sent. */
void ask_finish(struct world *w, struct ask *a)
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

void ask_all(struct world *w, struct ask *a)
{
    ask_get(w, a);
    ask_finish(w, a);
}

void ask_expect_body(struct ask *a, const char *text)
{
    assert_int_equal(a->body.len, strlen(text));
    assert_memory_equal(buf_data(&a->body), text, strlen(text));
    buf_reset(&a->body);
}

/* ---- set-up ---- */

struct http_client *world_client(struct world *w, unsigned port)
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

struct http_server *world_server(struct world *w, struct tls_config *tls, uint64_t head_timeout_ms)
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

struct http_server *world_crowded_server(struct world *w)
{
    struct err e = ERR_INIT;
    struct http_server_options so = {
        .address = "127.0.0.1:0",
        .head_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .max_connections = 4,
        .replace_silent = true,
        .kernel_bytes = KERNEL_BYTES,
    };
    return http_server_new(w->loop, &so, &server_handlers, w, &e);
}

int world_setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    buf_init(&w.echo, 1024 * 1024);
    w.server = world_server(&w, NULL, LONG_MS);
    if (w.server == NULL) {
        return -1;
    }
    w.client = world_client(&w, (unsigned)atoi(strrchr(http_server_address(w.server), ':') + 1));
    *state = &w;
    return 0;
}

int world_teardown(void **state)
{
    struct world *w = *state;
    http_client_free(w->client);
    http_server_free(w->server);
    buf_reset(&w->echo);
    return loop_teardown((void **)&w->loop);
}

void ask_wait_open(struct world *w, struct ask *a)
{
    if (http_exchange_blocked(a->x)) {
        run_until(w->loop, &a->drained);
    }
}
