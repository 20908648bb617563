/* SPDX-License-Identifier: Apache-2.0 */
/* The server, and clients that the test plays byte by byte. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "http_fixture.h"
#include "net/address.h"
#include "net/deadline.h"
#include "net/stream.h"

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

static const char get[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

static void send_ahead(struct raw_peer *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        raw_send(p, get, strlen(get));
    }
}

/* However many requests stand in what was read. */
static void test_requests_sent_ahead_take_turns(void **state)
{
    enum { AHEAD = 500, TURNS = 20 };
    struct world *w = *state;
    static struct raw_peer p;
    static struct raw_peer other;
    unsigned turns = 0;
    raw_connect(&p, http_server_address(w->server));
    send_ahead(&p, AHEAD);
    raw_connect(&other, http_server_address(w->server));
    raw_send(&other, get, strlen(get));
    for (; strstr(other.text, "hello") == NULL && turns < TURNS; turns++) {
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
        raw_read(&other);
    }
    assert_in_range(turns, 1, TURNS - 1);
    assert_in_range(w->requests, 2, 2 * TURNS);
    while (w->requests < AHEAD + 1) {
        run_for(w->loop, 1);
    }
    raw_close(&p);
    raw_close(&other);
}

/* Nor do all who send ahead come in one turn, where their requests take long. */
static void test_turns_do_not_take_long(void **state)
{
    enum { CLIENTS = 30, AHEAD = 5, WORK_MS = 2, MOST = 10 };
    struct world *w = *state;
    static struct raw_peer peers[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) {
        raw_connect(&peers[i], http_server_address(w->server));
        send_ahead(&peers[i], AHEAD);
    }
    while (w->requests < CLIENTS) {
        run_for(w->loop, 1);
    }
    w->work_ns = WORK_MS * UINT64_C(1000000);
    while (w->requests < CLIENTS * AHEAD) {
        unsigned before = w->requests;
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
        assert_in_range(w->requests, before, before + MOST);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        raw_close(&peers[i]);
    }
}

/* No answer is made while those before it are not read, and then all are. */
static void test_requests_sent_ahead_wait_for_their_reader(void **state)
{
    enum { AHEAD = 600, PAUSE_MS = 300 };
    struct world *w = *state;
    static struct raw_peer p;
    static char bytes[1024 * 1024];
    size_t received = 0;
    w->behaviour = ANSWER_PAGE;
    raw_connect(&p, http_server_address(w->server));
    send_ahead(&p, AHEAD);
    run_for(w->loop, PAUSE_MS);
    assert_in_range(w->requests, 1, AHEAD / 2);
    assert_false(w->server_broke);
    while (received < (size_t)AHEAD * PAGE) {
        run_for(w->loop, 1);
        ssize_t n = recv(p.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        received += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(w->requests, AHEAD);
    raw_close(&p);
}

/* So that nobody can keep a place without being known. */
static void test_the_last_answer_ends_the_connection(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_NO;
    raw_connect(&p, http_server_address(w->server));
    send_ahead(&p, 2);
    raw_expect(w->loop, &p, "who?");
    raw_expect(w->loop, &p, NULL);
    assert_non_null(strstr(p.text, "Connection: close\r\n"));
    assert_int_equal(w->requests, 1);
    raw_close(&p);
}

static void test_a_silent_connection_goes_for_another(void **state)
{
    enum { PLACES = 4, SILENCE_MS = 1200 };
    struct world *w = *state;
    static struct raw_peer p[PLACES + 2];
    http_server_free(w->server);
    w->server = world_crowded_server(w);
    raw_exchange(w, &p[0], get, "hello");
    for (int i = 1; i < PLACES; i++) {
        raw_connect(&p[i], http_server_address(w->server));
    }
    raw_connect(&p[PLACES], http_server_address(w->server));
    raw_expect(w->loop, &p[PLACES], NULL); /* they came just now, too */
    run_for(w->loop, SILENCE_MS);
    raw_exchange(w, &p[PLACES + 1], get, "hello");
    raw_expect(w->loop, &p[1], NULL);
    p[0].len = 0;
    raw_send(&p[0], get, strlen(get));
    raw_expect(w->loop, &p[0], "hello"); /* who asked before stays */
    for (int i = 0; i < PLACES + 2; i++) {
        raw_close(&p[i]);
    }
}

/* The server's end of the peer's connection. */
static int other_end(const struct raw_peer *p)
{
    struct sockaddr_in here;
    struct sockaddr_in there;
    socklen_t len = sizeof here;
    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&here, &len), 0);
    for (int fd = 3; fd < 1024; fd++) {
        len = sizeof there;
        if (getpeername(fd, (struct sockaddr *)&there, &len) == 0 && there.sin_family == AF_INET &&
            there.sin_port == here.sin_port) {
            return fd;
        }
    }
    fail_msg("there is none");
    return -1;
}

