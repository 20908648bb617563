/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: on_request > take_request > handle_request > apply_rules > forward_upstream.
 *
 * Two ways begin anew: a body that may hold the lock's name is collected first (collect_body >
 * on_lock_body > take_request), and what was not answered when the rules changed
 * goes through them once more (on_again > take_request). Each apply_ function that returns false
 * has refused the request, or collects its body.
 */
#include "proxy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/array.h"
#include "base/log.h"
#include "forward.h"
#include "guard/fence.h"
#include "guard/host.h"
#include "guard/origin.h"
#include "guard/token.h"
#include "headers.h"
#include "http/collect.h"
#include "in_flight.h"
#include "kube/query.h"
#include "kube/status.h"
#include "listen_tls.h"
#include "lock/lock.h"
#include "net/deadline.h"
#include "paused_request.h"
#include "program/local_token.h"
#include "refusal.h"
#include "refusal_log.h"
#include "watch/start_version.h"

enum {
    HEAD_TIMEOUT_MS = 10000,
    IDLE_TIMEOUT_MS = 300000,
    WRITE_TIMEOUT_MS = 60000,
    TARGET_MAX = 4 * 1024 * 1024,
    HEAD_MAX = 1024 * 1024, /* as kube-apiserver takes it (Go's http.DefaultMaxHeaderBytes) */
    HEADER_COUNT_MAX = 128,
    CONNECTIONS = 5000, /* unless --max-connections says how many */
    CONNECTIONS_TLS = 2000,
    LOCK_BODY_MAX = 3 * 1024 * 1024, /* what kube-apiserver takes */
    LOCK_BODY_MS = 60000,            /* and how long it waits */
    RETRY_AFTER_S = 1,
    GATEWAY_SHOWN = 200, /* bytes of a path in a message */
    /* Injected containers have 256 MiB in all. */
    REQUEST_BYTES_MAX = 32 * 1024 * 1024, /* large heads and bodies that are not passed on yet */
    SENT_BYTES_MAX = 16 * 1024 * 1024,   /* large heads for the API server, of those with a token */
    UNREAD_BYTES_MAX = 32 * 1024 * 1024, /* that operators or the API server do not read */
    STREAMS_SPARE = 512,                 /* beside two for each connection of an operator */
};

struct proxy {
    struct net_loop *loop;
    struct proxy_options o;
    proxy_settled_cb on_settled;
    void *settled_data;
    struct http_server *server;
    struct byte_budget budget;
    struct byte_budget sent;
    struct net_backlog *backlog;
    struct forward_context forward;
    struct rules *rules;
    int64_t rules_since;
    char why_none[ERR_MSG_MAX];
    struct lock_rule lock;
    struct fence_history history;
    struct buf lock_target; /* of the request at hand, with the lock's name in this shard */
    struct buf target;      /* of the request at hand, with the selector */
    struct refusal_log refusals;
    char scope[LOCAL_TOKEN_SCOPE_LEN + 1]; /* of tokens for this API server */
    struct buf newest; /* of the list at hand, without the version that it asked for */
    struct start_versions starts;
    struct list refused; /* requests that wait for their refusal */
    struct proxy_clients clients;
};

/* A request on its way through the rules. */
struct request {
    struct proxy *proxy;
    struct http_exchange *x;
    const struct http_head *head; /* as the operator sent it */
    const struct request_info *ri;
    const struct slice *body;             /* collected; NULL: not looked at */
    bool ended;                           /* all of the request has come */
    struct request_attributes attributes; /* all zero: the rules do not concern it */
    struct slice target;                  /* as the rules have it */
};

static void log_refusal(struct proxy *p, const char *what, unsigned code, const char *reason)
{
    uint64_t suppressed;
    if (refusal_log_take(&p->refusals, refusal_kind_of(code), net_loop_now(p->loop), &suppressed)) {
        log_info(what, log_num("code", code), log_str("reason", reason),
                 log_num("suppressed", (int64_t)suppressed));
    }
}

