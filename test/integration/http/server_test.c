/* SPDX-License-Identifier: Apache-2.0 */
/* The server, and clients that the test plays byte by byte. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_fixture.h"

static void raw_exchange(struct world *w, struct raw_peer *p, const char *request,
                         const char *expected)
{
    raw_connect(p, http_server_address(w->server));
    raw_send(p, request, strlen(request));
    raw_expect(w->loop, p, expected);
}

static void test_garbage_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    raw_exchange(w, &p, "\x16\x03\x01 nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n");
    assert_non_null(strstr(p.text, "Connection: close\r\n"));
    raw_expect(w->loop, &p, "refused 400: ");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->requests, 0);
    assert_int_equal(http_server_stats(w->server)->refused, 1);
}

/* What the user of the request before had is gone: nobody may be told a second time. */
static void test_garbage_after_an_answer_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst", "first");
    assert_int_equal(w->server_closed, 1);
    raw_send(&p, "garbage\r\n\r\n", 11);
    raw_expect(w->loop, &p, "HTTP/1.1 400 Bad Request\r\n");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->server_closed, 1);
    assert_false(w->server_broke);
}

static void test_a_bad_body_ends_the_request(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                 "HTTP/1.1 400 Bad Request\r\n");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_true(w->server_broke);
    assert_int_equal(w->server_closed, 1);
}

static void test_a_huge_head_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static char head[80 * 1024];
    memset(head, 'a', sizeof head);
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, "GET / HTTP/1.1\r\nHost: a\r\nX: ", 28);
    raw_send(&p, head, sizeof head);
    raw_expect(w->loop, &p, "HTTP/1.1 431 ");
    raw_close(&p);
}

static void test_a_slow_head_is_closed(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    http_server_free(w->server);
    w->server = world_server(w, NULL, 300);
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, "GET / HT", 8);
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->requests, 0);
}

static void test_pipelined_requests_are_answered_in_order(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p,
                 "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst"
                 "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond"
                 "POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nthird",
                 "third");
    char *first = strstr(p.text, "\r\n\r\nfirst");
    char *second = strstr(p.text, "\r\n\r\nsecond");
    assert_non_null(first);
    assert_true(second > first);
    raw_close(&p);
}

static void test_expect_continue(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_END;
    raw_exchange(w, &p,
                 "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
                 "HTTP/1.1 100 Continue\r\n\r\n");
    raw_send(&p, "hi", 2);
    raw_expect(w->loop, &p, "\r\n\r\nhi");
    raw_close(&p);
}

static void test_http_1_0_gets_no_chunks(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.0\r\n\r\n", "one two");
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    raw_expect(w->loop, &p, NULL);
    assert_null(strstr(p.text, "chunked"));
    assert_non_null(strstr(p.text, "\r\n\r\none two"));
    raw_close(&p);
}

/* Nothing but the way in which the connection ends tells it from a whole one. */
static void test_http_1_0_is_told_of_an_aborted_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    char byte;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.0\r\n\r\n", "one two");
    http_exchange_abort(w->serving);
    struct pollfd closed = {.fd = p.fd, .events = POLLIN};
    for (int i = 0; i < 1000 && poll(&closed, 1, 0) == 0; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(recv(p.fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, ECONNRESET);
    raw_close(&p);
}

static void test_connection_close_is_honoured(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    raw_exchange(w, &p, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "hello");
    raw_expect(w->loop, &p, NULL);
    assert_non_null(strstr(p.text, "Connection: close\r\n"));
    raw_close(&p);
}

static void test_too_many_connections_are_closed(void **state)
{
    struct world *w = *state;
    static struct raw_peer p[33];
    for (int i = 0; i < 33; i++) {
        raw_connect(&p[i], http_server_address(w->server));
    }
    raw_expect(w->loop, &p[32], NULL);
    raw_send(&p[0], "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    raw_expect(w->loop, &p[0], "hello");
    for (int i = 0; i < 33; i++) {
        raw_close(&p[i]);
    }
}

static void test_drain_finishes_what_runs(void **state)
{
    struct world *w = *state;
    static struct raw_peer busy;
    static struct raw_peer idle;
    w->behaviour = ANSWER_CHUNKED;
    raw_connect(&idle, http_server_address(w->server));
    raw_exchange(w, &busy, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "two");
    http_server_drain(w->server);
    raw_expect(w->loop, &idle, NULL);
    assert_false(w->drained);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    run_until(w->loop, &w->drained);
    raw_expect(w->loop, &busy, "\r\n0\r\n\r\n");
    raw_expect(w->loop, &busy, NULL);
    raw_close(&busy);
    raw_close(&idle);
}

/* Not even one that does not close its own side. */
static void test_drain_waits_for_no_idle_client(void **state)
{
    struct world *w = *state;
    static struct raw_peer idle;
    raw_connect(&idle, http_server_address(w->server));
    run_for(w->loop, 10);
    http_server_drain(w->server);
    run_until(w->loop, &w->drained);
    raw_expect(w->loop, &idle, NULL);
    run_for(w->loop, 20); /* far less than a stream may wait for its peer */
    assert_int_equal(w->loop->streams, 0);
    raw_close(&idle);
}

/* The answer is complete, but has not left yet. */
static void test_drain_delivers_what_is_queued(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->drain_on_close = true;
    ask_all(w, &a);
    assert_false(a.failed);
    ask_expect_body(&a, "hello");
    assert_true(w->drained);
}

static void test_freeing_the_server_ends_exchanges(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "two");
    http_server_free(w->server);
    w->server = NULL;
    assert_true(w->server_broke);
    raw_expect(w->loop, &p, NULL);
    assert_null(strstr(p.text, "\r\n0\r\n\r\n")); /* cut off, not ended */
    raw_close(&p);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_garbage_is_refused),
        TEST(test_garbage_after_an_answer_is_refused),
        TEST(test_a_bad_body_ends_the_request),
        TEST(test_a_huge_head_is_refused),
        TEST(test_a_slow_head_is_closed),
        TEST(test_pipelined_requests_are_answered_in_order),
        TEST(test_expect_continue),
        TEST(test_http_1_0_gets_no_chunks),
        TEST(test_http_1_0_is_told_of_an_aborted_answer),
        TEST(test_connection_close_is_honoured),
        TEST(test_too_many_connections_are_closed),
        TEST(test_drain_finishes_what_runs),
        TEST(test_drain_waits_for_no_idle_client),
        TEST(test_drain_delivers_what_is_queued),
        TEST(test_freeing_the_server_ends_exchanges),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
