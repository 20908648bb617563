/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "alloc_sweep.h"
#include "certs.h"

enum { BODY_MAX = 64 * 1024 * 1024 };

static void push(struct h2_server_conn *c)
{
    const uint8_t *bytes;
    while (!c->receiving && c->stream != NULL && c->ng != NULL && !c->frozen &&
           !net_stream_blocked(c->stream)) {
        ssize_t n = nghttp2_session_mem_send(c->ng, &bytes);
        assert_true(n >= 0);
        if (n == 0) {
            break;
        }
        struct slice part = slice_of((const char *)bytes, (size_t)n);
        assert_int_equal(net_stream_write(c->stream, &part, 1), 0);
    }
}

static struct h2_request *find(nghttp2_session *ng, int32_t id)
{
    return nghttp2_session_get_stream_user_data(ng, id);
}

/* ---- what comes ---- */

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    struct h2_server_conn *c = data;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    struct h2_request *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->conn = c;
    r->id = frame->hd.stream_id;
    buf_init(&r->body, BODY_MAX);
    buf_init(&r->out, BODY_MAX);
    list_append(&c->server->requests, &r->link);
    c->server->asked++;
    c->streams++;
    assert_int_equal(nghttp2_session_set_stream_user_data(ng, r->id, r), 0);
    return 0;
}

static void copy(char *to, size_t size, const uint8_t *value, size_t len)
{
    (void)snprintf(to, size, "%.*s", (int)len, (const char *)value);
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *data)
{
    (void)flags;
    (void)data;
    struct h2_request *r = find(ng, frame->hd.stream_id);
    struct slice key = slice_of((const char *)name, name_len);
    if (r == NULL) {
        return 0;
    }
    if (slice_eq(key, SLICE(":method"))) {
        copy(r->method, sizeof r->method, value, value_len);
    } else if (slice_eq(key, SLICE(":path"))) {
        copy(r->path, sizeof r->path, value, value_len);
    } else if (slice_eq(key, SLICE(":authority"))) {
        copy(r->authority, sizeof r->authority, value, value_len);
    }
    return 0;
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
                   void *data)
{
    (void)flags;
    (void)data;
    struct h2_request *r = find(ng, id);
    if (r != NULL) {
        assert_int_equal(buf_append(&r->body, bytes, len), 0);
    }
    return 0;
}

static void answer_by_itself(struct h2_request *r)
{
    struct h2_server *s = r->conn->server;
    if (s->answers) {
        h2_answer(r, 200, "hello");
    } else if (s->echoes) {
        h2_begin(r, 200);
        h2_send(r, buf_data(&r->body), r->body.len);
        h2_end(r);
    }
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    struct h2_server_conn *c = data;
    struct h2_request *r = find(ng, frame->hd.stream_id);
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        if (r != NULL && last) {
            r->ended = true;
            answer_by_itself(r);
        }
        break;
    case NGHTTP2_RST_STREAM:
        if (r != NULL) {
            r->reset = true;
            r->reset_code = frame->rst_stream.error_code;
        }
        break;
    case NGHTTP2_PING:
        c->pings += (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0 ? 1 : 0;
        break;
    case NGHTTP2_GOAWAY:
        c->left = true;
        break;
    default:
        break;
    }
    return 0;
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *data)
{
    (void)code;
    (void)data;
    struct h2_request *r = find(ng, id);
    if (r != NULL) {
        r->gone = true;
    }
    return 0;
}

