/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: net_dial > on_resolved > dial_next > on_connected > stream_opened, with TLS after the
 * handshake.
 *
 * A name may have several addresses, of which some do not answer at all, or answer without end.
 * Each gets a short try first, connection and handshake together; if none was reached, all get an
 * equal part of the time that is left (dial_pass_on).
 *
 * With a gate, a look-up may wait for others, within the same time (begin_turn), and addresses that
 * may not be reached are taken out of what was found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/socket_file.h"
#include "net/stream_internal.h"

/* Of an address in the first round: a lost SYN is repeated once in it. */
enum { TRY_MS = 1500 };

void dial_free(struct net_stream *s)
{
    struct dial *d = s->dial;
    if (d == NULL) {
        return;
    }
    if (d->found != NULL) {
        uv_freeaddrinfo(d->found);
    }
    list_remove(&d->in_gate);
    net_task_cancel(&d->failed);
    tls_config_unref(d->tls);
    free(d->host);
    free(d);
    s->dial = NULL;
}

static int explain(const struct dial *d, int code, struct err *e)
{
    bool full = code == UV_EAGAIN && d->port[0] == '\0'; /* connect(2) of a Unix socket */
    const char *why = full ? "too many connections are waiting to be accepted" : err_text(code);
    return err_set(e, code, "cannot connect to %s%s: %s", d->host, d->port, why);
}

/* No address is left. */
static void give_up(struct net_stream *s)
{
    struct err e = s->dial->last;
    stream_set_state(s, STATE_NO_SOCKET);
    stream_fail(s, &e);
}

/* The address just tried cannot be reached. */
static void reopen(struct net_stream *s, int code)
{
    (void)explain(s->dial, code, &s->dial->last);
    net_deadline_clear(&s->limit);
    stream_set_state(s, STATE_REOPENING);
    uv_close(&s->socket.handle, stream_on_closed);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct net_stream *s = req->data;
    struct dial *d = s->dial;
    if (s->state != STATE_CONNECTING) {
        return; /* it is being closed */
    }
    if (status != 0) {
        reopen(s, status);
        return;
    }
    stream_set_options(s, d->user_timeout_ms);
    if (d->tls == NULL) {
        stream_opened(s);
    } else {
        struct err e = ERR_INIT;
        stream_set_state(s, STATE_HANDSHAKING);
        s->tls = tls_session_new(d->tls, &e);
        if (s->tls == NULL) {
            stream_fail(s, &e);
            return;
        }
        struct slice none = {0};
        stream_update_reading(s);
        (void)stream_shake_hands(s, &none);
    }
    if (s->state == STATE_OPEN) {
        net_loop_settle(s->loop);
    }
}

static int start_connect(struct net_stream *s, const struct sockaddr *addr)
{
    s->dial->connect.data = s;
    return uv_tcp_connect(&s->dial->connect, &s->socket.tcp, addr, on_connected);
}

static uint64_t time_left(const struct net_stream *s)
{
    uint64_t now = net_loop_now(s->loop);
    return s->dial->until > now ? s->dial->until - now : 0;
}

/* Of the address before `next`. */
static void limit_address(struct net_stream *s)
{
    const struct dial *d = s->dial;
    uint64_t count = 1;
    for (const struct addrinfo *a = d->next; a != NULL; a = a->ai_next) {
        count++;
    }
    uint64_t ms = time_left(s) / count;
    bool several = d->found->ai_next != NULL;
    if (several && !d->second_round && ms > TRY_MS) {
        ms = TRY_MS;
    }
    if (d->until != 0) {
        net_deadline_set(s->loop, &s->limit, ms);
    }
}

/* A handshake that was begun is nothing to go on from. */
static void drop_handshake(struct net_stream *s)
{
    tls_session_free(s->tls);
    s->tls = NULL;
    s->reading = false;
    net_loop_take_back(s->loop, &s->wire);
}

bool dial_pass_on(struct net_stream *s)
{
    struct dial *d = s->dial;
    bool trying = s->state == STATE_CONNECTING || s->state == STATE_HANDSHAKING;
    if (!trying || d == NULL || d->found == NULL || s->output != OUTPUT_OPEN || time_left(s) == 0) {
        return false;
    }
    d->hurried = true;
    reopen(s, UV_ETIMEDOUT);
    drop_handshake(s);
    return true;
}

void dial_next(struct net_stream *s)
{
    struct dial *d = s->dial;
    if (d->next == NULL && d->hurried && !d->second_round) {
        d->second_round = true;
        d->next = d->found;
    }
    const struct addrinfo *a = d->next;
    if (a == NULL) {
        give_up(s);
        return;
    }
    d->next = a->ai_next;
    int rc = stream_open_socket(s);
    if (rc != 0) {
        err_set(&s->dial->last, rc, "cannot create a socket: %s", err_text(rc));
        give_up(s);
        return;
    }
    rc = start_connect(s, a->ai_addr);
    if (rc != 0) {
        reopen(s, rc);
        return;
    }
    limit_address(s);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found);

