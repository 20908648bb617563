/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "http/h1_parser.h"
#include "http/h2_internal.h"

enum {
    FIELDS_MAX = 192,    /* of a request */
    FIELD_OVERHEAD = 32, /* RFC 9113 section 6.5.2 */
    PSEUDO_HEADERS = 3,  /* beside the one that Host becomes; names, and the scheme: */
    PSEUDO_SIZE = sizeof ":method:scheme:authority:pathhttps" - 1,
    TOKEN_LEAST = 64,       /* bytes of a credential that cannot be guessed */
    LINE_OVERHEAD = 4,      /* ": " and the line's end, as HTTP/1.1 would have it */
    INTERIM_MAX = 16,       /* as http/h1_parser.c */
    KEPT_HEAD_BYTES = 4096, /* memory above this does not serve the next head */
};

/* ---- requests ---- */

static bool is_credential(struct slice name)
{
    static const struct slice impersonate = {.ptr = "Impersonate-", .len = 12};
    return slice_ieq(name, SLICE("Authorization")) || slice_ieq(name, SLICE("Cookie")) ||
           slice_ieq(name, SLICE("Proxy-Authorization")) ||
           (name.len >= impersonate.len &&
            slice_ieq(slice_of(name.ptr, impersonate.len), impersonate));
}

/* What HTTP/2 says otherwise or not at all (RFC 9113 section 8.2.2). */
static bool is_left_out(const struct http_header *h)
{
    switch (h->name.len) {
    case 2:
        return slice_ieq(h->name, SLICE("TE")) && !slice_ieq(h->value, SLICE("trailers"));
    case 4:
        return slice_ieq(h->name, SLICE("Host"));
    case 7:
        return slice_ieq(h->name, SLICE("Upgrade"));
    case 10:
        return slice_ieq(h->name, SLICE("Connection")) || slice_ieq(h->name, SLICE("Keep-Alive"));
    case 14:
        return slice_ieq(h->name, SLICE("Content-Length"));
    case 16:
        return slice_ieq(h->name, SLICE("Proxy-Connection"));
    case 17:
        return slice_ieq(h->name, SLICE("Transfer-Encoding"));
    default:
        return false;
    }
}

/* How it is written. A bearer token is random enough that nobody finds it by trying what the server
 * remembers (RFC 7541 section 7.1); it goes with each request, as a client of Go sends it. */
static enum hpack_kind kind_of(const struct http_header *h)
{
    static const struct slice bearer = {.ptr = "Bearer ", .len = 7};
    if (!is_credential(h->name)) {
        return HPACK_REPEATED;
    }
    bool token = slice_ieq(h->name, SLICE("Authorization")) && h->value.len >= TOKEN_LEAST &&
                 slice_ieq(slice_of(h->value.ptr, bearer.len), bearer);
    return token ? HPACK_REPEATED : HPACK_SECRET;
}

/* A server of Go closes the connection, with all other streams, at a head far above what it said it
 * takes; so it is not sent. Until its SETTINGS have come that is not known. */
static bool fits(const struct h2_session *s, const struct http_head *head)
{
    size_t count = PSEUDO_HEADERS + 1;
    size_t size = head->method.len + head->target.len + count * FIELD_OVERHEAD + PSEUDO_SIZE;
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *h = &head->headers[i];
        bool host = slice_ieq(h->name, SLICE("Host"));
        if (host || !is_left_out(h)) {
            count += host ? 0 : 1;
            size += (host ? 0 : h->name.len + FIELD_OVERHEAD) + h->value.len;
        }
    }
    return count <= FIELDS_MAX && size <= H2_HEAD_OUT_MAX &&
           size <=
               nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
}

int h2_head_submit(struct h2_stream *t, const struct http_head *head,
                   const nghttp2_data_provider *body, struct err *e)
{
    if (http_head_find(head, SLICE("Host")) == NULL) {
        return err_set(e, -EINVAL, "the request has no Host header");
    }
    if (!fits(t->session, head)) {
        return err_set(e, -HTTP_PARSE_TOO_LARGE,
                       "the request's head is larger than the server takes");
    }
    nghttp2_nv method = {.name = (uint8_t *)(uintptr_t) ":method",
                         .namelen = 7,
                         .value = (uint8_t *)(uintptr_t)head->method.ptr,
                         .valuelen = head->method.len};
    t->request = http_head_copy(head);
    if (t->request == NULL) {
        return err_memory(e);
    }
    int32_t id = nghttp2_submit_request(t->session->ng, NULL, &method, 1, body, t);
    if (id < 0) {
        return id == NGHTTP2_ERR_NOMEM ? err_memory(e)
                                       : err_set(e, -EPROTO, "HTTP/2: %s", nghttp2_strerror(id));
    }
    t->id = id;
    t->session->waiting++;
    return 0;
}

