/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client_request.h"

#include <errno.h>
#include <stdlib.h>

#include "http/client_conn.h"
#include "http/client_internal.h"

enum { HEAD_OUT_MAX = 4 * 1024 * 1024 };

/* How much is kept of a body to be sent again: what etcd takes. Of a budget at most half, for heads
 * need it more. */
enum { KEPT_MAX = 1536 * 1024 };

/* Heads that are small are not counted. */
static int keep_head(struct client_request *r, const struct http_head *head, struct err *e)
{
    size_t size = http_head_size(head);
    if (!byte_share_set(&r->share, size)) {
        return err_set(e, -EDQUOT, "too many large requests are being handled: try again");
    }
    r->head = size <= HEAD_OUT_MAX ? http_head_copy(head) : NULL;
    return r->head == NULL ? err_memory(e) : 0;
}

static void note_kind(struct client_request *r, const struct http_head *head)
{
    r->is_head = slice_eq(head->method, SLICE("HEAD"));
    r->upgrade = head->upgrade;
    r->background = head->background;
    r->guarded = head->guarded;
    bool safe = r->is_head || slice_eq(head->method, SLICE("GET")) ||
                slice_eq(head->method, SLICE("OPTIONS"));
    r->bodyless = http_head_is_bodyless(head);
    r->large = !http_head_is_small(head);
    r->repeatable = safe && !head->upgrade && r->bodyless;
}

struct client_request *client_request_new(struct http_client *client, const struct http_head *head,
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
    byte_share_init(&r->share, head->budget);
    buf_init(&r->body, NET_WRITE_MAX);
    list_init(&r->link);
    r->x.ops = &client_request_waiting;
    r->x.handlers = handlers;
    r->x.data = data;
    note_kind(r, head);
    if (keep_head(r, head, e) != 0) {
        client_request_free(r);
        return NULL;
    }
    return r;
}

static void drop_kept(struct client_request *r)
{
    free(r->head);
    r->head = NULL;
    buf_reset(&r->body);
    byte_share_give_back(&r->share);
}

void client_request_free(struct client_request *r)
{
    r->client->stats.busy--;
    drop_kept(r);
    free(r);
}

void client_request_end(struct client_request *r, const struct err *e)
{
    list_remove(&r->link);
    if (r->x.handlers->on_close != NULL) {
        r->x.handlers->on_close(&r->x, e);
    }
    client_request_free(r);
}

void client_requests_end(struct list *from, const struct err *e)
{
    while (!list_empty(from)) {
        client_request_end(LIST_ITEM(from->next, struct client_request, link), e);
    }
}

void client_request_explain(struct err *e, int rc)
{
    if (e != NULL && e->code == 0) {
        err_set(e, rc, "cannot send the request: %s", err_text(rc));
    }
}

void client_request_answered(struct client_request *r, unsigned status)
{
    const struct http_client_options *o = &r->client->o;
    if (o->on_status != NULL && r->head != NULL) {
        o->on_status(o->notice_data, r->head, status);
    }
    drop_kept(r);
}

/* ---- what is kept of it, to be sent again ---- */

static bool has_room_to_keep(struct client_request *r, size_t len)
{
    const struct byte_budget *budget = r->share.budget;
    size_t most = budget == NULL ? SIZE_MAX : budget->max / 2;
    return r->head != NULL && len <= KEPT_MAX && r->body.len <= KEPT_MAX - len &&
           byte_share_try_within(&r->share, http_head_size(r->head) + buf_size_with(&r->body, len),
                                 most);
}

void client_request_keep(struct client_request *r, struct slice data)
{
    if (!r->taken && has_room_to_keep(r, data.len) &&
        buf_append(&r->body, data.ptr, data.len) == 0) {
        return;
    }
    r->taken = true;
    buf_reset(&r->body);
    byte_share_force(&r->share, r->head == NULL ? 0 : http_head_size(r->head));
}

int client_request_send_kept(struct client_request *r)
{
    int rc = 0;
    struct buf body = r->body;
    buf_init(&r->body, NET_WRITE_MAX); /* the connection may keep it anew */
    if (body.len > 0) {
        rc = http_exchange_send_body(&r->x, buf_slice(&body));
    }
    buf_reset(&body);
    return rc == 0 && r->ended ? http_exchange_send_end(&r->x) : rc;
}

/* ---- the exchange's operations while no connection carries the request ---- */

int client_request_send_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
    return -EPROTO;
}

/* What is to be sent again was not blocked before, and its user need not know that it is now. */
static int send_body(struct http_exchange *x, struct slice data)
{
    struct client_request *r = client_request_of(x);
    if (r->resent == 0 || r->ended) {
        return -EPROTO;
    }
    size_t size = buf_size_with(&r->body, data.len);
    if (!byte_share_set(&r->share, http_head_size(r->head) + size)) {
        return -ENOBUFS;
    }
    return buf_append(&r->body, data.ptr, data.len);
}

static int send_end(struct http_exchange *x)
{
    struct client_request *r = client_request_of(x);
    if (r->resent == 0) {
        return -EPROTO;
    }
    r->ended = !r->bodyless;
    return 0;
}

static bool blocked(const struct http_exchange *x)
{
    (void)x;
    return true;
}

static void pause_in(struct http_exchange *x)
{
    client_request_of(x)->paused = true;
}

static void resume_in(struct http_exchange *x)
{
    client_request_of(x)->paused = false;
}

static void abort_exchange(struct http_exchange *x)
{
    struct client_request *r = client_request_of(x);
    if (r->conn != NULL) {
        client_conn_abandon(r); /* it was dialled for this one */
        return;
    }
    list_remove(&r->link);
    client_request_free(r);
}

const struct http_exchange_ops client_request_waiting = {
    .send_head = client_request_send_head,
    .send_body = send_body,
    .send_end = send_end,
    .blocked = blocked,
    .pause = pause_in,
    .resume = resume_in,
    .abort = abort_exchange,
};
