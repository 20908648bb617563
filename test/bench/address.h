/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - `ADDR:PORT` of the command lines, IPv4 only: the benchmark stays on loopback. */
#ifndef BENCH_ADDRESS_H
#define BENCH_ADDRESS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* 0, or -EINVAL when `text` is not an IPv4 address and a port. */
static inline int address_parse(const char *text, struct sockaddr_in *out)
{
    char host[INET_ADDRSTRLEN];
    unsigned port = 0;
    char rest = '\0';
    *out = (struct sockaddr_in){.sin_family = AF_INET};
    if (sscanf(text, "%15[0-9.]:%5u%c", host, &port, &rest) != 2 || port > UINT16_MAX ||
        inet_pton(AF_INET, host, &out->sin_addr) != 1) {
        return -EINVAL;
    }
    out->sin_port = htons((uint16_t)port);
    return 0;
}

/* A connection that is being made, and does not wait for small writes to grow; or negative. */
static inline int address_connect(const struct sockaddr_in *to)
{
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0 && errno != EINPROGRESS) {
        int code = -errno;
        (void)close(fd);
        return code;
    }
    return fd;
}

#endif
