/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cache answers: look-ups and metrics.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "cache/shard_cache_internal.h"

/* ---- whether it knows ---- */

bool shard_cache_synced(const struct shard_cache *w)
{
    return w->synced;
}

const char *shard_cache_error(const struct shard_cache *w)
{
    const char *error = shard_cache_configs_error(w);
    error = error != NULL ? error : reflector_error(informer_reflector(w->maps));
    return error != NULL ? error : reflector_error(informer_reflector(w->pods));
}

/* ---- look-ups ---- */

static const struct shard_cache_config *show_config(struct config *c)
{
    c->seen.pod_count = c->shard.pod_count;
    c->seen.pods = c->selector;
    return &c->seen;
}

const struct shard_cache_config *shard_cache_find_config(const struct shard_cache *w,
                                                         const char *key)
{
    struct config *c = find_config(w, key);
    return c == NULL ? NULL : show_config(c);
}

const struct rules_map *shard_cache_find_map(const struct shard_cache *w, const char *key)
{
    const struct map_entry *m = find_map(w, key);
    return m == NULL || m->namespace == NULL ? NULL : m->map;
}

const struct pod *shard_cache_find_pod(const struct shard_cache *w, const char *key)
{
    const struct pod_entry *p = pod_of(informer_find(w->pods, key));
    return p == NULL ? NULL : &p->pod;
}

const struct shard_cache_config *shard_cache_next_config(const struct shard_cache *w,
                                                         const struct shard_cache_config *c)
{
    struct config *next = next_config(w, c == NULL ? NULL : LIST_ITEM(c, struct config, seen));
    return next == NULL ? NULL : show_config(next);
}

const struct shard_cache_config *shard_cache_next_config_in(const struct shard_cache *w,
                                                            const char *ns,
                                                            const struct shard_cache_config *c)
{
    struct config *last = c == NULL ? NULL : LIST_ITEM(c, struct config, seen);
    struct namespace *s = last == NULL ? find_namespace(w, ns) : last->namespace;
    struct list *next = last != NULL ? last->link.next : s != NULL ? s->configs.next : NULL;
    return s == NULL || next == &s->configs ? NULL
                                            : show_config(LIST_ITEM(next, struct config, link));
}

const struct rules_map *shard_cache_next_map(const struct shard_cache *w, const struct rules_map *m)
{
    const struct map_entry *next = m == NULL ? NULL : find_map(w, m->key);
    do {
        next = next_map(w, next);
    } while (next != NULL && next->namespace == NULL);
    return next == NULL ? NULL : next->map;
}

const struct pod *shard_cache_next_pod(const struct shard_cache *w, const struct pod *p)
{
    const struct informer_item *last = p == NULL ? NULL : &entry_of_pod(p)->item;
    const struct pod_entry *next = pod_of(informer_next(w->pods, last));
    return next == NULL ? NULL : &next->pod;
}

static int by_name(const void *a, const void *b)
{
    const struct pod *const *x = a;
    const struct pod *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

const struct pod **shard_cache_pods_of(const struct shard_cache *w,
                                       const struct shard_cache_config *c)
{
    const struct pod_selection_shard *s = &LIST_ITEM(c, struct config, seen)->shard;
    const struct pod **pods = calloc(s->pod_count + 1, sizeof(const struct pod *));
    size_t count = 0;
    (void)w;
    if (pods == NULL) {
        return NULL;
    }
    LIST_FOR_EACH(n, &s->pods)
    {
        pods[count++] = &pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod)->pod;
    }
    qsort(pods, count, sizeof *pods, by_name);
    return pods;
}

const struct pod **shard_cache_injected(const struct shard_cache *w, const char *key, size_t *count)
{
    const struct injected *i = find_injected(w, key);
    const struct pod **pods = calloc(i == NULL ? 1 : i->count, sizeof(const struct pod *));
    *count = 0;
    if (pods == NULL || i == NULL) {
        return pods;
    }
    LIST_FOR_EACH(n, &i->pods)
    {
        pods[(*count)++] = &LIST_ITEM(n, struct pod_entry, injected_link)->pod;
    }
    qsort(pods, *count, sizeof *pods, by_name);
    return pods;
}

static size_t list_length(const struct list *head)
{
    size_t n = 0;
    LIST_FOR_EACH(item, head)
    {
        n++;
    }
    return n;
}

/* Not of a root, which has no pods and no rules. */
static bool is_of_shard(const struct shard_cache *w, const char *key)
{
    const struct config *c = find_config(w, key);
    return c != NULL && !c->seen.root;
}

const char **shard_cache_gone_in(const struct shard_cache *w, const char *ns, size_t *count)
{
    const struct namespace *s = find_namespace(w, ns);
    size_t room = s == NULL ? 0 : list_length(&s->injected) + list_length(&s->maps);
    const char **keys = calloc(room + 1, sizeof *keys);
    *count = 0;
    if (keys == NULL || s == NULL) {
        return keys;
    }
    LIST_FOR_EACH(n, &s->injected)
    {
        const struct injected *i = LIST_ITEM(n, struct injected, link);
        if (!is_of_shard(w, i->key)) {
            keys[(*count)++] = i->key;
        }
    }
    LIST_FOR_EACH(n, &s->maps)
    {
        const char *key = LIST_ITEM(n, struct map_entry, link)->map->key;
        if (!is_of_shard(w, key) && find_injected(w, key) == NULL) {
            keys[(*count)++] = key;
        }
    }
    return keys;
}

