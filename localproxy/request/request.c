/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: request_begin > take_request > handle_request > apply_peering > apply_lock >
 * apply_faults > apply_rules > apply_breakers > forward_upstream.
 *
 * Three ways begin anew: a body that may hold the lock's name is collected first (collect_body >
 * on_lock_body > take_request), what a fault delays waits before anything is done with it
 * (apply_faults > request_delay_over > take_request), and what was not answered when the rules
 * changed goes through them once more (request_again > take_request). Each apply_ function that
 * returns false has refused the request, or it waits.
 */
#include "request/proxy_internal.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/array.h"
#include "base/log.h"
#include "exchange/headers.h"
#include "exchange/held_body.h"
#include "exchange/paused_request.h"
#include "exchange/refusal.h"
#include "guard/caller.h"
#include "kube/query.h"
#include "traffic/traffic_request.h"

enum { GATEWAY_SHOWN = 200 /* bytes of a path in a message */ };

/* A request on its way through the rules. */
struct request {
    struct proxy *proxy;
    struct upstream *upstream; /* where it goes, once that is known */
    struct http_exchange *x;
    const struct http_head *head; /* as the operator sent it */
    const struct request_info *ri;
    const struct slice *body; /* collected; NULL: not looked at */
    struct held_body *held;   /* which has it; NULL: likewise */
    bool ended;               /* all of the request has come */
    enum lock_found lock;
    struct passage passage;
    struct fault_drawn *drawn;            /* its delay is over; NULL: there was none */
    struct request_attributes attributes; /* all zero: the rules do not concern it */
    struct slice target;                  /* as the rules have it */
};

void proxy_log_refusal(struct proxy *p, const char *what, unsigned code, const char *reason)
{
    uint64_t suppressed;
    if (refusal_log_take(&p->refusals, refusal_kind_of(code), net_loop_now(p->loop), &suppressed)) {
        log_info(what, log_num("code", code), log_str("reason", reason),
                 log_num("suppressed", (int64_t)suppressed));
    }
}

static void log_audited(struct proxy *p, const char *what, const char *reason)
{
    uint64_t suppressed;
    if (refusal_log_take(&p->refusals, REFUSAL_AUDITED, net_loop_now(p->loop), &suppressed)) {
        log_warn(what, log_str("reason", reason), log_num("suppressed", (int64_t)suppressed));
    }
}

static void refuse(const struct request *r, unsigned code, unsigned retry_after,
                   const char *message)
{
    proxy_log_refusal(r->proxy, "refused a request", code, message);
    (void)refusal_send(r->proxy->o.metrics, r->x, r->ri != NULL ? r->ri->verb : VERB_OTHER, code,
                       retry_after, message);
}

/* `message` is given back. */
static void refuse_with(const struct request *r, unsigned code, unsigned retry_after,
                        struct buf *message)
{
    const char *text = buf_error(message) == 0 ? buf_cstr(message) : NULL;
    refuse(r, code, retry_after, text != NULL ? text : "out of memory");
    buf_reset(message);
}

