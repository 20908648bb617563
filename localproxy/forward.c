/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "forward_internal.h"
#include "headers.h"
#include "http/server.h"
#include "kube/status.h"

enum {
    STATUS_MAX = 16 * 1024,
    RETRY_AFTER_S = 1,
};

int forward_context_init(struct forward_context *ctx, struct net_loop *l,
                         struct kube_client *upstream, struct metrics *metrics,
                         struct delivered_versions *points)
{
    *ctx = (struct forward_context){.loop = l, .upstream = upstream, .metrics = metrics};
    list_init(&ctx->running);
    change_context_init(ctx);
    ctx->points = points;
    ctx->pages = list_pages_new(l, upstream);
    return ctx->pages != NULL ? 0 : -ENOMEM;
}

bool forward_refuse(struct metrics *m, struct http_exchange *down, enum request_verb verb,
                    unsigned code, unsigned retry_after, const char *message)
{
    struct buf body = BUF_INIT(STATUS_MAX);
    char seconds[16];
    struct http_header extra[2];
    size_t n = 0;
    if (retry_after != 0) {
        (void)snprintf(seconds, sizeof seconds, "%u", retry_after);
        extra[n++] = (struct http_header){SLICE("Retry-After"), slice_str(seconds)};
    }
    if (code == 401) {
        extra[n++] = (struct http_header){SLICE("WWW-Authenticate"), SLICE("Bearer")};
    }
    m->rejected++;
    metrics_count_code(m, verb, code);
    int rc = status_write(&body, code, NULL, retry_after, "%s", message);
    if (rc == 0) {
        rc = http_respond(down, code, SLICE("application/json"), buf_slice(&body), extra, n);
    }
    buf_reset(&body);
    if (rc != 0) {
        http_exchange_abort(down);
    }
    return rc == 0;
}

/* ---- the end of a forward ---- */

static void settle(struct forward *f)
{
    struct forward_context *ctx = f->ctx;
    if (f->lost) {
        f->lost = false;
        if (--ctx->lost == 0) {
            ctx->on_settled(ctx->data);
        }
    }
}

static void count_end(struct forward *f)
{
    struct metrics *m = f->ctx->metrics;
    m->open_watches -= f->watch != NULL ? 1 : 0;
    m->tunnels -= f->tunnel ? 1 : 0;
    if (f->responded && f->watch == NULL && !f->tunnel) {
        metrics_count_duration(&m->duration, (uv_hrtime() - f->begun_ns) / 1000);
    }
}

void forward_destroy(struct forward *f)
{
    count_end(f);
    list_remove(&f->link);
    change_forget(f);
    watch_free(f->watch);
    list_meta_free(f->list);
    request_attributes_deinit(&f->attributes);
    buf_reset(&f->body);
    free(f->head);
    settle(f);
    free(f);
}

/* Frees when both sides are over. */
static void release(struct forward *f)
{
    if (f->down == NULL && f->up == NULL) {
        forward_destroy(f);
    }
}

void forward_abort_up(struct forward *f)
{
    if (f->up != NULL) {
        http_exchange_abort(f->up);
        f->up = NULL;
    }
}

void forward_abort(struct forward *f)
{
    forward_abort_up(f);
    if (f->down != NULL) {
        http_exchange_abort(f->down);
        f->down = NULL;
    }
    release(f);
}

void forward_context_deinit(struct forward_context *ctx)
{
    while (!list_empty(&ctx->running)) { /* answered, but the API server has not let go yet */
        forward_abort(LIST_ITEM(ctx->running.next, struct forward, link));
    }
    change_context_deinit(ctx);
    list_pages_free(ctx->pages);
    delivered_free(ctx->points);
}

/* ---- the operator's side ---- */

static void down_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = x->data;
    if (f->up == NULL) {
        return; /* answered already: the rest of the request is dropped */
    }
    if (http_exchange_send_body(f->up, data) != 0) {
        forward_abort(f);
    } else if (http_exchange_blocked(f->up)) {
        http_exchange_pause(x);
    }
}

/* With the body, if it was collected. */
static void pass_request_end(struct forward *f)
{
    int rc = 0;
    f->request_passed = true;
    if (f->body.len > 0) {
        rc = http_exchange_send_body(f->up, buf_slice(&f->body));
        buf_reset(&f->body);
    }
    if (rc != 0 || http_exchange_send_end(f->up) != 0) {
        forward_abort(f);
    }
}

