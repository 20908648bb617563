/* SPDX-License-Identifier: Apache-2.0 */
/* Client and server together. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certs.h"
#include "http_fixture.h"

static void test_get(void **state)
{
    struct world *w = *state;
    static struct ask a;
    ask_all(w, &a);
    assert_false(a.failed);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.type, "text/plain");
    assert_string_equal(w->last_target, "/path");
    ask_expect_body(&a, "hello");
}

static void test_connections_are_reused(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 20; i++) {
        static struct ask a;
        ask_all(w, &a);
        assert_false(a.failed);
        ask_expect_body(&a, "hello");
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    assert_int_equal(http_client_stats(w->client)->requests, 20);
    assert_int_equal(w->server_closed, 20);
    assert_false(w->server_broke);
}

static void test_idle_connections_are_bounded(void **state)
{
    struct world *w = *state;
    static struct ask a[7];
    for (int i = 0; i < 7; i++) {
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 7; i++) {
        ask_finish(w, &a[i]);
        ask_expect_body(&a[i], "hello");
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 7);
    assert_int_equal(http_client_stats(w->client)->idle, 4);
    assert_int_equal(http_client_stats(w->client)->open, 4);
}

static void test_post_with_length(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_AT_END;
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 6, false);
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("abc")), 0);
    assert_int_equal(http_exchange_send_end(a.x), UV_EPROTO); /* three are missing */
    assert_int_equal(http_exchange_send_body(a.x, SLICE("def")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("x")), UV_EPROTO);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    ask_expect_body(&a, "abcdef");
}

static void test_post_chunked(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_AT_END;
    ask_begin(w, &a, "POST", HTTP_BODY_CHUNKED, 0, false);
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("abc")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("")), 0); /* must not end the message */
    assert_int_equal(http_exchange_send_body(a.x, SLICE("0123456789abcdefg")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    ask_expect_body(&a, "abc0123456789abcdefg");
}

static void test_head_has_no_body(void **state)
{
    struct world *w = *state;
    static struct ask a;
    ask_begin(w, &a, "HEAD", HTTP_BODY_NONE, 0, false);
    ask_finish(w, &a);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.received, 0);
    ask_all(w, &a); /* the connection is still in step */
    ask_expect_body(&a, "hello");
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
}

static void test_bodies_arrive_before_the_end(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_CHUNKED;
    ask_get(w, &a);
    for (int i = 0; i < 1000 && a.received < 7; i++) {
        if (a.drained) {
            a.drained = false;
            assert_int_equal(http_exchange_send_end(a.x), 0);
        }
        run_for(w->loop, 1);
    }
    assert_int_equal(a.received, 7);
    assert_false(a.ended);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "one two");
}

static void test_a_paused_client_blocks_the_server(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_LARGE;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    a.keep_body = false;
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    http_exchange_pause(a.x);
    run_for(w->loop, 100);
    size_t before = a.received;
    run_for(w->loop, 100);
    assert_int_equal(a.received, before);
    assert_true(w->large_left > 0); /* the server could not send all */
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.received, LARGE);
}

/* Asks for a large answer, and reads none of it for more than a minute. */
static void stall(struct world *w, struct ask *a)
{
    ask_begin(w, a, "GET", HTTP_BODY_NONE, 0, false);
    a->keep_body = false;
    ask_wait_open(w, a);
    assert_int_equal(http_exchange_send_end(a->x), 0);
    run_until(w->loop, &a->headed);
    http_exchange_pause(a->x);
    run_for(w->loop, 100);
    assert_true(w->large_left > 0);
    loop_skip(w->loop, LONG_MS);
    run_for(w->loop, 300);
}

static void test_a_reader_may_take_its_time_where_it_is_given(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_LARGE;
    w->unhurried = true;
    stall(w, &a);
    assert_int_equal(w->server_closed, 0);
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.received, LARGE);
    w->unhurried = false;
    stall(w, &a); /* on the same connection */
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    assert_true(w->server_broke);
    http_exchange_resume(a.x);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
}

static void test_an_aborted_request_ends_the_servers(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_NEVER;
    ask_get(w, &a);
    ask_wait_open(w, &a);
    run_for(w->loop, 20);
    assert_non_null(w->serving);
    http_exchange_abort(a.x);
    for (int i = 0; i < 1000 && w->server_closed == 0; i++) {
        run_for(w->loop, 2);
    }
    assert_true(w->server_broke);
    assert_false(a.closed); /* abort is silent */
}

