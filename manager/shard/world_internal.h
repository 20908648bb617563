/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world_internal.h - how a world keeps what it knows: for world.c, which follows, and world_look.c,
 * which answers.
 */
#ifndef MANAGER_SHARD_WORLD_INTERNAL_H
#define MANAGER_SHARD_WORLD_INTERNAL_H

#include "base/list.h"
#include "base/table.h"
#include "net/deadline.h"
#include "shard/members.h"
#include "shard/world.h"

enum world_collection { WORLD_OF_CONFIGS, WORLD_OF_MAPS, WORLD_OF_PODS, WORLD_COLLECTIONS };

/* One collection that is followed. */
struct feed {
    struct world *world;
    struct space *space; /* of pods; NULL: of all namespaces that are looked at */
    enum world_collection collection;
    const struct reflector_handlers *handlers;
    struct reflector *reflector;
    bool synced; /* listed, ever */
    bool lost;   /* something was not kept: it is to be listed again */
};

/* A namespace with configs. */
struct space {
    struct table_node node;
    struct list configs;
    struct list pods;
    struct members members;
    struct feed feed;
    char name[];
};

struct config {
    struct world_config seen; /* what others see; points into `object` */
    struct table_node node;
    struct list link; /* of the namespace's */
    struct members_shard shard;
    struct space *space;
    struct selector *selector; /* NULL: no pods */
    cJSON *object;
    bool stale; /* not seen yet in the list under way */
    char key[];
};

struct pod_entry {
    struct table_node node;
    struct list link; /* of the namespace's */
    struct members_pod member;
    struct space *space;
    struct pod *pod;
    bool stale;
};

struct map_entry {
    struct table_node node;
    struct rules_map *map;
    bool stale;
};

/* What reflectors that are gone have counted. */
struct feed_counts {
    uint64_t lists;
    uint64_t watches;
    uint64_t events;
    uint64_t failures;
};

struct world {
    struct net_loop *loop;
    struct kube_client *client;
    const struct reflector_ops *ops;
    const struct world_handlers *handlers;
    void *data;
    char *namespace;
    char *prefix;
    char *generation_key;
    char *injected_key;
    struct pod_keys keys;

    struct table configs;
    struct table maps;
    struct table pods;
    struct table spaces;
    struct feed configs_feed;
    struct feed maps_feed;
    struct feed_counts past[WORLD_COLLECTIONS];
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

static inline struct config *find_config(const struct world *w, const char *key)
{
    struct table_node *n = table_find(&w->configs, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct config, node);
}

static inline struct pod_entry *find_pod(const struct world *w, const char *key)
{
    struct table_node *n = table_find(&w->pods, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct pod_entry, node);
}

static inline struct map_entry *find_map(const struct world *w, const char *key)
{
    struct table_node *n = table_find(&w->maps, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct map_entry, node);
}

/* "shardingconfigs" and so on. */
const char *world_collection_text(enum world_collection c);

/* Follows no more, and keeps the counts. */
void world_feed_end(struct feed *f);

#endif
