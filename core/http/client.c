/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "http/h1_conn.h"
#include "net/deadline.h"

/* Connections being opened at a time. Until one TLS session is there that others can resume, one:
 * a full handshake costs fifty times as much as a resumed one. */
enum { HEAD_OUT_MAX = 4 * 1024 * 1024, DIALLING_MAX = 8, DIALLING_BACKGROUND_MAX = 6 };

struct http_client {
    struct net_loop *loop;
    struct http_client_options o;
    char *host; /* or the path of a Unix socket */
    struct tls_config *tls;
    unsigned generation;    /* grows when the TLS settings change */
    struct list idle;       /* connections, the one used last in front */
    struct list conns;      /* all others */
    struct list waiting;    /* requests for which no connection may be opened yet */
    struct list background; /* the background ones of them */
    struct net_task serve;
    unsigned dialling;
    bool established; /* a connection was opened with these TLS settings */
    struct http_client_stats stats;
};

/* DIALLING -> BUSY -> IDLE -> BUSY ... -> GONE */
enum conn_state { CONN_DIALLING, CONN_BUSY, CONN_IDLE, CONN_GONE };

struct request;

struct conn {
    struct h1_conn h1;
    struct http_client *client;
    struct request *request; /* NULL while idle or gone */
    struct list link;
    struct net_deadline idle_limit;
    struct net_task turn; /* what may not happen inside a call of the user's */
    enum conn_state state;
    unsigned generation;
    bool reused;     /* it has carried a request before this one */
    bool keep_alive; /* as the response says */
};

/* A request lives from http_client_request to its on_close or abort, on one connection or, when
 * repeated, on a second. */
struct request {
    struct http_exchange x;
    struct conn *conn; /* NULL while waiting */
    struct list link;  /* in client->waiting or client->background */
    struct buf head;   /* kept until the response begins */
    enum http_framing framing;
    uint64_t content_length;
    bool is_head;
    bool bodyless; /* complete with its head; the user's end is a formality */
    bool repeatable;
    bool upgrade;
    bool background;
};

static const struct http_exchange_ops exchange_ops;
static int dial(struct http_client *client, struct request *r, struct err *e);

static void request_free(struct request *r)
{
    buf_reset(&r->head);
    free(r);
}

/* The connection is closed in whatever way; its memory goes when the handlers have returned. */
static void retire(struct conn *c)
{
    if (c->state == CONN_GONE) {
        return;
    }
    h1_conn_close(&c->h1);
    if (c->state == CONN_DIALLING) {
        c->client->dialling--;
        net_task_queue(c->client->loop, &c->client->serve);
    }
    c->client->stats.idle -= c->state == CONN_IDLE ? 1 : 0;
    c->client->stats.open--;
    c->state = CONN_GONE;
    net_deadline_clear(&c->idle_limit);
    list_remove(&c->link);
    net_task_queue(c->client->loop, &c->turn);
}

static void end_request(struct request *r, const struct err *e)
{
    if (r->x.handlers->on_close != NULL) {
        r->x.handlers->on_close(&r->x, e);
    }
    request_free(r);
}

static void on_idle_limit(struct net_deadline *d)
{
    retire(LIST_ITEM(d, struct conn, idle_limit));
}

static void make_idle(struct conn *c)
{
    struct http_client *client = c->client;
    if (!c->keep_alive || c->h1.in != H1_IN_DONE || c->generation != client->generation ||
        client->stats.idle >= client->o.max_idle || c->h1.held.len > 0) {
        h1_conn_finish(&c->h1); /* a tunnel's last bytes may still be queued */
        retire(c);
        return;
    }
    c->state = CONN_IDLE;
    c->reused = true;
    client->stats.idle++;
    list_remove(&c->link);
    list_prepend(&client->idle, &c->link);
    net_deadline_set(client->loop, &c->idle_limit, client->o.idle_timeout_ms);
    h1_conn_next(&c->h1);
    if (!list_empty(&client->waiting)) {
        net_task_queue(client->loop, &client->serve);
    }
}

static void on_turn(struct net_task *t)
{
    struct conn *c = LIST_ITEM(t, struct conn, turn);
    if (c->state == CONN_GONE) {
        h1_conn_deinit(&c->h1);
        free(c);
        return;
    }
    struct request *r = c->request;
    if (c->state == CONN_BUSY && r != NULL && h1_conn_done(&c->h1)) {
        c->request = NULL;
        make_idle(c);
        end_request(r, NULL);
    } else if (c->state == CONN_BUSY && r != NULL && c->h1.in == H1_IN_DONE) {
        /* Answered before the request was complete (413, say): the connection cannot be kept. */
        c->request = NULL;
        retire(c);
        end_request(r, NULL);
    }
}

