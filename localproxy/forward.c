/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "frames.h"
#include "http/server.h"
#include "kube/status.h"

enum { HEADERS_MAX = 160, STATUS_MAX = 16 * 1024, RETRY_AFTER_S = 1 };

struct forward {
    struct forward_context *ctx;
    struct http_exchange *down; /* NULL once it is over */
    struct http_exchange *up;   /* likewise */
    struct list link;
    enum request_verb verb;
    uint64_t begun_ns;
    struct frames frames; /* of a watch */
    bool responded;       /* the response's head went down */
    bool streaming;       /* an open watch */
    bool tunnel;
    bool request_ended;  /* down sent all of its request */
    bool request_passed; /* and up was told */
    bool response_ended; /* up sent all of its response */
};

void forward_context_init(struct forward_context *ctx, struct net_loop *l,
                          struct kube_client *upstream, struct metrics *metrics)
{
    *ctx = (struct forward_context){.loop = l, .upstream = upstream, .metrics = metrics};
    list_init(&ctx->running);
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
        rc = http_respond(down, code, SLICE("application/json"),
                          slice_of((const char *)buf_data(&body), body.len), extra, n);
    }
    buf_reset(&body);
    if (rc != 0) {
        http_exchange_abort(down);
    }
    return rc == 0;
}

static void count_end(struct forward *f)
{
    struct metrics *m = f->ctx->metrics;
    m->open_watches -= f->streaming ? 1 : 0;
    m->tunnels -= f->tunnel ? 1 : 0;
    if (f->responded && !f->streaming && !f->tunnel) {
        metrics_count_duration(m, (uv_hrtime() - f->begun_ns) / 1000);
    }
}

/* Frees when both sides are over. */
static void release(struct forward *f)
{
    if (f->down == NULL && f->up == NULL) {
        count_end(f);
        list_remove(&f->link);
        free(f);
    }
}

static void abort_both(struct forward *f)
{
    if (f->up != NULL) {
        http_exchange_abort(f->up);
        f->up = NULL;
    }
    if (f->down != NULL) {
        http_exchange_abort(f->down);
        f->down = NULL;
    }
    release(f);
}

/* ---- the operator's side ---- */

static void down_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = x->data;
    if (f->up == NULL) {
        return; /* answered already: the rest of the request is dropped */
    }
    if (http_exchange_send_body(f->up, data) != 0) {
        abort_both(f);
    } else if (http_exchange_blocked(f->up)) {
        http_exchange_pause(x);
    }
}

static void pass_request_end(struct forward *f)
{
    f->request_passed = true;
    if (http_exchange_send_end(f->up) != 0) {
        abort_both(f);
    }
}

static void down_on_end(struct http_exchange *x)
{
    struct forward *f = x->data;
    f->request_ended = true;
    if (f->up != NULL && (f->tunnel || !http_exchange_blocked(f->up))) {
        pass_request_end(f);
    }
}

static void down_on_drain(struct http_exchange *x)
{
    struct forward *f = x->data;
    if (f->up != NULL) {
        http_exchange_resume(f->up);
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
        http_exchange_abort(f->up);
        f->up = NULL;
    }
    release(f);
}

static const struct http_exchange_handlers down_handlers = {
    .on_body = down_on_body,
    .on_end = down_on_end,
    .on_drain = down_on_drain,
    .on_close = down_on_close,
};

/* ---- the API server's side ---- */

static bool is_hop_by_hop(const struct http_head *head, struct slice name)
{
    bool found = http_header_is_hop_by_hop(name, (struct slice){0});
    for (size_t i = 0; i < head->header_count && !found; i++) {
        const struct http_header *h = &head->headers[i];
        found = slice_ieq(h->name, SLICE("Connection")) && http_list_has(h->value, name);
    }
    return found;
}

/* Copies the headers that go on; returns their number. */
static size_t end_to_end(const struct http_head *head, struct http_header out[HEADERS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < head->header_count && n < HEADERS_MAX - 1; i++) {
        if (!is_hop_by_hop(head, head->headers[i].name)) {
            out[n++] = head->headers[i];
        }
    }
    if (head->upgrade) {
        const struct http_header *upgrade = http_head_find(head, SLICE("Upgrade"));
        if (upgrade != NULL) {
            out[n++] = *upgrade;
        }
    }
    return n;
}

static void note_kind(struct forward *f, const struct http_head *head)
{
    struct metrics *m = f->ctx->metrics;
    if (head->status == 101) {
        f->tunnel = true;
        m->tunnels++;
    } else if (f->verb == VERB_WATCH && head->status == 200) {
        const struct http_header *type = http_head_find(head, SLICE("Content-Type"));
        frames_init(&f->frames, type != NULL ? type->value : (struct slice){0});
        f->streaming = true;
        m->open_watches++;
    }
    if (head->status == 401) {
        kube_client_rejected(f->ctx->upstream);
    }
}

