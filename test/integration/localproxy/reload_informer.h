/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload_informer.h - a client that follows pods through the proxy as real ones do, and fails the
 * test when it is shown what it must not see or what cannot be: an object twice, a change or end
 * of one that it does not know.
 */
#ifndef TEST_INTEGRATION_RELOAD_INFORMER_H
#define TEST_INTEGRATION_RELOAD_INFORMER_H

#include "http/client.h"
#include "reload_fixture.h"
#include "storing_api.h"

/* Pods p0, p1, ...: each is in a namespace of one letter, see pod_ns. */
enum { PODS = 24 };

enum informer_kind {
    INFORMER_LISTS,   /* lists, and watches from there; lists again what is no older: client-go */
    INFORMER_KEEPS,   /* always lists the newest: kube-rs */
    INFORMER_PLAIN,   /* the same without pages and bookmarks, from the server's memory */
    INFORMER_STREAMS, /* asks for the list as events: client-go since 0.36 */
    INFORMER_WATCHES, /* watches without a list */
    INFORMER_KINDS
};

enum informer_phase { INFORMER_WAITS, INFORMER_LISTING, INFORMER_WATCHING };

/* What the test knows. */
struct informer_world {
    struct fixture *fixture;
    struct storing_api *store;
    const struct selector *rules; /* in force; NULL: no limit */
    bool strict;                  /* what was on its way when they came into force has arrived */
    bool hasty;                   /* clients do not pause but when a watch has ended plainly */
};

struct informer {
    unsigned number;
    struct informer_world *world;
    enum informer_kind kind;
    char ns;                   /* 0: all */
    const char *selector_text; /* its own; encoded; NULL: none */
    struct selector *selector;
    unsigned page;
    struct http_client *http;
    struct http_exchange *x;
    enum informer_phase phase;
    unsigned pause; /* turns */
    unsigned status;
    struct buf body;
    unsigned cache[PODS];  /* versions; 0: it is not there */
    unsigned coming[PODS]; /* of a list under way */
    unsigned version;      /* to go on from; 0: from the beginning */
    bool synced;
    char *token;
    bool list_expired; /* a list from `version` is not possible */
    unsigned lists;    /* that were asked for, and their first pages */
    unsigned expired;
    unsigned events;
    char last[4096]; /* what it did, for messages */
};

/* "a" to "d". */
const char *pod_ns(unsigned pod);

/* By chance it looks at a part of the pods only. */
void informer_open(struct informer *f, struct informer_world *w, unsigned number);
/* At all of them, as every other one that is opened so. */
void informer_open_alike(struct informer *f, struct informer_world *w, unsigned number);
/* The proxy's address is another one. */
void informer_move(struct informer *f);
void informer_turn(struct informer *f);
/* Whether it has exactly what it should. */
bool informer_is_right(const struct informer *f);
void informer_explain(const struct informer *f);
void informer_close(struct informer *f);

#endif
