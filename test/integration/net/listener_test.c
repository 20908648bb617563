/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listener.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "loop_fixture.h"
#include "raw_peer.h"

static void on_accept(void *data, struct net_stream *s)
{
    bool *accepted = data;
    *accepted = true;
    net_stream_close(s);
}

/* Whether who connects to `host`, as it is in ADDR:PORT, is let in by a listener on `address`. */
static void reach(struct net_loop *l, const char *address, const char *host, const char *bound)
{
    bool accepted = false;
    struct err e = ERR_INIT;
    struct net_listener_options o = {.address = address, .write_timeout_ms = 10000};
    struct net_listener *n = net_listener_new(l, &o, on_accept, &accepted, &e);
    if (n == NULL) {
        fail_msg("%s: %s", address, e.msg);
    }
    const char *at = net_listener_address(n);
    const char *port = strrchr(at, ':');
    if (strncmp(at, bound, strlen(bound)) != 0) {
        fail_msg("%s: bound to %s, wanted %s", address, at, bound);
    }
    char to[NET_ADDRESS_MAX];
    (void)snprintf(to, sizeof to, "%s%s", host, port);
    struct raw_peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    raw_connect(p, to);
    run_until(l, &accepted);
    raw_close(p);
    free(p);
    net_listener_close(n);
}

struct crowd {
    struct net_listener *listener;
    struct raw_peer *peers;
    unsigned accepted;
};

enum { CROWD = 100, BURST = 16 };

static void on_one_more(void *data, struct net_stream *s)
{
    struct crowd *c = data;
    c->accepted++;
    net_stream_close(s);
}

/* All connect before the loop turns. */
static void crowd_connect(struct crowd *c, struct net_loop *l)
{
    struct err e = ERR_INIT;
    struct net_listener_options o = {.address = "127.0.0.1:0", .write_timeout_ms = 10000};
    *c = (struct crowd){.accepted = 0};
    c->listener = net_listener_new(l, &o, on_one_more, c, &e);
    c->peers = calloc(CROWD, sizeof *c->peers);
    assert_non_null(c->listener);
    assert_non_null(c->peers);
    for (size_t i = 0; i < CROWD; i++) {
        raw_connect(&c->peers[i], net_listener_address(c->listener));
    }
}

static void crowd_leave(struct crowd *c)
{
    for (size_t i = 0; i < CROWD; i++) {
        raw_close(&c->peers[i]);
    }
    free(c->peers);
}

/* However many come at once, the loop looks at all else in between. */
static void a_crowd_comes_in_bursts(void **state)
{
    struct net_loop *l = *state;
    struct crowd c;
    crowd_connect(&c, l);
    for (unsigned before = 0; c.accepted < CROWD; before = c.accepted) {
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
        assert_in_range(c.accepted - before, 0, BURST + 1);
    }
    crowd_leave(&c);
    net_listener_close(c.listener);
}

/* Closed while somebody waits for the next turn, which is due by then. */
static void a_crowd_comes_too_late(void **state)
{
    struct net_loop *l = *state;
    struct crowd c;
    crowd_connect(&c, l);
    while (c.accepted == 0) {
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    }
    unsigned accepted = c.accepted;
    assert_in_range(accepted, 1, BURST); /* libuv decides how many there are in a turn */
    net_listener_close(c.listener);
    uv_sleep(2);
    run_for(l, 20);
    assert_int_equal(c.accepted, accepted);
    crowd_leave(&c);
}

static bool machine_has_ipv6(void)
{
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return has;
}

/* Whatever the system's default of IPV6_V6ONLY is. */
static void all_addresses_are_those_of_both_families(void **state)
{
    if (!machine_has_ipv6()) {
        skip();
    }
    reach(*state, "[::]:0", "127.0.0.1", "[::]:");
    reach(*state, "[::]:0", "[::1]", "[::]:");
    reach(*state, ":0", "127.0.0.1", "[::]:");
    reach(*state, ":0", "[::1]", "[::]:");
    reach(*state, "0.0.0.0:0", "127.0.0.1", "0.0.0.0:");
}

/* As a kernel that was started with ipv6.disable=1 answers. */
static void take_away_ipv6(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(rules), .filter = rules};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    assert_int_equal(socket(AF_INET6, SOCK_STREAM, 0), -1);
    assert_int_equal(errno, EAFNOSUPPORT);
}

/* Only all addresses are also those of IPv4: another one is asked for in vain. */
static void a_kernel_without_ipv6(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        void *loop = NULL;
        struct err e = ERR_INIT;
        struct net_listener_options o = {.address = "[::1]:0"};
        take_away_ipv6();
        assert_int_equal(loop_setup(&loop), 0);
        reach(loop, "[::]:0", "127.0.0.1", "0.0.0.0:");
        reach(loop, ":0", "127.0.0.1", "0.0.0.0:");
        assert_null(net_listener_new(loop, &o, on_accept, NULL, &e));
        assert_non_null(strstr(e.msg, "cannot listen on [::1]:0"));
        assert_int_equal(loop_teardown(&loop), 0);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_setup, loop_teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_addresses_are_those_of_both_families),
        TEST(a_crowd_comes_in_bursts),
        TEST(a_crowd_comes_too_late),
        cmocka_unit_test(a_kernel_without_ipv6),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
