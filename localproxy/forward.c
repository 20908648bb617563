/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: forward_start > down_on_body, down_on_end > pass_request_end > up_on_head >
 * up_on_body > up_on_end; gone when both sides are closed (free_if_over).
 *
 * Ways to fail: the API server does not answer (fail_unanswered: 502 to 504), its answer ends early
 * (the operator's is broken off), the operator goes away (the request is given up). What cannot be
 * sent on breaks off both sides (forward_abort).
 */
#include "forward.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "codec/list_meta.h"
#include "codec/watch_frame.h"
#include "headers.h"
#include "http/client.h"
#include "http/h1_parser.h"
#include "http/server.h"
#include "net/clock.h"
#include "net/deadline.h"
#include "passing.h"
#include "paused_request.h"
#include "refusal.h"
#include "upstream_failure.h"
#include "upstream_refusal.h"

enum {
    RETRY_AFTER_S = 1,
    LOST_COMING_MS = 5000, /* how long a write to what was lost may still come */
    ACCEPT_MAX = 64 * 1024,
    AGENT_MAX = 8 * 1024,
};

/* What an open watch does not need any more. */
struct asking {
    struct forward *forward;
    struct delivered_account *account; /* of a watch */
    uint64_t coming;                   /* of a list: bytes of its body; UINT64_MAX: not known */
    struct buf body;                   /* of the request, if it was collected, until it is sent */
    struct byte_share body_share;      /* until the API server answers: so long it may be queued */
    struct pending_write write;        /* if it is one that the rules concern */
    struct net_deadline lost_due;      /* when a lost write must have come, or be over */
    struct passage passage;
};

struct forward {
    struct forward_context *ctx;
    struct http_exchange *down; /* NULL once it is over */
    struct http_exchange *up;   /* likewise; of a watch that passes nothing NULL too */
    struct list link;
    enum request_verb verb;
    enum request_state request;
    enum response_state response;
    uint64_t begun_ns;
    struct request_attributes attributes; /* if `concerned` */
    struct http_head *head;      /* the operator's: of a list or watch until the answer begins, of a
                                    watch that can migrate also then (headers_copy_of_watch) */
    struct list_meta *list;      /* a list that is being passed on */
    struct watch *watch;         /* an open watch */
    struct migration migration;  /* of `watch` */
    struct asking *asking;       /* NULL of an open watch */
    struct net_deadline overdue; /* when the API server must have answered, or ended a watch */
    struct request_limits limits;
    uint32_t target_len; /* of what was asked upstream last: bytes */
    uint32_t added_len;  /* of which so many are not the client's */
    bool concerned;      /* the rules concern it */
    bool carried;        /* behind the API server somebody else answers it */
    bool resource;       /* it goes on only while they are valid */
    bool safe;           /* to be asked a second time */
    bool inflated;       /* `list`, to be counted */
    bool tunnel;
};

static void set_request(struct forward *f, enum request_state next)
{
    f->request = request_change(f->request, next, f->attributes.resource);
}

static void set_response(struct forward *f, enum response_state next)
{
    f->response = response_change(f->response, next, f->attributes.resource);
}

struct forward *forward_of(struct list *link)
{
    return LIST_ITEM(link, struct forward, link);
}

bool forward_is_watch(const struct forward *f)
{
    return f->watch != NULL;
}

static void tell_settled(void *data)
{
    struct forward_context *ctx = data;
    ctx->on_settled(ctx->data);
}

static struct asking *asking_of(struct pending_write *w)
{
    return LIST_ITEM(w, struct asking, write);
}

static void on_lost(struct pending_write *w)
{
    struct asking *a = asking_of(w);
    net_deadline_set(a->forward->ctx->loop, &a->lost_due, LOST_COMING_MS);
}

int forward_context_init(struct forward_context *ctx, struct net_loop *l,
                         const struct net_clock *clock, struct kube_client *upstream,
                         struct metrics *metrics, struct delivered_versions *points)
{
    *ctx = (struct forward_context){.loop = l, .upstream = upstream, .metrics = metrics};
    list_init(&ctx->running);
    list_init(&ctx->waiting);
    ctx->points = points;
    int rc = pending_writes_init(&ctx->writes, l, clock, delivered_writes(points));
    ctx->writes.on_settled = tell_settled;
    ctx->writes.on_lost = on_lost;
    ctx->writes.data = ctx;
    return rc != 0 ? rc : migration_context_init(&ctx->migrations, l, upstream, metrics);
}

/* Whether the rules are not valid any more: then `f` may be gone, and nothing is to be done for it.
 * Asked wherever the loop comes from outside: the process may have been stopped, or the machine
 * have slept, for however long. */
static bool ran_out(const struct forward *f)
{
    return f->resource && !rules_lease_valid(f->ctx->lease);
}

/* ---- the end of a forward ---- */

/* It is answered, or was never sent. */
static void end_write(struct forward *f)
{
    if (f->asking != NULL) {
        net_deadline_clear(&f->asking->lost_due);
        pending_writes_end(&f->ctx->writes, &f->asking->write);
    }
}

static void end_asking(struct forward *f)
{
    struct asking *a = f->asking;
    if (a == NULL) {
        return;
    }
    end_write(f);
    if (a->account != NULL) {
        delivered_account_close(f->ctx->points, a->account, false);
    }
    buf_reset(&a->body);
    byte_share_give_back(&a->body_share);
    passage_end(&a->passage);
    free(a);
    f->asking = NULL;
}

/* The API server's side `x` is given up, or has ended. */
static void leave_write(struct forward *f, const struct http_exchange *x)
{
    struct asking *a = f->asking;
    if (a == NULL || !pending_write_is_under_way(&a->write)) {
        return;
    }
    if (http_client_sent(x) && f->request != REQUEST_COMING && f->response == RESPONSE_AWAITED) {
        net_deadline_clear(&a->lost_due);
        pending_writes_give_up(&f->ctx->writes, &a->write, &f->attributes,
                               http_client_on_its_way(x));
        f->attributes = (struct request_attributes){.verb = f->attributes.verb};
        f->concerned = false;
    } else {
        end_write(f);
    }
}

static void count_end(struct forward *f)
{
    struct metrics *m = f->ctx->metrics;
    m->open_watches -= f->watch != NULL ? 1 : 0;
    m->tunnels -= f->tunnel ? 1 : 0;
    if (f->response != RESPONSE_AWAITED && f->watch == NULL && !f->tunnel) {
        metrics_count_duration(&m->duration, (net_clock_ns() - f->begun_ns) / 1000);
    }
}

/* Without closing either side: those that are left must have been taken out of it. */
static void forward_free(struct forward *f)
{
    count_end(f);
    net_deadline_clear(&f->overdue);
    list_remove(&f->link);
    if (f->watch != NULL) {
        migration_deinit(&f->migration);
        watch_free(f->watch);
    }
    end_asking(f);
    list_meta_free(f->list);
    if (f->inflated) {
        f->ctx->load->inflated--;
    }
    request_attributes_deinit(&f->attributes);
    free(f->head);
    free(f);
}

/* Frees it when both sides are over. */
static void free_if_over(struct forward *f)
{
    if (f->down == NULL && f->up == NULL) {
        forward_free(f);
    }
}

static void abort_up(struct forward *f)
{
    if (f->up != NULL) {
        leave_write(f, f->up);
        http_exchange_abort(f->up);
        f->up = NULL;
    }
}

/* Breaks off both sides; `f` is gone. */
static void forward_abort(struct forward *f)
{
    abort_up(f);
    if (f->down != NULL) {
        http_exchange_abort(f->down);
        f->down = NULL;
    }
    free_if_over(f);
}

void forward_context_deinit(struct forward_context *ctx)
{
    while (!list_empty(&ctx->running)) { /* answered, but the API server has not let go yet */
        forward_abort(LIST_ITEM(ctx->running.next, struct forward, link));
    }
    migration_context_deinit(&ctx->migrations);
    pending_writes_deinit(&ctx->writes);
    delivered_free(ctx->points);
}

/* ---- the operator's side ---- */

static void down_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = x->data;
    if (ran_out(f)) {
        return;
    }
    if (f->up == NULL) {
        return; /* answered already: the rest of the request is dropped */
    }
    if (http_exchange_send_body(f->up, data) != 0) {
        forward_abort(f);
    } else if (http_exchange_blocked(f->up)) {
        http_exchange_pause(x);
    }
}

