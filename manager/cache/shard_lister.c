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
    const char *error = informer_error(&w->configs_informer);
    error = error != NULL ? error : informer_error(&w->maps_informer);
    return error != NULL ? error : informer_error(&w->pods_informer);
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
    const struct pod_entry *p = find_pod(w, key);
    return p == NULL ? NULL : p->pod;
}

const struct shard_cache_config *shard_cache_next_config(const struct shard_cache *w,
                                                         const struct shard_cache_config *c)
{
    struct table_node *n = c == NULL ? NULL : &LIST_ITEM(c, struct config, seen)->node;
    n = table_next(&w->configs, n);
    return n == NULL ? NULL : show_config(LIST_ITEM(n, struct config, node));
}

const struct shard_cache_config *shard_cache_next_config_in(const struct shard_cache *w,
                                                            const char *ns,
                                                            const struct shard_cache_config *c)
{
    struct table_node *node = c == NULL ? table_find(&w->namespaces, ns) : NULL;
    if (c == NULL && node == NULL) {
        return NULL;
    }
    struct config *last = c == NULL ? NULL : LIST_ITEM(c, struct config, seen);
    struct namespace *s = last == NULL ? LIST_ITEM(node, struct namespace, node) : last->namespace;
    struct list *next = last == NULL ? s->configs.next : last->link.next;
    return next == &s->configs ? NULL : show_config(LIST_ITEM(next, struct config, link));
}

const struct rules_map *shard_cache_next_map(const struct shard_cache *w, const struct rules_map *m)
{
    struct table_node *n = m == NULL ? NULL : &find_map(w, m->key)->node;
    do {
        n = table_next(&w->maps, n);
    } while (n != NULL && LIST_ITEM(n, struct map_entry, node)->namespace == NULL);
    return n == NULL ? NULL : LIST_ITEM(n, struct map_entry, node)->map;
}

const struct rules_map *shard_cache_next_map_in(const struct shard_cache *w, const char *ns,
                                                const struct rules_map *m)
{
    struct table_node *node = m == NULL ? table_find(&w->namespaces, ns) : NULL;
    if (m == NULL && node == NULL) {
        return NULL;
    }
    const struct map_entry *last = m == NULL ? NULL : find_map(w, m->key);
    const struct namespace *s =
        last == NULL ? LIST_ITEM(node, struct namespace, node) : last->namespace;
    const struct list *next = last == NULL ? s->maps.next : last->link.next;
    return next == &s->maps ? NULL : LIST_ITEM(next, struct map_entry, link)->map;
}

const struct pod *shard_cache_next_pod(const struct shard_cache *w, const struct pod *p)
{
    struct table_node *n = p == NULL ? NULL : &find_pod(w, p->key)->node;
    n = table_next(&w->pods, n);
    return n == NULL ? NULL : LIST_ITEM(n, struct pod_entry, node)->pod;
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
        pods[count++] = pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod)->pod;
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
        pods[(*count)++] = LIST_ITEM(n, struct pod_entry, injected_link)->pod;
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
    struct table_node *node = table_find(&w->namespaces, ns);
    struct namespace *s = node == NULL ? NULL : LIST_ITEM(node, struct namespace, node);
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
    struct table_node *node = p == NULL ? table_find(&w->namespaces, ns) : NULL;
    const struct pod_entry *last = p == NULL ? NULL : find_pod(w, p->key);
    if (last == NULL && node == NULL) {
        return NULL;
    }
    const struct namespace *s =
        last == NULL ? LIST_ITEM(node, struct namespace, node) : last->namespace;
    struct list *next = last == NULL ? s->pods.next : last->link.next;
    return next == &s->pods ? NULL : LIST_ITEM(next, struct pod_entry, link)->pod;
}

/* Of those that select the pod one other than `but`; NULL: none. */
static const struct shard_cache_config *other_shard(const struct pod_entry *p,
                                                    const struct shard_cache_config *but)
{
    LIST_FOR_EACH(n, &p->member.shards)
    {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        if (&c->seen != but) {
            return show_config(c);
        }
    }
    return NULL;
}

