/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "exchange/refusal.h"
#include "forward/forward_internal.h"
#include "http/client.h"
#include "http/h1_parser.h"
#include "upstream/upstream_failure.h"

/* ---- it fails ---- */

static void answer_failure(struct forward *f, bool sent, const struct err *e)
{
    char message[ERR_MSG_MAX + 128];
    struct upstream_failure why = upstream_failure_of(f->verb, sent && !f->safe, e);
    if (!sent && e->code == -HTTP_PARSE_TOO_LARGE) {
        const struct http_head refused = {.status = 431};
        why = (struct upstream_failure){431, 0, "does not take the request"};
        forward_judge_length(f, &refused);
    }
    (void)snprintf(message, sizeof message, "the API server %s %s: %s",
                   kube_client_server(f->upstream->client), why.what, e->msg);
    if (!refusal_send(f->ctx->metrics, f->pump.down, f->verb, why.status, why.retry_after,
                      message)) {
        f->pump.down = NULL;
    }
}

void forward_fail_unanswered(struct forward *f, bool sent, const struct err *e)
{
    pump_set_response(&f->pump, RESPONSE_ENDED);
    breaker_ticket_answered(&f->pump.passage->ticket, true);
    passage_end(f->pump.passage);
    http_exchange_resume(f->pump.down);
    answer_failure(f, sent, e);
}

/* One that is too large for now may be a watch, which is to come again and not to be listed for. */
void forward_fail_unasked(struct forward *f, const struct err *e)
{
    if (e->code == -EDQUOT) {
        (void)refusal_send(f->ctx->metrics, f->pump.down, f->verb, 429, FORWARD_RETRY_AFTER_S,
                           e->msg);
        return;
    }
    f->upstream->errors++;
    answer_failure(f, false, e);
}

/* ---- it is away for a moment ---- */

/* Whether it is a watch that the API server has not heard of, since a moment ago. */
static bool may_wait(const struct forward *f, const struct http_exchange *x, const struct err *e)
{
    return f->verb == VERB_WATCH && f->head != NULL && f->pump.down != NULL && !f->ctx->draining &&
           f->pump.response == RESPONSE_AWAITED && !http_client_sent(x) &&
           upstream_failure_is_outage(e) && kube_client_failing_ms(f->upstream->client) < OUTAGE_MS;
}

bool forward_wait(struct forward *f, const struct http_exchange *x, const struct err *e)
{
    struct forward_context *ctx = f->ctx;
    struct upstream *u = f->upstream;
    if (!may_wait(f, x, e)) {
        return false;
    }
    const struct paused_request_end end = {
        .cb = ctx->again,
        .data = ctx->data,
        .ended = f->pump.request != REQUEST_COMING,
        .passage = f->pump.passage,
    };
    breaker_ticket_answered(&f->pump.passage->ticket, true);
    if (!paused_request_start(ctx->loop, &u->waiting, f->pump.down, f->head, OUTAGE_RETRY_MS,
                              &end)) {
        return false;
    }
    if (!u->outage_told) {
        log_warn("the API server cannot be asked: watches wait for it",
                 log_str("upstream", u->name), log_str("error", e->msg));
        u->outage_told = true;
    }
    u->errors++;
    f->pump.down = NULL;
    forward_free(f);
    return true;
}

/* ---- it is silent ---- */

void forward_expect_answer(struct forward *f)
{
    uint64_t ms = f->limits.watch_ms != 0 ? f->limits.watch_ms : f->limits.answer_ms;
    if (forward_is_reopening(f)) {
        net_deadline_set(f->ctx->loop, &f->overdue, DERIVED_RETRY_TIME_MS);
    } else if (ms != 0 && f->pump.response == RESPONSE_AWAITED) {
        net_deadline_set(f->ctx->loop, &f->overdue, ms);
    }
}

void forward_on_overdue(struct net_deadline *d)
{
    struct forward *f = LIST_ITEM(d, struct forward, overdue);
    if (f->pump.down == NULL || f->pump.response == RESPONSE_ENDED) {
        return;
    }
    if (f->pump.response == RESPONSE_AWAITED) { /* one that works would have said 504 itself */
        struct err e = ERR_INIT;
        bool sent = http_client_sent(f->pump.up);
        err_set(&e, UV_ETIMEDOUT, "it does not answer");
        log_warn("a request to the API server failed", log_str("upstream", f->upstream->name),
                 log_str("error", e.msg));
        pump_abort_up(&f->pump);
        f->upstream->errors++;
        forward_fail_unanswered(f, sent, &e);
        pump_free_if_over(&f->pump);
        return;
    }
    log_info("ending a watch that the API server should have ended"); /* the operator watches on */
    if (forward_is_reopening(f)) {
        pump_abort_up(&f->pump);
        migration_unanswered(&f->migration);
    } else if (f->pump.up == NULL || forward_is_silent(f)) {
        return; /* it ends by itself */
    } else if (f->watch == NULL || watch_at_boundary(f->watch)) {
        forward_end_watch(f);
    } else {
        forward_abort(f);
    }
}
