/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocking.h - calls that block, in a thread of their own, of lower priority, as names that are
 * looked up are then: for what would hold up the loop.
 */
#ifndef CORE_NET_BLOCKING_H
#define CORE_NET_BLOCKING_H

#include "base/err.h"
#include "net/loop.h"

struct net_blocking;

struct net_blocking_ops {
    /* In another thread: may use nothing but `data`. */
    void (*work)(void *data);
    /* Then, from the loop: the call is gone, and `data` is the callee's. */
    void (*done)(void *data);
    /* In place of `done` after net_blocking_drop, from the loop, perhaps much later; frees. */
    void (*drop)(void *data);
};

/* `data` is the call's from now on. NULL without memory: then it is not. */
MUST_CHECK struct net_blocking *net_blocking_start(struct net_loop *l,
                                                   const struct net_blocking_ops *ops, void *data);
/* Its result is of no use any more. NULL is ignored. */
void net_blocking_drop(struct net_blocking *b);

#endif
