/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - an exchange whose incoming body is handed over whole.
 *
 * For bodies that are small by nature. The collector takes the place of the exchange's handlers
 * for as long as the exchange lives; its user embeds it and finds itself with LIST_ITEM.
 *
 * Server, in on_request:           Client:
 *     http_collect_init(c, ...);       http_collect_init(c, ...);
 *     http_collect_take(c, x);         c->x = http_client_request(..., http_collect_table(), c, e);
 */
#ifndef CORE_HTTP_COLLECT_H
#define CORE_HTTP_COLLECT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "http/exchange.h"

struct http_collect;

/* As http_exchange_handlers, but for on_body. on_head, on_bytes and on_drain may be NULL. */
struct http_collect_handlers {
    void (*on_head)(struct http_collect *c, const struct http_head *head); /* client */
    void (*on_drain)(struct http_collect *c);
    /* More of the body is held; the collector may be released or aborted, and freed. May be NULL.
     */
    void (*on_bytes)(struct http_collect *c);
    /* At most once: the body, complete, valid until http_collect_deinit; or `e` and no body:
     * -EMSGSIZE when it is larger than allowed, -EDQUOT when the budget is used up, -ENOMEM. The
     * exchange is still there to be answered or aborted; what more comes of the body is dropped. */
    void (*on_body)(struct http_collect *c, struct slice body, const struct err *e);
    /* The last call, also when there was no on_body: the exchange is gone (c->x is NULL). */
    void (*on_close)(struct http_collect *c, const struct err *e);
};

struct http_collect {
    struct http_exchange *x; /* NULL once gone */
    const struct http_collect_handlers *handlers;
    struct buf body;
    struct byte_share share; /* of `body` */
    bool told;               /* on_body was called */
};

/* `max`: bytes of body that are taken. */
void http_collect_init(struct http_collect *c, size_t max,
                       const struct http_collect_handlers *handlers);
/* The body counts there until http_collect_deinit, and may grow no further than it lets; `budget`
 * must outlive it. */
void http_collect_set_budget(struct http_collect *c, struct byte_budget *budget);
/* Server: the exchange's events go to the collector from now on. */
void http_collect_take(struct http_collect *c, struct http_exchange *x);
/* Client: what to pass to http_client_request as handlers, with the collector as data. */
const struct http_exchange_handlers *http_collect_table(void);
/* Server, once it was taken: lets go of the exchange, which has no handlers then, as when it came.
 * The collector may be deinitialised and freed before the handler returns. */
struct http_exchange *http_collect_release(struct http_collect *c);
/* Ends the exchange if it is still there; no handler is called any more. The body stays. */
void http_collect_abort(struct http_collect *c);
/* In on_body: the body is the caller's from now on. */
void http_collect_take_body(struct http_collect *c, struct buf *out);
/* Aborts, and frees the body. */
void http_collect_deinit(struct http_collect *c);

#endif
