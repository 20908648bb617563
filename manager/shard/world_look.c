/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a world answers: look-ups, views for webhooks, metrics.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/prometheus.h"
#include "shard/world_internal.h"

const char *world_collection_text(enum world_collection c)
{
    static const char *const texts[WORLD_COLLECTIONS] = {
        [WORLD_OF_CONFIGS] = WORLD_RESOURCE,
        [WORLD_OF_MAPS] = "configmaps",
        [WORLD_OF_PODS] = "pods",
    };
    return texts[c];
}

/* ---- whether it knows ---- */

bool world_ready(const struct world *w, const char *ns)
{
    struct table_node *n = table_find(&w->spaces, ns);
    return w->configs_feed.synced && w->maps_feed.synced &&
           (n == NULL || LIST_ITEM(n, struct space, node)->feed.synced);
}

bool world_synced(const struct world *w)
{
    bool synced = w->configs_feed.synced && w->maps_feed.synced;
    for (struct table_node *n = NULL; synced && (n = table_next(&w->spaces, n)) != NULL;) {
        synced = LIST_ITEM(n, struct space, node)->feed.synced;
    }
    return synced;
}

bool world_configs_synced(const struct world *w)
{
    return w->configs_feed.synced;
}

const char *world_error(const struct world *w)
{
    const char *error = reflector_error(w->configs_feed.reflector);
    error = error != NULL ? error : reflector_error(w->maps_feed.reflector);
    for (struct table_node *n = NULL; error == NULL && (n = table_next(&w->spaces, n)) != NULL;) {
        error = reflector_error(LIST_ITEM(n, struct space, node)->feed.reflector);
    }
    return error;
}

/* ---- look-ups ---- */

static const struct world_config *show(struct config *c)
{
    c->seen.pod_count = c->shard.pod_count;
    return &c->seen;
}

const struct world_config *world_find_config(const struct world *w, const char *key)
{
    struct config *c = find_config(w, key);
    return c == NULL ? NULL : show(c);
}

const struct rules_map *world_find_map(const struct world *w, const char *key)
{
    const struct map_entry *m = find_map(w, key);
    return m == NULL ? NULL : m->map;
}

const struct pod *world_find_pod(const struct world *w, const char *key)
{
    const struct pod_entry *p = find_pod(w, key);
    return p == NULL ? NULL : p->pod;
}

const struct world_config *world_next_config(const struct world *w, const struct world_config *c)
{
    struct table_node *n = c == NULL ? NULL : &LIST_ITEM(c, struct config, seen)->node;
    n = table_next(&w->configs, n);
    return n == NULL ? NULL : show(LIST_ITEM(n, struct config, node));
}

const struct world_config *world_next_config_in(const struct world *w, const char *ns,
                                                const struct world_config *c)
{
    struct table_node *node = c == NULL ? table_find(&w->spaces, ns) : NULL;
    if (c == NULL && node == NULL) {
        return NULL;
    }
    struct config *last = c == NULL ? NULL : LIST_ITEM(c, struct config, seen);
    struct space *s = last == NULL ? LIST_ITEM(node, struct space, node) : last->space;
    struct list *next = last == NULL ? s->configs.next : last->link.next;
    return next == &s->configs ? NULL : show(LIST_ITEM(next, struct config, link));
}

const struct rules_map *world_next_map(const struct world *w, const struct rules_map *m)
{
    struct table_node *n = m == NULL ? NULL : &find_map(w, m->key)->node;
    n = table_next(&w->maps, n);
    return n == NULL ? NULL : LIST_ITEM(n, struct map_entry, node)->map;
}

const struct pod *world_next_pod(const struct world *w, const struct pod *p)
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

const struct pod **world_pods_of(const struct world *w, const struct world_config *c)
{
    const struct members_shard *s = &LIST_ITEM(c, struct config, seen)->shard;
    const struct pod **pods = calloc(s->pod_count + 1, sizeof(const struct pod *));
    size_t count = 0;
    (void)w;
    if (pods == NULL) {
        return NULL;
    }
    for (struct list *n = s->pods.next; n != &s->pods; n = n->next) {
        pods[count++] = pod_of_member(LIST_ITEM(n, struct member, of_shard)->pod)->pod;
    }
    qsort(pods, count, sizeof *pods, by_name);
    return pods;
}

size_t world_shard_count(const struct world *w, const struct pod *p)
{
    return find_pod(w, p->key)->member.shard_count;
}

const struct world_config *world_shard_of(const struct world *w, const struct pod *p,
                                          const struct world_config *but)
{
    const struct world_config *best = NULL;
    const struct members_pod *member = &find_pod(w, p->key)->member;
    for (struct list *n = member->shards.next; n != &member->shards; n = n->next) {
        struct config *c = config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard);
        if (&c->seen != but && (best == NULL || strcmp(c->seen.name, best->name) < 0)) {
            best = show(c);
        }
    }
    return best;
}

size_t world_shards_of(const struct world *w, const struct pod *p, const struct world_config **out,
                       size_t room)
{
    const struct members_pod *member = &find_pod(w, p->key)->member;
    size_t count = 0;
    for (struct list *n = member->shards.next; n != &member->shards && count < room; n = n->next) {
        out[count++] = show(config_of_shard(LIST_ITEM(n, struct member, of_pod)->shard));
    }
    return count;
}

/* ---- views ---- */