static void log_audited(struct proxy *p, const char *reason)
{
    uint64_t suppressed;
    if (refusal_log_take(&p->refusals, REFUSAL_AUDITED, net_loop_now(p->loop), &suppressed)) {
        log_warn("allowed a write outside the shard (--write-fence=audit)",
                 log_str("reason", reason), log_num("suppressed", (int64_t)suppressed));
    }
}

static void refuse(const struct request *r, unsigned code, unsigned retry_after,
                   const char *message)
{
    log_refusal(r->proxy, "refused a request", code, message);
    (void)refusal_send(r->proxy->o.metrics, r->x, r->ri != NULL ? r->ri->verb : VERB_OTHER, code,
                       retry_after, message);
}

static void refuse_error(const struct request *r, const struct err *e)
{
    switch (e->code) {
    case -ENOMEM:
        refuse(r, 503, RETRY_AFTER_S, e->msg);
        break;
    case -ENOTSUP:
        refuse(r, 415, 0, e->msg);
        break;
    case -ENOBUFS:
        refuse(r, r->body != NULL ? 413 : 414, 0, e->msg);
        break;
    default:
        refuse(r, 400, 0, e->msg);
        break;
    }
}

/* ---- the lock of leader election ---- */

static void take_request(struct request *r);

/* One that was taken before: something has changed. */
static void on_again(void *data, struct http_exchange *x, const struct http_head *head, bool ended)
{
    struct request r = {.proxy = data, .x = x, .head = head, .ended = ended};
    x->handlers = NULL;
    take_request(&r);
}

/* A body that may hold the lock's name. */
struct waiting {
    struct http_collect collect;
    struct net_deadline due;
    struct proxy *proxy;
    struct http_head *head;
};

static void waiting_free(struct waiting *w)
{
    net_deadline_clear(&w->due);
    http_collect_deinit(&w->collect);
    free(w->head);
    free(w);
}

static void on_lock_body(struct http_collect *c, struct slice body, const struct err *e)
{
    struct waiting *w = LIST_ITEM(c, struct waiting, collect);
    struct request r = {.proxy = w->proxy,
                        .x = http_collect_release(c),
                        .head = w->head,
                        .body = &body,
                        .ended = true};
    if (e == NULL) {
        take_request(&r);
    } else if (e->code == -EMSGSIZE) {
        refuse(&r, 413, 0, e->msg);
    } else {
        refuse(&r, 503, RETRY_AFTER_S, e->msg); /* nothing of it was sent */
    }
    waiting_free(w);
}

static void on_lock_due(struct net_deadline *d)
{
    struct waiting *w = LIST_ITEM(d, struct waiting, due);
    struct request r = {.proxy = w->proxy, .x = http_collect_release(&w->collect), .head = w->head};
    refuse(&r, 408, 0, "the body of the request did not come within 60 s");
    waiting_free(w);
}

static void on_lock_closed(struct http_collect *c, const struct err *e)
{
    (void)e;
    waiting_free(LIST_ITEM(c, struct waiting, collect));
}

static const struct http_collect_handlers lock_handlers = {
    .on_body = on_lock_body,
    .on_close = on_lock_closed,
};

static void collect_body(const struct request *r)
{
    struct waiting *w = calloc(1, sizeof *w);
    struct http_head *head = http_head_copy(r->head);
    if (w == NULL || head == NULL) {
        free(w);
        free(head);
        refuse(r, 503, RETRY_AFTER_S, "out of memory");
        return;
    }
    w->proxy = r->proxy;
    w->head = head;
    http_collect_init(&w->collect, LOCK_BODY_MAX, &lock_handlers);
    http_collect_set_budget(&w->collect, &w->proxy->budget);
    http_collect_take(&w->collect, r->x);
    net_deadline_init(&w->due, on_lock_due);
    net_deadline_set(w->proxy->loop, &w->due, LOCK_BODY_MS);
}

/* Finds the lock in a request, and names it as in this shard. *out holds a body that was changed.
 * False: the request was refused, or waits for its body. */
