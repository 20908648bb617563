/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.h - a loop for a test, bounded in time, that nothing may survive.
 */
#ifndef TEST_INTEGRATION_FIXTURE_H
#define TEST_INTEGRATION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/loop.h"

/* Bytes that a raw TCP peer in the test collects. */
struct raw_peer {
    int fd;
    char text[256 * 1024];
    size_t len;
    bool ended; /* the other side closed */
};

/* cmocka set-up and tear-down: *state is the loop. Tear-down fails if a handle survived. */
int loop_setup(void **state);
int loop_teardown(void **state);

/* Runs the loop until *flag, or fails the test after 20 s. */
void run_until(struct net_loop *l, const bool *flag);
/* Runs the loop for about `ms`, and what is ready then. */
void run_for(struct net_loop *l, uint64_t ms);

/* A blocking-free raw client: connects, sends, reads what has come so far, closes. */
void raw_connect(struct raw_peer *p, const char *address);
void raw_send(struct raw_peer *p, const char *text, size_t len);
void raw_read(struct raw_peer *p);
void raw_close(struct raw_peer *p);
/* Runs the loop until the peer has received `text` or, with NULL, until the other side closed. */
void raw_expect(struct net_loop *l, struct raw_peer *p, const char *text);

/* A listening socket that nobody accepts from; returns its port. */
int raw_listen(unsigned *port);

#endif
