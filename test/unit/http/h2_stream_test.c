/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies both ways: windows, pauses, and what is kept meanwhile. */
#include "http/h2_world.h"

#include "http/h2_internal.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

/* So many bytes of a body. */
static void send_body(struct world *w, int32_t id, size_t len, bool end)
{
    static char bytes[MIB];
    memset(bytes, 'x', sizeof bytes);
    while (len > sizeof bytes) {
        h2_peer_body(w->peer, id, slice_of(bytes, sizeof bytes), false);
        len -= sizeof bytes;
    }
    h2_peer_body(w->peer, id, slice_of(bytes, len), end);
}

/* A stream whose response has begun. */
static struct user *open_stream(struct world *w)
{
    struct user *u = get(w);
    settle(w);
    h2_peer_answer(w->peer, u->stream->id, 200, NULL, false);
    settle(w);
    drop_rooms(w);
    buf_clear(&w->said);
    return u;
}

static void resume(struct world *w, struct user *u)
{
    h2_stream_resume(u->stream);
    h2_session_deliver(w->s);
    settle(w);
}

/* What a paused stream keeps is its window; the end waits behind it. */
static void test_pause(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = open_stream(&w);
    h2_stream_pause(u->stream);
    h2_stream_pause(u->stream);
    send_body(&w, 1, 100 * 1000, true);
    settle(&w);
    assert_said(&w, "");
    assert_int_equal(u->stream->kept.len, H2_WINDOW_FIRST);
    assert_int_equal(h2_peer_unsent(w.peer, 1), 100 * 1000 - H2_WINDOW_FIRST);
    u->pauses = true; /* at each piece */
    resume(&w, u);
    assert_int_equal(u->total, 16 * KIB);
    assert_int_equal(u->pieces, 1);
    u->pauses = false;
    resume(&w, u);
    assert_said(&w, "a:100000 a:end room(100) ");
    world_end(&w);
}

/* The end alone is held back, too. */
static void test_pause_before_end(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = open_stream(&w);
    h2_stream_pause(u->stream);
    send_body(&w, 1, 0, true);
    settle(&w);
    assert_said(&w, "");
    h2_stream_resume(u->stream);
    h2_stream_pause(u->stream);
    assert_false(h2_session_due(w.s));
    h2_stream_resume(u->stream);
    h2_stream_resume(u->stream);
    assert_true(h2_session_due(w.s));
    settle(&w);
    assert_said(&w, "a:end room(100) ");
    world_end(&w);
}

/* Before the response, which comes all the same. */
static void test_pause_before_head(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = get(&w);
    h2_stream_pause(u->stream);
    settle(&w);
    h2_peer_answer(w.peer, 1, 200, NULL, false);
    send_body(&w, 1, 5, true);
    settle(&w);
    assert_said(&w, "room(99) a:head(200 chunked) ");
    resume(&w, u);
    assert_said(&w, "a:5 a:end room(100) ");
    world_end(&w);
}

/* Within the handlers: of the stream itself, and of another one. */
static void test_resume_in_handlers(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *a = open_stream(&w);
    struct user *b = open_stream(&w);
    a->pauses = a->resumes = true;
    a->wakes = b;
    h2_stream_pause(b->stream);
    send_body(&w, 3, 40 * KIB, true);
    settle(&w);
    assert_int_equal(b->stream->kept.len, 40 * KIB);
    send_body(&w, 1, 10, true);
    settle(&w);
    assert_said(&w, "a:10 a:end b:40960 b:end room(100) ");
    world_end(&w);
}

/* What comes behind what is kept waits for its turn. */
static void test_order(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *a = open_stream(&w);
    struct user *b = open_stream(&w);
    h2_stream_pause(b->stream);
    h2_peer_body(w.peer, 3, SLICE("one "), false);
    settle(&w);
    a->wakes = b;
    h2_peer_body(w.peer, 1, SLICE("x"), false);
    settle(&w);
    h2_peer_body(w.peer, 3, SLICE("two"), true);
    settle(&w);
    assert_string_equal(buf_cstr(&b->bytes), "one two");
    world_end(&w);
}

