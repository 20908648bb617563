/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/socket_file.h"
#include "net/stream_internal.h"

void dial_free(struct net_stream *s)
{
    struct dial *d = s->dial;
    if (d == NULL) {
        return;
    }
    if (d->found != NULL) {
        uv_freeaddrinfo(d->found);
    }
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
    stream_set_state(s, STATE_REOPENING);
    uv_close(&s->socket.handle, stream_on_closed);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct net_stream *s = req->data;
    struct dial *d = s->dial;
    if (s->state == STATE_CLOSING) {
        return;
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

void dial_next(struct net_stream *s)
{
    const struct addrinfo *a = s->dial->next;
    if (a == NULL) {
        give_up(s);
        return;
    }
    s->dial->next = a->ai_next;
    int rc = stream_open_socket(s);
    if (rc != 0) {
        err_set(&s->dial->last, rc, "cannot create a socket: %s", err_text(rc));
        give_up(s);
        return;
    }
    rc = start_connect(s, a->ai_addr);
    if (rc != 0) {
        reopen(s, rc);
    }
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct net_stream *s = req->data;
    if (s->state == STATE_CLOSING) {
        if (found != NULL) {
            uv_freeaddrinfo(found);
        }
        stream_free(s);
        return;
    }
    if (status != 0) {
        err_set(&s->dial->last, status, "cannot look up %s: %s", s->dial->host, err_text(status));
        give_up(s);
        return;
    }
    s->dial->found = found;
    s->dial->next = found;
    dial_next(s);
}

static int begin_lookup(struct net_stream *s, unsigned number)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char port[16];
    (void)snprintf(port, sizeof port, "%u", number);
    s->dial->lookup.data = s;
    int rc =
        uv_getaddrinfo(&s->loop->uv, &s->dial->lookup, on_resolved, s->dial->host, port, &hints);
    if (rc == 0) {
        stream_set_state(s, STATE_RESOLVING);
    }
    return rc;
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

static int begin_dial(struct net_stream *s, unsigned port)
{
    struct sockaddr_storage literal;
    return s->local || net_address_literal(s->dial->host, port, &literal) == 0
               ? begin_connect(s, &literal)
               : begin_lookup(s, port);
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
    rc = begin_dial(s, o->port);
    if (rc != 0) {
        (void)explain(s->dial, rc, e);
        stream_begin_close(s);
        return rc;
    }
    if (o->connect_timeout_ms != 0) {
        net_deadline_set(l, &s->limit, o->connect_timeout_ms);
    }
    *out = s;
    return 0;
}
