/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1_conn.h - an HTTP/1.1 connection: one message in and one message out at a time (RFC 9112).
 *
 * What server.c and client.c have in common; internal to core/http. The owner embeds it, learns of
 * the incoming message through handlers, and says with h1_conn_next when the pair is complete and
 * the next may begin.
 */
#ifndef CORE_HTTP_H1_CONN_H
#define CORE_HTTP_H1_CONN_H

#include "base/buf.h"
#include "base/byte_budget.h"
#include "http/h1_parser.h"
#include "http/message.h"
#include "net/stream.h"

/* Handlers may call all functions below, h1_conn_close included. */
struct h1_conn_handlers {
    void (*on_head)(void *data, const struct http_head *head);
    void (*on_body)(void *data, struct slice bytes);
    void (*on_end)(void *data);
    void (*on_drain)(void *data);
    /* The peer closed between messages, or while its message is complete and ours is not. */
    void (*on_eof)(void *data);
    /* Of no use any more. A message of the peer that cannot be parsed, or of which no more may be
     * kept, has e->code -HTTP_PARSE_*. */
    void (*on_error)(void *data, const struct err *e);
};

enum h1_in {
    H1_IN_MESSAGE, /* waiting for a message or within it */
    H1_IN_DONE,    /* complete; what comes is kept for the next one */
    H1_IN_RAW,     /* after an upgrade */
    H1_IN_CLOSED,
};

enum h1_out {
    H1_OUT_IDLE, /* nothing sent yet */
    H1_OUT_BODY, /* head sent */
    H1_OUT_DONE,
    H1_OUT_RAW, /* after an upgrade */
    H1_OUT_RAW_DONE,
};

struct h1_conn {
    struct net_loop *loop;
    struct net_stream *stream; /* NULL once closed */
    struct h1_parser *parser;  /* NULL after h1_conn_rest */
    const struct h1_limits *limits;
    enum h1_role role;
    const struct h1_conn_handlers *handlers;
    void *data;
    enum h1_in in;
    enum h1_out out;
    enum http_framing out_framing;
    uint64_t out_left; /* HTTP_BODY_LENGTH */
    bool head_only;    /* the outgoing message has no body whatever it announces */
    bool paused;
    bool pumping;       /* the handlers are being called */
    struct buf held;    /* read but not yet handed over */
    struct net_task go; /* hands over `held` */
    struct byte_share held_share;
    struct byte_share head_share; /* of a large head, and of what was copied from it */
};

/* What a head says of the connection after the message. */
enum h1_after { H1_AFTER_DEFAULT, H1_AFTER_CLOSE, H1_AFTER_KEEP };

/* Takes a stream that is open and sets its handlers. `limits` must outlive it. 0 or -ENOMEM (the
 * stream is not taken then). */
MUST_CHECK int h1_conn_init(struct h1_conn *c, struct net_loop *l, struct net_stream *s,
                            enum h1_role role, const struct h1_limits *limits,
                            const struct h1_conn_handlers *handlers, void *data);
/* What comes of the peer and is kept is counted in `budget`, which outlives it; before
 * h1_conn_start. */
void h1_conn_set_budget(struct h1_conn *c, struct byte_budget *budget);
/* The same of its heads alone; NULL: nothing is counted from now on. Not while one is. */
void h1_conn_set_head_budget(struct h1_conn *c, struct byte_budget *budget);
/* Begins to read. */
void h1_conn_start(struct h1_conn *c);

/* Appends the head as HTTP/1.1; Connection and framing headers are written from `after`,
 * head->upgrade and head->framing. 0, or -ENOBUFS: it does not fit, or there is no memory. */
MUST_CHECK int h1_head_write(const struct http_head *head, enum h1_after after, struct buf *out);

/* Sends a head that h1_head_write made. `framing` and `length` say what will follow. Of an answer
 * of known length it goes with the first bytes of the body, if these come soon. */
MUST_CHECK int h1_conn_send_head(struct h1_conn *c, struct slice bytes, enum http_framing framing,
                                 uint64_t length);
MUST_CHECK int h1_conn_send_body(struct h1_conn *c, struct slice data);
MUST_CHECK int h1_conn_send_end(struct h1_conn *c);

/* In on_head: the head is copied while it is worked on. False: it may not be. (What is sent of it
 * to a server counts on its own: http_head.budget.) */
MUST_CHECK bool h1_conn_keep_head(struct h1_conn *c);
/* Behind it: nobody reads the head itself any more. What the copy takes is counted until
 * h1_conn_forget_head. Of a small head its memory stays. */
void h1_conn_drop_head(struct h1_conn *c);
void h1_conn_forget_head(struct h1_conn *c);

/* Our message will take long: gives back what the peer's does not need any more, which is the whole
 * parser if that message is complete. */
void h1_conn_rest(struct h1_conn *c);

void h1_conn_pause(struct h1_conn *c);
void h1_conn_resume(struct h1_conn *c);

/* Server: a 101 was sent, or 2xx to CONNECT. Client: a 101 came (done by the connection itself).
 * Who is at the end of a tunnel reads when it likes: no write timeout is left. */
void h1_conn_go_raw(struct h1_conn *c);

/* Both messages are complete: ready for the next pair. */
bool h1_conn_done(const struct h1_conn *c);
void h1_conn_next(struct h1_conn *c);
/* Between two messages of the peer: nothing of the next one was read. */
bool h1_conn_is_idle(const struct h1_conn *c);
/* Whether bytes of the next message have come. */
bool h1_conn_is_ahead(const struct h1_conn *c);

/* Closes the stream: at once; at once, and so that the peer can tell it from an orderly end; or
 * after delivering what is queued. The memory of `c` may go once no handler is on the stack: in a
 * net_task. */
void h1_conn_close(struct h1_conn *c);
void h1_conn_reset(struct h1_conn *c);
void h1_conn_finish(struct h1_conn *c);
/* Frees what close left for handlers still on the stack. */
void h1_conn_deinit(struct h1_conn *c);

#endif
