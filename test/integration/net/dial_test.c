/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling a name with several addresses, of which some do not answer.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certs.h"
#include "loop_fixture.h"
#include "net/listener.h"
#include "net/stream.h"
#include "raw_peer.h"

/* What the name leads to: addresses of this machine, all with the same port. */
static const char *const *addresses;

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints);
int __real_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints);

int __wrap_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *handle, const struct sockaddr *addr,
                          uv_connect_cb cb);
int __real_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *handle, const struct sockaddr *addr,
                          uv_connect_cb cb);

static unsigned connects;

int __wrap_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *handle, const struct sockaddr *addr,
                          uv_connect_cb cb)
{
    connects++;
    return __real_uv_tcp_connect(req, handle, addr, cb);
}

int __wrap_uv_try_write(uv_stream_t *handle, const uv_buf_t bufs[], unsigned count);
int __real_uv_try_write(uv_stream_t *handle, const uv_buf_t bufs[], unsigned count);

static enum { WRITES_GO, WRITES_WAIT, WRITES_FAIL } writes;

/* So much is on its way to the peer, which does not read, that nothing more goes. */
static void fill_socket(uv_stream_t *handle)
{
    static const char block[64 * 1024];
    uv_os_fd_t fd;
    assert_int_equal(uv_fileno((uv_handle_t *)handle, &fd), 0);
    while (send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
}

int __wrap_uv_try_write(uv_stream_t *handle, const uv_buf_t bufs[], unsigned count)
{
    if (writes == WRITES_FAIL) {
        return UV_EPIPE;
    }
    if (writes == WRITES_WAIT) {
        fill_socket(handle);
    }
    return __real_uv_try_write(handle, bufs, count);
}

static uv_getaddrinfo_cb resolved;
static char port_text[16];

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct addrinfo *last = found;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    for (size_t i = 1; status == 0 && addresses[i] != NULL; i++) {
        assert_int_equal(getaddrinfo(addresses[i], port_text, &hints, &last->ai_next), 0);
        last = last->ai_next;
    }
    resolved(req, status, found);
}

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints)
{
    assert_string_equal(node, "api.test");
    resolved = cb;
    (void)snprintf(port_text, sizeof port_text, "%s", service);
    return __real_uv_getaddrinfo(loop, req, on_resolved, addresses[0], service, hints);
}

struct world {
    struct net_loop *loop;
    struct net_stream *stream;
    struct net_stream *accepted;
    struct net_listener *listener;
    struct tls_config *server_tls;
    struct tls_config *client_tls;
    int silent; /* a socket at 127.0.0.1 */
    unsigned port;
    bool opened;
    bool failed;
    struct err error;
};

static void on_open(void *data)
{
    struct world *w = data;
    w->opened = true;
}

static void on_error(void *data, const struct err *e)
{
    struct world *w = data;
    w->failed = true;
    w->error = *e;
    net_stream_close(w->stream);
    w->stream = NULL;
}

static void on_accepted_error(void *data, const struct err *e)
{
    struct world *w = data;
    (void)e;
    net_stream_close(w->accepted);
    w->accepted = NULL;
}

static const struct net_stream_handlers handlers = {.on_open = on_open, .on_error = on_error};
static const struct net_stream_handlers accepted_handlers = {.on_error = on_accepted_error};

static void on_accept(void *data, struct net_stream *s)
{
    struct world *w = data;
    assert_null(w->accepted);
    w->accepted = s;
    net_stream_set_handlers(s, &accepted_handlers, w);
}

