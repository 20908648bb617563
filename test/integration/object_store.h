/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_store.h - an API server that keeps objects, for several writers at a time: lists, watches,
 * creation and patches with their preconditions, over scripted_api.h.
 *
 *     store_open(&s, loop);
 *     store_put(&s, "/api/v1/namespaces/n/secrets", object);     somebody else writes
 *     store_settle(&s);                                          everybody has reacted
 *     store_get(&s, "/api/v1/namespaces/n/secrets", "x");        what is there now
 *
 * Selectors by label are ignored, and every watch ends with what it delivers.
 */
#ifndef TEST_INTEGRATION_OBJECT_STORE_H
#define TEST_INTEGRATION_OBJECT_STORE_H

#include <cjson/cJSON.h>

#include "kube/client/reflector.h"
#include "scripted_api.h"

enum { STORE_EVENTS_MAX = 4096 };

struct object_store {
    struct scripted_api api;
    struct reflector_ops ops; /* for reflectors: their pauses pass with store_turn */
    struct list pauses;
    struct list objects;
    unsigned version;
    struct {
        char *line;
        char *path; /* of the collection */
        char *name;
    } events[STORE_EVENTS_MAX]; /* the version of each is its index and one */
    unsigned writes;            /* that were accepted, of clients */
    unsigned conflicts;         /* that were refused because the object had changed */
    unsigned refusing;          /* every write is answered with this status; 0: as it should be */
    bool silent;                /* watches show nothing for as long as it is set */
    bool held;                  /* writes wait for as long as it is set */
    /* Called before and after a request is answered: for tests that let allocations fail. */
    void (*serving)(bool begins);
    /* Called before a client's write is looked at; may write itself. */
    void (*before_write)(struct object_store *s);
};

bool store_open(struct object_store *s, struct net_loop *l);
void store_close(struct object_store *s);

/* Runs the loop for a moment; pauses of reflectors are over. */
void store_turn(struct object_store *s, uint64_t ms);
/* Until nothing is asked for and nothing changes any more. */
void store_settle(struct object_store *s);
/* Moves the clock. */
void store_pass(struct object_store *s, uint64_t ms);

/* Creates or replaces; takes the object. */
void store_put(struct object_store *s, const char *path, cJSON *object);
void store_delete(struct object_store *s, const char *path, const char *name);
/* NULL: it is not there. */
const cJSON *store_get(const struct object_store *s, const char *path, const char *name);
/* `silent` or `held` have changed: answers what has waited. */
void store_go_on(struct object_store *s);

#endif
