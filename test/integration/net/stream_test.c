/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "loop_fixture.h"
#include "net/listener.h"
#include "net/stream.h"
#include "raw_peer.h"

/* One end of a connection: what happened to it. */
struct end {
    struct net_loop *loop;
    struct net_stream *stream;
    bool opened;
    bool eof;
    bool failed;
    bool drained;
    bool close_on_open;
    bool close_on_read;
    struct err error;
    size_t received;
    unsigned checksum;
    size_t want; /* bytes after which `enough` is set */
    bool enough;
    struct end *other; /* closed as soon as this one has failed */
};

static void close_end(struct end *t)
{
    if (t->stream != NULL) {
        net_stream_close(t->stream);
        t->stream = NULL;
    }
}

static void on_open(void *data)
{
    struct end *t = data;
    t->opened = true;
    if (t->close_on_open) {
        close_end(t);
        return;
    }
    net_stream_read_start(t->stream);
}

static void on_read(void *data, struct slice bytes)
{
    struct end *t = data;
    for (size_t i = 0; i < bytes.len; i++) {
        t->checksum = t->checksum * 31 + (unsigned char)bytes.ptr[i];
    }
    t->received += bytes.len;
    t->enough = t->want > 0 && t->received >= t->want;
    if (t->close_on_read) {
        close_end(t);
    }
}

static void on_eof(void *data)
{
    struct end *t = data;
    t->eof = true;
}

static void on_drain(void *data)
{
    struct end *t = data;
    t->drained = true;
}

static void on_error(void *data, const struct err *e)
{
    struct end *t = data;
    t->failed = true;
    t->error = *e;
    close_end(t);
    if (t->other != NULL) {
        close_end(t->other);
    }
}

static const struct net_stream_handlers handlers = {
    .on_open = on_open,
    .on_read = on_read,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_error = on_error,
};

static void on_accept(void *data, struct net_stream *s)
{
    struct end *server = data;
    server->stream = s;
    server->opened = true;
    net_stream_set_handlers(s, &handlers, server);
}

struct pair {
    struct net_listener *listener;
    struct end client;
    struct end server;
};

static void dial(struct end *t, struct net_loop *l, const char *host, unsigned port)
{
    struct err e = ERR_INIT;
    struct net_dial_options o = {.host = host, .port = port, .connect_timeout_ms = 5000};
    t->loop = l;
    assert_int_equal(net_dial(l, &o, &handlers, t, &t->stream, &e), 0);
}

static unsigned port_of(const struct net_listener *n)
{
    return (unsigned)atoi(strrchr(net_listener_address(n), ':') + 1);
}

static void open_pair(struct pair *p, struct net_loop *l, uint64_t write_timeout_ms)
{
    struct err e = ERR_INIT;
    memset(p, 0, sizeof *p);
    struct net_listener_options o = {.address = "127.0.0.1:0",
                                     .write_timeout_ms = write_timeout_ms};
    p->listener = net_listener_new(l, &o, on_accept, &p->server, &e);
    assert_non_null(p->listener);
    dial(&p->client, l, "127.0.0.1", port_of(p->listener));
    assert_false(p->client.opened); /* never before net_dial returns */
    run_until(l, &p->client.opened);
    run_until(l, &p->server.opened);
}

static void close_pair(struct pair *p)
{
    close_end(&p->client);
    close_end(&p->server);
    net_listener_close(p->listener);
}

static void send_text(struct end *t, const char *text)
{
    struct slice part = slice_str(text);
    assert_int_equal(net_stream_write(t->stream, &part, 1), 0);
}

static void test_bytes_pass_both_ways(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    net_stream_read_start(p.server.stream);
    p.server.want = 5;
    p.client.want = 3;
    send_text(&p.client, "hel");
    send_text(&p.client, "lo");
    run_until(*state, &p.server.enough);
    send_text(&p.server, "yes");
    run_until(*state, &p.client.enough);
    close_pair(&p);
}

static void test_nothing_is_read_before_start(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    send_text(&p.client, "early");
    run_for(*state, 50);
    assert_int_equal(p.server.received, 0);
    p.server.want = 5;
    net_stream_read_start(p.server.stream);
    run_until(*state, &p.server.enough);
    close_pair(&p);
}

