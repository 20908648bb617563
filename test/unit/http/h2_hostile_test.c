/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that break the rules. Each row is what one sends while stream 1 (a GET, `a`) is open:
 * runs of frames, given whole and byte by byte, with what the handlers are told, and the RST_STREAM
 * and GOAWAY frames that go out.
 */
#include "http/h2_world.h"

#include "http/h2_internal.h"

#define FRAME(length, type, flags, id) "\0\0" length type flags "\0\0\0" id
#define DATA(length, flags, id) FRAME(length, "\0", flags, id)
#define HEADERS(length, flags, id) FRAME(length, "\1", flags, id)
#define OK HEADERS("\1", "\4", "\1") "\x88" /* :status: 200 */
#define OK_TOLD "a:head(200 chunked) "
/* A literal field that is not put into the table. */
#define FIELD(name_len, name, value_len, value) "\0" name_len name value_len value

struct row {
    const char *name;
    const char *bytes;
    size_t len;
    const char *said;
    const char *sent;
};

#define ROW(name_, bytes_, said_, sent_)                                                           \
    {                                                                                              \
        .name = name_, .bytes = bytes_, .len = sizeof(bytes_) - 1, .said = said_, .sent = sent_    \
    }

static const struct row rows[] = {
    /* Of one stream. */
    ROW("no status", HEADERS("\0", "\4", "\1"), "a:reset(-400) ", "rst(1, 1) "),
    ROW("two of them", HEADERS("\2", "\4", "\1") "\x88\x88", "a:reset(-400) ", "rst(1, 1) "),
    ROW("status behind a header", HEADERS("\7", "\4", "\1") FIELD("\1", "a", "\2", "bc") "\x88",
        "a:reset(-400) ", "rst(1, 1) "),
    ROW("a name with capitals", HEADERS("\7", "\4", "\1") "\x88" FIELD("\1", "A", "\2", "bc"),
        "a:reset(-400) ", "rst(1, 1) "),
    ROW("a line break in a value", HEADERS("\7", "\4", "\1") "\x88" FIELD("\1", "a", "\2", "b\n"),
        "a:reset(-400) ", "rst(1, 1) "),
    ROW("a NUL in a value", HEADERS("\7", "\4", "\1") "\x88" FIELD("\1", "a", "\2", "b\0"),
        "a:reset(-400) ", "rst(1, 1) "),
    ROW("no name", HEADERS("\6", "\4", "\1") "\x88" FIELD("\0", "", "\2", "bc"), "a:reset(-400) ",
        "rst(1, 1) "),
    ROW("a request's field", HEADERS("\2", "\4", "\1") "\x88\x82", "a:reset(-400) ", "rst(1, 1) "),
    ROW("a second head", OK HEADERS("\1", "\4", "\1") "\x88", OK_TOLD "a:reset(-400) ",
        "rst(1, 1) "),
    ROW("trailers that end nothing", OK HEADERS("\6", "\4", "\1") FIELD("\1", "a", "\2", "bc"),
        OK_TOLD "a:reset(-400) ", "rst(1, 1) "),
    ROW("a status among the trailers", OK HEADERS("\1", "\5", "\1") "\x88",
        OK_TOLD "a:reset(-400) ", "rst(1, 1) "),
    ROW("an interim response that ends",
        HEADERS("\5", "\5", "\1") "\x08\x03"
                                  "100",
        "a:reset(-400) ", "rst(1, 1) "),
    ROW("a stream that depends on itself", HEADERS("\6", "\x24", "\1") "\0\0\0\1\0\x88",
        "a:head(200 chunked) ", ""),
    ROW("a window that overflows",
        FRAME("\4", "\x8", "\0", "\1") "\x7f\xff\xff\xff" FRAME("\4", "\x8", "\0",
                                                                "\1") "\x7f\xff\xff\xff",
        "a:reset(-400) ", "rst(1, 3) "),
    ROW("data behind the reset",
        OK FRAME("\4", "\3", "\0", "\1") "\0\0\0\2" DATA("\1", "\0", "\1") "x",
        OK_TOLD "a:reset(-104) ", ""),

    /* Of the connection. */
    ROW("HTTP/1.1", "HTTP/1.1 400 Bad Request\r\n\r\n", "", "goaway(6) "),
    ROW("data first", DATA("\1", "\0", "\1") "x", "", "goaway(1) "),
    ROW("data on no stream", DATA("\1", "\0", "\0") "x", "", "goaway(1) "),
    ROW("data on an idle stream", DATA("\1", "\0", "\3") "x", "", "goaway(1) "),
    ROW("a response that was not asked for", HEADERS("\1", "\4", "\3") "\x88", "", "goaway(1) "),
    ROW("a stream of the server's", HEADERS("\1", "\4", "\2") "\x88", "", "goaway(1) "),
    ROW("a head on no stream", HEADERS("\1", "\4", "\0") "\x88", "", "goaway(1) "),
    ROW("a push", FRAME("\5", "\5", "\4", "\1") "\0\0\0\2\x82", "", "goaway(1) "),
    ROW("a continuation of nothing", FRAME("\1", "\x9", "\4", "\1") "\x88", "", "goaway(1) "),
    ROW("a head that is interrupted", HEADERS("\1", "\0", "\1") "\x88" DATA("\1", "\0", "\1") "x",
        "", "goaway(1) "),
    ROW("no such entry of the table", HEADERS("\1", "\4", "\1") "\xff", "", "goaway(9) "),
    ROW("a table that is too large", HEADERS("\4", "\4", "\1") "\x3f\xe2\x1f\x88", "",
        "goaway(9) "),
    ROW("a frame that is too large", "\0\x40\x01\0\0\0\0\0\1", "", "goaway(6) "),
    ROW("padding beyond the frame", OK DATA("\1", "\x8", "\1") "\5", OK_TOLD, "goaway(1) "),
    ROW("a reset of an idle stream", FRAME("\4", "\3", "\0", "\3") "\0\0\0\1", "", "goaway(1) "),
    ROW("a short reset", FRAME("\3", "\3", "\0", "\1") "\0\0\0", "", "goaway(6) "),
    ROW("a short ping", FRAME("\1", "\6", "\0", "\0") "x", "", "goaway(6) "),
    ROW("a ping on a stream", FRAME("\x8", "\6", "\0", "\1") "abcdefgh", "", "goaway(1) "),
    ROW("settings on a stream", FRAME("\0", "\4", "\0", "\1"), "", "goaway(1) "),
    ROW("settings of odd length", FRAME("\1", "\4", "\0", "\0") "x", "", "goaway(6) "),
    ROW("a bad setting", FRAME("\6", "\4", "\0", "\0") "\0\4\xff\xff\xff\xff", "", "goaway(3) "),
    ROW("push as the server's setting", FRAME("\6", "\4", "\0", "\0") "\0\2\0\0\0\2", "",
        "goaway(1) "),
    ROW("an answer to no settings", FRAME("\0", "\4", "\1", "\0"), "", "goaway(1) "),
    ROW("a window of nothing", FRAME("\4", "\x8", "\0", "\0") "\0\0\0\0", "", "goaway(1) "),
    ROW("the connection's window overflows", FRAME("\4", "\x8", "\0", "\0") "\x7f\xff\xff\xff", "",
        "goaway(3) "),
    ROW("GOAWAY on a stream", FRAME("\x8", "\7", "\0", "\1") "\0\0\0\0\0\0\0\0", "", "goaway(1) "),
    ROW("after GOAWAY",
        FRAME("\x8", "\7", "\0", "\0") "\0\0\0\1\0\0\0\0" DATA("\1", "\0", "\0") "x", "",
        "goaway(1) "),

    /* What may come. */
    ROW("frames of unknown type", FRAME("\1", "\x77", "\xff", "\1") "x" OK, OK_TOLD, ""),
    ROW("unknown settings", FRAME("\6", "\4", "\0", "\0") "\x77\x77\0\0\0\1" OK, OK_TOLD, ""),
    ROW("a priority", FRAME("\5", "\2", "\0", "\1") "\0\0\0\3\0" OK, OK_TOLD, ""),
    ROW("padding", OK DATA("\4", "\x9", "\1") "\2x\0\0", OK_TOLD "a:1 a:end ", ""),
    ROW("a continuation", HEADERS("\0", "\0", "\1") FRAME("\1", "\x9", "\4", "\1") "\x88", OK_TOLD,
        ""),
};

