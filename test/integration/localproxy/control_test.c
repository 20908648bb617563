/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_test.c - both ends of the control socket: core/control's client against localproxy's
 * server, and each against a peer that misbehaves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "control/client.h"
#include "control/control.h"
#include "loop_fixture.h"
#include "raw_peer.h"
#include "temp_dir.h"

enum { TIMEOUT_MS = 20000, CALLS_MAX = 4 };

/* What the handlers do with a document. */
enum behaviour {
    ENFORCE,  /* parse it and put it in force */
    MEASURE,  /* only remember its size */
    POSTPONE, /* answer later */
    REFUSE,   /* with `refuse_code` */
};

struct world {
    struct net_loop *loop;
    struct temp_dir dir;
    char path[256];
    struct control *control;
    struct control_client *client;
    enum behaviour behaviour;
    int refuse_code;
    struct rules *rules; /* in force */
    struct control_call *calls[CALLS_MAX];
    size_t call_count;
    unsigned forgotten;
    unsigned heard;
    char trouble[ERR_MSG_MAX];
    unsigned reloads;
    size_t text_len; /* of the last document */
    unsigned text_sum;
};

/* ---- the server's user ---- */

static unsigned sum_of(struct slice text)
{
    unsigned sum = 0;
    for (size_t i = 0; i < text.len; i++) {
        sum = sum * 31 + (unsigned char)text.ptr[i];
    }
    return sum;
}

static int enforce(struct world *w, struct slice text, struct control_call *r, struct err *e)
{
    struct rules *rules = rules_parse(text.ptr, text.len, e);
    if (rules == NULL) {
        return e->code;
    }
    bool same = w->rules != NULL && rules_generation(rules) == rules_generation(w->rules);
    rules_unref(w->rules);
    w->rules = rules;
    control_done(r, !same);
    return 0;
}

static int reload(void *data, struct slice text, struct control_call *r, struct err *e)
{
    struct world *w = data;
    w->reloads++;
    w->text_len = text.len;
    w->text_sum = sum_of(text);
    switch (w->behaviour) {
    case ENFORCE:
        return enforce(w, text, r, e);
    case MEASURE:
        control_done(r, true);
        return 0;
    case POSTPONE:
        assert_true(w->call_count < CALLS_MAX);
        w->calls[w->call_count++] = r;
        return 0;
    case REFUSE:
        return err_set(e, w->refuse_code, "refused with %d", w->refuse_code);
    }
    return 0;
}

static void describe(void *data, struct control_state *out)
{
    struct world *w = data;
    control_state_set(out, w->rules, 1000000000, "none in the test");
}

static void forget(void *data, struct control_call *r)
{
    struct world *w = data;
    size_t i = 0;
    while (i < w->call_count && w->calls[i] != r) {
        i++;
    }
    assert_true(i < w->call_count);
    w->calls[i] = w->calls[--w->call_count];
    w->forgotten++;
}

static void heard(void *data, const char *trouble)
{
    struct world *w = data;
    w->heard++;
    (void)snprintf(w->trouble, sizeof w->trouble, "%s", trouble);
}

static const struct control_handlers handlers = {
    .reload = reload,
    .describe = describe,
    .heard = heard,
    .forget = forget,
};

/* ---- the world ---- */

static struct control_client *new_client(struct world *w, uint64_t timeout_ms)
{
    struct err e = ERR_INIT;
    struct control_client_options o = {.path = w->path, .timeout_ms = timeout_ms};
    struct control_client *c = control_client_new(w->loop, &o, &e);
    assert_non_null(c);
    return c;
}

static int setup_client(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    temp_dir_init(&w->dir);
    (void)temp_dir_path(&w->dir, "control.sock", w->path);
    w->client = new_client(w, TIMEOUT_MS);
    *state = w;
    return 0;
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    (void)setup_client(state);
    struct world *w = *state;
    w->control = control_new(w->loop, w->path, &handlers, w, &e);
    if (w->control == NULL) {
        fail_msg("%s", e.msg);
    }
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    control_client_free(w->client);
    control_free(w->control);
    rules_unref(w->rules);
    int rc = loop_free(w->loop);
    temp_dir_deinit(&w->dir);
    free(w);
    return rc;
}

