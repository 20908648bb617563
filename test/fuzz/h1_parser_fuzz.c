/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses role and limits, the second the way the rest is cut into pieces. What the
 * parser says must not depend on the pieces; and the messages it read, written again in the
 * plainest way, must be read again as the same messages. What a server takes, a proxy takes too,
 * and as the same.
 */
#include "http/h1_parser.h"

#include "base/buf.h"
#include "check.h"

enum { PIECES_WHOLE, PIECES_BYTES, PIECES_RANDOM };

struct run {
    enum h1_role role;
    struct h1_limits limits;
    bool to_head;
    struct buf said;  /* what the parser said, bodies joined */
    struct buf again; /* the whole messages, written again */
    size_t whole;     /* bytes of `again` that belong to whole messages */
    struct http_head head;
    uint64_t body_bytes;
    bool in_message;
    bool failed;
    bool tunnel; /* behind a CONNECT: nothing is read any more */
    uint32_t random;
};

static void put(struct buf *b, struct slice s)
{
    CHECK(buf_append(b, s.ptr, s.len) == 0);
}

static void check_text(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        CHECK((c >= 0x20 || c == '\t') && c != 0x7f);
    }
}

static void check_value(struct slice s)
{
    check_text(s);
    CHECK(s.len == 0 || (s.ptr[0] != ' ' && s.ptr[0] != '\t'));
    CHECK(s.len == 0 || (s.ptr[s.len - 1] != ' ' && s.ptr[s.len - 1] != '\t'));
}

static void check_name(struct slice s)
{
    CHECK(s.len > 0);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        CHECK(c > 0x20 && c < 0x7f && strchr("()<>@,;:\\\"/[]?={}", c) == NULL);
    }
    CHECK(!slice_ieq(s, SLICE("Content-Length")) && !slice_ieq(s, SLICE("Transfer-Encoding")));
}

static void write_start_line(struct buf *b, const struct http_head *h)
{
    if (h->status == 0) {
        put(b, h->method);
        put(b, SLICE(" "));
        put(b, h->target);
        CHECK(buf_printf(b, " HTTP/1.%u\r\n", h->minor) == 0);
    } else {
        CHECK(buf_printf(b, "HTTP/1.%u %u ", h->minor, h->status) == 0);
        put(b, h->reason);
        put(b, SLICE("\r\n"));
    }
}

static void write_head(struct buf *b, const struct http_head *h)
{
    write_start_line(b, h);
    for (size_t i = 0; i < h->header_count; i++) {
        check_name(h->headers[i].name);
        check_value(h->headers[i].value);
        put(b, h->headers[i].name);
        put(b, SLICE(":"));
        put(b, h->headers[i].value);
        put(b, SLICE("\r\n"));
    }
    if (h->framing == HTTP_BODY_LENGTH || (h->framing == HTTP_BODY_NONE && h->content_length > 0)) {
        CHECK(buf_printf(b, "Content-Length:%llu\r\n", (unsigned long long)h->content_length) == 0);
    }
    if (h->framing == HTTP_BODY_CHUNKED) {
        put(b, SLICE("Transfer-Encoding:chunked\r\n"));
    }
    put(b, SLICE("\r\n"));
}

static void check_target(const struct run *r, const struct http_head *h)
{
    CHECK(h->connect == slice_eq(h->method, SLICE("CONNECT")));
    CHECK(!h->connect || r->role == H1_PROXY_REQUESTS);
    CHECK(!h->connect || (h->framing == HTTP_BODY_NONE && !h->upgrade && !h->expect_continue));
    if (r->role == H1_RESPONSES || slice_eq(h->target, SLICE("*"))) {
        return;
    }
    CHECK(h->target.len > 0);
    if (h->connect) {
        CHECK(memchr(h->target.ptr, '/', h->target.len) == NULL);
        CHECK(memchr(h->target.ptr, '@', h->target.len) == NULL);
        CHECK(h->target.ptr[0] != ':' && h->target.ptr[h->target.len - 1] != ':');
    } else if (r->role == H1_REQUESTS || memchr(h->target.ptr, ':', h->target.len) == NULL) {
        CHECK(h->target.ptr[0] == '/');
    }
}

static void on_head(struct run *r, const struct http_head *h)
{
    CHECK(!r->in_message);
    r->in_message = true;
    r->head = *h;
    r->body_bytes = 0;
    check_text(h->target);
    check_text(h->reason);
    CHECK(h->header_count <= r->limits.header_count && h->minor <= 1);
    CHECK((r->role == H1_RESPONSES) == (h->status != 0));
    CHECK((r->role == H1_RESPONSES) == (h->method.len == 0));
    CHECK(r->role == H1_RESPONSES || h->framing != HTTP_BODY_CLOSE);
    check_target(r, h);
    CHECK(!(h->keep_alive && h->framing == HTTP_BODY_CLOSE));
    write_head(&r->again, h);
    write_head(&r->said, h);
    CHECK(buf_printf(&r->said, "[%d %d%d%d%d]", (int)h->framing, h->keep_alive, h->upgrade,
                     h->expect_continue, h->connect) == 0);
}

static void on_body(struct run *r, struct slice body, struct slice piece)
{
    CHECK(r->in_message && body.len > 0 && r->head.framing != HTTP_BODY_NONE);
    CHECK(body.ptr >= piece.ptr && body.ptr + body.len <= piece.ptr + piece.len);
    r->body_bytes += body.len;
    put(&r->said, body);
    if (r->head.framing == HTTP_BODY_CHUNKED) {
        CHECK(buf_printf(&r->again, "%zx\r\n", body.len) == 0);
        put(&r->again, body);
        put(&r->again, SLICE("\r\n"));
    } else {
        put(&r->again, body);
    }
}