/* The RST_STREAM and GOAWAY frames of the client, as text. */
static void say_frames(struct world *w, struct slice wire)
{
    const uint8_t *at = (const uint8_t *)wire.ptr;
    while (wire.len > 0) {
        size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        assert_true(9 + len <= wire.len);
        if (at[3] == NGHTTP2_RST_STREAM) {
            say(w, "rst(%u, %u) ", at[8], at[12]);
        } else if (at[3] == NGHTTP2_GOAWAY) {
            say(w, "goaway(%u) ", at[16]);
        }
        at += 9 + len;
        wire = slice_of((const char *)at, wire.len - 9 - len);
    }
}

/* Stream 1 is open, and nothing waits to be sent. */
static void open_one(struct world *w)
{
    world_init(w, NULL);
    (void)get(w);
    settle(w);
    drop_rooms(w);
}

static void assert_row(struct world *w, const struct row *row, int rc)
{
    struct buf wire = BUF_INIT(SIZE_MAX);
    struct buf want = BUF_INIT(SIZE_MAX);
    assert_int_equal(h2_session_send(w->s, &wire), 0);
    drop_rooms(w);
    bool broken = strstr(row->sent, "goaway") != NULL;
    (void)buf_append_str(&want, row->name);
    (void)buf_append_str(&want, row->said);
    (void)buf_append_str(&want, row->sent);
    struct buf told = w->said;
    buf_init(&w->said, SIZE_MAX);
    say(w, "%s%s", row->name, told.len > 0 ? buf_cstr(&told) : "");
    say_frames(w, buf_slice(&wire));
    assert_said(w, buf_cstr(&want));
    buf_reset(&told);
    buf_reset(&want);
    assert_int_equal(rc, broken ? -HTTP_PARSE_BAD : 0);
    /* It stays so. */
    assert_int_equal(h2_session_receive(w->s, slice_of(NULL, 0), &w->e), rc);
    assert_int_equal(h2_session_room(w->s) == 0, broken);
    buf_reset(&wire);
}

