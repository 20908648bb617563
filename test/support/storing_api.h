/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storing_api.h - an API server that keeps objects of any resource, with all their versions: lists
 * with selectors, pages and exact versions, watches with bookmarks, creation, patches, deletion and
 * eviction with preconditions, and server-side apply by one field manager. It answers over
 * scripted_api.h.
 *
 *     store_open(&s, loop);
 *     store_put_text(&s, "pods", "ns", "{\"metadata\":{\"name\":\"x\"}}");   somebody else writes
 *     store_settle(&s);                                        everybody has reacted
 *     store_get(&s, "pods", "ns", "x");                        what is there now
 *
 * Versions are numbers that grow by one with each write. Nothing is validated. A namespace is ""
 * for what has none.
 */
#ifndef TEST_SUPPORT_STORING_API_H
#define TEST_SUPPORT_STORING_API_H

#include <cjson/cJSON.h>

#include "kube/client/reflector.h"
#include "kube/selector.h"
#include "scripted_api.h"

/* The version before the first write. */
enum { STORE_FIRST = 100 };

/* What happens to a write instead of the usual. */
enum store_fault {
    STORE_NONE,
    STORE_CUT,      /* nothing is done, and the connection ends */
    STORE_CUT_DONE, /* it is done, and the connection ends without an answer */
    STORE_HOLD,     /* it is done, and never answered */
    STORE_HANG,     /* nothing is done, and it is never answered */
};

/* One state of an object. */
struct stored_version {
    unsigned version;
    cJSON *json; /* NULL: it was deleted */
    char *text;  /* of json */
};

struct stored_object {
    struct list link;
    char *resource;
    char *ns;
    char *name;
    struct stored_version *history; /* the first one first */
    size_t count;
    cJSON *applied; /* what was applied last on the server's side; NULL: nothing */
};

struct storing_api {
    struct scripted_api api;
    struct list objects;        /* in the order in which they first came; those that are gone too */
    struct stored_object **log; /* whom version STORE_FIRST + 1 + i has changed */
    unsigned version;
    const char *served; /* the answer to GET /api/v1; NULL: there is none */
    const char *kind;   /* of all objects, in group "" version "v1"; NULL: nothing is said */
    unsigned writes;    /* of clients, that changed something */
    unsigned requests;  /* all but lists and watches */
    unsigned lists;
    unsigned conflicts; /* writes that were refused because the object was there or had changed */
    bool silent;        /* watches show nothing for as long as it is set */
    bool held;          /* writes wait for as long as it is set */
    const char *paused; /* lists and watches with this in their targets wait as long as it is set */
    struct {
        const char *path;  /* writes of which this is a part */
        const char *field; /* of their status, which is dropped as by a definition without it */
    } dropped;
    unsigned page_max; /* objects in a page, if more are asked for; 0: as is asked for */
    struct {
        const char *part; /* lists and watches with this in their targets; NULL: none */
        unsigned status;  /* the answer to them */
    } refused;
    struct {
        const char *path; /* writes of which this is a part */
        unsigned status;  /* the answer, and nothing is done; 0: as it should be */
        enum store_fault fault;
        unsigned count; /* so many of them, the next ones */
    } failing;
    /* Called before a client's write is looked at; may write itself. */
    void (*before_write)(struct storing_api *s);
    /* Whether a webhook lets what is applied pass; NULL: it does. */
    bool (*admit)(struct storing_api *s, const cJSON *body);
    /* Which of a patch's `webhooks` is not valid, so that it is answered 422; -1: none. NULL: none
     * ever. */
    int (*find_invalid)(const cJSON *patch);

    struct reflector_ops ops; /* for reflectors: their pauses pass with store_turn */
    struct list pauses;

    /* Failures by chance: see store_play. */
    bool by_chance;
    bool calm;  /* nothing fails */
    bool cache; /* lists that do not ask for the newest, and bookmarks, tell the version of the last
                   change of their resource, as out of a watch cache */
    uint64_t random;
    unsigned compacted; /* before it nothing can be listed */
    unsigned forgotten; /* and before this one no watch begins: it is no later */
};

/* False: out of memory. `by_chance` is kept. */
bool store_open(struct storing_api *s, struct net_loop *l);
void store_close(struct storing_api *s);
/* For tests whose state begins with a struct storing_api: makes one of that size, all else zero, in
 * a loop of its own. What else it has must be gone before the teardown. */
int store_setup(void **state, size_t size);
int store_teardown(void **state);

/* ---- objects ---- */

/* NULL: there is none. `resource` as in "pods". Valid until the next write. */
const cJSON *store_get(const struct storing_api *s, const char *resource, const char *ns,
                       const char *name);
/* Creates or replaces, as somebody else; takes `object`, which needs metadata.name alone. */
void store_put(struct storing_api *s, const char *resource, const char *ns, cJSON *object);
/* The same of a JSON text as printf makes it. */
void store_put_text(struct storing_api *s, const char *resource, const char *ns, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));
void store_delete(struct storing_api *s, const char *resource, const char *ns, const char *name);
/* One after the other; NULL begins, and ends. */
const cJSON *store_next(const struct storing_api *s, const char *resource, const cJSON *object);
/* The object as it was at that version; NULL: it was not. */
const struct stored_version *stored_at(const struct stored_object *o, unsigned version);
/* NULL selects everything. */
bool store_selects(const struct selector *selector, const cJSON *object);
/* The text at a path as in "data/rules.json", where `~` is a slash; "" when there is none; a
 * number's text. */
const char *store_text(const cJSON *object, const char *path);

/* ---- what goes wrong ---- */

/* Ends all watches that are open, as a server may at any time. */
void store_end_watches(struct storing_api *s);
/* Ends those with this in their targets, as their version is not kept any more (410). */
void store_expire_watches(struct storing_api *s, const char *part);
/* All connections end, and there is no server until api_listen. */
void store_lose(struct storing_api *s);
/* The next `count` writes to a path with that part fail; see `failing`. */
void store_fail(struct storing_api *s, const char *path, unsigned status, enum store_fault fault,
                unsigned count);
/* Whether a write waits, `held` being set. */
bool store_holds(const struct storing_api *s);
/* `silent`, `held` or `paused` have changed: answers what has waited. */
void store_go_on(struct storing_api *s);

/* ---- time ---- */

/* Pauses of reflectors are over. */
void store_end_pauses(struct storing_api *s);
/* The same, and runs the loop for a moment. */
void store_turn(struct storing_api *s, uint64_t ms);
/* Until nothing is asked for and nothing changes any more. */
void store_settle(struct storing_api *s);
/* Moves the clock. */
void store_pass(struct storing_api *s, uint64_t ms);

/* ---- by chance ---- */

/* Of 0 to n-1. */
unsigned store_chance(struct storing_api *s, unsigned n);
/* Forgets the past, but for the newest `kept` versions; watches may know more. */
void store_compact(struct storing_api *s, unsigned kept);
/* With `by_chance` nothing is answered but in here: does something for each request that is open;
 * answers it, a piece of it, or breaks it off. */
void store_play(struct storing_api *s);

#endif
