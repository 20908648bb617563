/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_faults_test.c - a client over HTTP/2 and a server that does what it likes: random
 * requests, pauses and aborts on one side, random answers, refusals and broken connections on the
 * other.
 *
 * Each request ends once; nothing but what is safe to repeat is executed twice; what is said not to
 * have been sent was not executed; a whole answer is whole; nothing is left when all have ended.
 */
#include <nghttp2/nghttp2.h>

#include "h2_server.h"
#include "http/client.h"
#include "loop_fixture.h"

enum {
    SEEDS = 12,
    REQUESTS = 300,
    AT_A_TIME = 30,
    STEPS_MAX = 20000,
    ANSWER = 3000,
    LONG_MS = 60000
};

enum kind { KIND_GET, KIND_POST, KIND_POST_BODY, KINDS };

struct ask {
    struct http_exchange *x; /* NULL: not begun, or over */
    enum kind kind;
    unsigned number;
    size_t received;
    size_t body_left;
    bool body_over;
    bool ended;
    bool paused;
    bool over;
    bool failed;
    bool aborted;
    bool sent;
};

struct scene {
    struct net_loop *loop;
    struct h2_server server;
    struct http_client *client;
    struct ask asks[REQUESTS];
    unsigned begun;
    unsigned open;
    uint64_t random;
};

static unsigned pick(struct scene *s, unsigned n)
{
    s->random = s->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(s->random >> 33) % n;
}

/* ---- the client's user ---- */

static void send_some(struct ask *a)
{
    static const char block[1000];
    while (a->x != NULL && !a->body_over && !http_exchange_blocked(a->x)) {
        size_t n = a->body_left < sizeof block ? a->body_left : sizeof block;
        if (n > 0) {
            assert_int_equal(http_exchange_send_body(a->x, slice_of(block, n)), 0);
            a->body_left -= n;
        }
        if (a->body_left == 0) {
            a->body_over = true;
            assert_int_equal(http_exchange_send_end(a->x), 0);
        }
    }
}

static void on_head(struct http_exchange *x, const struct http_head *head)
{
    (void)x;
    assert_int_equal(head->status, 200);
}

static void on_body(struct http_exchange *x, struct slice bytes)
{
    struct ask *a = x->data;
    assert_false(a->ended || a->over);
    a->received += bytes.len;
}

static void on_end(struct http_exchange *x)
{
    struct ask *a = x->data;
    assert_false(a->ended);
    a->ended = true;
}

static void on_drain(struct http_exchange *x)
{
    send_some(x->data);
}

static struct scene *scene; /* the one that is played */

static void over(struct ask *a)
{
    assert_false(a->over);
    a->over = true;
    a->x = NULL;
    scene->open--;
}

static void on_close(struct http_exchange *x, const struct err *e)
{
    struct ask *a = x->data;
    a->failed = e != NULL;
    a->sent = http_client_sent(x);
    over(a);
}

static const struct http_exchange_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_drain = on_drain,
    .on_close = on_close,
};

static void begin(struct scene *s)
{
    char path[32];
    struct ask *a = &s->asks[s->begun];
    *a = (struct ask){.number = s->begun++, .kind = (enum kind)pick(s, KINDS)};
    bool body = a->kind == KIND_POST_BODY;
    a->body_left = body ? 1 + pick(s, 5000) : 0;
    a->body_over = !body;
    (void)snprintf(path, sizeof path, "/%u", a->number);
    const struct http_header host = {SLICE("Host"), SLICE("test")};
    const struct http_head head = {
        .method = a->kind == KIND_GET ? SLICE("GET") : SLICE("POST"),
        .target = slice_str(path),
        .headers = &host,
        .header_count = 1,
        .framing = body ? HTTP_BODY_LENGTH : HTTP_BODY_NONE,
        .content_length = a->body_left,
        .background = pick(s, 4) == 0,
    };
    s->open++;
    a->x = http_client_request(s->client, &head, &handlers, a, NULL);
    assert_non_null(a->x);
    if (pick(s, 2) == 0) {
        send_some(a);
    }
}

static void act_on_request(struct scene *s)
{
    struct ask *a = &s->asks[pick(s, s->begun)];
    if (a->x == NULL) {
        return;
    }
    switch (pick(s, 12)) {
    case 0:
        http_exchange_abort(a->x);
        a->aborted = true;
        over(a);
        break;
    case 1:
        http_exchange_pause(a->x);
        a->paused = true;
        break;
    default:
        if (a->paused) {
            http_exchange_resume(a->x);
            a->paused = false;
        }
        send_some(a);
        break;
    }
}

/* ---- the server ---- */

static bool is_open(const struct h2_server_conn *c)
{
    return c->stream != NULL && c->ng != NULL;
}

