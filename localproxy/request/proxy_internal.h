/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy_internal.h - what a proxy is made of, for its own files: proxy.c has its life, request.c
 * the way of each request.
 */
#ifndef LOCALPROXY_REQUEST_PROXY_INTERNAL_H
#define LOCALPROXY_REQUEST_PROXY_INTERNAL_H

#include "exchange/delays.h"
#include "exchange/refusal_log.h"
#include "forward/forward.h"
#include "guard/fence.h"
#include "lock/lock.h"
#include "lock/shared_lock.h"
#include "program/local_token.h"
#include "request/proxy.h"

#define PROXY_RETRY_AFTER_S 1

struct proxy {
    struct net_loop *loop;
    struct proxy_options o;
    proxy_settled_cb on_settled;
    void *settled_data;
    struct http_server *server;
    struct byte_budget budget;
    struct byte_budget sent;
    struct net_backlog *backlog;
    struct forward_context forward;
    struct rules *rules;
    int64_t rules_since;
    char why_none[ERR_MSG_MAX];
    struct lock_rule lock;
    struct shared_lock lock_elsewhere;
    struct shared_lock peering;
    struct fence_history history;
    struct buf lock_target; /* of the request at hand, with the lock's name in this shard */
    struct buf target;      /* of the request at hand, with the selector */
    struct refusal_log refusals;
    char scope[LOCAL_TOKEN_SCOPE_LEN + 1]; /* of tokens for this API server */
    struct buf newest;   /* of the list at hand, without the version that it asked for */
    struct list refused; /* requests that wait for their refusal */
    struct delays delays;
    struct bucket_load load; /* with --count-load */
    struct resource_requests resources;
    struct proxy_clients clients;
};

/* Of the server's handlers, and of the forwards: data is the proxy. */
void request_begin(void *data, struct http_exchange *x, const struct http_head *head);
void request_again(void *data, struct http_exchange *x, const struct http_head *head, bool ended,
                   struct passage *passage);
bool request_fences(void *data, const struct request_info *ri);
/* Of its delays. */
void request_delay_over(void *data, struct http_exchange *x, const struct http_head *head,
                        bool ended, void *body, struct fault_drawn *drawn);

/* Why nothing is shown while the lease on the rules has expired. */
#define PROXY_EXPIRED_SIZE (ERR_MSG_MAX + 128)
void proxy_explain_expired(const struct proxy *p, char out[PROXY_EXPIRED_SIZE]);

/* Not each of many. */
void proxy_log_refusal(struct proxy *p, const char *what, unsigned code, const char *reason);

#endif
