/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/decider.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/server.h"
#include "net/blocking.h"
#include "webhook/response.h"
#include "webhook/review_queue.h"

enum {
    SMALL_MAX = 64 * 1024,
    ANSWER_MAX = 4 * ADMISSION_REVIEW_MAX,
};

enum lane_name { LANE_SMALL, LANE_LARGE, LANES };

struct job;

struct decider {
    struct decider_options o;
    struct net_loop *loop;
    struct review_queue queue;
    struct job *running[LANES];
    uint64_t reviews; /* that were in threads */
    uint64_t turned_away;
};

/* One review. */
struct job {
    struct review_place place;
    struct decider *decider; /* NULL: it is gone, and so are the next two */
    struct webhook_stats *stats;
    struct http_exchange *x; /* NULL: the connection is gone */
    const struct webhook_route *route;
    void *data;
    uint64_t begun;
    struct net_blocking *work; /* that is being done; NULL: none */
    bool abandoned;            /* what is left to do is to free it */
    uint64_t thread_us;        /* spent in threads, */
    uint64_t loop_us;          /* and in the loop */

    struct buf body;
    bool read; /* the next is to be freed */
    struct admission_request request;
    struct webhook_decision decision;
    int rc; /* of the step that was last */
    struct err e;

    struct buf answer;
    unsigned status;
    enum webhook_result result;
};

static uint64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- the steps: all but `begin` and `decide` in any thread ---- */

/* The status of a refusal; 0: it is none. Always Forbidden: of an answer with reason Invalid
 * kubectl shows nothing but "The request is invalid". */
static unsigned refusal_of(int rc)
{
    bool refused = rc == -EINVAL || rc == -E2BIG || rc == -ENOENT || rc == -EEXIST;
    return refused ? 403 : 0;
}

static void fail_job(struct job *j, unsigned status, const char *why)
{
    j->status = status;
    j->result = status == 500 ? WEBHOOK_ERROR : WEBHOOK_BAD_REQUEST;
    if (j->e.msg[0] == '\0') {
        (void)err_set(&j->e, j->rc, "%s", why);
    }
}

static void begin_review(struct job *j, bool thread)
{
    if (j->route->begin != NULL) {
        j->route->begin(j->data, thread, &j->decision);
    }
}

static void read_review(struct job *j)
{
    const struct webhook_route *route = j->route;
    j->rc = admission_request_read(&j->request, buf_slice(&j->body), route->parts, &j->e);
    j->read = j->rc == 0;
    secret_buf_reset(&j->body);
    if (!j->read) {
        fail_job(j, j->rc == -E2BIG ? 413 : 400, err_text(j->rc));
    } else if (route->prepare != NULL) {
        j->rc = route->prepare(j->data, &j->request, &j->decision, &j->e);
    }
}

static void decide(struct job *j)
{
    if (j->read && j->rc == 0 && j->route->decide != NULL) {
        j->rc = j->route->decide(j->data, &j->request, &j->decision, &j->e);
    }
}

static enum webhook_result result_of(const struct admission_answer *a)
{
    bool patched = a->patch != NULL && a->patch->child != NULL;
    if (a->refusal != 0) {
        return WEBHOOK_REFUSED;
    }
    return patched ? WEBHOOK_PATCHED : WEBHOOK_ALLOWED;
}

static void write_answer(struct job *j)
{
    const struct admission_answer a = {
        .refusal = refusal_of(j->rc),
        .message = j->e.msg,
        .patch = j->rc == 0 ? j->decision.patch : NULL,
        .warnings = &j->decision.warnings,
    };
    if (j->rc == 0 || a.refusal != 0) {
        int rc = admission_answer_write(&j->request, &a, &j->answer);
        j->status = 200;
        j->result = result_of(&a);
        if (rc != 0) {
            j->rc = err_set(&j->e, rc, "%s", err_text(rc));
        }
    }
    if (j->rc != 0 && refusal_of(j->rc) == 0) {
        fail_job(j, 500, err_text(j->rc));
    }
}

