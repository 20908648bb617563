/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and responses, and how they end: with a server that behaves. */
#include "http/h2_world.h"

#include <nghttp2/nghttp2.h>

#include "http/h2_internal.h"

static void test_get(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = get(&w);
    assert_true(h2_stream_untouched(u->stream));
    settle(&w);
    assert_string_equal(buf_cstr(&h2_peer_request(w.peer, 0)->head),
                        ":method: GET\n:scheme: https\n:authority: api:443\n:path: /api\n"
                        "accept: application/json\n");
    assert_true(h2_peer_request(w.peer, 0)->ended);
    assert_true(h2_stream_untouched(u->stream));
    h2_peer_answer(w.peer, 1, 200, "content-type: text/plain\n", false);
    settle(&w);
    assert_false(h2_stream_untouched(u->stream));
    h2_peer_body(w.peer, 1, SLICE("hello"), true);
    settle(&w);
    assert_said(&w, "room(99) a:head(200 chunked [Content-Type: text/plain]) a:5 a:end room(100) ");
    world_end(&w);
}

/* What an answer's framing is. */
static void test_framing(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        unsigned status;
        const char *headers;
        const char *body; /* NULL: the head is the end */
        const char *want;
    } rows[] = {
        {"GET", 200, "content-length: 2\n", "ok", "a:head(200 length 2) a:2 a:end "},
        {"GET", 200, "content-length: 0\n", "", "a:head(200 length 0) a:end "},
        {"GET", 200, "content-length: 0\n", NULL, "a:head(200 length 0) a:end "},
        {"GET", 200, NULL, NULL, "a:head(200 length 0) a:end "},
        {"GET", 404, NULL, "", "a:head(404 chunked) a:end "},
        {"GET", 999, NULL, "x", "a:head(999 chunked) a:1 a:end "},
        {"GET", 204, NULL, NULL, "a:head(204 none) a:end "},
        {"GET", 204, NULL, "", "a:head(204 none) a:end "},
        {"GET", 304, "content-length: 7\n", NULL, "a:head(304 none 7) a:end "},
        {"HEAD", 200, "content-length: 7\n", NULL, "a:head(200 none 7) a:end "},
        {"HEAD", 200, NULL, "", "a:head(200 none) a:end "},
        {"GET", 200, "content-length: 3\n", "ok", "a:head(200 length 3) a:2 a:reset(-400) "},
        {"GET", 200, "content-length: 1\n", NULL, "a:reset(-400) "},
        {"HEAD", 200, NULL, "x", "a:head(200 none) a:reset(-400) "},
        {"GET", 204, NULL, "x", "a:head(204 none) a:reset(-400) "},
        {"GET", 200, "content-length: 1\ncontent-length: 1\n", "x", "a:reset(-400) "},
        {"GET", 200, "content-length: +1\n", "x", "a:reset(-400) "},
        {"GET", 200, "transfer-encoding: chunked\n", "x", "a:reset(-400) "},
        {"GET", 200, "connection: close\n", "x", "a:reset(-400) "},
        {"GET", 200, "a b: x\n", "x", "a:reset(-400) "},
        {"GET", 200, "a: x\ry\n", "x", "a:reset(-400) "},
        {"GET", 200, ":path: /\n", "x", "a:reset(-400) "},
        {"GET", 200, "a: 1\n:status: 200\n", "x", "a:reset(-400) "},
        {"GET", 99, NULL, "x", "a:reset(-400) "},
        {"GET", 1000, NULL, "x", "a:reset(-400) "},
        {"GET", 101, NULL, "x", "a:reset(-400) "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t piece = 0; piece < 2; piece++) {
            struct world w;
            world_init(&w, NULL);
            w.piece = piece;
            struct http_head head = request_head(rows[i].method);
            (void)ask_with(&w, &head, true);
            settle(&w);
            h2_peer_answer(w.peer, 1, rows[i].status, rows[i].headers, rows[i].body == NULL);
            if (rows[i].body != NULL) {
                h2_peer_body(w.peer, 1, slice_str(rows[i].body), true);
            }
            settle(&w);
            drop_rooms(&w);
            assert_said(&w, rows[i].want);
            assert_int_equal(h2_session_room(w.s), 100);
            /* The connection goes on. */
            (void)get(&w);
            settle(&w);
            h2_peer_answer(w.peer, 3, 200, NULL, true);
            settle(&w);
            drop_rooms(&w);
            assert_said(&w, "b:head(200 length 0) b:end ");
            world_end(&w);
        }
    }
}