/* Sends the kept head; from then on the connection carries the request. */
static int send_request(struct conn *c)
{
    struct request *r = c->request;
    c->state = CONN_BUSY;
    c->keep_alive = false;
    h1_parser_expect(c->h1.parser, r->is_head);
    int rc = h1_conn_send_head(&c->h1, buf_slice(&r->head), r->framing, r->content_length);
    return rc == 0 && r->bodyless ? h1_conn_send_end(&c->h1) : rc;
}

static void move_all(struct list *from, struct list *to)
{
    while (!list_empty(from)) {
        struct list *node = from->next;
        list_remove(node);
        list_append(to, node);
    }
}

/* What one could not reach, those that waited for it cannot either. */
static void fail_waiting(struct http_client *client, const struct err *e)
{
    struct list failing;
    list_init(&failing);
    move_all(&client->waiting, &failing);
    move_all(&client->background, &failing);
    while (!list_empty(&failing)) {
        struct request *r = LIST_ITEM(failing.next, struct request, link);
        list_remove(&r->link);
        end_request(r, e);
    }
}

/* The connection broke under its request, if it carried one. */
static void lose(struct conn *c, const struct err *e)
{
    struct http_client *client = c->client;
    struct request *r = c->request;
    bool again =
        r != NULL && c->reused && r->repeatable && r->head.len > 0 && h1_parser_idle(c->h1.parser);
    struct err copy = *e; /* it may live in the parser's or stream's frame */
    bool unreachable = c->state == CONN_DIALLING;
    c->request = NULL;
    retire(c);
    if (r != NULL) {
        r->conn = NULL;
    }
    if (again) {
        client->stats.repeated++;
        again = dial(client, r, &copy) == 0;
    }
    if (r != NULL && !again) {
        end_request(r, &copy);
    }
    if (unreachable) {
        fail_waiting(client, &copy);
    }
}

static void on_open(void *data)
{
    struct conn *c = data;
    struct request *r = c->request;
    struct http_client *client = c->client;
    const struct tls_session *tls = net_stream_tls(c->h1.stream);
    client->stats.resumed += tls != NULL && tls_session_resumed(tls) ? 1 : 0;
    client->dialling--;
    client->established = true;
    c->state = CONN_BUSY;
    net_task_queue(client->loop, &client->serve);
    h1_conn_start(&c->h1);
    if (send_request(c) != 0) {
        struct err e = ERR_INIT;
        err_set(&e, UV_ENOMEM, "cannot send the request head");
        lose(c, &e);
        return;
    }
    r->x.handlers->on_drain(&r->x);
}

static void on_head(void *data, const struct http_head *head)
{
    struct conn *c = data;
    struct request *r = c->request;
    if (r == NULL) {
        struct err e = ERR_INIT;
        err_set(&e, UV_EPROTO, "the server sent a response nobody asked for");
        lose(c, &e);
        return;
    }
    c->keep_alive = head->keep_alive && head->framing != HTTP_BODY_CLOSE;
    buf_reset(&r->head);
    bool agreed = head->status == 101 && r->upgrade;
    if (head->status == 101 && !agreed) {
        struct err e = ERR_INIT;
        err_set(&e, UV_EPROTO, "the server switched protocols without being asked to");
        lose(c, &e);
        return;
    }
    bool long_lived = head->framing == HTTP_BODY_CHUNKED || head->framing == HTTP_BODY_CLOSE;
    r->x.handlers->on_head(&r->x, head);
    if (c->state != CONN_BUSY) {
        return;
    }
    if (agreed) {
        h1_conn_go_raw(&c->h1);
    } else if (long_lived) {
        h1_parser_release_head(c->h1.parser); /* perhaps a watch, open for long */
    }
}

static void on_body(void *data, struct slice bytes)
{
    struct conn *c = data;
    if (c->request != NULL) {
        c->request->x.handlers->on_body(&c->request->x, bytes);
    }
}

static void on_end(void *data)
{
    struct conn *c = data;
    if (c->request != NULL) {
        c->request->x.handlers->on_end(&c->request->x);
        net_task_queue(c->client->loop, &c->turn);
    }
}

static void on_drain(void *data)
{
    struct conn *c = data;
    if (c->request != NULL) {
        c->request->x.handlers->on_drain(&c->request->x);
    }
}

