/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_documents_test.c - two kinds of documents on one control socket: what is asked of one is
 * not of the other, and a server that does not know a kind says so.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "control/client.h"
#include "control/control.h"
#include "loop_fixture.h"
#include "raw_peer.h"
#include "temp_dir.h"

enum { TIMEOUT_MS = 20000 };

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* Of one kind: the document is its generation. */
struct kind {
    uint64_t enforced; /* 0: none */
    int refuse_code;   /* 0: it is put in force */
    size_t text_len;
    unsigned reloads;
    unsigned removals;
    char trouble[ERR_MSG_MAX];
};

struct world {
    struct net_loop *loop;
    struct temp_dir dir;
    char path[256];
    struct control *control;
    struct control_client *client;
    struct kind kinds[CONTROL_DOCUMENTS];
};

/* ---- the server's user ---- */

static int reload(void *data, struct slice text, struct control_call *r, struct err *e)
{
    struct kind *k = data;
    k->reloads++;
    k->text_len = text.len;
    if (k->refuse_code != 0) {
        return err_set(e, k->refuse_code, "refused with %d", k->refuse_code);
    }
    uint64_t before = k->enforced;
    k->enforced = text.len;
    control_done(r, k->enforced != before);
    return 0;
}

static int remove_all(void *data, struct err *e)
{
    struct kind *k = data;
    k->removals++;
    if (k->refuse_code != 0) {
        return err_set(e, k->refuse_code, "refused with %d", k->refuse_code);
    }
    k->enforced = 0;
    return 0;
}

static void describe(void *data, struct control_state *out)
{
    const struct kind *k = data;
    memset(out, 0, sizeof *out);
    (void)snprintf(out->reason, sizeof out->reason, "none in the test");
    if (k->enforced != 0) {
        *out = (struct control_state){
            .enforcing = true,
            .shard_namespace = "demo",
            .shard_name = "demo-1",
            .checksum = "sha256:" ZEROS,
            .generation = k->enforced,
            .since = 1000000000,
        };
    }
}

static void heard(void *data, const char *trouble)
{
    struct kind *k = data;
    (void)snprintf(k->trouble, sizeof k->trouble, "%s", trouble);
}

static const struct control_handlers rules_handlers = {
    .reload = reload,
    .describe = describe,
    .heard = heard,
};

static const struct control_handlers traffic_handlers = {
    .reload = reload,
    .remove = remove_all,
    .describe = describe,
    .heard = heard,
};

/* ---- the world ---- */

static void start(struct world *w, bool traffic)
{
    struct err e = ERR_INIT;
    w->control = control_new(w->loop, w->path, &rules_handlers, &w->kinds[CONTROL_RULES], &e);
    if (w->control == NULL) {
        fail_msg("%s", e.msg);
    }
    if (traffic) {
        control_serve(w->control, CONTROL_TRAFFIC, &traffic_handlers, &w->kinds[CONTROL_TRAFFIC]);
    }
}

