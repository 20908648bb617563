/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h - accepts byte streams on a TCP address or a Unix socket.
 */
#ifndef CORE_NET_LISTENER_H
#define CORE_NET_LISTENER_H

#include <stdbool.h>

#include "net/stream.h"

struct net_listener;

/* A connection was accepted; the stream belongs to the callee, who sets its handlers at once. */
typedef void (*net_listener_cb)(void *data, struct net_stream *s);

struct net_listener_options {
    const char *address;    /* ADDR:PORT; port 0 picks a free one. [::] is all addresses, those of
                               IPv4 too: these alone where the kernel has no IPv6 */
    const char *path;       /* of a Unix socket, in place of an address; copied */
    struct tls_config *tls; /* NULL: plain; referenced */
    bool plain_too;         /* with TLS: who does not begin it is served without */
    uint64_t write_timeout_ms;   /* of accepted streams, see net_dial_options */
    struct net_backlog *backlog; /* of accepted streams; NULL: none; must outlive this */
    int kernel_bytes; /* that the kernel may keep of an accepted stream each way, which count into a
                         container's memory; 0: as many as it likes, 6 MiB or so. Of TCP */
};

/* A Unix socket's file has mode 0600, and peers of users other than this process's own and root are
 * turned away. A socket left by a process that is gone is replaced; other files are left alone.
 * NULL with `e` set: a bad address, a port or socket in use (says so), no permission. */
MUST_CHECK struct net_listener *net_listener_new(struct net_loop *l,
                                                 const struct net_listener_options *o,
                                                 net_listener_cb cb, void *data, struct err *e);
/* Where it listens: the address with the port that was picked, or the path. */
const char *net_listener_address(const struct net_listener *n);
/* Also one that takes plain streams too. */
bool net_listener_is_tls(const struct net_listener *n);
/* For connections that are accepted from now on; referenced. Of a listener with TLS. */
void net_listener_set_tls(struct net_listener *n, struct tls_config *tls);
/* Stops accepting, removes a Unix socket's file, and frees; the callback is not called again. NULL
 * is ignored. */
void net_listener_close(struct net_listener *n);

#endif