/* In one go, byte by byte, and cut in two at each place. */
static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        for (size_t cut = 0; cut <= row->len; cut++) {
            struct world w;
            open_one(&w);
            w.piece = cut == 0 ? 1 : 0;
            int rc = feed(&w, slice_of(row->bytes, cut));
            rc = rc != 0 ? rc : feed(&w, slice_of(row->bytes + cut, row->len - cut));
            assert_row(&w, row, rc);
            world_end(&w);
        }
    }
}

/* Its first frame is to be SETTINGS. */
static void test_no_settings(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    assert_int_equal(feed(&w, slice_of(OK, sizeof OK - 1)), -HTTP_PARSE_BAD);
    assert_non_null(strstr(w.e.msg, "SETTINGS"));
    world_end(&w);
}

/* `count` times the same, in one go, while nothing is sent. The session's answer to it. */
static int flood(struct world *w, const char *bytes, size_t len, int count)
{
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        rc = feed(w, slice_of(bytes, len));
    }
    return rc;
}

#define FLOOD(bytes) bytes, sizeof(bytes) - 1

static void test_floods(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        size_t first_len;
        const char *bytes;
        size_t len;
        int taken; /* so many are */
        int refused;
    } floods[] = {
        {FLOOD(""), FLOOD(FRAME("\x8", "\6", "\0", "\0") "abcdefgh"), 900, 2000},
        {FLOOD(""), FLOOD(FRAME("\0", "\4", "\0", "\0")), 900, 2000},
        {FLOOD(OK), FLOOD(DATA("\0", "\0", "\1")), 1000, 2},
        {FLOOD(OK), FLOOD(DATA("\3", "\x8", "\1") "\2\0\0"), 1000, 2},
        {FLOOD(HEADERS("\1", "\0", "\1") "\x88"), FLOOD(FRAME("\0", "\x9", "\0", "\1")),
         H2_CONTINUATIONS_MAX - 1, 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(floods); i++) {
        struct world w;
        open_one(&w);
        assert_int_equal(feed(&w, slice_of(floods[i].first, floods[i].first_len)), 0);
        assert_int_equal(flood(&w, floods[i].bytes, floods[i].len, floods[i].taken), 0);
        assert_int_equal(flood(&w, floods[i].bytes, floods[i].len, floods[i].refused),
                         -HTTP_PARSE_BAD);
        world_end(&w);
    }
}

