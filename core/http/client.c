/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <stdlib.h>
#include <string.h>

#include "http/client_internal.h"
#include "http/proxy_connect.h"

/* Connections being opened at a time. Until one TLS session is there that others can resume, one:
 * a full handshake costs fifty times as much as a resumed one. And one where the connection opened
 * last was HTTP/2, for it is likely to be shared by those that wait. */
enum { DIALLING_MAX = 8, DIALLING_BACKGROUND_MAX = 6 };

/* HTTP/2: so many connections with streams left carry large bodies, and take others as far as the
 * server's windows let them. Those with small ones, for which no window has room, are more. */
enum { LARGE_CONNS_MAX = 16, NARROW_CONNS_MAX = 128 };

static unsigned narrow_max(const struct client_request *r)
{
    return r->large ? LARGE_CONNS_MAX : NARROW_CONNS_MAX;
}

/* Attempts that fail belong together when there is no longer between them than one takes, and this.
 */
enum { FAILING_PAUSE_MS = 5000 };

/* Of streams over HTTP/2, above the 64 KiB that each has: bytes. */
enum { WINDOWS_MAX = 16 * 1024 * 1024 };

static void move_all(struct list *from, struct list *to)
{
    while (!list_empty(from)) {
        struct list *node = from->next;
        list_remove(node);
        list_append(to, node);
    }
}

/* ---- requests that wait ---- */

static void fail_waiting(struct http_client *client, const struct err *e)
{
    struct list failing;
    list_init(&failing);
    move_all(&client->particular, &failing);
    move_all(&client->small, &failing);
    move_all(&client->waiting, &failing);
    move_all(&client->background, &failing);
    move_all(&client->uploads, &failing);
    client_requests_end(&failing, e);
}

static struct list *queue_of(struct http_client *client, const struct client_request *r)
{
    if (r->upgrade || r->newer_than > 0) {
        return &client->particular;
    }
    if (!r->bodyless) {
        return r->large ? &client->uploads : &client->small;
    }
    return r->background ? &client->background : &client->waiting;
}

void client_pool_serve(struct http_client *client)
{
    if (!list_empty(&client->particular) || !list_empty(&client->small) ||
        !list_empty(&client->waiting) || !list_empty(&client->background) ||
        !list_empty(&client->uploads)) {
        net_task_queue(client->loop, &client->serve);
    }
}

void client_pool_send_again(struct client_request *r, uint64_t newer_than)
{
    struct http_client *client = r->client;
    client->stats.repeated++;
    r->resent++;
    r->sent = false; /* nothing that counts */
    r->newer_than = newer_than;
    list_append(queue_of(client, r), &r->link);
    net_task_queue(client->loop, &client->serve);
}

/* ---- whether the origin can be reached ---- */

static void tell_reach(const struct http_client *client, const struct err *why)
{
    if (client->o.on_reach != NULL) {
        client->o.on_reach(client->o.notice_data, why);
    }
}

void client_pool_reached(struct http_client *client)
{
    if (client->unreachable.code != 0) {
        client->unreachable = (struct err)ERR_INIT;
        tell_reach(client, NULL);
    }
}

