/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - requests to one origin over a pool of kept-alive connections.
 *
 * A request takes the connection that was used last and has room for it, or dials a new one: over
 * HTTP/1.1 a connection carries one request at a time, over HTTP/2 up to 100. When many come at
 * once, they wait until others have TLS sessions to resume, are done with theirs, or are found to
 * share theirs. Patient ones (http_head.background: many that stay open for long) wait behind all
 * others, and over HTTP/1.1 leave them room.
 *
 * A request that is safe to repeat (GET, HEAD, OPTIONS without body) and fails on a kept connection
 * before any byte of the response is repeated once on another one; for others the kept connection
 * is asked first whether the peer has closed it. What an HTTP/2 server says it has not executed
 * (REFUSED_STREAM, GOAWAY) is sent again whatever it is, with what has gone of its body: that is
 * kept until the answer begins, up to 1.5 MiB, in half of the head's budget. What has more ends as
 * one that was not sent.
 *
 * An HTTP/2 connection on which nothing has come for 30 s, or for 2 s when a request is aborted, is
 * asked with a PING, and given up after 15 s more without an answer. Meanwhile others are used.
 * Something between client and server may answer PINGs and pass nothing on. So a connection on
 * which nothing has come for its requests for 75 s or more, or for 2 s when one of them is aborted,
 * is asked with a request (probe), and given up likewise. One stream of a connection is kept for
 * that, where the server allows ten or more. Where the request cannot be sent, or is refused, the
 * connection is judged by a PING alone.
 */
#ifndef CORE_HTTP_CLIENT_H
#define CORE_HTTP_CLIENT_H

#include <stdint.h>

#include "base/err.h"
#include "crypto/tls.h"
#include "http/exchange.h"
#include "net/backlog.h"
#include "net/loop.h"

struct http_client;
struct net_dial_gate;

/* An HTTP proxy, which opens a tunnel to the origin (CONNECT), whether TLS is spoken in it or not.
 */
struct http_proxy {
    const char *host; /* name or IP literal, without brackets */
    unsigned port;
    const char *authorization;  /* the value of Proxy-Authorization, a secret; NULL: none */
    struct net_dial_gate *gate; /* of its own host; NULL: none (net/dial_gate.h) */
};

struct http_probe;

struct http_client_options {
    const char *host; /* name or IP literal, without brackets; copied */
    unsigned port;
    const char *path;               /* of a Unix socket, in place of host and port; copied */
    const struct http_proxy *proxy; /* on the way to host and port; NULL: none; copied */
    struct net_dial_gate *gate; /* of host, where there is no proxy; NULL: none (net/dial_gate.h) */
    struct tls_config *tls;     /* NULL: plain; referenced. If it offers "h2" by ALPN, a server that
                                   takes it gets many requests on a connection (HTTP/2). */
    struct tls_config *tls_upgrade; /* for requests that ask for an upgrade, which are HTTP/1.1:
                                       offers no "h2"; NULL: `tls`; referenced */
    uint64_t connect_timeout_ms;    /* look-up, connection, the proxy's answer and handshake */
    uint64_t idle_timeout_ms;       /* an unused connection is closed after so long */
    uint64_t write_timeout_ms;      /* the peer takes nothing for so long */
    unsigned user_timeout_ms;       /* a peer that does not answer at TCP level is given up then */
    unsigned max_idle;              /* unused connections kept */
    /* Whether a request whose head is `guarded` may be sent at this very moment: asked right before
     * it is, which may be long after http_client_request; of HTTP/2, whose servers may let a body
     * wait, whenever more of it can be sent. If not, it ends with UV_ECANCELED. Calls nothing of
     * the client. NULL: it may. */
    bool (*may_send)(void *data);
    void *data;
    /* A connection with HTTP/2 seems to be of no use, though it is open (below): calls
     * http_probe_send, once, with a request that any server answers at once. NULL: such a
     * connection is not noticed. */
    void (*probe)(void *data, struct http_probe *p);
    void *probe_data;
    /* The status of each answer, before its request hears of it; `request` is the head that was
     * given. May be NULL. */
    void (*on_status)(void *data, const struct http_head *request, unsigned status);
    /* No connection could be opened, and why: before the requests that waited for one hear of it.
     * With NULL: one was opened after that, or an open one answered. May be NULL. */
    void (*on_reach)(void *data, const struct err *why);
    void *notice_data; /* of both, which call nothing of the client */
};

