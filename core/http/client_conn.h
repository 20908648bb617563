/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_conn.h - the border between a client's pool and the protocol on a connection; internal to
 * core/http.
 *
 * The pool (client.c) decides which connection carries a request: it keeps the requests that wait,
 * dials, keeps unused connections, and repeats what a kept one lost. A protocol (client_h1.c) is
 * given a stream that is open, and the requests to carry on it: as many at a time as it says. It
 * takes over the operations of their exchanges and calls their handlers, but for on_close, which is
 * the pool's.
 */
#ifndef CORE_HTTP_CLIENT_CONN_H
#define CORE_HTTP_CLIENT_CONN_H

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/list.h"
#include "http/exchange.h"
#include "net/deadline.h"
#include "net/stream.h"

struct proxy_connect;

/* A request lives from http_client_request to its on_close or abort, on one connection or, when
 * repeated, on a second. */
struct client_request {
    struct http_exchange x;
    struct http_client *client;
    struct client_conn *conn; /* NULL while waiting */
    struct list link;         /* among those that wait, or in conn->requests */
    struct buf head;          /* as HTTP/1.1 has it; kept until the response begins */
    struct byte_share head_share;
    enum http_framing framing;
    uint64_t content_length;
    bool is_head;
    bool bodyless; /* complete with its head; the user's end is a formality */
    bool repeatable;
    bool upgrade;
    bool background;
    bool guarded;
    bool sent;   /* or begun to be */
    bool paused; /* by its user, before a connection carries it */
};

/* It will not be repeated. */
static inline void client_request_drop_head(struct client_request *r)
{
    buf_reset(&r->head);
    byte_share_give_back(&r->head_share);
}

/* What the pool asks of a protocol. `session` is what the protocol keeps for a connection. */
struct client_protocol {
    const char *name;                           /* as ALPN has it */
    unsigned requests_max;                      /* carried at a time */
    const struct http_exchange_ops *operations; /* of the exchanges that it carries */
    /* Takes c->stream, which has just opened, and begins to read. NULL: out of memory. */
    void *(*open)(struct client_conn *c);
    /* Sends the request's head, and its end if it is bodyless. Not 0: the connection is of no use
     * any more. */
    int (*carry)(void *session, struct client_request *r);
    /* Nothing of the response has come. */
    bool (*untouched)(const void *session, const struct client_request *r);
    /* Closes the stream after delivering what is queued, as far as it is of use; or at once.
     * Nothing is called any more. */
    void (*finish)(void *session);
    void (*close)(void *session);
    /* After one of the two, when no handler is on the stack. */
    void (*free)(void *session);
};

/* DIALLING -> BUSY -> IDLE -> BUSY ... -> GONE (from any) */
enum client_conn_state { CLIENT_DIALLING, CLIENT_BUSY, CLIENT_IDLE, CLIENT_GONE };

struct client_conn {
    struct http_client *client;
    struct net_loop *loop;
    struct net_stream *stream;     /* the protocol's, once it is open */
    struct proxy_connect *proxied; /* while a proxy is asked for a tunnel; otherwise NULL */
    const struct client_protocol *protocol;
    void *session;        /* NULL while dialling */
    struct list requests; /* that it carries, or is dialled for */
    unsigned carried;     /* how many these are */
    struct list link;     /* among those with room for a request, or among the others */
    struct net_deadline idle_limit;
    struct net_task release; /* frees it when handlers have returned */
    enum client_conn_state state;
    unsigned generation; /* of the TLS settings */
    bool reused;         /* it has carried a request before these */
};

/* What a protocol tells the pool; no function is to be called inside one of the user's. */

/* Both messages of the request are complete, or no more of them is wanted. `reusable`: the
 * connection may carry other requests. Ends the request; session and connection may be closed. */
void client_conn_done(struct client_request *r, bool reusable);
/* The connection broke: repeats or ends its requests. The session is closed. */
void client_conn_lost(struct client_conn *c, const struct err *e);
/* The user aborted the request, and with it the connection, for which there is no other way to
 * leave it. Allowed inside a call of the user's. */
void client_conn_abandon(struct client_request *r);

#endif
