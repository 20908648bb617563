/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/state_machine.h"
#include "http/client_h1.h"
#include "http/client_h2.h"
#include "http/client_internal.h"
#include "http/proxy_connect.h"

/* Connections being opened at a time. Until one TLS session is there that others can resume, one:
 * a full handshake costs fifty times as much as a resumed one. And one where the connection opened
 * last was HTTP/2, for it is likely to be shared by those that wait. */
enum { DIALLING_MAX = 8, DIALLING_BACKGROUND_MAX = 6 };

/* How often what servers refuse is sent again. */
enum { RESENT_MAX = 3 };

/* Connections with HTTP/2 whose streams may keep much. */
enum { WIDE_MAX = 2 };

/* Attempts that fail belong together when there is no longer between them than one takes, and this.
 */
enum { FAILING_PAUSE_MS = 5000 };

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

static void move_all(struct list *from, struct list *to)
{
    while (!list_empty(from)) {
        move_to(to, from->next);
    }
}

/* ---- requests that wait ---- */

static void fail_waiting(struct http_client *client, const struct err *e)
{
    struct list failing;
    list_init(&failing);
    move_all(&client->particular, &failing);
    move_all(&client->waiting, &failing);
    move_all(&client->background, &failing);
    client_requests_end(&failing, e);
}

static struct list *queue_of(struct http_client *client, const struct client_request *r)
{
    if (r->upgrade || r->newer_than > 0) {
        return &client->particular;
    }
    return r->background ? &client->background : &client->waiting;
}