/* nghttp2 looks at the part of a frame that it has: what is too much may be found behind what is
 * not.
 */
static void test_more_than_announced(void **state)
{
    (void)state;
    for (size_t piece = 0; piece < 2; piece++) {
        struct world w;
        world_init(&w, NULL);
        w.piece = piece;
        (void)get(&w);
        settle(&w);
        h2_peer_answer(w.peer, 1, 200, "content-length: 1\n", false);
        h2_peer_body(w.peer, 1, SLICE("ok"), true);
        settle(&w);
        drop_rooms(&w);
        assert_said(&w, piece == 0 ? "a:head(200 length 1) a:reset(-400) "
                                   : "a:head(200 length 1) a:1 a:reset(-400) ");
        world_end(&w);
    }
}

static void test_post(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct http_head head = request_head("POST");
    head.framing = HTTP_BODY_LENGTH;
    head.content_length = 10;
    struct h2_stream *t = ask_with(&w, &head, false)->stream;
    assert_int_equal(h2_stream_send_body(t, SLICE("hello")), 0);
    settle(&w);
    struct h2_peer_request *r = h2_peer_request(w.peer, 0);
    assert_string_equal(h2_peer_field(r, "content-length"), "10");
    assert_string_equal(buf_cstr(&r->body), "hello");
    assert_false(r->ended);
    assert_int_equal(h2_stream_send_end(t), -EPROTO);
    assert_int_equal(h2_stream_send_body(t, SLICE("world!")), -EPROTO);
    assert_int_equal(h2_stream_send_body(t, SLICE("")), 0);
    assert_int_equal(h2_stream_send_body(t, SLICE("world")), 0);
    settle(&w);
    assert_false(r->ended);
    assert_int_equal(h2_stream_send_end(t), 0);
    assert_int_equal(h2_stream_send_body(t, SLICE("x")), -EPROTO);
    settle(&w);
    assert_true(r->ended);
    assert_string_equal(buf_cstr(&r->body), "helloworld");
    h2_peer_answer(w.peer, 1, 201, NULL, true);
    settle(&w);
    assert_said(&w, "room(99) a:head(201 length 0) a:end room(100) ");
    world_end(&w);
}

static void test_post_of_unknown_length(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct http_head head = request_head("POST");
    head.framing = HTTP_BODY_CHUNKED;
    struct h2_stream *t = ask_with(&w, &head, false)->stream;
    settle(&w);
    struct h2_peer_request *r = h2_peer_request(w.peer, 0);
    assert_null(h2_peer_field(r, "content-length"));
    assert_null(h2_peer_field(r, "transfer-encoding"));
    assert_int_equal(h2_stream_send_body(t, SLICE("abc")), 0);
    assert_int_equal(h2_stream_send_end(t), 0);
    settle(&w);
    assert_true(r->ended);
    assert_string_equal(buf_cstr(&r->body), "abc");
    world_end(&w);
}