static void test_an_aborted_answer_is_an_error(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_CHUNKED;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    http_exchange_abort(w->serving);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
    assert_false(a.ended);
    buf_reset(&a.body);
}

static void test_a_refused_connection_closes_the_request(void **state)
{
    struct world *w = *state;
    static struct ask a;
    unsigned port;
    int fd = raw_reserve(&port);
    struct http_client *good = w->client;
    w->client = world_client(w, port);
    ask_get(w, &a);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ECONNREFUSED);
    assert_false(a.sent);
    assert_int_equal(http_client_stats(w->client)->failed, 1);
    http_client_free(w->client);
    w->client = good;
    assert_int_equal(close(fd), 0);
}

static void test_many_requests_at_once_wait_for_connections(void **state)
{
    struct world *w = *state;
    static struct ask a[7 + 12];
    for (int i = 0; i < 19; i++) {
        ask_get(w, &a[i]);
    }
    http_exchange_abort(a[18].x); /* one that still waits */
    for (int i = 0; i < 18; i++) {
        ask_finish(w, &a[i]);
        assert_false(a[i].failed);
        ask_expect_body(&a[i], "hello");
    }
    assert_false(a[18].closed);
    assert_int_equal(w->server_closed, 18);
    assert_in_range(http_client_stats(w->client)->dialled, 8, 18);
}

static void test_patient_requests_wait_behind_others(void **state)
{
    struct world *w = *state;
    static struct ask patient[30];
    static struct ask others[12];
    w->background = true;
    for (int i = 0; i < 30; i++) {
        ask_get(w, &patient[i]);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 6); /* two are left to others */
    w->background = false;
    for (int i = 0; i < 12; i++) {
        ask_get(w, &others[i]);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 8);
    run_until(w->loop, &others[11].drained);
    unsigned opened = 0;
    for (int i = 0; i < 30; i++) {
        opened += patient[i].drained ? 1 : 0;
    }
    assert_in_range(opened, 0, 20);
    http_exchange_abort(patient[29].x); /* one that still waits */
    for (int i = 0; i < 29; i++) {
        ask_finish(w, &patient[i]);
        ask_expect_body(&patient[i], "hello");
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &others[i]);
        ask_expect_body(&others[i], "hello");
    }
}

static void test_requests_that_wait_fail_with_the_dial(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    unsigned port;
    int fd = raw_reserve(&port);
    struct http_client *good = w->client;
    w->client = world_client(w, port);
    for (int i = 0; i < 12; i++) {
        w->background = i % 2 == 0;
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &a[i]);
        assert_int_equal(a[i].error.code, UV_ECONNREFUSED);
        assert_false(a[i].sent);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 8);
    assert_non_null(strstr(http_client_unreachable(w->client), "refused"));
    run_for(w->loop, 20);
    ask_get(w, &a[0]);
    ask_finish(w, &a[0]);
    assert_in_range(http_client_failing_ms(w->client), 20, 60000); /* since the first time */
    loop_skip(w->loop, LONG_MS + 6000); /* which says nothing of a failure later on */
    run_for(w->loop, 10);
    assert_int_equal(http_client_failing_ms(w->client), 0);
    ask_get(w, &a[0]);
    ask_finish(w, &a[0]);
    assert_in_range(http_client_failing_ms(w->client), 0, 10000);
    http_client_free(w->client);
    w->client = good;
    assert_int_equal(close(fd), 0);
}

/* From now on the client dials a port that the test has, and that nobody listens on yet. */
static int reserve_server(struct world *w)
{
    unsigned port;
    int fd = raw_reserve(&port);
    http_client_free(w->client);
    w->client = world_client(w, port);
    return fd;
}

