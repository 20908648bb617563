/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - one request and its response, whoever asks and whatever version carries it.
 *
 * Both sides look the same: a message comes in (head, body, end) and a message goes out (head,
 * body, end). For a server the request comes in, for a client the response does. The transport
 * (http/server.h, http/client.h) makes exchanges; a proxy joins two of them.
 *
 * After a response with status 101 was sent or received, or one of 200 to 299 was sent to CONNECT,
 * both bodies are raw bytes of the new protocol until each side ends: a tunnel.
 */
#ifndef CORE_HTTP_EXCHANGE_H
#define CORE_HTTP_EXCHANGE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "http/message.h"

struct http_exchange;

/* No handler runs inside http_client_request or http_exchange_*; all may call any of those. */
struct http_exchange_handlers {
    /* Client: the response's head, valid during the call. A server gets its request's head when
     * the exchange is made. */
    void (*on_head)(struct http_exchange *x, const struct http_head *head);
    void (*on_body)(struct http_exchange *x, struct slice data);
    /* The incoming message is complete; in a tunnel: the peer sends no more. Of an upgrade that is
     * agreed on later both are told, of CONNECT only the tunnel's. */
    void (*on_end)(struct http_exchange *x);
    /* After http_exchange_blocked was true: sending may go on. */
    void (*on_drain)(struct http_exchange *x);
    /* The last call; the exchange is gone when it returns. `e` is NULL when both messages were
     * complete, else why they are not. Not called after http_exchange_abort. */
    void (*on_close)(struct http_exchange *x, const struct err *e);
};

/* What a transport does; the functions below say what each means. */
struct http_exchange_ops {
    int (*send_head)(struct http_exchange *x, const struct http_head *head);
    int (*send_body)(struct http_exchange *x, struct slice data);
    int (*send_end)(struct http_exchange *x);
    bool (*blocked)(const struct http_exchange *x);
    void (*pause)(struct http_exchange *x);
    void (*resume)(struct http_exchange *x);
    void (*abort)(struct http_exchange *x);
};

struct http_exchange {
    const struct http_exchange_ops *ops;
    const struct http_exchange_handlers *handlers; /* set by the user at once */
    void *data;                                    /* the user's */
    bool last; /* server: the connection ends with it; set before its head is sent */
};

/* Server: sends the response's head; a client's request head went with http_client_request.
 * Framing is written from head->framing as the peer's version allows; hop-by-hop headers other
 * than an agreed Upgrade are the transport's own business. 0, -EPROTO (already sent), -ENOBUFS or
 * -ENOMEM: then abort. */
static inline int MUST_CHECK http_exchange_send_head(struct http_exchange *x,
                                                     const struct http_head *head)
{
    return x->ops->send_head(x, head);
}

/* Bytes are copied. 0, -EPROTO (more than the announced length, or after the end), -ENOBUFS (the
 * caller ignored `blocked` for too long) or -ENOMEM. */
static inline int MUST_CHECK http_exchange_send_body(struct http_exchange *x, struct slice data)
{
    return x->ops->send_body(x, data);
}

/* 0, or -EPROTO when less than the announced length was sent. */
static inline int MUST_CHECK http_exchange_send_end(struct http_exchange *x)
{
    return x->ops->send_end(x);
}

/* Whether the sender should stop until on_drain (also: a client still connecting). */
static inline bool http_exchange_blocked(const struct http_exchange *x)
{
    return x->ops->blocked(x);
}

/* Stops and restarts the incoming body; after a pause what was already read, at most
 * NET_READ_SIZE, is kept back too. */
static inline void http_exchange_pause(struct http_exchange *x)
{
    x->ops->pause(x);
}

static inline void http_exchange_resume(struct http_exchange *x)
{
    x->ops->resume(x);
}

/* The user gives up: no handler is called any more, the exchange is gone, and the peer sees its
 * message cut off. */
static inline void http_exchange_abort(struct http_exchange *x)
{
    x->ops->abort(x);
}

#endif
