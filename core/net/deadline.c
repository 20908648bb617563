/* SPDX-License-Identifier: Apache-2.0 */
#include "net/deadline.h"

static void on_tick(uv_timer_t *timer)
{
    struct net_loop *l = timer->data;
    uint64_t now = net_loop_now(l);
    /* A callback may clear or free any other deadline, so due ones move to a list of their own. */
    struct list due;
    list_init(&due);
    for (struct list *node = l->deadlines.next, *next; node != &l->deadlines; node = next) {
        next = node->next;
        if (LIST_ITEM(node, struct net_deadline, link)->at <= now) {
            list_remove(node);
            list_append(&due, node);
        }
    }
    while (!list_empty(&due)) {
        struct net_deadline *d = LIST_ITEM(due.next, struct net_deadline, link);
        list_remove(&d->link);
        d->cb(d);
    }
    if (list_empty(&l->deadlines)) {
        (void)uv_timer_stop(&l->tick);
    }
}

void net_deadline_init(struct net_deadline *d, net_deadline_cb cb)
{
    list_init(&d->link);
    d->at = 0;
    d->cb = cb;
}

void net_deadline_set(struct net_loop *l, struct net_deadline *d, uint64_t ms)
{
    d->at = net_loop_now(l) + ms;
    if (!list_linked(&d->link)) {
        list_append(&l->deadlines, &d->link);
        if (!uv_is_active((uv_handle_t *)&l->tick)) {
            (void)uv_timer_start(&l->tick, on_tick, NET_TICK_MS, NET_TICK_MS);
        }
    }
}

void net_deadline_clear(struct net_deadline *d)
{
    list_remove(&d->link);
}
