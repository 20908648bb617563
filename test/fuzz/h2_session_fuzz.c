/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server's side of an HTTP/2 connection: the input is a row of steps, each one byte of what the
 * client does, one byte of length, and so many bytes that the server sends.
 *
 * However the server's bytes are cut, the same must be told of each stream; every stream ends once,
 * and nothing is told of it then; what is kept is bounded, and given back.
 */
#include <string.h>

#include "check.h"
#include "http/h1_parser.h"
#include "http/h2_internal.h"
#include "pieces.h"

enum { USERS_MAX = 24, WINDOWS_MAX = 1024 * 1024 };

#define KEPT_MAX ((size_t)USERS_MAX * H2_WINDOW_FIRST + WINDOWS_MAX)

struct run;

struct user {
    struct run *run;
    struct h2_stream *stream; /* NULL once it is gone */
    struct buf said;
    struct buf body;
    bool has_head;
    bool ended; /* the response */
    bool aborts_at_head;
    bool aborts_at_body;
    bool vague; /* what has come of its body depends on how the bytes were cut */
};

struct run {
    struct h2_session *s;
    struct buf out;
    struct byte_budget budget;
    struct byte_budget windows;
    struct user users[USERS_MAX];
    unsigned count;
    unsigned pongs;
    int rc;
    bool deserted; /* after GOAWAY no stream is left: nghttp2 reads no further */
    enum pieces_way way;
    uint32_t random;
};

static void put(struct buf *b, const char *text)
{
    CHECK(buf_append_str(b, text) == 0);
}

static void gone(struct user *u)
{
    CHECK(u->stream != NULL);
    u->stream = NULL;
}

static void give_up(struct user *u)
{
    struct h2_stream *t = u->stream;
    gone(u);
    h2_stream_abort(t);
}

static void on_head(void *data, const struct http_head *head)
{
    struct user *u = data;
    CHECK(u->stream != NULL && !u->has_head);
    CHECK(head->status >= 200 && head->status <= 999 && head->header_count <= H2_HEADERS_MAX);
    CHECK(!h2_stream_untouched(u->stream));
    u->has_head = true;
    /* Of a body that is longer than announced nghttp2 drops the piece that is. */
    u->vague = head->framing == HTTP_BODY_LENGTH;
    CHECK(buf_printf(&u->said, "[%u %d %llu", head->status, head->framing,
                     (unsigned long long)head->content_length) == 0);
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *h = &head->headers[i];
        CHECK(h->name.len > 0 && memchr(h->value.ptr, '\n', h->value.len) == NULL);
        put(&u->said, " ");
        CHECK(buf_append(&u->said, h->name.ptr, h->name.len) == 0);
        put(&u->said, "=");
        CHECK(buf_append(&u->said, h->value.ptr, h->value.len) == 0);
    }
    put(&u->said, "]");
    if (u->aborts_at_head) {
        give_up(u);
    }
}

static void on_body(void *data, struct slice bytes)
{
    struct user *u = data;
    CHECK(u->stream != NULL && u->has_head && !u->ended && bytes.len > 0);
    if (u->aborts_at_body) {
        u->vague = true;
        give_up(u);
        return;
    }
    CHECK(buf_append(&u->body, bytes.ptr, bytes.len) == 0);
}

static void on_end(void *data, bool whole)
{
    struct user *u = data;
    CHECK(u->stream != NULL && u->has_head && !u->ended);
    u->ended = true;
    u->vague = false;
    put(&u->said, whole ? "[end]" : "[answered]");
    if (whole) {
        gone(u);
    }
}

static void on_sent(void *data)
{
    struct user *u = data;
    CHECK(u->ended);
    put(&u->said, "[sent]");
    gone(u);
}

static void on_drain(void *data)
{
    struct user *u = data;
    CHECK(u->stream != NULL && !h2_stream_blocked(u->stream));
}

static void on_reset(void *data, enum h2_end how, const struct err *e)
{
    struct user *u = data;
    CHECK(e->code < 0 && e->msg[0] != '\0');
    CHECK(how == H2_END_RESET || !u->has_head);
    CHECK(buf_printf(&u->said, "[reset %d %d]", (int)how, e->code) == 0);
    gone(u);
}

static void on_room(void *data)
{
    struct run *r = data;
    CHECK(h2_session_room(r->s) <= H2_STREAMS_MAX);
}

static void on_pong(void *data)
{
    ((struct run *)data)->pongs++;
}

