/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - a byte stream over a TCP or Unix socket, plain or TLS, with back-pressure.
 *
 * Reading: bytes are handed over as they come and must be used or copied during the call; they may
 * be overwritten then. After net_stream_read_stop at most the rest of the bytes in hand
 * (NET_READ_SIZE) still arrives. Writing: bytes are copied. Small writes are staged and leave
 * together at the end of the read callback that caused them, or before the loop sleeps; nothing
 * waits for a timer. When the kernel does not take all, bytes queue and the stream is `blocked`:
 * its writer should stop its own source until on_drain. For a peer of an accepted TCP connection
 * the kernel takes at most 64 KiB beyond what the peer has room for.
 *
 * A stream that carries nothing holds no buffers.
 */
#ifndef CORE_NET_STREAM_H
#define CORE_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uv.h>

#include "base/err.h"
#include "base/slice.h"
#include "crypto/tls.h"
#include "net/address.h"
#include "net/backlog.h"
#include "net/loop.h"
#include "net/peers.h"

/* Bytes queued for the kernel: above it writing fails. */
#define NET_WRITE_MAX ((size_t)4 * 1024 * 1024)

struct net_stream;
struct net_dial_gate;

/* No handler runs before the function that started the work returned, nor after net_stream_close
 * or net_stream_finish, which may be called inside any of them. */
struct net_stream_handlers {
    /* A dialled stream is connected, and TLS, if any, established. Not called for accepted ones. */
    void (*on_open)(void *data);
    void (*on_read)(void *data, struct slice bytes);
    /* The peer will send no more; writing may go on. */
    void (*on_eof)(void *data);
    /* The kernel has taken all of the queue after the stream had been blocked. */
    void (*on_drain)(void *data);
    /* The stream is of no use any more: close it. */
    void (*on_error)(void *data, const struct err *e);
};

struct net_dial_options {
    const char *host; /* name or IP literal, without brackets; copied */
    unsigned port;
    const char *path;            /* of a Unix socket, in place of host and port; copied */
    struct net_dial_gate *gate;  /* NULL: none (net/dial_gate.h); not of Unix sockets */
    struct tls_config *tls;      /* NULL: plain; referenced */
    uint64_t connect_timeout_ms; /* for look-up, connection and handshake together; of several
                                    addresses none can take all of it */
    unsigned
        user_timeout_ms; /* TCP_USER_TIMEOUT, and the bound of TCP keepalive; 0: the system's */
    uint64_t write_timeout_ms; /* queued bytes of which none leaves for so long; 0: no limit */
};

/* Begins to look up and connect: on_open or on_error follows. 0, or a code with `e` set and no
 * handler to follow. */
MUST_CHECK int net_dial(struct net_loop *l, const struct net_dial_options *o,
                        const struct net_stream_handlers *handlers, void *data,
                        struct net_stream **out, struct err *e);

/* Takes the connection that waits on `server`. A TLS handshake (10 s) comes before the first
 * on_read; with `plain_too` only if the peer's first byte begins one, else the stream is plain. The
 * handlers must be set before returning to the loop. */
MUST_CHECK int net_stream_accept(struct net_loop *l, uv_stream_t *server, struct tls_config *tls,
                                 bool plain_too, uint64_t write_timeout_ms,
                                 struct net_stream **out);

/* Where an accepted stream comes from, or an open dialled one leads to. 0, or a code; a Unix socket
 * has AF_UNIX alone. */
MUST_CHECK int net_stream_peer_address(const struct net_stream *s, struct sockaddr_storage *out);
/* Whether an accepted stream is one with TLS, or may become one: from its beginning on. */
bool net_stream_has_tls(const struct net_stream *s);
/* Of a stream that was accepted just now: the steps of its TLS handshake wait until the loop has
 * looked at what else there is, and for those of other peers; see handshakes.c. Referenced. */
void net_stream_take_turns(struct net_stream *s, struct net_peer *peer);

/* A plain dialled stream that is open, and on which nothing is waiting to be read, goes on with
 * TLS: on_open follows again, or on_error; there is no time limit. Not 0, with `e` set: no handler
 * follows, and the stream is good for closing only. */
