/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_request.h - a client's request, and what is kept of it so that it can be sent, and sent
 * again; internal to core/http.
 *
 * Its head is kept until the response begins, as is what has gone of its body, as far as there is
 * room. While no connection carries it, the operations of its exchange are those here.
 */
#ifndef CORE_HTTP_CLIENT_REQUEST_H
#define CORE_HTTP_CLIENT_REQUEST_H

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/list.h"
#include "http/exchange.h"

struct client_conn;
struct http_client;

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
    bool large;    /* its body, as far as is known */
    bool repeatable;
    bool upgrade;
    bool background;
    bool guarded;
    bool sent;   /* or begun to be */
    bool probe;  /* it is about this connection, and sent on no other */
    bool kept;   /* by a connection that had proved good before */
    bool taken;  /* some of its body was taken by a connection, and is not kept */
    bool ended;  /* by its user, behind `body` */
    bool paused; /* by its user, before a connection carries it */
};

static inline struct client_request *client_request_of(const struct http_exchange *x)
{
    return LIST_ITEM(x, struct client_request, x);
}

/* Waits, on no list and with a copy of the head. NULL with `e` set: http_client_request has the
 * codes. */
MUST_CHECK struct client_request *client_request_new(struct http_client *client,
                                                     const struct http_head *head,
                                                     const struct http_exchange_handlers *handlers,
                                                     void *data, struct err *e);
/* It is on no list. */
void client_request_free(struct client_request *r);
/* Tells its user (on_close) and frees it. It has no connection. NULL: in order. */
void client_request_end(struct client_request *r, const struct err *e);
/* All requests of `from`, none of which has a connection. */
void client_requests_end(struct list *from, const struct err *e);

/* The answer begins, with that status: it will not be sent again, and the head goes. */
void client_request_answered(struct client_request *r, unsigned status);

/* The user sends more of the body, which is kept as long as there is room. Allowed inside a call of
 * the user's. */
void client_request_keep(struct client_request *r, struct slice data);
/* Hands what is kept to the connection that carries it now, which keeps it anew. 0, or a code. */
int client_request_send_kept(struct client_request *r);

/* Of the exchange, while no connection carries the request. */
extern const struct http_exchange_ops client_request_waiting;
/* An operation of all exchanges of a client: the head went with http_client_request. */
int client_request_send_head(struct http_exchange *x, const struct http_head *head);

/* Why it was not sent, unless there is a reason already. */
void client_request_explain(struct err *e, int rc);

#endif
