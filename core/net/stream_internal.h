/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_internal.h - what the files of a byte stream share: stream.c has its life and the reading
 * side, stream_write.c the writing side, dial.c the way to an open connection, dial_gate.c what is
 * let through on it. Nobody else includes it.
 */
#ifndef CORE_NET_STREAM_INTERNAL_H
#define CORE_NET_STREAM_INTERNAL_H

#include "base/byte_budget.h"
#include "net/backlog.h"
#include "net/deadline.h"
#include "net/dial_gate.h"
#include "net/peers.h"
#include "net/socket.h"
#include "net/stream.h"

/*
 *       +--> WAITING --+
 *       |              v
 *     NO_SOCKET <--> RESOLVING
 *      |     ^           |
 *      |     |           v
 *      +-----|------> CONNECTING --> HANDSHAKING
 *            |         |  ^  |          |  ^
 *            |         v  |  |          v  |
 *            +----- REOPENING +--------> OPEN --> FINISHING
 *                       ^
 *                       +--- HANDSHAKING, when it takes too long and another address is left
 *
 *     OPEN --> HANDSHAKING: net_stream_start_tls
 *
 *     any --> CLOSING
 */
enum state {
    STATE_NO_SOCKET, /* not yet dialled or accepted; or no address is left, and the owner told so */
    STATE_WAITING,   /* its look-up waits for others (dial_gate.h) */
    STATE_RESOLVING,
    STATE_CONNECTING,
    STATE_REOPENING, /* the socket is being closed, to try the next address with a new one */
    STATE_HANDSHAKING,
    STATE_OPEN,
    STATE_FINISHING, /* the owner is gone; what is queued is delivered */
    STATE_CLOSING,   /* the memory goes in the callback that is due of the socket or the look-up */
};

/* What the owner writes. */
enum output {
    OUTPUT_OPEN,
    OUTPUT_ENDING, /* net_stream_shutdown was called */
    OUTPUT_ENDED,  /* and carried out */
    OUTPUT_FAILED, /* the peer takes no more: it is dropped */
};

/* Of a TLS record that holds a handshake, RFC 8446 section 5.1. No request of HTTP begins so. */
enum { TLS_HANDSHAKE_RECORD = 0x16 };

enum {
    FINISH_TIMEOUT_MS = 1000,
    FINISH_STALL_MS = 300000, /* where there was no write timeout */
    ACCEPT_HANDSHAKE_MS = 10000,
    TLS_IDLE_MS = 250,
    ACCEPTED_UNSENT_MAX = 64 * 1024,
    STAGE_MAX = 12 * 1024,
};

/* What uv_write is at: of a stream whose peer reads there is none most of the time. */
struct flight {
    uv_write_t req;
    struct net_stream *stream;
    size_t left; /* for the write timeout: what was left when last looked at */
    size_t len;
    uint8_t bytes[];
};

struct net_stream {
    union net_socket socket;
    struct net_loop *loop;
    struct tls_session *tls;    /* NULL: plain, or none yet */
    struct tls_config *offered; /* for the session that begins with the first bytes; else NULL */
    bool plain_too;             /* which may also say that there is none */
    const struct net_stream_handlers *handlers;
    void *data;
    enum state state;
    enum output output;
    bool local;                /* a Unix socket */
    bool dialled;              /* not accepted: on_open is told */
    bool reading;              /* uv_read_start is in force */
    bool want_read;            /* the owner wants bytes */
    bool was_blocked;          /* on_drain is due */
    bool eof_seen;             /* nothing more comes from the peer */
    struct buf plain;          /* staged plaintext (TLS only) */
    struct buf wire;           /* bytes for the kernel */
    struct flight *flight;     /* what the kernel did not take at once; NULL: nothing */
    struct net_task flush;     /* of what is staged, at the end of the loop's turn */
    struct list finishing;     /* in the loop's, in that state */
    struct net_deadline limit; /* connecting, handshake or finishing */
    struct net_deadline stall; /* of writing, or until what was written ahead goes */
    struct net_deadline quiet; /* TLS: when it passes, memory is given back */
    uint64_t write_timeout_ms;
    struct net_backlog_entry backlog; /* while bytes are on their way */
    struct dial *dial;                /* NULL once open */
    struct net_peer *peer;            /* not NULL: handshakes take turns */
    struct list turn;                 /* linked: `kept` waits for it, and nothing is read */
    struct buf kept;                  /* bytes of the handshake */
};

