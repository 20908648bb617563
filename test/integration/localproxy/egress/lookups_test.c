/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookups_test.c - a name server that does not answer for the hosts that clients ask for, nor for
 * the pod's own proxy: the API server's name is looked up all the same. libuv's threads are the
 * real ones; libc's resolver is replaced.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egress/egress.h"
#include "loop_fixture.h"
#include "net/stream.h"
#include "raw_peer.h"

enum { CLIENTS = 20 };

struct world {
    struct net_loop *loop;
    struct localproxy_flags flags;
    struct listener_secrets *secrets;
    struct policies *policies;
    struct egress *egress;
    int listener; /* of what stands for the API server */
    unsigned port;
    bool reached;
};

static struct raw_peer clients[CLIENTS];

/* ---- the resolver ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool silent;
static unsigned waiting;

/* In place of libc's: names that end in ".silent" wait, all others are 127.0.0.1. */
int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found)
{
    static const char slow[] = ".silent";
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    struct addrinfo numeric = *hints;
    size_t len = strlen(node);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (len >= sizeof slow && strcmp(node + len - (sizeof slow - 1), slow) == 0) {
        (void)pthread_mutex_lock(&mutex);
        waiting++;
        while (silent) {
            (void)pthread_cond_wait(&released, &mutex);
        }
        waiting--;
        (void)pthread_mutex_unlock(&mutex);
        return EAI_AGAIN;
    }
    numeric.ai_flags = AI_NUMERICHOST;
    return real("127.0.0.1", service, &numeric, found);
}

static void set_silent(bool is)
{
    (void)pthread_mutex_lock(&mutex);
    silent = is;
    (void)pthread_cond_broadcast(&released);
    (void)pthread_mutex_unlock(&mutex);
}

static unsigned threads_waiting(void)
{
    (void)pthread_mutex_lock(&mutex);
    unsigned n = waiting;
    (void)pthread_mutex_unlock(&mutex);
    return n;
}

/* ---- set-up ---- */

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    net_loop_set_threads(EGRESS_THREADS);
    w->flags = (struct localproxy_flags){
        .egress = "127.0.0.1:0", .egress_max_tunnels = CLIENTS, .egress_idle_s = 3600};
    w->listener = raw_listen(&w->port);
    set_silent(true);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].fd = -1;
    }
    *state = w;
    return 0;
}

static void open_egress(struct world *w)
{
    static const struct url api = {.https = true, .host = "api.example", .port = 6443};
    const struct policies_options po = {.seed = 1};
    struct egress_options o = {.flags = &w->flags, .server = &api};
    struct err e = ERR_INIT;
    w->secrets = listener_secrets_new(w->loop, &w->flags, 0, &e);
    w->policies = policies_new(w->loop, &po, &e);
    o.secrets = w->secrets;
    o.policies = w->policies;
    w->egress = egress_new(w->loop, &o, &e);
    if (w->egress == NULL) {
        fail_msg("%s", e.msg);
    }
}

static int teardown(void **state)
{
    struct world *w = *state;
    set_silent(false);
    egress_free(w->egress);
    policies_free(w->policies);
    listener_secrets_free(w->secrets);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (clients[i].fd >= 0) {
            raw_close(&clients[i]);
        }
    }
    (void)close(w->listener);
    int rc = loop_free(w->loop);
    free(w);
    return rc;
}

/* ---- the tests ---- */

/* Each for another host. */
static void ask_all(struct world *w, const char *request)
{
    char text[256];
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)snprintf(text, sizeof text, request, i);
        raw_connect(&clients[i], egress_address(w->egress));
        raw_send(&clients[i], text, strlen(text));
    }
}

static void wait_for_threads(struct world *w, unsigned count)
{
    for (unsigned i = 0; threads_waiting() < count; i++) {
        assert_true(i < 1000);
        run_for(w->loop, 10);
    }
    run_for(w->loop, 100); /* no more of them come */
    assert_int_equal(threads_waiting(), count);
}

static void on_open(void *data)
{
    struct world *w = data;
    w->reached = true;
}

static void on_error(void *data, const struct err *e)
{
    (void)data;
    fail_msg("%s", e->msg);
}

/* As localproxy's own requests have it: by name, and without a gate. */
static void expect_reached(struct world *w)
{
    static const struct net_stream_handlers handlers = {.on_open = on_open, .on_error = on_error};
    const struct net_dial_options o = {
        .host = "api.example", .port = w->port, .connect_timeout_ms = 10000};
    struct net_stream *s = NULL;
    struct err e = ERR_INIT;
    w->reached = false;
    assert_int_equal(net_dial(w->loop, &o, &handlers, w, &s, &e), 0);
    run_until(w->loop, &w->reached);
    net_stream_close(s);
}

static void hosts_leave_room_for_the_api_server(void **state)
{
    struct world *w = *state;
    open_egress(w);
    ask_all(w, "CONNECT h%u.silent:443 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for_threads(w, REACH_LOOKUPS_MAX);
    expect_reached(w);
}

static void so_does_the_pods_own_proxy_for_tunnels(void **state)
{
    struct world *w = *state;
    w->flags.egress_via = "http://proxy.silent:3128";
    open_egress(w);
    ask_all(w, "CONNECT h%u.example:443 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for_threads(w, VIA_LOOKUPS_MAX);
    expect_reached(w);
}

static void so_does_it_for_requests(void **state)
{
    struct world *w = *state;
    w->flags.egress_via = "http://proxy.silent:3128";
    open_egress(w);
    ask_all(w, "GET http://h%u.example/ HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for_threads(w, VIA_LOOKUPS_MAX);
    expect_reached(w);
}

/* Hosts without it, and hosts through it. */
static void both_leave_room(void **state)
{
    struct world *w = *state;
    w->flags.egress_via = "http://proxy.silent:3128";
    w->flags.egress_no_proxy = ".silent";
    open_egress(w);
    ask_all(w, "CONNECT h%u.example:443 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for_threads(w, VIA_LOOKUPS_MAX);
    for (size_t i = 0; i < CLIENTS / 2; i++) {
        raw_close(&clients[i]);
    }
    run_for(w->loop, 10);
    for (size_t i = 0; i < CLIENTS / 2; i++) {
        raw_connect(&clients[i], egress_address(w->egress));
        raw_send(&clients[i], "CONNECT h.silent:443 HTTP/1.1\r\nHost: x\r\n\r\n", 43);
    }
    wait_for_threads(w, VIA_LOOKUPS_MAX + REACH_LOOKUPS_MAX);
    expect_reached(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_leave_room_for_the_api_server, setup, teardown),
        cmocka_unit_test_setup_teardown(so_does_the_pods_own_proxy_for_tunnels, setup, teardown),
        cmocka_unit_test_setup_teardown(so_does_it_for_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(both_leave_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