/* Answered before all of the request was wanted. */
static void test_early_answer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *want;
    } rows[] = {
        {"complete", "a:head(413 length 0) a:answered a:sent "},
        {"reset", "a:head(413 length 0) a:answered a:reset(-104) "},
        {"abort", "a:head(413 length 0) a:answered "},
        {"paused, complete", "a:head(413 chunked) a:4 a:end "},
        {"paused, reset", "a:head(413 chunked) a:4 a:answered a:reset(-104) "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_init(&w, NULL);
        struct http_head head = request_head("POST");
        head.framing = HTTP_BODY_CHUNKED;
        struct user *u = ask_with(&w, &head, false);
        bool paused = i >= 3;
        u->aborts_at_end = i == 2;
        settle(&w);
        if (paused) {
            h2_stream_pause(u->stream);
            h2_peer_answer(w.peer, 1, 413, NULL, false);
            h2_peer_body(w.peer, 1, SLICE("full"), true);
        } else {
            h2_peer_answer(w.peer, 1, 413, NULL, true);
        }
        settle(&w);
        assert_int_equal(h2_session_room(w.s), i == 2 ? 100 : 99);
        if (i == 0 || i == 3) {
            assert_int_equal(h2_stream_send_end(u->stream), 0);
        } else if (i != 2) {
            h2_peer_reset(w.peer, 1, NO_ERROR);
        }
        settle(&w);
        if (paused) {
            assert_false(h2_session_due(w.s));
            h2_stream_resume(u->stream);
            assert_true(h2_session_due(w.s));
            h2_session_deliver(w.s);
            assert_false(h2_session_due(w.s));
        }
        settle(&w);
        drop_rooms(&w);
        assert_said(&w, rows[i].want);
        assert_int_equal(h2_session_room(w.s), 100);
        world_end(&w);
    }
}

static void test_header_list(void **state)
{
    (void)state;
    const struct http_header headers[] = {
        {SLICE("Host"), SLICE("h")},
        {SLICE("User-Agent"), SLICE("kubectl/v1")},
        {SLICE("Authorization"), SLICE("Bearer secret-one")},
        {SLICE("Cookie"), SLICE("secret-two=a-long-enough-cookie")},
        {SLICE("Proxy-Authorization"), SLICE("secret-three")},
        {SLICE("impersonate-User"), SLICE("secret-four")},
        {SLICE("Impersonate-Extra-Scopes"), SLICE("secret-five")},
        {SLICE("Connection"), SLICE("keep-alive")},
        {SLICE("Keep-Alive"), SLICE("timeout=5")},
        {SLICE("Proxy-Connection"), SLICE("x")},
        {SLICE("Transfer-Encoding"), SLICE("chunked")},
        {SLICE("Content-Length"), SLICE("5")},
        {SLICE("Upgrade"), SLICE("h2c")},
        {SLICE("TE"), SLICE("gzip")},
        {SLICE("te"), SLICE("Trailers")},
        {SLICE("Empty"), SLICE("")},
    };
    struct world w;
    world_init(&w, NULL);
    struct http_head head = request_head("PATCH");
    head.headers = headers;
    head.header_count = ARRAY_LEN(headers);
    (void)ask_with(&w, &head, true);
    (void)ask_with(&w, &head, true);
    settle(&w);
    for (unsigned i = 0; i < 2; i++) {
        assert_string_equal(
            buf_cstr(&h2_peer_request(w.peer, i)->head),
            ":method: PATCH\n:scheme: https\n:authority: h\n:path: /api\nuser-agent: kubectl/v1\n"
            "!authorization: Bearer secret-one\n!cookie: secret-two=a-long-enough-cookie\n"
            "!proxy-authorization: secret-three\n!impersonate-user: secret-four\n"
            "!impersonate-extra-scopes: secret-five\nte: Trailers\nempty: \n");
    }
    world_end(&w);
}

static void test_spaces_around_values(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    (void)get(&w);
    settle(&w);
    drop_rooms(&w);
    static const char head[] = "\0\0\x12\1\5\0\0\0\1\x88"
                               "\0\1a\5\t b c"
                               "\0\1d\4 e \t";
    assert_int_equal(feed(&w, slice_of(head, sizeof head - 1)), 0);
    drop_rooms(&w);
    assert_said(&w, "a:head(200 length 0 [A: b c] [D: e]) a:end ");
    world_end(&w);
}

/* The blocks of all HEADERS frames in `wire`. */
static void inflate(nghttp2_hd_inflater *inflater, struct slice wire)
{
    size_t at = NGHTTP2_CLIENT_MAGIC_LEN;
    while (at + 9 <= wire.len) {
        const uint8_t *frame = (const uint8_t *)wire.ptr + at;
        size_t len = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        const uint8_t *block = frame + 9;
        at += 9 + len;
        while (frame[3] == NGHTTP2_HEADERS && len > 0) {
            nghttp2_nv nv;
            int flags = 0;
            ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block, len, 1);
            assert_true(n > 0);
            block += n;
            len -= (size_t)n;
        }
        if (frame[3] == NGHTTP2_HEADERS) {
            (void)nghttp2_hd_inflate_end_headers(inflater);
        }
    }
}

