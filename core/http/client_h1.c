/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client_h1.h"

#include <errno.h>
#include <stdlib.h>

#include "http/h1_conn.h"

struct session {
    struct h1_conn h1;
    struct client_conn *conn;
    struct client_request *request; /* NULL while there is none */
    struct net_task complete;       /* on_close may not happen inside a call of the user's */
    bool keep_alive;                /* as the response says */
};

/* ---- the response ---- */

static void break_off(struct session *s, int code, const char *text)
{
    struct err e = ERR_INIT;
    err_set(&e, code, "%s", text);
    client_conn_lost(s->conn, &e);
}

static void on_complete(struct net_task *t)
{
    struct session *s = LIST_ITEM(t, struct session, complete);
    struct client_request *r = s->request;
    if (r == NULL || (!h1_conn_done(&s->h1) && s->h1.in != H1_IN_DONE)) {
        return;
    }
    /* Answered before the request was complete (413, say): the connection cannot be kept. */
    bool reusable = h1_conn_done(&s->h1) && s->keep_alive && s->h1.held.len == 0;
    if (reusable) {
        s->request = NULL;
        h1_conn_next(&s->h1);
    }
    client_conn_done(r, reusable);
}

/* The budget is the request's, and need not outlive it. */
static void stop_counting(struct session *s)
{
    h1_conn_forget_head(&s->h1);
    h1_conn_set_head_budget(&s->h1, NULL);
}

static void on_head(void *data, const struct http_head *head)
{
    struct session *s = data;
    struct client_request *r = s->request;
    if (r == NULL) {
        break_off(s, -HTTP_PARSE_BAD, "the server sent an unsolicited response");
        return;
    }
    s->keep_alive = head->keep_alive;
    client_request_answered(r, head->status);
    bool agreed = head->status == 101 && r->upgrade;
    if (head->status == 101 && !agreed) {
        break_off(s, -HTTP_PARSE_BAD, "the server switched protocols without being asked to");
        return;
    }
    bool long_lived = head->framing == HTTP_BODY_CHUNKED || head->framing == HTTP_BODY_CLOSE;
    r->x.handlers->on_head(&r->x, head);
    if (s->request == NULL) {
        return;
    }
    stop_counting(s); /* its memory goes, or is small */
    if (agreed) {
        h1_conn_go_raw(&s->h1);
    } else if (long_lived) {
        h1_parser_release_head(s->h1.parser); /* perhaps a watch, open for long */
    } else {
        h1_parser_release_large_head(s->h1.parser); /* its body may come slowly */
    }
}

static void on_body(void *data, struct slice bytes)
{
    struct session *s = data;
    if (s->request != NULL) {
        s->request->x.handlers->on_body(&s->request->x, bytes);
    }
}

static void on_end(void *data)
{
    struct session *s = data;
    if (s->request != NULL) {
        s->request->x.handlers->on_end(&s->request->x);
    }
    if (s->request != NULL) {
        net_task_queue(s->h1.loop, &s->complete);
    }
}

static void on_drain(void *data)
{
    struct session *s = data;
    if (s->request != NULL) {
        s->request->x.handlers->on_drain(&s->request->x);
    }
}

static void on_eof(void *data)
{
    struct session *s = data;
    if (s->h1.in == H1_IN_DONE) {
        s->keep_alive = false; /* answered; the task that is queued ends it */
        return;
    }
    break_off(s, UV_EOF, "the server closed the connection");
}

static void on_error(void *data, const struct err *e)
{
    struct session *s = data;
    client_conn_lost(s->conn, e);
}

static const struct h1_conn_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_eof = on_eof,
    .on_error = on_error,
};

/* ---- the exchange's operations ---- */

static struct session *session_of(const struct http_exchange *x)
{
    return client_request_of(x)->conn->session;
}

static int send_body(struct http_exchange *x, struct slice data)
{
    return h1_conn_send_body(&session_of(x)->h1, data);
}

static int send_end(struct http_exchange *x)
{
    struct session *s = session_of(x);
    if (s->request->bodyless && s->h1.out == H1_OUT_DONE) {
        return 0;
    }
    int rc = h1_conn_send_end(&s->h1);
    if (rc == 0 && h1_conn_done(&s->h1)) {
        net_task_queue(s->h1.loop, &s->complete);
    }
    return rc;
}

static bool blocked(const struct http_exchange *x)
{
    return net_stream_blocked(session_of(x)->h1.stream);
}

static void pause_in(struct http_exchange *x)
{
    h1_conn_pause(&session_of(x)->h1);
}

static void resume_in(struct http_exchange *x)
{
    h1_conn_resume(&session_of(x)->h1);
}

static void abort_exchange(struct http_exchange *x)
{
    client_conn_abandon(client_request_of(x));
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
    if (s == NULL || h1_conn_init(&s->h1, c->loop, c->stream, H1_RESPONSES, &h1_limits_default,
                                  &handlers, s) != 0) {
        free(s);
        return NULL;
    }
    s->conn = c;
    net_task_init(&s->complete, on_complete);
    h1_conn_start(&s->h1);
    return s;
}

static unsigned session_room(const void *session)
{
    const struct session *s = session;
    return s->request == NULL ? 1 : 0;
}

static int send_request_head(struct session *s, const struct http_head *head)
{
    struct buf text;
    buf_init(&text, NET_WRITE_MAX);
    net_loop_lend(s->h1.loop, &text);
    int rc = h1_head_write(head, H1_AFTER_DEFAULT, &text);
    if (rc == 0) {
        rc = h1_conn_send_head(&s->h1, buf_slice(&text), head->framing, head->content_length);
    }
    net_loop_take_back(s->h1.loop, &text);
    return rc;
}

static int session_carry(void *session, struct client_request *r, struct err *e)
{
    struct session *s = session;
    (void)e;
    s->request = r;
    h1_parser_expect(s->h1.parser, r->is_head);
    h1_conn_set_head_budget(&s->h1, r->share.budget);
    int rc = send_request_head(s, r->head);
    return rc == 0 && r->bodyless ? h1_conn_send_end(&s->h1) : rc;
}

static void session_leave(void *session, struct client_request *r)
{
    struct session *s = session;
    s->request = s->request == r ? NULL : s->request;
}

static bool session_untouched(const void *session, const struct client_request *r)
{
    const struct session *s = session;
    return r->head != NULL && h1_parser_idle(s->h1.parser);
}

static void session_close(void *session)
{
    struct session *s = session;
    s->request = NULL;
    stop_counting(s);
    net_task_cancel(&s->complete);
    if (s->h1.stream != NULL) {
        net_stream_drop_unsent(s->h1.stream); /* nobody waits for what it would lead to */
    }
    h1_conn_close(&s->h1);
}

static void session_finish(void *session)
{
    struct session *s = session;
    if (s->request == NULL || h1_conn_done(&s->h1)) {
        h1_conn_finish(&s->h1); /* a tunnel's last bytes may still be queued */
    }
    session_close(s);
}

static void session_free(void *session)
{
    struct session *s = session;
    h1_conn_deinit(&s->h1);
    free(s);
}

const struct client_protocol client_h1 = {
    .name = "http/1.1",
    .operations = &operations,
    .open = session_open,
    .room = session_room,
    .carry = session_carry,
    .leave = session_leave,
    .untouched = session_untouched,
    .finish = session_finish,
    .close = session_close,
    .free = session_free,
};