/* Empty frames between others are no flood, and answers that are sent make room for more. */
static void test_no_floods(void **state)
{
    (void)state;
    struct world w;
    open_one(&w);
    assert_int_equal(feed(&w, slice_of(FLOOD(OK))), 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(flood(&w, FLOOD(DATA("\0", "\0", "\1")), 900), 0);
        assert_int_equal(feed(&w, slice_of(FLOOD(DATA("\1", "\0", "\1") "x"))), 0);
        assert_int_equal(flood(&w, FLOOD(FRAME("\x8", "\6", "\0", "\0") "abcdefgh"), 900), 0);
        settle(&w);
    }
    assert_said(&w, OK_TOLD "a:50 ");
    assert_int_equal(h2_peer_pongs(w.peer), 50 * 900);
    world_end(&w);
}

/* As Go's server ends watches in which nothing happened. */
static void test_empty_ends_are_no_flood(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, NULL);
    for (int i = 0; i < 1100; i++) {
        struct user *u = get(&w);
        settle(&w);
        h2_peer_answer(w.peer, u->stream->id, 200, NULL, false);
        settle(&w);
        h2_peer_body(w.peer, u->stream->id, SLICE(""), true);
        settle(&w);
        assert_int_equal(w.s->count, 0);
        w.count = 0;
        buf_clear(&w.said);
    }
    assert_int_equal(h2_peer_goaway_code(w.peer), -1);
    world_end(&w);
}

/* More than its windows allow. */
static void test_data_beyond_window(void **state)
{
    (void)state;
    static char frame[9 + 16384];
    memcpy(frame, "\0\x40\0\0\0\0\0\0\1", 9);
    struct world w;
    open_one(&w);
    h2_stream_pause(w.users[0].stream);
    assert_int_equal(feed(&w, slice_of(FLOOD(OK))), 0);
    assert_int_equal(flood(&w, frame, sizeof frame, 3), 0);
    drop_rooms(&w);
    assert_said(&w, OK_TOLD);
    assert_int_equal(flood(&w, frame, sizeof frame, 2), 0);
    assert_said(&w, "a:reset(-400) room(100) ");
    world_end(&w);
}

