/* SPDX-License-Identifier: Apache-2.0 */
/* The client's pool over HTTP/2: how many connections there are, which of them carries a request,
 * and what becomes of it when a server refuses it or a connection leaves. */
#include <nghttp2/nghttp2.h>

#include "h2_fixture.h"

enum { MANY = 1000 };

/* ---- many at a time ---- */

static void test_many_requests_share_a_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[20];
    for (int i = 0; i < 20; i++) {
        w->background = i % 2 == 0; /* as watches are */
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    w->background = false;
    for (unsigned i = 20; i-- > 0;) { /* the last one first */
        h2_answer(h2_request(&server, i), 200, "hello");
    }
    for (int i = 0; i < 20; i++) {
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(world_stats(w)->repeated, 0);
    assert_int_equal(world_stats(w)->idle, 1);
}

static void test_a_thousand_requests_take_ten_connections(void **state)
{
    struct world *w = *state;
    static struct ask a[MANY];
    for (int i = 0; i < MANY; i++) {
        w->background = i % 3 == 0;
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    w->background = false;
    h2_expect_requests(&server, MANY);
    assert_int_equal(world_stats(w)->dialled, MANY / 100);
    assert_int_equal(world_stats(w)->h2, MANY / 100);
    assert_int_equal(world_stats(w)->busy, MANY);
    for (unsigned i = 0; i < 10; i++) {
        struct h2_server_conn *c = h2_conn(&server, i);
        assert_int_equal(c->streams, 100);
    }
    for (unsigned i = 0; i < MANY; i++) {
        h2_answer(h2_request(&server, i), 200, "hello");
    }
    for (int i = 0; i < MANY; i++) {
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    assert_int_equal(world_stats(w)->open, 4);
    assert_int_equal(world_stats(w)->idle, 4);
    assert_int_equal(world_stats(w)->h2, 4);
}

static void test_requests_that_wait_are_served_when_others_end(void **state)
{
    struct world *w = *state;
    static struct ask a[101];
    (void)world_proven(w);
    for (int i = 0; i < 100; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    h2_expect_requests(&server, 101);
    h2_server_close(&server); /* no other can be opened, but that is not known yet */
    ask_begin(w, &a[100], "GET", HTTP_BODY_NONE, 0, false);
    assert_true(http_exchange_blocked(a[100].x));
    assert_int_equal(world_stats(w)->dialled, 2);
    http_exchange_abort(a[100].x);
    ask_begin(w, &a[100], "GET", HTTP_BODY_NONE, 0, false);
    http_exchange_abort(a[0].x);
    ask_begin(w, &a[0], "GET", HTTP_BODY_NONE, 0, false);
    assert_false(http_exchange_blocked(a[0].x));
}

/* What the first connection says is not known before; one that takes one at a time is no worse than
 * HTTP/1.1. */
static void test_a_server_that_takes_one_at_a_time(void **state)
{
    struct world *w = *state;
    static struct ask a[5];
    server.max_streams = 1;
    for (int i = 0; i < 5; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    for (unsigned i = 0; i < 5; i++) {
        struct h2_request *r = h2_request(&server, i);
        assert_int_equal(r->conn->streams, 1);
    }
    assert_int_equal(world_stats(w)->dialled, 5);
    assert_int_equal(world_stats(w)->repeated, 0);
    for (unsigned i = 0; i < 5; i++) {
        h2_answer(h2_request(&server, i), 200, "hello");
    }
    for (int i = 0; i < 5; i++) {
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
}

static void test_a_server_that_takes_none_is_given_up(void **state)
{
    struct world *w = *state;
    static struct ask a;
    server.max_streams = 0;
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
    assert_false(a.sent);
    assert_int_equal(world_stats(w)->repeated, 3);
    assert_int_equal(world_stats(w)->dialled, 4);
    h2_allow(h2_conn(&server, 1), 2); /* now it takes some */
    run_for(w->loop, 20);
    server.answers = true;
    ask_all(w, &a);
    ask_expect_hello(&a);
    assert_int_equal(world_stats(w)->dialled, 4);
}

static void test_more_are_taken_later(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    server.max_streams = 1;
    struct h2_request *r = ask_begin_get(w, &a[0], 0);
    run_for(w->loop, 20);
    h2_allow(r->conn, 3);
    run_for(w->loop, 20);
    for (unsigned i = 1; i < 3; i++) {
        (void)ask_begin_get(w, &a[i], i);
    }
    assert_int_equal(world_stats(w)->dialled, 1);
    h2_allow(r->conn, 1);
    run_for(w->loop, 20);
    for (unsigned i = 0; i < 2; i++) {
        h2_answer(h2_request(&server, i), 200, "hello");
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    ask_begin(w, &a[0], "GET", HTTP_BODY_NONE, 0, false); /* one is there already */
    assert_true(http_exchange_blocked(a[0].x));
    http_exchange_abort(a[0].x);
}

/* ---- refused ---- */

static void check_sent_again(struct world *w, const char *method, enum http_framing framing)
{
    static struct ask a;
    unsigned before = server.asked;
    ask_begin(w, &a, method, framing, 0, false);
    struct h2_request *refused = h2_request(&server, before);
    a.drained = false;
    h2_reset(refused, NGHTTP2_REFUSED_STREAM);
    struct h2_request *r = h2_request(&server, before + 1);
    assert_true(a.drained); /* its user knows since when */
    assert_string_equal(r->method, method);
    assert_string_equal(r->path, "/path");
    if (framing == HTTP_BODY_CHUNKED) {
        assert_false(http_exchange_blocked(a.x));
        assert_int_equal(http_exchange_send_body(a.x, SLICE("body")), 0);
        assert_int_equal(http_exchange_send_end(a.x), 0);
        run_until(w->loop, &r->ended);
        assert_int_equal(r->body.len, 4);
    }
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

static void test_what_is_refused_is_sent_again(void **state)
{
    struct world *w = *state;
    static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"};
    (void)world_proven(w);
    for (size_t i = 0; i < 6; i++) {
        if (strcmp(methods[i], "HEAD") != 0) {
            check_sent_again(w, methods[i], HTTP_BODY_NONE);
        }
        assert_int_equal(world_stats(w)->failed, 0);
    }
    check_sent_again(w, "POST", HTTP_BODY_CHUNKED);
    assert_int_equal(world_stats(w)->repeated, 6);
}

/* Turn by turn, for another connection is there soon. */
static void run_until_waiting(struct world *w, const struct ask *a)
{
    for (int i = 0; i < 10000 && !http_exchange_blocked(a->x); i++) {
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    }
    assert_true(http_exchange_blocked(a->x));
}

/* Its user goes on as it did before, and need not ask. */
static void test_a_body_that_comes_meanwhile_is_sent(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = world_proven(w);
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 8, false);
    assert_false(http_exchange_blocked(a.x));
    struct h2_request *r = h2_request(&server, 1);
    h2_reset(r, NGHTTP2_REFUSED_STREAM);
    run_until_waiting(w, &a);
    assert_int_equal(world_stats(w)->repeated, 1);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("half")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("rest")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("more")), -EPROTO);
    r = h2_request(&server, 2);
    assert_ptr_not_equal(r->conn, c);
    run_until(w->loop, &r->ended);
    assert_memory_equal(buf_data(&r->body), "halfrest", 8);
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

/* With all that was sent of its body before, behind which the rest comes. */
static void check_body_sent_again(struct world *w, size_t size)
{
    static struct ask a;
    unsigned before = server.asked;
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, size + 4, false);
    ask_send(w, &a, size);
    h2_reset(h2_request(&server, before), NGHTTP2_REFUSED_STREAM);
    struct h2_request *r = h2_request(&server, before + 1);
    assert_false(r->ended);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("rest")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &r->ended);
    assert_int_equal(r->body.len, size + 4);
    assert_memory_equal(buf_data(&r->body) + size, "rest", 4);
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

static void test_what_is_refused_is_sent_again_with_its_body(void **state)
{
    struct world *w = *state;
    (void)world_proven(w);
    check_body_sent_again(w, 1);
    check_body_sent_again(w, 1024 * 1024);
    assert_int_equal(world_stats(w)->repeated, 2);
}

/* Its user does nothing more. */
static void test_a_whole_request_is_refused_repeatedly(void **state)
{
    struct world *w = *state;
    static struct ask a;
    (void)world_proven(w);
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 8, false);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("half")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("rest")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    for (unsigned i = 1; i < 4; i++) {
        struct h2_request *r = h2_request(&server, i);
        run_until(w->loop, &r->ended);
        h2_reset(r, NGHTTP2_REFUSED_STREAM);
    }
    struct h2_request *r = h2_request(&server, 4);
    run_until(w->loop, &r->ended);
    assert_int_equal(r->body.len, 8);
    assert_memory_equal(buf_data(&r->body), "halfrest", 8);
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

static void check_not_sent_again(struct world *w, struct ask *a, unsigned n)
{
    h2_reset(h2_request(&server, n), NGHTTP2_REFUSED_STREAM);
    run_until(w->loop, &a->closed);
    assert_true(a->failed);
    assert_false(a->sent); /* it may be asked again by whoever has the body */
    assert_int_equal(world_stats(w)->repeated, 0);
    assert_int_equal(world_stats(w)->open, 1);
}

static void test_what_is_refused_after_much_of_its_body_ends(void **state)
{
    struct world *w = *state;
    static struct ask a;
    (void)world_proven(w);
    ask_begin(w, &a, "POST", HTTP_BODY_CHUNKED, 0, false);
    ask_send(w, &a, 2 * 1024 * 1024);
    check_not_sent_again(w, &a, 1);
}

static struct http_exchange *post_within(struct world *w, struct ask *a, struct byte_budget *budget,
                                         struct err *e)
{
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {.method = SLICE("POST"),
                                   .target = SLICE("/"),
                                   .headers = &host,
                                   .header_count = 1,
                                   .framing = HTTP_BODY_CHUNKED,
                                   .budget = budget};
    memset(a, 0, sizeof *a);
    a->x = http_client_request(w->client, &head, &ask_handlers, a, e);
    return a->x;
}

/* Half of the budget is for what requests cannot do without, and none is said to have been refused.
 */
static void test_a_body_is_kept_in_half_of_the_budget(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct byte_budget budget = {.max = 100 * 1024};
    struct err e = ERR_INIT;
    (void)world_proven(w);
    assert_non_null(post_within(w, &a, &budget, &e));
    ask_send(w, &a, 20 * 1024);
    assert_in_range(budget.used, 20 * 1024, 50 * 1024);
    ask_send(w, &a, 40 * 1024);
    assert_int_equal(budget.used, 0);
    assert_int_equal(budget.refused, 0);
    check_not_sent_again(w, &a, 1);
}

static void test_what_is_always_refused_ends(void **state)
{
    struct world *w = *state;
    static struct ask a;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    for (unsigned i = 0; i < 4; i++) {
        h2_reset(h2_request(&server, i), NGHTTP2_REFUSED_STREAM);
    }
    run_until(w->loop, &a.closed);
    assert_true(a.failed);
    assert_false(a.sent);
    assert_int_equal(world_stats(w)->repeated, 3);
    assert_int_equal(server.asked, 4);
}

/* Each by itself, again and again: those that one connection refused share the next. */
static void test_what_is_refused_one_after_another_shares_connections(void **state)
{
    enum { REQUESTS = 20, TIMES = 4 };
    struct world *w = *state;
    static struct ask a[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        ask_begin(w, &a[i], "POST", HTTP_BODY_NONE, 0, false);
    }
    h2_expect_requests(&server, REQUESTS);
    for (unsigned i = 0; i < REQUESTS * TIMES; i++) {
        struct h2_request *r = h2_request(&server, i);
        assert_ptr_equal(r->conn, h2_conn(&server, i / REQUESTS));
        h2_reset(r, NGHTTP2_REFUSED_STREAM);
        if (i < REQUESTS * (TIMES - 1)) {
            h2_expect_requests(&server, REQUESTS + i + 1);
        }
    }
    for (int i = 0; i < REQUESTS; i++) {
        run_until(w->loop, &a[i].closed);
        assert_true(a[i].failed);
    }
    assert_int_equal(world_stats(w)->dialled, TIMES);
    assert_int_equal(world_stats(w)->repeated, REQUESTS * (TIMES - 1));
}

static void test_what_is_refused_may_be_aborted(void **state)
{
    struct world *w = *state;
    static struct ask a;
    (void)world_proven(w);
    struct h2_request *r = ask_begin_get(w, &a, 1);
    h2_reset(r, NGHTTP2_REFUSED_STREAM);
    run_until_waiting(w, &a);
    http_exchange_abort(a.x);
    run_for(w->loop, 20);
    assert_false(a.closed);
    assert_int_equal(world_stats(w)->busy, 0);
    assert_int_equal(server.asked, 2);
}

/* ---- the connection breaks ---- */

/* What was under way on a connection that had proved good is repeated, if that is safe. */
static void test_a_lost_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[4];
    struct h2_server_conn *c = world_proven(w);
    (void)ask_begin_get(w, &a[0], 1);
    struct h2_request *r = ask_begin_get(w, &a[1], 2);
    ask_begin(w, &a[2], "POST", HTTP_BODY_NONE, 0, false);
    h2_expect_requests(&server, 4);
    h2_begin(r, 200);
    run_until(w->loop, &a[1].headed);
    h2_cut(c);
    run_until(w->loop, &a[1].closed);
    run_until(w->loop, &a[2].closed);
    assert_true(a[1].failed && a[1].sent); /* begun */
    assert_true(a[2].failed && a[2].sent); /* who knows? */
    h2_answer(h2_request(&server, 4), 200, "hello");
    run_until(w->loop, &a[0].closed);
    ask_expect_hello(&a[0]);
    assert_int_equal(world_stats(w)->repeated, 1);
    assert_int_equal(world_stats(w)->dialled, 2);
    assert_int_equal(world_stats(w)->h2, 1);
}

static void test_many_are_repeated_on_one_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[50];
    struct h2_server_conn *c = world_proven(w);
    for (unsigned i = 0; i < 50; i++) {
        (void)ask_begin_get(w, &a[i], 1 + i);
    }
    h2_hang_up(c);
    h2_expect_requests(&server, 101);
    for (unsigned i = 0; i < 50; i++) {
        h2_answer(h2_request(&server, 51 + i), 200, "hello");
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    assert_int_equal(world_stats(w)->dialled, 2);
    assert_int_equal(world_stats(w)->repeated, 50);
}

static void test_what_was_dialled_for_is_not_repeated(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_request *r = ask_begin_get(w, &a, 0);
    h2_cut(r->conn);
    run_until(w->loop, &a.closed);
    assert_true(a.failed && a.sent);
    run_for(w->loop, 20);
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(world_stats(w)->open, 0);
}

/* Nor is it sent on a connection of before, which may be about to break too. */
static void test_what_is_repeated_fails_with_the_dial(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    struct h2_server_conn *c = world_proven(w);
    for (unsigned i = 0; i < 2; i++) {
        (void)ask_begin_get(w, &a[i], 1 + i);
    }
    h2_server_close(&server);
    h2_cut(c);
    for (int i = 0; i < 2; i++) {
        run_until(w->loop, &a[i].closed);
        assert_int_equal(a[i].error.code, UV_ECONNREFUSED);
        assert_false(a[i].sent);
    }
    assert_int_equal(world_stats(w)->repeated, 2);
    assert_int_equal(world_stats(w)->failed, 1);
}

static void test_what_was_repeated_is_not_repeated_again(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    h2_cut(world_proven(w));
    struct h2_request *r = ask_begin_get(w, &a[0], 1); /* the client has not seen the end yet */
    assert_int_equal(world_stats(w)->repeated, 1);
    h2_answer(ask_begin_get(w, &a[1], 2), 200, "hello"); /* the new connection is good */
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    h2_cut(r->conn);
    run_until(w->loop, &a[0].closed);
    assert_true(a[0].failed && a[0].sent);
    assert_int_equal(world_stats(w)->repeated, 1);
}

/* ---- the connection leaves ---- */

static void test_goaway_lets_requests_end(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    struct h2_request *r[3] = {ask_begin_get(w, &a[0], 0), ask_begin_get(w, &a[1], 1)};
    struct h2_server_conn *c = r[0]->conn;
    h2_goaway(c, r[1]->id, NGHTTP2_NO_ERROR);
    run_for(w->loop, 20);
    r[2] = ask_begin_get(w, &a[2], 2);
    assert_ptr_not_equal(r[2]->conn, c);
    for (int i = 0; i < 3; i++) {
        h2_answer(r[i], 200, "hello");
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    run_until(w->loop, &c->ended);
    assert_int_equal(world_stats(w)->open, 1);
    assert_int_equal(world_stats(w)->h2, 1);
    assert_int_equal(world_stats(w)->repeated, 0);
}

static void test_goaway_refuses_what_is_above_its_last_stream(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct h2_request *r[2];
    r[0] = ask_begin_get(w, &a[0], 0);
    run_for(w->loop, 20);
    ask_begin(w, &a[1], "POST", HTTP_BODY_NONE, 0, false);
    r[1] = h2_request(&server, 1);
    h2_goaway(r[0]->conn, r[0]->id, NGHTTP2_NO_ERROR);
    r[1] = h2_request(&server, 2);
    assert_ptr_not_equal(r[1]->conn, r[0]->conn);
    for (int i = 0; i < 2; i++) {
        h2_answer(r[i], 200, "hello");
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    assert_int_equal(world_stats(w)->repeated, 1);
}

static void test_a_full_connection_that_leaves_ends_with_the_last(void **state)
{
    struct world *w = *state;
    static struct ask a[100];
    struct h2_server_conn *c = world_proven(w);
    for (unsigned i = 0; i < 100; i++) {
        (void)ask_begin_get(w, &a[i], 1 + i);
    }
    h2_goaway(c, h2_request(&server, 100)->id, NGHTTP2_NO_ERROR);
    run_for(w->loop, 20);
    for (int i = 0; i < 100; i++) {
        assert_false(a[i].closed);
        http_exchange_abort(a[i].x);
    }
    run_until(w->loop, &c->ended);
    assert_int_equal(world_stats(w)->open, 0);
    assert_int_equal(world_stats(w)->idle, 0);
}

static struct world *asking;
static struct ask asked_next;

/* As a migration does, which asks for the next page when one has begun. */
static void on_head_ask(struct http_exchange *x, const struct http_head *head)
{
    ask_handlers.on_head(x, head);
    ask_get(asking, &asked_next);
}

/* An answer whose user asks again at once, behind a frame that leaves no room for that. */
static void test_room_that_is_lost_within_one_read(void **state)
{
    struct world *w = *state;
    struct http_exchange_handlers handlers = ask_handlers;
    handlers.on_head = on_head_ask;
    asking = w;
    for (unsigned leaves = 0; leaves < 2; leaves++) {
        static struct ask first;
        static struct ask other;
        unsigned n = server.asked;
        (void)ask_begin_get(w, &other, n);
        struct h2_request *r = ask_begin_get(w, &first, n + 1);
        first.x->handlers = &handlers;
        r->conn->receiving = true; /* all goes in one piece */
        if (leaves > 0) {
            h2_goaway(r->conn, r->id, NGHTTP2_NO_ERROR);
        } else {
            h2_allow(r->conn, 1);
        }
        h2_answer(r, 200, "hello");
        r->conn->receiving = false;
        h2_ping(r->conn);
        h2_answer(h2_request(&server, n + 2), 200, "hello");
        run_until(w->loop, &asked_next.closed);
        assert_false(asked_next.failed);
        ask_expect_hello(&first);
        ask_expect_hello(&asked_next);
        h2_answer(h2_request(&server, n), 200, "hello");
        run_until(w->loop, &other.closed);
        ask_expect_hello(&other);
        assert_int_equal(world_stats(w)->repeated, 0);
    }
}

static void test_goaway_on_an_unused_connection_ends_it(void **state)
{
    struct world *w = *state;
    struct h2_server_conn *c = world_proven(w);
    h2_goaway(c, 1, NGHTTP2_NO_ERROR);
    run_until(w->loop, &c->ended);
    assert_int_equal(world_stats(w)->open, 0);
    assert_int_equal(world_stats(w)->idle, 0);
}

static void test_goaway_and_the_end_at_once(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct h2_server_conn *c = world_proven(w);
    struct h2_request *r = ask_begin_get(w, &a[0], 1);
    ask_begin(w, &a[1], "DELETE", HTTP_BODY_NONE, 0, false);
    (void)h2_request(&server, 2);
    h2_goaway(c, r->id, NGHTTP2_NO_ERROR);
    h2_hang_up(c);
    h2_answer(h2_request(&server, 3), 200, "hello"); /* refused: sent again */
    h2_answer(h2_request(&server, 4), 200, "hello"); /* lost, and safe */
    for (int i = 0; i < 2; i++) {
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
}

/* All in one piece: the connection has ended for us when its end is read. */
static void test_goaway_the_last_answer_and_the_end_at_once(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = world_proven(w);
    struct h2_request *r = ask_begin_get(w, &a, 1);
    h2_goaway(c, r->id, NGHTTP2_NO_ERROR);
    h2_answer(r, 200, "hello");
    h2_hang_up(c);
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
    run_for(w->loop, 20);
    assert_int_equal(world_stats(w)->open, 0);
    assert_int_equal(world_stats(w)->h2, 0);
    assert_int_equal(world_stats(w)->idle, 0);
}

static void test_an_unused_connection_ends_in_order(void **state)
{
    struct world *w = *state;
    struct h2_server_conn *c = world_proven(w);
    loop_skip(w->loop, LONG_MS);
    run_until(w->loop, &c->ended);
    assert_true(c->left);
    assert_int_equal(world_stats(w)->open, 0);
}

static void test_new_tls_settings_leave_requests_alone(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct h2_request *r = ask_begin_get(w, &a[0], 0);
    struct h2_server_conn *c = r->conn;
    http_client_set_tls(w->client, server.client, server.client_h1);
    run_for(w->loop, 20);
    struct h2_request *other = ask_begin_get(w, &a[1], 1);
    assert_ptr_not_equal(other->conn, c);
    h2_allow(c, 50); /* it has room, but is not to have more */
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a[0].closed);
    ask_expect_hello(&a[0]);
    run_until(w->loop, &c->ended);
    h2_answer(other, 200, "hello");
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    assert_int_equal(world_stats(w)->idle, 1);
}

/* ---- what a request that cannot be repeated asks before ---- */

static void test_a_post_asks_whether_the_connection_is_closed(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = world_proven(w);
    net_stream_close(c->stream);
    c->stream = NULL;
    server.answers = true;
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    assert_int_equal(world_stats(w)->dialled, 2);
    ask_finish(w, &a);
    ask_expect_hello(&a);
}

static void test_a_post_asks_on_a_connection_in_use(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct h2_request *r = ask_begin_get(w, &a[0], 0);
    run_for(w->loop, 20);
    net_stream_close(r->conn->stream);
    r->conn->stream = NULL;
    ask_begin(w, &a[1], "POST", HTTP_BODY_NONE, 0, false);
    assert_int_equal(world_stats(w)->dialled, 2);
    h2_answer(h2_request(&server, 1), 200, "hello");
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    assert_true(a[0].closed);
}

static void test_a_word_of_the_server_is_no_end(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = world_proven(w);
    h2_ping(c);
    run_for(w->loop, 20);
    server.answers = true;
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    ask_finish(w, &a);
    ask_expect_hello(&a);
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(c->streams, 2);
}

/* ---- HTTP/1.1 beside it ---- */

static void test_an_upgrade_has_a_connection_of_its_own(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct h2_server_conn *c = world_proven(w);
    ask_begin(w, &a[0], "GET", HTTP_BODY_NONE, 0, true);
    assert_true(http_exchange_blocked(a[0].x));
    run_until(w->loop, &a[0].headed);
    assert_int_equal(a[0].status, 101);
    assert_int_equal(http_exchange_send_body(a[0].x, SLICE("raw")), 0);
    for (int i = 0; i < 1000 && a[0].received < 3; i++) {
        run_for(w->loop, 2);
    }
    ask_expect_body(&a[0], "raw");
    server.answers = true;
    ask_all(w, &a[1]);
    ask_expect_hello(&a[1]);
    assert_int_equal(c->streams, 2);
    assert_int_equal(world_stats(w)->dialled, 2);
    assert_int_equal(world_stats(w)->h2, 1);
    http_exchange_abort(a[0].x);
}

static void test_upgrades_do_not_wait_for_http2(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    server.mute = true;
    ask_begin(w, &a[0], "GET", HTTP_BODY_NONE, 0, false);
    run_until(w->loop, &a[0].drained);
    run_for(w->loop, 20);
    server.mute = false;
    ask_begin(w, &a[1], "GET", HTTP_BODY_NONE, 0, false); /* waits for that one to begin */
    ask_begin(w, &a[2], "GET", HTTP_BODY_NONE, 0, true);
    run_until(w->loop, &a[2].headed);
    assert_int_equal(a[2].status, 101);
    assert_false(a[1].drained);
    for (int i = 0; i < 3; i++) {
        http_exchange_abort(a[i].x);
    }
}

static void test_an_upgrade_where_http2_is_all_there_is(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct http_client_options o = h2_client_options();
    o.tls_upgrade = NULL;
    world_use_options(w, &o);
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, true);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_EPROTO);
    assert_false(a.sent);
    (void)world_proven(w);
    assert_int_equal(world_stats(w)->dialled, 1);
}

static void test_a_server_without_http2(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    h2_server_offer(&server, false);
    for (int i = 0; i < 3; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    for (int i = 0; i < 3; i++) {
        ask_finish(w, &a[i]);
        assert_false(a[i].failed);
        ask_expect_body(&a[i], "plain");
    }
    assert_int_equal(world_stats(w)->h2, 0);
    assert_in_range(world_stats(w)->idle, 1, 3);
}

/* Several servers behind one address, of which some are older. */
static void test_servers_of_both_kinds(void **state)
{
    struct world *w = *state;
    static struct ask a[40];
    server.max_streams = 2;
    unsigned plain = 0;
    for (int i = 0; i < 40; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    for (int turn = 0; turn < 4000 && world_stats(w)->busy > 0; turn++) {
        h2_server_offer(&server, turn % 2 == 0);
        run_for(w->loop, 1);
        LIST_FOR_EACH(node, &server.requests)
        {
            struct h2_request *r = LIST_ITEM(node, struct h2_request, link);
            if (r->ended && !r->out_begun && turn % 4 == 3) {
                h2_answer(r, 200, "hello");
            }
        }
        for (int i = 0; i < 40; i++) {
            if (a[i].drained && a[i].x != NULL) {
                a[i].drained = false;
                assert_int_equal(http_exchange_send_end(a[i].x), 0);
            }
        }
    }
    for (int i = 0; i < 40; i++) {
        assert_true(a[i].closed && !a[i].failed);
        plain += a[i].body.len == 5 && memcmp(buf_data(&a[i].body), "plain", 5) == 0 ? 1 : 0;
        buf_reset(&a[i].body);
    }
    assert_in_range(plain, 1, 39);
}

/* ---- through a proxy ---- */

/* One tunnel, which the test's own proxy opens. */
struct tunnel {
    struct net_loop *loop;
    struct net_stream *client;
    struct net_stream *origin;
    struct buf asked;
};

static void pass_on(struct net_stream *to, struct slice bytes)
{
    assert_int_equal(net_stream_write(to, &bytes, 1), 0);
}

static void tunnel_origin_open(void *data)
{
    struct tunnel *t = data;
    pass_on(t->client, SLICE("HTTP/1.1 200 OK\r\n\r\n"));
    net_stream_read_start(t->origin);
}

static void tunnel_origin_read(void *data, struct slice bytes)
{
    struct tunnel *t = data;
    pass_on(t->client, bytes);
}

static void tunnel_drain(void *data)
{
    (void)data;
}

static void tunnel_over(struct tunnel *t)
{
    if (t->client != NULL) {
        net_stream_close(t->client);
        net_stream_close(t->origin);
        t->client = NULL;
    }
}

static void tunnel_eof(void *data)
{
    tunnel_over(data);
}

static void tunnel_error(void *data, const struct err *e)
{
    (void)e;
    tunnel_over(data);
}

static const struct net_stream_handlers origin_handlers = {
    .on_open = tunnel_origin_open,
    .on_read = tunnel_origin_read,
    .on_eof = tunnel_eof,
    .on_drain = tunnel_drain,
    .on_error = tunnel_error,
};

static void tunnel_client_read(void *data, struct slice bytes)
{
    struct tunnel *t = data;
    if (t->origin != NULL) {
        pass_on(t->origin, bytes);
        return;
    }
    assert_int_equal(buf_append(&t->asked, bytes.ptr, bytes.len), 0);
    if (strstr(buf_cstr(&t->asked), "\r\n\r\n") != NULL) {
        struct net_dial_options o = {
            .host = "127.0.0.1", .port = server.port, .connect_timeout_ms = LONG_MS};
        assert_int_equal(net_dial(t->loop, &o, &origin_handlers, t, &t->origin, NULL), 0);
    }
}

static const struct net_stream_handlers client_handlers = {
    .on_read = tunnel_client_read,
    .on_eof = tunnel_eof,
    .on_drain = tunnel_drain,
    .on_error = tunnel_error,
};

static void tunnel_accept(void *data, struct net_stream *s)
{
    struct tunnel *t = data;
    assert_null(t->client);
    t->client = s;
    net_stream_set_handlers(s, &client_handlers, t);
    net_stream_read_start(s);
}

static void test_http2_in_a_tunnel(void **state)
{
    struct world *w = *state;
    static struct ask a[5];
    struct tunnel t = {.loop = w->loop};
    struct net_listener_options lo = {.address = "127.0.0.1:0"};
    buf_init(&t.asked, 4096);
    struct net_listener *l = net_listener_new(w->loop, &lo, tunnel_accept, &t, NULL);
    assert_non_null(l);
    const struct http_proxy proxy = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(net_listener_address(l), ':') + 1),
    };
    struct http_client_options o = h2_client_options();
    o.proxy = &proxy;
    world_use_options(w, &o);
    for (int i = 0; i < 5; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    for (unsigned i = 0; i < 5; i++) {
        h2_answer(h2_request(&server, i), 200, "hello");
        run_until(w->loop, &a[i].closed);
        ask_expect_hello(&a[i]);
    }
    assert_non_null(strstr(buf_cstr(&t.asked), "CONNECT 127.0.0.1:"));
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(world_stats(w)->h2, 1);
    tunnel_over(&t);
    net_listener_close(l);
    buf_reset(&t.asked);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, h2_setup, h2_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_many_requests_share_a_connection),
        TEST(test_a_thousand_requests_take_ten_connections),
        TEST(test_requests_that_wait_are_served_when_others_end),
        TEST(test_a_server_that_takes_one_at_a_time),
        TEST(test_a_server_that_takes_none_is_given_up),
        TEST(test_more_are_taken_later),
        TEST(test_what_is_refused_is_sent_again),
        TEST(test_a_body_that_comes_meanwhile_is_sent),
        TEST(test_what_is_refused_is_sent_again_with_its_body),
        TEST(test_a_whole_request_is_refused_repeatedly),
        TEST(test_what_is_refused_after_much_of_its_body_ends),
        TEST(test_a_body_is_kept_in_half_of_the_budget),
        TEST(test_what_is_always_refused_ends),
        TEST(test_what_is_refused_one_after_another_shares_connections),
        TEST(test_what_is_refused_may_be_aborted),
        TEST(test_a_lost_connection),
        TEST(test_many_are_repeated_on_one_connection),
        TEST(test_what_was_dialled_for_is_not_repeated),
        TEST(test_what_is_repeated_fails_with_the_dial),
        TEST(test_what_was_repeated_is_not_repeated_again),
        TEST(test_goaway_lets_requests_end),
        TEST(test_goaway_refuses_what_is_above_its_last_stream),
        TEST(test_a_full_connection_that_leaves_ends_with_the_last),
        TEST(test_room_that_is_lost_within_one_read),
        TEST(test_goaway_on_an_unused_connection_ends_it),
        TEST(test_goaway_and_the_end_at_once),
        TEST(test_goaway_the_last_answer_and_the_end_at_once),
        TEST(test_an_unused_connection_ends_in_order),
        TEST(test_new_tls_settings_leave_requests_alone),
        TEST(test_a_post_asks_whether_the_connection_is_closed),
        TEST(test_a_post_asks_on_a_connection_in_use),
        TEST(test_a_word_of_the_server_is_no_end),
        TEST(test_an_upgrade_has_a_connection_of_its_own),
        TEST(test_upgrades_do_not_wait_for_http2),
        TEST(test_an_upgrade_where_http2_is_all_there_is),
        TEST(test_a_server_without_http2),
        TEST(test_servers_of_both_kinds),
        TEST(test_http2_in_a_tunnel),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
