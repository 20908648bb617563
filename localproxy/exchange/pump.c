/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/pump.h"

#include "base/log.h"
#include "base/state_machine.h"
#include "exchange/headers.h"

static const struct state_machine request_machine = {
    .object = "request",
    .states = {[REQUEST_COMING] = {"Coming", STATE(REQUEST_WHOLE)},
               [REQUEST_WHOLE] = {"Whole", STATE(REQUEST_WHOLE) | STATE(REQUEST_PASSED)},
               [REQUEST_PASSED] = {"Passed", STATE(REQUEST_WHOLE)}},
};

static const struct state_machine response_machine = {
    .object = "response",
    .states = {[RESPONSE_AWAITED] = {"Awaited", STATE(RESPONSE_PASSING) | STATE(RESPONSE_ENDED)},
               [RESPONSE_PASSING] = {"Passing", STATE(RESPONSE_ENDED)},
               [RESPONSE_ENDED] = {"Ended", 0}},
};

void pump_set_request(struct pump *p, enum request_state next)
{
    p->request = state_change(&request_machine, p->request, next, p->about);
}

void pump_set_response(struct pump *p, enum response_state next)
{
    p->response = state_change(&response_machine, p->response, next, p->about);
}

/* ---- the end ---- */

void pump_free_if_over(struct pump *p)
{
    if (p->down == NULL && p->up == NULL) {
        p->ops->free(p);
    }
}

void pump_abort_up(struct pump *p)
{
    if (p->up != NULL) {
        if (p->ops->on_leave != NULL) {
            p->ops->on_leave(p);
        }
        http_exchange_abort(p->up);
        p->up = NULL;
    }
}

void pump_abort(struct pump *p)
{
    pump_abort_up(p);
    if (p->down != NULL) {
        http_exchange_abort(p->down);
        p->down = NULL;
    }
    pump_free_if_over(p);
}

/* ---- the request ---- */

static void pass_request_end(struct pump *p)
{
    pump_set_request(p, REQUEST_PASSED);
    if (p->ops->on_request_passed(p) != 0 || http_exchange_send_end(p->up) != 0) {
        pump_abort(p);
    }
}

static void down_on_body(struct http_exchange *x, struct slice data)
{
    struct pump *p = x->data;
    if (p->up == NULL || !p->ops->may_pass(p, data.len)) {
        return; /* without `up` it is answered already: the rest of the request is dropped */
    }
    if (http_exchange_send_body(p->up, data) != 0) {
        pump_abort(p);
    } else if (http_exchange_blocked(p->up)) {
        http_exchange_pause(x);
    }
}

static void down_on_end(struct http_exchange *x)
{
    struct pump *p = x->data;
    if (!p->ops->may_pass(p, 0)) {
        return;
    }
    pump_set_request(p, REQUEST_WHOLE);
    if (p->up != NULL && (p->raw || !http_exchange_blocked(p->up))) {
        pass_request_end(p);
    }
}

static void down_on_drain(struct http_exchange *x)
{
    struct pump *p = x->data;
    if (p->up != NULL) {
        http_exchange_resume(p->up);
    } else if (p->ops->on_drained != NULL) {
        p->ops->on_drained(p);
    }
}

static void down_on_close(struct http_exchange *x, const struct err *e)
{
    struct pump *p = x->data;
    p->down = NULL;
    if (e != NULL) {
        log_debug("a client's request ended early", log_str("error", e->msg));
    }
    if (p->response == RESPONSE_AWAITED && p->request != REQUEST_COMING) {
        breaker_ticket_given_up(&p->passage->ticket);
    }
    if (e != NULL || p->response != RESPONSE_ENDED) {
        pump_abort_up(p);
    }
    pump_free_if_over(p);
}

static const struct http_exchange_handlers down_handlers = {
    .on_body = down_on_body,
    .on_end = down_on_end,
    .on_drain = down_on_drain,
    .on_close = down_on_close,
};

void pump_begin(struct pump *p, const struct http_head *head)
{
    p->down->handlers = &down_handlers;
    p->down->data = p;
    if (http_exchange_blocked(p->up)) {
        if (p->request == REQUEST_COMING && headers_announce_body(head)) {
            http_exchange_pause(p->down);
        }
    } else if (p->request == REQUEST_WHOLE) {
        pass_request_end(p);
    }
}

void pump_up_drained(struct http_exchange *up)
{
    struct pump *p = up->data;
    if (!p->ops->may_pass(p, 0)) {
        return;
    }
    if (p->request == REQUEST_WHOLE) {
        pass_request_end(p);
        return;
    }
    if (p->request == REQUEST_PASSED && p->ops->on_request_passed(p) != 0) {
        pump_abort(p); /* perhaps the server had refused it, and it was sent again */
    } else if (p->down != NULL) {
        http_exchange_resume(p->down);
    }
}

/* ---- the answer ---- */

void pump_answer_body(struct pump *p, struct slice data)
{
    if (http_exchange_send_body(p->down, data) != 0) {
        pump_abort(p);
    } else if (http_exchange_blocked(p->down)) {
        http_exchange_pause(p->up);
    }
}

void pump_answer_end(struct pump *p)
{
    if (http_exchange_send_end(p->down) != 0) {
        pump_abort(p);
    }
}
