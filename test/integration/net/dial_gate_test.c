/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling through a gate: addresses that may not be reached, and look-ups that wait for others.
 *
 * 127.0.0.1 may not be reached; a server that works is at 127.0.0.9.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "loop_fixture.h"
#include "net/dial_gate.h"
#include "net/listener.h"
#include "net/stream.h"
#include "raw_peer.h"

enum { LONG_MS = 600000, LOOKUPS_MAX = 2, CALLERS = 6 };

struct name {
    const char *name;
    const char *addresses[3];
};

static const struct name names[] = {
    {"good.test", {"127.0.0.9"}},
    {"bad.test", {"127.0.0.1"}},
    {"worse.test", {"127.0.0.1", "127.0.0.1"}},
    {"mixed.test", {"127.0.0.1", "127.0.0.9"}},
    {"turned.test", {"127.0.0.9", "127.0.0.1"}},
    {"gone.test", {"gone.test"}},
};

/* ---- the resolver ---- */

struct lookup {
    uv_getaddrinfo_t *req;
    uv_getaddrinfo_cb told;
    const struct name *name;
    char service[16];
};

static struct lookup lookups[16];
static unsigned begun;
static unsigned released;
static bool hold;   /* none goes on until it is released */
static int refusal; /* what the next one is refused with; 0: nothing */
static unsigned connects;

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints);
int __real_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints);
int __wrap_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *handle, const struct sockaddr *addr,
                          uv_connect_cb cb);
int __real_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *handle, const struct sockaddr *addr,
                          uv_connect_cb cb);

int __wrap_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *handle, const struct sockaddr *addr,
                          uv_connect_cb cb)
{
    connects++;
    return __real_uv_tcp_connect(req, handle, addr, cb);
}

static const struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};

static void on_looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    const struct lookup *l = NULL;
    for (unsigned i = 0; i < begun; i++) {
        l = lookups[i].req == req ? &lookups[i] : l;
    }
    assert_non_null(l);
    struct addrinfo *last = found;
    for (size_t i = 1; status == 0 && l->name->addresses[i] != NULL; i++) {
        assert_int_equal(getaddrinfo(l->name->addresses[i], l->service, &numeric, &last->ai_next),
                         0);
        last = last->ai_next;
    }
    l->told(req, status, found);
}

/* The one that has waited longest goes on. */
static void release(uv_loop_t *loop)
{
    assert_true(released < begun);
    const struct lookup *l = &lookups[released++];
    assert_int_equal(__real_uv_getaddrinfo(loop, l->req, on_looked_up, l->name->addresses[0],
                                           l->service, &numeric),
                     0);
}

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints)
{
    (void)hints;
    int rc = refusal;
    refusal = 0;
    if (rc != 0) {
        return rc;
    }
    assert_true(begun < ARRAY_LEN(lookups));
    struct lookup *l = &lookups[begun++];
    *l = (struct lookup){.req = req, .told = cb};
    (void)snprintf(l->service, sizeof l->service, "%s", service);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        l->name = strcmp(names[i].name, node) == 0 ? &names[i] : l->name;
    }
    assert_non_null(l->name);
    if (!hold) {
        release(loop);
    }
    return 0;
}

/* ---- who dials ---- */

struct caller {
    struct net_stream *stream;
    bool opened;
    bool failed;
    struct err error;
};

struct world {
    struct net_loop *loop;
    struct net_listener *listener;
    struct net_dial_gate gate;
    struct caller callers[CALLERS];
    unsigned accepted;
    unsigned port;
    int reserved;
};

static void on_open(void *data)
{
    struct caller *c = data;
    c->opened = true;
}

static void on_error(void *data, const struct err *e)
{
    struct caller *c = data;
    c->failed = true;
    c->error = *e;
    net_stream_close(c->stream);
    c->stream = NULL;
}

static const struct net_stream_handlers handlers = {.on_open = on_open, .on_error = on_error};

