/* SPDX-License-Identifier: Apache-2.0 */
#include "net/backlog.h"

#include <stdlib.h>

#include "base/log.h"
#include "net/stream_internal.h"

struct net_backlog {
    struct net_loop *loop;
    struct byte_budget budget;
    struct list stalled; /* streams with something unsent; without progress for longest in front */
    struct net_task relieve;
    uint64_t given_up;
    unsigned refs;
};

static struct net_stream *stream_of(struct list *link)
{
    return LIST_ITEM(link, struct net_stream, stalled);
}

static void give_up(struct net_backlog *b, struct net_stream *s)
{
    struct err e = ERR_INIT;
    err_set(&e, UV_ENOBUFS, "the peer does not read, and too much is waiting for such peers");
    log_info(s->dialled ? "closing a connection: the server does not read, and too much is waiting"
                        : "closing a connection: its client does not read, and too much is waiting",
             log_num("bytes", (int64_t)s->unread.size));
    b->given_up++;
    stream_leave_backlog(s);
    stream_fail(s, &e);
}

/* Each stream is looked at once before one is given up that has moved. */
static void on_relieve(struct net_task *t)
{
    struct net_backlog *b = LIST_ITEM(t, struct net_backlog, relieve);
    struct list *last = b->stalled.prev;
    bool all_seen = false;
    while (byte_budget_overdrawn(&b->budget) && !list_empty(&b->stalled)) {
        struct net_stream *s = stream_of(b->stalled.next);
        bool is_last = &s->stalled == last;
        if (!all_seen && stream_has_moved(s)) {
            stream_note_progress(s);
        } else {
            give_up(b, s);
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

void net_stream_set_backlog(struct net_stream *s, struct net_backlog *b)
{
    if (b == NULL) {
        return;
    }
    b->refs++;
    s->backlog = b;
    list_init(&s->stalled);
    byte_share_init(&s->unread, &b->budget);
}

void stream_note_progress(struct net_stream *s)
{
    list_remove(&s->stalled);
    list_append(&s->backlog->stalled, &s->stalled);
}

void stream_note_unread(struct net_stream *s)
{
    struct net_backlog *b = s->backlog;
    /* Whoever writes to it holds back as much as was read for it: of a client that is counted where
     * it is held. */
    size_t held_back = s->dialled ? 0 : NET_READ_SIZE;
    size_t flight = s->flight != NULL ? s->flight->bytes.cap : 0;
    byte_share_force(&s->unread, flight + s->wire.cap + s->plain.cap + held_back);
    s->was_blocked = s->was_blocked || s->dialled || b->budget.used > b->budget.max / 2;
    if (byte_budget_overdrawn(&b->budget)) {
        net_task_queue(b->loop, &b->relieve);
    }
}

void stream_leave_backlog(struct net_stream *s)
{
    list_remove(&s->stalled);
    byte_share_give_back(&s->unread);
}
