/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel_test.c - tunnels of a real HTTP server, between a client and a host that are sockets in
 * the test's own hands. Look-ups are the test's (uv_getaddrinfo is wrapped), and so is what rules
 * name (policies_name_address is).
 */
#include "egress/tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "http/server.h"
#include "loop_fixture.h"
#include "net/stream.h"
#include "raw_peer.h"
#include "traffic/policies.h"
#include "traffic_document.h"

enum {
    LONG_MS = 600000,
    IDLE_MS = 3600000,
    HALF_CLOSED_MS = 60000,
    HELLO_MS = 10000,
    LARGE = 24 * 1024 * 1024
};

#define OPENED "HTTP/1.1 200 Connection established\r\n\r\n"
/* More than kernels keep on the way. */
#define BUFFERED (20 * 1024 * 1024)

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct reach *reach;
    struct via *via;
    struct net_backlog *backlog;
    struct policies *policies;
    struct tunnels tunnels;
    bool tunnels_live;
    const struct http_proxy *proxy; /* of what is asked next; NULL: none */
    int listener;                   /* the host's */
    unsigned port;
    bool taken; /* of the last request: by a tunnel */
    bool asked;
    unsigned failed; /* with this status */
    char why[ERR_MSG_MAX];
    unsigned opened;
    unsigned over;
    uint64_t sent;
    uint64_t received;
    const char *forbidden; /* host of which rules say no */
    unsigned judged;
    unsigned reviewed;
    bool charged; /* what is asked next has a ticket */
    bool drained;
};

static struct raw_peer client;
static struct raw_peer host;

/* ---- what is wrapped ---- */

/* The port of 127.0.0.1 that a rule names; 0: none. */
static unsigned named_port;

bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port);
bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port)
{
    assert_non_null(p);
    return slice_eq(address, SLICE("127.0.0.1")) && port == named_port;
}

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints);
int __real_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints);

/* The look-up that waits for its answer. */
static struct {
    uv_getaddrinfo_t *req;
    uv_getaddrinfo_cb cb;
    struct addrinfo *found;
    int status;
    bool come;
    bool hold;
} lookup;

static void lookup_answer(void)
{
    uv_getaddrinfo_cb cb = lookup.cb;
    lookup.come = false;
    cb(lookup.req, lookup.status, lookup.found);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    lookup.req = req;
    lookup.status = status;
    lookup.found = found;
    lookup.come = true;
    if (!lookup.hold) {
        lookup_answer();
    }
}

/* unknown.test there is none of; all other names lead to this machine. */
int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb,
                          const char *node, const char *service, const struct addrinfo *hints)
{
    struct addrinfo literal = *hints;
    bool unknown = strcmp(node, "unknown.test") == 0;
    literal.ai_flags = AI_NUMERICHOST;
    lookup.cb = cb;
    return __real_uv_getaddrinfo(loop, req, on_resolved, unknown ? "none" : "127.0.0.1", service,
                                 &literal);
}

/* ---- the server ---- */

static void ignore_body(struct http_exchange *x, struct slice data)
{
    (void)x;
    (void)data;
}

static void ignore(struct http_exchange *x)
{
    (void)x;
}

static void ignore_close(struct http_exchange *x, const struct err *e)
{
    (void)x;
    (void)e;
}

static const struct http_exchange_handlers answered_handlers = {
    .on_body = ignore_body,
    .on_end = ignore,
    .on_drain = ignore,
    .on_close = ignore_close,
};

static void answer(struct http_exchange *x, unsigned status, const char *why)
{
    assert_null(x->handlers);
    x->handlers = &answered_handlers;
    if (http_respond(x, status, SLICE("text/plain"), slice_str(why), NULL, 0) != 0) {
        http_exchange_abort(x);
    }
}

static void on_failed(void *data, struct http_exchange *x, unsigned code,
                      const struct destination *t, const char *why)
{
    struct world *w = data;
    assert_int_equal(t->way, DESTINATION_TUNNEL);
    w->failed = code;
    (void)snprintf(w->why, sizeof w->why, "%s", why);
    answer(x, code, why);
}

static void on_opened(void *data, const struct destination *t)
{
    struct world *w = data;
    assert_true(t->port != 0);
    w->opened++;
}

static void on_over(void *data, const struct destination *t, uint64_t sent, uint64_t received)
{
    struct world *w = data;
    assert_int_equal(t->way, DESTINATION_TUNNEL);
    w->over++;
    w->sent = sent;
    w->received = received;
}

static const struct traffic_request pods = {
    .namespace = {"ns", 2}, .resource = {"pods", 4}, .verb = {"get", 3}};

static bool admit(struct world *w, struct passage *passage)
{
    struct buf why = BUF_INIT(4096);
    unsigned retry_after = 0;
    bool admitted = policies_admit(w->policies, &pods, passage, &why, &retry_after);
    buf_reset(&why);
    return admitted;
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    struct destination t;
    struct passage passage = {.faulted = false};
    assert_int_equal(destination_read(head, &t, NULL), 0);
    if (w->charged) {
        assert_true(admit(w, &passage));
    }
    w->asked = true;
    w->taken = tunnel_begin(&w->tunnels, x, &t, w->proxy, &passage);
    if (!w->taken) {
        passage_end(&passage);
        answer(x, 503, "too many tunnels");
    }
    assert_null(passage.ticket.all);
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)buf_append_str(body, why);
}

static void on_drained(void *data)
{
    struct world *w = data;
    w->drained = true;
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
    .on_drained = on_drained,
};

/* ---- set-up ---- */

