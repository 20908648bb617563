/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - the head of an HTTP message, whatever version carries it (RFC 9110).
 *
 * A head is a view: its slices point into memory of whoever made it. Header order and spelling are
 * kept. Framing is not part of a head's headers: a parser takes it out into `framing` and
 * `content_length`, a serialiser writes it from there.
 */
#ifndef CORE_HTTP_MESSAGE_H
#define CORE_HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/slice.h"

enum http_framing {
    HTTP_BODY_NONE,    /* no body follows */
    HTTP_BODY_LENGTH,  /* exactly content_length bytes follow (may be 0, and is said so) */
    HTTP_BODY_CHUNKED, /* length unknown until the end */
    HTTP_BODY_CLOSE,   /* response only: ends with the connection (HTTP/1.0 peers) */
};

struct http_header {
    struct slice name;
    struct slice value; /* without surrounding white space */
};

struct http_head {
    struct slice method; /* request */
    struct slice target; /* request: origin form, as received; to a proxy also absolute form, and
                            with CONNECT host:port */
    unsigned status;     /* response: 100 to 999 */
    struct slice reason; /* response: may be empty */
    unsigned minor;      /* HTTP/1.minor of the peer */
    const struct http_header *headers;
    size_t header_count;
    enum http_framing framing;
    uint64_t content_length; /* HTTP_BODY_LENGTH; HTTP_BODY_NONE in a response: what was announced
                                for the body that HEAD or 304 leaves out, or 0 */
    bool keep_alive;         /* the peer will take another message after this one */
    bool connect;            /* request to a proxy: CONNECT */
    bool upgrade;         /* request: `Connection: upgrade` and `Upgrade`; response: status 101 */
    bool expect_continue; /* request: `Expect: 100-continue` */
    bool background;      /* request: others may be sent before it (http/client.h) */
    bool guarded;         /* request: whether it may be sent is asked again right before it is
                             (http_client_options.may_send) */
    bool borrowed;  /* request: in somebody else's name, whose need it is (kube/client/client.h) */
    bool unhurried; /* its reader may stop for as long as it likes. Response: there is no write
                       timeout; request: not much is kept of the answer (HTTP/2) */
    struct byte_budget *budget; /* request to be sent: what is kept of it, and what has come of the
                                   answer's head, counts there; outlives it; NULL: nowhere */
};

/* Bodies up to this length go ahead of others (HTTP/2): Leases, Events and most objects: bytes. */
#define HTTP_SMALL_BODY ((uint64_t)32 * 1024)

static inline bool http_head_is_bodyless(const struct http_head *h)
{
    return h->framing == HTTP_BODY_NONE ||
           (h->framing == HTTP_BODY_LENGTH && h->content_length == 0);
}

/* Of a request: its body is known to be small, or it has none. */
static inline bool http_head_is_small(const struct http_head *h)
{
    return h->framing == HTTP_BODY_NONE ||
           (h->framing == HTTP_BODY_LENGTH && h->content_length <= HTTP_SMALL_BODY);
}

/* The first header of that name (case ignored), or NULL. */
const struct http_header *http_head_find(const struct http_head *h, struct slice name);

/* Whether the comma separated list `value` holds `token` (case ignored). RFC 9110 section 5.6.1. */
bool http_list_has(struct slice value, struct slice token);

/* Whether this is a hop-by-hop header that a proxy must not forward: Connection, Keep-Alive,
 * Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Trailer, Transfer-Encoding,
 * Upgrade, and all that `connection` (the Connection header's value, may be empty) names.
 * RFC 9110 section 7.6.1. */
bool http_header_is_hop_by_hop(struct slice name, struct slice connection);

/* A copy in one block of memory, which the caller frees with free(). NULL without memory. */
MUST_CHECK struct http_head *http_head_copy(const struct http_head *h);
/* The size of that block: bytes. */
size_t http_head_size(const struct http_head *h);

/* The standard reason phrase, "Unknown" for others. */
const char *http_reason(unsigned status);

#endif