static void test_the_kernel_keeps_little(void **state)
{
    static const int options[] = {SO_SNDBUF, SO_RCVBUF};
    struct world *w = *state;
    static struct raw_peer p;
    http_server_free(w->server);
    w->server = world_crowded_server(w);
    raw_exchange(w, &p, get, "hello");
    for (int i = 0; i < 2; i++) {
        int bytes = 0;
        socklen_t len = sizeof bytes;
        assert_int_equal(getsockopt(other_end(&p), SOL_SOCKET, options[i], &bytes, &len), 0);
        assert_int_equal(bytes, KERNEL_BYTES);
    }
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

static void expect_reset(struct world *w, struct raw_peer *p)
{
    char byte;
    struct pollfd closed = {.fd = p->fd, .events = POLLIN};
    for (int i = 0; i < 1000 && poll(&closed, 1, 0) == 0; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(recv(p->fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, ECONNRESET);
    raw_close(p);
}

static void expect_end(struct world *w, struct raw_peer *p)
{
    char byte;
    struct pollfd closed = {.fd = p->fd, .events = POLLIN};
    for (int i = 0; i < 1000 && poll(&closed, 1, 0) == 0; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(recv(p->fd, &byte, 1, MSG_DONTWAIT), 0);
    raw_close(p);
}

/* Nothing but the way in which the connection ends tells it from a whole one. */
static void test_http_1_0_is_told_of_an_aborted_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, "GET / HTTP/1.0\r\n\r\n", "one two");
    http_exchange_abort(w->serving);
    expect_reset(w, &p);
}

/* Until the server has it. */
static void ask_raw(struct world *w, struct raw_peer *p, const char *request)
{
    unsigned before = w->requests;
    raw_connect(p, http_server_address(w->server));
    raw_send(p, request, strlen(request));
    while (w->requests == before) {
        run_for(w->loop, 1);
    }
}

/* Asks, and is answered with a head whose body is still to come. */
static void announce(struct world *w, struct raw_peer *p, uint64_t length)
{
    const struct http_head head = {
        .status = 200, .framing = HTTP_BODY_LENGTH, .content_length = length};
    w->behaviour = ANSWER_NEVER;
    ask_raw(w, p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(http_exchange_send_head(w->serving, &head), 0);
}

/* The JavaScript client waits for ever where a connection ends in order before Content-Length is
 * reached. */
static void test_an_aborted_answer_of_known_length(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static const struct slice parts[] = {SLICE(""), SLICE("one")};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        announce(w, &p, 7);
        run_for(w->loop, 20);
        raw_read(&p);
        assert_int_equal(p.len, 0); /* the head goes with what follows */
        assert_int_equal(http_exchange_send_body(w->serving, parts[i]), 0);
        if (parts[i].len > 0) {
            raw_expect(w->loop, &p, "Content-Length: 7\r\n\r\none");
        }
        http_exchange_abort(w->serving);
        expect_reset(w, &p);
    }
}

/* Whose reader has got all, and knows it: whatever becomes of its end, nothing of it is lost. */
static void test_an_aborted_answer_that_is_whole(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    announce(w, &p, 3);
    assert_int_equal(http_exchange_send_body(w->serving, SLICE("one")), 0);
    http_exchange_abort(w->serving);
    raw_expect(w->loop, &p, "\r\n\r\none");
    expect_end(w, &p);
}

static void test_an_aborted_answer_without_body(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    const struct http_head head = {.status = 204, .framing = HTTP_BODY_NONE};
    w->behaviour = ANSWER_NEVER;
    ask_raw(w, &p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(http_exchange_send_head(w->serving, &head), 0);
    http_exchange_abort(w->serving);
    raw_expect(w->loop, &p, "204 No Content\r\n\r\n");
    expect_end(w, &p);
}

/* The server's end is no orderly one of what it still answers. */
static void test_freeing_the_server_cuts_an_answer_of_known_length(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    announce(w, &p, 7);
    assert_int_equal(http_exchange_send_body(w->serving, SLICE("one")), 0);
    raw_expect(w->loop, &p, "\r\n\r\none");
    http_server_free(w->server);
    w->server = NULL;
    expect_reset(w, &p);
}

/* Asks for what is more than the kernel takes, and does not read. How long the body is. */
static size_t fill(struct world *w, struct raw_peer *p, const char *request)
{
    static char bytes[32 * 1024];
    const struct http_head head = {.status = 200, .framing = HTTP_BODY_CLOSE};
    size_t sent = 0;
    w->behaviour = ANSWER_NEVER;
    ask_raw(w, p, request);
    assert_int_equal(http_exchange_send_head(w->serving, &head), 0);
    while (!http_exchange_blocked(w->serving)) {
        assert_int_equal(http_exchange_send_body(w->serving, slice_of(bytes, sizeof bytes)), 0);
        sent += sizeof bytes;
    }
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    run_for(w->loop, 20);
    return sent;
}

/* Reads on. False: the connection was reset. */
static bool read_all(struct world *w, struct raw_peer *p, size_t *received)
{
    static char bytes[1024 * 1024];
    ssize_t n = -1;
    *received = 0;
    while (n != 0) {
        run_for(w->loop, 1);
        n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) {
            assert_int_equal(errno, ECONNRESET);
            return false;
        }
        *received += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* It would take the connection's end for that of the answer. */
static void test_http_1_0_is_told_of_an_answer_that_it_read_too_late(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    size_t received;
    size_t sent = fill(w, &p, "GET / HTTP/1.0\r\n\r\n");
    net_stream_hurry_finished(w->loop);
    while (w->loop->streams > 0) {
        run_for(w->loop, 1);
    }
    assert_false(read_all(w, &p, &received));
    assert_in_range(received, 0, sent - 1);
    raw_close(&p);
}

/* Its head does not wait for ever. */
static void test_a_slow_answer_of_known_length(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    announce(w, &p, 3);
    raw_expect(w->loop, &p, "Content-Length: 3\r\n\r\n");
    assert_int_equal(http_exchange_send_body(w->serving, SLICE("one")), 0);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    raw_expect(w->loop, &p, "\r\n\r\none");
    raw_close(&p);
}

/* While its head waits. */
static void test_the_client_goes_before_a_slow_answer(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    announce(w, &p, 3);
    raw_close(&p);
    run_for(w->loop, 3 * NET_TICK_MS);
    assert_null(w->serving);
}

/* ---- clients that say they will send no more ---- */

static void wait_requests(struct world *w, unsigned count)
{
    while (w->requests < count) {
        run_for(w->loop, 1);
    }
}

static void wait_closed(struct world *w, unsigned count)
{
    while (w->server_closed < count) {
        run_for(w->loop, 1);
    }
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    return n;
}

static void half_close(struct raw_peer *p)
{
    assert_int_equal(shutdown(p->fd, SHUT_WR), 0);
}

static void answer_later(struct world *w)
{
    assert_int_equal(http_respond(w->serving, 200, SLICE("text/plain"), SLICE("later"), NULL, 0),
                     0);
}

static void test_who_half_closes_is_answered(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_NEVER;
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, get, strlen(get));
    half_close(&p);
    wait_requests(w, 1);
    run_for(w->loop, 20); /* the end is read */
    assert_int_equal(w->server_closed, 0);
    answer_later(w);
    raw_expect(w->loop, &p, "later");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    wait_closed(w, 1);
    assert_false(w->server_broke);
}

static void test_who_half_closes_gets_all_that_was_asked(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_AT_ONCE;
    raw_connect(&p, http_server_address(w->server));
    send_ahead(&p, 3);
    half_close(&p);
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
    assert_int_equal(w->requests, 3);
    assert_int_equal(count_of(p.text, "hello"), 3);
}

static void test_an_answer_that_has_begun_goes_on(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = ANSWER_CHUNKED;
    raw_exchange(w, &p, get, "two");
    half_close(&p);
    run_for(w->loop, 20);
    assert_int_equal(w->server_closed, 0);
    assert_int_equal(http_exchange_send_body(w->serving, SLICE("three")), 0);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    raw_expect(w->loop, &p, "three\r\n0\r\n\r\n");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
}

/* Whether it has said so before or not. */
static void test_who_has_closed_is_not_waited_for(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    for (unsigned i = 0; i < 4; i++) {
        w->behaviour = i % 2 == 0 ? ANSWER_NEVER : ANSWER_CHUNKED;
        raw_connect(&p, http_server_address(w->server));
        raw_send(&p, get, strlen(get));
        wait_requests(w, i + 1);
        if (i / 2 == 1) {
            half_close(&p);
            run_for(w->loop, 20);
            assert_int_equal(w->server_closed, i);
        }
        raw_close(&p);
        wait_closed(w, i + 1);
        assert_true(w->server_broke);
    }
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

static void expect_page(struct world *w, const char *address)
{
    static struct raw_peer p;
    raw_connect(&p, address);
    raw_send(&p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    raw_expect(w->loop, &p, "hello");
    raw_close(&p);
}

static void test_several_addresses(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    static struct raw_peer idle;
    for (size_t n = 1; n < HTTP_SERVER_ADDRESSES_MAX; n++) {
        assert_string_equal(http_server_address_at(w->server, n), "");
        assert_int_equal(http_server_listen(w->server, "127.0.0.1:0", NULL, &e), 0);
        assert_string_not_equal(http_server_address_at(w->server, n),
                                http_server_address(w->server));
        expect_page(w, http_server_address_at(w->server, n));
    }
    expect_page(w, http_server_address(w->server));
    assert_int_equal(http_server_listen(w->server, "127.0.0.1:0", NULL, &e), -E2BIG);
    assert_string_equal(e.msg, "more than 16 addresses");
    raw_connect(&idle, http_server_address_at(w->server, 1));
    run_for(w->loop, 10);
    http_server_drain(w->server);
    run_until(w->loop, &w->drained);
    raw_expect(w->loop, &idle, NULL);
    assert_string_equal(http_server_address_at(w->server, 1), "");
    raw_close(&idle);
}

static void test_an_address_that_is_taken(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    char taken[NET_ADDRESS_MAX];
    (void)snprintf(taken, sizeof taken, "%s", http_server_address(w->server));
    assert_int_equal(http_server_listen(w->server, taken, NULL, &e), UV_EADDRINUSE);
    assert_non_null(strstr(e.msg, taken));
    assert_int_equal(http_server_listen(w->server, taken, NULL, NULL), UV_EADDRINUSE);
    expect_page(w, taken);
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
        TEST(test_requests_sent_ahead_take_turns),
        TEST(test_turns_do_not_take_long),
        TEST(test_requests_sent_ahead_wait_for_their_reader),
        TEST(test_the_last_answer_ends_the_connection),
        TEST(test_a_silent_connection_goes_for_another),
        TEST(test_the_kernel_keeps_little),
        TEST(test_expect_continue),
        TEST(test_http_1_0_gets_no_chunks),
        TEST(test_http_1_0_is_told_of_an_aborted_answer),
        TEST(test_an_aborted_answer_of_known_length),
        TEST(test_an_aborted_answer_that_is_whole),
        TEST(test_an_aborted_answer_without_body),
        TEST(test_freeing_the_server_cuts_an_answer_of_known_length),
        TEST(test_http_1_0_is_told_of_an_answer_that_it_read_too_late),
        TEST(test_a_slow_answer_of_known_length),
        TEST(test_the_client_goes_before_a_slow_answer),
        TEST(test_who_half_closes_is_answered),
        TEST(test_who_half_closes_gets_all_that_was_asked),
        TEST(test_an_answer_that_has_begun_goes_on),
        TEST(test_who_has_closed_is_not_waited_for),
        TEST(test_connection_close_is_honoured),
        TEST(test_too_many_connections_are_closed),
        TEST(test_several_addresses),
        TEST(test_an_address_that_is_taken),
        TEST(test_drain_finishes_what_runs),
        TEST(test_drain_waits_for_no_idle_client),
        TEST(test_drain_delivers_what_is_queued),
        TEST(test_freeing_the_server_ends_exchanges),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