static bool open_server(struct world *w)
{
    const struct http_server_options o = {
        .address = "127.0.0.1:0",
        .head_timeout_ms = 2 * IDLE_MS,
        .idle_timeout_ms = 2 * IDLE_MS,
        .write_timeout_ms = 2 * IDLE_MS,
        .proxy = true,
        .backlog = w->backlog,
    };
    w->server = http_server_new(w->loop, &o, &server_handlers, w, NULL);
    return w->server != NULL;
}

static bool open_world(struct world *w)
{
    static const struct url api = {.https = true, .host = "api.example", .port = 6443};
    const struct reach_options ro = {.server = &api};
    const struct policies_options po = {.seed = 1};
    w->policies = policies_new(w->loop, &po, NULL);
    w->reach = w->policies == NULL ? NULL : reach_new(&ro, w->policies);
    w->backlog = net_backlog_new(w->loop, (size_t)64 * 1024 * 1024);
    if (w->reach == NULL || w->backlog == NULL || !open_server(w)) {
        return false;
    }
    tunnels_init(&w->tunnels, w->loop);
    w->tunnels.reach = w->reach;
    w->tunnels.backlog = w->backlog;
    w->tunnels.connect_timeout_ms = LONG_MS;
    w->tunnels.idle_ms = IDLE_MS;
    w->tunnels.max = 10;
    w->tunnels.on_failed = on_failed;
    w->tunnels.on_opened = on_opened;
    w->tunnels.on_over = on_over;
    w->tunnels.data = w;
    w->tunnels_live = true;
    return true;
}

static void close_world(struct world *w)
{
    if (w->tunnels_live) {
        tunnels_deinit(&w->tunnels);
        assert_int_equal(w->tunnels.count, 0);
        w->tunnels_live = false;
    }
    http_server_free(w->server);
    w->server = NULL;
    if (lookup.come) {
        lookup_answer();
    }
    net_backlog_unref(w->backlog);
    w->backlog = NULL;
    via_free(w->via);
    w->via = NULL;
    policies_free(w->policies);
    w->policies = NULL;
}

static void close_peer(struct raw_peer *p)
{
    if (p->fd >= 0) {
        raw_close(p);
    }
}

static int setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    memset(&lookup, 0, sizeof lookup);
    if (loop_setup((void **)&w.loop) != 0) {
        return -1;
    }
    client.fd = -1;
    host.fd = -1;
    w.listener = raw_listen(&w.port);
    named_port = w.port;
    *state = &w;
    return open_world(&w) ? 0 : -1;
}

static int teardown(void **state)
{
    struct world *w = *state;
    close_world(w);
    close_peer(&client);
    close_peer(&host);
    (void)close(w->listener);
    int rc = loop_teardown((void **)&w->loop);
    reach_free(w->reach); /* streams wait in its gate until the loop has closed them */
    return rc;
}

/* ---- the client ---- */

