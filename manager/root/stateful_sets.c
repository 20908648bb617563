/* SPDX-License-Identifier: Apache-2.0 */
#include "root/stateful_sets.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "kube/client/informer.h"
#include "root/root_spec.h"
#include "json/field.h"

enum { REPLICAS_DEFAULT = 1, REPLICAS_MAX = 1000000 };

struct target_watch {
    struct table_node node;
    struct stateful_sets *targets;
    struct informer *informer; /* NULL: it has no place */
    size_t holders;
    size_t needers; /* of them */
    char key[];
};

struct set {
    struct informer_item item;
    int replicas;
    unsigned first;
};

struct stateful_sets {
    struct net_loop *loop;
    struct stateful_sets_options options;
    struct table entries;
};

static struct target_watch *watch_of(struct table_node *n)
{
    return LIST_ITEM(n, struct target_watch, node);
}

static void tell(const struct target_watch *e)
{
    e->targets->options.on_change(e->targets->options.data, e->key);
}

/* ---- what the API server says ---- */

static int replicas_of(const cJSON *object)
{
    const cJSON *n = field_get(field_get(object, "spec"), "replicas");
    if (!cJSON_IsNumber(n)) {
        return REPLICAS_DEFAULT;
    }
    return n->valuedouble < 0 ? 0 : n->valuedouble > REPLICAS_MAX ? REPLICAS_MAX : n->valueint;
}

static struct set *set_of(struct informer_item *item)
{
    return item == NULL ? NULL : LIST_ITEM(item, struct set, item);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct set *set = *item == NULL ? informer_item_new(sizeof *set, key) : set_of(*item);
    (void)data;
    const struct set before = *set;
    set->replicas = replicas_of(object);
    set->first = root_first_ordinal(object);
    *item = &set->item;
    return before.replicas != set->replicas || before.first != set->first;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    const struct target_watch *e = data;
    (void)before;
    (void)after;
    if (informer_synced(e->informer)) {
        tell(e);
    }
}

static void on_synced(void *data, bool first)
{
    if (first) {
        tell(data);
    }
}

static void on_state(void *data, const char *error)
{
    (void)error;
    tell(data);
}

static const struct informer_kind kind = {.path = "/apis/apps/v1/statefulsets",
                                          .keep = keep,
                                          .on_change = on_change,
                                          .on_synced = on_synced,
                                          .on_state = on_state};

/* ---- following ---- */

static void drop(struct stateful_sets *t, struct target_watch *e)
{
    informer_free(e->informer);
    table_remove(&t->entries, &e->node);
    free(e);
}

static void follow(struct target_watch *e, const char *ns, const char *name)
{
    const struct informer_options o = {.client = e->targets->options.client,
                                       .namespace = ns,
                                       .name = name,
                                       .effect = "roots do not follow its replicas",
                                       .ops = e->targets->options.ops};
    e->informer = informer_new(e->targets->loop, &kind, &o, e);
}

static struct target state_of(const struct target_watch *e)
{
    struct target out = {.state = TARGET_OVER};
    if (e->informer == NULL) {
        return out;
    }
    const struct set *set = set_of(informer_next(e->informer, NULL));
    const char *error = reflector_error(informer_reflector(e->informer));
    if (error != NULL) {
        out.state = TARGET_UNKNOWN;
        (void)snprintf(out.error, sizeof out.error, "%s", error);
    } else if (!informer_synced(e->informer)) {
        out.state = TARGET_ASKED;
    } else if (set == NULL) {
        out.state = TARGET_ABSENT;
    } else {
        out.state = TARGET_FOUND;
        out.replicas = set->replicas;
        out.first = set->first;
    }
    return out;
}

/* ---- places ---- */

static bool is_in(const struct target_watch *e, const char *ns)
{
    size_t len = strlen(ns);
    return strncmp(e->key, ns, len) == 0 && e->key[len] == '/';
}

/* Those that are taken, of one namespace or, NULL, of all; and *idle, one that nobody needs. */
static size_t count_places(const struct stateful_sets *t, const char *ns,
                           struct target_watch **idle)
{
    size_t count = 0;
    *idle = NULL;
    for (struct table_node *n = NULL; (n = table_next(&t->entries, n)) != NULL;) {
        struct target_watch *e = watch_of(n);
        bool counts = e->informer != NULL && (ns == NULL || is_in(e, ns));
        count += counts;
        *idle = counts && e->needers == 0 ? e : *idle;
    }
    return count;
}

/* Who holds it sees that when it looks again. */
static void displace(struct target_watch *e)
{
    informer_free(e->informer);
    e->informer = NULL;
}

/* Of one namespace, or, NULL, of all. */
static bool make_room(const struct stateful_sets *t, const char *ns, size_t max, bool needed)
{
    struct target_watch *idle;
    if (count_places(t, ns, &idle) < max) {
        return true;
    }
    if (needed && idle != NULL) {
        displace(idle);
    }
    return needed && idle != NULL;
}

/* If there is one. */
static void take_place(struct stateful_sets *t, struct target_watch *e, const char *ns,
                       const char *name)
{
    size_t part = t->options.max > STATEFUL_SETS_PART ? t->options.max / STATEFUL_SETS_PART : 1;
    bool needed = e->needers > 0;
    if (e->informer == NULL && make_room(t, ns, part, needed) &&
        make_room(t, NULL, t->options.max, needed)) {
        follow(e, ns, name);
    }
}

/* ---- holding ---- */

static void release(struct stateful_sets *t, const struct target_hold *h)
{
    struct target_watch *e = h->watch;
    if (e != NULL) {
        e->needers -= h->needed;
        if (--e->holders == 0) {
            drop(t, e);
        }
    }
}

static struct target_watch *provide(struct stateful_sets *t, const char *ns, const char *name)
{
    char *key = xasprintf("%s/%s", ns, name);
    struct target_watch *e =
        xptr(TABLE_PROVIDE(&t->entries, slice_str(key), struct target_watch, key));
    e->targets = t;
    free(key);
    return e;
}

struct target stateful_sets_hold(struct stateful_sets *t, struct target_hold *h, const char *ns,
                                 const char *name, bool needed)
{
    const struct target_hold old = *h;
    struct target_watch *e = provide(t, ns, name);
    *h = (struct target_hold){.watch = e, .needed = needed};
    e->holders++;
    e->needers += needed;
    release(t, &old); /* it stays, if it is the same */
    take_place(t, e, ns, name);
    return state_of(e);
}

void stateful_sets_leave(struct stateful_sets *t, struct target_hold *h)
{
    release(t, h);
    *h = (struct target_hold){.watch = NULL};
}

/* ---- life ---- */

struct stateful_sets *stateful_sets_new(struct net_loop *l, const struct stateful_sets_options *o)
{
    struct stateful_sets *t = xcalloc(1, sizeof *t);
    t->loop = l;
    t->options = *o;
    t->options.max = o->max != 0 ? o->max : STATEFUL_SETS_MAX;
    return t;
}

void stateful_sets_free(struct stateful_sets *t)
{
    if (t == NULL) {
        return;
    }
    for (struct table_node *n = NULL; (n = table_next(&t->entries, NULL)) != NULL;) {
        drop(t, watch_of(n));
    }
    table_deinit(&t->entries);
    free(t);
}