static int setup_world(void **state, bool traffic)
{
    struct world *w = calloc(1, sizeof *w);
    struct err e = ERR_INIT;
    assert_non_null(w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    temp_dir_init(&w->dir);
    (void)temp_dir_path(&w->dir, "control.sock", w->path);
    start(w, traffic);
    struct control_client_options o = {.path = w->path, .timeout_ms = TIMEOUT_MS};
    w->client = control_client_new(w->loop, &o, &e);
    assert_non_null(w->client);
    *state = w;
    return 0;
}

static int setup(void **state)
{
    return setup_world(state, true);
}

/* A server that knows rules alone. */
static int setup_old(void **state)
{
    return setup_world(state, false);
}

static int teardown(void **state)
{
    struct world *w = *state;
    control_client_free(w->client);
    control_free(w->control);
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

static struct call put(struct world *w, enum control_document d, struct slice text)
{
    struct call call = {.over = false};
    assert_int_equal(control_client_put(w->client, d, text, on_reply, &call, NULL), 0);
    run_until(w->loop, &call.over);
    return call;
}

static struct call get(struct world *w, enum control_document d, const char *trouble)
{
    struct call call = {.over = false};
    assert_int_equal(control_client_get(w->client, d, trouble, on_reply, &call, NULL), 0);
    run_until(w->loop, &call.over);
    return call;
}

static struct call take_away(struct world *w, enum control_document d)
{
    struct call call = {.over = false};
    assert_int_equal(control_client_delete(w->client, d, on_reply, &call, NULL), 0);
    run_until(w->loop, &call.over);
    return call;
}

/* Sends a request on a connection of its own and returns when `expected` was received. */
static void exchange_raw(struct world *w, const char *request, const char *expected)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct raw_peer p = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%.100s", w->path);
    assert_true(p.fd >= 0);
    assert_int_equal(connect(p.fd, (struct sockaddr *)&addr, sizeof addr), 0);
    raw_send(&p, request, strlen(request));
    raw_expect(w->loop, &p, expected);
    raw_close(&p);
}

/* ---- tests ---- */

static void test_targets(void **state)
{
    (void)state;
    assert_string_equal(control_target(CONTROL_RULES), "/v1/rules");
    assert_string_equal(control_target(CONTROL_TRAFFIC), "/v1/traffic");
    assert_int_equal(control_document_max(CONTROL_RULES), RULES_TEXT_MAX);
    assert_int_equal(control_document_max(CONTROL_TRAFFIC), TRAFFIC_TEXT_MAX);
}

static void test_kinds_do_not_mix(void **state)
{
    struct world *w = *state;
    struct call call = put(w, CONTROL_TRAFFIC, SLICE("abc"));
    assert_true(call.good);
    assert_true(call.changed);
    assert_int_equal(call.state.generation, 3);
    call = get(w, CONTROL_RULES, "rules are late");
    assert_true(call.good);
    assert_false(call.state.enforcing);
    call = put(w, CONTROL_RULES, SLICE("12345"));
    assert_int_equal(call.state.generation, 5);
    call = get(w, CONTROL_TRAFFIC, "traffic is odd");
    assert_int_equal(call.state.generation, 3);
    assert_string_equal(w->kinds[CONTROL_RULES].trouble, "rules are late");
    assert_string_equal(w->kinds[CONTROL_TRAFFIC].trouble, "traffic is odd");
    w->kinds[CONTROL_TRAFFIC].refuse_code = -EINVAL;
    call = put(w, CONTROL_TRAFFIC, SLICE("x"));
    assert_int_equal(call.error.code, -EINVAL);
    call = put(w, CONTROL_RULES, SLICE("x"));
    assert_true(call.good);
    assert_int_equal(w->kinds[CONTROL_TRAFFIC].enforced, 3);
}

static void test_none_from_now_on(void **state)
{
    struct world *w = *state;
    (void)put(w, CONTROL_RULES, SLICE("12345"));
    (void)put(w, CONTROL_TRAFFIC, SLICE("abc"));
    struct call call = take_away(w, CONTROL_TRAFFIC);
    assert_true(call.good);
    assert_true(call.changed);
    assert_false(call.state.enforcing);
    assert_string_equal(call.state.reason, "none in the test");
    call = take_away(w, CONTROL_TRAFFIC);
    assert_true(call.good);
    assert_false(call.changed);
    assert_int_equal(w->kinds[CONTROL_TRAFFIC].removals, 2);
    assert_int_equal(w->kinds[CONTROL_RULES].enforced, 5);
}

static void test_what_cannot_be_taken_away(void **state)
{
    struct world *w = *state;
    (void)put(w, CONTROL_RULES, SLICE("12345"));
    struct call call = take_away(w, CONTROL_RULES);
    assert_int_equal(call.error.code, -EPROTO);
    assert_non_null(strstr(call.error.msg, "405"));
    assert_int_equal(w->kinds[CONTROL_RULES].enforced, 5);
    (void)put(w, CONTROL_TRAFFIC, SLICE("abc"));
    w->kinds[CONTROL_TRAFFIC].refuse_code = -ESHUTDOWN;
    call = take_away(w, CONTROL_TRAFFIC);
    assert_int_equal(call.error.code, -EAGAIN);
    assert_int_equal(w->kinds[CONTROL_TRAFFIC].enforced, 3);
}

static void test_each_has_its_size(void **state)
{
    struct world *w = *state;
    char *text = calloc(1, TRAFFIC_TEXT_MAX + 1);
    assert_non_null(text);
    struct call call = put(w, CONTROL_TRAFFIC, slice_of(text, TRAFFIC_TEXT_MAX));
    assert_true(call.good);
    assert_int_equal(w->kinds[CONTROL_TRAFFIC].text_len, TRAFFIC_TEXT_MAX);
    struct slice large = slice_of(text, TRAFFIC_TEXT_MAX + 1);
    struct err e = ERR_INIT;
    assert_int_equal(control_client_put(w->client, CONTROL_TRAFFIC, large, on_reply, &call, &e),
                     -EMSGSIZE);
    assert_non_null(strstr(e.msg, "1048576"));
    assert_true(put(w, CONTROL_RULES, large).good);
    free(text);
    exchange_raw(w, "PUT /v1/traffic HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n",
                 "exceeds the size limit of a traffic document");
    assert_int_equal(w->kinds[CONTROL_TRAFFIC].reloads, 1);
}

static void test_other_requests(void **state)
{
    struct world *w = *state;
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "/v1/rules supports GET and PUT, /v1/traffic GET, "},
        {"GET /v1/traffic/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
        {"GET /v2/traffic HTTP/1.1\r\nHost: x\r\n\r\n",
         "{\"error\":\"unsupported protocol version; version 1 is served at"},
        {"POST /v1/traffic HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
         "Allow: GET, HEAD, PUT, DELETE\r\n"},
        {"POST /v1/traffic HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
         "only GET, PUT and DELETE are supported"},
        {"POST /v1/rules HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
         "Allow: GET, HEAD, PUT\r\n"},
        {"GET /v1/traffic?pretty HTTP/1.1\r\nHost: x\r\n\r\n",
         "{\"version\":1,\"enforced\":null,\"reason\":\"none in the test\"}\n"},
        {"DELETE /v1/traffic HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
         "{\"version\":1,\"enforced\":null,\"reason\":\"none in the test\",\"changed\":false}\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        exchange_raw(w, cases[i][0], cases[i][1]);
    }
}

static void test_server_that_is_too_old(void **state)
{
    struct world *w = *state;
    struct call call = get(w, CONTROL_TRAFFIC, "");
    assert_int_equal(call.error.code, -ENOSYS);
    assert_non_null(strstr(call.error.msg, "status 404: not found; /v1/rules supports GET"));
    assert_int_equal(put(w, CONTROL_TRAFFIC, SLICE("abc")).error.code, -ENOSYS);
    assert_int_equal(take_away(w, CONTROL_TRAFFIC).error.code, -ENOSYS);
    assert_true(put(w, CONTROL_RULES, SLICE("12345")).good);
    exchange_raw(w, "GET /v1/traffic HTTP/1.1\r\nHost: x\r\n\r\n",
                 "\"not found; /v1/rules supports GET and PUT\"}");
    assert_int_equal(w->kinds[CONTROL_TRAFFIC].reloads, 0);
}

/* ---- memory ---- */

/* A document put in force and taken away, whichever allocation fails on the way. */
static bool put_and_take_away(void *data)
{
    struct world *w = data;
    struct call call = {.over = false};
    struct control_client_options o = {.path = w->path, .timeout_ms = TIMEOUT_MS};
    bool good = false;
    w->loop = net_loop_new(NULL);
    if (w->loop == NULL) {
        return false;
    }
    w->control = control_new(w->loop, w->path, &rules_handlers, &w->kinds[CONTROL_RULES], NULL);
    w->client = control_client_new(w->loop, &o, NULL);
    if (w->control != NULL && w->client != NULL) {
        control_serve(w->control, CONTROL_TRAFFIC, &traffic_handlers, &w->kinds[CONTROL_TRAFFIC]);
        good = control_client_put(w->client, CONTROL_TRAFFIC, SLICE("abc"), on_reply, &call,
                                  NULL) == 0;
    }
    if (good) {
        run_until(w->loop, &call.over);
        good = call.good && call.state.generation == 3;
        call.over = false;
    }
    if (good && control_client_delete(w->client, CONTROL_TRAFFIC, on_reply, &call, NULL) == 0) {
        run_until(w->loop, &call.over);
        good = call.good && !call.state.enforcing;
    } else {
        good = false;
    }
    control_client_free(w->client);
    control_free(w->control);
    assert_int_equal(loop_free(w->loop), 0);
    return good;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct world w = {.loop = NULL};
    temp_dir_init(&w.dir);
    (void)temp_dir_path(&w.dir, "control.sock", w.path);
    long count = sweep_allocations(put_and_take_away, &w);
    temp_dir_deinit(&w.dir);
    assert_true(count > 60);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        TEST(test_kinds_do_not_mix),
        TEST(test_none_from_now_on),
        TEST(test_what_cannot_be_taken_away),
        TEST(test_each_has_its_size),
        TEST(test_other_requests),
        cmocka_unit_test_setup_teardown(test_server_that_is_too_old, setup_old, teardown),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
