/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1_parser.h - HTTP/1.1 messages out of bytes, without I/O (RFC 9112), over llhttp.
 *
 * Pull style: the caller offers bytes and gets one event at a time; bytes not consumed are offered
 * again, so the caller can stop between any two events (back-pressure, pipelining).
 *
 * Strict. Refused with an error: bare CR or LF, folded header lines, white space before the colon,
 * NUL and other control bytes in a head, more than one Content-Length (equal ones too),
 * Content-Length beside Transfer-Encoding, a Transfer-Encoding other than exactly `chunked`
 * (in a request also with HTTP/1.0), bad chunk sizes and chunk ends, HTTP versions other than 1.0
 * and 1.1, a request with no or several Host headers (HTTP/1.1), an absolute or authority target
 * (but see H1_PROXY_REQUESTS), CONNECT with a body, and heads over the limits. Chunk extensions are
 * skipped within a bound. Trailers are checked and dropped. Interim responses (1xx but 101) are
 * consumed silently.
 */
#ifndef CORE_HTTP_H1_PARSER_H
#define CORE_HTTP_H1_PARSER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/byte_budget.h"
#include "base/err.h"
#include "base/slice.h"
#include "http/message.h"

enum h1_role {
    H1_REQUESTS,
    /* Absolute targets are taken too, `scheme://` (of letters) and what follows, as received; and
     * CONNECT with `host:port` alone, whose host and port are not looked at further. */
    H1_PROXY_REQUESTS,
    H1_RESPONSES,
};

struct h1_limits {
    size_t head_bytes;   /* request or status line and headers, with their line ends */
    size_t header_count; /* header lines */
};

/* 64 KiB, 128 headers. */
extern const struct h1_limits h1_limits_default;

enum h1_event {
    H1_MORE,  /* all offered bytes were consumed; more are needed */
    H1_HEAD,  /* *head is valid until h1_parser_release_head or the next message */
    H1_BODY,  /* *body points into the offered bytes */
    H1_END,   /* the message is complete; the next call begins the next one */
    H1_ERROR, /* the stream cannot be read further; `e` says why */
};

struct h1_parser;

/* NULL without memory. `limits` is copied. */
MUST_CHECK struct h1_parser *h1_parser_new(enum h1_role role, const struct h1_limits *limits);
void h1_parser_free(struct h1_parser *p);

/* Responses only, before each response's first byte: whether it answers a HEAD request. */
void h1_parser_expect(struct h1_parser *p, bool to_head_request);

/* The memory of a head that is being read is counted in `share`, which outlives the parser; it is
 * the caller's to give back. A head that may not grow is an error. NULL: it is not counted. */
void h1_parser_set_share(struct h1_parser *p, struct byte_share *share);

/* Advances *data over what was consumed. After H1_HEAD with HTTP_BODY_NONE or a length of 0 the
 * next call gives H1_END without consuming. With `upgrade` set in the head, H1_END is followed by
 * raw bytes if the upgrade is agreed on: then the caller must not call again. Nor after H1_END with
 * `connect`: what follows may be the tunnel's, whatever the answer is. The status suited to
 * an error in a request is in e->code: one of -HTTP_PARSE_*, or -ENOMEM. After an error every call
 * gives it again. */
MUST_CHECK enum h1_event h1_parser_next(struct h1_parser *p, struct slice *data,
                                        const struct http_head **head, struct slice *body,
                                        struct err *e);

/* The peer closed. True when that properly ended a HTTP_BODY_CLOSE message (the next call of
 * h1_parser_next then gives H1_END) or stood behind a whole message; false: a message was cut off.
 */
bool h1_parser_finish(struct h1_parser *p);

/* True between two messages, before the first byte of the next one. */
bool h1_parser_idle(const struct h1_parser *p);

/* Gives back the memory of the head, which long streams and idle connections do not need; a parser
 * is below 400 bytes then. Of the last head only the strings and headers are gone; framing, length,
 * status and the flags stay. Without this call the memory of a small head serves the next one. */
void h1_parser_release_head(struct h1_parser *p);
/* The same, if the head is large. */
void h1_parser_release_large_head(struct h1_parser *p);

/* Values of -err.code: 400, 414 (line too long), 429 (no memory is left for a large head), 431
 * (headers too large), 501 (encoding), 503 (of a connection: for the rest of a message), 505. */
enum h1_parse_status {
    HTTP_PARSE_BAD = 400,
    HTTP_PARSE_URI_TOO_LONG = 414,
    HTTP_PARSE_NO_ROOM = 429,
    HTTP_PARSE_TOO_LARGE = 431,
    HTTP_PARSE_NOT_IMPLEMENTED = 501,
    HTTP_PARSE_NO_ROOM_FOR_REST = 503,
    HTTP_PARSE_VERSION = 505,
};

#endif
