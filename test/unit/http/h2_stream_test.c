/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies both ways: windows, pauses, and what is kept meanwhile. */
#include "http/h2_world.h"

#include "http/h2_internal.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

/* So many bytes of a body. */
static void send(struct world *w, int32_t id, size_t len, bool end)
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
    send(&w, 1, 100 * 1000, true);
    settle(&w);
    assert_said(&w, "");
    assert_int_equal(w.s->kept, H2_WINDOW_FIRST);
    assert_int_equal(h2_peer_unsent(w.peer, 1), 100 * 1000 - H2_WINDOW_FIRST);
    u->pauses = true; /* at each piece */
    resume(&w, u);
    assert_int_equal(u->total, 16 * KIB);
    assert_int_equal(u->pieces, 1);
    u->pauses = false;
    resume(&w, u);
    assert_said(&w, "a:100000 a:end room(100) ");
    assert_int_equal(w.s->kept, 0);
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
    send(&w, 1, 0, true);
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
    send(&w, 1, 5, true);
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
    send(&w, 3, 40 * KIB, true);
    settle(&w);
    assert_int_equal(w.s->kept, 40 * KIB);
    send(&w, 1, 10, true);
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

static void test_windows_grow(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    struct user *u[6];
    for (int i = 0; i < 6; i++) {
        u[i] = open_stream(&w);
        send(&w, 1 + 2 * i, 12 * MIB, false);
        settle(&w);
        assert_int_equal(u[i]->total, 12 * MIB);
        assert_int_equal(u[i]->stream->window, i < 4 ? 4 * MIB : i == 4 ? 4 * 65535 : 65535);
    }
    assert_true(w.s->added <= H2_WINDOWS_ADDED_MAX);
    /* That is what the server may send ahead. */
    h2_stream_pause(u[0]->stream);
    send(&w, 1, 8 * MIB, false);
    settle(&w);
    assert_true(w.s->kept > 2 * MIB && w.s->kept <= 4 * MIB);
    /* When the stream ends, others may have it. */
    h2_stream_abort(u[0]->stream);
    assert_int_equal(w.s->kept, 0);
    send(&w, 11, 12 * MIB, true);
    settle(&w);
    assert_true(u[5]->total == 24 * MIB);
    for (int i = 1; i < 5; i++) {
        h2_stream_abort(u[i]->stream);
    }
    assert_int_equal(w.s->added, 0);
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
        send(&w, 1, 60 * 1000, false);
        to_client(&w);
        h2_stream_pause(u->stream);
        resume(&w, u);
    }
    assert_int_equal(u->total, 100 * 60 * 1000);
    assert_int_equal(u->stream->window, H2_WINDOW_FIRST);
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
        send(&w, 1, 30 * 1000, false);
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
        send(&w, id, 60 * 1000, false);
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
    assert_int_equal(w.s->kept, 0);
    struct user *u = open_stream(&w);
    send(&w, u->stream->id, 20 * MIB, true);
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
        send(&w, u->stream->id, 16 * KIB, false);
        u->aborts_at_body = true;
        settle(&w);
        assert_int_equal(u->total, 991);
        w.count = 0;
        buf_clear(&w.said);
    }
    w.piece = 0;
    struct user *u = open_stream(&w);
    send(&w, u->stream->id, 20 * MIB, true);
    settle(&w);
    assert_int_equal(u->total, 20 * MIB);
    world_end(&w);
}

/* Paused streams hold others up only when they keep much more than 8 MiB. */
static void test_connection_window(void **state)
{
    (void)state;
    enum { LARGE = 4, FREE = 4, SMALL = 5, COUNT = 95 };
    struct world w;
    struct user *u[COUNT];
    world_init(&w, NULL);
    for (int i = 0; i < COUNT; i++) {
        u[i] = open_stream(&w);
        if (i < LARGE) {
            send(&w, 1 + 2 * i, 6 * MIB, false);
            settle(&w);
            assert_int_equal(u[i]->stream->window, 4 * MIB);
        }
        if (i != FREE) {
            h2_stream_pause(u[i]->stream);
        }
    }
    for (int i = 0; i < LARGE; i++) {
        send(&w, 1 + 2 * i, 4 * MIB, false);
    }
    settle(&w);
    assert_true(w.s->kept > 8 * MIB && w.s->kept <= 16 * MIB);
    send(&w, 9, 20 * MIB, false);
    settle(&w);
    assert_int_equal(u[FREE]->total, 20 * MIB); /* not held up */
    for (int i = SMALL; i < COUNT; i++) {
        send(&w, 1 + 2 * i, 64 * KIB, false);
    }
    settle(&w);
    assert_true(w.s->kept > 16 * MIB && w.s->kept <= 24 * MIB);
    send(&w, 9, 20 * MIB, false);
    settle(&w);
    assert_true(u[FREE]->total < 40 * MIB); /* held up now */
    resume(&w, u[0]);
    resume(&w, u[1]);
    assert_int_equal(u[FREE]->total, 40 * MIB); /* no longer */
    h2_stream_pause(u[0]->stream);
    h2_stream_pause(u[1]->stream);
    send(&w, 1, 4 * MIB, false);
    send(&w, 3, 4 * MIB, false);
    settle(&w);
    send(&w, 9, 20 * MIB, false);
    settle(&w);
    assert_true(u[FREE]->total < 60 * MIB); /* held up again */
    for (int i = 0; i < COUNT; i++) {
        if (i != FREE) {
            h2_stream_abort(u[i]->stream);
        }
    }
    assert_int_equal(w.s->kept, 0);
    settle(&w);
    assert_int_equal(u[FREE]->total, 60 * MIB);
    send(&w, 9, 20 * MIB, true);
    settle(&w);
    assert_int_equal(u[FREE]->total, 80 * MIB);
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
    struct world w;
    world_init(&w, &(struct h2_peer_options){.holds_window = true});
    struct h2_stream *t = post(&w);
    settle(&w);
    drop_rooms(&w);
    assert_int_equal(h2_stream_send_body(t, slice_of(bytes, 64 * KIB)), 0);
    assert_false(h2_stream_blocked(t));
    assert_int_equal(h2_stream_send_body(t, slice_of(bytes, 1)), 0);
    assert_true(h2_stream_blocked(t));
    settle(&w); /* the window takes all but two bytes of it */
    assert_false(h2_stream_blocked(t));
    assert_said(&w, "a:drain ");
    assert_int_equal(h2_peer_request(w.peer, 0)->body.len, 65535);
    assert_int_equal(h2_stream_send_body(t, slice_of(bytes, 64 * KIB)), 0);
    assert_true(h2_stream_blocked(t));
    settle(&w);
    assert_true(h2_stream_blocked(t));
    assert_said(&w, "");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(h2_stream_send_body(t, slice_of(bytes, sizeof bytes)), 0);
    }
    assert_int_equal(h2_stream_send_body(t, slice_of(bytes, sizeof bytes)), -ENOBUFS);
    world_end(&w);
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
        cmocka_unit_test(test_windows_grow),
        cmocka_unit_test(test_windows_of_paused_streams_stay),
        cmocka_unit_test(test_windows_of_slow_streams_stay),
        cmocka_unit_test(test_data_of_aborted_streams),
        cmocka_unit_test(test_rest_of_frame),
        cmocka_unit_test(test_connection_window),
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_large_upload),
        cmocka_unit_test(test_abort_of_blocked),
        cmocka_unit_test(test_bodies_while_leaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
