/* SPDX-License-Identifier: Apache-2.0 */
#include "root/stateful_sets.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "root/root_spec.h"
#include "json/field.h"

enum { REPLICAS_DEFAULT = 1, REPLICAS_MAX = 1000000 };

struct target_watch {
    struct table_node node;
    struct stateful_sets *targets;
    struct reflector *reflector; /* NULL: it has no place */
    size_t holders;
    size_t needers; /* of them */
    bool synced;    /* listed, ever */
    bool seen;      /* it is there */
    bool listing;
    int replicas;
    unsigned first;
    char key[];
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

static void tell(struct target_watch *e)
{
    e->targets->options.on_change(e->targets->options.data, e->key);
}

/* ---- what the API server says ---- */

static void on_list(void *data)
{
    struct target_watch *e = data;
    e->listing = true;
}

static int replicas_of(const cJSON *object)
{
    const cJSON *n = field_get(field_get(object, "spec"), "replicas");
    if (!cJSON_IsNumber(n)) {
        return REPLICAS_DEFAULT;
    }
    return n->valuedouble < 0 ? 0 : n->valuedouble > REPLICAS_MAX ? REPLICAS_MAX : n->valueint;
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct target_watch *e = data;
    bool there = change != REFLECTOR_DELETED;
    int replicas = there ? replicas_of(object) : 0;
    unsigned first = there ? root_first_ordinal(object) : 0;
    bool news = e->seen != there || e->replicas != replicas || e->first != first;
    e->listing = false;
    e->seen = there;
    e->replicas = replicas;
    e->first = first;
    if (news && e->synced) {
        tell(e);
    }
}

/* A list without it says that it is gone. */
static void on_synced(void *data)
{
    struct target_watch *e = data;
    bool news = !e->synced || (e->listing && e->seen);
    e->seen = e->seen && !e->listing;
    e->listing = false;
    e->synced = true;
    if (news) {
        tell(e);
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct target_watch *e = data;
    if (error != NULL) {
        log_at(level, "cannot follow a StatefulSet", log_str("statefulset", e->key),
               log_str("error", error));
    }
    tell(e);
}

static const struct reflector_handlers handlers = {
    .on_list = on_list, .on_object = on_object, .on_synced = on_synced, .on_state = on_state};

/* ---- following ---- */

static void drop(struct stateful_sets *t, struct target_watch *e)
{
    reflector_free(e->reflector);
    table_remove(&t->entries, &e->node);
    free(e);
}

static int follow(struct target_watch *e, const char *ns, const char *name)
{
    struct err why = ERR_INIT;
    char *path = NULL;
    if (asprintf(&path, "/apis/apps/v1/namespaces/%s/statefulsets", ns) < 0) {
        return err_memory(&why);
    }
    const struct reflector_options o = {.client = e->targets->options.client,
                                        .path = path,
                                        .name = name,
                                        .ops = e->targets->options.ops};
    e->reflector = reflector_new(e->targets->loop, &o, &handlers, e, &why);
    free(path);
    return e->reflector == NULL ? why.code : 0;
}

/* Without a place. NULL without memory. */
static struct target_watch *add(struct stateful_sets *t, const char *key)
{
    size_t size = strlen(key) + 1;
    struct target_watch *e = calloc(1, sizeof *e + size);
    if (e == NULL) {
        return NULL;
    }
    e->targets = t;
    memcpy(e->key, key, size);
    if (table_insert(&t->entries, &e->node, e->key) != 0) {
        free(e);
        return NULL;
    }
    return e;
}

static struct target state_of(const struct target_watch *e)
{
    const char *error = e->reflector == NULL ? NULL : reflector_error(e->reflector);
    struct target out = {.state = TARGET_ASKED, .replicas = e->replicas, .first = e->first};
    if (e->reflector == NULL) {
        out.state = TARGET_OVER;
    } else if (error != NULL) {
        out.state = TARGET_UNKNOWN;
        (void)snprintf(out.error, sizeof out.error, "%s", error);
    } else if (e->synced) {
        out.state = e->seen ? TARGET_FOUND : TARGET_ABSENT;
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
        bool counts = e->reflector != NULL && (ns == NULL || is_in(e, ns));
        count += counts;
        *idle = counts && e->needers == 0 ? e : *idle;
    }
    return count;
}

/* Who holds it sees that when it looks again. */
static void displace(struct target_watch *e)
{
    reflector_free(e->reflector);
    e->reflector = NULL;
    e->synced = false;
    e->seen = false;
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

/* 0, also if there is none, or -ENOMEM. */
static int take_place(struct stateful_sets *t, struct target_watch *e, const char *ns,
                      const char *name)
{
    size_t part = t->options.max > STATEFUL_SETS_PART ? t->options.max / STATEFUL_SETS_PART : 1;
    bool needed = e->needers > 0;
    bool room = e->reflector == NULL && make_room(t, ns, part, needed) &&
                make_room(t, NULL, t->options.max, needed);
    return room ? follow(e, ns, name) : 0;
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

/* NULL without memory. */
static struct target_watch *provide(struct stateful_sets *t, const char *ns, const char *name)
{
    char *key = NULL;
    if (asprintf(&key, "%s/%s", ns, name) < 0) {
        return NULL;
    }
    struct table_node *n = table_find(&t->entries, key);
    struct target_watch *e = n != NULL ? watch_of(n) : add(t, key);
    free(key);
    return e;
}

struct target stateful_sets_hold(struct stateful_sets *t, struct target_hold *h, const char *ns,
                                 const char *name, bool needed)
{
    const struct target_hold old = *h;
    *h = (struct target_hold){.watch = provide(t, ns, name), .needed = needed};
    struct target_watch *e = h->watch;
    if (e != NULL) {
        e->holders++;
        e->needers += needed;
    }
    release(t, &old); /* it stays, if it is the same */
    if (e != NULL && take_place(t, e, ns, name) != 0) {
        stateful_sets_leave(t, h);
    }
    return h->watch != NULL ? state_of(e)
                            : (struct target){.state = TARGET_UNKNOWN, .error = "out of memory"};
}

void stateful_sets_leave(struct stateful_sets *t, struct target_hold *h)
{
    release(t, h);
    *h = (struct target_hold){.watch = NULL};
}

/* ---- life ---- */

struct stateful_sets *stateful_sets_new(struct net_loop *l, const struct stateful_sets_options *o)
{
    struct stateful_sets *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->loop = l;
        t->options = *o;
        t->options.max = o->max != 0 ? o->max : STATEFUL_SETS_MAX;
    }
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