/* One of several servers behind the address refuses, others have not answered yet. */
static void test_one_failed_dial_fails_one_request(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    int fd = reserve_server(w);
    ask_get(w, &a[0]); /* the kernel decides at once */
    raw_fill(fd);
    for (int i = 1; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    run_until(w->loop, &a[0].closed);
    assert_int_equal(a[0].error.code, UV_ECONNREFUSED);
    assert_int_equal(listen(fd, 16), 0);
    for (int i = 1; i < 12; i++) { /* in whatever order the kernel opens them */
        run_until(w->loop, &a[i].drained);
        assert_false(a[i].closed);
    }
    assert_int_equal(http_client_stats(w->client)->failed, 1);
    assert_null(http_client_unreachable(w->client)); /* since others could be opened */
    assert_int_equal(http_client_failing_ms(w->client), 0);
    assert_int_equal(close(fd), 0);
}

/* No other connection can be opened, and yet the server is there. */
static void test_who_answers_can_be_reached(void **state)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct world *w = *state;
    static struct raw_peer server;
    static struct ask a[2];
    int fd = reserve_server(w);
    assert_int_equal(listen(fd, 16), 0);
    ask_get(w, &a[0]);
    raw_accept(w->loop, fd, &server);
    raw_expect(w->loop, &server, "\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    ask_get(w, &a[1]);
    ask_finish(w, &a[1]);
    assert_non_null(http_client_unreachable(w->client));
    run_for(w->loop, 20);
    raw_send(&server, answer, strlen(answer));
    ask_finish(w, &a[0]);
    assert_null(http_client_unreachable(w->client));
    assert_in_range(http_client_failing_ms(w->client), 20, 60000); /* no less for that */
    raw_close(&server);
    assert_int_equal(close(fd), 0);
}

/* All that are tried at the end fail, but one was opened while they were. */
static void test_what_waits_goes_on_when_one_dial_succeeded(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    int fd = reserve_server(w);
    assert_int_equal(listen(fd, 16), 0);
    ask_get(w, &a[0]);
    assert_int_equal(listen(fd, 0), 0); /* that one fills the queue */
    for (int i = 1; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    run_until(w->loop, &a[0].drained);
    assert_int_equal(http_client_stats(w->client)->dialled, 9);
    loop_skip(w->loop, LONG_MS);
    run_until(w->loop, &a[8].closed);
    assert_int_equal(a[8].error.code, UV_ETIMEDOUT);
    assert_int_equal(listen(fd, 16), 0);
    run_until(w->loop, &a[11].drained);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(a[i].closed, i >= 1 && i <= 8);
    }
    assert_int_equal(close(fd), 0);
}

/* While it is not known whether there is a server, more is not tried; if nobody waits for what is
 * tried any more, it is. */
static void test_what_waits_is_dialled_for_when_all_others_are_aborted(void **state)
{
    struct world *w = *state;
    static struct ask a[9];
    int fd = reserve_server(w);
    ask_get(w, &a[0]);
    raw_fill(fd);
    for (int i = 1; i < 9; i++) {
        ask_get(w, &a[i]);
    }
    run_until(w->loop, &a[0].closed);
    run_for(w->loop, 20);
    assert_int_equal(http_client_stats(w->client)->dialled, 8);
    assert_false(a[8].closed);
    for (int i = 1; i < 8; i++) {
        http_exchange_abort(a[i].x);
    }
    run_for(w->loop, 20);
    assert_int_equal(http_client_stats(w->client)->dialled, 9);
    assert_false(a[8].closed);
    http_exchange_abort(a[8].x);
    assert_int_equal(close(fd), 0);
}

/* An authority of its own, a server's config with a certificate of it, a client's that trusts it.
 */
static void make_tls(struct tls_config **server, struct tls_config **client)
{
    struct certs_pair ca;
    struct certs_pair cert;
    struct err e = ERR_INIT;
    const char *const ips[] = {"127.0.0.1", NULL};
    certs_make_ca("CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.ips = ips}, &cert);
    struct tls_server_options so = {.cert = slice_str(cert.cert), .key = slice_str(cert.key)};
    struct tls_client_options co = {.ca = slice_str(ca.cert), .server_name = "127.0.0.1"};
    *server = tls_config_new_server(&so, &e);
    *client = tls_config_new_client(&co, &e);
    assert_true(*server != NULL && *client != NULL);
    certs_free(&ca);
    certs_free(&cert);
}

/* For the server's address of that number. */
static void use_client_at(struct world *w, size_t address, struct tls_config *tls)
{
    const char *at = http_server_address_at(w->server, address);
    http_client_free(w->client);
    w->client = world_client(w, (unsigned)atoi(strrchr(at, ':') + 1));
    http_client_set_tls(w->client, tls, NULL);
}

static void use_client(struct world *w, struct tls_config *tls)
{
    use_client_at(w, 0, tls);
}

static void use_tls(struct world *w)
{
    struct tls_config *server_tls;
    struct tls_config *client_tls;
    make_tls(&server_tls, &client_tls);
    http_server_free(w->server);
    w->server = world_server(w, server_tls, LONG_MS);
    use_client(w, client_tls);
    tls_config_unref(server_tls);
    tls_config_unref(client_tls);
}

/* Of many connections opened at once over TLS, one pays for the full handshake. */
static void test_tls_connections_resume_the_first_session(void **state)
{
    struct world *w = *state;
    static struct ask a[12];
    use_tls(w);
    if (tls_has_13()) { /* where a ticket comes too late for those that begin at the same time */
        ask_all(w, &a[0]);
        ask_expect_body(&a[0], "hello");
    }
    w->behaviour = ANSWER_AT_END; /* none is done before all are sent */
    for (int i = 0; i < 12; i++) {
        ask_get(w, &a[i]);
    }
    for (int i = 0; i < 12; i++) {
        ask_finish(w, &a[i]);
        assert_false(a[i].failed);
    }
    const struct http_client_stats *stats = http_client_stats(w->client);
    assert_true(stats->dialled > 1);
    assert_int_equal(stats->resumed, stats->dialled - 1);
}

/* A session of other settings is no reason to believe that these allow many. */
static void test_new_tls_settings_are_tried_by_one_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[4];
    struct tls_config *server_tls;
    struct tls_config *client_tls;
    make_tls(&server_tls, &client_tls);
    http_server_free(w->server);
    w->server = world_server(w, server_tls, LONG_MS);
    use_client(w, client_tls);
    ask_all(w, &a[3]);
    ask_expect_body(&a[3], "hello");

    http_client_set_tls(w->client, client_tls, NULL);
    for (int i = 0; i < 3; i++) {
        ask_get(w, &a[i]);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 2);
    for (int i = 0; i < 3; i++) {
        ask_finish(w, &a[i]);
        ask_expect_body(&a[i], "hello");
    }
    tls_config_unref(server_tls);
    tls_config_unref(client_tls);
}

static void test_a_new_certificate_leaves_open_connections_alone(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct tls_config *server[2];
    struct tls_config *client[2];
    make_tls(&server[0], &client[0]);
    make_tls(&server[1], &client[1]);
    http_server_free(w->server);
    w->server = world_server(w, server[0], LONG_MS);
    use_client(w, client[0]);
    ask_all(w, &a);
    ask_expect_body(&a, "hello");

    http_server_set_tls(w->server, server[1]);
    ask_all(w, &a);
    ask_expect_body(&a, "hello");
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
    use_client(w, client[0]);
    ask_all(w, &a);
    assert_int_equal(a.error.code, -EACCES);
    use_client(w, client[1]);
    ask_all(w, &a);
    ask_expect_body(&a, "hello");
    for (int i = 0; i < 2; i++) {
        tls_config_unref(server[i]);
        tls_config_unref(client[i]);
    }
}

static void test_a_new_certificate_is_for_addresses_with_tls(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct err e = ERR_INIT;
    struct tls_config *server[2];
    struct tls_config *client[2];
    make_tls(&server[0], &client[0]);
    make_tls(&server[1], &client[1]);
    assert_int_equal(http_server_listen(w->server, "127.0.0.1:0", server[0], &e), 0);
    http_server_set_tls(w->server, server[1]);
    ask_all(w, &a);
    ask_expect_body(&a, "hello");
    use_client_at(w, 1, client[0]);
    ask_all(w, &a);
    assert_int_equal(a.error.code, -EACCES);
    use_client_at(w, 1, client[1]);
    ask_all(w, &a);
    ask_expect_body(&a, "hello");
    for (int i = 0; i < 2; i++) {
        tls_config_unref(server[i]);
        tls_config_unref(client[i]);
    }
}

static void test_upgrade_becomes_a_tunnel(void **state)
{
    struct world *w = *state;
    static struct ask a;
    w->behaviour = ANSWER_UPGRADE;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, true);
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    assert_int_equal(a.status, 101);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("GET / HTTP/1.1\r\n\r\n\r\nraw")), 0);
    for (int i = 0; i < 1000 && a.received < 23; i++) {
        run_for(w->loop, 2);
    }
    assert_int_equal(a.received, 23);
    assert_false(a.ended);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "GET / HTTP/1.1\r\n\r\n\r\nraw");
    for (int i = 0; i < 1000 && w->server_closed == 0; i++) {
        run_for(w->loop, 2);
    }
    assert_false(w->server_broke);
}