static void on_accept(void *data, struct net_stream *s)
{
    struct world *w = data;
    w->accepted++;
    net_stream_close(s);
}

static bool allows(void *data, const struct sockaddr *address)
{
    const struct sockaddr_in *in = (const void *)address;
    (void)data;
    assert_int_equal(address->sa_family, AF_INET);
    return in->sin_addr.s_addr != htonl(INADDR_LOOPBACK);
}

static int setup(void **state)
{
    static struct world w;
    char address[32];
    w = (struct world){0};
    begun = released = connects = 0;
    hold = false;
    refusal = 0;
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    net_dial_gate_init(&w.gate, allows, NULL, LOOKUPS_MAX);
    w.reserved = raw_reserve(&w.port);
    (void)snprintf(address, sizeof address, "127.0.0.9:%u", w.port);
    const struct net_listener_options o = {.address = address};
    w.listener = net_listener_new(w.loop, &o, on_accept, &w, NULL);
    *state = &w;
    return w.listener != NULL ? 0 : -1;
}

static void hang_up(struct caller *c)
{
    if (c->stream != NULL) {
        net_stream_close(c->stream);
        c->stream = NULL;
    }
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < CALLERS; i++) {
        hang_up(&w->callers[i]);
    }
    net_dial_gate_deinit(&w->gate);
    while (released < begun) {
        release(&w->loop->uv);
    }
    net_listener_close(w->listener);
    (void)close(w->reserved);
    return loop_free(w->loop);
}

static int dial_for(struct world *w, size_t i, const char *host, uint64_t timeout_ms, struct err *e)
{
    const struct net_dial_options o = {
        .host = host, .port = w->port, .gate = &w->gate, .connect_timeout_ms = timeout_ms};
    struct caller *c = &w->callers[i];
    *c = (struct caller){0};
    int rc = net_dial(w->loop, &o, &handlers, c, &c->stream, e);
    assert_false(c->opened || c->failed);
    return rc;
}

static void dial(struct world *w, size_t i, const char *host)
{
    assert_int_equal(dial_for(w, i, host, LONG_MS, NULL), 0);
}

static void expect_refused(struct world *w, const char *host, const char *why)
{
    char text[128];
    (void)snprintf(text, sizeof text, "cannot connect to %s port %u: %s", host, w->port, why);
    dial(w, 0, host);
    run_until(w->loop, &w->callers[0].failed);
    assert_int_equal(w->callers[0].error.code, NET_DIAL_FORBIDDEN);
    assert_string_equal(w->callers[0].error.msg, text);
    assert_int_equal(connects, 0);
    assert_int_equal(w->gate.lookups, 0);
}

/* ---- addresses ---- */

static void test_a_literal_is_refused(void **state)
{
    expect_refused(*state, "127.0.0.1", "this address may not be reached");
    assert_int_equal(begun, 0);
}

static void test_a_refused_literal_is_closed_before_it_is_told(void **state)
{
    struct world *w = *state;
    dial(w, 0, "127.0.0.1");
    hang_up(&w->callers[0]);
    run_for(w->loop, 5);
    assert_false(w->callers[0].failed);
    assert_int_equal(w->loop->streams, 0);
}

static void test_a_literal_is_allowed(void **state)
{
    struct world *w = *state;
    dial(w, 0, "127.0.0.9");
    run_until(w->loop, &w->callers[0].opened);
}

static void test_all_addresses_of_a_name_are_refused(void **state)
{
    expect_refused(*state, "bad.test", "none of its addresses may be reached");
    expect_refused(*state, "worse.test", "none of its addresses may be reached");
}

static void test_one_of_several_is_allowed(void **state)
{
    struct world *w = *state;
    dial(w, 0, "mixed.test");
    run_until(w->loop, &w->callers[0].opened);
    dial(w, 1, "turned.test");
    run_until(w->loop, &w->callers[1].opened);
    assert_int_equal(connects, 2);
}

