/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: relay_begin > down_on_body, down_on_end > pass_request_end > up_on_head > up_on_body
 * > up_on_end; gone when both sides are closed (free_if_over).
 *
 * Ways to fail: the origin does not answer (fail), its answer ends early (the client's is broken
 * off), nothing moves any more (on_idle), the client goes away (the request is given up). What
 * cannot be sent on breaks off both sides (relay_abort).
 */
#include "egress/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "egress/egress.h"
#include "headers.h"
#include "http/client.h"
#include "http/h1_parser.h"
#include "net/deadline.h"
#include "net/dial_gate.h"
#include "passing.h"

struct relay {
    struct relays *all;
    struct http_exchange *down; /* NULL once it is over */
    struct http_exchange *up;   /* likewise */
    struct list link;
    struct target target; /* without path and query */
    enum request_state request;
    enum response_state response;
    struct net_deadline idle;
    struct passage passage;
    bool safe;      /* to be asked a second time */
    bool raw;       /* the connection was upgraded */
    bool forbidden; /* by rules that came since; what was let through is finished, but not upgraded
                     */
};

static void set_request(struct relay *r, enum request_state next)
{
    r->request = request_change(r->request, next, slice_str(r->target.host));
}

static void set_response(struct relay *r, enum response_state next)
{
    r->response = response_change(r->response, next, slice_str(r->target.host));
}

/* Something moved. */
static void stir(struct relay *r)
{
    if (r->all->idle_ms != 0) {
        net_deadline_set(r->all->loop, &r->idle, r->all->idle_ms);
    }
}

/* ---- headers ---- */

static bool is_of_proxies(struct slice name)
{
    const struct slice prefix = SLICE("Proxy-");
    return name.len >= prefix.len && slice_ieq(slice_of(name.ptr, prefix.len), prefix);
}

/* What is meant for localproxy, or is localproxy's alone to say. */
static bool is_own(struct slice name, bool request)
{
    if (!request) {
        return slice_ieq(name, SLICE(EGRESS_HEADER));
    }
    return slice_ieq(name, SLICE("Host")) || slice_ieq(name, SLICE("Expect")) ||
           slice_ieq(name, SLICE(TARGET_HEADER));
}

static size_t keep_passing(struct http_header *headers, size_t count, bool request)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice name = headers[i].name;
        if (!is_of_proxies(name) && !is_own(name, request)) {
            headers[kept++] = headers[i];
        }
    }
    return kept;
}

/* `host` is the value of the Host header, which goes first (RFC 9110, section 7.2). */
static size_t headers_up(const struct relay *r, const struct http_head *head, const char *host,
                         struct http_header out[HEADERS_MAX])
{
    size_t n = headers_end_to_end(head, out);
    n = keep_passing(out, n, true);
    n = n > HEADERS_MAX - 2 ? HEADERS_MAX - 2 : n;
    memmove(out + 1, out, n * sizeof *out);
    out[0] = (struct http_header){SLICE("Host"), slice_str(host)};
    out[n + 1] = pseudonym_via(r->all->pseudonym, head);
    return n + 2;
}

static size_t headers_down(const struct relay *r, const struct http_head *head,
                           struct http_header out[HEADERS_MAX])
{
    size_t n = headers_end_to_end(head, out);
    n = keep_passing(out, n, false);
    n = n > HEADERS_MAX - 1 ? HEADERS_MAX - 1 : n;
    out[n] = pseudonym_via(r->all->pseudonym, head);
    return n + 1;
}

/* ---- the end ---- */

/* Without closing either side: those that are left must have been taken out of it. */
static void relay_free(struct relay *r)
{
    net_deadline_clear(&r->idle);
    list_remove(&r->link);
    passage_end(&r->passage);
    free(r);
}

static void free_if_over(struct relay *r)
{
    if (r->down == NULL && r->up == NULL) {
        relay_free(r);
    }
}

static void abort_up(struct relay *r)
{
    if (r->up != NULL) {
        http_exchange_abort(r->up);
        r->up = NULL;
    }
}