static void connect_client(struct world *w, const char *name, unsigned port, const char *behind)
{
    char text[256];
    int on = 1;
    raw_connect(&client, http_server_address(w->server));
    assert_int_equal(setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    int n = snprintf(text, sizeof text, "CONNECT %s:%u HTTP/1.1\r\nHost: x\r\n\r\n%s", name, port,
                     behind);
    w->asked = false;
    raw_send(&client, text, (size_t)n);
    run_until(w->loop, &w->asked);
}

static void forget(struct raw_peer *p)
{
    p->len = 0;
    p->text[0] = '\0';
}

/* An open tunnel. */
static void open_tunnel(struct world *w)
{
    connect_client(w, "127.0.0.1", w->port, "");
    raw_accept(w->loop, w->listener, &host);
    raw_expect(w->loop, &client, OPENED);
    assert_string_equal(client.text, OPENED);
    forget(&client);
}

static void say(struct raw_peer *p, const char *text)
{
    raw_send(p, text, strlen(text));
}

static void half_close(struct raw_peer *p)
{
    assert_int_equal(shutdown(p->fd, SHUT_WR), 0);
}

static void run_until_over(struct world *w, unsigned count)
{
    for (int turn = 0; turn < 4000 && w->over < count; turn++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(w->over, count);
    assert_int_equal(w->tunnels.count, 0);
}

/* The other side broke off, instead of ending in order. */
static void expect_reset(struct world *w, struct raw_peer *p)
{
    char byte;
    for (int turn = 0; turn < 4000; turn++) {
        ssize_t n = recv(p->fd, &byte, 1, 0);
        assert_true(n != 0);
        if (n < 0 && errno != EAGAIN) {
            assert_int_equal(errno, ECONNRESET);
            return;
        }
        run_for(w->loop, 5);
    }
    fail_msg("there was no reset");
}

static void expect_failure(struct world *w, unsigned code, const char *why)
{
    char line[64];
    (void)snprintf(line, sizeof line, "HTTP/1.1 %u ", code);
    raw_expect(w->loop, &client, line);
    raw_expect(w->loop, &client, NULL);
    assert_int_equal(w->failed, code);
    if (strstr(w->why, why) == NULL) {
        fail_msg("\"%s\" is not in: %s", why, w->why);
    }
    assert_int_equal(w->tunnels.count, 0);
    assert_int_equal(w->opened, 0);
    assert_int_equal(w->over, 0);
}

/* ---- open ones ---- */

static void test_bytes_go_both_ways(void **state)
{
    struct world *w = *state;
    connect_client(w, "name.test", w->port, "sent ahead ");
    raw_accept(w->loop, w->listener, &host);
    raw_expect(w->loop, &client, OPENED);
    assert_string_equal(client.text, OPENED);
    raw_expect(w->loop, &host, "sent ahead ");
    assert_int_equal(w->opened, 1);
    assert_int_equal(w->tunnels.opened, 1);
    assert_int_equal(w->tunnels.count, 1);
    say(&client, "GET / HTTP/1.1\r\n\r\n");
    raw_expect(w->loop, &host, "sent ahead GET / HTTP/1.1\r\n\r\n");
    say(&host, "answer");
    raw_expect(w->loop, &client, OPENED "answer");
    assert_int_equal(w->tunnels.sent, 29);
    assert_int_equal(w->tunnels.bytes, 35);
    assert_int_equal(w->over, 0);
}

static void test_the_client_ends_first(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    say(&client, "all");
    half_close(&client);
    raw_expect(w->loop, &host, NULL);
    assert_string_equal(host.text, "all");
    assert_int_equal(w->over, 0);
    say(&host, "still");
    raw_expect(w->loop, &client, "still");
    half_close(&host);
    raw_expect(w->loop, &client, NULL);
    assert_string_equal(client.text, "still");
    run_until_over(w, 1);
    assert_int_equal(w->sent, 3);
    assert_int_equal(w->received, 5);
}

static void test_the_host_ends_first(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    say(&host, "all");
    half_close(&host);
    raw_expect(w->loop, &client, NULL);
    assert_string_equal(client.text, "all");
    assert_int_equal(w->over, 0);
    say(&client, "still");
    raw_expect(w->loop, &host, "still");
    half_close(&client);
    raw_expect(w->loop, &host, NULL);
    run_until_over(w, 1);
    assert_int_equal(w->sent, 5);
    assert_int_equal(w->received, 3);
}

static void test_both_end_at_once(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    say(&client, "a");
    say(&host, "b");
    half_close(&host);
    half_close(&client);
    raw_expect(w->loop, &client, NULL);
    raw_expect(w->loop, &host, NULL);
    assert_string_equal(client.text, "b");
    assert_string_equal(host.text, "a");
    run_until_over(w, 1);
}

/* ---- much data ---- */

struct flow {
    struct raw_peer *from;
    struct raw_peer *to;
    size_t sent;
    size_t received;
    bool reads;
    bool ended; /* the sender has, and the receiver saw it */
};

enum { BLOCK = 64 * 1024, PERIOD = 251, LITTLE = 16 * 1024, MUCH = 2 * 1024 * 1024 };

/* The bytes of a flow from there on. */
static const char *flow_bytes(size_t at)
{
    static char bytes[BLOCK + PERIOD];
    for (size_t i = bytes[1] != 0 ? sizeof bytes : 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i % PERIOD);
    }
    return bytes + at % PERIOD;
}

static void send_some(struct flow *f)
{
    size_t left = LARGE - f->sent;
    size_t len = left < BLOCK ? left : BLOCK;
    const char *bytes = flow_bytes(f->sent);
    ssize_t n = len > 0 ? send(f->from->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    f->sent += n > 0 ? (size_t)n : 0;
    if (n > 0 && f->sent == LARGE) {
        half_close(f->from);
    }
}

static void receive_some(struct flow *f)
{
    static char block[BLOCK];
    ssize_t n = recv(f->to->fd, block, sizeof block, MSG_DONTWAIT);
    if (n > 0) {
        assert_memory_equal(block, flow_bytes(f->received), (size_t)n);
        f->received += (size_t)n;
    }
    f->ended = n == 0;
}

static void turn(struct world *w, struct flow *flows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        send_some(&flows[i]);
        if (flows[i].reads && !flows[i].ended) {
            receive_some(&flows[i]);
        }
    }
    (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
}

static bool have_ended(const struct flow *flows, size_t count)
{
    bool ended = true;
    for (size_t i = 0; i < count; i++) {
        ended = ended && flows[i].ended;
    }
    return ended;
}

/* Until all has come. */
static void run_flows(struct world *w, struct flow *flows, size_t count)
{
    for (int i = 0; i < 20000 && !have_ended(flows, count); i++) {
        size_t before = flows[0].received;
        for (int k = 0; k < 20; k++) {
            turn(w, flows, count);
        }
        if (flows[0].received == before) {
            run_for(w->loop, 1);
        }
    }
    for (size_t i = 0; i < count; i++) {
        assert_true(flows[i].ended);
        assert_int_equal(flows[i].received, LARGE);
    }
}

static void test_much_both_ways_at_once(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    struct flow flows[] = {{.from = &client, .to = &host, .reads = true},
                           {.from = &host, .to = &client, .reads = true}};
    run_flows(w, flows, 2);
    run_until_over(w, 1);
    assert_int_equal(w->sent, LARGE);
    assert_int_equal(w->received, LARGE);
    assert_int_equal(net_backlog_stats(w->backlog).bytes, 0);
}

/* How much the kernel keeps of what it sends and receives. */
static void set_kernel_bytes(const struct raw_peer *p, int size)
{
    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
}

/* Who does not read stops who sends, and nothing is lost. */
static void check_back_pressure(struct world *w, struct raw_peer *from, struct raw_peer *to)
{
    set_kernel_bytes(from, LITTLE);
    set_kernel_bytes(to, LITTLE);
    struct flow f = {.from = from, .to = to};
    int calm = 0;
    for (int round = 0; round < 5000 && calm < 20; round++) {
        size_t before = f.sent;
        for (int i = 0; i < 20; i++) {
            turn(w, &f, 1);
        }
        run_for(w->loop, 2);
        bool waits = f.sent == before && net_backlog_stats(w->backlog).bytes > 0;
        calm = waits ? calm + 1 : 0;
    }
    assert_int_equal(calm, 20);
    assert_true(f.sent < BUFFERED);
    assert_true(net_backlog_stats(w->backlog).bytes < 3 * NET_READ_SIZE);
    set_kernel_bytes(from, MUCH);
    set_kernel_bytes(to, MUCH);
    f.reads = true;
    run_flows(w, &f, 1);
}

static void test_a_host_that_does_not_read(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    check_back_pressure(w, &client, &host);
}

static void test_a_client_that_does_not_read(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    check_back_pressure(w, &host, &client);
}

/* ---- one side breaks off ---- */

static void reset(struct raw_peer *p)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
    raw_close(p);
}

static void test_the_client_breaks_off(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    reset(&client);
    expect_reset(w, &host);
    run_until_over(w, 1);
}

static void test_the_host_breaks_off(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    reset(&host);
    expect_reset(w, &client);
    run_until_over(w, 1);
}

static void test_break_off_behind_an_end(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    half_close(&client);
    raw_expect(w->loop, &host, NULL);
    reset(&host);
    expect_reset(w, &client);
    run_until_over(w, 1);
    close_peer(&client);
    open_tunnel(w);
    half_close(&host);
    raw_expect(w->loop, &client, NULL);
    reset(&client);
    expect_reset(w, &host);
    run_until_over(w, 2);
}

/* Both sides are gone, and the tunnel, if it is still there. */
static void reset_all(struct world *w)
{
    close_peer(&client);
    close_peer(&host);
    for (int i = 0; i < 4000 && w->tunnels.count > 0; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(w->tunnels.count, 0);
}

/* Exactly these come next. */
static void expect_bytes(struct world *w, struct raw_peer *p, struct slice bytes)
{
    for (int i = 0; i < 4000 && p->len < bytes.len && !p->ended; i++) {
        raw_read(p);
        run_for(w->loop, 1);
    }
    assert_int_equal(p->len, bytes.len);
    assert_memory_equal(p->text, bytes.ptr, bytes.len);
    forget(p);
}

/* ---- those that are not opened ---- */

static void test_a_host_that_refuses(void **state)
{
    struct world *w = *state;
    unsigned port;
    int reserved = raw_reserve(&port);
    named_port = port;
    connect_client(w, "127.0.0.1", port, "ahead");
    expect_failure(w, 502, "connection refused");
    (void)close(reserved);
}

static void test_a_name_that_is_unknown(void **state)
{
    struct world *w = *state;
    connect_client(w, "unknown.test", w->port, "");
    expect_failure(w, 502, "unknown.test");
}

static void test_a_host_that_does_not_answer(void **state)
{
    struct world *w = *state;
    raw_fill(w->listener);
    connect_client(w, "127.0.0.1", w->port, "");
    run_for(w->loop, 20);
    assert_int_equal(w->failed, 0);
    loop_skip(w->loop, LONG_MS);
    expect_failure(w, 504, "timed out");
}

static void test_what_must_not_be_reached(void **state)
{
    struct world *w = *state;
    named_port = 0;
    connect_client(w, "name.test", w->port, "");
    expect_failure(w, 403, "name.test");
    close_peer(&client);
    connect_client(w, "127.0.0.1", w->port, "");
    expect_failure(w, 403, "127.0.0.1");
    assert_int_equal(accept(w->listener, NULL, NULL), -1);
}

/* ---- the client does not wait ---- */

static void run_until_none(struct world *w)
{
    for (int i = 0; i < 4000 && w->tunnels.count > 0; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(w->tunnels.count, 0);
    assert_int_equal(w->failed, 0);
    assert_int_equal(w->over, 0);
}

static void hold_lookup(struct world *w)
{
    lookup.hold = true;
    connect_client(w, "name.test", w->port, "");
    run_until(w->loop, &lookup.come);
}

static void test_the_client_leaves_during_the_lookup(void **state)
{
    struct world *w = *state;
    hold_lookup(w);
    raw_close(&client);
    run_until_none(w);
    lookup_answer();
    run_for(w->loop, 10);
    assert_int_equal(accept(w->listener, NULL, NULL), -1);
}

static void test_the_client_leaves_while_connecting(void **state)
{
    struct world *w = *state;
    raw_fill(w->listener);
    connect_client(w, "127.0.0.1", w->port, "");
    run_for(w->loop, 10);
    assert_int_equal(w->tunnels.count, 1);
    raw_close(&client);
    run_until_none(w);
}

/* ---- limits ---- */

static void test_nothing_moves(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    loop_skip(w->loop, IDLE_MS - 1000);
    run_for(w->loop, 5);
    say(&client, "a");
    raw_expect(w->loop, &host, "a");
    loop_skip(w->loop, IDLE_MS - 1000);
    run_for(w->loop, 5);
    say(&host, "b");
    raw_expect(w->loop, &client, "b");
    loop_skip(w->loop, IDLE_MS - 1000);
    run_for(w->loop, 5);
    assert_int_equal(w->over, 0);
    loop_skip(w->loop, 1001);
    run_until_over(w, 1);
    assert_int_equal(w->tunnels.idle_closed, 1);
    expect_reset(w, &client);
    expect_reset(w, &host);
}

static void test_half_closed(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    half_close(&client);
    raw_expect(w->loop, &host, NULL);
    loop_skip(w->loop, HALF_CLOSED_MS - 1000);
    run_for(w->loop, 5);
    say(&host, "b");
    raw_expect(w->loop, &client, "b");
    loop_skip(w->loop, HALF_CLOSED_MS - 1000);
    run_for(w->loop, 5);
    assert_int_equal(w->over, 0);
    loop_skip(w->loop, 1001);
    run_until_over(w, 1);
    assert_int_equal(w->tunnels.idle_closed, 1);
}

/* A host that reads slowly what the client sent before its end. */
static void test_half_closed_with_bytes_to_be_read(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    set_kernel_bytes(&host, LITTLE);
    struct flow f = {.from = &client, .to = &host};
    for (int i = 0; i < 1000; i++) {
        turn(w, &f, 1);
    }
    half_close(&host);
    run_for(w->loop, 20);
    loop_skip(w->loop, HALF_CLOSED_MS + 1);
    run_for(w->loop, 20);
    assert_int_equal(w->over, 0);
    loop_skip(w->loop, IDLE_MS);
    run_until_over(w, 1);
    assert_int_equal(w->tunnels.idle_closed, 1);
}

static void test_too_many(void **state)
{
    struct world *w = *state;
    w->tunnels.max = 1;
    open_tunnel(w);
    static struct raw_peer other;
    struct raw_peer first = client;
    connect_client(w, "127.0.0.1", w->port, "");
    assert_false(w->taken);
    raw_expect(w->loop, &client, "HTTP/1.1 503 ");
    other = client;
    client = first;
    assert_int_equal(w->tunnels.count, 1);
    raw_close(&client);
    raw_close(&host);
    run_until_over(w, 1);
    open_tunnel(w);
    raw_close(&other);
}

/* ---- other rules ---- */

static bool allows(void *data, const struct traffic_external *q)
{
    struct world *w = data;
    assert_true(q->tunnel);
    assert_true(slice_eq(q->method, SLICE("CONNECT")));
    assert_int_equal(q->port, w->port);
    w->reviewed++;
    return !slice_eq(q->host, slice_str(w->forbidden));
}

static void test_review(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    w->forbidden = "name.test";
    tunnels_review(&w->tunnels, allows, w);
    say(&client, "a");
    raw_expect(w->loop, &host, "a");
    w->forbidden = "127.0.0.1";
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 0);
    assert_int_equal(w->over, 1);
    expect_reset(w, &client);
    expect_reset(w, &host);
}

static void test_review_before_it_is_open(void **state)
{
    struct world *w = *state;
    hold_lookup(w);
    w->forbidden = "name.test";
    tunnels_review(&w->tunnels, allows, w);
    expect_failure(w, 403, "rule");
    lookup_answer();
}

static void test_drain(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    static struct raw_peer open_client;
    open_client = client;
    hold_lookup(w);
    tunnels_drain(&w->tunnels);
    http_server_drain(w->server);
    raw_expect(w->loop, &client, "HTTP/1.1 503 ");
    assert_int_equal(w->failed, 503);
    lookup_answer();
    say(&open_client, "a");
    raw_expect(w->loop, &host, "a");
    assert_false(w->drained);
    half_close(&open_client);
    half_close(&host);
    run_until_over(w, 1);
    run_until(w->loop, &w->drained);
    raw_close(&open_client);
}

/* ---- the name that a TLS client asks for ---- */

/* The ClientHello of a client that asks for that name; its bytes stay until the next call. */
static struct slice client_hello(const char *name)
{
    static char bytes[512];
    size_t len = strlen(name);
    size_t extension = len > 0 ? len + 9 : 0;
    size_t body = 2 + 32 + 1 + 4 + 2 + 2 + extension;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x16\x03\x01", 3);
    bytes[4] = (char)(body + 4);
    bytes[5] = 1;
    bytes[8] = (char)body;
    bytes[9] = bytes[10] = 3;
    char *at = bytes + 9 + 2 + 32 + 1;
    memcpy(at, "\x00\x02\x13\x01\x01", 5);
    at[7] = (char)extension;
    if (len > 0) {
        at[11] = (char)(len + 5);
        at[13] = (char)(len + 3);
        at[16] = (char)len;
        memcpy(at + 17, name, len);
    }
    return slice_of(bytes, 9 + body);
}

/* Rules say no to what is forbidden, and of what cannot be read. */
static bool allows_name(void *data, const struct traffic_external *q)
{
    struct world *w = data;
    w->judged++;
    return q->host.len > 0 && allows(data, q);
}

static void test_names_in_tunnels(void **state)
{
    static const struct {
        const char *name;
        unsigned judged;
        bool forbidden;
    } rows[] = {
        {"127.0.0.1", 0, false}, /* the host's own */
        {"", 0, false},          /* none */
        {"other.test", 1, false},
        {"forbidden.test", 1, true},
        {"FORBIDDEN.test.", 1, true},
        {"forbidden\ttest", 1, true}, /* cannot be read */
    };
    struct world *w = *state;
    w->forbidden = "forbidden.test";
    w->tunnels.allows_name = allows_name;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice hello = client_hello(rows[i].name);
        w->judged = 0;
        open_tunnel(w);
        raw_send(&client, hello.ptr, hello.len);
        if (rows[i].forbidden) {
            expect_reset(w, &client);
            expect_reset(w, &host);
            assert_int_equal(w->tunnels.count, 0);
            assert_int_equal(w->sent, 0);
        } else {
            expect_bytes(w, &host, hello);
            say(&client, "more");
            expect_bytes(w, &host, SLICE("more"));
        }
        assert_int_equal(w->judged, rows[i].judged);
        reset_all(w);
    }
}

/* It comes byte by byte, and the host has all but the last. */
static void test_a_name_in_pieces(void **state)
{
    struct world *w = *state;
    struct slice hello = client_hello("forbidden.test");
    w->forbidden = "forbidden.test";
    w->tunnels.allows_name = allows_name;
    open_tunnel(w);
    for (size_t i = 0; i + 1 < hello.len; i++) {
        raw_send(&client, hello.ptr + i, 1);
        expect_bytes(w, &host, slice_of(hello.ptr + i, 1));
    }
    raw_send(&client, hello.ptr + hello.len - 1, 1);
    expect_reset(w, &client);
    run_until_over(w, 1);
    assert_int_equal(w->sent, hello.len - 1);
    reset_all(w);
    hello = client_hello("other.test");
    open_tunnel(w);
    raw_send(&client, hello.ptr, 30);
    expect_bytes(w, &host, slice_of(hello.ptr, 30));
    raw_send(&client, hello.ptr + 30, hello.len - 30);
    expect_bytes(w, &host, slice_of(hello.ptr + 30, hello.len - 30));
    say(&client, "more");
    expect_bytes(w, &host, SLICE("more"));
    assert_int_equal(w->judged, 2);
}

/* Rules that come later hold for the name, too. */
static void test_review_of_names(void **state)
{
    struct world *w = *state;
    struct slice hello = client_hello("other.test");
    w->tunnels.allows_name = allows_name;
    open_tunnel(w);
    raw_send(&client, hello.ptr, hello.len);
    expect_bytes(w, &host, hello);
    w->forbidden = "third.test";
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 1);
    w->forbidden = "other.test";
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 0);
    expect_reset(w, &client);
    expect_reset(w, &host);
}

