/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_internal.h - what the files of h2_session.h share: h2_session.c (the connection), h2_stream.c
 * (answers and their windows), h2_upload.c (bodies of requests) and h2_head.c (header lists). They
 * alone know nghttp2.
 */
#ifndef CORE_HTTP_H2_INTERNAL_H
#define CORE_HTTP_H2_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "http/h2_session.h"
#include "http/hpack_encoder.h"

enum {
    H2_HEADERS_MAX = 128,
    H2_HEAD_MAX = 64 * 1024,
    H2_HEAD_OUT_MAX = 4 * 1024 * 1024,
    H2_WINDOW_FIRST = 65535, /* RFC 9113 section 6.9.2 */
    H2_WINDOW_MAX = 1024 * 1024,
    H2_FLOW_FIRST = 256 * 1024, /* read without a pause before a window grows */
    H2_FLOW_MAX = 1024 * 1024 * 1024,
    H2_CONNECTION_WINDOW = 16 * 1024 * 1024,
    H2_SEND_MAX = 4 * 1024 * 1024, /* kept of a request's body */
    H2_SEND_BLOCKED = 64 * 1024,   /* above it the sender should stop */
    H2_SEND_DRAINED = 16 * 1024,   /* until no more than this is left */
    H2_EMPTY_FRAMES_MAX = 1000,    /* DATA frames without data, in a row */
    /* In a head: beyond what one that is much too large has, which fails its request alone. */
    H2_CONTINUATIONS_MAX = 16 * 1024,
    H2_EARLY_MAX = 64 * 1024,
    H2_FRAME_HEAD = 9,    /* RFC 9113 section 4.1 */
    H2_FRAME_MAX = 16384, /* what each server takes */
};

/* The header list that is being read: on a connection that is one at a time (RFC 9113 section 4.3).
 * Names and values stand one after the other in `bytes`. */
struct h2_head {
    struct h2_stream *of; /* NULL once that is gone */
    struct buf bytes;
    struct byte_share share; /* of `bytes`, in the budget of the request that it answers */
    unsigned count;
    size_t size; /* as the limits count it */
    unsigned status;
    bool has_length;
    uint64_t length;
    uint16_t name_len[H2_HEADERS_MAX];
    uint16_t value_len[H2_HEADERS_MAX];
};

struct h2_session {
    nghttp2_session *ng;
    const struct h2_handlers *handlers;
    void *data;
    struct list streams;
    struct list due;           /* of those, resumed with something to hand over */
    struct h2_stream *current; /* whose handler runs; NULL once it is gone */
    unsigned count;
    unsigned waiting; /* of them, with a head that was not sent yet */
    unsigned room_told;
    struct byte_budget *windows; /* what windows of streams are wider by than their first */
    struct net_backlog *backlog; /* NULL: none */
    int32_t probed;              /* the stream whose speed a PING measures, or 0 */
    uint32_t probe_bytes;        /* of it since then */
    struct slice pending;        /* of a body: in what is being received, and not handed over yet */
    int32_t pending_of;
    unsigned empty_frames;
    uint64_t progress;   /* frames of streams that have come, and pieces of them */
    struct list held;    /* large bodies that wait for others to leave them some window */
    int64_t held_room;   /* how much there was when the last of them was held */
    int64_t promised[2]; /* of the server's window for the connection, to small and large bodies */
    int64_t missed[2];   /* the least of it that was needed and not there; INT64_MAX: all was */
    unsigned bodies;     /* streams with bodies */
    unsigned uploads;    /* of them with large ones */
    int32_t widest;      /* that window, at most so far */
    bool leaving;
    bool drained;     /* a stream has an on_drain to come */
    bool broken;      /* our GOAWAY says why */
    int error;        /* -ENOMEM: the first time that something could not be had */
    char why[96];     /* broken: in nghttp2's words */
    struct buf early; /* to be sent, taken from nghttp2 before h2_session_send asked */
    struct h2_head head;
    struct hpack_encoder encoder;
    struct buf block; /* of the header list that is being sent: what is left of it */
    int32_t block_of;
};

/*
 * The response: HEAD -> BODY -> ENDED (kept back from who paused) -> TOLD; or BODY -> TOLD.
 * The request: OPEN -> ENDED (all is given) -> SENT.
 */
enum h2_in { H2_IN_HEAD, H2_IN_BODY, H2_IN_ENDED, H2_IN_TOLD };
enum h2_out { H2_OUT_OPEN, H2_OUT_ENDED, H2_OUT_SENT };