static bool apply_lock(struct request *r, enum lock_found *found, struct buf *out)
{
    struct proxy *p = r->proxy;
    struct lock_request result;
    struct err e = ERR_INIT;
    buf_clear(&p->lock_target);
    if (lock_examine(&p->lock, r->ri, r->target, &p->lock_target, &result, &e) != 0) {
        refuse_error(r, &e);
        return false;
    }
    *found = result.found;
    if (result.needs_body && r->body == NULL) {
        collect_body(r);
        return false;
    }
    if (result.found == LOCK_RENAMED) {
        r->target = buf_slice(&p->lock_target);
    }
    if (!result.needs_body) {
        return true;
    }
    enum lock_found in_body;
    if (lock_rewrite_body(&p->lock, result.field, headers_value(r->head, SLICE("Content-Type")),
                          headers_value(r->head, SLICE("Content-Encoding")), *r->body, out,
                          &in_body, &e) != 0) {
        refuse_error(r, &e);
        return false;
    }
    *found = *found == LOCK_OTHER ? in_body : *found;
    return true;
}

/* ---- the rules ---- */

/* Whether the write is to what the shard has lost. */
static bool is_lost(const struct proxy *p, const struct request_info *ri)
{
    return fence_lost(&p->history, p->rules, ri, net_loop_now(p->loop));
}

static bool fence_refuses(const struct proxy *p, const struct request_info *ri)
{
    return fence_applies(p->rules, ri) &&
           (p->o.flags->write_fence == WRITE_FENCE_ENFORCE || is_lost(p, ri));
}

/* False: the write was refused. */
static bool apply_fence(const struct request *r)
{
    struct proxy *p = r->proxy;
    struct err e = ERR_INIT;
    if (!fence_applies(p->rules, r->ri)) {
        return true;
    }
    fence_message(p->rules, r->ri, is_lost(p, r->ri), &e);
    if (fence_refuses(p, r->ri)) {
        p->o.metrics->writes_fenced++;
        refuse(r, 403, 0, e.msg);
        return false;
    }
    if (p->o.flags->write_fence == WRITE_FENCE_AUDIT) {
        p->o.metrics->writes_audited++;
        log_audited(p, e.msg);
    }
    return true;
}

/* The client is to list again. */
static void refuse_expired(const struct request *r)
{
    static const char why[] =
        "the resourceVersion or continue token of this request may come from other rules: "
        "list again";
    enum encoding accepted = encoding_accepted(headers_value(r->head, SLICE("Accept")));
    if (r->attributes.verb != VERB_WATCH || accepted == ENCODING_OTHER) {
        refuse(r, 410, 0, why);
        return;
    }
    log_refusal(r->proxy, "refused a watch", 410, why);
    (void)refusal_send_expired(r->proxy->o.metrics, r->x, accepted, why);
}

/* Only watches wait. */
static void on_pause_over(void *data, struct http_exchange *x, const struct http_head *head,
                          bool ended)
{
    struct request r = {
        .proxy = data, .x = x, .head = head, .ended = ended, .attributes = {.verb = VERB_WATCH}};
    refuse_expired(&r);
}

/* False: it goes on from something that was seen under other rules, and was refused, or will be; or
 * that may be, and waits until it is known. */
static bool apply_delivered_versions(const struct request *r)
{
    struct proxy *p = r->proxy;
    const struct request_attributes *s = &r->attributes;
    bool current = true;
    bool watches = s->verb == VERB_WATCH && !s->initial_events && s->version != 0;
    if (watches && start_versions_wanted(&p->starts, s) &&
        start_versions_await(&p->starts, r->ri, s, r->x, r->head,
                             &(struct paused_request_end){on_again, p, r->ended})) {
        return false;
    }
    if (watches) {
        current = delivered_watch(p->forward.points, &s->key, s->version);
    } else if (s->verb == VERB_LIST && s->page != 0) {
        current = delivered_page(p->forward.points, &s->key, s->page);
    }
    if (current) {
        return true;
    }
    p->o.metrics->resumes_refused++;
    /* 0 for a page, which is of no version. */
    uint64_t pause_ms = delivered_pause(p->forward.points, &s->key, s->version);
    if (pause_ms == 0 ||
        !paused_request_start(p->loop, &p->refused, r->x, r->head, pause_ms,
                              &(struct paused_request_end){on_pause_over, p, r->ended})) {
        refuse_expired(r);
    }
    return false;
}

