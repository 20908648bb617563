/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: h2_session_request submits a header list; h2_session_send takes frames out of
 * nghttp2; h2_session_receive puts bytes in, of which the callbacks below tell the streams.
 *
 * Ways to fail: nghttp2 closes a stream (on_stream_close, h2_stream_closed). It finds that the
 * server broke the protocol, queues GOAWAY and reads no more: `broken` is seen as that frame goes
 * out. Memory runs out: `error`, after which nothing is done any more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/h1_parser.h"
#include "http/h2_internal.h"

const uint8_t h2_live_mark[8] = {'l', 'i', 'v', 'e', 'l', 'y', '?', 0};
const uint8_t h2_speed_mark[8] = {'s', 'p', 'e', 'e', 'd', 'y', '?', 0};

void h2_note(struct h2_session *s, int ng_error)
{
    if (ng_error != 0 && s->error == 0) {
        s->error = ng_error == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
    }
}

struct h2_stream *h2_stream_find(struct h2_session *s, int32_t id)
{
    return nghttp2_session_get_stream_user_data(s->ng, id);
}

/* What a callback returns. */
static int go_on(const struct h2_session *s)
{
    return s->error == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- what nghttp2 tells ---- */

/* Hands over what has been put together of a body. */
static void flush_data(struct h2_session *s)
{
    struct slice bytes = s->pending;
    s->pending.len = 0;
    if (bytes.len > 0 && s->error == 0) {
        h2_stream_receive(s, h2_stream_find(s, s->pending_of), bytes);
    }
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    (void)ng;
    struct h2_session *s = data;
    flush_data(s);
    struct h2_stream *t = h2_stream_find(s, frame->hd.stream_id);
    if (t != NULL) {
        h2_head_begin(s, t);
    }
    return go_on(s);
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *data)
{
    (void)ng;
    (void)frame;
    (void)flags;
    struct h2_session *s = data;
    struct h2_stream *t = s->head.of;
    if (t != NULL) {
        h2_head_add(s, t, slice_of((const char *)name, name_len),
                    slice_of((const char *)value, value_len));
    }
    return go_on(s);
}

/* nghttp2 would leave it out. */
static int on_invalid_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                             void *data)
{
    (void)ng;
    (void)name;
    (void)name_len;
    (void)value;
    (void)value_len;
    (void)flags;
    struct h2_session *s = data;
    struct h2_stream *t = h2_stream_find(s, frame->hd.stream_id);
    if (t != NULL) {
        h2_stream_fail(t, NGHTTP2_PROTOCOL_ERROR, -HTTP_PARSE_BAD, "a header is malformed");
    }
    return go_on(s);
}

/* Joins what comes of one body in several frames, over the frames' heads, which nghttp2 has read:
 * its user gets one piece. */
static int on_data_chunk(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *bytes,
                         size_t len, void *data)
{
    (void)ng;
    (void)flags;
    struct h2_session *s = data;
    s->progress++;
    if (s->pending.len > 0 && s->pending_of == id) {
        memmove((char *)(uintptr_t)s->pending.ptr + s->pending.len, bytes, len);
        s->pending.len += len;
        return go_on(s);
    }
    flush_data(s);
    s->pending = slice_of((const char *)bytes, len);
    s->pending_of = id;
    return go_on(s);
}

/* Empty frames cost a server nothing; one that ends a stream is no flood, as Go's server ends quiet
 * watches so. (The padding's length counts as padding.) */
static bool is_flood(struct h2_session *s, const nghttp2_frame *frame)
{
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    bool empty = frame->hd.length == frame->data.padlen;
    if (empty && last) {
        return false;
    }
    s->empty_frames = empty ? s->empty_frames + 1 : 0;
    return s->empty_frames > H2_EMPTY_FRAMES_MAX;
}

static void on_message_frame(struct h2_session *s, const nghttp2_frame *frame)
{
    struct h2_stream *t = h2_stream_find(s, frame->hd.stream_id);
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_DATA && is_flood(s, frame)) {
        h2_note(s, nghttp2_session_terminate_session(s->ng, NGHTTP2_ENHANCE_YOUR_CALM));
    } else if (t != NULL && frame->hd.type == NGHTTP2_HEADERS) {
        h2_head_end(s, t, last);
    } else if (t != NULL && last) {
        h2_stream_complete(t);
    }
}