/* `exec -i` into what does not read for a while. */
static void test_a_tunnel_may_stall(void **state)
{
    struct world *w = *state;
    static const char block[64 * 1024];
    static struct ask a;
    struct err e = ERR_INIT;
    struct http_client_options co = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1),
        .connect_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .user_timeout_ms = 1000,
    };
    http_client_free(w->client);
    w->client = http_client_new(w->loop, &co, &e);
    assert_non_null(w->client);
    w->behaviour = ANSWER_UPGRADE;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, true);
    a.keep_body = false;
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.headed);
    http_exchange_pause(w->serving);
    size_t sent = 0;
    while (!http_exchange_blocked(a.x)) {
        assert_int_equal(http_exchange_send_body(a.x, slice_of(block, sizeof block)), 0);
        sent += sizeof block;
        run_for(w->loop, 1);
    }
    run_for(w->loop, 3000); /* TCP's user timeout is not the test's to move */
    loop_skip(w->loop, LONG_MS);
    run_for(w->loop, 300);
    assert_false(a.closed);
    http_exchange_resume(w->serving);
    for (int i = 0; i < 10000 && a.received < sent; i++) {
        run_for(w->loop, 2);
    }
    assert_int_equal(a.received, sent);
    http_exchange_abort(a.x);
}

/* With TLS the end of the connection may come in one piece with the answer's. */
static void test_a_server_may_close_together_with_its_answer(void **state)
{
    struct world *w = *state;
    static struct ask a;
    use_tls(w);
    w->behaviour = ANSWER_CHUNKED;
    ask_get(w, &a);
    run_until(w->loop, &a.headed);
    assert_int_equal(http_exchange_send_end(w->serving), 0);
    http_server_drain(w->server);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "one two");
    assert_int_equal(http_client_stats(w->client)->open, 0);
}

