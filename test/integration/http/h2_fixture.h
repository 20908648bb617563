/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_fixture.h - an HTTP/2 server that the test plays frame by frame, and a client that asks it, in
 * one loop.
 */
#ifndef TEST_INTEGRATION_H2_FIXTURE_H
#define TEST_INTEGRATION_H2_FIXTURE_H

#include "h2_server.h"
#include "http_fixture.h"

/* Of the test that runs. */
extern struct h2_server server;

/* cmocka set-up and tear-down: *state is the world, whose client asks `server`. */
int h2_setup(void **state);
int h2_teardown(void **state);

/* Those of the set-up. */
struct http_client_options h2_client_options(void);
/* Another client, with these. */
void world_use_options(struct world *w, const struct http_client_options *o);
const struct http_client_stats *world_stats(const struct world *w);
/* A connection that has proved good, and is unused. */
struct h2_server_conn *world_proven(struct world *w);

/* A request without body that the server has got as its n-th. */
struct h2_request *ask_begin_get(struct world *w, struct ask *a, unsigned n);
/* So much of a body, as fast as it goes. */
void ask_send(struct world *w, struct ask *a, size_t size);
/* The server's own answer has come. Frees its body. */
void ask_expect_hello(struct ask *a);

#endif
