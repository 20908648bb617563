/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nghttp2 counts what has come; what was consumed it is told here, for each stream when its user
 * has got it, for the connection at once as long as little is kept: of `kept` bytes those above
 * half of the connection's window are owed to it.
 *
 * A stream may be freed inside each handler (h2_stream_abort). After a call of one it is touched
 * only if session->current still names it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/ensure.h"
#include "base/state_machine.h"
#include "http/h1_parser.h"
#include "http/h2_internal.h"

/* Handed over at a time. */
enum { PIECE = 16 * 1024 };

static const struct state_machine in_machine = {
    .object = "incoming HTTP/2 message",
    .states = {[H2_IN_HEAD] = {"Head", STATE(H2_IN_BODY)},
               [H2_IN_BODY] = {"Body", STATE(H2_IN_ENDED)},
               [H2_IN_ENDED] = {"Ended", STATE(H2_IN_TOLD)},
               [H2_IN_TOLD] = {"Told", 0}},
};

static const struct state_machine out_machine = {
    .object = "outgoing HTTP/2 message",
    .states = {[H2_OUT_OPEN] = {"Open", STATE(H2_OUT_ENDED)},
               [H2_OUT_ENDED] = {"Ended", STATE(H2_OUT_SENT)},
               [H2_OUT_SENT] = {"Sent", 0}},
};

void h2_stream_set_in(struct h2_stream *t, enum h2_in next)
{
    t->in = state_step(&in_machine, t->in, next, SLICE(""));
}

void h2_stream_set_out(struct h2_stream *t, enum h2_out next)
{
    t->out = state_step(&out_machine, t->out, next, SLICE(""));
}

/* ---- windows ---- */

static size_t owed(const struct h2_session *s, size_t kept)
{
    size_t unnoticed = (size_t)s->window / 2;
    return kept > unnoticed ? kept - unnoticed : 0;
}

static void consume(struct h2_session *s, size_t len)
{
    if (len > 0) {
        h2_note(s, nghttp2_session_consume_connection(s->ng, len));
    }
}

static void consume_stream(struct h2_stream *t, size_t len)
{
    if (!t->closed && t->in == H2_IN_BODY) {
        h2_note(t->session, nghttp2_session_consume_stream(t->session->ng, t->id, len));
    }
}

/* So many bytes are kept from now on. */
static void count_kept(struct h2_session *s, size_t len)
{
    size_t more = owed(s, s->kept + len) - owed(s, s->kept);
    s->kept += len;
    consume(s, len - more);
}

/* So many are kept no longer. */
static void count_released(struct h2_session *s, size_t len)
{
    size_t less = owed(s, s->kept) - owed(s, s->kept - len);
    s->kept -= len;
    consume(s, less);
}

/* Much of a window comes within a round trip: it may be what the server waits for. */
static void grow(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    uint32_t wider = t->window > H2_WINDOW_MAX / 4 ? H2_WINDOW_MAX : t->window * 4;
    uint32_t more = wider - t->window;
    if (more == 0 || s->added + more > H2_WINDOWS_ADDED_MAX) {
        return;
    }
    int rc = nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, t->id, (int32_t)wider);
    h2_note(s, rc);
    if (rc == 0) {
        t->window = wider;
        s->added += more;
    }
}

/* After each half of a window that came without a pause a PING asks how much comes within a round
 * trip. A watch whose events are many, but come one by one, needs no larger window. */
static void measure(struct h2_stream *t, size_t len)
{
    struct h2_session *s = t->session;
    t->run += (uint32_t)len;
    if (s->probed == t->id) {
        s->probe_bytes += (uint32_t)len;
    } else if (s->probed == 0 && t->run >= t->window / 2 && t->window < H2_WINDOW_MAX) {
        t->run = 0;
        s->probed = t->id;
        s->probe_bytes = 0;
        h2_note(s, nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, h2_speed_mark));
    }
}

void h2_stream_probed(struct h2_session *s)
{
    struct h2_stream *t = s->probed != 0 ? h2_stream_find(s, s->probed) : NULL;
    s->probed = 0;
    if (t != NULL && s->probe_bytes >= t->window / 4) {
        grow(t);
    }
}

/* ---- life ---- */

struct h2_stream *h2_stream_new(struct h2_session *s, const struct http_head *head, bool ended,
                                void *data)
{
    struct h2_stream *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->session = s;
    t->data = data;
    t->budget = head->budget;
    t->window = H2_WINDOW_FIRST;
    t->to_head = slice_eq(head->method, SLICE("HEAD"));
    t->out = ended ? H2_OUT_ENDED : H2_OUT_OPEN;
    t->send_left = head->framing == HTTP_BODY_CHUNKED  ? UINT64_MAX
                   : head->framing == HTTP_BODY_LENGTH ? head->content_length
                                                       : 0;
    buf_init(&t->kept, H2_WINDOW_MAX);
    buf_init(&t->unsent, H2_SEND_MAX);
    list_init(&t->due);
    list_append(&s->streams, &t->link);
    s->count++;
    return t;
}

