/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: proxy_connect > on_open, which asks > on_read, with 200 > and with TLS
 * net_stream_start_tls > on_open again > succeed.
 *
 * Every failure ends in fail(), before the stream is its user's.
 */
#include "http/proxy_connect.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/secret.h"
#include "base/state_machine.h"
#include "http/h1_parser.h"
#include "net/deadline.h"

enum { HOST_PORT_SIZE = 280 };

/*
 * CONNECTING --> ASKING --> SECURING
 */
enum proxy_state {
    PROXY_CONNECTING, /* to the proxy */
    PROXY_ASKING,     /* CONNECT was sent */
    PROXY_SECURING,   /* the tunnel is there; TLS is being established */
};

static const struct state_machine machine = {
    .object = "connection through a proxy",
    .states = {[PROXY_CONNECTING] = {"Connecting", STATE(PROXY_ASKING)},
               [PROXY_ASKING] = {"Asking", STATE(PROXY_SECURING)},
               [PROXY_SECURING] = {"Securing", 0}},
};

struct proxy_connect {
    struct net_loop *loop;
    struct net_stream *stream; /* the user's */
    const struct http_proxy *proxy;
    const struct net_stream_handlers *handlers;
    void *data;
    struct tls_config *tls;   /* NULL: plain */
    struct h1_parser *parser; /* of the proxy's answer */
    enum proxy_state state;
    uint64_t until;            /* net_loop_now() when all must be done; 0: no limit */
    struct net_deadline limit; /* of ASKING and SECURING; the stream has its own before */
    char origin[HOST_PORT_SIZE];
    char name[HOST_PORT_SIZE]; /* of the proxy */
};

/* ---- the proxy's address ---- */

struct http_proxy *http_proxy_copy(const struct http_proxy *p)
{
    bool secret = p->authorization != NULL;
    struct http_proxy *copy = calloc(1, sizeof *copy);
    char *host = strdup(p->host);
    char *authorization = secret ? strdup(p->authorization) : NULL;
    if (copy == NULL || host == NULL || (secret && authorization == NULL)) {
        free(copy);
        free(host);
        secret_free(authorization);
        return NULL;
    }
    *copy = *p;
    copy->host = host;
    copy->authorization = authorization;
    return copy;
}

void http_proxy_free(struct http_proxy *p)
{
    if (p != NULL) {
        free((char *)(uintptr_t)p->host);
        secret_free((char *)(uintptr_t)p->authorization);
        free(p);
    }
}

/* As in a URL; the zone of an IPv6 address has a meaning on this machine only. */
static void write_host_port(char out[HOST_PORT_SIZE], const char *host, unsigned port)
{
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(out, HOST_PORT_SIZE, "%s%.*s%s:%u", v6 ? "[" : "", (int)strcspn(host, "%"), host,
                   v6 ? "]" : "", port);
}

/* ---- how it ends ---- */

static void set_state(struct proxy_connect *c, enum proxy_state next)
{
    c->state = state_change(&machine, c->state, next, slice_str(c->name));
}

void proxy_connect_free(struct proxy_connect *c)
{
    if (c == NULL) {
        return;
    }
    net_deadline_clear(&c->limit);
    h1_parser_free(c->parser);
    tls_config_unref(c->tls);
    free(c);
}

/* The last access. */
static void fail(struct proxy_connect *c, const struct err *e)
{
    struct err copy = *e; /* it may live in the parser */
    const struct net_stream_handlers *handlers = c->handlers;
    void *data = c->data;
    proxy_connect_free(c);
    handlers->on_error(data, &copy);
}

/* The last access. */
static void succeed(struct proxy_connect *c)
{
    const struct net_stream_handlers *handlers = c->handlers;
    void *data = c->data;
    net_stream_set_handlers(c->stream, handlers, data);
    proxy_connect_free(c);
    handlers->on_open(data);
}

/* ---- the proxy's answer ---- */

static void refused(const struct proxy_connect *c, const struct http_head *head, struct err *e)
{
    struct slice reason =
        head->reason.len > 0 ? head->reason : slice_str(http_reason(head->status));
    err_set(e, UV_ECONNREFUSED, "the proxy http://%s refused the connection to %s: %u %.*s",
            c->name, c->origin, head->status, (int)reason.len, reason.ptr);
}

/* Whether the tunnel is there; not yet: without error in `e`. Only the head is read: what follows
 * is the tunnel's, whatever length it announces. */
static bool read_answer(struct proxy_connect *c, struct slice in, struct err *e)
{
    const struct http_head *head;
    struct slice body;
    struct err why = ERR_INIT;
    switch (h1_parser_next(c->parser, &in, &head, &body, &why)) {
    case H1_MORE:
        return false;
    case H1_HEAD:
        break;
    case H1_BODY:
    case H1_END:
    case H1_ERROR:
        if (why.code == -ENOMEM) {
            err_memory(e);
        } else {
            err_set(e, UV_EPROTO, "the proxy http://%s sent an invalid answer: %s", c->name,
                    why.msg);
        }
        return false;
    }
    if (head->status < 200 || head->status > 299) {
        refused(c, head, e);
        return false;
    }
    if (in.len > 0) {
        /* The client speaks first, with TLS and without. */
        err_set(e, UV_EPROTO, "the proxy http://%s sent data for which nobody has asked", c->name);
        return false;
    }
    return true;
}

