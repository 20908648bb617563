/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_cache_internal.h - how a cache keeps what it knows.
 *
 * shard_cache.c begins and ends it, tells who listens, and keeps namespaces; shard_cache_configs.c,
 * shard_cache_maps.c and shard_cache_pods.c say what the informers keep of each object, and answer;
 * shard_cache_renewal.c decides which configs are compiled anew, shard_cache_budget.c what is given
 * up when all take too much.
 */
#ifndef MANAGER_CACHE_SHARD_CACHE_INTERNAL_H
#define MANAGER_CACHE_SHARD_CACHE_INTERNAL_H

#include "base/list.h"
#include "base/table.h"
#include "cache/config_spec.h"
#include "cache/pod_selection.h"
#include "cache/shard_cache.h"
#include "kube/client/informer.h"
#include "net/deadline.h"
#include "net/timer.h"

/* A namespace with configs, rules of one that is gone, or pods; or whose shards take memory. */
struct namespace
{
    struct table_node node;
    struct list configs;
    struct list maps;
    struct list pods;
    struct list injected; /* struct injected */
    struct pod_selection members;
    struct byte_budget bytes; /* of its shards; bound is shard_cache.memory_max, for all together */
    bool asked;               /* for the past of its shards, and */
    bool exhausted;           /* for all it can give up: by the trim under way */
    char name[];
};

struct config {
    struct informer_item item;
    struct shard_cache_config seen; /* what others see; points into `object` */
    struct list link;               /* of the namespace's */
    struct pod_selection_shard shard;
    struct namespace *namespace;
    struct selector *selector; /* NULL: no pods */
    cJSON *object;             /* without the limits, which `spec` has */
    struct config_spec spec;
    struct list selecting;   /* in shard_cache.selecting, if its limits select namespaces */
    bool outdated;           /* these are others than when it was compiled */
    unsigned rest;           /* ticks for which it is left as it is; 0: none */
    struct byte_share share; /* of the namespace's bytes: all but the rules */
    size_t wanted;           /* what it took before it was given up: seen.over; */
    size_t reserved;         /* and takes again, when it is compiled */
    bool shares;             /* it shared namespaces when it was last reported */
    char *changed_by;        /* NULL: nobody, or it is no child */
};

/* One allocation. */
struct pod_entry {
    struct informer_item item;
    struct list link;          /* of the namespace's */
    struct list injected_link; /* of its injected's, */
    struct injected *injected; /* of shard_cache_pods.c; NULL: it has none */
    struct pod_selection_pod member;
    struct namespace *namespace;
    struct pod pod;
};

/* One that belongs to no config, does not say that it did, and has no pods is seen by nobody:
 * anybody may make it. */
struct map_entry {
    struct informer_item item;
    struct list link;            /* of the namespace's */
    struct namespace *namespace; /* NULL: nobody sees it */
    struct rules_map *map;
};

struct shard_cache {
    struct net_loop *loop;
    const struct net_clock *clock;
    const struct reflector_ops *ops;
    struct list listeners;
    struct list *next_listener; /* to be told of what is being told */
    char *prefix;
    struct pod_keys keys; /* of key_texts */
    char key_texts[6][NAMES_KEY_SIZE];

    /* Maps and pods are held until the configs are known: which of them are to be read, and so that
     * each pod is compared with few selectors, in place of each selector with all pods. */
    struct informer *configs;
    struct informer *maps;
    struct informer *pods;
    bool synced; /* all three were listed */
    struct table injected;
    struct table namespaces;

    struct sharing_set shared;
    struct flag_list shareable; /* by configs of any namespace */
    struct namespaces *known;   /* which there are; NULL: nobody knows */
    struct namespaces_listener listener;
    struct list selecting; /* struct config */
    struct net_timer *gather;
    struct net_timer *tick;
    bool gathering; /* the timers are set */
    bool ticking;

    unsigned keepers;           /* of what counts rules */
    size_t memory_max;          /* of all namespaces together; 0: no bound */
    struct byte_budget leaving; /* rules that were given up, and that others hold yet */
    struct net_task trimming;
    struct net_deadline readmission;
    bool readmission_set;
};

static inline struct config *config_of(const struct informer_item *i)
{
    return (struct config *)(void *)i;
}

static inline struct map_entry *map_of(const struct informer_item *i)
{
    return (struct map_entry *)(void *)i;
}

static inline struct pod_entry *pod_of(const struct informer_item *i)
{
    return (struct pod_entry *)(void *)i;
}

