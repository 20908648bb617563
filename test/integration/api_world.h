/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_world.h - an API server that answers as a test tells it to, and a client of it.
 *
 *     q = api_expect(w, "PUT", "/p/x");              the next request, whole
 *     api_answer(q, 200, NULL, "{...}");             it is answered
 *
 * Requests that nobody looks at yet wait in the order in which they came.
 */
#ifndef TEST_INTEGRATION_API_WORLD_H
#define TEST_INTEGRATION_API_WORLD_H

#include "fake_clock.h"
#include "http/collect.h"
#include "http/server.h"
#include "kube/client/client.h"
#include "loop_fixture.h"

struct api_world;

/* Lives until it is answered, or the client gives it up. */
struct api_request {
    struct list link;
    struct http_collect collect;
    struct api_world *world;
    bool whole;
    char method[16];
    char target[1024];
    char accept[256];
    char content_type[64];
    char user_agent[64];
    char authorization[64];
    char body[16384];
};

struct api_world {
    struct net_loop *loop;
    struct http_server *server;
    struct kube_access access;
    struct kube_client *client;
    struct fake_clock clock;
    struct list requests; /* those that wait for an answer */
    unsigned count;       /* that ever came */
    unsigned gone;        /* of them given up by the client */
    /* Answers each request that is whole by itself; NULL: the test does. */
    void (*serve)(struct api_world *w, struct api_request *q);
    void *data; /* of serve */
};

/* False: out of memory. */
bool api_open(struct api_world *w, struct net_loop *l);
void api_close(struct api_world *w);

/* Waits for a request, which must be this one. `target` NULL: any. */
struct api_request *api_expect(struct api_world *w, const char *method, const char *target);
/* Nothing is asked for within some turns of the loop. */
void api_expect_quiet(struct api_world *w);
/* Waits until the client has given up so many requests in all. */
void api_expect_gone(struct api_world *w, unsigned count);
/* `retry_after` NULL: no such header. */
void api_answer(struct api_request *q, unsigned status, const char *retry_after, const char *body);
/* The connection ends without an answer. */
void api_cut(struct api_request *q);

#endif
