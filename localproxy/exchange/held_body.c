/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/held_body.h"

#include <errno.h>
#include <stdlib.h>

#include "http/collect.h"
#include "net/deadline.h"

struct collecting {
    struct held_body public;
    struct http_collect collect;
    struct net_deadline due;
    held_body_cb cb;
};

void held_body_free(struct held_body *h)
{
    if (h == NULL) {
        return;
    }
    struct collecting *c = LIST_ITEM(h, struct collecting, public);
    net_deadline_clear(&c->due);
    http_collect_deinit(&c->collect);
    passage_end(&h->passage);
    free(h->head);
    free(c);
}

static void hand_over(struct collecting *c, unsigned code, const char *why)
{
    net_deadline_clear(&c->due);
    c->public.x = http_collect_release(&c->collect);
    c->cb(&c->public, code, why);
}

static void on_body(struct http_collect *collect, struct slice body, const struct err *e)
{
    struct collecting *c = LIST_ITEM(collect, struct collecting, collect);
    if (e == NULL) {
        c->public.body = body;
        hand_over(c, 0, "");
    } else {
        hand_over(c, e->code == -EMSGSIZE ? 413 : 503, e->msg); /* nothing of it was sent */
    }
}

static void on_due(struct net_deadline *d)
{
    hand_over(LIST_ITEM(d, struct collecting, due), 408,
              "the body of the request did not come within 60 s");
}

static void on_close(struct http_collect *collect, const struct err *e)
{
    (void)e;
    held_body_free(&LIST_ITEM(collect, struct collecting, collect)->public);
}

static const struct http_collect_handlers handlers = {
    .on_body = on_body,
    .on_close = on_close,
};

bool held_body_start(struct net_loop *l, struct byte_budget *budget, struct http_exchange *x,
                     const struct http_head *head, struct passage *passage, held_body_cb cb,
                     void *data)
{
    struct collecting *c = calloc(1, sizeof *c);
    struct http_head *copy = http_head_copy(head);
    if (c == NULL || copy == NULL) {
        free(c);
        free(copy);
        return false;
    }
    c->public = (struct held_body){.head = copy, .data = data};
    passage_move(&c->public.passage, passage);
    c->cb = cb;
    http_collect_init(&c->collect, HELD_BODY_MAX, &handlers);
    http_collect_set_budget(&c->collect, budget);
    http_collect_take(&c->collect, x);
    net_deadline_init(&c->due, on_due);
    net_deadline_set(l, &c->due, HELD_BODY_MS);
    return true;
}