static inline struct pod_entry *entry_of_pod(const struct pod *p)
{
    return LIST_ITEM(p, struct pod_entry, pod);
}

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
    return config_of(informer_find(w->configs, key));
}

static inline struct map_entry *find_map(const struct shard_cache *w, const char *key)
{
    return map_of(informer_find(w->maps, key));
}

static inline struct namespace *find_namespace(const struct shard_cache *w, const char *ns)
{
    return TABLE_FIND(&w->namespaces, slice_str(ns), struct namespace);
}

/* One after the other; NULL begins, and ends. */
static inline struct namespace *next_namespace(const struct shard_cache *w,
                                               const struct namespace *s)
{
    struct table_node *n = table_next(&w->namespaces, s == NULL ? NULL : &s->node);
    return n == NULL ? NULL : LIST_ITEM(n, struct namespace, node);
}

static inline struct config *next_config(const struct shard_cache *w, const struct config *c)
{
    return config_of(informer_next(w->configs, c == NULL ? NULL : &c->item));
}

static inline struct map_entry *next_map(const struct shard_cache *w, const struct map_entry *m)
{
    return map_of(informer_next(w->maps, m == NULL ? NULL : &m->item));
}

/* ---- shard_cache.c ---- */

MUST_CHECK struct namespace *shard_cache_provide_namespace(struct shard_cache *w, const char *ns);
/* Something of it is gone: it goes with the last of it. */
void shard_cache_leave_namespace(struct shard_cache *w, const struct namespace *s);

void shard_cache_tell_shard(struct shard_cache *w, const char *key, enum shard_cache_part part);
void shard_cache_tell_pod(struct shard_cache *w, const struct pod *pod, bool gone);
void shard_cache_tell_excess(struct shard_cache *w, const char *ns);
/* All shards that select the pod, and the one whose sidecars it has. */
void shard_cache_tell_shards_of(struct shard_cache *w, const struct pod_entry *p);
/* A list is complete: that all are, for the first time. */
void shard_cache_tell_ready(struct shard_cache *w);
void shard_cache_tell_shared(struct shard_cache *w);

/* ---- shard_cache_configs.c, shard_cache_maps.c, shard_cache_pods.c ---- */

extern const struct informer_kind shard_cache_config_kind;
extern const struct informer_kind shard_cache_map_kind;
extern const struct informer_kind shard_cache_pod_kind;

/* What keeps it from following configs, for people; NULL: nothing. */
const char *shard_cache_configs_error(const struct shard_cache *w);
/* It selects no pods any more. */
void shard_cache_drop_selector(struct shard_cache *w, struct config *c);
/* Whether there are pods with its sidecars, whether there is a config of that name or not. */
bool shard_cache_is_injected(const struct shard_cache *w, const char *key);
/* There is a config of that name, or a pod with its sidecars: the map is seen from now on, if there
 * is one. */
void shard_cache_show_map(struct shard_cache *w, struct namespace *s, const char *key);

/* ---- shard_cache_renewal.c ---- */

/* Follows the labels of namespaces. */
void shard_cache_renewal_begin(struct shard_cache *w, struct namespaces *known);
void shard_cache_renewal_end(struct shard_cache *w);
/* The spec is another one. */
void shard_cache_note_selecting(struct shard_cache *w, struct config *c);
/* Configs came, went or changed; all of them, or one that shares namespaces, or did. */
void shard_cache_share_namespaces(struct shard_cache *w);
/* There are no configs, since the API server does not know their kind. */
void shard_cache_share_nothing(struct shard_cache *w);

/* ---- shard_cache_budget.c ---- */

void shard_cache_budget_init(struct shard_cache *w, size_t max);
/* All configs, maps and pods are gone. */
void shard_cache_budget_end(struct shard_cache *w);
/* And nobody holds rules of theirs. */
void shard_cache_budget_deinit(struct shard_cache *w);
/* What it takes is other than before. */
void shard_cache_count_config(struct config *c);
/* As soon as the loop runs on, what is too much is given up. */
void shard_cache_trim(struct shard_cache *w);
/* Whether the config is the first to be given up, which it is now, and nobody told. */
bool shard_cache_is_too_much(struct shard_cache *w, struct config *c);
/* Whether it has no pods once it is given up, for its selector is large. */
bool shard_cache_drops_selector(const struct config *c);
bool shard_cache_has_room(const struct shard_cache *w, size_t bytes);
/* Bytes, of all namespaces. */
size_t shard_cache_memory(const struct shard_cache *w);
/* How many configs are given up. */
size_t shard_cache_given_up(const struct shard_cache *w);

#endif