/* What became of a call. */
struct call {
    bool over;
    bool good;
    bool changed;
    struct control_state state;
    struct err error;
};

static void on_reply(void *data, const struct control_state *s, bool changed, const struct err *e)
{
    struct call *call = data;
    assert_false(call->over);
    assert_true((s == NULL) != (e == NULL));
    call->over = true;
    call->good = s != NULL;
    call->changed = changed;
    if (s != NULL) {
        call->state = *s;
    } else {
        call->error = *e;
    }
}

static void begin_put(struct control_client *c, struct slice text, struct call *call)
{
    struct err e = ERR_INIT;
    memset(call, 0, sizeof *call);
    assert_int_equal(control_client_put(c, CONTROL_RULES, text, on_reply, call, &e), 0);
    assert_false(call->over);
}

static void put(struct world *w, struct slice text, struct call *call)
{
    begin_put(w->client, text, call);
    run_until(w->loop, &call->over);
}

static void get(struct world *w, struct call *call)
{
    struct err e = ERR_INIT;
    memset(call, 0, sizeof *call);
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, NULL, on_reply, call, &e), 0);
    run_until(w->loop, &call->over);
}

static struct slice document(unsigned generation)
{
    static char text[512];
    int n = snprintf(text, sizeof text,
                     "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardRules\",\"shard\":{"
                     "\"namespace\":\"demo\",\"name\":\"demo-1\"},\"generation\":%u,"
                     "\"spec\":{\"limits\":[]}}",
                     generation);
    return slice_of(text, (size_t)n);
}

static void wait_for_calls(struct world *w, size_t count)
{
    for (int i = 0; i < 4000 && w->call_count < count; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(w->call_count, count);
}

static void wait_for_forgotten(struct world *w, unsigned count)
{
    for (int i = 0; i < 4000 && w->forgotten < count; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(w->forgotten, count);
    assert_int_equal(w->call_count, 0);
}

static void raw_dial(struct world *w, struct raw_peer *p)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memset(p, 0, sizeof *p);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%.100s", w->path);
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(p->fd >= 0);
    assert_int_equal(connect(p->fd, (struct sockaddr *)&addr, sizeof addr), 0);
}

static void send_text(struct raw_peer *p, const char *text)
{
    raw_send(p, text, strlen(text));
}

/* Sends a request on a connection of its own and returns when `expected` was received. */
static void exchange_raw(struct world *w, const char *request, const char *expected)
{
    struct raw_peer p;
    raw_dial(w, &p);
    send_text(&p, request);
    raw_expect(w->loop, &p, expected);
    raw_close(&p);
}

/* ---- answers ---- */

static void test_nothing_enforced(void **state)
{
    struct world *w = *state;
    struct call call;
    get(w, &call);
    assert_true(call.good);
    assert_false(call.state.enforcing);
    assert_string_equal(call.state.reason, "none in the test");
}

static void tell(struct world *w, const char *trouble)
{
    struct call call;
    struct err e = ERR_INIT;
    memset(&call, 0, sizeof call);
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, trouble, on_reply, &call, &e), 0);
    run_until(w->loop, &call.over);
    assert_true(call.good);
}

