/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random connections: heads of all sizes, some given up before they are sent and some after, while
 * the server changes what it remembers and gives requests up. Whatever reaches it is what was
 * asked: the encoder knows at each moment what the server has seen.
 */
#include "http/h2_world.h"

#include "http/h2_internal.h"

enum { CONNECTIONS = 60, STEPS = 300, REQUESTS = 256, FIELDS = 12, LONG = 24 * 1024 };

struct request {
    struct user user;
    struct buf head; /* as the server is to see it */
};

struct model {
    struct world w;
    struct request requests[REQUESTS]; /* by their streams' numbers */
    unsigned count;
    unsigned seen;
    struct buf wire; /* on its way to the server */
};

static char letters[LONG];

static unsigned below(unsigned n)
{
    return (unsigned)rand() % n;
}

static void on_request(struct h2_peer *p, struct h2_peer_request *r, void *data)
{
    (void)p;
    struct model *m = data;
    struct buf *want = &m->requests[r->id / 2].head;
    assert_string_equal(buf_cstr(&r->head), buf_cstr(want));
    m->seen++;
}

static void add(struct model *m, struct http_header *h, const char *name, struct slice value,
                bool secret)
{
    struct buf *head = &m->requests[m->count].head;
    *h = (struct http_header){slice_str(name), value};
    (void)buf_append_str(head, secret ? "!" : "");
    (void)buf_append_str(head, name);
    (void)buf_append_str(head, ": ");
    (void)buf_append(head, value.ptr, value.len);
    assert_int_equal(buf_append_str(head, "\n"), 0);
}

static void ask(struct model *m)
{
    static const char *const names[] = {"accept", "user-agent", "x-a", "x-quite-long-name", "via"};
    static const struct slice values[] = {{"", 0}, {"a", 1}, {"*/*", 3}, {"application/json", 16}};
    static char tokens[3][1200];
    static const struct http_header host = {{"Host", 4}, {"api:443", 7}};
    struct http_header headers[1 + FIELDS] = {host};
    struct request *r = &m->requests[m->count];
    size_t count = 1 + below(FIELDS);
    if (m->count == REQUESTS || h2_session_room(m->w.s) == 0) {
        return;
    }
    buf_init(&r->head, SIZE_MAX);
    assert_int_equal(buf_append_str(&r->head, ":method: GET\n:scheme: https\n:authority: api:443\n"
                                              ":path: /api\n"),
                     0);
    for (size_t i = 1; i < count; i++) {
        const char *name = names[below(ARRAY_LEN(names))];
        char *token = tokens[below(3)];
        switch (below(8)) {
        case 0:
            add(m, &headers[i], "cookie", slice_of(letters, below(100)), true);
            break;
        case 1:
            memset(token, 'a' + (int)(token - tokens[0]) / 1200, sizeof tokens[0]);
            memcpy(token, "Bearer ", 7);
            add(m, &headers[i], "authorization", slice_of(token, sizeof tokens[0]), false);
            break;
        case 2:
            add(m, &headers[i], name, slice_of(letters, below(i == 1 ? LONG : 1000)), false);
            break;
        default:
            add(m, &headers[i], name, values[below(ARRAY_LEN(values))], false);
            break;
        }
    }
    struct http_head head = request_head("GET");
    head.headers = headers;
    head.header_count = count;
    r->user = (struct user){.w = &m->w, .letter = 'r'};
    r->user.stream = h2_session_request(m->w.s, &head, true, &r->user, &m->w.e);
    assert_non_null(r->user.stream);
    assert_int_equal(r->user.stream->id / 2, m->count++);
}

static void give_up(struct user *u)
{
    if (u->stream != NULL) {
        h2_stream_abort(u->stream);
        u->stream = NULL;
    }
}

static void refuse(struct model *m, struct h2_peer_request *r)
{
    if (r->data == NULL && !r->reset) {
        r->data = r;
        h2_peer_reset(m->w.peer, r->id, REFUSED_STREAM);
    }
}

/* Some of what there is. */
static void pass_on(struct model *m)
{
    assert_int_equal(h2_session_send(m->w.s, &m->wire), 0);
    size_t len = below((unsigned)m->wire.len + 1);
    if (len > 0) {
        assert_true(h2_peer_receive(m->w.peer, slice_of((const char *)buf_data(&m->wire), len)));
        buf_consume(&m->wire, len);
    }
}

static void step(struct model *m)
{
    static const uint32_t sizes[] = {0, 32, 100, 1000, 4095, 4096, 4097, 65536};
    unsigned arrived = h2_peer_request_count(m->w.peer);
    switch (below(12)) {
    case 0:
        if (m->count > 0) {
            give_up(&m->requests[m->count - 1 - below(m->count < 8 ? m->count : 8)].user);
        }
        break;
    case 1:
        h2_peer_remember(m->w.peer, sizes[below(8)], sizes[below(8)]);
        break;
    case 2:
        if (arrived > 0) {
            refuse(m, h2_peer_request(m->w.peer, below(arrived)));
        }
        break;
    case 3:
    case 4:
        to_client(&m->w);
        buf_clear(&m->w.said);
        break;
    case 5:
    case 6:
    case 7:
        pass_on(m);
        break;
    default:
        ask(m);
        break;
    }
}

static void test_random_connections(void **state)
{
    (void)state;
    static struct model m;
    const struct h2_peer_options o = {.on_request = on_request, .data = &m};
    unsigned seen = 0;
    srand(1);
    memset(letters, 'x', sizeof letters);
    for (int i = 0; i < CONNECTIONS; i++) {
        memset(&m, 0, sizeof m);
        buf_init(&m.wire, SIZE_MAX);
        world_init(&m.w, &o);
        for (int n = 0; n < STEPS; n++) {
            step(&m);
        }
        if (m.wire.len > 0) {
            assert_true(h2_peer_receive(m.w.peer, buf_slice(&m.wire)));
        }
        settle(&m.w);
        assert_false(h2_session_leaving(m.w.s)); /* the server could read all of it */
        seen += m.seen;
        world_end(&m.w);
        for (unsigned n = 0; n < m.count; n++) {
            buf_reset(&m.requests[n].head);
        }
        buf_reset(&m.wire);
    }
    assert_true(seen > CONNECTIONS * STEPS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_connections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
