/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pump.h - passes a request and its answer on between two exchanges.
 *
 *     client --- down: request in, answer out ---+
 *                                                | pump
 *     server - up: answer in, request out -------+
 *
 * Bodies are passed on as they come; when one side takes no more, the other is not read. The pump
 * passes the request; what an answer is its user decides, by handlers of its own for `up`, and
 * passes it on with the functions below. It is gone when both sides are over.
 */
#ifndef LOCALPROXY_EXCHANGE_PUMP_H
#define LOCALPROXY_EXCHANGE_PUMP_H

#include "base/slice.h"
#include "http/exchange.h"
#include "traffic/passage.h"

/* COMING --- down sent all of it ---> WHOLE --- up was told ---> PASSED. WHOLE once more at the end
 * of an upgraded connection, and with each new watch that follows a migration. */
enum request_state { REQUEST_COMING, REQUEST_WHOLE, REQUEST_PASSED };

/* AWAITED --- its head went down ---> PASSING --- up sent all of it ---> ENDED. ENDED at once where
 * localproxy answers itself. */
enum response_state { RESPONSE_AWAITED, RESPONSE_PASSING, RESPONSE_ENDED };

struct pump;

/* What its user does about it. */
struct pump_ops {
    /* Before something of the request passes: bytes of its body, or 0: its end, or room for more.
     * False: nothing may, and the pump may be gone. */
    bool (*may_pass)(struct pump *p, size_t bytes);
    /* All that came is passed, for the first time or once more (http/client.h): sends what is to
     * come before the end. Not 0: both sides are broken off. */
    int (*on_request_passed)(struct pump *p);
    /* The client takes more, and there is no `up` that could be read. NULL: nothing. */
    void (*on_drained)(struct pump *p);
    /* `up` is about to be broken off. NULL: nothing. */
    void (*on_leave)(struct pump *p);
    /* Both sides are over: the last call. */
    void (*free)(struct pump *p);
};

/* Embedded. */
struct pump {
    const struct pump_ops *ops;
    struct http_exchange *down; /* NULL once it is over */
    struct http_exchange *up;   /* likewise, and while nothing is asked */
    struct passage *passage;    /* of the request; NULL once it needs none */
    struct slice about;         /* whose it is, for the log */
    enum request_state request;
    enum response_state response;
    bool raw; /* the connection was upgraded */
};

/* Both sides are there, `up` with the pump as its data: takes the client's, whose request had that
 * head. */
void pump_begin(struct pump *p, const struct http_head *head);
/* The handler on_drain of `up`. */
void pump_up_drained(struct http_exchange *up);

/* The state `next`, after checking that it may follow. */
void pump_set_request(struct pump *p, enum request_state next);
void pump_set_response(struct pump *p, enum response_state next);

/* Passes a part of the answer on, or its end. If that fails both sides are broken off, and the pump
 * is gone. */
void pump_answer_body(struct pump *p, struct slice data);
void pump_answer_end(struct pump *p);

/* Breaks off the server's side, or both: then the pump is gone. */
void pump_abort_up(struct pump *p);
void pump_abort(struct pump *p);
/* After one side was taken out of it. */
void pump_free_if_over(struct pump *p);

#endif
