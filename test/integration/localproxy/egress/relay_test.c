/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_test.c - requests of a client through a real HTTP server to origins, which are sockets in
 * the test's own hands, or a server with TLS. What rules name is the test's
 * (policies_name_address is wrapped).
 */
#include "egress/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "certs.h"
#include "http/server.h"
#include "loop_fixture.h"
#include "raw_peer.h"
#include "temp_dir.h"
#include "traffic/policies.h"

enum { LONG_MS = 600000, IDLE_MS = 3600000, LARGE = 12 * 1024 * 1024 };

#define VIA "Via: 1.1 cmesh-00000007\r\n"
/* Room for a request with two ports in it. */
#define REQUEST_SIZE 2048

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct reach *reach;
    struct via *via;
    struct net_backlog *backlog;
    struct byte_budget sent;
    struct pseudonym pseudonym;
    struct origins *origins;
    struct relays relays;
    bool relays_live;
    int listener; /* the origin's */
    unsigned port;
    unsigned failed; /* the last request, with this status */
    char why[2 * ERR_MSG_MAX];
    unsigned failures;
    unsigned answered;
    unsigned status;
};

static struct raw_peer client;
static struct raw_peer origin;
static struct raw_peer other;

/* ---- what is wrapped ---- */

static bool forbidden;

bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port);
bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port)
{
    (void)p;
    (void)port;
    return !forbidden && slice_eq(address, SLICE("127.0.0.1"));
}

/* ---- the server ---- */

static void answer(struct http_exchange *x, unsigned status, const char *why)
{
    assert_null(x->handlers);
    if (http_respond(x, status, SLICE("text/plain"), slice_str(why), NULL, 0) != 0) {
        http_exchange_abort(x);
    }
}

static void on_failed(void *data, struct http_exchange *x, unsigned code,
                      const struct destination *t, const char *why)
{
    struct world *w = data;
    assert_true(t->host[0] != '\0');
    w->failed = code;
    w->failures++;
    (void)snprintf(w->why, sizeof w->why, "%s", why);
    answer(x, code, why);
}

static void on_answered(void *data, const struct destination *t, unsigned status)
{
    struct world *w = data;
    assert_true(t->host[0] != '\0');
    w->answered++;
    w->status = status;
}

static void on_request(void *data, struct http_exchange *x, const struct http_head *head)
{
    struct world *w = data;
    struct destination t;
    struct err e = ERR_INIT;
    struct passage passage = {.faulted = false};
    if (destination_read(head, &t, &e) != 0) {
        answer(x, 400, e.msg);
        return;
    }
    relay_begin(&w->relays, x, head, &t, false, &passage);
    assert_null(passage.ticket.all);
}

static void on_refuse(void *data, unsigned status, const char *why, struct buf *body)
{
    (void)data;
    (void)status;
    (void)buf_append_str(body, why);
}

static const struct http_server_handlers server_handlers = {
    .on_request = on_request,
    .on_refuse = on_refuse,
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

static bool open_origins(struct world *w, const char *ca_file)
{
    struct err e = ERR_INIT;
    const struct origins_options o = {
        .ca_file = ca_file,
        .reach = w->reach,
        .via = w->via,
        .backlog = w->backlog,
        .connect_timeout_ms = LONG_MS,
        .write_timeout_ms = IDLE_MS,
    };
    w->origins = origins_new(w->loop, &o, &e);
    w->relays.origins = w->origins;
    return w->origins != NULL;
}

static bool open_world(struct world *w, const char *ca_file, const char *via)
{
    static const struct url api = {.https = true, .host = "api.example", .port = 6443};
    const struct reach_options ro = {.server = &api};
    w->reach = reach_new(&ro, (const struct policies *)w);
    w->via = via_new(via, NULL, NULL);
    w->backlog = net_backlog_new(w->loop, (size_t)64 * 1024 * 1024);
    if (w->reach == NULL || w->via == NULL || w->backlog == NULL || !open_server(w)) {
        return false;
    }
    w->sent.max = 1024 * 1024;
    pseudonym_init(&w->pseudonym, 7);
    relays_init(&w->relays, w->loop);
    w->relays_live = true;
    w->relays.pseudonym = &w->pseudonym;
    w->relays.sent = &w->sent;
    w->relays.idle_ms = IDLE_MS;
    w->relays.on_failed = on_failed;
    w->relays.on_answered = on_answered;
    w->relays.data = w;
    return open_origins(w, ca_file);
}

static void close_world(struct world *w)
{
    http_server_free(w->server);
    if (w->relays_live) {
        relays_deinit(&w->relays);
    }
    origins_free(w->origins);
    reach_free(w->reach);
    via_free(w->via);
    net_backlog_unref(w->backlog);
}

static int setup_with(void **state, const char *via)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    forbidden = false;
    client.fd = origin.fd = other.fd = -1;
    w->listener = raw_listen(&w->port);
    char url[64];
    (void)snprintf(url, sizeof url, "http://me:secret@127.0.0.1:%u", w->port);
    assert_true(open_world(w, NULL, via != NULL ? url : NULL));
    *state = w;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, NULL);
}