/* Neither paths, which are many, nor credentials are in the table that both sides keep, but for
 * tokens that nobody can guess. */
static void test_dynamic_table(void **state)
{
    (void)state;
#define TOKEN_64 "Bearer 0123456789abcdef0123456789abcdef0123456789abcdef0123456789"
    struct http_header headers[] = {
        {SLICE("Host"), SLICE("h")},
        {SLICE("Authorization"), SLICE("Bearer secret")},
        {SLICE("Cookie"), SLICE("secret=a-long-enough-cookie-to-be-indexed")},
        {SLICE("Impersonate-User"), SLICE("secret")},
        {SLICE("User-Agent"), SLICE("kubectl/v1")},
    };
    struct world w;
    struct buf wire = BUF_INIT(SIZE_MAX);
    nghttp2_hd_inflater *inflater = NULL;
    world_init(&w, NULL);
    struct http_head head = request_head("GET");
    head.headers = headers;
    head.header_count = ARRAY_LEN(headers);
    for (int i = 0; i < 3; i++) {
        (void)ask_with(&w, &head, true);
    }
    headers[1].value = SLICE(TOKEN_64);
    for (int i = 0; i < 3; i++) {
        (void)ask_with(&w, &head, true);
    }
    headers[1].value = SLICE("Basic " TOKEN_64);
    (void)ask_with(&w, &head, true);
    assert_int_equal(h2_session_send(w.s, &wire), 0);
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    inflate(inflater, buf_slice(&wire));
    size_t entries = nghttp2_hd_inflate_get_num_table_entries(inflater);
    assert_int_equal(entries, 61 + 3);
    const nghttp2_nv *nv = nghttp2_hd_inflate_get_table_entry(inflater, 62);
    assert_memory_equal(nv->name, "authorization", 13);
    assert_memory_equal(nv->value, TOKEN_64, sizeof TOKEN_64 - 1);
    for (size_t i = 63; i <= entries; i++) {
        nv = nghttp2_hd_inflate_get_table_entry(inflater, i);
        assert_true(memcmp(nv->name, ":authority", 10) == 0 ||
                    memcmp(nv->name, "user-agent", 10) == 0);
    }
    nghttp2_hd_inflate_del(inflater);
    buf_reset(&wire);
    world_end(&w);
}

static void test_interim_responses(void **state)
{
    (void)state;
    for (int n = 16; n <= 17; n++) {
        struct world w;
        world_init(&w, NULL);
        struct user *u = get(&w);
        settle(&w);
        for (int i = 0; i < n; i++) {
            h2_peer_answer(w.peer, 1, i % 2 == 0 ? 103 : 100, "link: x\n", false);
        }
        settle(&w);
        assert_true(n == 17 || !h2_stream_untouched(u->stream));
        if (n == 16) {
            h2_peer_answer(w.peer, 1, 200, "a: b\n", true);
            settle(&w);
        }
        drop_rooms(&w);
        assert_said(&w, n == 16 ? "a:head(200 length 0 [A: b]) a:end " : "a:reset(-400) ");
        world_end(&w);
    }
}

static void test_trailers(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    (void)get(&w);
    settle(&w);
    h2_peer_answer(w.peer, 1, 200, NULL, false);
    h2_peer_body(w.peer, 1, SLICE("x"), false);
    settle(&w);
    h2_peer_trailers(w.peer, 1, "checksum: 1\n");
    settle(&w);
    assert_said(&w, "room(99) a:head(200 chunked) a:1 a:end room(100) ");
    world_end(&w);
}