static const struct h2_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_drain = on_drain,
    .on_reset = on_reset,
    .on_room = on_room,
    .on_pong = on_pong,
};

/* ---- what the client does ---- */

static void ask(struct run *r, uint8_t how)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT"};
    static const struct http_header host = {{"Host", 4}, {"h", 1}};
    struct err e = ERR_INIT;
    bool ended = (how & 2) == 0;
    if (r->count == USERS_MAX) {
        return;
    }
    struct user *u = &r->users[r->count];
    const struct http_head head = {
        .method = slice_str(methods[how & 3]),
        .target = SLICE("/"),
        .headers = &host,
        .header_count = 1,
        .framing = ended            ? HTTP_BODY_NONE
                   : (how & 4) != 0 ? HTTP_BODY_LENGTH
                                    : HTTP_BODY_CHUNKED,
        .content_length = 8,
        .budget = (how & 8) != 0 ? &r->budget : NULL,
    };
    *u = (struct user){
        .run = r,
        .said = BUF_INIT(SIZE_MAX),
        .body = BUF_INIT(SIZE_MAX),
        .aborts_at_head = (how & 0x30) == 0x10,
        .aborts_at_body = (how & 0x30) == 0x20,
    };
    bool room = h2_session_room(r->s) > 0;
    u->stream = h2_session_request(r->s, &head, ended, u, &e);
    CHECK(room == (u->stream != NULL) || e.code == -HTTP_PARSE_TOO_LARGE);
    r->count += u->stream != NULL ? 1 : 0;
}

/* Of a stream that is there. */
static void act(struct run *r, struct user *u, unsigned what)
{
    static char bytes[40 * 1024];
    struct h2_stream *t = u->stream;
    switch (what) {
    case 0:
        h2_stream_pause(t);
        break;
    case 1:
        h2_stream_resume(t);
        break;
    case 2:
        h2_stream_resume(t);
        h2_session_deliver(r->s);
        CHECK(!h2_session_due(r->s));
        break;
    case 3:
        give_up(u);
        break;
    case 4:
        (void)!h2_stream_send_body(t, slice_of(bytes, 4));
        break;
    case 5:
        (void)!h2_stream_send_body(t, slice_of(bytes, sizeof bytes));
        break;
    case 6:
        (void)!h2_stream_send_end(t);
        break;
    default:
        h2_session_ping(r->s);
        break;
    }
}

static void do_step(struct run *r, uint8_t step)
{
    if (step >= 0xc0) {
        ask(r, step & 0x3f);
    } else if (step == 0xbf) {
        h2_session_goaway(r->s);
    } else if (step == 0xbe) {
        (void)!h2_session_look(r->s, 2000, 6000);
    } else if (r->count > 0) {
        struct user *u = &r->users[(step >> 3) % r->count];
        if (u->stream != NULL) {
            act(r, u, step & 7);
        }
    }
}

/* ---- a run ---- */

static size_t kept_of(const struct run *r)
{
    size_t kept = 0;
    LIST_FOR_EACH(node, &r->s->streams)
    {
        kept += LIST_ITEM(node, struct h2_stream, link)->kept.len;
    }
    return kept;
}

static void check_bounds(const struct run *r)
{
    unsigned count = 0;
    unsigned uploads = 0;
    int64_t promised[2] = {0, 0};
    LIST_FOR_EACH(node, &r->s->streams)
    {
        const struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        CHECK(t->kept.len <= t->window);
        CHECK(t->promised >= 0);
        promised[t->large] += t->promised;
        uploads += t->large ? 1 : 0;
        count++;
    }
    CHECK(promised[0] == r->s->promised[0] && promised[1] == r->s->promised[1]);
    CHECK(uploads == r->s->uploads);
    CHECK(kept_of(r) <= KEPT_MAX && r->windows.used <= WINDOWS_MAX);
    /* Whatever is kept holds back nobody: the connection's window was given back, but for what is
     * not worth a frame. */
    CHECK(nghttp2_session_get_effective_recv_data_length(r->s->ng) <= H2_CONNECTION_WINDOW / 2);
    CHECK(count == r->s->count && count <= H2_STREAMS_MAX);
    CHECK(r->s->head.bytes.len <= H2_HEAD_MAX);
    for (unsigned i = 0; i < r->count; i++) {
        count -= r->users[i].stream != NULL ? 1 : 0;
    }
    CHECK(count == 0);
}

