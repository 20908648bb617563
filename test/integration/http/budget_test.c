/* SPDX-License-Identifier: Apache-2.0 */
/* What all clients together make a server keep: core/base/byte_budget.h, core/net/backlog.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "http/client.h"
#include "http/collect.h"
#include "http/server.h"
#include "raw_peer.h"

enum {
    LONG_MS = 60000,
    BUDGET = 150000,
    BACKLOG = 1024 * 1024,
    HALF = 40000, /* of a head: its buffer has 64 KiB */
    COLLECTED_MAX = 300000,
    BLOCK = 64 * 1024,
    PEERS = 12,
};

enum behaviour { ANSWER, WAIT, PAUSE, COLLECT, FLOOD };

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct byte_budget budget;
    struct net_backlog *backlog;
    enum behaviour behaviour;
    struct http_exchange *running; /* the last one */
    struct http_collect collect;
    unsigned requests;
    unsigned closed;
    unsigned broken;
    size_t collected;
    int collect_error;
};

/* ---- the server's user ---- */

static void on_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void on_end(struct http_exchange *x)
{
    struct world *w = x->data;
    if (w->behaviour == PAUSE) {
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), SLICE("late"), NULL, 0), 0);
    }
}

static void flood(struct http_exchange *x)
{
    static const char block[BLOCK];
    while (!http_exchange_blocked(x)) {
        assert_int_equal(http_exchange_send_body(x, slice_of(block, sizeof block)), 0);
    }
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct world *w = x->data;
    w->closed++;
    w->broken += e != NULL ? 1 : 0;
    w->running = w->running == x ? NULL : w->running;
}

static const struct http_exchange_handlers exchange_handlers = {
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = flood,
    .on_close = on_close,
};

static void on_collected(struct http_collect *c, struct slice body, const struct err *e)
{
    struct world *w = LIST_ITEM(c, struct world, collect);
    w->collected = body.len;
    w->collect_error = e != NULL ? e->code : 0;
    assert_int_equal(
        http_respond(c->x, e != NULL ? 503 : 200, SLICE("text/plain"), SLICE("collected"), NULL, 0),
        0);
}

static void on_collect_closed(struct http_collect *c, const struct err *e)
{
    (void)e;
    http_collect_deinit(c);
}

static const struct http_collect_handlers collect_handlers = {
    .on_body = on_collected,
    .on_close = on_collect_closed,
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    const struct http_head answer = {.status = 200, .minor = 1, .framing = HTTP_BODY_CHUNKED};
    x->handlers = &exchange_handlers;
    x->data = w;
    w->running = x;
    w->requests++;
    assert_non_null(http_head_find(head, SLICE("Host")));
    switch (w->behaviour) {
    case ANSWER:
        assert_int_equal(http_respond(x, 200, SLICE("text/plain"), SLICE("hello"), NULL, 0), 0);
        break;
    case WAIT:
        break;
    case PAUSE:
        http_exchange_pause(x);
        break;
    case COLLECT:
        http_collect_init(&w->collect, COLLECTED_MAX, &collect_handlers);
        http_collect_set_budget(&w->collect, &w->budget);
        http_collect_take(&w->collect, x);
        break;
    case FLOOD:
        assert_int_equal(http_exchange_send_head(x, &answer), 0);
        flood(x);
        break;
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    assert_int_equal(buf_printf(body, "refused %u: %s", status, why), 0);
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

static int setup(void **state)
{
    static struct world w;
    struct err e = ERR_INIT;
    w = (struct world){.budget = {.max = BUDGET}};
    log_init("test", LOG_TEXT, LOG_ERROR);
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    w.backlog = net_backlog_new(w.loop, BACKLOG);
    struct http_server_options o = {
        .address = "127.0.0.1:0",
        .limits = {.head_bytes = 1024 * 1024, .header_count = 64},
        .head_timeout_ms = LONG_MS,
        .idle_timeout_ms = LONG_MS,
        .write_timeout_ms = LONG_MS,
        .budget = &w.budget,
        .backlog = w.backlog,
    };
    w.server = http_server_new(w.loop, &o, &server_handlers, &w, &e);
    *state = &w;
    return w.server != NULL && w.backlog != NULL ? 0 : -1;
}

/* Nothing may be left, whatever the test was about. */
static int teardown(void **state)
{
    struct world *w = *state;
    http_server_free(w->server);
    assert_int_equal(w->budget.used, 0);
    net_backlog_unref(w->backlog);
    return loop_teardown((void **)&w->loop);
}

/* ---- the peers ---- */

static void begin_head(struct world *w, struct raw_peer *p, size_t size)
{
    static char text[256 * 1024];
    memset(text, 'a', sizeof text);
    raw_connect(p, http_server_address(w->server));
    raw_send(p, "GET / HTTP/1.1\r\nHost: a\r\nX: ", 28);
    raw_send(p, text, size);
}

static void run_until_used(struct world *w, size_t used)
{
    for (unsigned i = 0; i < 10000 && w->budget.used != used; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->budget.used, used);
}

static void run_until_requested(struct world *w, unsigned requests)
{
    for (unsigned i = 0; i < 10000 && w->requests != requests; i++) {
        run_for(w->loop, 1);
    }
    assert_int_equal(w->requests, requests);
}

static void ask_small(struct world *w)
{
    static struct raw_peer p;
    static const char request[] = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, request, sizeof request - 1);
    raw_expect(w->loop, &p, "hello");
    raw_close(&p);
}

/* ---- heads ---- */

static void the_newest_of_too_many_large_heads_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer one, two, three;
    begin_head(w, &one, HALF);
    begin_head(w, &two, HALF);
    run_until_used(w, 2 * 65536);
    begin_head(w, &three, HALF);
    raw_expect(w->loop, &three, "HTTP/1.1 429 Too Many Requests\r\n");
    raw_expect(w->loop, &three, "refused 429: ");
    assert_non_null(strstr(three.text, "Retry-After: 1\r\n"));
    raw_expect(w->loop, &three, NULL);
    assert_int_equal(w->requests, 0);
    assert_int_equal(w->budget.refused, 1);
    ask_small(w);
    raw_close(&two);
    raw_close(&three);
    run_until_used(w, 65536);
    raw_send(&one, "\r\n\r\n", 4);
    raw_expect(w->loop, &one, "hello");
    run_until_used(w, 0); /* though the connection stays */
    assert_int_equal(http_server_stats(w->server)->open, 1);
    raw_close(&one);
}