/* What came together is one piece, whatever the frames and the padding. */
static void test_frames_make_one_piece(void **state)
{
    (void)state;
    struct world w;
    char body[40 * KIB];
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (char)(i * 7 + i / 251);
    }
    for (int padded = 0; padded < 2; padded++) {
        world_init(&w, &(struct h2_peer_options){.pads = padded != 0});
        struct user *u = open_stream(&w);
        h2_peer_body(w.peer, 1, slice_of(body, sizeof body), false);
        settle(&w);
        assert_int_equal(u->pieces, 1);
        assert_true(slice_eq(buf_slice(&u->bytes), slice_of(body, sizeof body)));
        world_end(&w);
    }
    /* It ends where that of another stream begins, and before whatever else comes. */
    world_init(&w, NULL);
    struct user *a = open_stream(&w);
    struct user *b = open_stream(&w);
    send_body(&w, 1, 40 * KIB, false);
    send_body(&w, 3, 20 * KIB, true);
    settle(&w);
    assert_true(a->pieces >= 2 && a->total == 40 * KIB);
    assert_int_equal(b->total, 20 * KIB);
    send_body(&w, 1, 20 * KIB, true);
    settle(&w);
    assert_said(&w, "b:20480 b:end room(99) a:61440 a:end room(100) ");
    world_end(&w);
}

/* Its user gives up at the first of two pieces; the rest is for nobody. */
static void test_abort_between_frames(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *a = open_stream(&w);
    struct user *b = open_stream(&w);
    a->aborts_at_body = true;
    send_body(&w, 1, 40 * KIB, true);
    send_body(&w, 3, 40 * KIB, true);
    settle(&w);
    assert_int_equal(a->pieces, 1);
    assert_int_equal(b->total, 40 * KIB);
    world_end(&w);
}

/* An unhurried one's reader may stop for good. */
static struct user *open_unhurried(struct world *w)
{
    struct http_head head = request_head("GET");
    head.unhurried = true;
    struct user *u = ask_with(w, &head, true);
    settle(w);
    h2_peer_answer(w->peer, u->stream->id, 200, NULL, false);
    settle(w);
    return u;
}

/* Sends the stream 12 MiB, and has it read. Its window then. */
static uint32_t window_of(struct world *w, struct user *u)
{
    send_body(w, u->stream->id, 12 * MIB, false);
    settle(w);
    assert_int_equal(u->total, 12 * MIB);
    assert_true(w->windows.used <= WINDOWS);
    return u->stream->window;
}

/* Each takes at most a quarter of what is left: there is some for the next one. */
static void test_windows_grow(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u[20];
    uint32_t before = H2_WINDOW_MAX;
    for (int i = 0; i < 20; i++) {
        u[i] = open_stream(&w);
        uint32_t window = window_of(&w, u[i]);
        assert_in_range(window, i < 12 ? H2_WINDOW_MAX : 2 * H2_WINDOW_FIRST, before);
        before = window;
    }
    /* That is what the server may send ahead. */
    h2_stream_pause(u[0]->stream);
    send_body(&w, 1, 8 * MIB, false);
    settle(&w);
    assert_in_range(u[0]->stream->kept.len, H2_WINDOW_MAX / 2, H2_WINDOW_MAX);
    /* When streams end, others may have it. */
    for (int i = 0; i < 20; i++) {
        h2_stream_abort(u[i]->stream);
    }
    assert_int_equal(w.windows.used, 0);
    assert_int_equal(window_of(&w, open_stream(&w)), H2_WINDOW_MAX);
    world_end(&w);
}

