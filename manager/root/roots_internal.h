/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roots_internal.h - how a root is handled: a pass over all that it is to have.
 *
 *     queue -> root_begin: facts -> layout -> removals
 *           -> strays are deleted
 *           -> children that gain buckets, or whose spec is another one, are applied   (GROW)
 *           -> children that lose buckets                                              (SHRINK)
 *           -> children that are not to be any more are deleted                        (REMOVE)
 *           -> root_report: status, Events
 *
 * At most one request of a root is under way. What changes meanwhile puts the root into the queue
 * again: a pass ends early when its root is another one by then.
 *
 * Losses wait for all gains: what was taken from one shard and could not be given to another would
 * be unowned. The canary comes first in each round. Normal shards keep the namespaces that it
 * cannot get, and gain those that it is about to lose before it loses them. What it has now is read
 * from its child, so the next leader continues.
 *
 * A child may be refused while another one selects the same pods. Then the others come first, as
 * far as they can without losing buckets, and it is tried again. That ends, because shards have
 * consecutive ordinals.
 */
#ifndef MANAGER_ROOT_ROOTS_INTERNAL_H
#define MANAGER_ROOT_ROOTS_INTERNAL_H

#include "cache/namespaces.h"
#include "root/child.h"
#include "root/layout.h"
#include "root/root_balance.h"
#include "root/root_life.h"
#include "root/root_load.h"
#include "root/root_spec.h"
#include "root/root_status.h"
#include "root/roots.h"
#include "root/targets.h"
#include "runtime/reconciler.h"

#define ROOT_CHILDREN_MAX (1 + ROOT_SHARDS_MAX)

/* What is remembered of a child: nothing that another leader would need. */
struct root_child {
    bool known; /* it is there, or somebody deleted it, with: */
    uint32_t buckets;
    bool taken_over;
    cJSON *share; /* of the canary: root_child_share; NULL: it is not there */
    struct root_life life;

    uint64_t wanted;   /* digest of what was applied last, or found to be there; 0: nothing */
    uint64_t specced;  /* digest of its spec, */
    uint64_t accepted; /* and of what the API server makes of that; 0: others own more of it */

    /* An answer that the cache does not show yet. */
    char *uid;     /* NULL: there is none */
    char *version; /* NULL: it was deleted */
    uint64_t base; /* what the cache showed when it was written */
    uint64_t written_at;

    /* This version was found to be right for this wish: both need not be looked at again. */
    uint64_t checked;
    uint64_t checked_wish;
    uint64_t told;    /* an Event has told of this version, somebody else's */
    uint64_t refusal; /* hash of why it was refused, which was logged last; 0: nothing was */
};

enum root_phase { ROOT_STRAYS, ROOT_GROW, ROOT_SHRINK, ROOT_REMOVE, ROOT_OVER };

/* A child that is to go. */
struct root_removal {
    unsigned number; /* ROOT_CHILDREN_MAX: a stray, whose name is none that this root would give */
    char *name;
    char *uid;
    char *version;
};

struct root_pass {
    enum root_phase phase;
    uint64_t digest;       /* of the root's spec */
    cJSON *whole;          /* the root with its spec; NULL: it is over the memory budget */
    struct root_spec spec; /* points into it */
    struct err invalid;    /* why the spec makes no sense; code 0: it does */
    struct target target;
    struct layout_child facts[ROOT_CHILDREN_MAX];
    size_t fact_count;
    struct layout layout;
    bool had_canary; /* normal shards had the share of the canary when the pass began */
    bool held;       /* buckets stay where they are, for the last ones that moved are under way */
    struct root_removal *removals;
    size_t removal_count;
    size_t at;      /* the next shard, or removal, of the phase */
    bool keeps;     /* the canary has another share than it is to have, */
    bool barred;    /* because its child cannot be written */
    bool squeeze;   /* in GROW come those that lose buckets, too, without losing any */
    bool progress;  /* something was written in this round */
    bool refused;   /* and something was not */
    bool conflict;  /* a shard cannot have what it is to gain */
    struct err why; /* the last refusal */

    /* The request under way. */
    struct layout_shard shard; /* as it is written */
    cJSON *body;
    uint64_t wish;
    uint64_t base; /* what the cache showed before */
    bool existed;
    bool deleted;     /* by somebody else: it is made again */
    char *changed_by; /* NULL: nobody did */
    uint64_t edited;  /* the version that they made */
};

