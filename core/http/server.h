/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - an HTTP server on addresses or a Unix socket; each request becomes an exchange.
 *
 * What cannot be parsed is answered by the server itself (400, 414, 431, 501, 505) and the
 * connection closed; the program gives the bodies of such answers. Bounded: head size and time,
 * idle time, time without progress while the peer does not read, number of connections.
 *
 * With `shares`, for a port that strangers reach, places are shared by address (net/peers.h). When
 * all are taken, a newcomer gets the place of a connection that waits for a request, or whose body
 * has been coming for two seconds: of the address that has most of them, if the newcomer's still
 * has no more than that afterwards, else of its own; first of those that never asked, then of those
 * that waited longest. Where all have equally few, one that has not asked within a second of being
 * accepted.
 *
 * TLS handshakes take turns by address, and wait for what else is to be done.
 *
 * Of requests that a client sends ahead one is taken in a turn of the loop, of all clients so many
 * as take some milliseconds, and none of who does not read the answers before.
 *
 * A client that says it will send no more (half-closes: FIN, or close_notify of TLS) still gets
 * what it has asked for, as long as it has its socket. Others have left, and so have all of whom
 * that is not known (net_stream_is_half_closed).
 *
 * Of a proxy, what a client sends behind a CONNECT waits, as requests do that are sent ahead, until
 * that is answered: with 200 to 299 it goes into the tunnel, else the connection ends and nobody
 * reads it. Tunnels have no write timeout.
 *
 * With a budget, what all clients together make the server keep is bounded too. A large head for
 * which nothing is left is answered with 429, for it may be a watch's and nothing has been done; a
 * request that is being passed on slowly, and of which more came than can be kept, with 503, for it
 * may have been carried out in part. What is small (BYTE_SHARE_FREE) is not counted.
 */
#ifndef CORE_HTTP_SERVER_H
#define CORE_HTTP_SERVER_H

#include <stdint.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/err.h"
#include "crypto/tls.h"
#include "http/exchange.h"
#include "http/h1_parser.h"
#include "net/backlog.h"
#include "net/loop.h"
#include "net/peers.h"

enum { HTTP_SERVER_ADDRESSES_MAX = 16 };

struct http_server;

struct http_server_handlers {
    /* A request's head came (valid during the call). The callee sets x->handlers and may answer at
     * once. The body follows unless paused. */
    void (*on_request)(void *data, struct http_exchange *x, const struct http_head *head);
    /* Writes the body (application/json) of an answer that the server gives itself. */
    void (*on_refuse)(void *data, unsigned status, const char *why, struct buf *body);
    /* A client that asked nothing failed at TLS; may be NULL. */
    void (*on_tls_failed)(void *data, const struct err *e);
    /* After http_server_drain: the last exchange has ended. */
    void (*on_drained)(void *data);
};

struct http_server_options {
    const char *address;       /* ADDR:PORT */
    const char *path;          /* of a Unix socket, in place of an address: see net/listener.h */
    struct tls_config *tls;    /* NULL: plain; referenced */
    bool plain_too;            /* the address takes both: a client's first byte tells */
    struct h1_limits limits;   /* all 0: h1_limits_default */
    uint64_t head_timeout_ms;  /* from a request's first byte to the end of its head */
    uint64_t first_timeout_ms; /* from the connection to its first byte; 0: idle_timeout_ms */
    uint64_t idle_timeout_ms;  /* between requests */
    uint64_t write_timeout_ms; /* the peer takes nothing for so long */
    unsigned max_connections;  /* more are closed at once; 0: no limit */
    bool proxy;                /* takes absolute targets, and CONNECT (http_head.connect) */
    bool replace_idle;         /* instead, the one that waits longest for a request is */
    bool replace_silent;  /* or the one that has asked nothing for longest, a second at least */
    bool shares;          /* by address; not with replace_idle */
    unsigned max_streams; /* of the whole loop: with more no connection is taken; 0: no limit */
    struct byte_budget *budget;  /* for heads, and what waits to be passed on; NULL: no bound */
    struct net_backlog *backlog; /* for what peers do not read (net/backlog.h); NULL: no bound */
    int kernel_bytes;            /* as net/listener.h has it; 0: no bound */
};

struct http_server_stats {
    uint64_t accepted; /* connections since the start */
    uint64_t refused;  /* requests that could not be parsed, connections over the limit */
    uint64_t no_room;  /* of these: connections for which no other had to go */
    uint64_t replaced; /* connections that had to go for another one */
    uint64_t silent;   /* connections that asked nothing in time */
    uint64_t slow_heads;
    uint64_t tls_failed; /* connections that an error of TLS ended before they asked anything */
    uint64_t unverified; /* of these: without a client certificate that is accepted */
    unsigned open;       /* connections now */
    unsigned busy;       /* exchanges now */
};

/* NULL with `e` set. */
MUST_CHECK struct http_server *http_server_new(struct net_loop *l,
                                               const struct http_server_options *o,
                                               const struct http_server_handlers *handlers,
                                               void *data, struct err *e);
/* One more address, with TLS or (NULL) without; the bounds hold for all together. Not while
 * draining. 0, or negative with `e` set: as net_listener_new, or -E2BIG. */
MUST_CHECK int http_server_listen(struct http_server *s, const char *address,
                                  struct tls_config *tls, struct err *e);
/* The first address, or the path; "" when draining. */
const char *http_server_address(const struct http_server *s);
/* Of the one that was added so many after the first; "": there is none. */
const char *http_server_address_at(const struct http_server *s, size_t n);
const struct http_server_stats *http_server_stats(const struct http_server *s);

/* Who asks, of a server with `shares`; else NULL. The exchange's user may keep a reference. */
struct net_peer *http_server_peer(const struct http_exchange *x);

/* Whether it came over TLS. */
bool http_server_is_tls(const struct http_exchange *x);

/* Whether its client has gone, as nobody hears of it while the exchange is paused. */
bool http_server_client_left(const struct http_exchange *x);

/* Another certificate, for connections that are accepted from now on by addresses with TLS;
 * referenced. Those that are open go on as they are. After http_server_drain it does nothing. */
void http_server_set_tls(struct http_server *s, struct tls_config *tls);

/* Stops accepting, closes idle connections, and ends the others after the exchange they are in,
 * tunnels when both their sides have ended; on_drained follows once none is left (from the loop,
 * never before return). */
void http_server_drain(struct http_server *s);

/* Closes everything at once and frees; users of running exchanges get on_close. */
void http_server_free(struct http_server *s);

/* A whole small answer: head, body, end. `headers` may be NULL. 0, or as http_exchange_send_*: then
 * abort. */
MUST_CHECK int http_respond(struct http_exchange *x, unsigned status, struct slice content_type,
                            struct slice body, const struct http_header *headers, size_t count);
/* The same with another reason phrase than the status's own, which has no control characters. */
MUST_CHECK int http_respond_saying(struct http_exchange *x, unsigned status, struct slice reason,
                                   struct slice content_type, struct slice body,
                                   const struct http_header *headers, size_t count);

#endif