/* What is the same for many tunnels is asked once. */
static void test_review_of_many(void **state)
{
    static struct raw_peer others[4];
    static struct raw_peer hosts[4];
    struct world *w = *state;
    struct slice hello = client_hello("other.test");
    w->forbidden = "";
    w->tunnels.allows_name = allows_name;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        open_tunnel(w);
        others[i] = client;
        raw_send(&client, hello.ptr, hello.len);
        expect_bytes(w, &host, hello);
        hosts[i] = host;
    }
    open_tunnel(w);
    w->reviewed = 0;
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 5);
    assert_int_equal(w->reviewed, 2);
    w->forbidden = "other.test";
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 1);
    w->forbidden = "127.0.0.1";
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 0);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        close_peer(&others[i]);
        close_peer(&hosts[i]);
    }
}

/* A name had led to what a rule opened. */
static void test_review_of_addresses(void **state)
{
    struct world *w = *state;
    w->forbidden = "";
    connect_client(w, "other.test", w->port, "");
    raw_accept(w->loop, w->listener, &host);
    raw_expect(w->loop, &client, "HTTP/1.1 200 ");
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 1);
    named_port = 0;
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 0);
    expect_reset(w, &client);
    expect_reset(w, &host);
}

/* The rule goes while the connection is being established. */
static void test_an_address_that_is_forbidden_when_it_is_open(void **state)
{
    struct world *w = *state;
    w->forbidden = "";
    raw_fill(w->listener);
    connect_client(w, "other.test", w->port, "");
    run_for(w->loop, 50);
    named_port = 0;
    tunnels_review(&w->tunnels, allows, w);
    assert_int_equal(w->tunnels.count, 1);
    raw_accept(w->loop, w->listener, &host); /* there is room again */
    expect_failure(w, 403, "rule");
}

