/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.h - calls back once after a time, to the millisecond.
 *
 * For the few things that must be prompt; limits on connections are deadlines (net/deadline.h),
 * which cost less and come later.
 */
#ifndef CORE_NET_TIMER_H
#define CORE_NET_TIMER_H

#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"

struct net_timer;

/* From the loop; may set the timer again or free it. */
typedef void (*net_timer_cb)(void *data);

/* Not set. NULL without memory. */
MUST_CHECK struct net_timer *net_timer_new(struct net_loop *l, net_timer_cb cb, void *data);
/* Fires `ms` from now, but not before sockets were looked at, so that a timer which is set by its
 * own callback starves nobody; moves a timer that is set. A set timer keeps the loop running. */
void net_timer_set(struct net_timer *t, uint64_t ms);
void net_timer_clear(struct net_timer *t);
/* The callback is not called any more. NULL is ignored. */
void net_timer_free(struct net_timer *t);

#endif
