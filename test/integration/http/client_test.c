/* SPDX-License-Identifier: Apache-2.0 */
/* The client, and servers that the test plays byte by byte. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_fixture.h"
#include "net/dial_gate.h"

/* A scripted server: takes a connection by hand, and the head of a request on it. */
static void accept_request(struct world *w, int fd, struct raw_peer *p)
{
    raw_accept(w->loop, fd, p);
    raw_expect(w->loop, p, "\r\n\r\n");
}

static const char ok_answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* From now on the client asks a server that the test plays: connections come in at the result. */
static int play_server(struct world *w)
{
    unsigned port;
    int fd = raw_listen(&port);
    http_client_free(w->client);
    w->client = world_client(w, port);
    return fd;
}

/* A first request has `answer`; the server's end of its connection is `p`. */
static void first_request(struct world *w, int fd, struct raw_peer *p, const char *answer)
{
    static struct ask first;
    ask_get(w, &first);
    ask_wait_open(w, &first);
    assert_int_equal(http_exchange_send_end(first.x), 0);
    accept_request(w, fd, p);
    raw_send(p, answer, strlen(answer));
    run_until(w->loop, &first.closed);
    assert_false(first.failed);
    ask_expect_body(&first, "ok");
    p->len = 0;
}

/* A first request puts a connection into the pool, which the server then closes as soon as the next
 * request has reached it, and it has said `last`. */
static void stale_connection(struct world *w, const char *method, bool upgrade, struct ask *second,
                             int fd, const char *last)
{
    static struct raw_peer p;
    first_request(w, fd, &p, ok_answer);
    ask_begin(w, second, method, HTTP_BODY_NONE, 0, upgrade);
    assert_false(http_exchange_blocked(second->x));
    assert_int_equal(http_exchange_send_end(second->x), 0);
    raw_expect(w->loop, &p, "\r\n\r\n");
    raw_send(&p, last, strlen(last));
    raw_close(&p);
}

static void test_a_get_is_repeated_on_a_new_connection(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    stale_connection(w, "GET", false, &a, fd, "");
    raw_accept(w->loop, fd, &p);
    run_until(w->loop, &a.drained);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    raw_expect(w->loop, &p, "\r\n\r\n");
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "ok");
    assert_int_equal(http_client_stats(w->client)->repeated, 1);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

/* The server is gone, and with it what it has read. */
static void test_what_would_be_repeated_is_not_sent(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    ask_get(w, &a);
    raw_expect(w->loop, &p, "\r\n\r\n");
    assert_true(http_client_sent(a.x));
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    raw_close(&p);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ECONNREFUSED);
    assert_false(a.sent);
    assert_int_equal(http_client_stats(w->client)->repeated, 1);
    assert_int_equal(close(fd), 0);
}

static void check_failed_for_good(struct world *w, struct ask *a, int fd)
{
    run_until(w->loop, &a->closed);
    assert_true(a->failed);
    run_for(w->loop, 50);
    assert_int_equal(accept4(fd, NULL, NULL, SOCK_NONBLOCK), -1);
    assert_int_equal(http_client_stats(w->client)->repeated, 0);
    assert_int_equal(close(fd), 0);
}

static void check_not_repeated(struct world *w, const char *method, bool upgrade, const char *last)
{
    static struct ask a;
    int fd = play_server(w);
    stale_connection(w, method, upgrade, &a, fd, last);
    check_failed_for_good(w, &a, fd);
}

static void test_a_post_is_not_repeated(void **state)
{
    check_not_repeated(*state, "POST", false, "");
}

static void test_a_get_that_was_answered_in_part_is_not_repeated(void **state)
{
    check_not_repeated(*state, "GET", false, "HTTP/1.1 2");
}

static void test_an_upgrade_is_not_repeated(void **state)
{
    check_not_repeated(*state, "GET", true, "");
}

/* The body is not there any more. */
static void test_a_get_with_a_body_is_not_repeated(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    ask_begin(w, &a, "GET", HTTP_BODY_LENGTH, 4, false);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("body")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    raw_expect(w->loop, &p, "\r\n\r\nbody");
    raw_close(&p);
    check_failed_for_good(w, &a, fd);
}

/* The loop has not seen yet that the server closed; a POST must not find out. */
static void test_a_post_asks_whether_the_connection_is_closed(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    raw_close(&p);
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    assert_int_equal(http_client_stats(w->client)->dialled, 2);
    accept_request(w, fd, &p);
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "ok");
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

