/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held_body.h - a request whose body is collected before anything is done with it.
 */
#ifndef LOCALPROXY_EXCHANGE_HELD_BODY_H
#define LOCALPROXY_EXCHANGE_HELD_BODY_H

#include "base/byte_budget.h"
#include "http/exchange.h"
#include "net/loop.h"
#include "traffic/passage.h"

#define HELD_BODY_MAX (3 * 1024 * 1024) /* what kube-apiserver takes */
#define HELD_BODY_MS 60000              /* and how long it waits */

/* Once taken, the caller frees it with held_body_free. */
struct held_body {
    struct http_exchange *x; /* has no handlers, as when it came */
    struct http_head *head;
    struct slice body;
    struct passage passage;
    void *data;
};

/* All of the body is there; or `code` and `why`, and there is none: 408, 413 or 503, with which the
 * request is to be refused. Not called when the client has gone, or the server ends. */
typedef void (*held_body_cb)(struct held_body *h, unsigned code, const char *why);

/* Takes the exchange, and what is in `passage`; the body counts in `budget`. False without memory:
 * nothing has happened. */
MUST_CHECK bool held_body_start(struct net_loop *l, struct byte_budget *budget,
                                struct http_exchange *x, const struct http_head *head,
                                struct passage *passage, held_body_cb cb, void *data);
/* The exchange is left as it is. NULL is ignored. */
void held_body_free(struct held_body *h);

#endif
