/* SPDX-License-Identifier: Apache-2.0 */
#include "http/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "http/collect.h"
#include "net/deadline.h"

/* What is sent at once: bytes. The exchange says when it takes no more. */
enum { PIECE = 64 * 1024 };

struct http_fetch {
    struct http_collect collect;
    struct net_deadline limit;
    uint64_t timeout_ms;
    http_fetch_cb cb;
    void *data;
    struct buf body; /* what of the request's body is not sent yet */
    bool sent;
    bool whole; /* the answer is */
    const char *const *wanted;
    char *values[HTTP_FETCH_WANTED_MAX];
    struct http_answer answer;
};

static void fetch_free(struct http_fetch *f)
{
    net_deadline_clear(&f->limit);
    http_collect_deinit(&f->collect);
    buf_reset(&f->body);
    for (size_t i = 0; i < HTTP_FETCH_WANTED_MAX; i++) {
        free(f->values[i]);
    }
    free(f);
}

static void end(struct http_fetch *f, const struct err *e)
{
    net_deadline_clear(&f->limit);
    http_collect_abort(&f->collect);
    f->cb(f->data, e == NULL ? &f->answer : NULL, e);
    fetch_free(f);
}

static void on_limit(struct net_deadline *d)
{
    struct http_fetch *f = LIST_ITEM(d, struct http_fetch, limit);
    struct err e = ERR_INIT;
    (void)err_set(&e, -ETIMEDOUT, "no complete response within %llu ms",
                  (unsigned long long)f->timeout_ms);
    end(f, &e);
}

/* As much of the body as is taken now. */
static int send_more(struct http_fetch *f)
{
    int rc = 0;
    while (rc == 0 && !f->sent && !http_exchange_blocked(f->collect.x)) {
        size_t len = f->body.len < PIECE ? f->body.len : PIECE;
        struct slice piece = slice_of((const char *)buf_data(&f->body), len);
        rc = http_exchange_send_body(f->collect.x, piece);
        buf_consume(&f->body, len);
        if (rc == 0 && f->body.len == 0) {
            f->sent = true;
            buf_reset(&f->body);
            rc = http_exchange_send_end(f->collect.x);
        }
    }
    return rc;
}

static void on_drain(struct http_collect *c)
{
    struct http_fetch *f = LIST_ITEM(c, struct http_fetch, collect);
    int rc = send_more(f);
    if (rc != 0) {
        struct err e = ERR_INIT;
        (void)err_set(&e, rc, "cannot send the request: %s", err_text(rc));
        end(f, &e);
    }
}

static bool keep_header(struct http_fetch *f, size_t i, const struct http_head *head)
{
    const struct http_header *h = http_head_find(head, slice_str(f->wanted[i]));
    if (h == NULL) {
        return true;
    }
    f->values[i] = strndup(h->value.len > 0 ? h->value.ptr : "", h->value.len);
    f->answer.headers[i] = f->values[i];
    return f->values[i] != NULL;
}

static void on_head(struct http_collect *c, const struct http_head *head)
{
    struct http_fetch *f = LIST_ITEM(c, struct http_fetch, collect);
    f->answer.status = head->status;
    for (size_t i = 0; f->wanted != NULL && i < HTTP_FETCH_WANTED_MAX && f->wanted[i] != NULL;
         i++) {
        if (!keep_header(f, i, head)) {
            struct err e = ERR_INIT;
            (void)err_memory(&e);
            end(f, &e);
            return;
        }
    }
}

static void on_body(struct http_collect *c, struct slice body, const struct err *e)
{
    struct http_fetch *f = LIST_ITEM(c, struct http_fetch, collect);
    if (e != NULL) {
        end(f, e);
        return;
    }
    f->answer.body = body;
    f->whole = true;
}

/* The answer is told only now, so that the connection can be kept. */
static void on_close(struct http_collect *c, const struct err *e)
{
    struct http_fetch *f = LIST_ITEM(c, struct http_fetch, collect);
    end(f, f->whole ? NULL : e);
}

static const struct http_collect_handlers handlers = {
    .on_head = on_head,
    .on_drain = on_drain,
    .on_body = on_body,
    .on_close = on_close,
};

static struct http_fetch *fetch_new(const struct http_fetch_options *o, http_fetch_cb cb,
                                    void *data)
{
    struct http_fetch *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    http_collect_init(&f->collect, o->answer_max, &handlers);
    net_deadline_init(&f->limit, on_limit);
    f->timeout_ms = o->timeout_ms;
    f->cb = cb;
    f->data = data;
    f->wanted = o->wanted;
    f->sent = o->body.len == 0;
    buf_init(&f->body, o->body.len);
    if (buf_append(&f->body, o->body.ptr, o->body.len) != 0) {
        free(f);
        return NULL;
    }
    return f;
}

struct http_fetch *http_fetch_start(struct net_loop *l, const struct http_fetch_options *o,
                                    http_fetch_cb cb, void *data, struct err *e)
{
    struct http_fetch *f = fetch_new(o, cb, data);
    if (f == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    struct http_head head = {
        .method = o->method,
        .target = o->target,
        .headers = o->headers,
        .header_count = o->header_count,
        .framing = o->body.ptr == NULL ? HTTP_BODY_NONE : HTTP_BODY_LENGTH,
        .content_length = o->body.len,
    };
    f->collect.x = o->via.request(o->via.client, &head, http_collect_table(), &f->collect, e);
    if (f->collect.x == NULL) {
        fetch_free(f);
        return NULL;
    }
    int rc = send_more(f);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot send the request: %s", err_text(rc));
        fetch_free(f);
        return NULL;
    }
    if (o->timeout_ms != 0) {
        net_deadline_set(l, &f->limit, o->timeout_ms);
    }
    return f;
}

void http_fetch_cancel(struct http_fetch *f)
{
    if (f != NULL) {
        fetch_free(f);
    }
}

static struct http_exchange *request_http(void *client, const struct http_head *head,
                                          const struct http_exchange_handlers *table, void *data,
                                          struct err *e)
{
    return http_client_request(client, head, table, data, e);
}

struct http_requester http_client_requester(struct http_client *c)
{
    return (struct http_requester){.request = request_http, .client = c};
}