/* rulesync says with its question what keeps it from handing over rules. */
static void test_what_is_said_with_a_question(void **state)
{
    struct world *w = *state;
    struct call call;
    const char *odd = "line 1: \"a&b=c;%?#\\n\": \xc3\xa4, not \xff";
    get(w, &call);
    assert_int_equal(w->heard, 0);
    tell(w, odd);
    assert_int_equal(w->heard, 1);
    assert_string_equal(w->trouble, odd);
    tell(w, "");
    assert_int_equal(w->heard, 2);
    assert_string_equal(w->trouble, "");
    put(w, document(7), &call);
    get(w, &call);
    assert_int_equal(w->heard, 2);
    exchange_raw(w, "GET /v1/rules?other=1&trouble=a%00b HTTP/1.1\r\nHost: x\r\n\r\n", " 200 ");
    assert_int_equal(w->heard, 3);
    assert_string_equal(w->trouble, "a");
    exchange_raw(w, "GET /v1/rules?trouble=%zz HTTP/1.1\r\nHost: x\r\n\r\n", " 200 ");
    exchange_raw(w, "GET /v1/rules?troubles=a HTTP/1.1\r\nHost: x\r\n\r\n", " 200 ");
    assert_int_equal(w->heard, 3);
    char text[3 * ERR_MSG_MAX];
    (void)snprintf(text, sizeof text, "GET /v1/rules?trouble=%0*d HTTP/1.1\r\nHost: x\r\n\r\n",
                   ERR_MSG_MAX + 1, 0);
    exchange_raw(w, text, " 200 "); /* more than rulesync ever says */
    assert_int_equal(w->heard, 3);
}

static void test_rules_are_put_in_force(void **state)
{
    struct world *w = *state;
    struct call call;
    for (unsigned generation = 7; generation < 10; generation++) {
        put(w, document(generation), &call);
        assert_true(call.good);
        assert_true(call.changed);
        assert_true(call.state.enforcing);
        assert_int_equal(call.state.generation, generation);
        assert_string_equal(call.state.shard_namespace, "demo");
        assert_string_equal(call.state.shard_name, "demo-1");
        assert_string_equal(call.state.checksum, rules_checksum(w->rules));
        assert_int_equal(call.state.since, 1000000000);
    }
    put(w, document(9), &call);
    assert_true(call.good);
    assert_false(call.changed);
    get(w, &call);
    assert_int_equal(call.state.generation, 9);
    assert_false(call.changed);
}

static void test_bad_documents(void **state)
{
    struct world *w = *state;
    struct call call;
    put(w, SLICE("{\n\n\"apiVersion\": \"cmesh/v9\"}"), &call);
    assert_int_equal(call.error.code, -EINVAL);
    assert_non_null(strstr(call.error.msg, "line 3"));
    assert_non_null(strstr(call.error.msg, "apiVersion"));
    put(w, SLICE(""), &call);
    assert_int_equal(call.error.code, -EINVAL);
    put(w, (struct slice){0}, &call);
    assert_int_equal(call.error.code, -EINVAL);
    put(w, SLICE("{\"\xff\": \"\xc3\"}"), &call);
    assert_int_equal(call.error.code, -EINVAL);
    assert_null(w->rules);
}

static void test_what_refusals_become(void **state)
{
    struct world *w = *state;
    static const struct {
        int given;
        int got;
    } codes[] = {
        {-EINVAL, -EINVAL}, {-E2BIG, -EINVAL},     {-ESTALE, -ESTALE},
        {-ENOMEM, -EAGAIN}, {-ECANCELED, -EAGAIN}, {-EIO, -EAGAIN},
    };
    w->behaviour = REFUSE;
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct call call;
        char expected[64];
        (void)snprintf(expected, sizeof expected, "refused with %d", codes[i].given);
        w->refuse_code = codes[i].given;
        put(w, document(1), &call);
        assert_int_equal(call.error.code, codes[i].got);
        assert_string_equal(call.error.msg, expected);
    }
}