static bool is_reopening(const struct forward *f)
{
    return f->watch != NULL && migration_state(&f->migration) == MIGRATION_REOPENING;
}

/* The API server has all of the request. */
static void expect_answer(struct forward *f)
{
    uint64_t ms = f->limits.watch_ms != 0 ? f->limits.watch_ms : f->limits.answer_ms;
    if (is_reopening(f)) {
        net_deadline_set(f->ctx->loop, &f->overdue, DERIVED_RETRY_TIME_MS);
    } else if (ms != 0 && f->response == RESPONSE_AWAITED) {
        net_deadline_set(f->ctx->loop, &f->overdue, ms);
    }
}

/* All of the request is sent now, for the first time or once more (http/client.h). */
static void note_sent(struct forward *f)
{
    expect_answer(f);
    if (f->asking != NULL) {
        pending_writes_sent(&f->ctx->writes, &f->asking->write);
    }
}

/* With the body, if it was collected. */
static void pass_request_end(struct forward *f)
{
    int rc = 0;
    set_request(f, REQUEST_PASSED);
    note_sent(f);
    if (f->asking != NULL && f->asking->body.len > 0) {
        rc = http_exchange_send_body(f->up, buf_slice(&f->asking->body));
        buf_reset(&f->asking->body);
    }
    if (rc != 0 || http_exchange_send_end(f->up) != 0) {
        forward_abort(f);
    }
}

static void down_on_end(struct http_exchange *x)
{
    struct forward *f = x->data;
    if (ran_out(f)) {
        return;
    }
    set_request(f, REQUEST_WHOLE);
    if (f->up != NULL && (f->tunnel || !http_exchange_blocked(f->up))) {
        pass_request_end(f);
    }
}

