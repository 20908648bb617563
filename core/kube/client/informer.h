/* SPDX-License-Identifier: Apache-2.0 */
/*
 * informer.h - follows one collection of the API server, or one object of it, and keeps an item of
 * each object: a reflector with a table.
 *
 *     struct lease { struct informer_item item; char *holder; };       what the user keeps
 *     static const struct informer_kind leases = {.keep = keep, ...};  how
 *     f = informer_new(loop, &leases, &options, data);
 *     item = informer_find(f, "namespace/name");
 *
 * Items that a complete list does not show are dropped, objects whose namespace cannot be one are
 * passed over. Only for the manager: it ends without memory (base/xalloc.h).
 */
#ifndef CORE_KUBE_CLIENT_INFORMER_H
#define CORE_KUBE_CLIENT_INFORMER_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/table.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

struct informer;

/* First member of what the user keeps of an object. */
struct informer_item {
    struct table_node node; /* node.key lives as long as the item */
    bool stale;             /* not shown yet by the list that runs */
};

/* How the objects of a collection are kept. None of these is called inside a function of this
 * header, except `drop`, and on_change in informer_remove; informer_free is allowed in
 * none of them. All but `path` and `keep` may be NULL. */
struct informer_kind {
    const char *path;   /* of all namespaces: "/apis/apps/v1/statefulsets" */
    bool metadata_only; /* as in reflector_options */
    bool optional;      /* an API server need not have it: that is no warning */
    /* The key of an object, allocated. It returns NULL: the object is ignored. NULL:
     * "namespace/name", or "name". */
    char *(*key)(void *data, const cJSON *object);
    /* `object` is new, changed, or listed again. *item is what is kept under that key, NULL:
     * nothing. The function changes it in place, or leaves there another item (informer_item_new),
     * or NULL: nothing is kept of it. Returns whether on_change is to be called, as it is for
     * another item in any case. If it is another object of that name, the function may call
     * informer_remove for the item, which is NULL from then on. */
    bool (*keep)(void *data, const char *key, const cJSON *object, struct informer_item **item);
    /* Frees an item, which is in the table no longer. NULL: free() is enough. */
    void (*drop)(void *data, struct informer_item *item);
    /* The table holds `after` in place of `before`. Both the same: it was changed in place.
     * `before` NULL: it is new, also in a list. `after` NULL: it is gone. `before` is dropped
     * afterwards. */
    void (*on_change)(void *data, struct informer_item *before, struct informer_item *after);
    /* A list begins, as of reflector_handlers. */
    void (*on_list)(void *data);
    /* A list is complete, and everything of it is kept. `first`: for the first time. */
    void (*on_synced)(void *data, bool first);
    /* As of reflector_handlers, after it was logged. */
    void (*on_state)(void *data, const char *error);
};

/* Texts are copied but for `effect`. Names are such as the API server takes. */
struct informer_options {
    struct kube_client *client; /* must outlive the informer */
    const char *namespace;      /* only its objects; NULL: all */
    const char *name;           /* only the object of that name; NULL: all */
    const char *label_selector; /* NULL: none */
    const char *effect;         /* for the log: what happens while it cannot follow; "" or NULL */
    struct table *items;        /* where they are kept, empty; NULL: in a table of its own */
    bool held;                  /* nothing is asked for before informer_release */
    const struct reflector_ops *ops; /* kept; for tests; NULL: the usual */
};

/* Begins with the loop's next turn. */
MUST_CHECK struct informer *informer_new(struct net_loop *l, const struct informer_kind *kind,
                                         const struct informer_options *o, void *data);

/* For `keep`: all zero but its key, which is copied behind it. `size` of the user's struct. */
MUST_CHECK void *informer_item_new(size_t size, const char *key) __attribute__((returns_nonnull));

/* NULL: there is none. */
struct informer_item *informer_find(const struct informer *f, const char *key);
/* One after the other, in no order; NULL begins, and ends. The one that was given out may be
 * removed once its follower is known. */
struct informer_item *informer_next(const struct informer *f, const struct informer_item *item);
size_t informer_size(const struct informer *f);
/* Removes an item as if its object were gone: on_change is called. Allowed in on_change itself,
 * unless `after` is NULL. */
void informer_remove(struct informer *f, struct informer_item *item);

/* A list was complete, ever. */
bool informer_synced(const struct informer *f);
/* Its error, version and counts. */
const struct reflector *informer_reflector(const struct informer *f);
/* Begins with what `held` put off. */
void informer_release(struct informer *f);
/* Lists again after so many ms, or sooner if it is to already. */
void informer_list_again(struct informer *f, uint64_t ms);

/* At once; items are dropped without on_change. NULL is ignored. */
void informer_free(struct informer *f);

#endif
