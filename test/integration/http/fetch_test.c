/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch_test.c - whole bodies both ways: http/fetch.h asks, http/collect.h gathers and answers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "http/collect.h"
#include "http/fetch.h"
#include "http/server.h"
#include "loop_fixture.h"

enum { TAKEN_MAX = 6 * 1024 * 1024, WAIT_MS = 20000 };

/* What the server does with a request, once it has its body or before. */
enum behaviour { SERVE_ECHO, SERVE_NEVER, SERVE_TOO_EARLY, SERVE_CUT_OFF };

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct http_client *client;
    enum behaviour behaviour;
    unsigned requests;
    unsigned gone; /* exchanges of the server that ended */
    size_t took;   /* bytes of the last whole body */
    struct err serve_error;
    char method[16];
    char colour[16]; /* a header of the request */
};

struct serving {
    struct http_collect collect;
    struct world *world;
};

/* ---- the server ---- */

static void answer(struct serving *s, unsigned status, struct slice body)
{
    struct http_header headers[] = {{SLICE("Retry-After"), SLICE("7")}, {SLICE("Empty"), {0}}};
    if (http_respond(s->collect.x, status, SLICE("text/plain"), body, headers, 2) != 0) {
        http_collect_abort(&s->collect);
    }
}

static void serve_body(struct http_collect *c, struct slice body, const struct err *e)
{
    struct serving *s = LIST_ITEM(c, struct serving, collect);
    s->world->took = body.len;
    if (e != NULL) {
        s->world->serve_error = *e;
        answer(s, 413, SLICE("too large"));
    } else if (s->world->behaviour == SERVE_ECHO) {
        answer(s, 200, body);
    } else if (s->world->behaviour == SERVE_CUT_OFF) {
        struct http_head head = {.status = 200, .framing = HTTP_BODY_LENGTH, .content_length = 10};
        assert_int_equal(http_exchange_send_head(c->x, &head), 0);
        assert_int_equal(http_exchange_send_body(c->x, SLICE("half")), 0);
        s->world->gone++;
        http_collect_deinit(c);
        free(s);
    }
}

static void serve_close(struct http_collect *c, const struct err *e)
{
    struct serving *s = LIST_ITEM(c, struct serving, collect);
    assert_null(c->x);
    if (e != NULL) {
        s->world->serve_error = *e;
    }
    s->world->gone++;
    http_collect_deinit(c);
    free(s);
}

static const struct http_collect_handlers serve_handlers = {
    .on_body = serve_body,
    .on_close = serve_close,
};

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    struct serving *s = calloc(1, sizeof *s);
    const struct http_header *colour = http_head_find(head, SLICE("Colour"));
    assert_non_null(s);
    s->world = w;
    w->requests++;
    (void)snprintf(w->method, sizeof w->method, "%.*s", (int)head->method.len, head->method.ptr);
    if (colour != NULL) {
        (void)snprintf(w->colour, sizeof w->colour, "%.*s", (int)colour->value.len,
                       colour->value.ptr);
    }
    http_collect_init(&s->collect, TAKEN_MAX, &serve_handlers);
    http_collect_take(&s->collect, x);
    if (w->behaviour == SERVE_TOO_EARLY) {
        answer(s, 403, SLICE("no"));
    }
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)why;
    (void)body;
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    struct http_server_options so = {.address = "127.0.0.1:0",
                                     .head_timeout_ms = WAIT_MS,
                                     .idle_timeout_ms = WAIT_MS,
                                     .write_timeout_ms = WAIT_MS};
    w->server = http_server_new(w->loop, &so, &server_handlers, w, NULL);
    assert_non_null(w->server);
    struct http_client_options co = {
        .host = "127.0.0.1",
        .port = (unsigned)atoi(strrchr(http_server_address(w->server), ':') + 1),
        .connect_timeout_ms = WAIT_MS,
        .idle_timeout_ms = WAIT_MS,
        .max_idle = 2,
    };
    w->client = http_client_new(w->loop, &co, NULL);
    assert_non_null(w->client);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    http_client_free(w->client);
    http_server_free(w->server);
    assert_int_equal(w->requests, w->gone);
    int rc = loop_teardown((void **)&w->loop);
    free(w);
    return rc;
}

/* ---- asking ---- */

struct ask {
    struct http_fetch *fetch;
    bool over;
    unsigned status;
    struct buf body;
    char retry_after[16];
    bool has_missing;
    bool has_empty;
    int code;
    char why[ERR_MSG_MAX];
};

static void on_answer(void *data, const struct http_answer *a, const struct err *e)
{
    struct ask *ask = data;
    assert_false(ask->over);
    assert_true((a == NULL) != (e == NULL));
    ask->over = true;
    ask->fetch = NULL;
    if (e != NULL) {
        ask->code = e->code;
        (void)snprintf(ask->why, sizeof ask->why, "%s", e->msg);
        return;
    }
    ask->status = a->status;
    assert_int_equal(buf_append(&ask->body, a->body.ptr, a->body.len), 0);
    ask->has_missing = a->headers[0] != NULL;
    ask->has_empty = a->headers[2] != NULL && a->headers[2][0] == '\0';
    (void)snprintf(ask->retry_after, sizeof ask->retry_after, "%s",
                   a->headers[1] != NULL ? a->headers[1] : "");
}

