/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_world.h - a client's session and a server in memory (h2_peer.h). What the handlers of the
 * client are told is written as text, each stream under its letter, bodies as how many bytes came
 * in a row:
 *
 *     a:head(200 chunked [name: value]) a:5 a:end
 */
#ifndef TEST_UNIT_HTTP_H2_WORLD_H
#define TEST_UNIT_HTTP_H2_WORLD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "h2_peer.h"
#include "http/h1_parser.h"
#include "http/h2_session.h"

enum { REFUSED_STREAM = 7, CANCEL = 8, PROTOCOL_ERROR = 1, NO_ERROR = 0, INTERNAL_ERROR = 2 };

struct world;

/* A stream of the client's, and what it does when told. */
struct user {
    struct world *w;
    char letter;
    struct h2_stream *stream; /* NULL: it has ended */
    bool pauses;              /* at each piece of body */
    bool pauses_at_head;
    bool aborts_at_head;
    bool aborts_at_body;
    bool aborts_at_end;
    bool resumes;       /* what it paused, within the handler */
    struct user *wakes; /* another one, which is resumed at each piece of body */
    size_t body;
    size_t pieces;
    size_t total;
    struct buf bytes; /* of the first 64 that came */
};

enum { WINDOWS = 16 * 1024 * 1024 };

struct world {
    struct h2_session *s;
    struct byte_budget windows;
    struct h2_peer *peer;
    struct buf said;
    struct user users[128];
    unsigned count;
    struct err e;
    size_t piece; /* bytes at a time for the client; 0: all */
    bool quiet;   /* of heads it says the status alone */
};

static inline void say(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline void say(struct world *w, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_int_equal(buf_append_str(&w->said, text), 0);
}

static inline void on_head(void *data, const struct http_head *head)
{
    static const char *const framings[] = {"none", "length", "chunked", "close"};
    struct user *u = data;
    if (u->w->quiet) {
        say(u->w, "%c:head(%u) ", u->letter, head->status);
        return;
    }
    say(u->w, "%c:head(%u %s", u->letter, head->status, framings[head->framing]);
    if (head->framing == HTTP_BODY_LENGTH || head->content_length > 0) {
        say(u->w, " %llu", (unsigned long long)head->content_length);
    }
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *h = &head->headers[i];
        say(u->w, " [%.*s: %.*s]", (int)h->name.len, h->name.ptr, (int)h->value.len, h->value.ptr);
    }
    say(u->w, ") ");
    if (u->pauses_at_head) {
        h2_stream_pause(u->stream);
    }
    if (u->aborts_at_head) {
        h2_stream_abort(u->stream);
    }
}

static inline void on_body(void *data, struct slice bytes)
{
    struct user *u = data;
    u->body += bytes.len;
    u->total += bytes.len;
    u->pieces++;
    assert_true(bytes.len > 0);
    if (u->bytes.len < 64) {
        assert_int_equal(buf_append(&u->bytes, bytes.ptr, bytes.len), 0);
    }
    if (u->pauses) {
        h2_stream_pause(u->stream);
    }
    if (u->resumes) {
        h2_stream_resume(u->stream);
    }
    if (u->wakes != NULL) {
        h2_stream_resume(u->wakes->stream);
    }
    if (u->aborts_at_body) {
        say(u->w, "%c:body ", u->letter);
        h2_stream_abort(u->stream);
    }
}

static inline void say_body(struct user *u)
{
    if (u->body > 0) {
        say(u->w, "%c:%zu ", u->letter, u->body);
        u->body = 0;
    }
}

static inline void on_end(void *data, bool whole)
{
    struct user *u = data;
    say_body(u);
    say(u->w, "%c:%s ", u->letter, whole ? "end" : "answered");
    if (u->aborts_at_end && !whole) {
        h2_stream_abort(u->stream);
    }
    u->stream = whole ? NULL : u->stream;
}

static inline void on_sent(void *data)
{
    struct user *u = data;
    say(u->w, "%c:sent ", u->letter);
    u->stream = NULL;
}

static inline void on_drain(void *data)
{
    struct user *u = data;
    say(u->w, "%c:drain ", u->letter);
}

static inline void on_reset(void *data, enum h2_end how, const struct err *e)
{
    struct user *u = data;
    say_body(u);
    say(u->w, "%c:%s(%d) ", u->letter, how == H2_END_REFUSED ? "refused" : "reset", e->code);
    u->stream = NULL;
}

