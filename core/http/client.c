/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/state_machine.h"
#include "http/client_h1.h"
#include "http/h1_conn.h"
#include "http/proxy_connect.h"

/* Connections being opened at a time. Until one TLS session is there that others can resume, one:
 * a full handshake costs fifty times as much as a resumed one. */
enum { HEAD_OUT_MAX = 4 * 1024 * 1024, DIALLING_MAX = 8, DIALLING_BACKGROUND_MAX = 6 };

/* Attempts that fail belong together when there is no longer between them than one takes, and this.
 */
enum { FAILING_PAUSE_MS = 5000 };

struct http_client {
    struct net_loop *loop;
    struct http_client_options o;
    char *host;               /* or the path of a Unix socket */
    struct http_proxy *proxy; /* NULL: none */
    struct tls_config *tls;
    struct tls_config *tls_upgrade; /* NULL: as `tls` */
    struct net_backlog *backlog;    /* NULL: none */
    unsigned generation;            /* grows when the TLS settings change */
    struct list ready;      /* connections with room for a request, the one used last in front */
    struct list conns;      /* all others */
    struct list waiting;    /* requests for which no connection may be opened yet */
    struct list background; /* the background ones of them */
    struct net_task serve;
    unsigned dialling;
    bool established; /* a connection was opened with these TLS settings */
    bool succeeded;   /* one was, since there was none being dialled */
    bool doubtful;    /* one was not, nor any since: no more are dialled while others are tried */
    struct err unreachable;     /* code 0: the last one dialled was opened, or one answered since */
    bool failing;               /* no connection could be opened, */
    uint64_t failing_ms;        /* the first time then, */
    struct net_deadline failed; /* and the last time not long ago (FAILING_PAUSE_MS) */
    struct http_client_stats stats;
};

static const struct state_machine machine = {
    .object = "upstream connection",
    .states = {[CLIENT_DIALLING] = {"Dialling", STATE(CLIENT_BUSY) | STATE(CLIENT_GONE)},
               [CLIENT_BUSY] = {"Busy", STATE(CLIENT_IDLE) | STATE(CLIENT_GONE)},
               [CLIENT_IDLE] = {"Idle", STATE(CLIENT_BUSY) | STATE(CLIENT_GONE)},
               [CLIENT_GONE] = {"Gone", 0}},
};

static const struct http_exchange_ops waiting_operations;
static int dial(struct http_client *client, struct client_request *r, struct err *e);

static void set_state(struct client_conn *c, enum client_conn_state next)
{
    c->state = state_change(&machine, c->state, next, slice_str(c->client->host));
}

static void move_to(struct list *to, struct list *node)
{
    list_remove(node);
    list_append(to, node);
}

static void move_all(struct list *from, struct list *to)
{
    while (!list_empty(from)) {
        move_to(to, from->next);
    }
}

/* ---- requests ---- */

static void request_free(struct client_request *r)
{
    r->client->stats.busy--;
    client_request_drop_head(r);
    free(r);
}

static void request_end(struct client_request *r, const struct err *e)
{
    list_remove(&r->link);
    if (r->x.handlers->on_close != NULL) {
        r->x.handlers->on_close(&r->x, e);
    }
    request_free(r);
}

/* All requests of `from`, none of which has a connection. */
static void requests_end(struct list *from, const struct err *e)
{
    while (!list_empty(from)) {
        request_end(LIST_ITEM(from->next, struct client_request, link), e);
    }
}

static void fail_waiting(struct http_client *client, const struct err *e)
{
    struct list failing;
    list_init(&failing);
    move_all(&client->waiting, &failing);
    move_all(&client->background, &failing);
    requests_end(&failing, e);
}

/* ---- connections and what they carry ---- */

static void on_release(struct net_task *t)
{
    struct client_conn *c = LIST_ITEM(t, struct client_conn, release);
    if (c->session != NULL) {
        c->protocol->free(c->session);
    }
    free(c);
}

/* The stream is closed; the memory goes when the handlers have returned. */
static void forget(struct client_conn *c)
{
    struct http_client *client = c->client;
    if (c->state == CLIENT_DIALLING) {
        client->dialling--;
        client->doubtful = client->doubtful && client->dialling > 0;
        net_task_queue(client->loop, &client->serve);
    }
    client->stats.idle -= c->state == CLIENT_IDLE ? 1 : 0;
    client->stats.open--;
    set_state(c, CLIENT_GONE);
    net_deadline_clear(&c->idle_limit);
    list_remove(&c->link);
    net_task_queue(client->loop, &c->release);
}

