/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "http/h1_conn.h"
#include "net/deadline.h"
#include "net/listener.h"
#include "net/timer.h"

/* Room for a response's head: what a parser lets through and what is added to it. */
enum { HEAD_OUT_MAX = 256 * 1024, HEADERS_EXTRA = 8 };

/* With shares: how long a body may come, and a newcomer say nothing, before its place can be
 * another's. */
enum { BODY_GRACE_MS = 2000, SILENCE_MS = 1000 };

/* The server looks so often whether a client that has half-closed is still there. */
enum { HALF_CLOSED_LOOK_MS = 250 };

/* How long requests that were sent ahead may take in a turn of the loop, which others wait for. */
enum { TURN_MS = 5 };

struct http_server {
    struct net_loop *loop;
    struct net_listener *listeners[HTTP_SERVER_ADDRESSES_MAX]; /* none when draining */
    size_t listener_count;
    struct http_server_options o;
    const struct http_server_handlers *handlers;
    void *data;
    struct list conns; /* those that have waited longest for a request in front */
    struct list resting;
    struct list going;      /* of these, those that go on in this turn, */
    struct net_task step;   /* one after the other, */
    uint64_t turn_until;    /* until then (net_loop_clock) */
    struct net_timer *turn; /* the next one, for those that rest */
    struct net_task drained;
    struct net_peers peers; /* with shares */
    struct http_server_stats stats;
    bool draining;
};

/* IDLE -> BUSY (a head came) -> IDLE (both messages complete) ... -> GONE */
enum conn_state { CONN_IDLE, CONN_BUSY, CONN_GONE };

static const struct state_machine machine = {
    .object = "client connection",
    .states = {[CONN_IDLE] = {"Idle", STATE(CONN_BUSY) | STATE(CONN_GONE)},
               [CONN_BUSY] = {"Busy", STATE(CONN_IDLE) | STATE(CONN_GONE)},
               [CONN_GONE] = {"Gone", 0}},
};

struct conn {
    struct http_exchange x;
    struct h1_conn h1;
    struct http_server *server;
    struct list link;
    struct list rest; /* in server->resting or going, or alone: until what was sent has gone */
    struct net_deadline idle_limit;
    struct net_deadline head_limit;
    struct net_peer *peer; /* NULL: without shares */
    uint64_t since;        /* it is accepted, waits for a request, or is asked: net_loop_now() */
    bool asked;            /* a head came once */
    bool half_closed;      /* nothing more comes of the client */
    bool overdue;          /* with shares: its idle time was over at the last look */
    struct net_task turn;  /* what may not happen inside a call of the user's */
    enum conn_state state;
    bool rests;      /* its next request waits */
    bool head_begun; /* as on_head_limit saw it last */
    bool head_request;
    bool keep_alive; /* as the request wants it */
    bool upgrade;    /* the request asked for it */
    bool connect;    /* the request is CONNECT */
    unsigned minor;  /* of the request */
};

static const struct http_exchange_ops exchange_ops;

static void set_state(struct conn *c, enum conn_state next)
{
    struct http_server_stats *stats = &c->server->stats;
    stats->busy -= c->state == CONN_BUSY ? 1 : 0;
    c->state = state_change(&machine, c->state, next, SLICE(""));
    stats->busy += next == CONN_BUSY ? 1 : 0;
}

static void check_drained(struct http_server *s)
{
    if (s->draining && s->stats.busy == 0) {
        net_task_queue(s->loop, &s->drained);
    }
}

static void clear_limits(struct conn *c)
{
    net_deadline_clear(&c->idle_limit);
    net_deadline_clear(&c->head_limit);
}

/* The connection is closed in whatever way; its memory goes when the handlers have returned. */
static void retire(struct conn *c)
{
    if (c->state == CONN_GONE) {
        return;
    }
    struct http_server *s = c->server;
    s->stats.open--;
    if (c->peer != NULL) {
        c->peer->connections--;
    }
    set_state(c, CONN_GONE);
    clear_limits(c);
    h1_conn_forget_head(&c->h1);
    list_remove(&c->link);
    list_remove(&c->rest);
    net_task_queue(s->loop, &c->turn);
    check_drained(s);
}