const struct pod *shard_cache_shared_pod(const struct shard_cache *w, const char *ns,
                                         const struct selector *s,
                                         const struct shard_cache_config *but,
                                         const struct shard_cache_config **other)
{
    struct table_node *node = table_find(&w->namespaces, ns);
    if (node == NULL) {
        return NULL;
    }
    LIST_FOR_EACH(n, &LIST_ITEM(node, struct namespace, node)->pods)
    {
        const struct pod_entry *p = LIST_ITEM(n, struct pod_entry, link);
        *other = pod_selected(p->pod, s) ? other_shard(p, but) : NULL;
        if (*other != NULL) {
            return p->pod;
        }
    }
    return NULL;
}

size_t shard_cache_shard_count(const struct shard_cache *w, const struct pod *p)
{
    return find_pod(w, p->key)->member.shard_count;
}

const struct shard_cache_config *shard_cache_shard_of(const struct shard_cache *w,
                                                      const struct pod *p,
                                                      const struct shard_cache_config *but)
{
    const struct shard_cache_config *best = NULL;
    const struct pod_selection_pod *member = &find_pod(w, p->key)->member;
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
    const struct pod_selection_pod *member = &find_pod(w, p->key)->member;
    size_t count = 0;
    for (struct list *n = member->shards.next; n != &member->shards && count < room; n = n->next) {
        out[count++] = show_config(config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard));
    }
    return count;
}

/* ---- metrics ---- */

static void count_all(const struct shard_cache *w,
                      struct informer_counts counts[SHARD_CACHE_COLLECTIONS])
{
    memcpy(counts, w->past, sizeof w->past);
    informer_count(&counts[SHARD_CACHE_OF_CONFIGS], &w->configs_informer);
    informer_count(&counts[SHARD_CACHE_OF_MAPS], &w->maps_informer);
    informer_count(&counts[SHARD_CACHE_OF_PODS], &w->pods_informer);
}

static void write_counts(struct buf *out, const char *name, const char *help,
                         const uint64_t values[SHARD_CACHE_COLLECTIONS])
{
    prometheus_head(out, name, "counter", help);
    for (size_t i = 0; i < SHARD_CACHE_COLLECTIONS; i++) {
        buf_printf(out, "%s{collection=\"%s\"} %llu\n", name,
                   shard_cache_collection_text((enum shard_cache_collection)i),
                   (unsigned long long)values[i]);
    }
}

int shard_cache_metrics(const struct shard_cache *w, struct buf *out)
{
    struct informer_counts counts[SHARD_CACHE_COLLECTIONS];
    uint64_t lists[SHARD_CACHE_COLLECTIONS];
    uint64_t watches[SHARD_CACHE_COLLECTIONS];
    uint64_t events[SHARD_CACHE_COLLECTIONS];
    uint64_t failures[SHARD_CACHE_COLLECTIONS];
    const struct prometheus_metric gauges[] = {
        {"cmesh_manager_known_shardingconfigs", "gauge",
         "ShardingConfigs in the manager's cache, roots included.", w->configs.count},
        {"cmesh_manager_known_configmaps", "gauge", "ConfigMaps with rules in the manager's cache.",
         w->maps.count},
        {"cmesh_manager_known_pods", "gauge", "Pods in the manager's cache.", w->pods.count},
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
    count_all(w, counts);
    for (size_t i = 0; i < SHARD_CACHE_COLLECTIONS; i++) {
        lists[i] = counts[i].lists;
        watches[i] = counts[i].watches;
        events[i] = counts[i].events;
        failures[i] = counts[i].failures;
    }
    prometheus_write(out, gauges, ARRAY_LEN(gauges));
    write_counts(out, "cmesh_manager_lists_total",
                 "Lists that the manager's cache started, by collection.", lists);
    write_counts(out, "cmesh_manager_watches_total",
                 "Watches that the manager's cache opened, by collection.", watches);
    write_counts(out, "cmesh_manager_watch_events_total",
                 "Watch events that the manager's cache received, by collection.", events);
    write_counts(out, "cmesh_manager_follow_failures_total",
                 "Lists and watches of the manager's cache that failed, by collection.", failures);
    return buf_error(out);
}
