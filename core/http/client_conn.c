/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client_conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/state_machine.h"
#include "http/client_h1.h"
#include "http/client_h2.h"
#include "http/client_internal.h"
#include "http/proxy_connect.h"

/* How often what servers refuse is sent again. */
enum { RESENT_MAX = 3 };

static const struct state_machine machine = {
    .object = "upstream connection",
    .states = {[CLIENT_DIALLING] = {"Dialling", STATE(CLIENT_BUSY) | STATE(CLIENT_GONE)},
               [CLIENT_BUSY] = {"Busy", STATE(CLIENT_IDLE) | STATE(CLIENT_GONE)},
               [CLIENT_IDLE] = {"Idle", STATE(CLIENT_BUSY) | STATE(CLIENT_GONE)},
               [CLIENT_GONE] = {"Gone", 0}},
};

static void set_state(struct client_conn *c, enum client_conn_state next)
{
    c->state = state_change(&machine, c->state, next, slice_str(c->client->host));
}

static void move_to(struct list *to, struct list *node)
{
    list_remove(node);
    list_append(to, node);
}

/* ---- its end ---- */

static void on_release(struct net_task *t)
{
    struct client_conn *c = LIST_ITEM(t, struct client_conn, release);
    if (c->session != NULL) {
        c->protocol->free(c->session);
    }
    free(c);
}

static void stop_opening(struct client_conn *c)
{
    if (c->opening) {
        c->opening = false;
        c->way->dialling--;
        c->client->dialling--;
        client_pool_serve(c->client);
    }
}

/* The stream is closed; the memory goes when the handlers have returned. */
static void forget(struct client_conn *c)
{
    struct http_client *client = c->client;
    stop_opening(c);
    client->doubtful = client->doubtful && client->dialling > 0;
    client->stats.idle -= c->state == CLIENT_IDLE ? 1 : 0;
    client->stats.h2 -= c->protocol->shared ? 1 : 0;
    client->stats.open--;
    set_state(c, CLIENT_GONE);
    net_deadline_clear(&c->idle_limit);
    list_remove(&c->link);
    client_pool_serve(client); /* what waits for the window of others may be dialled for */
    net_task_queue(client->loop, &c->release);
}

/* Of what was given up nothing is to arrive once the connection is out of reach. */
static void note_broken_off(struct client_conn *c)
{
    c->broken_off =
        c->broken_off || (c->given_up && c->stream != NULL && net_stream_unacknowledged(c->stream));
}

void client_conn_retire(struct client_conn *c)
{
    if (c->session != NULL) {
        note_broken_off(c);
        c->protocol->close(c->session);
    } else {
        proxy_connect_free(c->proxied);
        net_stream_close(c->stream);
    }
    forget(c);
}

static void on_idle_limit(struct net_deadline *d)
{
    client_conn_retire(LIST_ITEM(d, struct client_conn, idle_limit));
}

/* ---- what it carries ---- */

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
    r->x.ops = &client_request_waiting;
}

static bool may_send(const struct http_client *client, const struct client_request *r)
{
    return !r->guarded || client->o.may_send == NULL || client->o.may_send(client->o.data);
}

bool client_conn_may_send(const struct client_conn *c)
{
    const struct http_client_options *o = &c->client->o;
    return o->may_send == NULL || o->may_send(o->data);
}

/* Hands the request to the protocol. */
static int start(struct client_conn *c, struct client_request *r, struct err *e)
{
    r->x.ops = c->protocol->operations;
    r->sent = true;
    r->kept = c->proved;
    int rc = c->protocol->carry(c->session, r, e);
    if (rc == 0 && r->paused) {
        http_exchange_pause(&r->x);
    }
    return rc == 0 && r->resent > 0 ? client_request_send_kept(r) : rc;
}

/* Whether the connection may wait for the next request, with no other on it. */
static bool worth_keeping(const struct client_conn *c)
{
    const struct http_client *client = c->client;
    return !c->leaving && c->generation == client->generation &&
           (c->state == CLIENT_IDLE || client->stats.idle < client->o.max_idle);
}

static void become_idle(struct client_conn *c)
{
    set_state(c, CLIENT_IDLE);
    c->client->stats.idle++;
    net_deadline_set(c->client->loop, &c->idle_limit, c->client->o.idle_timeout_ms);
}

bool client_conn_has_room(const struct client_conn *c)
{
    return !c->leaving && c->generation == c->client->generation &&
           c->protocol->room(c->session) > 0;
}

/* What it carries, or has room for, has changed: it goes where such connections are. */
static void place(struct client_conn *c)
{
    struct http_client *client = c->client;
    if (c->carried == 0 && !worth_keeping(c)) {
        note_broken_off(c);
        (c->broken_off ? c->protocol->close : c->protocol->finish)(c->session);
        forget(c);
        return;
    }
    if (c->carried == 0 && c->state == CLIENT_BUSY) {
        become_idle(c);
    }
    list_remove(&c->link);
    if (client_conn_has_room(c)) {
        list_prepend(&client->ready, &c->link);
    } else {
        list_append(&client->conns, &c->link);
    }
    client_pool_serve(client);
}