/* A body that ends with the connection, and what comes through a tunnel, would seem whole if that
 * ended in order; and where Content-Length says that more is to come, there are clients that wait
 * on (node-fetch). Chunks are known for a part by all, and what has come to its length is whole. */
static bool is_cut_by_reset(const struct conn *c)
{
    if (c->connect && c->h1.out == H1_OUT_RAW) {
        return true;
    }
    if (c->h1.out != H1_OUT_BODY || c->h1.head_only) {
        return false;
    }
    return c->h1.out_framing == HTTP_BODY_CLOSE || c->h1.out_left > 0;
}

static void close_now(struct conn *c)
{
    if (is_cut_by_reset(c) || (c->h1.stream != NULL && !net_stream_flushed(c->h1.stream))) {
        h1_conn_reset(&c->h1);
    } else {
        h1_conn_close(&c->h1);
    }
    retire(c);
}

static void close_gently(struct conn *c)
{
    h1_conn_finish(&c->h1);
    retire(c);
}

/* The user of a running exchange learns why it ended. It is the last call: the user's data may be
 * gone then. */
static void tell_closed(struct conn *c, const struct err *e)
{
    const struct http_exchange_handlers *user = c->x.handlers;
    c->x.handlers = NULL;
    if (user != NULL && user->on_close != NULL) {
        user->on_close(&c->x, e);
    }
}

static void break_off(struct conn *c, const struct err *e)
{
    bool busy = c->state == CONN_BUSY;
    close_now(c);
    if (busy) {
        tell_closed(c, e);
    }
}

static void wait_for_request(struct conn *c, uint64_t idle_ms)
{
    struct http_server *s = c->server;
    list_remove(&c->link);
    list_append(&s->conns, &c->link);
    c->head_begun = false;
    c->overdue = false;
    c->since = net_loop_now(s->loop);
    net_deadline_set(s->loop, &c->idle_limit, idle_ms);
    net_deadline_set(s->loop, &c->head_limit, s->o.head_timeout_ms);
}

static void client_left(struct conn *c)
{
    struct err e = ERR_INIT;
    err_set(&e, UV_EOF, "the client closed the connection");
    break_off(c, &e);
}

/* It will send no more. */
static void look_at_half_closed(struct conn *c)
{
    if (net_stream_is_half_closed(c->h1.stream)) {
        net_deadline_set(c->server->loop, &c->idle_limit, HALF_CLOSED_LOOK_MS);
    } else {
        client_left(c);
    }
}

static void on_idle_limit(struct net_deadline *d)
{
    struct conn *c = LIST_ITEM(d, struct conn, idle_limit);
    if (c->half_closed) {
        look_at_half_closed(c);
        return;
    }
    if (!h1_conn_is_idle(&c->h1)) {
        return; /* on_head_limit sees to it */
    }
    if (c->server->o.shares && !c->overdue) {
        /* Time goes by while this process is busy, too: what came meanwhile is read first. */
        c->overdue = true;
        net_deadline_set(c->server->loop, &c->idle_limit, NET_TICK_MS);
        return;
    }
    c->server->stats.silent += c->asked ? 0 : 1;
    if (net_stream_flushed(c->h1.stream)) {
        close_now(c);
    } else {
        close_gently(c); /* it still reads its answer */
    }
}

/* Looks every head_timeout: a head that was begun at one look must be complete at the next. */
static void on_head_limit(struct net_deadline *d)
{
    struct conn *c = LIST_ITEM(d, struct conn, head_limit);
    struct http_server *s = c->server;
    bool begun = !h1_conn_is_idle(&c->h1);
    if (begun && c->head_begun) {
        s->stats.refused++;
        s->stats.slow_heads++;
        log_info("closing a connection: timeout waiting for the request head");
        close_now(c);
    } else {
        c->head_begun = begun;
        net_deadline_set(s->loop, &c->head_limit, s->o.head_timeout_ms);
    }
}

