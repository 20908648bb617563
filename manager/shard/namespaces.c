/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/namespaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/deadline.h"
#include "json/field.h"

enum { AGAIN_MS = 1000, MISSING_SIZE = 256 };

struct namespaces {
    struct namespaces_options options;
    struct net_loop *loop;
    struct reflector *reflector;
    struct namespace_set set;
    char *label_selector;
    struct list listeners;
    bool lost;                 /* something was not kept, */
    struct net_deadline again; /* and all are listed then */
    char missing[MISSING_SIZE];
};

static void tell(struct namespaces *n, const struct namespace_entry *before,
                 const struct namespace_entry *after)
{
    if (!namespaces_synced(n)) {
        return;
    }
    LIST_FOR_EACH(i, &n->listeners)
    {
        const struct namespaces_listener *l = LIST_ITEM(i, struct namespaces_listener, link);
        l->on_change(l->data, before, after);
    }
    bool other = before == NULL || after == NULL; /* and not just its labels */
    if (other && n->options.on_change != NULL) {
        n->options.on_change(n->options.data);
    }
}

static void say_missing(struct namespaces *n, const char *error)
{
    (void)snprintf(n->missing, sizeof n->missing, "the namespaces are not known yet%s%s",
                   error == NULL ? "" : ": ", error == NULL ? "" : error);
}

/* ---- what is lost for want of memory ---- */

static void list_again(struct namespaces *n)
{
    n->lost = true;
    log_error("out of memory; listing the namespaces again");
    if (n->options.ops != NULL) {
        n->options.ops->set_deadline(n->options.ops->data, &n->again, AGAIN_MS);
    } else {
        net_deadline_set(n->loop, &n->again, AGAIN_MS);
    }
}

static struct reflector *follow(struct namespaces *n, struct err *e);

static void on_again(struct net_deadline *d)
{
    struct namespaces *n = LIST_ITEM(d, struct namespaces, again);
    struct err e = ERR_INIT;
    struct reflector *fresh = follow(n, &e);
    if (fresh == NULL) {
        list_again(n);
        return;
    }
    reflector_free(n->reflector);
    n->reflector = fresh;
}

/* ---- what the API server tells ---- */

static void on_list(void *data)
{
    struct namespaces *n = data;
    n->lost = false;
    for (struct namespace_entry *e = NULL; (e = namespace_set_next(&n->set, e)) != NULL;) {
        e->stale = true;
    }
}

static void drop(struct namespaces *n, const char *name)
{
    struct namespace_entry *gone = namespace_set_take(&n->set, name);
    if (gone != NULL) {
        tell(n, gone, NULL);
        free(gone);
    }
}

static void put(struct namespaces *n, const char *name, const cJSON *object)
{
    struct namespace_entry *before = NULL;
    int rc = namespace_set_put(&n->set, object, &before);
    if (rc < 0) {
        list_again(n);
    } else if (rc > 0) {
        const struct namespace_entry *after = namespace_set_find(&n->set, name);
        if (after->too_many && (before == NULL || !before->too_many)) {
            log_warn("too many labels; this namespace is selected by none of them",
                     log_str("namespace", name));
        }
        tell(n, before, after);
        free(before);
    }
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct namespaces *n = data;
    const char *name = field_meta(object, "name");
    if (change == REFLECTOR_DELETED) {
        drop(n, name);
    } else {
        put(n, name, object);
    }
}

static void on_synced(void *data)
{
    struct namespaces *n = data;
    bool first = !namespaces_synced(n);
    if (n->lost) {
        return; /* it is not all */
    }
    struct namespace_entry *next = namespace_set_next(&n->set, NULL);
    while (next != NULL) {
        struct namespace_entry *e = next;
        next = namespace_set_next(&n->set, next);
        if (e->stale) {
            drop(n, namespace_entry_name(e));
        }
    }
    if (first) {
        n->set.missing = NULL;
        tell(n, NULL, NULL);
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct namespaces *n = data;
    say_missing(n, error);
    if (error != NULL) {
        log_at(level, "cannot watch namespaces", log_str("unknown", n->options.unknown),
               log_str("error", error));
    }
}

static const struct reflector_handlers handlers = {
    .on_list = on_list, .on_object = on_object, .on_synced = on_synced, .on_state = on_state};

/* ---- life ---- */

static struct reflector *follow(struct namespaces *n, struct err *e)
{
    const struct namespaces_options *o = &n->options;
    const struct reflector_options ro = {.client = o->client,
                                         .path = "/api/v1/namespaces",
                                         .label_selector = n->label_selector,
                                         .metadata_only = true,
                                         .ops = o->ops};
    return reflector_new(n->loop, &ro, &handlers, n, e);
}

struct namespaces *namespaces_new(struct net_loop *l, const struct namespaces_options *o,
                                  struct err *e)
{
    struct namespaces *n = calloc(1, sizeof *n);
    if (n == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    n->options = *o;
    n->loop = l;
    list_init(&n->listeners);
    net_deadline_init(&n->again, on_again);
    say_missing(n, NULL);
    n->set = (struct namespace_set){
        .own = o->own, .system = o->system, .names_only = !o->labels, .missing = n->missing};
    n->label_selector = o->label_selector == NULL ? NULL : strdup(o->label_selector);
    bool copied = (n->label_selector == NULL) == (o->label_selector == NULL);
    n->reflector = copied ? follow(n, e) : NULL;
    if (n->reflector == NULL) {
        (void)err_memory(e);
        namespaces_free(n);
        return NULL;
    }
    return n;
}

void namespaces_listen(struct namespaces *n, struct namespaces_listener *listener)
{
    list_append(&n->listeners, &listener->link);
}

void namespaces_unlisten(struct namespaces_listener *listener)
{
    if (listener->link.next != NULL) {
        list_remove(&listener->link);
    }
}

bool namespaces_synced(const struct namespaces *n)
{
    return n->set.missing == NULL;
}

const char *namespaces_error(const struct namespaces *n)
{
    return reflector_error(n->reflector);
}

bool namespaces_has(const struct namespaces *n, const char *name)
{
    return namespace_set_find(&n->set, name) != NULL;
}

const char *namespaces_next(const struct namespaces *n, const char *name)
{
    const struct namespace_entry *before = name == NULL ? NULL : namespace_set_find(&n->set, name);
    const struct namespace_entry *e = namespace_set_next(&n->set, before);
    return e == NULL ? NULL : namespace_entry_name(e);
}

const struct namespace_set *namespaces_set(const struct namespaces *n)
{
    return n == NULL ? NULL : &n->set;
}

void namespaces_free(struct namespaces *n)
{
    if (n == NULL) {
        return;
    }
    net_deadline_clear(&n->again);
    reflector_free(n->reflector);
    namespace_set_deinit(&n->set);
    free(n->label_selector);
    free(n);
}
