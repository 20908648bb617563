/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a peer that sends no more has only said so, or has closed.
 *
 * TCP has one FIN for both. But where the peer's socket is in the same network namespace the kernel
 * tells of it, by sock_diag(7): a socket that no process has any more has the inode 0.
 */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream_internal.h"

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

static void put_address(const struct sockaddr_storage *from, __be32 out[4], __be16 *port)
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
        memcpy(out, &v4->sin_addr, 4);
        *port = v4->sin_port;
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;
        memcpy(out, &v6->sin6_addr, 16);
        *port = v6->sin6_port;
    }
}

/* Of the socket at the other end: ours seen from there. */
static struct question ask_of(const struct sockaddr_storage *here,
                              const struct sockaddr_storage *there)
{
    struct question q = {
        .head = {.nlmsg_len = sizeof q,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = (uint8_t)here->ss_family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    put_address(there, q.body.id.idiag_src, &q.body.id.idiag_sport);
    put_address(here, q.body.id.idiag_dst, &q.body.id.idiag_dport);
    return q;
}

/* The kernel answers before it returns from send(2). */
static bool has_inode(const struct question *q)
{
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0) {
        return false;
    }
    ssize_t n = send(fd, q, sizeof *q, 0) < 0 ? -1 : recv(fd, &answer, sizeof answer, 0);
    (void)close(fd);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
        return false;
    }
    return ((const struct inet_diag_msg *)NLMSG_DATA(&answer.head))->idiag_inode != 0;
}

static bool has_tcp_peer(const struct net_stream *s)
{
    struct sockaddr_storage here = {.ss_family = AF_UNSPEC};
    struct sockaddr_storage there = {.ss_family = AF_UNSPEC};
    int here_len = sizeof here;
    int there_len = sizeof there;
    if (uv_tcp_getsockname(&s->socket.tcp, (struct sockaddr *)&here, &here_len) != 0 ||
        uv_tcp_getpeername(&s->socket.tcp, (struct sockaddr *)&there, &there_len) != 0) {
        return false;
    }
    struct question q = ask_of(&here, &there);
    return has_inode(&q);
}

/* Of a Unix socket whose peer has closed both directions are at their end. */
static bool has_local_peer(const struct net_stream *s)
{
    uv_os_fd_t fd;
    if (uv_fileno(&s->socket.handle, &fd) != 0) {
        return false;
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) >= 0 && (p.revents & POLLHUP) == 0;
}

bool net_stream_is_half_closed(const struct net_stream *s)
{
    if (s->state != STATE_OPEN || !s->eof_seen || s->output == OUTPUT_FAILED) {
        return false;
    }
    return s->local ? has_local_peer(s) : has_tcp_peer(s);
}