void h2_stream_free(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    if (!t->closed) {
        (void)nghttp2_session_set_stream_user_data(s->ng, t->id, NULL);
    }
    h2_head_forget(s, t);
    count_released(s, t->kept.len);
    s->added -= t->window - H2_WINDOW_FIRST;
    s->waiting -= t->id != 0 && !t->head_sent ? 1 : 0;
    s->count--;
    s->current = s->current == t ? NULL : s->current;
    list_remove(&t->link);
    list_remove(&t->due);
    buf_reset(&t->kept);
    buf_reset(&t->unsent);
    free(t);
}

/* The stream is gone. */
static void reset(struct h2_stream *t, enum h2_end how, const struct err *e)
{
    const struct h2_handlers *handlers = t->session->handlers;
    void *data = t->data;
    h2_stream_free(t);
    handlers->on_reset(data, how, e);
}

static void give_up(struct h2_stream *t, uint32_t rst)
{
    if (!t->closed) {
        h2_note(t->session,
                nghttp2_submit_rst_stream(t->session->ng, NGHTTP2_FLAG_NONE, t->id, rst));
    }
}

void h2_stream_fail(struct h2_stream *t, uint32_t rst, int code, const char *why)
{
    struct err e = ERR_INIT;
    err_set(&e, code, "%s", why);
    give_up(t, rst);
    reset(t, H2_END_RESET, &e);
}

void h2_stream_refuse(struct h2_stream *t)
{
    struct err e = ERR_INIT;
    err_set(&e, -ECONNRESET, "the server did not take the request (it takes fewer than it said)");
    give_up(t, NGHTTP2_CANCEL);
    reset(t, H2_END_REFUSED, &e);
}

void h2_stream_abort(struct h2_stream *t)
{
    give_up(t, NGHTTP2_CANCEL);
    h2_stream_free(t);
}

bool h2_stream_untouched(const struct h2_stream *t)
{
    return !t->touched;
}

bool h2_stream_unsent(const struct h2_stream *t)
{
    return t->out != H2_OUT_SENT;
}

bool h2_stream_answered(const struct h2_stream *t)
{
    return t->in == H2_IN_ENDED;
}

/* ---- the end of the response ---- */

static void cut_off(struct h2_stream *t, uint32_t code)
{
    struct err e = ERR_INIT;
    bool refused = !t->head_sent || (code == NGHTTP2_REFUSED_STREAM && !t->touched);
    const char *name = nghttp2_http2_strerror(code);
    if (refused) {
        err_set(&e, -ECONNRESET, "the server did not take the request (%s)", name);
    } else if (t->in == H2_IN_TOLD) {
        err_set(&e, -ECONNRESET, "the server does not want the rest of the request (%s)", name);
    } else if (t->reset_by_server) {
        err_set(&e, -ECONNRESET, "the server broke the response off (%s)", name);
    } else {
        err_set(&e, -HTTP_PARSE_BAD, "the server's response is malformed");
    }
    reset(t, refused ? H2_END_REFUSED : H2_END_RESET, &e);
}

static void tell_end(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    bool whole = t->out == H2_OUT_SENT;
    void *data = t->data;
    h2_stream_set_in(t, H2_IN_TOLD);
    s->current = t;
    if (whole) {
        h2_stream_free(t);
    }
    s->handlers->on_end(data, whole);
    if (s->current == t && t->closed) {
        cut_off(t, NGHTTP2_NO_ERROR);
    }
}

void h2_stream_complete(struct h2_stream *t)
{
    h2_stream_set_in(t, H2_IN_ENDED);
    if (!t->paused && t->kept.len == 0) {
        tell_end(t);
    }
}

void h2_stream_closed(struct h2_stream *t, uint32_t code)
{
    t->closed = true;
    if (t->in == H2_IN_ENDED) {
        return; /* its user has not got all of it yet */
    }
    if (t->in == H2_IN_TOLD && t->out == H2_OUT_SENT) {
        const struct h2_handlers *handlers = t->session->handlers;
        void *data = t->data;
        h2_stream_free(t);
        handlers->on_sent(data);
        return;
    }
    cut_off(t, code);
}

/* ---- the body of the response ---- */

static void keep(struct h2_stream *t, struct slice bytes)
{
    if (t->kept.len + bytes.len > t->window) {
        consume(t->session, bytes.len);
        h2_stream_fail(t, NGHTTP2_FLOW_CONTROL_ERROR, -HTTP_PARSE_BAD,
                       "the server sent more than the window allows");
        return;
    }
    if (buf_append(&t->kept, bytes.ptr, bytes.len) != 0) {
        h2_note(t->session, NGHTTP2_ERR_NOMEM);
        return;
    }
    count_kept(t->session, bytes.len);
}

