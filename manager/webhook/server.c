/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/server.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "crypto/certificate.h"
#include "http/collect.h"
#include "http/server.h"
#include "kube/status.h"
#include "net/deadline.h"
#include "webhook/body_budget.h"
#include "webhook/client_trust.h"
#include "webhook/decider.h"
#include "webhook/metrics.h"
#include "webhook/response.h"

enum {
    HEAD_TIMEOUT_MS = 10000,
    HEAD_MAX = 16 * 1024,            /* the API server's has less than 1 KiB */
    FIRST_TIMEOUT_MS = 10000,        /* it connects when it has something to ask */
    IDLE_TIMEOUT_MS = 2 * 60 * 1000, /* and keeps its connections for 90 s */
    WRITE_TIMEOUT_MS = 10000,
    BODY_TIMEOUT_MS = 10000, /* as long as it waits for an answer */
    BODY_GRACE_MS = 2000,
    BODY_RATE = 64 * 1024, /* bytes in a second that must come after the grace */
    BODY_LOOK_MS = 1000,
    CONNECTIONS_MAX = 512,
    ROUTES_MAX = 16,
    BODIES_MAX = 4 * ADMISSION_REVIEW_MAX, /* bytes of all that are held, */
    REQUEST_BYTES_MAX = 8 * 1024 * 1024,   /* of what is sent ahead, */
    UNREAD_BYTES_MAX = 16 * 1024 * 1024,   /* of answers that are not read, */
    KERNEL_BYTES = 128 * 1024,             /* and what the kernel has of a connection each way */
};

struct webhook_server {
    struct webhook_server_options o;
    struct net_loop *loop;
    struct http_server *http;
    struct decider *decider;
    struct body_budget bodies;
    struct byte_budget heads;
    struct net_backlog *backlog;
    uint64_t unknown;     /* requests for no route */
    uint64_t slow_bodies; /* that were given up */
    uint64_t crowded_out; /* bodies that went for others */
    size_t routes;
    struct webhook_stats stats[ROUTES_MAX];
    void (*drained)(void *data);
    void *drained_data;
};

/* One request, from its head to the end of its body. */
struct asked {
    struct http_collect collect;
    struct net_deadline limit;
    struct webhook_server *server;
    size_t route;
    struct body_share share;
    uint64_t begun; /* net_loop_now() */
    bool late;      /* at the last look */
};

/* ---- bodies ---- */

static void asked_free(struct asked *q)
{
    net_deadline_clear(&q->limit);
    body_share_close(&q->share);
    http_collect_deinit(&q->collect);
    free(q);
}

static void on_body(struct http_collect *collect, struct slice body, const struct err *e)
{
    struct asked *q = LIST_ITEM(collect, struct asked, collect);
    struct webhook_server *s = q->server;
    struct http_exchange *x = http_collect_release(&q->collect);
    size_t route = q->route;
    struct buf whole = BUF_INIT(0);
    body_share_complete(&q->share);
    if (e == NULL) {
        (void)body;
        http_collect_take_body(&q->collect, &whole);
        asked_free(q);
        decider_take(s->decider, route, x, &whole);
        return;
    }
    xerr(e);
    s->stats[route].results[WEBHOOK_BAD_REQUEST]++; /* it is too large */
    webhook_respond_failure(x, 413, e->msg, NULL);
    asked_free(q);
}

/* The API server gave up before it had sent all of its question. */
static void on_gone(struct http_collect *collect, const struct err *e)
{
    struct asked *q = LIST_ITEM(collect, struct asked, collect);
    log_debug("AdmissionReview was cut off", log_str("error", e == NULL ? "" : e->msg));
    q->server->stats[q->route].results[WEBHOOK_BAD_REQUEST]++;
    asked_free(q);
}

/* The body is not waited for any more. */
static void give_up(struct asked *q, unsigned status, const char *why,
                    const struct http_header *header)
{
    struct http_exchange *x = http_collect_release(&q->collect);
    q->server->stats[q->route].results[WEBHOOK_BAD_REQUEST]++;
    asked_free(q);
    webhook_respond_failure(x, status, why, header);
}