/* Requests that were sent ahead take turns with those of others, and wait while the answers before
 * them are not read: who sends many at once neither holds up the loop nor fills memory. */
static void rest_if_ahead(struct conn *c)
{
    struct http_server *s = c->server;
    bool blocked = net_stream_blocked(c->h1.stream);
    if (!blocked && !h1_conn_is_ahead(&c->h1)) {
        return;
    }
    c->rests = true;
    h1_conn_pause(&c->h1);
    if (!blocked) {
        list_append(&s->resting, &c->rest);
        net_timer_set(s->turn, 0);
    }
}

static void go_on(struct conn *c)
{
    list_remove(&c->rest);
    c->rests = false;
    h1_conn_resume(&c->h1);
}

static void on_next_turn(void *data)
{
    struct http_server *s = data;
    while (!list_empty(&s->resting)) {
        struct list *first = s->resting.next;
        list_remove(first);
        list_append(&s->going, first);
    }
    s->turn_until = net_loop_clock(s->loop) + TURN_MS;
    net_task_queue(s->loop, &s->step);
}

/* What a connection does when it goes on it does before the next step. */
static void on_step(struct net_task *t)
{
    struct http_server *s = LIST_ITEM(t, struct http_server, step);
    if (list_empty(&s->going)) {
        return;
    }
    if (net_loop_clock(s->loop) >= s->turn_until) {
        net_timer_set(s->turn, 0);
        return;
    }
    go_on(LIST_ITEM(s->going.next, struct conn, rest));
    net_task_queue(s->loop, &s->step);
}

/* Both messages are complete. */
static void complete(struct conn *c)
{
    struct http_server *s = c->server;
    bool more = !c->half_closed || h1_conn_is_ahead(&c->h1);
    bool again = c->keep_alive && !s->draining && c->h1.in == H1_IN_DONE && more;
    if (again) {
        h1_conn_forget_head(&c->h1);
        set_state(c, CONN_IDLE);
        wait_for_request(c, s->o.idle_timeout_ms);
        h1_conn_next(&c->h1);
        rest_if_ahead(c);
        tell_closed(c, NULL);
    } else {
        close_gently(c);
        tell_closed(c, NULL);
    }
}

static void on_turn(struct net_task *t)
{
    struct conn *c = LIST_ITEM(t, struct conn, turn);
    if (c->state == CONN_GONE) {
        h1_conn_deinit(&c->h1);
        net_peer_unref(c->peer);
        free(c);
    } else if (h1_conn_done(&c->h1)) {
        complete(c);
    } else if (c->h1.out == H1_OUT_DONE && c->h1.in == H1_IN_MESSAGE) {
        /* Answered before the request was complete: the rest of it is not wanted. */
        close_gently(c);
        tell_closed(c, NULL);
    }
}

static void ask_for_body(struct conn *c)
{
    struct slice go_on = SLICE("HTTP/1.1 100 Continue\r\n\r\n");
    if (net_stream_write(c->h1.stream, &go_on, 1) != 0) {
        struct err e = ERR_INIT;
        err_set(&e, -ENOBUFS, "cannot send 100 Continue");
        break_off(c, &e);
    }
}

static void refuse(struct conn *c, const struct err *e);

