/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "http/collect.h"
#include "http/server.h"
#include "kube/query.h"
#include "net/deadline.h"

enum {
    HEAD_TIMEOUT_MS = 10000,
    BODY_TIMEOUT_MS = 5000,
    IDLE_TIMEOUT_MS = 30000,
    WRITE_TIMEOUT_MS = 10000,
    CONNECTIONS_MAX = 16,
    TROUBLE_MAX = ERR_MSG_MAX, /* bytes; what says more is not heard */
};

/* Documents of one kind, and what is done with them. */
struct service {
    enum control_document document;
    const struct control_handlers *handlers; /* NULL: they are not known */
    void *data;
};

struct control {
    struct net_loop *loop;
    struct http_server *server;
    struct service services[CONTROL_DOCUMENTS];
};

/* COLLECTING -> RELOADING (the handlers have it) -> ANSWERED (it waits for its exchange to end) */
enum call_state { CALL_COLLECTING, CALL_RELOADING, CALL_ANSWERED };

static const struct state_machine machine = {
    .object = "control call",
    .states = {[CALL_COLLECTING] = {"Collecting", STATE(CALL_RELOADING) | STATE(CALL_ANSWERED)},
               [CALL_RELOADING] = {"Reloading", STATE(CALL_ANSWERED)},
               [CALL_ANSWERED] = {"Answered", 0}},
};

struct call {
    struct control_call public;
    struct http_collect collect;
    const struct service *service;
    struct net_deadline limit; /* for the body to come */
    enum call_state state;
};

/* ---- answers ---- */

static int respond(struct http_exchange *x, unsigned code, const struct buf *body,
                   const struct http_header *header)
{
    return http_respond(x, code, SLICE("application/json"), buf_slice(body), header,
                        header != NULL ? 1 : 0);
}

static int respond_state(const struct service *s, struct http_exchange *x, const bool *changed)
{
    struct control_state state;
    struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    s->handlers->describe(s->data, &state);
    int rc = control_state_encode(&state, changed, &body);
    if (rc == 0) {
        rc = respond(x, 200, &body, NULL);
    }
    buf_reset(&body);
    return rc;
}

static int respond_error_with(struct http_exchange *x, unsigned code, const char *why,
                              const struct http_header *header)
{
    struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    int rc = control_error_encode(why, &body);
    if (rc == 0) {
        rc = respond(x, code, &body, header);
    }
    buf_reset(&body);
    return rc;
}

static int respond_error(struct http_exchange *x, unsigned code, const char *why)
{
    return respond_error_with(x, code, why, NULL);
}

static int refuse_method(const struct service *s, struct http_exchange *x)
{
    const struct http_header allow = {SLICE("Allow"), SLICE("GET, HEAD, PUT")};
    const struct http_header allow_more = {SLICE("Allow"), SLICE("GET, HEAD, PUT, DELETE")};
    return s->handlers->remove == NULL
               ? respond_error_with(x, 405, "only GET and PUT are supported", &allow)
               : respond_error_with(x, 405, "only GET, PUT and DELETE are supported", &allow_more);
}

/* Without memory for an answer the peer sees its connection closed. */
static void end_exchange(struct http_exchange *x, int rc)
{
    if (rc != 0) {
        log_error("cannot answer on the control socket", log_str("error", err_text(rc)));
        http_exchange_abort(x);
    }
}

/* ---- documents ---- */

static void set_state(struct call *r, enum call_state next)
{
    r->state = state_change(&machine, r->state, next, (struct slice){0});
}

static void call_free(struct call *r)
{
    net_deadline_clear(&r->limit);
    http_collect_deinit(&r->collect);
    free(r);
}

/* An answer was sent, or could not be. */
static void call_answered(struct call *r, int rc)
{
    set_state(r, CALL_ANSWERED);
    net_deadline_clear(&r->limit);
    if (rc != 0) {
        log_error("cannot answer on the control socket", log_str("error", err_text(rc)));
        call_free(r);
    }
}

static unsigned status_of(int code)
{
    switch (code) {
    case -EINVAL:
    case -E2BIG:
        return 400;
    case -EMSGSIZE:
        return 413;
    case -ESTALE:
        return 409;
    default:
        return 503;
    }
}

static void refuse_call(struct call *r, unsigned code, const char *why)
{
    call_answered(r, respond_error(r->collect.x, code, why));
}

static void on_body(struct http_collect *collect, struct slice body, const struct err *e)
{
    struct call *r = LIST_ITEM(collect, struct call, collect);
    const struct service *s = r->service;
    struct err why = ERR_INIT;
    net_deadline_clear(&r->limit);
    if (r->state != CALL_COLLECTING) {
        return;
    }
    if (e != NULL) {
        refuse_call(r, status_of(e->code), e->msg);
        return;
    }
    set_state(r, CALL_RELOADING);
    int rc = s->handlers->reload(s->data, body, &r->public, &why);
    if (rc != 0) {
        refuse_call(r, status_of(rc), why.msg);
    }
}

static void on_close(struct http_collect *collect, const struct err *e)
{
    (void)e;
    struct call *r = LIST_ITEM(collect, struct call, collect);
    const struct service *s = r->service;
    if (r->state == CALL_RELOADING && s->handlers->forget != NULL) {
        s->handlers->forget(s->data, &r->public);
    }
    call_free(r);
}

static const struct http_collect_handlers collect_handlers = {
    .on_body = on_body,
    .on_close = on_close,
};

