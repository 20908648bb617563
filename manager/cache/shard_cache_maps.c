/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ConfigMaps with the rules.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cache/shard_cache_internal.h"
#include "compile/shards.h"
#include "object/names.h"
#include "json/field.h"

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
    return find_config(w, key) != NULL || shard_cache_is_injected(w, key);
}

/* Takes `map`. */
static void set_map(struct shard_cache *w, struct map_entry *m, struct rules_map *map)
{
    m->item.node.key = map->key;
    rules_map_free(m->map);
    m->map = map;
    const struct config *c = find_config(w, map->key);
    if (c != NULL && (c->seen.over || c->reserved > 0)) {
        rules_map_give_up(map);
    } else if (c != NULL && c->spec.rules != NULL) {
        rules_map_share(map, c->spec.rules);
    }
    shard_cache_count_rules(w, map->ns, map->rules);
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

/* ---- what the informer keeps ---- */

static char *key_of(void *data, const cJSON *object)
{
    const char *shard = names_shard_of_map(shards_name(object));
    (void)data;
    return shard == NULL ? NULL : xasprintf("%s/%s", shards_namespace(object), shard);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct shard_cache *w = data;
    struct map_entry *m = map_of(*item);
    bool wanted = is_wanted(w, key);
    struct rules_map *map = rules_map_look(object, w->prefix, m == NULL ? NULL : m->map, wanted);
    bool same = m != NULL && strcmp(m->map->version, map->version) == 0;
    bool comes = (m == NULL || m->namespace == NULL) && (wanted || rules_map_claims(map));
    m = m != NULL ? m : xcalloc(1, sizeof *m);
    set_map(w, m, map);
    if (comes) {
        show(m, shard_cache_provide_namespace(w, map->ns));
    }
    *item = &m->item;
    return comes || !same;
}

static void drop(void *data, struct informer_item *item)
{
    struct map_entry *m = map_of(item);
    (void)data;
    if (m->namespace != NULL) {
        list_remove(&m->link);
    }
    rules_map_free(m->map);
    free(m);
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    struct map_entry *m = map_of(after != NULL ? after : before);
    if (m->namespace == NULL) {
        return;
    }
    if (after == NULL) {
        list_remove(&m->link);
    }
    shard_cache_tell_shard(data, m->map->key, SHARD_CACHE_CONFIGMAP);
    if (after == NULL) {
        shard_cache_leave_namespace(data, m->namespace);
    }
}

static void on_synced(void *data, bool first)
{
    (void)first;
    shard_cache_tell_ready(data);
}

const struct informer_kind shard_cache_map_kind = {.path = "/api/v1/configmaps",
                                                   .key = key_of,
                                                   .keep = keep,
                                                   .drop = drop,
                                                   .on_change = on_change,
                                                   .on_synced = on_synced};

/* ---- look-ups ---- */

const struct rules_map *shard_cache_find_map(const struct shard_cache *w, const char *key)
{
    const struct map_entry *m = find_map(w, key);
    return m == NULL || m->namespace == NULL ? NULL : m->map;
}

const struct rules_map *shard_cache_next_map(const struct shard_cache *w, const struct rules_map *m)
{
    const struct map_entry *next = m == NULL ? NULL : find_map(w, m->key);
    do {
        next = next_map(w, next);
    } while (next != NULL && next->namespace == NULL);
    return next == NULL ? NULL : next->map;
}