static void forget_decision(struct job *j)
{
    if (j->decision.state != NULL) {
        j->route->forget(j->decision.state);
    }
    j->decision.state = NULL;
    cJSON_Delete(j->decision.patch);
    j->decision.patch = NULL;
    warnings_deinit(&j->decision.warnings);
}

static void finish_review(struct job *j)
{
    if (j->read && !j->abandoned) {
        if (j->rc == 0 && j->route->finish != NULL) {
            j->rc = j->route->finish(j->data, &j->request, &j->decision, &j->e);
        }
        write_answer(j);
    }
    forget_decision(j);
    admission_request_drop_objects(&j->request);
}

/* ---- the end of a review ---- */

static void job_free(struct job *j)
{
    review_place_close(&j->place);
    forget_decision(j);
    if (j->read) {
        admission_request_deinit(&j->request);
    }
    secret_buf_reset(&j->body);
    secret_buf_reset(&j->answer);
    free(j);
}

static void log_refusal(const struct job *j)
{
    const struct admission_request *r = &j->request;
    const char *withheld = j->decision.withheld;
    char why[2 * ERR_MSG_MAX + 4];
    (void)snprintf(why, sizeof why, "%s%s%s", j->e.msg, withheld[0] != '\0' ? ": " : "", withheld);
    log_info("request denied by webhook", log_str("webhook", j->route->name),
             log_str("operation", admission_operation_name(r->operation)),
             log_str("namespace", r->namespace), log_str("name", r->name), log_str("why", why));
}

static void log_failure(const struct job *j)
{
    if (!j->read) {
        log_warn("webhook received something other than an AdmissionReview",
                 log_str("webhook", j->route->name), log_str("error", j->e.msg));
        return;
    }
    log_warn("webhook failed", log_str("webhook", j->route->name),
             log_str("namespace", j->request.namespace), log_str("name", j->request.name),
             log_str("error", j->e.msg));
}

static void respond(struct job *j)
{
    struct http_exchange *x = j->x;
    j->x = NULL;
    if (j->status == 200) {
        webhook_respond(x, 200, buf_slice(&j->answer), NULL);
    } else {
        webhook_respond_failure(x, j->status, j->e.msg, NULL);
    }
}

static void end(struct job *j)
{
    struct webhook_stats *stats = j->stats;
    if (j->result == WEBHOOK_REFUSED) {
        log_refusal(j);
    } else if (j->status != 200) {
        log_failure(j);
    }
    webhook_stats_observe(stats, j->result, now_us() - j->begun);
    webhook_stats_observe_parts(stats, j->thread_us, j->loop_us);
    respond(j);
    job_free(j);
}

/* ---- threads ---- */

static void next_job(struct decider *d, unsigned lane);

static void free_lane(struct job *j)
{
    struct decider *d = j->decider;
    d->running[j->place.lane] = NULL;
    d->reviews++;
    review_place_charge(&j->place, now_us() * 1000, (j->thread_us + j->loop_us) * 1000);
}

static void on_dropped(void *data)
{
    job_free(data);
}

static void work_answer(void *data)
{
    struct job *j = data;
    uint64_t begun = now_us();
    finish_review(j);
    j->thread_us += now_us() - begun;
}

static void on_answered(void *data)
{
    struct job *j = data;
    struct decider *d = j->decider;
    unsigned lane = j->place.lane;
    j->work = NULL;
    free_lane(j);
    if (j->x != NULL) {
        end(j);
    } else {
        job_free(j);
    }
    next_job(d, lane);
}

static void work_read(void *data)
{
    struct job *j = data;
    uint64_t begun = now_us();
    read_review(j);
    j->thread_us += now_us() - begun;
}

static void on_read(void *data)
{
    static const struct net_blocking_ops ops = {
        .work = work_answer, .done = on_answered, .drop = on_dropped};
    struct job *j = data;
    uint64_t begun = now_us();
    j->work = NULL;
    j->abandoned = j->x == NULL;
    if (!j->abandoned) {
        decide(j);
    }
    j->loop_us = now_us() - begun;
    j->work = xptr(net_blocking_start(j->decider->loop, &ops, j));
}

