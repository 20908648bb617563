/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h - accepts byte streams on a TCP address.
 */
#ifndef CORE_NET_LISTENER_H
#define CORE_NET_LISTENER_H

#include "net/stream.h"

struct net_listener;

/* A connection was accepted; the stream belongs to the callee, who sets its handlers at once. */
typedef void (*net_listener_cb)(void *data, struct net_stream *s);

struct net_listener_options {
    const char *address;       /* ADDR:PORT; port 0 picks a free one */
    struct tls_config *tls;    /* NULL: plain; referenced */
    uint64_t write_timeout_ms; /* of accepted streams, see net_dial_options */
};

/* NULL with `e` set: a bad address, a port in use (says so), no permission. */
MUST_CHECK struct net_listener *net_listener_new(struct net_loop *l,
                                                 const struct net_listener_options *o,
                                                 net_listener_cb cb, void *data, struct err *e);
/* Where it listens, with the port that was picked. */
const char *net_listener_address(const struct net_listener *n);
/* Stops accepting and frees; the callback is not called again. NULL is ignored. */
void net_listener_close(struct net_listener *n);

#endif
