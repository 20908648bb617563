/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_cache_internal.h - how a cache keeps what it knows: for shard_cache.c, which follows, and
 * shard_cache_look.c, which answers.
 */
#ifndef MANAGER_SHARD_SHARD_CACHE_INTERNAL_H
#define MANAGER_SHARD_SHARD_CACHE_INTERNAL_H

#include "base/list.h"
#include "base/table.h"
#include "net/deadline.h"
#include "shard/members.h"
#include "shard/shard_cache.h"

enum shard_cache_collection {
    SHARD_CACHE_OF_CONFIGS,
    SHARD_CACHE_OF_MAPS,
    SHARD_CACHE_OF_PODS,
    SHARD_CACHE_COLLECTIONS
};

/* One collection that is followed. */
struct informer {
    struct shard_cache *cache;
    struct namespace *namespace; /* of pods; NULL: of all namespaces that are looked at */
    enum shard_cache_collection collection;
    const struct reflector_handlers *handlers;
    struct reflector *reflector;
    bool synced; /* listed, ever */
    bool lost;   /* something was not kept: it is to be listed again */
};

/* A namespace with configs. */
struct namespace
{
    struct table_node node;
    struct list configs;
    struct list pods;
    struct members members;
    struct informer informer;
    char name[];
};

struct config {
    struct shard_cache_config seen; /* what others see; points into `object` */
    struct table_node node;
    struct list link; /* of the namespace's */
    struct members_shard shard;
    struct namespace *namespace;
    struct selector *selector; /* NULL: no pods */
    cJSON *object;
    bool stale; /* not seen yet in the list under way */
    char key[];
};

struct pod_entry {
    struct table_node node;
    struct list link; /* of the namespace's */
    struct members_pod member;
    struct namespace *namespace;
    struct pod *pod;
    bool stale;
};

struct map_entry {
    struct table_node node;
    struct rules_map *map;
    bool stale;
};

/* What reflectors that are gone have counted. */
struct informer_counts {
    uint64_t lists;
    uint64_t watches;
    uint64_t events;
    uint64_t failures;
};

struct shard_cache {
    struct net_loop *loop;
    struct kube_client *client;
    const struct reflector_ops *ops;
    const struct shard_cache_handlers *handlers;
    void *data;
    char *namespace;
    char *prefix;
    char *generation_key;
    char *injected_key;
    struct pod_keys keys;

    struct table configs;
    struct table maps;
    struct table pods;
    struct table namespaces;
    struct informer configs_informer;
    struct informer maps_informer;
    struct informer_counts past[SHARD_CACHE_COLLECTIONS];
    struct net_deadline again;
    bool again_set;
};

static inline struct config *config_of_shard(struct members_shard *s)
{
    return LIST_ITEM(s, struct config, shard);
}

static inline struct pod_entry *pod_of_member(struct members_pod *p)
{
    return LIST_ITEM(p, struct pod_entry, member);
}

static inline struct config *find_config(const struct shard_cache *w, const char *key)
{
    struct table_node *n = table_find(&w->configs, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct config, node);
}

static inline struct pod_entry *find_pod(const struct shard_cache *w, const char *key)
{
    struct table_node *n = table_find(&w->pods, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct pod_entry, node);
}

static inline struct map_entry *find_map(const struct shard_cache *w, const char *key)
{
    struct table_node *n = table_find(&w->maps, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct map_entry, node);
}

/* "shardingconfigs" and so on. */
const char *shard_cache_collection_text(enum shard_cache_collection c);

/* Follows no more, and keeps the counts. */
void informer_end(struct informer *f);

#endif
