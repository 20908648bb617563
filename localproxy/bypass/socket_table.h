/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_table.h - the established TCP connections of a network namespace, as /proc/net/tcp and
 * /proc/net/tcp6 tell them (proc_pid_net(5)).
 */
#ifndef LOCALPROXY_BYPASS_SOCKET_TABLE_H
#define LOCALPROXY_BYPASS_SOCKET_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

/* One of the two ends of a connection. */
struct socket_end {
    uint8_t ip[16]; /* of IPv4 as IPv6 maps it */
    uint16_t port;
};

struct socket_entry {
    struct socket_end local;
    struct socket_end remote;
    uint64_t inode; /* of the socket, unlike that of any other one that is open */
};

/* More connections than that are refused. */
#define SOCKET_TABLE_MAX 16384

/* All zero: empty. */
struct socket_table {
    struct socket_entry *entries;
    size_t count;
    size_t room;
};

/* Adds the connections of such a text: a line with titles, then one for each. 0; -EPROTO: it is
 * none; -ENOBUFS: there are too many; -ENOMEM. After an error the table may have some of them. */
MUST_CHECK int socket_table_add(struct socket_table *t, struct slice text);
/* By remote end: what socket_table_to needs. */
void socket_table_sort(struct socket_table *t);
/* The connections to that end: the first of them, and how many. */
const struct socket_entry *socket_table_to(const struct socket_table *t,
                                           const struct socket_end *remote, size_t *count);
void socket_table_deinit(struct socket_table *t);

bool socket_end_equal(const struct socket_end *a, const struct socket_end *b);
struct socket_end socket_end_of(const struct sockaddr_storage *address);

#endif