/* Breaks off both sides; `r` is gone. */
static void relay_abort(struct relay *r)
{
    abort_up(r);
    if (r->down != NULL) {
        http_exchange_abort(r->down);
        r->down = NULL;
    }
    free_if_over(r);
}

void relays_init(struct relays *all, struct net_loop *l)
{
    *all = (struct relays){.loop = l};
    list_init(&all->running);
}

void relays_deinit(struct relays *all)
{
    while (!list_empty(&all->running)) {
        relay_abort(LIST_ITEM(all->running.next, struct relay, link));
    }
}

/* ---- an origin that has not answered ---- */

static bool is_invalid(const struct err *e)
{
    return e->code <= -HTTP_PARSE_BAD && e->code >= -HTTP_PARSE_VERSION &&
           e->code != -HTTP_PARSE_NO_ROOM;
}

static unsigned code_of(const struct err *e)
{
    switch (e->code) {
    case NET_DIAL_FORBIDDEN:
        return 403;
    case UV_ETIMEDOUT:
        return 504;
    case -ENOMEM:
    case -EDQUOT:
    case -HTTP_PARSE_NO_ROOM:
        return 503;
    default:
        return 502;
    }
}

static const char *what_of(const struct err *e, bool sent, bool safe)
{
    if (is_invalid(e)) {
        return "sent an invalid answer";
    }
    if (!sent) {
        return "cannot be reached";
    }
    return safe ? "has not answered" : "has not answered a request, which may have been executed";
}

/* What localproxy itself forbids says nothing of the origin's health. */
static void tell_breakers(struct relay *r, unsigned code)
{
    if (code != 403 && code != 503) {
        breaker_ticket_answered(&r->passage.ticket, true);
    }
    passage_end(&r->passage);
}

/* Takes the client's side out of it. */
static void hand_back(struct relay *r, unsigned code, const char *why)
{
    struct http_exchange *x = r->down;
    tell_breakers(r, code);
    r->down = NULL;
    x->handlers = NULL;
    http_exchange_resume(x);
    r->all->on_failed(r->all->data, x, code, &r->target, why);
}

/* `sent`: something of the request may have come there. */
static void fail(struct relay *r, bool sent, const struct err *e)
{
    char message[ERR_MSG_MAX + TARGET_HOST_PORT_SIZE + 128];
    char at[TARGET_HOST_PORT_SIZE];
    struct err why = *e;
    unsigned code = code_of(e);
    reach_explain(&why);
    target_host_port(&r->target, true, at);
    (void)snprintf(message, sizeof message, "http%s://%s %s: %s", r->target.https ? "s" : "", at,
                   what_of(e, sent, r->safe), why.msg);
    hand_back(r, code, message);
}

/* ---- the client's side ---- */

static void down_on_body(struct http_exchange *x, struct slice data)
{
    struct relay *r = x->data;
    if (r->up == NULL) {
        return; /* answered already: the rest of the request is dropped */
    }
    stir(r);
    r->all->sent_bytes += data.len;
    if (http_exchange_send_body(r->up, data) != 0) {
        relay_abort(r);
    } else if (http_exchange_blocked(r->up)) {
        http_exchange_pause(x);
    }
}

static void pass_request_end(struct relay *r)
{
    set_request(r, REQUEST_PASSED);
    stir(r);
    if (http_exchange_send_end(r->up) != 0) {
        relay_abort(r);
    }
}

static void down_on_end(struct http_exchange *x)
{
    struct relay *r = x->data;
    set_request(r, REQUEST_WHOLE);
    if (r->up != NULL && (r->raw || !http_exchange_blocked(r->up))) {
        pass_request_end(r);
    }
}

static void down_on_drain(struct http_exchange *x)
{
    struct relay *r = x->data;
    if (r->up != NULL) {
        http_exchange_resume(r->up);
    }
}