static size_t length(const struct list *head)
{
    size_t count = 0;
    for (const struct list *n = head->next; n != head; n = n->next) {
        count++;
    }
    return count;
}

static int view_pods(struct world_view *v, struct space *s)
{
    v->pods = calloc(length(&s->pods) + 1, sizeof *v->pods);
    if (v->pods == NULL) {
        return -ENOMEM;
    }
    for (struct list *n = s->pods.next; n != &s->pods; n = n->next) {
        v->pods[v->pod_count] = pod_to_json(LIST_ITEM(n, struct pod_entry, link)->pod);
        if (v->pods[v->pod_count] == NULL) {
            return -ENOMEM;
        }
        v->pod_count++;
    }
    return 0;
}

int world_view_init(struct world_view *v, const struct world *w, const char *ns, bool pods)
{
    struct table_node *node = table_find(&w->spaces, ns);
    *v = (struct world_view){.configs = NULL};
    if (node == NULL) {
        return 0;
    }
    struct space *s = LIST_ITEM(node, struct space, node);
    v->configs = calloc(length(&s->configs) + 1, sizeof *v->configs);
    int rc = v->configs == NULL ? -ENOMEM : 0;
    for (struct list *n = s->configs.next; rc == 0 && n != &s->configs; n = n->next) {
        v->configs[v->config_count++] = LIST_ITEM(n, struct config, link)->object;
    }
    rc = rc != 0 || !pods ? rc : view_pods(v, s);
    if (rc != 0) {
        world_view_deinit(v);
    }
    return rc;
}

void world_view_deinit(struct world_view *v)
{
    for (size_t i = 0; i < v->pod_count; i++) {
        cJSON_Delete(v->pods[i]);
    }
    free(v->pods);
    free(v->configs);
    *v = (struct world_view){.configs = NULL};
}

/* ---- metrics ---- */

static void count_feed(struct feed_counts *to, const struct feed *f)
{
    if (f->reflector == NULL) {
        return;
    }
    const struct reflector_stats *s = reflector_stats(f->reflector);
    for (size_t i = 0; i < REFLECTOR_REASONS; i++) {
        to->lists += s->lists[i];
    }
    to->watches += s->watches;
    to->events += s->events;
    to->failures += s->failures;
}

void world_feed_end(struct feed *f)
{
    count_feed(&f->world->past[f->collection], f);
    reflector_free(f->reflector);
    f->reflector = NULL;
}

static void count_all(const struct world *w, struct feed_counts counts[WORLD_COLLECTIONS])
{
    memcpy(counts, w->past, sizeof w->past);
    count_feed(&counts[WORLD_OF_CONFIGS], &w->configs_feed);
    count_feed(&counts[WORLD_OF_MAPS], &w->maps_feed);
    for (struct table_node *n = NULL; (n = table_next(&w->spaces, n)) != NULL;) {
        count_feed(&counts[WORLD_OF_PODS], &LIST_ITEM(n, struct space, node)->feed);
    }
}

static int write_counts(struct buf *out, const char *name, const char *help,
                        const uint64_t values[WORLD_COLLECTIONS])
{
    int rc = prometheus_head(out, name, "counter", help);
    for (size_t i = 0; rc == 0 && i < WORLD_COLLECTIONS; i++) {
        rc = buf_printf(out, "%s{collection=\"%s\"} %llu\n", name,
                        world_collection_text((enum world_collection)i),
                        (unsigned long long)values[i]);
    }
    return rc;
}

int world_metrics(const struct world *w, struct buf *out)
{
    struct feed_counts counts[WORLD_COLLECTIONS];
    uint64_t lists[WORLD_COLLECTIONS];
    uint64_t watches[WORLD_COLLECTIONS];
    uint64_t events[WORLD_COLLECTIONS];
    uint64_t failures[WORLD_COLLECTIONS];
    const struct prometheus_metric gauges[] = {
        {"cmesh_manager_known_shardingconfigs", "gauge", "ShardingConfigs that are followed.",
         w->configs.count},
        {"cmesh_manager_known_configmaps", "gauge", "ConfigMaps with rules that are followed.",
         w->maps.count},
        {"cmesh_manager_known_pods", "gauge", "Pods of namespaces with ShardingConfigs.",
         w->pods.count},
        {"cmesh_manager_known_namespaces", "gauge", "Namespaces whose pods are followed.",
         w->spaces.count},
        {"cmesh_manager_synced", "gauge", "1 once everything that is followed was listed.",
         world_synced(w)},
        {"cmesh_manager_following", "gauge", "0 while something keeps it from following.",
         world_error(w) == NULL},
    };
    count_all(w, counts);
    for (size_t i = 0; i < WORLD_COLLECTIONS; i++) {
        lists[i] = counts[i].lists;
        watches[i] = counts[i].watches;
        events[i] = counts[i].events;
        failures[i] = counts[i].failures;
    }
    int rc = prometheus_write(out, gauges, sizeof gauges / sizeof gauges[0]);
    rc = rc != 0 ? rc : write_counts(out, "cmesh_manager_lists_total", "Lists begun.", lists);
    rc =
        rc != 0 ? rc : write_counts(out, "cmesh_manager_watches_total", "Watches opened.", watches);
    rc = rc != 0
             ? rc
             : write_counts(out, "cmesh_manager_watch_events_total", "Events received.", events);
    return rc != 0 ? rc
                   : write_counts(out, "cmesh_manager_follow_failures_total",
                                  "Lists and watches that failed.", failures);
}
