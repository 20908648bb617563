/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/informer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "net/deadline.h"
#include "json/field.h"

struct informer {
    struct net_loop *loop;
    const struct informer_kind *kind;
    void *data;
    const struct reflector_ops *ops;
    const char *effect;
    const char *resource; /* the end of the path */
    struct reflector *reflector;
    struct table *items;
    struct table own;
    struct net_deadline again;
    uint64_t again_ms; /* what it is set to; 0: it is not */
    bool synced;
    char name[];
};

static struct informer_item *item_of(struct table_node *n)
{
    return n == NULL ? NULL : LIST_ITEM(n, struct informer_item, node);
}

/* ---- items ---- */

void *informer_item_new(size_t size, const char *key)
{
    size_t key_size = strlen(key) + 1;
    struct informer_item *item = xcalloc(1, size + key_size);
    item->node.key = memcpy((char *)item + size, key, key_size);
    return item;
}

static void drop(struct informer *f, struct informer_item *item)
{
    if (f->kind->drop != NULL) {
        f->kind->drop(f->data, item);
    } else {
        free(item);
    }
}

struct informer_item *informer_find(const struct informer *f, const char *key)
{
    return item_of(table_find(f->items, key));
}

struct informer_item *informer_next(const struct informer *f, const struct informer_item *item)
{
    return item_of(table_next(f->items, item == NULL ? NULL : &item->node));
}

size_t informer_size(const struct informer *f)
{
    return f->items->count;
}

static void replace(struct informer *f, struct informer_item *before, struct informer_item *after)
{
    if (before != NULL) {
        table_remove(f->items, &before->node);
    }
    if (after != NULL) {
        xok(table_insert(f->items, &after->node, after->node.key));
    }
    if (f->kind->on_change != NULL) {
        f->kind->on_change(f->data, before, after);
    }
    if (before != NULL) {
        drop(f, before);
    }
}

void informer_remove(struct informer *f, struct informer_item *item)
{
    replace(f, item, NULL);
}

/* ---- listing again ---- */

void informer_list_again(struct informer *f, uint64_t ms)
{
    if (f->again_ms != 0 && f->again_ms <= ms) {
        return;
    }
    f->again_ms = ms;
    if (f->ops != NULL) {
        f->ops->set_deadline(f->ops->data, &f->again, ms);
    } else {
        net_deadline_set(f->loop, &f->again, ms);
    }
}

static void on_again(struct net_deadline *d)
{
    struct informer *f = LIST_ITEM(d, struct informer, again);
    f->again_ms = 0;
    reflector_list_again(f->reflector);
}

/* ---- what the API server says ---- */

static void on_list(void *data)
{
    struct informer *f = data;
    for (struct informer_item *i = NULL; (i = informer_next(f, i)) != NULL;) {
        i->stale = true;
    }
    if (f->kind->on_list != NULL) {
        f->kind->on_list(f->data);
    }
}

static void put(struct informer *f, const char *key, const cJSON *object)
{
    struct informer_item *after = informer_find(f, key);
    bool changed = f->kind->keep(f->data, key, object, &after);
    struct informer_item *before = informer_find(f, key); /* `keep` may have removed it */
    if (after != NULL) {
        after->stale = false;
    }
    if (before != after) {
        replace(f, before, after);
    } else if (changed) {
        f->kind->on_change(f->data, before, after);
    }
}

static char *make_key(const struct informer *f, const cJSON *object)
{
    const char *ns = field_meta(object, "namespace");
    if (f->kind->key != NULL) {
        return f->kind->key(f->data, object);
    }
    return xasprintf("%s%s%s", ns, ns[0] == '\0' ? "" : "/", field_meta(object, "name"));
}