/* Writes until blocked; the queue stays bounded, and all arrives once the peer reads. */
static void test_a_slow_reader_blocks_the_writer(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    char block[16 * 1024];
    size_t sent = 0;
    unsigned checksum = 0;
    while (!net_stream_blocked(p.client.stream)) {
        for (size_t i = 0; i < sizeof block; i++) {
            block[i] = (char)(sent + i);
            checksum = checksum * 31 + (unsigned char)block[i];
        }
        struct slice part = slice_of(block, sizeof block);
        assert_int_equal(net_stream_write(p.client.stream, &part, 1), 0);
        sent += sizeof block;
        assert_true(sent < 64u << 20);
    }
    assert_false(p.client.drained);
    p.server.want = sent;
    net_stream_read_start(p.server.stream);
    run_until(*state, &p.server.enough);
    run_until(*state, &p.client.drained);
    assert_int_equal(p.server.received, sent);
    assert_int_equal(p.server.checksum, checksum);
    assert_false(net_stream_blocked(p.client.stream));
    close_pair(&p);
}

static void test_a_queue_over_the_maximum_is_refused(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    static char block[1024 * 1024];
    struct slice part = slice_of(block, sizeof block);
    int rc = 0;
    for (int i = 0; i < 64 && rc == 0; i++) {
        rc = net_stream_write(p.client.stream, &part, 1);
    }
    assert_int_equal(rc, UV_ENOBUFS);
    close_pair(&p);
}

static void test_half_close_lets_the_other_side_go_on(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    net_stream_read_start(p.server.stream);
    send_text(&p.client, "question");
    net_stream_shutdown(p.client.stream);
    run_until(*state, &p.server.eof);
    assert_int_equal(p.server.received, 8);
    p.client.want = 6;
    send_text(&p.server, "answer");
    run_until(*state, &p.client.enough);
    close_pair(&p);
}

/* What an accepted stream's peer does not read waits for the kernel soon: its own buffer and 64 KiB
 * are full, however large the kernel would let the sender's become. */
static void test_an_accepted_stream_blocks_soon(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    net_stream_read_stop(p.client.stream);
    char block[16 * 1024] = {0};
    struct slice part = slice_of(block, sizeof block);
    size_t sent = 0;
    while (!net_stream_blocked(p.server.stream)) {
        assert_int_equal(net_stream_write(p.server.stream, &part, 1), 0);
        sent += sizeof block;
        run_for(*state, 1); /* the kernel may make more room meanwhile */
        assert_true(sent <= 512 * 1024);
    }
    p.client.want = sent;
    net_stream_read_start(p.client.stream);
    run_until(*state, &p.client.enough);
    run_until(*state, &p.server.drained);
    close_pair(&p);
}

static void test_finish_delivers_what_is_queued(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    char block[16 * 1024];
    memset(block, 'x', sizeof block);
    size_t sent = 0;
    while (!net_stream_blocked(p.server.stream)) {
        struct slice part = slice_of(block, sizeof block);
        assert_int_equal(net_stream_write(p.server.stream, &part, 1), 0);
        sent += sizeof block;
    }
    net_stream_finish(p.server.stream);
    p.server.stream = NULL;
    run_until(*state, &p.client.eof);
    assert_int_equal(p.client.received, sent);
    close_pair(&p);
}

/* Its peer never reads, and holds up nobody who wants to end. */
static void test_a_loop_that_ends_waits_for_no_reader(void **state)
{
    static char block[64 * 1024];
    struct pair p = {.listener = NULL};
    struct net_loop *l = *state;
    struct err e = ERR_INIT;
    const struct net_listener_options o = {.address = "127.0.0.1:0"};
    p.listener = net_listener_new(l, &o, on_accept, &p.server, &e);
    assert_non_null(p.listener);
    struct raw_peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    raw_connect(peer, net_listener_address(p.listener));
    run_until(l, &p.server.opened);
    const struct slice part = slice_of(block, sizeof block);
    for (bool full = false; !full; full = net_stream_blocked(p.server.stream)) {
        while (!net_stream_blocked(p.server.stream)) {
            assert_int_equal(net_stream_write(p.server.stream, &part, 1), 0);
        }
        run_for(l, 100); /* what the kernel takes goes */
    }
    net_stream_finish(p.server.stream);
    net_listener_close(p.listener);
    assert_int_equal(loop_free(l), 0);
    *state = NULL;
    raw_close(peer);
    free(peer);
}