/* However many are left unread for good, they have a quarter of all. */
static void test_windows_of_unhurried_streams(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    for (int i = 0; i < 40; i++) {
        struct user *u = open_unhurried(&w);
        (void)window_of(&w, u);
        assert_true(i > 0 || u->stream->window >= H2_WINDOW_MAX / 2);
        assert_true(w.windows.used <= WINDOWS / 4);
        h2_stream_pause(u->stream);
    }
    assert_int_equal(window_of(&w, open_stream(&w)), H2_WINDOW_MAX);
    world_end(&w);
}

/* A reader that pauses now and then does not need one. */
static void test_windows_of_paused_streams_stay(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = open_stream(&w);
    for (int i = 0; i < 100; i++) {
        send_body(&w, 1, 60 * 1000, false);
        to_client(&w);
        h2_stream_pause(u->stream);
        resume(&w, u);
    }
    assert_int_equal(u->total, 100 * 60 * 1000);
    assert_int_equal(u->stream->window, H2_WINDOW_FIRST);
    world_end(&w);
}

/* A slow reader looks fast until the kernel has taken what it takes; it takes more to be believed
 * after each pause. */
static void test_windows_after_a_pause(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = open_stream(&w);
    send_body(&w, 1, H2_FLOW_FIRST - 1, false);
    settle(&w);
    for (size_t proof = 2 * H2_FLOW_FIRST; proof <= 8 * H2_FLOW_FIRST; proof *= 2) {
        h2_stream_pause(u->stream);
        h2_stream_pause(u->stream); /* is the same one */
        resume(&w, u);
        send_body(&w, 1, proof - 1, false);
        settle(&w);
        assert_int_equal(u->stream->window, H2_WINDOW_FIRST);
    }
    assert_int_equal(h2_peer_pings(w.peer), 0);
    send_body(&w, 1, MIB, false);
    settle(&w);
    assert_int_equal(u->stream->window, H2_WINDOW_MAX);
    for (int i = 0; i < 100; i++) {
        h2_stream_pause(u->stream);
        resume(&w, u);
    }
    assert_in_range(u->stream->proof, H2_FLOW_MAX, UINT32_MAX / 2); /* does not overflow */
    world_end(&w);
}

/* Nor does one of which much comes, but not much at a time. */
static void test_windows_of_slow_streams_stay(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u = open_stream(&w);
    for (int i = 0; i < 100; i++) {
        send_body(&w, 1, 30 * 1000, false);
        settle(&w);
    }
    assert_int_equal(u->total, 100 * 30 * 1000);
    assert_true(h2_peer_pings(w.peer) > 0);
    assert_int_equal(u->stream->window, H2_WINDOW_FIRST);
    world_end(&w);
}

/* What comes for streams that were given up does not use up the connection's window. */
static void test_data_of_aborted_streams(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    for (int i = 0; i < 600; i++) {
        struct user *u = open_stream(&w);
        int32_t id = u->stream->id;
        /* On the way already when the stream is given up; or its first piece makes it so. */
        send_body(&w, id, 60 * 1000, false);
        u->aborts_at_body = i % 3 == 0;
        if (i % 3 == 1) {
            h2_stream_abort(u->stream);
        } else if (i % 3 == 2) {
            h2_stream_pause(u->stream);
        }
        to_client(&w);
        if (i % 3 == 2) {
            h2_stream_abort(u->stream);
        }
        settle(&w);
        w.count = 0;
        buf_clear(&w.said);
    }
    /* 36 MB have come; all but what is not yet worth an update may come again. */
    int32_t left = nghttp2_session_get_effective_recv_data_length(w.s->ng);
    assert_true(left >= 0 && left <= H2_CONNECTION_WINDOW / 2);
    assert_int_equal(w.s->count, 0);
    struct user *u = open_stream(&w);
    send_body(&w, u->stream->id, 20 * MIB, true);
    settle(&w);
    assert_int_equal(u->total, 20 * MIB);
    world_end(&w);
}

/* Nor does the rest of a frame of which a part was read before. (A server of nghttp2 takes 1,000
 * resets at a time.) */
