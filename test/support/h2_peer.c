/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_peer.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ensure.h"

enum { REQUESTS_MAX = 4096, FIELDS_MAX = 256, SEND_HEAD_MAX = 1024 * 1024 };

struct answer {
    struct buf body;
    bool begun;    /* a body is being sent */
    bool end;      /* after what is in `body` */
    bool trailers; /* follow */
    bool deferred;
};

struct record {
    struct h2_peer_request r;
    struct answer answer;
    char field[4096];
};

struct h2_peer {
    nghttp2_session *ng;
    struct h2_peer_options o;
    struct record *records[REQUESTS_MAX];
    unsigned count;
    unsigned pongs;
    unsigned pings;
    int64_t goaway_code;
    bool failed;
};

static struct record *find(const struct h2_peer *p, int32_t id)
{
    for (unsigned i = p->count; i > 0; i--) {
        if (p->records[i - 1]->r.id == id) {
            return p->records[i - 1];
        }
    }
    return NULL;
}

/* ---- what comes ---- */

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    (void)ng;
    struct h2_peer *p = data;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    ensure(p->count < REQUESTS_MAX);
    struct record *c = calloc(1, sizeof *c);
    ensure(c != NULL);
    c->r.id = frame->hd.stream_id;
    buf_init(&c->r.head, SIZE_MAX);
    buf_init(&c->r.body, SIZE_MAX);
    buf_init(&c->answer.body, SIZE_MAX);
    p->records[p->count++] = c;
    return 0;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *data)
{
    (void)ng;
    struct record *c = find(data, frame->hd.stream_id);
    struct buf *head = &c->r.head;
    buf_append_str(head, (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0 ? "!" : "");
    buf_append(head, name, name_len);
    buf_append_str(head, ": ");
    buf_append(head, value, value_len);
    ensure(buf_append_str(head, "\n") == 0);
    return 0;
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
                   void *data)
{
    (void)flags;
    struct h2_peer *p = data;
    struct record *c = find(p, id);
    ensure(buf_append(&c->r.body, bytes, len) == 0);
    if (!p->o.holds_window) {
        ensure(nghttp2_session_consume(ng, id, len) == 0);
    }
    return 0;
}

static void on_message(struct h2_peer *p, struct record *c, const nghttp2_frame *frame)
{
    if (frame->hd.type == NGHTTP2_HEADERS && p->o.on_request != NULL) {
        p->o.on_request(p, &c->r, p->o.data);
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        c->r.ended = true;
        if (p->o.on_end != NULL) {
            p->o.on_end(p, &c->r, p->o.data);
        }
    }
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *data)
{
    (void)ng;
    struct h2_peer *p = data;
    struct record *c = find(p, frame->hd.stream_id);
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        on_message(p, c, frame);
        break;
    case NGHTTP2_RST_STREAM:
        if (c != NULL) {
            c->r.reset = true;
            c->r.reset_code = frame->rst_stream.error_code;
        }
        break;
    case NGHTTP2_PING:
        p->pongs += (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 ? 1 : 0;
        p->pings += (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0 ? 1 : 0;
        break;
    case NGHTTP2_GOAWAY:
        p->goaway_code = frame->goaway.error_code;
        break;
    default:
        break;
    }
    return 0;
}

/* The client is to send nothing that is wrong. */
static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int code, void *data)
{
    (void)ng;
    struct h2_peer *p = data;
    (void)fprintf(stderr, "h2_peer: frame of type %u: %s\n", frame->hd.type,
                  nghttp2_strerror(code));
    p->failed = true;
    return 0;
}

/* ---- life ---- */

static void submit_settings(struct h2_peer *p)
{
    nghttp2_settings_entry entries[3];
    size_t n = 0;
    if (p->o.max_streams > 0) {
        entries[n++] =
            (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, p->o.max_streams};
    }
    if (p->o.window > 0) {
        entries[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, p->o.window};
    }
    if (p->o.max_header_list_size > 0) {
        entries[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
                                                p->o.max_header_list_size};
    }
    ensure(nghttp2_submit_settings(p->ng, NGHTTP2_FLAG_NONE, entries, n) == 0);
}

static ssize_t pad(nghttp2_session *ng, const nghttp2_frame *frame, size_t most, void *data)
{
    (void)ng;
    const struct h2_peer *p = data;
    size_t padded = frame->hd.length + (p->o.pads && frame->hd.type == NGHTTP2_DATA ? 9 : 0);
    return (ssize_t)(padded < most ? padded : most);
}

struct h2_peer *h2_peer_new(const struct h2_peer_options *o)
{
    struct h2_peer *p = calloc(1, sizeof *p);
    nghttp2_session_callbacks *c = NULL;
    nghttp2_option *option = NULL;
    ensure(p != NULL && nghttp2_session_callbacks_new(&c) == 0 && nghttp2_option_new(&option) == 0);
    p->o = *o;
    p->goaway_code = -1;
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
    nghttp2_session_callbacks_set_select_padding_callback(c, pad);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, SEND_HEAD_MAX);
    ensure(nghttp2_session_server_new2(&p->ng, c, p, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(c);
    if (!o->silent) {
        submit_settings(p);
    }
    return p;
}

void h2_peer_free(struct h2_peer *p)
{
    if (p == NULL) {
        return;
    }
    nghttp2_session_del(p->ng);
    for (unsigned i = 0; i < p->count; i++) {
        buf_reset(&p->records[i]->r.head);
        buf_reset(&p->records[i]->r.body);
        buf_reset(&p->records[i]->answer.body);
        free(p->records[i]);
    }
    free(p);
}

bool h2_peer_receive(struct h2_peer *p, struct slice bytes)
{
    ssize_t n = nghttp2_session_mem_recv(p->ng, (const uint8_t *)bytes.ptr, bytes.len);
    if (n != (ssize_t)bytes.len) {
        (void)fprintf(stderr, "h2_peer: %s\n", nghttp2_strerror((int)n));
        p->failed = true;
    }
    return !p->failed && p->goaway_code <= 0;
}

void h2_peer_send(struct h2_peer *p, struct buf *out)
{
    const uint8_t *bytes = NULL;
    ssize_t n = 0;
    while ((n = nghttp2_session_mem_send(p->ng, &bytes)) > 0) {
        ensure(buf_append(out, bytes, (size_t)n) == 0);
    }
    ensure(n == 0);
}

unsigned h2_peer_request_count(const struct h2_peer *p)
{
    return p->count;
}

struct h2_peer_request *h2_peer_request(struct h2_peer *p, unsigned n)
{
    ensure(n < p->count);
    return &p->records[n]->r;
}

const char *h2_peer_field(struct h2_peer_request *r, const char *name)
{
    struct record *c = (struct record *)(void *)((char *)r - offsetof(struct record, r));
    size_t len = strlen(name);
    const char *line = buf_cstr(&r->head);
    while (line != NULL && *line != '\0') {
        const char *end = strchr(line, '\n');
        const char *at = line[0] == '!' ? line + 1 : line;
        if (strncmp(at, name, len) == 0 && strncmp(at + len, ": ", 2) == 0) {
            (void)snprintf(c->field, sizeof c->field, "%.*s", (int)(end - at - (long)len - 2),
                           at + len + 2);
            return c->field;
        }
        line = end + 1;
    }
    return NULL;
}

/* ---- what is sent ---- */

/* The lines of `text`, which outlives the fields. */
static size_t read_fields(const char *text, nghttp2_nv *nv, size_t n)
{
    while (text != NULL && *text != '\0') {
        const char *colon = strstr(text, ": ");
        const char *end = strchr(text, '\n');
        ensure(colon != NULL && end != NULL && colon < end && n < FIELDS_MAX);
        nv[n++] = (nghttp2_nv){
            .name = (uint8_t *)(uintptr_t)text,
            .namelen = (size_t)(colon - text),
            .value = (uint8_t *)(uintptr_t)(colon + 2),
            .valuelen = (size_t)(end - colon - 2),
        };
        text = end + 1;
    }
    return n;
}

void h2_peer_answer(struct h2_peer *p, int32_t id, unsigned status, const char *headers, bool end)
{
    nghttp2_nv nv[FIELDS_MAX];
    char code[16];
    (void)snprintf(code, sizeof code, "%u", status);
    nv[0] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t) ":status",
                         .namelen = 7,
                         .value = (uint8_t *)code,
                         .valuelen = strlen(code)};
    size_t n = read_fields(headers, nv, 1);
    uint8_t flags = end ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    ensure(nghttp2_submit_headers(p->ng, flags, id, NULL, nv, n, NULL) == 0);
}