static void down_on_end(struct http_exchange *x)
{
    struct forward *f = x->data;
    f->request_ended = true;
    bool may_pass =
        f->tunnel || (!f->request_passed && f->up != NULL && !http_exchange_blocked(f->up));
    if (f->up != NULL && may_pass) {
        pass_request_end(f);
    }
}

static void down_on_drain(struct http_exchange *x)
{
    struct forward *f = x->data;
    if (f->up != NULL) {
        http_exchange_resume(f->up);
    } else if (f->writer != NULL) {
        difference_writer_drained(f->writer);
    }
}

static void down_on_close(struct http_exchange *x, const struct err *e)
{
    struct forward *f = x->data;
    f->down = NULL;
    if (e != NULL) {
        log_debug("the operator's request ended early", log_str("error", e->msg));
    }
    if (f->up != NULL && (e != NULL || !f->response_ended)) {
        forward_abort_up(f);
    }
    release(f);
}

static const struct http_exchange_handlers down_handlers = {
    .on_body = down_on_body,
    .on_end = down_on_end,
    .on_drain = down_on_drain,
    .on_close = down_on_close,
};

/* ---- the beginning of an answer ---- */

static struct slice header_value(const struct http_head *head, struct slice name)
{
    const struct http_header *h = http_head_find(head, name);
    return h != NULL ? h->value : (struct slice){0};
}

static bool open_watch(struct forward *f, const struct http_head *head)
{
    struct watch_options o = {
        .encoding = encoding_of(header_value(head, SLICE("Content-Type"))),
        .points = f->ctx->points,
        .key = f->attributes.key,
        .version = f->attributes.version,
        .initial_events = f->attributes.initial_events,
    };
    if (header_value(head, SLICE("Content-Encoding")).len > 0) {
        o.encoding = ENCODING_OTHER;
    }
    f->watch = watch_new(&o);
    f->ctx->metrics->open_watches += f->watch != NULL ? 1 : 0;
    return f->watch != NULL;
}

void forward_give_back(struct forward *f)
{
    if (f->scoped && f->verb == VERB_WATCH && f->attributes.version != 0) {
        struct delivered_range range = {f->attributes.version, f->attributes.version};
        delivered_give(f->ctx->points, &f->attributes.key, range);
    }
}

/* Keeps account of what this answer is. False: no memory. */
static bool note_kind(struct forward *f, const struct http_head *head)
{
    if (head->status == 101) {
        f->tunnel = true;
        f->ctx->metrics->tunnels++;
    } else if (head->status == 200 && f->scoped && f->verb == VERB_WATCH) {
        return open_watch(f, head);
    } else if (head->status == 200 && f->scoped && f->verb == VERB_LIST) {
        f->list = list_meta_new(header_value(head, SLICE("Content-Type")),
                                header_value(head, SLICE("Content-Encoding")));
        return f->list != NULL;
    } else {
        forward_give_back(f);
    }
    if (head->status == 401) {
        kube_client_rejected(f->ctx->upstream);
    }
    return true;
}

