/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes come: on_read -> h2_session_receive -> the handlers of streams, which call those of the
 * exchanges. Bytes go: whatever asks for some queues the task `send`, which runs at the end of the
 * event and hands them to the stream, as long as that is not blocked; it goes on when it has
 * drained. So no handler runs inside a call of the user's.
 *
 * OPENING -> OPEN when the server's first bytes come; OPEN -> ASKED (a PING is out, and no requests
 * are taken) -> OPEN when it is silent; OPEN -> PROBED (a request of our own is out, likewise) ->
 * OPEN when it makes no progress, or the request was not taken. CLOSED from any: only answers that
 * have come whole are still passed on, and `send` sends what is left, if the stream is there.
 */
#include "http/client_h2.h"

#include <errno.h>
#include <stdlib.h>

#include "base/state_machine.h"
#include "http/h2_session.h"

/* With requests: the server is asked whether it is there when nothing has come for so long, or a
 * request is given up after so long without any sign of it, and given up when nothing comes for so
 * long then, or to begin with. */
enum { SILENCE_MS = 30 * 1000, DOUBT_MS = 2 * 1000, ANSWER_MS = 15 * 1000 };

/* Whether anything has come for a request is looked at so often: API servers send a bookmark to a
 * watch each minute. */
enum { STALL_MS = 75 * 1000 };

/* Bodies of requests that do not move are looked for so often. */
enum { LOOK_MS = 2 * 1000 };

/* A server that allows so many streams spares one for the probe. */
enum { SPARING = 10 };

enum session_state { SESSION_OPENING, SESSION_OPEN, SESSION_ASKED, SESSION_PROBED, SESSION_CLOSED };

struct session {
    struct h2_session *h2;
    struct client_conn *conn; /* outlives the session */
    struct net_loop *loop;
    struct net_stream *stream;       /* NULL once closed */
    struct client_request *told;     /* the one whose on_end runs; NULL once it is gone */
    struct client_request *question; /* PROBED: what the server is asked */
    struct net_task send;
    struct net_task deliver;
    struct net_deadline silence;
    struct net_deadline stall;
    struct net_deadline look;
    uint64_t heard_ms; /* when something came last, by the loop */
    uint64_t moved_ms; /* likewise, for a request; or the first was sent */
    bool answers;      /* PROBED: something has come since */
    bool moves;        /* something has come for a request since it was looked at */
    enum session_state state;
};

static const struct state_machine machine = {
    .object = "HTTP/2 connection",
    .states = {[SESSION_OPENING] = {"Opening", STATE(SESSION_OPEN) | STATE(SESSION_CLOSED)},
               [SESSION_OPEN] = {"Open", STATE(SESSION_ASKED) | STATE(SESSION_PROBED) |
                                             STATE(SESSION_CLOSED)},
               [SESSION_ASKED] = {"Asked", STATE(SESSION_OPEN) | STATE(SESSION_CLOSED)},
               [SESSION_PROBED] = {"Probed", STATE(SESSION_OPEN) | STATE(SESSION_CLOSED)},
               [SESSION_CLOSED] = {"Closed", 0}},
};

static void set_state(struct session *s, enum session_state next)
{
    s->state = state_change(&machine, s->state, next, SLICE(""));
}

static void send_soon(struct session *s)
{
    net_task_queue(s->loop, &s->send);
}

/* ---- the end of the connection ---- */

static void stop(struct session *s)
{
    if (s->state != SESSION_CLOSED) {
        set_state(s, SESSION_CLOSED);
    }
    net_task_cancel(&s->deliver);
    net_deadline_clear(&s->silence);
    net_deadline_clear(&s->stall);
    net_deadline_clear(&s->look);
}

static void forget_stream(struct session *s)
{
    s->stream = NULL;
    s->conn->stream = NULL;
}

static void cut(struct session *s)
{
    net_task_cancel(&s->send);
    if (s->stream != NULL) {
        net_stream_drop_unsent(s->stream);
        net_stream_close(s->stream);
        forget_stream(s);
    }
}

static void deliver_soon(struct session *s)
{
    if (h2_session_due(s->h2)) {
        net_task_queue(s->loop, &s->deliver);
    }
}

/* The connection broke. */
static void lose(struct session *s, const struct err *e)
{
    stop(s);
    cut(s);
    client_conn_lost(s->conn, e);
    deliver_soon(s);
}

