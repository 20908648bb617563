/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_cache_internal.h - how a cache keeps what it knows.
 *
 * shard_cache.c begins and ends it and tells who listens; shard_cache_informer.c follows a
 * collection, whose objects shard_cache_configs.c, shard_cache_maps.c and shard_cache_pods.c keep;
 * shard_cache_namespaces.c decides when limits by labels of namespaces are compiled anew;
 * shard_cache_budget.c what is given up when all take too much; shard_lister.c answers.
 */
#ifndef MANAGER_CACHE_SHARD_CACHE_INTERNAL_H
#define MANAGER_CACHE_SHARD_CACHE_INTERNAL_H

#include "base/list.h"
#include "base/table.h"
#include "cache/config_spec.h"
#include "cache/pod_selection.h"
#include "cache/shard_cache.h"
#include "net/deadline.h"
#include "net/timer.h"

enum shard_cache_collection {
    SHARD_CACHE_OF_CONFIGS,
    SHARD_CACHE_OF_MAPS,
    SHARD_CACHE_OF_PODS,
    SHARD_CACHE_COLLECTIONS
};

/* One collection that is followed. */
struct informer {
    struct shard_cache *cache;
    enum shard_cache_collection collection;
    const struct reflector_handlers *handlers;
    struct reflector *reflector;
    bool synced; /* listed, ever */
    bool lost;   /* something was not kept: it is to be listed again */
};

/* What the shards of a namespace take of memory: goes when it is nothing. */
struct account {
    struct table_node node;
    struct byte_budget bytes; /* its bound is shard_cache.memory_max, for all together */
    bool asked;               /* for the past of its shards, and */
    bool exhausted;           /* for all it can give up: by the trim under way */
    char ns[];
};

/* A namespace with configs, rules of one that is gone, or pods. */
struct namespace
{
    struct table_node node;
    struct list configs;
    struct list maps;
    struct list pods;
    struct list injected; /* struct injected */
    struct pod_selection members;
    struct account *account;
    char name[];
};

struct config {
    struct shard_cache_config seen; /* what others see; points into `object` */
    struct table_node node;
    struct list link; /* of the namespace's */
    struct pod_selection_shard shard;
    struct namespace *namespace;
    struct selector *selector; /* NULL: no pods */
    cJSON *object;             /* without the limits, which `spec` has */
    struct config_spec spec;
    struct list selecting;   /* in shard_cache.selecting, if its limits select namespaces */
    bool outdated;           /* these are others than when it was compiled */
    unsigned rest;           /* ticks for which it is left as it is; 0: none */
    struct byte_share share; /* of the namespace's account: all but the rules */
    size_t wanted;           /* what it took before it was given up: seen.over; */
    size_t reserved;         /* and takes again, when it is compiled */
    bool stale;              /* not seen yet in the list under way */
    char *changed_by;        /* NULL: nobody, or it is no child */
    char key[];
};

/* The pods with the sidecars of one shard, whether there is a config of that name, and selects
 * them, or not. */
struct injected {
    struct table_node node;
    struct list link; /* of the namespace's */
    struct list pods;
    size_t count;
    char key[];
};

struct pod_entry {
    struct table_node node;
    struct list link;          /* of the namespace's */
    struct list injected_link; /* of its injected's, */
    struct injected *injected; /* NULL: it has none */
    struct pod_selection_pod member;
    struct namespace *namespace;
    struct pod *pod;
    bool stale;
};

/* One that belongs to no config, does not say that it did, and has no pods is seen by nobody:
 * anybody may make it. */
struct map_entry {
    struct table_node node;
    struct list link;            /* of the namespace's */
    struct namespace *namespace; /* NULL: nobody sees it */
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
    struct list listeners;
    struct list *next_listener; /* to be told of what is being told */
    char *namespace;
    char *prefix;
    char *generation_key;
    char *traffic_key;
    char *injected_key;
    char *allow_bypass_key;
    char *let_go_key;
    struct pod_keys keys;

    struct table configs;
    struct table maps;
    struct table pods;
    struct table injected;
    struct table namespaces;
    struct table accounts;
    struct sharing_set shared;
    struct flag_list shareable; /* by configs of any namespace */
    struct namespaces *known;   /* which there are; NULL: nobody knows */
    struct namespaces_listener listener;
    struct list selecting; /* struct config */
    struct net_timer *gather;
    struct net_timer *tick;
    bool gathering; /* the timers are set */
    bool ticking;
    struct informer configs_informer;
    struct informer maps_informer;
    struct informer pods_informer;
    bool synced; /* all three were listed */
    struct informer_counts past[SHARD_CACHE_COLLECTIONS];
    struct net_deadline again;
    bool again_set;

    unsigned keepers;           /* of what counts rules */
    size_t memory_max;          /* of all accounts together; 0: no bound */
    struct byte_budget leaving; /* rules that were given up, and that others hold yet */
    struct net_task trimming;
    struct net_deadline readmission;
    bool readmission_set;
};

static inline struct config *config_of_shard(struct pod_selection_shard *s)
{
    return LIST_ITEM(s, struct config, shard);
}

static inline struct pod_entry *pod_of_member(struct pod_selection_pod *p)
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

static inline struct injected *find_injected(const struct shard_cache *w, const char *key)
{
    struct table_node *n = table_find(&w->injected, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct injected, node);
}

