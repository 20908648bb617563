/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/shard_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "cache/shard_cache_internal.h"
#include "inject/inject_options.h"
#include "object/names.h"

/* ---- telling ---- */

/* The next one to be told; NULL: all were. One that goes meanwhile is left out. */
static const struct shard_cache_listener *next_listener(struct shard_cache *w)
{
    struct list *n = w->next_listener;
    if (n == &w->listeners) {
        return NULL;
    }
    w->next_listener = n->next;
    return LIST_ITEM(n, struct shard_cache_listener, link);
}

static const struct shard_cache_listener *first_listener(struct shard_cache *w)
{
    w->next_listener = w->listeners.next;
    return next_listener(w);
}

/* `arguments` in parentheses, `listener->data` first. */
#define TELL(w, handler, arguments)                                                                \
    do {                                                                                           \
        const struct shard_cache_listener *listener = first_listener(w);                           \
        for (; listener != NULL; listener = next_listener(w)) {                                    \
            if (listener->handlers->handler != NULL) {                                             \
                listener->handlers->handler arguments;                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

void shard_cache_tell_shard(struct shard_cache *w, const char *key, enum shard_cache_part part)
{
    TELL(w, on_shard, (listener->data, key, part));
}

void shard_cache_tell_pod(struct shard_cache *w, const struct pod *pod, bool gone)
{
    TELL(w, on_pod, (listener->data, pod, gone));
}

void shard_cache_tell_excess(struct shard_cache *w, const char *ns)
{
    TELL(w, on_excess, (listener->data, ns));
}

void shard_cache_tell_shards_of(struct shard_cache *w, const struct pod_entry *p)
{
    LIST_FOR_EACH(n, &p->member.shards)
    {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        shard_cache_tell_shard(w, c->seen.key, SHARD_CACHE_PODS);
    }
    if (p->pod.shard[0] != '\0') {
        shard_cache_tell_shard(w, p->pod.shard, SHARD_CACHE_PODS);
    }
}

void shard_cache_tell_ready(struct shard_cache *w)
{
    bool all = informer_synced(w->configs) && informer_synced(w->maps) && informer_synced(w->pods);
    if (all && !w->synced) {
        w->synced = true;
        TELL(w, on_ready, (listener->data));
    }
}

void shard_cache_tell_shared(struct shard_cache *w)
{
    TELL(w, on_shared, (listener->data, &w->shared));
}

/* ---- namespaces ---- */

struct namespace *shard_cache_provide_namespace(struct shard_cache *w, const char *ns)
{
    struct namespace *s =
        xptr(TABLE_PROVIDE(&w->namespaces, slice_str(ns), struct namespace, name));
    if (s->configs.next == NULL) {
        list_init(&s->configs);
        list_init(&s->maps);
        list_init(&s->injected);
        list_init(&s->pods);
        pod_selection_init(&s->members);
    }
    return s;
}

void shard_cache_leave_namespace(struct shard_cache *w, const struct namespace *s)
{
    if (list_empty(&s->configs) && list_empty(&s->maps) && list_empty(&s->pods)) {
        shard_cache_trim(w);
    }
}

/* ---- life ---- */

static void set_keys(struct shard_cache *w)
{
    w->keys = (struct pod_keys){
        .generation = names_key(w->prefix, POD_GENERATION, w->key_texts[0]),
        .traffic = names_key(w->prefix, POD_TRAFFIC, w->key_texts[1]),
        .injected = names_key(w->prefix, SIDECAR_INJECTED, w->key_texts[2]),
        .allow_bypass = names_key(w->prefix, SIDECAR_ALLOW_BYPASS, w->key_texts[3]),
        .let_go = names_key(w->prefix, POD_LET_GO, w->key_texts[4]),
        .place = names_key(w->prefix, POD_PLACE, w->key_texts[5]),
    };
}

static void follow(struct shard_cache *w, const struct shard_cache_options *o)
{
    char key[NAMES_KEY_SIZE];
    char label[NAMES_KEY_SIZE + sizeof "=true"];
    struct informer_options io = {.client = o->client, .namespace = o->namespace, .ops = o->ops};
    (void)snprintf(label, sizeof label, "%s=true", names_key(w->prefix, RULES_MAP_LABEL, key));
    w->configs = informer_new(w->loop, &shard_cache_config_kind, &io, w);
    io.held = true;
    w->pods = informer_new(w->loop, &shard_cache_pod_kind, &io, w);
    io.label_selector = label;
    w->maps = informer_new(w->loop, &shard_cache_map_kind, &io, w);
}

struct shard_cache *shard_cache_new(struct net_loop *l, const struct shard_cache_options *o)
{
    struct shard_cache *w = xcalloc(1, sizeof *w);
    w->keepers = 1;
    w->loop = l;
    w->ops = o->ops;
    w->clock = o->clock != NULL ? o->clock : &net_clock_system;
    w->shareable = o->shareable;
    w->shared.unknown = true;
    list_init(&w->listeners);
    list_init(&w->selecting);
    w->next_listener = &w->listeners;
    shard_cache_budget_init(w, o->memory);
    w->prefix = xstrdup(o->prefix);
    set_keys(w);
    shard_cache_renewal_begin(w, o->namespaces);
    follow(w, o);
    return w;
}

void shard_cache_listen(struct shard_cache *w, struct shard_cache_listener *l)
{
    list_append(&w->listeners, &l->link);
}

void shard_cache_unlisten(struct shard_cache *w, struct shard_cache_listener *l)
{
    if (w->next_listener == &l->link) {
        w->next_listener = l->link.next;
    }
    if (l->link.next != NULL) {
        list_remove(&l->link);
    }
}

void shard_cache_free(struct shard_cache *w)
{
    if (w == NULL) {
        return;
    }
    while (!list_empty(&w->listeners)) {
        list_remove(w->listeners.next);
    }
    shard_cache_renewal_end(w);
    informer_free(w->pods);
    informer_free(w->configs);
    informer_free(w->maps);
    sharing_set_deinit(&w->shared);
    table_deinit(&w->injected);
    shard_cache_budget_end(w);
    free(w->prefix);
    shard_cache_release(w);
}

void shard_cache_keep(struct shard_cache *w)
{
    w->keepers++;
}

void shard_cache_release(struct shard_cache *w)
{
    if (--w->keepers == 0) {
        shard_cache_budget_deinit(w);
        free(w);
    }
}

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

/* ---- metrics ---- */

enum { COLLECTIONS = 3 };

static void write_counts(struct buf *out, const char *name, const char *help,
                         const uint64_t values[COLLECTIONS])
{
    static const char *const collections[COLLECTIONS] = {SHARD_CACHE_RESOURCE, "configmaps",
                                                         "pods"};
    prometheus_head(out, name, "counter", help);
    for (size_t i = 0; i < COLLECTIONS; i++) {
        buf_printf(out, "%s{collection=\"%s\"} %llu\n", name, collections[i],
                   (unsigned long long)values[i]);
    }
}

static void write_all_counts(const struct shard_cache *w, struct buf *out)
{
    const struct informer *const informers[COLLECTIONS] = {w->configs, w->maps, w->pods};
    uint64_t lists[COLLECTIONS] = {0};
    uint64_t watches[COLLECTIONS];
    uint64_t events[COLLECTIONS];
    uint64_t failures[COLLECTIONS];
    for (size_t i = 0; i < COLLECTIONS; i++) {
        const struct reflector_stats *s = reflector_stats(informer_reflector(informers[i]));
        for (size_t reason = 0; reason < REFLECTOR_REASONS; reason++) {
            lists[i] += s->lists[reason];
        }
        watches[i] = s->watches;
        events[i] = s->events;
        failures[i] = s->failures;
    }
    write_counts(out, "cmesh_manager_lists_total",
                 "Lists that the manager's cache started, by collection.", lists);
    write_counts(out, "cmesh_manager_watches_total",
                 "Watches that the manager's cache opened, by collection.", watches);
    write_counts(out, "cmesh_manager_watch_events_total",
                 "Watch events that the manager's cache received, by collection.", events);
    write_counts(out, "cmesh_manager_follow_failures_total",
                 "Lists and watches of the manager's cache that failed, by collection.", failures);
}

void shard_cache_metrics(const struct shard_cache *w, struct buf *out)
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
    write_all_counts(w, out);
}