static void lose_for(struct session *s, int code, const char *why)
{
    struct err e = ERR_INIT;
    err_set(&e, code, "%s", why);
    lose(s, &e);
}

/* The server broke the protocol, which it is told unless there is something on its way to it, or
 * memory ran out. */
static void refuse(struct session *s, const struct err *e)
{
    stop(s);
    if (net_stream_unacknowledged(s->stream)) {
        cut(s);
    } else {
        send_soon(s);
    }
    client_conn_lost(s->conn, e);
    deliver_soon(s);
}

/* ---- bytes that go ---- */

/* As much as the stream takes. 0, or a code. */
static int send_some(struct session *s, bool *more)
{
    struct buf out;
    buf_init(&out, NET_WRITE_MAX);
    net_loop_lend(s->loop, &out);
    int rc = h2_session_send(s->h2, &out);
    *more = rc == 0 && out.len >= H2_SEND_ENOUGH;
    if (rc == 0 && out.len > 0 && s->stream != NULL) {
        struct slice bytes = buf_slice(&out);
        rc = net_stream_write(s->stream, &bytes, 1);
    }
    net_loop_take_back(s->loop, &out);
    return rc;
}

/* One that is guarded and that the server has not got all of. */
static struct client_request *find_guarded(const struct session *s)
{
    LIST_FOR_EACH(node, &s->conn->requests)
    {
        struct client_request *r = LIST_ITEM(node, struct client_request, link);
        if (r->guarded && r->stream != NULL && h2_stream_unsent(r->stream)) {
            return r;
        }
    }
    return NULL;
}

/* Ends what may not be sent any more: it waited for the server's windows. */
static void drop_guarded(struct session *s)
{
    struct err e = ERR_INIT;
    struct client_request *r;
    err_set(&e, UV_ECANCELED, "the rest of the request may not be sent any more");
    while ((r = find_guarded(s)) != NULL) {
        h2_stream_abort(r->stream);
        r->stream = NULL;
        client_conn_failed(r, &e, false);
    }
}

static void on_send(struct net_task *t)
{
    struct session *s = LIST_ITEM(t, struct session, send);
    bool more = true;
    int rc = 0;
    if (s->state != SESSION_CLOSED && !client_conn_may_send(s->conn)) {
        drop_guarded(s);
    }
    while (rc == 0 && more && s->stream != NULL && !net_stream_blocked(s->stream)) {
        rc = send_some(s, &more);
    }
    if (s->state == SESSION_CLOSED && s->stream != NULL) {
        net_stream_finish(s->stream);
        forget_stream(s);
    } else if (s->state != SESSION_CLOSED && rc != 0) {
        lose_for(s, rc, "cannot send on the HTTP/2 connection");
    }
}

/* ---- a server that is silent ---- */

static void await(struct session *s, uint64_t ms)
{
    net_deadline_set(s->loop, &s->silence, ms);
}

/* Nothing has come for a while: whether the server is there must show first, before other requests
 * go on this connection. */
static void ask_server(struct session *s)
{
    set_state(s, SESSION_ASKED);
    h2_session_ping(s->h2);
    send_soon(s);
    await(s, ANSWER_MS);
}

/* Nothing comes for its requests: one of our own is to show whether any is answered. Where it
 * cannot be sent, as the server takes no more, only a PING tells. */
static void probe_server(struct session *s)
{
    s->question = client_conn_probe(s->conn);
    if (s->question == NULL) {
        ask_server(s);
        return;
    }
    set_state(s, SESSION_PROBED);
    s->answers = false;
    h2_session_ping(s->h2);
    send_soon(s);
    await(s, ANSWER_MS);
}

/* The server was not asked, or has answered. */
static void end_probe(struct session *s)
{
    s->question = NULL;
    if (s->state == SESSION_PROBED) {
        set_state(s, SESSION_OPEN);
        await(s, SILENCE_MS);
    }
}

/* As far as the kernel, which may have to send it yet. */
static bool has_asked(const struct session *s)
{
    return !h2_stream_unsent(s->question->stream) && net_stream_flushed(s->stream);
}

static void judge(struct session *s)
{
    if (!has_asked(s)) {
        await(s, ANSWER_MS); /* what cannot be written ends it, if it is for long */
    } else if (s->answers) {
        client_conn_note_stalled(s->conn);
        lose_for(s, UV_ETIMEDOUT, "the server answers PINGs on this connection, but no requests");
    } else {
        lose_for(s, UV_ETIMEDOUT, "the server is silent, and does not answer a PING");
    }
}

