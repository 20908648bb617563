/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_session.h - the client's side of an HTTP/2 connection without I/O (RFC 9113), over nghttp2.
 * Internal to core/http.
 *
 * Bytes of the server go in (h2_session_receive), bytes for it come out (h2_session_send); each
 * request is a stream, of which handlers tell. Which connection a request goes on, and what is done
 * when one breaks, is not decided here.
 *
 * Flow control. What has been received of a stream that is paused is kept, at most its window: 64
 * KiB in the beginning. A stream of which 256 KiB were read without a pause, and a quarter of its
 * window or more comes within a round trip (PING), gets a larger one, up to 1 MiB, out of a budget
 * that sessions share. Each pause doubles what must be read first, so that a slow reader has none,
 * whatever the kernel takes for it. The
 * connection's window, 16 MiB, counts only what is on its way: whatever is kept of paused streams,
 * others go on. How bodies of requests share the server's window is in h2_upload.c.
 *
 * Header fields that carry credentials (Authorization, Cookie, Proxy-Authorization and
 * Impersonate-*) are sent as never indexed (RFC 7541 section 6.2.3), but for bearer tokens of 64
 * bytes or more: nobody finds these by trying what the server remembers. The server may not push.
 */
#ifndef CORE_HTTP_H2_SESSION_H
#define CORE_HTTP_H2_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/err.h"
#include "base/slice.h"
#include "http/message.h"
#include "net/backlog.h"

struct h2_session;
struct h2_stream;

/* Streams at a time, whatever more the server allows. */
#define H2_STREAMS_MAX 100u

/* What h2_session_send appends at a time, and a frame more: bytes. */
#define H2_SEND_ENOUGH ((size_t)64 * 1024)

/* How a stream ended before both messages were complete. */
enum h2_end {
    H2_END_REFUSED, /* nothing of it was executed (RFC 9113 section 8.7): REFUSED_STREAM, or above
                       the last stream of GOAWAY; or it was not sent, as the server takes fewer
                       requests than it did. It may be sent again on another connection. */
    H2_END_RESET, /* the server gave it up, or broke the protocol on this stream alone; a head over
                     64 KiB or 128 fields counts as that, and one over its budget */
};

/* `data` is that of the stream, but for the last two. Handlers may call everything but
 * h2_session_receive, h2_session_send and h2_session_free. None runs inside h2_session_request nor
 * h2_stream_*. After on_end and on_reset, and after h2_stream_abort, no handler of the stream runs.
 */
struct h2_handlers {
    /* Interim responses are passed over, trailers dropped. Names are spelled as servers do over
     * HTTP/1.1 (Content-Type). head->framing: HTTP_BODY_NONE in an
     * answer to HEAD and with 204 and 304; HTTP_BODY_LENGTH with the announced length, or 0 when
     * the stream ends with the head; else HTTP_BODY_CHUNKED. */
    void (*on_head)(void *data, const struct http_head *head);
    void (*on_body)(void *data, struct slice bytes);
    /* The response is complete. `whole`: so is the request, and the stream is gone. Otherwise the
     * request is not wanted any further (RFC 9113 section 8.1), or on_sent is still to come: one of
     * on_sent and on_reset follows. */
    void (*on_end)(void *data, bool whole);
    /* After on_end with `whole` false: the request is complete, too. The stream is gone. */
    void (*on_sent)(void *data);
    /* h2_stream_blocked was true, and is no longer. */
    void (*on_drain)(void *data);
    /* The stream is gone. Codes: -ECONNRESET; of what is wrong with the response -HTTP_PARSE_*
     * (http/h1_parser.h); -ENOBUFS: its user did not read, and the backlog was full, which is found
     * outside the functions of this header: h2_session_send is to be called. */
    void (*on_reset)(void *data, enum h2_end how, const struct err *e);

    /* h2_session_room has changed since the last call, or there is more room for a body that did
     * not fit. `data` is the session's. */
    void (*on_room)(void *data);
    /* The answer to h2_session_ping. */
    void (*on_pong)(void *data);
};

/* `windows`: bytes by which windows of streams may be larger than 64 KiB; outlives the session.
 * `backlog`: what is kept of paused streams counts there, and those that have not read for longest
 * are reset when it is too much; NULL: nowhere. NULL without memory. */
MUST_CHECK struct h2_session *h2_session_new(const struct h2_handlers *handlers,
                                             struct byte_budget *windows,
                                             struct net_backlog *backlog, void *data);
/* Without telling its streams. Not inside a handler. NULL is ignored. */
void h2_session_free(struct h2_session *s);

