/* SPDX-License-Identifier: Apache-2.0 */
/*
 * echo_source - a server that sends back all that it gets: the far end of tunnel_load's tunnels.
 *
 * Prints {"listen":"ADDR:PORT"} when it listens.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "base/flags.h"

enum { MAX_READY = 256, INPUT_MAX = 65536 };

struct server {
    int listener;
    int epoll;
};

static void accept_all(const struct server *s)
{
    const int on = 1;
    int fd;
    while ((fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
            (void)close(fd);
        }
    }
}

/* Messages are short, and their sender waits for them: the kernel takes all of it at once. */
static void send_back(int fd)
{
    static char input[INPUT_MAX];
    ssize_t n = recv(fd, input, sizeof input, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0 || send(fd, input, (size_t)n, MSG_NOSIGNAL) != n) {
        (void)close(fd);
    }
}

static int start_listening(struct server *s, const char *address, struct err *e)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    struct epoll_event ev = {.events = EPOLLIN};
    char host[INET_ADDRSTRLEN];
    if (address_parse(address, &at) != 0) {
        return err_set(e, -EINVAL, "--listen %s: not ADDR:PORT", address);
    }
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    ev.data.fd = s->listener;
    if (s->listener < 0 || s->epoll < 0 || bind(s->listener, (struct sockaddr *)&at, len) != 0 ||
        listen(s->listener, SOMAXCONN) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&at, &len) != 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &ev) != 0) {
        return err_set(e, -errno, "cannot listen on %s: %s", address, err_text(-errno));
    }
    printf("{\"listen\":\"%s:%u\"}\n", inet_ntop(AF_INET, &at.sin_addr, host, sizeof host),
           ntohs(at.sin_port));
    (void)fflush(stdout);
    return 0;
}

struct arguments {
    struct flags_common common;
    const char *address;
};

static const struct flag table[] = {
    {.name = "listen",
     .value = "ADDR:PORT",
     .help = "Where to listen; port 0 picks a free one.",
     FLAG_STRING_AT(struct arguments, address)},
    FLAGS_COMMON(struct arguments, common),
    {0},
};

static const struct command command = {
    .program = "echo_source",
    .summary = "sends back all that it gets",
    .usage = "[--listen ADDR:PORT]",
    .flags = table,
};

int main(int argc, char **argv)
{
    struct server s = {.listener = -1, .epoll = -1};
    struct arguments f = {.address = "127.0.0.1:0"};
    struct err e = ERR_INIT;
    struct epoll_event ready[MAX_READY];
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    if (start_listening(&s, f.address, &e) != 0) {
        (void)fprintf(stderr, "echo_source: %s\n", e.msg);
        return EXIT_FAILED;
    }
    for (;;) {
        int n = epoll_wait(s.epoll, ready, MAX_READY, -1);
        for (int i = 0; i < n; i++) {
            if (ready[i].data.fd == s.listener) {
                accept_all(&s);
            } else {
                send_back(ready[i].data.fd);
            }
        }
    }
}
