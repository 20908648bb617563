/* SPDX-License-Identifier: Apache-2.0 */
#include "root/targets.h"

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
    struct targets *targets;
    struct reflector *reflector;
    size_t holders;
    bool synced; /* listed, ever */
    bool seen;   /* it is there */
    bool listing;
    int replicas;
    unsigned first;
    char key[];
};

struct targets {
    struct net_loop *loop;
    struct targets_options options;
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

static void drop(struct targets *t, struct target_watch *e)
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

/* NULL without memory. */
static struct target_watch *add(struct targets *t, const char *key, const char *ns,
                                const char *name)
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
    if (follow(e, ns, name) != 0) {
        drop(t, e);
        return NULL;
    }
    return e;
}

static struct target state_of(const struct target_watch *e)
{
    const char *error = reflector_error(e->reflector);
    struct target out = {.state = TARGET_ASKED, .replicas = e->replicas, .first = e->first};
    if (error != NULL) {
        out.state = TARGET_UNKNOWN;
        (void)snprintf(out.error, sizeof out.error, "%s", error);
    } else if (e->synced) {
        out.state = e->seen ? TARGET_FOUND : TARGET_ABSENT;
    }
    return out;
}

/* Whether another one of that namespace can be followed. */
static bool has_room(const struct targets *t, const char *ns)
{
    size_t part = t->options.max > TARGETS_PART ? t->options.max / TARGETS_PART : 1;
    size_t len = strlen(ns);
    size_t beside = 0;
    for (struct table_node *n = NULL; (n = table_next(&t->entries, n)) != NULL;) {
        const char *key = watch_of(n)->key;
        beside += strncmp(key, ns, len) == 0 && key[len] == '/';
    }
    return t->entries.count < t->options.max && beside < part;
}

/* NULL: there is none of that key, and none can be added: *why. */
static struct target_watch *provide(struct targets *t, const char *ns, const char *name,
                                    struct target *why)
{
    char *key = NULL;
    struct target_watch *e = NULL;
    *why = (struct target){.state = TARGET_UNKNOWN, .error = "out of memory"};
    if (asprintf(&key, "%s/%s", ns, name) < 0) {
        return NULL;
    }
    struct table_node *n = table_find(&t->entries, key);
    if (n != NULL) {
        e = watch_of(n);
    } else if (!has_room(t, ns)) {
        why->state = TARGET_OVER;
    } else {
        e = add(t, key, ns, name);
    }
    free(key);
    return e;
}

struct target targets_hold(struct targets *t, struct target_watch **held, const char *ns,
                           const char *name)
{
    struct target why;
    struct target_watch *old = *held;
    *held = NULL;
    if (old != NULL) {
        old->holders--; /* it stays, if it is the same */
    }
    struct target_watch *e = provide(t, ns, name, &why);
    if (e != NULL) {
        e->holders++;
        *held = e;
    }
    if (old != NULL && old->holders == 0) {
        drop(t, old);
    }
    return e == NULL ? why : state_of(e);
}

void targets_leave(struct targets *t, struct target_watch **held)
{
    struct target_watch *e = *held;
    *held = NULL;
    if (e != NULL && --e->holders == 0) {
        drop(t, e);
    }
}

/* ---- life ---- */

struct targets *targets_new(struct net_loop *l, const struct targets_options *o)
{
    struct targets *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->loop = l;
        t->options = *o;
        t->options.max = o->max != 0 ? o->max : TARGETS_MAX;
    }
    return t;
}

void targets_free(struct targets *t)
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