/* Parts of ClientHellos count, and are given back. */
static void test_names_within_a_budget(void **state)
{
    struct world *w = *state;
    struct byte_budget budget = {.max = 8192};
    char part[9000] = "\x16\x03\x01\x40\x00\x01\x00\x3f\x00";
    w->tunnels.allows_name = allows_name;
    w->tunnels.budget = &budget;
    open_tunnel(w);
    raw_send(&client, part, 5000);
    expect_bytes(w, &host, slice_of(part, 5000));
    assert_true(budget.used >= 5000);
    raw_send(&client, part + 5000, sizeof part - 5000);
    expect_reset(w, &client);
    expect_reset(w, &host);
    run_until_over(w, 1);
    assert_int_equal(budget.used, 0);
    assert_int_equal(w->judged, 0);
}

/* Who begins one and says no more keeps nothing of it for long. */
static void test_a_name_that_does_not_come(void **state)
{
    struct world *w = *state;
    struct slice hello = client_hello("other.test");
    w->tunnels.allows_name = allows_name;
    open_tunnel(w);
    raw_send(&client, hello.ptr, 30);
    expect_bytes(w, &host, slice_of(hello.ptr, 30));
    loop_skip(w->loop, HELLO_MS - 1000);
    raw_send(&client, hello.ptr + 30, 10);
    expect_bytes(w, &host, slice_of(hello.ptr + 30, 10));
    loop_skip(w->loop, HELLO_MS - 1000);
    run_for(w->loop, 5);
    assert_int_equal(w->tunnels.count, 1);
    loop_skip(w->loop, 1001);
    expect_reset(w, &client);
    expect_reset(w, &host);
    run_until_over(w, 1);
    assert_int_equal(w->tunnels.idle_closed, 1);
    /* Once it is whole there is as much time as ever. */
    reset_all(w);
    open_tunnel(w);
    raw_send(&client, hello.ptr, 30);
    expect_bytes(w, &host, slice_of(hello.ptr, 30));
    raw_send(&client, hello.ptr + 30, hello.len - 30);
    expect_bytes(w, &host, slice_of(hello.ptr + 30, hello.len - 30));
    loop_skip(w->loop, IDLE_MS - 1000);
    run_for(w->loop, 5);
    assert_int_equal(w->tunnels.count, 1);
}