MUST_CHECK int net_stream_start_tls(struct net_stream *s, struct tls_config *tls, struct err *e);

void net_stream_set_handlers(struct net_stream *s, const struct net_stream_handlers *handlers,
                             void *data);

/* What its peer does not read counts there (net/backlog.h); referenced; NULL: nowhere. For a stream
 * that has none, and that nothing was written to. */
void net_stream_set_backlog(struct net_stream *s, struct net_backlog *b);

/* Streams begin stopped. Starting and stopping is cheap and may be repeated. */
void net_stream_read_start(struct net_stream *s);
void net_stream_read_stop(struct net_stream *s);

/* 0, -ENOBUFS over NET_WRITE_MAX, or -ENOMEM. A broken connection is not reported here but by
 * on_error: what is written then is dropped. */
MUST_CHECK int net_stream_write(struct net_stream *s, const struct slice *parts, size_t count);
/* The same of bytes that more will follow: they go with the next ones, or after two
 * ticks (NET_TICK_MS). */
MUST_CHECK int net_stream_write_ahead(struct net_stream *s, struct slice bytes);
bool net_stream_blocked(const struct net_stream *s);
/* As net_dial_options and net_stream_accept have it. 0: the peer may take its time to read. Then
 * TCP's user timeout ends too, which takes a peer that only reads nothing for dead; one that is
 * gone is found by keepalive, or by the system after a quarter of an hour while bytes wait. */
void net_stream_set_write_timeout(struct net_stream *s, uint64_t ms);
/* Whether the kernel has all that was written. */
bool net_stream_flushed(const struct net_stream *s);
/* Whether the kernel did not take all that it was given, so that what is written now waits for the
 * peer to read. */
bool net_stream_stuck(const struct net_stream *s);
/* Says "no more" to the peer once all is written; nothing may be written after it. */
void net_stream_shutdown(struct net_stream *s);

/* The owner is done and lets go; what is queued is still delivered, within the write timeout (or
 * five minutes without progress), the peer is given a second to take it, and what it still sends is
 * read and dropped, so that it does not lose the end of an answer to a reset. */
void net_stream_finish(struct net_stream *s);
/* Peers of all streams that were finished get no more than a second: the loop is about to end. */
void net_stream_hurry_finished(struct net_loop *l);
/* The owner is done; all that is queued is dropped. */
void net_stream_close(struct net_stream *s);
/* The same, and the peer of a TCP connection can tell it from an orderly end. */
void net_stream_reset(struct net_stream *s);
/* Whether the peer has not acknowledged all that was written, which the kernel still sends then. */
bool net_stream_unacknowledged(const struct net_stream *s);
/* When it is closed, what the kernel has of it and the peer has not received is dropped too,
 * instead of being sent for as long as the peer may take: the connection is reset. */
void net_stream_drop_unsent(struct net_stream *s);

/* Asks the kernel whether nothing came from the peer that the loop has not seen yet: neither its
 * end nor bytes. On a connection that is not in use, bytes are its end too: TLS says close_notify
 * first. */
bool net_stream_quiet(const struct net_stream *s);
/* Asks the kernel whether the peer has said "no more" or broke off, also behind bytes that are not
 * read yet, and while reading is stopped. */
bool net_stream_peer_left(const struct net_stream *s);
/* Whether the peer, which sends no more, still has its socket, and so can read: asked of the
 * kernel, which knows it of Unix sockets and of TCP between two sockets of this machine's network.
 * False where it does not know. */
bool net_stream_is_half_closed(const struct net_stream *s);
/* Whose process connected, or listened, at the other end of a Unix socket: 0, -EOPNOTSUPP for TCP,
 * or what the system says. */
MUST_CHECK int net_stream_peer_uid(const struct net_stream *s, uid_t *uid);
/* NULL for a plain stream, and for an accepted one before its peer has sent anything. */
const struct tls_session *net_stream_tls(const struct net_stream *s);

#endif