static void down_on_close(struct http_exchange *x, const struct err *e)
{
    struct relay *r = x->data;
    r->down = NULL;
    if (r->response == RESPONSE_AWAITED && r->request != REQUEST_COMING) {
        breaker_ticket_given_up(&r->passage.ticket);
    }
    if (r->up != NULL && (e != NULL || r->response != RESPONSE_ENDED)) {
        abort_up(r);
    }
    free_if_over(r);
}

static const struct http_exchange_handlers down_handlers = {
    .on_body = down_on_body,
    .on_end = down_on_end,
    .on_drain = down_on_drain,
    .on_close = down_on_close,
};

/* ---- the origin's side ---- */

/* A proxy on the way that wants other credentials than it was given: that is for whoever started
 * localproxy, not for its clients. True: `r` may be gone. */
static bool fail_unauthorized(struct relay *r, const struct http_head *head)
{
    struct err e = ERR_INIT;
    const char *proxy = origins_asked_proxy(r->all->origins, &r->target);
    if (head->status != 407 || proxy == NULL) {
        return false;
    }
    (void)err_set(&e, -EACCES, "the proxy %s wants other credentials (407)", proxy);
    set_response(r, RESPONSE_ENDED);
    abort_up(r);
    fail(r, false, &e);
    free_if_over(r);
    return true;
}

static bool still_reaches(const struct relay *r)
{
    return r->up == NULL || origins_still_reaches(r->all->origins, &r->target, r->up);
}

/* The connection is to be upgraded, which rules do not allow any more. True: `r` may be gone. */
static bool fail_forbidden(struct relay *r, const struct http_head *head)
{
    if (head->status != 101 || (!r->forbidden && still_reaches(r))) {
        return false;
    }
    set_response(r, RESPONSE_ENDED);
    abort_up(r);
    hand_back(r, 403, "a rule that is in force since then forbids it");
    free_if_over(r);
    return true;
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct relay *r = x->data;
    struct http_header headers[HEADERS_MAX];
    struct http_head h = *head;
    if (fail_unauthorized(r, head) || fail_forbidden(r, head)) {
        return;
    }
    stir(r);
    breaker_ticket_answered(&r->passage.ticket, head->status >= 500);
    h.headers = headers;
    h.header_count = headers_down(r, head, headers);
    h.unhurried = true; /* on_idle ends it */
    if (head->framing == HTTP_BODY_NONE && head->content_length > 0) {
        h.framing = HTTP_BODY_LENGTH; /* what the answer to a GET would have */
    }
    if (head->status == 101) {
        r->raw = true;
        passage_end(&r->passage);
    }
    set_response(r, RESPONSE_PASSING);
    if (http_exchange_send_head(r->down, &h) != 0) {
        relay_abort(r);
        return;
    }
    r->all->on_answered(r->all->data, &r->target, head->status);
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct relay *r = x->data;
    stir(r);
    r->all->received_bytes += data.len;
    if (http_exchange_send_body(r->down, data) != 0) {
        relay_abort(r);
    } else if (http_exchange_blocked(r->down)) {
        http_exchange_pause(x);
    }
}

static void up_on_end(struct http_exchange *x)
{
    struct relay *r = x->data;
    (void)x;
    set_response(r, RESPONSE_ENDED);
    passage_end(&r->passage);
    if (http_exchange_send_end(r->down) != 0) {
        relay_abort(r);
    }
}

static void up_on_drain(struct http_exchange *x)
{
    struct relay *r = x->data;
    if (r->request == REQUEST_WHOLE) {
        pass_request_end(r);
    } else if (r->down != NULL) {
        http_exchange_resume(r->down);
    }
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct relay *r = x->data;
    r->up = NULL;
    if (e != NULL && r->response == RESPONSE_AWAITED && r->down != NULL) {
        set_response(r, RESPONSE_ENDED);
        fail(r, http_client_sent(x), e);
    } else if (e != NULL && r->response != RESPONSE_ENDED && r->down != NULL) {
        log_debug("the answer to an external request ended early", log_str("host", r->target.host),
                  log_str("error", e->msg));
        http_exchange_abort(r->down);
        r->down = NULL;
    }
    free_if_over(r);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = up_on_drain,
    .on_close = up_on_close,
};

