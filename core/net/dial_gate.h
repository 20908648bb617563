/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial_gate.h - what dialled streams may reach that somebody else has named, and how many names are
 * looked up for them at a time.
 *
 * A name can lead anywhere, and to another place each time: what counts is the address that is
 * connected to. And a look-up takes one of the few threads that libuv has for look-ups of all of a
 * process (net_loop_set_threads), for as long as a name server likes; so those who share a gate
 * wait for one another, and leave the others room.
 */
#ifndef CORE_NET_DIAL_GATE_H
#define CORE_NET_DIAL_GATE_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/list.h"

/* The code of an error: no address may be connected to. It is none of a certificate's. */
#define NET_DIAL_FORBIDDEN (-EPERM)

struct net_dial_gate {
    /* NULL: any may be. Whether it may be connected to; the other addresses of a name are tried
     * then. If none may be, the error's code is NET_DIAL_FORBIDDEN. Not called with Unix sockets.
     */
    bool (*allows)(void *data, const struct sockaddr *address);
    void *data;
    unsigned lookups_max;   /* at least 1 */
    unsigned lookups;       /* under way, also for streams that were closed meanwhile */
    struct list looking_up; /* those */
    struct list waiting;    /* streams whose look-up waits for others, in order */
};

void net_dial_gate_init(struct net_dial_gate *g,
                        bool (*allows)(void *data, const struct sockaddr *address), void *data,
                        unsigned lookups_max);
/* After all streams that were dialled with it were closed. A look-up that still goes on for one
 * knows nothing of it any more. */
void net_dial_gate_deinit(struct net_dial_gate *g);

#endif
