/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: forward_start > pump_begin, which passes the request > up_on_head > up_on_body >
 * up_on_end; gone when both sides are closed (on_over).
 *
 * Ways to fail: the API server does not answer (forward_failure.c: 502 to 504), its answer ends
 * early (the operator's is broken off), the operator goes away (the request is given up). What
 * cannot be sent on breaks off both sides (forward_abort).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "codec/list_meta.h"
#include "exchange/headers.h"
#include "exchange/refusal.h"
#include "forward/forward_internal.h"
#include "http/client.h"
#include "net/clock.h"
#include "upstream/upstream_refusal.h"

enum {
    ACCEPT_MAX = 64 * 1024,
    AGENT_MAX = 8 * 1024,
};

static struct forward *of_pump(struct pump *p)
{
    return LIST_ITEM(p, struct forward, pump);
}

/* ---- what all share ---- */

void forward_context_init(struct forward_context *ctx, struct net_loop *l, struct metrics *metrics)
{
    *ctx =
        (struct forward_context){.loop = l, .metrics = metrics, .migrations = {.metrics = metrics}};
    list_init(&ctx->running);
    list_init(&ctx->write_probes_awaited);
    net_task_init(&ctx->write_probe_ended, forward_on_write_probe_ended);
    list_init(&ctx->upstreams);
}

void forward_context_add(struct forward_context *ctx, struct upstream *u)
{
    list_append(&ctx->upstreams, &u->link);
    u->writes.on_settled = ctx->on_settled;
    u->writes.data = ctx->data;
    u->writes.on_lost = forward_write_on_lost;
}

void forward_context_deinit(struct forward_context *ctx)
{
    while (!list_empty(&ctx->running)) { /* answered, but the API server has not let go yet */
        forward_abort(LIST_ITEM(ctx->running.next, struct forward, link));
    }
    net_task_cancel(&ctx->write_probe_ended);
    migration_context_deinit(&ctx->migrations);
    while (!list_empty(&ctx->upstreams)) {
        list_remove(ctx->upstreams.next);
    }
}

/* Whether the rules are not valid any more: then `f` may be gone, and nothing is to be done for it.
 * Asked wherever the loop comes from outside: the process may have been stopped, or the machine
 * have slept, for however long. */
static bool ran_out(const struct forward *f)
{
    return f->resource && !rules_lease_valid(f->ctx->lease);
}

/* ---- the end of a forward ---- */

void forward_end_asking(struct forward *f)
{
    struct asking *a = f->asking;
    if (a == NULL) {
        return;
    }
    forward_write_end(f);
    forward_free_written(a->written);
    if (a->account != NULL) {
        delivered_account_close(f->upstream->delivered, a->account, 0);
    }
    buf_reset(&a->body);
    byte_share_give_back(&a->body_share);
    passage_end(&a->passage);
    free(a);
    f->asking = NULL;
    f->pump.passage = NULL;
}

void forward_free(struct forward *f)
{
    struct metrics *m = f->ctx->metrics;
    m->open_watches -= f->watch != NULL ? 1 : 0;
    m->tunnels -= f->pump.raw ? 1 : 0;
    if (f->pump.response != RESPONSE_AWAITED && f->watch == NULL && !f->pump.raw) {
        metrics_count_duration(&m->duration, (net_clock_ns() - f->begun_ns) / 1000);
    }
    net_deadline_clear(&f->overdue);
    list_remove(&f->link);
    if (f->watch != NULL) {
        forward_free_bookmark(f);
        migration_deinit(&f->migration);
        watch_free(f->watch, net_loop_now(f->ctx->loop));
    }
    forward_end_asking(f);
    list_meta_free(f->list);
    if (f->inflated) {
        f->ctx->load->inflated--;
    }
    request_attributes_deinit(&f->attributes);
    free(f->head);
    free(f);
}

void forward_abort(struct forward *f)
{
    pump_abort(&f->pump);
}

/* ---- what the pump asks ---- */

static bool may_pass(struct pump *p, size_t bytes)
{
    (void)bytes;
    return !ran_out(of_pump(p));
}

/* Sends the body, if it was collected. */
static int on_request_passed(struct pump *p)
{
    struct forward *f = of_pump(p);
    struct asking *a = f->asking;
    int rc = 0;
    forward_expect_answer(f);
    if (a != NULL) {
        pending_writes_sent(&f->upstream->writes, &a->write);
    }
    if (a != NULL && a->body.len > 0) {
        rc = http_exchange_send_body(p->up, buf_slice(&a->body));
        buf_reset(&a->body);
    }
    return rc;
}

static void on_drained(struct pump *p)
{
    struct forward *f = of_pump(p);
    if (f->watch != NULL) {
        migration_drained(&f->migration);
    }
}

static void on_leave(struct pump *p)
{
    forward_write_leave(of_pump(p), p->up);
}

static void on_over(struct pump *p)
{
    forward_free(of_pump(p));
}

static const struct pump_ops pump_ops = {
    .may_pass = may_pass,
    .on_request_passed = on_request_passed,
    .on_drained = on_drained,
    .on_leave = on_leave,
    .free = on_over,
};

/* ---- the beginning of an answer ---- */

/* Keeps account of what this answer is. False: no memory. */
static bool note_answer(struct forward *f, const struct http_head *head)
{
    if (head->status == 200 && f->concerned && f->verb == VERB_WATCH) {
        return forward_open_watch(f, head);
    }
    bool head_only = f->head != NULL && slice_eq(f->head->method, SLICE("HEAD"));
    free(f->head);
    f->head = NULL;
    if (f->verb != VERB_WATCH || head->status != 200) {
        net_deadline_clear(&f->overdue);
    }
    if (head->status == 101) {
        forward_write_end(f);
        f->pump.raw = true;
        f->ctx->metrics->tunnels++;
    } else if (head->status == 200 && f->concerned && f->verb == VERB_LIST && !head_only) {
        return forward_open_list(f, head);
    } else if (f->concerned && f->attributes.object) {
        forward_open_written(f, head);
    }
    return true;
}

/* The Audit-Id joins this log and the API server's audit log. */
static void log_answer(const struct forward *f, const struct http_head *head)
{
    if (log_enabled(LOG_DEBUG)) {
        struct slice resource = f->attributes.resource;
        struct slice id = headers_value(head, SLICE("Audit-Id"));
        log_debug("response", log_num("code", head->status),
                  log_strn("resource", resource.ptr, resource.len),
                  log_strn("auditID", id.ptr, id.len));
    }
}

void forward_judge_length(struct forward *f, const struct http_head *head)
{
    if (f->attributes.key.selector != 0) {
        upstream_refusal_judge(f->upstream, &f->attributes, f->target_len, f->added_len, head);
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct forward *f = of_pump(x->data);
    struct http_header headers[HEADERS_MAX];
    char warning[UPSTREAM_REFUSAL_WARNING_MAX];
    if (ran_out(f)) {
        return;
    }
    if (kube_client_failing_ms(f->upstream->client) == 0) {
        f->upstream->outage_told = false;
    }
    if (forward_is_reopening(f)) {
        net_deadline_set(f->ctx->loop, &f->overdue, f->limits.watch_ms);
        migration_answered(&f->migration, head);
        return;
    }
    log_answer(f, head);
    forward_judge_length(f, head);
    breaker_ticket_answered(&f->pump.passage->ticket, head->status >= 500);
    if (f->verb == VERB_WATCH || head->status == 101) {
        passage_end(f->pump.passage); /* it may last for ever, and is not under way any more */
    }
    byte_share_give_back(&f->asking->body_share);
    size_t count = headers_end_to_end(head, headers);
    if (head->status == 401 && !f->carried && count < HEADERS_MAX) {
        upstream_refusal_warning(f->upstream->client, warning);
        headers[count++] = (struct http_header){SLICE("Warning"), slice_str(warning)};
    }
    struct http_head h = headers_answer(head, headers, count, f->limits.unhurried);
    pump_set_response(&f->pump, RESPONSE_PASSING);
    metrics_count_code(f->ctx->metrics, f->verb, head->status);
    if (!note_answer(f, head) || http_exchange_send_head(f->pump.down, &h) != 0) {
        forward_abort(f);
    } else if (f->watch != NULL && f->ctx->draining) {
        forward_end_watch(f);
    }
}

/* ---- the rest of it ---- */

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = of_pump(x->data);
    if (ran_out(f)) {
        return;
    }
    f->ctx->metrics->response_bytes += data.len;
    if (f->watch != NULL) {
        forward_pass_events(f, data);
        return;
    }
    if (f->list != NULL) {
        forward_feed_list(f, data);
    } else if (f->asking != NULL && f->asking->written != NULL) {
        forward_feed_written(f, data);
    }
    pump_answer_body(&f->pump, data);
}

static void up_on_end(struct http_exchange *x)
{
    struct forward *f = of_pump(x->data);
    if (ran_out(f)) {
        return;
    }
    pump_set_response(&f->pump, RESPONSE_ENDED);
    forward_write_end(f);
    if (f->asking != NULL) {
        passage_end(f->pump.passage);
        forward_note_written(f);
    }
    forward_stop_bookmark(f);
    if (f->watch != NULL && watch_state(f->watch) == WATCH_LAST) {
        forward_abort(f); /* within an event */
        return;
    }
    if (forward_is_silent(f)) {
        return; /* it ends when its time has come */
    }
    if (f->list != NULL) {
        forward_note_list(f);
    }
    if (f->watch != NULL && f->pump.down != NULL && watch_end(f->watch, f->pump.down) != 0) {
        forward_abort(f);
    } else if (f->pump.down != NULL) {
        pump_answer_end(&f->pump);
    }
}

/* The answer has not come, or not to its end. */
static void fail(struct forward *f, bool sent, const struct err *e)
{
    const char *name = f->upstream->name;
    bool unanswered = f->pump.response == RESPONSE_AWAITED;
    f->upstream->errors++;
    if (unanswered) {
        log_at(kube_client_failure_level(f->upstream->client, 0),
               "a request to the API server failed", log_str("upstream", name),
               log_str("error", e->msg));
    } else {
        log_warn("the API server's answer ended early", log_str("upstream", name),
                 log_str("error", e->msg));
    }
    if (f->pump.down != NULL && unanswered) {
        forward_fail_unanswered(f, sent, e);
    } else if (f->pump.down != NULL) {
        http_exchange_abort(f->pump.down);
        f->pump.down = NULL;
    }
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct forward *f = of_pump(x->data);
    f->pump.up = NULL;
    forward_write_leave(f, x);
    if (ran_out(f)) {
        return;
    }
    if (forward_is_reopening(f)) {
        migration_unanswered(&f->migration);
        return;
    }
    if (e != NULL && forward_wait(f, x, e)) {
        return;
    }
    if (e != NULL && f->pump.response != RESPONSE_ENDED && !forward_is_silent(f)) {
        fail(f, http_client_sent(x), e);
    }
    pump_free_if_over(&f->pump);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = pump_up_drained,
    .on_close = up_on_close,
};

/* ---- the beginning ---- */

/* Copies what is needed when the rules change, or the connection is there. */
static bool keep_request(struct forward *f, const struct forward_request *r)
{
    bool repeatable =
        (r->verb == VERB_LIST || r->verb == VERB_WATCH) && !headers_announce_body(r->head);
    struct asking *a = f->asking;
    if (r->body != NULL &&
        (!byte_share_set(&a->body_share, buf_size_with(&a->body, r->body->len)) ||
         buf_append(&a->body, r->body->ptr, r->body->len) != 0)) {
        return false;
    }
    if (repeatable && (r->attributes != NULL || r->verb == VERB_WATCH)) {
        f->head = http_head_copy(r->head);
        if (f->head == NULL) {
            return false;
        }
    }
    if (r->attributes == NULL) {
        return true;
    }
    f->concerned = request_attributes_keep(&f->attributes, r->attributes) == 0;
    if (!f->concerned || f->verb != VERB_WATCH) {
        return f->concerned;
    }
    /* The client may ask again from where it is, if this watch never begins. */
    a->account = delivered_account_open(f->upstream->delivered, &f->attributes.key,
                                        f->attributes.initial_events ? 0 : f->attributes.version);
    return a->account != NULL;
}

/* False: no memory. */
static bool begin_asking(struct forward *f, const struct forward_request *r)
{
    struct asking *a = malloc(sizeof *a); /* as in forward_new */
    if (a == NULL) {
        return false;
    }
    *a = (struct asking){.forward = f};
    f->asking = a;
    forward_write_init(f);
    buf_init(&a->body, r->body != NULL ? r->body->len : 0);
    byte_share_init(&a->body_share, f->ctx->budget);
    return keep_request(f, r);
}

static struct forward *forward_new(struct forward_context *ctx, struct http_exchange *down,
                                   const struct forward_request *r)
{
    struct forward *f = malloc(sizeof *f); /* calloc would not take what was freed just now */
    if (f == NULL) {
        return NULL;
    }
    *f = (struct forward){
        .ctx = ctx,
        .upstream = r->upstream,
        .pump =
            {
                .ops = &pump_ops,
                .down = down,
                .request = r->request_ended ? REQUEST_WHOLE : REQUEST_COMING,
            },
        .verb = r->verb,
        .begun_ns = net_clock_ns(),
        .limits = r->limits,
        .resource = r->resource,
        .carried = r->carried,
        .safe = headers_method_is_safe(r->head) && !headers_may_upgrade(r->head, r->verb),
    };
    list_init(&f->link);
    net_deadline_init(&f->overdue, forward_on_overdue);
    if (!begin_asking(f, r)) {
        request_attributes_deinit(&f->attributes);
        forward_end_asking(f);
        free(f->head);
        free(f);
        return NULL;
    }
    f->pump.passage = &f->asking->passage;
    f->pump.about = f->attributes.resource;
    passage_move(f->pump.passage, r->passage);
    return f;
}

/* Of what is limited, versions must be read. `accept` has the header's value then. */
static void ask_readable(struct http_header *headers, size_t count, struct buf *accept)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_ieq(headers[i].name, SLICE("Accept"))) {
            if (encoding_without_cbor(headers[i].value, accept)) {
                headers[i].value = buf_slice(accept);
            }
            return;
        }
    }
}