/* What is no TLS is not delayed, and a part of a ClientHello neither. */
static void test_other_protocols_in_tunnels(void **state)
{
    struct world *w = *state;
    w->tunnels.allows_name = allows_name;
    open_tunnel(w);
    say(&client, "\x16");
    expect_bytes(w, &host, SLICE("\x16"));
    say(&client, "\x02 is no TLS");
    expect_bytes(w, &host, SLICE("\x02 is no TLS"));
    assert_int_equal(w->judged, 0);
    reset_all(w);
    open_tunnel(w);
    say(&client, "\x16\x03");
    expect_bytes(w, &host, SLICE("\x16\x03"));
    half_close(&client);
    half_close(&host);
    run_until_over(w, w->over + 1);
}

/* ---- through another proxy ---- */

/* The listener is the proxy, which was asked for the host. */
static void ask_proxy(struct world *w, const char *name)
{
    char url[64];
    struct destination t = {.way = DESTINATION_TUNNEL, .host = "example.test", .port = 443};
    (void)snprintf(url, sizeof url, "http://user:pass@127.0.0.1:%u", w->port);
    via_free(w->via);
    w->via = via_new(url, NULL, NULL);
    assert_non_null(w->via);
    w->proxy = via_of(w->via, &t);
    named_port = 0;
    connect_client(w, name, 443, "");
    raw_accept(w->loop, w->listener, &host);
    raw_expect(w->loop, &host, "\r\n\r\n");
    assert_string_equal(host.text, "CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n"
                                   "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n");
    forget(&host);
}