/* A list that follows a refused watch tells another version, if there is any: the most recent one
 * is what every client takes that names the oldest which it would take. */
static bool apply_newest(struct request *r)
{
    static const struct slice versions[] = {{"resourceVersion", 15}, {"resourceVersionMatch", 20}};
    struct proxy *p = r->proxy;
    struct request_attributes *s = &r->attributes;
    if (s->verb != VERB_LIST || s->newest || s->exact || s->page != 0 ||
        !delivered_list_newest(p->forward.points, &s->key)) {
        return true;
    }
    buf_clear(&p->newest);
    if (query_drop(r->target, versions, ARRAY_LEN(versions), &p->newest) != 0) {
        refuse(r, 503, RETRY_AFTER_S, "out of memory");
        return false;
    }
    s->newest = true;
    r->target = buf_slice(&p->newest);
    return true;
}

/* Puts the shard's selector into the target. False: the request was refused. */
static bool apply_selector(struct request *r)
{
    struct proxy *p = r->proxy;
    struct err e = ERR_INIT;
    const struct rules_entry *entry = rules_match(p->rules, r->ri->group, r->ri->resource);
    if (entry == NULL) {
        return true;
    }
    buf_clear(&p->target);
    if (query_inject_selector(r->target, entry->escaped, &p->target, &e) != 0) {
        refuse(r, 400, 0, e.msg);
        return false;
    }
    p->o.metrics->limited++;
    r->target = buf_slice(&p->target);
    return true;
}

/* Over the control socket they may come at any moment. Otherwise clients that are told to come
 * back, as kubectl does ten times, would only keep the reason from their user. */
static void refuse_without_rules(const struct request *r)
{
    unsigned retry_after = r->proxy->o.flags->control != NULL ? RETRY_AFTER_S : 0;
    char message[ERR_MSG_MAX + 64];
    (void)snprintf(message, sizeof message, "no valid rules are in force: %s", r->proxy->why_none);
    refuse(r, 503, retry_after, message);
}

/* Does to a resource request what the rules say. False: it was answered, or waits. */
static bool apply_rules(struct request *r, struct buf *body)
{
    struct proxy *p = r->proxy;
    enum lock_found lock = LOCK_OTHER;
    if (p->rules == NULL && p->o.flags->no_rules == NO_RULES_BLOCK) {
        refuse_without_rules(r);
        return false;
    }
    if (p->rules != NULL && !apply_lock(r, &lock, body)) {
        return false;
    }
    if (lock != LOCK_OTHER) {
        return true; /* it concerns that object alone */
    }
    request_attributes_read(&r->attributes, r->ri);
    if (p->rules == NULL) {
        return true;
    }
    r->attributes.key.selector = request_attributes_selector(&r->attributes, p->rules);
    if (!request_attributes_is_selected(&r->attributes)) {
        return apply_fence(r); /* also of what writes by GET */
    }
    if (r->attributes.verb == VERB_DELETECOLLECTION && !apply_fence(r)) {
        return false;
    }
    delivered_clock(p->forward.points, net_loop_now(p->loop));
    return apply_newest(r) && apply_selector(r) && apply_delivered_versions(r);
}

/* Of what another cluster's API server shows the rules would see nothing. Only without rules, for
 * development, all passes. False: the request was refused. */
static bool apply_gateway(const struct request *r)
{
    const struct proxy *p = r->proxy;
    struct slice gateway = request_info_unnamed_gateway(r->ri);
    if (gateway.len == 0 || (p->rules == NULL && p->o.flags->no_rules == NO_RULES_PASSTHROUGH)) {
        return true;
    }
    char message[ERR_MSG_MAX];
    (void)snprintf(message, sizeof message,
                   "behind /%.*s the request seems to go to the API server of another cluster, of "
                   "which the rules see nothing; --api-prefix names such paths, and what is behind "
                   "them is then limited like all else",
                   gateway.len > GATEWAY_SHOWN ? GATEWAY_SHOWN : (int)gateway.len, gateway.ptr);
    refuse(r, 403, 0, message);
    return false;
}

