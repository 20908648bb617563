/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests over HTTP/2 that a server does not read, or that clients do not send: they
 * delay no others, take no more connections than are of use, and are bounded in memory and time. */
#include <nghttp2/nghttp2.h>

#include "h2_fixture.h"
#include "net/backlog.h"

/* Of a server's first window for a connection, 65535 bytes, large bodies get 40960. */
enum {
    LARGE_BODY = 40000,
    PART = 30000,
    SMALL_BODY = 16000,
    TINY_BODY = 100,
    NARROW_MAX = 16,
    LOOK_MS = 2000
};

static const char block[256 * 1024];

static void put_begin(struct world *w, struct ask *a, size_t len)
{
    ask_begin(w, a, "PUT", HTTP_BODY_LENGTH, len, false);
}

static void put_send(struct ask *a, size_t len)
{
    assert_int_equal(http_exchange_send_body(a->x, slice_of(block, len)), 0);
    assert_int_equal(http_exchange_send_end(a->x), 0);
}

static void expect_read(struct world *w, unsigned n, size_t len)
{
    struct h2_request *r = h2_request(&server, n);
    run_until(w->loop, &r->ended);
    assert_int_equal(r->body.len, len);
}

/* Bodies for which a connection's window has no room go on others, and everything else goes where
 * it likes. */
static void check_unread(struct world *w, size_t len, unsigned dialled)
{
    static struct ask a[8];
    server.holds_window = true;
    (void)world_proven(w);
    for (unsigned i = 0; i < 8; i++) {
        if (i % 2 == 0) {
            put_begin(w, &a[i], len);
            ask_wait_open(w, &a[i]);
            put_send(&a[i], len);
        } else {
            ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
        }
        expect_read(w, 1 + i, i % 2 == 0 ? len : 0);
    }
    assert_int_equal(world_stats(w)->dialled, dialled);
    assert_int_equal(world_stats(w)->busy, 8);
}

static void test_small_bodies_that_are_not_read_delay_no_others(void **state)
{
    check_unread(*state, SMALL_BODY, 1);
}

static void test_large_bodies_that_are_not_read_delay_no_others(void **state)
{
    check_unread(*state, LARGE_BODY, 4);
}

/* As many as like wait for the connection that is being dialled for one of them. */
static void test_many_small_bodies_at_once(void **state)
{
    enum { COUNT = 30 };
    struct world *w = *state;
    static struct ask a[COUNT];
    server.holds_window = true;
    (void)world_proven(w);
    for (int i = 0; i < COUNT; i++) {
        put_begin(w, &a[i], SMALL_BODY);
    }
    for (int i = 0; i < COUNT; i++) {
        ask_wait_open(w, &a[i]);
        put_send(&a[i], SMALL_BODY);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        expect_read(w, 1 + i, SMALL_BODY);
    }
    assert_int_equal(world_stats(w)->dialled, (COUNT + 3) / 4); /* four have room on each */
}

/* Nor does one that fits wait for a connection that is dialled for others, and does not come. */
static void test_a_small_body_passes_those_that_wait_for_room(void **state)
{
    struct world *w = *state;
    static struct ask a[6];
    static struct ask tiny;
    server.holds_window = true;
    (void)world_proven(w);
    for (int i = 0; i < 6; i++) {
        server.mute = i >= 4; /* four have room */
        put_begin(w, &a[i], SMALL_BODY);
        if (!server.mute) {
            ask_wait_open(w, &a[i]);
            put_send(&a[i], SMALL_BODY);
        }
    }
    run_for(w->loop, 20);
    assert_true(http_exchange_blocked(a[5].x));
    put_begin(w, &tiny, TINY_BODY);
    assert_false(http_exchange_blocked(tiny.x));
}

/* So many bodies that the server does not read as there are connections for. Each of these has room
 * for a part of another one. */
static void fill_connections(struct world *w, struct ask a[2 * NARROW_MAX])
{
    server.holds_window = true;
    (void)world_proven(w);
    for (int i = 0; i < 2 * NARROW_MAX; i++) {
        ask_begin(w, &a[i], "PUT", HTTP_BODY_CHUNKED, 0, false);
        ask_wait_open(w, &a[i]);
        assert_int_equal(http_exchange_send_body(a[i].x, slice_of(block, PART)), 0);
        run_for(w->loop, 2);
    }
    h2_expect_requests(&server, 1 + 2 * NARROW_MAX);
    run_for(w->loop, 20);
}

