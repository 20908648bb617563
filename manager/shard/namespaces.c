/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/namespaces.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "compile/namespace_set.h"
#include "json/field.h"

struct entry {
    struct table_node node;
    bool stale; /* not seen yet in the list under way */
    char name[];
};

struct namespaces {
    struct namespaces_options options;
    struct reflector *reflector;
    struct table entries;
    bool synced;
};

static struct entry *entry_of(struct table_node *n)
{
    return LIST_ITEM(n, struct entry, node);
}

static void tell(struct namespaces *n)
{
    if (n->synced && n->options.on_change != NULL) {
        n->options.on_change(n->options.data);
    }
}

static bool is_left_out(const struct namespaces *n, const char *name)
{
    bool own = n->options.own != NULL && strcmp(n->options.own, name) == 0;
    return !n->options.system && (own || namespace_is_system(name));
}

static void drop(struct namespaces *n, struct entry *e)
{
    table_remove(&n->entries, &e->node);
    free(e);
}

/* Without memory it is not known of before the next list. */
static void add(struct namespaces *n, const char *name)
{
    size_t size = strlen(name) + 1;
    struct entry *e = calloc(1, sizeof *e + size);
    if (e == NULL) {
        return;
    }
    memcpy(e->name, name, size);
    if (table_insert(&n->entries, &e->node, e->name) != 0) {
        free(e);
        return;
    }
    tell(n);
}

static void on_list(void *data)
{
    struct namespaces *n = data;
    for (struct table_node *t = NULL; (t = table_next(&n->entries, t)) != NULL;) {
        entry_of(t)->stale = true;
    }
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct namespaces *n = data;
    const char *name = field_meta(object, "name");
    struct table_node *t = table_find(&n->entries, name);
    if (change == REFLECTOR_DELETED) {
        if (t != NULL) {
            drop(n, entry_of(t));
            tell(n);
        }
    } else if (t != NULL) {
        entry_of(t)->stale = false;
    } else if (!is_left_out(n, name)) {
        add(n, name);
    }
}

static void on_synced(void *data)
{
    struct namespaces *n = data;
    struct table_node *t = table_next(&n->entries, NULL);
    while (t != NULL) {
        struct entry *e = entry_of(t);
        t = table_next(&n->entries, t);
        if (e->stale) {
            drop(n, e);
        }
    }
    n->synced = true;
    tell(n);
}

static void on_state(void *data, const char *error)
{
    const struct namespaces *n = data;
    if (error != NULL) {
        log_warn("cannot watch namespaces", log_str("unknown", n->options.unknown),
                 log_str("error", error));
    }
}

static const struct reflector_handlers handlers = {
    .on_list = on_list, .on_object = on_object, .on_synced = on_synced, .on_state = on_state};

struct namespaces *namespaces_new(struct net_loop *l, const struct namespaces_options *o,
                                  struct err *e)
{
    const struct reflector_options ro = {.client = o->client,
                                         .path = "/api/v1/namespaces",
                                         .label_selector = o->label_selector,
                                         .metadata_only = true,
                                         .ops = o->ops};
    struct namespaces *n = calloc(1, sizeof *n);
    if (n == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    n->options = *o;
    n->reflector = reflector_new(l, &ro, &handlers, n, e);
    if (n->reflector == NULL) {
        namespaces_free(n);
        return NULL;
    }
    return n;
}

bool namespaces_synced(const struct namespaces *n)
{
    return n->synced;
}

bool namespaces_has(const struct namespaces *n, const char *name)
{
    return table_find(&n->entries, name) != NULL;
}

const char *namespaces_next(const struct namespaces *n, const char *name)
{
    struct table_node *before = name == NULL ? NULL : table_find(&n->entries, name);
    struct table_node *t = table_next(&n->entries, before);
    return t == NULL ? NULL : entry_of(t)->name;
}

void namespaces_free(struct namespaces *n)
{
    if (n == NULL) {
        return;
    }
    reflector_free(n->reflector);
    for (struct table_node *t = NULL; (t = table_next(&n->entries, NULL)) != NULL;) {
        drop(n, entry_of(t));
    }
    table_deinit(&n->entries);
    free(n);
}