void forward_end_watch(struct forward *f)
{
    forward_abort_up(f);
    if (http_exchange_send_end(f->down) != 0) {
        forward_abort(f);
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct forward *f = x->data;
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    (void)x;
    if (f->reopening) {
        change_reopened(f, head);
        return;
    }
    h.headers = headers;
    h.header_count = headers_of_response(head, headers);
    if (head->framing == HTTP_BODY_NONE && head->content_length > 0) {
        h.framing = HTTP_BODY_LENGTH; /* what the answer to a GET would have */
    }
    f->responded = true;
    metrics_count_code(f->ctx->metrics, f->verb, head->status);
    bool noted = note_kind(f, head);
    if (f->watch == NULL || !f->ctx->seamless) {
        free(f->head);
        f->head = NULL;
    }
    if (!noted || http_exchange_send_head(f->down, &h) != 0) {
        forward_abort(f);
    } else if (f->watch != NULL && f->ctx->draining) {
        forward_end_watch(f);
    }
}

/* ---- the API server's side ---- */

static int pass_body(struct forward *f, struct slice data)
{
    if (f->watch != NULL) {
        return watch_feed(f->watch, data, f->down);
    }
    if (f->list != NULL) {
        list_meta_feed(f->list, data);
    }
    return http_exchange_send_body(f->down, data);
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = x->data;
    bool last = f->watch != NULL && watch_state(f->watch) == WATCH_LAST;
    f->ctx->metrics->response_bytes += data.len;
    if (pass_body(f, data) != 0) {
        forward_abort(f);
    } else if (last && watch_state(f->watch) == WATCH_SILENT) {
        change_last_passed(f);
    } else if (f->watch != NULL && f->ctx->draining && watch_at_boundary(f->watch)) {
        forward_end_watch(f);
    } else if (http_exchange_blocked(f->down)) {
        http_exchange_pause(x);
    }
}

/* The client has all of the list: it may go on from it. */
static void note_list(struct forward *f)
{
    struct list_meta_result found;
    list_meta_end(f->list, &found);
    if (f->attributes.newest && found.resource_version != 0) {
        delivered_newest(f->ctx->points, f->attributes.key.resource, found.resource_version);
    }
    if (found.token != 0) {
        delivered_give_page(f->ctx->points, &f->attributes.key, found.token);
    } else if (found.resource_version != 0) {
        struct delivered_range range = {found.resource_version, found.resource_version};
        delivered_give(f->ctx->points, &f->attributes.key, range);
    } else {
        delivered_give(f->ctx->points, &f->attributes.key, DELIVERED_ANY);
        delivered_give_page(f->ctx->points, &f->attributes.key, 0);
    }
}

static void up_on_end(struct http_exchange *x)
{
    struct forward *f = x->data;
    (void)x;
    f->response_ended = true;
    if (f->watch != NULL && watch_state(f->watch) == WATCH_LAST) {
        forward_abort(f); /* within an event */
        return;
    }
    if (f->watch != NULL && watch_state(f->watch) == WATCH_SILENT) {
        return; /* it ends when its time has come */
    }
    if (f->list != NULL) {
        note_list(f);
    }
    if (f->down != NULL && http_exchange_send_end(f->down) != 0) {
        forward_abort(f);
    }
}

static void up_on_drain(struct http_exchange *x)
{
    struct forward *f = x->data;
    (void)x;
    if (f->request_ended && !f->request_passed) {
        pass_request_end(f);
    } else if (f->down != NULL) {
        http_exchange_resume(f->down);
    }
}

/* Says what happened in a way that a client acts on rightly: client-go retries 502 not at all, 503
 * and 504 with Retry-After. */
static void answer_failure(struct forward *f, const struct err *e)
{
    char message[ERR_MSG_MAX + 128];
    bool timeout = e->code == UV_ETIMEDOUT;
    (void)snprintf(message, sizeof message, "the API server %s cannot be asked: %s",
                   kube_client_server(f->ctx->upstream), e->msg);
    if (!forward_refuse(f->ctx->metrics, f->down, f->verb, timeout ? 504 : 503, RETRY_AFTER_S,
                        message)) {
        f->down = NULL;
    }
}

/* Nothing of the answer came. */
static void fail_unanswered(struct forward *f, const struct err *e)
{
    f->responded = true;
    forward_give_back(f);
    http_exchange_resume(f->down);
    answer_failure(f, e);
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct forward *f = x->data;
    (void)x;
    f->up = NULL;
    if (f->reopening) {
        change_not_reopened(f);
        return;
    }
    bool silent = f->watch != NULL && watch_state(f->watch) == WATCH_SILENT;
    if (e != NULL && !f->response_ended && !silent) {
        f->ctx->metrics->upstream_errors++;
        log_warn("the API server's answer failed", log_str("error", e->msg));
        if (f->down != NULL && !f->responded) {
            fail_unanswered(f, e);
        } else if (f->down != NULL) {
            http_exchange_abort(f->down);
            f->down = NULL;
        }
    }
    release(f);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = up_on_drain,
    .on_close = up_on_close,
};

/* ---- the beginning ---- */

static bool has_body(const struct http_head *head)
{
    return head->framing == HTTP_BODY_CHUNKED ||
           (head->framing == HTTP_BODY_LENGTH && head->content_length > 0);
}

/* Copies what is needed when the rules change, or the connection is there. */
static bool keep(struct forward *f, const struct forward_request *r)
{
    bool repeatable = (r->verb == VERB_LIST || r->verb == VERB_WATCH) && !has_body(r->head);
    if (r->body != NULL && buf_append(&f->body, r->body->ptr, r->body->len) != 0) {
        return false;
    }
    if (r->attributes == NULL) {
        return true;
    }
    f->head = repeatable ? http_head_copy(r->head) : NULL;
    f->scoped = (!repeatable || f->head != NULL) &&
                request_attributes_keep(&f->attributes, r->attributes) == 0;
    return f->scoped;
}

static struct forward *forward_new(struct forward_context *ctx, struct http_exchange *down,
                                   const struct forward_request *r)
{
    struct forward *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    f->ctx = ctx;
    f->verb = r->verb;
    f->down = down;
    f->begun_ns = uv_hrtime();
    f->request_ended = r->request_ended;
    list_init(&f->link);
    net_deadline_init(&f->due, ctx->on_due);
    buf_init(&f->body, r->body != NULL ? r->body->len : 0);
    if (!keep(f, r)) {
        buf_reset(&f->body);
        free(f->head);
        free(f);
        return NULL;
    }
    return f;
}

struct http_exchange *forward_ask(struct forward *f, const struct http_head *head,
                                  struct slice target, const struct slice *body, struct err *e)
{
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    h.target = target;
    h.upgrade = headers_may_upgrade(head);
    h.header_count = headers_of_request(&h, headers);
    h.headers = headers;
    h.background = f->verb == VERB_WATCH;
    if (body != NULL) {
        h.framing = HTTP_BODY_LENGTH;
        h.content_length = body->len;
    }
    return kube_client_request(f->ctx->upstream, &h, &up_handlers, f, e);
}

void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct forward_request *r)
{
    struct err e = ERR_INIT;
    struct forward *f = forward_new(ctx, down, r);
    if (f == NULL) {
        (void)forward_refuse(ctx->metrics, down, r->verb, 503, RETRY_AFTER_S, "out of memory");
        return;
    }
    f->up = forward_ask(f, r->head, r->target, r->body, &e);
    if (f->up == NULL) {
        ctx->metrics->upstream_errors++;
        forward_give_back(f);
        answer_failure(f, &e);
        forward_destroy(f);
        return;
    }
    down->handlers = &down_handlers;
    down->data = f;
    list_append(&ctx->running, &f->link);
    if (!http_exchange_blocked(f->up)) {
        if (f->request_ended) {
            pass_request_end(f);
        }
    } else if (!f->request_ended && has_body(r->head)) {
        http_exchange_pause(down);
    }
}

