/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roller.h - rolls StatefulSets with the label PREFIX/rolling, shard by shard and pod by pod:
 * evicts one, waits until its successor does all that it should, and goes on.
 *
 * Only the leader has one. What it knows is at the API server, so the next leader goes on from
 * there. Before a pod is evicted, an annotation of the StatefulSet names it, written over the very
 * version that was looked at; as long as it stands there nobody evicts another pod. So two pods are
 * never out at a time, whenever leaders change and however late what they sent arrives.
 */
#ifndef MANAGER_ROLLING_ROLLER_H
#define MANAGER_ROLLING_ROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "cache/shard_cache.h"
#include "kube/client/client.h"
#include "kube/client/event_recorder.h"
#include "kube/client/reflector.h"
#include "net/clock.h"
#include "net/loop.h"
#include "runtime/eviction.h"
#include "shard/controller.h"

/* StatefulSets that are followed, and of them in one namespace: more are passed over. */
#define ROLLER_SETS_MAX 10000
#define ROLLER_NAMESPACE_SETS_MAX 500
/* Leases of shards that are watched, and of them for one namespace: rolls that need more are
 * refused until there is room. */
#define ROLLER_LOCKS_MAX 2048
#define ROLLER_NAMESPACE_LOCKS_MAX 256
/* Pods of one of them; larger ones are refused. */
#define ROLLER_PODS_MAX 10000

struct roller;

/* Counts go on from one roller to the next: they belong to whoever makes them. All zero at first.
 */
struct roller_counts {
    uint64_t evictions[EVICTION_RESULTS];
};

struct roller_options {
    struct kube_client *client; /* these five must outlive the roller */
    struct shard_cache *cache;
    const struct controller *controller;
    struct event_recorder *events;
    struct roller_counts *counts;
    const char *prefix;    /* of labels and annotations; kept, not copied */
    const char *namespace; /* nothing else is looked at; NULL: all; copied */
    /* Whether this process leads at this very moment: asked right before each write. */
    bool (*may_write)(void *data);
    void *data;
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    const struct net_clock *clock;   /* kept, not copied; NULL: the system's */
};

MUST_CHECK struct roller *roller_new(struct net_loop *l, const struct roller_options *o);

/* Adds what there is to say of each roll. `r` NULL: nothing. */
void roller_status(const struct roller *r, cJSON *root);
/* Appends metrics, cmesh_manager_rolling_... `r` NULL: this process does not lead. Errors stay in
 * `out`. */
void roller_metrics(const struct roller *r, const struct roller_counts *n, struct buf *out);

/* At once: requests are broken off; what was sent may be done all the same. NULL is ignored. */
void roller_free(struct roller *r);

#endif