static void on_head(void *data, const struct http_head *head)
{
    struct conn *c = data;
    struct http_server *s = c->server;
    clear_limits(c);
    set_state(c, CONN_BUSY);
    c->asked = true;
    c->since = net_loop_now(s->loop);
    c->head_request = slice_eq(head->method, SLICE("HEAD"));
    c->keep_alive = head->keep_alive;
    c->upgrade = head->upgrade;
    c->connect = head->connect;
    c->minor = head->minor;
    c->x.ops = &exchange_ops;
    c->x.handlers = NULL;
    c->x.data = NULL;
    c->x.last = false;
    if (!h1_conn_keep_head(&c->h1)) {
        struct err e = ERR_INIT;
        err_set(&e, -HTTP_PARSE_NO_ROOM, "too many large requests are being handled: try again");
        refuse(c, &e);
        return;
    }
    bool expect_continue = head->expect_continue;
    s->handlers->on_request(s->data, &c->x, head);
    h1_conn_drop_head(&c->h1);
    if (expect_continue && c->state == CONN_BUSY && c->h1.out == H1_OUT_IDLE) {
        ask_for_body(c);
    }
    if (c->half_closed && c->state == CONN_BUSY) {
        look_at_half_closed(c);
    }
}

static void on_body(void *data, struct slice bytes)
{
    struct conn *c = data;
    if (c->state == CONN_BUSY && c->x.handlers != NULL) {
        c->x.handlers->on_body(&c->x, bytes);
    }
}

static void on_end(void *data)
{
    struct conn *c = data;
    if (c->state != CONN_BUSY) {
        return;
    }
    /* Of a CONNECT it is the tunnel that counts. */
    bool told = !c->connect || c->h1.in != H1_IN_DONE;
    if (c->x.handlers != NULL && told) {
        c->x.handlers->on_end(&c->x);
    }
    if (c->state == CONN_BUSY && h1_conn_done(&c->h1)) {
        net_task_queue(c->server->loop, &c->turn);
    }
}

static void on_drain(void *data)
{
    struct conn *c = data;
    if (c->rests) {
        go_on(c);
    } else if (c->state == CONN_BUSY && c->x.handlers != NULL) {
        c->x.handlers->on_drain(&c->x);
    }
}

static void on_eof(void *data)
{
    struct conn *c = data;
    c->half_closed = true;
    if (c->state == CONN_BUSY) {
        look_at_half_closed(c);
    } else if (net_stream_flushed(c->h1.stream)) {
        client_left(c);
    } else {
        close_gently(c); /* it still reads its answer */
    }
}

/* Answers what could not be parsed, unless an answer has begun. */
static void refuse(struct conn *c, const struct err *e)
{
    struct http_server *s = c->server;
    struct buf body = BUF_INIT(16 * 1024);
    s->stats.refused++;
    c->keep_alive = false;
    c->minor = 1;
    if (c->state == CONN_IDLE) {
        set_state(c, CONN_BUSY);
        c->head_request = false;
        c->x.ops = &exchange_ops;
    }
    /* Its user is told first; the answer is the server's own from here on. */
    bool answering = c->h1.out != H1_OUT_IDLE;
    tell_closed(c, e);
    if (c->state != CONN_BUSY) {
        return;
    }
    if (answering) {
        close_now(c);
        return;
    }
    s->handlers->on_refuse(s->data, (unsigned)-e->code, e->msg, &body);
    const struct http_header later = {SLICE("Retry-After"), SLICE("1")};
    int rc = http_respond(&c->x, (unsigned)-e->code, SLICE("application/json"), buf_slice(&body),
                          &later, e->code == -HTTP_PARSE_NO_ROOM ? 1 : 0);
    buf_reset(&body);
    if (rc == 0) {
        close_gently(c);
    } else {
        close_now(c);
    }
}

/* Of clients that did not come so far as to ask. */
static void note_tls(const struct conn *c, const struct err *e)
{
    struct http_server *s = c->server;
    if (c->asked || (e->code != -EACCES && e->code != -EPROTO)) {
        return;
    }
    s->stats.unverified += e->code == -EACCES ? 1 : 0;
    s->stats.tls_failed++;
    if (s->handlers->on_tls_failed != NULL) {
        s->handlers->on_tls_failed(s->data, e);
    }
}