static void retire(struct client_conn *c)
{
    if (c->session != NULL) {
        c->protocol->close(c->session);
    } else {
        proxy_connect_free(c->proxied);
        net_stream_close(c->stream);
    }
    forget(c);
}

static void on_idle_limit(struct net_deadline *d)
{
    retire(LIST_ITEM(d, struct client_conn, idle_limit));
}

/* From now on the connection has the request, which it may still have to be opened for. */
static void attach(struct client_conn *c, struct client_request *r)
{
    move_to(&c->requests, &r->link);
    r->conn = c;
    c->carried++;
}

static void detach(struct client_request *r)
{
    r->conn->carried--;
    list_remove(&r->link);
    r->conn = NULL;
    r->x.ops = &waiting_operations;
}

/* Hands the request to the protocol. */
static int start(struct client_conn *c, struct client_request *r)
{
    const struct http_client_options *o = &c->client->o;
    if (r->guarded && o->may_send != NULL && !o->may_send(o->data)) {
        return UV_ECANCELED;
    }
    r->x.ops = c->protocol->operations;
    r->sent = true;
    int rc = c->protocol->carry(c->session, r);
    if (rc == 0 && r->paused) {
        http_exchange_pause(&r->x);
    }
    return rc;
}

/* Puts the request on a connection that is open and has room. */
static int carry(struct client_conn *c, struct client_request *r)
{
    struct http_client *client = c->client;
    if (c->state == CLIENT_IDLE) {
        net_deadline_clear(&c->idle_limit);
        client->stats.idle--;
        set_state(c, CLIENT_BUSY);
    }
    attach(c, r);
    if (c->carried == c->protocol->requests_max) {
        move_to(&client->conns, &c->link);
    }
    int rc = start(c, r);
    if (rc == 0) {
        return 0;
    }
    detach(r);
    retire(c);
    return rc == UV_ECANCELED ? rc : UV_ENOMEM;
}

/* Whether the connection may wait for the next request, with no other on it. */
static bool worth_keeping(const struct client_conn *c)
{
    return c->generation == c->client->generation &&
           (c->carried > 0 || c->client->stats.idle < c->client->o.max_idle);
}

/* The connection has room again. */
static void make_ready(struct client_conn *c)
{
    struct http_client *client = c->client;
    c->reused = true;
    if (c->carried == 0) {
        set_state(c, CLIENT_IDLE);
        client->stats.idle++;
        net_deadline_set(client->loop, &c->idle_limit, client->o.idle_timeout_ms);
    }
    list_remove(&c->link);
    list_prepend(&client->ready, &c->link);
    if (!list_empty(&client->waiting)) {
        net_task_queue(client->loop, &client->serve);
    }
}

void client_conn_done(struct client_request *r, bool reusable)
{
    struct client_conn *c = r->conn;
    c->client->unreachable = (struct err)ERR_INIT;
    detach(r);
    if (reusable && worth_keeping(c)) {
        make_ready(c);
    } else if (c->carried == 0) {
        c->protocol->finish(c->session);
        forget(c);
    } else {
        move_to(&c->client->conns, &c->link);
    }
    request_end(r, NULL);
}

void client_conn_abandon(struct client_request *r)
{
    struct client_conn *c = r->conn;
    detach(r);
    request_free(r);
    retire(c);
}

/* Takes its requests from a connection that broke; those that can be repeated go to `again`. */
static void take_lost(struct client_conn *c, struct list *again, struct list *lost)
{
    while (!list_empty(&c->requests)) {
        struct client_request *r = LIST_ITEM(c->requests.next, struct client_request, link);
        bool repeat = c->reused && r->repeatable && c->protocol->untouched(c->session, r);
        detach(r);
        list_append(repeat ? again : lost, &r->link);
    }
}

static void on_failed(struct net_deadline *d)
{
    LIST_ITEM(d, struct http_client, failed)->failing = false;
}

static void note_failing(struct http_client *client)
{
    if (!client->failing) {
        client->failing = true;
        client->failing_ms = net_loop_now(client->loop);
    }
    net_deadline_set(client->loop, &client->failed,
                     client->o.connect_timeout_ms + FAILING_PAUSE_MS);
}

/* A connection could not be opened. One of several servers behind an address may be down, so what
 * waits goes on when another can be; when none of those tried at the time could be, it fails. */