/* A GET need not: it can be repeated, which is rarer than asking. */
static void test_a_get_does_not_ask(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    raw_close(&p);
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    accept_request(w, fd, &p);
    assert_int_equal(http_client_stats(w->client)->repeated, 1);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

/* A success before those that are tried now is no reason to go on. */
static void test_requests_that_wait_fail_though_one_succeeded_before(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a[12];
    int fd = play_server(w);
    first_request(w, fd, &p, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    raw_close(&p);
    assert_int_equal(close(fd), 0);
    for (int i = 0; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &a[i]);
        assert_int_equal(a[i].error.code, UV_ECONNREFUSED);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 1 + 8);
}

/* What has been answered so leaves no connection behind. */
static void check_not_kept(struct world *w, const char *answer)
{
    static struct raw_peer p;
    int fd = play_server(w);
    first_request(w, fd, &p, answer);
    assert_int_equal(http_client_stats(w->client)->idle, 0);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_a_server_may_close_after_its_answer(void **state)
{
    check_not_kept(*state, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
}

static void test_bytes_behind_an_answer_end_the_connection(void **state)
{
    check_not_kept(*state, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n");
}

static void test_new_tls_settings_end_connections_in_use(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_get(w, &a);
    accept_request(w, fd, &p);
    http_client_set_tls(w->client, NULL, NULL);
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_until(w->loop, &a.closed);
    ask_expect_body(&a, "ok");
    assert_int_equal(http_client_stats(w->client)->open, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_a_protocol_nobody_asked_for_is_an_error(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    static const char answer[] =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    int fd = play_server(w);
    first_request(w, fd, &p, ok_answer);
    ask_get(w, &a);
    raw_expect(w->loop, &p, "\r\n\r\n");
    raw_send(&p, answer, strlen(answer));
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, -HTTP_PARSE_BAD);
    assert_true(a.sent);
    assert_false(a.headed);
    assert_int_equal(http_client_stats(w->client)->repeated, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_a_request_may_be_paused_before_it_is_sent(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_get(w, &a);
    http_exchange_pause(a.x);
    accept_request(w, fd, &p);
    raw_send(&p, ok_answer, strlen(ok_answer));
    run_for(w->loop, 50);
    assert_false(a.headed);
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    ask_expect_body(&a, "ok");
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_an_early_answer_is_delivered(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 1000000, false);
    accept_request(w, fd, &p);
    static const char answer[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig";
    raw_send(&p, answer, strlen(answer));
    run_until(w->loop, &a.closed);
    assert_int_equal(a.status, 413);
    ask_expect_body(&a, "big");
    assert_int_equal(http_client_stats(w->client)->open, 0);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static void test_an_answer_that_is_not_http_is_an_error(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static struct ask a;
    int fd = play_server(w);
    ask_get(w, &a);
    accept_request(w, fd, &p);
    raw_send(&p, "SSH-2.0-OpenSSH\r\n\r\n", 19);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
    raw_close(&p);
    assert_int_equal(close(fd), 0);
}

static bool refuse(void *data, const struct sockaddr *address)
{
    unsigned *asked = data;
    assert_int_equal(address->sa_family, AF_INET);
    ++*asked;
    return false;
}

static void test_a_gate_judges_where_it_connects(void **state)
{
    struct world *w = *state;
    static struct ask a;
    unsigned asked = 0;
    unsigned port = (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1);
    struct net_dial_gate gate;
    net_dial_gate_init(&gate, refuse, &asked, 1);
    const struct http_client_options o = {
        .host = "127.0.0.1", .port = port, .gate = &gate, .connect_timeout_ms = LONG_MS};
    http_client_free(w->client);
    w->client = http_client_new(w->loop, &o, NULL);
    assert_non_null(w->client);
    ask_get(w, &a);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, NET_DIAL_FORBIDDEN);
    assert_false(a.sent);
    assert_int_equal(asked, 1);
    assert_int_equal(w->requests, 0);
    http_client_free(w->client);
    w->client = NULL;
    net_dial_gate_deinit(&gate);
}

static bool may_send(void *data)
{
    return *(const bool *)data;
}

/* Long after it was asked for: nothing is sent, on a new connection as on one that is kept. */
static void test_a_guarded_request_is_not_sent_once_it_may_not(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct err e = ERR_INIT;
    bool open = true;
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {.method = SLICE("GET"),
                                   .target = SLICE("/path"),
                                   .headers = &host,
                                   .header_count = 1,
                                   .guarded = true};
    const struct http_client_options o = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1),
        .connect_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .max_idle = 4,
        .may_send = may_send,
        .data = &open};
    http_client_free(w->client);
    w->client = http_client_new(w->loop, &o, NULL);
    assert_non_null(w->client);
    w->guarded = true;
    ask_get(w, &a); /* a connection is opened for it */
    open = false;
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ECANCELED);
    assert_false(a.sent);
    buf_reset(&a.body);
    w->guarded = false;
    ask_all(w, &a); /* others go on */
    assert_false(a.failed);
    buf_reset(&a.body);
    assert_null(http_client_request(w->client, &head, NULL, NULL, &e));
    assert_int_equal(e.code, UV_ECANCELED);
    open = true;
    w->guarded = true;
    ask_all(w, &a);
    assert_false(a.failed);
    buf_reset(&a.body);
    assert_int_equal(w->requests, 2);
}

/* What a client says of the server, in the order in which it does. */
struct notices {
    struct ask *asked; /* hears of it only after that */
    unsigned statuses;
    unsigned status;
    char target[64];
    unsigned lost;
    unsigned reached;
};

static void on_status(void *data, const struct http_head *request, unsigned status)
{
    struct notices *n = data;
    assert_false(n->asked->headed);
    n->statuses++;
    n->status = status;
    (void)snprintf(n->target, sizeof n->target, "%.*s", (int)request->target.len,
                   request->target.ptr);
}

static void on_reach(void *data, const struct err *why)
{
    struct notices *n = data;
    assert_false(n->asked->closed);
    n->lost += why != NULL;
    n->reached += why == NULL;
    assert_true(why == NULL || why->code == UV_ECONNREFUSED);
}

static void test_statuses_and_a_server_that_is_away_are_told_first(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct notices n = {.asked = &a};
    unsigned port = (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1);
    const struct http_client_options o = {.host = "127.0.0.1",
                                          .port = port,
                                          .connect_timeout_ms = LONG_MS,
                                          .idle_timeout_ms = LONG_MS,
                                          .on_status = on_status,
                                          .on_reach = on_reach,
                                          .notice_data = &n};
    http_client_free(w->client);
    w->client = http_client_new(w->loop, &o, NULL);
    assert_non_null(w->client);
    w->behaviour = ANSWER_NO;
    ask_all(w, &a);
    buf_reset(&a.body);
    assert_int_equal(n.statuses, 1);
    assert_int_equal(n.status, 401);
    assert_string_equal(n.target, w->last_target);
    assert_int_equal(n.lost + n.reached, 0);
    http_server_free(w->server);
    ask_get(w, &a);
    run_until(w->loop, &a.closed);
    buf_reset(&a.body);
    assert_int_equal(n.lost, 1);
    w->server = world_server(w, NULL, LONG_MS);
    http_client_free(w->client);
    w->client = NULL;
    assert_int_equal(n.statuses, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_get_is_repeated_on_a_new_connection),
        TEST(test_a_guarded_request_is_not_sent_once_it_may_not),
        TEST(test_statuses_and_a_server_that_is_away_are_told_first),
        TEST(test_what_would_be_repeated_is_not_sent),
        TEST(test_a_post_is_not_repeated),
        TEST(test_a_get_that_was_answered_in_part_is_not_repeated),
        TEST(test_an_upgrade_is_not_repeated),
        TEST(test_a_get_with_a_body_is_not_repeated),
        TEST(test_a_post_asks_whether_the_connection_is_closed),
        TEST(test_a_get_does_not_ask),
        TEST(test_requests_that_wait_fail_though_one_succeeded_before),
        TEST(test_a_server_may_close_after_its_answer),
        TEST(test_bytes_behind_an_answer_end_the_connection),
        TEST(test_new_tls_settings_end_connections_in_use),
        TEST(test_a_protocol_nobody_asked_for_is_an_error),
        TEST(test_a_request_may_be_paused_before_it_is_sent),
        TEST(test_an_early_answer_is_delivered),
        TEST(test_an_answer_that_is_not_http_is_an_error),
        TEST(test_a_gate_judges_where_it_connects),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
