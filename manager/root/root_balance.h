/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_balance.h - evicts one surplus pod after the other of a Deployment whose shards have too
 * many or too few: its successor goes to the shard that lacks one most.
 *
 * Nothing is evicted while the Deployment is being rolled out or scaled, or before all has been at
 * rest for BALANCE_PAUSE_MS; to evict a pod that is ready all must be available. As a move of a
 * bucket (root_load.h), an eviction is written into the root's status first, so that a new leader
 * knows of it. If the successor comes to the same shard, the next eviction waits for twice as long.
 *
 *   NONE -- a pod is surplus, and has been for long enough --> PLANNED
 *   PLANNED -- the status shows it --> evicted --> NONE
 *   PLANNED -- another pod, or none, is surplus --> NONE
 */
#ifndef MANAGER_ROOT_ROOT_BALANCE_H
#define MANAGER_ROOT_ROOT_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/name.h"
#include "lock/shard_lock.h"
#include "root/balance.h"
#include "root/child.h"

struct root;
struct shard_lock;

#define BALANCE_PAUSE_MS 30000
/* Leases of shards that are watched for all roots, each while a pod of its shard is surplus: who
 * leads is not known of more. */
#define BALANCE_LOCKS_MAX 32

#define BALANCE_UID_SIZE 64
#define BALANCE_MESSAGE_SIZE 1024

/* What the status of the root says. */
struct root_balance_report {
    const char *status; /* of the condition Balanced; NULL: there is none */
    const char *reason;
    char message[BALANCE_MESSAGE_SIZE];
    /* status.root.eviction, the last one or the next; "": none */
    char pod[NAME_SUBDOMAIN_MAX + 1];
    char shard[CHILD_NAME_SIZE];
    int64_t at_s;
};

struct root_balance {
    struct root_balance_report report;
    bool rival;   /* another root gets the pods of the Deployment */
    bool planned; /* report.pod is to be evicted, */
    char uid[BALANCE_UID_SIZE];
    char to[CHILD_NAME_SIZE];    /* for that shard; "": for none */
    size_t live;                 /* pods at the last look */
    uint64_t rolled_since;       /* ms; 0: the Deployment is not rolled out */
    uint64_t rest_since;         /* nor are all its pods available */
    uint64_t short_since;        /* pods seem to have no shard: the cache may be behind */
    uint64_t not_before;         /* of the next try */
    char blocked[ERR_MSG_MAX];   /* why the last one failed; "": it did not */
    char gone[BALANCE_UID_SIZE]; /* evicted just now, though the cache may not show it; "" */
    uint64_t gone_at;
    unsigned from;           /* the shard of the pod that is, or was evicted, */
    size_t had;              /* and how many pods it had then */
    bool judged;             /* whether that was of use */
    unsigned fruitless;      /* evictions one after the other, of which the successor came back */
    struct shard_lock *lock; /* of the shard with the surplus; NULL */
    struct lock_place place; /* of the lock */
};

/* ---- of a root, in a pass ---- */

/* pass.layout is made: looks at the pods, makes the report, and plans. */
void root_balance_look(struct root *t);
/* A plan is to be carried out: the pass ends with it. False: there is none. */
bool root_balance_evict(struct root *t);

void root_balance_forget(struct root *t);

#endif