static int setup_via(void **state)
{
    return setup_with(state, "");
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct raw_peer *peers[] = {&client, &origin, &other};
    close_world(w);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        if (peers[i]->fd >= 0) {
            raw_close(peers[i]);
        }
    }
    (void)close(w->listener);
    int rc = loop_free(w->loop);
    free(w);
    return rc;
}

/* ---- a client and an origin ---- */

/* Sends a text in which each "%u" is the origin's port. */
static void say(struct world *w, struct raw_peer *p, const char *text)
{
    char bytes[REQUEST_SIZE];
    size_t len = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (c[0] == '%' && c[1] == 'u') {
            len += (size_t)snprintf(bytes + len, sizeof bytes - len, "%u", w->port);
            c++;
        } else {
            bytes[len++] = *c;
        }
        assert_true(len < sizeof bytes - 8);
    }
    raw_send(p, bytes, len);
}

static void dial(struct world *w)
{
    raw_connect(&client, http_server_address(w->server));
}

static void ask(struct world *w, const char *request)
{
    if (client.fd < 0) {
        dial(w);
    }
    say(w, &client, request);
}

/* The origin gets a request, whose head is exactly this, with "%u" as above. */
static void expect_head(struct world *w, const char *head)
{
    char text[REQUEST_SIZE];
    char port[8];
    size_t len = 0;
    if (origin.fd < 0) {
        raw_accept(w->loop, w->listener, &origin);
    }
    raw_expect(w->loop, &origin, "\r\n\r\n");
    (void)snprintf(port, sizeof port, "%u", w->port);
    for (const char *c = head; *c != '\0'; c++) {
        bool is_port = c[0] == '%' && c[1] == 'u';
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s",
                                is_port ? (int)strlen(port) : 1, is_port ? port : c);
        c += is_port ? 1 : 0;
    }
    char *end = strstr(origin.text, "\r\n\r\n") + 4;
    char kept = *end;
    *end = '\0';
    assert_string_equal(origin.text, text);
    *end = kept;
}

static void forget(struct raw_peer *p)
{
    p->len = 0;
    p->text[0] = '\0';
}

#define GET "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n"
#define GOT "GET / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n" VIA "\r\n"

/* A request is under way, and the origin has it. */
static void begin(struct world *w)
{
    ask(w, GET);
    expect_head(w, GOT);
}

static bool ended(const struct raw_peer *p)
{
    struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
    char byte;
    return poll(&poll_fd, 1, 0) == 1 && recv(p->fd, &byte, 1, MSG_PEEK) <= 0;
}

static void expect_ended(struct world *w, struct raw_peer *p)
{
    for (int i = 0; i < 4000 && !ended(p); i++) {
        run_for(w->loop, 5);
    }
    assert_true(ended(p));
}

static void expect_none_left(struct world *w)
{
    for (int i = 0; i < 4000 && !list_empty(&w->relays.running); i++) {
        run_for(w->loop, 5);
    }
    assert_true(list_empty(&w->relays.running));
}

/* ---- heads ---- */

static void heads_pass_without_what_is_not_the_origins(void **state)
{
    struct world *w = *state;
    ask(w,
        "GET http://127.0.0.1:%u/a%2Fb/../c?q=1&r=%20 HTTP/1.1\r\nHost: other.example\r\n"
        "Authorization: Bearer theirs\r\nProxy-Authorization: Basic eDp5\r\n"
        "Proxy-Connection: keep-alive\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nTE: trailers\r\n"
        "Via: 1.0 before\r\nAccept-Encoding: br\r\nExpect: 100-continue\r\nX-Own: a\r\n"
        "X-Own: b\r\n\r\n");
    expect_head(w, "GET /a%2Fb/../c?q=1&r=%20 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                   "Authorization: Bearer theirs\r\nVia: 1.0 before\r\nAccept-Encoding: br\r\n"
                   "X-Own: a\r\nX-Own: b\r\n" VIA "\r\n");
    say(w, &origin,
        "HTTP/1.0 203 Well\r\nProxy-Authenticate: Basic\r\nConnection: X-Hop\r\n"
        "X-Hop: 1\r\nProxy-Info: 2\r\ncmesh-egress: refused\r\nX-Their: 3\r\n"
        "Content-Length: 2\r\n\r\nhi");
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    assert_non_null(strstr(client.text, "HTTP/1.1 203 Well\r\n"));
    assert_non_null(strstr(client.text, "X-Their: 3\r\nVia: 1.0 cmesh-00000007\r\n"));
    assert_null(strstr(client.text, "Hop"));
    assert_null(strstr(client.text, "Proxy-"));
    assert_null(strstr(client.text, "cmesh-egress"));
    raw_expect(w->loop, &client, NULL);
    assert_int_equal(w->answered, 1);
    assert_int_equal(w->status, 203);
    assert_int_equal(w->failures, 0);
}