static void begin_h2(struct h2_server_conn *c)
{
    nghttp2_session_callbacks *calls;
    nghttp2_option *option;
    nghttp2_settings_entry settings[3];
    size_t count = 0;
    struct h2_server *s = c->server;
    assert_int_equal(nghttp2_session_callbacks_new(&calls), 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, s->holds_window);
    assert_int_equal(nghttp2_session_server_new2(&c->ng, calls, c, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(calls);
    if (s->max_streams != UINT32_MAX) {
        settings[count++] =
            (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, s->max_streams};
    }
    if (s->window != 0) {
        settings[count++] =
            (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, s->window};
    }
    if (s->max_head != 0) {
        settings[count++] =
            (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, s->max_head};
    }
    assert_int_equal(nghttp2_submit_settings(c->ng, NGHTTP2_FLAG_NONE, settings, count), 0);
    if (s->window != 0) { /* that of the connection must not be what holds it up */
        int rc = nghttp2_session_set_local_window_size(c->ng, NGHTTP2_FLAG_NONE, 0, INT32_MAX);
        assert_int_equal(rc, 0);
    }
}

static void read_h1(struct h2_server_conn *c, struct slice bytes)
{
    static const char plain[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain";
    static const char agreed[] =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    struct slice answer = bytes;
    if (!c->tunnel) {
        assert_int_equal(buf_append(&c->text, bytes.ptr, bytes.len), 0);
        if (strstr(buf_cstr(&c->text), "\r\n\r\n") == NULL) {
            return;
        }
        c->server->asked++;
        c->server->plain++;
        c->tunnel = strstr(buf_cstr(&c->text), "Upgrade: echo") != NULL;
        answer = slice_str(c->tunnel ? agreed : plain);
        buf_clear(&c->text);
    }
    assert_int_equal(net_stream_write(c->stream, &answer, 1), 0);
}

static void receive(struct h2_server_conn *c, struct slice bytes)
{
    const char *agreed = tls_session_alpn(net_stream_tls(c->stream));
    if (c->server->mute) {
        return;
    }
    if (agreed == NULL || strcmp(agreed, "h2") != 0) {
        read_h1(c, bytes);
        return;
    }
    if (c->ng == NULL) {
        begin_h2(c);
    }
    c->receiving = true;
    ssize_t n = nghttp2_session_mem_recv(c->ng, (const uint8_t *)bytes.ptr, bytes.len);
    c->receiving = false;
    assert_int_equal(n, bytes.len);
    push(c);
}

static void on_read(void *data, struct slice bytes)
{
    long paused = alloc_sweep_pause();
    receive(data, bytes);
    alloc_sweep_resume(paused);
}

static void on_end(void *data)
{
    struct h2_server_conn *c = data;
    c->ended = true;
    if (c->stream != NULL) {
        net_stream_close(c->stream);
        c->stream = NULL;
    }
}

static void on_error(void *data, const struct err *e)
{
    (void)e;
    on_end(data);
}

static void on_drain(void *data)
{
    long paused = alloc_sweep_pause();
    push(data);
    alloc_sweep_resume(paused);
}

static const struct net_stream_handlers stream_handlers = {
    .on_read = on_read,
    .on_eof = on_end,
    .on_drain = on_drain,
    .on_error = on_error,
};

static void on_accept(void *data, struct net_stream *stream)
{
    struct h2_server *s = data;
    long paused = alloc_sweep_pause();
    struct h2_server_conn *c = calloc(1, sizeof *c);
    alloc_sweep_resume(paused);
    assert_non_null(c);
    c->server = s;
    c->stream = stream;
    buf_init(&c->text, BODY_MAX);
    list_append(&s->conns, &c->link);
    s->accepted++;
    net_stream_set_handlers(stream, &stream_handlers, c);
    net_stream_read_start(stream);
}

/* ---- the server ---- */

static void make_tls(struct h2_server *s)
{
    static const char *const both[] = {"h2", "http/1.1", NULL};
    static const char *const h1[] = {"http/1.1", NULL};
    struct certs_pair ca;
    struct certs_pair cert;
    struct err e = ERR_INIT;
    const char *const ips[] = {"127.0.0.1", NULL};
    certs_make_ca("CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.ips = ips}, &cert);
    struct tls_server_options so = {
        .cert = slice_str(cert.cert), .key = slice_str(cert.key), .alpn = both};
    struct tls_client_options co = {
        .ca = slice_str(ca.cert), .server_name = "127.0.0.1", .alpn = both};
    s->tls = tls_config_new_server(&so, &e);
    s->client = tls_config_new_client(&co, &e);
    so.alpn = h1;
    co.alpn = NULL;
    s->tls_h1 = tls_config_new_server(&so, &e);
    s->client_h1 = tls_config_new_client(&co, &e);
    assert_true(s->tls != NULL && s->client != NULL && s->tls_h1 != NULL && s->client_h1 != NULL);
    certs_free(&ca);
    certs_free(&cert);
}

void h2_server_start(struct h2_server *s, struct net_loop *l)
{
    struct err e = ERR_INIT;
    long paused = alloc_sweep_pause();
    *s = (struct h2_server){.loop = l, .max_streams = UINT32_MAX};
    list_init(&s->conns);
    list_init(&s->requests);
    make_tls(s);
    struct net_listener_options o = {.address = "127.0.0.1:0", .tls = s->tls};
    s->listener = net_listener_new(l, &o, on_accept, s, &e);
    assert_non_null(s->listener);
    s->port = (unsigned)atoi(strrchr(net_listener_address(s->listener), ':') + 1);
    alloc_sweep_resume(paused);
}

void h2_server_close(struct h2_server *s)
{
    net_listener_close(s->listener);
    s->listener = NULL;
}

void h2_server_offer(struct h2_server *s, bool h2)
{
    net_listener_set_tls(s->listener, h2 ? s->tls : s->tls_h1);
}

void h2_server_stop(struct h2_server *s)
{
    h2_server_close(s);
    while (!list_empty(&s->conns)) {
        struct h2_server_conn *c = LIST_ITEM(s->conns.next, struct h2_server_conn, link);
        list_remove(&c->link);
        on_end(c);
        nghttp2_session_del(c->ng);
        buf_reset(&c->text);
        free(c);
    }
    while (!list_empty(&s->requests)) {
        struct h2_request *r = LIST_ITEM(s->requests.next, struct h2_request, link);
        list_remove(&r->link);
        buf_reset(&r->body);
        buf_reset(&r->out);
        free(r);
    }
    tls_config_unref(s->tls);
    tls_config_unref(s->tls_h1);
    tls_config_unref(s->client);
    tls_config_unref(s->client_h1);
}

static void run_for_count(struct h2_server *s, const unsigned *count, unsigned wanted)
{
    for (int i = 0; i < 10000 && *count < wanted; i++) {
        run_for(s->loop, 1);
    }
    assert_true(*count >= wanted);
}

static struct list *nth(struct list *head, unsigned n)
{
    struct list *node = head->next;
    while (n-- > 0) {
        node = node->next;
    }
    return node;
}

struct h2_server_conn *h2_conn(struct h2_server *s, unsigned n)
{
    run_for_count(s, &s->accepted, n + 1);
    return LIST_ITEM(nth(&s->conns, n), struct h2_server_conn, link);
}

struct h2_request *h2_request(struct h2_server *s, unsigned n)
{
    run_for_count(s, &s->asked, n + 1);
    return LIST_ITEM(nth(&s->requests, n), struct h2_request, link);
}

void h2_expect_requests(struct h2_server *s, unsigned count)
{
    run_for_count(s, &s->asked, count);
}

/* ---- answers ---- */

static ssize_t read_out(nghttp2_session *ng, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
                        nghttp2_data_source *source, void *data)
{
    (void)ng;
    (void)id;
    (void)data;
    struct h2_request *r = source->ptr;
    size_t n = r->out.len < len ? r->out.len : len;
    if (n == 0 && !r->out_ended) {
        r->out_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(to, buf_data(&r->out), n);
        buf_consume(&r->out, n);
        r->taken += n;
    }
    if (r->out.len == 0 && r->out_ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

void h2_begin(struct h2_request *r, unsigned status)
{
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%u", status);
    nghttp2_nv head[] = {
        {(uint8_t *)":status", (uint8_t *)digits, 7, strlen(digits), NGHTTP2_NV_FLAG_NONE},
        {(uint8_t *)"content-type", (uint8_t *)"text/plain", 12, 10, NGHTTP2_NV_FLAG_NONE},
    };
    nghttp2_data_provider body = {.source = {.ptr = r}, .read_callback = read_out};
    assert_int_equal(nghttp2_submit_response(r->conn->ng, r->id, head, 2, &body), 0);
    r->out_begun = true;
    push(r->conn);
}

static void go_on(struct h2_request *r)
{
    if (r->out_deferred && !r->gone) {
        r->out_deferred = false;
        assert_int_equal(nghttp2_session_resume_data(r->conn->ng, r->id), 0);
    }
    push(r->conn);
}

void h2_send(struct h2_request *r, const void *bytes, size_t len)
{
    assert_int_equal(buf_append(&r->out, bytes, len), 0);
    go_on(r);
}

void h2_end(struct h2_request *r)
{
    r->out_ended = true;
    go_on(r);
}

void h2_answer(struct h2_request *r, unsigned status, const char *text)
{
    assert_int_equal(buf_append_str(&r->out, text), 0);
    r->out_ended = true;
    h2_begin(r, status);
}

void h2_reset(struct h2_request *r, uint32_t code)
{
    assert_int_equal(nghttp2_submit_rst_stream(r->conn->ng, NGHTTP2_FLAG_NONE, r->id, code), 0);
    push(r->conn);
}

void h2_goaway(struct h2_server_conn *c, int32_t last, uint32_t code)
{
    assert_int_equal(nghttp2_submit_goaway(c->ng, NGHTTP2_FLAG_NONE, last, code, NULL, 0), 0);
    push(c);
}

void h2_allow(struct h2_server_conn *c, uint32_t max_streams)
{
    nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams};
    assert_int_equal(nghttp2_submit_settings(c->ng, NGHTTP2_FLAG_NONE, &entry, 1), 0);
    push(c);
}

void h2_ping(struct h2_server_conn *c)
{
    assert_int_equal(nghttp2_submit_ping(c->ng, NGHTTP2_FLAG_NONE, NULL), 0);
    push(c);
}

void h2_freeze(struct h2_server_conn *c)
{
    c->frozen = true;
    net_stream_read_stop(c->stream);
}

void h2_hang_up(struct h2_server_conn *c)
{
    net_stream_finish(c->stream);
    c->stream = NULL;
}

void h2_cut(struct h2_server_conn *c)
{
    net_stream_reset(c->stream);
    c->stream = NULL;
}
