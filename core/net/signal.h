/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal.h - calls back from the loop when the process gets a signal.
 */
#ifndef CORE_NET_SIGNAL_H
#define CORE_NET_SIGNAL_H

#include "base/err.h"
#include "net/loop.h"

struct net_signal;

/* From the loop, each time; may free the object. */
typedef void (*net_signal_cb)(void *data, int signum);

/* From now on the signal has no other effect on the process. Keeps the loop running. NULL with `e`
 * set. */
MUST_CHECK struct net_signal *net_signal_new(struct net_loop *l, int signum, net_signal_cb cb,
                                             void *data, struct err *e);
/* The signal has its default effect again. NULL is ignored. */
void net_signal_free(struct net_signal *s);

#endif
