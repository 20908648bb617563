/* SPDX-License-Identifier: Apache-2.0 */
/* The client's requests over HTTP/2 as the streams of a connection: heads, bodies, windows and
 * ends; and a server that is silent. */
#include <errno.h>

#include <nghttp2/nghttp2.h>

#include "h2_fixture.h"
#include "http/h1_parser.h"

enum { SILENCE_MS = 30000, DOUBT_MS = 2000, PING_MS = 15000, HEAD = 40000 };

static void run_until_reset(struct world *w, struct h2_request *r)
{
    run_until(w->loop, &r->reset);
    assert_int_equal(r->reset_code, NGHTTP2_CANCEL);
}

static void send_all(struct world *w, struct ask *a, size_t size)
{
    ask_send(w, a, size);
    assert_int_equal(http_exchange_send_end(a->x), 0);
}

/* ---- one request after the other ---- */

static void test_get(void **state)
{
    struct world *w = *state;
    static struct ask a;
    server.answers = true;
    ask_all(w, &a);
    assert_string_equal(a.type, "text/plain");
    ask_expect_hello(&a);
    struct h2_request *r = h2_request(&server, 0);
    assert_string_equal(r->method, "GET");
    assert_string_equal(r->path, "/path");
    assert_string_equal(r->authority, "test");
    assert_int_equal(world_stats(w)->h2, 1);
    assert_int_equal(world_stats(w)->open, 1);
    assert_int_equal(world_stats(w)->idle, 1);
    assert_int_equal(world_stats(w)->busy, 0);
}

static void test_a_connection_is_kept(void **state)
{
    struct world *w = *state;
    static struct ask a;
    server.answers = true;
    for (int i = 0; i < 20; i++) {
        ask_all(w, &a);
        ask_expect_hello(&a);
    }
    assert_int_equal(world_stats(w)->dialled, 1);
}

static void test_post_with_length(void **state)
{
    struct world *w = *state;
    static struct ask a;
    server.echoes = true;
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 6, false);
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("abc")), 0);
    assert_int_equal(http_exchange_send_end(a.x), -EPROTO); /* three are missing */
    assert_int_equal(http_exchange_send_body(a.x, SLICE("def")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("x")), -EPROTO);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "abcdef");
}

static void test_post_of_unknown_length(void **state)
{
    struct world *w = *state;
    static struct ask a;
    server.echoes = true;
    ask_begin(w, &a, "POST", HTTP_BODY_CHUNKED, 0, false);
    ask_wait_open(w, &a);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("abc")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("")), 0);
    assert_int_equal(http_exchange_send_body(a.x, SLICE("def")), 0);
    assert_int_equal(http_exchange_send_end(a.x), 0);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "abcdef");
}