static void doubt(struct http_client *client, const struct err *e)
{
    if (client->dialling > 0) {
        client->doubtful = true;
    } else if (!client->succeeded) {
        note_failing(client);
        client->unreachable = *e;
        fail_waiting(client, e);
    }
}

void client_conn_lost(struct client_conn *c, const struct err *e)
{
    struct http_client *client = c->client;
    struct err copy = *e; /* it may live in the parser's or stream's frame */
    bool unreachable = c->state == CLIENT_DIALLING;
    struct list again;
    struct list lost;
    list_init(&again);
    list_init(&lost);
    take_lost(c, &again, &lost);
    retire(c);
    while (!list_empty(&again)) {
        struct client_request *r = LIST_ITEM(again.next, struct client_request, link);
        client->stats.repeated++;
        r->sent = false; /* nothing that counts: it is safe to be repeated */
        if (dial(client, r, &copy) != 0) {
            move_to(&lost, &r->link);
        }
    }
    requests_end(&lost, &copy);
    if (unreachable) {
        doubt(client, &copy);
    }
}

/* ---- dialling ---- */

static void on_open(void *data)
{
    struct client_conn *c = data;
    struct client_request *r = LIST_ITEM(c->requests.next, struct client_request, link);
    struct http_client *client = c->client;
    const struct tls_session *tls = net_stream_tls(c->stream);
    c->proxied = NULL;
    client->stats.resumed += tls != NULL && tls_session_resumed(tls) ? 1 : 0;
    client->dialling--;
    client->established = true;
    client->succeeded = true;
    client->doubtful = false;
    client->failing = false;
    client->unreachable = (struct err)ERR_INIT;
    set_state(c, CLIENT_BUSY);
    net_task_queue(client->loop, &client->serve);
    c->session = c->protocol->open(c);
    int rc = c->session == NULL ? UV_ENOMEM : start(c, r);
    if (rc != 0) {
        struct err e = ERR_INIT;
        rc = rc == UV_ECANCELED ? rc : UV_ENOMEM;
        err_set(&e, rc, "cannot send the request head: %s", err_text(rc));
        client_conn_lost(c, &e);
        return;
    }
    r->x.handlers->on_drain(&r->x);
}

static void on_dial_error(void *data, const struct err *e)
{
    struct client_conn *c = data;
    c->proxied = NULL;
    c->client->stats.failed++;
    client_conn_lost(c, e);
}

/* Until the protocol has its own. */
static const struct net_stream_handlers dial_handlers = {
    .on_open = on_open,
    .on_error = on_dial_error,
};

/* Opens a connection for the request. */
static int dial(struct http_client *client, struct client_request *r, struct err *e)
{
    struct client_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return err_memory(e);
    }
    struct net_dial_options o = {
        .host = client->o.host,
        .port = client->o.port,
        .path = client->o.path,
        .gate = client->o.gate,
        .tls = r->upgrade && client->tls_upgrade != NULL ? client->tls_upgrade : client->tls,
        .connect_timeout_ms = client->o.connect_timeout_ms,
        .user_timeout_ms = client->o.user_timeout_ms,
        .write_timeout_ms = client->o.write_timeout_ms,
    };
    client->stats.dialled++;
    int rc = client->proxy == NULL ? net_dial(client->loop, &o, &dial_handlers, c, &c->stream, e)
                                   : proxy_connect(client->loop, client->proxy, &o, &dial_handlers,
                                                   c, &c->proxied, &c->stream, e);
    if (rc != 0) {
        client->stats.failed++;
        free(c);
        return rc;
    }
    net_stream_set_backlog(c->stream, client->backlog);
    c->client = client;
    c->loop = client->loop;
    c->protocol = &client_h1;
    c->generation = client->generation;
    list_init(&c->requests);
    net_deadline_init(&c->idle_limit, on_idle_limit);
    net_task_init(&c->release, on_release);
    list_append(&client->conns, &c->link);
    attach(c, r);
    client->stats.open++;
    client->succeeded = client->succeeded && client->dialling > 0;
    client->dialling++;
    return 0;
}

/* ---- which connection carries a request ---- */

/* A connection with room that still seems good. */
static struct client_conn *take_ready(struct http_client *client, const struct client_request *r)
{
    while (!list_empty(&client->ready)) {
        struct client_conn *c = LIST_ITEM(client->ready.next, struct client_conn, link);
        if (r->repeatable || c->state != CLIENT_IDLE || net_stream_quiet(c->stream)) {
            return c;
        }
        retire(c);
    }
    return NULL;
}