static void on_eof(void *data)
{
    struct conn *c = data;
    struct err e = ERR_INIT;
    if (c->h1.in == H1_IN_DONE) {
        c->keep_alive = false; /* answered; the turn that is queued ends it */
        return;
    }
    err_set(&e, UV_EOF, "the server closed the connection");
    lose(c, &e);
}

static void on_error(void *data, const struct err *e)
{
    struct conn *c = data;
    if (c->state == CONN_DIALLING) {
        c->client->stats.failed++;
    }
    lose(c, e);
}

static const struct h1_conn_handlers conn_handlers = {
    .on_open = on_open,
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_eof = on_eof,
    .on_error = on_error,
};

/* Opens a connection for the request. */
static int dial(struct http_client *client, struct request *r, struct err *e)
{
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL || h1_conn_init(&c->h1, client->loop, NULL, H1_RESPONSES, &h1_limits_default,
                                  &conn_handlers, c) != 0) {
        free(c);
        return err_memory(e);
    }
    struct net_dial_options o = {
        .host = client->o.host,
        .port = client->o.port,
        .path = client->o.path,
        .tls = client->tls,
        .connect_timeout_ms = client->o.connect_timeout_ms,
        .user_timeout_ms = client->o.user_timeout_ms,
        .write_timeout_ms = client->o.write_timeout_ms,
    };
    client->stats.dialled++;
    int rc = net_dial(client->loop, &o, h1_conn_stream_handlers(), &c->h1, &c->h1.stream, e);
    if (rc != 0) {
        client->stats.failed++;
        h1_conn_deinit(&c->h1);
        free(c);
        return rc;
    }
    c->client = client;
    c->state = CONN_DIALLING;
    c->generation = client->generation;
    c->request = r;
    r->conn = c;
    net_deadline_init(&c->idle_limit, on_idle_limit);
    net_task_init(&c->turn, on_turn);
    list_append(&client->conns, &c->link);
    client->stats.open++;
    client->dialling++;
    return 0;
}

/* An unused connection that still seems good; it leaves the idle list. */
static struct conn *take_idle(struct http_client *client, const struct request *r)
{
    while (!list_empty(&client->idle)) {
        struct conn *c = LIST_ITEM(client->idle.next, struct conn, link);
        if (!r->repeatable && !net_stream_quiet(c->h1.stream)) {
            retire(c);
            continue;
        }
        list_remove(&c->link);
        list_append(&client->conns, &c->link);
        net_deadline_clear(&c->idle_limit);
        client->stats.idle--;
        c->state = CONN_BUSY;
        return c;
    }
    return NULL;
}

/* Puts the request on a connection that is open. */
static int carry(struct conn *c, struct request *r)
{
    c->request = r;
    r->conn = c;
    if (send_request(c) == 0) {
        return 0;
    }
    c->request = NULL;
    r->conn = NULL;
    retire(c);
    return UV_ENOMEM;
}

static bool may_dial(const struct http_client *client, const struct request *r)
{
    unsigned most = r->background ? DIALLING_BACKGROUND_MAX : DIALLING_MAX;
    return client->dialling < (client->tls != NULL && !client->established ? 1U : most);
}

/* False: it has to wait on. */
static bool serve(struct http_client *client, struct request *r)
{
    struct err e = ERR_INIT;
    /* Where there is a queue, background requests would take all that others leave, and keep it. */
    struct conn *c = r->background ? NULL : take_idle(client, r);
    if (c == NULL && !may_dial(client, r)) {
        return false;
    }
    list_remove(&r->link);
    int rc = c != NULL ? carry(c, r) : dial(client, r, &e);
    if (rc != 0) {
        err_set(&e, rc, "cannot send the request: %s", err_text(rc));
        end_request(r, &e);
    } else if (c != NULL) {
        r->x.handlers->on_drain(&r->x);
    }
    return true;
}

/* Requests that waited get connections that became idle, or are dialled for. */
static void on_serve(struct net_task *t)
{
    struct http_client *client = LIST_ITEM(t, struct http_client, serve);
    bool more = true;
    while (more && !(list_empty(&client->waiting) && list_empty(&client->background))) {
        struct list *from = list_empty(&client->waiting) ? &client->background : &client->waiting;
        more = serve(client, LIST_ITEM(from->next, struct request, link));
    }
}

/* ---- the exchange's operations ---- */

static struct request *request_of(const struct http_exchange *x)
{
    return LIST_ITEM(x, struct request, x);
}

static int send_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
    return -EPROTO; /* it went with http_client_request */
}

static bool carried(const struct request *r)
{
    return r->conn != NULL && r->conn->state == CONN_BUSY;
}

