/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_test.c - the whole listener, between clients and origins that are sockets in the test's
 * own hands, with traffic documents in force. The machine's loopback counts as any other place,
 * unless a test says otherwise (policies_name_address is wrapped).
 */
#include "egress/egress.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "fake_clock.h"
#include "loop_fixture.h"
#include "net/address.h"
#include "raw_peer.h"
#include "temp_dir.h"
#include "traffic_document.h"

enum { TEXT_SIZE = 4096, TUNNELS = 3 };

#define TOKEN "0123456789abcdef0123"
#define BASIC "Basic Y21lc2g6MDEyMzQ1Njc4OWFiY2RlZjAxMjM=" /* cmesh:TOKEN */
/* To the origin, which is another matter. */
#define AUTHORIZED "Authorization: Basic Y21lc2g6MDEyMzQ1Njc4OWFiY2RlZjAxMjM=\r\n"

struct world {
    struct net_loop *loop;
    struct fake_clock clock;
    struct temp_dir dir;
    char token_path[256];
    struct localproxy_flags flags;
    struct listener_secrets *secrets;
    struct policies *policies;
    struct egress *egress;
    char address[NET_ADDRESS_MAX]; /* where clients come */
    int listener;                  /* the origin's */
    unsigned port;
    bool drained;
};

static struct raw_peer client;
static struct raw_peer origin;
static struct raw_peer other;

static bool protected;

bool __real_policies_name_address(const struct policies *p, struct slice address, unsigned port);
bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port);
bool __wrap_policies_name_address(const struct policies *p, struct slice address, unsigned port)
{
    return !protected || __real_policies_name_address(p, address, port);
}

/* ---- set-up ---- */

static void on_drained(void *data)
{
    struct world *w = data;
    w->drained = true;
}

static struct egress *open_egress(struct world *w, struct err *e)
{
    static const struct url api = {.https = true, .host = "api.example", .port = 6443};
    const struct egress_options o = {
        .flags = &w->flags,
        .server = &api,
        .own = {"127.0.0.1:1"},
        .secrets = w->secrets,
        .policies = w->policies,
        .clock = &w->clock.clock,
        .on_drained = on_drained,
        .data = w,
    };
    return egress_new(w->loop, &o, e);
}

static void open_world(struct world *w)
{
    struct err e = ERR_INIT;
    const struct policies_options po = {.clock = &w->clock.clock, .seed = 1};
    w->secrets = listener_secrets_new(w->loop, &w->flags, 0, &e);
    w->policies = policies_new(w->loop, &po, &e);
    assert_true(w->secrets != NULL && w->policies != NULL);
    w->egress = open_egress(w, &e);
    if (w->egress == NULL) {
        fail_msg("%s", e.msg);
    }
    (void)snprintf(w->address, sizeof w->address, "127.0.0.1%s",
                   strrchr(egress_address(w->egress), ':'));
}

static void close_world(struct world *w)
{
    egress_free(w->egress);
    policies_free(w->policies);
    listener_secrets_free(w->secrets);
    w->egress = NULL;
    w->policies = NULL;
    w->secrets = NULL;
    fake_clock_forget(&w->clock);
}

/* Not open yet. */
static int setup_closed(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(loop_setup((void **)&w->loop), 0);
    fake_clock_init(&w->clock, w->loop);
    temp_dir_init(&w->dir);
    w->flags = (struct localproxy_flags){
        .egress = "127.0.0.1:0", .egress_max_tunnels = TUNNELS, .egress_idle_s = 3600};
    protected = false;
    client.fd = origin.fd = other.fd = -1;
    w->listener = raw_listen(&w->port);
    *state = w;
    return 0;
}

static int setup(void **state)
{
    int rc = setup_closed(state);
    open_world(*state);
    return rc;
}

/* From everywhere, with a token. */
static int setup_token(void **state)
{
    int rc = setup_closed(state);
    struct world *w = *state;
    temp_dir_write(&w->dir, "token", TOKEN "\n", 0600);
    w->flags.token_file = temp_dir_path(&w->dir, "token", w->token_path);
    w->flags.egress = "0.0.0.0:0";
    open_world(w);
    return rc;
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
    temp_dir_deinit(&w->dir);
    int rc = loop_free(w->loop);
    free(w);
    return rc;
}

/* ---- rules, clients and origins ---- */

/* In `text` "%u" is the origin's port; the caller frees. */
static char *with_port(const struct world *w, const char *text)
{
    char *out = calloc(1, TEXT_SIZE);
    size_t len = 0;
    assert_non_null(out);
    for (const char *c = text; *c != '\0'; c++) {
        if (c[0] == '%' && c[1] == 'u') {
            len += (size_t)snprintf(out + len, TEXT_SIZE - len, "%u", w->port);
            c++;
        } else {
            out[len++] = *c;
        }
        assert_true(len < TEXT_SIZE - 8);
    }
    return out;
}

