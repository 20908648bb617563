/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roots.h - makes of each ShardingConfig with spec.root its children, one for each shard, and keeps
 * them as they are to be: writes those that differ, deletes those that are not to be any more, and
 * tells by the root's status and by Events what is so.
 *
 * Only the leader has one: it begins with roots_new and ends with roots_free, whenever leadership
 * comes and goes. What it must know is in the children themselves, so the next leader goes on from
 * there; only how long shards have lived or been dead is counted anew.
 */
#ifndef MANAGER_ROOT_ROOTS_H
#define MANAGER_ROOT_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "cache/shard_cache.h"
#include "compile/compile.h"
#include "control/status.h"
#include "kube/client/client.h"
#include "kube/client/event_recorder.h"
#include "kube/client/reflector.h"
#include "net/clock.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "runtime/eviction.h"

struct roots;

enum roots_result {
    ROOTS_WRITTEN,
    ROOTS_CONFLICT, /* somebody else was faster, or it is gone: looked at again */
    ROOTS_REFUSED,  /* by a webhook, by rights, as invalid */
    ROOTS_FAILED,
    ROOTS_RESULTS,
};

/* Counts go on from one leadership to the next: they belong to whoever makes roots. All zero at
 * first. */
struct roots_counts {
    uint64_t applies[ROOTS_RESULTS];      /* of children, deletions too */
    uint64_t moved;                       /* buckets that went from one shard to another */
    uint64_t rebalanced;                  /* of them for the sake of load */
    uint64_t evictions[EVICTION_RESULTS]; /* of surplus pods of Deployments */
    uint64_t takeovers; /* shards whose buckets went to the others for want of pods */
};

struct roots_options {
    struct kube_client *client; /* these four must outlive it */
    struct shard_cache *cache;
    struct event_recorder *events;
    struct roots_counts *counts;
    struct compile_labels labels; /* texts are kept, not copied; prefix is not NULL */
    /* Whether this process leads at this very moment: asked right before each write. */
    bool (*may_write)(void *data);
    /* What a pod, "namespace/name", counts; NULL: it does not, or is not known to. Valid until the
     * loop runs on. NULL: nobody knows, and nothing moves for the sake of load. */
    const struct control_load *(*load_of)(void *data, const char *pod);
    void *data;
    uint64_t minute_ms; /* in which load is counted; 0: 60,000 */
    size_t targets;     /* StatefulSets and Deployments that are followed; 0: TARGETS_MAX */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    unsigned parallel;               /* roots that are handled at a time; 0: 4 */
    const struct net_clock *clock;   /* kept, not copied; NULL: the system's */
};

/* Begins with all that the cache knows. */
MUST_CHECK struct roots *roots_new(struct net_loop *l, const struct roots_options *o);

/* Appends metrics, cmesh_manager_root_... without those of its queue. `r` NULL: this process does
 * not lead. Errors stay in `out`. */
void roots_metrics(const struct roots *r, const struct roots_counts *n, struct buf *out);
const struct work_queue *roots_queue(const struct roots *r);

/* At once: requests are broken off; what was sent may be done all the same. NULL is ignored. */
void roots_free(struct roots *r);

#endif
