/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.h - coarse time limits that cost next to nothing to set, move and clear.
 *
 * For limits on connections, which nearly never fire: they fire up to NET_TICK_MS late. The loop's
 * one timer wakes when the earliest that it has seen is due, and looks at all that are set then;
 * moving one costs no timer operation.
 */
#ifndef CORE_NET_DEADLINE_H
#define CORE_NET_DEADLINE_H

#include <stdint.h>

#include "base/list.h"
#include "net/loop.h"

#define NET_TICK_MS 250

struct net_deadline;

/* Called once, after the deadline was cleared; may set it again or free its memory. */
typedef void (*net_deadline_cb)(struct net_deadline *d);

struct net_deadline {
    struct list link;
    uint64_t at; /* net_loop_now() */
    net_deadline_cb cb;
};

void net_deadline_init(struct net_deadline *d, net_deadline_cb cb);
/* Fires `ms` from now; moves a deadline that is set. */
void net_deadline_set(struct net_loop *l, struct net_deadline *d, uint64_t ms);
/* Must be called before the memory goes; clearing one that is not set does nothing. */
void net_deadline_clear(struct net_deadline *d);

#endif