static void test_rest_of_frame(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    w.piece = 1000;
    for (int i = 0; i < 900; i++) {
        struct user *u = open_stream(&w);
        send_body(&w, u->stream->id, 16 * KIB, false);
        u->aborts_at_body = true;
        settle(&w);
        assert_int_equal(u->total, 991);
        w.count = 0;
        buf_clear(&w.said);
    }
    w.piece = 0;
    struct user *u = open_stream(&w);
    send_body(&w, u->stream->id, 20 * MIB, true);
    settle(&w);
    assert_int_equal(u->total, 20 * MIB);
    world_end(&w);
}

/* As many as a connection takes, with windows as large as there are, are not read; what they keep
 * stays within these. A stream that is read is not held up. */
static void test_paused_streams_hold_nobody_up(void **state)
{
    (void)state;
    enum { COUNT = H2_STREAMS_MAX - 1, FREE = COUNT / 2 };
    struct world w;
    struct user *u[COUNT];
    size_t kept = 0;
    world_init(&w, NULL);
    for (int i = 0; i < COUNT; i++) {
        u[i] = open_stream(&w);
        (void)window_of(&w, u[i]);
        if (i != FREE) {
            h2_stream_pause(u[i]->stream);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        send_body(&w, u[i]->stream->id, 2 * MIB, false);
    }
    settle(&w);
    for (int i = 0; i < COUNT; i++) {
        assert_true(i == FREE || u[i]->stream->kept.len > u[i]->stream->window / 2);
        kept += u[i]->stream->kept.len;
    }
    assert_in_range(kept, 12 * MIB, WINDOWS + COUNT * H2_WINDOW_FIRST);
    send_body(&w, u[FREE]->stream->id, 64 * MIB, true);
    settle(&w);
    assert_int_equal(u[FREE]->total, 78 * MIB);
    struct user *late = open_stream(&w);
    send_body(&w, late->stream->id, 20 * MIB, true);
    settle(&w);
    assert_int_equal(late->total, 20 * MIB);
    world_end(&w);
}

/* ---- sending ---- */

static struct h2_stream *post(struct world *w)
{
    struct http_head head = request_head("POST");
    head.framing = HTTP_BODY_CHUNKED;
    return ask_with(w, &head, false)->stream;
}

static void test_blocked(void **state)
{
    (void)state;
    static char bytes[MIB];
    for (unsigned holds = 0; holds < 2; holds++) {
        struct world w;
        world_init(&w, &(struct h2_peer_options){.holds_window = holds != 0});
        struct h2_stream *t = post(&w);
        settle(&w);
        drop_rooms(&w);
        assert_int_equal(h2_stream_send_body(t, slice_of(bytes, 64 * KIB)), 0);
        assert_false(h2_stream_blocked(t));
        assert_int_equal(h2_stream_send_body(t, slice_of(bytes, 1)), 0);
        assert_true(h2_stream_blocked(t));
        settle(&w);
        assert_int_equal(h2_stream_blocked(t), holds);
        assert_said(&w, holds ? "" : "a:drain ");
        for (int i = 0; holds && i < 3; i++) {
            assert_int_equal(h2_stream_send_body(t, slice_of(bytes, sizeof bytes)), 0);
        }
        assert_int_equal(h2_stream_send_body(t, slice_of(bytes, sizeof bytes)),
                         holds ? -ENOBUFS : 0);
        world_end(&w);
    }
}

static void test_large_upload(void **state)
{
    (void)state;
    static char bytes[MIB];
    struct world w;
    world_init(&w, NULL);
    memset(bytes, 'b', sizeof bytes);
    struct h2_stream *t = post(&w);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(h2_stream_send_body(t, slice_of(bytes, sizeof bytes)), 0);
        settle(&w);
        assert_false(h2_stream_blocked(t));
    }
    assert_int_equal(h2_stream_send_end(t), 0);
    settle(&w);
    struct h2_peer_request *r = h2_peer_request(w.peer, 0);
    assert_true(r->ended);
    assert_int_equal(r->body.len, 20 * MIB);
    assert_null(memchr(buf_data(&r->body), '\0', r->body.len));
    assert_null(w.users[0].stream->unsent.base);
    world_end(&w);
}

