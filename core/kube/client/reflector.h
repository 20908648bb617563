/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflector.h - follows one collection of the API server, or one object of it: lists it, watches it
 * from there, and lists again when that is the only way to know what is there.
 *
 * Pages of lists are parsed one object at a time, events one by one. Whatever fails is tried again,
 * with growing pauses, for as long as the reflector lives: it has no final error.
 *
 * Sources: "Efficient detection of changes", "Retrieving large results sets in chunks" and
 * "Receiving resources as Tables" in https://kubernetes.io/docs/reference/using-api/api-concepts/.
 */
#ifndef CORE_KUBE_CLIENT_REFLECTOR_H
#define CORE_KUBE_CLIENT_REFLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "net/deadline.h"
#include "net/loop.h"

/* Largest event, and largest page of a list, that is taken: bytes. A larger page is asked for
 * again with fewer objects, and the ones behind it with more again. */
#define REFLECTOR_EVENT_MAX ((size_t)16 * 1024 * 1024)
#define REFLECTOR_PAGE_MAX ((size_t)64 * 1024 * 1024)

struct reflector;

enum reflector_change {
    REFLECTOR_LISTED, /* it is there: new, changed or known already */
    REFLECTOR_ADDED,
    REFLECTOR_MODIFIED,
    REFLECTOR_DELETED, /* its last state; with a selector also: it matches no longer */
};

/* None is ever called inside a function of this header; reflector_free is allowed inside all of
 * them. All but on_object may be NULL.
 *
 *     (on_list on_object(LISTED)*)* on_list on_object(LISTED)* on_synced on_object(ADDED, ...)*
 *
 * and from the start again. A user that keeps objects marks all that it has as stale in on_list,
 * clears the mark in on_object, and drops in on_synced what is still marked. A list that fails
 * half-way is followed by another on_list without on_synced between them, so nothing is dropped
 * for what a broken list did not show. */
struct reflector_handlers {
    /* A list from the beginning: what was marked before counts no more. */
    void (*on_list)(void *data);
    /* `object` is a JSON object with a non-empty string at metadata.name, valid during the call. In
     * lists the objects of most resources have neither kind nor apiVersion. The same state may come
     * twice; ADDED may come for a known object, DELETED for an unknown one. */
    void (*on_object)(void *data, enum reflector_change change, const cJSON *object);
    /* The list is complete. */
    void (*on_synced)(void *data);
    /* What keeps the reflector from following, for people: when it changes. NULL: nothing any more,
     * told when a watch has been open for a second. What is part of ordinary life (the end of a
     * watch, one cut, one expired version) is no news. `level`: at which to log it, or that it is
     * over, as kube_client_failure_level. */
    void (*on_state)(void *data, const char *error, enum log_level level);
    /* It failed twice in a row for want of memory. It tries again if this returns. */
    void (*on_starved)(void *data);
};

/* Time and chance, so that tests need not wait for either. */
struct reflector_ops {
    /* As net_deadline_set; net_deadline_clear is used on it later, whether it is due or not. */
    void (*set_deadline)(void *data, struct net_deadline *d, uint64_t ms);
    uint32_t (*random)(void *data);
    void *data;
};

/* Texts are copied. */
struct reflector_options {
    struct kube_client *client; /* must outlive the reflector */
    const char *path;           /* of the collection: "/api/v1/namespaces/demo/configmaps" */
    const char *name;           /* only the object of that name; NULL: all */
    const char *label_selector; /* plain text; NULL: none */
    const char *field_selector; /* plain text; NULL: none; joined with `name` */
    bool metadata_only;         /* ask for PartialObjectMetadata; a server that does not know it
                                   sends whole objects, which have the same metadata */
    unsigned page_size;         /* objects in a page; 0: 500 */
    const struct reflector_ops *ops; /* NULL: the loop's deadlines, the system's random numbers */
};

/* Why a list was begun. */
enum reflector_reason {
    REFLECTOR_START,
    REFLECTOR_EXPIRED,   /* 410: the version to go on from is not kept any more */
    REFLECTOR_MALFORMED, /* an event or a page that cannot be understood, or is over its bound */
    REFLECTOR_REFUSED,   /* another error in place of events */
    REFLECTOR_ASKED,     /* reflector_list_again */
    REFLECTOR_REASONS,
};

struct reflector_stats {
    uint64_t lists[REFLECTOR_REASONS]; /* begun, by reason */
    uint64_t pages;                    /* received */
    uint64_t objects;                  /* in them */
    uint64_t watches;                  /* opened: answered with status 200 */
    uint64_t events;                   /* without bookmarks */
    uint64_t bookmarks;
    uint64_t failures; /* of lists, watches and requests for them, ordinary ends not counted */
    bool synced;       /* a list was completed, ever */
    bool following;    /* a watch is open now */
};

/* Begins with the loop's next turn; its deadlines alone do not keep a loop running. NULL with `e`
 * set: -EINVAL (options), -ENOMEM. */
MUST_CHECK struct reflector *reflector_new(struct net_loop *l, const struct reflector_options *o,
                                           const struct reflector_handlers *handlers, void *data,
                                           struct err *e);

/* Between these two no further page is asked for: for a user that cannot take more yet. The page
 * that is on its way comes still, and a watch goes on. What the server does not keep for so long is
 * listed again. */
void reflector_hold(struct reflector *r);
void reflector_release(struct reflector *r);

/* Gives up what is under way and lists from the beginning with the loop's next turn: for a user
 * that has lost something. Not allowed inside handlers. */
void reflector_list_again(struct reflector *r);

/* What on_state said last; NULL: nothing keeps it from following. Valid until the loop runs on. */
const char *reflector_error(const struct reflector *r);
/* Whether that is status 404: the API server has no such collection. */
bool reflector_not_found(const struct reflector *r);
/* Whether that is status 403: the program may not list or watch it. */
bool reflector_forbidden(const struct reflector *r);
/* The resourceVersion of the last complete list, or of the last event or bookmark since: all that
 * happened up to it has been told. In on_object that is the event's. "": a list is needed or under
 * way. Valid until the loop runs on. */
const char *reflector_version(const struct reflector *r);
const struct reflector_stats *reflector_stats(const struct reflector *r);

/* Ends everything at once: no handler is called any more. NULL is ignored. */
void reflector_free(struct reflector *r);

#endif
