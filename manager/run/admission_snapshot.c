/* SPDX-License-Identifier: Apache-2.0 */
#include "run/admission_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static size_t count_configs(const struct shard_cache *cache, const char *ns)
{
    size_t count = 0;
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config_in(cache, ns, c)) != NULL;) {
        count++;
    }
    return count;
}

static void add_shards(struct admission_snapshot *o, const char *ns, struct validate_context *w)
{
    size_t room = count_configs(o->cache, ns) + 1;
    size_t n = 0;
    o->configs = xcalloc(room, sizeof(const struct shard_cache_config *));
    o->items = xcalloc(room, sizeof *o->items);
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config_in(o->cache, ns, c)) != NULL;) {
        o->configs[n] = c;
        o->items[n++] = (struct shards_item){.config = c->object,
                                             .ns = c->ns,
                                             .name = c->name,
                                             .root = c->root,
                                             .pods = c->pods,
                                             .sized_ms = c->sized_ms};
    }
    w->shards = (struct shards_list){.items = o->items, .count = n};
}

static const char *shared_pod(const void *data, const char *ns, const char *name,
                              const struct selector *s, const char **other)
{
    const struct admission_snapshot *o = data;
    const struct shard_cache_config *found = NULL;
    const struct shard_cache_config *but = NULL;
    for (const struct shard_cache_config *c = NULL;
         (c = shard_cache_next_config_in(o->cache, ns, c)) != NULL;) {
        but = strcmp(c->name, name) == 0 ? c : but;
    }
    const struct pod *pod = shard_cache_shared_pod(o->cache, ns, s, but, &found);
    if (pod == NULL) {
        return NULL;
    }
    *other = found->name;
    return pod->name;
}

struct asked_pods {
    assigner_pod_cb cb;
    void *arg;
};

static void give_pod(void *data, const struct pod *p)
{
    const struct asked_pods *asked = data;
    const struct assigner_pod pod = {
        .owner = p->owner, .place = p->place, .lives = !p->ending && !p->over};
    asked->cb(asked->arg, &pod);
}

void admission_snapshot_pods(const struct admission_snapshot *o, size_t shard, assigner_pod_cb cb,
                             void *arg)
{
    struct asked_pods asked = {.cb = cb, .arg = arg};
    shard_cache_each_pod_of(o->configs[shard], give_pod, &asked);
}

static struct rules *rules_of(const void *data, size_t number)
{
    const struct admission_snapshot *o = data;
    return shard_cache_rules(o->cache, o->configs[number], o->compile, NULL);
}

/* ---- resources ---- */

void admission_snapshot_undiscovered(struct admission_snapshot *o)
{
    free(o->resources);
    free(o->unlabelled);
    o->resources = NULL;
    o->unlabelled = NULL;
    o->resource_count = 0;
    o->unlabelled_count = 0;
}

static bool is_labelled(const struct discovery_resource *r,
                        const struct sharding_resource *labelled, size_t count)
{
    bool found = strcmp(r->plural, "namespaces") == 0 && r->group[0] == '\0';
    for (size_t i = 0; i < count && !found; i++) {
        found =
            strcmp(r->plural, labelled[i].plural) == 0 && strcmp(r->group, labelled[i].group) == 0;
    }
    return found;
}

static const char *copy_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

/* The texts stand behind the array. */
static struct validate_resource *copy_resources(const struct discovery_resource *all, size_t count)
{
    size_t texts = 1;
    for (size_t i = 0; i < count; i++) {
        texts += strlen(all[i].group) + strlen(all[i].plural) + 2;
    }
    struct validate_resource *copy = xmalloc(count * sizeof *copy + texts);
    char *at = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        copy[i].group = copy_text(&at, all[i].group);
        copy[i].resource = copy_text(&at, all[i].plural);
    }
    return copy;
}

void admission_snapshot_discovered(struct admission_snapshot *o,
                                   const struct sharding_resource *labelled, size_t count)
{
    size_t all_count;
    const struct discovery_resource *all = discovery_all(o->discovery, &all_count);
    admission_snapshot_undiscovered(o);
    o->resources = copy_resources(all, all_count);
    o->unlabelled = xcalloc(all_count + 1, sizeof *o->unlabelled);
    o->resource_count = all_count;
    for (size_t i = 0; i < all_count; i++) {
        const struct discovery_resource *r = &all[i];
        if (r->preferred && (r->verbs & DISCOVERY_LIST) != 0 && !is_labelled(r, labelled, count)) {
            o->unlabelled[o->unlabelled_count++] = (struct never_labelled){
                .group = o->resources[i].group, .resource = o->resources[i].resource};
        }
    }
}

/* ---- all ---- */

static void forget_shards(struct admission_snapshot *o)
{
    free(o->configs);
    free(o->items);
    o->configs = NULL;
    o->items = NULL;
}

int admission_snapshot_look(struct admission_snapshot *o, const char *ns,
                            struct validate_context *w, struct err *e)
{
    forget_shards(o);
    *w = (struct validate_context){.shared_pod = shared_pod, .rules_of = rules_of, .data = o};
    if (!shard_cache_synced(o->cache)) {
        const char *why = shard_cache_error(o->cache);
        return err_set(e, -EAGAIN, "ShardingConfigs and pods have not been listed yet%s%s",
                       why == NULL ? "" : ": ", why == NULL ? "" : why);
    }
    w->resources = o->resources;
    w->resource_count = o->resource_count;
    w->unlabelled = o->unlabelled;
    w->unlabelled_count = o->unlabelled_count;
    w->shared = shard_cache_shared(o->cache);
    add_shards(o, ns, w);
    return 0;
}

void admission_snapshot_deinit(struct admission_snapshot *o)
{
    forget_shards(o);
    admission_snapshot_undiscovered(o);
}
