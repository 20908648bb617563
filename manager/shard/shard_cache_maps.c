/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMaps with the rules.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shard/shard_cache_internal.h"

void shard_cache_drop_map(struct shard_cache *w, struct map_entry *m)
{
    struct namespace *s = m->namespace;
    table_remove(&w->maps, &m->node);
    list_remove(&m->link);
    shard_cache_tell_shard(w, m->map->key, SHARD_CACHE_CONFIGMAP);
    rules_map_free(m->map);
    free(m);
    shard_cache_leave_namespace(w, s);
}

static struct map_entry *add_map(struct shard_cache *w, const struct rules_map *map)
{
    struct namespace *s = shard_cache_provide_namespace(w, map->ns);
    struct map_entry *m = calloc(1, sizeof *m);
    if (m != NULL && s != NULL && table_insert(&w->maps, &m->node, map->key) == 0) {
        m->namespace = s;
        list_append(&s->maps, &m->link);
        return m;
    }
    if (s != NULL) {
        shard_cache_leave_namespace(w, s);
    }
    free(m);
    return NULL;
}

/* Takes `map`. */
static int put_map(struct shard_cache *w, struct rules_map *map)
{
    struct map_entry *m = find_map(w, map->key);
    bool same = m != NULL && strcmp(m->map->version, map->version) == 0;
    m = m != NULL ? m : add_map(w, map);
    if (m == NULL) {
        rules_map_free(map);
        return -ENOMEM;
    }
    rules_map_free(m->map);
    m->map = map;
    m->node.key = map->key;
    m->stale = false;
    if (!same) {
        shard_cache_tell_shard(w, map->key, SHARD_CACHE_CONFIGMAP);
    }
    return 0;
}

static void on_map_list(void *data)
{
    struct informer *f = data;
    for (struct table_node *n = NULL; (n = table_next(&f->cache->maps, n)) != NULL;) {
        LIST_ITEM(n, struct map_entry, node)->stale = true;
    }
}

static void on_map_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct informer *f = data;
    struct rules_map *map = NULL;
    int rc = rules_map_new(object, f->cache->prefix, &map);
    if (rc == 0 && map != NULL && change == REFLECTOR_DELETED) {
        struct map_entry *m = find_map(f->cache, map->key);
        rules_map_free(map);
        if (m != NULL) {
            shard_cache_drop_map(f->cache, m);
        }
    } else if (rc == 0 && map != NULL) {
        rc = put_map(f->cache, map);
    }
    if (rc != 0) {
        informer_lose(f);
    }
}

static void on_maps_synced(void *data)
{
    struct informer *f = data;
    struct table_node *next = f->lost ? NULL : table_next(&f->cache->maps, NULL);
    while (next != NULL) {
        struct map_entry *m = LIST_ITEM(next, struct map_entry, node);
        next = table_next(&f->cache->maps, next);
        if (m->stale) {
            shard_cache_drop_map(f->cache, m);
        }
    }
    f->synced = f->synced || !f->lost;
    shard_cache_tell_all_ready(f->cache);
    shard_cache_arrange(f->cache);
}

const struct reflector_handlers shard_cache_map_handlers = {
    .on_list = on_map_list,
    .on_object = on_map_object,
    .on_synced = on_maps_synced,
    .on_state = informer_on_state,
};