/* A list that grows out of a few bytes: each refers to a long field of the table. */
static void test_compressed_bomb(void **state)
{
    (void)state;
    struct buf block = BUF_INIT(SIZE_MAX);
    struct world w;
    open_one(&w);
    buf_append(&block, "\x88\x40\1a\x7f\xa1\x1e", 7); /* indexed; 127 + 33 + 30 * 128 bytes */
    for (int i = 0; i < 4000; i++) {
        buf_append_char(&block, 'x');
    }
    for (int i = 0; i < 12000; i++) {
        buf_append_char(&block, (char)0xbe); /* the newest entry */
    }
    assert_int_equal(buf_error(&block), 0);
    char head[9] = "\0\0\0\1\4\0\0\0\1";
    head[1] = (char)(block.len >> 8);
    head[2] = (char)(block.len & 0xff);
    assert_int_equal(feed(&w, slice_of(head, sizeof head)), 0);
    assert_int_equal(feed(&w, buf_slice(&block)), 0);
    assert_said(&w, "a:reset(-431) room(100) ");
    assert_true(w.s->head.bytes.cap <= H2_HEAD_MAX);
    buf_reset(&block);
    world_end(&w);
}

/* A head with so many fields of 1 KiB, each in a frame of its own. */
static int feed_pieces_of_head(struct world *w, unsigned fields, char id)
{
    char field[9 + 9 + 1024] = "\0\4\6\x9\0\0\0\0\1"
                               "\0\1a\x7f\x81\x7"; /* a literal: 127 + 1 + 7 * 128 bytes */
    const char first[] = HEADERS("\1", "\0", "\1") "\x88";
    const char last[] = FRAME("\0", "\x9", "\4", "\1");
    struct buf bytes = BUF_INIT(SIZE_MAX);
    memset(field + 15, 'x', sizeof field - 15);
    field[8] = id;
    buf_append(&bytes, first, sizeof first - 1);
    buf_data(&bytes)[8] = (uint8_t)id;
    for (unsigned i = 0; i < fields; i++) {
        buf_append(&bytes, field, 9 + 1030);
    }
    buf_append(&bytes, last, sizeof last - 1);
    buf_data(&bytes)[bytes.len - 1] = (uint8_t)id;
    assert_int_equal(buf_error(&bytes), 0);
    int rc = feed(w, buf_slice(&bytes));
    buf_reset(&bytes);
    return rc;
}

/* One that is too large fails its request alone, in however many frames it comes. */
static void test_heads_in_many_frames(void **state)
{
    (void)state;
    struct world w;
    open_one(&w);
    w.quiet = true;
    (void)get(&w);
    (void)get(&w);
    settle(&w);
    assert_int_equal(feed_pieces_of_head(&w, 40, 1), 0);
    drop_rooms(&w);
    assert_said(&w, "a:head(200) ");
    assert_int_equal(feed_pieces_of_head(&w, 70, 3), 0);
    drop_rooms(&w);
    assert_said(&w, "b:reset(-431) ");
    assert_int_equal(feed_pieces_of_head(&w, 1, 5), 0);
    assert_said(&w, "c:head(200) ");
    world_end(&w);
}

/* Trailers are dropped, but not without limits. */
static void test_large_trailers(void **state)
{
    (void)state;
    struct buf headers = BUF_INIT(SIZE_MAX);
    struct world w;
    open_one(&w);
    for (int i = 0; i < 129; i++) {
        assert_int_equal(buf_printf(&headers, "n%d: x\n", i), 0);
    }
    h2_peer_answer(w.peer, 1, 200, NULL, false);
    h2_peer_body(w.peer, 1, SLICE("x"), false);
    settle(&w);
    h2_peer_trailers(w.peer, 1, buf_cstr(&headers));
    settle(&w);
    assert_said(&w, OK_TOLD "a:1 a:reset(-431) room(100) ");
    buf_reset(&headers);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_settings),
        cmocka_unit_test(test_floods),
        cmocka_unit_test(test_no_floods),
        cmocka_unit_test(test_empty_ends_are_no_flood),
        cmocka_unit_test(test_data_beyond_window),
        cmocka_unit_test(test_compressed_bomb),
        cmocka_unit_test(test_heads_in_many_frames),
        cmocka_unit_test(test_large_trailers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