int client_conn_carry(struct client_conn *c, struct client_request *r, struct err *e)
{
    struct http_client *client = c->client;
    if (!may_send(client, r)) {
        return UV_ECANCELED;
    }
    if (c->state == CLIENT_IDLE) {
        net_deadline_clear(&c->idle_limit);
        client->stats.idle--;
        set_state(c, CLIENT_BUSY);
    }
    attach(c, r);
    int rc = start(c, r, e);
    if (rc == 0) {
        if (!client_conn_has_room(c)) {
            move_to(&client->conns, &c->link);
        }
        return 0;
    }
    if (c->protocol->shared) {
        c->protocol->leave(c->session, r);
        detach(r);
        place(c);
        return rc;
    }
    detach(r);
    client_conn_retire(c);
    return UV_ENOMEM;
}

/* ---- whether it is of use ---- */

struct http_probe {
    struct client_conn *conn;
    struct client_request *sent;
};

bool client_conn_can_probe(const struct client_conn *c)
{
    return c->client->o.probe != NULL;
}

struct client_request *client_conn_probe(struct client_conn *c)
{
    struct http_probe p = {.conn = c};
    c->client->o.probe(c->client->o.probe_data, &p);
    return p.sent;
}

static void drop_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
}

static void drop_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void drop_event(struct http_exchange *x)
{
    (void)x;
}

/* That anything comes of the answer is noticed where it comes. */
static const struct http_exchange_handlers probe_handlers = {
    .on_head = drop_head, .on_body = drop_body, .on_end = drop_event, .on_drain = drop_event};

void http_probe_send(struct http_probe *p, const struct http_head *head)
{
    struct client_conn *c = p->conn;
    struct err e = ERR_INIT;
    struct client_request *r = client_request_new(c->client, head, &probe_handlers, NULL, &e);
    if (r == NULL) {
        return;
    }
    r->probe = true;
    attach(c, r);
    if (start(c, r, &e) != 0) {
        c->protocol->leave(c->session, r);
        detach(r);
        client_request_free(r);
        return;
    }
    p->sent = r;
}

void client_conn_note_stalled(struct client_conn *c)
{
    c->client->stats.stalled++;
    log_warn("giving up a connection: the server answers PINGs on it, but no requests",
             log_str("server", c->client->host), log_num("requests", c->carried));
}

/* ---- the ends of requests ---- */

void client_conn_answered(struct client_conn *c)
{
    c->proved = true;
    client_pool_reached(c->client);
}

void client_conn_done(struct client_request *r, bool reusable)
{
    struct client_conn *c = r->conn;
    client_pool_reached(c->client);
    detach(r);
    c->proved = true;
    c->leaving = c->leaving || !reusable;
    place(c);
    client_request_end(r, NULL);
}

void client_conn_abandon(struct client_request *r)
{
    struct client_conn *c = r->conn;
    detach(r);
    client_request_free(r);
    client_conn_retire(c);
}

void client_conn_dropped(struct client_request *r)
{
    struct client_conn *c = r->conn;
    c->given_up = true;
    detach(r);
    client_request_free(r);
    place(c);
}

void client_conn_changed(struct client_conn *c)
{
    place(c);
}

void client_conn_failed(struct client_request *r, const struct err *e, bool refused)
{
    struct client_conn *c = r->conn;
    struct err copy = *e;
    /* Where a server leaves one connection it may be about to leave others. */
    uint64_t newer_than = c->leaving ? c->client->stats.dialled : c->number;
    c->given_up = c->given_up || !refused;
    detach(r);
    place(c);
    r->sent = r->sent && !refused;
    if (refused && !r->probe && !r->taken && r->resent < RESENT_MAX) {
        client_pool_send_again(r, newer_than);
    } else {
        client_request_end(r, &copy);
    }
}

/* ---- it broke ---- */

static bool is_answered(const struct client_conn *c, const struct client_request *r)
{
    return c->session != NULL && c->protocol->shared && c->protocol->answered(c->session, r);
}

/* Takes its requests from a connection that broke; those that can be repeated go to `again`. Those
 * that are answered stay, unless `all` are taken. */
static void take_lost(struct client_conn *c, bool all, struct list *again, struct list *lost)
{
    LIST_FOR_EACH_SAFE(node, after, &c->requests)
    {
        struct client_request *r = LIST_ITEM(node, struct client_request, link);
        if (!all && is_answered(c, r)) {
            continue;
        }
        bool repeat = r->kept && r->repeatable && !r->probe && r->resent == 0 &&
                      c->protocol->untouched(c->session, r);
        if (c->session != NULL) {
            c->protocol->leave(c->session, r);
        }
        detach(r);
        list_append(repeat ? again : lost, &r->link);
    }
}

/* At once, or when what it has to tell is told. */
static void retire_lost(struct client_conn *c)
{
    if (c->carried == 0) {
        client_conn_retire(c);
    } else {
        c->leaving = true;
        move_to(&c->client->conns, &c->link);
    }
}

