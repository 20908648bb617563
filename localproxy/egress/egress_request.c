/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: egress_on_request > take > apply_faults > apply_intercepts > apply_breakers >
 * send_on.
 *
 * What a fault delays waits before anything is done with it, and begins anew then
 * (egress_on_delay_over > take): what is in force at that time decides. Each apply_ function that
 * returns false has answered the request, or it waits.
 */
#include "egress/egress_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "exchange/headers.h"
#include "guard/host.h"
#include "guard/token.h"
#include "net/address.h"

enum { RETRY_AFTER_S = 1, ANSWER_MAX = 16 * 1024, REASON_MAX = 256 };

/* What EGRESS_HEADER says. */
static const char invalid[] = "invalid";
static const char refused[] = "refused";
static const char limited[] = "limited";
static const char faulted[] = "fault";
static const char failed[] = "failed";

static const char refused_one[] = "refused an external request";

struct request {
    struct egress *g;
    struct http_exchange *x;
    const struct http_head *head;
    bool ended; /* all of the request has come */
    struct passage passage;
    struct fault_drawn *drawn; /* its delay is over; NULL: there was none */
    struct destination to;
    struct traffic_external q;
};

/* ---- answers of its own ---- */

void egress_log_refusal(struct egress *g, const char *what, unsigned code, const char *host,
                        const char *why)
{
    uint64_t suppressed;
    if (refusal_log_take(&g->refusals, refusal_kind_of(code), net_loop_now(g->loop), &suppressed)) {
        log_info(what, log_num("code", code), log_str("host", host), log_str("reason", why),
                 log_num("suppressed", (int64_t)suppressed));
    }
}

/* Of answers to CONNECT clients show nothing but the first line, if that: the reason is there, too.
 * Rules may be named as somebody likes. */
static void write_reason(char out[REASON_MAX], unsigned code, const char *message)
{
    (void)snprintf(out, REASON_MAX, "%s: cmesh: %s", http_reason(code), message);
    for (char *p = out; *p != '\0'; p++) {
        *p = *p < ' ' || *p > '~' ? '?' : *p;
    }
}

static void send_answer(struct http_exchange *x, bool tunnel, unsigned code, const char *kind,
                        unsigned retry_after, const char *message)
{
    char reason[REASON_MAX] = "";
    struct buf body = BUF_INIT(ANSWER_MAX);
    struct http_header extra[3] = {{SLICE(EGRESS_HEADER), slice_str(kind)}};
    char seconds[16];
    size_t n = 1;
    if (retry_after != 0) {
        (void)snprintf(seconds, sizeof seconds, "%u", retry_after);
        extra[n++] = (struct http_header){SLICE("Retry-After"), slice_str(seconds)};
    }
    if (code == 407) {
        extra[n++] =
            (struct http_header){SLICE("Proxy-Authenticate"), SLICE("Basic realm=\"cmesh\"")};
        x->last = true; /* who could not say who it is gets no place to stay */
    }
    if (tunnel) {
        write_reason(reason, code, message);
    }
    buf_printf(&body, "cmesh: %s\n", message);
    int rc = buf_error(&body);
    if (rc == 0) {
        rc = http_respond_saying(x, code, slice_str(reason), SLICE("text/plain; charset=utf-8"),
                                 buf_slice(&body), extra, n);
    }
    buf_reset(&body);
    if (rc != 0) {
        http_exchange_abort(x);
    }
}

static void answer(const struct request *r, unsigned code, const char *kind, unsigned retry_after,
                   const char *message)
{
    r->g->refused++;
    egress_log_refusal(r->g, refused_one, code, r->to.host, message);
    send_answer(r->x, slice_eq(r->head->method, SLICE("CONNECT")), code, kind, retry_after,
                message);
}

/* Of a request whose host is known. `message` is given back. */
static void answer_with(const struct request *r, unsigned code, const char *kind,
                        enum host_result result, unsigned retry_after, struct buf *message)
{
    const char *text = buf_error(message) == 0 ? buf_cstr(message) : NULL;
    hosts_count(&r->g->hosts, slice_str(r->to.host), result);
    answer(r, code, kind, retry_after, text != NULL ? text : "out of memory");
    buf_reset(message);
}