static void look_whether_deserted(struct run *r)
{
    bool open = !h2_session_leaving(r->s);
    LIST_FOR_EACH(node, &r->s->streams)
    {
        open = open || !LIST_ITEM(node, struct h2_stream, link)->closed;
    }
    r->deserted = r->deserted || !open;
}

static void feed(struct run *r, struct slice bytes)
{
    struct err e = ERR_INIT;
    struct pieces pieces = {.rest = bytes, .way = r->way, .random = r->random};
    struct slice piece;
    while (pieces_next(&pieces, &piece)) {
        if (r->rc == 0) {
            r->rc = h2_session_receive(r->s, piece, &e);
            CHECK((r->rc == 0) == (e.code == 0));
        }
        check_bounds(r);
        look_whether_deserted(r);
    }
    r->random = pieces.random;
}

static void flush(struct run *r)
{
    buf_clear(&r->out);
    CHECK(h2_session_send(r->s, &r->out) == 0);
}

static void run_all(struct run *r, const uint8_t *data, size_t size)
{
    buf_init(&r->out, SIZE_MAX);
    r->budget.max = 16 * 1024;
    r->windows.max = WINDOWS_MAX;
    r->s = h2_session_new(&handlers, &r->windows, NULL, r);
    CHECK(r->s != NULL);
    while (size >= 2 && r->rc == 0 && !r->deserted) {
        size_t len = data[1] < size - 2 ? data[1] : size - 2;
        do_step(r, data[0]);
        look_whether_deserted(r);
        /* A session that is leaving finds a break as it sends, and not with too much unsent. */
        if ((data[0] & 0x40) != 0 || h2_session_leaving(r->s)) {
            flush(r);
        }
        feed(r, slice_of((const char *)data + 2, len));
        data += 2 + len;
        size -= 2 + len;
    }
    flush(r);
    for (unsigned i = 0; i < r->count && r->rc == 0; i++) {
        if (r->users[i].stream != NULL) {
            h2_stream_resume(r->users[i].stream);
        }
    }
    flush(r);
    CHECK(kept_of(r) == 0 || r->rc != 0);
    for (unsigned i = 0; i < r->count; i++) {
        if (r->users[i].stream != NULL) {
            give_up(&r->users[i]);
        }
    }
    CHECK(r->windows.used == 0 && r->s->count == 0);
    h2_session_free(r->s);
    CHECK(r->budget.used == 0);
}

static void check_same(const struct buf *a, const struct buf *b)
{
    if (!slice_eq(buf_slice(a), buf_slice(b))) {
        (void)fprintf(stderr, "--- a\n%.*s\n--- b\n%.*s\n", (int)a->len, (char *)buf_data(a),
                      (int)b->len, (char *)buf_data(b));
        abort();
    }
}

/* Of a connection that broke: a stream that broke just before may not be told of it. And of a
 * stream whose user gives up when something of a body comes that is too long: nothing may. */
static void check_begins(const struct buf *a, const struct buf *b)
{
    struct buf begin = *a;
    struct buf other = *b;
    begin.len = other.len = a->len < b->len ? a->len : b->len;
    check_same(&begin, &other);
}

static void compare(const struct run *a, const struct run *b)
{
    CHECK(a->count == b->count);
    CHECK(a->deserted || b->deserted || (a->rc == b->rc && a->pongs == b->pongs));
    for (unsigned i = 0; i < a->count; i++) {
        bool vague = a->users[i].vague || b->users[i].vague;
        if (a->rc == 0 && b->rc == 0 && !vague) {
            check_same(&a->users[i].said, &b->users[i].said);
        } else {
            check_begins(&a->users[i].said, &b->users[i].said);
        }
        /* What is kept of a paused stream is lost with the connection. */
        if (!vague && a->rc == b->rc) {
            check_same(&a->users[i].body, &b->users[i].body);
        }
    }
}

static void run_end(struct run *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        buf_reset(&r->users[i].said);
        buf_reset(&r->users[i].body);
    }
    buf_reset(&r->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run runs[3];
    for (int i = 0; i < 3; i++) {
        runs[i] = (struct run){.way = (enum pieces_way)i, .random = (uint32_t)size};
        run_all(&runs[i], data, size);
    }
    compare(&runs[0], &runs[1]);
    compare(&runs[0], &runs[2]);
    for (int i = 0; i < 3; i++) {
        run_end(&runs[i]);
    }
    return 0;
}
