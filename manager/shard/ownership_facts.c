/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/ownership_facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/xalloc.h"
#include "compile/compile.h"
#include "inject/inject_options.h"
#include "object/names.h"
#include "object/root_child.h"
#include "ownership/operator.h"
#include "json/field.h"

/* ---- shards ---- */

static const char *text_of(const struct shard_cache_config *config, const char *map,
                           const char *key)
{
    return field_text(field_get(field_get(config->object, "metadata"), map), key);
}

static const char *lock_of(const struct shard_cache_config *config)
{
    const cJSON *spec = field_get(config->object, "spec");
    return field_text(field_get(spec, "controller"), COMPILE_LOCK_NAME);
}

static void add_shard(struct ownership_gathering *g, const struct controller *c, const char *key)
{
    const struct shard_cache_config *config = shard_cache_find_config(c->options.cache, key);
    struct shard *s = controller_find_shard(c, key);
    const struct rules_map *map =
        s == NULL ? shard_cache_find_map(c->options.cache, key) : shard_map(s);
    struct ownership_shard *o = &g->shards[g->facts.shard_count];
    *o = (struct ownership_shard){.key = key};
    if (config != NULL && config->root) {
        o->root = config->name;
    } else if (config != NULL) {
        o->exists = true;
        o->spec = shard_spec_hash(config);
        o->lock = lock_of(config);
        o->root = text_of(config, "labels", g->root);
        o->shares_with = text_of(config, "annotations", g->shares_with);
        o->selector = config->pods;
        o->wanted = s == NULL ? NULL : s->compiled;
    }
    o->map = map != NULL && shard_owns_map(s, config, map) ? map : NULL;
    o->past = s == NULL ? NULL : &s->past;
    o->pods = controller_own_pods(c, key, &o->pod_count);
    g->facts.shard_count++;
}

static void add_shards(struct ownership_gathering *g, const struct controller *c,
                       const struct shard_cache_config *self)
{
    const struct shard_cache *w = c->options.cache;
    const struct shard_cache_config *o = NULL;
    size_t gone = 0;
    size_t configs = 0;
    const char **keys = shard_cache_gone_in(w, self->ns, &gone);
    while ((o = shard_cache_next_config_in(w, self->ns, o)) != NULL) {
        configs++;
    }
    g->shards = xcalloc(configs + gone, sizeof *g->shards);
    g->facts.shards = g->shards;
    while ((o = shard_cache_next_config_in(w, self->ns, o)) != NULL) {
        g->self = o == self ? &g->shards[g->facts.shard_count] : g->self;
        if (!o->root) {
            add_shard(g, c, o->key);
        }
    }
    for (size_t i = 0; i < gone; i++) {
        add_shard(g, c, keys[i]);
    }
    free(keys);
}

/* ---- pods whose rules nobody knows ---- */

/* It has no sidecar, or does not say of which shard they are, and no shard or more than one selects
 * it. */
static bool is_bare(const struct pod *p)
{
    return !p->over && !p->let_go &&
           (p->proxy_port == 0 || (p->injected[0] == '\0' && shard_cache_shard_count(p) != 1));
}