static struct http_head upload_head(uint64_t length)
{
    struct http_head head = request_head("PUT");
    head.framing = length == UINT64_MAX ? HTTP_BODY_CHUNKED : HTTP_BODY_LENGTH;
    head.content_length = length == UINT64_MAX ? 0 : length;
    return head;
}

static bool fits(struct world *w, uint64_t length)
{
    struct http_head head = upload_head(length);
    return h2_session_fits(w->s, &head);
}

/* To a server that reads nothing: what fits goes, in whatever pieces it comes. */
static void test_what_fits_is_sent(void **state)
{
    (void)state;
    static char bytes[9000];
    for (unsigned seed = 1; seed < 50; seed++) {
        struct world w;
        size_t length[100];
        unsigned random = seed;
        unsigned misfits = 0;
        size_t sum = 0;
        world_init(&w, &(struct h2_peer_options){.holds_window = true});
        settle(&w);
        while (misfits < 5 && w.count < 100) {
            size_t len = 1 + (size_t)rand_r(&random) % sizeof bytes;
            if (!fits(&w, len)) {
                misfits++;
                assert_true(sum + len > H2_WINDOW_FIRST);
                continue;
            }
            struct http_head head = upload_head(len);
            struct user *u = ask_with(&w, &head, false);
            length[w.count - 1] = len;
            sum += len;
            size_t now = (size_t)rand_r(&random) % len;
            assert_int_equal(h2_stream_send_body(u->stream, slice_of(bytes, now)), 0);
            if (rand_r(&random) % 2 == 0) {
                settle(&w);
            }
        }
        assert_true(sum <= H2_WINDOW_FIRST && w.count > 5);
        assert_true(fits(&w, 0));
        for (unsigned i = 0; i < w.count; i++) {
            struct h2_stream *t = w.users[i].stream;
            assert_int_equal(h2_stream_send_body(t, slice_of(bytes, (size_t)t->send_left)), 0);
            assert_int_equal(h2_stream_send_end(t), 0);
        }
        settle(&w);
        for (unsigned i = 0; i < w.count; i++) {
            assert_true(h2_peer_request(w.peer, i)->ended);
            assert_int_equal(h2_peer_request(w.peer, i)->body.len, length[i]);
        }
        assert_true(w.s->promised[0] == 0 && w.s->promised[1] == 0);
        assert_false(fits(&w, UINT64_MAX) || fits(&w, 1000 * 1000)); /* the window is used up */
        world_end(&w);
    }
}

/* A body of that length, or of an unknown one, of which so much is given. */
static struct user *upload(struct world *w, uint64_t length, size_t now)
{
    static char bytes[2 * MIB];
    struct http_head head = upload_head(length);
    struct user *u = ask_with(w, &head, false);
    assert_int_equal(h2_stream_send_body(u->stream, slice_of(bytes, now)), 0);
    if (now == length) {
        assert_int_equal(h2_stream_send_end(u->stream), 0);
    }
    return u;
}

/* Whatever large bodies the server does not read, the window has room for small ones, and only a
 * large one more waits for it. */
static void test_large_bodies_leave_room(void **state)
{
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        struct world w;
        uint64_t length = known == 1 ? MIB : UINT64_MAX;
        world_init(&w, &(struct h2_peer_options){.holds_window = true});
        settle(&w);
        assert_true(fits(&w, length) && fits(&w, 1));
        (void)upload(&w, length, MIB);
        assert_true(fits(&w, 16000));
        (void)upload(&w, length, MIB);
        assert_false(fits(&w, length));
        settle(&w);
        size_t taken = h2_peer_request(w.peer, 0)->body.len + h2_peer_request(w.peer, 1)->body.len;
        assert_in_range(taken, H2_WINDOW_FIRST / 2 + 1, H2_WINDOW_FIRST - 16000);
        assert_false(fits(&w, length) || fits(&w, HTTP_SMALL_BODY + 1));
        assert_true(fits(&w, 16000));
        (void)upload(&w, 16000, 16000);
        settle(&w);
        assert_true(h2_peer_request(w.peer, 2)->ended);
        world_end(&w);
    }
}

