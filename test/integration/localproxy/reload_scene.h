/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload_scene.h - a localproxy between two sides that the test plays, all in one loop: an API
 * server that answers when it is told to, and clients on plain sockets.
 *
 *     scene_limit(s, "ns in (a)");                  rules come into force
 *     scene_get(s, &client, "/api/v1/pods?watch=1"); a client asks
 *     struct asked *a = scene_asked(s, "watch=1");  the API server is asked
 *     asked_begin(a, NULL);                         and answers
 *     asked_send(a, "...");
 *     scene_expect(s, &client, "...");              the client sees it
 */
#ifndef TEST_INTEGRATION_RELOAD_SCENE_H
#define TEST_INTEGRATION_RELOAD_SCENE_H

#include "http/server.h"
#include "loop_fixture.h"
#include "proxy.h"

/* A request at the API server. */
struct asked {
    struct list link;
    struct http_exchange *x; /* NULL: it is over */
    char *method;
    char *target;
    char *accept;
    bool seen;     /* scene_asked returned it */
    bool ended;    /* the request is whole */
    bool answered; /* wholly */
    bool gone;     /* it was given up before the answer was whole */
    void *data;    /* the test's; freed with it */
};

/* Somebody who asks the proxy. */
struct client {
    int fd;
    struct buf text; /* all that came */
    bool ended;      /* the proxy closed the connection */
};

struct scene {
    struct net_loop *loop;
    struct http_server *server;
    struct kube_access access;
    struct kube_client *upstream;
    struct localproxy_flags flags; /* may be set before scene_open */
    struct metrics metrics;
    struct proxy *proxy;
    struct list asked; /* in the order in which they came; all that ever did */
    unsigned count;    /* of them */
    unsigned generation;
    unsigned settled; /* times that the proxy said so */
};

/* False: out of memory. */
bool scene_open(struct scene *s, struct net_loop *l);
/* Ends the proxy and starts another one, which has forgotten everything. No rules are in force. */
void scene_restart(struct scene *s);
void scene_close(struct scene *s);

/* Rules of the next generation: one limit on pods, or none at all with NULL. */
void scene_limit(struct scene *s, const char *selector);
/* Rules with that spec. */
void scene_rules(struct scene *s, const char *spec);

void client_open(struct scene *s, struct client *c);
void client_send(struct client *c, const char *text);
/* Opens a connection and sends a GET without body; with "Accept: application/json". */
void scene_get(struct scene *s, struct client *c, const char *target);
/* Reads what has come. */
void client_read(struct client *c);
/* Whether it has. */
bool client_has(struct client *c, const char *text);
void client_close(struct client *c);

/* Runs the loop until the client has got `text`; NULL: until its connection was closed. */
void scene_expect(struct scene *s, struct client *c, const char *text);
/* As many times as that. */
void scene_expect_times(struct scene *s, struct client *c, const char *text, unsigned times);
/* Runs it until the API server was asked for something that has `part` in its target. */
struct asked *scene_asked(struct scene *s, const char *part);
/* Frees what was seen and is over. */
void scene_forget(struct scene *s);
/* Runs it until the request was given up. */
void scene_expect_gone(struct scene *s, struct asked *a);
/* Runs it for some turns, in which the API server is not asked. */
void scene_expect_quiet(struct scene *s);
/* Runs it until *number is `value`. */
void scene_expect_number(struct scene *s, const uint64_t *number, uint64_t value);

/* `type` NULL: application/json. */
void asked_begin(struct asked *a, const char *type);
void asked_send(struct asked *a, const char *text);
void asked_send_bytes(struct asked *a, struct slice bytes);
void asked_end(struct asked *a);
void asked_cut(struct asked *a);
/* A whole answer. */
void asked_answer(struct asked *a, unsigned status, const char *body);

/* An event and a list of pods in JSON; `names` ends with NULL. Texts in turns of some static
 * memory. */
const char *pod_event(const char *type, const char *name, unsigned version);
const char *pod_list(unsigned version, const char *token, const char *const *names);

#endif