/* The API server has no other namespaces, and users make paths of them. */
static bool is_possible(const cJSON *object)
{
    const char *ns = field_meta(object, "namespace");
    return ns[0] == '\0' || name_check_label(slice_str(ns)) == NULL;
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    if (!is_possible(object)) {
        return;
    }
    char *key = make_key(f, object);
    struct informer_item *item = key == NULL ? NULL : informer_find(f, key);
    if (change != REFLECTOR_DELETED && key != NULL) {
        put(f, key, object);
    } else if (item != NULL) {
        informer_remove(f, item);
    }
    free(key);
}

static void on_synced(void *data)
{
    struct informer *f = data;
    bool first = !f->synced;
    for (struct informer_item *i = informer_next(f, NULL), *next; i != NULL; i = next) {
        next = informer_next(f, i);
        if (i->stale) {
            informer_remove(f, i);
        }
    }
    f->synced = true;
    if (f->kind->on_synced != NULL) {
        f->kind->on_synced(f->data, first);
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct informer *f = data;
    if (f->kind->optional && reflector_not_found(f->reflector)) {
        level = LOG_DEBUG;
    }
    if (error != NULL) {
        log_at(level, "cannot list or watch", log_str("collection", f->resource),
               log_str("name", f->name), log_str("effect", f->effect), log_str("error", error));
    } else {
        log_at(level, "watching again", log_str("collection", f->resource),
               log_str("name", f->name));
    }
    if (f->kind->on_state != NULL) {
        f->kind->on_state(f->data, error);
    }
}

/* A process that cannot follow its objects for want of memory is of no use. */
static void on_starved(void *data)
{
    (void)data;
    xalloc_end();
}

static const struct reflector_handlers handlers = {.on_list = on_list,
                                                   .on_object = on_object,
                                                   .on_synced = on_synced,
                                                   .on_state = on_state,
                                                   .on_starved = on_starved};

/* ---- life ---- */

static struct reflector *follow(struct informer *f, const struct informer_options *o)
{
    char *path = xasprintf("%.*s%s%s/%s", (int)(f->resource - 1 - f->kind->path), f->kind->path,
                           o->namespace == NULL ? "" : "/namespaces/",
                           o->namespace == NULL ? "" : o->namespace, f->resource);
    const struct reflector_options ro = {.client = o->client,
                                         .path = path,
                                         .name = o->name,
                                         .label_selector = o->label_selector,
                                         .metadata_only = f->kind->metadata_only,
                                         .ops = o->ops};
    struct reflector *r = xptr(reflector_new(f->loop, &ro, &handlers, f, NULL));
    free(path);
    if (o->held) {
        reflector_hold(r);
    }
    return r;
}

struct informer *informer_new(struct net_loop *l, const struct informer_kind *kind,
                              const struct informer_options *o, void *data)
{
    const char *name = o->name == NULL ? "" : o->name;
    const char *ns = o->name == NULL || o->namespace == NULL ? "" : o->namespace;
    size_t size = strlen(ns) + strlen(name) + 2;
    struct informer *f = xcalloc(1, sizeof *f + size);
    (void)snprintf(f->name, size, "%s%s%s", ns, ns[0] == '\0' ? "" : "/", name);
    f->loop = l;
    f->kind = kind;
    f->resource = strrchr(kind->path, '/') + 1;
    f->data = data;
    f->ops = o->ops;
    f->effect = o->effect == NULL ? "" : o->effect;
    f->items = o->items == NULL ? &f->own : o->items;
    net_deadline_init(&f->again, on_again);
    f->reflector = follow(f, o);
    return f;
}

bool informer_synced(const struct informer *f)
{
    return f->synced;
}

const struct reflector *informer_reflector(const struct informer *f)
{
    return f->reflector;
}

void informer_release(struct informer *f)
{
    reflector_release(f->reflector);
}

void informer_free(struct informer *f)
{
    if (f == NULL) {
        return;
    }
    net_deadline_clear(&f->again);
    reflector_free(f->reflector);
    for (struct informer_item *i; (i = informer_next(f, NULL)) != NULL;) {
        table_remove(f->items, &i->node);
        drop(f, i);
    }
    table_deinit(f->items);
    free(f);
}