static inline void on_room(void *data)
{
    struct world *w = data;
    say(w, "room(%u) ", h2_session_room(w->s));
}

static inline void on_pong(void *data)
{
    struct world *w = data;
    say(w, "pong ");
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

static inline void world_init(struct world *w, const struct h2_peer_options *o)
{
    *w = (struct world){.count = 0};
    buf_init(&w->said, SIZE_MAX);
    w->windows = (struct byte_budget){.max = WINDOWS};
    w->s = h2_session_new(&handlers, &w->windows, NULL, w);
    assert_non_null(w->s);
    w->peer = h2_peer_new(o != NULL ? o : &(struct h2_peer_options){.max_streams = 0});
}

static inline void world_end(struct world *w)
{
    h2_session_free(w->s);
    h2_peer_free(w->peer);
    for (size_t i = 0; i < ARRAY_LEN(w->users); i++) {
        buf_reset(&w->users[i].bytes);
    }
    buf_reset(&w->said);
}

/* What the client has to say reaches the server. */
static inline void to_server(struct world *w)
{
    struct buf wire = BUF_INIT(SIZE_MAX);
    assert_int_equal(h2_session_send(w->s, &wire), 0);
    if (wire.len > 0) {
        assert_true(h2_peer_receive(w->peer, buf_slice(&wire)));
    }
    buf_reset(&wire);
}

static inline int feed(struct world *w, struct slice bytes)
{
    int rc = 0;
    while (bytes.len > 0 && rc == 0) {
        size_t n = w->piece == 0 || bytes.len < w->piece ? bytes.len : w->piece;
        /* A copy, so that reads outside the piece are seen. */
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, bytes.ptr, n);
        rc = h2_session_receive(w->s, slice_of(copy, n), &w->e);
        free(copy);
        bytes = slice_of(bytes.ptr + n, bytes.len - n);
    }
    return rc;
}

static inline void to_client(struct world *w)
{
    struct buf wire = BUF_INIT(SIZE_MAX);
    h2_peer_send(w->peer, &wire);
    assert_int_equal(feed(w, buf_slice(&wire)), 0);
    buf_reset(&wire);
}

/* Until neither has more to say. */
static inline void settle(struct world *w)
{
    struct buf wire = BUF_INIT(SIZE_MAX);
    bool more = true;
    while (more) {
        assert_int_equal(h2_session_send(w->s, &wire), 0);
        more = wire.len > 0;
        assert_true(!more || h2_peer_receive(w->peer, buf_slice(&wire)));
        buf_clear(&wire);
        h2_peer_send(w->peer, &wire);
        more = more || wire.len > 0;
        assert_int_equal(feed(w, buf_slice(&wire)), 0);
        buf_clear(&wire);
    }
    buf_reset(&wire);
}

/* For tests that are not about it. */
static inline void drop_rooms(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        say_body(&w->users[i]);
    }
    char *text = buf_take_str(&w->said);
    assert_non_null(text);
    for (char *at = strstr(text, "room("); at != NULL; at = strstr(text, "room(")) {
        char *end = strchr(at, ' ') + 1;
        memmove(at, end, strlen(end) + 1);
    }
    say(w, "%s", text);
    free(text);
}

/* The text since it was last asked for. */
static inline void assert_said(struct world *w, const char *want)
{
    for (unsigned i = 0; i < w->count; i++) {
        say_body(&w->users[i]);
    }
    assert_string_equal(w->said.len == 0 ? "" : buf_cstr(&w->said), want);
    buf_clear(&w->said);
}

static inline struct http_head request_head(const char *method)
{
    static const struct http_header headers[] = {
        {{"Host", 4}, {"api:443", 7}},
        {{"Accept", 6}, {"application/json", 16}},
    };
    return (struct http_head){
        .method = slice_str(method),
        .target = SLICE("/api"),
        .headers = headers,
        .header_count = ARRAY_LEN(headers),
    };
}

static inline struct user *ask_with(struct world *w, const struct http_head *head, bool ended)
{
    struct user *u = &w->users[w->count];
    buf_reset(&u->bytes);
    *u = (struct user){.w = w, .bytes = BUF_INIT(SIZE_MAX)};
    u->letter = (char)('a' + w->count++);
    u->stream = h2_session_request(w->s, head, ended, u, &w->e);
    assert_non_null(u->stream);
    return u;
}

static inline struct user *get(struct world *w)
{
    struct http_head head = request_head("GET");
    return ask_with(w, &head, true);
}

#endif