static void test_answers_that_come_later(void **state)
{
    struct world *w = *state;
    struct control_client *other = new_client(w, TIMEOUT_MS);
    struct call first;
    struct call second;
    w->behaviour = POSTPONE;
    begin_put(w->client, document(1), &first);
    wait_for_calls(w, 1);
    begin_put(other, document(2), &second);
    wait_for_calls(w, 2);
    control_done(w->calls[1], true);
    run_until(w->loop, &second.over);
    assert_true(second.good);
    assert_true(second.changed);
    assert_false(first.over);
    control_done(w->calls[0], false);
    run_until(w->loop, &first.over);
    assert_true(first.good);
    assert_false(first.changed);
    w->call_count = 0;
    control_client_free(other);
    run_for(w->loop, 10);
    assert_int_equal(w->forgotten, 0);
}

static void test_large_documents(void **state)
{
    struct world *w = *state;
    struct call call;
    struct err e = ERR_INIT;
    char *text = malloc(RULES_TEXT_MAX + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= RULES_TEXT_MAX; i++) {
        text[i] = (char)(i % 253);
    }
    w->behaviour = MEASURE;
    put(w, slice_of(text, RULES_TEXT_MAX), &call);
    assert_true(call.good);
    assert_int_equal(w->text_len, RULES_TEXT_MAX);
    assert_int_equal(w->text_sum, sum_of(slice_of(text, RULES_TEXT_MAX)));
    assert_int_equal(control_client_put(w->client, CONTROL_RULES,
                                        slice_of(text, RULES_TEXT_MAX + 1), on_reply, &call, &e),
                     -EMSGSIZE);
    free(text);
}

static void test_documents_that_are_too_large(void **state)
{
    struct world *w = *state;
    struct raw_peer p;
    size_t len = 1024 * 1024;
    char *text = calloc(1, len);
    assert_non_null(text);
    exchange_raw(w, "PUT /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 8388609\r\n\r\n",
                 "exceeds the size limit of a rules document");
    raw_dial(w, &p);
    send_text(&p, "PUT /v1/rules HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 9 && !strstr(p.text, "413"); i++) {
        send_text(&p, "100000\r\n");
        for (size_t at = 0; at < len && !strstr(p.text, "413"); at += 64 * 1024) {
            raw_send(&p, text + at, 64 * 1024);
            run_for(w->loop, 1);
            raw_read(&p);
        }
        if (!strstr(p.text, "413")) {
            send_text(&p, "\r\n");
        }
    }
    raw_expect(w->loop, &p, "HTTP/1.1 413 ");
    raw_expect(w->loop, &p, "more than 8388608 bytes");
    raw_close(&p);
    free(text);
    assert_int_equal(w->reloads, 0);
}

