/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - who holds how much of a server, by address.
 *
 * A *peer* is an address from which there are connections: an IPv4 address, also where it comes
 * mapped into IPv6; of IPv6 the first 64 bits, for one machine has all that follow; all Unix
 * sockets together. A peer is known for as long as something refers to it, so there are never more
 * than connections.
 *
 * What shares an address (a NAT, a proxy) is one peer: shares decide between peers, and never
 * forbid anything while nobody else wants it.
 */
#ifndef CORE_NET_PEERS_H
#define CORE_NET_PEERS_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/list.h"

struct net_peers {
    struct list list;
};

struct net_peer {
    struct list link;
    unsigned refs;
    unsigned connections; /* kept by the server, as are `bytes` and the last three */
    uint64_t bytes;       /* held on its behalf */
    uint64_t served;      /* when a step of one of its handshakes was taken last, or since when it
                             is known: nanoseconds */
    uint64_t due;         /* when the next of what it asks for may take time: nanoseconds, */
    unsigned waiting;     /* and what waits for that, and its bytes */
    uint64_t waiting_bytes;
    uint8_t key[9];
};

void net_peers_init(struct net_peers *p);
/* Those that are still referred to live on. */
void net_peers_deinit(struct net_peers *p);

/* The peer with this address; the reference belongs to the caller. NULL without memory. */
MUST_CHECK struct net_peer *net_peers_get(struct net_peers *p, const struct sockaddr *addr);

struct net_peer *net_peer_ref(struct net_peer *p);
/* NULL is ignored. */
void net_peer_unref(struct net_peer *p);

#endif