/* Some turns of the loop: not the second that a finished stream may wait for its peer. */
static void expect_streams_soon(struct net_loop *l, unsigned count)
{
    run_for(l, 20);
    assert_int_equal(l->streams, count);
}

static void finish_end(struct end *t)
{
    net_stream_finish(t->stream);
    t->stream = NULL;
}

static void test_a_finished_stream_waits_for_the_peer(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    finish_end(&p.server);
    run_until(*state, &p.client.eof);
    assert_int_equal(p.client.loop->streams, 2);
    close_end(&p.client);
    expect_streams_soon(*state, 0);
    close_pair(&p);
}

static void test_a_stream_that_both_ended_is_finished_at_once(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    net_stream_read_start(p.server.stream);
    net_stream_shutdown(p.client.stream);
    net_stream_shutdown(p.server.stream);
    run_until(*state, &p.server.eof);
    run_until(*state, &p.client.eof);
    finish_end(&p.server);
    expect_streams_soon(*state, 1);
    close_pair(&p);
}

static void test_a_finished_stream_does_not_wait_for_long(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    net_stream_shutdown(p.server.stream);
    run_until(*state, &p.client.eof);
    finish_end(&p.server);
    for (int i = 0; i < 4000 && p.client.loop->streams > 1; i++) {
        run_for(*state, 5);
    }
    assert_int_equal(p.client.loop->streams, 1);
    close_pair(&p);
}

static void test_a_reader_that_stalls_is_given_up(void **state)
{
    struct pair p;
    open_pair(&p, *state, 400);
    net_stream_read_stop(p.client.stream);
    static char block[2 * 1024 * 1024];
    /* The kernel's buffers may grow, and take all that was written until then. */
    for (int turns = 0; turns < 1000 && !p.server.failed; turns++) {
        while (!net_stream_blocked(p.server.stream)) {
            struct slice part = slice_of(block, sizeof block);
            assert_int_equal(net_stream_write(p.server.stream, &part, 1), 0);
        }
        run_for(*state, 20);
    }
    assert_true(p.server.failed);
    assert_int_equal(p.server.error.code, UV_ETIMEDOUT);
    close_pair(&p);
}

static void test_a_refused_connection_names_the_peer(void **state)
{
    struct end t = {0};
    unsigned port;
    int fd = raw_reserve(&port);
    dial(&t, *state, "127.0.0.1", port);
    assert_false(t.failed);
    run_until(*state, &t.failed);
    assert_int_equal(t.error.code, UV_ECONNREFUSED);
    assert_non_null(strstr(t.error.msg, "127.0.0.1"));
    assert_int_equal(close(fd), 0);
}

static void test_an_unknown_name_is_an_error(void **state)
{
    struct end t = {0};
    dial(&t, *state, "no-such-host.invalid", 1);
    run_until(*state, &t.failed);
    assert_non_null(strstr(t.error.msg, "no-such-host.invalid"));
}

static void test_a_name_is_looked_up(void **state)
{
    struct pair p;
    struct err e = ERR_INIT;
    memset(&p, 0, sizeof p);
    struct net_listener_options o = {.address = "127.0.0.1:0"};
    p.listener = net_listener_new(*state, &o, on_accept, &p.server, &e);
    assert_non_null(p.listener);
    dial(&p.client, *state, "localhost", port_of(p.listener));
    run_until(*state, &p.client.opened);
    run_until(*state, &p.server.opened);
    close_pair(&p);
}

/* Nothing listens on the only address of this name; somebody does on another one of this machine.
 */