static void test_other_requests(void **state)
{
    struct world *w = *state;
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "/v1/rules supports GET and PUT\"}"},
        {"GET /v1/rule HTTP/1.1\r\nHost: x\r\n\r\n", "/v1/rules supports GET and PUT\"}"},
        {"GET /v1/rules/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
        {"GET /v2/rules HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
        {"GET /v2/rules HTTP/1.1\r\nHost: x\r\n\r\n",
         "{\"error\":\"unsupported protocol version; version 1 is served at"},
        {"PUT /v10/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "version 1 is"},
        {"POST /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
         "Allow: GET, HEAD, PUT\r\n"},
        {"DELETE /v1/rules HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
        {"GET /v1/rules?pretty HTTP/1.1\r\nHost: x\r\n\r\n",
         "{\"version\":1,\"enforced\":null,\"reason\":\"none in the test\"}\n"},
        {"GET /v1/rules HTTP/1.1\r\nHost: x\r\n\r\n", "Content-Type: application/json\r\n"},
        {"PUT /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
         "HTTP/1.1 400 Bad Request\r\n"},
        {"nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"nonsense\r\n\r\n", "{\"error\":\""},
        {"PUT /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
         "HTTP/1.1 100 Continue\r\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        exchange_raw(w, cases[i][0], cases[i][1]);
    }
}

static void test_connection_can_be_kept(void **state)
{
    struct world *w = *state;
    struct raw_peer p;
    raw_dial(w, &p);
    send_text(&p, "HEAD /v1/rules HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_expect(w->loop, &p, "\r\n\r\n");
    assert_null(strstr(p.text, "version"));
    send_text(&p, "GET /v1/rules HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_expect(w->loop, &p, "\"version\":1");
    assert_false(p.ended);
    raw_close(&p);
}

static void test_socket_is_private_and_goes(void **state)
{
    struct world *w = *state;
    struct stat st;
    struct err e = ERR_INIT;
    assert_int_equal(lstat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_null(control_new(w->loop, w->path, &handlers, w, &e));
    assert_int_equal(e.code, -EADDRINUSE);
    control_free(w->control);
    w->control = NULL;
    assert_int_not_equal(lstat(w->path, &st), 0);
    control_free(NULL);
}

/* ---- peers of the server that misbehave ---- */

static void test_document_that_does_not_come(void **state)
{
    struct world *w = *state;
    struct call call;
    struct raw_peer p;
    raw_dial(w, &p);
    send_text(&p, "PUT /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf");
    put(w, document(1), &call); /* others are served meanwhile */
    assert_true(call.good);
    raw_expect(w->loop, &p, "HTTP/1.1 408 ");
    raw_expect(w->loop, &p, "timeout waiting for the document");
    raw_expect(w->loop, &p, NULL);
    raw_close(&p);
}

static void test_peer_that_goes_before_its_answer(void **state)
{
    struct world *w = *state;
    struct raw_peer p;
    const struct slice text = document(1);
    char request[1024];
    int n = snprintf(request, sizeof request,
                     "PUT /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%.*s",
                     text.len, (int)text.len, text.ptr);
    w->behaviour = POSTPONE;
    raw_dial(w, &p);
    raw_send(&p, request, (size_t)n);
    wait_for_calls(w, 1);
    raw_close(&p);
    wait_for_forgotten(w, 1);
    /* In the middle of a document. */
    raw_dial(w, &p);
    raw_send(&p, request, (size_t)n - 1);
    run_for(w->loop, 20);
    raw_close(&p);
    run_for(w->loop, 20);
    assert_int_equal(w->reloads, 1);
    assert_int_equal(w->forgotten, 1);
}

static void test_too_many_connections(void **state)
{
    struct world *w = *state;
    struct raw_peer *peers = calloc(17, sizeof *peers);
    struct call call;
    assert_non_null(peers);
    for (int i = 0; i < 17; i++) {
        raw_dial(w, &peers[i]);
    }
    raw_expect(w->loop, &peers[16], NULL); /* closed at once */
    get(w, &call);
    assert_false(call.good);
    for (int i = 0; i < 17; i++) {
        raw_close(&peers[i]);
    }
    run_for(w->loop, 20);
    get(w, &call);
    assert_true(call.good);
    free(peers);
}

/* ---- servers that misbehave ---- */

/* A socket of the test's own at the path. */
static int raw_server(struct world *w, int backlog)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%.100s", w->path);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    if (backlog >= 0) {
        assert_int_equal(listen(fd, backlog), 0);
    }
    return fd;
}

static void test_nobody_listens(void **state)
{
    struct world *w = *state;
    struct call call;
    get(w, &call);
    assert_int_equal(call.error.code, -ENOENT);
    const char *named = strstr(call.error.msg, w->path);
    assert_non_null(named);
    assert_null(strstr(named + 1, w->path));
    int fd = raw_server(w, -1);
    get(w, &call);
    assert_int_equal(call.error.code, -ECONNREFUSED);
    (void)close(fd);
}

static void test_server_that_stalls(void **state)
{
    struct world *w = *state;
    struct call call;
    int fd = raw_server(w, 4);
    size_t len = 4 * 1024 * 1024;
    char *large = calloc(1, len);
    assert_non_null(large);
    control_client_free(w->client);
    w->client = new_client(w, 300);
    get(w, &call); /* nobody accepts */
    assert_int_equal(call.error.code, -ETIMEDOUT);
    assert_non_null(strstr(call.error.msg, w->path));
    put(w, slice_of(large, len), &call); /* nobody reads */
    assert_int_equal(call.error.code, -ETIMEDOUT);
    free(large);
    (void)close(fd);
}

/* The next connection gets this answer, once its request came. */
static void answer_raw(struct world *w, int fd, const char *answer, bool close_after,
                       struct call *call)
{
    static struct raw_peer p;
    struct err e = ERR_INIT;
    memset(call, 0, sizeof *call);
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, NULL, on_reply, call, &e), 0);
    raw_accept(w->loop, fd, &p);
    raw_expect(w->loop, &p, "\r\n\r\n");
    assert_non_null(strstr(p.text, "GET /v1/rules HTTP/1.1\r\n"));
    send_text(&p, answer);
    if (close_after) {
        raw_close(&p);
    }
    run_until(w->loop, &call->over);
    if (!close_after) {
        raw_close(&p);
    }
}

/* The next connection gets the beginning of an answer, and nothing more. It may have been given up
 * before. */
static void begin_answer_raw(struct world *w, int fd, const char *answer, struct call *call)
{
    struct err e = ERR_INIT;
    int peer = -1;
    memset(call, 0, sizeof *call);
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, NULL, on_reply, call, &e), 0);
    for (int i = 0; i < 20000 && !call->over; i++) {
        run_for(w->loop, 1);
        if (peer < 0) {
            peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            (void)!write(peer, answer, strlen(answer));
        }
    }
    assert_true(call->over);
    (void)close(peer);
}