static int send_body(struct http_exchange *x, struct slice data)
{
    struct request *r = request_of(x);
    return carried(r) ? h1_conn_send_body(&r->conn->h1, data) : -EPROTO;
}

static int send_end(struct http_exchange *x)
{
    struct request *r = request_of(x);
    if (!carried(r)) {
        return -EPROTO;
    }
    if (r->bodyless && r->conn->h1.out == H1_OUT_DONE) {
        return 0;
    }
    int rc = h1_conn_send_end(&r->conn->h1);
    if (rc == 0 && h1_conn_done(&r->conn->h1)) {
        net_task_queue(r->conn->client->loop, &r->conn->turn);
    }
    return rc;
}

static bool blocked(const struct http_exchange *x)
{
    const struct request *r = request_of(x);
    return !carried(r) || net_stream_blocked(r->conn->h1.stream);
}

static void pause_in(struct http_exchange *x)
{
    struct request *r = request_of(x);
    if (r->conn != NULL) {
        h1_conn_pause(&r->conn->h1);
    }
}

static void resume_in(struct http_exchange *x)
{
    struct request *r = request_of(x);
    if (r->conn != NULL) {
        h1_conn_resume(&r->conn->h1);
    }
}

static void abort_exchange(struct http_exchange *x)
{
    struct request *r = request_of(x);
    if (r->conn != NULL) {
        r->conn->request = NULL;
        retire(r->conn);
    }
    list_remove(&r->link);
    request_free(r);
}

static const struct http_exchange_ops exchange_ops = {
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
    if (c == NULL || (c->host = strdup(o->path != NULL ? o->path : o->host)) == NULL) {
        free(c);
        err_memory(e);
        return NULL;
    }
    c->loop = l;
    c->o = *o;
    c->o.host = o->path == NULL ? c->host : NULL;
    c->o.path = o->path != NULL ? c->host : NULL;
    c->tls = o->tls != NULL ? tls_config_ref(o->tls) : NULL;
    list_init(&c->idle);
    list_init(&c->conns);
    list_init(&c->waiting);
    list_init(&c->background);
    net_task_init(&c->serve, on_serve);
    return c;
}

static void close_idle(struct http_client *c)
{
    while (!list_empty(&c->idle)) {
        retire(LIST_ITEM(c->idle.next, struct conn, link));
    }
}

void http_client_set_tls(struct http_client *c, struct tls_config *tls)
{
    tls_config_unref(c->tls);
    c->tls = tls != NULL ? tls_config_ref(tls) : NULL;
    c->generation++;
    c->established = false;
    close_idle(c);
}

static struct request *request_new(const struct http_head *head,
                                   const struct http_exchange_handlers *handlers, void *data)
{
    struct request *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    buf_init(&r->head, HEAD_OUT_MAX);
    list_init(&r->link);
    r->x.ops = &exchange_ops;
    r->x.handlers = handlers;
    r->x.data = data;
    r->framing = head->framing;
    r->content_length = head->content_length;
    r->is_head = slice_eq(head->method, SLICE("HEAD"));
    r->upgrade = head->upgrade;
    r->background = head->background;
    bool safe = r->is_head || slice_eq(head->method, SLICE("GET")) ||
                slice_eq(head->method, SLICE("OPTIONS"));
    r->bodyless = head->framing == HTTP_BODY_NONE ||
                  (head->framing == HTTP_BODY_LENGTH && head->content_length == 0);
    r->repeatable = safe && !head->upgrade && r->bodyless;
    if (h1_head_write(head, H1_AFTER_DEFAULT, &r->head) != 0) {
        request_free(r);
        return NULL;
    }
    return r;
}

struct http_exchange *http_client_request(struct http_client *c, const struct http_head *head,
                                          const struct http_exchange_handlers *handlers, void *data,
                                          struct err *e)
{
    struct request *r = request_new(head, handlers, data);
    if (r == NULL) {
        err_memory(e);
        return NULL;
    }
    c->stats.requests++;
    bool queue = !list_empty(&c->waiting) || (r->background && !list_empty(&c->background));
    struct conn *conn = queue ? NULL : take_idle(c, r);
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

const struct http_client_stats *http_client_stats(const struct http_client *c)
{
    return &c->stats;
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
        struct conn *conn = LIST_ITEM(c->conns.next, struct conn, link);
        struct request *r = conn->request;
        conn->request = NULL;
        retire(conn);
        if (r != NULL) {
            end_request(r, &e);
        }
    }
    fail_waiting(c, &e);
    net_task_cancel(&c->serve);
    tls_config_unref(c->tls);
    free(c->host);
    free(c);
}
