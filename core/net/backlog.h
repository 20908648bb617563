/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backlog.h - a bound on what the peers of many streams together leave unread.
 *
 * Each stream is `blocked` above NET_WRITE_HIGH by itself. Of many whose peers read nothing the sum
 * is bounded here: from half of the maximum on a stream is blocked as soon as the kernel does not
 * take all at once, and above the maximum those streams fail that have made no progress for
 * longest, as they would have at the end of their write timeout. Whoever reads makes progress.
 *
 * A dialled stream is blocked so from the beginning: what is passed on to a server can wait where
 * it comes from, and the kernel has enough to send meanwhile.
 */
#ifndef CORE_NET_BACKLOG_H
#define CORE_NET_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"

struct net_backlog;

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

#endif