static int begin_lookup(struct net_stream *s)
{
    struct dial *d = s->dial;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char port[16];
    (void)snprintf(port, sizeof port, "%u", d->number);
    d->lookup.data = s;
    int rc = uv_getaddrinfo(&s->loop->uv, &d->lookup, on_resolved, d->host, port, &hints);
    if (rc == 0) {
        stream_set_state(s, STATE_RESOLVING);
        dial_gate_enter(d);
    }
    return rc;
}

static int begin_lookup_or_wait(struct net_stream *s)
{
    if (dial_gate_has_room(s->dial->gate)) {
        return begin_lookup(s);
    }
    stream_set_state(s, STATE_WAITING);
    dial_gate_wait(s->dial);
    return 0;
}

static void on_failed(struct net_task *t)
{
    struct dial *d = LIST_ITEM(t, struct dial, failed);
    struct err e = d->last;
    stream_fail(d->stream, &e);
}

/* It waited, and is the next. */
static void begin_turn(struct net_stream *s)
{
    int rc = begin_lookup(s);
    if (rc != 0) {
        (void)explain(s->dial, rc, &s->dial->last);
        stream_set_state(s, STATE_NO_SOCKET);
        net_task_queue(s->loop, &s->dial->failed);
    }
}

/* The others come before what was found is used: no handler runs in here. */
static void end_lookup(struct dial *d)
{
    dial_gate_leave(d);
    struct dial *next;
    while ((next = dial_gate_next(d->gate)) != NULL) {
        begin_turn(next->stream);
    }
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct net_stream *s = req->data;
    struct dial *d = s->dial;
    end_lookup(d);
    if (s->state == STATE_CLOSING) {
        if (found != NULL) {
            uv_freeaddrinfo(found);
        }
        stream_free(s);
        return;
    }
    if (status != 0) {
        err_set(&d->last, status, "cannot look up %s: %s", d->host, err_text(status));
        give_up(s);
        return;
    }
    d->found = found;
    dial_gate_drop_refused(d);
    if (d->found == NULL) {
        err_set(&d->last, NET_DIAL_FORBIDDEN,
                "cannot connect to %s%s: none of its addresses may be reached", d->host, d->port);
        give_up(s);
        return;
    }
    d->next = d->found;
    dial_next(s);
}

/* A literal or a path needs no look-up, but its errors too must come after net_dial returned. */
static int begin_connect(struct net_stream *s, const struct sockaddr_storage *literal)
{
    struct dial *d = s->dial;
    int rc = stream_open_socket(s);
    if (rc != 0) {
        return rc;
    }
    if (!s->local) {
        return start_connect(s, (const struct sockaddr *)literal);
    }
    d->connect.data = s;
    uv_pipe_connect(&d->connect, &s->socket.pipe, d->host, on_connected);
    return 0;
}

static int refuse_literal(struct net_stream *s)
{
    struct dial *d = s->dial;
    err_set(&d->last, NET_DIAL_FORBIDDEN, "cannot connect to %s%s: this address may not be reached",
            d->host, d->port);
    net_task_queue(s->loop, &d->failed);
    return 0;
}

static int begin_dial(struct net_stream *s)
{
    struct sockaddr_storage literal;
    if (s->local) {
        return begin_connect(s, NULL);
    }
    if (net_address_literal(s->dial->host, s->dial->number, &literal) != 0) {
        return begin_lookup_or_wait(s);
    }
    return dial_gate_allows(s->dial, (const struct sockaddr *)&literal) ? begin_connect(s, &literal)
                                                                        : refuse_literal(s);
}

/* NULL without memory. */
static struct net_stream *dial_new(struct net_loop *l, const struct net_dial_options *o)
{
    struct dial *d = calloc(1, sizeof *d);
    struct net_stream *s = NULL;
    if (d == NULL || (d->host = strdup(o->path != NULL ? o->path : o->host)) == NULL ||
        (s = stream_new(l, o->write_timeout_ms)) == NULL) {
        free(d != NULL ? d->host : NULL);
        free(d);
        return NULL;
    }
    s->dial = d;
    d->stream = s;
    d->gate = o->path == NULL ? o->gate : NULL;
    d->number = o->port;
    list_init(&d->in_gate);
    net_task_init(&d->failed, on_failed);
    s->dialled = true;
    s->local = o->path != NULL;
    if (!s->local) {
        (void)snprintf(d->port, sizeof d->port, " port %u", o->port);
    }
    d->user_timeout_ms = o->user_timeout_ms;
    d->tls = tls_config_ref(o->tls);
    return s;
}

int net_dial(struct net_loop *l, const struct net_dial_options *o,
             const struct net_stream_handlers *handlers, void *data, struct net_stream **out,
             struct err *e)
{
    int rc = o->path != NULL ? socket_file_check(o->path, e) : 0;
    if (rc != 0) {
        return rc;
    }
    struct net_stream *s = dial_new(l, o);
    if (s == NULL) {
        return err_memory(e);
    }
    s->handlers = handlers;
    s->data = data;
    rc = begin_dial(s);
    if (rc != 0) {
        (void)explain(s->dial, rc, e);
        stream_begin_close(s);
        return rc;
    }
    if (o->connect_timeout_ms != 0) {
        s->dial->until = net_loop_now(l) + o->connect_timeout_ms;
        net_deadline_set(l, &s->limit, o->connect_timeout_ms);
    }
    *out = s;
    return 0;
}
