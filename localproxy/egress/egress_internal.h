/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_internal.h - what the listener is made of, for its own files: egress.c has its life,
 * egress_request.c the way of each request.
 */
#ifndef LOCALPROXY_EGRESS_EGRESS_INTERNAL_H
#define LOCALPROXY_EGRESS_EGRESS_INTERNAL_H

#include "egress/egress.h"
#include "egress/hosts.h"
#include "egress/origins.h"
#include "egress/pseudonym.h"
#include "egress/relay.h"
#include "egress/tunnel.h"
#include "egress/via.h"
#include "exchange/refusal_log.h"
#include "net/address.h"
#include "program/local_token.h"

struct egress {
    struct net_loop *loop;
    struct egress_options o;
    struct http_server *server;
    char address[NET_ADDRESS_MAX];
    struct byte_budget budget; /* for heads as they come, and for what waits to be passed on */
    struct byte_budget sent;   /* for heads as they are sent */
    struct net_backlog *backlog;
    struct via *via;
    struct reach *reach;
    struct origins *origins;
    struct relays relays;
    struct tunnels tunnels;
    struct delays delays;
    struct pseudonym pseudonym;
    struct hosts hosts;
    struct refusal_log refusals;
    char scope[LOCAL_TOKEN_SCOPE_LEN + 1]; /* of tokens for this API server */
    bool asks_token;
    uint64_t requests; /* since the start */
    uint64_t refused;  /* of them, answered by localproxy itself, but for the next */
    uint64_t failed;
};

/* Of the server's handlers, the delays, the relays and the tunnels: data is the listener. */
void egress_on_request(void *data, struct http_exchange *x, const struct http_head *head);
void egress_on_delay_over(void *data, struct http_exchange *x, const struct http_head *head,
                          bool ended, void *body, struct fault_drawn *drawn);
void egress_on_failed(void *data, struct http_exchange *x, unsigned code,
                      const struct destination *t, const char *why);
void egress_on_answered(void *data, const struct destination *t, unsigned status);
void egress_on_opened(void *data, const struct destination *t);

/* Whether a connection to there may stay open. */
bool egress_still_allows(void *data, const struct traffic_external *q);
/* Whether a tunnel may, whose client asks for that name there. */
bool egress_allows_name(void *data, const struct traffic_external *q);

/* Not each of many. */
void egress_log_refusal(struct egress *g, const char *what, unsigned code, const char *host,
                        const char *why);

#endif