static void on_reset_frame(struct h2_session *s, int32_t id)
{
    struct h2_stream *t = h2_stream_find(s, id);
    if (t != NULL) {
        t->reset_by_server = true;
    }
}

static void on_ping_frame(struct h2_session *s, const nghttp2_ping *frame)
{
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        return; /* nghttp2 answers it */
    }
    if (memcmp(frame->opaque_data, h2_live_mark, sizeof h2_live_mark) == 0) {
        s->handlers->on_pong(s->data);
    } else if (memcmp(frame->opaque_data, h2_speed_mark, sizeof h2_speed_mark) == 0) {
        h2_stream_probed(s);
    }
}

static void on_settings_frame(struct h2_session *s, const nghttp2_settings *frame)
{
    for (size_t i = 0; i < frame->niv; i++) {
        if (frame->iv[i].settings_id == NGHTTP2_SETTINGS_HEADER_TABLE_SIZE) {
            hpack_encoder_limit(&s->encoder, frame->iv[i].value);
        }
    }
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    (void)ng;
    struct h2_session *s = data;
    s->progress += frame->hd.stream_id != 0 ? 1 : 0;
    if (frame->hd.type != NGHTTP2_DATA || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        flush_data(s);
    }
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
        on_message_frame(s, frame);
        break;
    case NGHTTP2_RST_STREAM:
        on_reset_frame(s, frame->hd.stream_id);
        break;
    case NGHTTP2_SETTINGS:
        on_settings_frame(s, &frame->settings);
        break;
    case NGHTTP2_GOAWAY:
        s->leaving = true;
        break;
    case NGHTTP2_PING:
        on_ping_frame(s, &frame->ping);
        break;
    default:
        break;
    }
    return go_on(s);
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *data)
{
    (void)ng;
    struct h2_session *s = data;
    struct h2_stream *t = h2_stream_find(s, id);
    if (t != NULL) {
        h2_stream_closed(t, code);
    }
    return go_on(s);
}

/* Our own GOAWAY because of an error: nghttp2 says in it what the server did. */
static void note_broken(struct h2_session *s, const nghttp2_goaway *frame)
{
    if (frame->error_code == NGHTTP2_NO_ERROR) {
        return;
    }
    if (frame->error_code == NGHTTP2_INTERNAL_ERROR) {
        h2_note(s, NGHTTP2_ERR_NOMEM); /* within nghttp2, and nothing that the server did */
        return;
    }
    s->broken = true;
    (void)snprintf(s->why, sizeof s->why, "%s%s%.*s", nghttp2_http2_strerror(frame->error_code),
                   frame->opaque_data_len > 0 ? ": " : "", (int)frame->opaque_data_len,
                   (const char *)frame->opaque_data);
}

static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    (void)ng;
    struct h2_session *s = data;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        note_broken(s, &frame->goaway);
        return 0;
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) {
        return 0;
    }
    struct h2_stream *t = h2_stream_find(s, frame->hd.stream_id);
    if (t == NULL) {
        return 0;
    }
    if (!t->head_sent) {
        t->head_sent = true;
        s->waiting--;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        h2_stream_set_out(t, H2_OUT_SENT);
    }
    return 0;
}

/* ---- life ---- */

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *c = NULL;
    if (nghttp2_session_callbacks_new(&c) != 0) {
        return NULL;
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
    return c;
}

static nghttp2_option *options_new(void)
{
    nghttp2_option *o = NULL;
    if (nghttp2_option_new(&o) != 0) {
        return NULL;
    }
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    nghttp2_option_set_peer_max_concurrent_streams(o, H2_STREAMS_MAX);
    nghttp2_option_set_max_deflate_dynamic_table_size(o, 0); /* hpack_encoder.h encodes */
#ifdef CMESH_HAVE_MAX_CONTINUATIONS
    /* Its own bound is 8, and ends the connection. */
    nghttp2_option_set_max_continuations(o, H2_CONTINUATIONS_MAX);
#endif
    /* They are taken off instead, as over HTTP/1.1. */
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(o, 1);
    return o;
}

/* nghttp2's memory is asked for here, so that tests see what happens when there is none. */