static void next_job(struct decider *d, unsigned lane)
{
    static const struct net_blocking_ops ops = {
        .work = work_read, .done = on_read, .drop = on_dropped};
    struct review_place *next = NULL;
    if (d->running[lane] == NULL && (next = review_queue_next(&d->queue, lane)) != NULL) {
        struct job *j = LIST_ITEM(next, struct job, place);
        review_place_leave(next);
        d->running[lane] = j;
        begin_review(j, true);
        j->work = xptr(net_blocking_start(d->loop, &ops, j));
    }
}

/* ---- those that wait ---- */

static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct job *j = x->data;
    (void)e;
    j->x = NULL;
    j->stats->results[WEBHOOK_BAD_REQUEST]++;
    if (j->place.queue != NULL) {
        job_free(j);
    }
}

static const struct http_exchange_handlers waiting_handlers = {
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = on_close,
};

static void turn_away(struct decider *d, struct job *j)
{
    const struct http_header later = {SLICE("Retry-After"), SLICE("1")};
    struct http_exchange *x = j->x;
    j->stats->results[WEBHOOK_BAD_REQUEST]++;
    d->turned_away++;
    job_free(j);
    webhook_respond_failure(x, 503, "too many concurrent reviews", &later);
}

static void wait(struct decider *d, struct job *j)
{
    struct review_place *excess = NULL;
    j->x->handlers = &waiting_handlers;
    j->x->data = j;
    review_place_wait(&j->place, &d->queue);
    next_job(d, j->place.lane);
    while ((excess = review_queue_excess(&d->queue)) != NULL) {
        turn_away(d, LIST_ITEM(excess, struct job, place));
    }
}

/* ---- life ---- */

static void decide_at_once(struct job *j)
{
    begin_review(j, false);
    read_review(j);
    decide(j);
    finish_review(j);
    j->loop_us = now_us() - j->begun;
    end(j);
}

static struct job *job_new(struct decider *d, size_t route, struct http_exchange *x,
                           struct buf *body)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->decider = d;
    j->stats = &d->o.stats[route];
    j->x = x;
    j->route = &d->o.routes[route];
    j->data = d->o.data;
    review_place_open(&j->place, http_server_peer(x),
                      body->len < SMALL_MAX ? LANE_SMALL : LANE_LARGE, body->len);
    j->begun = now_us();
    j->body = *body;
    buf_init(&j->answer, ANSWER_MAX);
    buf_init(body, 0);
    return j;
}

void decider_take(struct decider *d, size_t route, struct http_exchange *x, struct buf *body)
{
    size_t inline_max = d->o.routes[route].inline_max;
    struct job *j = job_new(d, route, x, body);
    if (j->place.size <= (inline_max != 0 ? inline_max : SMALL_MAX)) {
        decide_at_once(j);
    } else {
        wait(d, j);
    }
}

struct decider *decider_new(struct net_loop *l, const struct decider_options *o)
{
    struct decider *d = xcalloc(1, sizeof *d);
    d->o = *o;
    d->loop = l;
    review_queue_init(&d->queue);
    return d;
}

void decider_count(const struct decider *d, struct webhook_thread_counts *out)
{
    *out = (struct webhook_thread_counts){
        .reviews = d->reviews,
        .turned_away = d->turned_away,
        .waiting = d->queue.count,
        .waiting_bytes = d->queue.bytes,
    };
}

void decider_free(struct decider *d)
{
    if (d == NULL) {
        return;
    }
    while (!list_empty(&d->queue.waiting)) {
        job_free(LIST_ITEM(d->queue.waiting.next, struct job, place.link));
    }
    for (size_t i = 0; i < LANES; i++) {
        if (d->running[i] != NULL) {
            d->running[i]->decider = NULL;
            net_blocking_drop(d->running[i]->work);
        }
    }
    free(d);
}
