/* SPDX-License-Identifier: Apache-2.0 */
#include "net/deadline.h"

static void on_tick(uv_timer_t *timer);

/* Looks again when the earliest deadline is due, but not more often than every tick. */
static void look_at(struct net_loop *l, uint64_t at)
{
    uint64_t now = net_loop_now(l);
    uint64_t wait = at > now + NET_TICK_MS ? at - now : NET_TICK_MS;
    if (now + wait < l->tick_at) {
        l->tick_at = now + wait;
        (void)uv_timer_start(&l->tick, on_tick, wait, 0);
    }
}

/* Moves what is due to `due`; returns when the next one is, or UINT64_MAX. */
static uint64_t sweep(struct net_loop *l, struct list *due)
{
    uint64_t earliest = UINT64_MAX;
    for (struct list *node = l->deadlines.next, *next; node != &l->deadlines; node = next) {
        next = node->next;
        struct net_deadline *d = LIST_ITEM(node, struct net_deadline, link);
        if (d->at <= net_loop_now(l)) {
            list_remove(node);
            list_append(due, node);
        } else if (d->at < earliest) {
            earliest = d->at;
        }
    }
    return earliest;
}

static void on_tick(uv_timer_t *timer)
{
    struct net_loop *l = timer->data;
    /* A callback may clear or free any other deadline, so due ones have a list of their own. */
    struct list due;
    list_init(&due);
    l->tick_at = UINT64_MAX;
    uint64_t earliest = sweep(l, &due);
    if (earliest != UINT64_MAX) {
        look_at(l, earliest);
    }
    while (!list_empty(&due)) {
        struct net_deadline *d = LIST_ITEM(due.next, struct net_deadline, link);
        list_remove(&d->link);
        if (d->at <= net_loop_now(l)) {
            d->cb(d);
        } else { /* moved by one of the others */
            list_append(&l->deadlines, &d->link);
            look_at(l, d->at);
        }
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
    d->at = net_loop_clock(l) + ms;
    if (!list_linked(&d->link)) {
        list_append(&l->deadlines, &d->link);
    }
    if (d->at < l->tick_at) {
        look_at(l, d->at); /* mostly not: deadlines move away from now */
    }
}

void net_deadline_clear(struct net_deadline *d)
{
    list_remove(&d->link);
}