static void on_end(struct run *r)
{
    CHECK(r->in_message);
    CHECK(r->head.framing != HTTP_BODY_LENGTH || r->body_bytes == r->head.content_length);
    r->in_message = false;
    r->tunnel = r->head.connect;
    put(&r->said, SLICE("[end]"));
    if (r->head.framing == HTTP_BODY_CHUNKED) {
        put(&r->again, SLICE("0\r\n\r\n"));
    }
    r->whole = r->again.len;
}

static void check_error_stays(struct h1_parser *p, int code)
{
    const struct http_head *head;
    struct slice body;
    struct slice data = SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    struct err e = ERR_INIT;
    CHECK(h1_parser_next(p, &data, &head, &body, &e) == H1_ERROR);
    CHECK(e.code == code && e.msg[0] != '\0');
    CHECK(!h1_parser_finish(p) && !h1_parser_idle(p));
}

static bool feed(struct run *r, struct h1_parser *p, struct slice piece)
{
    struct slice data = piece;
    struct slice body;
    const struct http_head *head = NULL;
    struct err e = ERR_INIT;
    for (;;) {
        if (r->tunnel) {
            put(&r->said, data);
            return true;
        }
        switch (h1_parser_next(p, &data, &head, &body, &e)) {
        case H1_MORE:
            CHECK(data.len == 0);
            return true;
        case H1_HEAD:
            on_head(r, head);
            if (r->random % 3 == 0) {
                h1_parser_release_head(p);
            }
            break;
        case H1_BODY:
            on_body(r, body, piece);
            break;
        case H1_END:
            on_end(r);
            CHECK(h1_parser_idle(p));
            h1_parser_expect(p, r->to_head);
            break;
        case H1_ERROR:
            CHECK(buf_printf(&r->said, "[error %d]", e.code) == 0);
            check_error_stays(p, e.code);
            r->failed = true;
            return false;
        }
    }
}

static size_t next_size(struct run *r, int pieces, size_t left)
{
    if (pieces == PIECES_WHOLE) {
        return left;
    }
    r->random = r->random * 1664525 + 1013904223;
    size_t n = pieces == PIECES_BYTES ? 1 : 1 + (r->random >> 16) % 40;
    return n < left ? n : left;
}

static void read_all(struct run *r, const char *bytes, size_t len, int pieces)
{
    struct h1_parser *p = h1_parser_new(r->role, &r->limits);
    CHECK(p != NULL);
    buf_init(&r->said, SIZE_MAX);
    buf_init(&r->again, SIZE_MAX);
    h1_parser_expect(p, r->to_head);
    bool good = true;
    for (size_t at = 0; at < len && good;) {
        size_t n = next_size(r, pieces, len - at);
        /* A copy, so that reads outside the piece are seen. */
        char *copy = malloc(n);
        CHECK(copy != NULL);
        memcpy(copy, bytes + at, n);
        good = feed(r, p, slice_of(copy, n));
        free(copy);
        at += n;
    }
    if (good) {
        bool idle = h1_parser_idle(p);
        bool whole = h1_parser_finish(p);
        CHECK(!idle || whole);
        CHECK(feed(r, p, slice_of(NULL, 0)));
        CHECK(r->in_message != whole || !whole);
        put(&r->said, whole ? SLICE("[whole]") : SLICE("[cut]"));
    }
    h1_parser_free(p);
}

static void check_same(const struct buf *a, size_t a_len, const struct buf *b)
{
    if (a_len != b->len || (a_len > 0 && memcmp(buf_data(a), buf_data(b), a_len) != 0)) {
        (void)fprintf(stderr, "--- a\n%.*s\n--- b\n%.*s\n", (int)a_len, (char *)buf_data(a),
                      (int)b->len, (char *)buf_data(b));
        abort();
    }
}

/* The whole messages, as they were written again, must come out as they went in. */
static void check_again(const struct run *r)
{
    struct run second = {.role = r->role, .limits = h1_limits_default, .to_head = r->to_head};
    read_all(&second, (const char *)buf_data(&r->again), r->whole, PIECES_WHOLE);
    check_same(&r->again, r->whole, &second.again);
    buf_reset(&second.said);
    buf_reset(&second.again);
}

/* What a server made of it must be what a proxy makes of it. */
static void check_proxy(const struct run *start, const struct run *server, const uint8_t *data,
                        size_t size)
{
    struct run proxy = *start;
    proxy.role = H1_PROXY_REQUESTS;
    read_all(&proxy, (const char *)data, size, PIECES_WHOLE);
    if (!server->failed) {
        check_same(&server->said, server->said.len, &proxy.said);
    }
    buf_reset(&proxy.said);
    buf_reset(&proxy.again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const struct h1_limits tight = {.head_bytes = 96, .header_count = 3};
    const struct run start = {
        .role = (data[0] & 1) != 0   ? H1_RESPONSES
                : (data[0] & 8) != 0 ? H1_PROXY_REQUESTS
                                     : H1_REQUESTS,
        .limits = (data[0] & 2) != 0 ? tight : h1_limits_default,
        .to_head = (data[0] & 4) != 0,
        .random = data[1],
    };
    struct run runs[3];
    for (int i = 0; i < 3; i++) {
        runs[i] = start;
        read_all(&runs[i], (const char *)data + 2, size - 2, i);
    }
    check_same(&runs[0].said, runs[0].said.len, &runs[1].said);
    check_same(&runs[0].said, runs[0].said.len, &runs[2].said);
    check_again(&runs[0]);
    if (start.role == H1_REQUESTS) {
        check_proxy(&start, &runs[0], data + 2, size - 2);
    }
    for (int i = 0; i < 3; i++) {
        buf_reset(&runs[i].said);
        buf_reset(&runs[i].again);
    }
    return 0;
}