static void act_on_stream(struct scene *s, struct h2_request *r)
{
    static const char block[ANSWER];
    if (!is_open(r->conn) || r->gone || r->refused || r->reset || r->out_ended) {
        return;
    }
    unsigned what = pick(s, 10);
    if (what == 0 && !r->out_begun) {
        r->refused = true;
        h2_reset(r, NGHTTP2_REFUSED_STREAM);
    } else if (what == 1) {
        h2_reset(r, NGHTTP2_INTERNAL_ERROR);
    } else if (!r->ended && pick(s, 10) != 0) {
        return; /* mostly, an answer waits for the request */
    } else if (!r->out_begun) {
        h2_begin(r, 200);
    } else {
        h2_send(r, block, ANSWER);
        h2_end(r);
    }
}

static struct h2_server_conn *any_conn(struct scene *s)
{
    if (s->server.accepted == 0) {
        return NULL;
    }
    struct h2_server_conn *c = h2_conn(&s->server, pick(s, s->server.accepted));
    return is_open(c) ? c : NULL;
}

/* GOAWAY, of none that it has begun to answer. */
static void leave(struct scene *s, struct h2_server_conn *c)
{
    int32_t last = 2 * (int32_t)pick(s, c->streams + 1) - 1;
    LIST_FOR_EACH(node, &s->server.requests)
    {
        struct h2_request *r = LIST_ITEM(node, struct h2_request, link);
        bool executed = r->conn == c && (r->out_begun || (r->gone && !r->refused));
        last = executed && r->id > last ? r->id : last;
    }
    LIST_FOR_EACH(node, &s->server.requests)
    {
        struct h2_request *r = LIST_ITEM(node, struct h2_request, link);
        r->refused = r->refused || (r->conn == c && r->id > last);
    }
    h2_goaway(c, last < 0 ? 0 : last, NGHTTP2_NO_ERROR);
}

static void act_on_conn(struct scene *s, struct h2_server_conn *c)
{
    switch (pick(s, 60)) {
    case 0:
        h2_cut(c);
        break;
    case 1:
        h2_hang_up(c);
        break;
    case 2:
        leave(s, c);
        break;
    case 3:
    case 4:
        s->server.max_streams = 1 + pick(s, 8);
        break;
    case 5:
        h2_ping(c);
        break;
    case 6:
        h2_server_offer(&s->server, pick(s, 4) != 0);
        break;
    default:
        break;
    }
}

static void act_on_server(struct scene *s, bool faults)
{
    struct h2_server_conn *c = any_conn(s);
    if (c != NULL && faults) {
        act_on_conn(s, c);
    }
    LIST_FOR_EACH(node, &s->server.requests)
    {
        if (pick(s, 4) == 0) {
            act_on_stream(s, LIST_ITEM(node, struct h2_request, link));
        }
    }
}

/* ---- what must hold ---- */

static void judge(struct scene *s, const struct ask *a)
{
    char path[32];
    unsigned executed = 0;
    (void)snprintf(path, sizeof path, "/%u", a->number);
    LIST_FOR_EACH(node, &s->server.requests)
    {
        const struct h2_request *r = LIST_ITEM(node, struct h2_request, link);
        executed += strcmp(r->path, path) == 0 && !r->refused ? 1 : 0;
    }
    assert_true(a->over);
    assert_in_range(executed, 0, a->kind == KIND_GET ? 2 : 1);
    if (a->aborted) {
        return;
    }
    if (a->failed && !a->sent && a->kind != KIND_GET) {
        assert_int_equal(executed, 0);
    }
    if (!a->failed) {
        assert_true(a->ended);
        assert_true(a->received == ANSWER ||
                    a->received == 5); /* or from a server without HTTP/2 */
    }
}

static void play(struct scene *s, uint64_t seed)
{
    struct net_loop *l = s->loop;
    *s = (struct scene){.loop = l, .random = seed};
    scene = s;
    h2_server_start(&s->server, l);
    const struct http_client_options o = {.host = "127.0.0.1",
                                          .port = s->server.port,
                                          .tls = s->server.client,
                                          .connect_timeout_ms = LONG_MS,
                                          .idle_timeout_ms = LONG_MS,
                                          .max_idle = 2};
    s->client = http_client_new(l, &o, NULL);
    assert_non_null(s->client);
    bool patient = seed % 3 != 0; /* otherwise the client is freed in the middle of it */
    for (unsigned step = 0; step < STEPS_MAX && (s->begun < REQUESTS || (patient && s->open > 0));
         step++) {
        if (s->begun < REQUESTS && s->open < AT_A_TIME) {
            begin(s);
        }
        act_on_request(s);
        act_on_server(s, s->begun < REQUESTS);
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(http_client_stats(s->client)->busy, s->open);
    assert_true(s->open == 0 || !patient);
    http_client_free(s->client);
    assert_int_equal(s->open, 0);
    for (unsigned i = 0; i < REQUESTS; i++) {
        judge(s, &s->asks[i]);
    }
    h2_server_stop(&s->server);
}

static void test_whatever_the_server_does(void **state)
{
    static struct scene s;
    s.loop = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        play(&s, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whatever_the_server_does, loop_setup, loop_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