static bool may_dial(const struct http_client *client, const struct client_request *r)
{
    unsigned most = r->background ? DIALLING_BACKGROUND_MAX : DIALLING_MAX;
    return !client->doubtful &&
           client->dialling < (client->tls != NULL && !client->established ? 1U : most);
}

/* False: it has to wait on. */
static bool serve(struct http_client *client, struct client_request *r)
{
    struct err e = ERR_INIT;
    /* Where there is a queue, background requests would take all that others leave, and keep it. */
    struct client_conn *c = r->background ? NULL : take_ready(client, r);
    if (c == NULL && !may_dial(client, r)) {
        return false;
    }
    int rc = c != NULL ? carry(c, r) : dial(client, r, &e);
    if (rc != 0) {
        err_set(&e, rc, "cannot send the request: %s", err_text(rc));
        request_end(r, &e);
    } else if (c != NULL) {
        r->x.handlers->on_drain(&r->x);
    }
    return true;
}

/* Requests that waited get connections that have room again, or are dialled for. */
static void on_serve(struct net_task *t)
{
    struct http_client *client = LIST_ITEM(t, struct http_client, serve);
    bool more = true;
    while (more && !(list_empty(&client->waiting) && list_empty(&client->background))) {
        struct list *from = list_empty(&client->waiting) ? &client->background : &client->waiting;
        more = serve(client, LIST_ITEM(from->next, struct client_request, link));
    }
}

/* ---- the exchange's operations while no connection carries the request ---- */

static struct client_request *request_of(const struct http_exchange *x)
{
    return LIST_ITEM(x, struct client_request, x);
}

static int send_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
    return -EPROTO; /* it went with http_client_request */
}

static int send_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
    return -EPROTO;
}

static int send_end(struct http_exchange *x)
{
    (void)x;
    return -EPROTO;
}

static bool blocked(const struct http_exchange *x)
{
    (void)x;
    return true;
}

static void pause_in(struct http_exchange *x)
{
    request_of(x)->paused = true;
}

static void resume_in(struct http_exchange *x)
{
    request_of(x)->paused = false;
}

static void abort_exchange(struct http_exchange *x)
{
    struct client_request *r = request_of(x);
    if (r->conn != NULL) {
        client_conn_abandon(r); /* it was dialled for this one */
        return;
    }
    list_remove(&r->link);
    request_free(r);
}

static const struct http_exchange_ops waiting_operations = {
    .send_head = send_head,
    .send_body = send_body,
    .send_end = send_end,
    .blocked = blocked,
    .pause = pause_in,
    .resume = resume_in,
    .abort = abort_exchange,
};

/* ---- the client ---- */

struct http_client *http_client_new(struct net_loop *l, const struct http_client_options *o,
                                    struct err *e)
{
    struct http_client *c = calloc(1, sizeof *c);
    if (c == NULL || (c->host = strdup(o->path != NULL ? o->path : o->host)) == NULL ||
        (o->proxy != NULL && (c->proxy = http_proxy_copy(o->proxy)) == NULL)) {
        free(c != NULL ? c->host : NULL);
        free(c);
        err_memory(e);
        return NULL;
    }
    c->loop = l;
    c->o = *o;
    c->o.proxy = NULL;
    c->o.host = o->path == NULL ? c->host : NULL;
    c->o.path = o->path != NULL ? c->host : NULL;
    c->tls = tls_config_ref(o->tls);
    c->tls_upgrade = tls_config_ref(o->tls_upgrade);
    list_init(&c->ready);
    list_init(&c->conns);
    list_init(&c->waiting);
    list_init(&c->background);
    net_task_init(&c->serve, on_serve);
    net_deadline_init(&c->failed, on_failed);
    return c;
}

/* No request goes on a connection that is there; the unused ones are closed. */
static void close_idle(struct http_client *c)
{
    while (!list_empty(&c->ready)) {
        struct client_conn *conn = LIST_ITEM(c->ready.next, struct client_conn, link);
        if (conn->state == CLIENT_IDLE) {
            retire(conn);
        } else {
            move_to(&c->conns, &conn->link);
        }
    }
}

void http_client_set_backlog(struct http_client *c, struct net_backlog *backlog)
{
    c->backlog = backlog;
}