static ssize_t read_body(nghttp2_session *ng, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *data)
{
    (void)ng;
    (void)source;
    struct answer *a = &find(data, id)->answer;
    size_t n = a->body.len < len ? a->body.len : len;
    if (n == 0 && !a->end) {
        a->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(to, buf_data(&a->body), n);
        buf_consume(&a->body, n);
    }
    if (a->end && a->body.len == 0) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        *flags |= a->trailers ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0U;
    }
    return (ssize_t)n;
}

static void push(struct h2_peer *p, int32_t id)
{
    const nghttp2_data_provider provider = {.read_callback = read_body};
    struct answer *a = &find(p, id)->answer;
    if (!a->begun) {
        a->begun = true;
        ensure(nghttp2_submit_data(p->ng, NGHTTP2_FLAG_END_STREAM, id, &provider) == 0);
    } else if (a->deferred) {
        a->deferred = false;
        (void)nghttp2_session_resume_data(p->ng, id); /* the client may have reset it */
    }
}

void h2_peer_body(struct h2_peer *p, int32_t id, struct slice bytes, bool end)
{
    struct answer *a = &find(p, id)->answer;
    ensure(buf_append(&a->body, bytes.ptr, bytes.len) == 0);
    a->end = end;
    push(p, id);
}

void h2_peer_trailers(struct h2_peer *p, int32_t id, const char *headers)
{
    nghttp2_nv nv[FIELDS_MAX];
    struct answer *a = &find(p, id)->answer;
    a->end = a->trailers = true;
    push(p, id);
    size_t n = read_fields(headers, nv, 0);
    ensure(nghttp2_submit_trailer(p->ng, id, nv, n) == 0);
}