/* False: the stream is gone. */
static bool hand_over(struct h2_stream *t, struct slice bytes)
{
    struct h2_session *s = t->session;
    s->current = t;
    s->handlers->on_body(t->data, bytes);
    if (s->current != t) {
        return false;
    }
    consume_stream(t, bytes.len);
    return true;
}

void h2_stream_receive(struct h2_session *s, struct h2_stream *t, struct slice bytes)
{
    if (t == NULL) {
        consume(s, bytes.len);
        return;
    }
    if (t->paused || t->kept.len > 0) {
        keep(t, bytes);
        return;
    }
    consume(s, bytes.len);
    if (hand_over(t, bytes) && !t->paused) {
        measure(t, bytes.len);
    }
}

void h2_stream_pause(struct h2_stream *t)
{
    t->paused = true;
    t->run = 0;
    t->session->probe_bytes = t->session->probed == t->id ? 0 : t->session->probe_bytes;
    list_remove(&t->due);
}

void h2_stream_resume(struct h2_stream *t)
{
    t->paused = false;
    if ((t->kept.len > 0 || t->in == H2_IN_ENDED) && !list_linked(&t->due)) {
        list_append(&t->session->due, &t->due);
    }
}

/* Hands over what is kept, until its user pauses again. False: the stream is gone. */
static bool deliver_kept(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    struct buf kept = t->kept; /* the stream may be freed while its user reads */
    bool there = true;
    buf_init(&t->kept, kept.max);
    while (kept.len > 0 && there && !t->paused) {
        size_t len = kept.len < PIECE ? kept.len : PIECE;
        struct slice piece = slice_of((const char *)buf_data(&kept), len);
        buf_consume(&kept, len);
        there = hand_over(t, piece);
        count_released(s, len);
    }
    if (there && kept.len > 0) {
        t->kept = kept;
        return true;
    }
    count_released(s, kept.len);
    buf_reset(&kept);
    return there;
}

void h2_deliver_due(struct h2_session *s)
{
    while (!list_empty(&s->due)) {
        struct h2_stream *t = LIST_ITEM(s->due.next, struct h2_stream, due);
        list_remove(&t->due);
        if (deliver_kept(t) && !t->paused && t->in == H2_IN_ENDED) {
            list_remove(&t->due);
            tell_end(t);
        }
    }
}

/* ---- the body of the request ---- */

static int resume_sending(struct h2_stream *t)
{
    if (!t->deferred || t->closed) {
        return 0;
    }
    t->deferred = false;
    return nghttp2_session_resume_data(t->session->ng, t->id) == NGHTTP2_ERR_NOMEM ? -ENOMEM : 0;
}

int h2_stream_send_body(struct h2_stream *t, struct slice bytes)
{
    if (t->out != H2_OUT_OPEN || bytes.len > t->send_left) {
        return -EPROTO;
    }
    int rc = buf_append(&t->unsent, bytes.ptr, bytes.len);
    if (rc != 0) {
        return rc;
    }
    t->send_left -= t->send_left != UINT64_MAX ? bytes.len : 0;
    t->blocked = t->blocked || t->unsent.len > H2_SEND_BLOCKED;
    return bytes.len > 0 ? resume_sending(t) : 0;
}

int h2_stream_send_end(struct h2_stream *t)
{
    if (t->out != H2_OUT_OPEN) {
        return 0;
    }
    if (t->send_left != 0 && t->send_left != UINT64_MAX) {
        return -EPROTO;
    }
    h2_stream_set_out(t, H2_OUT_ENDED);
    return resume_sending(t);
}

bool h2_stream_blocked(const struct h2_stream *t)
{
    return t->blocked;
}

ssize_t h2_stream_read(nghttp2_session *ng, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *data)
{
    (void)source;
    (void)ng;
    struct h2_stream *t = h2_stream_find(data, id);
    if (t == NULL) {
        return NGHTTP2_ERR_DEFERRED; /* its RST_STREAM is on the way */
    }
    size_t n = t->unsent.len < len ? t->unsent.len : len;
    if (n == 0 && t->out == H2_OUT_OPEN) {
        t->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(to, buf_data(&t->unsent), n);
        buf_consume(&t->unsent, n);
    }
    if (t->unsent.len == 0) {
        buf_reset(&t->unsent);
        *flags |= t->out != H2_OUT_OPEN ? NGHTTP2_DATA_FLAG_EOF : 0U;
    }
    t->session->drained = t->session->drained || (t->blocked && t->unsent.len <= H2_SEND_DRAINED);
    return (ssize_t)n;
}

static struct h2_stream *first_drained(const struct h2_session *s)
{
    LIST_FOR_EACH(node, &s->streams)
    {
        struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        if (t->blocked && t->unsent.len <= H2_SEND_DRAINED) {
            return t;
        }
    }
    return NULL;
}

void h2_tell_drained(struct h2_session *s)
{
    while (s->drained) {
        struct h2_stream *t = first_drained(s);
        if (t == NULL) {
            s->drained = false;
        } else {
            t->blocked = false;
            s->handlers->on_drain(t->data);
        }
    }
}
