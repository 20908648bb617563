/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_conn.h - the border between a client's pool and the protocol on a connection; internal to
 * core/http.
 *
 * The pool (client.c) decides which connection carries a request: it keeps the requests that wait,
 * dials, keeps unused connections, and repeats what a kept one lost. A protocol (client_h1.c,
 * client_h2.c) is given a stream that is open, and the requests to carry on it: as many at a time
 * as it says. It takes over the operations of their exchanges and calls their handlers, but for
 * on_close, which is the pool's.
 *
 * A request that is guarded (message.h) is carried only by a connection that sends it at the end of
 * this turn: by none whose stream is stuck (net/stream.h). What it has to wait for all the same, as
 * the server's windows are closed, is sent only if client_conn_may_send still allows it.
 */
#ifndef CORE_HTTP_CLIENT_CONN_H
#define CORE_HTTP_CLIENT_CONN_H

#include <stdlib.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/list.h"
#include "http/exchange.h"
#include "net/deadline.h"
#include "net/stream.h"

struct proxy_connect;

/* A request lives from http_client_request to its on_close or abort, on one connection or, when
 * sent again, on others after it. */
struct client_request {
    struct http_exchange x;
    struct http_client *client;
    struct client_conn *conn; /* NULL while waiting */
    void *stream;             /* what the protocol keeps for it */
    struct list link;         /* among those that wait, or in conn->requests */
    struct http_head *head;   /* kept until the response begins */
    struct buf body;          /* what its user sent of it, as long as it may be sent again */
    struct byte_share share;  /* of both */
    uint64_t carried_ms;      /* HTTP/2: since when, by the loop */
    uint64_t newer_than;      /* connections up to this number do not carry it; 0: any does */
    unsigned resent;          /* times */
    bool is_head;
    bool bodyless; /* complete with its head; the user's end is a formality */
    bool repeatable;
    bool upgrade;
    bool background;
    bool guarded;
    bool sent;   /* or begun to be */
    bool kept;   /* by a connection that had proved good before */
    bool taken;  /* some of its body was taken by a connection, and is not kept */
    bool ended;  /* by its user, behind `body` */
    bool paused; /* by its user, before a connection carries it */
};

/* It will not be sent again. */
static inline void client_request_drop(struct client_request *r)
{
    free(r->head);
    r->head = NULL;
    buf_reset(&r->body);
    byte_share_give_back(&r->share);
}

/* An operation of all exchanges of a client: the head went with http_client_request. */
int client_request_send_head(struct http_exchange *x, const struct http_head *head);

/* What the pool asks of a protocol. `session` is what the protocol keeps for a connection. */
struct client_protocol {
    const char *name; /* as ALPN has it */
    bool shared;      /* many requests go on a connection at a time, and one that cannot be sent
                         leaves others alone; bytes may come for none of them; the connection is
                         open when client_conn_opened says so */
    const struct http_exchange_ops *operations; /* of the exchanges that it carries */
    /* Takes c->stream, which has just opened, and begins to read. NULL: out of memory. */
    void *(*open)(struct client_conn *c);
    /* How many more requests it takes now; of a session that is not shared: whether it is free. */
    unsigned (*room)(const void *session);
    /* Sends the request's head, and its end if it is bodyless. Not 0: it was not sent, for which
     * `e` may have a reason, and a connection that is not shared is of no use any more. */
    int (*carry)(void *session, struct client_request *r, struct err *e);
    /* Nothing is told of the request any more. */
    void (*leave)(void *session, struct client_request *r);
    /* Nothing of the response has come. */
    bool (*untouched)(const void *session, const struct client_request *r);
    /* Of a shared one: all of the response has come, and is told when its user wants it, whatever
     * becomes of the connection. */
    bool (*answered)(const void *session, const struct client_request *r);
    /* Closes the stream after delivering what is queued, as far as it is of use; or at once.
     * Nothing is called any more. */
    void (*finish)(void *session);
    void (*close)(void *session);
    /* After one of the two, when no handler is on the stack. */
    void (*free)(void *session);
};

/* DIALLING -> BUSY -> IDLE -> BUSY ... -> GONE (from any) */
enum client_conn_state { CLIENT_DIALLING, CLIENT_BUSY, CLIENT_IDLE, CLIENT_GONE };

struct client_way;

struct client_conn {
    struct http_client *client;
    struct client_way *way;
    struct net_loop *loop;
    struct net_stream *stream;     /* the protocol's, once it is open; NULL when it has closed it */
    struct proxy_connect *proxied; /* while a proxy is asked for a tunnel; otherwise NULL */
    const struct client_protocol *protocol;
    void *session;        /* NULL while dialling */
    uint64_t number;      /* in the order of dialling */
    struct list requests; /* that it carries, or is dialled for */
    unsigned carried;     /* how many these are */
    struct list link;     /* among those with room for a request, or among the others */
    struct net_deadline idle_limit;
    struct net_task release; /* frees it when handlers have returned */
    enum client_conn_state state;
    unsigned generation; /* of the TLS settings */
    bool opening;        /* counts as being dialled */
    bool proved;         /* a request on it has been answered */
    bool leaving;        /* takes no more requests, and ends with the last of them */
    bool narrow;         /* HTTP/2: not much is to be kept of its streams */
    bool given_up;       /* a request on it was, which may still be on its way */
    bool broken_off;     /* nothing more is to be sent on it, nor by the kernel */
};

/* Whether what is guarded may be sent at this moment. */
bool client_conn_may_send(const struct client_conn *c);

/* What a protocol tells the pool; no function is to be called inside one of the user's. */

/* Both messages of the request are complete, or no more of them is wanted. `reusable`: the
 * connection may carry other requests. Ends the request; session and connection may be closed. */
void client_conn_done(struct client_request *r, bool reusable);
/* The connection broke: repeats or ends its requests. The session is closed, or only has answers to
 * tell. */
void client_conn_lost(struct client_conn *c, const struct err *e);
/* The user aborted the request, and with it the connection, for which there is no other way to
 * leave it. Allowed inside a call of the user's. */
void client_conn_abandon(struct client_request *r);

/* Of a shared connection: */
/* The server has begun to speak. */
void client_conn_opened(struct client_conn *c);
/* A response has begun. */
void client_conn_answered(struct client_conn *c);
/* The user sends more of the body, which is kept as long as there is room. Allowed inside a call of
 * the user's. */
void client_request_keep(struct client_request *r, struct slice data);
/* There is more or less room, or `leaving` was set. The session may be closed. */
void client_conn_changed(struct client_conn *c);
/* The request alone failed. `refused`: nothing of it was executed, so it is sent again if it can
 * be. Otherwise it ends. */
void client_conn_failed(struct client_request *r, const struct err *e, bool refused);
/* The user aborted the request; others go on. Allowed inside a call of the user's. */
void client_conn_dropped(struct client_request *r);

#endif