static void on_silence(struct net_deadline *d)
{
    struct session *s = LIST_ITEM(d, struct session, silence);
    switch (s->state) {
    case SESSION_OPENING:
        lose_for(s, UV_ETIMEDOUT, "the server does not begin to speak HTTP/2");
        break;
    case SESSION_OPEN:
        if (s->conn->carried > 0) {
            ask_server(s);
            client_conn_changed(s->conn);
        }
        break;
    case SESSION_ASKED:
        lose_for(s, UV_ETIMEDOUT, "the server has been silent for 45 s and does not answer a PING");
        break;
    case SESSION_PROBED:
        judge(s);
        break;
    case SESSION_CLOSED:
        break;
    }
}

static void note_life(struct session *s)
{
    s->heard_ms = net_loop_now(s->loop);
    s->answers = true;
    if (s->state == SESSION_ASKED) {
        set_state(s, SESSION_OPEN);
    }
    if (s->state != SESSION_PROBED) {
        await(s, SILENCE_MS);
    }
}

/* Something has come for a request. */
static void note_progress(struct session *s)
{
    s->moves = true;
    s->moved_ms = s->heard_ms;
    end_probe(s);
}

static void await_progress(struct session *s)
{
    s->moves = false;
    if (client_conn_can_probe(s->conn)) {
        net_deadline_set(s->loop, &s->stall, STALL_MS);
    }
}

static void on_stall(struct net_deadline *d)
{
    struct session *s = LIST_ITEM(d, struct session, stall);
    if (s->conn->carried == 0) {
        return; /* its next request sets it */
    }
    bool stalls = !s->moves && s->state == SESSION_OPEN;
    await_progress(s);
    if (stalls) {
        probe_server(s);
        client_conn_changed(s->conn);
    }
}

/* ---- bodies that do not move ---- */

static void look_later(struct session *s)
{
    net_deadline_set(s->loop, &s->look, LOOK_MS);
}

/* What waits for TCP is not held up by the server's windows. */
static void on_look(struct net_deadline *d)
{
    struct session *s = LIST_ITEM(d, struct session, look);
    uint64_t passed_ms = net_stream_blocked(s->stream) ? 0 : LOOK_MS;
    bool more = h2_session_look(s->h2, passed_ms, s->conn->write_timeout_ms);
    if (s->state != SESSION_CLOSED) {
        send_soon(s);
        if (more) {
            look_later(s);
        }
    }
}

/* ---- the response ---- */

static void note_leaving(struct session *s)
{
    s->conn->leaving = s->conn->leaving || h2_session_leaving(s->h2);
}

static void on_head(void *data, const struct http_head *head)
{
    struct client_request *r = data;
    client_conn_answered(r->conn);
    client_request_answered(r, head->status);
    r->x.handlers->on_head(&r->x, head);
}

static void on_body(void *data, struct slice bytes)
{
    struct client_request *r = data;
    r->x.handlers->on_body(&r->x, bytes);
}

/* An answer that does not wait for the request's end does not want it. */
static void on_end(void *data, bool whole)
{
    struct client_request *r = data;
    struct session *s = r->conn->session;
    if (whole) {
        r->stream = NULL;
    }
    if (s->question == r) {
        end_probe(s);
    }
    s->told = r;
    r->x.handlers->on_end(&r->x);
    if (s->told != r) {
        return;
    }
    s->told = NULL;
    if (r->stream != NULL) {
        h2_stream_abort(r->stream);
        r->stream = NULL;
    }
    note_leaving(s);
    client_conn_done(r, true);
}

static void on_drain(void *data)
{
    struct client_request *r = data;
    r->x.handlers->on_drain(&r->x);
}

static void on_reset(void *data, enum h2_end how, const struct err *e)
{
    struct client_request *r = data;
    struct session *s = r->conn->session;
    r->stream = NULL;
    note_leaving(s);
    if (s->question == r) {
        end_probe(s);
    }
    send_soon(s);
    client_conn_failed(r, e, how == H2_END_REFUSED);
}

static void on_room(void *data)
{
    struct session *s = data;
    if (s->state != SESSION_CLOSED) {
        note_leaving(s);
        client_conn_changed(s->conn);
    }
}