const struct pod *shard_cache_next_pod_in(const struct shard_cache *w, const char *ns,
                                          const struct pod *p)
{
    const struct pod_entry *last = p == NULL ? NULL : entry_of_pod(p);
    const struct namespace *s = last == NULL ? find_namespace(w, ns) : last->namespace;
    const struct list *next = last != NULL ? last->link.next : s != NULL ? s->pods.next : NULL;
    return s == NULL || next == &s->pods ? NULL : &LIST_ITEM(next, struct pod_entry, link)->pod;
}

const struct pod *shard_cache_shared_pod(const struct shard_cache *w, const char *ns,
                                         const struct selector *s,
                                         const struct shard_cache_config *but,
                                         const struct shard_cache_config **other)
{
    for (const struct pod *p = NULL; (p = shard_cache_next_pod_in(w, ns, p)) != NULL;) {
        *other = pod_selected(p, s) ? shard_cache_shard_of(w, p, but) : NULL;
        if (*other != NULL) {
            return p;
        }
    }
    return NULL;
}

size_t shard_cache_shard_count(const struct shard_cache *w, const struct pod *p)
{
    (void)w;
    return entry_of_pod(p)->member.shard_count;
}

const struct shard_cache_config *shard_cache_shard_of(const struct shard_cache *w,
                                                      const struct pod *p,
                                                      const struct shard_cache_config *but)
{
    (void)w;
    const struct shard_cache_config *best = NULL;
    const struct pod_selection_pod *member = &entry_of_pod(p)->member;
    LIST_FOR_EACH(n, &member->shards)
    {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        if (&c->seen != but && (best == NULL || strcmp(c->seen.name, best->name) < 0)) {
            best = show_config(c);
        }
    }
    return best;
}

size_t shard_cache_shards_of(const struct shard_cache *w, const struct pod *p,
                             const struct shard_cache_config **out, size_t room)
{
    (void)w;
    const struct pod_selection_pod *member = &entry_of_pod(p)->member;
    size_t count = 0;
    for (struct list *n = member->shards.next; n != &member->shards && count < room; n = n->next) {
        out[count++] = show_config(config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard));
    }
    return count;
}

/* ---- metrics ---- */

static uint64_t lists(const struct reflector_stats *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < REFLECTOR_REASONS; i++) {
        sum += s->lists[i];
    }
    return sum;
}

static uint64_t watches(const struct reflector_stats *s)
{
    return s->watches;
}

static uint64_t events(const struct reflector_stats *s)
{
    return s->events;
}

static uint64_t failures(const struct reflector_stats *s)
{
    return s->failures;
}

static void write_counts(const struct shard_cache *w, struct buf *out)
{
    static const struct {
        const char *name;
        const char *help;
        uint64_t (*value)(const struct reflector_stats *s);
    } counters[] = {
        {"cmesh_manager_lists_total", "Lists that the manager's cache started, by collection.",
         lists},
        {"cmesh_manager_watches_total", "Watches that the manager's cache opened, by collection.",
         watches},
        {"cmesh_manager_watch_events_total",
         "Watch events that the manager's cache received, by collection.", events},
        {"cmesh_manager_follow_failures_total",
         "Lists and watches of the manager's cache that failed, by collection.", failures},
    };
    const struct {
        const char *name;
        const struct informer *informer;
    } collections[] = {
        {SHARD_CACHE_RESOURCE, w->configs}, {"configmaps", w->maps}, {"pods", w->pods}};
    for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
        prometheus_head(out, counters[i].name, "counter", counters[i].help);
        for (size_t k = 0; k < ARRAY_LEN(collections); k++) {
            const struct reflector *r = informer_reflector(collections[k].informer);
            buf_printf(out, "%s{collection=\"%s\"} %llu\n", counters[i].name, collections[k].name,
                       (unsigned long long)counters[i].value(reflector_stats(r)));
        }
    }
}

int shard_cache_metrics(const struct shard_cache *w, struct buf *out)
{
    const struct prometheus_metric gauges[] = {
        {"cmesh_manager_known_shardingconfigs", "gauge",
         "ShardingConfigs in the manager's cache, roots included.", informer_size(w->configs)},
        {"cmesh_manager_known_configmaps", "gauge", "ConfigMaps with rules in the manager's cache.",
         informer_size(w->maps)},
        {"cmesh_manager_known_pods", "gauge", "Pods in the manager's cache.",
         informer_size(w->pods)},
        {"cmesh_manager_known_namespaces", "gauge",
         "Namespaces with pods, ShardingConfigs or their rules in the manager's cache.",
         w->namespaces.count},
        {"cmesh_manager_shards_memory_bytes", "gauge",
         "Memory that the limits and rules of all shards take, of --shards-memory.",
         shard_cache_memory(w)},
        {"cmesh_manager_shards_given_up", "gauge",
         "ShardingConfigs that are refused, for there is no memory for their limits.",
         shard_cache_given_up(w)},
        {"cmesh_manager_synced", "gauge", "1 once the manager's cache has synced, 0 before.",
         shard_cache_synced(w)},
        {"cmesh_manager_following", "gauge",
         "1 while the manager's lists and watches work, 0 while one of them fails.",
         shard_cache_error(w) == NULL},
    };
    prometheus_write(out, gauges, ARRAY_LEN(gauges));
    write_counts(w, out);
    return buf_error(out);
}
