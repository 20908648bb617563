/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin_server.h"

#include <errno.h>
#include <stdio.h>

#include "loop_fixture.h"
#include "raw_peer.h"

struct world {
    struct net_loop *loop;
    struct admin_server *admin;
    struct raw_peer peer;
    bool ready;
    int metrics_rc;
};

static void on_check(void *data, struct admin_checks *checks)
{
    const struct world *w = data;
    admin_check(checks, "first", NULL);
    admin_check_shown(checks, "second", "who cares");
    admin_check(checks, "third", w->ready ? NULL : "not yet");
    admin_check(checks, "fourth", w->ready ? NULL : "nor this");
}

static int on_metrics(void *data, struct buf *out)
{
    const struct world *w = data;
    return w->metrics_rc != 0 ? w->metrics_rc : buf_append_str(out, "own_metric 1\n");
}

static void on_status(void *data, cJSON *root)
{
    (void)data;
    cJSON_AddStringToObject(root, "own", "field");
}

static const struct admin_server_ops ops = {
    .check = on_check,
    .metrics = on_metrics,
    .status = on_status,
};

static struct admin_server *open_at(struct world *w, const char *address, struct err *e)
{
    const struct admin_server_options o = {
        .address = address, .program = "tester", .ops = &ops, .data = w};
    return admin_server_new(w->loop, &o, e);
}

static int setup(void **state)
{
    static struct world w;
    struct err e = ERR_INIT;
    w = (struct world){.ready = true};
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    w.admin = open_at(&w, "127.0.0.1:0", &e);
    *state = &w;
    return w.admin == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    admin_server_free(w->admin);
    admin_server_free(NULL);
    return loop_free(w->loop);
}

/* The whole answer; valid until the next one. */
static const char *ask(struct world *w, const char *request)
{
    char text[512];
    int len =
        snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", request);
    raw_connect(&w->peer, admin_server_address(w->admin));
    raw_send(&w->peer, text, (size_t)len);
    raw_expect(w->loop, &w->peer, NULL);
    raw_close(&w->peer);
    return w->peer.text;
}

static void expect(struct world *w, const char *request, const char *status, const char *text)
{
    const char *answer = ask(w, request);
    if (strstr(answer, status) != answer + strlen("HTTP/1.1 ") || strstr(answer, text) == NULL) {
        fail_msg("%s: wanted %s and \"%s\", got %s", request, status, text, answer);
    }
}

static void serves_four_pages(void **state)
{
    struct world *w = *state;
    expect(w, "GET /healthz", "200", "\r\n\r\nok\n");
    expect(w, "GET /readyz", "200", "\r\n\r\nok\n");
    expect(w, "GET /readyz?verbose", "200",
           "\r\n\r\n[+]first ok\n[-]second failed, not required: who cares\n[+]third ok\n"
           "[+]fourth ok\nreadyz check passed\n");
    expect(w, "GET /metrics", "200", "own_metric 1\n# HELP cmesh_build_info");
    expect(w, "GET /metrics", "200", "\nprocess_resident_memory_bytes ");
    expect(w, "GET /metrics", "200", "text/plain; version=0.0.4; charset=utf-8");
    expect(w, "GET /status", "200", "\"program\":\t\"tester\"");
    expect(w, "GET /status", "200", "\"own\":\t\"field\"");
    expect(w, "GET /status", "200", "\"ready\":\ttrue");
    expect(w, "GET /metrics", "200",
           "\ncmesh_build_info{program=\"tester\",version=\"" CMESH_VERSION "\"} 1\n");
    expect(w, "GET /", "404", "/metrics");
    expect(w, "POST /status", "405", "GET");
    expect(w, "garbage", "501", "cmesh: ");
}

static void says_why_it_is_not_ready(void **state)
{
    struct world *w = *state;
    w->ready = false;
    expect(w, "GET /healthz", "200", "ok");
    expect(w, "GET /readyz", "503", "\r\n\r\nnot yet\n");
    expect(w, "GET /readyz?verbose=1", "503",
           "[-]third failed: not yet\n[-]fourth failed: nor this\nreadyz check failed\n");
    expect(w, "GET /status", "200", "\"message\":\t\"not yet\"");
}

static void cuts_off_metrics_that_are_not_whole(void **state)
{
    struct world *w = *state;
    w->metrics_rc = -ENOBUFS;
    assert_string_equal(ask(w, "GET /metrics"), "");
    expect(w, "GET /healthz", "200", "ok");
}

static void says_which_flag_is_wrong(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    assert_null(open_at(w, admin_server_address(w->admin), &e));
    assert_non_null(strstr(e.msg, "--admin"));
}

enum { FULL = 64 };

/* Anybody who reaches the port can fill it, and the kubelet must still find it alive. */
static void a_full_server_answers(void **state)
{
    struct world *w = *state;
    static struct raw_peer idle[FULL];
    const char *request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    for (int i = 0; i < FULL; i++) {
        raw_connect(&idle[i], admin_server_address(w->admin));
    }
    raw_send(&idle[0], request, strlen(request));
    raw_expect(w->loop, &idle[0], "\r\n\r\nok\n");
    expect(w, "GET /healthz", "200", "ok");
    raw_expect(w->loop, &idle[1], NULL);
    for (int i = 0; i < FULL; i++) {
        raw_read(&idle[i]);
        assert_int_equal(idle[i].ended, i == 1); /* the one that had waited longest */
        raw_close(&idle[i]);
    }
}

/* Who may reach the port cannot use up the program's memory; probes are answered meanwhile. */
static void large_heads_are_bounded(void **state)
{
    struct world *w = *state;
    enum { COUNT = 20 };
    static struct raw_peer large[COUNT];
    static const char begin[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ";
    static char text[50000];
    memset(text, 'a', sizeof text);
    for (unsigned i = 0; i < COUNT; i++) {
        raw_connect(&large[i], admin_server_address(w->admin));
        raw_send(&large[i], begin, sizeof begin - 1);
        raw_send(&large[i], text, sizeof text);
    }
    raw_expect(w->loop, &large[COUNT - 1], "HTTP/1.1 429 ");
    raw_expect(w->loop, &large[COUNT - 1], "cmesh: ");
    expect(w, "GET /healthz", "200", "\r\n\r\nok\n");
    for (unsigned i = 0; i < COUNT; i++) {
        raw_close(&large[i]);
    }
}

static void a_first_byte_is_due_soon(void **state)
{
    struct world *w = *state;
    static struct raw_peer silent;
    static struct raw_peer served;
    const char *request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    raw_connect(&silent, admin_server_address(w->admin));
    raw_connect(&served, admin_server_address(w->admin));
    raw_send(&served, request, strlen(request));
    raw_expect(w->loop, &served, "\r\n\r\nok\n");
    loop_skip(w->loop, 5000);
    raw_expect(w->loop, &silent, NULL);
    raw_read(&served);
    assert_false(served.ended);
    raw_close(&silent);
    raw_close(&served);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(serves_four_pages),
        TEST(says_why_it_is_not_ready),
        TEST(cuts_off_metrics_that_are_not_whole),
        TEST(a_full_server_answers),
        TEST(large_heads_are_bounded),
        TEST(a_first_byte_is_due_soon),
        TEST(says_which_flag_is_wrong),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