static void test_resets(void **state)
{
    (void)state;
    static const struct {
        bool head;
        bool body;
        bool paused;
        uint32_t code;
        const char *want;
    } rows[] = {
        {false, false, false, REFUSED_STREAM, "a:refused(-104) "},
        {false, false, false, CANCEL, "a:reset(-104) "},
        {false, false, false, NO_ERROR, "a:reset(-104) "},
        {true, false, false, REFUSED_STREAM, "a:head(200 chunked) a:reset(-104) "},
        {true, true, false, INTERNAL_ERROR, "a:head(200 chunked) a:4 a:reset(-104) "},
        {true, true, true, INTERNAL_ERROR, "a:head(200 chunked) a:reset(-104) "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_init(&w, NULL);
        struct user *u = get(&w);
        settle(&w);
        if (rows[i].paused) {
            h2_stream_pause(u->stream);
        }
        if (rows[i].head) {
            h2_peer_answer(w.peer, 1, 200, NULL, false);
        }
        if (rows[i].body) {
            h2_peer_body(w.peer, 1, SLICE("part"), false);
        }
        settle(&w);
        h2_peer_reset(w.peer, 1, rows[i].code);
        settle(&w);
        drop_rooms(&w);
        assert_said(&w, rows[i].want);
        assert_int_equal(h2_session_room(w.s), 100);
        world_end(&w);
    }
}

static void test_goaway(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    for (int i = 0; i < 3; i++) {
        (void)get(&w);
    }
    settle(&w);
    drop_rooms(&w);
    h2_peer_goaway(w.peer, 3, NO_ERROR);
    settle(&w);
    assert_said(&w, "c:refused(-104) room(0) ");
    assert_true(h2_session_leaving(w.s));
    struct http_head head = request_head("GET");
    assert_null(h2_session_request(w.s, &head, true, NULL, &w.e));
    assert_int_equal(w.e.code, -EAGAIN);
    h2_peer_answer(w.peer, 1, 200, NULL, true);
    settle(&w);
    h2_peer_goaway(w.peer, 1, INTERNAL_ERROR);
    settle(&w);
    assert_said(&w, "a:head(200 length 0) a:end b:refused(-104) ");
    world_end(&w);
}

/* Requests that have not left yet when GOAWAY comes. */
static void test_goaway_before_send(void **state)
{
    (void)state;
    struct world w;
    struct buf wire = BUF_INIT(SIZE_MAX);
    world_init(&w, NULL);
    (void)get(&w);
    settle(&w);
    (void)get(&w);
    h2_peer_goaway(w.peer, 1, NO_ERROR);
    h2_peer_send(w.peer, &wire);
    assert_int_equal(feed(&w, buf_slice(&wire)), 0);
    settle(&w);
    drop_rooms(&w);
    assert_said(&w, "b:refused(-104) ");
    assert_int_equal(h2_peer_request_count(w.peer), 1);
    buf_reset(&wire);
    world_end(&w);
}

/* The server lowers how many it takes when a request is about to leave: it does not wait. */
static void test_lowered_before_send(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    (void)get(&w);
    settle(&w);
    (void)get(&w);
    (void)get(&w);
    h2_peer_allow_streams(w.peer, 2);
    to_client(&w);
    settle(&w);
    drop_rooms(&w);
    assert_said(&w, "c:refused(-104) ");
    assert_int_equal(h2_session_room(w.s), 0);
    h2_peer_allow_streams(w.peer, 3);
    settle(&w);
    assert_int_equal(h2_peer_request_count(w.peer), 2);
    world_end(&w);
}

static void test_own_goaway(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    (void)get(&w);
    settle(&w);
    h2_session_goaway(w.s);
    assert_true(h2_session_leaving(w.s));
    assert_int_equal(h2_session_room(w.s), 0);
    settle(&w);
    assert_int_equal(h2_peer_goaway_code(w.peer), NO_ERROR);
    h2_peer_answer(w.peer, 1, 200, NULL, true);
    settle(&w);
    drop_rooms(&w);
    assert_said(&w, "a:head(200 length 0) a:end ");
    world_end(&w);
}

static void test_ping(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    h2_session_ping(w.s);
    settle(&w);
    assert_said(&w, "pong ");
    assert_int_equal(h2_peer_pings(w.peer), 1);
    h2_peer_ping(w.peer);
    settle(&w);
    assert_int_equal(h2_peer_pongs(w.peer), 1);
    /* An answer to nobody's question. */
    static const char foreign[] = "\0\0\x08\x06\x01\0\0\0\0abcdefgh";
    assert_int_equal(h2_session_receive(w.s, slice_of(foreign, sizeof foreign - 1), &w.e), 0);
    assert_said(&w, "");
    world_end(&w);
}

static void test_room(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, &(struct h2_peer_options){.max_streams = 2});
    assert_int_equal(h2_session_room(w.s), 100); /* nothing is known yet */
    settle(&w);
    assert_said(&w, "room(2) ");
    struct user *a = get(&w);
    (void)get(&w);
    assert_int_equal(h2_session_room(w.s), 0);
    struct http_head head = request_head("GET");
    assert_null(h2_session_request(w.s, &head, true, NULL, &w.e));
    assert_int_equal(w.e.code, -EAGAIN);
    settle(&w);
    /* The place of one that was given up is free at once, and the next request waits for nothing.
     */
    h2_stream_abort(a->stream);
    assert_int_equal(h2_session_room(w.s), 1);
    (void)get(&w);
    settle(&w);
    assert_int_equal(h2_peer_request_count(w.peer), 3);
    assert_true(h2_peer_request(w.peer, 0)->reset);
    assert_int_equal(h2_peer_request(w.peer, 0)->reset_code, CANCEL);
    h2_peer_allow_streams(w.peer, 1000);
    settle(&w);
    assert_said(&w, "room(0) room(98) ");
    h2_peer_allow_streams(w.peer, 1);
    settle(&w);
    assert_said(&w, "room(0) ");
    world_end(&w);
}