/* The spec of a document; NULL: none is in force from now on. */
static void put_in_force(struct world *w, const char *spec)
{
    if (spec == NULL) {
        assert_int_equal(policies_set(w->policies, NULL), 0);
        return;
    }
    char *text = with_port(w, spec);
    struct traffic *t = traffic_document(1, text);
    assert_int_equal(policies_set(w->policies, t), 0);
    traffic_unref(t);
    free(text);
}

#define BREAKER(rules) "{\"breakers\":[{\"name\":\"b\",\"spec\":{\"selector\":{}," rules "}}]}"
#define FAULTS(rules)                                                                              \
    "{\"faults\":[{\"name\":\"f\",\"spec\":{\"selector\":{},\"httpFault\":[" rules "]}}]}"
#define INTERCEPT(type, content)                                                                   \
    BREAKER("\"trafficInterceptRules\":[{\"name\":\"i\",\"interceptType\":\"" type                 \
            "\",\"contentType\":\"Normal\","                                                       \
            "\"contents\":[\"" content "\"],\"methods\":[\"*\"]}]")
#define HTTP(more) "\"match\":{\"httpMatch\":[{\"host\":{\"exact\":\"127.0.0.1:%u\"}" more "}]}"

static void say(struct world *w, struct raw_peer *p, const char *text)
{
    char *bytes = with_port(w, text);
    raw_send(p, bytes, strlen(bytes));
    free(bytes);
}

static void connect_to(struct world *w, struct raw_peer *p)
{
    if (p->fd >= 0) {
        raw_close(p);
    }
    raw_connect(p, w->address);
}

/* On a connection of its own. */
static void ask(struct world *w, const char *request)
{
    connect_to(w, &client);
    say(w, &client, request);
}

static void forget(struct raw_peer *p)
{
    p->len = 0;
    p->text[0] = '\0';
}

/* The origin has the request. */
static void accept_origin(struct world *w, const char *text)
{
    if (origin.fd >= 0) {
        raw_close(&origin);
    }
    raw_accept(w->loop, w->listener, &origin);
    raw_expect(w->loop, &origin, text);
}

static void expect_not_dialled(const struct world *w)
{
    assert_int_equal(accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), -1);
}

/* Localproxy answers itself, and nothing is dialled. */
static void expect_own(struct world *w, unsigned code, const char *kind, const char *why)
{
    char line[64];
    (void)snprintf(line, sizeof line, "HTTP/1.1 %u ", code);
    raw_expect(w->loop, &client, line);
    (void)snprintf(line, sizeof line, "Cmesh-Egress: %s\r\n", kind);
    raw_expect(w->loop, &client, line);
    raw_expect(w->loop, &client, "\r\n\r\ncmesh: ");
    raw_expect(w->loop, &client, why);
    raw_expect(w->loop, &client, "\n");
    expect_not_dialled(w);
}

#define GET "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n"
#define CONNECT "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: x\r\n\r\n"
#define BY_HEADER                                                                                  \
    "GET / HTTP/1.1\r\nHost: localhost:15002\r\nMesh-Real-Endpoint: "                              \
    "http://127.0.0.1:%u/real\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static void expect_passes(struct world *w)
{
    ask(w, GET);
    accept_origin(w, "\r\n\r\n");
    say(w, &origin, OK);
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    assert_null(strstr(client.text, "Cmesh-Egress"));
}

static void open_tunnel(struct world *w)
{
    ask(w, CONNECT);
    raw_expect(w->loop, &client, "HTTP/1.1 200 ");
    raw_expect(w->loop, &client, "\r\n\r\n");
    forget(&client);
    say(w, &client, "ping");
    accept_origin(w, "ping");
    say(w, &origin, "pong");
    raw_expect(w->loop, &client, "pong");
}

static void expect_metric(const struct world *w, const char *line)
{
    struct buf out = BUF_INIT(1024 * 1024);
    assert_int_equal(egress_write_metrics(w->egress, &out), 0);
    if (strstr(buf_cstr(&out), line) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", line, buf_cstr(&out));
    }
    buf_reset(&out);
}

#define OF_HOST(result, count)                                                                     \
    "cmesh_proxy_egress_requests_total{host=\"127.0.0.1\",result=\"" result "\"} " count "\n"

static double number(const cJSON *root, const char *key)
{
    const cJSON *egress = cJSON_GetObjectItemCaseSensitive(root, "egress");
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(egress, key);
    assert_true(cJSON_IsNumber(n));
    return n->valuedouble;
}

/* ---- three ways ---- */

static void three_ways_lead_to_the_origin(void **state)
{
    struct world *w = *state;
    expect_passes(w);
    ask(w, BY_HEADER);
    accept_origin(w, "GET /real HTTP/1.1\r\n");
    raw_expect(w->loop, &origin, "\r\n\r\n");
    assert_null(strstr(origin.text, "Mesh-Real-Endpoint"));
    say(w, &origin, OK);
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    open_tunnel(w);
    expect_metric(w, OF_HOST("answered", "3"));
    expect_metric(w, "cmesh_proxy_egress_tunnels 1\n");
    expect_metric(w, "cmesh_proxy_egress_tunnels_total 1\n");
    expect_metric(w, "cmesh_proxy_egress_bytes_total{direction=\"sent\"} 4\n");
    expect_metric(w, "cmesh_proxy_egress_bytes_total{direction=\"received\"} 8\n");
    cJSON *root = cJSON_CreateObject();
    egress_describe(w->egress, true, root);
    assert_int_equal((int)number(root, "requests"), 3);
    assert_int_equal((int)number(root, "refused"), 0);
    assert_int_equal((int)number(root, "failed"), 0);
    assert_int_equal((int)number(root, "tunnels"), 1);
    assert_int_equal((int)number(root, "inFlight"), 1);
    cJSON_Delete(root);
}