/* ---- the way of a request ---- */

static void forward_upstream(const struct request *r, const struct buf *body)
{
    struct proxy *p = r->proxy;
    struct slice changed = buf_slice(body);
    bool concerned =
        request_attributes_is_selected(&r->attributes) || request_verb_is_write(r->attributes.verb);
    struct forward_request f = {
        .head = r->head,
        .target = r->target,
        .verb = r->ri->verb,
        .limits = request_limits_of(r->ri),
        .attributes = concerned ? &r->attributes : NULL,
        .body = body->len > 0 ? &changed : r->body,
        .request_ended = r->ended,
    };
    forward_start(&p->forward, r->x, &f);
}

static void log_request(const struct request *r)
{
    log_debug("request", log_strn("method", r->head->method.ptr, r->head->method.len),
              log_strn("path", r->ri->path.ptr, r->ri->path.len),
              log_strn("verb", r->ri->verb_name.ptr, r->ri->verb_name.len),
              log_num("limited", r->target.ptr == (const char *)buf_data(&r->proxy->target)));
}

static bool has_credentials(const struct request *r)
{
    const struct proxy *p = r->proxy;
    if (kube_client_ready(p->o.upstream)) {
        return true;
    }
    const char *why = kube_client_error(p->o.upstream);
    char message[ERR_MSG_MAX + 64];
    (void)snprintf(message, sizeof message, "no credentials for the API server: %s",
                   why != NULL ? why : "they are being fetched");
    refuse(r, 503, RETRY_AFTER_S, message);
    return false;
}

static void handle_request(struct request *r)
{
    struct buf body = BUF_INIT((size_t)2 * LOCK_BODY_MAX);
    r->target = r->head->target;
    if (r->ri->ambiguous) {
        refuse(r, 400, 0,
               r->ri->gateway.len > 0
                   ? "the path has empty, \".\" or \"..\" segments or, behind another API server, "
                     "escaped %, ? or #, which makes the resource ambiguous"
                   : "the path has empty, \".\" or \"..\" segments, which makes the resource "
                     "ambiguous");
    } else if (apply_gateway(r) && has_credentials(r) &&
               (!r->ri->is_resource || apply_rules(r, &body))) {
        log_request(r);
        forward_upstream(r, &body);
    }
    buf_reset(&body);
}

static void take_request(struct request *r)
{
    const struct flag_list *named = &r->proxy->o.flags->api_prefixes;
    const struct api_prefixes prefixes = {.items = named->items, .count = named->count};
    struct request_info ri;
    struct err e = ERR_INIT;
    if (request_info_parse_behind(&ri, &prefixes, r->head->method, r->head->target, &e) != 0) {
        refuse_error(r, &e);
        return;
    }
    r->ri = &ri;
    handle_request(r);
    r->ri = NULL;
    request_info_deinit(&ri);
}

/* With TLS a page of another name does not get through the browser's look at the certificate. */
static bool is_meant(const struct request *r)
{
    return http_server_is_tls(r->x) || host_is_accepted(r->head, &r->proxy->o.flags->accept_hosts);
}

/* What whoever has no token must show besides. False: the request was refused. */
static bool admit_without_token(const struct request *r)
{
    if (!is_meant(r)) {
        refuse(r, 403, 0,
               "the name in Host is neither localhost nor an IP address: a web page may have sent "
               "this request; --accept-host=NAME takes the name, a token (--token-file) any");
        return false;
    }
    if (origin_is_untyped(r->head, &r->proxy->o.flags->accept_origins)) {
        refuse(r, 415, 0,
               "the request has a body and no Content-Type: a web page may have sent it; say "
               "\"Content-Type: application/json\", or what it is");
        return false;
    }
    return true;
}

static bool admit_token(const struct request *r, const struct token *token)
{
    enum token_verdict verdict = token->text.len > 0 ? token_look(r->head, token) : TOKEN_RIGHT;
    if (verdict == TOKEN_WRONG) {
        refuse(r, 401, 0,
               "the token is missing or wrong: use the kubeconfig that kubeconfig-gen writes, with "
               "the same --token-file as localproxy's, or none if it has none");
    } else if (verdict == TOKEN_OF_ANOTHER) {
        refuse(r, 401, 0,
               "the token is for another cluster than the one that localproxy talks to: start "
               "localproxy with the --context that it was written for, or write it anew with "
               "kubeconfig-gen");
    }
    return verdict == TOKEN_RIGHT;
}