/* The watch stands between two events: the operator sees a plain end and will watch on. */
static void end_watch(struct forward *f)
{
    http_exchange_abort(f->up);
    f->up = NULL;
    if (http_exchange_send_end(f->down) != 0) {
        abort_both(f);
    }
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct forward *f = x->data;
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    h.headers = headers;
    h.header_count = end_to_end(head, headers);
    if (head->framing == HTTP_BODY_NONE && head->content_length > 0) {
        h.framing = HTTP_BODY_LENGTH; /* what the answer to a GET would have */
    }
    f->responded = true;
    note_kind(f, head);
    metrics_count_code(f->ctx->metrics, f->verb, head->status);
    if (http_exchange_send_head(f->down, &h) != 0) {
        abort_both(f);
    } else if (f->streaming && f->ctx->draining) {
        end_watch(f);
    }
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct forward *f = x->data;
    if (f->streaming) {
        size_t whole = frames_feed(&f->frames, data);
        if (f->ctx->draining && whole > 0) {
            data.len = whole;
        }
    }
    f->ctx->metrics->response_bytes += data.len;
    if (http_exchange_send_body(f->down, data) != 0) {
        abort_both(f);
    } else if (f->streaming && f->ctx->draining && data.len > 0) {
        end_watch(f);
    } else if (http_exchange_blocked(f->down)) {
        http_exchange_pause(x);
    }
}

static void up_on_end(struct http_exchange *x)
{
    struct forward *f = x->data;
    f->response_ended = true;
    if (f->down != NULL && http_exchange_send_end(f->down) != 0) {
        abort_both(f);
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

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct forward *f = x->data;
    f->up = NULL;
    if (e != NULL && !f->response_ended) {
        f->ctx->metrics->upstream_errors++;
        log_warn("the API server's answer failed", log_str("error", e->msg));
        if (f->down != NULL && !f->responded) {
            f->responded = true;
            http_exchange_resume(f->down);
            answer_failure(f, e);
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

/* ---- both ---- */

static bool goes_up(struct slice name)
{
    return !slice_ieq(name, SLICE("Host")) && !slice_ieq(name, SLICE("Authorization")) &&
           !slice_ieq(name, SLICE("Expect"));
}

/* Only to what Kubernetes speaks over upgraded connections. Others are ignored, as RFC 9110 section
 * 7.8 allows: a tunnel that speaks HTTP (h2c, TLS) would go round the rules. */
static bool may_upgrade(const struct http_head *head)
{
    const struct http_header *h = http_head_find(head, SLICE("Upgrade"));
    return head->upgrade && h != NULL &&
           (slice_ieq(h->value, SLICE("SPDY/3.1")) || slice_ieq(h->value, SLICE("websocket")));
}

static size_t request_headers(const struct http_head *head, struct http_header out[HEADERS_MAX])
{
    size_t n = end_to_end(head, out);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (goes_up(out[i].name)) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

void forward_start(struct forward_context *ctx, struct http_exchange *down,
                   const struct http_head *head, enum request_verb verb)
{
    struct err e = ERR_INIT;
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    h.upgrade = may_upgrade(head);
    h.header_count = request_headers(&h, headers);
    h.headers = headers;
    struct forward *f = calloc(1, sizeof *f);
    if (f == NULL) {
        (void)forward_refuse(ctx->metrics, down, verb, 503, RETRY_AFTER_S, "out of memory");
        return;
    }
    f->ctx = ctx;
    f->verb = verb;
    f->down = down;
    f->begun_ns = uv_hrtime();
    f->up = kube_client_request(ctx->upstream, &h, &up_handlers, f, &e);
    if (f->up == NULL) {
        ctx->metrics->upstream_errors++;
        answer_failure(f, &e);
        free(f);
        return;
    }
    down->handlers = &down_handlers;
    down->data = f;
    list_append(&ctx->running, &f->link);
    bool has_body = head->framing == HTTP_BODY_CHUNKED ||
                    (head->framing == HTTP_BODY_LENGTH && head->content_length > 0);
    if (has_body && http_exchange_blocked(f->up)) {
        http_exchange_pause(down);
    }
}

void forward_drain(struct forward_context *ctx)
{
    ctx->draining = true;
    for (struct list *node = ctx->running.next, *next; node != &ctx->running; node = next) {
        next = node->next;
        struct forward *f = LIST_ITEM(node, struct forward, link);
        if (f->streaming && f->up != NULL && f->down != NULL && frames_at_boundary(&f->frames)) {
            end_watch(f);
        }
    }
}