static void *ng_malloc(size_t size, void *data)
{
    (void)data;
    return malloc(size);
}

static void ng_free(void *ptr, void *data)
{
    (void)data;
    free(ptr);
}

static void *ng_calloc(size_t count, size_t size, void *data)
{
    (void)data;
    return calloc(count, size);
}

static void *ng_realloc(void *ptr, size_t size, void *data)
{
    (void)data;
    return realloc(ptr, size);
}

static nghttp2_mem memory = {
    .malloc = ng_malloc,
    .free = ng_free,
    .calloc = ng_calloc,
    .realloc = ng_realloc,
};

static int start(struct h2_session *s)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEAD_MAX},
    };
    nghttp2_session_callbacks *callbacks = callbacks_new();
    nghttp2_option *options = options_new();
    int rc = callbacks == NULL || options == NULL
                 ? NGHTTP2_ERR_NOMEM
                 : nghttp2_session_client_new3(&s->ng, callbacks, s, options, &memory);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    if (rc == 0) {
        rc = nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, settings,
                                     sizeof settings / sizeof settings[0]);
    }
    if (rc == 0) {
        rc = nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0,
                                                   H2_CONNECTION_WINDOW);
    }
    return rc;
}

struct h2_session *h2_session_new(const struct h2_handlers *handlers, struct byte_budget *windows,
                                  struct net_backlog *backlog, void *data)
{
    struct h2_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->handlers = handlers;
    s->windows = windows;
    s->backlog = backlog;
    s->data = data;
    list_init(&s->streams);
    list_init(&s->due);
    list_init(&s->held);
    buf_init(&s->head.bytes, H2_HEAD_MAX);
    buf_init(&s->early, SIZE_MAX);
    buf_init(&s->block, SIZE_MAX);
    s->room_told = H2_STREAMS_MAX;
    s->missed[false] = s->missed[true] = INT64_MAX;
    if (start(s) != 0) {
        h2_session_free(s);
        return NULL;
    }
    return s;
}

void h2_session_free(struct h2_session *s)
{
    if (s == NULL) {
        return;
    }
    while (!list_empty(&s->streams)) {
        h2_stream_free(LIST_ITEM(s->streams.next, struct h2_stream, link));
    }
    nghttp2_session_del(s->ng);
    byte_share_give_back(&s->head.share);
    buf_reset(&s->head.bytes);
    buf_reset(&s->early);
    hpack_encoder_deinit(&s->encoder);
    buf_reset(&s->block);
    free(s);
}

/* ---- requests ---- */

bool h2_session_leaving(const struct h2_session *s)
{
    return s->leaving || nghttp2_session_get_next_stream_id(s->ng) > INT32_MAX;
}

static unsigned streams_allowed(const struct h2_session *s)
{
    uint32_t allowed =
        nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return allowed < H2_STREAMS_MAX ? allowed : H2_STREAMS_MAX;
}

uint64_t h2_session_progress(const struct h2_session *s)
{
    return s->progress;
}

unsigned h2_session_room(const struct h2_session *s)
{
    unsigned most = streams_allowed(s);
    bool closed = s->error != 0 || s->broken || h2_session_leaving(s);
    return closed || s->count >= most ? 0 : most - s->count;
}

struct h2_stream *h2_session_request(struct h2_session *s, const struct http_head *head, bool ended,
                                     void *data, struct err *e)
{
    const nghttp2_data_provider body = {.read_callback = h2_stream_read};
    if (h2_session_room(s) == 0) {
        err_set(e, -EAGAIN, "the connection has no room for another request");
        return NULL;
    }
    struct h2_stream *t = h2_stream_new(s, head, ended, data);
    if (t == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    if (h2_head_submit(t, head, ended ? NULL : &body, e) != 0) {
        h2_stream_free(t);
        return NULL;
    }
    return t;
}

void h2_session_ping(struct h2_session *s)
{
    h2_note(s, nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, h2_live_mark));
}

void h2_session_goaway(struct h2_session *s)
{
    s->leaving = true;
    h2_note(s, nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0));
}

/* ---- bytes ---- */