static void on_pong(void *data)
{
    (void)data; /* whatever comes is a sign of life */
}

/* None of a request is told of after its response has ended: on_sent is not called. */
static const struct h2_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_reset = on_reset,
    .on_room = on_room,
    .on_pong = on_pong,
};

/* ---- bytes that come ---- */

static void on_read(void *data, struct slice bytes)
{
    struct session *s = data;
    struct err e = ERR_INIT;
    if (s->state == SESSION_CLOSED) {
        return; /* it came together with the end */
    }
    bool first = s->state == SESSION_OPENING;
    bool was_open = s->state == SESSION_OPEN;
    uint64_t before = h2_session_progress(s->h2);
    if (first) {
        client_conn_opened(s->conn);
    }
    note_life(s);
    int rc = h2_session_receive(s->h2, bytes, &e);
    if (s->state == SESSION_CLOSED) {
        return;
    }
    if (rc != 0) {
        refuse(s, &e);
        return;
    }
    send_soon(s);
    if (first) {
        set_state(s, SESSION_OPEN);
    }
    if (h2_session_progress(s->h2) != before) {
        note_progress(s);
    }
    if (was_open != (s->state == SESSION_OPEN)) {
        on_room(s);
    }
}

static void on_deliver(struct net_task *t)
{
    struct session *s = LIST_ITEM(t, struct session, deliver);
    h2_session_deliver(s->h2);
    if (s->state != SESSION_CLOSED) {
        send_soon(s);
    }
}

static void on_eof(void *data)
{
    struct session *s = data;
    if (s->state != SESSION_CLOSED) {
        lose_for(s, UV_EOF, "the server closed the connection");
    }
}

static void on_stream_drain(void *data)
{
    send_soon(data);
}

static void on_error(void *data, const struct err *e)
{
    struct session *s = data;
    if (s->state != SESSION_CLOSED) {
        lose(s, e);
    } else {
        cut(s);
    }
}

static const struct net_stream_handlers stream_handlers = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_drain = on_stream_drain,
    .on_error = on_error,
};

/* ---- the exchange's operations ---- */

static struct session *session_of(const struct client_request *r)
{
    return r->conn->session;
}

static int send_body(struct http_exchange *x, struct slice data)
{
    struct client_request *r = client_request_of(x);
    if (r->stream == NULL || r->bodyless) {
        return -EPROTO;
    }
    client_request_keep(r, data);
    send_soon(session_of(r));
    return h2_stream_send_body(r->stream, data);
}

static int send_end(struct http_exchange *x)
{
    struct client_request *r = client_request_of(x);
    if (r->stream == NULL || r->bodyless) {
        return 0;
    }
    int rc = h2_stream_send_end(r->stream);
    r->ended = r->ended || rc == 0;
    send_soon(session_of(r));
    return rc;
}

static bool blocked(const struct http_exchange *x)
{
    const struct client_request *r = client_request_of(x);
    return r->stream != NULL && h2_stream_blocked(r->stream);
}

static void pause_in(struct http_exchange *x)
{
    struct client_request *r = client_request_of(x);
    if (r->stream != NULL) {
        h2_stream_pause(r->stream);
    }
}

static void resume_in(struct http_exchange *x)
{
    struct client_request *r = client_request_of(x);
    if (r->stream == NULL) {
        return;
    }
    h2_stream_resume(r->stream);
    deliver_soon(session_of(r));
}

static void let_go(struct session *s, struct client_request *r)
{
    s->question = s->question == r ? NULL : s->question;
    if (r->stream != NULL) {
        h2_stream_abort(r->stream);
        r->stream = NULL;
    }
    if (s->told == r) {
        s->told = NULL;
    }
    send_soon(s);
}

/* Nothing has come since it was sent, for any request if that can be made sure of, and not only for
 * a moment. */
static bool is_ignored(const struct session *s, const struct client_request *r)
{
    uint64_t since = client_conn_can_probe(s->conn) ? s->moved_ms : s->heard_ms;
    return s->state == SESSION_OPEN && since <= r->carried_ms &&
           net_loop_now(s->loop) - r->carried_ms >= DOUBT_MS;
}

static void abort_exchange(struct http_exchange *x)
{
    struct client_request *r = client_request_of(x);
    struct session *s = session_of(r);
    bool ignored = is_ignored(s, r);
    let_go(s, r);
    note_leaving(s);
    if (ignored && client_conn_can_probe(s->conn)) {
        probe_server(s);
    } else if (ignored) {
        ask_server(s);
    }
    client_conn_dropped(r);
}

