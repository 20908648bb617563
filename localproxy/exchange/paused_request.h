/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paused_request.h - a request that waits before anything is done with it.
 */
#ifndef LOCALPROXY_EXCHANGE_PAUSED_REQUEST_H
#define LOCALPROXY_EXCHANGE_PAUSED_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "http/exchange.h"
#include "net/loop.h"
#include "traffic/passage.h"

/* The exchange has no handlers, as when it came; `head` is valid during the call. `ended`: all of
 * the request has come. What is in `passage` is the callee's to take. Not called when the client
 * has gone, or the server ends. */
typedef void (*paused_request_cb)(void *data, struct http_exchange *x, const struct http_head *head,
                                  bool ended, struct passage *passage);

/* What follows, and to whom. */
struct paused_request_end {
    paused_request_cb cb;
    void (*gone)(void *data); /* the client has gone, or the server ends; NULL: nobody cares */
    void *data;
    bool ended;              /* all of the request has come already */
    struct passage *passage; /* of the request: it is taken, if the request is. NULL: nothing yet */
};

#define PAUSED_UNTIL_CONTINUED 0

/* Takes the exchange, of whose body nothing was read: `end` follows after `ms`, or earlier with
 * paused_requests_continue(waiting). False without memory: nothing has happened. */
MUST_CHECK bool paused_request_start(struct net_loop *l, struct list *waiting,
                                     struct http_exchange *x, const struct http_head *head,
                                     uint64_t ms, const struct paused_request_end *end);

/* Ends it at once for all that wait there now. */
void paused_requests_continue(struct list *waiting);

#endif