void egress_on_failed(void *data, struct http_exchange *x, unsigned code,
                      const struct destination *t, const char *why)
{
    struct egress *g = data;
    bool forbidden = code == 403;
    g->refused += forbidden ? 1 : 0;
    g->failed += forbidden ? 0 : 1;
    hosts_count(&g->hosts, slice_str(t->host), forbidden ? HOST_REFUSED : HOST_FAILED);
    egress_log_refusal(g, forbidden ? refused_one : "an external request failed", code, t->host,
                       why);
    send_answer(x, t->way == DESTINATION_TUNNEL, code, forbidden ? refused : failed, 0, why);
}

void egress_on_answered(void *data, const struct destination *t, unsigned status)
{
    struct egress *g = data;
    (void)status;
    hosts_count(&g->hosts, slice_str(t->host), HOST_ANSWERED);
}

void egress_on_opened(void *data, const struct destination *t)
{
    egress_on_answered(data, t, 200);
}

/* ---- who asks ---- */

/* False: it was refused. */
static bool admit_token(const struct request *r)
{
    const struct egress *g = r->g;
    const struct token token = {
        .header = SLICE("Proxy-Authorization"),
        .text = listener_secrets_token(g->o.secrets),
        .basic = listener_secrets_basic(g->o.secrets),
        .scope = slice_str(g->scope),
    };
    if (!g->asks_token || (token.text.len > 0 && token_look(r->head, &token) == TOKEN_RIGHT)) {
        return true;
    }
    answer(r, 407, invalid, 0,
           "the token of --token-file is missing or wrong: give it as the proxy's password, "
           "http://cmesh:TOKEN@HOST:PORT");
    return false;
}

/* A request that has been here before would go round for ever. */
static bool admit_once(const struct request *r)
{
    if (!pseudonym_has_passed(&r->g->pseudonym, r->head)) {
        return true;
    }
    answer(r, 508, invalid, 0,
           "the request has come back to the proxy that sent it: the host leads to --egress, by "
           "way of another proxy perhaps");
    return false;
}

/* A page cannot speak to a proxy, but it can send a header to whatever listens on this machine. Its
 * script needs permission for it, which is not given, unless its own name was made to lead here;
 * then Host has that name. */
static bool admit_no_page(const struct request *r)
{
    const struct http_head *head = r->head;
    char host[DESTINATION_HOST_PORT_SIZE];
    if (r->to.way != DESTINATION_HEADER_WAY) {
        return true;
    }
    destination_host_port(&r->to, true, host);
    bool named = host_is_accepted(head, &r->g->o.flags->accept_hosts) ||
                 slice_ieq(headers_value(head, SLICE("Host")), slice_str(host));
    if (named && http_head_find(head, SLICE("Origin")) == NULL &&
        http_head_find(head, SLICE("Sec-Fetch-Site")) == NULL) {
        return true;
    }
    answer(r, 403, refused, 0,
           "Origin, Sec-Fetch-Site or Host says that a web page may have sent this request "
           "with " DESTINATION_HEADER "; --accept-host=NAME takes the name in Host");
    return false;
}

/* False: it was refused. */
static bool read_destination(struct request *r)
{
    struct err e = ERR_INIT;
    int rc = destination_read(r->head, &r->to, &e);
    if (rc == 0) {
        destination_describe(&r->to, r->head, &r->q);
        return true;
    }
    r->to.host[0] = '\0';
    answer(r, 400, invalid, 0,
           rc == -ENOENT ? "this is an HTTP proxy: name it by HTTP_PROXY and HTTPS_PROXY, or "
                           "the URL that is meant in " DESTINATION_HEADER
                         : e.msg);
    return false;
}

/* ---- what is done to it ---- */

static bool apply_reach(const struct request *r)
{
    struct err e = ERR_INIT;
    if (reach_check(r->g->reach, &r->to, &r->q, &e) == 0) {
        return true;
    }
    hosts_count(&r->g->hosts, slice_str(r->to.host), HOST_REFUSED);
    answer(r, 403, refused, 0, e.msg);
    return false;
}

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
    answer_with(r, f->rule->abort_status, faulted, HOST_ABORTED, 0, &why);
    return true;
}

/* Whether it waits, to be taken anew. */
static bool delay_by_fault(const struct request *r, struct fault_drawn *drawn)
{
    const struct delayed_body body = {.body = NULL};
    return drawn->delay_ms != 0 &&
           delays_begin(&r->g->delays, r->x, r->head, r->ended, &body, drawn);
}