/* False: the request was refused, of which the API server is not to hear. */
static bool admit(const struct request *r)
{
    const struct token token = {.text = listener_secrets_token(r->proxy->o.secrets),
                                .basic = listener_secrets_basic(r->proxy->o.secrets),
                                .scope = slice_str(r->proxy->scope)};
    if (!admit_token(r, &token)) {
        return false;
    }
    if (!origin_is_accepted(r->head, &r->proxy->o.flags->accept_origins)) {
        refuse(r, 403, 0,
               "Origin or Sec-Fetch-Site says that a web page has sent this request; "
               "--accept-origin=ORIGIN lets the pages of that origin use localproxy");
        return false;
    }
    return token.text.len > 0 || admit_without_token(r);
}

static void count_client(struct proxy *p)
{
    p->clients.last = (int64_t)time(NULL);
    p->clients.first = p->clients.requests == 0 ? p->clients.last : p->clients.first;
    p->clients.requests++;
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct proxy *p = data;
    struct request r = {.proxy = p, .x = x, .head = head};
    count_client(p);
    if (admit(&r)) {
        take_request(&r);
    }
}

/* ---- what the forwards call ---- */

static bool on_fences(void *data, const struct request_info *ri)
{
    return fence_refuses(data, ri);
}

static void on_settled(void *data)
{
    struct proxy *p = data;
    if (p->on_settled != NULL) {
        p->on_settled(p->settled_data);
    }
}

/* ---- the listener ---- */

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    bool busy = status == HTTP_PARSE_NO_ROOM || status == HTTP_PARSE_NO_ROOM_FOR_REST;
    log_refusal(data, busy ? "refused a request" : "refused a request that is not well-formed HTTP",
                status, why);
    unsigned retry_after = status == HTTP_PARSE_NO_ROOM ? RETRY_AFTER_S : 0;
    if (status_write(body, status, NULL, retry_after, "%s", why) != 0) {
        buf_clear(body);
    }
}

static void on_drained(void *data)
{
    struct proxy *p = data;
    p->o.on_drained(p->o.data);
}

/* Such a client says nothing else: to whoever runs it, localproxy does not seem to be there. */
static void on_tls_failed(void *data, const struct err *e)
{
    struct proxy *p = data;
    uint64_t suppressed;
    if (refusal_log_take(&p->refusals, REFUSAL_TLS, net_loop_now(p->loop), &suppressed)) {
        log_warn("a client failed at TLS: does it trust the authority of --local-tls, as ca.crt of "
                 "the service account's folder?",
                 log_str("error", e->msg), log_num("suppressed", (int64_t)suppressed));
    }
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
    .on_tls_failed = on_tls_failed,
    .on_drained = on_drained,
};

static void on_tls(void *data)
{
    struct proxy *p = data;
    http_server_set_tls(p->server, listener_secrets_tls(p->o.secrets));
}

/* One takes 16 KiB with a request to the API server under way, over TLS 20 KiB more. */
static unsigned connections_max(const struct proxy *p)
{
    uint64_t given = p->o.flags->max_connections;
    unsigned usual = listener_secrets_tls(p->o.secrets) != NULL ? CONNECTIONS_TLS : CONNECTIONS;
    return given != 0 ? (unsigned)given : usual;
}

static int open_tls_addresses(struct proxy *p, struct err *e)
{
    const struct flag_list *addresses = &p->o.flags->listen_tls;
    for (size_t i = 0; i < addresses->count; i++) {
        if (listen_tls_open(p->server, addresses->items[i], listener_secrets_tls(p->o.secrets),
                            e) != 0) {
            err_prefix(e, "--listen-tls");
            return e->code;
        }
    }
    return 0;
}

