/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMaps with the rules.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/shard_cache_internal.h"
#include "compile/shards.h"
#include "object/names.h"
#include "json/field.h"

static void tell(struct shard_cache *w, const struct map_entry *m)
{
    if (m->namespace != NULL) {
        shard_cache_tell_shard(w, m->map->key, SHARD_CACHE_CONFIGMAP);
    }
}

void shard_cache_drop_map(struct shard_cache *w, struct map_entry *m)
{
    struct namespace *s = m->namespace;
    table_remove(&w->maps, &m->node);
    list_remove(&m->link);
    tell(w, m);
    rules_map_free(m->map);
    free(m);
    if (s != NULL) {
        shard_cache_leave_namespace(w, s);
    }
}

static void show(struct map_entry *m, struct namespace *s)
{
    m->namespace = s;
    list_append(&s->maps, &m->link);
}

void shard_cache_show_map(struct shard_cache *w, struct namespace *s, const char *key)
{
    struct map_entry *m = find_map(w, key);
    if (m != NULL && m->namespace == NULL) {
        show(m, s);
    }
}

/* Somebody uses it: it costs more to make that so than to make a ConfigMap. */
static bool is_wanted(const struct shard_cache *w, const char *key)
{
    return find_config(w, key) != NULL || find_injected(w, key) != NULL;
}

static struct map_entry *add_map(struct shard_cache *w, const struct rules_map *map)
{
    struct map_entry *m = calloc(1, sizeof *m);
    if (m == NULL || table_insert(&w->maps, &m->node, map->key) != 0) {
        free(m);
        return NULL;
    }
    list_init(&m->link);
    return m;
}

/* Takes `map`. */
static void set_map(struct shard_cache *w, struct map_entry *m, struct rules_map *map)
{
    rules_map_free(m->map);
    m->map = map;
    m->node.key = map->key;
    m->stale = false;
    const struct config *c = find_config(w, map->key);
    if (c != NULL && (c->seen.over || c->reserved > 0)) {
        rules_map_give_up(map);
    } else if (c != NULL && c->spec.rules != NULL) {
        rules_map_share(map, c->spec.rules);
    }
    shard_cache_count_rules(w, map->ns, map->rules);
}

/* Takes `map`. */
static int put_map(struct shard_cache *w, struct rules_map *map)
{
    struct map_entry *m = find_map(w, map->key);
    bool same = m != NULL && strcmp(m->map->version, map->version) == 0;
    bool hidden = m == NULL || m->namespace == NULL;
    bool seen = !hidden || rules_map_claims(map) || is_wanted(w, map->key);
    struct namespace *s = hidden && seen ? shard_cache_provide_namespace(w, map->ns) : NULL;
    bool lacks = hidden && seen && s == NULL;
    m = m != NULL || lacks ? m : add_map(w, map);
    if (m == NULL || lacks) {
        rules_map_free(map);
        if (s != NULL) {
            shard_cache_leave_namespace(w, s);
        }
        return -ENOMEM;
    }
    set_map(w, m, map);
    if (s != NULL) {
        show(m, s);
    }
    if (!same || s != NULL) {
        tell(w, m);
    }
    return 0;
}

bool shard_cache_learn_map(struct shard_cache *w, struct rules_map *map)
{
    struct map_entry *m = find_map(w, map->key);
    bool same = m != NULL && m->map->unread && strcmp(m->map->version, map->version) == 0;
    if (same) {
        set_map(w, m, map);
    }
    return same;
}

void shard_cache_share_rules(struct shard_cache *w, const char *key, struct rules *rules)
{
    struct map_entry *m = find_map(w, key);
    if (m != NULL) {
        rules_map_share(m->map, rules);
    }
}

/* NULL: its name is not that of rules (0), or -ENOMEM. */
static int look(const struct shard_cache *w, enum reflector_change change, const cJSON *object,
                struct rules_map **out)
{
    char *key = NULL;
    const char *name = shards_name(object);
    const size_t head = strlen(SIDECAR_CONFIGMAP);
    *out = NULL;
    if (strncmp(name, SIDECAR_CONFIGMAP, head) != 0) {
        return 0;
    }
    if (asprintf(&key, "%s/%s", shards_namespace(object), name + head) < 0) {
        return -ENOMEM;
    }
    const struct map_entry *m = find_map(w, key);
    bool wanted = change != REFLECTOR_DELETED && is_wanted(w, key);
    int rc = rules_map_look(object, w->prefix, m == NULL ? NULL : m->map, wanted, out);
    free(key);
    return rc;
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
    int rc = look(f->cache, change, object, &map);
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
    shard_cache_tell_ready(f->cache);
}

const struct reflector_handlers shard_cache_map_handlers = {
    .on_list = on_map_list,
    .on_object = on_map_object,
    .on_synced = on_maps_synced,
    .on_state = informer_on_state,
};