static void test_through_a_proxy(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    say(&host, "HTTP/1.0 200 OK\r\nX: y\r\n\r\n");
    raw_expect(w->loop, &client, OPENED);
    assert_string_equal(client.text, OPENED);
    say(&client, "a");
    raw_expect(w->loop, &host, "a");
    say(&host, "b");
    raw_expect(w->loop, &client, OPENED "b");
    half_close(&client);
    half_close(&host);
    run_until_over(w, 1);
}

static void test_a_proxy_that_refuses(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    say(&host, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    expect_failure(w, 502, "407 Proxy Authentication Required");
    assert_null(strstr(w->why, "pass"));
}

static void test_a_proxy_that_says_502(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    say(&host, "HTTP/1.1 502 Bad Gateway\r\n\r\n");
    expect_failure(w, 502, "502 Bad Gateway");
}

static void test_a_proxy_that_closes(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    raw_close(&host);
    expect_failure(w, 502, "closed the connection");
}

static void test_a_proxy_that_does_not_answer(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    loop_skip(w->loop, LONG_MS);
    expect_failure(w, 504, "in time");
}

static void test_the_client_leaves_while_a_proxy_is_asked(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    raw_close(&client);
    run_until_none(w);
    raw_expect(w->loop, &host, NULL);
}

/* ---- the end of all of them ---- */

static void deinit(struct world *w)
{
    tunnels_deinit(&w->tunnels);
    w->tunnels_live = false;
    assert_int_equal(w->tunnels.count, 0);
    assert_int_equal(w->failed, 0);
    assert_int_equal(w->over, 0);
}

static void test_deinit_during_the_lookup(void **state)
{
    struct world *w = *state;
    hold_lookup(w);
    deinit(w);
    raw_expect(w->loop, &client, NULL);
}

static void test_deinit_while_connecting(void **state)
{
    struct world *w = *state;
    raw_fill(w->listener);
    connect_client(w, "127.0.0.1", w->port, "");
    deinit(w);
    raw_expect(w->loop, &client, NULL);
}

static void test_deinit_while_a_proxy_is_asked(void **state)
{
    struct world *w = *state;
    ask_proxy(w, "example.test");
    deinit(w);
    raw_expect(w->loop, &client, NULL);
    raw_expect(w->loop, &host, NULL);
}

static void test_deinit_of_open_ones(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    deinit(w);
    expect_reset(w, &client);
    expect_reset(w, &host);
}

static void test_deinit_of_half_closed_ones(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    half_close(&client);
    raw_expect(w->loop, &host, NULL);
    deinit(w);
    expect_reset(w, &client);
    /* It has seen an end before. */
    run_for(w->loop, 5);
    assert_int_equal(send(host.fd, "b", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
}

/* The server goes first. */
static void test_the_server_is_closed(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    http_server_free(w->server);
    w->server = NULL;
    assert_int_equal(w->over, 1);
    assert_int_equal(w->tunnels.count, 0);
    expect_reset(w, &host);
}

/* ---- breakers ---- */

#define ONE_AT_A_TIME                                                                              \
    "{\"breakers\":[" TRAFFIC_BREAKER(                                                             \
        "one", TRAFFIC_LIMITING("one", TRAFFIC_EVERYTHING,                                         \
                                "\"triggerPolicy\":\"LimiterOnly\",\"maxInFlight\":1")) "]}"
#define NO_FAILURE                                                                                 \
    "{\"breakers\":[" TRAFFIC_BREAKER(                                                             \
        "well", TRAFFIC_LIMITING("well", TRAFFIC_EVERYTHING,                                       \
                                 "\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":"      \
                                 "\"60000ms\",\"minimumRequests\":1,"                              \
                                 "\"errorPercent\":1}," TRAFFIC_WINDOW(60000))) "]}"

static void put_in_force(struct world *w, const char *spec)
{
    struct traffic *document = traffic_document(1, spec);
    assert_int_equal(policies_set(w->policies, document), 0);
    traffic_unref(document);
    w->charged = true;
}

/* Whether a request gets through the breakers now. */
static bool is_let_through(struct world *w)
{
    struct passage passage = {.faulted = false};
    bool admitted = admit(w, &passage);
    passage_end(&passage);
    return admitted;
}

static void test_a_tunnel_is_under_way_until_it_is_open(void **state)
{
    struct world *w = *state;
    put_in_force(w, ONE_AT_A_TIME);
    hold_lookup(w);
    assert_false(is_let_through(w));
    lookup_answer();
    raw_accept(w->loop, w->listener, &host);
    raw_expect(w->loop, &client, OPENED);
    assert_true(is_let_through(w));
}

static void test_a_tunnel_is_under_way_until_it_fails(void **state)
{
    struct world *w = *state;
    put_in_force(w, ONE_AT_A_TIME);
    hold_lookup(w);
    assert_false(is_let_through(w));
    named_port = 0;
    lookup_answer();
    expect_failure(w, 403, "name.test");
    assert_true(is_let_through(w));
}

static void test_a_tunnel_is_under_way_until_its_client_leaves(void **state)
{
    struct world *w = *state;
    put_in_force(w, ONE_AT_A_TIME);
    hold_lookup(w);
    raw_close(&client);
    run_until_none(w);
    assert_true(is_let_through(w));
    lookup_answer();
    hold_lookup(w);
    deinit(w);
    assert_true(is_let_through(w));
}

static void test_a_refusal_gives_the_ticket_back(void **state)
{
    struct world *w = *state;
    put_in_force(w, ONE_AT_A_TIME);
    hold_lookup(w);
    w->forbidden = "name.test";
    tunnels_review(&w->tunnels, allows, w);
    assert_true(is_let_through(w));
}

static void test_health_hears_of_hosts_that_fail(void **state)
{
    struct world *w = *state;
    put_in_force(w, NO_FAILURE);
    open_tunnel(w);
    assert_true(is_let_through(w));
    raw_close(&client);
    raw_close(&host);
    run_until_over(w, 1);
    w->opened = 0;
    w->over = 0;
    /* What is not allowed is no failure. */
    named_port = 0;
    connect_client(w, "127.0.0.1", w->port, "");
    expect_failure(w, 403, "127.0.0.1");
    close_peer(&client);
    assert_true(is_let_through(w));
    connect_client(w, "unknown.test", w->port, "");
    expect_failure(w, 502, "unknown.test");
    assert_false(is_let_through(w));
}

/* ---- out of memory ---- */

/* True: the client was told that the tunnel is there, and a byte came through it. */
static bool try_tunnel(struct world *w)
{
    static const char request[] = "CONNECT name.test:1 HTTP/1.1\r\nHost: x\r\n\r\na";
    char text[sizeof request + 8];
    int n =
        snprintf(text, sizeof text, "CONNECT name.test:%u HTTP/1.1\r\nHost: x\r\n\r\na", w->port);
    raw_connect(&client, http_server_address(w->server));
    raw_send(&client, text, (size_t)n);
    for (int i = 0; i < 4000 && !client.ended; i++) {
        if (host.fd < 0) {
            host.fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        } else {
            raw_read(&host);
        }
        if (host.len > 0) {
            break;
        }
        raw_read(&client);
        (void)uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    }
    raw_read(&client);
    return host.len == 1 && strcmp(client.text, OPENED) == 0;
}

static bool scenario(void *data)
{
    struct world *w = data;
    memset(&host, 0, sizeof host);
    host.fd = -1;
    bool passed = open_world(w) && try_tunnel(w);
    close_world(w);
    close_peer(&client);
    close_peer(&host);
    long paused = alloc_sweep_pause();
    run_for(w->loop, 1);
    reach_free(w->reach);
    w->reach = NULL;
    alloc_sweep_resume(paused);
    return passed;
}

static void test_out_of_memory(void **state)
{
    struct world *w = *state;
    close_world(w);
    reach_free(w->reach);
    w->reach = NULL;
    assert_true(sweep_allocations(scenario, w) > 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_go_both_ways),
        TEST(test_the_client_ends_first),
        TEST(test_the_host_ends_first),
        TEST(test_both_end_at_once),
        TEST(test_much_both_ways_at_once),
        TEST(test_a_host_that_does_not_read),
        TEST(test_a_client_that_does_not_read),
        TEST(test_the_client_breaks_off),
        TEST(test_the_host_breaks_off),
        TEST(test_break_off_behind_an_end),
        TEST(test_a_host_that_refuses),
        TEST(test_a_name_that_is_unknown),
        TEST(test_a_host_that_does_not_answer),
        TEST(test_what_must_not_be_reached),
        TEST(test_the_client_leaves_during_the_lookup),
        TEST(test_the_client_leaves_while_connecting),
        TEST(test_nothing_moves),
        TEST(test_half_closed),
        TEST(test_half_closed_with_bytes_to_be_read),
        TEST(test_too_many),
        TEST(test_review),
        TEST(test_review_before_it_is_open),
        TEST(test_drain),
        TEST(test_names_in_tunnels),
        TEST(test_a_name_in_pieces),
        TEST(test_review_of_names),
        TEST(test_review_of_many),
        TEST(test_review_of_addresses),
        TEST(test_an_address_that_is_forbidden_when_it_is_open),
        TEST(test_names_within_a_budget),
        TEST(test_a_name_that_does_not_come),
        TEST(test_other_protocols_in_tunnels),
        TEST(test_through_a_proxy),
        TEST(test_a_proxy_that_refuses),
        TEST(test_a_proxy_that_says_502),
        TEST(test_a_proxy_that_closes),
        TEST(test_a_proxy_that_does_not_answer),
        TEST(test_the_client_leaves_while_a_proxy_is_asked),
        TEST(test_deinit_during_the_lookup),
        TEST(test_deinit_while_connecting),
        TEST(test_deinit_while_a_proxy_is_asked),
        TEST(test_deinit_of_open_ones),
        TEST(test_deinit_of_half_closed_ones),
        TEST(test_the_server_is_closed),
        TEST(test_a_tunnel_is_under_way_until_it_is_open),
        TEST(test_a_tunnel_is_under_way_until_it_fails),
        TEST(test_a_tunnel_is_under_way_until_its_client_leaves),
        TEST(test_a_refusal_gives_the_ticket_back),
        TEST(test_health_hears_of_hosts_that_fail),
        TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