static inline struct map_entry *find_map(const struct shard_cache *w, const char *key)
{
    struct table_node *n = table_find(&w->maps, key);
    return n == NULL ? NULL : LIST_ITEM(n, struct map_entry, node);
}

/* ---- shard_cache_informer.c ---- */

/* "shardingconfigs" and so on. */
const char *shard_cache_collection_text(enum shard_cache_collection c);

void informer_init(struct informer *f, struct shard_cache *w,
                   enum shard_cache_collection collection, const struct reflector_handlers *h);
/* Begins to follow, or begins anew; what there is goes on when that fails. */
MUST_CHECK int informer_follow(struct informer *f, struct err *e);
/* Something could not be kept: the collection is listed again before long. */
void informer_lose(struct informer *f);
/* Follows no more, and keeps the counts. */
void informer_end(struct informer *f);
/* What keeps it from following, for people; NULL: nothing, or it does not follow at all. */
const char *informer_error(const struct informer *f);
/* Adds what its reflector has counted. */
void informer_count(struct informer_counts *to, const struct informer *f);
/* Of each collection's reflector_handlers. */
void informer_on_state(void *data, const char *error, enum log_level level);
/* When shard_cache.again is due: what was lost is listed. */
void shard_cache_list_again(struct net_deadline *d);
void shard_cache_set_deadline(struct shard_cache *w, struct net_deadline *d, uint64_t ms);

/* ---- shard_cache_configs.c, shard_cache_maps.c, shard_cache_pods.c ---- */

extern const struct reflector_handlers shard_cache_config_handlers;
extern const struct reflector_handlers shard_cache_map_handlers;
extern const struct reflector_handlers shard_cache_pod_handlers;

/* The namespace, which goes with its last config, map and pod. NULL without memory. */
MUST_CHECK struct namespace *shard_cache_provide_namespace(struct shard_cache *w, const char *ns);
void shard_cache_leave_namespace(struct shard_cache *w, struct namespace *s);

/* They tell who listens. */
void shard_cache_remove_config(struct shard_cache *w, struct config *c);
/* It selects no pods any more. */
void shard_cache_drop_selector(struct shard_cache *w, struct config *c);
void shard_cache_drop_map(struct shard_cache *w, struct map_entry *m);
/* There is a config of that name, or a pod with its sidecars: the map is seen from now on, if there
 * is one. */
void shard_cache_show_map(struct shard_cache *w, struct namespace *s, const char *key);
void shard_cache_drop_pod(struct shard_cache *w, struct pod_entry *p);

/* ---- shard_cache_sharing.c: shared namespaces ---- */

/* Configs came, went or changed; all of them, or one that shares some, or did. */
void shard_cache_share_namespaces(struct shard_cache *w);
/* There are no configs, since the API server does not know their kind. */
void shard_cache_share_nothing(struct shard_cache *w);

/* ---- shard_cache_namespaces.c: limits by labels of namespaces ---- */

/* 0 or -ENOMEM. */
MUST_CHECK int shard_cache_namespaces_begin(struct shard_cache *w, struct namespaces *known);
void shard_cache_namespaces_end(struct shard_cache *w);
/* The spec is another one. */
void shard_cache_note_selecting(struct shard_cache *w, struct config *c);

/* ---- shard_cache_budget.c: what is kept, and what is given up ---- */

void shard_cache_budget_init(struct shard_cache *w, size_t max);
/* All configs, maps and namespaces are gone. */
void shard_cache_budget_end(struct shard_cache *w);
/* And nobody holds rules of theirs. */
void shard_cache_budget_deinit(struct shard_cache *w);
/* NULL without memory. */
MUST_CHECK struct account *shard_cache_account(struct shard_cache *w, const char *ns);
/* What it takes is other than before. */
void shard_cache_count_config(struct config *c);
/* As soon as the loop runs on, what is too much is given up. */
void shard_cache_trim(struct shard_cache *w);
/* Whether the config is the first to be given up, which it is now, and nobody told. */
bool shard_cache_is_too_much(struct shard_cache *w, struct config *c);
/* Whether it has no pods once it is given up, for its selector is large. */
bool shard_cache_drops_selector(const struct config *c);
bool shard_cache_has_room(const struct shard_cache *w, size_t bytes);
/* Bytes, of all accounts. */
size_t shard_cache_memory(const struct shard_cache *w);
/* How many configs are given up. */
size_t shard_cache_given_up(const struct shard_cache *w);

/* ---- shard_cache.c: telling who listens ---- */

void shard_cache_tell_shard(struct shard_cache *w, const char *key, enum shard_cache_part part);
void shard_cache_tell_pod(struct shard_cache *w, const struct pod *pod, bool gone);
void shard_cache_tell_deleted(struct shard_cache *w, const struct shard_cache_config *config);
void shard_cache_tell_excess(struct shard_cache *w, const char *ns);
/* All shards that select the pod, and the one whose sidecars it has. */
void shard_cache_tell_shards_of(struct shard_cache *w, const struct pod_entry *p);
/* A list is complete: that all are, for the first time. */
void shard_cache_tell_ready(struct shard_cache *w);
void shard_cache_tell_shared(struct shard_cache *w);

#endif