/* Appends a frame, or the preface. False: there is nothing more. */
static bool send_next(struct h2_session *s, struct buf *out)
{
    const uint8_t *bytes = NULL;
    if (s->block.len > 0) {
        h2_head_send_more(s, out);
        return true;
    }
    ssize_t n = nghttp2_session_mem_send(s->ng, &bytes);
    if (n >= H2_FRAME_HEAD && bytes[3] == NGHTTP2_HEADERS) {
        h2_head_send(s, bytes, out);
    } else if (n > 0) {
        (void)buf_append(out, bytes, (size_t)n);
    }
    h2_note(s, n < 0 ? (int)n : 0);
    return n > 0;
}

/* What there is to send, until `out` holds `enough`. */
static int drain(struct h2_session *s, struct buf *out, size_t enough)
{
    bool more = true;
    while (more && out->len < enough && s->error == 0) {
        more = send_next(s, out);
        s->error = s->error == 0 ? buf_error(out) : s->error;
    }
    return s->error;
}

static void tell_room(struct h2_session *s)
{
    unsigned room = h2_session_room(s);
    if (h2_upload_found_room(s) || room != s->room_told) {
        s->room_told = room;
        s->handlers->on_room(s->data);
    }
}

/* What handlers are told when nghttp2 is not at work. */
static void finish(struct h2_session *s)
{
    h2_deliver_due(s);
    h2_tell_drained(s);
    tell_room(s);
}

/* Whether nghttp2 has given the connection up. That it refuses requests can have other reasons when
 * we know of GOAWAY; then only its own GOAWAY tells. */
static void look_for_break(struct h2_session *s)
{
    bool open = !h2_session_leaving(s) && nghttp2_session_check_request_allowed(s->ng) != 0;
    if (!open && s->error == 0) {
        (void)drain(s, &s->early, H2_EARLY_MAX);
    }
}

static int report(const struct h2_session *s, struct err *e)
{
    if (s->broken) {
        return err_set(e, -HTTP_PARSE_BAD, "the server broke the rules of HTTP/2: %s", s->why);
    }
    if (s->error == -ENOMEM) {
        return err_memory(e);
    }
    return s->error == 0 ? 0 : err_set(e, s->error, "HTTP/2: %s", err_text(s->error));
}

int h2_session_receive(struct h2_session *s, struct slice bytes, struct err *e)
{
    if (s->broken || s->error != 0) {
        return report(s, e);
    }
    h2_deliver_due(s);
    ssize_t n = nghttp2_session_mem_recv(s->ng, (const uint8_t *)bytes.ptr, bytes.len);
    if (n == NGHTTP2_ERR_NOMEM || n == NGHTTP2_ERR_CALLBACK_FAILURE) {
        h2_note(s, (int)n);
    } else if (n < 0) {
        s->broken = true;
        (void)snprintf(s->why, sizeof s->why, "%s", nghttp2_strerror((int)n));
    }
    flush_data(s);
    look_for_break(s);
    finish(s);
    return report(s, e);
}

/* nghttp2 has sent all that it can. A head that is left waits until the server takes more streams,
 * for it takes fewer since: that may be long, and another connection may do. */
static void refuse_waiting(struct h2_session *s)
{
    struct list *node = s->streams.prev;
    while (s->waiting > 0 && s->count > streams_allowed(s) && node != &s->streams) {
        struct h2_stream *t = LIST_ITEM(node, struct h2_stream, link);
        if (t->head_sent) {
            node = node->prev;
        } else {
            h2_stream_refuse(t);
            node = s->streams.prev;
        }
    }
}

int h2_session_send(struct h2_session *s, struct buf *out)
{
    size_t enough = out->len + H2_SEND_ENOUGH;
    int rc = buf_append(out, buf_data(&s->early), s->early.len);
    buf_reset(&s->early);
    if (rc != 0 && s->error == 0) {
        s->error = rc;
    }
    if (s->error != 0) {
        return s->error;
    }
    h2_deliver_due(s); /* it may open windows */
    h2_upload_resume_held(s);
    rc = drain(s, out, enough);
    if (rc == 0) {
        if (out->len < enough) {
            refuse_waiting(s);
        }
        finish(s);
    }
    return rc;
}

bool h2_session_due(const struct h2_session *s)
{
    return !list_empty(&s->due);
}

void h2_session_deliver(struct h2_session *s)
{
    finish(s);
}
