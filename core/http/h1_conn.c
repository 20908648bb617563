/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_conn.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/ensure.h"
#include "base/state_machine.h"

/* Bytes of the next messages that a peer may send ahead before it is no longer read. */
enum { HELD_MAX = 2 * 64 * 1024 };

static const struct state_machine in_machine = {
    .object = "incoming message",
    .states = {[H1_IN_MESSAGE] = {"Message",
                                  STATE(H1_IN_DONE) | STATE(H1_IN_RAW) | STATE(H1_IN_CLOSED)},
               [H1_IN_DONE] = {"Done",
                               STATE(H1_IN_MESSAGE) | STATE(H1_IN_RAW) | STATE(H1_IN_CLOSED)},
               [H1_IN_RAW] = {"Raw", STATE(H1_IN_CLOSED)},
               [H1_IN_CLOSED] = {"Closed", STATE(H1_IN_CLOSED)}},
};

static const struct state_machine out_machine = {
    .object = "outgoing message",
    .states = {[H1_OUT_IDLE] = {"Idle", STATE(H1_OUT_BODY)},
               [H1_OUT_BODY] = {"Body", STATE(H1_OUT_DONE) | STATE(H1_OUT_RAW)},
               [H1_OUT_DONE] = {"Done", STATE(H1_OUT_IDLE) | STATE(H1_OUT_RAW)},
               [H1_OUT_RAW] = {"Raw", STATE(H1_OUT_RAW_DONE)},
               [H1_OUT_RAW_DONE] = {"RawDone", 0}},
};

static void set_in(struct h1_conn *c, enum h1_in next)
{
    c->in = state_step(&in_machine, c->in, next, SLICE(""));
}

static void set_out(struct h1_conn *c, enum h1_out next)
{
    c->out = state_step(&out_machine, c->out, next, SLICE(""));
}

static void report(struct h1_conn *c, int code, const char *text)
{
    struct err e = ERR_INIT;
    err_set(&e, code, "%s", text);
    c->handlers->on_error(c->data, &e);
}

/* False: there is none, and the owner was told. */
static bool need_parser(struct h1_conn *c)
{
    if (c->parser == NULL) {
        c->parser = h1_parser_new(c->role, c->limits);
        if (c->parser == NULL) {
            set_in(c, H1_IN_DONE);
            report(c, -ENOMEM, "out of memory for the next message");
            return false;
        }
        h1_conn_set_head_budget(c, c->head_share.budget);
    }
    return true;
}

/* One event of the parser. False: nothing more can be done with the bytes at hand. */
static bool parse_step(struct h1_conn *c, struct slice *data)
{
    const struct http_head *head = NULL;
    struct slice body = {0};
    struct err e;
    if (!need_parser(c)) {
        return false;
    }
    err_clear(&e);
    switch (h1_parser_next(c->parser, data, &head, &body, &e)) {
    case H1_MORE:
        return false;
    case H1_HEAD:
        c->handlers->on_head(c->data, head);
        return true;
    case H1_BODY:
        c->handlers->on_body(c->data, body);
        return true;
    case H1_END:
        set_in(c, H1_IN_DONE);
        c->handlers->on_end(c->data);
        return true;
    case H1_ERROR:
        set_in(c, H1_IN_DONE);
        c->handlers->on_error(c->data, &e);
        return false;
    }
    return false;
}

/* Hands over as much of *data as the owner takes. */
static void pump(struct h1_conn *c, struct slice *data)
{
    c->pumping = true;
    bool more = true;
    while (more && !c->paused) {
        if (c->in == H1_IN_MESSAGE) {
            more = parse_step(c, data);
        } else if (c->in == H1_IN_RAW && data->len > 0) {
            struct slice all = *data;
            *data = slice_of(all.ptr + all.len, 0);
            c->handlers->on_body(c->data, all);
        } else {
            more = false;
        }
    }
    c->pumping = false;
}

/* Reads on unless the owner paused or bytes wait that it has not taken. */
static void update_reading(struct h1_conn *c)
{
    if (c->stream == NULL) {
        return;
    }
    if (c->paused || c->held.len > 0) {
        net_stream_read_stop(c->stream);
    } else {
        net_stream_read_start(c->stream);
    }
}

/* What is sent ahead of its turn is none of the message that is being answered. */
static void refuse_more(struct h1_conn *c)
{
    bool ahead = c->in != H1_IN_MESSAGE;
    report(c, ahead ? -ENOBUFS : -HTTP_PARSE_NO_ROOM_FOR_REST,
           "too much is waiting to be passed on: try again later");
}