static void the_header_way_goes_where_the_header_says(void **state)
{
    struct world *w = *state;
    ask(w, "POST /ignored?x HTTP/1.1\r\nHost: 127.0.0.1:15002\r\n"
           "Mesh-Real-Endpoint: http://127.0.0.1:%u/real?q\r\nContent-Length: 3\r\n\r\nabc");
    expect_head(w,
                "POST /real?q HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n" VIA "Content-Length: 3\r\n\r\n");
    raw_expect(w->loop, &origin, "abc");
}

static void who_names_no_path_asks_for_the_root(void **state)
{
    struct world *w = *state;
    static const char *const requests[][2] = {
        {"GET http://127.0.0.1:%u HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\n"},
        {"GET http://127.0.0.1:%u?q HTTP/1.1\r\nHost: x\r\n\r\n", "GET /?q HTTP/1.1\r\n"},
        {"OPTIONS http://127.0.0.1:%u HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * HTTP/1.1\r\n"},
        {"OPTIONS http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS / HTTP/1.1\r\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        ask(w, requests[i][0]);
        if (origin.fd < 0) {
            raw_accept(w->loop, w->listener, &origin);
        }
        raw_expect(w->loop, &origin, "\r\n\r\n");
        assert_memory_equal(origin.text, requests[i][1], strlen(requests[i][1]));
        say(w, &origin, "HTTP/1.1 204 No Content\r\n\r\n");
        raw_expect(w->loop, &client, "\r\n\r\n");
        forget(&origin);
        forget(&client);
    }
    assert_int_equal(w->answered, ARRAY_LEN(requests));
}

/* ---- bodies ---- */

static void bodies_pass_as_they_come(void **state)
{
    struct world *w = *state;
    ask(w, "PUT http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    expect_head(w, "PUT / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n" VIA
                   "Transfer-Encoding: chunked\r\n\r\n");
    say(w, &client, "5;x=y\r\nhello\r\n");
    raw_expect(w->loop, &origin, "5\r\nhello\r\n");
    say(w, &origin, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    raw_expect(w->loop, &client, "3\r\none\r\n");
    say(w, &client, "0\r\nTrailer: no\r\n\r\n");
    raw_expect(w->loop, &origin, "0\r\n\r\n");
    say(w, &origin, "3\r\ntwo\r\n0\r\n\r\n");
    raw_expect(w->loop, &client, "3\r\ntwo\r\n0\r\n\r\n");
    assert_null(strstr(origin.text, "Trailer"));
    expect_none_left(w);
    assert_int_equal(w->relays.sent_bytes, 5);
    assert_int_equal(w->relays.received_bytes, 6);
}

static void an_answer_that_ends_with_its_connection(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "HTTP/1.0 200 OK\r\n\r\nall of it");
    raw_close(&origin);
    raw_expect(w->loop, &client, "9\r\nall of it\r\n0\r\n\r\n");
}

static void answers_without_a_body(void **state)
{
    struct world *w = *state;
    ask(w, "HEAD http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "\r\n\r\n");
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n");
    raw_expect(w->loop, &client, "Content-Length: 12345\r\n\r\n");
    forget(&client);
    forget(&origin);
    begin(w);
    say(w, &origin, "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n");
    raw_expect(w->loop, &client, "304 Not Modified\r\nETag: x\r\n");
    raw_expect(w->loop, &client, "\r\n\r\n");
    forget(&client);
    forget(&origin);
    begin(w);
    say(w, &origin,
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
        "HTTP/1.1 204 No Content\r\n\r\n");
    raw_expect(w->loop, &client, "HTTP/1.1 204 No Content\r\n");
    assert_null(strstr(client.text, "Link"));
    expect_none_left(w);
    assert_int_equal(w->answered, 3);
}

/* Neither side is read while the other does not read: the memory of it is bounded. */
static void who_does_not_read_stops_the_other(void **state)
{
    struct world *w = *state;
    static char block[64 * 1024];
    memset(block, 'x', sizeof block);
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    size_t passed = 0;
    unsigned stuck = 0;
    while (passed < 64 * LARGE && stuck < 50) {
        ssize_t n = send(origin.fd, block, sizeof block, MSG_NOSIGNAL);
        passed += n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        run_for(w->loop, 2);
    }
    assert_true(stuck == 50);
    assert_true(net_backlog_stats(w->backlog).bytes < LARGE);
    raw_close(&client);
    expect_none_left(w);
}

/* Sends and reads so many bytes that each side has to wait for the other, and all of them come. */
static void pass_all(struct world *w, struct raw_peer *from, struct raw_peer *to)
{
    static char block[64 * 1024];
    size_t sent = 0;
    size_t got = 0;
    forget(to);
    for (int i = 0; i < 20000 && got < LARGE; i++) {
        size_t left = LARGE - sent < sizeof block ? LARGE - sent : sizeof block;
        ssize_t n = left > 0 ? send(from->fd, block, left, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        if (i % 50 == 49 || n <= 0) {
            raw_read(to);
            got += to->len;
            forget(to);
        }
        run_for(w->loop, n <= 0 ? 1 : 0);
    }
    assert_int_equal(got, LARGE);
}

static void slow_bodies_pass_whole(void **state)
{
    struct world *w = *state;
    char head[REQUEST_SIZE];
    (void)snprintf(head, sizeof head,
                   "PUT http://127.0.0.1:%%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
                   LARGE);
    ask(w, head);
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "\r\n\r\n");
    pass_all(w, &client, &origin);
    (void)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n.", LARGE + 1);
    say(w, &origin, head);
    raw_expect(w->loop, &client, "\r\n\r\n.");
    pass_all(w, &origin, &client);
    expect_none_left(w);
    assert_int_equal(w->relays.sent_bytes, LARGE);
    assert_int_equal(w->relays.received_bytes, LARGE + 1);
}

static void an_upload_waits_for_the_origin(void **state)
{
    struct world *w = *state;
    static char block[64 * 1024];
    ask(w, "PUT http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
    raw_accept(w->loop, w->listener, &origin);
    size_t passed = 0;
    unsigned stuck = 0;
    while (passed < 64 * LARGE && stuck < 50) {
        ssize_t n = send(client.fd, block, sizeof block, MSG_NOSIGNAL);
        passed += n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        run_for(w->loop, 2);
    }
    assert_true(stuck == 50);
    assert_true(net_backlog_stats(w->backlog).bytes < LARGE);
    raw_close(&origin);
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    expect_none_left(w);
}

static void an_answer_before_the_end_of_the_request(void **state)
{
    struct world *w = *state;
    ask(w, "PUT http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "abc");
    say(w, &origin, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    raw_expect(w->loop, &client, "\r\n\r\nno");
    raw_expect(w->loop, &client, NULL);
    expect_none_left(w);
    assert_int_equal(w->failures, 0);
}

static void each_request_of_a_connection_goes_its_own_way(void **state)
{
    struct world *w = *state;
    unsigned port;
    int listener = raw_listen(&port);
    char request[REQUEST_SIZE];
    (void)snprintf(request, sizeof request,
                   "GET http://127.0.0.1:%u/1 HTTP/1.1\r\nHost: x\r\n\r\n"
                   "GET http://127.0.0.1:%u/2 HTTP/1.1\r\nHost: x\r\n\r\n"
                   "GET http://127.0.0.1:%u/3 HTTP/1.1\r\nHost: x\r\n\r\n",
                   w->port, port, w->port);
    dial(w);
    raw_send(&client, request, strlen(request));
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "GET /1 ");
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
    raw_accept(w->loop, listener, &other);
    raw_expect(w->loop, &other, "GET /2 ");
    assert_null(strstr(origin.text, "/3"));
    say(w, &other, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
    raw_expect(w->loop, &origin, "GET /3 ");
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthree");
    raw_expect(w->loop, &client, "three");
    assert_true(strstr(client.text, "one") < strstr(client.text, "two"));
    assert_int_equal(origins_stats(w->origins).pools, 2);
    assert_int_equal(origins_stats(w->origins).open, 2);
    (void)close(listener);
}

/* ---- upgraded connections ---- */

static void ask_for_upgrade(struct world *w)
{
    ask(w, "GET http://127.0.0.1:%u/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
           "Upgrade: websocket\r\n\r\n");
    expect_head(w, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\n" VIA
                   "Connection: Upgrade\r\n\r\n");
}

static void agree(struct world *w)
{
    say(w, &origin,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\n\r\nfirst");
}

static void upgrade(struct world *w)
{
    ask_for_upgrade(w);
    agree(w);
    raw_expect(w->loop, &client, "\r\n\r\nfirst");
    assert_non_null(strstr(client.text, "Upgrade: websocket\r\n"));
    say(w, &client, "ping");
    raw_expect(w->loop, &origin, "ping");
}

static void an_upgraded_connection_passes_bytes(void **state)
{
    struct world *w = *state;
    upgrade(w);
    (void)shutdown(client.fd, SHUT_WR);
    raw_expect(w->loop, &origin, NULL);
    say(w, &origin, "last");
    raw_expect(w->loop, &client, "last");
    raw_close(&origin);
    raw_expect(w->loop, &client, NULL);
    expect_none_left(w);
}

static bool allows_all(void *data, const struct traffic_external *q)
{
    const struct world *w = data;
    assert_true(slice_eq(q->host, SLICE("127.0.0.1")));
    assert_int_equal(q->port, w->port);
    assert_false(q->https || q->tunnel);
    return true;
}

static bool allows_none(void *data, const struct traffic_external *q)
{
    return !allows_all(data, q);
}

static void other_rules_close_upgraded_connections(void **state)
{
    struct world *w = *state;
    upgrade(w);
    relays_review(&w->relays, allows_all, w);
    say(w, &origin, "more");
    raw_expect(w->loop, &client, "more");
    relays_review(&w->relays, allows_none, w);
    assert_true(list_empty(&w->relays.running));
    expect_ended(w, &origin);
    raw_expect(w->loop, &client, NULL);
}

/* Whatever the name was that led there. */
static void so_do_rules_that_name_the_address_no_more(void **state)
{
    struct world *w = *state;
    upgrade(w);
    forbidden = true;
    relays_review(&w->relays, allows_all, w);
    assert_true(list_empty(&w->relays.running));
    expect_ended(w, &origin);
    raw_expect(w->loop, &client, NULL);
}

/* What was asked before they came. */
static void other_rules_let_nothing_be_upgraded(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < 2; i++) {
        ask_for_upgrade(w);
        forbidden = i == 1;
        relays_review(&w->relays, i == 0 ? allows_none : allows_all, w);
        assert_false(list_empty(&w->relays.running));
        agree(w);
        raw_expect(w->loop, &client, "HTTP/1.1 403 ");
        assert_int_equal(w->failed, 403);
        assert_true(list_empty(&w->relays.running));
        forbidden = false;
        raw_close(&origin);
        raw_close(&client);
    }
    ask_for_upgrade(w);
    relays_review(&w->relays, allows_none, w);
    relays_review(&w->relays, allows_all, w);
    agree(w);
    raw_expect(w->loop, &client, "\r\n\r\nfirst");
}

static void other_rules_let_requests_end(void **state)
{
    struct world *w = *state;
    begin(w);
    relays_review(&w->relays, allows_none, w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    raw_expect(w->loop, &client, "\r\n\r\nhi");
}

/* HTTP in another form would go past the rules. */
static void no_other_protocol_is_upgraded_to(void **state)
{
    struct world *w = *state;
    ask(w, "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
           "Upgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n");
    expect_head(w, GOT);
}

/* ---- an origin that fails ---- */

static void nobody_listens(void **state)
{
    struct world *w = *state;
    (void)close(w->listener);
    w->listener = -1;
    ask(w, GET);
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "cannot be reached: ");
    assert_int_equal(w->failed, 502);
}

static void an_origin_that_goes_away_unanswered(void **state)
{
    struct world *w = *state;
    ask(w, "POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "\r\n\r\n");
    raw_close(&origin);
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "which may have been executed");
    expect_none_left(w);
}

static void an_origin_that_speaks_no_http(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "220 mail.example ESMTP\r\n\r\n");
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "sent an invalid answer");
}

/* Two framings, a bare line feed, a second answer: what could be read in two ways is not passed. */
static void answers_that_could_be_read_in_two_ways(void **state)
{
    struct world *w = *state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        begin(w);
        say(w, &origin, answers[i]);
        raw_expect(w->loop, &client, "HTTP/1.1 502 ");
        expect_none_left(w);
        raw_close(&origin);
        origin.fd = -1;
        raw_close(&client);
        client.fd = -1;
    }
    assert_int_equal(w->failures, ARRAY_LEN(answers));
}

static void an_answer_that_breaks_off(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    raw_expect(w->loop, &client, "half");
    raw_close(&origin);
    raw_expect(w->loop, &client, NULL);
    expect_none_left(w);
    assert_int_equal(w->failures, 0);
}

/* Its connection was kept, and closed by it meanwhile. */
static void a_kept_connection_that_is_dead_is_not_noticed(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    raw_expect(w->loop, &client, "hi");
    raw_close(&origin);
    origin.fd = -1;
    forget(&client);
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho");
    raw_expect(w->loop, &client, "ho");
    assert_int_equal(w->failures, 0);
}

static void nothing_moves(void **state)
{
    struct world *w = *state;
    begin(w);
    loop_skip(w->loop, IDLE_MS / 2);
    run_for(w->loop, 300);
    assert_false(list_empty(&w->relays.running));
    loop_skip(w->loop, IDLE_MS / 2);
    raw_expect(w->loop, &client, "HTTP/1.1 504 ");
    raw_expect(w->loop, &client, "--egress-idle");
    expect_ended(w, &origin);
    expect_none_left(w);
}

static void nothing_moves_any_more(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    raw_expect(w->loop, &client, "half");
    loop_skip(w->loop, IDLE_MS - 1000);
    say(w, &origin, "more");
    raw_expect(w->loop, &client, "halfmore");
    loop_skip(w->loop, IDLE_MS - 1000);
    run_for(w->loop, 300);
    assert_false(list_empty(&w->relays.running));
    loop_skip(w->loop, 2000);
    raw_expect(w->loop, &client, NULL);
    expect_ended(w, &origin);
    expect_none_left(w);
}

static void what_may_not_be_reached_is_not_dialled(void **state)
{
    struct world *w = *state;
    forbidden = true;
    ask(w, GET);
    raw_expect(w->loop, &client, "HTTP/1.1 403 ");
    raw_expect(w->loop, &client, "Whitelist");
    assert_int_equal(w->failed, 403);
    forbidden = false;
    assert_int_equal(accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), -1);
}

/* ---- a client that goes away ---- */

static void the_client_goes_while_it_is_dialled(void **state)
{
    struct world *w = *state;
    raw_fill(w->listener);
    ask(w, GET);
    run_for(w->loop, 50);
    assert_false(list_empty(&w->relays.running));
    raw_close(&client);
    expect_none_left(w);
    assert_int_equal(origins_stats(w->origins).open, 0);
}

static void the_client_goes_before_the_answer(void **state)
{
    struct world *w = *state;
    begin(w);
    raw_close(&client);
    expect_ended(w, &origin);
    expect_none_left(w);
}

static void the_client_goes_amidst_its_request(void **state)
{
    struct world *w = *state;
    ask(w, "PUT http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "abc");
    raw_close(&client);
    expect_ended(w, &origin);
    expect_none_left(w);
}

static void the_client_goes_amidst_the_answer(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    raw_expect(w->loop, &client, "half");
    raw_close(&client);
    expect_ended(w, &origin);
    expect_none_left(w);
}

static void a_bad_chunk_ends_the_request(void **state)
{
    struct world *w = *state;
    ask(w, "PUT http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "\r\n\r\n");
    say(w, &client, "zz\r\n");
    raw_expect(w->loop, &client, "HTTP/1.1 400 ");
    expect_ended(w, &origin);
    assert_null(strstr(origin.text, "0\r\n\r\n"));
    expect_none_left(w);
}

/* What runs is broken off in every phase. */
static void the_end_of_it_all(void **state)
{
    struct world *w = *state;
    begin(w);
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    raw_expect(w->loop, &client, "half");
    raw_connect(&other, http_server_address(w->server));
    say(w, &other, GET);
    run_for(w->loop, 20);
    relays_deinit(&w->relays);
    assert_true(list_empty(&w->relays.running));
    raw_expect(w->loop, &client, NULL);
    raw_expect(w->loop, &other, NULL);
}

/* ---- by way of another proxy ---- */

static void plain_requests_go_to_the_proxy_as_they_came(void **state)
{
    struct world *w = *state;
    ask(w,
        "GET http://far.example/a?b HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic x\r\n\r\n");
    expect_head(w, "GET http://far.example/a?b HTTP/1.1\r\nHost: far.example\r\n" VIA
                   "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n");
    say(w, &origin, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    forget(&origin);
    ask(w, "OPTIONS http://other.example:81 HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_head(w, "OPTIONS http://other.example:81 HTTP/1.1\r\nHost: other.example:81\r\n" VIA
                   "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n");
    assert_int_equal(origins_stats(w->origins).pools, 1);
    assert_int_equal(origins_stats(w->origins).open, 1);
}

static void a_proxy_that_wants_other_credentials(void **state)
{
    struct world *w = *state;
    ask(w, "GET http://far.example/ HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "\r\n\r\n");
    say(w, &origin, "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno");
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "wants other credentials");
    assert_null(strstr(client.text, "secret"));
    assert_null(strstr(client.text, "bWU6"));
    expect_none_left(w);
}

static void tls_goes_through_a_tunnel_of_the_proxy(void **state)
{
    struct world *w = *state;
    ask(w, "GET https://far.example/ HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, "\r\n\r\n");
    assert_memory_equal(origin.text, "CONNECT far.example:443 HTTP/1.1\r\n", 34);
    say(w, &origin, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    assert_null(strstr(client.text, "secret"));
}

/* ---- TLS ---- */

static void hello(void *data, struct http_exchange *x, const struct http_head *head)
{
    (void)data;
    const struct http_header *host = http_head_find(head, SLICE("Host"));
    assert_int_equal(http_respond(x, 200, SLICE("text/plain"), host->value, NULL, 0), 0);
}

static const struct http_server_handlers hello_handlers = {
    .on_request = hello,
    .on_refuse = on_refuse,
};

/* A server whose certificate names this address, and a world that trusts its authority. */
static struct http_server *open_tls(struct world *w, const char *address)
{
    const char *const ips[] = {address, NULL};
    struct err e = ERR_INIT;
    struct certs_pair ca;
    struct certs_pair pair;
    struct temp_dir dir;
    char path[256];
    temp_dir_init(&dir);
    certs_make_ca("origins' CA", &ca);
    certs_issue(&ca, &(struct certs_spec){.ips = ips}, &pair);
    temp_dir_write(&dir, "ca.crt", ca.cert, 0600);
    struct tls_config *tls = tls_config_new_server(
        &(struct tls_server_options){.cert = slice_str(pair.cert), .key = slice_str(pair.key)}, &e);
    const struct http_server_options o = {.address = "127.0.0.1:0",
                                          .tls = tls,
                                          .head_timeout_ms = LONG_MS,
                                          .idle_timeout_ms = LONG_MS,
                                          .write_timeout_ms = LONG_MS};
    struct http_server *s = http_server_new(w->loop, &o, &hello_handlers, NULL, &e);
    assert_non_null(s);
    tls_config_unref(tls);
    origins_free(w->origins);
    assert_true(open_origins(w, temp_dir_path(&dir, "ca.crt", path)));
    certs_free(&ca);
    certs_free(&pair);
    temp_dir_deinit(&dir);
    w->port = (unsigned)atoi(strchr(http_server_address(s), ':') + 1);
    return s;
}

#define GET_TLS                                                                                    \
    "GET / HTTP/1.1\r\nHost: localhost\r\nMesh-Real-Endpoint: https://127.0.0.1:%u/\r\n\r\n"

static void tls_is_spoken_and_resumed(void **state)
{
    struct world *w = *state;
    struct http_server *s = open_tls(w, "127.0.0.1");
    for (int i = 0; i < 2; i++) {
        ask(w, GET_TLS);
        raw_expect(w->loop, &client, "127.0.0.1:");
        assert_non_null(strstr(client.text, "HTTP/1.1 200 OK"));
        forget(&client);
        origins_forget(w->origins);
        assert_int_equal(origins_stats(w->origins).open, 0);
    }
    assert_int_equal(w->answered, 2);
    http_server_free(s);
}

static void a_certificate_of_another_name_is_refused(void **state)
{
    struct world *w = *state;
    struct http_server *s = open_tls(w, "127.0.0.2");
    ask(w, GET_TLS);
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "127.0.0.2");
    assert_int_equal(w->failed, 502);
    http_server_free(s);
}

static void authorities_that_cannot_be_read(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct origins_options o = {.ca_file = "/nonexistent/ca.crt", .reach = w->reach, .via = w->via};
    assert_null(origins_new(w->loop, &o, &e));
    assert_memory_equal(e.msg, "--egress-ca: ", 13);
    o.ca_file = "/dev/null";
    e = (struct err)ERR_INIT;
    assert_null(origins_new(w->loop, &o, &e));
    assert_memory_equal(e.msg, "--egress-ca: ", 13);
}

static void a_system_without_authorities(void **state)
{
    struct world *w = *state;
    origins_free(w->origins);
    setenv("SSL_CERT_FILE", "/nonexistent/bundle.pem", 1);
    bool opened = open_origins(w, NULL);
    unsetenv("SSL_CERT_FILE");
    assert_true(opened);
    ask(w, GET_TLS);
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "/nonexistent/bundle.pem");
    forget(&client);
    begin(w);
}

/* ---- bounds ---- */

/* One request to a port of its own, which is refused. */
static void many_origins_are_forgotten(void **state)
{
    struct world *w = *state;
    char request[REQUEST_SIZE];
    (void)close(w->listener);
    w->listener = -1;
    dial(w);
    for (unsigned i = 0; i < ORIGINS_MAX + 20; i++) {
        (void)snprintf(request, sizeof request,
                       "GET http://127.0.0.1:%u/%u HTTP/1.1\r\nHost: x\r\n\r\n", 1 + i % 1000, i);
        forget(&client);
        raw_send(&client, request, strlen(request));
        raw_expect(w->loop, &client, "\r\n\r\n");
        assert_true(origins_stats(w->origins).pools <= ORIGINS_MAX);
    }
    assert_int_equal(origins_stats(w->origins).pools, ORIGINS_MAX);
}

static void a_head_for_which_there_is_no_room(void **state)
{
    struct world *w = *state;
    static char request[40 * 1024];
    int len = snprintf(request, sizeof request,
                       "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nX: ", w->port);
    w->sent.max = 1000;
    memset(request + len, 'x', 30000);
    (void)snprintf(request + len + 30000, 5, "\r\n\r\n");
    dial(w);
    raw_send(&client, request, strlen(request));
    raw_expect(w->loop, &client, "HTTP/1.1 503 ");
    expect_none_left(w);
}

/* Whatever fails for want of memory: the client hears of it, or is left, and nothing else happens.
 */
static bool relay_scenario(void *data)
{
    struct world *w = data;
    unsigned before = w->answered;
    long paused = alloc_sweep_pause();
    client.fd = -1;
    dial(w);
    alloc_sweep_resume(paused);
    say(w, &client, GET);
    for (int i = 0; i < 4000 && w->answered == before && !ended(&client); i++) {
        run_for(w->loop, 1);
        if (origin.fd < 0) {
            memset(&origin, 0, sizeof origin);
            origin.fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        }
        if (origin.fd >= 0) {
            raw_read(&origin);
        }
        if (strstr(origin.text, "\r\n\r\n") != NULL) {
            say(w, &origin, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
            forget(&origin);
        }
        raw_read(&client);
        if (strstr(client.text, "HTTP/1.1 50") != NULL) {
            break;
        }
    }
    bool well = w->answered == before + 1;
    raw_close(&client);
    if (origin.fd >= 0) {
        raw_close(&origin);
    }
    paused = alloc_sweep_pause();
    expect_none_left(w);
    alloc_sweep_resume(paused);
    return well;
}

static void without_memory(void **state)
{
    assert_true(sweep_allocations(relay_scenario, *state) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(heads_pass_without_what_is_not_the_origins),
        TEST(the_header_way_goes_where_the_header_says),
        TEST(who_names_no_path_asks_for_the_root),
        TEST(bodies_pass_as_they_come),
        TEST(an_answer_that_ends_with_its_connection),
        TEST(answers_without_a_body),
        TEST(who_does_not_read_stops_the_other),
        TEST(slow_bodies_pass_whole),
        TEST(an_upload_waits_for_the_origin),
        TEST(an_answer_before_the_end_of_the_request),
        TEST(each_request_of_a_connection_goes_its_own_way),
        TEST(an_upgraded_connection_passes_bytes),
        TEST(other_rules_close_upgraded_connections),
        TEST(so_do_rules_that_name_the_address_no_more),
        TEST(other_rules_let_nothing_be_upgraded),
        TEST(other_rules_let_requests_end),
        TEST(no_other_protocol_is_upgraded_to),
        TEST(nobody_listens),
        TEST(an_origin_that_goes_away_unanswered),
        TEST(an_origin_that_speaks_no_http),
        TEST(answers_that_could_be_read_in_two_ways),
        TEST(an_answer_that_breaks_off),
        TEST(a_kept_connection_that_is_dead_is_not_noticed),
        TEST(nothing_moves),
        TEST(nothing_moves_any_more),
        TEST(what_may_not_be_reached_is_not_dialled),
        TEST(the_client_goes_while_it_is_dialled),
        TEST(the_client_goes_before_the_answer),
        TEST(the_client_goes_amidst_its_request),
        TEST(the_client_goes_amidst_the_answer),
        TEST(a_bad_chunk_ends_the_request),
        TEST(the_end_of_it_all),
        cmocka_unit_test_setup_teardown(plain_requests_go_to_the_proxy_as_they_came, setup_via,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_proxy_that_wants_other_credentials, setup_via, teardown),
        cmocka_unit_test_setup_teardown(tls_goes_through_a_tunnel_of_the_proxy, setup_via,
                                        teardown),
        TEST(tls_is_spoken_and_resumed),
        TEST(a_certificate_of_another_name_is_refused),
        TEST(authorities_that_cannot_be_read),
        TEST(a_system_without_authorities),
        TEST(many_origins_are_forgotten),
        TEST(a_head_for_which_there_is_no_room),
        TEST(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