/* May free any that are coming, and the one whose bytes these are as well. */
static void on_bytes(struct http_collect *collect)
{
    static const struct http_header later = {SLICE("Retry-After"), SLICE("1")};
    struct asked *q = LIST_ITEM(collect, struct asked, collect);
    struct webhook_server *s = q->server;
    body_share_grow(&q->share, collect->body.len);
    struct body_share *excess = body_budget_excess(&s->bodies);
    while (excess != NULL) {
        log_warn("refusing an AdmissionReview: too many bytes of others are held",
                 log_num("bytes", (int64_t)s->bodies.held));
        s->crowded_out++;
        give_up(LIST_ITEM(excess, struct asked, share), 503, "too many concurrent reviews", &later);
        excess = body_budget_excess(&s->bodies);
    }
}

static const struct http_collect_handlers collect_handlers = {
    .on_bytes = on_bytes,
    .on_body = on_body,
    .on_close = on_gone,
};

static bool is_late(const struct asked *q)
{
    uint64_t ms = net_loop_now(q->server->loop) - q->begun;
    uint64_t counted = ms > BODY_GRACE_MS ? ms - BODY_GRACE_MS : 0;
    return ms >= q->server->o.body_timeout_ms || q->collect.body.len < counted * BODY_RATE / 1000;
}

/* Time goes by while this process is busy, too: what is late is given up at the next look, when
 * what had come meanwhile has been read. */
static void on_limit(struct net_deadline *limit)
{
    struct asked *q = LIST_ITEM(limit, struct asked, limit);
    bool was_late = q->late;
    q->late = is_late(q);
    if (q->late && was_late) {
        log_info("closing a connection: timeout waiting for the body of an AdmissionReview");
        q->server->slow_bodies++;
        give_up(q, 408, "timeout waiting for the body", NULL);
    } else {
        net_deadline_set(q->server->loop, &q->limit, q->late ? NET_TICK_MS : BODY_LOOK_MS);
    }
}

/* ---- heads ---- */

static struct slice path_of(const struct http_head *head)
{
    const char *mark = memchr(head->target.ptr, '?', head->target.len);
    return slice_of(head->target.ptr,
                    mark != NULL ? (size_t)(mark - head->target.ptr) : head->target.len);
}

static bool is_json(const struct http_head *head)
{
    const struct http_header *type = http_head_find(head, SLICE("Content-Type"));
    if (type == NULL) {
        return false;
    }
    const char *end = memchr(type->value.ptr, ';', type->value.len);
    size_t len = end == NULL ? type->value.len : (size_t)(end - type->value.ptr);
    while (len > 0 && (type->value.ptr[len - 1] == ' ' || type->value.ptr[len - 1] == '\t')) {
        len--;
    }
    return slice_ieq(slice_of(type->value.ptr, len), SLICE("application/json"));
}

static void collect_body(struct webhook_server *s, struct http_exchange *x, size_t route)
{
    struct asked *q = xcalloc(1, sizeof *q);
    q->server = s;
    q->route = route;
    q->begun = net_loop_now(s->loop);
    body_share_open(&q->share, &s->bodies, http_server_peer(x));
    net_deadline_init(&q->limit, on_limit);
    net_deadline_set(s->loop, &q->limit,
                     s->o.body_timeout_ms < BODY_GRACE_MS ? s->o.body_timeout_ms : BODY_GRACE_MS);
    http_collect_init(&q->collect, ADMISSION_REVIEW_MAX, &collect_handlers);
    q->collect.body.secret = true; /* it may hold a Secret */
    http_collect_take(&q->collect, x);
}

static void refuse_request(struct webhook_server *s, struct http_exchange *x, size_t route,
                           unsigned status, const char *why, const struct http_header *header)
{
    s->stats[route].results[WEBHOOK_BAD_REQUEST]++;
    webhook_respond_failure(x, status, why, header);
}

static void on_route(struct webhook_server *s, struct http_exchange *x,
                     const struct http_head *head, size_t route)
{
    const struct http_header allow = {SLICE("Allow"), SLICE("POST")};
    uint64_t size = head->framing == HTTP_BODY_LENGTH ? head->content_length : 0;
    if (!slice_eq(head->method, SLICE("POST"))) {
        refuse_request(s, x, route, 405, "an AdmissionReview must be sent by POST", &allow);
    } else if (!is_json(head)) {
        refuse_request(s, x, route, 415,
                       "the body must be an AdmissionReview of type application/json", NULL);
    } else if (size > ADMISSION_REVIEW_MAX) {
        refuse_request(s, x, route, 413, "the review is too large", NULL);
    } else {
        collect_body(s, x, route);
    }
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct webhook_server *s = data;
    struct slice path = path_of(head);
    for (size_t i = 0; i < s->routes; i++) {
        if (slice_eq(path, slice_str(s->o.routes[i].path))) {
            on_route(s, x, head, i);
            return;
        }
    }
    s->unknown++;
    webhook_respond_failure(x, 404, "no webhook at this path", NULL);
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    if (status_write(body, status, NULL, 0, "%s", why) != 0) {
        buf_clear(body);
    }
}

