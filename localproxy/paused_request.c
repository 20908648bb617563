/* SPDX-License-Identifier: Apache-2.0 */
#include "paused_request.h"

#include <stdlib.h>

#include "net/deadline.h"

struct paused_request {
    struct net_deadline due;
    struct http_exchange *x;
    struct http_head *head;
    paused_request_cb cb;
    void *data;
};

static void paused_request_free(struct paused_request *p)
{
    net_deadline_clear(&p->due);
    free(p->head);
    free(p);
}

static void on_due(struct net_deadline *d)
{
    struct paused_request *p = LIST_ITEM(d, struct paused_request, due);
    p->x->handlers = NULL;
    p->cb(p->data, p->x, p->head);
    paused_request_free(p);
}

static void on_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void on_end_or_drain(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    (void)e;
    paused_request_free(x->data);
}

static const struct http_exchange_handlers handlers = {
    .on_body = on_body,
    .on_end = on_end_or_drain,
    .on_drain = on_end_or_drain,
    .on_close = on_close,
};

bool paused_request_start(struct net_loop *l, struct http_exchange *x, const struct http_head *head,
                          uint64_t ms, paused_request_cb cb, void *data)
{
    struct paused_request *p = calloc(1, sizeof *p);
    struct http_head *copy = http_head_copy(head);
    if (p == NULL || copy == NULL) {
        free(p);
        free(copy);
        return false;
    }
    p->x = x;
    p->head = copy;
    p->cb = cb;
    p->data = data;
    x->handlers = &handlers;
    x->data = p;
    net_deadline_init(&p->due, on_due);
    net_deadline_set(l, &p->due, ms);
    return true;
}
