/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kube_store.h - a small API server in the test's own process, on a real socket: it keeps objects
 * of any resource, and knows lists, watches from a version, label selectors, create, merge patch,
 * the status subresource and delete with preconditions. And a client of it.
 *
 * Versions are numbers that grow by one with each write. Nothing is validated or forgotten.
 */
#ifndef TEST_INTEGRATION_KUBE_STORE_H
#define TEST_INTEGRATION_KUBE_STORE_H

#include <cjson/cJSON.h>

#include "http/server.h"
#include "kube/client/client.h"
#include "loop_fixture.h"

struct kube_store;

/* What happens to a request instead of the usual. */
enum store_fault {
    STORE_NONE,
    STORE_CUT,      /* nothing is done, and the connection ends */
    STORE_CUT_DONE, /* it is done, and the connection ends without an answer */
    STORE_HOLD,     /* it is done, and never answered */
};

struct store_request {
    const char *method;
    const char *path; /* without the query */
    const cJSON *body;
};

struct kube_store {
    struct net_loop *loop;
    struct http_server *server;
    struct kube_access access;
    struct kube_client *client;
    struct list objects;
    struct list history; /* of all writes, the first one first */
    struct list watches;
    struct list held;
    unsigned version;
    unsigned writes;   /* requests that changed something */
    unsigned requests; /* all but watches */
    /* Looks at each request but for lists and watches. Another status than 0: the answer, and
     * nothing is done. NULL: all is well. */
    unsigned (*on_request)(void *data, const struct store_request *q, enum store_fault *fault);
    void *data;
    void (*guard)(bool inside); /* the server works for itself, or has ended to; may be NULL */
};

/* False: out of memory. */
bool store_open(struct kube_store *s, struct net_loop *l);
void store_close(struct kube_store *s);

/* The object; NULL: there is none. `resource` as in "pods". Valid until the next write. */
const cJSON *store_get(const struct kube_store *s, const char *resource, const char *ns,
                       const char *name);
/* Creates or replaces, as somebody else; takes `object`, which needs metadata.name alone. */
void store_put(struct kube_store *s, const char *resource, const char *ns, cJSON *object);
/* The same of a JSON text as printf makes it. */
void store_put_text(struct kube_store *s, const char *resource, const char *ns, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));
void store_delete(struct kube_store *s, const char *resource, const char *ns, const char *name);

/* How many objects of the resource there are. */
size_t store_count(const struct kube_store *s, const char *resource);
/* One after the other; NULL begins, and ends. */
const cJSON *store_next(const struct kube_store *s, const char *resource, const cJSON *object);
/* The text at a path as in "data/rules.json", "" when there is none; a number's text. */
const char *store_text(const cJSON *object, const char *path);

/* Ends all watches that are open, as a server may at any time. */
void store_end_watches(struct kube_store *s);

#endif