static void serve_soon(struct http_client *client)
{
    if (!list_empty(&client->particular) || !list_empty(&client->waiting) ||
        !list_empty(&client->background)) {
        net_task_queue(client->loop, &client->serve);
    }
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

static void stop_opening(struct client_conn *c)
{
    if (c->opening) {
        c->opening = false;
        c->way->dialling--;
        c->client->dialling--;
        serve_soon(c->client);
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
    net_task_queue(client->loop, &c->release);
}

/* Of what was given up nothing is to arrive once the connection is out of reach. */
static void note_broken_off(struct client_conn *c)
{
    c->broken_off =
        c->broken_off || (c->given_up && c->stream != NULL && net_stream_unacknowledged(c->stream));
}

static void retire(struct client_conn *c)
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

static bool has_room(const struct client_conn *c)
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
    if (has_room(c)) {
        list_prepend(&client->ready, &c->link);
        serve_soon(client);
    } else {
        list_append(&client->conns, &c->link);
    }
}

/* Puts the request on a connection that is open and has room. */
static int carry(struct client_conn *c, struct client_request *r, struct err *e)
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
        if (!has_room(c)) {
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
    retire(c);
    return UV_ENOMEM;
}

static void note_reached(struct http_client *client)
{
    if (client->unreachable.code != 0) {
        client->unreachable = (struct err)ERR_INIT;
    }
}

void client_conn_answered(struct client_conn *c)
{
    c->proved = true;
    note_reached(c->client);
}

void client_conn_done(struct client_request *r, bool reusable)
{
    struct client_conn *c = r->conn;
    note_reached(c->client);
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
    retire(c);
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

/* The request, which is on no list, is sent once more, on a connection that is dialled from now on:
 * others to the same server may be about to break, too. */
static void send_again(struct client_request *r)
{
    struct http_client *client = r->client;
    client->stats.repeated++;
    r->resent++;
    r->sent = false; /* nothing that counts */
    r->newer_than = client->stats.dialled;
    list_append(queue_of(client, r), &r->link);
    net_task_queue(client->loop, &client->serve);
}

void client_conn_failed(struct client_request *r, const struct err *e, bool refused)
{
    struct client_conn *c = r->conn;
    struct err copy = *e;
    c->given_up = c->given_up || !refused;
    detach(r);
    place(c);
    r->sent = r->sent && !refused;
    if (refused && !r->taken && r->resent < RESENT_MAX) {
        send_again(r);
    } else {
        client_request_end(r, &copy);
    }
}

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
        bool repeat =
            r->kept && r->repeatable && r->resent == 0 && c->protocol->untouched(c->session, r);
        if (c->session != NULL) {
            c->protocol->leave(c->session, r);
        }
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

/* At once, or when what it has to tell is told. */
static void retire_lost(struct client_conn *c)
{
    if (c->carried == 0) {
        retire(c);
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
    while (!list_empty(&again)) {
        struct client_request *r = LIST_ITEM(again.next, struct client_request, link);
        list_remove(&r->link);
        send_again(r);
    }
    client_requests_end(&lost, &copy);
    if (unreachable) {
        doubt(client, &copy);
    }
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
    client->succeeded = true;
    client->doubtful = false;
    client->failing = false;
    note_reached(client);
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
    c->narrow = client->stats.h2 >= WIDE_MAX;
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

static struct client_way *way_of(struct http_client *client, const struct client_request *r)
{
    return r->upgrade && client->upgrades.tls != NULL ? &client->upgrades : &client->all;
}

/* Opens a connection for the request. */
static int dial(struct http_client *client, struct client_request *r, struct err *e)
{
    struct client_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return err_memory(e);
    }
    struct client_way *way = way_of(client, r);
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

/* ---- which connection carries a request ---- */

/* `waited`: where there is a queue, background requests would take all connections that others
 * leave, and keep them. */
static bool suits(const struct client_conn *c, const struct client_request *r, bool waited)
{
    return !(r->upgrade && c->protocol->shared) && c->number > r->newer_than &&
           !(waited && r->background && !c->protocol->shared) &&
           !(r->guarded && net_stream_stuck(c->stream));
}

/* As far as the kernel knows. */
static bool seems_open(const struct client_conn *c)
{
    return c->state == CLIENT_IDLE ? net_stream_quiet(c->stream) : !net_stream_peer_left(c->stream);
}

/* A connection with room that still seems good. What has come for none of the requests of one that
 * is shared may be anything, and is read soon: it is passed over. */
static struct client_conn *take_ready(struct http_client *client, const struct client_request *r,
                                      bool waited)
{
    LIST_FOR_EACH_SAFE(node, after, &client->ready)
    {
        struct client_conn *c = LIST_ITEM(node, struct client_conn, link);
        if (!suits(c, r, waited)) {
            continue;
        }
        if (r->repeatable || seems_open(c)) {
            return c;
        }
        if (!c->protocol->shared) {
            retire(c);
        }
    }
    return NULL;
}

static bool may_dial(struct http_client *client, const struct client_request *r)
{
    const struct client_way *way = way_of(client, r);
    unsigned most = r->background ? DIALLING_BACKGROUND_MAX : DIALLING_MAX;
    bool one = way->shared || (way->tls != NULL && !way->established);
    return !client->doubtful && (one ? way->dialling == 0 : client->dialling < most);
}

/* False: it has to wait on. */
static bool serve(struct http_client *client, struct client_request *r)
{
    struct err e = ERR_INIT;
    struct client_conn *c = take_ready(client, r, true);
    if (c == NULL && !may_dial(client, r)) {
        return false;
    }
    int rc = c != NULL ? carry(c, r, &e) : dial(client, r, &e);
    if (rc != 0) {
        client_request_explain(&e, rc);
        client_request_end(r, &e);
    } else if (c != NULL) {
        r->x.handlers->on_drain(&r->x);
    }
    return true;
}

static bool serve_first(struct http_client *client, struct list *from)
{
    return !list_empty(from) && serve(client, LIST_ITEM(from->next, struct client_request, link));
}

/* Requests that waited get connections that have room again, or are dialled for. */
static void on_serve(struct net_task *t)
{
    struct http_client *client = LIST_ITEM(t, struct http_client, serve);
    bool more = true;
    while (more) {
        more = serve_first(client, &client->particular) || serve_first(client, &client->waiting) ||
               (list_empty(&client->waiting) && serve_first(client, &client->background));
    }
}

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
    c->all.tls = tls_config_ref(o->tls);
    c->upgrades.tls = tls_config_ref(o->tls_upgrade);
    list_init(&c->ready);
    list_init(&c->conns);
    list_init(&c->particular);
    list_init(&c->waiting);
    list_init(&c->background);
    net_task_init(&c->serve, on_serve);
    net_deadline_init(&c->failed, on_failed);
    return c;
}

/* No request goes on a connection that is there; the unused ones are closed. */
static void close_idle(struct http_client *c)
{
    move_all(&c->ready, &c->conns);
    LIST_FOR_EACH_SAFE(node, after, &c->conns)
    {
        struct client_conn *conn = LIST_ITEM(node, struct client_conn, link);
        if (conn->state == CLIENT_IDLE) {
            retire(conn);
        }
    }
}

void http_client_set_backlog(struct http_client *c, struct net_backlog *backlog)
{
    c->backlog = backlog;
}

static void set_way_tls(struct client_way *w, struct tls_config *tls)
{
    struct tls_config *before = w->tls;
    w->tls = tls_config_ref(tls);
    w->established = false;
    w->shared = false;
    tls_config_unref(before);
}

void http_client_set_tls(struct http_client *c, struct tls_config *tls,
                         struct tls_config *tls_upgrade)
{
    set_way_tls(&c->all, tls);
    set_way_tls(&c->upgrades, tls_upgrade);
    c->generation++;
    close_idle(c);
}

/* Behind those that wait for the same. */
static bool must_queue(struct http_client *c, const struct client_request *r)
{
    return !list_empty(queue_of(c, r)) || (r->background && !list_empty(&c->waiting));
}

struct http_exchange *http_client_request(struct http_client *c, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    struct client_request *r = client_request_new(c, head, handlers, data, e);
    if (r == NULL) {
        return NULL;
    }
    if (e != NULL) {
        e->code = 0;
    }
    c->stats.requests++;
    bool queue = must_queue(c, r);
    struct client_conn *conn = queue ? NULL : take_ready(c, r, false);
    int rc = 0;
    if (conn != NULL) {
        rc = carry(conn, r, e);
    } else if (!queue && may_dial(c, r)) {
        rc = dial(c, r, e);
    } else {
        list_append(queue_of(c, r), &r->link);
    }
    if (rc != 0) {
        client_request_explain(e, rc);
        client_request_free(r);
        return NULL;
    }
    return &r->x;
}

bool http_client_sent(const struct http_exchange *x)
{
    return client_request_of(x)->sent;
}

bool http_client_on_its_way(const struct http_exchange *x)
{
    const struct client_request *r = client_request_of(x);
    return r->sent && r->conn != NULL && r->conn->protocol->shared && r->conn->stream != NULL &&
           net_stream_unacknowledged(r->conn->stream);
}

int http_client_peer_address(const struct http_exchange *x, struct sockaddr_storage *out)
{
    const struct client_conn *c = client_request_of(x)->conn;
    bool open =
        c != NULL && c->stream != NULL && (c->state == CLIENT_BUSY || c->state == CLIENT_IDLE);
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

static struct client_conn *find_shared(struct list *of)
{
    LIST_FOR_EACH(node, of)
    {
        struct client_conn *c = LIST_ITEM(node, struct client_conn, link);
        if (c->session != NULL && c->protocol->shared) {
            return c;
        }
    }
    return NULL;
}

void http_client_break_off(struct http_client *c)
{
    struct err e = ERR_INIT;
    struct client_conn *conn;
    err_set(&e, UV_ECANCELED, "the connection was broken off");
    while ((conn = find_shared(&c->ready)) != NULL || (conn = find_shared(&c->conns)) != NULL) {
        conn->broken_off = true;
        client_conn_lost(conn, &e);
    }
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
        take_lost(conn, true, &cut, &cut);
        retire(conn);
        client_requests_end(&cut, &e);
    }
    fail_waiting(c, &e);
    net_task_cancel(&c->serve);
    net_deadline_clear(&c->failed);
    tls_config_unref(c->all.tls);
    tls_config_unref(c->upgrades.tls);
    http_proxy_free(c->proxy);
    free(c->host);
    free(c);
}