static void on_error(void *data, const struct err *e)
{
    struct conn *c = data;
    log_debug("client connection", log_str("error", e->msg));
    note_tls(c, e);
    if (c->h1.stream != NULL && e->code <= -HTTP_PARSE_BAD && e->code >= -HTTP_PARSE_VERSION) {
        refuse(c, e);
    } else {
        break_off(c, e);
    }
}

static const struct h1_conn_handlers conn_handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_eof = on_eof,
    .on_error = on_error,
};

/* ---- the exchange's operations ---- */

static struct conn *conn_of(const struct http_exchange *x)
{
    return LIST_ITEM(x, struct conn, x);
}

/* How the body is delimited for this client. */
static enum http_framing choose_framing(struct conn *c, const struct http_head *head)
{
    if (head->framing == HTTP_BODY_CHUNKED || head->framing == HTTP_BODY_CLOSE) {
        if (c->minor >= 1) {
            return HTTP_BODY_CHUNKED;
        }
        c->keep_alive = false;
        return HTTP_BODY_CLOSE;
    }
    return head->framing;
}

static enum h1_after choose_after(const struct conn *c)
{
    if (!c->keep_alive) {
        return H1_AFTER_CLOSE;
    }
    return c->minor == 0 ? H1_AFTER_KEEP : H1_AFTER_DEFAULT;
}

/* Whether the connection is a tunnel after an answer with that status. */
static bool opens_tunnel(const struct conn *c, unsigned status)
{
    return status == 101 || (c->connect && status >= 200 && status <= 299);
}

/* RFC 9110 section 9.3.6: no framing is in the head that opens a tunnel. After a CONNECT that was
 * refused the connection ends: what stands behind it may be meant for the tunnel, and would be
 * read as requests. */
static int send_head(struct http_exchange *x, const struct http_head *head)
{
    struct conn *c = conn_of(x);
    if (c->state != CONN_BUSY) {
        return -EPROTO;
    }
    struct http_head h = *head;
    bool tunnel = opens_tunnel(c, head->status);
    h.method = (struct slice){0};
    h.upgrade = head->status == 101;
    h.framing = tunnel ? HTTP_BODY_NONE : choose_framing(c, head);
    c->keep_alive = c->keep_alive && !c->connect && !c->server->draining && !x->last;
    struct buf bytes = BUF_INIT(HEAD_OUT_MAX);
    net_loop_lend(c->server->loop, &bytes);
    int rc = h1_head_write(&h, tunnel ? H1_AFTER_DEFAULT : choose_after(c), &bytes);
    bool no_body = c->head_request || head->status == 204 || head->status == 304;
    if (rc == 0) {
        rc = h1_conn_send_head(&c->h1, buf_slice(&bytes), no_body ? HTTP_BODY_NONE : h.framing,
                               head->content_length);
    }
    net_loop_take_back(c->server->loop, &bytes);
    if (rc == 0) {
        net_stream_set_write_timeout(c->h1.stream,
                                     head->unhurried ? 0 : c->server->o.write_timeout_ms);
    }
    if (rc == 0 && tunnel) {
        h1_conn_go_raw(&c->h1);
    }
    if (rc == 0 && (tunnel || h.framing == HTTP_BODY_CHUNKED)) {
        h1_conn_rest(&c->h1); /* perhaps a watch, open for long */
    }
    return rc;
}

static int send_body(struct http_exchange *x, struct slice data)
{
    return h1_conn_send_body(&conn_of(x)->h1, data);
}

static int send_end(struct http_exchange *x)
{
    struct conn *c = conn_of(x);
    int rc = h1_conn_send_end(&c->h1);
    if (rc == 0) {
        /* on_close must not run inside this call. */
        net_task_queue(c->server->loop, &c->turn);
    }
    return rc;
}

static bool blocked(const struct http_exchange *x)
{
    const struct conn *c = conn_of(x);
    return c->h1.stream != NULL && net_stream_blocked(c->h1.stream);
}

static void pause_in(struct http_exchange *x)
{
    h1_conn_pause(&conn_of(x)->h1);
}

static void resume_in(struct http_exchange *x)
{
    h1_conn_resume(&conn_of(x)->h1);
}

