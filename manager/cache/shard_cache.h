/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_cache.h - what there is: all ShardingConfigs, the ConfigMaps with their rules, and all
 * pods; followed at the API server.
 *
 * Every replica of the manager has one. Webhooks ask it; the leader's controller listens to it.
 *
 * What it gives out is valid until the loop runs on, and inside handlers until they return.
 */
#ifndef MANAGER_CACHE_SHARD_CACHE_H
#define MANAGER_CACHE_SHARD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "cache/namespaces.h"
#include "cache/pod.h"
#include "cache/rules_map.h"
#include "compile/compile.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/clock.h"
#include "net/loop.h"

/* Of all namespaces; of one: "/namespaces/NS" before the last part. */
#define SHARD_CACHE_GROUP_PATH "/apis/" COMPILE_API_VERSION
#define SHARD_CACHE_RESOURCE "shardingconfigs"

struct shard_cache;

/* A ShardingConfig. */
struct shard_cache_config {
    const char *key; /* "namespace/name", which is what a shard is called here */
    const char *ns;
    const char *name;
    const char *uid;
    const char *version;
    const cJSON *object;         /* what config_spec_rest keeps of it: not all of the spec */
    bool lacks_limits;           /* it has no list of them, */
    bool unlimited;              /* or an empty one */
    bool over;                   /* there is no memory for them: spec and ConfigMap are not known */
    bool root;                   /* has spec.root, so no pods */
    bool by_namespaces;          /* its limits have selectors of namespaces, */
    size_t namespaces;           /* which select so many, as far as they were asked, */
    unsigned round;              /* and what they select was so often other than before */
    size_t pod_count;            /* that it selects */
    const struct selector *pods; /* which those are; NULL: none, or there is no room for it */
    uint64_t digest;             /* json_digest of the spec */
    uint64_t sized_ms;           /* when it was first seen, or with another number of pods by its
                                    annotation ROOT_PODS: of shard_cache_options.clock; 0: before
                                    all were listed */
    const char *changed_by;      /* of a child of a root: the field manager that changed it last, of
                                    those that are not this manager, and when; "": none */
};

enum shard_cache_part { SHARD_CACHE_CONFIG, SHARD_CACHE_PODS, SHARD_CACHE_CONFIGMAP };

/* None is ever called inside a function of this header; shard_cache_listen and _unlisten are
 * allowed inside all, shard_cache_free in none. Any may be NULL. */
struct shard_cache_handlers {
    /* Something about a shard is other than before. It may be gone: shard_cache_find_config tells.
     */
    void (*on_shard)(void *data, const char *key, enum shard_cache_part part);
    /* A pod, or which shards select it, is other than before; `gone`: nothing is known of it any
     * more. */
    void (*on_pod)(void *data, const struct pod *pod, bool gone);
    /* The shards of this namespace take the most memory, and all together too much: what is not
     * needed is to be freed, before some of them are given up. */
    void (*on_excess)(void *data, const char *ns);
    /* All that is needed to decide is known now: shard_cache_synced. Told once. */
    void (*on_ready)(void *data);
    /* Other namespaces are shared than before, or it is known now which are. */
    void (*on_shared)(void *data, const struct sharing_set *shared);
};

/* One who listens: the memory is the caller's, until shard_cache_unlisten. */
struct shard_cache_listener {
    const struct shard_cache_handlers *handlers;
    void *data;
    struct list link; /* the cache's */
};