static void begin(struct world *w, struct ask *ask, struct slice method, struct slice body,
                  size_t answer_max, uint64_t timeout_ms)
{
    static const char *const wanted[] = {"Missing", "retry-after", "Empty", NULL};
    const struct http_header headers[] = {{SLICE("Host"), SLICE("test")},
                                          {SLICE("Colour"), SLICE("green")}};
    struct http_fetch_options o = {
        .via = http_client_requester(w->client),
        .method = method,
        .target = SLICE("/"),
        .headers = headers,
        .header_count = 2,
        .body = body,
        .answer_max = answer_max,
        .timeout_ms = timeout_ms,
        .wanted = wanted,
    };
    struct err e = ERR_INIT;
    memset(ask, 0, sizeof *ask);
    buf_init(&ask->body, answer_max);
    ask->fetch = http_fetch_start(w->loop, &o, on_answer, ask, &e);
    assert_non_null(ask->fetch);
    assert_false(ask->over);
}

static void fetch(struct world *w, struct ask *ask, struct slice method, struct slice body,
                  size_t answer_max, uint64_t timeout_ms)
{
    begin(w, ask, method, body, answer_max, timeout_ms);
    run_until(w->loop, &ask->over);
}

/* ---- tests ---- */

static void test_small_answer_with_headers(void **state)
{
    struct world *w = *state;
    struct ask ask;
    fetch(w, &ask, SLICE("GET"), (struct slice){0}, 100, WAIT_MS);
    assert_int_equal(ask.status, 200);
    assert_int_equal(ask.body.len, 0);
    assert_string_equal(ask.retry_after, "7");
    assert_false(ask.has_missing);
    assert_true(ask.has_empty);
    assert_string_equal(w->method, "GET");
    assert_string_equal(w->colour, "green");
}

static void test_body_goes_and_comes_back(void **state)
{
    struct world *w = *state;
    struct ask ask;
    char text[] = "some text";
    begin(w, &ask, SLICE("PUT"), slice_str(text), 100, WAIT_MS);
    memset(text, 'x', sizeof text); /* it was copied */
    run_until(w->loop, &ask.over);
    assert_int_equal(ask.status, 200);
    assert_int_equal(ask.body.len, 9);
    assert_memory_equal(buf_data(&ask.body), "some text", 9);
    buf_reset(&ask.body);
}

static void test_empty_body_is_said_so(void **state)
{
    struct world *w = *state;
    struct ask ask;
    fetch(w, &ask, SLICE("POST"), SLICE(""), 100, WAIT_MS);
    assert_int_equal(ask.status, 200);
    assert_int_equal(ask.body.len, 0);
}

/* Larger than what the sockets and the stream's own queue hold. */
static void test_large_bodies(void **state)
{
    struct world *w = *state;
    struct ask ask;
    size_t len = 3 * 1024 * 1024;
    char *large = malloc(len);
    assert_non_null(large);
    for (size_t i = 0; i < len; i++) {
        large[i] = (char)(i % 251);
    }
    fetch(w, &ask, SLICE("PUT"), slice_of(large, len), len, WAIT_MS);
    assert_int_equal(ask.status, 200);
    assert_int_equal(ask.body.len, len);
    assert_memory_equal(buf_data(&ask.body), large, len);
    buf_reset(&ask.body);
    free(large);
}

/* What is answered at once need not be sent whole. */
static void test_answer_before_the_body(void **state)
{
    struct world *w = *state;
    struct ask ask;
    char *large = calloc(1, TAKEN_MAX);
    assert_non_null(large);
    w->behaviour = SERVE_TOO_EARLY;
    fetch(w, &ask, SLICE("PUT"), slice_of(large, TAKEN_MAX), 100, WAIT_MS);
    assert_int_equal(ask.status, 403);
    buf_reset(&ask.body);
    free(large);
}

static void test_largest_body_taken_and_one_byte_more(void **state)
{
    struct world *w = *state;
    struct ask ask;
    char *large = calloc(1, TAKEN_MAX + 1);
    assert_non_null(large);
    w->behaviour = SERVE_NEVER;
    begin(w, &ask, SLICE("PUT"), slice_of(large, TAKEN_MAX), 100, WAIT_MS);
    for (int i = 0; i < 4000 && w->took == 0; i++) {
        run_for(w->loop, 2);
    }
    assert_int_equal(w->took, TAKEN_MAX);
    assert_false(ask.over);
    http_fetch_cancel(ask.fetch);
    fetch(w, &ask, SLICE("PUT"), slice_of(large, TAKEN_MAX + 1), 100, WAIT_MS);
    assert_int_equal(ask.status, 413);
    assert_int_equal(w->serve_error.code, -EMSGSIZE);
    assert_non_null(strstr(w->serve_error.msg, "6291456 bytes"));
    buf_reset(&ask.body);
    free(large);
}

