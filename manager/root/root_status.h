/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_status.h - the status of a root: conditions, and a row for each shard, from what is known.
 *
 * No clock, no cluster: the same facts and the same old status give the same bytes, so that nothing
 * is written when nothing changed.
 *
 *   Compiled   the spec makes sense
 *   Sized      the StatefulSet or Deployment has pods for all shards
 *   Balanced   of a Deployment: each shard has its part of the pods
 *   Conflict   somebody else's object has the name of a shard
 *   Ready      all shards are as they are to be, and each of them is Ready; its reason:
 *              Enforced, Disabled; Invalid (or another one of Compiled), Conflict, Refused,
 *              TooManyStatefulSets or -Deployments, Resizing, StatefulSetNotFound or
 *              DeploymentNotFound, WaitingForPods, or that of the first shard that is
 *              not Ready
 *   WebhookRouted  as of the shards (route/route_report.h): False if it is of one of them; only if
 *              one of them has it
 *   Stalled    only while somebody has to change something before it can be Ready
 *
 * Ready, Stalled and observedGeneration are as kstatus wants them (shard/status.h).
 */
#ifndef MANAGER_ROOT_ROOT_STATUS_H
#define MANAGER_ROOT_ROOT_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "root/load_report.h"
#include "root/root_balance.h"
#include "root/targets.h"

struct root_status_shard {
    const char *name;
    bool exists;         /* there is a ShardingConfig of it */
    const cJSON *status; /* of that; NULL: it has none yet */
    bool observed;       /* the status is about the spec that it has */
    bool normal;
    unsigned number;
    unsigned first; /* ordinals of its pods: first to first + wanted - 1 */
    unsigned wanted;
    size_t pods;      /* that it has, */
    size_t ready;     /* and that are ready */
    uint32_t buckets; /* of a normal one */
    bool taken_over;  /* others have them, or the namespaces of the canary, */
    bool leaving;     /* or have them for good */
};

struct root_status_facts {
    const cJSON *root;          /* the ShardingConfig as it is, with its old status */
    const char *invalid_reason; /* why the spec makes no sense: one word, */
    const char *invalid;        /* and for people; NULL: it does, and what follows is known */
    bool drops_pod_names;       /* of spec.selector */
    bool disabled;
    bool under_way;           /* something of what is to be is not written yet */
    const char *refused;      /* why, if the API server does not take it; NULL: it does */
    const char *foreign;      /* names of shards that other objects have; NULL: none */
    const char *earlier;      /* and that children of an earlier root have; NULL: none */
    bool canary_barred;       /* the canary does not get its namespaces for one of these three */
    const char *foreign_pods; /* that have the sidecars of another shard than they are of; NULL */
    bool deployment;          /* the target is one; else a StatefulSet */
    const char *target_name;
    struct target target;
    bool elastic;    /* it says how many shards, or pods of the only one, there are to be */
    unsigned size;   /* normal shards that are to be */
    unsigned needed; /* pods for them and the canary */
    unsigned room;   /* pods that they can have at most */
    const struct root_status_shard *shards;
    size_t count;
    const struct load_report *load;            /* NULL: nothing is known of it */
    const struct load_moves *moves;            /* NULL: likewise */
    const struct root_balance_report *balance; /* NULL: not of a Deployment */
    int64_t now_ms;                            /* of the epoch: for conditions that change */
};

/* What it says, in short. */
#define ROOT_STATUS_REASON_SIZE 64
struct root_status_result {
    bool changed; /* it says anything else than the old one */
    bool ready;
    bool sized;      /* the target is known to have pods for all shards, and no others; or it need
                        not be known */
    bool unbalanced; /* Balanced is False */
    char reason[ROOT_STATUS_REASON_SIZE]; /* of Ready */
};

/* The new status. The caller frees. */
MUST_CHECK cJSON *root_status_make(const struct root_status_facts *f,
                                   struct root_status_result *out);

#endif