/* What was held goes on as the server reads, each at its turn, and small ones pass. */
static void test_large_bodies_go_on(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    for (unsigned i = 0; i < 4; i++) {
        (void)upload(&w, MIB, MIB);
    }
    to_server(&w); /* as much as goes */
    (void)upload(&w, 10000, 10000);
    to_server(&w);
    assert_true(h2_peer_request(w.peer, 4)->ended);
    assert_false(h2_peer_request(w.peer, 0)->ended);
    settle(&w);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(h2_peer_request(w.peer, i)->ended);
        assert_int_equal(h2_peer_request(w.peer, i)->body.len, MIB);
    }
    assert_true(w.s->promised[0] == 0 && w.s->promised[1] == 0);
    for (unsigned i = 0; i < 5; i++) {
        h2_peer_answer(w.peer, w.users[i].stream->id, 200, NULL, true);
    }
    settle(&w);
    assert_true(fits(&w, UINT64_MAX) && fits(&w, 40000));
    world_end(&w);
}

/* Whoever does not send keeps no place from others. */
static void test_looks_release_what_does_not_move(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    assert_false(h2_session_look(w.s, 2000, 30000)); /* there is nothing to look at */
    for (unsigned i = 0; i < 3; i++) {
        (void)upload(&w, 20000, 0);
    }
    (void)upload(&w, UINT64_MAX, 0);
    settle(&w);
    drop_rooms(&w);
    for (unsigned i = 0; i < 2; i++) { /* before the first they may just have come */
        assert_false(fits(&w, HTTP_SMALL_BODY) || fits(&w, UINT64_MAX));
        assert_true(h2_session_look(w.s, 2000, 30000));
        settle(&w);
    }
    assert_said(&w, "room(96) ");
    assert_true(fits(&w, HTTP_SMALL_BODY) && fits(&w, UINT64_MAX));
    for (unsigned i = 0; i < 100; i++) { /* nor is it the server's fault */
        assert_true(h2_session_look(w.s, 2000, 30000));
    }
    assert_said(&w, "");
    for (unsigned i = 0; i < 4; i++) {
        h2_stream_abort(w.users[i].stream);
    }
    assert_false(h2_session_look(w.s, 2000, 30000));
    world_end(&w);
}

/* What the server does not read ends, whether its own window or that of all is closed. */
static void test_what_is_stuck_ends(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, &(struct h2_peer_options){.holds_window = true});
    settle(&w);
    (void)upload(&w, 2 * MIB, 2 * MIB);
    (void)upload(&w, UINT64_MAX, MIB);
    settle(&w);
    unsigned looks = 0;
    for (drop_rooms(&w); w.said.len == 0 && looks < 100; looks++) {
        (void)h2_session_look(w.s, 2000, 30000);
        drop_rooms(&w);
        to_server(&w);
        drop_rooms(&w);
    }
    assert_said(&w, "a:reset(-110) b:reset(-110) ");
    assert_in_range(looks, 16, 18); /* something was sent before the first, and moved once more */
    settle(&w);
    assert_int_equal(w.s->count, 0);
    world_end(&w);
}

