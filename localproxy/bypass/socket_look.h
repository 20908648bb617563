/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_look.h - one look at the TCP connections of this process's network namespace, and at which
 * of them are its own.
 */
#ifndef LOCALPROXY_BYPASS_SOCKET_LOOK_H
#define LOCALPROXY_BYPASS_SOCKET_LOOK_H

#include "bypass/socket_table.h"

struct socket_look {
    struct socket_table table; /* sorted */
    uint64_t *own;             /* inodes of the sockets of this process, sorted */
    size_t own_count;
};

/* Takes some milliseconds where the kernel's table is large, for it is one for all namespaces: not
 * for the loop's thread. Then socket_look_deinit is due. 0; -ENOBUFS: there are more connections or
 * sockets than are worth looking at; another negative errno, with `e` set. */
MUST_CHECK int socket_look_take(struct socket_look *look, struct err *e);
bool socket_look_is_own(const struct socket_look *look, const struct socket_entry *entry);
void socket_look_deinit(struct socket_look *look);

#endif