static void test_numbers_run_out(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    assert_int_equal(nghttp2_session_set_next_stream_id(w.s->ng, INT32_MAX), 0);
    assert_false(h2_session_leaving(w.s));
    (void)get(&w);
    assert_true(h2_session_leaving(w.s));
    assert_int_equal(h2_session_room(w.s), 0);
    settle(&w);
    h2_peer_answer(w.peer, INT32_MAX, 200, NULL, true);
    settle(&w);
    assert_said(&w, "room(0) a:head(200 length 0) a:end ");
    world_end(&w);
}

/* ---- giving up ---- */

enum phase {
    BEFORE_SEND,
    BEFORE_ANSWER,
    AT_HEAD,
    AFTER_HEAD,
    AT_BODY,
    PAUSED,
    PAUSED_ENDED,
    RESUMED,
    ANSWERED,
    BODY_UNSENT,
    PHASES,
};

static bool is_unsent(enum phase phase)
{
    return phase == ANSWERED || phase == BODY_UNSENT;
}

/* Up to where it is given up. */
static void go_to(struct world *w, struct user *u, enum phase phase)
{
    u->aborts_at_head = phase == AT_HEAD;
    u->aborts_at_body = phase == AT_BODY;
    if (phase == BEFORE_SEND) {
        return;
    }
    settle(w);
    if (phase == BODY_UNSENT) {
        char big[100 * 1000] = "";
        assert_int_equal(h2_stream_send_body(u->stream, slice_of(big, sizeof big)), 0);
        settle(w);
    }
    if (phase == PAUSED || phase == PAUSED_ENDED || phase == RESUMED) {
        h2_stream_pause(u->stream);
    }
    if (phase == BEFORE_ANSWER || phase == BODY_UNSENT) {
        return;
    }
    h2_peer_answer(w->peer, 1, 200, NULL, phase == ANSWERED);
    if (phase >= AT_BODY && phase != ANSWERED) {
        h2_peer_body(w->peer, 1, SLICE("part"), phase != AT_BODY && phase != PAUSED);
    }
    settle(w);
    if (phase == RESUMED) {
        h2_stream_resume(u->stream);
    }
}