struct shard_cache_options {
    struct kube_client *client;      /* must outlive the cache */
    const char *namespace;           /* nothing else is looked at; NULL: all; copied */
    const char *prefix;              /* of labels and annotations; copied */
    size_t memory;                   /* bytes that limits and rules may take; 0: any */
    struct namespaces *namespaces;   /* that limits ask for, with labels; must outlive the cache, or
                                        until shard_cache_free; NULL: nobody knows them */
    struct flag_list shareable;      /* namespaces that configs of any may share; outlive it */
    const struct net_clock *clock;   /* NULL: the system's */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

/* Begins to follow with the loop's next turn. */
MUST_CHECK struct shard_cache *shard_cache_new(struct net_loop *l,
                                               const struct shard_cache_options *o);

/* All listeners are told, in the order in which they came. What is there already is not told. */
void shard_cache_listen(struct shard_cache *w, struct shard_cache_listener *l);
/* It is told nothing any more. One that does not listen is ignored. */
void shard_cache_unlisten(struct shard_cache *w, struct shard_cache_listener *l);

/* The configs, the ConfigMaps and the pods were listed, ever: nothing is decided before. */
bool shard_cache_synced(const struct shard_cache *w);
/* The namespaces that are shared (compile/sharing.h); none until all ShardingConfigs are
 * known. Always the same, which changes. */
const struct sharing_set *shard_cache_shared(const struct shard_cache *w);
/* What keeps it from following, for people; NULL: nothing. */
const char *shard_cache_error(const struct shard_cache *w);

/* NULL: there is none. */
const struct shard_cache_config *shard_cache_find_config(const struct shard_cache *w,
                                                         const char *key);
/* Of ConfigMaps that belong to no shard, with a config or with pods, nothing is told but of those
 * that say whose they were; and what stands in them is read only when they belong to one:
 * rules_map.unread. */
const struct rules_map *shard_cache_find_map(const struct shard_cache *w, const char *key);
const struct pod *shard_cache_find_pod(const struct shard_cache *w, const char *key);

/* It was asked for, and read: whether this is what the cache shows as unread; then it takes it, and
 * tells nobody. */
bool shard_cache_learn_map(struct shard_cache *w, struct rules_map *map);

/* The configs, one after the other; NULL begins, and ends. */
const struct shard_cache_config *shard_cache_next_config(const struct shard_cache *w,
                                                         const struct shard_cache_config *c);
/* The same for those of one namespace. */
const struct shard_cache_config *shard_cache_next_config_in(const struct shard_cache *w,
                                                            const char *ns,
                                                            const struct shard_cache_config *c);
/* The same for all rules ConfigMaps and all pods. */
const struct rules_map *shard_cache_next_map(const struct shard_cache *w,
                                             const struct rules_map *m);
const struct pod *shard_cache_next_pod(const struct shard_cache *w, const struct pod *p);

/* If the rules in its ConfigMap are these, they are in memory once from now on. */
void shard_cache_share_rules(struct shard_cache *w, const char *key, struct rules *rules);

/* What its spec comes to, compiled at the first call and kept until it changes, or what namespaces
 * it selects, or which ones are shared, which is told as a change of the config; `o` must always be
 * the same, with options.namespaces and without what is shared. The cache holds the reference.
 * NULL: as compile_config; or -EDQUOT, as long as there is no memory for it (options.memory). */
struct rules *shard_cache_rules(struct shard_cache *w, const struct shard_cache_config *c,
                                const struct compile_options *o, struct err *e);
/* The whole object of a root, with its spec; the caller frees. NULL: there is no memory
 * for it (options.memory). */
MUST_CHECK cJSON *shard_cache_whole(const struct shard_cache_config *c);
/* Rules that others keep of a shard of that namespace count with what it has here; NULL is ignored.
 */
void shard_cache_count_rules(struct shard_cache *w, const char *ns, struct rules *rules);

/* The pods that a config selects, in the order of their names: config->pod_count of them, in an
 * array that the caller frees. */
MUST_CHECK const struct pod **shard_cache_pods_of(const struct shard_cache_config *c);
/* The same, one after the other in no order, for what is asked often. */
void shard_cache_each_pod_of(const struct shard_cache_config *c,
                             void (*cb)(void *data, const struct pod *pod), void *data);
/* The pods that have the sidecars of the shard `key`, whether there is a config of that name, and
 * selects them, or not: *count of them, in an array that the caller frees. */
MUST_CHECK const struct pod **shard_cache_injected(const struct shard_cache *w, const char *key,
                                                   size_t *count);
/* The shards of a namespace that have no config, or one that is a root by now, though pods have
 * their sidecars or a ConfigMap has their rules: *count keys, in an array that the caller
 * frees. */
MUST_CHECK const char **shard_cache_gone_in(const struct shard_cache *w, const char *ns,
                                            size_t *count);
/* The pods of one namespace, one after the other; NULL begins, and ends. */
const struct pod *shard_cache_next_pod_in(const struct shard_cache *w, const char *ns,
                                          const struct pod *p);
/* A pod of the namespace that the selector selects, and another config than `but` (NULL: any),
 * which goes to *other, too; NULL: there is none. */
const struct pod *shard_cache_shared_pod(const struct shard_cache *w, const char *ns,
                                         const struct selector *s,
                                         const struct shard_cache_config *but,
                                         const struct shard_cache_config **other);
/* How many configs select the pod, and the first of them by name; `but`: another one than this.
 * NULL: none. */
size_t shard_cache_shard_count(const struct pod *p);
const struct shard_cache_config *shard_cache_shard_of(const struct pod *p,
                                                      const struct shard_cache_config *but);
/* All of them, as far as there is room; returns how many were put there. */
size_t shard_cache_shards_of(const struct pod *p, const struct shard_cache_config **out,
                             size_t room);

/* The API server has answered that the pod has been told of this generation: it need not be told
 * again before the cache shows it. */
void shard_cache_pod_told(struct shard_cache *w, const char *key, const char *uid,
                          uint64_t generation);
/* The same of a generation of the traffic document. */
void shard_cache_pod_told_traffic(struct shard_cache *w, const char *key, const char *uid,
                                  uint64_t generation);

/* Appends metrics, cmesh_manager_...; errors stay in `out`. */
void shard_cache_metrics(const struct shard_cache *w, struct buf *out);

/* At once. Who may still hold rules that are counted here has called shard_cache_keep. NULL is
 * ignored. */
void shard_cache_free(struct shard_cache *w);

/* What counts rules stays until shard_cache_release, after shard_cache_free too. */
void shard_cache_keep(struct shard_cache *w);
void shard_cache_release(struct shard_cache *w);

#endif