static void make_tls(struct world *w)
{
    struct certs_pair ca;
    struct certs_pair cert;
    struct err e = ERR_INIT;
    const char *const ips[] = {"127.0.0.9", NULL};
    certs_make_ca("CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.ips = ips}, &cert);
    struct tls_server_options so = {.cert = slice_str(cert.cert), .key = slice_str(cert.key)};
    struct tls_client_options co = {.ca = slice_str(ca.cert), .server_name = "127.0.0.9"};
    w->server_tls = tls_config_new_server(&so, &e);
    w->client_tls = tls_config_new_client(&co, &e);
    assert_true(w->server_tls != NULL && w->client_tls != NULL);
    certs_free(&ca);
    certs_free(&cert);
}

static int setup(void **state)
{
    static struct world w;
    w = (struct world){0};
    connects = 0;
    writes = WRITES_GO;
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    w.silent = raw_reserve(&w.port);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    if (w->stream != NULL) {
        net_stream_close(w->stream);
    }
    if (w->accepted != NULL) {
        net_stream_close(w->accepted);
    }
    net_listener_close(w->listener);
    tls_config_unref(w->server_tls);
    tls_config_unref(w->client_tls);
    (void)close(w->silent);
    return loop_free(w->loop);
}

/* A server that works, at 127.0.0.9. */
static void listen_well(struct world *w)
{
    char address[32];
    struct err e = ERR_INIT;
    (void)snprintf(address, sizeof address, "127.0.0.9:%u", w->port);
    struct net_listener_options o = {.address = address, .tls = w->server_tls};
    w->listener = net_listener_new(w->loop, &o, on_accept, w, &e);
    if (w->listener == NULL) {
        fail_msg("%s", e.msg);
    }
}

static void dial(struct world *w, const char *const *to, uint64_t timeout_ms)
{
    struct err e = ERR_INIT;
    struct net_dial_options o = {.host = "api.test",
                                 .port = w->port,
                                 .tls = w->client_tls,
                                 .connect_timeout_ms = timeout_ms};
    addresses = to;
    assert_int_equal(net_dial(w->loop, &o, &handlers, w, &w->stream, &e), 0);
}

static const char *const silent_first[] = {"127.0.0.1", "127.0.0.9", NULL};
static const char *const good_first[] = {"127.0.0.9", "127.0.0.1", NULL};
static const char *const silent_only[] = {"127.0.0.1", "127.0.0.1", NULL};
static const char *const silent_alone[] = {"127.0.0.1", NULL};

enum { LONG_MS = 600000, TRY_MS = 1500 };

static void wait_for_connects(struct world *w, unsigned count)
{
    for (int turn = 0; turn < 20000 && connects < count; turn++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(connects, count);
}

/* The stream's limit comes so much sooner. */
static void pass_time(struct world *w, uint64_t ms)
{
    loop_skip(w->loop, ms);
    run_for(w->loop, 20);
}

static void test_the_first_that_answers_is_enough(void **state)
{
    struct world *w = *state;
    raw_fill(w->silent);
    listen_well(w);
    dial(w, good_first, LONG_MS);
    run_until(w->loop, &w->opened);
}

static void test_a_silent_address_does_not_take_all_the_time(void **state)
{
    struct world *w = *state;
    raw_fill(w->silent);
    listen_well(w);
    dial(w, silent_first, LONG_MS);
    run_until(w->loop, &w->opened);
}

/* It takes connections, and says nothing. */
static void test_neither_does_a_handshake(void **state)
{
    struct world *w = *state;
    assert_int_equal(listen(w->silent, 16), 0);
    make_tls(w);
    listen_well(w);
    dial(w, silent_first, LONG_MS);
    run_until(w->loop, &w->opened);
    assert_false(w->failed);
    assert_non_null(net_stream_tls(w->stream));
}

/* What could not be sent of it is not sent to the next one. */
static void test_a_handshake_that_cannot_be_sent(void **state)
{
    struct world *w = *state;
    assert_int_equal(listen(w->silent, 16), 0);
    make_tls(w);
    listen_well(w);
    writes = WRITES_WAIT;
    dial(w, silent_first, LONG_MS);
    wait_for_connects(w, 1);
    run_for(w->loop, 20);
    writes = WRITES_GO;
    pass_time(w, TRY_MS);
    run_until(w->loop, &w->opened);
    assert_int_equal(connects, 2);
}

static void test_a_handshake_that_breaks_ends_it(void **state)
{
    struct world *w = *state;
    assert_int_equal(listen(w->silent, 16), 0);
    make_tls(w);
    writes = WRITES_FAIL;
    dial(w, silent_only, LONG_MS);
    run_until(w->loop, &w->failed);
    assert_int_equal(connects, 1);
}

static void test_all_of_them_have_the_time_that_there_is(void **state)
{
    struct world *w = *state;
    raw_fill(w->silent);
    dial(w, silent_only, 1000);
    wait_for_connects(w, 1);
    pass_time(w, 500);
    assert_int_equal(connects, 2);
    run_until(w->loop, &w->failed);
    assert_int_equal(w->error.code, UV_ETIMEDOUT);
    assert_non_null(strstr(w->error.msg, "api.test port"));
}

static void test_one_address_has_all_the_time(void **state)
{
    struct world *w = *state;
    raw_fill(w->silent);
    dial(w, silent_alone, LONG_MS);
    wait_for_connects(w, 1);
    pass_time(w, LONG_MS / 2);
    assert_false(w->failed);
    net_stream_close(w->stream);
    dial(w, silent_alone, 100);
    run_until(w->loop, &w->failed);
    assert_int_equal(w->error.code, UV_ETIMEDOUT);
    assert_int_equal(connects, 2);
}

static void test_there_may_be_no_limit(void **state)
{
    struct world *w = *state;
    raw_fill(w->silent);
    dial(w, silent_only, 0);
    wait_for_connects(w, 1);
    pass_time(w, LONG_MS);
    assert_false(w->failed);
    assert_int_equal(connects, 1);
}

static void test_a_slow_address_has_another_try(void **state)
{
    struct world *w = *state;
    raw_fill(w->silent);
    dial(w, silent_only, LONG_MS);
    wait_for_connects(w, 1);
    pass_time(w, TRY_MS);
    assert_int_equal(connects, 2);
    pass_time(w, TRY_MS);
    assert_int_equal(connects, 3);
    pass_time(w, TRY_MS);
    assert_int_equal(connects, 3); /* with more time */
    assert_int_equal(listen(w->silent, 16), 0);
    run_until(w->loop, &w->opened);
}

/* An address that refuses is not asked again. */
static void test_refusals_end_it_at_once(void **state)
{
    struct world *w = *state;
    dial(w, silent_first, LONG_MS);
    run_until(w->loop, &w->failed);
    assert_int_equal(w->error.code, UV_ECONNREFUSED);
    assert_int_equal(connects, 2);
}

static void test_is_closed_on_its_way(void **state)
{
    struct world *w = *state;
    assert_int_equal(listen(w->silent, 16), 0);
    make_tls(w);
    for (unsigned tries = 0; tries <= 3; tries++) {
        connects = 0;
        dial(w, silent_only, LONG_MS);
        if (tries > 0) {
            wait_for_connects(w, 1);
        }
        while (connects < tries) {
            pass_time(w, TRY_MS);
        }
        net_stream_close(w->stream);
        w->stream = NULL;
        run_for(w->loop, 20);
        assert_int_equal(w->loop->streams, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_that_answers_is_enough),
        TEST(test_a_silent_address_does_not_take_all_the_time),
        TEST(test_neither_does_a_handshake),
        TEST(test_a_handshake_that_cannot_be_sent),
        TEST(test_a_handshake_that_breaks_ends_it),
        TEST(test_all_of_them_have_the_time_that_there_is),
        TEST(test_one_address_has_all_the_time),
        TEST(test_there_may_be_no_limit),
        TEST(test_a_slow_address_has_another_try),
        TEST(test_refusals_end_it_at_once),
        TEST(test_is_closed_on_its_way),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
