/* SPDX-License-Identifier: Apache-2.0 */
#include "root/targets.h"

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
    struct targets *targets;
    struct informer *informer; /* NULL: it has no place */
    size_t holders;
    size_t needers; /* of them */
    const char *ns;
    char key[]; /* "kind/name/namespace": the last one is what `ns` points to */
};

struct workload {
    struct informer_item item;
    int replicas;
    unsigned first;
    bool rolled;
    bool available;
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

static void tell(const struct target_watch *e)
{
    e->targets->options.on_change(e->targets->options.data, e->ns);
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

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *n = field_get(object, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

/* As `kubectl rollout status` judges it; terminating pods are reported by Kubernetes 1.33 and
 * later, and the cache of pods shows them in any case. */
static bool is_rolled(const cJSON *deployment, int replicas)
{
    const cJSON *status = field_get(deployment, "status");
    return number_of(status, "observedGeneration") >= (double)field_generation(deployment) &&
           number_of(status, "updatedReplicas") == replicas &&
           number_of(status, "replicas") == replicas &&
           number_of(status, "terminatingReplicas") == 0;
}

static struct workload *workload_of(struct informer_item *item)
{
    return item == NULL ? NULL : LIST_ITEM(item, struct workload, item);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct workload *w = *item == NULL ? informer_item_new(sizeof *w, key) : workload_of(*item);
    (void)data;
    const struct workload before = *w;
    w->replicas = replicas_of(object);
    w->first = root_first_ordinal(object);
    w->rolled = is_rolled(object, w->replicas);
    w->available = w->rolled && number_of(field_get(object, "status"), "availableReplicas") >=
                                    (double)w->replicas;
    *item = &w->item;
    return before.replicas != w->replicas || before.first != w->first ||
           before.rolled != w->rolled || before.available != w->available;
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

#define KIND(path_)                                                                                \
    {                                                                                              \
        .path = (path_), .keep = keep, .on_change = on_change, .on_synced = on_synced,             \
        .on_state = on_state                                                                       \
    }
static const struct informer_kind stateful_sets = KIND("/apis/apps/v1/statefulsets");
static const struct informer_kind deployments = KIND("/apis/apps/v1/deployments");

/* ---- following ---- */

static void drop(struct targets *t, struct target_watch *e)
{
    informer_free(e->informer);
    table_remove(&t->entries, &e->node);
    free(e);
}

static void follow(struct target_watch *e, const struct target_name *name)
{
    const struct informer_options o = {.client = e->targets->options.client,
                                       .namespace = e->ns,
                                       .name = name->name,
                                       .effect = "roots do not follow its replicas",
                                       .ops = e->targets->options.ops};
    const struct informer_kind *kind = name->deployment ? &deployments : &stateful_sets;
    e->informer = informer_new(e->targets->loop, kind, &o, e);
}

static struct target state_of(const struct target_watch *e)
{
    struct target out = {.state = TARGET_OVER};
    if (e->informer == NULL) {
        return out;
    }
    const struct workload *w = workload_of(informer_next(e->informer, NULL));
    const char *error = reflector_error(informer_reflector(e->informer));
    if (error != NULL) {
        out.state = TARGET_UNKNOWN;
        (void)snprintf(out.error, sizeof out.error, "%s", error);
    } else if (!informer_synced(e->informer)) {
        out.state = TARGET_ASKED;
    } else if (w == NULL) {
        out.state = TARGET_ABSENT;
    } else {
        out.state = TARGET_FOUND;
        out.replicas = w->replicas;
        out.first = w->first;
        out.rolled = w->rolled;
        out.available = w->available;
    }
    return out;
}

/* ---- places ---- */

/* Those that are taken, of one namespace or, NULL, of all; and *idle, one that nobody needs. */
static size_t count_places(const struct targets *t, const char *ns, struct target_watch **idle)
{
    size_t count = 0;
    *idle = NULL;
    for (struct table_node *n = NULL; (n = table_next(&t->entries, n)) != NULL;) {
        struct target_watch *e = watch_of(n);
        bool counts = e->informer != NULL && (ns == NULL || strcmp(e->ns, ns) == 0);
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
static bool make_room(const struct targets *t, const char *ns, size_t max, bool needed)
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
static void take_place(struct targets *t, struct target_watch *e, const struct target_name *name)
{
    size_t part = t->options.max > TARGETS_PART ? t->options.max / TARGETS_PART : 1;
    bool needed = e->needers > 0;
    if (e->informer == NULL && make_room(t, e->ns, part, needed) &&
        make_room(t, NULL, t->options.max, needed)) {
        follow(e, name);
    }
}

/* ---- holding ---- */

static void release(struct targets *t, const struct target_hold *h)
{
    struct target_watch *e = h->watch;
    if (e != NULL) {
        e->needers -= h->needed;
        if (--e->holders == 0) {
            drop(t, e);
        }
    }
}

static struct target_watch *provide(struct targets *t, const char *ns,
                                    const struct target_name *name)
{
    char *key =
        xasprintf("%s/%s/%s", name->deployment ? "deployments" : "statefulsets", name->name, ns);
    struct target_watch *e =
        xptr(TABLE_PROVIDE(&t->entries, slice_str(key), struct target_watch, key));
    e->targets = t;
    e->ns = strrchr(e->key, '/') + 1;
    free(key);
    return e;
}

struct target targets_hold(struct targets *t, struct target_hold *h, const char *ns,
                           const struct target_name *name, bool needed)
{
    const struct target_hold old = *h;
    struct target_watch *e = provide(t, ns, name);
    *h = (struct target_hold){.watch = e, .needed = needed};
    e->holders++;
    e->needers += needed;
    release(t, &old); /* it stays, if it is the same */
    take_place(t, e, name);
    return state_of(e);
}

void targets_leave(struct targets *t, struct target_hold *h)
{
    release(t, h);
    *h = (struct target_hold){.watch = NULL};
}

/* ---- life ---- */

struct targets *targets_new(struct net_loop *l, const struct targets_options *o)
{
    struct targets *t = xcalloc(1, sizeof *t);
    t->loop = l;
    t->options = *o;
    t->options.max = o->max != 0 ? o->max : TARGETS_MAX;
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
