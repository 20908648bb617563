/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflector_world.h - what a reflector has around it in tests: a scripted API server on a real
 * socket, a user that writes down what it is told, and a clock that the test moves.
 *
 *     world_start(w, &options);                   the reflector's first request comes
 *     world_expect_request(w, "/p?limit=500");
 *     world_answer(w, 200, NULL, "{...}");        it is answered
 *     world_expect_log(w, "list +a@1 synced ");   what the user has seen since the last look
 */
#ifndef TEST_INTEGRATION_REFLECTOR_WORLD_H
#define TEST_INTEGRATION_REFLECTOR_WORLD_H

#include "http/server.h"
#include "kube/client/reflector.h"
#include "loop_fixture.h"

/* What the user does when it is called. */
enum world_whim {
    WORLD_NOTES,         /* writes it down */
    WORLD_FREES_ON_LIST, /* and frees the reflector in that handler */
    WORLD_FREES_ON_OBJECT,
    WORLD_FREES_ON_SYNCED,
    WORLD_FREES_ON_STATE,
};

struct world {
    struct net_loop *loop;
    struct http_server *server;
    struct kube_access access;
    struct kube_client *client;
    struct reflector *reflector;

    /* the server's side */
    struct http_exchange *asked; /* the request that waits for an answer, or is being answered */
    unsigned requests;
    char target[1024];
    char accept[256];
    char authorization[64];
    bool gone;                           /* the client gave up the request */
    void (*on_request)(struct world *w); /* answers by itself; NULL: the test does */
    bool lost;                           /* of on_request: a version was given up */

    /* the user's side */
    struct buf log;
    enum world_whim whim;

    /* the clock */
    struct list deadlines; /* the one that was set, until it fires or is cleared */
    struct net_deadline *deadline;
    uint64_t deadline_ms; /* what it was set to last */
    uint32_t random;
    bool running; /* what is set to up to 30 s fires at once by itself */
    struct net_task passing;
    struct reflector_ops ops;
};

/* A server and a client of it, without reflector. False: out of memory. */
bool world_open(struct world *w, struct net_loop *l);
/* Closes all that is open. */
void world_close(struct world *w);
/* Fills client and ops into `o`, which must have a path. */
bool world_start(struct world *w, struct reflector_options *o);
/* One collection, "/p", without more. */
void world_start_plain(struct world *w);

/* Waits for the next request, which must have that target. */
void world_expect_request(struct world *w, const char *target);
/* Nothing is asked for within some turns of the loop. */
void world_expect_quiet(struct world *w);
/* A whole answer. `retry_after` NULL: no such header. */
void world_answer(struct world *w, unsigned status, const char *retry_after, const char *body);
/* Status 200, and then pieces of a body, its good end, or none. */
void world_begin(struct world *w);
void world_send(struct world *w, const char *text);
void world_send_bytes(struct world *w, struct slice bytes);
void world_end(struct world *w);
void world_cut(struct world *w);
/* Waits until the client has given the request up. */
void world_expect_gone(struct world *w);

/* Waits until the user has seen exactly that since the last call:
 *   "list ", "+NAME@VERSION " listed, "A:NAME@VERSION ", "M:...", "D:...", "synced ",
 *   "error(TEXT) " with all of the text, "fine " when it is over. */
void world_expect_log(struct world *w, const char *expected);
/* As above; the last entry is an error, of which `text` is a part. */
void world_expect_error(struct world *w, const char *text);

/* Fires what was set; it must have been set to within [from, to] milliseconds. */
void world_pass(struct world *w, uint64_t from, uint64_t to);
/* Waits until something is set to within these. */
void world_expect_deadline(struct world *w, uint64_t from, uint64_t to);

/* An object, a list of such (ends with NULL; token NULL: the last page), an event: texts in turns
 * of some static memory. */
const char *world_object(const char *name, const char *version);
const char *world_list(const char *version, const char *token, const char *const *objects);
const char *world_event(const char *type, const char *name, const char *version);

#endif
