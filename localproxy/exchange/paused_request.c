/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/paused_request.h"

#include <stdlib.h>

#include "net/deadline.h"

struct paused_request {
    struct list link;
    struct net_deadline due;
    struct http_exchange *x;
    struct http_head *head;
    struct paused_request_end end;
    struct passage passage;
    bool paused; /* there is a body, which is not read */
};

static void paused_request_free(struct paused_request *p)
{
    list_remove(&p->link);
    net_deadline_clear(&p->due);
    passage_end(&p->passage);
    free(p->head);
    free(p);
}

static void go_on(struct paused_request *p)
{
    p->x->handlers = NULL;
    if (p->paused) {
        http_exchange_resume(p->x);
    }
    p->end.cb(p->end.data, p->x, p->head, p->end.ended, &p->passage);
    paused_request_free(p);
}

static void on_due(struct net_deadline *d)
{
    go_on(LIST_ITEM(d, struct paused_request, due));
}

static void on_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void on_end(struct http_exchange *x)
{
    struct paused_request *p = x->data;
    p->end.ended = true;
}

static void on_drain(struct http_exchange *x)
{
    (void)x;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct paused_request *p = x->data;
    struct paused_request_end end = p->end;
    (void)e;
    paused_request_free(p);
    if (end.gone != NULL) {
        end.gone(end.data);
    }
}

static const struct http_exchange_handlers handlers = {
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_close = on_close,
};

bool paused_request_start(struct net_loop *l, struct list *waiting, struct http_exchange *x,
                          const struct http_head *head, uint64_t ms,
                          const struct paused_request_end *end)
{
    struct paused_request *p = calloc(1, sizeof *p);
    struct http_head *copy = http_head_copy(head);
    if (p == NULL || copy == NULL) {
        free(p);
        free(copy);
        return false;
    }
    *p = (struct paused_request){.x = x, .head = copy, .end = *end};
    if (end->passage != NULL) {
        passage_move(&p->passage, end->passage);
    }
    list_append(waiting, &p->link);
    net_deadline_init(&p->due, on_due);
    if (ms != PAUSED_UNTIL_CONTINUED) {
        net_deadline_set(l, &p->due, ms);
    }
    x->handlers = &handlers;
    x->data = p;
    p->paused = head->framing != HTTP_BODY_NONE && !end->ended;
    if (p->paused) {
        http_exchange_pause(x);
    }
    return true;
}

void paused_requests_continue(struct list *waiting)
{
    struct list now;
    list_init(&now);
    while (!list_empty(waiting)) {
        struct list *first = waiting->next;
        list_remove(first);
        list_append(&now, first);
    }
    while (!list_empty(&now)) {
        go_on(LIST_ITEM(now.next, struct paused_request, link));
    }
}
