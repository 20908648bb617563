/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assignment.h - which automatic shard a new pod of a Deployment gets.
 *
 * Glossary: a *revision* is a ReplicaSet; the pods of each are spread evenly, for those of the
 * newest are all that is left after a rolling update. Each shard has as many *places* for a
 * revision as it is to have pods, with the *ranks* 1, 2, ...; a pod takes one of them.
 *
 * Webhooks do not see each other's latest assignments. So one takes places from the front, first
 * those of rank 1, and another from the back: they take the same one only when there are more pods
 * than places. From either end each shard gets one pod before any gets the next.
 *
 * Kubernetes is asked to delete high ranks first, so that a ReplicaSet that shrinks takes one pod
 * from each shard before it takes the next (controller.kubernetes.io/pod-deletion-cost, from
 * Kubernetes 1.22 on).
 */
#ifndef MANAGER_ASSIGN_ASSIGNMENT_H
#define MANAGER_ASSIGN_ASSIGNMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Higher ones are not told apart. */
#define ASSIGNMENT_RANKS 1024

struct assignment_shard {
    unsigned number; /* 0: the canary */
    unsigned wanted; /* pods that it is to have, at least 1 */
    bool leaving;    /* gets none */
    bool alive;      /* it has a pod, of any revision */
    /* Pods of the new pod's revision. */
    unsigned pods;
    uint64_t ranks[ASSIGNMENT_RANKS / 64]; /* that they have; not each need have one */
};

struct assignment_place {
    size_t shard; /* its position in the list */
    unsigned rank;
};

/* A pod lives, or was assigned and is not seen yet; rank 0: it has none. */
void assignment_add_pod(struct assignment_shard *s, bool same_revision, unsigned rank);

/* The place of a new pod: in a shard without any pod, if there is one, and from the front or the
 * back; a canary with a single place is filled from the front alone, or last. When there
 * is no place: `beyond`, in the normal shard with the lowest share of `wanted`.
 *
 * 0; -ENOENT: there is no shard; -EAGAIN: there is no place. Then a shard is about to have one
 * more, or a pod has gone and is not seen to. */
MUST_CHECK int assignment_choose(const struct assignment_shard *shards, size_t count,
                                 bool from_back, bool beyond, struct assignment_place *out);

/* What a pod of that rank costs to delete: less than one of a lower rank, or of a lower number and
 * the same rank. Those of the canary cost most. Pods without the annotation cost 0, and go first:
 * they are in no shard. */
int32_t assignment_cost(unsigned number, unsigned rank);

#endif
