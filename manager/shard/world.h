/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - what there is: all ShardingConfigs, the ConfigMaps with their rules, and the pods of
 * each namespace that has a ShardingConfig; followed at the API server.
 *
 * Every replica of the manager has one. Webhooks ask it; the leader's controller listens to it.
 *
 * What it gives out is valid until the loop runs on, and inside handlers until they return.
 */
#ifndef MANAGER_SHARD_WORLD_H
#define MANAGER_SHARD_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "compile/compile.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"
#include "shard/pod.h"
#include "shard/rules_map.h"

/* Of all namespaces; of one: "/namespaces/NS" before the last part. */
#define WORLD_GROUP_PATH "/apis/" COMPILE_API_VERSION
#define WORLD_RESOURCE "shardingconfigs"

struct world;

/* A ShardingConfig. */
struct world_config {
    const char *key; /* "namespace/name", which is what a shard is called here */
    const char *ns;
    const char *name;
    const char *uid;
    const char *version;
    const cJSON *object; /* with apiVersion and kind, without managedFields */
    bool root;           /* has spec.root, so no pods */
    size_t pod_count;    /* that it selects */
};

enum world_part { WORLD_CONFIG, WORLD_PODS, WORLD_CONFIGMAP };

/* None is ever called inside a function of this header; world_listen is allowed inside all,
 * world_free in none. Any may be NULL. */
struct world_handlers {
    /* Something about a shard is other than before. It may be gone: world_find_config tells. */
    void (*on_shard)(void *data, const char *key, enum world_part part);
    /* A pod, or which shards select it, is other than before; `gone`: nothing is known of it any
     * more. */
    void (*on_pod)(void *data, const struct pod *pod, bool gone);
    /* A config was deleted. It can still be asked for its pods. on_shard follows. */
    void (*on_deleted)(void *data, const struct world_config *config);
    /* All that is needed to decide about this namespace's shards is known now: world_ready. NULL:
     * about namespaces without configs. */
    void (*on_ready)(void *data, const char *ns);
};

struct world_options {
    struct kube_client *client;      /* must outlive the world */
    const char *namespace;           /* nothing else is looked at; NULL: all; copied */
    const char *prefix;              /* of labels and annotations; copied */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

/* Begins to follow with the loop's next turn. NULL with `e` set: -EINVAL, -ENOMEM. */
MUST_CHECK struct world *world_new(struct net_loop *l, const struct world_options *o,
                                   struct err *e);

/* One listens; NULL: nobody any more. What is there already is not told. */
void world_listen(struct world *w, const struct world_handlers *h, void *data);

/* Everything that is followed was listed: webhooks can decide. */
bool world_synced(const struct world *w);
/* Whether all ShardingConfigs are known; the pods in the namespace of a new one may follow. */
bool world_configs_synced(const struct world *w);
/* The configs, the ConfigMaps and the pods of that namespace were listed. */
bool world_ready(const struct world *w, const char *ns);
/* What keeps it from following, for people; NULL: nothing. */
const char *world_error(const struct world *w);

/* NULL: there is none. */
const struct world_config *world_find_config(const struct world *w, const char *key);
const struct rules_map *world_find_map(const struct world *w, const char *key);
const struct pod *world_find_pod(const struct world *w, const char *key);

/* The configs, one after the other; NULL begins, and ends. */
const struct world_config *world_next_config(const struct world *w, const struct world_config *c);
/* The same for those of one namespace. */
const struct world_config *world_next_config_in(const struct world *w, const char *ns,
                                                const struct world_config *c);
/* The same for all rules ConfigMaps and all pods. */
const struct rules_map *world_next_map(const struct world *w, const struct rules_map *m);
const struct pod *world_next_pod(const struct world *w, const struct pod *p);

/* The pods that a config selects, in the order of their names: config->pod_count of them, in an
 * array that the caller frees. NULL without memory. */
MUST_CHECK const struct pod **world_pods_of(const struct world *w, const struct world_config *c);
/* How many configs select the pod, and the first of them by name; `but`: another one than this.
 * NULL: none. */
size_t world_shard_count(const struct world *w, const struct pod *p);
const struct world_config *world_shard_of(const struct world *w, const struct pod *p,
                                          const struct world_config *but);
/* All of them, as far as there is room; returns how many were put there. */
size_t world_shards_of(const struct world *w, const struct pod *p, const struct world_config **out,
                       size_t room);

/* The API server has answered that the pod has been told of this generation: it need not be told
 * again before the world shows it. */
void world_pod_told(struct world *w, const char *key, const char *uid, uint64_t generation);

/* The configs and pods of one namespace as trees, for what decides about JSON: struct
 * validate_world, inject_admit. The configs are the world's own. */
struct world_view {
    const cJSON **configs;
    size_t config_count;
    cJSON **pods; /* metadata alone */
    size_t pod_count;
};
/* `pods`: those are wanted too. 0, then world_view_deinit is due; or -ENOMEM. */
MUST_CHECK int world_view_init(struct world_view *v, const struct world *w, const char *ns,
                               bool pods);
void world_view_deinit(struct world_view *v);

/* Appends metrics, cmesh_manager_... 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int world_metrics(const struct world *w, struct buf *out);

/* At once. NULL is ignored. */
void world_free(struct world *w);

#endif
