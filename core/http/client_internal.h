/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_internal.h - what the files of client.h share: client.c (the pool: which connection
 * carries a request) and client_request.c (requests). The protocols do not see it.
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
    unsigned generation;         /* grows when the TLS settings change */
    struct list ready;      /* connections with room for a request, the one used last in front */
    struct list conns;      /* all others */
    struct list particular; /* requests that wait, and that not every connection may carry */
    struct list waiting;    /* others for which no connection may be opened yet */
    struct list background; /* the background ones of them */
    struct net_task serve;
    unsigned dialling; /* in both ways */
    bool succeeded;    /* a connection was opened, since there was none being dialled */
    bool doubtful;     /* one was not, nor any since: no more are dialled while others are tried */
    struct err unreachable;     /* code 0: the last one dialled was opened, or one answered since */
    bool failing;               /* no connection could be opened, */
    uint64_t failing_ms;        /* the first time then, */
    struct net_deadline failed; /* and the last time not long ago (FAILING_PAUSE_MS) */
    struct http_client_stats stats;
};

#endif
