/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backlog.h - a bound on what the peers of many streams together leave unread.
 *
 * Each stream is an entry, and so is what is kept of one answer on a connection that carries many
 * (http/h2_session.h). They differ in what it means to move, and to be given up.
 *
 * Each stream is `blocked` by itself while the kernel does not take all. Of many whose peers read
 * nothing the sum is bounded here: above the maximum those streams fail that have made no progress
 * for longest, as they would have at the end of their write timeout. Whoever reads makes progress.
 */
#ifndef CORE_NET_BACKLOG_H
#define CORE_NET_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/byte_budget.h"
#include "base/list.h"
#include "net/loop.h"

struct net_backlog;
struct net_backlog_entry;

struct net_backlog_ops {
    /* Whether something of it was read since this was asked last. NULL: its owner notes progress
     * whenever there is some. */
    bool (*moved)(struct net_backlog_entry *e);
    /* Too much is unread, and of this nothing was read for longest: its owner ends it, with
     * UV_ENOBUFS. It has left the backlog. */
    void (*give_up)(struct net_backlog_entry *e);
};

/* Embedded in what is not read. */
struct net_backlog_entry {
    struct net_backlog *backlog; /* NULL: none, and nothing is counted */
    const struct net_backlog_ops *ops;
    struct list link; /* linked while something is unread */
    struct byte_share unread;
};

/* One reference, the caller's; each stream has one more. The loop must outlive it. NULL without
 * memory. */
MUST_CHECK struct net_backlog *net_backlog_new(struct net_loop *l, size_t max);
/* NULL is ignored. */
void net_backlog_unref(struct net_backlog *b);

struct net_backlog_stats {
    size_t bytes;      /* in memory that peers have not read */
    uint64_t given_up; /* streams that failed for it */
};

struct net_backlog_stats net_backlog_stats(const struct net_backlog *b);

/* `b`, which may be NULL, is referenced until net_backlog_entry_deinit. */
void net_backlog_entry_init(struct net_backlog_entry *e, struct net_backlog *b,
                            const struct net_backlog_ops *ops);
void net_backlog_entry_deinit(struct net_backlog_entry *e);
/* Something of it begins to be unread, or was read just now. */
void net_backlog_note_progress(struct net_backlog_entry *e);
/* So many bytes are kept of it. What is too much is given up later in this turn of the loop. True:
 * more than half of the maximum is taken. */
bool net_backlog_count(struct net_backlog_entry *e, size_t bytes);
/* All of it was read, or its owner has ended it. */
void net_backlog_leave(struct net_backlog_entry *e);

#endif