static int compare_keys(const void *a, const void *b)
{
    const struct ownership_shard *const *x = a;
    const struct ownership_shard *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static void sort_shards(struct ownership_gathering *g)
{
    size_t count = g->facts.shard_count;
    if (g->by_key != NULL) {
        return;
    }
    g->by_key = xcalloc(count, sizeof *g->by_key);
    for (size_t i = 0; i < count; i++) {
        g->by_key[i] = &g->shards[i];
    }
    qsort(g->by_key, count, sizeof *g->by_key, compare_keys);
}

/* There may be as many such pods as shards. */
static void find_selecting(struct ownership_gathering *g, struct ownership_bare_pod *p)
{
    const struct shard_cache_config *configs[ARRAY_LEN(p->selected_by)];
    size_t count = shard_cache_shards_of(p->pod, configs, ARRAY_LEN(configs));
    if (count > 0) {
        sort_shards(g);
    }
    for (size_t i = 0; i < count; i++) {
        const struct ownership_shard like = {.key = configs[i]->key};
        const struct ownership_shard *wanted = &like;
        const struct ownership_shard **found =
            bsearch(&wanted, g->by_key, g->facts.shard_count, sizeof *g->by_key, compare_keys);
        if (found != NULL) { /* it is no root */
            p->selected_by[p->selected_count++] = *found;
        }
    }
}

void deployment_roots_find(struct deployment_roots *r, const struct shard_cache *w, const char *ns)
{
    const struct shard_cache_config *o = NULL;
    size_t room = 0;
    *r = (struct deployment_roots){.count = 0};
    while ((o = shard_cache_next_config_in(w, ns, o)) != NULL) {
        if (o->root && root_child_deployment(o->object)[0] != '\0') {
            r->items = xptr(grow_array(r->items, r->count, &room, sizeof(void *)));
            r->items[r->count++] = o;
        }
    }
}

const struct shard_cache_config *deployment_roots_of(const struct deployment_roots *r,
                                                     const struct pod *p)
{
    const char *hash = r->count == 0 ? NULL : pod_label(p, "pod-template-hash");
    bool bare = p->proxy_port == 0 && hash != NULL && shard_cache_shard_count(p) == 0;
    for (size_t i = 0; bare && i < r->count; i++) {
        if (root_child_deploys(r->items[i]->object, p->name, hash)) {
            return r->items[i];
        }
    }
    return NULL;
}

void deployment_roots_deinit(struct deployment_roots *r)
{
    free(r->items);
}

/* As if they selected it. */
static void find_children(struct ownership_gathering *g, const struct deployment_roots *roots,
                          struct ownership_bare_pod *p)
{
    const struct shard_cache_config *root = deployment_roots_of(roots, p->pod);
    for (size_t i = 0; root != NULL && i < g->facts.shard_count; i++) {
        const struct ownership_shard *s = &g->shards[i];
        bool child = s->exists && s->root != NULL && strcmp(s->root, root->name) == 0;
        if (child && p->selected_count < ARRAY_LEN(p->selected_by)) {
            p->selected_by[p->selected_count++] = s;
        }
    }
}

/* Only those of the operator: there may be any number of others. */
static void add_bare_pods(struct ownership_gathering *g, const struct shard_cache *w,
                          const char *ns)
{
    size_t room = 0;
    struct deployment_roots roots;
    deployment_roots_find(&roots, w, ns);
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(w, ns, p)) != NULL;) {
        struct ownership_bare_pod bare = {.pod = p};
        if (!is_bare(p)) {
            continue;
        }
        find_selecting(g, &bare);
        find_children(g, &roots, &bare);
        if (operator_has_bare_pod(g->self, &bare)) {
            g->bare = xptr(grow_array(g->bare, g->facts.bare_count, &room, sizeof bare));
            g->bare[g->facts.bare_count++] = bare;
        }
    }
    g->facts.bare = g->bare;
    deployment_roots_deinit(&roots);
}

/* ---- all of it ---- */

static bool gain(void *data, const struct rules *from, const struct rules *to,
                 const struct rules *others)
{
    return gain_cache_ask(data, from, to, others);
}

void ownership_facts_gather(struct shard *s, const struct shard_cache_config *config,
                            struct ownership_gathering *out)
{
    const struct controller *c = s->controller;
    *out = (struct ownership_gathering){
        .facts = {.mode = c->options.handover, .gain = gain, .gain_data = c->gains}};
    (void)names_key(c->options.prefix, SHARDING_SHARES_WITH, out->shares_with);
    (void)names_key(c->options.prefix, ROOT_LABEL, out->root);
    add_shards(out, c, config);
    add_bare_pods(out, c->options.cache, config->ns);
    out->waits = xcalloc(ownership_room(&out->facts), sizeof *out->waits);
}

void ownership_facts_deinit(struct ownership_gathering *g)
{
    for (size_t i = 0; i < g->facts.shard_count; i++) {
        free((void *)g->shards[i].pods);
    }
    free(g->shards);
    free(g->bare);
    free(g->by_key);
    free(g->waits);
}