void client_pool_opened(struct http_client *client)
{
    client->succeeded = true;
    client->refused = false;
    client->doubtful = false;
    client->failing = false;
    client_pool_reached(client);
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

void client_pool_unreached(struct http_client *client, const struct err *e)
{
    client->refused = true;
    if (client->dialling == 0 && !client->succeeded) {
        note_failing(client);
        client->unreachable = *e;
        tell_reach(client, e);
    }
}

/* One of several servers behind an address may be down, so what
 * waits goes on when another can be; when none of those tried at the time could be, it fails. */
void client_pool_doubt(struct http_client *client, const struct err *e)
{
    if (client->dialling > 0) {
        client->doubtful = true;
    } else if (!client->succeeded) {
        fail_waiting(client, e);
    }
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

static bool fits(const struct client_conn *c, const struct client_request *r)
{
    return r->bodyless || !c->protocol->shared || c->protocol->fits(c->session, r);
}

/* A large body, on a connection that has one already. */
static bool joins(const struct client_conn *c, const struct client_request *r)
{
    return r->large && c->protocol->shared && c->protocol->has_upload(c->session);
}

/* A connection with room that still seems good. What has come for none of the requests of one that
 * is shared may be anything, and is read soon: it is passed over. `narrow`: how many had no room
 * for its body or, if that is large, have such a one. */
static struct client_conn *take_ready(struct http_client *client, const struct client_request *r,
                                      bool waited, unsigned *narrow)
{
    struct client_conn *apart = NULL;
    struct client_conn *partly = NULL;
    *narrow = 0;
    LIST_FOR_EACH_SAFE(node, after, &client->ready)
    {
        struct client_conn *c = LIST_ITEM(node, struct client_conn, link);
        if (!client_conn_has_room(c) || !suits(c, r, waited)) {
            continue;
        }
        bool fit = fits(c, r);
        bool join = joins(c, r);
        *narrow += join || !(fit || r->large) ? 1 : 0;
        if (!fit) {
            if (join && partly == NULL && c->protocol->shares(c->session, r) && seems_open(c)) {
                partly = c;
            }
            continue;
        }
        if (r->large && c->protocol->shared && !join) {
            apart = apart == NULL && seems_open(c) ? c : apart;
            continue;
        }
        if (r->repeatable || seems_open(c)) {
            return c;
        }
        if (!c->protocol->shared) {
            client_conn_retire(c);
        }
    }
    return *narrow < narrow_max(r) ? apart : partly;
}

static struct client_way *way_of(struct http_client *client, const struct client_request *r)
{
    return r->upgrade && client->upgrades.tls != NULL ? &client->upgrades : &client->all;
}

/* `narrow`: as take_ready has it. */
static bool may_dial(struct http_client *client, const struct client_request *r, unsigned narrow)
{
    const struct client_way *way = way_of(client, r);
    unsigned most = r->background ? DIALLING_BACKGROUND_MAX : DIALLING_MAX;
    bool one = way->shared || (way->tls != NULL && !way->established);
    return !client->doubtful && narrow < narrow_max(r) &&
           (one ? way->dialling == 0 : client->dialling < most);
}

/* False: it has to wait on. */
static bool serve(struct http_client *client, struct client_request *r)
{
    struct err e = ERR_INIT;
    unsigned narrow;
    struct client_conn *c = take_ready(client, r, true, &narrow);
    if (c == NULL && !may_dial(client, r, narrow)) {
        return false;
    }
    int rc = c != NULL ? client_conn_carry(c, r, &e) : client_conn_dial(way_of(client, r), r, &e);
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

/* What one of these needs tells nothing of the next. */
static bool serve_particular(struct http_client *client)
{
    LIST_FOR_EACH_SAFE(node, after, &client->particular)
    {
        if (serve(client, LIST_ITEM(node, struct client_request, link))) {
            return true; /* the list may be another one now */
        }
    }
    return false;
}

/* Requests that waited get connections that have room again, or are dialled for. */
static void on_serve(struct net_task *t)
{
    struct http_client *client = LIST_ITEM(t, struct http_client, serve);
    bool more = true;
    while (more) {
        more = serve_particular(client) || serve_first(client, &client->small) ||
               serve_first(client, &client->waiting) || serve_first(client, &client->uploads) ||
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
    c->windows.max = WINDOWS_MAX;
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
    list_init(&c->small);
    list_init(&c->uploads);
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
            client_conn_retire(conn);
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
    struct list *queue = queue_of(c, r);
    return (queue != &c->particular && !list_empty(queue)) ||
           (r->background && !list_empty(&c->waiting));
}

/* Of small bodies one may have room where those that wait have none. */
static bool may_overtake(struct http_client *c, const struct client_request *r)
{
    return queue_of(c, r) == &c->small && !r->background;
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
    unsigned narrow = 0;
    struct client_conn *conn =
        queue && !may_overtake(c, r) ? NULL : take_ready(c, r, queue, &narrow);
    int rc = 0;
    if (conn != NULL) {
        rc = client_conn_carry(conn, r, e);
    } else if (!queue && may_dial(c, r, narrow)) {
        rc = client_conn_dial(way_of(c, r), r, e);
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

bool http_client_in_doubt(const struct http_client *c)
{
    return c->refused && !c->succeeded;
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
        client_conn_cut(LIST_ITEM(c->conns.next, struct client_conn, link), &e);
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
