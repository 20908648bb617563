/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scripted_api.h - an API server that answers as a test tells it to, a client of it, and a clock
 * that stands still.
 *
 *     q = api_expect(a, "PUT", "/p/x");              the next request, whole
 *     api_answer(q, 200, NULL, "{...}");             it is answered
 *
 *     q = api_expect_part(a, "watch=1");             any request
 *     api_begin(q, NULL);                            is answered bit by bit
 *     api_send(q, "{...}\n");
 *     api_end(q);                                    or api_cut(q)
 *
 * Where a test lets allocations fail (alloc_sweep.h) those in here never do.
 */
#ifndef TEST_SUPPORT_SCRIPTED_API_H
#define TEST_SUPPORT_SCRIPTED_API_H

#include "fake_clock.h"
#include "http/server.h"
#include "kube/client/client.h"
#include "loop_fixture.h"

struct scripted_api;

/* Lives until the API server is closed, or api_forget. */
struct api_request {
    struct list link;
    struct scripted_api *api;
    struct http_exchange *x; /* NULL: it is over: answered, cut, or given up by the client */
    bool whole;              /* its body has come */
    bool seen;               /* api_expect_part returned it */
    bool begun;              /* its answer */
    bool gone;               /* the client gave it up */
    char method[16];
    char *target;
    char accept[256];
    char accept_encoding[64];
    char upgrade[32];
    char content_type[64];
    char user_agent[64];
    char authorization[64];
    const char *body; /* what came of it */
    struct buf bytes;
    void *data; /* the user's, freed with it */
};

struct scripted_api {
    struct net_loop *loop;
    struct http_server *server;
    int reserved; /* keeps its port while it does not listen; 0: none */
    struct kube_access access;
    struct kube_client *client;
    struct fake_clock clock;
    struct list requests; /* those that wait for an answer, or its end */
    struct list over;
    /* The client's own question whether its credentials are accepted
     * (kube/client/credential_check.h), which may follow a 401 at any time, is answered by itself
     * and does not count. */
    bool knows_client;
    unsigned count; /* that ever came */
    unsigned gone;  /* of them given up by the client */
    /* Answers each request that is whole by itself; NULL: the test does. */
    void (*serve)(struct scripted_api *a, struct api_request *q);
    /* Frees a request's data. NULL: free(). */
    void (*free_data)(void *request_data);
    void *data; /* of serve */
};

/* False: out of memory. `serve`, `free_data` and `data` are kept. */
bool api_open(struct scripted_api *a, struct net_loop *l);
void api_close(struct scripted_api *a);
/* The server goes away, and comes back on the same port. False: out of memory. */
void api_stop(struct scripted_api *a);
bool api_listen(struct scripted_api *a);
/* Frees the requests that are over. */
void api_forget(struct scripted_api *a);

/* Waits for a request, which must be this one. `target` NULL: any. Until it is answered it is
 * returned again. */
struct api_request *api_expect(struct scripted_api *a, const char *method, const char *target);
/* Waits for one that has `part` in its target; others wait on, and its body may still come. */
struct api_request *api_expect_part(struct scripted_api *a, const char *part);
/* Nothing is asked for within some turns of the loop. */
void api_expect_quiet(struct scripted_api *a);
/* Waits until the client has given up so many requests in all. */
void api_expect_gone(struct scripted_api *a, unsigned count);
/* Waits until it has given up this one. */
void api_expect_given_up(const struct api_request *q);

/* A whole answer. `retry_after` NULL: no such header. */
void api_answer(struct api_request *q, unsigned status, const char *retry_after, const char *body);
/* A head, and then pieces of a body and its end. api_begin: status 200; `type` NULL:
 * application/json. */
void api_begin_head(struct api_request *q, const struct http_head *head);
void api_begin(struct api_request *q, const char *type);
void api_send(struct api_request *q, const char *text);
void api_send_bytes(struct api_request *q, struct slice bytes);
void api_end(struct api_request *q);
/* The connection ends without an answer, or in the midst of it. */
void api_cut(struct api_request *q);

#endif