static void test_answers_that_make_no_sense(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *answer;
        int code;
        const char *why;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", -EPROTO, "version: Required value"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"version\":2}", -EPROTO,
         "version: is 2, but only 1 is supported"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwhat", -EPROTO, "cannot parse"},
        {"HTTP/1.1 204 No Content\r\n\r\n", -EPROTO, "status 204"},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 16\r\n\r\n{\"error\":\"gone\"}", -EPROTO,
         "status 404: gone"},
        {"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", -EAGAIN, "status 503"},
        {"HTTP/1.1 400 No\r\nContent-Length: 5\r\n\r\n<htm>", -EINVAL, "status 400"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{", UV_EOF, "closed"},
        {"HTTP/1.1 200 OK\r\n", UV_EOF, "closed"},
        {"", UV_EOF, "closed"},
    };
    int fd = raw_server(w, 4);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct call call;
        answer_raw(w, fd, cases[i].answer, true, &call);
        assert_false(call.good);
        if (call.error.code != cases[i].code || strstr(call.error.msg, cases[i].why) == NULL ||
            strstr(call.error.msg, w->path) == NULL) {
            fail_msg("%s: %d %s", cases[i].answer, call.error.code, call.error.msg);
        }
    }
    (void)close(fd);
}

static void test_answers_that_do_not_end(void **state)
{
    struct world *w = *state;
    struct call call;
    char large[CONTROL_BODY_MAX + 200];
    int fd = raw_server(w, 4);
    size_t n = (size_t)snprintf(large, sizeof large, "HTTP/1.1 200 OK\r\n\r\n");
    memset(large + n, ' ', CONTROL_BODY_MAX + 1);
    large[n + CONTROL_BODY_MAX + 1] = '\0';
    answer_raw(w, fd, large, false, &call);
    assert_int_equal(call.error.code, -EMSGSIZE);
    control_client_free(w->client);
    w->client = new_client(w, 300);
    begin_answer_raw(w, fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", &call);
    assert_int_equal(call.error.code, -ETIMEDOUT);
    begin_answer_raw(w, fd, "SSH-2.0-OpenSSH_9.2\r\n", &call);
    assert_int_equal(call.error.code, -ETIMEDOUT);
    (void)close(fd);
}

/* ---- ends in each phase ---- */

static void test_one_call_at_a_time(void **state)
{
    struct world *w = *state;
    struct call call;
    struct call other;
    struct err e = ERR_INIT;
    begin_put(w->client, document(1), &call);
    assert_int_equal(control_client_get(w->client, CONTROL_RULES, NULL, on_reply, &other, &e),
                     -EBUSY);
    assert_non_null(strstr(e.msg, "another call"));
    run_until(w->loop, &call.over);
    assert_true(call.good);
}

/* How far a document of 4 MiB, or a small one, gets before it is cancelled. */
enum phase { PHASE_CONNECTING, PHASE_SENDING, PHASE_WAITING, PHASE_COUNT };

static void reach(struct world *w, enum phase phase, struct slice large, struct call *call)
{
    w->behaviour = POSTPONE;
    begin_put(w->client, phase == PHASE_SENDING ? large : document(1), call);
    if (phase == PHASE_SENDING) {
        /* Connected after three turns; a socket takes some 200 KiB in each. */
        for (int turn = 0; turn < 6; turn++) {
            (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
        }
        assert_int_equal(w->call_count, 0);
    } else if (phase == PHASE_WAITING) {
        wait_for_calls(w, 1);
    }
    assert_false(call->over);
}

static void test_cancel_in_each_phase(void **state)
{
    struct world *w = *state;
    size_t len = 4 * 1024 * 1024;
    char *large = calloc(1, len);
    struct call call;
    assert_non_null(large);
    for (enum phase phase = PHASE_CONNECTING; phase < PHASE_COUNT; phase++) {
        reach(w, phase, slice_of(large, len), &call);
        control_client_cancel(w->client);
        wait_for_forgotten(w, phase == PHASE_WAITING ? 1 : 0);
        run_for(w->loop, 20);
        assert_false(call.over);
    }
    control_client_cancel(w->client); /* nothing to cancel */
    w->behaviour = ENFORCE;
    put(w, document(2), &call);
    assert_true(call.good);
    free(large);
}

static void test_free_in_each_phase(void **state)
{
    struct world *w = *state;
    size_t len = 4 * 1024 * 1024;
    char *large = calloc(1, len);
    struct call call;
    assert_non_null(large);
    for (enum phase phase = PHASE_CONNECTING; phase < PHASE_COUNT; phase++) {
        reach(w, phase, slice_of(large, len), &call);
        control_client_free(w->client);
        wait_for_forgotten(w, phase == PHASE_WAITING ? 1 : 0);
        assert_false(call.over);
        w->client = new_client(w, TIMEOUT_MS);
    }
    control_client_free(NULL);
    free(large);
}

static void test_server_freed_in_each_phase(void **state)
{
    struct world *w = *state;
    size_t len = 4 * 1024 * 1024;
    char *large = calloc(1, len);
    struct call call;
    assert_non_null(large);
    for (enum phase phase = PHASE_CONNECTING; phase < PHASE_COUNT; phase++) {
        w->forgotten = 0;
        reach(w, phase, slice_of(large, len), &call);
        control_free(w->control);
        assert_int_equal(w->forgotten, phase == PHASE_WAITING ? 1 : 0);
        w->control = NULL;
        run_until(w->loop, &call.over);
        assert_false(call.good);
        assert_true(call.error.code < 0);
        w->control = control_new(w->loop, w->path, &handlers, w, NULL);
        assert_non_null(w->control);
    }
    free(large);
}

struct chain {
    struct world *world;
    unsigned generation;
    bool over;
};

static void on_link(void *data, const struct control_state *s, bool changed, const struct err *e)
{
    struct chain *chain = data;
    assert_null(e);
    assert_true(changed);
    assert_int_equal(s->generation, chain->generation);
    if (chain->generation++ == 5) {
        control_client_cancel(chain->world->client); /* nothing is under way */
        chain->over = true;
        return;
    }
    assert_int_equal(control_client_put(chain->world->client, CONTROL_RULES,
                                        document(chain->generation), on_link, chain, NULL),
                     0);
}

static void test_next_call_in_the_callback(void **state)
{
    struct world *w = *state;
    struct chain chain = {.world = w, .generation = 1};
    assert_int_equal(
        control_client_put(w->client, CONTROL_RULES, document(1), on_link, &chain, NULL), 0);
    run_until(w->loop, &chain.over);
    assert_int_equal(rules_generation(w->rules), 5);
}

static void test_server_that_restarts(void **state)
{
    struct world *w = *state;
    struct call call;
    for (unsigned i = 1; i < 4; i++) {
        put(w, document(i), &call);
        assert_true(call.good);
        control_free(w->control);
        w->control = NULL;
        get(w, &call);
        assert_int_equal(call.error.code, -ENOENT);
        w->control = control_new(w->loop, w->path, &handlers, w, NULL);
        assert_non_null(w->control);
    }
}

static void test_path_too_long(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct control_client_options o = {.path = path, .timeout_ms = 100};
    assert_null(control_client_new(w->loop, &o, &e));
    assert_int_equal(e.code, -ENAMETOOLONG);
    assert_null(control_new(w->loop, path, &handlers, w, &e));
    assert_int_equal(e.code, -ENAMETOOLONG);
}

/* ---- memory ---- */

/* A document put in force and asked for, whichever allocation fails on the way. */
static bool put_and_get(void *data)
{
    struct world *w = data;
    struct call call = {.over = false};
    struct control_client_options o = {.path = w->path, .timeout_ms = TIMEOUT_MS};
    bool good = false;
    w->loop = net_loop_new(NULL);
    if (w->loop == NULL) {
        return false;
    }
    w->control = control_new(w->loop, w->path, &handlers, w, NULL);
    w->client = control_client_new(w->loop, &o, NULL);
    if (w->control != NULL && w->client != NULL &&
        control_client_put(w->client, CONTROL_RULES, document(3), on_reply, &call, NULL) == 0) {
        run_until(w->loop, &call.over);
        good = call.good && call.state.generation == 3;
    }
    call.over = false;
    if (good && control_client_get(w->client, CONTROL_RULES, "a b", on_reply, &call, NULL) == 0) {
        run_until(w->loop, &call.over);
        good = call.good && call.state.generation == 3;
    }
    control_client_free(w->client);
    control_free(w->control);
    rules_unref(w->rules);
    w->rules = NULL;
    assert_int_equal(loop_free(w->loop), 0);
    return good;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct world w = {.behaviour = ENFORCE};
    temp_dir_init(&w.dir);
    (void)temp_dir_path(&w.dir, "control.sock", w.path);
    long count = sweep_allocations(put_and_get, &w);
    temp_dir_deinit(&w.dir);
    print_message("%ld allocations\n", count);
    assert_true(count > 60);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_CLIENT(name) cmocka_unit_test_setup_teardown(name, setup_client, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_enforced),
        TEST(test_what_is_said_with_a_question),
        TEST(test_rules_are_put_in_force),
        TEST(test_bad_documents),
        TEST(test_what_refusals_become),
        TEST(test_answers_that_come_later),
        TEST(test_large_documents),
        TEST(test_documents_that_are_too_large),
        TEST(test_other_requests),
        TEST(test_connection_can_be_kept),
        TEST(test_socket_is_private_and_goes),
        TEST(test_document_that_does_not_come),
        TEST(test_peer_that_goes_before_its_answer),
        TEST(test_too_many_connections),
        TEST_CLIENT(test_nobody_listens),
        TEST_CLIENT(test_server_that_stalls),
        TEST_CLIENT(test_answers_that_make_no_sense),
        TEST_CLIENT(test_answers_that_do_not_end),
        TEST(test_one_call_at_a_time),
        TEST(test_cancel_in_each_phase),
        TEST(test_free_in_each_phase),
        TEST(test_server_freed_in_each_phase),
        TEST(test_next_call_in_the_callback),
        TEST(test_server_that_restarts),
        TEST_CLIENT(test_path_too_long),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
