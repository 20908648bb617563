/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_selection.h - which of the pods of one namespace which shard's selector selects.
 *
 * A pod is compared with few selectors only: each selector is found by a label that it demands
 * (its anchor), chosen so that few others are found by the same.
 */
#ifndef MANAGER_CACHE_POD_SELECTION_H
#define MANAGER_CACHE_POD_SELECTION_H

#include <stddef.h>

#include "base/list.h"
#include "base/table.h"
#include "cache/pod.h"
#include "kube/selector.h"

/* Embedded in whoever has them; list items: struct member. */
struct pod_selection_shard {
    struct list pods;
    size_t pod_count;
    struct list anchors;
    struct list loose;
    const struct selector *selector; /* NULL: it selects nothing */
};

struct pod_selection_pod {
    struct list shards;
    size_t shard_count;
};

/* That a pod is in a shard. */
struct member {
    struct list of_shard;
    struct list of_pod;
    struct pod_selection_shard *shard;
    struct pod_selection_pod *pod;
};

struct pod_selection {
    struct table anchors;
    struct list loose; /* shards that no label finds */
};

void pod_selection_init(struct pod_selection *m);
/* All shards were removed. */
void pod_selection_deinit(struct pod_selection *m);

void pod_selection_shard_init(struct pod_selection_shard *s);
void pod_selection_pod_init(struct pod_selection_pod *p);

/* Lets pods find the shard; the selector must outlive that. It has no pods by this:
 * pod_selection_join each. */
void pod_selection_add(struct pod_selection *m, struct pod_selection_shard *s,
                       const struct selector *selector);
/* It has no pods any more, and is found no more. */
void pod_selection_remove(struct pod_selection *m, struct pod_selection_shard *s);

/* The pod joins the shard if it is selected, and is in it not yet. */
void pod_selection_join(struct pod_selection_shard *s, struct pod_selection_pod *p,
                        const struct pod *pod);

/* The pod leaves the shard; the member is freed. Leaves all shards. */
void pod_selection_part(struct member *m);
void pod_selection_leave(struct pod_selection_pod *p);

/* The pod leaves all shards and joins those that select it. */
void pod_selection_place(struct pod_selection *m, struct pod_selection_pod *p,
                         const struct pod *pod);

#endif
