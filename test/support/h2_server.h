/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_server.h - an HTTP/2 server over TLS in a test's own hands (nghttp2): requests are collected,
 * and answered, refused or left alone by the test, frame by frame.
 *
 * A connection on which HTTP/1.1 was agreed answers each request "plain", an upgrade with 101, and
 * echoes what comes then.
 */
#ifndef TEST_SUPPORT_H2_SERVER_H
#define TEST_SUPPORT_H2_SERVER_H

#include "base/buf.h"
#include "base/list.h"
#include "crypto/tls.h"
#include "loop_fixture.h"
#include "net/listener.h"

struct h2_server;

/* One connection; it lives until the server is freed. */
struct h2_server_conn {
    struct h2_server *server;
    struct list link;
    struct net_stream *stream;  /* NULL: closed */
    struct nghttp2_session *ng; /* NULL: not HTTP/2, or nothing has come yet */
    unsigned streams;           /* requests begun on it */
    unsigned pings;             /* of the client's */
    bool ended;                 /* the client said "no more" */
    bool left;                  /* GOAWAY of the client */
    bool frozen;                /* reads nothing more, and sends nothing */
    bool receiving;             /* nghttp2 is not to be asked for what is to be sent */
    struct buf text;            /* HTTP/1.1: what has come */
    bool tunnel;
};

/* One request; it lives until the server is freed. */
struct h2_request {
    struct h2_server_conn *conn;
    struct list link;
    int32_t id;
    char method[16];
    char path[256];
    char authority[64];
    struct buf body;
    bool ended; /* the client's END_STREAM has come */
    bool reset; /* RST_STREAM has come */
    uint32_t reset_code;
    bool refused;   /* for the test to note */
    bool gone;      /* nghttp2 does not know it any more */
    struct buf out; /* still to be sent of the answer's body */
    bool out_begun;
    bool out_ended;
    bool out_deferred;
    size_t taken; /* bytes of the body that flow control has let go */
};

struct h2_server {
    struct net_loop *loop;
    struct net_listener *listener;
    unsigned port;
    struct tls_config *tls;       /* its own: h2 and http/1.1 */
    struct tls_config *tls_h1;    /* http/1.1 alone */
    struct tls_config *client;    /* for clients: offers both */
    struct tls_config *client_h1; /* offers none */
    struct list conns;
    struct list requests;
    unsigned accepted;
    unsigned asked; /* requests in all */
    unsigned plain; /* of them over HTTP/1.1 */
    /* Of connections to come: */
    uint32_t max_streams; /* UINT32_MAX: is not said */
    uint32_t window;      /* of streams; 0: is not said */
    uint32_t max_head;    /* bytes, as RFC 9113 section 6.5.2 counts; 0: is not said */
    bool mute;            /* does not say anything after TLS */
    bool holds_window;    /* never opens a window again */
    /* Of requests to come: */
    bool answers; /* "hello" at their end, by itself */
    bool echoes;  /* their body at their end, by itself */
};

void h2_server_start(struct h2_server *s, struct net_loop *l);
void h2_server_stop(struct h2_server *s);
/* Accepts no more. */
void h2_server_close(struct h2_server *s);
/* Whether HTTP/2 is agreed on with connections to come. */
void h2_server_offer(struct h2_server *s, bool h2);

/* The n-th from 0, once it has come. */
struct h2_server_conn *h2_conn(struct h2_server *s, unsigned n);
struct h2_request *h2_request(struct h2_server *s, unsigned n);
/* Runs the loop until so many have come. */
void h2_expect_requests(struct h2_server *s, unsigned count);

void h2_answer(struct h2_request *r, unsigned status, const char *text);
/* The head of an answer; a body follows. */
void h2_begin(struct h2_request *r, unsigned status);
void h2_send(struct h2_request *r, const void *bytes, size_t len);
void h2_end(struct h2_request *r);
/* RST_STREAM */
void h2_reset(struct h2_request *r, uint32_t code);

void h2_goaway(struct h2_server_conn *c, int32_t last, uint32_t code);
void h2_allow(struct h2_server_conn *c, uint32_t max_streams);
void h2_ping(struct h2_server_conn *c);
void h2_freeze(struct h2_server_conn *c);
/* In order, with close_notify; or the TCP connection alone. */
void h2_hang_up(struct h2_server_conn *c);
void h2_cut(struct h2_server_conn *c);

#endif