/* What is made of a head takes memory as long as it is worked on. */
static void the_copies_of_a_head_count(void **state)
{
    struct world *w = *state;
    static struct raw_peer one, two;
    w->behaviour = WAIT;
    begin_head(w, &one, HALF);
    raw_send(&one, "\r\n\r\n", 4);
    run_until_requested(w, 1);
    assert_int_equal(w->budget.used, 65536); /* the copy, after the head itself */
    begin_head(w, &two, 2 * HALF);
    raw_expect(w->loop, &two, "HTTP/1.1 429 ");
    raw_close(&two);
    assert_int_equal(http_respond(w->running, 200, SLICE("text/plain"), SLICE("done"), NULL, 0), 0);
    raw_expect(w->loop, &one, "done");
    run_until_used(w, 0);
    raw_close(&one);
}

/* What a client keeps of a request, to repeat it. */
static void a_head_to_be_sent_counts(void **state)
{
    struct world *w = *state;
    static char text[HALF];
    struct err e = ERR_INIT;
    struct byte_budget budget = {.max = HALF + HALF / 2};
    const struct http_header long_one = {SLICE("X"), slice_of(text, sizeof text)};
    const struct http_head head = {.method = SLICE("GET"),
                                   .target = SLICE("/"),
                                   .headers = &long_one,
                                   .header_count = 1,
                                   .budget = &budget};
    struct http_client_options o = {.host = "127.0.0.1", .port = 1, .connect_timeout_ms = LONG_MS};
    struct http_client *client = http_client_new(w->loop, &o, &e);
    assert_non_null(client);
    memset(text, 'a', sizeof text);
    struct http_exchange *x = http_client_request(client, &head, &exchange_handlers, w, &e);
    assert_non_null(x);
    assert_in_range(budget.used, HALF, HALF + 300);
    assert_null(http_client_request(client, &head, &exchange_handlers, w, &e));
    assert_int_equal(e.code, -EDQUOT);
    http_exchange_abort(x);
    assert_int_equal(budget.used, 0);
    http_client_free(client);
}

static void a_head_whose_copies_do_not_fit_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    begin_head(w, &p, 2 * HALF);
    run_until_used(w, 131072);
    raw_send(&p, "\r\n\r\n", 4);
    raw_expect(w->loop, &p, "HTTP/1.1 429 ");
    raw_expect(w->loop, &p, NULL);
    assert_int_equal(w->requests, 0);
    raw_close(&p);
    run_until_used(w, 0);
}