/* Those that are left out have no part of the time, nor are they tried when the others fail. */
static void test_the_rest_has_all_the_time(void **state)
{
    struct world *w = *state;
    net_listener_close(w->listener);
    w->listener = NULL;
    dial(w, 0, "mixed.test");
    run_until(w->loop, &w->callers[0].failed);
    assert_int_equal(w->callers[0].error.code, UV_ECONNREFUSED);
    assert_int_equal(connects, 1);
}

static void test_a_path_is_not_judged(void **state)
{
    struct world *w = *state;
    struct caller *c = &w->callers[0];
    const struct net_dial_options o = {.path = "/nonexistent/socket", .gate = &w->gate};
    int rc = net_dial(w->loop, &o, &handlers, c, &c->stream, NULL);
    if (rc == 0) {
        run_until(w->loop, &c->failed);
        rc = c->error.code;
    }
    assert_int_equal(rc, UV_ENOENT);
}

/* ---- look-ups ---- */

static void wait_for_lookups(struct world *w, unsigned count)
{
    for (int turn = 0; turn < 20000 && begun < count; turn++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(begun, count);
}

static void test_lookups_wait_in_order(void **state)
{
    static const char *const hosts[] = {"good.test",  "gone.test",   "mixed.test",
                                        "worse.test", "turned.test", "good.test"};
    struct world *w = *state;
    hold = true;
    for (size_t i = 0; i < CALLERS; i++) {
        dial(w, i, hosts[i]);
    }
    for (unsigned i = 0; i < CALLERS; i++) {
        unsigned under_way = i < CALLERS - 1 ? LOOKUPS_MAX : 1;
        wait_for_lookups(w, i + under_way);
        run_for(w->loop, 5);
        assert_int_equal(begun, i + under_way);
        assert_int_equal(w->gate.lookups, under_way);
        assert_string_equal(lookups[i].name->name, hosts[i]);
        release(&w->loop->uv);
        bool good = i != 1 && i != 3;
        run_until(w->loop, good ? &w->callers[i].opened : &w->callers[i].failed);
    }
    assert_int_equal(w->callers[1].error.code, UV_EAI_NONAME);
    assert_int_equal(w->callers[3].error.code, NET_DIAL_FORBIDDEN);
    assert_int_equal(w->gate.lookups, 0);
}

static void test_literals_do_not_wait(void **state)
{
    struct world *w = *state;
    hold = true;
    dial(w, 0, "good.test");
    dial(w, 1, "good.test");
    dial(w, 2, "127.0.0.9");
    run_until(w->loop, &w->callers[2].opened);
}

static void test_is_closed_while_it_waits(void **state)
{
    struct world *w = *state;
    hold = true;
    for (size_t i = 0; i < 5; i++) {
        dial(w, i, i == 3 ? "mixed.test" : "good.test");
    }
    hang_up(&w->callers[2]);
    hang_up(&w->callers[4]);
    release(&w->loop->uv);
    wait_for_lookups(w, 3);
    assert_string_equal(lookups[2].name->name, "mixed.test");
    release(&w->loop->uv);
    release(&w->loop->uv);
    run_until(w->loop, &w->callers[3].opened);
    assert_int_equal(begun, 3);
    assert_true(list_empty(&w->gate.waiting));
}

/* Its thread is still taken. */
static void test_is_closed_while_it_is_looked_up(void **state)
{
    struct world *w = *state;
    hold = true;
    for (size_t i = 0; i < 3; i++) {
        dial(w, i, "good.test");
    }
    hang_up(&w->callers[0]);
    hang_up(&w->callers[1]);
    run_for(w->loop, 10);
    assert_int_equal(begun, 2);
    assert_int_equal(w->gate.lookups, 2);
    release(&w->loop->uv);
    wait_for_lookups(w, 3);
    release(&w->loop->uv);
    release(&w->loop->uv);
    run_until(w->loop, &w->callers[2].opened);
    run_for(w->loop, 5);
    assert_int_equal(w->gate.lookups, 0);
}

static void test_times_out_while_it_waits(void **state)
{
    struct world *w = *state;
    char text[128];
    hold = true;
    dial(w, 0, "good.test");
    dial(w, 1, "good.test");
    assert_int_equal(dial_for(w, 2, "mixed.test", 1000, NULL), 0);
    dial(w, 3, "turned.test");
    loop_skip(w->loop, 1000);
    run_until(w->loop, &w->callers[2].failed);
    (void)snprintf(text, sizeof text, "connecting to mixed.test port %u timed out", w->port);
    assert_int_equal(w->callers[2].error.code, UV_ETIMEDOUT);
    assert_string_equal(w->callers[2].error.msg, text);
    release(&w->loop->uv);
    wait_for_lookups(w, 3);
    assert_string_equal(lookups[2].name->name, "turned.test");
    release(&w->loop->uv);
    release(&w->loop->uv);
    run_until(w->loop, &w->callers[3].opened);
}

/* What was waited counts as time to connect. */
static void test_the_wait_is_part_of_the_time(void **state)
{
    struct world *w = *state;
    hold = true;
    dial(w, 0, "good.test");
    dial(w, 1, "good.test");
    assert_int_equal(dial_for(w, 2, "good.test", 1000, NULL), 0);
    loop_skip(w->loop, 600);
    release(&w->loop->uv);
    wait_for_lookups(w, 3);
    assert_false(w->callers[2].failed);
    loop_skip(w->loop, 400);
    run_until(w->loop, &w->callers[2].failed);
    assert_int_equal(w->callers[2].error.code, UV_ETIMEDOUT);
}

static void test_a_lookup_cannot_be_begun(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    refusal = UV_ENOMEM;
    assert_int_equal(dial_for(w, 0, "good.test", LONG_MS, &e), UV_ENOMEM);
    assert_non_null(strstr(e.msg, "cannot connect to good.test port "));
    assert_int_equal(w->gate.lookups, 0);
    w->callers[0].stream = NULL;

    hold = true;
    for (size_t i = 0; i < 4; i++) {
        dial(w, i, i == 3 ? "mixed.test" : "good.test");
    }
    refusal = UV_ENOMEM;
    release(&w->loop->uv);
    run_until(w->loop, &w->callers[2].failed);
    assert_int_equal(w->callers[2].error.code, UV_ENOMEM);
    wait_for_lookups(w, 3);
    assert_string_equal(lookups[2].name->name, "mixed.test");
}

/* The stream is gone, and then the gate; the look-up is not. */
static void test_the_gate_goes_before_a_lookup(void **state)
{
    struct world *w = *state;
    hold = true;
    dial(w, 0, "good.test");
    dial(w, 1, "good.test");
    dial(w, 2, "good.test");
    for (size_t i = 0; i < 3; i++) {
        hang_up(&w->callers[i]);
    }
    net_dial_gate_deinit(&w->gate);
    memset(&w->gate, 0xff, sizeof w->gate);
    release(&w->loop->uv);
    release(&w->loop->uv);
    for (int turn = 0; turn < 20000 && w->loop->streams > 0; turn++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->loop->streams, 0);
    net_dial_gate_init(&w->gate, allows, NULL, LOOKUPS_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_literal_is_refused),
        TEST(test_a_refused_literal_is_closed_before_it_is_told),
        TEST(test_a_literal_is_allowed),
        TEST(test_all_addresses_of_a_name_are_refused),
        TEST(test_one_of_several_is_allowed),
        TEST(test_the_rest_has_all_the_time),
        TEST(test_a_path_is_not_judged),
        TEST(test_lookups_wait_in_order),
        TEST(test_literals_do_not_wait),
        TEST(test_is_closed_while_it_waits),
        TEST(test_is_closed_while_it_is_looked_up),
        TEST(test_times_out_while_it_waits),
        TEST(test_the_wait_is_part_of_the_time),
        TEST(test_a_lookup_cannot_be_begun),
        TEST(test_the_gate_goes_before_a_lookup),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
