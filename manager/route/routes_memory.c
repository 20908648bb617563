/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the routes controller remembers from one look to the next: since when something is so, which
 * is lost with the process, and costs a pause then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "route/routes_internal.h"
#include "json/field.h"
#include "json/json.h"

enum { CONTESTS_MAX = 64 * 1024 };

#define PROVIDE(table, type, ...)                                                                  \
    ((type *)provide(table, xasprintf(__VA_ARGS__), sizeof(type), offsetof(type, node),            \
                     offsetof(type, key)))

/* Takes the key. */
static void *provide(struct table *t, char *key, size_t size, size_t node, size_t text)
{
    void *found = xptr(table_provide(t, slice_str(key), size, node, text));
    free(key);
    return found;
}

struct route_track *routes_track(struct routes *r, enum originals_kind kind, const char *name,
                                 const char *webhook)
{
    struct route_track *t =
        PROVIDE(&r->tracks, struct route_track, "%d/%s/%s", (int)kind, name, webhook);
    t->used = true;
    return t;
}

const char *routes_noted_contests(const struct routes *r, enum originals_kind kind)
{
    const cJSON *metadata = field_get(r->objects[kind].object, "metadata");
    return field_text(field_get(metadata, "annotations"), r->contests_key);
}

/* What the last leader has noted of that one. */
static void recall(const struct routes *r, enum originals_kind kind, const char *name,
                   struct route_memory *m)
{
    const char *text = routes_noted_contests(r, kind);
    struct err e = ERR_INIT;
    cJSON *told = text[0] == '\0' ? NULL : json_parse(text, strlen(text), &e);
    const cJSON *generation = field_get(told, name);
    m->contested = cJSON_IsNumber(generation) && generation->valuedouble >= 0;
    m->rested_at = m->contested ? generation->valuedouble : 0;
    xerr(&e);
    cJSON_Delete(told);
}

struct route_memory *routes_memory(struct routes *r, enum originals_kind kind, const char *name)
{
    struct route_memory *m = PROVIDE(&r->memories, struct route_memory, "%d/%s", (int)kind, name);
    if (!r->recalled) {
        recall(r, kind, name, m);
    }
    m->used = true;
    return m;
}

char *routes_contests(const struct route_world *w, enum originals_kind kind)
{
    cJSON *told = xptr(cJSON_CreateObject());
    size_t len = 0;
    for (size_t i = 0; i < w->config_count; i++) {
        const struct route_config *c = &w->configs[i];
        if (c->original->kind == kind && c->memory->contested && len < CONTESTS_MAX) {
            (void)xptr(cJSON_AddNumberToObject(told, c->name, c->memory->rested_at));
            len += strlen(c->name);
        }
    }
    char *text = told->child == NULL ? xstrdup("") : xptr(cJSON_PrintUnformatted(told));
    cJSON_Delete(told);
    return text;
}

struct route_admission *routes_admission(struct routes *r, const char *service, const char *shard)
{
    struct route_admission *a =
        PROVIDE(&r->admissions, struct route_admission, "%s %s", service, shard);
    a->used = true;
    return a;
}

struct route_port *routes_port(struct routes *r, const char *service, const char *port)
{
    struct route_port *p = PROVIDE(&r->ports, struct route_port, "%s %s", service, port);
    p->used = true;
    return p;
}

void routes_undone(struct routes *r, struct route_memory *m)
{
    uint64_t now = routes_now(r);
    m->undone[m->undone_next] = now;
    m->undone_next = (m->undone_next + 1) % ROUTES_UNDONE_MAX;
    uint64_t oldest = m->undone[m->undone_next]; /* which is replaced next */
    if (!m->contested && oldest != 0 && now - oldest <= ROUTES_UNDONE_MS) {
        m->contested = true;
        m->rested_at = 0;
        log_warn("somebody undoes what routes reviews: they are routed as before until the "
                 "configuration changes",
                 log_str("configuration", strchr(m->key, '/') + 1));
    }
}

/* ---- forgetting ---- */

static void free_track(struct table_node *n)
{
    free(LIST_ITEM(n, struct route_track, node));
}

static void free_memory(struct table_node *n)
{
    struct route_memory *m = LIST_ITEM(n, struct route_memory, node);
    free(m->refused);
    free(m->refused_version);
    free(m);
}

static void free_admission(struct table_node *n)
{
    free(LIST_ITEM(n, struct route_admission, node));
}

static void free_port(struct table_node *n)
{
    struct route_port *p = LIST_ITEM(n, struct route_port, node);
    free(p->uid);
    free(p);
}

static void free_releasing(struct table_node *n)
{
    struct route_releasing *x = LIST_ITEM(n, struct route_releasing, node);
    rules_unref(x->to);
    free(x);
}

static void free_told(struct table_node *n)
{
    free(LIST_ITEM(n, struct route_told, node));
}

static void free_service(struct table_node *n)
{
    route_service_free(LIST_ITEM(n, struct route_service, node));
}

/* `used`: where that stands, behind the node; it is false from now on. */
static void sweep(struct table *t, ptrdiff_t used, void (*free_node)(struct table_node *n))
{
    struct table_node *next = table_next(t, NULL);
    while (next != NULL) {
        struct table_node *n = next;
        bool *is_used = (bool *)(void *)((char *)n + used);
        next = table_next(t, n);
        if (!*is_used) {
            table_remove(t, n);
            free_node(n);
        } else {
            *is_used = false;
        }
    }
}

#define USED(type) ((ptrdiff_t)offsetof(type, used) - (ptrdiff_t)offsetof(type, node))

void routes_sweep(struct routes *r)
{
    sweep(&r->tracks, USED(struct route_track), free_track);
    sweep(&r->memories, USED(struct route_memory), free_memory);
    sweep(&r->admissions, USED(struct route_admission), free_admission);
    sweep(&r->ports, USED(struct route_port), free_port);
    sweep(&r->services, USED(struct route_service), free_service);
}

static void forget(struct table *t, void (*free_node)(struct table_node *n))
{
    for (struct table_node *n = NULL; (n = table_next(t, NULL)) != NULL;) {
        table_remove(t, n);
        free_node(n);
    }
    table_deinit(t);
}

void routes_forget(struct routes *r)
{
    forget(&r->tracks, free_track);
    forget(&r->memories, free_memory);
    forget(&r->admissions, free_admission);
    forget(&r->ports, free_port);
    forget(&r->services, free_service);
    forget(&r->releasing, free_releasing);
    forget(&r->told, free_told);
}