static void without_a_listener_that_is_said(void **state)
{
    (void)state;
    struct control_egress_status s;
    cJSON *root = cJSON_CreateObject();
    egress_describe(NULL, true, root);
    control_egress_status_read(root, &s);
    assert_true(s.known);
    assert_string_equal(s.address, "");
    cJSON_Delete(root);
}

static void requests_that_are_none_for_a_proxy(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *request;
        const char *why;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "this is an HTTP proxy"},
        {"GET http://me:secret@127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", ""},
        {"GET ftp://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", ""},
        {"GET http://127.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", ""},
        {"GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nMesh-Real-Endpoint: http://b/\r\n\r\n",
         ""},
        {"GET / HTTP/1.1\r\nHost: x\r\nMesh-Real-Endpoint: http://127.0.0.1:%u/\r\n"
         "mesh-real-endpoint: http://b/\r\n\r\n",
         ""},
        {"CONNECT 127.0.0.1:0 HTTP/1.1\r\nHost: x\r\n\r\n", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ask(w, rows[i].request);
        expect_own(w, 400, "invalid", rows[i].why);
        assert_null(strstr(client.text, "secret"));
    }
    cJSON *root = cJSON_CreateObject();
    egress_describe(w->egress, true, root);
    assert_int_equal((int)number(root, "refused"), (int)ARRAY_LEN(rows));
    cJSON_Delete(root);
}

#define POST "POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n"

/* The server refuses what two programs could read in two ways. */
static void smuggled_requests_are_refused(void **state)
{
    struct world *w = *state;
    static const char *const requests[] = {
        POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        POST "Transfer-Encoding: xchunked\r\n\r\n",
        POST "Transfer-Encoding : chunked\r\n\r\n",
        "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nX: a\nY: b\r\n\r\n",
        "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n X: folded\r\n\r\n",
        "GET http://127.0.0.1:%u/#f HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET http://127.0.0.1:%u/ HTTP/2.0\r\nHost: x\r\n\r\n",
        "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd",
        "CONNECT http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        ask(w, requests[i]);
        raw_expect(w->loop, &client, NULL);
        if (strncmp(client.text, "HTTP/1.1 400 ", 13) != 0 &&
            strncmp(client.text, "HTTP/1.1 50", 11) != 0) {
            fail_msg("%s: %s", requests[i], client.text);
        }
        expect_not_dialled(w);
    }
}

/* ---- who asks ---- */

static void a_token_is_asked_for_on_other_addresses(void **state)
{
    struct world *w = *state;
    static const char *const wrong[] = {
        "X: y\r\n",
        AUTHORIZED,
        "Proxy-Authorization: Basic Y21lc2g6eA==\r\n",
        "Proxy-Authorization: Bearer x\r\n",
        "Proxy-Authorization: Bearer \r\n",
    };
    char request[512];
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        (void)snprintf(request, sizeof request,
                       "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: x\r\n%s\r\n", w->port, wrong[i]);
        ask(w, request);
        expect_own(w, 407, "invalid", "token");
        assert_non_null(strstr(client.text, "Proxy-Authenticate: Basic realm=\"cmesh\"\r\n"));
        raw_expect(w->loop, &client, NULL);
    }
    ask(w,
        "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " BASIC "\r\n\r\n");
    accept_origin(w, "\r\n\r\n");
    assert_null(strstr(origin.text, "Proxy-Authorization"));
    assert_null(strstr(origin.text, "Y21lc2g6"));
    ask(w, "CONNECT 127.0.0.1:%u HTTP/1.1\r\nProxy-Authorization: Bearer " TOKEN
           "\r\nHost: x\r\n\r\n");
    raw_expect(w->loop, &client, "HTTP/1.1 200 ");
}

static void without_a_token_only_the_loopback_is_served(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    open_world(w);
    w->flags.egress = "0.0.0.0:0";
    assert_null(open_egress(w, &e));
    assert_int_equal(e.code, -EINVAL);
    assert_memory_equal(e.msg, "--egress: ", 10);
    assert_non_null(strstr(e.msg, "--token-file=off"));
}