void forward_drain(struct forward_context *ctx)
{
    ctx->draining = true;
    for (struct list *node = ctx->running.next, *next; node != &ctx->running; node = next) {
        next = node->next;
        struct forward *f = LIST_ITEM(node, struct forward, link);
        if (f->watch == NULL || f->down == NULL) {
            continue;
        }
        if (watch_state(f->watch) == WATCH_SILENT) {
            change_cut(f);
        } else if (watch_state(f->watch) == WATCH_PASSING && !f->response_ended &&
                   watch_at_boundary(f->watch)) {
            forward_end_watch(f);
        }
    }
}

/* ---- what it says of itself ---- */

static const char *state_of(const struct forward *f)
{
    if (f->reopening) {
        return "Reopening";
    }
    if (f->version_probe != NULL && f->writer == NULL) {
        return "FindingVersion";
    }
    if (f->writer != NULL) {
        return difference_writer_has_written(f->writer) ? "WritingDifference" : "ListingDifference";
    }
    switch (watch_state(f->watch)) {
    case WATCH_PASSING:
        return "Passing";
    case WATCH_CUT:
        return "Ended";
    default:
        return "Silenced";
    }
}

static void describe_watch(const struct forward *f, cJSON *array)
{
    char text[256];
    cJSON *row = cJSON_CreateObject();
    const struct request_attributes *s = &f->attributes;
    (void)snprintf(text, sizeof text, "%.*s%s%.*s", (int)s->resource.len, s->resource.ptr,
                   s->group.len > 0 ? "." : "", (int)s->group.len, s->group.ptr);
    cJSON_AddStringToObject(row, "resource", text);
    (void)snprintf(text, sizeof text, "%.*s", (int)s->namespace.len, s->namespace.ptr);
    cJSON_AddStringToObject(row, "namespace", text);
    cJSON_AddStringToObject(row, "state", state_of(f));
    cJSON_AddBoolToObject(row, "limited", s->key.selector != 0);
    (void)snprintf(text, sizeof text, "%" PRIu64, watch_version(f->watch));
    cJSON_AddStringToObject(row, "resourceVersion", text);
    cJSON_AddItemToArray(array, row);
}

unsigned forward_describe_watches(const struct forward_context *ctx, cJSON *array)
{
    unsigned count = 0;
    if (array == NULL) {
        return 0; /* no memory */
    }
    LIST_FOR_EACH(node, &ctx->running)
    {
        const struct forward *f = LIST_ITEM(node, const struct forward, link);
        if (f->watch != NULL && count++ < FORWARD_DESCRIBED_MAX) {
            describe_watch(f, array);
        }
    }
    return count;
}
