/* SPDX-License-Identifier: Apache-2.0 */
#include "raw_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/address.h"

enum { PATIENCE_MS = 20000 };

void raw_connect(struct raw_peer *p, const char *address)
{
    struct sockaddr_storage addr;
    assert_int_equal(net_address_parse(address, &addr, NULL), 0);
    memset(p, 0, sizeof *p);
    p->fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(p->fd >= 0);
    assert_int_equal(connect(p->fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(fcntl(p->fd, F_SETFL, O_NONBLOCK), 0);
}

void raw_send(struct raw_peer *p, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(p->fd, text, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd poll_fd = {.fd = p->fd, .events = POLLOUT};
            assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
            continue;
        }
        assert_true(n > 0);
        text += n;
        len -= (size_t)n;
    }
}

void raw_read(struct raw_peer *p)
{
    while (p->len < sizeof p->text - 1) {
        ssize_t n = recv(p->fd, p->text + p->len, sizeof p->text - 1 - p->len, 0);
        if (n <= 0) {
            p->ended = p->ended || n == 0 || errno != EAGAIN;
            return;
        }
        p->len += (size_t)n;
        p->text[p->len] = '\0';
    }
}

void raw_close(struct raw_peer *p)
{
    (void)close(p->fd);
    p->fd = -1;
}

void raw_expect(struct net_loop *l, struct raw_peer *p, const char *text)
{
    for (int turn = 0; turn < PATIENCE_MS / 5; turn++) {
        raw_read(p);
        if (text != NULL ? strstr(p->text, text) != NULL : p->ended) {
            return;
        }
        run_for(l, 5);
    }
    fail_msg("expected \"%s\", got \"%s\"", text != NULL ? text : "<end>", p->text);
}

int raw_reserve(unsigned *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof addr;
    int shared = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *port = ntohs(addr.sin_port);
    return fd;
}

int raw_listen(unsigned *port)
{
    int fd = raw_reserve(port);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

void raw_accept(struct net_loop *l, int listener, struct raw_peer *p)
{
    memset(p, 0, sizeof *p);
    p->fd = -1;
    for (int turn = 0; turn < PATIENCE_MS && p->fd < 0; turn++) {
        run_for(l, 1);
        p->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    assert_true(p->fd >= 0);
}

/* On Linux a queue has room for one more than it says. What is closed stays in it. */
void raw_fill(int listener)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(close(fd), 0);
}