static void flags_that_make_no_sense(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    char address[32];
    char url[48];
    open_world(w);
    (void)close(w->listener);
    w->listener = -1;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", w->port);
    (void)snprintf(url, sizeof url, "http://u:secret@localhost:%u", w->port);
    w->flags.egress = address;
    w->flags.egress_via = url;
    assert_null(open_egress(w, &e));
    assert_int_equal(e.code, -ELOOP);
    assert_null(strstr(e.msg, "secret"));
    w->flags.egress_via = "socks5://u:secret@x";
    e = (struct err)ERR_INIT;
    assert_null(open_egress(w, &e));
    assert_memory_equal(e.msg, "--egress-via", 12);
    assert_null(strstr(e.msg, "secret"));
    w->flags.egress_via = NULL;
    w->flags.egress_ca = "/nonexistent/ca.crt";
    e = (struct err)ERR_INIT;
    assert_null(open_egress(w, &e));
    assert_memory_equal(e.msg, "--egress-ca", 11);
    w->flags.egress_ca = NULL;
    w->flags.egress = egress_address(w->egress);
    e = (struct err)ERR_INIT;
    assert_null(open_egress(w, &e));
    assert_memory_equal(e.msg, "--egress: ", 10);
}

static void pages_of_browsers_cannot_use_the_header(void **state)
{
    struct world *w = *state;
    static const char *const marks[] = {"Origin: http://evil.example\r\n", "Origin: null\r\n",
                                        "Sec-Fetch-Site: same-origin\r\n"};
    char request[512];
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        (void)snprintf(request, sizeof request,
                       "GET / HTTP/1.1\r\nHost: localhost:15002\r\n%s"
                       "Mesh-Real-Endpoint: http://127.0.0.1:%u/\r\n\r\n",
                       marks[i], w->port);
        ask(w, request);
        expect_own(w, 403, "refused", "a web page");
    }
    ask(w, "GET / HTTP/1.1\r\nHost: evil.example:15002\r\n"
           "Mesh-Real-Endpoint: http://127.0.0.1:%u/\r\n\r\n");
    expect_own(w, 403, "refused", "a web page");
    ask(w, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
           "Mesh-Real-Endpoint: http://127.0.0.1:%u/\r\n\r\n");
    accept_origin(w, "\r\n\r\n");
    ask(w, "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nOrigin: http://a.example\r\n\r\n");
    accept_origin(w, "Origin: http://a.example\r\n");
}

static void a_request_that_comes_back_is_a_loop(void **state)
{
    struct world *w = *state;
    char request[512];
    ask(w, GET);
    accept_origin(w, "\r\n\r\n");
    const char *via = strstr(origin.text, "Via: 1.1 cmesh-");
    assert_non_null(via);
    (void)snprintf(request, sizeof request,
                   "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\n%.*s\r\n\r\n", w->port,
                   (int)strcspn(via, "\r"), via);
    ask(w, request);
    expect_own(w, 508, "invalid", "come back");
    ask(w, "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nVia: 1.1 cmesh\r\n\r\n");
    accept_origin(w, "Via: 1.1 cmesh\r\n");
}

/* ---- what may be reached ---- */

