/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h - which of the pods of one namespace which shard's selector selects.
 *
 * A pod is compared with few selectors only: each selector is found by a label that it demands
 * (its anchor), chosen so that few others are found by the same.
 */
#ifndef MANAGER_SHARD_MEMBERS_H
#define MANAGER_SHARD_MEMBERS_H

#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "base/table.h"
#include "kube/selector.h"
#include "shard/pod.h"

/* Embedded in whoever has them; list items: struct member. */
struct members_shard {
    struct list pods;
    size_t pod_count;
    struct list anchors;
    struct list loose;
    const struct selector *selector; /* NULL: it selects nothing */
};

struct members_pod {
    struct list shards;
    size_t shard_count;
};

/* That a pod is in a shard. */
struct member {
    struct list of_shard;
    struct list of_pod;
    struct members_shard *shard;
    struct members_pod *pod;
};

struct members {
    struct table anchors;
    struct list loose; /* shards that no label finds */
};

void members_init(struct members *m);
/* All shards were removed. */
void members_deinit(struct members *m);

void members_shard_init(struct members_shard *s);
void members_pod_init(struct members_pod *p);

/* Lets pods find the shard; the selector must outlive that. It has no pods by this: members_join
 * each. 0 or -ENOMEM. */
MUST_CHECK int members_add(struct members *m, struct members_shard *s,
                           const struct selector *selector);
/* It has no pods any more, and is found no more. */
void members_remove(struct members *m, struct members_shard *s);

/* The pod joins the shard if it is selected, and is in it not yet. 0 or -ENOMEM. */
MUST_CHECK int members_join(struct members_shard *s, struct members_pod *p, const struct pod *pod);

/* The pod leaves the shard; the member is freed. Leaves all shards. */
void members_part(struct member *m);
void members_leave(struct members_pod *p);

/* The pod leaves all shards and joins those that select it. 0 or -ENOMEM: it may lack some then. */
MUST_CHECK int members_place(struct members *m, struct members_pod *p, const struct pod *pod);

#endif