/* Who was told that a body does not fit is told when the window is wider. */
static void test_room_for_what_did_not_fit(void **state)
{
    (void)state;
    static char bytes[40000];
    struct world w;
    struct http_head head = upload_head(sizeof bytes);
    world_init(&w, NULL);
    settle(&w);
    struct user *u = ask_with(&w, &head, false);
    settle(&w);
    drop_rooms(&w);
    assert_false(fits(&w, sizeof bytes));
    assert_int_equal(h2_stream_send_body(u->stream, slice_of(bytes, sizeof bytes)), 0);
    assert_int_equal(h2_stream_send_end(u->stream), 0);
    assert_said(&w, "");
    to_server(&w);
    assert_false(fits(&w, sizeof bytes)); /* it is on its way */
    settle(&w);
    assert_said(&w, "room(99) ");
    /* The server has not opened all of the window, and may not have read all. */
    assert_true(h2_session_shares(w.s, &head));
    h2_peer_answer(w.peer, u->stream->id, 200, NULL, true);
    settle(&w);
    assert_true(fits(&w, sizeof bytes));
    world_end(&w);
}

static void check_counts(const struct world *w)
{
    int64_t promised[2] = {0, 0};
    unsigned bodies = 0;
    unsigned uploads = 0;
    LIST_FOR_EACH(node, &w->s->streams)
    {
        const struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        assert_true(t->promised >= 0);
        promised[t->large] += t->promised;
        bodies += t->has_body ? 1 : 0;
        uploads += t->large ? 1 : 0;
    }
    assert_true(promised[0] == w->s->promised[0] && promised[1] == w->s->promised[1]);
    assert_true(bodies == w->s->bodies && uploads == w->s->uploads);
}

static bool is_open(const struct user *u)
{
    return u->stream != NULL && u->stream->out == H2_OUT_OPEN;
}

static void send_rest(struct user *u)
{
    static const char bytes[300 * KIB];
    uint64_t left = u->stream->send_left != UINT64_MAX ? u->stream->send_left : 5000;
    assert_int_equal(h2_stream_send_body(u->stream, slice_of(bytes, (size_t)left)), 0);
    assert_int_equal(h2_stream_send_end(u->stream), 0);
}

static void do_something(struct world *w, unsigned *random)
{
    static const uint64_t lengths[] = {1,     900,       16000,     HTTP_SMALL_BODY,
                                       40000, 300 * KIB, UINT64_MAX};
    uint64_t length = lengths[(size_t)rand_r(random) % ARRAY_LEN(lengths)];
    struct user *u = w->count > 0 ? &w->users[(unsigned)rand_r(random) % w->count] : NULL;
    switch (rand_r(random) % 10) {
    case 0:
    case 1:
        if (w->count < ARRAY_LEN(w->users) && h2_session_room(w->s) > 0 &&
            (fits(w, length) || rand_r(random) % 4 == 0)) {
            (void)upload(w, length, rand_r(random) % 2 == 0 ? length % MIB / 2 : 0);
        }
        break;
    case 2:
        if (u != NULL && is_open(u)) {
            send_rest(u);
        }
        break;
    case 3:
        if (u != NULL && u->stream != NULL) {
            h2_stream_abort(u->stream);
            u->stream = NULL;
        }
        break;
    case 4:
        if (u != NULL && u->stream != NULL && u->stream->id > 0) {
            h2_peer_reset(w->peer, u->stream->id, rand_r(random) % 2 == 0 ? NO_ERROR : CANCEL);
        }
        break;
    case 5:
        (void)h2_session_look(w->s, 2000, 30000);
        break;
    case 6:
    case 7:
        to_client(w);
        break;
    default:
        to_server(w);
        break;
    }
}