/* What was sent so far still goes out, of chunks and of an answer that the client has all of. */
static void abort_exchange(struct http_exchange *x)
{
    struct conn *c = conn_of(x);
    c->x.handlers = NULL;
    if (c->h1.out != H1_OUT_BODY || is_cut_by_reset(c)) {
        close_now(c);
    } else {
        close_gently(c);
    }
}

static const struct http_exchange_ops exchange_ops = {
    .send_head = send_head,
    .send_body = send_body,
    .send_end = send_end,
    .blocked = blocked,
    .pause = pause_in,
    .resume = resume_in,
    .abort = abort_exchange,
};

/* ---- the server ---- */

/* NULL: none waits for a request. */
static struct conn *longest_idle(struct http_server *s)
{
    LIST_FOR_EACH(node, &s->conns)
    {
        struct conn *c = LIST_ITEM(node, struct conn, link);
        if (c->state == CONN_IDLE) {
            return c;
        }
    }
    return NULL;
}

/* Whether the connection can go for another one: nothing that it asked is being answered. */
static bool may_go(const struct conn *c)
{
    uint64_t now = net_loop_now(c->server->loop);
    return c->state == CONN_IDLE ||
           (c->state == CONN_BUSY && c->h1.in == H1_IN_MESSAGE && now >= c->since + BODY_GRACE_MS);
}

/* It has said nothing since it was accepted. */
static bool is_mute(const struct conn *c)
{
    return !c->asked && net_loop_now(c->server->loop) >= c->since + SILENCE_MS;
}

/* Whether `c` goes rather than `other`, which may be NULL. */
static bool goes_first(const struct conn *c, const struct conn *other)
{
    if (other == NULL || c->peer->connections != other->peer->connections) {
        return other == NULL || c->peer->connections > other->peer->connections;
    }
    if (c->asked != other->asked) {
        return !c->asked;
    }
    return c->since < other->since;
}

/* The connection whose place a newcomer of this peer gets; NULL: there is none. */
static struct conn *find_place(struct http_server *s, const struct net_peer *newcomer)
{
    struct conn *found = NULL;
    struct conn *silent = NULL;
    LIST_FOR_EACH(node, &s->conns)
    {
        struct conn *c = LIST_ITEM(node, struct conn, link);
        bool more = c->peer == newcomer || c->peer->connections > newcomer->connections + 1;
        if (may_go(c) && more && goes_first(c, found)) {
            found = c;
        }
        silent = silent == NULL && is_mute(c) ? c : silent;
    }
    return found != NULL ? found : silent;
}

static void replace(struct http_server *s, struct conn *c)
{
    struct err e = ERR_INIT;
    s->stats.replaced++;
    log_warn("closing a connection for another one: too many open connections",
             log_num("open", s->stats.open));
    err_set(&e, UV_ECONNABORTED, "another connection needs its place");
    break_off(c, &e);
}

/* NULL: each has asked something, or came just now. */
static struct conn *longest_silent(struct http_server *s)
{
    LIST_FOR_EACH(node, &s->conns)
    {
        struct conn *c = LIST_ITEM(node, struct conn, link);
        if (is_mute(c)) {
            return c;
        }
    }
    return NULL;
}

/* Whether there is room for another connection, or was made. */
static bool have_room(struct http_server *s, const struct net_peer *newcomer)
{
    if (s->o.max_streams != 0 && s->loop->streams > s->o.max_streams) {
        s->stats.refused++;
        return false;
    }
    if (s->o.max_connections == 0 || s->stats.open < s->o.max_connections) {
        return true;
    }
    struct conn *other = NULL;
    if (s->o.shares) {
        other = find_place(s, newcomer);
    } else if (s->o.replace_idle) {
        other = longest_idle(s);
    } else if (s->o.replace_silent) {
        other = longest_silent(s);
    }
    s->stats.refused++;
    if (other == NULL) {
        s->stats.no_room++;
        log_warn("refusing a connection: too many open connections",
                 log_num("open", s->stats.open));
        return false;
    }
    replace(s, other);
    return true;
}

