/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw_peer.h - the other side of a connection, byte by byte: a plain socket in the test's own
 * hands.
 */
#ifndef TEST_SUPPORT_RAW_PEER_H
#define TEST_SUPPORT_RAW_PEER_H

#include "loop_fixture.h"

/* Bytes that a raw TCP peer in the test collects. */
struct raw_peer {
    int fd;
    char text[256 * 1024];
    size_t len;
    bool ended; /* the other side closed */
};

/* A blocking-free raw client: connects, sends, reads what has come so far, closes. */
void raw_connect(struct raw_peer *p, const char *address);
void raw_send(struct raw_peer *p, const char *text, size_t len);
void raw_read(struct raw_peer *p);
void raw_close(struct raw_peer *p);
/* Runs the loop until the peer has received `text` or, with NULL, until the other side closed. */
void raw_expect(struct net_loop *l, struct raw_peer *p, const char *text);

/* A socket that keeps a port of 127.0.0.1 from all others as long as it is open: who dials it is
 * refused, and servers of the test's own can listen on it, one after the other. */
int raw_reserve(unsigned *port);
/* A listening socket that nobody accepts from; returns its port. */
int raw_listen(unsigned *port);
/* Runs the loop until somebody dials the listening socket, and is the peer from then on. */
void raw_accept(struct net_loop *l, int listener, struct raw_peer *p);
/* Lets the socket listen with a queue that is full: who dials it is not answered. */
void raw_fill(int listener);

#endif