/* Whatever happens to bodies, what is counted is the sum of theirs, and in the end nothing. */
static void test_counts_add_up(void **state)
{
    (void)state;
    static const uint32_t windows[] = {0, 700, 20000, MIB};
    for (unsigned seed = 1; seed <= 24; seed++) {
        struct world w;
        unsigned random = seed;
        world_init(&w, &(struct h2_peer_options){.window = windows[seed % ARRAY_LEN(windows)]});
        for (unsigned step = 0; step < 400; step++) {
            do_something(&w, &random);
            check_counts(&w);
        }
        for (unsigned i = 0; i < w.count; i++) {
            if (is_open(&w.users[i])) {
                send_rest(&w.users[i]);
            }
        }
        settle(&w);
        for (unsigned i = 0; i < h2_peer_request_count(w.peer); i++) {
            struct h2_peer_request *r = h2_peer_request(w.peer, i);
            if (r->ended && !r->reset) {
                h2_peer_answer(w.peer, r->id, 200, NULL, true);
            }
        }
        settle(&w);
        check_counts(&w);
        assert_int_equal(w.s->count, 0);
        world_end(&w);
    }
}

/* Its buffer is not empty when it is given up, and others go on. */
static void test_abort_of_blocked(void **state)
{
    (void)state;
    static char bytes[MIB];
    struct world w;
    world_init(&w, NULL);
    settle(&w);
    struct h2_stream *a = post(&w);
    struct h2_stream *b = post(&w);
    assert_int_equal(h2_stream_send_body(a, slice_of(bytes, sizeof bytes)), 0);
    assert_int_equal(h2_stream_send_body(b, slice_of(bytes, 100)), 0);
    struct buf wire = BUF_INIT(SIZE_MAX);
    assert_int_equal(h2_session_send(w.s, &wire), 0); /* as much as windows allow */
    h2_stream_abort(a);
    assert_int_equal(h2_stream_send_end(b), 0);
    assert_true(h2_peer_receive(w.peer, buf_slice(&wire)));
    buf_reset(&wire);
    settle(&w);
    assert_true(h2_peer_request(w.peer, 1)->ended);
    assert_int_equal(h2_peer_request(w.peer, 1)->body.len, 100);
    world_end(&w);
}

/* A server that is to close soon is found to break the protocol all the same, and what was taken
 * from nghttp2 to see that is sent. */
static void test_bodies_while_leaving(void **state)
{
    (void)state;
    static char bytes[MIB];
    struct world w;
    world_init(&w, NULL);
    struct h2_stream *t = post(&w);
    settle(&w);
    h2_peer_goaway(w.peer, 1, NO_ERROR);
    assert_int_equal(h2_stream_send_body(t, slice_of(bytes, sizeof bytes)), 0);
    to_client(&w);
    assert_true(w.s->early.len > 0 && w.s->early.len < 2 * H2_EARLY_MAX);
    settle(&w);
    assert_int_equal(h2_stream_send_end(t), 0);
    settle(&w);
    assert_int_equal(h2_peer_request(w.peer, 0)->body.len, MIB);
    assert_true(h2_peer_request(w.peer, 0)->ended);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_before_end),
        cmocka_unit_test(test_pause_before_head),
        cmocka_unit_test(test_resume_in_handlers),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_frames_make_one_piece),
        cmocka_unit_test(test_abort_between_frames),
        cmocka_unit_test(test_windows_grow),
        cmocka_unit_test(test_windows_after_a_pause),
        cmocka_unit_test(test_windows_of_unhurried_streams),
        cmocka_unit_test(test_windows_of_paused_streams_stay),
        cmocka_unit_test(test_windows_of_slow_streams_stay),
        cmocka_unit_test(test_data_of_aborted_streams),
        cmocka_unit_test(test_rest_of_frame),
        cmocka_unit_test(test_paused_streams_hold_nobody_up),
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_large_upload),
        cmocka_unit_test(test_what_fits_is_sent),
        cmocka_unit_test(test_large_bodies_leave_room),
        cmocka_unit_test(test_large_bodies_go_on),
        cmocka_unit_test(test_looks_release_what_does_not_move),
        cmocka_unit_test(test_what_is_stuck_ends),
        cmocka_unit_test(test_room_for_what_did_not_fit),
        cmocka_unit_test(test_counts_add_up),
        cmocka_unit_test(test_abort_of_blocked),
        cmocka_unit_test(test_bodies_while_leaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