static void refuse_error(const struct request *r, const struct err *e)
{
    switch (e->code) {
    case -ENOMEM:
        refuse(r, 503, PROXY_RETRY_AFTER_S, e->msg);
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
void request_again(void *data, struct http_exchange *x, const struct http_head *head, bool ended,
                   struct passage *passage)
{
    struct request r = {.proxy = data, .x = x, .head = head, .ended = ended};
    passage_move(&r.passage, passage);
    x->handlers = NULL;
    take_request(&r);
}

static void free_held(void *held)
{
    held_body_free(held);
}

/* Takes one whose body is there. */
static void take_held(struct request *r)
{
    r->body = &r->held->body;
    r->ended = true;
    take_request(r);
    held_body_free(r->held);
}

static void on_lock_body(struct held_body *h, unsigned code, const char *why)
{
    struct request r = {.proxy = h->data, .x = h->x, .head = h->head, .held = h};
    passage_move(&r.passage, &h->passage);
    if (code == 0) {
        take_held(&r);
        return;
    }
    refuse(&r, code, code == 503 ? PROXY_RETRY_AFTER_S : 0, why);
    held_body_free(h);
}

static void collect_body(struct request *r)
{
    struct proxy *p = r->proxy;
    if (!held_body_start(p->loop, &p->budget, r->x, r->head, &r->passage, on_lock_body, p)) {
        refuse(r, 503, PROXY_RETRY_AFTER_S, "out of memory");
    }
}

/* Finds the lock in a request, and names it as in this shard. *out holds a body that was changed.
 * False: the request was refused, or waits for its body. */
static bool apply_lock(struct request *r, struct buf *out)
{
    struct proxy *p = r->proxy;
    struct lock_request result;
    struct err e;
    err_clear(&e);
    if (p->rules == NULL) {
        return true;
    }
    buf_clear(&p->lock_target);
    if (lock_examine(&p->lock, r->ri, r->target, &p->lock_target, &result, &e) != 0) {
        refuse_error(r, &e);
        return false;
    }
    r->lock = result.found;
    if (result.elsewhere) {
        shared_lock_elsewhere(&p->lock_elsewhere, kube_client_health(r->upstream->client), &p->lock,
                              r->ri, net_loop_now(p->loop));
    }
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
    r->lock = r->lock == LOCK_OTHER ? in_body : r->lock;
    return true;
}

/* False: the write was refused, which the warning of it tells in the log. */
static bool apply_peering(const struct request *r)
{
    struct proxy *p = r->proxy;
    struct err e = ERR_INIT;
    if (p->rules == NULL ||
        shared_lock_peering(&p->peering, kube_client_health(r->upstream->client),
                            rules_shard_name(p->rules), r->ri, net_loop_now(p->loop), &e) == 0) {
        return true;
    }
    (void)refusal_send(p->o.metrics, r->x, r->ri->verb, 403, 0, e.msg);
    return false;
}

/* ---- traffic policies ---- */

/* Whether it is answered with an error. */
static bool abort_by_fault(const struct request *r, const struct fault_drawn *drawn)
{
    struct fault *f = fault_drawn_abort(drawn);
    struct buf why = BUF_INIT(ERR_MSG_MAX);
    if (f == NULL) {
        return false;
    }
    f->aborted++;
    fault_message(f, &why);
    refuse_with(r, f->rule->abort_status, 0, &why);
    return true;
}

/* Whether it waits, to be taken anew: what is in force then decides. */
static bool delay_by_fault(struct request *r, struct fault_drawn *drawn)
{
    const struct delayed_body body = {.body = r->held, .free = free_held};
    if (drawn->delay_ms == 0 ||
        !delays_begin(&r->proxy->delays, r->x, r->head, r->ended, &body, drawn)) {
        return false;
    }
    r->held = NULL;
    return true;
}

void request_delay_over(void *data, struct http_exchange *x, const struct http_head *head,
                        bool ended, void *body, struct fault_drawn *drawn)
{
    struct request r = {
        .proxy = data,
        .x = x,
        .head = head,
        .held = body,
        .ended = ended,
        .passage = {.faulted = true, .counted = true},
        .drawn = drawn,
    };
    if (r.held != NULL) {
        take_held(&r);
    } else {
        take_request(&r);
    }
}

/* False: it was answered with an error, or waits. */
static bool apply_faults(struct request *r)
{
    struct policies *policies = r->proxy->o.policies;
    struct traffic_request q;
    struct fault_drawn drawn;
    if (r->passage.faulted) {
        return r->drawn == NULL || !abort_by_fault(r, r->drawn);
    }
    r->passage.faulted = true;
    if (policies == NULL || !policies_have_faults(policies)) {
        return true;
    }
    traffic_request_of(r->ri, r->lock != LOCK_OTHER, &q);
    policies_draw(policies, &q, &drawn);
    bool goes_on = !delay_by_fault(r, &drawn) && !abort_by_fault(r, &drawn);
    fault_drawn_release(&drawn);
    return goes_on;
}

/* False: one of them refused it. */
static bool apply_breakers(struct request *r)
{
    struct policies *policies = r->proxy->o.policies;
    struct buf why = BUF_INIT(ERR_MSG_MAX);
    struct traffic_request q;
    unsigned retry_after;
    if (r->passage.charged) {
        return true;
    }
    r->passage.charged = true;
    if (policies == NULL || !policies_have_breakers(policies)) {
        return true;
    }
    traffic_request_of(r->ri, r->lock != LOCK_OTHER, &q);
    if (policies_admit(policies, &q, &r->passage, &why, &retry_after)) {
        return true;
    }
    refuse_with(r, 429, retry_after, &why);
    return false;
}

/* ---- what is counted ---- */

/* Once, however often it is taken. Always true. */
static bool count(struct request *r)
{
    struct bucket_load *load = r->proxy->forward.load;
    if (r->passage.counted) {
        return true;
    }
    r->passage.counted = true;
    resource_requests_count(&r->proxy->resources, r->ri);
    if (load != NULL) {
        struct slice none = {NULL, 0};
        load->counts.of[bucket_load_place(r->lock == LOCK_OTHER ? r->ri->namespace : none)]
            .requests++;
    }
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
           (p->o.flags->write_fence == FENCE_ENFORCE || is_lost(p, ri));
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
    if (p->o.flags->write_fence == FENCE_AUDIT) {
        p->o.metrics->writes_audited++;
        log_audited(p, "allowed a write outside the shard (--write-fence=audit)", e.msg);
    }
    return true;
}

/* False: the read by name was refused. */
static bool apply_read_fence(const struct request *r)
{
    struct proxy *p = r->proxy;
    struct err e = ERR_INIT;
    if (p->o.flags->read_fence == FENCE_OFF || !fence_applies_to_read(p->rules, r->ri)) {
        return true;
    }
    fence_message(p->rules, r->ri, false, &e);
    if (p->o.flags->read_fence == FENCE_ENFORCE) {
        p->o.metrics->reads_fenced++;
        refuse(r, 403, 0, e.msg);
        return false;
    }
    p->o.metrics->reads_audited++;
    log_audited(p, "allowed a read outside the shard (--read-fence=audit)", e.msg);
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
    proxy_log_refusal(r->proxy, "refused a watch", 410, why);
    (void)refusal_send_expired(r->proxy->o.metrics, r->x, accepted, why);
}

/* Only watches wait. */
static void on_pause_over(void *data, struct http_exchange *x, const struct http_head *head,
                          bool ended, struct passage *passage)
{
    (void)passage;
    struct request r = {
        .proxy = data, .x = x, .head = head, .ended = ended, .attributes = {.verb = VERB_WATCH}};
    refuse_expired(&r);
}

/* False: it goes on from something that was seen under other rules, and was refused, or will be; or
 * that may be, and waits until it is known. */
static bool apply_delivered_versions(struct request *r)
{
    struct proxy *p = r->proxy;
    const struct request_attributes *s = &r->attributes;
    bool current = true;
    bool watches = s->verb == VERB_WATCH && !s->initial_events && s->version != 0;
    if (watches && start_versions_wanted(&r->upstream->starts, s) &&
        start_versions_await(
            &r->upstream->starts, r->ri, s, r->x, r->head,
            &(struct paused_request_end){
                .cb = request_again, .data = p, .ended = r->ended, .passage = &r->passage})) {
        return false;
    }
    if (watches) {
        current = delivered_watch(r->upstream->delivered, &s->key, s->version);
    } else if (s->verb == VERB_LIST && s->page != 0) {
        current = delivered_page(r->upstream->delivered, &s->key, s->page);
    }
    if (current) {
        return true;
    }
    p->o.metrics->resumes_refused++;
    /* 0 for a page, which is of no version. */
    uint64_t pause_ms = delivered_pause(r->upstream->delivered, &s->key, s->version);
    if (pause_ms == 0 ||
        !paused_request_start(
            p->loop, &p->refused, r->x, r->head, pause_ms,
            &(struct paused_request_end){.cb = on_pause_over, .data = p, .ended = r->ended})) {
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
        !delivered_list_newest(r->upstream->delivered, &s->key)) {
        return true;
    }
    buf_clear(&p->newest);
    if (query_drop(r->target, versions, ARRAY_LEN(versions), &p->newest) != 0) {
        refuse(r, 503, PROXY_RETRY_AFTER_S, "out of memory");
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
    struct err e;
    err_clear(&e);
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
static bool have_rules(const struct request *r)
{
    if (r->proxy->rules != NULL || r->proxy->o.flags->no_rules == NO_RULES_PASSTHROUGH) {
        return true;
    }
    unsigned retry_after = r->proxy->o.flags->control != NULL ? PROXY_RETRY_AFTER_S : 0;
    char message[ERR_MSG_MAX + 64];
    (void)snprintf(message, sizeof message, "no valid rules are in force: %s", r->proxy->why_none);
    refuse(r, 503, retry_after, message);
    return false;
}

/* What has begun ends by itself (in_flight.h). */
static bool are_rules_valid(const struct request *r)
{
    char message[PROXY_EXPIRED_SIZE];
    if (rules_lease_valid(r->proxy->o.lease)) {
        return true;
    }
    proxy_explain_expired(r->proxy, message);
    refuse(r, 503, PROXY_RETRY_AFTER_S, message);
    return false;
}

/* Does to a resource request what the rules say. False: it was answered, or waits. */
static bool apply_rules(struct request *r)
{
    struct proxy *p = r->proxy;
    if (r->lock != LOCK_OTHER) {
        return true; /* it concerns that object alone */
    }
    request_attributes_read(&r->attributes, r->ri);
    if (p->rules == NULL) {
        return true;
    }
    r->attributes.key.selector = request_attributes_selector(&r->attributes, p->rules);
    if (!request_attributes_is_selected(&r->attributes)) {
        return apply_fence(r) && apply_read_fence(r); /* some write by GET */
    }
    if (r->attributes.verb == VERB_DELETECOLLECTION && !apply_fence(r)) {
        return false;
    }
    delivered_clock(r->upstream->delivered, net_loop_now(p->loop));
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

/* To a resource request. False: it was answered, or waits. */
static bool apply_all(struct request *r, struct buf *body)
{
    return have_rules(r) && are_rules_valid(r) && apply_peering(r) && apply_lock(r, body) &&
           count(r) && apply_faults(r) && apply_rules(r) && apply_breakers(r);
}

static void forward_upstream(struct request *r, const struct buf *body)
{
    struct proxy *p = r->proxy;
    struct slice changed = buf_slice(body);
    bool concerned =
        request_attributes_is_selected(&r->attributes) || request_verb_is_write(r->attributes.verb);
    struct forward_request f = {
        .upstream = r->upstream,
        .head = r->head,
        .target = r->target,
        .verb = r->ri->verb,
        .resource = r->ri->is_resource,
        .carried = r->ri->verb == VERB_PROXY || slice_eq(r->ri->subresource, SLICE("proxy")),
        .limits = time_limits_of(r->ri),
        .attributes = concerned ? &r->attributes : NULL,
        .body = body->len > 0 ? &changed : r->body,
        .request_ended = r->ended,
        .passage = &r->passage,
    };
    forward_start(&p->forward, r->x, &f);
}

static bool has_credentials(const struct request *r)
{
    const struct kube_client *client = r->upstream->client;
    if (kube_client_ready(client)) {
        return true;
    }
    const char *why = kube_client_error(client);
    char message[ERR_MSG_MAX + 64];
    (void)snprintf(message, sizeof message, "no credentials for the API server: %s",
                   why != NULL ? why : "they are being fetched");
    refuse(r, 503, PROXY_RETRY_AFTER_S, message);
    return false;
}

static void handle_request(struct request *r)
{
    struct buf body = BUF_INIT((size_t)2 * HELD_BODY_MAX);
    r->target = r->head->target;
    if (r->ri->ambiguous) {
        refuse(r, 400, 0,
               r->ri->gateway.len > 0
                   ? "the path has empty, \".\" or \"..\" segments or, behind another API server, "
                     "escaped %, ? or #, which makes the resource ambiguous"
                   : "the path has empty, \".\" or \"..\" segments, which makes the resource "
                     "ambiguous");
    } else if (apply_gateway(r) && has_credentials(r) &&
               (!r->ri->is_resource || apply_all(r, &body))) {
        log_debug("request", log_strn("method", r->head->method.ptr, r->head->method.len),
                  log_strn("path", r->ri->path.ptr, r->ri->path.len),
                  log_strn("verb", r->ri->verb_name.ptr, r->ri->verb_name.len),
                  log_num("limited", r->target.ptr == (const char *)buf_data(&r->proxy->target)));
        forward_upstream(r, &body);
    }
    buf_reset(&body);
}

static void take_request(struct request *r)
{
    const struct flag_list *named = &r->proxy->o.flags->api_prefixes;
    const struct api_prefixes prefixes = {.items = named->items, .count = named->count};
    struct request_info ri;
    struct err e;
    err_clear(&e);
    if (request_info_parse_behind(&ri, &prefixes, r->head->method, r->head->target, &e) != 0) {
        refuse_error(r, &e);
    } else {
        r->ri = &ri;
        r->upstream = proxy_upstream(r->proxy);
        handle_request(r);
        r->ri = NULL;
        request_info_deinit(&ri);
    }
    passage_end(&r->passage);
}

/* False: the request was refused, of which the API server is not to hear. */
static bool admit(const struct request *r)
{
    const struct proxy *p = r->proxy;
    const struct caller_demands demands = {
        .token = {.text = listener_secrets_token(p->o.secrets),
                  .basic = listener_secrets_basic(p->o.secrets),
                  .scope = slice_str(p->scope)},
        .hosts = &p->o.flags->accept_hosts,
        .origins = &p->o.flags->accept_origins,
    };
    struct caller_refusal refusal;
    if (!caller_check(&demands, r->head, http_server_is_tls(r->x), &refusal)) {
        refuse(r, refusal.code, 0, refusal.why);
        return false;
    }
    return true;
}

void request_begin(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct proxy *p = data;
    struct request r = {.proxy = p, .x = x, .head = head};
    p->clients.last = (int64_t)time(NULL);
    p->clients.first = p->clients.requests == 0 ? p->clients.last : p->clients.first;
    p->clients.requests++;
    if (admit(&r)) {
        take_request(&r);
    }
}

bool request_fences(void *data, const struct request_info *ri)
{
    return fence_refuses(data, ri);
}