/* Overwrites the bytes: what comes of a body in several frames is handed over as one piece. 0; not
 * 0 with `e` set: the server broke the protocol (-HTTP_PARSE_BAD), no memory is left
 * (-ENOMEM) or HTTP/2 failed otherwise, and the session is of no use any more; its streams are not
 * told. What is to be sent then (GOAWAY) may still be. */
MUST_CHECK int h2_session_receive(struct h2_session *s, struct slice bytes, struct err *e);
/* Appends what is to be sent now, the preface first; to be called after everything else that may
 * lead to it, as soon as the connection takes it, and again while it appends H2_SEND_ENOUGH bytes
 * or more. Handlers run, too. 0, -ENOBUFS, -ENOMEM or -EPROTO: as above. */
MUST_CHECK int h2_session_send(struct h2_session *s, struct buf *out);

/* How many more requests the server takes now; 0 after GOAWAY. Before its SETTINGS have come: as if
 * it allowed H2_STREAMS_MAX. */
unsigned h2_session_room(const struct h2_session *s);
/* Whether the request's body can be sent without waiting for others: the server's window for the
 * connection has room for it, or for what the server may leave unread of it, beside what was
 * promised to those that are there. Large ones (http_head_is_small) leave some to small ones. */
bool h2_session_fits(struct h2_session *s, const struct http_head *head);
/* A large one that does not fit has some window all the same. on_room tells when either may have
 * changed. */
bool h2_session_shares(struct h2_session *s, const struct http_head *head);
/* It has a request with a large body, which may not be answered yet. */
bool h2_session_has_upload(const struct h2_session *s);
/* To be called every few seconds while bodies of requests are being sent, which is as long as it
 * returns true; not inside a handler; `passed_ms` after it was called last. What is promised to
 * those that do not move is free for others. One of which the server has taken nothing for
 * `limit_ms` fails (-ETIMEDOUT); 0: no limit. h2_session_send is to be called then. */
bool h2_session_look(struct h2_session *s, uint64_t passed_ms, uint64_t limit_ms);
/* How many frames have come that concern a stream: a server that answers PINGs alone makes no
 * progress. */
uint64_t h2_session_progress(const struct h2_session *s);
/* GOAWAY has come, was said, or there are no more numbers for streams: those that are open go on,
 * and no others begin. */
bool h2_session_leaving(const struct h2_session *s);

void h2_session_ping(struct h2_session *s);
/* Says that no more is wanted; for a connection that ends in order. */
void h2_session_goaway(struct h2_session *s);

/* Begins a request: the head, which is copied, is for h2_session_send at once. head->headers hold
 * Host. `ended`: no body follows. `budget`: see http_head.budget. NULL with `e` set: -ENOMEM,
 * -EPROTO (what nghttp2 refuses), -EAGAIN (there is no room), -EINVAL (no Host), or
 * -HTTP_PARSE_TOO_LARGE: the head has more than 192 fields or 4 MiB, or more bytes than the
 * server's SETTINGS say that it takes (RFC 9113 section 6.5.2). */
MUST_CHECK struct h2_stream *h2_session_request(struct h2_session *s, const struct http_head *head,
                                                bool ended, void *data, struct err *e);

/* The bytes are copied, and wait until the server's windows let them go. 0; -EPROTO (more than the
 * announced length, or after the end), -ENOBUFS (`blocked` was ignored for too long) or -ENOMEM. */
MUST_CHECK int h2_stream_send_body(struct h2_stream *t, struct slice bytes);
/* 0, or -EPROTO when less than the announced length was sent. */
MUST_CHECK int h2_stream_send_end(struct h2_stream *t);
/* Whether its sender should stop until on_drain. */
bool h2_stream_blocked(const struct h2_stream *t);

/* Stops and restarts on_body and on_end; what is kept is handed over soon after: within the next
 * h2_session_receive, h2_session_send or h2_session_deliver. Both may be called at any time,
 * repeatedly. on_head comes all the same, and so does on_reset, with which what is kept is lost. */
void h2_stream_pause(struct h2_stream *t);
void h2_stream_resume(struct h2_stream *t);
/* Hands over what is kept of streams that were resumed; to be called, not inside a handler, while
 * h2_session_due says that there is some. */
bool h2_session_due(const struct h2_session *s);
void h2_session_deliver(struct h2_session *s);

/* Nothing of the response has come. */
bool h2_stream_untouched(const struct h2_stream *t);
/* Not all of the request was sent. */
bool h2_stream_unsent(const struct h2_stream *t);
/* All of the response has come, and on_end is still to be told. */
bool h2_stream_answered(const struct h2_stream *t);
/* Gives it up: RST_STREAM (CANCEL). The stream is gone; its data is not used any more. Allowed
 * inside its handlers. */
void h2_stream_abort(struct h2_stream *t);

#endif