struct root {
    struct reconcile run;
    struct roots *roots;
    const char *key; /* of run */
    char *uid;
    uint64_t valid; /* digest of a spec that makes sense; 0: none */
    char *prefix;   /* of the last spec; NULL: there was none */
    bool refused;   /* in the last pass something was: what others are may be why */
    struct root_child children[ROOT_CHILDREN_MAX];
    struct target_hold target;
    bool needs_namespaces;
    struct root_pass pass;

    int64_t first;      /* ordinal of the first pod of the last layout; -1: there was none */
    uint64_t moved_at;  /* buckets were moved last; or it was seen first */
    unsigned size;      /* of the layout that was reached last; 0: none was */
    size_t moved;       /* buckets since then, */
    bool told_takeover; /* of which an Event has told */
    struct root_load load;
    struct root_balance balance;
    uint64_t conflicts;     /* digest of those that an Event told of; 0: none */
    uint64_t stray_refusal; /* root_child.refusal of the last stray */

    cJSON *status; /* that is being written */

    /* For metrics. */
    size_t child_count;
    struct root_status_result reported; /* last; reason "": nothing was */
};

struct roots {
    struct net_loop *loop;
    struct roots_options options;
    const struct net_clock *clock;
    struct reconciler *reconciler; /* struct root */
    struct shard_cache_listener listener;
    struct targets *targets;
    struct namespaces *namespaces; /* NULL: no root needs them */
    const char **names;            /* copies of theirs, sorted; NULL: to be collected */
    size_t name_count;
    uint64_t names_digest;
    struct net_timer *load_timer;
    struct eviction_api eviction;
    size_t locks; /* Leases of shards that are watched */
};

/* ---- roots.c ---- */

uint64_t roots_now(const struct roots *r);
/* NULL: it is gone, or no root any more. */
const struct shard_cache_config *root_config(const struct root *t);
/* "/apis/.../namespaces/NS/shardingconfigs"; the caller frees. */
char *root_path(const struct root *t);
#define ROOT_NS_SIZE 64
const char *root_namespace(const struct root *t, char out[ROOT_NS_SIZE]);
/* A number for this state of an object; never 0. NULL: 1. */
uint64_t root_version(const struct shard_cache_config *config);
/* Names of all namespaces, from now on followed. False: they are not known yet. */
MUST_CHECK bool roots_names(struct roots *r, struct child_namespaces *out);

/* ---- root_facts.c ---- */

/* Whether the config is a child of this root. */
bool root_owns(const struct root *t, const struct shard_cache_config *config);
/* The root that has it; "": none. */
const char *root_other_owner(const struct shard_cache_config *config);
/* Whether it is one of an earlier root of the same name, which the garbage collector deletes. */
bool root_owned_before(const struct root *t, const struct shard_cache_config *config);
/* Of what has the name of a child. */
const struct shard_cache_config *root_find_child(const struct root *t, unsigned number);
/* If the cache shows what was written of it, or something later, the answer is forgotten: whether
 * there is none. */
bool root_child_settle(const struct root *t, struct root_child *c,
                       const struct shard_cache_config *config);
/* It is as the cache shows it. */
void root_child_forget_answer(struct root_child *c);
void root_child_forget(struct root_child *c);
/* It is to have another name: what it had stays. */
void root_child_rename(struct root_child *c);
/* What is known of the pods of a shard, of whatever is its child. */
struct root_pods {
    size_t all;    /* that its child selects, or that have its sidecars */
    size_t own;    /* of them those that have its sidecars */
    size_t ready;  /* and are ready, */
    int64_t since; /* the first of them since then: seconds of the epoch; 0: not known */
};
struct root_pods root_count_pods(const struct root *t, unsigned number);
/* pass.facts, from the cache and from what is remembered. */
void root_gather(struct root *t);
/* pass.layout; buckets stay where they are while others are under way. */
void root_lay_out(struct root *t);
/* pass.removals. */
void root_find_removals(struct root *t);

/* ---- root_pass.c ---- */

void root_begin(struct root *t);
void root_end_pass(struct root *t);

/* ---- root_report.c ---- */

void root_report(struct root *t);

#endif
