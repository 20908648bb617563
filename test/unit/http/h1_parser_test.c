/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each row is a run of bytes and what the parser must make of it, written as text:
 *
 *     head(GET /a 1.1 none keep [Host: x]) body(...) end error(400)
 *
 * The head's words are method and target or the status, the minor version, the framing, and the
 * flags keep, connect, upgrade and expect. Then comes what finish says: `whole` or `cut`. Every row
 * is read in one piece, byte by byte, and cut at random places; the outcome must be the same.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "http/h1_parser.h"

#define HOST "Host: x\r\n"
#define GOT "head(GET / 1.1 none keep [Host: x]) "
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
#define GOT_CHUNKED "head(POST / 1.1 chunked keep [Host: x]) "

struct row {
    const char *name;
    const char *bytes;
    size_t len;
    const char *want;
    const char *to_head; /* responses: 'h' for each that answers a HEAD request */
};

#define ROW(name_, bytes_, want_)                                                                  \
    {                                                                                              \
        .name = name_, .bytes = bytes_, .len = sizeof(bytes_) - 1, .want = want_, .to_head = ""    \
    }
#define HEAD_ROW(name_, to_head_, bytes_, want_)                                                   \
    {                                                                                              \
        .name = name_, .bytes = bytes_, .len = sizeof(bytes_) - 1, .want = want_,                  \
        .to_head = to_head_                                                                        \
    }

/* What the parser said, as text. */
struct trace {
    struct buf text;
    bool in_body;
    const char *to_head;
};

static void say(struct trace *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct trace *t, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_int_equal(buf_append_str(&t->text, text), 0);
}

static void say_head(struct trace *t, const struct http_head *h)
{
    static const char *const framings[] = {"none", "length", "chunked", "close"};
    if (h->status != 0) {
        say(t, "head(%u %.*s", h->status, (int)h->reason.len, h->reason.ptr);
    } else {
        say(t, "head(%.*s %.*s", (int)h->method.len, h->method.ptr, (int)h->target.len,
            h->target.ptr);
    }
    say(t, " 1.%u %s", h->minor, framings[h->framing]);
    if (h->framing == HTTP_BODY_LENGTH || h->content_length > 0) {
        say(t, " %llu", (unsigned long long)h->content_length);
    }
    say(t, "%s%s%s%s", h->keep_alive ? " keep" : "", h->connect ? " connect" : "",
        h->upgrade ? " upgrade" : "", h->expect_continue ? " expect" : "");
    for (size_t i = 0; i < h->header_count; i++) {
        const struct http_header *f = &h->headers[i];
        say(t, " [%.*s: %.*s]", (int)f->name.len, f->name.ptr, (int)f->value.len, f->value.ptr);
    }
    say(t, ") ");
}

static void end_body(struct trace *t)
{
    if (t->in_body) {
        say(t, ") ");
        t->in_body = false;
    }
}

static void say_body(struct trace *t, struct slice body, struct slice piece)
{
    assert_true(body.len > 0);
    assert_true(body.ptr >= piece.ptr && body.ptr + body.len <= piece.ptr + piece.len);
    if (!t->in_body) {
        say(t, "body(");
        t->in_body = true;
    }
    say(t, "%.*s", (int)body.len, body.ptr);
}

static void expect_next(struct trace *t, struct h1_parser *p)
{
    h1_parser_expect(p, *t->to_head == 'h');
    t->to_head += *t->to_head != '\0' ? 1 : 0;
}

static void error_stays(struct h1_parser *p, int code)
{
    const struct http_head *head = NULL;
    struct slice body;
    struct slice none = slice_of(NULL, 0);
    struct slice more = SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    struct err e = ERR_INIT;
    assert_int_equal(h1_parser_next(p, &none, &head, &body, &e), H1_ERROR);
    assert_int_equal(h1_parser_next(p, &more, &head, &body, &e), H1_ERROR);
    assert_int_equal(e.code, code);
    assert_true(e.msg[0] != '\0');
    assert_null(head);
    assert_false(h1_parser_finish(p));
    assert_false(h1_parser_idle(p));
}

/* Feeds one piece in memory of its own, so that a read over its end is seen; false: error. */
static bool feed(struct trace *t, struct h1_parser *p, const char *bytes, size_t len)
{
    char *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    const struct slice piece = slice_of(copy, len);
    struct slice data = piece;
    struct slice body = slice_of(NULL, 0);
    const struct http_head *head = NULL;
    struct err e = ERR_INIT;
    enum h1_event ev;
    while ((ev = h1_parser_next(p, &data, &head, &body, &e)) != H1_MORE && ev != H1_ERROR) {
        if (ev == H1_HEAD) {
            say_head(t, head);
        } else if (ev == H1_BODY) {
            say_body(t, body, piece);
        } else {
            end_body(t);
            say(t, "end ");
            assert_true(h1_parser_idle(p));
            expect_next(t, p);
        }
    }
    if (ev == H1_ERROR) {
        end_body(t);
        say(t, "error(%d)", -e.code);
        error_stays(p, e.code);
    } else {
        assert_int_equal(data.len, 0);
    }
    free(copy);
    return ev == H1_MORE;
}

enum { WHOLE, BYTEWISE, RANDOM };

static size_t next_size(int cut, size_t left)
{
    size_t n = cut == WHOLE ? left : cut == BYTEWISE ? 1 : 1 + (size_t)rand() % 24;
    return n < left ? n : left;
}

static struct trace read_row(enum h1_role role, const struct h1_limits *limits,
                             const struct row *row, int cut)
{
    struct trace t = {.text = BUF_INIT(1024 * 1024), .to_head = row->to_head};
    struct h1_parser *p = h1_parser_new(role, limits);
    assert_non_null(p);
    expect_next(&t, p);
    bool good = true;
    for (size_t at = 0; at < row->len && good;) {
        size_t n = next_size(cut, row->len - at);
        good = feed(&t, p, row->bytes + at, n);
        at += n;
    }
    if (good) {
        bool whole = h1_parser_finish(p);
        good = feed(&t, p, "", 0);
        assert_true(good);
        end_body(&t);
        say(&t, whole ? "whole" : "cut");
    }
    h1_parser_free(p);
    return t;
}

