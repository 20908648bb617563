/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nghttp2 counts what has come. This tells it what was consumed: for the connection at once,
 * whatever becomes of it; for a stream when its user has got it. So a stream that is not read holds
 * back itself alone, and what is kept of it is bounded by its own window.
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

/* How much more of the budget for windows the stream may take: of what others leave it may have a
 * quarter, so that there is some for whoever comes next. One that may be left unread for good
 * counts with the first quarter of the budget alone. */
static size_t spare_of(const struct h2_stream *t)
{
    const struct byte_budget *b = t->session->windows;
    size_t all = t->unhurried ? b->max / 4 : b->max;
    size_t others = b->used - t->wider.size;
    size_t most = others < all ? (all - others) / 4 : 0;
    return most > t->wider.size ? most - t->wider.size : 0;
}

/* Much of a window comes within a round trip: it may be what the server waits for. */
static void grow(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    size_t spare = spare_of(t);
    uint32_t more = t->window > H2_WINDOW_MAX / 8 ? H2_WINDOW_MAX - t->window : t->window * 3;
    more = more < spare ? more : (uint32_t)spare;
    if (more < H2_WINDOW_FIRST || !byte_share_set(&t->wider, t->wider.size + more)) {
        return;
    }
    t->window += more;
    h2_note(s, nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, t->id,
                                                     (int32_t)t->window));
}

/* After each half of a window that came without a pause a PING asks how much comes within a round
 * trip. A watch whose events are many, but come one by one, needs no larger window. Nor does a slow
 * reader, which looks like a fast one until the kernel has taken what it takes. */
static void measure(struct h2_stream *t, size_t len)
{
    struct h2_session *s = t->session;
    t->run += (uint32_t)len;
    t->flowed += t->flowed < t->proof ? (uint32_t)len : 0;
    if (s->probed == t->id) {
        s->probe_bytes += (uint32_t)len;
    } else if (s->probed == 0 && t->run >= t->window / 2 && t->flowed >= t->proof &&
               t->window < H2_WINDOW_MAX) {
        t->run = 0;
        s->probed = t->id;
        s->probe_bytes = len >= t->window / 2 ? (uint32_t)len : 0; /* came within one */
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

/* ---- what is kept of both bodies ---- */

void h2_stream_count_unread(struct h2_stream *t)
{
    if (t->kept.len == 0 && t->unsent.len == 0) {
        t->crowded = false;
        net_backlog_leave(&t->unread);
        return;
    }
    if (!list_linked(&t->unread.link)) {
        net_backlog_note_progress(&t->unread);
    }
    t->crowded = net_backlog_count(&t->unread, t->kept.cap + t->unsent.cap);
}

/* ---- life ---- */

/* Its user has not read for long, or the server has not, while others read. */
static void give_up_unread(struct net_backlog_entry *e)
{
    struct h2_stream *t = LIST_ITEM(e, struct h2_stream, unread);
    const char *why = t->kept.len > 0
                          ? "nobody reads the answer, and too much is waiting for such readers"
                          : "the server does not read the request, and too much waits for it";
    h2_stream_fail(t, NGHTTP2_CANCEL, -ENOBUFS, why);
}

static const struct net_backlog_ops unread_ops = {.give_up = give_up_unread};

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
    byte_share_init(&t->wider, s->windows);
    t->window = H2_WINDOW_FIRST;
    t->proof = H2_FLOW_FIRST;
    t->to_head = slice_eq(head->method, SLICE("HEAD"));
    t->unhurried = head->unhurried;
    t->out = ended ? H2_OUT_ENDED : H2_OUT_OPEN;
    t->send_left = head->framing == HTTP_BODY_CHUNKED  ? UINT64_MAX
                   : head->framing == HTTP_BODY_LENGTH ? head->content_length
                                                       : 0;
    net_backlog_entry_init(&t->unread, s->backlog, &unread_ops);
    buf_init(&t->kept, H2_WINDOW_MAX);
    buf_init(&t->unsent, H2_SEND_MAX);
    list_init(&t->due);
    list_init(&t->held);
    list_append(&s->streams, &t->link);
    s->count++;
    h2_upload_begin(t, head);
    return t;
}

void h2_stream_free(struct h2_stream *t)
{
    struct h2_session *s = t->session;
    if (!t->closed) {
        (void)nghttp2_session_set_stream_user_data(s->ng, t->id, NULL);
    }
    h2_head_forget(s, t);
    byte_share_give_back(&t->wider);
    net_backlog_entry_deinit(&t->unread);
    h2_upload_end(t);
    s->waiting -= t->id != 0 && !t->head_sent ? 1 : 0;
    s->count--;
    s->current = s->current == t ? NULL : s->current;
    list_remove(&t->link);
    list_remove(&t->due);
    buf_reset(&t->kept);
    buf_reset(&t->unsent);
    free(t->request);
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
        h2_stream_fail(t, NGHTTP2_FLOW_CONTROL_ERROR, -HTTP_PARSE_BAD,
                       "the server sent more than the window allows");
        return;
    }
    if (buf_append(&t->kept, bytes.ptr, bytes.len) != 0) {
        h2_note(t->session, NGHTTP2_ERR_NOMEM);
        return;
    }
    h2_stream_count_unread(t);
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
    consume(s, bytes.len);
    if (t == NULL) {
        return;
    }
    if (t->paused || t->kept.len > 0) {
        keep(t, bytes);
        return;
    }
    if (hand_over(t, bytes) && !t->paused) {
        measure(t, bytes.len);
    }
}

void h2_stream_pause(struct h2_stream *t)
{
    t->proof *= t->proof < H2_FLOW_MAX && !t->paused ? 2 : 1;
    t->paused = true;
    t->run = t->flowed = 0;
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
    struct buf kept = t->kept; /* the stream may be freed while its user reads */
    bool there = true;
    buf_init(&t->kept, kept.max);
    while (kept.len > 0 && there && !t->paused) {
        size_t len = kept.len < PIECE ? kept.len : PIECE;
        struct slice piece = slice_of((const char *)buf_data(&kept), len);
        buf_consume(&kept, len);
        there = hand_over(t, piece);
    }
    if (there && kept.len > 0) {
        t->kept = kept;
        net_backlog_note_progress(&t->unread);
        return true;
    }
    if (there) {
        h2_stream_count_unread(t);
    }
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