int forward_ask(struct forward *f, const struct http_head *head, struct slice target,
                const struct slice *body, struct err *e)
{
    struct http_header headers[HEADERS_MAX];
    struct buf accept = BUF_INIT(ACCEPT_MAX); /* what some of them have in place of what came */
    struct buf agent = BUF_INIT(AGENT_MAX);
    struct http_head h = *head;
    h.target = target;
    f->target_len = (uint32_t)target.len; /* a few MiB at most */
    f->added_len = target.len > head->target.len ? (uint32_t)(target.len - head->target.len) : 0;
    h.upgrade = headers_may_upgrade(head, f->verb);
    size_t count = headers_of_request(&h, f->verb, headers);
    if (f->attributes.key.selector != 0) {
        ask_readable(headers, count, &accept);
    }
    if (f->ctx->user_agent.len > 0 &&
        headers_name_client(headers, &count, f->ctx->user_agent, &agent) != 0) {
        buf_reset(&accept);
        buf_reset(&agent);
        return err_memory(e);
    }
    h.headers = headers;
    h.header_count = count;
    h.background = f->verb == VERB_WATCH;
    h.guarded = f->resource;
    h.unhurried = f->limits.unhurried;
    h.borrowed = true;
    h.budget = forward_is_reopening(f) ? &f->upstream->memory : f->ctx->sent;
    if (body != NULL) {
        h.framing = HTTP_BODY_LENGTH;
        h.content_length = body->len;
    }
    f->pump.up = kube_client_request(f->upstream->client, &h, &up_handlers, &f->pump, e);
    buf_reset(&accept);
    buf_reset(&agent);
    return f->pump.up != NULL ? 0 : e->code;
}

void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct forward_request *r)
{
    struct err e;
    err_clear(&e);
    struct forward *f = forward_new(ctx, down, r);
    if (f == NULL) {
        (void)refusal_send(ctx->metrics, down, r->verb, 503, FORWARD_RETRY_AFTER_S,
                           "out of memory");
        return;
    }
    forward_write_begin(f);
    if (forward_ask(f, r->head, r->target, r->body, &e) != 0) {
        forward_fail_unasked(f, &e);
        forward_free(f);
        return;
    }
    list_append(&ctx->running, &f->link);
    pump_begin(&f->pump, r->head);
}