static void encode(struct h2_session *s, const struct http_head *head)
{
    struct hpack_encoder *h = &s->encoder;
    struct buf *out = &s->block;
    char length[24];
    const struct http_header *host = http_head_find(head, SLICE("Host"));
    hpack_encoder_begin(h, out);
    hpack_encoder_put(h, out, SLICE(":method"), head->method, HPACK_REPEATED);
    hpack_encoder_put(h, out, SLICE(":scheme"), SLICE("https"), HPACK_REPEATED);
    hpack_encoder_put(h, out, SLICE(":authority"), host->value, HPACK_REPEATED);
    hpack_encoder_put(h, out, SLICE(":path"), head->target, HPACK_ONCE);
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *header = &head->headers[i];
        if (!is_left_out(header)) {
            hpack_encoder_put(h, out, header->name, header->value, kind_of(header));
        }
    }
    if (head->framing == HTTP_BODY_LENGTH) {
        int n = snprintf(length, sizeof length, "%llu", (unsigned long long)head->content_length);
        hpack_encoder_put(h, out, SLICE("content-length"), slice_of(length, (size_t)n), HPACK_ONCE);
    }
}

/* RFC 9113 section 4.1. */
static void put_frame(struct h2_session *s, uint8_t type, uint8_t flags, struct buf *out)
{
    size_t len = s->block.len < H2_FRAME_MAX ? s->block.len : H2_FRAME_MAX;
    uint32_t id = (uint32_t)s->block_of;
    flags |= len == s->block.len ? NGHTTP2_FLAG_END_HEADERS : 0;
    const uint8_t head[H2_FRAME_HEAD] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
        (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    (void)buf_append(out, head, sizeof head);
    (void)buf_append(out, buf_data(&s->block), len);
    buf_consume(&s->block, len);
    if (s->block.len > 0) {
        return;
    }
    if (s->block.cap > KEPT_HEAD_BYTES) {
        buf_reset(&s->block);
    } else {
        buf_clear(&s->block);
    }
}

void h2_head_send(struct h2_session *s, const uint8_t *frame, struct buf *out)
{
    s->block_of = (int32_t)((uint32_t)frame[5] << 24 | (uint32_t)frame[6] << 16 |
                            (uint32_t)frame[7] << 8 | frame[8]);
    struct h2_stream *t = h2_stream_find(s, s->block_of);
    if (t == NULL || t->request == NULL) {
        h2_note(s, NGHTTP2_ERR_INVALID_STATE); /* nghttp2 sends none of what was given up */
        return;
    }
    encode(s, t->request);
    free(t->request);
    t->request = NULL;
    h2_note(s, buf_error(&s->block) != 0 ? NGHTTP2_ERR_NOMEM : 0);
    put_frame(s, NGHTTP2_HEADERS, frame[4] & NGHTTP2_FLAG_END_STREAM, out);
}

void h2_head_send_more(struct h2_session *s, struct buf *out)
{
    put_frame(s, NGHTTP2_CONTINUATION, 0, out);
}

/* ---- responses ---- */

void h2_head_forget(struct h2_session *s, const struct h2_stream *t)
{
    struct h2_head *h = &s->head;
    if (h->of == t) {
        byte_share_give_back(&h->share);
        byte_share_init(&h->share, NULL);
        h->of = NULL;
    }
}

static void clear(struct h2_session *s)
{
    struct h2_head *h = &s->head;
    if (h->bytes.cap > KEPT_HEAD_BYTES) {
        buf_reset(&h->bytes);
    } else {
        buf_clear(&h->bytes);
    }
    h2_head_forget(s, h->of);
}

void h2_head_begin(struct h2_session *s, struct h2_stream *t)
{
    struct h2_head *h = &s->head;
    clear(s);
    h->of = t;
    byte_share_init(&h->share, t->budget);
    h->count = 0;
    h->size = 0;
    h->status = 0;
    h->has_length = false;
    h->length = 0;
    t->touched = true;
}

static void fail(struct h2_stream *t, uint32_t rst, int code, const char *why)
{
    struct h2_session *s = t->session;
    h2_stream_fail(t, rst, code, why);
    clear(s);
}

static void fail_bad(struct h2_stream *t, const char *why)
{
    fail(t, NGHTTP2_PROTOCOL_ERROR, -HTTP_PARSE_BAD, why);
}

/* RFC 9113 section 8.3.2. */
static bool read_status(struct h2_head *h, struct slice value)
{
    if (value.len != 3 || value.ptr[0] < '1' || !ascii_is_digit(value.ptr[0]) ||
        !ascii_is_digit(value.ptr[1]) || !ascii_is_digit(value.ptr[2])) {
        return false;
    }
    h->status =
        (unsigned)((value.ptr[0] - '0') * 100 + (value.ptr[1] - '0') * 10 + (value.ptr[2] - '0'));
    return true;
}

/* nghttp2 has seen that it is a number, and the only one. */
static void read_length(struct h2_head *h, struct slice value)
{
    h->has_length = true;
    h->length = 0;
    for (size_t i = 0; i < value.len; i++) {
        h->length = h->length * 10 + (uint64_t)(value.ptr[i] - '0');
    }
}

static bool may_grow(struct h2_head *h, size_t len)
{
    return h->bytes.len + len < BYTE_SHARE_FREE ||
           byte_share_set(&h->share, buf_size_with(&h->bytes, len));
}

/* As servers write it over HTTP/1.1: Content-Type. */
static void spell(uint8_t *to, struct slice name)
{
    bool first = true;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        to[i] = (uint8_t)(first && c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
        first = c == '-';
    }
}

static void keep(struct h2_session *s, struct h2_stream *t, struct slice name, struct slice value)
{
    struct h2_head *h = &s->head;
    size_t len = name.len + value.len;
    if (!may_grow(h, len)) {
        fail(t, NGHTTP2_CANCEL, -HTTP_PARSE_NO_ROOM,
             "too many large heads are being read: try again later");
        return;
    }
    uint8_t *to = buf_reserve(&h->bytes, len);
    if (to == NULL) {
        h2_note(s, NGHTTP2_ERR_NOMEM);
        return;
    }
    spell(to, name);
    memcpy(to + name.len, value.ptr, value.len);
    buf_commit(&h->bytes, len);
    h->name_len[h->count] = (uint16_t)name.len;
    h->value_len[h->count] = (uint16_t)value.len;
    h->count++;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Without the spaces around it, which HTTP/2 forbids and a server may send all the same. */
static struct slice trim(struct slice value)
{
    while (value.len > 0 && is_space(value.ptr[0])) {
        value.ptr++;
        value.len--;
    }
    while (value.len > 0 && is_space(value.ptr[value.len - 1])) {
        value.len--;
    }
    return value;
}

void h2_head_add(struct h2_session *s, struct h2_stream *t, struct slice name, struct slice value)
{
    struct h2_head *h = &s->head;
    h->size += name.len + value.len + LINE_OVERHEAD;
    if (h->size > H2_HEAD_MAX || h->count == H2_HEADERS_MAX) {
        fail(t, NGHTTP2_ENHANCE_YOUR_CALM, -HTTP_PARSE_TOO_LARGE,
             h->size > H2_HEAD_MAX ? "the head is too large" : "too many headers");
        return;
    }
    if (t->in != H2_IN_HEAD) {
        h->count++; /* trailers are dropped */
    } else if (slice_eq(name, SLICE(":status"))) {
        if (!read_status(h, value)) {
            fail_bad(t, "the status is malformed");
        }
    } else if (slice_eq(name, SLICE("content-length"))) {
        read_length(h, value);
    } else {
        keep(s, t, name, trim(value));
    }
}

static void derive_framing(struct http_head *head, const struct h2_head *h, bool to_head, bool last)
{
    bool bodyless = to_head || h->status == 204 || h->status == 304;
    if (bodyless) {
        head->framing = HTTP_BODY_NONE;
        head->content_length = to_head || h->status == 304 ? h->length : 0;
    } else if (h->has_length || last) {
        head->framing = HTTP_BODY_LENGTH;
        head->content_length = h->length;
    } else {
        head->framing = HTTP_BODY_CHUNKED;
    }
}

/* False: the stream is gone. */
static bool tell_head(struct h2_session *s, struct h2_stream *t, bool last)
{
    const struct h2_head *h = &s->head;
    struct http_header headers[H2_HEADERS_MAX];
    const char *at = (const char *)buf_data(&h->bytes);
    for (unsigned i = 0; i < h->count; i++) {
        headers[i].name = slice_of(at, h->name_len[i]);
        at += h->name_len[i];
        headers[i].value = slice_of(at, h->value_len[i]);
        at += h->value_len[i];
    }
    struct http_head head = {
        .status = h->status,
        .reason = slice_str(http_reason(h->status)),
        .minor = 1,
        .headers = headers,
        .header_count = h->count,
        .keep_alive = true,
    };
    derive_framing(&head, h, t->to_head, last);
    s->current = t;
    s->handlers->on_head(t->data, &head);
    return s->current == t;
}

void h2_head_end(struct h2_session *s, struct h2_stream *t, bool last)
{
    bool there = true;
    if (t->in == H2_IN_HEAD && s->head.status < 200) {
        if (++t->interim > INTERIM_MAX) {
            fail_bad(t, "too many interim responses");
        }
    } else {
        if (t->in == H2_IN_HEAD) {
            h2_stream_set_in(t, H2_IN_BODY);
            there = tell_head(s, t, last);
        }
        if (there && last) {
            h2_stream_complete(t);
        }
    }
    clear(s);
}