static void on_drained(void *data)
{
    struct webhook_server *s = data;
    if (s->drained != NULL) {
        s->drained(s->drained_data);
    }
}

static const struct http_server_handlers http_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
    .on_drained = on_drained,
};

/* ---- life ---- */

/* So that the port is bound, and a mistake in the address told, before there is a certificate. */
static struct tls_config *stand_in(const struct client_trust *clients, struct err *e)
{
    static const char *const names[] = {"not-ready.invalid"};
    int64_t now = (int64_t)time(NULL);
    const struct certificate_spec spec = {.common_name = "not ready",
                                          .not_before = now,
                                          .not_after = now,
                                          .names = names,
                                          .name_count = 1};
    struct certificate_pair ca = {0};
    struct certificate_pair own = {0};
    struct tls_config *tls = NULL;
    if (certificate_make_authority(&spec, &ca, e) == 0 &&
        certificate_make_server(&spec, slice_str(ca.cert), slice_str(ca.key), &own, e) == 0) {
        const struct tls_server_options o = {.cert = slice_str(own.cert),
                                             .key = slice_str(own.key),
                                             .client_ca = client_trust_ca(clients),
                                             .client_name = client_trust_name(clients)};
        tls = tls_config_new_server(&o, e);
    }
    certificate_pair_deinit(&ca);
    certificate_pair_deinit(&own);
    return tls;
}

struct webhook_server *webhook_server_new(struct net_loop *l,
                                          const struct webhook_server_options *o, struct err *e)
{
    struct tls_config *tls = stand_in(o->clients, e);
    if (tls == NULL) {
        return NULL;
    }
    struct webhook_server *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->loop = l;
    l->wipes = true;
    s->o.body_timeout_ms = o->body_timeout_ms != 0 ? o->body_timeout_ms : BODY_TIMEOUT_MS;
    body_budget_init(&s->bodies, o->bodies_max != 0 ? o->bodies_max : BODIES_MAX);
    while (s->routes < ROUTES_MAX && o->routes[s->routes].path != NULL) {
        s->routes++;
    }
    s->heads.max = REQUEST_BYTES_MAX;
    s->backlog = xptr(net_backlog_new(l, UNREAD_BYTES_MAX));
    const struct decider_options decider = {
        .routes = s->o.routes, .stats = s->stats, .data = s->o.data};
    s->decider = decider_new(l, &decider);
    const struct http_server_options so = {
        .address = o->address,
        .tls = tls,
        .limits = {.head_bytes = HEAD_MAX, .header_count = h1_limits_default.header_count},
        .head_timeout_ms = HEAD_TIMEOUT_MS,
        .first_timeout_ms = FIRST_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
        .max_connections = CONNECTIONS_MAX,
        .shares = true,
        .budget = &s->heads,
        .backlog = s->backlog,
        .kernel_bytes = KERNEL_BYTES,
    };
    s->http = http_server_new(l, &so, &http_handlers, s, e);
    tls_config_unref(tls);
    if (s->http == NULL) {
        webhook_server_free(s);
        return NULL;
    }
    return s;
}

void webhook_server_set_tls(struct webhook_server *s, struct tls_config *tls)
{
    http_server_set_tls(s->http, tls);
}

const char *webhook_server_address(const struct webhook_server *s)
{
    return http_server_address(s->http);
}

void webhook_server_metrics(const struct webhook_server *s, struct buf *out)
{
    struct webhook_metrics m = {
        .routes = s->o.routes,
        .stats = s->stats,
        .count = s->routes,
        .unknown = s->unknown,
        .slow_bodies = s->slow_bodies,
        .crowded_out = s->crowded_out,
        .http = http_server_stats(s->http),
    };
    decider_count(s->decider, &m.threads);
    webhook_metrics_write(&m, out);
}

void webhook_server_drain(struct webhook_server *s, void (*cb)(void *data), void *data)
{
    s->drained = cb;
    s->drained_data = data;
    http_server_drain(s->http);
}

void webhook_server_free(struct webhook_server *s)
{
    if (s == NULL) {
        return;
    }
    http_server_free(s->http); /* those that asked are told, and forgotten */
    decider_free(s->decider);
    net_backlog_unref(s->backlog);
    free(s);
}
