/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_fixture.h - a server that answers in one of several ways, and a client that asks it, in one
 * loop.
 */
#ifndef TEST_INTEGRATION_HTTP_FIXTURE_H
#define TEST_INTEGRATION_HTTP_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "http/client.h"
#include "http/server.h"
#include "loop_fixture.h"
#include "raw_peer.h"

/* What the server under test does with the next requests. */
enum behaviour {
    ANSWER_AT_ONCE,
    ANSWER_AT_END,  /* echoes the request's body */
    ANSWER_CHUNKED, /* two chunks and no end until told */
    ANSWER_LARGE,   /* LARGE bytes with back-pressure */
    ANSWER_PAGE,    /* PAGE bytes at once */
    ANSWER_NO,      /* 401 */
    ANSWER_NEVER,
    ANSWER_UPGRADE,
};

/* More than the kernel keeps of one connection, however much it gave it after an earlier answer. */
enum { LARGE = 48 * 1024 * 1024, PAGE = 100 * 1024, KERNEL_BYTES = 64 * 1024, LONG_MS = 60000 };

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct http_client *client;
    enum behaviour behaviour;
    struct http_exchange *serving; /* the exchange the server is at */
    struct buf echo;
    size_t large_left;
    unsigned requests;
    uint64_t work_ns; /* how long the server is busy with each */
    unsigned server_closed;
    struct err server_error;
    bool server_broke; /* on_close with an error */
    bool drained;
    bool drain_on_close;
    char last_target[256];
    bool background; /* what is asked next */
    bool guarded;
    bool unhurried; /* what is answered next */
};

/* One request of the client under test. */
struct ask {
    struct http_exchange *x;
    unsigned status;
    struct buf body;
    size_t received;
    bool keep_body;
    bool headed;
    bool ended;
    bool drained;
    bool closed;
    bool failed;
    bool sent; /* when it had failed */
    struct err error;
    char type[64];
};

/* cmocka set-up and tear-down: *state is the world. */
int world_setup(void **state);
int world_teardown(void **state);
/* Others than those of the set-up, which the caller frees first. NULL when a server cannot be had.
 */
struct http_client *world_client(struct world *w, unsigned port);
struct http_server *world_server(struct world *w, struct tls_config *tls, uint64_t head_timeout_ms);
/* One that closes silent connections for others, and of whose the kernel keeps little. */
struct http_server *world_crowded_server(struct world *w);

/* Of what `ask` asks. */
extern const struct http_exchange_handlers ask_handlers;

void ask_begin(struct world *w, struct ask *a, const char *method, enum http_framing framing,
               uint64_t length, bool upgrade);
/* Begins, and ends unless it waits for a connection. */
void ask_get(struct world *w, struct ask *a);
void ask_wait_open(struct world *w, struct ask *a);
void ask_finish(struct world *w, struct ask *a);
/* A whole request and its answer. */
void ask_all(struct world *w, struct ask *a);
/* And frees it. */
void ask_expect_body(struct ask *a, const char *text);

#endif