struct http_client_stats {
    uint64_t requests;
    uint64_t dialled;  /* connections tried */
    uint64_t failed;   /* of them not established */
    uint64_t resumed;  /* TLS sessions resumed */
    uint64_t repeated; /* requests sent again on another connection */
    uint64_t stalled;  /* connections given up that answered PINGs alone */
    unsigned open;     /* connections now, those being dialled included */
    unsigned idle;     /* of them unused */
    unsigned h2;       /* of those that are open: with HTTP/2 */
    unsigned busy;     /* requests now, those that wait included */
};

/* Codes of errors given to on_close beside libuv's: the origin's answer is not HTTP: -HTTP_PARSE_*
 * (http/h1_parser.h). */

/* NULL with `e` set. */
MUST_CHECK struct http_client *http_client_new(struct net_loop *l,
                                               const struct http_client_options *o, struct err *e);

/* What the server does not read of connections that are opened from now on counts there
 * (net/backlog.h); NULL: nowhere. It must outlive the client, or be taken away. */
void http_client_set_backlog(struct http_client *c, struct net_backlog *backlog);

/* From now on new connections use these, as the options have them; those in use finish, unused ones
 * are closed. */
void http_client_set_tls(struct http_client *c, struct tls_config *tls,
                         struct tls_config *tls_upgrade);

/* Sends the head (copied). head->headers hold Host and all others but framing and Connection. The
 * returned exchange gets `handlers` and `data` set; on_close follows in any case unless aborted.
 * While http_exchange_blocked, no body may be sent yet. on_drain follows whenever a connection
 * takes a request that had to wait for one: also each time it is sent again. NULL: out of memory or
 * over the size; or -EDQUOT, when a large head finds no room in head->budget; or
 * -HTTP_PARSE_TOO_LARGE, when an HTTP/2 server says that it does not take so large a head (on_close
 * may have that, too). */
MUST_CHECK struct http_exchange *http_client_request(struct http_client *c,
                                                     const struct http_head *head,
                                                     const struct http_exchange_handlers *handlers,
                                                     void *data, struct err *e);

/* Of an exchange of a client, until its on_close has returned: whether anything of the request may
 * have been executed. False: it still waited for a connection, or the server refused it. */
bool http_client_sent(const struct http_exchange *x);

/* Of one that has a connection: whether the request may still be on its way to the server, and
 * would arrive though it is aborted now, as its connection carries others too (HTTP/2). */
bool http_client_on_its_way(const struct http_exchange *x);

/* Likewise: where its connection leads. 0, or a code where it has none that is open. */
MUST_CHECK int http_client_peer_address(const struct http_exchange *x,
                                        struct sockaddr_storage *out);

/* Sends this request, whose head is copied, on that connection. Its answer is dropped. */
void http_probe_send(struct http_probe *p, const struct http_head *head);

const struct http_client_stats *http_client_stats(const struct http_client *c);

/* Why no connection could be opened when one was last tried; NULL when one could be, a request on
 * another one was answered since, or none was tried yet. Valid until the loop runs on. */
const char *http_client_unreachable(const struct http_client *c);
/* Whether the connection tried last could not be opened, nor any other with it: on_reach comes, or
 * has come, unless one of those that are still being tried can be. */
bool http_client_in_doubt(const struct http_client *c);
/* For how many ms every attempt to open a connection has failed, whatever is answered on others. 0:
 * the last one succeeded, or none has failed for a while. */
uint64_t http_client_failing_ms(const struct http_client *c);

/* Breaks off all connections with HTTP/2, with what they carry, so that nothing arrives at the
 * server of what is on its way there, also of what was aborted before. */
void http_client_break_off(struct http_client *c);

/* Closes all connections and frees; users of running exchanges get on_close. */
void http_client_free(struct http_client *c);

#endif
