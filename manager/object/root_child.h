/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_child.h - how to tell a ShardingConfig that a root made, and what it is for.
 */
#ifndef MANAGER_OBJECT_ROOT_CHILD_H
#define MANAGER_OBJECT_ROOT_CHILD_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"

/* Below the prefix of labels. Label of each child: the name of its root. */
#define ROOT_LABEL "auto-sharding-root"
/* Annotations: of each normal child its buckets (buckets_print); and of each child "true" while
 * others have its share. */
#define ROOT_BUCKETS "auto-sharding-buckets"
#define ROOT_TAKEN_OVER "auto-sharding-taken-over"
/* Annotations of children of a root with targetDeployment: how many pods the shard is to have; and
 * "true" while it is leaving, because there are to be fewer shards. */
#define ROOT_PODS "auto-sharding-pods"
#define ROOT_LEAVING "auto-sharding-leaving"
/* Name of who owns the fields of children. */
#define ROOT_FIELD_MANAGER "cmesh-root"

/* The name of the root that made it, as its label says; "": somebody else did. */
const char *root_child_parent(const cJSON *config, const char *prefix);

/* The name of the Deployment whose pods a root spreads; "": it has none, or is no root. */
const char *root_child_deployment(const cJSON *root);

/* Whether that is a pod's name, of a Deployment with that pod-template-hash ("": it has none). */
bool root_child_deploys(const cJSON *root, const char *pod, const char *hash);

/* Of two roots with the same Deployment: whether `a` gets its pods, as the older one. */
bool root_child_precedes(const cJSON *a, const cJSON *b);

/* The number of the child of that name, 0 of the canary, by root.prefix. -ENOENT: it is not one
 * that the root would have. */
MUST_CHECK int root_child_number(const char *prefix, const char *name);

/* A shard among which the pods of a Deployment are spread. */
struct root_child_seat {
    unsigned number; /* 0: the canary */
    unsigned wanted; /* pods that it is to have, at least 1: its weight among the shards. The canary
                        has no more than that, as long as there is a normal shard */
    bool leaving;    /* it gets no further pods, and those that it has are evicted */
};

/* Reads it from a child of the root, as it is applied or as config_spec_rest keeps it: not whose it
 * is, which root_child_parent and its owner tell. False: it is no shard of a Deployment, or not one
 * of that root's names. The pods of the shard have the label POD_SHARD (names.h) with the name of
 * the child. */
bool root_child_seat(const cJSON *root, const cJSON *child, const char *prefix,
                     struct root_child_seat *out);

/* What the canary asks for beside what all children do: the last requirement of its first limit.
 * Of a child as it is applied, or as config_spec_rest keeps it. NULL: there is none. */
const cJSON *root_child_share(const cJSON *child);

#endif