static void start_tls(struct proxy_connect *c)
{
    struct err e = ERR_INIT;
    set_state(c, PROXY_SECURING);
    if (net_stream_start_tls(c->stream, c->tls, &e) != 0) {
        fail(c, &e);
    }
}

static void on_read(void *data, struct slice bytes)
{
    struct proxy_connect *c = data;
    struct err e = ERR_INIT;
    bool there = read_answer(c, bytes, &e);
    if (e.code != 0) {
        fail(c, &e);
        return;
    }
    if (!there) {
        return;
    }
    if (c->tls != NULL) {
        start_tls(c);
    } else {
        succeed(c);
    }
}

static void on_eof(void *data)
{
    struct proxy_connect *c = data;
    struct err e = ERR_INIT;
    err_set(&e, UV_ECONNRESET,
            "the proxy http://%s closed the connection instead of answering CONNECT", c->name);
    fail(c, &e);
}

static void on_limit(struct net_deadline *d)
{
    struct proxy_connect *c = LIST_ITEM(d, struct proxy_connect, limit);
    struct err e = ERR_INIT;
    if (c->state == PROXY_SECURING) {
        err_set(&e, UV_ETIMEDOUT, "through the proxy http://%s: the TLS handshake timed out",
                c->name);
    } else {
        err_set(&e, UV_ETIMEDOUT, "the proxy http://%s did not connect to %s in time", c->name,
                c->origin);
    }
    fail(c, &e);
}

static void on_error(void *data, const struct err *e)
{
    struct proxy_connect *c = data;
    struct err why = *e;
    if (c->state == PROXY_SECURING) {
        err_prefix(&why, "through the proxy http://%s", c->name);
    } else {
        err_prefix(&why, "the proxy http://%s", c->name);
    }
    fail(c, &why);
}

/* ---- the question ---- */

static int ask(struct proxy_connect *c)
{
    const char *authorization = c->proxy->authorization;
    bool has = authorization != NULL;
    struct slice origin = slice_str(c->origin);
    const struct slice parts[] = {
        SLICE("CONNECT "),
        origin,
        SLICE(" HTTP/1.1\r\nHost: "),
        origin,
        has ? SLICE("\r\nProxy-Authorization: ") : SLICE(""),
        slice_str(has ? authorization : ""),
        SLICE("\r\n\r\n"),
    };
    return net_stream_write(c->stream, parts, ARRAY_LEN(parts));
}

/* To the proxy; then, with TLS, to the origin. */
static void on_open(void *data)
{
    struct proxy_connect *c = data;
    if (c->state == PROXY_SECURING) {
        succeed(c);
        return;
    }
    set_state(c, PROXY_ASKING);
    if (ask(c) != 0) {
        struct err e = ERR_INIT;
        err_memory(&e);
        fail(c, &e);
        return;
    }
    if (c->until != 0) {
        uint64_t now = net_loop_now(c->loop);
        net_deadline_set(c->loop, &c->limit, c->until > now ? c->until - now : 0);
    }
    net_stream_read_start(c->stream);
}

static const struct net_stream_handlers own_handlers = {
    .on_open = on_open,
    .on_read = on_read,
    .on_eof = on_eof,
    .on_error = on_error,
};

static struct proxy_connect *connect_new(struct net_loop *l, const struct http_proxy *proxy,
                                         const struct net_dial_options *o)
{
    struct proxy_connect *c = calloc(1, sizeof *c);
    if (c == NULL || (c->parser = h1_parser_new(H1_RESPONSES, &h1_limits_default)) == NULL) {
        free(c);
        return NULL;
    }
    net_deadline_init(&c->limit, on_limit);
    c->loop = l;
    c->proxy = proxy;
    c->tls = tls_config_ref(o->tls);
    c->until = o->connect_timeout_ms != 0 ? net_loop_now(l) + o->connect_timeout_ms : 0;
    write_host_port(c->origin, o->host, o->port);
    write_host_port(c->name, proxy->host, proxy->port);
    return c;
}

int proxy_connect(struct net_loop *l, const struct http_proxy *proxy,
                  const struct net_dial_options *o, const struct net_stream_handlers *handlers,
                  void *data, struct proxy_connect **out, struct net_stream **stream, struct err *e)
{
    struct err why = ERR_INIT;
    struct net_dial_options to = *o;
    struct proxy_connect *c = connect_new(l, proxy, o);
    if (c == NULL) {
        return err_memory(e);
    }
    c->handlers = handlers;
    c->data = data;
    to.host = proxy->host;
    to.port = proxy->port;
    to.gate = proxy->gate; /* the other one is for the origin, which the proxy looks up */
    to.tls = NULL;
    int rc = net_dial(l, &to, &own_handlers, c, &c->stream, &why);
    if (rc != 0) {
        err_set(e, rc, "the proxy http://%s: %s", c->name, why.msg);
        proxy_connect_free(c);
        return rc;
    }
    *out = c;
    *stream = c->stream;
    return 0;
}