/* The stream's peer, referenced; NULL: it cannot be told, or there is no memory. */
static struct net_peer *peer_of(struct http_server *s, const struct net_stream *stream)
{
    struct sockaddr_storage from;
    if (net_stream_peer_address(stream, &from) != 0) {
        return NULL;
    }
    return net_peers_get(&s->peers, (const struct sockaddr *)&from);
}

static void add_conn(struct http_server *s, struct net_stream *stream, struct net_peer *peer)
{
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL ||
        h1_conn_init(&c->h1, s->loop, stream, s->o.proxy ? H1_PROXY_REQUESTS : H1_REQUESTS,
                     &s->o.limits, &conn_handlers, c) != 0) {
        log_error("out of memory: closing a new connection");
        net_stream_close(stream);
        free(c);
        return;
    }
    c->server = s;
    if (peer != NULL && s->o.shares) {
        c->peer = net_peer_ref(peer);
        peer->connections++;
    }
    if (peer != NULL) {
        net_stream_take_turns(stream, peer);
    }
    h1_conn_set_budget(&c->h1, s->o.budget);
    list_init(&c->link);
    list_init(&c->rest);
    net_deadline_init(&c->idle_limit, on_idle_limit);
    net_deadline_init(&c->head_limit, on_head_limit);
    net_task_init(&c->turn, on_turn);
    s->stats.accepted++;
    s->stats.open++;
    wait_for_request(c, s->o.first_timeout_ms != 0 ? s->o.first_timeout_ms : s->o.idle_timeout_ms);
    h1_conn_start(&c->h1);
}

static void on_accept(void *data, struct net_stream *stream)
{
    struct http_server *s = data;
    bool wanted = s->o.shares || net_stream_has_tls(stream);
    struct net_peer *peer = wanted ? peer_of(s, stream) : NULL;
    if ((s->o.shares && peer == NULL) || !have_room(s, s->o.shares ? peer : NULL)) {
        net_stream_close(stream);
    } else {
        add_conn(s, stream, peer);
    }
    net_peer_unref(peer);
}

static void on_drained(struct net_task *t)
{
    struct http_server *s = LIST_ITEM(t, struct http_server, drained);
    if (s->handlers->on_drained != NULL) {
        s->handlers->on_drained(s->data);
    }
}

static int listen_at(struct http_server *s, const char *address, const char *path,
                     struct tls_config *tls, bool plain_too, struct err *e)
{
    const struct net_listener_options o = {
        .address = address,
        .path = path,
        .tls = tls,
        .plain_too = plain_too,
        .write_timeout_ms = s->o.write_timeout_ms,
        .backlog = s->o.backlog,
        .kernel_bytes = s->o.kernel_bytes,
    };
    if (s->listener_count == HTTP_SERVER_ADDRESSES_MAX) {
        return err_set(e, -E2BIG, "more than %d addresses", HTTP_SERVER_ADDRESSES_MAX);
    }
    struct err why = ERR_INIT;
    struct net_listener *n = net_listener_new(s->loop, &o, on_accept, s, &why);
    if (n == NULL) {
        return err_set(e, why.code, "%s", why.msg);
    }
    s->listeners[s->listener_count++] = n;
    return 0;
}

static void stop_listening(struct http_server *s)
{
    while (s->listener_count > 0) {
        net_listener_close(s->listeners[--s->listener_count]);
    }
}