static void down_on_drain(struct http_exchange *x)
{
    struct forward *f = x->data;
    if (f->up != NULL) {
        http_exchange_resume(f->up);
    } else if (f->watch != NULL) {
        migration_drained(&f->migration);
    }
}

static void down_on_close(struct http_exchange *x, const struct err *e)
{
    struct forward *f = x->data;
    f->down = NULL;
    if (e != NULL) {
        log_debug("the operator's request ended early", log_str("error", e->msg));
    }
    if (f->response == RESPONSE_AWAITED && f->request != REQUEST_COMING) {
        breaker_ticket_given_up(&f->asking->passage.ticket);
    }
    if (f->up != NULL && (e != NULL || f->response != RESPONSE_ENDED)) {
        abort_up(f);
    }
    free_if_over(f);
}

static const struct http_exchange_handlers down_handlers = {
    .on_body = down_on_body,
    .on_end = down_on_end,
    .on_drain = down_on_drain,
    .on_close = down_on_close,
};

/* ---- what the migration of a watch asks for ---- */

static int ask_upstream(struct forward *f, const struct http_head *head, struct slice target,
                        const struct slice *body, struct err *e);

static int on_reopen(void *data, struct slice target, struct err *e)
{
    struct forward *f = data;
    set_request(f, REQUEST_WHOLE);
    int rc = ask_upstream(f, f->head, target, NULL, e);
    if (rc == 0) { /* the client stands still */
        bool queued = http_exchange_blocked(f->up);
        net_deadline_set(f->ctx->loop, &f->overdue,
                         queued ? REQUEST_ANSWER_MS : DERIVED_RETRY_TIME_MS);
    }
    return rc;
}

static void on_end_upstream(void *data)
{
    abort_up(data);
}

static void on_migration_abort(void *data)
{
    forward_abort(data);
}

static const struct migration_handlers migration_handlers = {
    .reopen = on_reopen,
    .end_upstream = on_end_upstream,
    .abort = on_migration_abort,
};

/* ---- the beginning of an answer ---- */

static void drop_head(struct forward *f)
{
    free(f->head);
    f->head = NULL;
}

static struct watch *watch_of(const struct forward *f, const struct http_head *head)
{
    struct watch_options o = {
        .encoding = headers_encoding(head),
        .points = f->ctx->points,
        .account = f->asking->account,
        .version = f->attributes.version,
        .initial_events = f->attributes.initial_events,
        .newest = f->attributes.newest,
        .budget = &f->ctx->migrations.memory,
        .load = f->ctx->load,
        .namespace = f->attributes.namespace,
    };
    return watch_new(&o);
}

/* As much as is needed to ask for it again after a migration. False: no memory. */
static bool keep_watch_head(struct forward *f)
{
    struct http_head *kept = NULL;
    if (f->ctx->migrations.seamless && f->head != NULL) {
        kept = headers_copy_of_watch(f->head);
        if (kept == NULL) {
            return false;
        }
    }
    drop_head(f);
    f->head = kept;
    return true;
}

static bool open_watch(struct forward *f, const struct http_head *head)
{
    struct migration_options o = {
        .down = f->down,
        .attributes = &f->attributes,
        .handlers = &migration_handlers,
        .data = f,
    };
    if (!keep_watch_head(f)) {
        return false;
    }
    o.watch = watch_of(f, head);
    if (o.watch == NULL) {
        return false;
    }
    f->asking->account = NULL;
    end_asking(f);
    f->watch = o.watch;
    f->ctx->metrics->open_watches++;
    o.head = f->head;
    migration_init(&f->migration, &f->ctx->migrations, &o);
    return true;
}

static void on_object(void *data, struct slice ns)
{
    const struct forward *f = data;
    struct slice of_all = f->attributes.namespace;
    f->ctx->load->counts.of[load_place(of_all.len > 0 ? of_all : ns)].objects++;
}

/* A list whose objects are counted. False: no memory. */
static bool open_counted_list(struct forward *f, struct slice type, struct slice coding)
{
    struct load *load = f->ctx->load;
    bool plain = coding.len == 0 || slice_ieq(coding, SLICE("identity"));
    if (!plain && load->inflated >= LOAD_INFLATED_MAX) {
        f->list = list_meta_new(type, coding);
        load->counts.unread++;
        return f->list != NULL;
    }
    f->list = list_meta_new_counting(type, coding, f->attributes.namespace.len == 0, on_object, f);
    if (f->list == NULL) {
        return false;
    }
    f->inflated = !plain && list_meta_counts(f->list);
    load->inflated += f->inflated;
    load->counts.unread += !list_meta_counts(f->list);
    return true;
}

static bool open_list(struct forward *f, const struct http_head *head)
{
    struct slice type = headers_value(head, SLICE("Content-Type"));
    struct slice coding = headers_value(head, SLICE("Content-Encoding"));
    bool announced = head->framing == HTTP_BODY_LENGTH;
    f->asking->coming = announced ? head->content_length : UINT64_MAX;
    if (f->ctx->load != NULL) {
        return open_counted_list(f, type, coding);
    }
    f->list = list_meta_new(type, coding);
    return f->list != NULL;
}