static bool apply_faults(struct request *r)
{
    struct fault_drawn drawn;
    if (r->passage.faulted) {
        return r->drawn == NULL || !abort_by_fault(r, r->drawn);
    }
    r->passage.faulted = true;
    policies_draw_external(r->g->o.policies, &r->q, &drawn);
    bool goes_on = !delay_by_fault(r, &drawn) && !abort_by_fault(r, &drawn);
    fault_drawn_release(&drawn);
    return goes_on;
}

static bool apply_intercepts(const struct request *r)
{
    struct buf why = BUF_INIT(ERR_MSG_MAX);
    if (policies_allow_external(r->g->o.policies, &r->q, &why)) {
        buf_reset(&why);
        return true;
    }
    answer_with(r, 403, refused, HOST_REFUSED, 0, &why);
    return false;
}

static bool apply_breakers(struct request *r)
{
    struct buf why = BUF_INIT(ERR_MSG_MAX);
    unsigned retry_after;
    r->passage.charged = true;
    if (policies_admit_external(r->g->o.policies, &r->q, &r->passage, &why, &retry_after)) {
        buf_reset(&why);
        return true;
    }
    answer_with(r, 429, limited, HOST_LIMITED, retry_after, &why);
    return false;
}

static bool apply_policies(struct request *r)
{
    return !policies_have_external(r->g->o.policies) ||
           (apply_faults(r) && apply_intercepts(r) && apply_breakers(r));
}

/* ---- the way of a request ---- */

static void open_tunnel(struct request *r)
{
    struct egress *g = r->g;
    char message[128];
    if (tunnel_begin(&g->tunnels, r->x, &r->to, via_of(g->via, &r->to), &r->passage)) {
        return;
    }
    hosts_count(&g->hosts, slice_str(r->to.host), HOST_LIMITED);
    (void)snprintf(message, sizeof message,
                   "%u tunnels are open, and no more than %u can be (--egress-max-tunnels)",
                   g->tunnels.count, g->tunnels.max);
    answer(r, 503, limited, RETRY_AFTER_S,
           g->tunnels.count >= g->tunnels.max ? message : "out of memory");
}

static void send_on(struct request *r)
{
    log_debug("external request", log_strn("method", r->head->method.ptr, r->head->method.len),
              log_str("host", r->to.host), log_num("port", r->to.port));
    if (r->to.way == DESTINATION_TUNNEL) {
        open_tunnel(r);
    } else {
        relay_begin(&r->g->relays, r->x, r->head, &r->to, r->ended, &r->passage);
    }
}

static void take(struct request *r)
{
    if (read_destination(r) && admit_no_page(r) && apply_reach(r) && apply_policies(r)) {
        send_on(r);
    }
    passage_end(&r->passage);
}

void egress_on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct request r = {.g = data, .x = x, .head = head};
    r.g->requests++;
    if (admit_token(&r) && admit_once(&r)) {
        take(&r);
    }
}

void egress_on_delay_over(void *data, struct http_exchange *x, const struct http_head *head,
                          bool ended, void *body, struct fault_drawn *drawn)
{
    struct request r = {
        .g = data,
        .x = x,
        .head = head,
        .ended = ended,
        .passage = {.faulted = true},
        .drawn = drawn,
    };
    (void)body;
    take(&r);
}

bool egress_still_allows(void *data, const struct traffic_external *q)
{
    struct egress *g = data;
    struct destination t = {.https = q->https, .port = q->port};
    struct sockaddr_storage ignored;
    struct err e = ERR_INIT;
    struct buf why = BUF_INIT(ERR_MSG_MAX);
    if (q->host.len >= sizeof t.host) {
        return false;
    }
    memcpy(t.host, q->host.ptr, q->host.len);
    t.literal = net_address_literal(t.host, t.port, &ignored) == 0;
    bool allowed =
        reach_check(g->reach, &t, q, &e) == 0 &&
        (!policies_have_external(g->o.policies) || policies_allow_external(g->o.policies, q, &why));
    buf_reset(&why);
    return allowed;
}

bool egress_allows_name(void *data, const struct traffic_external *q)
{
    struct egress *g = data;
    char host[URL_HOST_MAX + 1];
    if (egress_still_allows(g, q)) {
        return true;
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)q->host.len, q->host.ptr);
    g->refused++;
    egress_log_refusal(g, "broke off a tunnel", 403, host,
                       q->host.len > 0 ? "its client asks for a server that rules forbid"
                                       : "whom its client asks for cannot be read");
    return false;
}
