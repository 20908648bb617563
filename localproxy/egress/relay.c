/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: relay_begin > pump_begin, which passes the request > up_on_head > up_on_body >
 * up_on_end; gone when both sides are closed (on_over).
 *
 * Ways to fail: the origin does not answer (fail), its answer ends early (the client's is broken
 * off), nothing moves any more (on_idle), the client goes away (the request is given up). What
 * cannot be sent on breaks off both sides (pump_abort).
 */
#include "egress/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "egress/egress.h"
#include "exchange/headers.h"
#include "exchange/pump.h"
#include "http/client.h"
#include "http/h1_parser.h"
#include "net/deadline.h"
#include "net/dial_gate.h"

struct relay {
    struct relays *all;
    struct pump pump;
    struct list link;
    struct destination to; /* without path and query */
    struct net_deadline idle;
    struct passage passage;
    bool safe;      /* to be asked a second time */
    bool forbidden; /* by rules that came since; what was let through is finished, but not upgraded
                     */
};

static struct relay *of_pump(struct pump *p)
{
    return LIST_ITEM(p, struct relay, pump);
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
           slice_ieq(name, SLICE(DESTINATION_HEADER));
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

void relays_init(struct relays *all, struct net_loop *l)
{
    *all = (struct relays){.loop = l};
    list_init(&all->running);
}

void relays_deinit(struct relays *all)
{
    while (!list_empty(&all->running)) {
        pump_abort(&LIST_ITEM(all->running.next, struct relay, link)->pump);
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

/* Takes the client's side out of it. */
static void hand_back(struct relay *r, unsigned code, const char *why)
{
    struct http_exchange *x = r->pump.down;
    if (code != 403 && code != 503) { /* what localproxy forbids says nothing of the origin */
        breaker_ticket_answered(&r->passage.ticket, true);
    }
    passage_end(&r->passage);
    r->pump.down = NULL;
    x->handlers = NULL;
    http_exchange_resume(x);
    r->all->on_failed(r->all->data, x, code, &r->to, why);
}

/* `sent`: something of the request may have come there. */
static void fail(struct relay *r, bool sent, const struct err *e)
{
    char message[ERR_MSG_MAX + DESTINATION_HOST_PORT_SIZE + 128];
    char at[DESTINATION_HOST_PORT_SIZE];
    struct err why = *e;
    unsigned code = code_of(e);
    reach_explain(&why);
    destination_host_port(&r->to, true, at);
    (void)snprintf(message, sizeof message, "http%s://%s %s: %s", r->to.https ? "s" : "", at,
                   what_of(e, sent, r->safe), why.msg);
    hand_back(r, code, message);
}

/* The same for one that waits for an answer; `r` may be gone. */
static void fail_now(struct relay *r, bool sent, const struct err *e)
{
    pump_set_response(&r->pump, RESPONSE_ENDED);
    pump_abort_up(&r->pump);
    fail(r, sent, e);
    pump_free_if_over(&r->pump);
}

/* ---- what the pump asks ---- */

static bool may_pass(struct pump *p, size_t bytes)
{
    struct relay *r = of_pump(p);
    if (bytes > 0) {
        stir(r);
        r->all->sent_bytes += bytes;
    }
    return true;
}

static int on_request_passed(struct pump *p)
{
    stir(of_pump(p));
    return 0;
}

static void on_over(struct pump *p)
{
    relay_free(of_pump(p));
}

static const struct pump_ops pump_ops = {
    .may_pass = may_pass,
    .on_request_passed = on_request_passed,
    .free = on_over,
};

/* ---- the origin's side ---- */

/* A proxy on the way that wants other credentials than it was given: that is for whoever started
 * localproxy, not for its clients. True: `r` may be gone. */
static bool fail_unauthorized(struct relay *r, const struct http_head *head)
{
    struct err e = ERR_INIT;
    const char *proxy = origins_asked_proxy(r->all->origins, &r->to);
    if (head->status != 407 || proxy == NULL) {
        return false;
    }
    (void)err_set(&e, -EACCES, "the proxy %s wants other credentials (407)", proxy);
    fail_now(r, false, &e);
    return true;
}

static bool still_reaches(const struct relay *r)
{
    return r->pump.up == NULL || origins_still_reaches(r->all->origins, &r->to, r->pump.up);
}

/* The connection is to be upgraded, which rules do not allow any more. True: `r` may be gone. */
static bool fail_forbidden(struct relay *r, const struct http_head *head)
{
    if (head->status != 101 || (!r->forbidden && still_reaches(r))) {
        return false;
    }
    pump_set_response(&r->pump, RESPONSE_ENDED);
    pump_abort_up(&r->pump);
    hand_back(r, 403, "a rule that is in force since then forbids it");
    pump_free_if_over(&r->pump);
    return true;
}

static void up_on_head(struct http_exchange *x, const struct http_head *head)
{
    struct relay *r = of_pump(x->data);
    struct http_header headers[HEADERS_MAX];
    if (fail_unauthorized(r, head) || fail_forbidden(r, head)) {
        return;
    }
    stir(r);
    breaker_ticket_answered(&r->passage.ticket, head->status >= 500);
    /* on_idle ends it if its reader lets it wait */
    struct http_head h = headers_answer(head, headers, headers_down(r, head, headers), true);
    if (head->status == 101) {
        r->pump.raw = true;
        passage_end(&r->passage);
    }
    pump_set_response(&r->pump, RESPONSE_PASSING);
    if (http_exchange_send_head(r->pump.down, &h) != 0) {
        pump_abort(&r->pump);
        return;
    }
    r->all->on_answered(r->all->data, &r->to, head->status);
}

static void up_on_body(struct http_exchange *x, struct slice data)
{
    struct relay *r = of_pump(x->data);
    stir(r);
    r->all->received_bytes += data.len;
    pump_answer_body(&r->pump, data);
}

static void up_on_end(struct http_exchange *x)
{
    struct relay *r = of_pump(x->data);
    pump_set_response(&r->pump, RESPONSE_ENDED);
    passage_end(&r->passage);
    pump_answer_end(&r->pump);
}

static void up_on_close(struct http_exchange *x, const struct err *e)
{
    struct relay *r = of_pump(x->data);
    bool lost = e != NULL && r->pump.down != NULL;
    r->pump.up = NULL;
    if (lost && r->pump.response == RESPONSE_AWAITED) {
        fail_now(r, http_client_sent(x), e);
        return;
    }
    if (lost && r->pump.response != RESPONSE_ENDED) {
        log_debug("the answer to an external request ended early", log_str("host", r->to.host),
                  log_str("error", e->msg));
        http_exchange_abort(r->pump.down);
        r->pump.down = NULL;
    }
    pump_free_if_over(&r->pump);
}

static const struct http_exchange_handlers up_handlers = {
    .on_head = up_on_head,
    .on_body = up_on_body,
    .on_end = up_on_end,
    .on_drain = pump_up_drained,
    .on_close = up_on_close,
};

/* ---- time ---- */

static void on_idle(struct net_deadline *d)
{
    struct relay *r = LIST_ITEM(d, struct relay, idle);
    struct err e = ERR_INIT;
    if (r->pump.response != RESPONSE_AWAITED || r->pump.down == NULL) {
        pump_abort(&r->pump);
        return;
    }
    bool sent = r->pump.up != NULL && http_client_sent(r->pump.up);
    (void)err_set(&e, UV_ETIMEDOUT, "nothing came for %llu s (--egress-idle)",
                  (unsigned long long)r->all->idle_ms / 1000);
    fail_now(r, sent, &e);
}

/* ---- rules come into force ---- */

void relays_review(struct relays *all, bool (*allows)(void *data, const struct traffic_external *q),
                   void *data)
{
    LIST_FOR_EACH_SAFE(node, after, &all->running)
    {
        struct relay *r = LIST_ITEM(node, struct relay, link);
        const struct traffic_external q = {
            .https = r->to.https,
            .host = slice_str(r->to.host),
            .port = r->to.port,
            .path = SLICE("/"),
            .method = SLICE("GET"), /* no other can be upgraded (RFC 6455, section 4.1) */
        };
        r->forbidden = !allows(data, &q);
        if (r->pump.raw && (r->forbidden || !still_reaches(r))) {
            pump_abort(&r->pump);
        }
    }
}

/* ---- the beginning ---- */

static int ask(struct relay *r, const struct http_head *head, const struct destination *t,
               struct err *e)
{
    struct http_header headers[HEADERS_MAX];
    char host[DESTINATION_HOST_PORT_SIZE];
    struct http_head h = *head;
    destination_host_port(t, true, host);
    h.upgrade = headers_may_upgrade(head, VERB_OTHER);
    h.header_count = headers_up(r, &h, host, headers);
    h.headers = headers;
    h.budget = r->all->sent;
    r->safe = headers_method_is_safe(head) && !h.upgrade;
    r->pump.up = origins_request(r->all->origins, t, &h, &up_handlers, &r->pump, e);
    return r->pump.up != NULL ? 0 : e->code;
}

static struct relay *relay_new(struct relays *all, struct http_exchange *x,
                               const struct destination *t, bool ended, struct passage *passage)
{
    struct relay *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    r->all = all;
    r->to = *t;
    r->to.path = r->to.query = r->to.origin = (struct slice){0};
    r->pump = (struct pump){
        .ops = &pump_ops,
        .down = x,
        .passage = &r->passage,
        .about = slice_str(r->to.host),
        .request = ended ? REQUEST_WHOLE : REQUEST_COMING,
    };
    list_init(&r->link);
    net_deadline_init(&r->idle, on_idle);
    passage_move(&r->passage, passage);
    return r;
}

void relay_begin(struct relays *all, struct http_exchange *x, const struct http_head *head,
                 const struct destination *t, bool ended, struct passage *passage)
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
    list_append(&all->running, &r->link);
    stir(r);
    pump_begin(&r->pump, head);
}