/* Keeps account of what this answer is. False: no memory. */
static bool note_answer(struct forward *f, const struct http_head *head)
{
    if (head->status == 200 && f->concerned && f->verb == VERB_WATCH) {
        return open_watch(f, head);
    }
    bool head_only = f->head != NULL && slice_eq(f->head->method, SLICE("HEAD"));
    drop_head(f);
    if (f->verb != VERB_WATCH || head->status != 200) {
        net_deadline_clear(&f->overdue);
    }
    if (head->status == 101) {
        end_write(f);
        f->tunnel = true;
        f->ctx->metrics->tunnels++;
    } else if (head->status == 200 && f->concerned && f->verb == VERB_LIST && !head_only) {
        return open_list(f, head);
    }
    return true;
}

/* It stands between two events: the operator sees a plain end and will watch on. The rules do not
 * concern a watch of the lock alone, which is passed on unread. */
static void end_watch(struct forward *f)
{
    abort_up(f);
    if (f->watch != NULL) {
        migration_ended(&f->migration);
    }
    if (http_exchange_send_end(f->down) != 0) {
        forward_abort(f);
    }
}

/* What the circuit breakers that let it through hear of it. Watches and tunnels may last for ever,
 * and do not count as under way from then on. */
static void tell_breakers(struct forward *f, unsigned status)
{
    breaker_ticket_answered(&f->asking->passage.ticket, status >= 500);
    if (f->verb == VERB_WATCH || status == 101) {
        passage_end(&f->asking->passage);
    }
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

/* Of one with the shard's selector. */
static void judge_length(struct forward *f, const struct http_head *head)
{
    if (f->attributes.key.selector != 0) {
        upstream_refusal_judge(&f->ctx->lengths, f->ctx->upstream, &f->attributes, f->target_len,
                               f->added_len, head);
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct forward *f = x->data;
    struct http_header headers[HEADERS_MAX];
    char warning[UPSTREAM_REFUSAL_WARNING_MAX];
    struct http_head h = *head;
    if (ran_out(f)) {
        return;
    }
    if (kube_client_failing_ms(f->ctx->upstream) == 0) {
        f->ctx->outage_told = false;
    }
    if (is_reopening(f)) {
        net_deadline_set(f->ctx->loop, &f->overdue, f->limits.watch_ms);
        migration_answered(&f->migration, head);
        return;
    }
    log_answer(f, head);
    judge_length(f, head);
    tell_breakers(f, head->status);
    byte_share_give_back(&f->asking->body_share);
    h.headers = headers;
    h.header_count = headers_end_to_end(head, headers);
    if (head->status == 401 && !f->carried && h.header_count < HEADERS_MAX) {
        upstream_refusal_warning(f->ctx->upstream, warning);
        headers[h.header_count++] = (struct http_header){SLICE("Warning"), slice_str(warning)};
    }
    h.unhurried = f->limits.unhurried;
    if (head->framing == HTTP_BODY_NONE && head->content_length > 0) {
        h.framing = HTTP_BODY_LENGTH; /* what the answer to a GET would have */
    }
    set_response(f, RESPONSE_PASSING);
    metrics_count_code(f->ctx->metrics, f->verb, head->status);
    if (!note_answer(f, head) || http_exchange_send_head(f->down, &h) != 0) {
        forward_abort(f);
    } else if (f->watch != NULL && f->ctx->draining) {
        end_watch(f);
    }
}

/* ---- the API server's side ---- */

static void end_last_event(struct forward *f)
{
    if (f->ctx->draining) {
        migration_cut(&f->migration);
    } else {
        migration_last_event_ended(&f->migration);
    }
}

static void pass_events(struct forward *f, struct slice data)
{
    bool last = migration_state(&f->migration) == MIGRATION_LAST_EVENT;
    if (watch_feed(f->watch, data, f->down) != 0) {
        forward_abort(f);
    } else if (last && watch_state(f->watch) == WATCH_SILENT) {
        end_last_event(f);
    } else if (f->ctx->draining && watch_at_boundary(f->watch)) {
        end_watch(f);
    } else if (http_exchange_blocked(f->down)) {
        http_exchange_pause(f->up);
    }
}

/* The client will have all of the list, and may go on from it. */
static void note_list(struct forward *f)
{
    struct list_meta_result found;
    list_meta_end(f->list, &found);
    list_meta_free(f->list);
    f->list = NULL;
    if (f->attributes.newest && found.resource_version != 0) {
        delivered_newest(f->ctx->points, &f->attributes.key, found.resource_version);
    }
    if (found.token != 0) {
        delivered_give_page(f->ctx->points, &f->attributes.key, found.token);
    } else if (found.resource_version != 0) {
        /* The version of a list in pages is that of the first, whose request said which it wants.
         */
        bool newest = f->attributes.newest || f->attributes.page != 0;
        delivered_give_list(f->ctx->points, &f->attributes.key, found.resource_version, newest);
    } else {
        delivered_give(f->ctx->points, &f->attributes.key, DELIVERED_ANY);
        delivered_give_page(f->ctx->points, &f->attributes.key, 0);
    }
}

/* Before the client can take it for whole: that may be long before the API server says so, and this
 * process may end, or the rules change, in between. */
static void feed_list(struct forward *f, struct slice data)
{
    uint64_t *coming = &f->asking->coming;
    list_meta_feed(f->list, data);
    if (*coming != UINT64_MAX) {
        *coming -= data.len < *coming ? data.len : *coming;
        if (*coming == 0) {
            note_list(f);
        }
    }
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = x->data;
    if (ran_out(f)) {
        return;
    }
    f->ctx->metrics->response_bytes += data.len;
    if (f->watch != NULL) {
        pass_events(f, data);
        return;
    }
    if (f->list != NULL) {
        feed_list(f, data);
    }
    if (http_exchange_send_body(f->down, data) != 0) {
        forward_abort(f);
    } else if (http_exchange_blocked(f->down)) {
        http_exchange_pause(x);
    }
}

static bool is_silent(const struct forward *f)
{
    return f->watch != NULL && watch_state(f->watch) == WATCH_SILENT;
}

static bool end_response(struct forward *f)
{
    if (f->watch != NULL && watch_end(f->watch, f->down) != 0) {
        return false;
    }
    return http_exchange_send_end(f->down) == 0;
}

static void up_on_end(struct http_exchange *x)
{
    struct forward *f = x->data;
    if (ran_out(f)) {
        return;
    }
    set_response(f, RESPONSE_ENDED);
    end_write(f);
    if (f->asking != NULL) {
        passage_end(&f->asking->passage);
    }
    if (f->watch != NULL && watch_state(f->watch) == WATCH_LAST) {
        forward_abort(f); /* within an event */
        return;
    }
    if (is_silent(f)) {
        return; /* it ends when its time has come */
    }
    if (f->list != NULL) {
        note_list(f);
    }
    if (f->down != NULL && !end_response(f)) {
        forward_abort(f);
    }
}

static void up_on_drain(struct http_exchange *x)
{
    struct forward *f = x->data;
    if (ran_out(f)) {
        return;
    }
    if (f->request == REQUEST_WHOLE) {
        pass_request_end(f);
        return;
    }
    if (f->request == REQUEST_PASSED) {
        note_sent(f); /* perhaps the API server had refused it */
    }
    if (f->down != NULL) {
        http_exchange_resume(f->down);
    }
}

/* Asked twice it does no more than asked once, as RFC 9110 section 9.2.1 has it. PUT and DELETE do
 * not count: the second time the operator would be told of a conflict, or that nothing is there. */
static bool is_safe(const struct http_head *head)
{
    return slice_eq(head->method, SLICE("GET")) || slice_eq(head->method, SLICE("HEAD")) ||
           slice_eq(head->method, SLICE("OPTIONS"));
}

static void answer_failure(struct forward *f, bool sent, const struct err *e)
{
    char message[ERR_MSG_MAX + 128];
    struct upstream_failure why = upstream_failure_of(f->verb, sent && !f->safe, e);
    if (!sent && e->code == -HTTP_PARSE_TOO_LARGE) {
        const struct http_head refused = {.status = 431};
        why = (struct upstream_failure){431, 0, "does not take the request"};
        judge_length(f, &refused);
    }
    (void)snprintf(message, sizeof message, "the API server %s %s: %s",
                   kube_client_server(f->ctx->upstream), why.what, e->msg);
    if (!refusal_send(f->ctx->metrics, f->down, f->verb, why.status, why.retry_after, message)) {
        f->down = NULL;
    }
}

/* Nothing of the answer came. */
static void fail_unanswered(struct forward *f, bool sent, const struct err *e)
{
    set_response(f, RESPONSE_ENDED);
    breaker_ticket_answered(&f->asking->passage.ticket, true);
    passage_end(&f->asking->passage);
    http_exchange_resume(f->down);
    answer_failure(f, sent, e);
}

/* Whether it is a watch that the API server has not heard of, since a moment ago. */
static bool may_wait(const struct forward *f, const struct http_exchange *x, const struct err *e)
{
    return f->verb == VERB_WATCH && f->head != NULL && f->down != NULL && !f->ctx->draining &&
           f->response == RESPONSE_AWAITED && !http_client_sent(x) &&
           upstream_failure_is_outage(e) && kube_client_failing_ms(f->ctx->upstream) < OUTAGE_MS;
}

/* A watch waits while the API server is away for a moment, and is asked for again: of client-go
 * before 0.22 all informers would list upon any answer, and they do not list when a connection is
 * refused. True: it has been taken out of `f`, which is gone. */
static bool wait_for_api_server(struct forward *f, const struct http_exchange *x,
                                const struct err *e)
{
    struct forward_context *ctx = f->ctx;
    if (!may_wait(f, x, e)) {
        return false;
    }
    const struct paused_request_end end = {
        .cb = ctx->again,
        .data = ctx->data,
        .ended = f->request != REQUEST_COMING,
        .passage = &f->asking->passage,
    };
    breaker_ticket_answered(&f->asking->passage.ticket, true);
    if (!paused_request_start(ctx->loop, &ctx->waiting, f->down, f->head, OUTAGE_RETRY_MS, &end)) {
        return false;
    }
    if (!ctx->outage_told) {
        log_warn("the API server cannot be asked: watches wait for it", log_str("error", e->msg));
        ctx->outage_told = true;
    }
    ctx->metrics->upstream_errors++;
    f->down = NULL;
    forward_free(f);
    return true;
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct forward *f = x->data;
    f->up = NULL;
    leave_write(f, x);
    if (ran_out(f)) {
        return;
    }
    if (is_reopening(f)) {
        migration_unanswered(&f->migration);
        return;
    }
    if (e != NULL && wait_for_api_server(f, x, e)) {
        return;
    }
    if (e != NULL && f->response != RESPONSE_ENDED && !is_silent(f)) {
        f->ctx->metrics->upstream_errors++;
        if (f->response == RESPONSE_AWAITED) {
            log_at(kube_client_failure_level(f->ctx->upstream, 0),
                   "a request to the API server failed", log_str("error", e->msg));
        } else {
            log_warn("the API server's answer ended early", log_str("error", e->msg));
        }
        if (f->down != NULL && f->response == RESPONSE_AWAITED) {
            fail_unanswered(f, http_client_sent(x), e);
        } else if (f->down != NULL) {
            http_exchange_abort(f->down);
            f->down = NULL;
        }
    }
    free_if_over(f);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = up_on_drain,
    .on_close = up_on_close,
};

/* ---- an API server that is frozen ---- */

/* One that works would have said 504 itself. */
static void fail_overdue(struct forward *f)
{
    struct err e = ERR_INIT;
    bool sent = http_client_sent(f->up);
    err_set(&e, UV_ETIMEDOUT, "it does not answer");
    log_warn("a request to the API server failed", log_str("error", e.msg));
    abort_up(f);
    f->ctx->metrics->upstream_errors++;
    fail_unanswered(f, sent, &e);
    free_if_over(f);
}

/* One that works would have ended it: the operator watches on. */
static void end_overdue_watch(struct forward *f)
{
    if (is_reopening(f)) {
        abort_up(f);
        migration_unanswered(&f->migration);
    } else if (f->up == NULL || is_silent(f)) {
        return; /* it ends by itself */
    } else if (f->watch == NULL || watch_at_boundary(f->watch)) {
        end_watch(f);
    } else {
        forward_abort(f);
    }
}

static void on_overdue(struct net_deadline *d)
{
    struct forward *f = LIST_ITEM(d, struct forward, overdue);
    if (f->down == NULL || f->response == RESPONSE_ENDED) {
        return;
    }
    if (f->response == RESPONSE_AWAITED) {
        fail_overdue(f);
        return;
    }
    log_info("ending a watch that the API server should have ended");
    end_overdue_watch(f);
}

/* ---- the beginning ---- */

/* It must have come by now, or be over: the API server works on no request for longer. What was
 * refused and waits to be sent again is not sent any more. */
static void on_lost_due(struct net_deadline *d)
{
    struct forward *f = LIST_ITEM(d, struct asking, lost_due)->forward;
    uint64_t now = net_clock_now(f->ctx->writes.clock);
    uint64_t over = pending_write_over_ms(&f->asking->write);
    bool waits = f->up != NULL && !http_client_sent(f->up);
    if (f->request == REQUEST_PASSED && !waits && now < over) {
        net_deadline_set(f->ctx->loop, d, over - now);
        return;
    }
    log_warn("breaking off a write to what the shard has lost: it takes too long",
             log_strn("namespace", f->attributes.namespace.ptr, f->attributes.namespace.len),
             log_strn("resource", f->attributes.resource.ptr, f->attributes.resource.len));
    bool on_its_way = f->up != NULL && http_client_on_its_way(f->up);
    struct kube_client *upstream = f->ctx->upstream;
    forward_abort(f);
    if (on_its_way) {
        kube_client_break_off(upstream);
    }
}

static bool has_body(const struct http_head *head)
{
    return head->framing == HTTP_BODY_CHUNKED ||
           (head->framing == HTTP_BODY_LENGTH && head->content_length > 0);
}

/* The client may ask again from where it is, if this watch never begins. */
static bool open_account(struct forward *f)
{
    const struct request_attributes *a = &f->attributes;
    f->asking->account =
        delivered_account_open(f->ctx->points, &a->key, a->initial_events ? 0 : a->version);
    return f->asking->account != NULL;
}

/* NULL: it is not collected. */
static bool keep_body(struct forward *f, const struct slice *body)
{
    struct asking *a = f->asking;
    return body == NULL || (byte_share_set(&a->body_share, buf_size_with(&a->body, body->len)) &&
                            buf_append(&a->body, body->ptr, body->len) == 0);
}

/* Copies what is needed when the rules change, or the connection is there. */
static bool keep_request(struct forward *f, const struct forward_request *r)
{
    bool repeatable = (r->verb == VERB_LIST || r->verb == VERB_WATCH) && !has_body(r->head);
    if (!keep_body(f, r->body)) {
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
    return f->concerned && (f->verb != VERB_WATCH || open_account(f));
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
    net_deadline_init(&a->lost_due, on_lost_due);
    list_init(&a->write.link);
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
        .down = down,
        .verb = r->verb,
        .request = r->request_ended ? REQUEST_WHOLE : REQUEST_COMING,
        .begun_ns = net_clock_ns(),
        .limits = r->limits,
        .resource = r->resource,
        .carried = r->carried,
        .safe = is_safe(r->head) && !headers_may_upgrade(r->head, r->verb),
    };
    list_init(&f->link);
    net_deadline_init(&f->overdue, on_overdue);
    if (!begin_asking(f, r)) {
        request_attributes_deinit(&f->attributes);
        end_asking(f);
        free(f->head);
        free(f);
        return NULL;
    }
    passage_move(&f->asking->passage, r->passage);
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

/* The headers that a request is sent with. */
struct sent_headers {
    struct http_header list[HEADERS_MAX];
    size_t count;
    struct buf accept; /* what some of them have in place of what came */
    struct buf agent;
};

/* sent_headers_deinit is due. 0, -ENOBUFS or -ENOMEM. */
static int sent_headers_init(struct sent_headers *s, const struct forward *f,
                             const struct http_head *head)
{
    struct slice agent = f->ctx->user_agent;
    buf_init(&s->accept, ACCEPT_MAX);
    buf_init(&s->agent, AGENT_MAX);
    s->count = headers_of_request(head, f->verb, s->list);
    if (f->attributes.key.selector != 0) {
        ask_readable(s->list, s->count, &s->accept);
    }
    return agent.len == 0 ? 0 : headers_name_client(s->list, &s->count, agent, &s->agent);
}

static void sent_headers_deinit(struct sent_headers *s)
{
    buf_reset(&s->accept);
    buf_reset(&s->agent);
}

/* Asks the API server for `target` in the name of the operator's request `head`. */
static int ask_upstream(struct forward *f, const struct http_head *head, struct slice target,
                        const struct slice *body, struct err *e)
{
    struct sent_headers headers;
    struct http_head h = *head;
    h.target = target;
    f->target_len = (uint32_t)target.len; /* a few MiB at most */
    f->added_len = target.len > head->target.len ? (uint32_t)(target.len - head->target.len) : 0;
    h.upgrade = headers_may_upgrade(head, f->verb);
    if (sent_headers_init(&headers, f, &h) != 0) {
        sent_headers_deinit(&headers);
        return err_memory(e);
    }
    h.headers = headers.list;
    h.header_count = headers.count;
    h.background = f->verb == VERB_WATCH;
    h.guarded = f->resource;
    h.unhurried = f->limits.unhurried;
    h.borrowed = true;
    h.budget = is_reopening(f) ? &f->ctx->migrations.memory : f->ctx->sent;
    if (body != NULL) {
        h.framing = HTTP_BODY_LENGTH;
        h.content_length = body->len;
    }
    f->up = kube_client_request(f->ctx->upstream, &h, &up_handlers, f, e);
    sent_headers_deinit(&headers);
    return f->up != NULL ? 0 : e->code;
}

/* Nothing was asked. One that is too large for now may be a watch, which is to come again and not
 * to be listed for. */
static void answer_unasked(struct forward *f, const struct err *e)
{
    if (e->code == -EDQUOT) {
        (void)refusal_send(f->ctx->metrics, f->down, f->verb, 429, RETRY_AFTER_S, e->msg);
        return;
    }
    f->ctx->metrics->upstream_errors++;
    answer_failure(f, false, e);
}

void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct forward_request *r)
{
    struct err e;
    err_clear(&e);
    struct forward *f = forward_new(ctx, down, r);
    if (f == NULL) {
        (void)refusal_send(ctx->metrics, down, r->verb, 503, RETRY_AFTER_S, "out of memory");
        return;
    }
    if (f->concerned && request_verb_is_write(f->attributes.verb)) {
        pending_writes_begin(&ctx->writes, &f->asking->write, &f->attributes);
    }
    if (ask_upstream(f, r->head, r->target, r->body, &e) != 0) {
        answer_unasked(f, &e);
        forward_free(f);
        return;
    }
    down->handlers = &down_handlers;
    down->data = f;
    list_append(&ctx->running, &f->link);
    if (!http_exchange_blocked(f->up)) {
        if (f->request == REQUEST_WHOLE) {
            pass_request_end(f);
        }
    } else if (f->request == REQUEST_COMING && has_body(r->head)) {
        http_exchange_pause(down);
    }
}

/* ---- the rules change ---- */

bool forward_affected(const struct forward *f, const struct rules *now)
{
    if (!f->concerned || (f->verb != VERB_LIST && f->verb != VERB_WATCH)) {
        return false;
    }
    if (f->watch != NULL) {
        return migration_affected(&f->migration, now);
    }
    return request_attributes_selector(&f->attributes, now) != f->attributes.key.selector;
}

/* Not answered yet: the operator does not notice. */
static void send_again(struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    struct http_exchange *down = f->down;
    struct http_head *head = f->head;
    bool whole = f->request != REQUEST_COMING;
    struct passage passage;
    passage_move(&passage, &f->asking->passage);
    f->down = NULL;
    f->head = NULL;
    abort_up(f);
    http_exchange_resume(down);
    forward_free(f);
    ctx->metrics->requests_repeated++;
    ctx->again(ctx->data, down, head, whole, &passage);
    free(head);
}

static void change_watch(struct forward *f, struct rules *old, struct rules *now)
{
    if (watch_state(f->watch) == WATCH_PASSING && f->response == RESPONSE_ENDED) {
        return; /* its end is on the way to the operator */
    }
    migration_change_rules(&f->migration, old, now);
}

void forward_change_rules(struct forward *f, struct rules *old, struct rules *now)
{
    bool unanswered = f->response == RESPONSE_AWAITED;
    if (f->down == NULL) {
        return; /* over already */
    }
    if (f->watch != NULL) {
        change_watch(f, old, now);
    } else if (f->head != NULL && unanswered) {
        send_again(f);
    } else if (unanswered || f->tunnel || (f->list != NULL && f->response != RESPONSE_ENDED)) {
        f->ctx->metrics->lists_broken_off++;
        forward_abort(f);
    }
}

struct judgement {
    const struct forward_context *ctx;
    const struct rules *now;
};

/* Whether such a write would be refused now. */
static bool is_refused_now(void *data, const struct request_attributes *a)
{
    const struct judgement *j = data;
    struct request_info ri;
    request_attributes_to_request_info(a, &ri);
    return j->ctx->fences(j->ctx->data, &ri) ||
           (a->verb == VERB_DELETECOLLECTION &&
            request_attributes_selector(a, j->now) != a->key.selector);
}

void forward_judge_writes(struct forward_context *ctx, const struct rules *now)
{
    struct judgement j = {ctx, now};
    uint64_t hash = hash_slice(HASH_SEED, slice_str(rules_checksum(now)));
    pending_writes_judge(&ctx->writes, hash, is_refused_now, &j);
}

static void expire_unanswered(struct forward *f, const char *why)
{
    bool doubtful = f->up != NULL && http_client_sent(f->up) && !f->safe;
    abort_up(f);
    net_deadline_clear(&f->overdue);
    set_response(f, RESPONSE_ENDED);
    passage_end(&f->asking->passage);
    http_exchange_resume(f->down);
    if (!refusal_send(f->ctx->metrics, f->down, f->verb, doubtful ? 504 : 503,
                      doubtful ? 0 : RETRY_AFTER_S, why)) {
        f->down = NULL;
    }
}

void forward_expire(struct forward *f, const char *why)
{
    if (!f->resource) {
        return;
    }
    if (f->down != NULL && f->watch != NULL && (f->response != RESPONSE_ENDED || is_silent(f))) {
        migration_end_now(&f->migration); /* it may be gone */
        return;
    }
    if (f->down != NULL && f->response == RESPONSE_AWAITED) {
        expire_unanswered(f, why);
    } else if (f->response == RESPONSE_PASSING || f->tunnel) {
        forward_abort(f);
        return;
    }
    abort_up(f);
    free_if_over(f);
}

void forward_drain(struct forward *f)
{
    if (f->watch == NULL || f->down == NULL) {
        return;
    }
    if (is_silent(f)) {
        migration_cut(&f->migration);
    } else if (watch_state(f->watch) == WATCH_PASSING && f->response != RESPONSE_ENDED &&
               watch_at_boundary(f->watch)) {
        end_watch(f);
    }
}

/* ---- what it says of itself ---- */

void forward_describe(const struct forward *f, cJSON *array)
{
    char text[256];
    cJSON *row = cJSON_CreateObject();
    const struct request_attributes *s = &f->attributes;
    (void)snprintf(text, sizeof text, "%.*s%s%.*s", (int)s->resource.len, s->resource.ptr,
                   s->group.len > 0 ? "." : "", (int)s->group.len, s->group.ptr);
    cJSON_AddStringToObject(row, "resource", text);
    (void)snprintf(text, sizeof text, "%.*s", (int)s->namespace.len, s->namespace.ptr);
    cJSON_AddStringToObject(row, "namespace", text);
    if (s->gateway.len > 0) {
        (void)snprintf(text, sizeof text, "/%.*s", (int)s->gateway.len, s->gateway.ptr);
        cJSON_AddStringToObject(row, "gateway", text);
    }
    cJSON_AddStringToObject(row, "state", migration_state_name(&f->migration));
    cJSON_AddBoolToObject(row, "limited", s->key.selector != 0);
    (void)snprintf(text, sizeof text, "%" PRIu64, watch_version(f->watch));
    cJSON_AddStringToObject(row, "resourceVersion", text);
    cJSON_AddItemToArray(array, row);
}