static void keep(struct h1_conn *c, struct slice rest)
{
    if (c->stream == NULL || rest.len == 0) {
        return;
    }
    if (!byte_share_set(&c->held_share, buf_size_with(&c->held, rest.len))) {
        refuse_more(c);
    } else if (buf_append(&c->held, rest.ptr, rest.len) != 0) {
        report(c, -ENOBUFS, "the peer sent too much data ahead of its turn");
    }
}

static void on_read(void *data, struct slice bytes)
{
    struct h1_conn *c = data;
    if (c->held.len > 0) {
        keep(c, bytes);
        return;
    }
    pump(c, &bytes);
    keep(c, bytes);
    update_reading(c);
}

static void on_go(struct net_task *t)
{
    struct h1_conn *c = LIST_ITEM(t, struct h1_conn, go);
    /* The owner may queue more bytes or close while these are handed over. */
    struct buf work = c->held;
    buf_init(&c->held, HELD_MAX);
    struct slice rest = buf_slice(&work);
    pump(c, &rest);
    if (c->stream != NULL) {
        buf_consume(&work, work.len - rest.len);
        if (work.len > 0) {
            c->held = work;
            buf_init(&work, HELD_MAX);
        }
        byte_share_force(&c->held_share, c->held.cap);
        update_reading(c);
    }
    buf_reset(&work);
}

static void on_eof(void *data)
{
    struct h1_conn *c = data;
    switch (c->in) {
    case H1_IN_RAW:
        set_in(c, H1_IN_CLOSED);
        c->handlers->on_end(c->data);
        break;
    case H1_IN_MESSAGE:
        if (h1_conn_is_idle(c)) {
            set_in(c, H1_IN_CLOSED);
            c->handlers->on_eof(c->data);
        } else if (h1_parser_finish(c->parser)) {
            set_in(c, H1_IN_DONE);
            c->handlers->on_end(c->data);
        } else {
            report(c, UV_EOF, "the peer closed in the middle of a message");
        }
        break;
    case H1_IN_DONE:
        c->handlers->on_eof(c->data);
        break;
    case H1_IN_CLOSED:
        break;
    }
}

static void on_error(void *data, const struct err *e)
{
    struct h1_conn *c = data;
    c->handlers->on_error(c->data, e);
}

static void on_drain(void *data)
{
    struct h1_conn *c = data;
    c->handlers->on_drain(c->data);
}

static const struct net_stream_handlers stream_handlers = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_error = on_error,
};

int h1_conn_init(struct h1_conn *c, struct net_loop *l, struct net_stream *s, enum h1_role role,
                 const struct h1_limits *limits, const struct h1_conn_handlers *handlers,
                 void *data)
{
    memset(c, 0, sizeof *c);
    c->parser = h1_parser_new(role, limits);
    if (c->parser == NULL) {
        return -ENOMEM;
    }
    c->limits = limits;
    c->role = role;
    c->loop = l;
    c->stream = s;
    c->handlers = handlers;
    c->data = data;
    buf_init(&c->held, HELD_MAX);
    net_task_init(&c->go, on_go);
    net_stream_set_handlers(s, &stream_handlers, c);
    return 0;
}

void h1_conn_set_budget(struct h1_conn *c, struct byte_budget *budget)
{
    byte_share_init(&c->held_share, budget);
    h1_conn_set_head_budget(c, budget);
}

void h1_conn_set_head_budget(struct h1_conn *c, struct byte_budget *budget)
{
    byte_share_init(&c->head_share, budget);
    if (c->parser != NULL) {
        h1_parser_set_share(c->parser, budget != NULL ? &c->head_share : NULL);
    }
}

void h1_conn_start(struct h1_conn *c)
{
    net_stream_read_start(c->stream);
}

/* ---- large heads ---- */

bool h1_conn_keep_head(struct h1_conn *c)
{
    return c->head_share.size <= BYTE_SHARE_FREE ||
           byte_share_set(&c->head_share, 2 * c->head_share.size);
}

void h1_conn_drop_head(struct h1_conn *c)
{
    if (c->head_share.size > BYTE_SHARE_FREE) {
        if (c->parser != NULL) {
            h1_parser_release_head(c->parser);
        }
        byte_share_force(&c->head_share, c->head_share.size / 2);
    }
}

void h1_conn_forget_head(struct h1_conn *c)
{
    byte_share_give_back(&c->head_share);
}

/* ---- sending ---- */

/* All of a head but its headers, which stand between these. */
struct head_ends {
    struct slice start[5];
    struct slice end[5];
    char status[3];
    char length[20];
};