void http_client_set_tls(struct http_client *c, struct tls_config *tls,
                         struct tls_config *tls_upgrade)
{
    tls_config_unref(c->tls);
    tls_config_unref(c->tls_upgrade);
    c->tls = tls_config_ref(tls);
    c->tls_upgrade = tls_config_ref(tls_upgrade);
    c->generation++;
    c->established = false;
    close_idle(c);
}

/* Heads that are small are neither fitted nor counted. */
static int write_head(struct client_request *r, const struct http_head *head, struct err *e)
{
    if (h1_head_write(head, H1_AFTER_DEFAULT, &r->head) != 0) {
        return err_memory(e);
    }
    if (r->head.cap > BYTE_SHARE_FREE) {
        buf_fit(&r->head);
        if (!byte_share_set(&r->head_share, r->head.cap)) {
            return err_set(e, -EDQUOT, "too many large requests are being handled: try again");
        }
    }
    return 0;
}

static struct client_request *request_new(struct http_client *client, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    struct client_request *r = calloc(1, sizeof *r);
    if (r == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    client->stats.busy++;
    r->client = client;
    byte_share_init(&r->head_share, head->budget);
    buf_init(&r->head, HEAD_OUT_MAX);
    list_init(&r->link);
    r->x.ops = &waiting_operations;
    r->x.handlers = handlers;
    r->x.data = data;
    r->framing = head->framing;
    r->content_length = head->content_length;
    r->is_head = slice_eq(head->method, SLICE("HEAD"));
    r->upgrade = head->upgrade;
    r->background = head->background;
    r->guarded = head->guarded;
    bool safe = r->is_head || slice_eq(head->method, SLICE("GET")) ||
                slice_eq(head->method, SLICE("OPTIONS"));
    r->bodyless = head->framing == HTTP_BODY_NONE ||
                  (head->framing == HTTP_BODY_LENGTH && head->content_length == 0);
    r->repeatable = safe && !head->upgrade && r->bodyless;
    if (write_head(r, head, e) != 0) {
        request_free(r);
        return NULL;
    }
    return r;
}

struct http_exchange *http_client_request(struct http_client *c, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    struct client_request *r = request_new(c, head, handlers, data, e);
    if (r == NULL) {
        return NULL;
    }
    c->stats.requests++;
    bool queue = !list_empty(&c->waiting) || (r->background && !list_empty(&c->background));
    struct client_conn *conn = queue ? NULL : take_ready(c, r);
    int rc = 0;
    if (conn != NULL) {
        rc = carry(conn, r);
    } else if (!queue && may_dial(c, r)) {
        rc = dial(c, r, e);
    } else {
        list_append(r->background ? &c->background : &c->waiting, &r->link);
    }
    if (rc != 0) {
        err_set(e, rc, "cannot send the request: %s", err_text(rc));
        request_free(r);
        return NULL;
    }
    return &r->x;
}

bool http_client_sent(const struct http_exchange *x)
{
    return request_of(x)->sent;
}

int http_client_peer_address(const struct http_exchange *x, struct sockaddr_storage *out)
{
    const struct client_conn *c = request_of(x)->conn;
    bool open = c != NULL && (c->state == CLIENT_BUSY || c->state == CLIENT_IDLE);
    return open ? net_stream_peer_address(c->stream, out) : UV_ENOTCONN;
}

const struct http_client_stats *http_client_stats(const struct http_client *c)
{
    return &c->stats;
}

const char *http_client_unreachable(const struct http_client *c)
{
    return c->unreachable.code == 0 ? NULL : c->unreachable.msg;
}

uint64_t http_client_failing_ms(const struct http_client *c)
{
    return c->failing ? net_loop_now(c->loop) - c->failing_ms : 0;
}

void http_client_free(struct http_client *c)
{
    if (c == NULL) {
        return;
    }
    struct err e = ERR_INIT;
    err_set(&e, UV_ECANCELED, "the client is shutting down");
    close_idle(c);
    while (!list_empty(&c->conns)) {
        struct client_conn *conn = LIST_ITEM(c->conns.next, struct client_conn, link);
        struct list cut;
        list_init(&cut);
        take_lost(conn, &cut, &cut);
        retire(conn);
        requests_end(&cut, &e);
    }
    fail_waiting(c, &e);
    net_task_cancel(&c->serve);
    net_deadline_clear(&c->failed);
    tls_config_unref(c->tls);
    tls_config_unref(c->tls_upgrade);
    http_proxy_free(c->proxy);
    free(c->host);
    free(c);
}