static void test_abort(void **state)
{
    (void)state;
    static const char *const want[PHASES] = {
        [BEFORE_SEND] = "",
        [BEFORE_ANSWER] = "",
        [AT_HEAD] = "a:head(200 chunked) ",
        [AFTER_HEAD] = "a:head(200 chunked) ",
        [AT_BODY] = "a:head(200 chunked) a:body a:4 ",
        [PAUSED] = "a:head(200 chunked) ",
        [PAUSED_ENDED] = "a:head(200 chunked) ",
        [RESUMED] = "a:head(200 chunked) ",
        [ANSWERED] = "a:head(200 length 0) a:answered ",
        [BODY_UNSENT] = "",
    };
    for (enum phase phase = BEFORE_SEND; phase < PHASES; phase++) {
        struct world w;
        world_init(&w, &(struct h2_peer_options){.holds_window = true});
        struct http_head head = request_head("POST");
        head.framing = is_unsent(phase) ? HTTP_BODY_CHUNKED : HTTP_BODY_NONE;
        struct user *u = ask_with(&w, &head, !is_unsent(phase));
        go_to(&w, u, phase);
        if (phase != AT_HEAD && phase != AT_BODY) {
            h2_stream_abort(u->stream);
        }
        assert_int_equal(h2_session_room(w.s), 100);
        assert_false(h2_session_due(w.s));
        settle(&w);
        if (phase != BEFORE_SEND && phase != PAUSED_ENDED && phase != RESUMED) {
            assert_true(h2_peer_request(w.peer, 0)->reset);
            assert_int_equal(h2_peer_request(w.peer, 0)->reset_code, CANCEL);
        }
        drop_rooms(&w);
        assert_said(&w, want[phase]);
        /* The connection goes on. */
        int32_t id = nghttp2_session_get_next_stream_id(w.s->ng) == 3 ? 3 : 1;
        (void)get(&w);
        settle(&w);
        h2_peer_answer(w.peer, id, 200, NULL, true);
        settle(&w);
        drop_rooms(&w);
        assert_said(&w, "b:head(200 length 0) b:end ");
        world_end(&w);
    }
}

/* In each phase the whole session goes. */
static void test_freed_session(void **state)
{
    (void)state;
    for (enum phase phase = BEFORE_SEND; phase < PHASES; phase++) {
        struct world w;
        world_init(&w, &(struct h2_peer_options){.holds_window = true});
        struct http_head head = request_head("POST");
        head.framing = is_unsent(phase) ? HTTP_BODY_CHUNKED : HTTP_BODY_NONE;
        go_to(&w, ask_with(&w, &head, !is_unsent(phase)), phase);
        world_end(&w);
    }
    h2_session_free(NULL);
}

/* ---- large heads ---- */

static void test_large_request_head(void **state)
{
    (void)state;
    enum { LEN = 3 * 1024 * 1024, PEER_TAKES = 60 * 1000 };
    struct world w;
    world_init(&w, &(struct h2_peer_options){.max_streams = 100});
    char *path = malloc(LEN);
    assert_non_null(path);
    memset(path, 'x', LEN);
    path[0] = '/';
    struct http_head head = request_head("GET");
    head.target = slice_of(path, PEER_TAKES);
    (void)ask_with(&w, &head, true);
    settle(&w);
    assert_int_equal(h2_peer_request_count(w.peer), 1);
    assert_int_equal(
        strcspn(strstr(buf_cstr(&h2_peer_request(w.peer, 0)->head), ":path: ") + 7, "\n"),
        PEER_TAKES);
    head.target = slice_of(path, LEN);
    struct h2_stream *t = h2_session_request(w.s, &head, true, &w, &w.e);
    assert_non_null(t);
    struct buf wire = BUF_INIT(SIZE_MAX);
    size_t before = 0;
    size_t times = 0;
    do { /* a piece and a frame at a time */
        before = wire.len;
        assert_int_equal(h2_session_send(w.s, &wire), 0);
        assert_true(wire.len - before < 2 * H2_SEND_ENOUGH);
        times++;
    } while (wire.len - before >= H2_SEND_ENOUGH);
    assert_true(wire.len > LEN / 2);
    assert_true(times > LEN / 2 / (2 * H2_SEND_ENOUGH));
    buf_reset(&wire);
    free(path);
    world_end(&w);
}