static void describe_start(const struct http_head *h, struct head_ends *ends)
{
    if (h->method.len > 0) {
        ends->start[0] = h->method;
        ends->start[1] = SLICE(" ");
        ends->start[2] = h->target;
        ends->start[3] = SLICE(" HTTP/1.1\r\n");
        return;
    }
    ends->status[0] = (char)('0' + h->status / 100 % 10);
    ends->status[1] = (char)('0' + h->status / 10 % 10);
    ends->status[2] = (char)('0' + h->status % 10);
    ends->start[0] = SLICE("HTTP/1.1 ");
    ends->start[1] = slice_of(ends->status, sizeof ends->status);
    ends->start[2] = SLICE(" ");
    ends->start[3] = h->reason.len > 0 ? h->reason : slice_str(http_reason(h->status));
    ends->start[4] = SLICE("\r\n");
}

static struct slice write_length(uint64_t n, struct head_ends *ends)
{
    size_t at = sizeof ends->length;
    do {
        ends->length[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return slice_of(ends->length + at, sizeof ends->length - at);
}

static void describe_end(const struct http_head *h, enum h1_after after, struct head_ends *ends)
{
    if (h->upgrade) {
        ends->end[0] = SLICE("Connection: Upgrade\r\n");
    } else if (after == H1_AFTER_CLOSE) {
        ends->end[0] = SLICE("Connection: close\r\n");
    } else if (after != H1_AFTER_DEFAULT) {
        ends->end[0] = SLICE("Connection: keep-alive\r\n");
    }
    if (h->framing == HTTP_BODY_LENGTH) {
        ends->end[1] = SLICE("Content-Length: ");
        ends->end[2] = write_length(h->content_length, ends);
        ends->end[3] = SLICE("\r\n");
    } else if (h->framing == HTTP_BODY_CHUNKED) {
        ends->end[1] = SLICE("Transfer-Encoding: chunked\r\n");
    }
    ends->end[4] = SLICE("\r\n");
}

static size_t head_size(const struct http_head *h, const struct head_ends *ends)
{
    size_t size = 0;
    for (size_t i = 0; i < ARRAY_LEN(ends->start); i++) {
        size += ends->start[i].len + ends->end[i].len;
    }
    for (size_t i = 0; i < h->header_count; i++) {
        size += h->headers[i].name.len + h->headers[i].value.len + 4;
    }
    return size;
}

static uint8_t *put(uint8_t *to, struct slice text)
{
    if (text.len > 0) {
        memcpy(to, text.ptr, text.len);
    }
    return to + text.len;
}

static uint8_t *put_all(uint8_t *to, const struct slice texts[5])
{
    for (size_t i = 0; i < 5; i++) {
        to = put(to, texts[i]);
    }
    return to;
}

int h1_head_write(const struct http_head *head, enum h1_after after, struct buf *out)
{
    struct head_ends ends = {.start = {{0}}};
    describe_start(head, &ends);
    describe_end(head, after, &ends);
    size_t size = head_size(head, &ends);
    uint8_t *to = buf_reserve(out, size);
    if (to == NULL) {
        return buf_fail(out, -ENOBUFS);
    }
    to = put_all(to, ends.start);
    for (size_t i = 0; i < head->header_count; i++) {
        to = put(to, head->headers[i].name);
        to = put(to, SLICE(": "));
        to = put(to, head->headers[i].value);
        to = put(to, SLICE("\r\n"));
    }
    (void)put_all(to, ends.end);
    buf_commit(out, size);
    return 0;
}

int h1_conn_send_head(struct h1_conn *c, struct slice bytes, enum http_framing framing,
                      uint64_t length)
{
    if (c->stream == NULL || odd(c->out != H1_OUT_IDLE)) {
        return -EPROTO;
    }
    set_out(c, H1_OUT_BODY);
    c->out_framing = framing;
    c->out_left = framing == HTTP_BODY_LENGTH ? length : 0;
    c->head_only = framing == HTTP_BODY_NONE;
    /* Cut between the two, an answer makes some clients wait for ever (node-fetch); and together
     * they are one write here, and one read there. */
    if (c->role != H1_RESPONSES && c->out_left > 0) {
        return net_stream_write_ahead(c->stream, bytes);
    }
    return net_stream_write(c->stream, &bytes, 1);
}

static int send_chunk(struct h1_conn *c, struct slice data)
{
    static const char digits[] = "0123456789abcdef";
    char size[18];
    size_t at = sizeof size;
    size[--at] = '\n';
    size[--at] = '\r';
    for (size_t n = data.len; n > 0; n >>= 4) {
        size[--at] = digits[n & 15];
    }
    const struct slice parts[] = {
        slice_of(size + at, sizeof size - at),
        data,
        SLICE("\r\n"),
    };
    return net_stream_write(c->stream, parts, 3);
}

int h1_conn_send_body(struct h1_conn *c, struct slice data)
{
    if (c->stream == NULL || odd(c->out != H1_OUT_BODY && c->out != H1_OUT_RAW)) {
        return -EPROTO;
    }
    if (data.len == 0 || c->head_only) {
        return 0;
    }
    if (c->out == H1_OUT_BODY && c->out_framing == HTTP_BODY_CHUNKED) {
        return send_chunk(c, data);
    }
    if (c->out == H1_OUT_BODY && c->out_framing == HTTP_BODY_LENGTH) {
        if (data.len > c->out_left) {
            return -EPROTO;
        }
        c->out_left -= data.len;
    }
    return net_stream_write(c->stream, &data, 1);
}

int h1_conn_send_end(struct h1_conn *c)
{
    if (c->stream == NULL) {
        return -EPROTO;
    }
    if (c->out == H1_OUT_RAW) {
        set_out(c, H1_OUT_RAW_DONE);
        net_stream_shutdown(c->stream);
        return 0;
    }
    if (odd(c->out != H1_OUT_BODY)) {
        return -EPROTO;
    }
    if (!c->head_only && c->out_framing == HTTP_BODY_LENGTH && c->out_left > 0) {
        return -EPROTO;
    }
    set_out(c, H1_OUT_DONE);
    if (!c->head_only && c->out_framing == HTTP_BODY_CHUNKED) {
        struct slice end = SLICE("0\r\n\r\n");
        return net_stream_write(c->stream, &end, 1);
    }
    return 0;
}

/* ---- flow ---- */

void h1_conn_rest(struct h1_conn *c)
{
    if (c->parser == NULL) {
        return;
    }
    if (c->in == H1_IN_MESSAGE) {
        h1_parser_release_head(c->parser);
    } else {
        h1_parser_free(c->parser);
        c->parser = NULL;
    }
}

bool h1_conn_is_idle(const struct h1_conn *c)
{
    return c->parser == NULL || h1_parser_idle(c->parser);
}

void h1_conn_pause(struct h1_conn *c)
{
    c->paused = true;
    if (!c->pumping) {
        update_reading(c);
    }
}

void h1_conn_resume(struct h1_conn *c)
{
    if (!c->paused || c->stream == NULL) {
        return;
    }
    c->paused = false;
    if (!c->pumping) {
        net_task_queue(c->loop, &c->go);
    }
}

void h1_conn_go_raw(struct h1_conn *c)
{
    set_in(c, H1_IN_RAW);
    set_out(c, H1_OUT_RAW);
    c->head_only = false;
    net_stream_set_write_timeout(c->stream, 0);
    if (!c->pumping) {
        net_task_queue(c->loop, &c->go);
    }
}

bool h1_conn_is_ahead(const struct h1_conn *c)
{
    return c->held.len > 0;
}

bool h1_conn_done(const struct h1_conn *c)
{
    return (c->in == H1_IN_DONE && c->out == H1_OUT_DONE) ||
           (c->in == H1_IN_CLOSED && c->out == H1_OUT_RAW_DONE);
}

void h1_conn_next(struct h1_conn *c)
{
    set_in(c, H1_IN_MESSAGE);
    set_out(c, H1_OUT_IDLE);
    c->paused = false;
    if (!c->pumping && c->held.len > 0) {
        net_task_queue(c->loop, &c->go);
    } else if (!c->pumping) {
        update_reading(c);
    }
}

/* ---- the end ---- */

static void drop(struct h1_conn *c)
{
    c->stream = NULL;
    set_in(c, H1_IN_CLOSED);
    net_task_cancel(&c->go);
    buf_reset(&c->held);
    byte_share_give_back(&c->held_share);
}

void h1_conn_close(struct h1_conn *c)
{
    if (c->stream != NULL) {
        net_stream_close(c->stream);
        drop(c);
    }
}

void h1_conn_reset(struct h1_conn *c)
{
    if (c->stream != NULL) {
        net_stream_reset(c->stream);
        drop(c);
    }
}

void h1_conn_finish(struct h1_conn *c)
{
    if (c->stream != NULL) {
        net_stream_finish(c->stream);
        drop(c);
    }
}

void h1_conn_deinit(struct h1_conn *c)
{
    h1_conn_close(c);
    net_task_cancel(&c->go);
    h1_parser_free(c->parser);
    c->parser = NULL;
    buf_reset(&c->held);
    byte_share_give_back(&c->held_share);
    byte_share_give_back(&c->head_share);
}