static void check_row(enum h1_role role, const struct h1_limits *limits, const struct row *row)
{
    srand(1);
    for (int i = 0; i < 12; i++) {
        struct trace t = read_row(role, limits, row, i < RANDOM ? i : RANDOM);
        const char *got = buf_cstr(&t.text);
        if (strcmp(got, row->want) != 0) {
            fail_msg("%s (%s)\n  got  %s\n  want %s", row->name,
                     i == WHOLE      ? "whole"
                     : i == BYTEWISE ? "byte by byte"
                                     : "cut at random",
                     got, row->want);
        }
        buf_reset(&t.text);
    }
}

static void check_rows(enum h1_role role, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_row(role, &h1_limits_default, &rows[i]);
    }
}

#define CHECK_ROWS(role, rows) check_rows(role, rows, sizeof(rows) / sizeof((rows)[0]))

static void reads_requests(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("nothing", "", "whole"),
        ROW("smallest", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", GOT "end whole"),
        ROW("empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "head(GET / 1.1 none keep [Host: ]) end whole"),
        ROW("spelling, order and white space of headers",
            "GET /a?b=%20&c HTTP/1.1\r\nhOsT:x\r\nA: \t b  c\t \r\nE:\r\nF: \t\r\na: 2\r\n\r\n",
            "head(GET /a?b=%20&c 1.1 none keep [hOsT: x] [A: b  c] [E: ] [F: ] [a: 2]) end whole"),
        ROW("bytes above 0x7f in a value", "GET / HTTP/1.1\r\n" HOST "A: \xc3\xa4\xff\r\n\r\n",
            "head(GET / 1.1 none keep [Host: x] [A: \xc3\xa4\xff]) end whole"),
        ROW("all token bytes in a name", "GET / HTTP/1.1\r\n" HOST "a!#$%&'*+-.^_`|~9Z: 1\r\n\r\n",
            "head(GET / 1.1 none keep [Host: x] [a!#$%&'*+-.^_`|~9Z: 1]) end whole"),
        ROW("colons in a value", "GET / HTTP/1.1\r\n" HOST "A: b:c:\r\n\r\n",
            "head(GET / 1.1 none keep [Host: x] [A: b:c:]) end whole"),
        ROW("asterisk", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
            "head(OPTIONS * 1.1 none keep [Host: x]) end whole"),
        ROW("close", "GET / HTTP/1.1\r\n" HOST "Connection: foo, Close\r\n\r\n",
            "head(GET / 1.1 none [Host: x] [Connection: foo, Close]) end whole"),
        ROW("several Connection headers",
            "GET / HTTP/1.1\r\n" HOST "Connection: close\r\nConnection: x\r\n\r\n",
            "head(GET / 1.1 none [Host: x] [Connection: close] [Connection: x]) end whole"),
        ROW("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "head(GET / 1.0 none) end whole"),
        ROW("HTTP/1.0 kept alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            "head(GET / 1.0 none keep [Connection: Keep-Alive]) end whole"),
        ROW("HTTP/1.0 with a length", "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
            "head(POST / 1.0 length 2) body(ab) end whole"),
        ROW("length", "PUT / HTTP/1.1\r\n" HOST "content-length: 005\r\nA: b\r\n\r\nhello",
            "head(PUT / 1.1 length 5 keep [Host: x] [A: b]) body(hello) end whole"),
        ROW("length 0", "DELETE / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
            "head(DELETE / 1.1 length 0 keep [Host: x]) end whole"),
        ROW("largest length",
            "PUT / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775807\r\n\r\nx",
            "head(PUT / 1.1 length 9223372036854775807 keep [Host: x]) body(x) cut"),
        ROW("expect", "PUT / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
            "head(PUT / 1.1 length 1 keep expect [Host: x] [Expect: 100-Continue]) cut"),
        ROW("expect is ignored in HTTP/1.0", "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n",
            "head(GET / 1.0 none [Expect: 100-continue]) end whole"),
        ROW("empty lines before", "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n\r\n", GOT "end whole"),
        ROW("pipelined",
            "GET / HTTP/1.1\r\n" HOST "\r\nPOST /b HTTP/1.1\r\n" HOST
            "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n" HOST "\r\n",
            GOT "end head(POST /b 1.1 length 3 keep [Host: x]) body(abc) end " GOT "end whole"),
        ROW("an empty line that is cut", "\r", "cut"),
        ROW("a head that is cut", "GET / HTTP/1.1\r\nHost: x\r\n", "cut"),
        ROW("a body that is cut", "PUT / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nab",
            "head(PUT / 1.1 length 3 keep [Host: x]) body(ab) cut"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

static void refuses_request_lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("TLS instead of HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "error(400)"),
        ROW("a NUL", "GET /\0 HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("bare LF", "GET / HTTP/1.1\nHost: x\n\n", "error(400)"),
        ROW("bare CR", "GET / HTTP/1.1\rHost: x\r\r", "error(400)"),
        ROW("CR CR LF", "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n", "error(400)"),
        ROW("five empty lines", "\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a bare CR before", "\r\rGET / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a bare LF before", "\nGET / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a space before", " GET / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("two spaces", "GET  / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("two spaces behind the target", "GET /  HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a space in the target", "GET /a b HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a space behind the version", "GET / HTTP/1.1 \r\n" HOST "\r\n", "error(400)"),
        ROW("a tab", "GET\t/ HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a tab behind the target", "GET /\tHTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("no target", "GET HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("an empty target", "GET  HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("no version", "GET /\r\n" HOST "\r\n", "error(400)"),
        ROW("short", "GET\r\n\r\n", "error(400)"),
        ROW("HTTP/0.9", "GET / HTTP/0.9\r\n\r\n", "error(505)"),
        ROW("HTTP/1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", "error(505)"),
        ROW("HTTP/2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", "error(505)"),
        ROW("HTTP/1.10", "GET / HTTP/1.10\r\n" HOST "\r\n", "error(400)"),
        ROW("HTTP/01.1", "GET / HTTP/01.1\r\n" HOST "\r\n", "error(400)"),
        ROW("lower case version", "GET / http/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "error(505)"),
        ROW("the preface as HTTP/1.1", "PRI * HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("RTSP", "OPTIONS / RTSP/1.0\r\n" HOST "\r\n", "error(400)"),
        ROW("an RTSP method", "SETUP / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("ICE", "SOURCE / ICE/1.0\r\n" HOST "\r\n", "error(400)"),
        ROW("unknown method", "FOO / HTTP/1.1\r\n" HOST "\r\n", "error(501)"),
        ROW("lower case method", "get / HTTP/1.1\r\n" HOST "\r\n", "error(501)"),
        ROW("longer method", "GETS / HTTP/1.1\r\n" HOST "\r\n", "error(501)"),
        ROW("a method that is no token", "G(T / HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("CONNECT", "CONNECT a:443 HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("CONNECT with a path", "CONNECT /a HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("absolute target", "GET http://x/ HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("authority target", "GET x:80 HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("GET *", "GET * HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("longer asterisk", "OPTIONS *a HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("fragment", "GET /a#b HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("fragment behind a query", "GET /a?b#c HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("a byte above 0x7f", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("DEL", "GET /\x7f HTTP/1.1\r\n" HOST "\r\n", "error(400)"),
        ROW("behind a good one", "GET / HTTP/1.1\r\n" HOST "\r\nGET\r\n\r\n", GOT "end error(400)"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

#define REFUSED(name, headers) ROW(name, "POST / HTTP/1.1\r\n" headers "\r\n", "error(400)")

static void refuses_request_headers(void **state)
{
    (void)state;
    static const struct row rows[] = {
        REFUSED("no Host", "A: b\r\n"),
        REFUSED("two Hosts", HOST "host: x\r\n"),
        ROW("two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "error(400)"),
        REFUSED("a space before the colon", "Host : x\r\n"),
        REFUSED("a tab before the colon", HOST "A\t: b\r\n"),
        REFUSED("a space in a name", HOST "A B: c\r\n"),
        REFUSED("no name", HOST ": b\r\n"),
        REFUSED("no name in the first line", ": b\r\n" HOST),
        REFUSED("no colon", HOST "A\r\n"),
        REFUSED("a space only", HOST " \r\n"),
        REFUSED("folded", HOST "A: b\r\n c\r\n"),
        REFUSED("folded with a tab", HOST "A: b\r\n\tc\r\n"),
        REFUSED("folded first line", " " HOST),
        ROW("folded, as soon as it is seen", "GET / HTTP/1.1\r\n" HOST "A: b\r\n ", "error(400)"),
        REFUSED("folded to an empty line", HOST "A: b\r\n \r\n"),
        REFUSED("a NUL in a value", HOST "A: b\0c\r\n"),
        REFUSED("a NUL in a name", HOST "A\0: b\r\n"),
        REFUSED("control character", HOST "A: b\x01\r\n"),
        REFUSED("a vertical tab", HOST "A: b\x0b\r\n"),
        REFUSED("DEL", HOST "A: b\x7f\r\n"),
        REFUSED("a bare CR in a value", HOST "A: b\rc\r\n"),
        REFUSED("a bare CR before a header", HOST "A: b\r\rB: c\r\n"),
        REFUSED("a bare LF in a value", HOST "A: b\nB: c\r\n"),
        REFUSED("a bare LF behind the headers", HOST "A: b\r\n\n"),
        REFUSED("LF CR", HOST "A: b\n\r"),
        REFUSED("at sign in a name", HOST "A@b: c\r\n"),
        REFUSED("a quote in a name", HOST "\"A\": c\r\n"),
        REFUSED("a byte above 0x7f in a name", HOST "\xc3\xa4: c\r\n"),
        REFUSED("a brace in a name", HOST "{A}: c\r\n"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

static void refuses_unclear_framing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        REFUSED("a sign", HOST "Content-Length: +5\r\n"),
        REFUSED("a minus", HOST "Content-Length: -5\r\n"),
        REFUSED("a list", HOST "Content-Length: 5, 5\r\n"),
        REFUSED("a gap", HOST "Content-Length: 5 5\r\n"),
        REFUSED("hexadecimal", HOST "Content-Length: 0x5\r\n"),
        REFUSED("a fraction", HOST "Content-Length: 5.0\r\n"),
        REFUSED("an empty length", HOST "Content-Length:\r\n"),
        REFUSED("a blank length", HOST "Content-Length: \t\r\n"),
        REFUSED("length 2^63", HOST "Content-Length: 9223372036854775808\r\n"),
        REFUSED("length 2^64", HOST "Content-Length: 18446744073709551616\r\n"),
        REFUSED("length 2^64 + 1", HOST "Content-Length: 18446744073709551617\r\n"),
        REFUSED("two lengths", HOST "Content-Length: 5\r\nContent-Length: 6\r\n"),
        REFUSED("two equal lengths", HOST "Content-Length: 5\r\nContent-length: 5\r\n"),
        REFUSED("length and encoding", HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        REFUSED("encoding and length", HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        REFUSED("chunked and identity", HOST "Transfer-Encoding: chunked, identity\r\n"),
        REFUSED("chunked twice", HOST "Transfer-Encoding: chunked, chunked\r\n"),
        REFUSED("chunked in two headers",
                HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        REFUSED("another encoding and chunked",
                HOST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
        REFUSED("chunked and nothing", HOST "Transfer-Encoding: chunked,\r\n"),
        REFUSED("a vertical tab", HOST "Transfer-Encoding: \x0b"
                                       "chunked\r\n"),
        REFUSED("a space before the colon", HOST "Transfer-Encoding : chunked\r\n"),
        REFUSED("folded", HOST "Transfer-Encoding:\r\n chunked\r\n"),
        ROW("a parameter", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked;a=b\r\n\r\n",
            "error(501)"),
        ROW("gzip, chunked", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
            "error(501)"),
        ROW("xchunked", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n",
            "error(501)"),
        ROW("identity", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n",
            "error(501)"),
        ROW("quoted", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n",
            "error(501)"),
        ROW("empty", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", "error(501)"),
        ROW("chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "error(400)"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

static void reads_chunks(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("one chunk", CHUNKED "5\r\nhello\r\n0\r\n\r\n", GOT_CHUNKED "body(hello) end whole"),
        ROW("no chunk", CHUNKED "0\r\n\r\n", GOT_CHUNKED "end whole"),
        ROW("upper case", "POST / HTTP/1.1\r\n" HOST "TRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n",
            GOT_CHUNKED "end whole"),
        ROW("several, then another request",
            CHUNKED "1\r\na\r\n002\r\nbc\r\n0000\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
            GOT_CHUNKED "body(abc) end " GOT "end whole"),
        ROW("hexadecimal sizes", CHUNKED "a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
            GOT_CHUNKED "body(01234567890123456789a) end whole"),
        ROW("data that looks like framing", CHUNKED "c\r\n0\r\n\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n",
            GOT_CHUNKED "body(0\r\n\r\n0\r\n\r\n\r\n) end whole"),
        ROW("extensions", CHUNKED "5;a;b=c\r\nhello\r\n0;d=\"e;f g\"\r\n\r\n",
            GOT_CHUNKED "body(hello) end whole"),
        ROW("trailers", CHUNKED "1\r\na\r\n0\r\nA: b\r\nC:\td e\r\n\r\n",
            GOT_CHUNKED "body(a) end whole"),
        ROW("cut before the last line end", CHUNKED "1\r\na\r\n0\r\n\r", GOT_CHUNKED "body(a) cut"),
        ROW("cut behind a chunk", CHUNKED "1\r\na\r\n", GOT_CHUNKED "body(a) cut"),
        ROW("cut in a size", CHUNKED "1", GOT_CHUNKED "cut"),
        ROW("cut in the trailers", CHUNKED "0\r\nA: b\r\n", GOT_CHUNKED "cut"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

#define BAD_CHUNKS(name, chunks) ROW(name, CHUNKED chunks, GOT_CHUNKED "error(400)")
#define BAD_CHUNKS_BEHIND(name, chunks)                                                            \
    ROW(name, CHUNKED "1\r\na" chunks, GOT_CHUNKED "body(a) error(400)")

static void refuses_bad_chunks(void **state)
{
    (void)state;
    static const struct row rows[] = {
        BAD_CHUNKS("plus", "+5\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("minus", "-5\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("0x", "0x5\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("a space before", " 5\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("a space behind", "5 \r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("a tab behind", "5\t\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("a space inside", "5 5\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("no digit", "g\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("no size", "\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("an extension only", ";a=b\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("underscore", "1_0\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("2^63", "8000000000000000\r\nhello"),
        BAD_CHUNKS("2^64 - 1", "ffffffffffffffff\r\nhello"),
        BAD_CHUNKS("2^64", "10000000000000000\r\nhello"),
        BAD_CHUNKS("2^64 + 5", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("bare LF behind the size", "5\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("bare CR behind the size", "5\rhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("CR CR LF behind the size", "5\r\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("a NUL behind the size", "5\0\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("bare LF in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("bare LF in a quoted extension", "5;a=\"\nb\"\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("bare CR in a quoted extension", "5;a=\"\rb\"\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("CRLF in a quoted extension", "5;a=\"\r\nb\"\r\nhello\r\n0\r\n\r\n"),
        BAD_CHUNKS("bare LF behind the last size", "0\n\r\n"),
        BAD_CHUNKS("bare LF at the end", "0\r\n\n"),
        BAD_CHUNKS("CR CR at the end", "0\r\n\r\r"),
        BAD_CHUNKS("bare LF in a trailer", "0\r\nA: b\nC: d\r\n\r\n"),
        BAD_CHUNKS("bare CR in a trailer", "0\r\nA: b\rC: d\r\n\r\n"),
        BAD_CHUNKS("a NUL in a trailer", "0\r\nA: \0\r\n\r\n"),
        BAD_CHUNKS("a folded trailer", "0\r\nA: b\r\n c\r\n\r\n"),
        BAD_CHUNKS("a folded first trailer", "0\r\n A: b\r\n\r\n"),
        BAD_CHUNKS("a trailer without colon", "0\r\nA\r\n\r\n"),
        BAD_CHUNKS("a trailer with a space before the colon", "0\r\nA : b\r\n\r\n"),
        BAD_CHUNKS("a request instead of trailers", "0\r\nGET / HTTP/1.1\r\n\r\n"),
        BAD_CHUNKS("Transfer-Encoding as a trailer", "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        BAD_CHUNKS_BEHIND("no line end behind the data", "0\r\n\r\n"),
        BAD_CHUNKS_BEHIND("bare LF behind the data", "\n0\r\n\r\n"),
        BAD_CHUNKS_BEHIND("bare CR behind the data", "\r0\r\n\r\n"),
        BAD_CHUNKS_BEHIND("more data than announced", "b\r\n0\r\n\r\n"),
        BAD_CHUNKS_BEHIND("two line ends behind the data", "\r\n\r\n0\r\n\r\n"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

#define OK "HTTP/1.1 200 OK\r\n"

static void reads_responses(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("length", OK "A: b\r\nContent-Length: 2\r\n\r\nab",
            "head(200 OK 1.1 length 2 keep [A: b]) body(ab) end whole"),
        ROW("until close", OK "\r\nab", "head(200 OK 1.1 close) body(ab) end whole"),
        ROW("until close, nothing", OK "\r\n", "head(200 OK 1.1 close) end whole"),
        ROW("chunked", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nA: b\r\n\r\n",
            "head(200 OK 1.1 chunked keep) body(ab) end whole"),
        ROW("no reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
            "head(200  1.1 length 0 keep) end whole"),
        ROW("no reason and no space", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            "head(200  1.1 length 0 keep) end whole"),
        ROW("a long reason", "HTTP/1.1 404 No\tsuch \xc3\xa4\r\nContent-Length: 0\r\n\r\n",
            "head(404 No\tsuch \xc3\xa4 1.1 length 0 keep) end whole"),
        ROW("status 999", "HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",
            "head(999 x 1.1 length 0 keep) end whole"),
        ROW("204", "HTTP/1.1 204 x\r\n\r\nHTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n",
            "head(204 x 1.1 none keep) end head(204 x 1.1 none keep) end whole"),
        ROW("304", "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n",
            "head(304 x 1.1 none 7 keep) end whole"),
        HEAD_ROW("answers to HEAD", "h-h-",
                 OK "Content-Length: 7\r\n\r\n" OK "Content-Length: 1\r\n\r\na" OK
                    "Transfer-Encoding: chunked\r\n\r\n" OK "Content-Length: 1\r\n\r\nb",
                 "head(200 OK 1.1 none 7 keep) end head(200 OK 1.1 length 1 keep) body(a) end "
                 "head(200 OK 1.1 none keep) end head(200 OK 1.1 length 1 keep) body(b) end whole"),
        HEAD_ROW("answer to HEAD behind an interim one", "h",
                 "HTTP/1.1 103 x\r\n\r\n" OK "Content-Length: 7\r\n\r\n",
                 "head(200 OK 1.1 none 7 keep) end whole"),
        ROW("close", OK "Connection: close\r\nContent-Length: 0\r\n\r\n",
            "head(200 OK 1.1 length 0 [Connection: close]) end whole"),
        ROW("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "head(200 OK 1.0 length 0) end whole"),
        ROW("HTTP/1.0 kept alive",
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
            "head(200 OK 1.0 length 0 keep [Connection: keep-alive]) end whole"),
        ROW("chunked in HTTP/1.0",
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
            "0\r\n\r\n",
            "head(200 OK 1.0 chunked [Connection: keep-alive]) end whole"),
        ROW("interim responses are not told",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: a\r\n\r\n" OK
            "Content-Length: 1\r\n\r\na",
            "head(200 OK 1.1 length 1 keep) body(a) end whole"),
        ROW("cut behind an interim response", "HTTP/1.1 100 Continue\r\n\r\n", "cut"),
        ROW("101", "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
            "head(101 x 1.1 none upgrade [Connection: Upgrade] [Upgrade: SPDY/3.1]) end whole"),
        ROW("no upgrade without 101",
            OK "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
            "head(200 OK 1.1 length 0 keep [Connection: Upgrade] [Upgrade: h2c]) end whole"),
    };
    CHECK_ROWS(H1_RESPONSES, rows);
}

#define BAD_STATUS_LINE(name, line) ROW(name, line "\r\nContent-Length: 0\r\n\r\n", "error(400)")
#define BAD_RESPONSE(name, headers) ROW(name, OK headers "\r\n", "error(400)")

static void refuses_responses(void **state)
{
    (void)state;
    static const struct row rows[] = {
        BAD_STATUS_LINE("two spaces", "HTTP/1.1  200 OK"),
        BAD_STATUS_LINE("two digits", "HTTP/1.1 20 OK"),
        BAD_STATUS_LINE("four digits", "HTTP/1.1 2000 OK"),
        BAD_STATUS_LINE("status 099", "HTTP/1.1 099 OK"),
        BAD_STATUS_LINE("a sign", "HTTP/1.1 +20 OK"),
        BAD_STATUS_LINE("no status", "HTTP/1.1"),
        BAD_STATUS_LINE("a tab", "HTTP/1.1\t200 OK"),
        BAD_STATUS_LINE("a letter", "HTTP/1.1 2x0 OK"),
        BAD_STATUS_LINE("no version", "200 OK"),
        BAD_STATUS_LINE("another protocol", "ICY 200 OK"),
        BAD_STATUS_LINE("RTSP", "RTSP/1.0 200 OK"),
        BAD_STATUS_LINE("lower case", "http/1.1 200 OK"),
        BAD_STATUS_LINE("control character", "HTTP/1.1 200 O\x01K"),
        BAD_STATUS_LINE("an empty line before", "\r\nHTTP/1.1 200 OK"),
        ROW("HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n", "error(505)"),
        ROW("bare LF", "HTTP/1.1 200 OK\nA: b\n\n", "error(400)"),
        BAD_RESPONSE("folded", "A: b\r\n c\r\n"),
        BAD_RESPONSE("two lengths", "Content-Length: 1\r\nContent-Length: 2\r\n"),
        BAD_RESPONSE("two equal lengths", "Content-Length: 1\r\nContent-Length: 1\r\n"),
        BAD_RESPONSE("length and encoding", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
        ROW("chunked and identity", OK "Transfer-Encoding: chunked, identity\r\n\r\n",
            "error(501)"),
        ROW("another encoding", OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "error(501)"),
        ROW("identity", OK "Transfer-Encoding: identity\r\n\r\n", "error(501)"),
    };
    CHECK_ROWS(H1_RESPONSES, rows);
}

static void bounds_interim_responses(void **state)
{
    (void)state;
    struct buf bytes = BUF_INIT(4096);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(buf_append_str(&bytes, "HTTP/1.1 102 x\r\n\r\n"), 0);
    }
    size_t good = bytes.len;
    assert_int_equal(buf_append_str(&bytes, "HTTP/1.1 204 x\r\n\r\n"), 0);
    struct row row = {"sixteen", (char *)buf_data(&bytes), bytes.len,
                      "head(204 x 1.1 none keep) end whole", ""};
    check_row(H1_RESPONSES, &h1_limits_default, &row);
    memcpy(buf_data(&bytes) + good, "HTTP/1.1 102", 12);
    row.name = "seventeen";
    row.want = "error(400)";
    check_row(H1_RESPONSES, &h1_limits_default, &row);
    buf_reset(&bytes);
}

/* `before`, then as many letters that `total` bytes come out, then `after`. */
static struct row padded(const char *name, char *out, size_t total, const char *before,
                         const char *after, const char *want)
{
    size_t head = strlen(before);
    size_t tail = strlen(after);
    memset(out, 'a', total);
    memcpy(out, before, head);
    memcpy(out + total - tail, after, tail);
    return (struct row){.name = name, .bytes = out, .len = total, .want = want, .to_head = ""};
}

static const struct h1_limits small = {.head_bytes = 64, .header_count = 3};

static void bounds_the_bytes_of_a_head(void **state)
{
    (void)state;
    char text[256];
    const char *got =
        "head(GET / 1.1 none keep [Host: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]) end ";
    struct row row = padded("64 bytes", text, 64, "GET / HTTP/1.1\r\nHost:", "\r\n\r\n", got);
    char want[512];
    (void)snprintf(want, sizeof want, "%swhole", got);
    row.want = want;
    check_row(H1_REQUESTS, &small, &row);

    (void)padded("", text + 64, 64, "GET / HTTP/1.1\r\nHost:", "\r\n\r\n", "");
    (void)snprintf(want, sizeof want, "%s%swhole", got, got);
    row.len = 128;
    check_row(H1_REQUESTS, &small, &row);

    memcpy(text, "\r\n\r\n", 4);
    (void)padded("", text + 4, 64, "GET / HTTP/1.1\r\nHost:", "\r\n\r\n", "");
    (void)snprintf(want, sizeof want, "%swhole", got);
    row = (struct row){"64 behind empty lines", text, 68, want, ""};
    check_row(H1_REQUESTS, &small, &row);

    row = padded("65 bytes", text, 65, "GET / HTTP/1.1\r\nHost:", "\r\n\r\n", "error(431)");
    check_row(H1_REQUESTS, &small, &row);
    row = padded("request line of 64", text, 64, "GET /", " HTTP/1.1\r\n", "cut");
    check_row(H1_REQUESTS, &small, &row);
    row = padded("request line of 65", text, 65, "GET /", " HTTP/1.1\r\n", "error(414)");
    check_row(H1_REQUESTS, &small, &row);
    row = padded("status line of 65", text, 65, "HTTP/1.1 200 ", "\r\n", "error(431)");
    check_row(H1_RESPONSES, &small, &row);
    row = padded("garbage before the limit", text, 100, "GET /\x01", "", "error(400)");
    check_row(H1_REQUESTS, &small, &row);
    row = padded("garbage behind the limit", text, 100, "GET /", "\x01", "error(414)");
    check_row(H1_REQUESTS, &small, &row);
}

static void bounds_the_headers_of_a_head(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("as many as may be", "GET / HTTP/1.1\r\nHost: x\r\nA:\r\nB:\r\n\r\n",
            "head(GET / 1.1 none keep [Host: x] [A: ] [B: ]) end whole"),
        ROW("one too many", "GET / HTTP/1.1\r\nHost: x\r\nA:\r\nB:\r\nC:\r\n\r\n", "error(431)"),
    };
    check_row(H1_REQUESTS, &small, &rows[0]);
    check_row(H1_REQUESTS, &small, &rows[1]);
}

static void bounds_trailers(void **state)
{
    (void)state;
#define SHORT "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:chunked\r\n\r\n0\r\n"
    static const struct row rows[] = {
        ROW("as many as may be", SHORT "A:\r\nB:\r\nC:\r\n\r\n", GOT_CHUNKED "end whole"),
        ROW("one too many", SHORT "A:\r\nB:\r\nC:\r\nD:\r\n\r\n", GOT_CHUNKED "error(400)"),
    };
    check_row(H1_REQUESTS, &small, &rows[0]);
    check_row(H1_REQUESTS, &small, &rows[1]);
    char text[256];
    struct row row = padded("64 bytes", text, sizeof SHORT - 1 + 64, SHORT "A:", "\r\n\r\n",
                            GOT_CHUNKED "end whole");
    check_row(H1_REQUESTS, &small, &row);
    row = padded("65 bytes", text, sizeof SHORT - 1 + 65, SHORT "A:", "\r\n\r\n",
                 GOT_CHUNKED "error(400)");
    check_row(H1_REQUESTS, &small, &row);
#undef SHORT
}

static void bounds_chunk_lines(void **state)
{
    (void)state;
    char text[512];
    size_t head = sizeof CHUNKED - 1;
    struct row row = padded("256 bytes", text, head + 256 + 8, CHUNKED "1;", "\r\nx\r\n0\r\n\r\n",
                            GOT_CHUNKED "body(x) end whole");
    check_row(H1_REQUESTS, &h1_limits_default, &row);
    row = padded("257 bytes", text, head + 257 + 8, CHUNKED "1;", "\r\nx\r\n0\r\n\r\n",
                 GOT_CHUNKED "error(400)");
    check_row(H1_REQUESTS, &h1_limits_default, &row);
    memset(text + head, '0', 256);
    row.name = "leading zeros";
    check_row(H1_REQUESTS, &h1_limits_default, &row);
}

/* `count` chunks of `size` bytes, each with an extension of about 200 bytes. */
static void append_chunks(struct buf *out, int count, int size)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(buf_printf(out, "%x;%0200d\r\n%0*d\r\n", (unsigned)size, 0, size, 0), 0);
    }
}

static size_t body_bytes(const struct buf *bytes, enum h1_event *last)
{
    struct h1_parser *p = h1_parser_new(H1_REQUESTS, &h1_limits_default);
    assert_non_null(p);
    struct slice data = buf_slice(bytes);
    struct slice body;
    const struct http_head *head;
    size_t total = 0;
    while ((*last = h1_parser_next(p, &data, &head, &body, NULL)) == H1_HEAD || *last == H1_BODY) {
        total += *last == H1_BODY ? body.len : 0;
    }
    h1_parser_free(p);
    return total;
}

static void refuses_bodies_that_are_mostly_extensions(void **state)
{
    (void)state;
    struct buf bytes = BUF_INIT(1024 * 1024);
    enum h1_event last;
    assert_int_equal(buf_append_str(&bytes, CHUNKED), 0);
    append_chunks(&bytes, 100, 1);
    assert_true(body_bytes(&bytes, &last) < 30);
    assert_int_equal(last, H1_ERROR);

    buf_clear(&bytes);
    assert_int_equal(buf_append_str(&bytes, CHUNKED), 0);
    append_chunks(&bytes, 1000, 200);
    assert_int_equal(buf_append_str(&bytes, "0\r\n\r\n"), 0);
    assert_int_equal(body_bytes(&bytes, &last), 200000);
    assert_int_equal(last, H1_END);
    buf_reset(&bytes);
}

/* A parser that has read a head; `rest` is what it did not consume. */
static struct h1_parser *after_head(enum h1_role role, struct slice bytes, struct slice *rest,
                                    const struct http_head **head)
{
    struct h1_parser *p = h1_parser_new(role, &h1_limits_default);
    assert_non_null(p);
    struct slice body;
    *rest = bytes;
    assert_true(h1_parser_idle(p));
    assert_int_equal(h1_parser_next(p, rest, head, &body, NULL), H1_HEAD);
    assert_false(h1_parser_idle(p));
    return p;
}

#define GET_AT(name, target)                                                                       \
    ROW(name, "GET " target " HTTP/1.1\r\n" HOST "\r\n",                                           \
        "head(GET " target " 1.1 none keep [Host: x]) end whole")
#define CONNECT_TO(name, target)                                                                   \
    ROW(name, "CONNECT " target " HTTP/1.1\r\n" HOST "\r\n",                                       \
        "head(CONNECT " target " 1.1 none keep connect [Host: x]) end whole")

static void reads_requests_to_a_proxy(void **state)
{
    (void)state;
    static const struct row rows[] = {
        GET_AT("a path", "/a?b=http://c"),
        GET_AT("an absolute target", "http://example.com/a?b"),
        GET_AT("https", "https://example.com:8443/a"),
        GET_AT("without path", "http://example.com"),
        GET_AT("without path, with a query", "http://example.com?a"),
        GET_AT("another scheme", "ftp://example.com/a"),
        GET_AT("upper case", "HTTP://EXAMPLE.com/A"),
        GET_AT("user information", "http://u:p@example.com/"),
        GET_AT("IPv6", "http://[2001:db8::1]:80/"),
        ROW("OPTIONS of all", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
            "head(OPTIONS * 1.1 none keep [Host: x]) end whole"),
        ROW("HTTP/1.0", "GET http://a/ HTTP/1.0\r\n\r\n", "head(GET http://a/ 1.0 none) end whole"),
        ROW("a body, and another one",
            "PUT http://a/ HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nabGET / HTTP/1.1\r\n" HOST
            "\r\n",
            "head(PUT http://a/ 1.1 length 2 keep [Host: x]) body(ab) end " GOT "end whole"),
        CONNECT_TO("CONNECT", "example.com:443"),
        CONNECT_TO("CONNECT to IPv4", "192.0.2.1:80"),
        CONNECT_TO("CONNECT to IPv6", "[2001:db8::1]:443"),
        CONNECT_TO("an underscore", "a_b:1"),
        ROW("CONNECT in HTTP/1.0", "CONNECT a:1 HTTP/1.0\r\n\r\n",
            "head(CONNECT a:1 1.0 none connect) end whole"),
        ROW("no upgrade",
            "CONNECT a:1 HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: a\r\n\r\n",
            "head(CONNECT a:1 1.1 none keep connect [Host: x] [Connection: upgrade] [Upgrade: a]) "
            "end whole"),
        ROW("nothing to expect", "CONNECT a:1 HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n\r\n",
            "head(CONNECT a:1 1.1 none keep connect [Host: x] [Expect: 100-continue]) end whole"),
    };
    CHECK_ROWS(H1_PROXY_REQUESTS, rows);
}

#define NO_TARGET(name, line) ROW(name, line " HTTP/1.1\r\n" HOST "\r\n", "error(400)")

static void refuses_requests_to_a_proxy(void **state)
{
    (void)state;
    static const struct row rows[] = {
        NO_TARGET("an authority without CONNECT", "GET example.com:80"),
        NO_TARGET("a name", "GET example.com"),
        NO_TARGET("GET *", "GET *"),
        NO_TARGET("an empty scheme", "GET ://example.com/"),
        NO_TARGET("a scheme alone", "GET http:"),
        NO_TARGET("one slash", "GET http:/example.com/"),
        NO_TARGET("nothing behind it", "GET http://"),
        NO_TARGET("a scheme of digits", "GET 1://example.com/"),
        NO_TARGET("a space", "GET http://example.com/a b"),
        NO_TARGET("a fragment", "GET http://example.com/#a"),
        NO_TARGET("a byte above 0x7f", "GET http://example.com/\xc3\xa4"),
        NO_TARGET("CONNECT with a path", "CONNECT /a"),
        NO_TARGET("CONNECT with a path behind", "CONNECT a:443/"),
        NO_TARGET("CONNECT with a query behind", "CONNECT a:443?b"),
        NO_TARGET("CONNECT with a query of digits", "CONNECT a?b:443"),
        NO_TARGET("CONNECT with a path of digits", "CONNECT a/:443"),
        NO_TARGET("CONNECT with a URL", "CONNECT http://a/"),
        NO_TARGET("CONNECT with a URL that ends as host:port", "CONNECT http://a:443"),
        NO_TARGET("CONNECT *", "CONNECT *"),
        NO_TARGET("CONNECT without port", "CONNECT a"),
        NO_TARGET("CONNECT with an empty port", "CONNECT a:"),
        NO_TARGET("CONNECT with a port by name", "CONNECT a:https"),
        NO_TARGET("CONNECT without host", "CONNECT :443"),
        NO_TARGET("CONNECT with a port alone", "CONNECT 443"),
        NO_TARGET("CONNECT with user information", "CONNECT a@b:443"),
        NO_TARGET("CONNECT with a fragment", "CONNECT a#:443"),
        NO_TARGET("CONNECT with a backslash", "CONNECT a\\b:443"),
        NO_TARGET("CONNECT with two targets", "CONNECT a:443 b:443"),
        NO_TARGET("CONNECT without target", "CONNECT"),
        ROW("CONNECT with a length", "CONNECT a:1 HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na",
            "error(400)"),
        ROW("CONNECT with a length of 0",
            "CONNECT a:1 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "error(400)"),
        ROW("CONNECT in chunks",
            "CONNECT a:1 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "error(400)"),
        ROW("CONNECT without Host", "CONNECT a:1 HTTP/1.1\r\n\r\n", "error(400)"),
        ROW("CONNECT with two Hosts", "CONNECT a:1 HTTP/1.1\r\n" HOST HOST "\r\n", "error(400)"),
        ROW("a URL without Host", "GET http://a/ HTTP/1.1\r\n\r\n", "error(400)"),
        ROW("a URL with two Hosts", "GET http://a/ HTTP/1.1\r\n" HOST HOST "\r\n", "error(400)"),
        ROW("a bare LF", "CONNECT a:1 HTTP/1.1\n" HOST "\r\n", "error(400)"),
        ROW("lower case", "connect a:1 HTTP/1.1\r\n" HOST "\r\n", "error(501)"),
    };
    CHECK_ROWS(H1_PROXY_REQUESTS, rows);
}

static void leaves_the_bytes_of_a_tunnel(void **state)
{
    (void)state;
    const struct http_head *head;
    struct slice rest;
    struct slice body;
    struct h1_parser *p =
        after_head(H1_PROXY_REQUESTS,
                   SLICE("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03\x01GET / HTTP/1.1"),
                   &rest, &head);
    assert_true(head->connect && !head->upgrade);
    assert_int_equal(head->framing, HTTP_BODY_NONE);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_END);
    assert_int_equal(rest.len, 17);
    h1_parser_free(p);
}

static void leaves_the_bytes_of_an_upgraded_connection(void **state)
{
    (void)state;
    const struct http_head *head;
    struct slice rest;
    struct slice body;
    struct h1_parser *p = after_head(
        H1_REQUESTS,
        SLICE("POST /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
              "\r\n\x80\x03\0\x01"),
        &rest, &head);
    assert_true(head->upgrade);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_END);
    assert_int_equal(rest.len, 4);
    h1_parser_free(p);

    p = after_head(H1_RESPONSES,
                   SLICE("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 5\r\n\r\n\0\r\n"),
                   &rest, &head);
    assert_true(head->upgrade);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_END);
    assert_int_equal(rest.len, 3);
    h1_parser_free(p);
}

static void upgrade_takes_both_headers(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("both",
            "GET / HTTP/1.1\r\n" HOST "Connection: a, upgrade\r\nUpgrade: websocket\r\n\r\n",
            "head(GET / 1.1 none keep upgrade [Host: x] [Connection: a, upgrade] "
            "[Upgrade: websocket]) end whole"),
        ROW("Upgrade only", "GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n",
            "head(GET / 1.1 none keep [Host: x] [Upgrade: websocket]) end whole"),
        ROW("Connection only", "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\n\r\n",
            "head(GET / 1.1 none keep [Host: x] [Connection: upgrade]) end whole"),
        ROW("HTTP/1.0", "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n",
            "head(GET / 1.0 none [Connection: upgrade] [Upgrade: a]) end whole"),
        ROW("behind a chunked body",
            "POST / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: a\r\n"
            "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "head(POST / 1.1 chunked keep upgrade [Host: x] [Connection: upgrade] [Upgrade: a]) "
            "body(a) end whole"),
        ROW("not agreed on",
            "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: a\r\n\r\n"
            "GET / HTTP/1.1\r\n" HOST "\r\n",
            "head(GET / 1.1 none keep upgrade [Host: x] [Connection: upgrade] [Upgrade: a]) "
            "end " GOT "end whole"),
    };
    CHECK_ROWS(H1_REQUESTS, rows);
}

static void released_head_keeps_its_flags(void **state)
{
    (void)state;
    const struct http_head *head;
    struct slice rest;
    struct slice body;
    struct h1_parser *p = after_head(
        H1_RESPONSES, SLICE(OK "A: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), &rest, &head);
    h1_parser_release_head(p);
    h1_parser_release_head(p);
    assert_int_equal(head->header_count, 0);
    assert_int_equal(head->reason.len, 0);
    assert_int_equal(head->status, 200);
    assert_int_equal(head->framing, HTTP_BODY_CHUNKED);
    assert_true(head->keep_alive);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_BODY);
    assert_true(slice_eq(body, SLICE("hel")));
    rest = SLICE("lo\r\n0\r\nT: u\r\n\r\nHTTP/1.1 204 x\r\nC: d\r\n\r\n");
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_BODY);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_END);
    h1_parser_release_head(p);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_HEAD);
    assert_true(slice_eq(head->headers[0].value, SLICE("d")));
    h1_parser_free(p);
}

static void head_outlives_the_bytes_it_came_in(void **state)
{
    (void)state;
    char text[] = "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb";
    const struct http_head *head;
    struct slice rest;
    struct slice body;
    struct h1_parser *p = after_head(H1_REQUESTS, slice_of(text, sizeof text - 1), &rest, &head);
    memset(text, '#', sizeof text - 2);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_BODY);
    assert_int_equal(h1_parser_next(p, &rest, &head, &body, NULL), H1_END);
    assert_true(slice_eq(head->target, SLICE("/a")));
    assert_true(slice_eq(head->headers[0].name, SLICE("Host")));
    h1_parser_free(p);
}

/* Releasing while a head comes in must not lose what is there. */
static void release_within_a_head_does_nothing(void **state)
{
    (void)state;
    struct h1_parser *p = h1_parser_new(H1_REQUESTS, &h1_limits_default);
    assert_non_null(p);
    const struct http_head *head;
    struct slice body;
    struct slice data = SLICE("GET / HT");
    assert_int_equal(h1_parser_next(p, &data, &head, &body, NULL), H1_MORE);
    h1_parser_release_head(p);
    data = SLICE("TP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(h1_parser_next(p, &data, &head, &body, NULL), H1_HEAD);
    assert_true(slice_eq(head->method, SLICE("GET")));
    h1_parser_free(p);
}

static void a_head_request_is_for_one_response(void **state)
{
    (void)state;
    struct h1_parser *p = h1_parser_new(H1_RESPONSES, &h1_limits_default);
    assert_non_null(p);
    const struct http_head *head;
    struct slice body;
    struct slice data = SLICE(OK "Content-Length: 1\r\n\r\n" OK "Content-Length: 1\r\n\r\na");
    h1_parser_expect(p, true);
    assert_int_equal(h1_parser_next(p, &data, &head, &body, NULL), H1_HEAD);
    assert_int_equal(h1_parser_next(p, &data, &head, &body, NULL), H1_END);
    assert_int_equal(h1_parser_next(p, &data, &head, &body, NULL), H1_HEAD);
    assert_int_equal(h1_parser_next(p, &data, &head, &body, NULL), H1_BODY);
    h1_parser_free(p);
}

static void a_waiting_parser_is_small(void **state)
{
    (void)state;
    const struct http_head *head;
    struct slice rest;
    struct h1_parser *p =
        after_head(H1_REQUESTS, SLICE("GET / HTTP/1.1\r\n" HOST "\r\n"), &rest, &head);
    assert_true(malloc_usable_size(p) <= 400);
    h1_parser_free(p);
    h1_parser_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_requests),
        cmocka_unit_test(refuses_request_lines),
        cmocka_unit_test(refuses_request_headers),
        cmocka_unit_test(refuses_unclear_framing),
        cmocka_unit_test(reads_chunks),
        cmocka_unit_test(refuses_bad_chunks),
        cmocka_unit_test(reads_responses),
        cmocka_unit_test(refuses_responses),
        cmocka_unit_test(bounds_interim_responses),
        cmocka_unit_test(bounds_the_bytes_of_a_head),
        cmocka_unit_test(bounds_the_headers_of_a_head),
        cmocka_unit_test(bounds_trailers),
        cmocka_unit_test(bounds_chunk_lines),
        cmocka_unit_test(refuses_bodies_that_are_mostly_extensions),
        cmocka_unit_test(reads_requests_to_a_proxy),
        cmocka_unit_test(refuses_requests_to_a_proxy),
        cmocka_unit_test(leaves_the_bytes_of_a_tunnel),
        cmocka_unit_test(leaves_the_bytes_of_an_upgraded_connection),
        cmocka_unit_test(upgrade_takes_both_headers),
        cmocka_unit_test(released_head_keeps_its_flags),
        cmocka_unit_test(head_outlives_the_bytes_it_came_in),
        cmocka_unit_test(release_within_a_head_does_nothing),
        cmocka_unit_test(a_head_request_is_for_one_response),
        cmocka_unit_test(a_waiting_parser_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