void h2_peer_reset(struct h2_peer *p, int32_t id, uint32_t code)
{
    ensure(nghttp2_submit_rst_stream(p->ng, NGHTTP2_FLAG_NONE, id, code) == 0);
}

void h2_peer_goaway(struct h2_peer *p, int32_t last, uint32_t code)
{
    ensure(nghttp2_submit_goaway(p->ng, NGHTTP2_FLAG_NONE, last, code, NULL, 0) == 0);
}

void h2_peer_ping(struct h2_peer *p)
{
    ensure(nghttp2_submit_ping(p->ng, NGHTTP2_FLAG_NONE, NULL) == 0);
}

void h2_peer_allow_streams(struct h2_peer *p, uint32_t max)
{
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max};
    ensure(nghttp2_submit_settings(p->ng, NGHTTP2_FLAG_NONE, &entry, 1) == 0);
}

void h2_peer_remember(struct h2_peer *p, uint32_t first, uint32_t then)
{
    const nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, first},
                                              {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, then}};
    ensure(nghttp2_submit_settings(p->ng, NGHTTP2_FLAG_NONE, entries, 2) == 0);
}

unsigned h2_peer_pongs(const struct h2_peer *p)
{
    return p->pongs;
}

unsigned h2_peer_pings(const struct h2_peer *p)
{
    return p->pings;
}

int64_t h2_peer_goaway_code(const struct h2_peer *p)
{
    return p->goaway_code;
}

size_t h2_peer_unsent(const struct h2_peer *p, int32_t id)
{
    return find(p, id)->answer.body.len;
}
