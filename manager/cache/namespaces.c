/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/namespaces.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"

enum { MISSING_SIZE = 256 };

struct namespaces {
    struct informer *informer;
    struct namespace_set set;
    struct list listeners;
    void (*on_change)(void *data);
    void *data;
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
    if (other && n->on_change != NULL) {
        n->on_change(n->data);
    }
}

static void say_missing(struct namespaces *n, const char *error)
{
    (void)snprintf(n->missing, sizeof n->missing, "the namespaces are not known yet%s%s",
                   error == NULL ? "" : ": ", error == NULL ? "" : error);
}

/* ---- what the API server tells ---- */

static struct namespace_entry *entry_of(struct informer_item *item)
{
    return (struct namespace_entry *)(void *)item;
}

static bool keep(void *data, const char *name, const cJSON *object, struct informer_item **item)
{
    struct namespaces *n = data;
    const struct namespace_entry *before = entry_of(*item);
    struct namespace_entry *after = entry_of(*item);
    bool changed = namespace_set_make(&n->set, object, &after);
    if (changed && after->too_many && (before == NULL || !before->too_many)) {
        log_warn("too many labels; this namespace is selected by none of them",
                 log_str("namespace", name));
    }
    *item = after == NULL ? NULL : &after->item;
    return changed;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    tell(data, entry_of(before), entry_of(after));
}

static void on_synced(void *data, bool first)
{
    struct namespaces *n = data;
    if (first) {
        n->set.missing = NULL;
        tell(n, NULL, NULL);
    }
}

static void on_state(void *data, const char *error)
{
    say_missing(data, error);
}

static const struct informer_kind kind = {.path = "/api/v1/namespaces",
                                          .metadata_only = true,
                                          .keep = keep,
                                          .on_change = on_change,
                                          .on_synced = on_synced,
                                          .on_state = on_state};

/* ---- life ---- */

struct namespaces *namespaces_new(struct net_loop *l, const struct namespaces_options *o)
{
    struct namespaces *n = xcalloc(1, sizeof *n);
    const struct informer_options io = {.client = o->client,
                                        .label_selector = o->label_selector,
                                        .effect = o->effect,
                                        .items = &n->set.entries,
                                        .ops = o->ops};
    n->on_change = o->on_change;
    n->data = o->data;
    list_init(&n->listeners);
    say_missing(n, NULL);
    n->set = (struct namespace_set){
        .own = o->own, .system = o->system, .names_only = !o->labels, .missing = n->missing};
    n->informer = informer_new(l, &kind, &io, n);
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
    return reflector_error(informer_reflector(n->informer));
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
    informer_free(n->informer);
    free(n);
}