static void test_request_head_over_limits(void **state)
{
    (void)state;
    enum { LEN = 4 * 1024 * 1024 };
    struct http_header many[200];
    struct world w;
    world_init(&w, &(struct h2_peer_options){.max_header_list_size = 1000});
    char *path = calloc(1, LEN);
    assert_non_null(path);
    struct http_head head = request_head("GET");
    head.target = slice_of(path, LEN);
    assert_null(h2_session_request(w.s, &head, true, &w, &w.e));
    assert_int_equal(w.e.code, -HTTP_PARSE_TOO_LARGE);
    settle(&w);
    head.target = slice_of(path, 1000);
    assert_null(h2_session_request(w.s, &head, true, &w, &w.e));
    assert_int_equal(w.e.code, -HTTP_PARSE_TOO_LARGE);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        many[i] = head.headers[0];
        many[i].name = i == 0 ? SLICE("Host") : SLICE("a");
    }
    head.headers = many;
    head.target = SLICE("/");
    head.header_count = ARRAY_LEN(many);
    assert_null(h2_session_request(w.s, &head, true, &w, &w.e));
    assert_int_equal(w.e.code, -HTTP_PARSE_TOO_LARGE);
    head.header_count = 0;
    assert_null(h2_session_request(w.s, &head, true, &w, &w.e));
    assert_int_equal(w.e.code, -EINVAL);
    assert_int_equal(h2_session_room(w.s), 100);
    free(path);
    world_end(&w);
}

/* `count` headers of `len` bytes each in the answer. */
static void answer_large(struct world *w, int32_t id, unsigned count, size_t len)
{
    struct buf headers = BUF_INIT(SIZE_MAX);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(buf_printf(&headers, "n%u: ", i), 0);
        for (size_t j = 0; j < len; j++) {
            assert_int_equal(buf_append_char(&headers, (char)('a' + j % 26)), 0);
        }
        assert_int_equal(buf_append_char(&headers, '\n'), 0);
    }
    h2_peer_answer(w->peer, id, 200, buf_cstr(&headers), true);
    settle(w);
    buf_reset(&headers);
}

static void test_large_response_heads(void **state)
{
    (void)state;
    static const struct {
        unsigned count;
        size_t len;
        size_t budget;
        int want; /* 0: it is taken */
    } rows[] = {
        {128, 1, 0, 0},
        {129, 1, 0, -HTTP_PARSE_TOO_LARGE},
        {8, 8000, 1024 * 1024, 0},
        {9, 8000, 1024 * 1024, -HTTP_PARSE_TOO_LARGE},
        {8, 8000, 50 * 1000, -HTTP_PARSE_NO_ROOM},
        {4, 900, 1, 0}, /* what is small is always to be had */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct byte_budget budget = {.max = rows[i].budget};
        struct world w;
        world_init(&w, NULL);
        w.quiet = true;
        struct http_head head = request_head("GET");
        head.budget = rows[i].budget > 0 ? &budget : NULL;
        (void)ask_with(&w, &head, true);
        settle(&w);
        answer_large(&w, 1, rows[i].count, rows[i].len);
        drop_rooms(&w);
        char want[64];
        (void)snprintf(want, sizeof want, "a:reset(%d) ", rows[i].want);
        assert_said(&w, rows[i].want == 0 ? "a:head(200) a:end " : want);
        assert_int_equal(budget.used, 0);
        assert_int_equal(budget.refused, rows[i].want == -HTTP_PARSE_NO_ROOM ? 1 : 0);
        assert_true(w.s->head.bytes.cap <= 4096);
        world_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_more_than_announced),
        cmocka_unit_test(test_post),
        cmocka_unit_test(test_post_of_unknown_length),
        cmocka_unit_test(test_early_answer),
        cmocka_unit_test(test_header_list),
        cmocka_unit_test(test_spaces_around_values),
        cmocka_unit_test(test_dynamic_table),
        cmocka_unit_test(test_interim_responses),
        cmocka_unit_test(test_trailers),
        cmocka_unit_test(test_resets),
        cmocka_unit_test(test_goaway),
        cmocka_unit_test(test_goaway_before_send),
        cmocka_unit_test(test_lowered_before_send),
        cmocka_unit_test(test_own_goaway),
        cmocka_unit_test(test_ping),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_numbers_run_out),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_freed_session),
        cmocka_unit_test(test_large_request_head),
        cmocka_unit_test(test_request_head_over_limits),
        cmocka_unit_test(test_large_response_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