void client_conn_lost(struct client_conn *c, const struct err *e)
{
    struct http_client *client = c->client;
    struct err copy = *e; /* it may live in the parser's or stream's frame */
    bool unreachable = c->opening;
    struct list again;
    struct list lost;
    list_init(&again);
    list_init(&lost);
    take_lost(c, c->broken_off, &again, &lost);
    client->stats.failed += unreachable ? 1 : 0;
    retire_lost(c);
    if (unreachable) {
        client_pool_unreached(client, &copy);
    }
    while (!list_empty(&again)) {
        struct client_request *r = LIST_ITEM(again.next, struct client_request, link);
        list_remove(&r->link);
        client_pool_send_again(r, client->stats.dialled);
    }
    client_requests_end(&lost, &copy);
    if (unreachable) {
        client_pool_doubt(client, &copy);
    }
}

void client_conn_cut(struct client_conn *c, const struct err *e)
{
    struct list cut;
    list_init(&cut);
    take_lost(c, true, &cut, &cut);
    client_conn_retire(c);
    client_requests_end(&cut, e);
}

/* ---- dialling ---- */

void client_conn_opened(struct client_conn *c)
{
    struct http_client *client = c->client;
    stop_opening(c);
    if (c->generation == client->generation) {
        c->way->established = true;
        c->way->shared = c->protocol->shared;
    }
    client_pool_opened(client);
}

static bool speaks_h2(const struct net_stream *s)
{
    const struct tls_session *tls = net_stream_tls(s);
    const char *agreed = tls == NULL ? NULL : tls_session_alpn(tls);
    return agreed != NULL && strcmp(agreed, client_h2.name) == 0;
}

/* The connection is good, but not for the request that it was dialled for. */
static void end_unsent(struct client_request *r, const struct err *e)
{
    struct client_conn *c = r->conn;
    r->sent = false;
    detach(r);
    place(c);
    client_request_end(r, e);
}

static void lose_memory(struct client_conn *c)
{
    struct err e = ERR_INIT;
    (void)err_memory(&e);
    client_conn_lost(c, &e);
}

static void start_first(struct client_conn *c, struct client_request *r)
{
    struct err e = ERR_INIT;
    if (r->upgrade && c->protocol->shared) {
        err_set(&e, UV_EPROTO, "HTTP/2 was agreed on, which has no upgrades");
        end_unsent(r, &e);
        return;
    }
    if (!may_send(c->client, r)) {
        client_request_explain(&e, UV_ECANCELED);
        end_unsent(r, &e);
        return;
    }
    int rc = start(c, r, &e);
    if (rc == 0) {
        r->x.handlers->on_drain(&r->x);
    } else if (c->protocol->shared) {
        client_request_explain(&e, rc);
        c->protocol->leave(c->session, r);
        end_unsent(r, &e);
    } else {
        lose_memory(c);
    }
}

static void on_open(void *data)
{
    struct client_conn *c = data;
    struct client_request *r = LIST_ITEM(c->requests.next, struct client_request, link);
    struct http_client *client = c->client;
    const struct tls_session *tls = net_stream_tls(c->stream);
    c->proxied = NULL;
    client->stats.resumed += tls != NULL && tls_session_resumed(tls) ? 1 : 0;
    c->protocol = speaks_h2(c->stream) ? &client_h2 : &client_h1;
    client->stats.h2 += c->protocol->shared ? 1 : 0;
    set_state(c, CLIENT_BUSY);
    if (!c->protocol->shared) {
        client_conn_opened(c);
    }
    c->session = c->protocol->open(c);
    if (c->session == NULL) {
        lose_memory(c);
    } else {
        start_first(c, r);
    }
}

static void on_dial_error(void *data, const struct err *e)
{
    struct client_conn *c = data;
    c->proxied = NULL;
    client_conn_lost(c, e);
}

/* Until the protocol has its own. */
static const struct net_stream_handlers dial_handlers = {
    .on_open = on_open,
    .on_error = on_dial_error,
};

int client_conn_dial(struct client_way *way, struct client_request *r, struct err *e)
{
    struct client_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return err_memory(e);
    }
    struct http_client *client = r->client;
    struct net_dial_options o = {
        .host = client->o.host,
        .port = client->o.port,
        .path = client->o.path,
        .gate = client->o.gate,
        .tls = way->tls,
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
    c->way = way;
    c->loop = client->loop;
    c->protocol = &client_h1;
    c->windows = &client->windows;
    c->backlog = client->backlog;
    c->write_timeout_ms = client->o.write_timeout_ms;
    c->number = client->stats.dialled;
    c->opening = true;
    c->generation = client->generation;
    list_init(&c->requests);
    net_deadline_init(&c->idle_limit, on_idle_limit);
    net_task_init(&c->release, on_release);
    list_append(&client->conns, &c->link);
    attach(c, r);
    client->stats.open++;
    client->succeeded = client->succeeded && client->dialling > 0;
    client->dialling++;
    way->dialling++;
    return 0;
}
