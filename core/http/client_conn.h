/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_conn.h - a connection of a client's pool, and the border to the protocol on it; internal
 * to core/http.
 *
 * The pool (client.c) decides which connection carries a request, and keeps the requests that wait.
 * A connection (client_conn.c) is dialled, kept while it is unused, and closed, and hands back what
 * can be sent again when it breaks. A protocol (client_h1.c, client_h2.c) is given a stream that is
 * open, and the requests to carry on it: as many at a time as it says. It takes over the operations
 * of their exchanges and calls their handlers, but for on_close, which is the connection's.
 *
 * A request that is guarded (message.h) is carried only by a connection that sends it at the end of
 * this turn: by none whose stream is stuck (net/stream.h). What it has to wait for all the same, as
 * the server's windows are closed, is sent only if client_conn_may_send still allows it.
 */
#ifndef CORE_HTTP_CLIENT_CONN_H
#define CORE_HTTP_CLIENT_CONN_H

#include "base/list.h"
#include "http/client_request.h"
#include "net/deadline.h"
#include "net/stream.h"

struct proxy_connect;

/* What a connection asks of a protocol. `session` is what the protocol keeps for a connection. */
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
    /* Of a shared one: whether the request can be sent as it comes, without waiting for others. */
    bool (*fits)(void *session, const struct client_request *r);
    /* Or else, at least, begun at once. */
    bool (*shares)(void *session, const struct client_request *r);
    /* Likewise: one with a large body is there. */
    bool (*has_upload)(const void *session);
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
    struct byte_budget *windows; /* HTTP/2: of all connections of the client (h2_session_new) */
    struct net_backlog *backlog; /* likewise; NULL: none */
    uint64_t write_timeout_ms; /* the server takes nothing of a request for so long; 0: no limit */
    unsigned generation;       /* of the TLS settings */
    bool opening;              /* counts as being dialled */
    bool proved;               /* a request on it has been answered */
    bool leaving;              /* takes no more requests, and ends with the last of them */
    bool given_up;             /* a request on it was, which may still be on its way */
    bool broken_off;           /* nothing more is to be sent on it, nor by the kernel */
};

/* Whether the connection can be asked whether it is of use (http_client_options.probe). */
bool client_conn_can_probe(const struct client_conn *c);
/* Asks it, with a request among its others. NULL: that could not be asked. */
struct client_request *client_conn_probe(struct client_conn *c);
/* That was not answered: it is about to be lost. */
void client_conn_note_stalled(struct client_conn *c);
/* Whether what is guarded may be sent at this moment. */
bool client_conn_may_send(const struct client_conn *c);

/* What a protocol tells its connection; no function is to be called inside one of the user's. */

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
/* There is more or less room, or `leaving` was set. The session may be closed. */
void client_conn_changed(struct client_conn *c);
/* The request alone failed. `refused`: nothing of it was executed, so it is sent again if it can
 * be. Otherwise it ends. */
void client_conn_failed(struct client_request *r, const struct err *e, bool refused);
/* The user aborted the request; others go on. Allowed inside a call of the user's. */
void client_conn_dropped(struct client_request *r);

#endif