static int open_server(struct proxy *p, struct err *e)
{
    bool plain = p->o.flags->listen_tls.count > 0;
    p->backlog = net_backlog_new(p->loop, UNREAD_BYTES_MAX);
    if (p->backlog == NULL) {
        return err_memory(e);
    }
    struct http_server_options so = {
        .address = p->o.flags->listen,
        .tls = plain ? NULL : listener_secrets_tls(p->o.secrets),
        .limits = {.head_bytes = HEAD_MAX, .header_count = HEADER_COUNT_MAX},
        .head_timeout_ms = HEAD_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
        .max_connections = connections_max(p),
        .replace_silent = true,
        .max_streams = 2 * connections_max(p) + STREAMS_SPARE,
        .budget = &p->budget,
        .backlog = p->backlog,
    };
    p->server = http_server_new(p->loop, &so, &server_handlers, p, e);
    if (p->server == NULL) {
        err_prefix(e, "--listen");
        return e->code;
    }
    if (open_tls_addresses(p, e) != 0) {
        http_server_free(p->server);
        return e->code;
    }
    listener_secrets_on_tls(p->o.secrets, on_tls, p);
    kube_client_set_backlog(p->o.upstream, p->backlog);
    return 0;
}

static struct delivered_versions *open_points(const struct localproxy_flags *c, struct err *e)
{
    uint64_t doubt_ms = c->resume_doubt_s * 1000;
    struct delivered_versions *points =
        c->state != NULL ? delivered_open(c->state, doubt_ms, e) : delivered_new(doubt_ms);
    if (points == NULL && c->state != NULL) {
        err_prefix(e, "--state");
    } else if (points == NULL) {
        err_memory(e);
    }
    return points;
}

static int open_forward(struct proxy *p, struct delivered_versions *points, struct err *e)
{
    const struct net_clock *clock = p->o.clock != NULL ? p->o.clock : &net_clock_system;
    int rc = forward_context_init(&p->forward, p->loop, clock, p->o.upstream, p->o.metrics, points);
    cut_pacing_init(&p->forward.migrations.pacing, p->o.flags->cut_interval_s * 1000,
                    p->o.flags->cut_spread_s * 1000);
    p->forward.migrations.seamless = p->o.flags->reload_mode == RELOAD_SEAMLESS;
    p->forward.budget = &p->budget;
    p->forward.sent = &p->sent;
    p->forward.again = on_again;
    p->forward.fences = on_fences;
    p->forward.on_settled = on_settled;
    p->forward.data = p;
    return rc != 0 ? err_set(e, rc, "out of memory") : 0;
}

struct proxy *proxy_new(struct net_loop *l, const struct proxy_options *o, struct err *e)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        err_memory(e);
        return NULL;
    }
    p->loop = l;
    p->o = *o;
    p->budget.max = REQUEST_BYTES_MAX;
    p->sent.max = SENT_BYTES_MAX;
    buf_init(&p->target, TARGET_MAX);
    buf_init(&p->newest, TARGET_MAX);
    buf_init(&p->lock_target, TARGET_MAX);
    fence_history_init(&p->history);
    refusal_log_init(&p->refusals);
    local_token_scope(o->server, p->scope);
    list_init(&p->refused);
    struct delivered_versions *points = open_points(p->o.flags, e);
    if (points == NULL) {
        free(p);
        return NULL;
    }
    start_versions_init(&p->starts, l, o->upstream, points);
    if (open_forward(p, points, e) != 0 || open_server(p, e) != 0) {
        forward_context_deinit(&p->forward);
        net_backlog_unref(p->backlog);
        free(p);
        return NULL;
    }
    return p;
}

/* ---- rules come into force ---- */

void proxy_on_settled(struct proxy *p, proxy_settled_cb cb, void *data)
{
    p->on_settled = cb;
    p->settled_data = data;
}

static void take_lock_rule(struct proxy *p)
{
    struct err e = ERR_INIT;
    if (lock_rule_init(&p->lock, p->rules, p->o.pod_namespace, &e) != 0) {
        log_error("leader election is not sharded: the shards share one lock",
                  log_str("error", e.msg));
    }
}