static void test_bodies_arrive_before_the_end(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct sockaddr_storage peer;
    struct h2_request *r = ask_begin_get(w, &a, 0);
    h2_begin(r, 200);
    h2_send(r, "one ", 4);
    run_until(w->loop, &a.headed);
    assert_int_equal(http_client_peer_address(a.x, &peer), 0);
    for (int i = 0; i < 1000 && a.received < 4; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(a.received, 4);
    assert_false(a.ended);
    h2_send(r, "two", 3);
    h2_end(r);
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    ask_expect_body(&a, "one two");
}

static void test_an_early_answer_ends_the_request_alone(void **state)
{
    struct world *w = *state;
    static struct ask a;
    (void)world_proven(w);
    ask_begin(w, &a, "POST", HTTP_BODY_LENGTH, 1000000, false);
    struct h2_request *r = h2_request(&server, 1);
    h2_answer(r, 413, "big");
    run_until(w->loop, &a.closed);
    assert_false(a.failed);
    assert_int_equal(a.status, 413);
    ask_expect_body(&a, "big");
    run_until_reset(w, r);
    assert_int_equal(world_stats(w)->idle, 1);
}

/* A GET with one long header. */
static struct http_exchange *ask_long(struct world *w, struct ask *a, size_t size,
                                      struct byte_budget *budget, struct err *e)
{
    static char text[HEAD];
    const struct http_header headers[] = {{SLICE("Host"), SLICE("test")},
                                          {SLICE("X"), slice_of(text, size)}};
    const struct http_head head = {.method = SLICE("GET"),
                                   .target = SLICE("/"),
                                   .headers = headers,
                                   .header_count = 2,
                                   .budget = budget};
    memset(text, 'a', sizeof text);
    memset(a, 0, sizeof *a);
    a->keep_body = true;
    buf_init(&a->body, 1024 * 1024);
    a->x = http_client_request(w->client, &head, &ask_handlers, a, e);
    return a->x;
}

/* The connection is good for others. */
static void test_a_head_that_the_server_does_not_take(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct err e = ERR_INIT;
    server.max_head = HEAD / 2;
    struct h2_server_conn *c = world_proven(w);
    assert_null(ask_long(w, &a, HEAD, NULL, &e));
    assert_int_equal(e.code, -HTTP_PARSE_TOO_LARGE);
    assert_int_equal(world_stats(w)->idle, 1);
    assert_non_null(ask_long(w, &a, HEAD / 4, NULL, &e));
    h2_answer(h2_request(&server, 1), 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
    assert_int_equal(c->streams, 2);
}

/* What is kept of a request to send it again. */
static void test_a_head_counts_until_the_answer_begins(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct byte_budget budget = {.max = HEAD + HEAD / 2};
    struct err e = ERR_INIT;
    assert_non_null(ask_long(w, &a, HEAD, &budget, &e));
    struct h2_request *r = h2_request(&server, 0);
    assert_in_range(budget.used, HEAD, HEAD + 300);
    static struct ask other;
    assert_null(ask_long(w, &other, HEAD, &budget, &e));
    assert_int_equal(e.code, -EDQUOT);
    h2_begin(r, 200);
    run_until(w->loop, &a.headed);
    assert_int_equal(budget.used, 0);
    h2_send(r, "hello", 5);
    h2_end(r);
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

/* ---- one of several ends ---- */

static void test_a_reset_ends_one_request_alone(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct h2_request *r[2] = {ask_begin_get(w, &a[0], 0), ask_begin_get(w, &a[1], 1)};
    h2_begin(r[0], 200);
    run_until(w->loop, &a[0].headed);
    h2_reset(r[0], NGHTTP2_INTERNAL_ERROR);
    run_until(w->loop, &a[0].closed);
    assert_true(a[0].failed && a[0].sent);
    h2_answer(r[1], 200, "hello");
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(world_stats(w)->repeated, 0);
    assert_int_equal(world_stats(w)->idle, 1);
}

static void test_an_abort_ends_one_request_alone(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    struct h2_request *r[3];
    for (unsigned i = 0; i < 3; i++) {
        r[i] = ask_begin_get(w, &a[i], i);
    }
    http_exchange_abort(a[0].x); /* before the answer */
    h2_begin(r[1], 200);
    h2_send(r[1], "some", 4);
    run_until(w->loop, &a[1].headed);
    http_exchange_abort(a[1].x); /* within it */
    run_until_reset(w, r[0]);
    run_until_reset(w, r[1]);
    h2_answer(r[2], 200, "hello");
    run_until(w->loop, &a[2].closed);
    ask_expect_hello(&a[2]);
    assert_false(a[0].closed || a[1].closed);
    buf_reset(&a[1].body);
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(world_stats(w)->idle, 1);
}

static void abort_in_handler(struct http_exchange *x)
{
    http_exchange_abort(x);
}

static void abort_at_head(struct http_exchange *x, const struct http_head *head)
{
    (void)head;
    http_exchange_abort(x);
}

static void abort_at_body(struct http_exchange *x, struct slice data)
{
    (void)data;
    http_exchange_abort(x);
}

static void pass_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
}

static void pass_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void never(struct http_exchange *x, const struct err *e)
{
    (void)x;
    (void)e;
    fail_msg("on_close after an abort");
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void test_an_abort_inside_each_handler(void **state)
{
    struct world *w = *state;
    static const struct http_exchange_handlers by[] = {
        {.on_drain = abort_in_handler, .on_close = never},
        {.on_head = abort_at_head, .on_drain = ignore, .on_close = never},
        {.on_head = pass_head, .on_body = abort_at_body, .on_drain = ignore, .on_close = never},
        {.on_head = pass_head,
         .on_body = pass_body,
         .on_end = abort_in_handler,
         .on_drain = ignore,
         .on_close = never}};
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {
        .method = SLICE("GET"), .target = SLICE("/"), .headers = &host, .header_count = 1};
    server.answers = true;
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(http_client_request(w->client, &head, &by[i], NULL, NULL));
        for (int turn = 0; turn < 1000 && world_stats(w)->busy > 0; turn++) {
            run_for(w->loop, 1);
        }
        assert_int_equal(world_stats(w)->busy, 0);
    }
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(world_stats(w)->idle, 1);
}

/* ---- a silent server ---- */

static void test_a_frozen_server_is_found(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_request *r = ask_begin_get(w, &a, 0);
    run_for(w->loop, 20);
    h2_freeze(r->conn);
    loop_skip(w->loop, SILENCE_MS);
    run_for(w->loop, 300);
    assert_false(a.closed);
    loop_skip(w->loop, PING_MS);
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ETIMEDOUT);
    assert_non_null(strstr(a.error.msg, "PING"));
    assert_true(a.sent);
    assert_int_equal(world_stats(w)->open, 0);
}

static void test_a_quiet_server_is_asked_and_left_alone(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_request *r = ask_begin_get(w, &a, 0);
    run_for(w->loop, 20);
    for (unsigned i = 1; i <= 3; i++) {
        loop_skip(w->loop, SILENCE_MS);
        for (int turn = 0; turn < 1000 && r->conn->pings < i; turn++) {
            run_for(w->loop, 2);
        }
        assert_int_equal(r->conn->pings, i);
        run_for(w->loop, 20);
    }
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

/* Who asks again after a time limit is not sent to the same server that does not answer. */
static void test_a_connection_in_doubt_is_not_used(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = world_proven(w);
    h2_freeze(c);
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    run_for(w->loop, 5);
    run_for(w->loop, DOUBT_MS + 50);
    http_exchange_abort(a.x);
    server.answers = true;
    ask_all(w, &a);
    ask_expect_hello(&a);
    assert_int_equal(server.accepted, 2);
    loop_skip(w->loop, PING_MS);
    run_for(w->loop, 20);
    assert_int_equal(world_stats(w)->open, 1);
}

static void test_a_connection_that_answers_is_used_again(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct h2_server_conn *c = world_proven(w);
    ask_begin(w, &a, "POST", HTTP_BODY_NONE, 0, false);
    h2_expect_requests(&server, 2);
    run_for(w->loop, DOUBT_MS + 50);
    http_exchange_abort(a.x);
    for (int turn = 0; turn < 1000 && c->pings == 0; turn++) {
        run_for(w->loop, 1);
    }
    run_for(w->loop, 20);
    (void)world_proven(w);
    assert_int_equal(server.accepted, 1);
}

/* ---- a server that answers PINGs alone ---- */

/* Within JUDGED_MS a connection on which nothing comes is probed and judged. */
enum { STALL_MS = 75000, JUDGED_MS = 2 * STALL_MS + 2 * PING_MS };

static void send_probe(void *data, struct http_probe *p)
{
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {
        .method = SLICE("GET"), .target = SLICE("/probe"), .headers = &host, .header_count = 1};
    ++*(unsigned *)data;
    http_probe_send(p, &head);
}

static void use_probe(struct world *w, unsigned *probes)
{
    struct http_client_options o = h2_client_options();
    o.probe = send_probe;
    o.probe_data = probes;
    *probes = 0;
    world_use_options(w, &o);
}

/* Long enough for a probe: nothing came for a whole period, in which the server was not being asked
 * with a PING at the end. */
static void pass_until_probed(struct world *w, const unsigned *probes, unsigned count)
{
    for (unsigned passed = 0; *probes < count && passed <= 4 * STALL_MS; passed += PING_MS) {
        loop_skip(w->loop, PING_MS);
        run_for(w->loop, 300); /* a deadline may be as late */
    }
    assert_int_equal(*probes, count);
}

/* It is found by a request that is given up, and left at once; what is on it ends later. */
static void test_a_stalled_connection_is_left(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    unsigned probes;
    use_probe(w, &probes);
    (void)ask_begin_get(w, &a[0], 0);
    h2_begin(h2_request(&server, 0), 200);
    run_until(w->loop, &a[0].headed); /* a watch, say */
    (void)ask_begin_get(w, &a[1], 1);
    run_for(w->loop, DOUBT_MS + 50);
    h2_ping(h2_conn(&server, 0)); /* it lives */
    run_for(w->loop, 20);
    http_exchange_abort(a[1].x);
    h2_expect_requests(&server, 3);
    assert_string_equal(h2_request(&server, 2)->path, "/probe");
    struct h2_request *r = ask_begin_get(w, &a[1], 3);
    assert_ptr_not_equal(r->conn, h2_conn(&server, 0));
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    assert_false(a[0].closed);
    loop_skip(w->loop, PING_MS);
    run_until(w->loop, &a[0].closed);
    assert_int_equal(a[0].error.code, UV_ETIMEDOUT);
    assert_non_null(strstr(a[0].error.msg, "answers PINGs"));
    assert_int_equal(world_stats(w)->stalled, 1);
    assert_int_equal(world_stats(w)->open, 1);
    assert_int_equal(world_stats(w)->busy, 0);
    assert_int_equal(server.asked, 4); /* the probe is not sent again */
    assert_int_equal(probes, 1);
}

/* A quiet one is asked each two minutes, and used on when anything comes for a request. */
static void test_a_quiet_connection_is_probed(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    unsigned probes;
    use_probe(w, &probes);
    struct h2_request *r = ask_begin_get(w, &a[0], 0);
    for (unsigned i = 1; i <= 3; i++) {
        pass_until_probed(w, &probes, i);
        if (i == 3) { /* an event instead of the answer */
            h2_begin(r, 200);
            run_until(w->loop, &a[0].headed);
        } else {
            h2_answer(h2_request(&server, i), 404, "no such path");
        }
        run_for(w->loop, 20);
        loop_skip(w->loop, PING_MS); /* nothing is waited for any more */
        run_for(w->loop, 300);
    }
    r = ask_begin_get(w, &a[1], 4);
    assert_ptr_equal(r->conn, h2_conn(&server, 0));
    assert_int_equal(world_stats(w)->stalled, 0);
}

/* As many requests as the server takes on a connection, all of which wait for their bodies. */
static void fill_connection(struct world *w, struct ask *a, unsigned count, unsigned *probes)
{
    server.max_streams = count;
    use_probe(w, probes);
    server.answers = true;
    (void)world_proven(w);
    server.answers = false;
    for (unsigned i = 0; i < count; i++) {
        h2_begin(ask_begin_get(w, &a[i], 1 + i), 200);
        run_until(w->loop, &a[i].headed);
    }
}

/* It has a stream for the probe even when all others are taken. */
static void test_a_full_connection_is_probed(void **state)
{
    enum { ALL = 20 };
    struct world *w = *state;
    static struct ask a[ALL];
    unsigned probes;
    fill_connection(w, a, ALL, &probes);
    assert_int_equal(h2_conn(&server, 0)->streams, ALL); /* the first one too */
    assert_int_equal(h2_conn(&server, 1)->streams, 1);
    pass_until_probed(w, &probes, 2); /* of either */
    loop_skip(w->loop, PING_MS);
    for (int i = 0; i < ALL; i++) {
        run_until(w->loop, &a[i].closed);
    }
    assert_int_equal(world_stats(w)->stalled, 2);
}

/* Nothing comes for its requests, but the server lives. */
static void pass_quietly(struct world *w, struct h2_server_conn *c, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += PING_MS) {
        loop_skip(w->loop, PING_MS);
        h2_ping(c);
        run_for(w->loop, 300);
    }
}

/* An event comes for a watch, on a connection that nobody has left. */
static void expect_used(struct world *w, struct ask *a, struct h2_request *r)
{
    h2_send(r, "hello", 5);
    h2_end(r);
    run_until(w->loop, &a->closed);
    ask_expect_hello(a);
    assert_int_equal(world_stats(w)->stalled, 0);
}

/* No stream is free for the probe: that nothing answers it tells nothing of the server. */
static void test_a_probe_without_a_stream_judges_nothing(void **state)
{
    enum { ALL = 5 };
    struct world *w = *state;
    static struct ask a[ALL];
    unsigned probes;
    fill_connection(w, a, ALL, &probes);
    pass_quietly(w, h2_conn(&server, 0), JUDGED_MS);
    assert_true(probes >= 1);
    assert_int_equal(server.asked, 1 + ALL);
    for (unsigned i = 0; i < ALL; i++) {
        expect_used(w, &a[i], h2_request(&server, 1 + i));
    }
    assert_int_equal(world_stats(w)->dialled, 1);
}

/* It is found all the same when it is gone. */
static void test_a_frozen_server_without_a_stream_is_found(void **state)
{
    struct world *w = *state;
    static struct ask a;
    unsigned probes;
    server.max_streams = 1;
    use_probe(w, &probes);
    server.answers = true;
    (void)world_proven(w);
    server.answers = false;
    struct h2_request *r = ask_begin_get(w, &a, 1);
    h2_begin(r, 200);
    run_until(w->loop, &a.headed);
    pass_quietly(w, r->conn, STALL_MS - PING_MS);
    h2_freeze(r->conn);
    for (uint64_t passed = 0; passed < SILENCE_MS + 2 * PING_MS; passed += PING_MS) {
        loop_skip(w->loop, PING_MS);
        run_for(w->loop, 300);
    }
    assert_true(a.closed);
    assert_int_equal(a.error.code, UV_ETIMEDOUT);
}

/* The server takes no more requests on it, and those that are there go on. */
static void test_a_connection_that_leaves_is_not_judged_by_a_probe(void **state)
{
    struct world *w = *state;
    static struct ask a;
    unsigned probes;
    use_probe(w, &probes);
    struct h2_request *r = ask_begin_get(w, &a, 0);
    h2_begin(r, 200);
    run_until(w->loop, &a.headed);
    h2_goaway(r->conn, r->id, NGHTTP2_NO_ERROR);
    pass_quietly(w, r->conn, JUDGED_MS);
    assert_true(probes >= 1);
    assert_int_equal(server.asked, 1);
    expect_used(w, &a, r);
}

/* Nor does one that was sent, and refused; it is not sent elsewhere. */
static void test_a_probe_that_is_refused_judges_nothing(void **state)
{
    struct world *w = *state;
    static struct ask a;
    unsigned probes;
    use_probe(w, &probes);
    struct h2_request *r = ask_begin_get(w, &a, 0);
    h2_begin(r, 200);
    run_until(w->loop, &a.headed);
    for (unsigned i = 0; i < 10 && server.asked == 1; i++) {
        pass_quietly(w, r->conn, PING_MS);
    }
    assert_int_equal(server.asked, 2);
    h2_goaway(r->conn, r->id, NGHTTP2_NO_ERROR);
    run_for(w->loop, 20);
    pass_quietly(w, r->conn, 2 * PING_MS);
    expect_used(w, &a, r);
    assert_int_equal(server.asked, 2);
    assert_int_equal(world_stats(w)->dialled, 1);
}

/* The server takes no bytes for a while, though it sends some: the probe waits behind others. */
static void test_a_probe_that_is_not_sent_yet_judges_nothing(void **state)
{
    struct world *w = *state;
    static struct ask a[6];
    unsigned probes;
    server.window = INT32_MAX;
    use_probe(w, &probes);
    struct h2_request *r = ask_begin_get(w, &a[0], 0);
    h2_begin(r, 200);
    run_until(w->loop, &a[0].headed);
    net_stream_read_stop(r->conn->stream);
    for (int i = 1; i < 6; i++) {
        static char block[3 * 1024 * 1024];
        ask_begin(w, &a[i], "PUT", HTTP_BODY_LENGTH, sizeof block, false);
        assert_int_equal(http_exchange_send_body(a[i].x, slice_of(block, sizeof block)), 0);
        assert_int_equal(http_exchange_send_end(a[i].x), 0);
    }
    run_for(w->loop, 100);
    pass_quietly(w, r->conn, JUDGED_MS);
    assert_true(probes >= 1);
    net_stream_read_start(r->conn->stream);
    for (unsigned i = 1; i < 6; i++) {
        run_until(w->loop, &h2_request(&server, i)->ended);
        http_exchange_abort(a[i].x);
    }
    expect_used(w, &a[0], r);
    assert_int_equal(world_stats(w)->dialled, 1);
}

static void test_an_unused_connection_is_not_asked(void **state)
{
    struct world *w = *state;
    struct h2_server_conn *c = world_proven(w);
    h2_freeze(c);
    loop_skip(w->loop, SILENCE_MS);
    run_for(w->loop, 300);
    loop_skip(w->loop, PING_MS);
    run_for(w->loop, 300);
    assert_int_equal(world_stats(w)->idle, 1);
}

/* It agreed on HTTP/2, and says nothing: as if it could not be reached. */
static void test_a_server_that_does_not_begin(void **state)
{
    struct world *w = *state;
    static struct ask a[3];
    server.mute = true;
    for (int i = 0; i < 3; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    run_until(w->loop, &a[0].drained);
    run_for(w->loop, 20);
    assert_int_equal(world_stats(w)->dialled, 1);
    loop_skip(w->loop, PING_MS);
    for (int i = 0; i < 3; i++) {
        run_until(w->loop, &a[i].closed);
        assert_int_equal(a[i].error.code, UV_ETIMEDOUT);
    }
    assert_true(a[0].sent);
    assert_false(a[1].sent);
    assert_int_equal(world_stats(w)->failed, 1);
    assert_non_null(http_client_unreachable(w->client));
}

/* ---- flow ---- */

static void test_a_paused_answer_holds_no_other_up(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    static char block[8 * 1024 * 1024];
    struct h2_request *r = ask_begin_get(w, &a[0], 0);
    a[0].keep_body = false;
    h2_begin(r, 200);
    run_until(w->loop, &a[0].headed);
    http_exchange_pause(a[0].x);
    h2_send(r, block, sizeof block);
    run_for(w->loop, 50);
    assert_in_range(r->taken, 1, 1024 * 1024); /* its window */
    size_t before = a[0].received;
    h2_answer(ask_begin_get(w, &a[1], 1), 200, "hello");
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
    assert_int_equal(a[0].received, before);
    h2_end(r);
    http_exchange_resume(a[0].x);
    run_until(w->loop, &a[0].closed);
    assert_false(a[0].failed);
    assert_int_equal(a[0].received, sizeof block);
}

static void test_a_request_may_be_paused_before_it_is_sent(void **state)
{
    struct world *w = *state;
    static struct ask a;
    server.answers = true;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false);
    http_exchange_pause(a.x);
    run_until(w->loop, &a.headed);
    run_for(w->loop, 20);
    assert_int_equal(a.received, 0);
    assert_false(a.ended);
    http_exchange_resume(a.x);
    assert_int_equal(a.received, 0); /* not inside the call */
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

static void test_a_large_body_is_sent_as_the_server_takes_it(void **state)
{
    struct world *w = *state;
    static struct ask a;
    (void)world_proven(w);
    ask_begin(w, &a, "POST", HTTP_BODY_CHUNKED, 0, false);
    send_all(w, &a, 4 * 1024 * 1024);
    struct h2_request *r = h2_request(&server, 1);
    run_until(w->loop, &r->ended);
    assert_int_equal(r->body.len, 4 * 1024 * 1024);
    h2_answer(r, 200, "hello");
    run_until(w->loop, &a.closed);
    ask_expect_hello(&a);
}

/* Two requests on a connection that the server ends: the first is answered, which its user has not
 * looked at, and the second is not. */
static void answer_and_hang_up(struct world *w, struct ask a[2])
{
    (void)world_proven(w);
    unsigned n = server.asked;
    ask_begin(w, &a[0], "GET", HTTP_BODY_NONE, 0, false);
    http_exchange_pause(a[0].x);
    ask_begin(w, &a[1], "POST", HTTP_BODY_CHUNKED, 0, false);
    struct h2_request *r = h2_request(&server, n);
    h2_expect_requests(&server, n + 2);
    h2_answer(r, 200, "hello");
    h2_hang_up(r->conn);
    run_until(w->loop, &a[1].closed);
    assert_int_equal(a[1].error.code, UV_EOF);
    assert_true(a[0].headed);
    assert_false(a[0].ended || a[0].closed);
    assert_int_equal(world_stats(w)->open, 1);
    assert_false(http_client_on_its_way(a[0].x));
}

/* What the server has said whole is told, whatever it does then. */
static void test_an_answer_outlives_its_connection(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct sockaddr_storage address;
    answer_and_hang_up(w, a);
    assert_int_equal(http_client_peer_address(a[0].x, &address), UV_ENOTCONN);
    http_exchange_resume(a[0].x);
    run_until(w->loop, &a[0].closed);
    ask_expect_hello(&a[0]);
    assert_int_equal(world_stats(w)->open, 0);
    (void)world_proven(w);
}

/* It ends all the same when its user gives it up, or all is broken off, or the client ends. */
static void test_an_answer_does_not_outlive_its_user(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    answer_and_hang_up(w, a);
    http_exchange_abort(a[0].x);
    assert_int_equal(world_stats(w)->open, 0);
    answer_and_hang_up(w, a);
    http_client_break_off(w->client);
    assert_true(a[0].closed);
    assert_int_equal(a[0].error.code, UV_ECANCELED);
    assert_int_equal(world_stats(w)->open, 0);
    answer_and_hang_up(w, a);
    http_client_free(w->client);
    w->client = NULL;
    assert_true(a[0].closed);
    assert_int_equal(a[0].error.code, UV_ECANCELED);
}

/* Too much is kept of answers that nobody reads: those that were not read for longest end, alone.
 */
static void test_what_nobody_reads_is_given_up(void **state)
{
    enum { READERS = 40, MAX = 1024 * 1024 };
    struct world *w = *state;
    static struct ask a[READERS];
    static char block[60 * 1024];
    struct net_backlog *backlog = net_backlog_new(w->loop, MAX);
    assert_non_null(backlog);
    http_client_set_backlog(w->client, backlog);
    for (unsigned i = 0; i < READERS; i++) {
        struct h2_request *r = ask_begin_get(w, &a[i], i);
        a[i].keep_body = false;
        h2_begin(r, 200);
        run_until(w->loop, &a[i].headed);
        http_exchange_pause(a[i].x);
        h2_send(r, block, sizeof block);
        if (i == READERS / 2) { /* one begins to read again */
            unsigned first = i - 2;
            http_exchange_resume(a[first].x);
            run_for(w->loop, 5);
            assert_int_equal(a[first].received, sizeof block);
            http_exchange_pause(a[first].x);
            h2_send(h2_request(&server, first), block, sizeof block);
        }
        run_for(w->loop, 2);
        assert_true(net_backlog_stats(backlog).bytes <= MAX);
    }
    unsigned ended = 0;
    for (unsigned i = 0; i < READERS; i++) {
        assert_true(!a[i].closed || (a[i].failed && a[i].error.code == UV_ENOBUFS));
        assert_true(!a[i].closed || h2_request(&server, i)->reset);
        ended += a[i].closed ? 1 : 0;
    }
    assert_in_range(ended, READERS - 17, READERS - 8);
    assert_int_equal(net_backlog_stats(backlog).given_up, ended);
    assert_true(a[0].closed && a[READERS / 2 - 3].closed);
    assert_false(a[READERS - 1].closed);
    server.answers = true;
    static struct ask free_one;
    ask_all(w, &free_one);
    ask_expect_hello(&free_one);
    assert_int_equal(world_stats(w)->dialled, 1);
    http_client_free(w->client);
    w->client = NULL;
    assert_int_equal(net_backlog_stats(backlog).bytes, 0);
    net_backlog_unref(backlog);
}

static void test_a_server_that_reads_nothing_is_given_up(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    static char block[64 * 1024];
    struct http_client_options o = h2_client_options();
    o.write_timeout_ms = 5000;
    world_use_options(w, &o);
    server.window = 64 * 1024 * 1024;
    struct h2_server_conn *c = world_proven(w);
    ask_begin(w, &a[0], "POST", HTTP_BODY_CHUNKED, 0, false);
    ask_begin(w, &a[1], "GET", HTTP_BODY_NONE, 0, false);
    h2_expect_requests(&server, 3);
    h2_freeze(c);
    for (int i = 0; i < 2000 && !http_exchange_blocked(a[0].x); i++) {
        assert_int_equal(http_exchange_send_body(a[0].x, slice_of(block, sizeof block)), 0);
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    }
    assert_true(http_exchange_blocked(a[0].x));
    run_for(w->loop, 20);
    loop_skip(w->loop, 5000);
    run_until(w->loop, &a[0].closed);
    assert_int_equal(a[0].error.code, UV_ETIMEDOUT);
    h2_answer(h2_request(&server, 3), 200, "hello"); /* safe to be repeated */
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
}

static bool may_send(void *data)
{
    return *(const bool *)data;
}

/* The kernel takes no more of a connection: what must be sent at this moment goes on another one.
 */
static void test_a_guarded_request_is_not_queued(void **state)
{
    struct world *w = *state;
    static struct ask a[40];
    static char block[64 * 1024];
    struct http_client_options o = h2_client_options();
    bool open = true;
    o.may_send = may_send;
    o.data = &open;
    world_use_options(w, &o);
    server.window = 16 * 1024 * 1024;
    struct h2_server_conn *c = world_proven(w);
    h2_freeze(c);
    unsigned n = 0;
    for (bool stuck = false; !stuck && n < 38; n++) { /* the window of each is 64 KiB or more */
        ask_begin(w, &a[n], "POST", HTTP_BODY_CHUNKED, 0, false);
        for (int i = 0; i < 64 && !http_exchange_blocked(a[n].x); i++) {
            assert_int_equal(http_exchange_send_body(a[n].x, slice_of(block, sizeof block)), 0);
            run_for(w->loop, 1);
        }
        w->guarded = true;
        ask_begin(w, &a[39], "GET", HTTP_BODY_NONE, 0, false);
        stuck = http_exchange_blocked(a[39].x);
        http_exchange_abort(a[39].x);
        w->guarded = false;
    }
    assert_in_range(n, 1, 37);
    w->guarded = true;
    server.answers = true;
    ask_all(w, &a[39]);
    w->guarded = false;
    ask_expect_hello(&a[39]);
    assert_ptr_not_equal(h2_request(&server, server.asked - 1)->conn, c);
    for (unsigned i = 0; i < n; i++) {
        http_exchange_abort(a[i].x);
    }
}

static void test_what_may_not_be_sent_leaves_the_connection_alone(void **state)
{
    struct world *w = *state;
    static struct ask a;
    struct http_client_options o = h2_client_options();
    struct err e = ERR_INIT;
    bool open = false;
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {.method = SLICE("GET"),
                                   .target = SLICE("/path"),
                                   .headers = &host,
                                   .header_count = 1,
                                   .guarded = true};
    o.may_send = may_send;
    o.data = &open;
    world_use_options(w, &o);
    w->guarded = true;
    ask_begin(w, &a, "GET", HTTP_BODY_NONE, 0, false); /* a connection is opened for it */
    run_until(w->loop, &a.closed);
    assert_int_equal(a.error.code, UV_ECANCELED);
    assert_false(a.sent);
    w->guarded = false;
    (void)world_proven(w);
    assert_null(http_client_request(w->client, &head, NULL, NULL, &e));
    assert_int_equal(e.code, UV_ECANCELED);
    open = true;
    w->guarded = true;
    server.answers = true;
    ask_all(w, &a);
    w->guarded = false;
    ask_expect_hello(&a);
    assert_int_equal(world_stats(w)->dialled, 1);
    assert_int_equal(server.asked, 2);
}

/* A write of which the server has got the head and the first bytes: it reads, and does not say that
 * it would take more. */
static struct h2_request *begin_guarded_write(struct world *w, struct ask *a)
{
    static char block[4096];
    server.window = 1024;
    world_proven(w)->frozen = true;
    w->guarded = true;
    ask_begin(w, a, "POST", HTTP_BODY_LENGTH, sizeof block, false);
    w->guarded = false;
    assert_int_equal(http_exchange_send_body(a->x, slice_of(block, sizeof block)), 0);
    assert_int_equal(http_exchange_send_end(a->x), 0);
    struct h2_request *r = h2_request(&server, 1);
    while (r->body.len < server.window) {
        run_for(w->loop, 1);
    }
    return r;
}

/* The windows open when it may not be sent any more: nothing is, of it alone. */
static void test_the_rest_of_a_guarded_request(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    struct http_client_options o = h2_client_options();
    bool open = true;
    o.may_send = may_send;
    o.data = &open;
    world_use_options(w, &o);
    struct h2_request *r = begin_guarded_write(w, &a[0]);
    struct h2_request *other = ask_begin_get(w, &a[1], 2);
    open = false;
    r->conn->frozen = false;
    h2_ping(r->conn);
    run_until(w->loop, &a[0].closed);
    assert_int_equal(a[0].error.code, UV_ECANCELED);
    assert_true(a[0].sent);
    run_until(w->loop, &r->reset);
    assert_int_equal(r->body.len, server.window);
    assert_false(r->ended);
    h2_answer(other, 200, "hello");
    run_until(w->loop, &a[1].closed);
    ask_expect_hello(&a[1]);
}

/* ---- the client is freed ---- */

static void test_freeing_the_client_in_each_phase(void **state)
{
    struct world *w = *state;
    static struct ask a[6];
    struct h2_request *r;
    (void)ask_begin_get(w, &a[0], 0); /* sent */
    r = ask_begin_get(w, &a[1], 1);
    h2_begin(r, 200);
    run_until(w->loop, &a[1].headed); /* answered in part */
    r = ask_begin_get(w, &a[2], 2);
    h2_begin(r, 200);
    http_exchange_pause(a[2].x);
    h2_send(r, "kept", 4);
    run_for(w->loop, 20);
    ask_begin(w, &a[3], "POST", HTTP_BODY_LENGTH, 4, false);
    assert_int_equal(http_exchange_send_body(a[3].x, SLICE("ha")), 0);
    ask_begin(w, &a[4], "GET", HTTP_BODY_NONE, 0, true); /* dialling */
    http_exchange_resume(a[2].x);                        /* to be handed over soon */
    http_client_free(w->client);
    w->client = NULL;
    for (int i = 0; i < 5; i++) {
        assert_true(a[i].closed && a[i].failed);
        assert_int_equal(a[i].error.code, UV_ECANCELED);
    }
}

static void free_client(struct http_exchange *x, const struct http_head *head)
{
    struct world *w = x->data;
    (void)head;
    http_client_free(w->client);
    w->client = NULL;
}

static void count_close(struct http_exchange *x, const struct err *e)
{
    struct world *w = x->data;
    assert_non_null(e);
    w->server_closed++;
}

static void test_freeing_the_client_inside_a_handler(void **state)
{
    struct world *w = *state;
    static const struct http_exchange_handlers handlers = {
        .on_head = free_client, .on_drain = ignore, .on_close = count_close};
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {
        .method = SLICE("GET"), .target = SLICE("/"), .headers = &host, .header_count = 1};
    server.answers = true;
    for (int i = 0; i < 2; i++) {
        assert_non_null(http_client_request(w->client, &head, &handlers, w, NULL));
    }
    for (int i = 0; i < 1000 && w->client != NULL; i++) {
        run_for(w->loop, 1);
    }
    assert_null(w->client);
    assert_int_equal(w->server_closed, 2);
}

static void test_freeing_the_client_while_http2_begins(void **state)
{
    struct world *w = *state;
    static struct ask a[2];
    server.mute = true;
    for (int i = 0; i < 2; i++) {
        ask_begin(w, &a[i], "GET", HTTP_BODY_NONE, 0, false);
    }
    run_until(w->loop, &a[0].drained);
    http_client_free(w->client);
    w->client = NULL;
    assert_true(a[0].closed && a[1].closed);
    assert_true(a[0].sent && !a[1].sent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, h2_setup, h2_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_get),
        TEST(test_a_connection_is_kept),
        TEST(test_post_with_length),
        TEST(test_post_of_unknown_length),
        TEST(test_bodies_arrive_before_the_end),
        TEST(test_an_early_answer_ends_the_request_alone),
        TEST(test_a_head_that_the_server_does_not_take),
        TEST(test_a_head_counts_until_the_answer_begins),
        TEST(test_a_reset_ends_one_request_alone),
        TEST(test_an_abort_ends_one_request_alone),
        TEST(test_an_abort_inside_each_handler),
        TEST(test_a_frozen_server_is_found),
        TEST(test_a_quiet_server_is_asked_and_left_alone),
        TEST(test_a_connection_in_doubt_is_not_used),
        TEST(test_a_connection_that_answers_is_used_again),
        TEST(test_a_stalled_connection_is_left),
        TEST(test_a_quiet_connection_is_probed),
        TEST(test_a_full_connection_is_probed),
        TEST(test_a_probe_without_a_stream_judges_nothing),
        TEST(test_a_frozen_server_without_a_stream_is_found),
        TEST(test_a_connection_that_leaves_is_not_judged_by_a_probe),
        TEST(test_a_probe_that_is_refused_judges_nothing),
        TEST(test_a_probe_that_is_not_sent_yet_judges_nothing),
        TEST(test_an_unused_connection_is_not_asked),
        TEST(test_a_server_that_does_not_begin),
        TEST(test_a_paused_answer_holds_no_other_up),
        TEST(test_a_request_may_be_paused_before_it_is_sent),
        TEST(test_a_large_body_is_sent_as_the_server_takes_it),
        TEST(test_an_answer_outlives_its_connection),
        TEST(test_an_answer_does_not_outlive_its_user),
        TEST(test_what_nobody_reads_is_given_up),
        TEST(test_a_server_that_reads_nothing_is_given_up),
        TEST(test_a_guarded_request_is_not_queued),
        TEST(test_the_rest_of_a_guarded_request),
        TEST(test_what_may_not_be_sent_leaves_the_connection_alone),
        TEST(test_freeing_the_client_in_each_phase),
        TEST(test_freeing_the_client_inside_a_handler),
        TEST(test_freeing_the_client_while_http2_begins),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