struct http_server *http_server_new(struct net_loop *l, const struct http_server_options *o,
                                    const struct http_server_handlers *handlers, void *data,
                                    struct err *e)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    s->loop = l;
    s->o = *o;
    if (s->o.limits.head_bytes == 0) {
        s->o.limits = h1_limits_default;
    }
    s->handlers = handlers;
    s->data = data;
    list_init(&s->conns);
    list_init(&s->resting);
    list_init(&s->going);
    net_task_init(&s->step, on_step);
    net_peers_init(&s->peers);
    net_task_init(&s->drained, on_drained);
    s->turn = net_timer_new(l, on_next_turn, s);
    int rc = s->turn == NULL ? err_memory(e)
                             : listen_at(s, o->address, o->path, o->tls, o->plain_too, e);
    if (rc != 0) {
        net_timer_free(s->turn);
        free(s);
        return NULL;
    }
    return s;
}

int http_server_listen(struct http_server *s, const char *address, struct tls_config *tls,
                       struct err *e)
{
    return listen_at(s, address, NULL, tls, false, e);
}

const char *http_server_address(const struct http_server *s)
{
    return http_server_address_at(s, 0);
}

const char *http_server_address_at(const struct http_server *s, size_t n)
{
    return n < s->listener_count ? net_listener_address(s->listeners[n]) : "";
}

const struct http_server_stats *http_server_stats(const struct http_server *s)
{
    return &s->stats;
}

struct net_peer *http_server_peer(const struct http_exchange *x)
{
    return LIST_ITEM(x, struct conn, x)->peer;
}

bool http_server_is_tls(const struct http_exchange *x)
{
    return net_stream_tls(LIST_ITEM(x, struct conn, x)->h1.stream) != NULL;
}

bool http_server_client_left(const struct http_exchange *x)
{
    return net_stream_peer_left(LIST_ITEM(x, struct conn, x)->h1.stream);
}

void http_server_set_tls(struct http_server *s, struct tls_config *tls)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        if (net_listener_is_tls(s->listeners[i])) {
            net_listener_set_tls(s->listeners[i], tls);
        }
    }
}

void http_server_drain(struct http_server *s)
{
    if (s->draining) {
        return;
    }
    s->draining = true;
    stop_listening(s);
    for (struct list *node = s->conns.next, *next; node != &s->conns; node = next) {
        next = node->next;
        struct conn *c = LIST_ITEM(node, struct conn, link);
        if (c->state == CONN_IDLE && net_stream_flushed(c->h1.stream)) {
            close_now(c);
        } else if (c->state == CONN_IDLE) {
            close_gently(c); /* its last response is still queued */
        }
    }
    check_drained(s);
}

void http_server_free(struct http_server *s)
{
    if (s == NULL) {
        return;
    }
    struct err e = ERR_INIT;
    err_set(&e, UV_ECANCELED, "the server is shutting down");
    stop_listening(s);
    while (!list_empty(&s->conns)) {
        break_off(LIST_ITEM(s->conns.next, struct conn, link), &e);
    }
    net_timer_free(s->turn);
    net_task_cancel(&s->step);
    net_task_cancel(&s->drained);
    net_peers_deinit(&s->peers);
    free(s);
}

int http_respond(struct http_exchange *x, unsigned status, struct slice content_type,
                 struct slice body, const struct http_header *headers, size_t count)
{
    return http_respond_saying(x, status, SLICE(""), content_type, body, headers, count);
}

int http_respond_saying(struct http_exchange *x, unsigned status, struct slice reason,
                        struct slice content_type, struct slice body,
                        const struct http_header *headers, size_t count)
{
    struct http_header all[HEADERS_EXTRA];
    size_t n = 0;
    if (content_type.len > 0) {
        all[n++] = (struct http_header){SLICE("Content-Type"), content_type};
    }
    for (size_t i = 0; i < count && n < HEADERS_EXTRA; i++) {
        all[n++] = headers[i];
    }
    struct http_head head = {
        .status = status,
        .reason = reason,
        .minor = 1,
        .headers = all,
        .header_count = n,
        .framing = HTTP_BODY_LENGTH,
        .content_length = body.len,
    };
    int rc = http_exchange_send_head(x, &head);
    if (rc == 0) {
        rc = http_exchange_send_body(x, body);
    }
    return rc == 0 ? http_exchange_send_end(x) : rc;
}
