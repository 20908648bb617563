/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/control.h"

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

struct control {
    struct net_loop *loop;
    struct http_server *server;
    const struct control_handlers *handlers;
    void *data;
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
    struct control *control;
    struct net_deadline limit; /* for the body to come */
    enum call_state state;
};

/* ---- answers ---- */

static int respond(struct http_exchange *x, unsigned code, const struct buf *body)
{
    const struct http_header allow = {SLICE("Allow"), SLICE("GET, HEAD, PUT")};
    return http_respond(x, code, SLICE("application/json"), buf_slice(body), &allow,
                        code == 405 ? 1 : 0);
}

static int respond_state(const struct control *c, struct http_exchange *x, const bool *changed)
{
    struct control_state state;
    struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    c->handlers->describe(c->data, &state);
    int rc = control_state_encode(&state, changed, &body);
    if (rc == 0) {
        rc = respond(x, 200, &body);
    }
    buf_reset(&body);
    return rc;
}

static int respond_error(struct http_exchange *x, unsigned code, const char *why)
{
    struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    int rc = control_error_encode(why, &body);
    if (rc == 0) {
        rc = respond(x, code, &body);
    }
    buf_reset(&body);
    return rc;
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
    struct control *c = r->control;
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
    int rc = c->handlers->reload(c->data, body, &r->public, &why);
    if (rc != 0) {
        refuse_call(r, status_of(rc), why.msg);
    }
}

static void on_close(struct http_collect *collect, const struct err *e)
{
    (void)e;
    struct call *r = LIST_ITEM(collect, struct call, collect);
    if (r->state == CALL_RELOADING) {
        r->control->handlers->forget(r->control->data, &r->public);
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

static void take_document(struct control *c, struct http_exchange *x, const struct http_head *head)
{
    struct call *r = calloc(1, sizeof *r);
    if (r == NULL) {
        end_exchange(x, respond_error(x, 503, "out of memory"));
        return;
    }
    r->control = c;
    http_collect_init(&r->collect, RULES_TEXT_MAX, &collect_handlers);
    http_collect_take(&r->collect, x);
    net_deadline_init(&r->limit, on_limit);
    if (head->framing == HTTP_BODY_LENGTH && head->content_length > RULES_TEXT_MAX) {
        refuse_call(r, 413, "the document exceeds the size limit of a rules document");
        return;
    }
    net_deadline_set(c->loop, &r->limit, BODY_TIMEOUT_MS);
}

void control_done(struct control_call *done, bool changed)
{
    struct call *r = LIST_ITEM(done, struct call, public);
    call_answered(r, respond_state(r->control, r->collect.x, &changed));
}

/* ---- requests ---- */

/* "/v2/..." is of another version. */
static bool of_other_version(struct slice path)
{
    return path.len >= 3 && path.ptr[0] == '/' && path.ptr[1] == 'v' &&
           isdigit((unsigned char)path.ptr[2]);
}

static int refuse_path(struct http_exchange *x, struct slice path)
{
    const struct slice own = SLICE("/v1/");
    bool same = path.len >= own.len && memcmp(path.ptr, own.ptr, own.len) == 0;
    return respond_error(x, 404,
                         of_other_version(path) && !same
                             ? "unsupported protocol version; version 1 is served at /v1/rules"
                             : "not found; /v1/rules supports GET and PUT");
}

/* What rulesync says with its question, if it does. Without memory it says so again soon. */
static void note_trouble(const struct control *c, struct slice target)
{
    struct slice encoded;
    struct buf text = BUF_INIT(TROUBLE_MAX);
    if (c->handlers->heard == NULL ||
        !query_find(query_of(target), SLICE(CONTROL_TROUBLE), &encoded)) {
        return;
    }
    if (query_decode(encoded, &text) == 0 && buf_cstr(&text) != NULL) {
        c->handlers->heard(c->data, buf_cstr(&text));
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
    if (!slice_eq(path, SLICE(CONTROL_RULES_TARGET))) {
        end_exchange(x, refuse_path(x, path));
    } else if (slice_eq(head->method, SLICE("PUT"))) {
        take_document(c, x, head);
    } else if (slice_eq(head->method, SLICE("GET")) || slice_eq(head->method, SLICE("HEAD"))) {
        note_trouble(c, head->target);
        end_exchange(x, respond_state(c, x, NULL));
    } else {
        end_exchange(x, respond_error(x, 405, "only GET and PUT are supported"));
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
    c->handlers = h;
    c->data = data;
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

void control_free(struct control *c)
{
    if (c != NULL) {
        http_server_free(c->server);
        free(c);
    }
}