static const struct http_exchange_ops operations = {
    .send_head = client_request_send_head,
    .send_body = send_body,
    .send_end = send_end,
    .blocked = blocked,
    .pause = pause_in,
    .resume = resume_in,
    .abort = abort_exchange,
};

/* ---- what its connection asks ---- */

static void *session_open(struct client_conn *c)
{
    struct session *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->h2 = h2_session_new(&handlers, c->windows, c->backlog, s);
    }
    if (s == NULL || s->h2 == NULL) {
        free(s);
        return NULL;
    }
    s->conn = c;
    s->loop = c->loop;
    s->stream = c->stream;
    net_task_init(&s->send, on_send);
    net_task_init(&s->deliver, on_deliver);
    net_deadline_init(&s->silence, on_silence);
    net_deadline_init(&s->stall, on_stall);
    net_deadline_init(&s->look, on_look);
    net_stream_set_handlers(s->stream, &stream_handlers, s);
    net_stream_read_start(s->stream);
    send_soon(s);
    await(s, ANSWER_MS);
    return s;
}

static unsigned session_room(const void *session)
{
    const struct session *s = session;
    if (s->state == SESSION_OPENING) {
        return s->conn->carried == 0 ? 1 : 0;
    }
    if (s->state == SESSION_ASKED || s->state == SESSION_PROBED) {
        return 0;
    }
    unsigned room = h2_session_room(s->h2);
    bool spared = client_conn_can_probe(s->conn) && room + s->conn->carried >= SPARING;
    return spared && room > 0 ? room - 1 : room;
}

static bool session_fits(void *session, const struct client_request *r)
{
    struct session *s = session;
    return h2_session_fits(s->h2, r->head);
}

static bool session_shares(void *session, const struct client_request *r)
{
    struct session *s = session;
    return h2_session_shares(s->h2, r->head);
}

static bool session_has_upload(const void *session)
{
    const struct session *s = session;
    return h2_session_has_upload(s->h2);
}

static int session_carry(void *session, struct client_request *r, struct err *e)
{
    struct session *s = session;
    struct err why = ERR_INIT;
    r->stream = h2_session_request(s->h2, r->head, r->bodyless, r, &why);
    if (r->stream == NULL) {
        return err_set(e, why.code, "%s", why.msg);
    }
    r->carried_ms = net_loop_now(s->loop);
    if (!r->bodyless && !list_linked(&s->look.link)) {
        look_later(s);
    }
    if (s->conn->carried == 1) {
        s->moved_ms = r->carried_ms;
        if (!list_linked(&s->stall.link)) {
            await_progress(s);
        }
        if (s->state == SESSION_OPEN) {
            await(s, SILENCE_MS);
        }
    }
    send_soon(s);
    return 0;
}

static void session_leave(void *session, struct client_request *r)
{
    let_go(session, r);
}

static bool session_untouched(const void *session, const struct client_request *r)
{
    (void)session;
    return r->head != NULL && r->stream != NULL && h2_stream_untouched(r->stream);
}

static bool session_answered(const void *session, const struct client_request *r)
{
    (void)session;
    return r->stream != NULL && h2_stream_answered(r->stream);
}

/* With a word of farewell. */
static void session_finish(void *session)
{
    struct session *s = session;
    stop(s);
    h2_session_goaway(s->h2);
    send_soon(s);
}

static void session_close(void *session)
{
    struct session *s = session;
    if (s->state == SESSION_CLOSED) {
        return; /* lost */
    }
    if (s->conn->state == CLIENT_IDLE && !s->conn->broken_off) {
        session_finish(s);
    } else {
        stop(s);
        cut(s);
    }
}

static void session_free(void *session)
{
    struct session *s = session;
    stop(s);
    cut(s);
    h2_session_free(s->h2);
    free(s);
}

const struct client_protocol client_h2 = {
    .name = "h2",
    .shared = true,
    .operations = &operations,
    .open = session_open,
    .room = session_room,
    .fits = session_fits,
    .shares = session_shares,
    .has_upload = session_has_upload,
    .carry = session_carry,
    .leave = session_leave,
    .untouched = session_untouched,
    .answered = session_answered,
    .finish = session_finish,
    .close = session_close,
    .free = session_free,
};