static void test_freeing_the_client_ends_requests_in_each_phase(void **state)
{
    struct world *w = *state;
    static struct ask dialling;
    static struct ask waiting;
    w->behaviour = ANSWER_NEVER;
    ask_get(w, &waiting);
    ask_wait_open(w, &waiting);
    assert_int_equal(http_exchange_send_end(waiting.x), 0);
    run_for(w->loop, 20);
    ask_get(w, &dialling);
    http_client_free(w->client);
    w->client = NULL;
    assert_true(waiting.closed && waiting.failed);
    assert_true(dialling.closed && dialling.failed);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_get),
        TEST(test_connections_are_reused),
        TEST(test_idle_connections_are_bounded),
        TEST(test_post_with_length),
        TEST(test_post_chunked),
        TEST(test_head_has_no_body),
        TEST(test_bodies_arrive_before_the_end),
        TEST(test_a_paused_client_blocks_the_server),
        TEST(test_a_reader_may_take_its_time_where_it_is_given),
        TEST(test_a_tunnel_may_stall),
        TEST(test_an_aborted_request_ends_the_servers),
        TEST(test_an_aborted_answer_is_an_error),
        TEST(test_a_refused_connection_closes_the_request),
        TEST(test_many_requests_at_once_wait_for_connections),
        TEST(test_patient_requests_wait_behind_others),
        TEST(test_requests_that_wait_fail_with_the_dial),
        TEST(test_one_failed_dial_fails_one_request),
        TEST(test_who_answers_can_be_reached),
        TEST(test_what_waits_goes_on_when_one_dial_succeeded),
        TEST(test_what_waits_is_dialled_for_when_all_others_are_aborted),
        TEST(test_tls_connections_resume_the_first_session),
        TEST(test_new_tls_settings_are_tried_by_one_connection),
        TEST(test_a_new_certificate_leaves_open_connections_alone),
        TEST(test_a_new_certificate_is_for_addresses_with_tls),
        TEST(test_upgrade_becomes_a_tunnel),
        TEST(test_a_server_may_close_together_with_its_answer),
        TEST(test_freeing_the_client_ends_requests_in_each_phase),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