/* Whether it is TLS, or will be. */
static inline bool stream_is_tls(const struct net_stream *s)
{
    return s->tls != NULL || s->offered != NULL;
}

/* What only a stream that is being dialled needs. */
struct dial {
    struct net_stream *stream;
    struct net_dial_gate *gate; /* NULL: none, or it is gone */
    struct list in_gate;        /* in one of its lists, while it waits or is looked up */
    struct net_task failed;     /* tells `last`, where nobody may be called yet */
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    struct addrinfo *found;      /* to be freed; NULL for a literal */
    const struct addrinfo *next; /* to be tried */
    uint64_t until;              /* net_loop_now() when all of it must be done; 0: no limit */
    bool hurried;                /* an address was given up that may only have been slow */
    bool second_round;           /* which therefore is tried once more */
    struct tls_config *tls;
    unsigned number; /* the port */
    char *host;      /* or the path of a Unix socket */
    char port[16];   /* for messages: " port N", or "" */
    unsigned user_timeout_ms;
    struct err last; /* of the address tried last */
};

/* stream.c */
struct net_stream *stream_new(struct net_loop *l, uint64_t write_timeout_ms);
void stream_set_state(struct net_stream *s, enum state next);
/* Without a socket. */
void stream_free(struct net_stream *s);
/* STATE_CONNECTING then, unless it failed. */
MUST_CHECK int stream_open_socket(struct net_stream *s);
void stream_on_closed(uv_handle_t *handle);
/* Frees the stream at once in STATE_NO_SOCKET. */
void stream_begin_close(struct net_stream *s);
/* Tells the owner, who closes; without owner closes. The last access. */
void stream_fail(struct net_stream *s, const struct err *e);
void stream_set_options(struct net_stream *s, unsigned user_timeout_ms);
void stream_update_reading(struct net_stream *s);
/* Feeds the handshake; true when it is done and `in` may hold more. */
bool stream_shake_hands(struct net_stream *s, struct slice *in);
/* What came during a handshake, and what may follow it. */
void stream_on_handshake_bytes(struct net_stream *s, struct slice in);
/* Connected, and TLS established. */
void stream_opened(struct net_stream *s);

/* handshakes.c */
/* Bytes of the handshake of a stream with a peer, which wait until it is its turn. */
void stream_keep_for_turn(struct net_stream *s, struct slice in);

/* stream_write.c */
/* Sends what is staged. Calls no handler. */
void stream_flush(struct net_stream *s);
/* Of what is on its way: whether bytes went since it was looked at last. */
bool stream_has_moved(struct net_stream *s);
/* At the end of the loop's turn. */
void stream_flush_later(struct net_stream *s);
void stream_on_flush(struct net_task *t);

/* dial.c */
/* Tries the next address, with a new socket. */
void dial_next(struct net_stream *s);
/* The address at hand takes too long: goes on to another one. False: there is none, or no time. */
MUST_CHECK bool dial_pass_on(struct net_stream *s);
void dial_free(struct net_stream *s);

/* dial_gate.c; without a gate all is let through at once. */
bool dial_gate_has_room(const struct net_dial_gate *g);
void dial_gate_wait(struct dial *d);
void dial_gate_enter(struct dial *d);
void dial_gate_leave(struct dial *d);
/* Who is to be looked up next, and no longer waits; NULL: nobody. */
struct dial *dial_gate_next(struct net_dial_gate *g);
bool dial_gate_allows(const struct dial *d, const struct sockaddr *address);
/* Of the addresses found. */
void dial_gate_drop_refused(struct dial *d);

#endif
