/* SPDX-License-Identifier: Apache-2.0 */
#include "http/collect.h"

#include <errno.h>
#include <string.h>

static void tell_body(struct http_collect *c, struct slice body, const struct err *e)
{
    c->told = true;
    c->handlers->on_body(c, body, e);
}

static void on_head(struct http_exchange *x, const struct http_head *head)
{
    struct http_collect *c = x->data;
    if (c->handlers->on_head != NULL) {
        c->handlers->on_head(c, head);
    }
}

static void drop_body(struct http_collect *c)
{
    buf_reset(&c->body);
    byte_share_give_back(&c->share);
}

/* What is too large anyhow says so, whatever is left of the budget. */
static int append(struct http_collect *c, struct slice data)
{
    bool fits = data.len <= c->body.max - c->body.len;
    if (fits && !byte_share_set(&c->share, buf_size_with(&c->body, data.len))) {
        return -EDQUOT;
    }
    return buf_append(&c->body, data.ptr, data.len);
}

static void on_body(struct http_exchange *x, struct slice data)
{
    struct http_collect *c = x->data;
    if (c->told) {
        return;
    }
    int rc = append(c, data);
    if (rc == 0) {
        if (c->handlers->on_bytes != NULL) {
            c->handlers->on_bytes(c);
        }
        return;
    }
    struct err e = ERR_INIT;
    if (rc == -ENOBUFS) {
        (void)err_set(&e, -EMSGSIZE, "the body has more than %zu bytes", c->body.max);
    } else if (rc == -EDQUOT) {
        (void)err_set(&e, rc, "too many large bodies are being read: try again later");
    } else {
        (void)err_set(&e, rc, "out of memory for the body");
    }
    drop_body(c);
    tell_body(c, (struct slice){0}, &e);
}

static void on_end(struct http_exchange *x)
{
    struct http_collect *c = x->data;
    if (!c->told) {
        tell_body(c, buf_slice(&c->body), NULL);
    }
}

static void on_drain(struct http_exchange *x)
{
    struct http_collect *c = x->data;
    if (c->handlers->on_drain != NULL) {
        c->handlers->on_drain(c);
    }
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct http_collect *c = x->data;
    c->x = NULL;
    c->handlers->on_close(c, e);
}

static const struct http_exchange_handlers table = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_close = on_close,
};

void http_collect_init(struct http_collect *c, size_t max,
                       const struct http_collect_handlers *handlers)
{
    memset(c, 0, sizeof *c);
    c->handlers = handlers;
    buf_init(&c->body, max);
}

void http_collect_set_budget(struct http_collect *c, struct byte_budget *budget)
{
    byte_share_init(&c->share, budget);
}

void http_collect_take(struct http_collect *c, struct http_exchange *x)
{
    c->x = x;
    x->handlers = &table;
    x->data = c;
}

const struct http_exchange_handlers *http_collect_table(void)
{
    return &table;
}

struct http_exchange *http_collect_release(struct http_collect *c)
{
    struct http_exchange *x = c->x;
    c->x = NULL;
    x->handlers = NULL;
    return x;
}

void http_collect_take_body(struct http_collect *c, struct buf *out)
{
    *out = c->body;
    buf_init(&c->body, c->body.max);
}

void http_collect_abort(struct http_collect *c)
{
    if (c->x != NULL) {
        struct http_exchange *x = c->x;
        c->x = NULL;
        http_exchange_abort(x);
    }
}

void http_collect_deinit(struct http_collect *c)
{
    http_collect_abort(c);
    drop_body(c);
}
