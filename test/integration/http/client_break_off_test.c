/* SPDX-License-Identifier: Apache-2.0 */
/* What is on its way to a server when its sender gives it up, and what must not arrive. */
#include "h2_fixture.h"
#include "http/h1_parser.h"

enum { SENT_MAX = 64 * 1024 * 1024, BLOCK = 64 * 1024, WRITE = 1024 * 1024 };

static void check_works(struct world *w)
{
    static struct ask a;
    server.answers = true;
    ask_all(w, &a);
    assert_int_equal(a.status, 200);
    ask_expect_body(&a, "hello");
    server.answers = false;
}

/* A request of which the kernel has some, on a connection of which the server reads nothing. */
static struct h2_server_conn *send_to_frozen(struct world *w, struct ask *a)
{
    static char block[BLOCK];
    server.window = SENT_MAX;
    check_works(w);
    struct h2_server_conn *c = h2_conn(&server, server.accepted - 1);
    ask_begin(w, a, "POST", HTTP_BODY_CHUNKED, 0, false);
    h2_expect_requests(&server, server.asked + 1);
    h2_freeze(c);
    for (size_t sent = 0; sent < SENT_MAX && !http_exchange_blocked(a->x); sent += BLOCK) {
        assert_int_equal(http_exchange_send_body(a->x, slice_of(block, BLOCK)), 0);
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    }
    assert_true(http_exchange_blocked(a->x));
    return c;
}

static void thaw(struct h2_server_conn *c)
{
    c->frozen = false;
    net_stream_read_start(c->stream);
}

static void test_what_was_aborted_does_not_arrive(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = send_to_frozen(w, &a);
    struct h2_request *r = h2_request(&server, 1);
    assert_true(http_client_on_its_way(a.x));
    http_exchange_abort(a.x);
    http_client_break_off(w->client);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    thaw(c);
    while (c->stream != NULL && !c->ended) {
        run_for(w->loop, 1);
    }
    assert_false(r->reset);
    assert_false(c->left);
    check_works(w);
}

/* A whole request of which the kernel has the end, on a connection of which the server reads
 * nothing. */
static struct h2_request *send_whole_to_frozen(struct world *w, struct ask *a)
{
    static char block[WRITE];
    server.window = SENT_MAX;
    check_works(w);
    ask_begin(w, a, "POST", HTTP_BODY_LENGTH, WRITE, false);
    struct h2_request *r = h2_request(&server, 1);
    h2_freeze(r->conn);
    assert_int_equal(http_exchange_send_body(a->x, slice_of(block, WRITE)), 0);
    assert_int_equal(http_exchange_send_end(a->x), 0);
    while (http_exchange_blocked(a->x)) {
        run_for(w->loop, 1);
    }
    run_for(w->loop, 20);
    assert_true(http_client_on_its_way(a->x));
    return r;
}

static void check_does_not_arrive(struct world *w, struct h2_request *r)
{
    thaw(r->conn);
    while (r->conn->stream != NULL && !r->conn->ended) {
        run_for(w->loop, 1);
    }
    assert_false(r->ended);
    check_works(w);
}

/* On a connection that is not kept when the request has ended. */
static void test_what_was_aborted_last_does_not_arrive(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_request *r = send_whole_to_frozen(w, &a);
    http_client_set_tls(w->client, server.client, server.client_h1);
    http_exchange_abort(a.x);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    run_for(w->loop, 1);
    http_client_break_off(w->client);
    check_does_not_arrive(w, r);
}

static void test_what_goes_to_a_server_that_breaks_the_protocol(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct slice data_of_no_stream = slice_of("\0\0\1\0\0\0\0\0\0x", 10);
    struct h2_request *r = send_whole_to_frozen(w, &a);
    assert_int_equal(net_stream_write(r->conn->stream, &data_of_no_stream, 1), 0);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, -HTTP_PARSE_BAD);
    check_does_not_arrive(w, r);
}

static void test_others_are_told(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    check_works(w);
    ask_begin(w, &a[0], "POST", HTTP_BODY_NONE, 0, false);
    ask_begin(w, &a[1], "POST", HTTP_BODY_NONE, 0, false);
    h2_expect_requests(&server, 3);
    http_client_break_off(w->client);
    assert_true(a[0].closed && a[1].closed);
    assert_int_equal(a[0].error.code, UV_ECANCELED);
    check_works(w);
    assert_int_equal(server.accepted, 2);
}

static void test_an_unused_connection(void **state)
{
    struct world *w = *state;
    check_works(w);
    http_client_break_off(w->client);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    assert_int_equal(http_client_stats(w->client)->idle, 0);
    http_client_break_off(w->client);
    check_works(w);
}

static void test_http1_is_left_alone(void **state)
{
    struct world *w = *state;
    static struct ask a;
    h2_server_offer(&server, false);
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 4, false);
    ask_wait_open(w, &a);
    assert_false(http_client_on_its_way(a.x)); /* goes with its connection */
    http_client_break_off(w->client);
    assert_int_equal(http_client_stats(w->client)->open, 1);
    http_exchange_abort(a.x);
}

static void break_off(struct http_exchange *x, const struct http_head *head)
{
    struct world *w = x->data;
    (void)head;
    http_client_break_off(w->client);
}

static void count_close(struct http_exchange *x, const struct err *e)
{
    struct world *w = x->data;
    assert_int_equal(e->code, UV_ECANCELED);
    w->server_closed++;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void test_inside_a_handler(void **state)
{
    struct world *w = *state;
    static const struct http_exchange_handlers handlers = {
        .on_head = break_off, .on_drain = ignore, .on_close = count_close};
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {
        .method = SLICE("POST"), .target = SLICE("/"), .headers = &host, .header_count = 1};
    check_works(w);
    server.answers = true;
    for (int i = 0; i < 2; i++) {
        assert_non_null(http_client_request(w->client, &head, &handlers, w, NULL));
    }
    for (int i = 0; i < 1000 && w->server_closed < 2; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->server_closed, 2);
    assert_int_equal(http_client_stats(w->client)->open, 0);
    check_works(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_aborted_does_not_arrive, h2_setup,
                                        h2_teardown),
        cmocka_unit_test_setup_teardown(test_what_was_aborted_last_does_not_arrive, h2_setup,
                                        h2_teardown),
        cmocka_unit_test_setup_teardown(test_what_goes_to_a_server_that_breaks_the_protocol,
                                        h2_setup, h2_teardown),
        cmocka_unit_test_setup_teardown(test_others_are_told, h2_setup, h2_teardown),
        cmocka_unit_test_setup_teardown(test_an_unused_connection, h2_setup, h2_teardown),
        cmocka_unit_test_setup_teardown(test_http1_is_left_alone, h2_setup, h2_teardown),
        cmocka_unit_test_setup_teardown(test_inside_a_handler, h2_setup, h2_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