static void test_answer_over_its_maximum(void **state)
{
    struct world *w = *state;
    struct ask ask;
    fetch(w, &ask, SLICE("PUT"), SLICE("12345"), 5, WAIT_MS);
    assert_int_equal(ask.status, 200);
    buf_reset(&ask.body);
    fetch(w, &ask, SLICE("PUT"), SLICE("123456"), 5, WAIT_MS);
    assert_int_equal(ask.code, -EMSGSIZE);
    assert_non_null(strstr(ask.why, "more than 5 bytes"));
}

static void test_time_limit(void **state)
{
    struct world *w = *state;
    struct ask ask;
    w->behaviour = SERVE_NEVER;
    uint64_t begun = uv_hrtime();
    fetch(w, &ask, SLICE("GET"), (struct slice){0}, 100, 300);
    assert_int_equal(ask.code, -ETIMEDOUT);
    assert_non_null(strstr(ask.why, "300 ms"));
    assert_true((uv_hrtime() - begun) / 1000000 < 5000);
}

static void test_answer_cut_off(void **state)
{
    struct world *w = *state;
    struct ask ask;
    w->behaviour = SERVE_CUT_OFF;
    fetch(w, &ask, SLICE("GET"), (struct slice){0}, 100, WAIT_MS);
    assert_int_equal(ask.code, UV_ECONNRESET);
    assert_int_equal(ask.status, 0);
}

static void test_nobody_listens(void **state)
{
    struct world *w = *state;
    struct ask ask;
    http_server_free(w->server);
    w->server = NULL;
    fetch(w, &ask, SLICE("GET"), (struct slice){0}, 100, WAIT_MS);
    assert_int_equal(ask.code, UV_ECONNREFUSED);
}

static void test_connection_is_kept(void **state)
{
    struct world *w = *state;
    struct ask ask;
    for (int i = 0; i < 3; i++) {
        fetch(w, &ask, SLICE("PUT"), SLICE("text"), 100, WAIT_MS);
        assert_int_equal(ask.status, 200);
        buf_reset(&ask.body);
    }
    assert_int_equal(http_client_stats(w->client)->dialled, 1);
}

static bool at_server(const struct world *w)
{
    return w->requests > w->gone;
}

/* Cancelled before it is connected, while it waits for its answer, and while its body is sent. */
static void test_cancel_in_each_phase(void **state)
{
    struct world *w = *state;
    struct ask ask;
    char *large = calloc(1, TAKEN_MAX);
    assert_non_null(large);
    w->behaviour = SERVE_NEVER;
    for (int phase = 0; phase < 3; phase++) {
        begin(w, &ask, SLICE("PUT"), slice_of(large, phase == 2 ? TAKEN_MAX : 10), 100, WAIT_MS);
        for (int i = 0; phase > 0 && i < 1000 && !at_server(w); i++) {
            run_for(w->loop, 1);
        }
        assert_int_equal(at_server(w), phase > 0);
        http_fetch_cancel(ask.fetch);
        for (int i = 0; i < 1000 && at_server(w); i++) {
            run_for(w->loop, 1);
        }
        assert_false(at_server(w));
        assert_false(ask.over);
    }
    http_fetch_cancel(NULL);
    free(large);
}

static void test_client_freed_under_a_fetch(void **state)
{
    struct world *w = *state;
    struct ask ask;
    w->behaviour = SERVE_NEVER;
    begin(w, &ask, SLICE("GET"), (struct slice){0}, 100, WAIT_MS);
    http_client_free(w->client);
    w->client = NULL;
    assert_true(ask.over);
    assert_int_equal(ask.code, UV_ECANCELED);
}

static void test_server_freed_under_a_fetch(void **state)
{
    struct world *w = *state;
    struct ask ask;
    w->behaviour = SERVE_NEVER;
    begin(w, &ask, SLICE("GET"), (struct slice){0}, 100, WAIT_MS);
    for (int i = 0; i < 1000 && !at_server(w); i++) {
        run_for(w->loop, 1);
    }
    http_server_free(w->server);
    w->server = NULL;
    run_until(w->loop, &ask.over);
    assert_true(ask.code < 0);
    assert_int_equal(w->serve_error.code, UV_ECANCELED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_small_answer_with_headers),
        TEST(test_body_goes_and_comes_back),
        TEST(test_empty_body_is_said_so),
        TEST(test_large_bodies),
        TEST(test_answer_before_the_body),
        TEST(test_largest_body_taken_and_one_byte_more),
        TEST(test_answer_over_its_maximum),
        TEST(test_time_limit),
        TEST(test_answer_cut_off),
        TEST(test_nobody_listens),
        TEST(test_connection_is_kept),
        TEST(test_cancel_in_each_phase),
        TEST(test_client_freed_under_a_fetch),
        TEST(test_server_freed_under_a_fetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