struct h2_stream {
    struct h2_session *session;
    void *data;
    struct http_head *request; /* until it is sent */
    struct list link;
    struct list due;
    struct byte_budget *budget;
    struct byte_share wider; /* of session->windows: by how much the window was widened */
    struct buf kept;         /* of the response */
    struct net_backlog_entry unread;
    struct buf unsent;  /* of the request's body */
    uint64_t send_left; /* of the announced length; UINT64_MAX: none was */
    int64_t promised;   /* of the server's window, and not used yet */
    int64_t moved;      /* bytes that were sent since it was looked at */
    uint64_t stuck_ms;  /* so long nothing could be sent, though there is some */
    struct list held;
    int32_t id;
    uint32_t window;
    uint32_t run;    /* bytes since it was paused or its speed measured */
    uint32_t flowed; /* bytes since it was paused, at most about `proof`: */
    uint32_t proof;  /* so many prove a reader that is fast; twice as many after each pause */
    enum h2_in in;
    enum h2_out out;
    uint8_t interim;
    bool to_head : 1;   /* it answers HEAD */
    bool unhurried : 1; /* its reader may stop for good */
    bool has_body : 1;  /* the request */
    bool large : 1;     /* the request's body, as far as is known */
    bool crowded : 1;   /* others keep much that is not read */
    bool touched : 1;   /* something of the response has come */
    bool head_sent : 1;
    bool paused : 1;
    bool blocked : 1;
    bool deferred : 1; /* nghttp2 waits for more of the body */
    bool reset_by_server : 1;
    bool closed : 1; /* nghttp2 does not know it any more */
};

/* What PING carries, and its answer: whether the server is there, and how much comes meanwhile. */
extern const uint8_t h2_live_mark[8];
extern const uint8_t h2_speed_mark[8];

/* h2_session.c */

/* Notes what nghttp2 could not do, where that cannot be said at once: -ENOMEM, or -EPROTO where it
 * was not for want of memory. 0 is nothing. */
void h2_note(struct h2_session *s, int ng_error);
/* The stream's, NULL if it was given up. */
struct h2_stream *h2_stream_find(struct h2_session *s, int32_t id);

/* h2_stream.c */

struct h2_stream *h2_stream_new(struct h2_session *s, const struct http_head *head, bool ended,
                                void *data);
void h2_stream_free(struct h2_stream *t);
void h2_stream_set_in(struct h2_stream *t, enum h2_in next);
void h2_stream_set_out(struct h2_stream *t, enum h2_out next);
/* Body bytes have come, of a stream that may be gone (NULL). */
void h2_stream_receive(struct h2_session *s, struct h2_stream *t, struct slice bytes);
/* The response is complete. */
void h2_stream_complete(struct h2_stream *t);
/* The server takes fewer streams than it said: this one was not sent, nor will be. */
void h2_stream_refuse(struct h2_stream *t);
/* nghttp2 has closed it with that code (RFC 9113 section 7). */
void h2_stream_closed(struct h2_stream *t, uint32_t code);
/* Gives it up with `rst` for the server and a reason for its user. */
void h2_stream_fail(struct h2_stream *t, uint32_t rst, int code, const char *why);
/* What is kept of it has changed. */
void h2_stream_count_unread(struct h2_stream *t);
/* The answer to the PING that h2_stream.c sent has come. */
void h2_stream_probed(struct h2_session *s);
void h2_deliver_due(struct h2_session *s);

/* h2_upload.c */

ssize_t h2_stream_read(nghttp2_session *ng, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *data);
void h2_upload_begin(struct h2_stream *t, const struct http_head *head);
void h2_upload_end(struct h2_stream *t);
/* There may be more window. */
void h2_upload_resume_held(struct h2_session *s);
/* Whether there is room for what did not fit before. */
bool h2_upload_found_room(struct h2_session *s);
void h2_tell_drained(struct h2_session *s);

/* h2_head.c */

/* Submits the request, as far as nghttp2 needs to know it. 0, or a code with `e` set. */
MUST_CHECK int h2_head_submit(struct h2_stream *t, const struct http_head *head,
                              const nghttp2_data_provider *body, struct err *e);
/* Appends the HEADERS frame that is to be sent in the place of nghttp2's, which has no more than
 * the method. What does not fit into it follows, a frame at a time, before anything else is sent.
 */
void h2_head_send(struct h2_session *s, const uint8_t *frame, struct buf *out);
void h2_head_send_more(struct h2_session *s, struct buf *out);
/* The stream is gone: its budget is not used any more. */
void h2_head_forget(struct h2_session *s, const struct h2_stream *t);
void h2_head_begin(struct h2_session *s, struct h2_stream *t);
void h2_head_add(struct h2_session *s, struct h2_stream *t, struct slice name, struct slice value);
/* The list is complete. `last`: so is the stream. */
void h2_head_end(struct h2_session *s, struct h2_stream *t, bool last);

#endif
