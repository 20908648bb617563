/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_internal.h - what the files of client.h share: client.c (the pool: which connection
 * carries a request), client_conn.c (what becomes of a connection) and client_request.c (what a
 * request keeps). The protocols do not see it.
 */
#ifndef CORE_HTTP_CLIENT_INTERNAL_H
#define CORE_HTTP_CLIENT_INTERNAL_H

#include "http/client.h"
#include "http/client_conn.h"
#include "net/deadline.h"

/* Connections are dialled in one of two ways: for all requests, or for those that ask for an
 * upgrade, with TLS settings that do not offer HTTP/2. */
struct client_way {
    struct tls_config *tls;
    unsigned dialling;
    bool established; /* a connection was opened with these TLS settings */
    bool shared;      /* the last one can be */
};

struct http_client {
    struct net_loop *loop;
    struct http_client_options o;
    char *host;                  /* or the path of a Unix socket */
    struct http_proxy *proxy;    /* NULL: none */
    struct client_way all;       /* without TLS settings: plain */
    struct client_way upgrades;  /* without: as `all` */
    struct net_backlog *backlog; /* NULL: none */
    struct byte_budget windows;  /* of streams, above their first */
    unsigned generation;         /* grows when the TLS settings change */
    struct list ready;      /* connections with room for a request, the one used last in front */
    struct list conns;      /* all others */
    struct list particular; /* requests that wait, and that not every connection may carry: each has
                               its own reason */
    struct list small;   /* others for which no connection may be opened yet: with small bodies, */
    struct list waiting; /* without, */
    struct list background; /* the background ones of these, */
    struct list uploads;    /* with large bodies, or such of unknown length */
    struct net_task serve;
    unsigned dialling; /* in both ways */
    bool succeeded;    /* a connection was opened, since there was none being dialled */
    bool refused;      /* the one that was tried last could not be opened */
    bool doubtful;     /* one was not, nor any since: no more are dialled while others are tried */
    struct err unreachable;     /* code 0: the last one dialled was opened, or one answered since */
    bool failing;               /* no connection could be opened, */
    uint64_t failing_ms;        /* the first time then, */
    struct net_deadline failed; /* and the last time not long ago (FAILING_PAUSE_MS) */
    struct http_client_stats stats;
};

/* ---- what the pool asks of connections ---- */

/* Opens one for the request. 0, or a code with `e` perhaps set: the request has none. */
MUST_CHECK int client_conn_dial(struct client_way *way, struct client_request *r, struct err *e);
/* Puts the request on one that is open and has room. Likewise. */
MUST_CHECK int client_conn_carry(struct client_conn *c, struct client_request *r, struct err *e);
/* Whether it takes another request now. One that is `ready` may have lost its room within the read
 * that is being handled, and is placed anew behind it. */
bool client_conn_has_room(const struct client_conn *c);
/* Closes it at once. It carries nothing. */
void client_conn_retire(struct client_conn *c);
/* Closes it at once, and ends all that it carries. */
void client_conn_cut(struct client_conn *c, const struct err *e);

/* ---- what connections and requests tell the pool ---- */

/* What waits may have a connection now, or may be dialled for: soon. */
void client_pool_serve(struct http_client *client);
/* The request, which is on no list, is sent once more, on a connection with a higher number than
 * that: so many as were dialled, and it is one that is dialled from now on. */
void client_pool_send_again(struct client_request *r, uint64_t newer_than);
/* A connection was opened, or a request answered. */
void client_pool_opened(struct http_client *client);
void client_pool_reached(struct http_client *client);
/* A connection could not be opened, and is not being dialled any more: first it is noted whether
 * the server can be reached at all, then requests that wait are judged by it. */
void client_pool_unreached(struct http_client *client, const struct err *e);
void client_pool_doubt(struct http_client *client, const struct err *e);

#endif