static void test_only_addresses_of_the_name_are_tried(void **state)
{
    struct end server = {0};
    struct end t = {0};
    struct err e = ERR_INIT;
    struct net_listener_options o = {.address = "[::1]:0"};
    struct net_listener *n = net_listener_new(*state, &o, on_accept, &server, &e);
    if (n == NULL) {
        skip(); /* a machine without IPv6 */
    }
    dial(&t, *state, "127.1", port_of(n)); /* no literal, but looked up without a server */
    run_until(*state, &t.failed);
    assert_int_equal(t.error.code, UV_ECONNREFUSED);
    assert_false(t.opened || server.opened);
    net_listener_close(n);
}

static void test_close_at_once(void **state)
{
    struct end t = {0};
    unsigned port;
    int fd = raw_listen(&port);
    dial(&t, *state, "127.0.0.1", port);
    close_end(&t);
    run_for(*state, 20);
    assert_false(t.opened || t.failed);
    assert_int_equal(close(fd), 0);
}

static void test_close_during_look_up(void **state)
{
    struct end t = {0};
    dial(&t, *state, "no-such-host.invalid", 1);
    close_end(&t);
    run_for(*state, 20);
    assert_false(t.opened || t.failed);
}

/* Both are refused in one turn of the loop: who hears of it first closes the other, whose socket is
 * being closed. */
static void test_close_between_two_addresses(void **state)
{
    struct end a = {0};
    struct end b = {.other = &a};
    unsigned port;
    a.other = &b;
    int fd = raw_reserve(&port);
    dial(&a, *state, "127.0.0.1", port);
    dial(&b, *state, "127.0.0.1", port);
    run_for(*state, 20);
    assert_int_equal(a.failed + b.failed, 1);
    assert_int_equal(close(fd), 0);
}

static void test_close_inside_on_open(void **state)
{
    struct end t = {.close_on_open = true};
    unsigned port;
    int fd = raw_listen(&port);
    dial(&t, *state, "127.0.0.1", port);
    run_until(*state, &t.opened);
    assert_int_equal(close(fd), 0);
}

static void test_close_inside_on_read(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    p.server.close_on_read = true;
    p.server.want = 1;
    net_stream_read_start(p.server.stream);
    send_text(&p.client, "bye");
    run_until(*state, &p.server.enough);
    run_until(*state, &p.client.eof);
    close_pair(&p);
}

/* And all that the kernel takes. How much that is. */
static size_t fill_queue(struct end *t)
{
    static char block[64 * 1024];
    size_t sent = 0;
    while (!net_stream_blocked(t->stream)) {
        struct slice part = slice_of(block, sizeof block);
        assert_int_equal(net_stream_write(t->stream, &part, 1), 0);
        sent += sizeof block;
        if (net_stream_blocked(t->stream)) {
            run_for(t->loop, 5);
        }
    }
    return sent;
}

static void test_close_with_a_full_queue(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    (void)fill_queue(&p.client);
    close_pair(&p);
}

/* The peer reads when it is too late. */
/* Twice, for some may have left in the first of these times. */
static void skip_stalls(struct net_loop *l, uint64_t ms)
{
    for (int i = 0; i < 2; i++) {
        loop_skip(l, ms);
        run_for(l, 20);
    }
}

static void test_a_write_timeout_may_change_in_between(void **state)
{
    enum { LONG_MS = 60000 };
    struct pair p;
    open_pair(&p, *state, 0);
    (void)fill_queue(&p.client);
    net_stream_set_write_timeout(p.client.stream, LONG_MS);
    net_stream_set_write_timeout(p.client.stream, 0);
    skip_stalls(*state, LONG_MS);
    assert_false(p.client.failed);
    net_stream_set_write_timeout(p.client.stream, LONG_MS);
    skip_stalls(*state, LONG_MS);
    assert_int_equal(p.client.error.code, UV_ETIMEDOUT);
    close_pair(&p);
}

/* Where the peer had all the time, it has it no longer. */
static void test_a_finished_stream_is_not_read_for_ever(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    (void)fill_queue(&p.client);
    finish_end(&p.client);
    skip_stalls(*state, 300000);
    assert_int_equal(p.client.loop->streams, 1);
    close_pair(&p);
}