/* ---- time ---- */

static void on_idle(struct net_deadline *d)
{
    struct relay *r = LIST_ITEM(d, struct relay, idle);
    struct err e = ERR_INIT;
    if (r->response != RESPONSE_AWAITED || r->down == NULL) {
        relay_abort(r);
        return;
    }
    bool sent = r->up != NULL && http_client_sent(r->up);
    (void)err_set(&e, UV_ETIMEDOUT, "nothing came for %llu s (--egress-idle)",
                  (unsigned long long)r->all->idle_ms / 1000);
    set_response(r, RESPONSE_ENDED);
    abort_up(r);
    fail(r, sent, &e);
    free_if_over(r);
}

/* ---- rules come into force ---- */

void relays_review(struct relays *all, bool (*allows)(void *data, const struct traffic_external *q),
                   void *data)
{
    LIST_FOR_EACH_SAFE(node, after, &all->running)
    {
        struct relay *r = LIST_ITEM(node, struct relay, link);
        const struct traffic_external q = {
            .https = r->target.https,
            .host = slice_str(r->target.host),
            .port = r->target.port,
            .path = SLICE("/"),
            .method = SLICE("GET"), /* no other can be upgraded (RFC 6455, section 4.1) */
        };
        r->forbidden = !allows(data, &q);
        if (r->raw && (r->forbidden || !still_reaches(r))) {
            relay_abort(r);
        }
    }
}

/* ---- the beginning ---- */

static bool has_body(const struct http_head *head)
{
    return head->framing == HTTP_BODY_CHUNKED ||
           (head->framing == HTTP_BODY_LENGTH && head->content_length > 0);
}

static bool is_safe(const struct http_head *head)
{
    return slice_eq(head->method, SLICE("GET")) || slice_eq(head->method, SLICE("HEAD")) ||
           slice_eq(head->method, SLICE("OPTIONS"));
}

static int ask(struct relay *r, const struct http_head *head, const struct target *t, struct err *e)
{
    struct http_header headers[HEADERS_MAX];
    char host[TARGET_HOST_PORT_SIZE];
    struct http_head h = *head;
    target_host_port(t, true, host);
    h.upgrade = headers_may_upgrade(head, VERB_OTHER);
    h.header_count = headers_up(r, &h, host, headers);
    h.headers = headers;
    h.budget = r->all->sent;
    r->safe = is_safe(head) && !h.upgrade;
    r->up = origins_request(r->all->origins, t, &h, &up_handlers, r, e);
    return r->up != NULL ? 0 : e->code;
}

static struct relay *relay_new(struct relays *all, struct http_exchange *x, const struct target *t,
                               bool ended, struct passage *passage)
{
    struct relay *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    r->all = all;
    r->down = x;
    r->target = *t;
    r->target.path = r->target.query = r->target.origin = (struct slice){0};
    r->request = ended ? REQUEST_WHOLE : REQUEST_COMING;
    list_init(&r->link);
    net_deadline_init(&r->idle, on_idle);
    passage_move(&r->passage, passage);
    return r;
}

void relay_begin(struct relays *all, struct http_exchange *x, const struct http_head *head,
                 const struct target *t, bool ended, struct passage *passage)
{
    struct err e = ERR_INIT;
    struct relay *r = relay_new(all, x, t, ended, passage);
    if (r == NULL) {
        all->on_failed(all->data, x, 503, t, "out of memory");
        return;
    }
    if (ask(r, head, t, &e) != 0) {
        fail(r, false, &e);
        relay_free(r);
        return;
    }
    x->handlers = &down_handlers;
    x->data = r;
    list_append(&all->running, &r->link);
    stir(r);
    if (!http_exchange_blocked(r->up)) {
        if (r->request == REQUEST_WHOLE) {
            pass_request_end(r);
        }
    } else if (r->request == REQUEST_COMING && has_body(head)) {
        http_exchange_pause(x);
    }
}