static void on_limit(struct net_deadline *d)
{
    refuse_call(LIST_ITEM(d, struct call, limit), 408, "timeout waiting for the document");
}

static void refuse_large(struct call *r)
{
    refuse_call(r, 413,
                r->service->document == CONTROL_RULES
                    ? "the document exceeds the size limit of a rules document"
                    : "the document exceeds the size limit of a traffic document");
}

static void take_document(struct control *c, const struct service *s, struct http_exchange *x,
                          const struct http_head *head)
{
    size_t max = control_document_max(s->document);
    struct call *r = calloc(1, sizeof *r);
    if (r == NULL) {
        end_exchange(x, respond_error(x, 503, "out of memory"));
        return;
    }
    r->service = s;
    http_collect_init(&r->collect, max, &collect_handlers);
    http_collect_take(&r->collect, x);
    net_deadline_init(&r->limit, on_limit);
    if (head->framing == HTTP_BODY_LENGTH && head->content_length > max) {
        refuse_large(r);
        return;
    }
    net_deadline_set(c->loop, &r->limit, BODY_TIMEOUT_MS);
}

void control_done(struct control_call *done, bool changed)
{
    struct call *r = LIST_ITEM(done, struct call, public);
    call_answered(r, respond_state(r->service, r->collect.x, &changed));
}

static int remove_document(const struct service *s, struct http_exchange *x)
{
    struct control_state before;
    struct err why = ERR_INIT;
    s->handlers->describe(s->data, &before);
    int rc = s->handlers->remove(s->data, &why);
    return rc == 0 ? respond_state(s, x, &before.enforcing)
                   : respond_error(x, status_of(rc), why.msg);
}

/* ---- requests ---- */

/* "/v2/..." is of another version. */
static bool of_other_version(struct slice path)
{
    return path.len >= 3 && path.ptr[0] == '/' && path.ptr[1] == 'v' &&
           isdigit((unsigned char)path.ptr[2]);
}

static int refuse_path(const struct control *c, struct http_exchange *x, struct slice path)
{
    const struct slice own = SLICE("/v1/");
    bool same = path.len >= own.len && memcmp(path.ptr, own.ptr, own.len) == 0;
    if (of_other_version(path) && !same) {
        return respond_error(x, 404,
                             "unsupported protocol version; version 1 is served at /v1/rules");
    }
    return respond_error(x, 404,
                         c->services[CONTROL_TRAFFIC].handlers == NULL
                             ? "not found; /v1/rules supports GET and PUT"
                             : "not found; /v1/rules supports GET and PUT, /v1/traffic GET, PUT "
                               "and DELETE");
}

/* NULL: no documents are taken there. */
static const struct service *find_service(const struct control *c, struct slice path)
{
    for (size_t i = 0; i < CONTROL_DOCUMENTS; i++) {
        const struct service *s = &c->services[i];
        if (s->handlers != NULL && slice_eq(path, slice_str(control_target(s->document)))) {
            return s;
        }
    }
    return NULL;
}

/* What rulesync says with its question, if it does. Without memory it says so again soon. */
static void note_trouble(const struct service *s, struct slice target)
{
    struct slice encoded;
    struct buf text = BUF_INIT(TROUBLE_MAX);
    if (s->handlers->heard == NULL ||
        !query_find(query_of(target), SLICE(CONTROL_TROUBLE), &encoded)) {
        return;
    }
    if (query_decode(encoded, &text) == 0 && buf_cstr(&text) != NULL) {
        s->handlers->heard(s->data, buf_cstr(&text));
    }
    buf_reset(&text);
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct control *c = data;
    const char *query = memchr(head->target.ptr, '?', head->target.len);
    struct slice path = query == NULL
                            ? head->target
                            : slice_of(head->target.ptr, (size_t)(query - head->target.ptr));
    const struct service *s = find_service(c, path);
    if (s == NULL) {
        end_exchange(x, refuse_path(c, x, path));
    } else if (slice_eq(head->method, SLICE("PUT"))) {
        take_document(c, s, x, head);
    } else if (slice_eq(head->method, SLICE("GET")) || slice_eq(head->method, SLICE("HEAD"))) {
        note_trouble(s, head->target);
        end_exchange(x, respond_state(s, x, NULL));
    } else if (slice_eq(head->method, SLICE("DELETE")) && s->handlers->remove != NULL) {
        end_exchange(x, remove_document(s, x));
    } else {
        end_exchange(x, refuse_method(s, x));
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    if (control_error_encode(why, body) != 0) {
        buf_clear(body);
    }
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

/* ---- life ---- */

struct control *control_new(struct net_loop *l, const char *path, const struct control_handlers *h,
                            void *data, struct err *e)
{
    struct control *c = calloc(1, sizeof *c);
    if (c == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    c->loop = l;
    control_serve(c, CONTROL_RULES, h, data);
    struct http_server_options o = {
        .path = path,
        .head_timeout_ms = HEAD_TIMEOUT_MS,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
        .max_connections = CONNECTIONS_MAX,
    };
    c->server = http_server_new(l, &o, &server_handlers, c, e);
    if (c->server == NULL) {
        free(c);
        return NULL;
    }
    return c;
}

void control_serve(struct control *c, enum control_document d, const struct control_handlers *h,
                   void *data)
{
    c->services[d] = (struct service){.document = d, .handlers = h, .data = data};
}

void control_free(struct control *c)
{
    if (c != NULL) {
        http_server_free(c->server);
        free(c);
    }
}
