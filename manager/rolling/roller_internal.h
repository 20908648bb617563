/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roller_internal.h - what the steps of the roller share.
 *
 *     queue -> roll_view_look -> roll_decide -> the annotations are as they should be?
 *                no: they are written -> done; the watch brings it again
 *                yes, and a pod is to be evicted: it is evicted -> done
 *
 * At most one request of a roll is under way. Between two steps anything may have changed: each
 * looks anew.
 */
#ifndef MANAGER_ROLLING_ROLLER_INTERNAL_H
#define MANAGER_ROLLING_ROLLER_INTERNAL_H

#include "base/list.h"
#include "base/table.h"
#include "kube/client/informer.h"
#include "lock/shard_lock.h"
#include "rolling/roll.h"
#include "rolling/roll_status.h"
#include "rolling/roller.h"
#include "rolling/stateful_set.h"
#include "runtime/reconciler.h"

#define ROLLER_UID_SIZE 64

/* What the rolls of a namespace take of what is bounded. */
struct roll_namespace {
    struct table_node node;
    size_t rolls;
    size_t locks;
    bool full; /* that there are too many StatefulSets was logged */
    char name[];
};

struct lock_watch;

/* A StatefulSet with the label. What is remembered no other leader would need. */
struct roll {
    struct reconcile run;
    struct roller *roller;
    const char *key; /* of run */
    struct roll_namespace *ns;
    struct stateful_set *set; /* NULL: it has just been forgotten */
    bool gone;                /* the label was taken away, or the StatefulSet deleted, */
    bool paused;              /* and it says so, or need not */
    bool fresh;               /* it came while this roller ran: what it waits for counts from now */
    struct lock_watch **locks; /* of the shards of the last look; NULL: that one has none */
    size_t lock_count;

    enum roll_state state; /* as it was found last */
    struct roll_step step; /* that was described last */
    uint64_t unseen_since; /* roll_facts.unseen; 0: it is not */

    /* What it waits for: a pod or a shard, by name; "": nothing. */
    char waits_for[NAME_SUBDOMAIN_MAX + 1];
    uint64_t waits_since;
    char failing[ROLLER_UID_SIZE]; /* the pod of which a container does not start; "" */
    uint64_t failing_since;

    char target[ROLLER_UID_SIZE]; /* the pod whose eviction was asked for last, */
    char target_name[NAME_SUBDOMAIN_MAX + 1];
    char evicted[ROLLER_UID_SIZE]; /* and of which the API server has answered that it is; "" */
    uint64_t evicted_at;
    bool missed;          /* a pod was evicted, or was missing or ending at the last look */
    uint64_t whole_since; /* since all are there; 0: a pod has never been missing */
    uint64_t not_before;  /* of the next try to evict */
    char blocked[ROLL_STATUS_MESSAGE_SIZE]; /* why the last one failed; "": it did not */

    /* Annotations that are being written, and what Events are to tell then. */
    struct roll_status writing;
    struct roll_status before;
    bool begins;                        /* another revision is rolled out */
    char shard[NAME_SUBDOMAIN_MAX + 1]; /* of the pod that was evicted last, as was told; "" */
};

struct roller {
    struct net_loop *loop;
    struct roller_options options;
    const struct net_clock *clock;
    struct informer *informer;     /* of StatefulSets with the label */
    struct reconciler *reconciler; /* struct roll */
    struct shard_cache_listener pods;
    struct table namespaces; /* in which there are rolls */
    struct table locks;      /* that they watch */
    struct eviction_api eviction;
    bool full; /* there are more StatefulSets than are followed */
};

/* ---- what there is ---- */

/* Valid until the loop runs on. */
struct roll_view {
    struct roll_facts facts;
    struct roll_shard *shards;
    struct roll_pod *pods;
    const struct pod **objects;                /* of the pods; NULL: not there */
    const struct shard_cache_config **configs; /* of the shards */
    char *names;                               /* of the pods */
};

/* True: roll_view_deinit is due; false: it needs more locks than there is room for. `status`: what
 * the annotation says. */
MUST_CHECK bool roll_view_look(struct roll *r, const struct roll_status *status,
                               struct roll_view *out);
void roll_view_deinit(struct roll_view *v);

/* Watches the locks of its shards, and those alone. Others may lose theirs, and are refused with
 * their next look. False, with its own as they were: there is no room. */
MUST_CHECK bool roll_take_locks(struct roll *r, const struct roll_view *v);
/* Of a shard of the view for which they were taken; NULL: it has none. */
const struct shard_lock *roll_lock_of(const struct roll *r, size_t shard);
void roll_forget_locks(struct roll *r);

/* ---- what is said ---- */

/* Why it cannot be rolled at all, for people; false: it can. */
bool roll_refusal(const struct roll *r, char why[ROLL_STATUS_MESSAGE_SIZE]);
/* What the annotation is to say of a step. */
void roll_describe(struct roll *r, const struct roll_view *v, const struct roll_step *step,
                   const struct roll_status *before, struct roll_status *out);
/* The annotations were written: Events tell what is new. */
void roll_tell(struct roll *r);
/* The patch that writes them, over the version that was looked at. */
MUST_CHECK cJSON *roll_patch(const struct roll *r, const struct roll_status *status,
                             const char *expected);

#endif