void proxy_ask_start_version(struct proxy *p)
{
    if (p->rules != NULL && p->o.flags->resume_doubt_s > 0) {
        start_versions_begin(&p->starts);
    }
}

void proxy_set_rules(struct proxy *p, struct rules *rules)
{
    char why[ERR_MSG_MAX];
    struct rules *old = p->rules;
    p->rules = rules_ref(rules);
    p->rules_since = (int64_t)time(NULL);
    take_lock_rule(p);
    fence_history_add(&p->history, old, net_loop_now(p->loop));
    (void)snprintf(why, sizeof why,
                   "the rules of shard %s/%s changed to generation %" PRIu64 ": list again",
                   rules_shard_namespace(rules), rules_shard_name(rules), rules_generation(rules));
    in_flight_change_rules(&p->forward, old, rules, why);
    rules_unref(old);
}

void proxy_explain_no_rules(struct proxy *p, const char *why)
{
    (void)snprintf(p->why_none, sizeof p->why_none, "%s", why);
}

const struct rules *proxy_rules(const struct proxy *p)
{
    return p->rules;
}

int64_t proxy_rules_since(const struct proxy *p)
{
    return p->rules_since;
}

const char *proxy_why_no_rules(const struct proxy *p)
{
    return p->why_none;
}

unsigned proxy_lost_writes(const struct proxy *p)
{
    return forward_lost_writes(&p->forward);
}

bool proxy_settled(const struct proxy *p)
{
    return proxy_lost_writes(p) == 0;
}

bool proxy_draining(const struct proxy *p)
{
    return p->forward.draining;
}

/* ---- what it says about itself, and the end ---- */

uint64_t proxy_start_version(const struct proxy *p)
{
    return p->starts.version;
}

const struct proxy_clients *proxy_clients(const struct proxy *p)
{
    return &p->clients;
}

const char *proxy_address(const struct proxy *p)
{
    return http_server_address(p->server);
}

const char *proxy_tls_address(const struct proxy *p)
{
    return http_server_address_at(p->server, 1);
}

const struct http_server_stats *proxy_stats(const struct proxy *p)
{
    return http_server_stats(p->server);
}

unsigned proxy_describe_watches(const struct proxy *p, cJSON *array)
{
    return in_flight_describe_watches(&p->forward, array);
}

struct metrics_memory proxy_memory(const struct proxy *p)
{
    struct net_backlog_stats unread = net_backlog_stats(p->backlog);
    return (struct metrics_memory){
        .request_bytes = p->budget.used + p->sent.used,
        .requests_refused = p->budget.refused + p->sent.refused,
        .unread_bytes = unread.bytes,
        .given_up = unread.given_up,
        .watch_bytes = p->forward.migrations.memory.used,
    };
}

bool proxy_ready(const struct proxy *p, char *why, size_t size)
{
    if (p->forward.draining) {
        (void)snprintf(why, size, "shutting down");
        return false;
    }
    if (p->rules == NULL && p->o.flags->no_rules == NO_RULES_BLOCK) {
        (void)snprintf(why, size, "no valid rules: %s", p->why_none);
        return false;
    }
    if (!kube_client_ready(p->o.upstream)) {
        const char *error = kube_client_error(p->o.upstream);
        (void)snprintf(why, size, "no credentials: %s",
                       error != NULL ? error : "they are being fetched");
        return false;
    }
    (void)snprintf(why, size, "ok");
    return true;
}

void proxy_drain(struct proxy *p)
{
    http_server_drain(p->server);
    in_flight_drain(&p->forward);
}

void proxy_free(struct proxy *p)
{
    if (p == NULL) {
        return;
    }
    p->on_settled = NULL;
    listener_secrets_on_tls(p->o.secrets, NULL, NULL);
    kube_client_set_backlog(p->o.upstream, NULL);
    http_server_free(p->server);
    start_versions_deinit(&p->starts);
    forward_context_deinit(&p->forward);
    fence_history_deinit(&p->history);
    rules_unref(p->rules);
    buf_reset(&p->target);
    buf_reset(&p->newest);
    buf_reset(&p->lock_target);
    net_backlog_unref(p->backlog);
    free(p);
}