/* They have a bounded number of connections, and small requests pass them all. */
static void test_endless_bodies_leave_room_for_small_ones(void **state)
{
    enum { MORE = 90 }; /* streams that the connection used last has */
    struct world *w = *state;
    static struct ask a[2 * NARROW_MAX];
    static struct ask waiting[MORE];
    static struct ask small[MORE];
    fill_connections(w, a);
    assert_int_equal(world_stats(w)->dialled, NARROW_MAX);
    for (unsigned i = 0; i < MORE; i++) {
        ask_begin(w, &waiting[i], "POST", HTTP_BODY_CHUNKED, 0, false);
        put_begin(w, &small[i], TINY_BODY);
        assert_false(http_exchange_blocked(small[i].x)); /* nothing is waited for */
        put_send(&small[i], TINY_BODY);
        expect_read(w, 1 + 2 * NARROW_MAX + i, TINY_BODY);
    }
    run_for(w->loop, 50);
    for (unsigned i = 0; i < MORE; i++) {
        assert_true(http_exchange_blocked(waiting[i].x));
        http_exchange_abort(waiting[i].x);
    }
    assert_int_equal(world_stats(w)->dialled, NARROW_MAX);
}

/* What waits goes on when there is a connection fewer. */
static void test_what_waits_for_windows_has_another_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[2 * NARROW_MAX];
    static struct ask waiting;
    fill_connections(w, a);
    ask_begin(w, &waiting, "POST", HTTP_BODY_CHUNKED, 0, false);
    run_for(w->loop, 50);
    assert_true(http_exchange_blocked(waiting.x));
    struct h2_server_conn *c = h2_conn(&server, NARROW_MAX - 1);
    h2_goaway(c, INT32_MAX, NGHTTP2_NO_ERROR);
    run_until(w->loop, &waiting.drained);
    assert_int_equal(world_stats(w)->dialled, NARROW_MAX + 1);
}

/* And when the server reads. */
static void test_endless_bodies_end_when_the_server_reads(void **state)
{
    enum { COUNT = 100, LEN = 200 * 1024 };
    struct world *w = *state;
    static struct ask a[COUNT];
    server.answers = true;
    (void)world_proven(w);
    for (unsigned i = 0; i < COUNT; i++) {
        ask_begin(w, &a[i], "PUT", HTTP_BODY_CHUNKED, 0, false);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        ask_wait_open(w, &a[i]);
        put_send(&a[i], LEN);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    assert_true(world_stats(w)->dialled <= NARROW_MAX);
}

/* Nor do those that clients announce and do not send. */
static void test_bodies_that_are_not_sent_keep_no_places(void **state)
{
    enum { COUNT = 40 };
    struct world *w = *state;
    static struct ask a[2 * COUNT];
    (void)world_proven(w);
    for (unsigned i = 0; i < COUNT; i++) {
        put_begin(w, &a[i], i % 2 == 0 ? SMALL_BODY : LARGE_BODY);
        ask_wait_open(w, &a[i]);
    }
    uint64_t dialled = world_stats(w)->dialled;
    for (int i = 0; i < 2; i++) {
        loop_skip(w->loop, LOOK_MS);
        run_for(w->loop, 300);
    }
    for (unsigned i = COUNT; i < COUNT + 3; i++) {
        put_begin(w, &a[i], i % 2 == 0 ? SMALL_BODY : LARGE_BODY);
        assert_false(http_exchange_blocked(a[i].x));
    }
    assert_int_equal(world_stats(w)->dialled, dialled);
}

/* A byte now and then, while the server answers PINGs. */
static void trickle(struct world *w, struct ask *a, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(http_exchange_send_body(a[i].x, slice_of(block, 1)), 0);
    }
    run_for(w->loop, 20);
    loop_skip(w->loop, LOOK_MS);
    for (unsigned i = 0; i < server.accepted; i++) {
        h2_ping(h2_conn(&server, i)); /* none is silent */
    }
    run_for(w->loop, 20);
}

/* Nor do those that clients send slowly. */
static void test_bodies_that_trickle_keep_no_places(void **state)
{
    struct world *w = *state;
    static struct ask a[2 * NARROW_MAX];
    static struct ask other;
    (void)world_proven(w);
    for (int i = 0; i < 2 * NARROW_MAX; i++) {
        ask_begin(w, &a[i], "PUT", HTTP_BODY_CHUNKED, 0, false);
        ask_wait_open(w, &a[i]);
    }
    ask_begin(w, &other, "PUT", HTTP_BODY_CHUNKED, 0, false);
    assert_true(http_exchange_blocked(other.x));
    for (int i = 0; i < 4; i++) {
        trickle(w, a, 2 * NARROW_MAX);
    }
    assert_false(http_exchange_blocked(other.x));
    assert_int_equal(world_stats(w)->dialled, NARROW_MAX);
}

