/* SPDX-License-Identifier: Apache-2.0 */
#include "net/backlog.h"

#include <stdlib.h>

#include "base/log.h"

struct net_backlog {
    struct net_loop *loop;
    struct byte_budget budget;
    struct list stalled; /* entries; without progress for longest in front */
    struct net_task relieve;
    uint64_t given_up;
    unsigned refs;
};

/* Each entry is looked at once before one is given up that has moved. */
static void on_relieve(struct net_task *t)
{
    struct net_backlog *b = LIST_ITEM(t, struct net_backlog, relieve);
    struct list *last = b->stalled.prev;
    bool all_seen = false;
    while (byte_budget_overdrawn(&b->budget) && !list_empty(&b->stalled)) {
        struct net_backlog_entry *e = LIST_ITEM(b->stalled.next, struct net_backlog_entry, link);
        bool is_last = &e->link == last;
        if (!all_seen && e->ops->moved != NULL && e->ops->moved(e)) {
            net_backlog_note_progress(e);
        } else {
            b->given_up++;
            log_info("ending what nobody reads: too much is waiting for such readers",
                     log_num("bytes", (int64_t)e->unread.size));
            net_backlog_leave(e);
            e->ops->give_up(e);
        }
        all_seen = all_seen || is_last;
    }
}

struct net_backlog *net_backlog_new(struct net_loop *l, size_t max)
{
    struct net_backlog *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return NULL;
    }
    b->loop = l;
    b->budget.max = max;
    b->refs = 1;
    list_init(&b->stalled);
    net_task_init(&b->relieve, on_relieve);
    return b;
}

void net_backlog_unref(struct net_backlog *b)
{
    if (b != NULL && --b->refs == 0) {
        net_task_cancel(&b->relieve);
        free(b);
    }
}

struct net_backlog_stats net_backlog_stats(const struct net_backlog *b)
{
    return (struct net_backlog_stats){.bytes = b->budget.used, .given_up = b->given_up};
}

void net_backlog_entry_init(struct net_backlog_entry *e, struct net_backlog *b,
                            const struct net_backlog_ops *ops)
{
    *e = (struct net_backlog_entry){.backlog = b, .ops = ops};
    list_init(&e->link);
    if (b != NULL) {
        b->refs++;
        byte_share_init(&e->unread, &b->budget);
    }
}

void net_backlog_entry_deinit(struct net_backlog_entry *e)
{
    net_backlog_leave(e);
    net_backlog_unref(e->backlog);
    e->backlog = NULL;
}

void net_backlog_note_progress(struct net_backlog_entry *e)
{
    if (e->backlog != NULL) {
        list_remove(&e->link);
        list_append(&e->backlog->stalled, &e->link);
    }
}

bool net_backlog_count(struct net_backlog_entry *e, size_t bytes)
{
    struct net_backlog *b = e->backlog;
    if (b == NULL) {
        return false;
    }
    byte_share_force(&e->unread, bytes);
    if (byte_budget_overdrawn(&b->budget)) {
        net_task_queue(b->loop, &b->relieve);
    }
    return b->budget.used > b->budget.max / 2;
}

void net_backlog_leave(struct net_backlog_entry *e)
{
    list_remove(&e->link);
    byte_share_give_back(&e->unread);
}
