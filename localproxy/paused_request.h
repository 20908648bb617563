/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paused_request.h - a request whose answer waits, so that a client that asks again at once does
 * not do so without end.
 */
#ifndef LOCALPROXY_PAUSED_REQUEST_H
#define LOCALPROXY_PAUSED_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "http/exchange.h"
#include "net/loop.h"

/* The exchange has no handlers, as when it came, and is to be answered; `head` is valid during the
 * call. Not called when the client has gone, or the server ends. */
typedef void (*paused_request_cb)(void *data, struct http_exchange *x,
                                  const struct http_head *head);

/* Takes the exchange: `cb` follows after `ms`. What comes of a body is dropped. False without
 * memory. */
MUST_CHECK bool paused_request_start(struct net_loop *l, struct http_exchange *x,
                                     const struct http_head *head, uint64_t ms,
                                     paused_request_cb cb, void *data);

#endif