static void use_options(struct world *w, uint64_t write_timeout_ms)
{
    struct http_client_options o = h2_client_options();
    o.write_timeout_ms = write_timeout_ms;
    world_use_options(w, &o);
}

/* As over HTTP/1.1; others on its connection go on. */
static void test_a_body_that_is_never_read_times_out(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    server.holds_window = true;
    use_options(w, 30000);
    struct h2_request *r = ask_begin_get(w, &a[1], 0);
    h2_begin(r, 200);
    run_until(w->loop, &a[1].headed);
    put_begin(w, &a[0], sizeof block);
    put_send(&a[0], sizeof block);
    (void)h2_request(&server, 1);
    for (int i = 0; i < 15; i++) {
        assert_false(a[0].closed);
        loop_skip(w->loop, LOOK_MS);
        run_for(w->loop, 300);
        h2_ping(r->conn);
    }
    for (int i = 0; i < 5 && !a[0].closed; i++) {
        loop_skip(w->loop, LOOK_MS);
        run_for(w->loop, 300);
    }
    run_until(w->loop, &a[0].closed);
    assert_int_equal(a[0].error.code, UV_ETIMEDOUT);
    assert_true(a[0].sent);
    h2_send(r, "hello", 5);
    h2_end(r);
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    assert_int_equal(world_stats(w)->dialled, 1);
}

/* The server opens its window only as half of it has been used, of which the small body that
 * trickles holds back no part. */
static void test_a_body_that_trickles_stops_no_large_one(void **state)
{
    struct world *w = *state;
    static struct ask large;
    static struct ask small;
    server.answers = true;
    use_options(w, 30000);
    (void)world_proven(w);
    put_begin(w, &large, sizeof block);
    ask_wait_open(w, &large);
    put_begin(w, &small, 32 * 1024);
    ask_wait_open(w, &small);
    assert_int_equal(world_stats(w)->dialled, 1);
    put_send(&large, sizeof block);
    for (int i = 0; i < 18 && !large.closed; i++) {
        trickle(w, &small, 1);
    }
    assert_true(large.closed);
    ask_expect_hello(&large);
}

/* What is not sent yet counts, and those wait least who send nothing. */
static void test_what_is_not_read_is_bounded(void **state)
{
    enum { COUNT = 20, MAX = 1024 * 1024 };
    struct world *w = *state;
    static struct ask a[COUNT];
    struct net_backlog *backlog = net_backlog_new(w->loop, MAX);
    unsigned failed = 0;
    assert_non_null(backlog);
    http_client_set_backlog(w->client, backlog);
    server.holds_window = true;
    (void)world_proven(w);
    for (unsigned i = 0; i < COUNT; i++) {
        ask_begin(w, &a[i], "PUT", HTTP_BODY_CHUNKED, 0, false);
        ask_wait_open(w, &a[i]);
        assert_int_equal(http_exchange_send_body(a[i].x, slice_of(block, 128 * 1024)), 0);
        run_for(w->loop, 2);
        assert_true(net_backlog_stats(backlog).bytes <= MAX);
        assert_true(http_exchange_blocked(a[i].x));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        failed += a[i].closed ? 1 : 0;
        assert_true(!a[i].closed || a[i].error.code == UV_ENOBUFS);
    }
    assert_true(failed > 0 && failed < COUNT);
    assert_false(a[COUNT - 1].closed);
    assert_true(net_backlog_stats(backlog).bytes > MAX / 2);
    for (unsigned i = 0; i < COUNT; i++) {
        if (!a[i].closed) {
            http_exchange_abort(a[i].x);
        }
    }
    assert_int_equal(net_backlog_stats(backlog).bytes, 0);
    http_client_free(w->client);
    w->client = NULL;
    run_for(w->loop, 20);
    net_backlog_unref(backlog);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, h2_setup, h2_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_small_bodies_that_are_not_read_delay_no_others),
        TEST(test_large_bodies_that_are_not_read_delay_no_others),
        TEST(test_many_small_bodies_at_once),
        TEST(test_a_small_body_passes_those_that_wait_for_room),
        TEST(test_endless_bodies_leave_room_for_small_ones),
        TEST(test_what_waits_for_windows_has_another_connection),
        TEST(test_endless_bodies_end_when_the_server_reads),
        TEST(test_bodies_that_are_not_sent_keep_no_places),
        TEST(test_bodies_that_trickle_keep_no_places),
        TEST(test_a_body_that_trickles_stops_no_large_one),
        TEST(test_a_body_that_is_never_read_times_out),
        TEST(test_what_is_not_read_is_bounded),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