/* ---- what waits to be passed on ---- */

static void begin_body(struct world *w, struct raw_peer *p, size_t announced, size_t sent)
{
    static char text[512 * 1024];
    char head[128];
    int n = snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
                     announced);
    memset(text, 'b', sizeof text);
    raw_connect(p, http_server_address(w->server));
    raw_send(p, head, (size_t)n);
    raw_send(p, text, sent);
}

static void a_body_that_cannot_be_passed_on_is_refused(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = PAUSE;
    w->budget.max = 4096;
    begin_body(w, &p, 100000, 50000);
    raw_expect(w->loop, &p, "HTTP/1.1 503 Service Unavailable\r\n");
    raw_expect(w->loop, &p, NULL);
    assert_null(strstr(p.text, "Retry-After")); /* a part may have been passed on */
    assert_int_equal(w->broken, 1);
    raw_close(&p);
}

static void a_small_body_is_kept_whatever_is_left(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = PAUSE;
    w->budget.max = 0;
    begin_body(w, &p, 1000, 1000);
    for (unsigned i = 0; i < 1000 && w->running == NULL; i++) {
        run_for(w->loop, 1);
    }
    assert_non_null(w->running);
    http_exchange_resume(w->running);
    raw_expect(w->loop, &p, "late");
    raw_close(&p);
}

/* The request that runs may have been carried out: its client is told nothing. */
static void who_sends_too_much_ahead_is_cut_off(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static char text[50000];
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    w->behaviour = WAIT;
    w->budget.max = 4096;
    memset(text, 'G', sizeof text);
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, request, sizeof request - 1);
    raw_send(&p, text, sizeof text);
    raw_expect(w->loop, &p, NULL);
    assert_int_equal(p.len, 0);
    assert_int_equal(w->broken, 1);
    raw_close(&p);
}

static void a_collected_body_counts(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = COLLECT;
    begin_body(w, &p, 100000, 60000);
    run_until_used(w, 65536);
    raw_close(&p);
    run_until_used(w, 0);
    begin_body(w, &p, 100000, 100000);
    raw_expect(w->loop, &p, "collected");
    assert_int_equal(w->collected, 100000);
    raw_close(&p);
    run_until_used(w, 0);
}

static void a_collected_body_may_not_grow_further(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    w->behaviour = COLLECT;
    begin_body(w, &p, 250000, 200000);
    raw_expect(w->loop, &p, "HTTP/1.1 503 ");
    assert_int_equal(w->collect_error, -EDQUOT);
    assert_int_equal(w->budget.used, 0);
    raw_close(&p);
}

/* ---- what is not read ---- */

static void those_that_do_not_read_are_given_up(void **state)
{
    struct world *w = *state;
    static struct raw_peer peers[PEERS];
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    w->behaviour = FLOOD;
    for (unsigned i = 0; i < PEERS; i++) {
        raw_connect(&peers[i], http_server_address(w->server));
        raw_send(&peers[i], request, sizeof request - 1);
        run_for(w->loop, 20);
        assert_true(net_backlog_stats(w->backlog).bytes <= BACKLOG);
    }
    unsigned given_up = (unsigned)net_backlog_stats(w->backlog).given_up;
    assert_true(given_up > 0 && given_up < PEERS);
    assert_int_equal(w->broken, given_up);
    assert_int_equal(http_server_stats(w->server)->open, PEERS - given_up);
    assert_non_null(w->running); /* the last one has not waited for longest */
    w->behaviour = ANSWER;
    ask_small(w);
    for (unsigned i = 0; i < PEERS; i++) {
        raw_close(&peers[i]);
    }
}

static void a_stream_outlives_who_made_its_backlog(void **state)
{
    struct world *w = *state;
    static struct raw_peer p;
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    w->behaviour = FLOOD;
    raw_connect(&p, http_server_address(w->server));
    raw_send(&p, request, sizeof request - 1);
    run_for(w->loop, 20);
    assert_true(net_backlog_stats(w->backlog).bytes > 0);
    http_exchange_abort(w->running); /* what is queued is still delivered */
    raw_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_of_too_many_large_heads_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_copies_of_a_head_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_to_be_sent_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_whose_copies_do_not_fit_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_that_cannot_be_passed_on_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_small_body_is_kept_whatever_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(who_sends_too_much_ahead_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(a_collected_body_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_collected_body_may_not_grow_further, setup, teardown),
        cmocka_unit_test_setup_teardown(those_that_do_not_read_are_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_outlives_who_made_its_backlog, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
