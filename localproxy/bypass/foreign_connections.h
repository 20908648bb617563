/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_connections.h - which connections of a pod go to the API server and are not localproxy's.
 *
 * A connection that is there in two looks, some seconds apart, lasts: it is a watch's, or one that
 * waits for the next request. Others are not told of.
 *
 * The servers are those that were named at the start, and where localproxy's own connections go:
 * of several addresses of a name, or of a Service that the kernel resolves when it connects, each
 * becomes known by and by.
 *
 * In a pod with a service mesh of another kind, each connection is carried on by a second one, of
 * that mesh's proxy. There only connections count that are carried themselves, which shows by a
 * socket in the pod with the connection's own end as its remote one.
 *
 * Connections that the kernel redirects to localproxy (nat) still look as if they went to the API
 * server. That localproxy has them shows in the same way: by a socket of its own.
 */
#ifndef LOCALPROXY_BYPASS_FOREIGN_CONNECTIONS_H
#define LOCALPROXY_BYPASS_FOREIGN_CONNECTIONS_H

#include "bypass/socket_look.h"

enum {
    FOREIGN_SERVERS_MAX = 16,
    FOREIGN_NAMED_MAX = 4,
    FOREIGN_FOUND_MAX = 64,
    FOREIGN_OWN_PORTS_MAX = 3,
};

struct foreign_connections {
    /* Set by the user, the rest 0. */
    uint16_t port; /* of the API server: own connections to it are looked at; 0: none are */
    uint16_t own_ports[FOREIGN_OWN_PORTS_MAX]; /* localproxy listens there */

    struct socket_end servers[FOREIGN_SERVERS_MAX]; /* first those that were named */
    size_t named;
    size_t count;
    size_t oldest;
    bool carried; /* our own connections are */

    struct socket_entry found[FOREIGN_FOUND_MAX]; /* by the last look, and how many of them last */
    size_t found_count;
    size_t lasting;
};

/* One of the API server's addresses; beyond FOREIGN_NAMED_MAX they are ignored. */
void foreign_connections_name(struct foreign_connections *f, const struct socket_end *server);
/* Takes in a look, some seconds after the last one. Whether some were found that were not there
 * before. */
bool foreign_connections_update(struct foreign_connections *f, const struct socket_look *look);

#endif