static void this_machine_is_reached_only_by_name_of_a_rule(void **state)
{
    struct world *w = *state;
    protected = true;
    ask(w, GET);
    expect_own(w, 403, "refused", "Whitelist");
    ask(w, CONNECT);
    expect_own(w, 403, "refused", "Whitelist");
    ask(w, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_own(w, 403, "refused", "Whitelist");
    put_in_force(w, INTERCEPT("Whitelist", "127.0.0.1:%u"));
    expect_passes(w);
    open_tunnel(w);
    put_in_force(w, INTERCEPT("Whitelist", "elsewhere.example"));
    raw_expect(w->loop, &client, NULL);
    ask(w, GET);
    expect_own(w, 403, "refused", "Whitelist");
    expect_metric(w, OF_HOST("refused", "1")); /* the others before it had answered */
}

/* No rule can lead around the rules. */
static void localproxy_and_the_api_server_are_never_reached(void **state)
{
    struct world *w = *state;
    char request[256];
    (void)snprintf(request, sizeof request, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", w->address);
    ask(w, request);
    expect_own(w, 403, "refused", "localproxy itself");
    ask(w, "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_own(w, 403, "refused", "localproxy itself");
    ask(w, "GET https://api.example:6443/api HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_own(w, 403, "refused", "the API server");
}

/* ---- rules that allow and forbid ---- */

#define BY_RULE "CircuitBreaker \"b\" does not allow requests to 127.0.0.1:"

static void what_is_not_listed_is_refused_and_not_dialled(void **state)
{
    struct world *w = *state;
    put_in_force(w, INTERCEPT("Whitelist", "good.example"));
    ask(w, GET);
    expect_own(w, 403, "refused", BY_RULE);
    ask(w, CONNECT);
    expect_own(w, 403, "refused", BY_RULE);
    ask(w, BY_HEADER);
    expect_own(w, 403, "refused", BY_RULE);
    put_in_force(w, NULL);
    expect_passes(w);
    open_tunnel(w);
    put_in_force(w, INTERCEPT("Blacklist", "127.0.0.1:%u"));
    raw_expect(w->loop, &client, NULL);
    raw_expect(w->loop, &origin, NULL);
    ask(w, GET);
    expect_own(w, 403, "refused", BY_RULE);
    put_in_force(w, INTERCEPT("Blacklist", "bad.example"));
    expect_passes(w);
    cJSON *root = cJSON_CreateObject();
    egress_describe(w->egress, true, root);
    assert_int_equal((int)number(root, "refused"), 4);
    cJSON_Delete(root);
}

/* Clients show the first line alone of an answer to CONNECT; of others they have the body. */
static void the_first_line_tells_why_there_is_no_tunnel(void **state)
{
    struct world *w = *state;
    put_in_force(w, BREAKER("\"trafficInterceptRules\":[{\"name\":\"\u00e9\",\"interceptType\":"
                            "\"Blacklist\",\"contentType\":"
                            "\"Normal\",\"contents\":[\"127.0.0.1:%u\"],\"methods\":[\"*\"]}]"));
    ask(w, CONNECT);
    raw_expect(w->loop, &client, "HTTP/1.1 403 Forbidden: cmesh: " BY_RULE);
    expect_own(w, 403, "refused", "rule \"\u00e9\" ");
    assert_null(memchr(client.text, '\xc3', strcspn(client.text, "\r")));
    ask(w, GET);
    raw_expect(w->loop, &client, "HTTP/1.1 403 Forbidden\r\n");
    put_in_force(w, FAULTS("{\"name\":\"i\"," HTTP(
                        "") ",\"abort\":{\"httpStatus\":500,\"percent\":\"100\"}}"));
    ask(w, CONNECT);
    raw_expect(w->loop, &client, "HTTP/1.1 500 Internal Server Error: cmesh: ");
}

/* A connection that was opened under other rules is not used again. */
static void other_rules_close_kept_connections(void **state)
{
    struct world *w = *state;
    expect_passes(w);
    put_in_force(w, INTERCEPT("Blacklist", "bad.example"));
    raw_expect(w->loop, &origin, NULL);
    expect_passes(w);
}

/* ---- limits ---- */

static void what_is_over_the_limit_waits(void **state)
{
    struct world *w = *state;
    put_in_force(
        w,
        BREAKER(
            "\"rateLimitings\":[{\"name\":\"l\",\"restRules\":[{\"url\":\"http://127.0.0.1:%u/*\","
            "\"method\":\"GET\"}],\"triggerPolicy\":\"LimiterOnly\",\"bucket\":{\"burst\":1,"
            "\"limit\":1,\"interval\":\"2000ms\"}}]"));
    expect_passes(w);
    ask(w, GET);
    expect_own(w, 429, "limited", "l");
    raw_expect(w->loop, &client, "Retry-After: 2\r\n");
    ask(w, "POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    raw_expect(w->loop, &origin, "POST / ");
    say(w, &origin, OK);
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    fake_clock_pass(&w->clock, 10000);
    forget(&origin);
    ask(w, GET);
    raw_expect(w->loop, &origin, "GET / ");
    expect_metric(w, OF_HOST("limited", "1"));
    expect_metric(w, OF_HOST("answered", "2"));
}

/* What fails counts, and opens the breaker; what localproxy forbids does not. */
static void an_origin_that_fails_opens_the_breaker(void **state)
{
    struct world *w = *state;
    put_in_force(
        w,
        BREAKER(
            "\"rateLimitings\":[{\"name\":\"h\",\"restRules\":[{\"url\":\"http://127.0.0.1:%u/*\","
            "\"method\":\"*\"}],\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":"
            "\"10000ms\","
            "\"minimumRequests\":2,\"errorPercent\":50},\"recoverPolicy\":{\"type\":"
            "\"SleepingWindow\",\"sleepingWindowSize\":\"30000ms\"}}]"));
    for (int i = 0; i < 2; i++) {
        ask(w, GET);
        accept_origin(w, "\r\n\r\n");
        raw_close(&origin);
        origin.fd = -1;
        /* A GET on a kept connection would be repeated; these are new ones. */
        raw_expect(w->loop, &client, "HTTP/1.1 502 ");
        raw_expect(w->loop, &client, "Cmesh-Egress: failed\r\n");
    }
    ask(w, GET);
    expect_own(w, 429, "limited", "h");
    fake_clock_pass(&w->clock, 30000);
    expect_passes(w);
    expect_metric(w, OF_HOST("failed", "2"));
}

static void so_many_are_under_way(void **state)
{
    struct world *w = *state;
    put_in_force(
        w,
        BREAKER(
            "\"rateLimitings\":[{\"name\":\"m\",\"restRules\":[{\"url\":\"http://127.0.0.1:%u/*\","
            "\"method\":\"*\"}],\"triggerPolicy\":\"LimiterOnly\",\"maxInFlight\":1}]"));
    ask(w, GET);
    accept_origin(w, "\r\n\r\n");
    connect_to(w, &other);
    say(w, &other, GET);
    raw_expect(w->loop, &other, "HTTP/1.1 429 ");
    say(w, &origin, OK);
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    ask(w, GET);
    raw_expect(w->loop, &origin, "GET / HTTP/1.1");
    raw_close(&client); /* gives its place back by leaving */
    client.fd = -1;
    raw_expect(w->loop, &origin, NULL);
    expect_passes(w);
}

/* ---- faults ---- */

#define HEALTH(what)                                                                               \
    BREAKER(                                                                                       \
        "\"rateLimitings\":[{\"name\":\"h\",\"restRules\":[{\"url\":\"http://127.0.0.1:%u/*\","    \
        "\"method\":\"*\"}],\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":"            \
        "\"10000ms\","                                                                             \
        "\"minimumRequests\":1," what "},\"recoverPolicy\":{\"type\":\"SleepingWindow\","          \
        "\"sleepingWindowSize\":\"30000ms\"}}]")

static void an_answer_of_500_is_a_failure(void **state)
{
    struct world *w = *state;
    put_in_force(w, HEALTH("\"errorPercent\":50"));
    ask(w, GET);
    accept_origin(w, "\r\n\r\n");
    say(w, &origin, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
    raw_expect(w->loop, &client, "HTTP/1.1 500 Oops");
    ask(w, GET);
    expect_own(w, 429, "limited", "h");
}

/* What may not be reached says nothing of how it is. */
static void what_is_forbidden_is_no_failure(void **state)
{
    struct world *w = *state;
    put_in_force(
        w,
        BREAKER(
            "\"rateLimitings\":[{\"name\":\"h\",\"restRules\":[{\"url\":\"http://localhost:%u/*\","
            "\"method\":\"*\"}],\"triggerPolicy\":\"Health\",\"healthPolicy\":{\"window\":"
            "\"10000ms\","
            "\"minimumRequests\":1,\"errorPercent\":1},\"recoverPolicy\":{\"type\":"
            "\"Manual\"}}]"));
    protected = true;
    for (int i = 0; i < 2; i++) {
        ask(w, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n");
        expect_own(w, 403, "refused", "localhost");
    }
    protected = false;
    ask(w, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n");
    accept_origin(w, "\r\n\r\n");
}

/* Whoever asks may do so again, or must look first. */
static void what_may_have_been_executed_is_said(void **state)
{
    struct world *w = *state;
    static const char executed[] = "may have been executed";
    static const char *const requests[] = {
        GET, "POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        ask(w, requests[i]);
        accept_origin(w, "\r\n\r\n");
        raw_close(&origin);
        origin.fd = -1;
        raw_expect(w->loop, &client, "HTTP/1.1 502 ");
        raw_expect(w->loop, &client, "\r\n\r\ncmesh: http://127.0.0.1:");
        raw_expect(w->loop, &client, "closed the connection");
        assert_int_equal(strstr(client.text, executed) != NULL, i == 1);
    }
}

/* Its client did not wait for the connection any longer. */
static void a_host_that_is_given_up_was_slow(void **state)
{
    struct world *w = *state;
    put_in_force(w, HEALTH("\"slowCallDuration\":\"1000ms\",\"slowCallPercent\":100"));
    raw_fill(w->listener);
    ask(w, CONNECT);
    while (egress_busy(w->egress) == 0) {
        run_for(w->loop, 1);
    }
    fake_clock_pass(&w->clock, 1000);
    raw_close(&client);
    client.fd = -1;
    while (egress_busy(w->egress) > 0) {
        run_for(w->loop, 1);
    }
    ask(w, GET);
    raw_expect(w->loop, &client, "HTTP/1.1 429 ");
}

static void an_upgraded_connection_ends_when_rules_forbid_it(void **state)
{
    struct world *w = *state;
    ask(w, "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
           "Upgrade: websocket\r\n\r\n");
    accept_origin(w, "Upgrade: websocket\r\n");
    say(w, &origin,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\n\r\nfirst");
    raw_expect(w->loop, &client, "first");
    put_in_force(w, INTERCEPT("Blacklist", "other.example"));
    say(w, &client, "more");
    raw_expect(w->loop, &origin, "more");
    put_in_force(w, INTERCEPT("Blacklist", "127.0.0.1:%u"));
    raw_expect(w->loop, &client, NULL);
    raw_expect(w->loop, &origin, NULL);
}

static void an_abort_is_the_answer(void **state)
{
    struct world *w = *state;
    put_in_force(
        w,
        FAULTS("{\"name\":\"r\"," HTTP(
            ",\"path\":{\"exact\":\"/\"}") ","
                                           "\"abort\":{\"httpStatus\":503,\"percent\":\"100\"}}"));
    ask(w, GET);
    expect_own(w, 503, "fault", "f");
    expect_metric(w, OF_HOST("aborted", "1"));
    ask(w, BY_HEADER);
    accept_origin(w, "GET /real ");
    open_tunnel(w);
    put_in_force(w, FAULTS("{\"name\":\"r\"," HTTP(
                        "") ",\"abort\":{\"httpStatus\":418,\"percent\":\"100\"}}"));
    ask(w, CONNECT);
    expect_own(w, 418, "fault", "f");
}

static void a_delay_is_waited_for(void **state)
{
    struct world *w = *state;
    put_in_force(w, FAULTS("{\"name\":\"r\"," HTTP(
                        "") ",\"delay\":{\"fixedDelay\":\"5000ms\",\"percent\":\"100\"}}"));
    ask(w, "POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    connect_to(w, &other);
    say(w, &other, CONNECT);
    for (int i = 0; i < 4000 && delays_count(egress_delays(w->egress)) < 2; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(delays_count(egress_delays(w->egress)), 2);
    fake_clock_pass(&w->clock, 4999);
    expect_not_dialled(w);
    fake_clock_pass(&w->clock, 1);
    raw_expect(w->loop, &other, "HTTP/1.1 200 ");
    say(w, &other, "x");
    accept_origin(w, "");
    raw_accept(w->loop, w->listener, &other); /* the second of both, in whatever order */
    assert_int_equal(delays_count(egress_delays(w->egress)), 0);
}

static void begin_delay(struct world *w)
{
    put_in_force(w, FAULTS("{\"name\":\"r\"," HTTP(
                        "") ",\"delay\":{\"fixedDelay\":\"5000ms\",\"percent\":\"100\"},"
                            "\"abort\":{\"httpStatus\":500,\"percent\":\"100\"}}"));
    ask(w, GET);
    for (int i = 0; i < 4000 && delays_count(egress_delays(w->egress)) == 0; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(delays_count(egress_delays(w->egress)), 1);
}

static void a_delay_and_then_an_abort(void **state)
{
    struct world *w = *state;
    begin_delay(w);
    fake_clock_pass(&w->clock, 5000);
    expect_own(w, 500, "fault", "f");
}

static void a_fault_that_is_taken_away_delays_no_more(void **state)
{
    struct world *w = *state;
    begin_delay(w);
    put_in_force(w, NULL);
    fake_clock_pass(&w->clock, 1);
    accept_origin(w, "\r\n\r\n");
}

static void the_client_goes_while_it_is_delayed(void **state)
{
    struct world *w = *state;
    begin_delay(w);
    raw_close(&client);
    client.fd = -1;
    for (int i = 0; i < 4000 && delays_count(egress_delays(w->egress)) > 0; i++) {
        run_for(w->loop, 5);
    }
    assert_int_equal(delays_count(egress_delays(w->egress)), 0);
    assert_int_equal(egress_busy(w->egress), 0);
}

/* ---- tunnels ---- */

static void there_are_so_many_tunnels(void **state)
{
    struct world *w = *state;
    static struct raw_peer clients[TUNNELS];
    for (size_t i = 0; i < TUNNELS; i++) {
        raw_connect(&clients[i], w->address);
        say(w, &clients[i], CONNECT);
        raw_expect(w->loop, &clients[i], "HTTP/1.1 200 ");
        raw_accept(w->loop, w->listener, &origin);
        raw_close(&origin);
        origin.fd = -1;
    }
    ask(w, CONNECT);
    expect_own(w, 503, "limited", "--egress-max-tunnels");
    assert_non_null(strstr(client.text, "Retry-After: 1\r\n"));
    for (size_t i = 0; i < TUNNELS; i++) {
        raw_close(&clients[i]);
    }
    while (egress_busy(w->egress) > 0) {
        run_for(w->loop, 5);
    }
    open_tunnel(w);
}

/* Who reaches one host of an address, asks it for another one. */
static void a_tunnel_whose_client_asks_for_another_name(void **state)
{
    struct world *w = *state;
    static const char *const names[] = {"good.example", "bad.example"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err e = ERR_INIT;
        struct slice nothing = {0};
        struct buf hello = BUF_INIT(65536);
        const struct tls_client_options o = {.insecure = true, .server_name = names[i]};
        struct tls_config *tls = tls_config_new_client(&o, &e);
        struct tls_session *session = tls_session_new(tls, &e);
        assert_int_equal(tls_session_handshake(session, &nothing, &hello, &e), TLS_MORE);
        put_in_force(w, INTERCEPT("Blacklist", "bad.example:%u"));
        ask(w, CONNECT);
        raw_expect(w->loop, &client, "HTTP/1.1 200 ");
        raw_send(&client, (const char *)buf_data(&hello), hello.len);
        if (i == 0) {
            accept_origin(w, "\x16");
            raw_close(&origin);
            origin.fd = -1;
        } else {
            raw_expect(w->loop, &client, NULL);
        }
        tls_session_free(session);
        tls_config_unref(tls);
        buf_reset(&hello);
    }
    cJSON *root = cJSON_CreateObject();
    egress_describe(w->egress, true, root);
    assert_int_equal((int)number(root, "refused"), 1);
    cJSON_Delete(root);
}

static void a_tunnel_to_nobody(void **state)
{
    struct world *w = *state;
    (void)close(w->listener);
    w->listener = -1;
    ask(w, CONNECT);
    raw_expect(w->loop, &client, "HTTP/1.1 502 ");
    raw_expect(w->loop, &client, "Cmesh-Egress: failed\r\n");
    expect_metric(w, OF_HOST("failed", "1"));
}

/* ---- the end ---- */

static void what_is_under_way_is_finished(void **state)
{
    struct world *w = *state;
    struct raw_peer *tunnel = &other;
    connect_to(w, tunnel);
    say(w, tunnel, CONNECT);
    raw_expect(w->loop, tunnel, "HTTP/1.1 200 ");
    static struct raw_peer far;
    raw_accept(w->loop, w->listener, &far);
    ask(w, GET);
    accept_origin(w, "\r\n\r\n");
    egress_drain(w->egress);
    assert_string_not_equal(egress_address(w->egress), "");
    say(w, &origin, OK);
    raw_expect(w->loop, &client, "\r\n\r\nhi");
    raw_expect(w->loop, &client, NULL);
    say(w, tunnel, "still");
    raw_expect(w->loop, &far, "still");
    run_for(w->loop, 20);
    assert_false(w->drained);
    raw_close(&far);
    raw_expect(w->loop, tunnel, NULL);
    raw_close(tunnel);
    tunnel->fd = -1;
    run_until(w->loop, &w->drained);
    assert_int_equal(egress_busy(w->egress), 0);
}

static void delays_end_when_it_drains(void **state)
{
    struct world *w = *state;
    begin_delay(w);
    egress_drain(w->egress);
    expect_own(w, 500, "fault", "f");
    run_until(w->loop, &w->drained);
}

/* In every phase: a request that is delayed, one that is dialled, one that is answered, a tunnel.
 */
static void it_ends_at_once(void **state)
{
    struct world *w = *state;
    open_tunnel(w);
    static struct raw_peer more[2];
    raw_connect(&more[0], w->address);
    say(w, &more[0], GET);
    connect_to(w, &other);
    say(w, &other, "POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab");
    run_for(w->loop, 30);
    put_in_force(w, FAULTS("{\"name\":\"r\"," HTTP(
                        "") ",\"delay\":{\"fixedDelay\":\"5000ms\",\"percent\":\"100\"}}"));
    raw_connect(&more[1], w->address);
    say(w, &more[1], GET);
    run_for(w->loop, 30);
    close_world(w);
    raw_expect(w->loop, &client, NULL);
    raw_expect(w->loop, &other, NULL);
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        raw_expect(w->loop, &more[i], NULL);
        raw_close(&more[i]);
    }
}

/* Whatever there is no memory for at the start: it says so, and leaves nothing behind. */
static bool open_scenario(void *data)
{
    struct world *w = data;
    struct err e = ERR_INIT;
    struct egress *g = open_egress(w, &e);
    bool opened = g != NULL;
    if (!opened && e.code != -ENOMEM && e.code != UV_ENOMEM) {
        fail_msg("%s", e.msg);
    }
    egress_free(g);
    fake_clock_forget(&w->clock);
    return opened;
}

static void without_memory_it_does_not_start(void **state)
{
    struct world *w = *state;
    open_world(w);
    egress_free(w->egress);
    w->egress = NULL;
    assert_true(sweep_allocations(open_scenario, w) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_WITH(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(three_ways_lead_to_the_origin),
        cmocka_unit_test(without_a_listener_that_is_said),
        TEST(requests_that_are_none_for_a_proxy),
        TEST(smuggled_requests_are_refused),
        TEST_WITH(a_token_is_asked_for_on_other_addresses, setup_token),
        TEST_WITH(without_a_token_only_the_loopback_is_served, setup_closed),
        TEST_WITH(flags_that_make_no_sense, setup_closed),
        TEST(pages_of_browsers_cannot_use_the_header),
        TEST(a_request_that_comes_back_is_a_loop),
        TEST(this_machine_is_reached_only_by_name_of_a_rule),
        TEST(localproxy_and_the_api_server_are_never_reached),
        TEST(what_is_not_listed_is_refused_and_not_dialled),
        TEST(the_first_line_tells_why_there_is_no_tunnel),
        TEST(other_rules_close_kept_connections),
        TEST(what_is_over_the_limit_waits),
        TEST(an_origin_that_fails_opens_the_breaker),
        TEST(so_many_are_under_way),
        TEST(an_answer_of_500_is_a_failure),
        TEST(what_is_forbidden_is_no_failure),
        TEST(what_may_have_been_executed_is_said),
        TEST(a_host_that_is_given_up_was_slow),
        TEST(an_upgraded_connection_ends_when_rules_forbid_it),
        TEST(an_abort_is_the_answer),
        TEST(a_delay_is_waited_for),
        TEST(a_delay_and_then_an_abort),
        TEST(a_fault_that_is_taken_away_delays_no_more),
        TEST(the_client_goes_while_it_is_delayed),
        TEST(there_are_so_many_tunnels),
        TEST(a_tunnel_whose_client_asks_for_another_name),
        TEST(a_tunnel_to_nobody),
        TEST(what_is_under_way_is_finished),
        TEST(delays_end_when_it_drains),
        TEST(it_ends_at_once),
        TEST_WITH(without_memory_it_does_not_start, setup_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