static void test_what_is_unsent_is_dropped(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    assert_false(net_stream_unacknowledged(p.client.stream));
    size_t sent = fill_queue(&p.client);
    assert_true(net_stream_unacknowledged(p.client.stream));
    net_stream_drop_unsent(p.client.stream);
    close_end(&p.client);
    net_stream_read_start(p.server.stream);
    while (!p.server.eof && !p.server.failed) {
        run_for(*state, 1);
    }
    assert_true(p.server.received < sent / 2);
    close_pair(&p);
}

static void test_nothing_unsent_is_no_reset(void **state)
{
    struct pair p;
    open_pair(&p, *state, 0);
    net_stream_read_start(p.server.stream);
    p.server.want = 4;
    send_text(&p.client, "text");
    run_until(*state, &p.server.enough);
    net_stream_drop_unsent(p.client.stream);
    close_end(&p.client);
    run_until(*state, &p.server.eof);
    close_pair(&p);
}

static void test_a_server_that_never_answers_tls_times_out(void **state)
{
    struct end t = {0};
    unsigned port;
    struct err e = ERR_INIT;
    int fd = raw_listen(&port);
    struct tls_client_options to = {.server_name = "127.0.0.1", .insecure = true};
    struct tls_config *tls = tls_config_new_client(&to, &e);
    assert_non_null(tls);
    struct net_dial_options o = {
        .host = "127.0.0.1", .port = port, .tls = tls, .connect_timeout_ms = 300};
    assert_int_equal(net_dial(*state, &o, &handlers, &t, &t.stream, &e), 0);
    tls_config_unref(tls);
    run_until(*state, &t.failed);
    assert_int_equal(t.error.code, UV_ETIMEDOUT);
    assert_int_equal(close(fd), 0);
}

static void test_a_port_in_use_is_said(void **state)
{
    struct err e = ERR_INIT;
    unsigned port;
    char address[32];
    int fd = raw_listen(&port);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    struct net_listener_options o = {.address = address};
    assert_null(net_listener_new(*state, &o, on_accept, NULL, &e));
    assert_int_equal(e.code, UV_EADDRINUSE);
    assert_non_null(strstr(e.msg, address));
    assert_int_equal(close(fd), 0);
}

int main(void)
{
#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, loop_setup, loop_teardown)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(test_bytes_pass_both_ways),
        LOOP_TEST(test_nothing_is_read_before_start),
        LOOP_TEST(test_a_slow_reader_blocks_the_writer),
        LOOP_TEST(test_a_queue_over_the_maximum_is_refused),
        LOOP_TEST(test_an_accepted_stream_blocks_soon),
        LOOP_TEST(test_half_close_lets_the_other_side_go_on),
        LOOP_TEST(test_finish_delivers_what_is_queued),
        cmocka_unit_test_setup(test_a_loop_that_ends_waits_for_no_reader, loop_setup),
        LOOP_TEST(test_a_finished_stream_waits_for_the_peer),
        LOOP_TEST(test_a_stream_that_both_ended_is_finished_at_once),
        LOOP_TEST(test_a_finished_stream_does_not_wait_for_long),
        LOOP_TEST(test_a_reader_that_stalls_is_given_up),
        LOOP_TEST(test_a_refused_connection_names_the_peer),
        LOOP_TEST(test_an_unknown_name_is_an_error),
        LOOP_TEST(test_a_name_is_looked_up),
        LOOP_TEST(test_only_addresses_of_the_name_are_tried),
        LOOP_TEST(test_close_at_once),
        LOOP_TEST(test_close_during_look_up),
        LOOP_TEST(test_close_between_two_addresses),
        LOOP_TEST(test_close_inside_on_open),
        LOOP_TEST(test_close_inside_on_read),
        LOOP_TEST(test_close_with_a_full_queue),
        LOOP_TEST(test_a_write_timeout_may_change_in_between),
        LOOP_TEST(test_a_finished_stream_is_not_read_for_ever),
        LOOP_TEST(test_what_is_unsent_is_dropped),
        LOOP_TEST(test_nothing_unsent_is_no_reset),
        LOOP_TEST(test_a_server_that_never_answers_tls_times_out),
        LOOP_TEST(test_a_port_in_use_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
