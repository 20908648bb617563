/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assignments.h - what a webhook assigned in the last seconds, until the cache shows the pods.
 *
 * A pod has no name when it is admitted, so each assignment has a *mark*, which goes into an
 * annotation of the pod. An assignment is remembered until a pod with its mark was seen, or for
 * ASSIGNMENTS_MS: the pod may never come to be, because a quota or another webhook refuses it. Of
 * more than ASSIGNMENTS_MAX the oldest are forgotten.
 */
#ifndef MANAGER_ASSIGN_ASSIGNMENTS_H
#define MANAGER_ASSIGN_ASSIGNMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASSIGNMENTS_MAX 1024
#define ASSIGNMENTS_MS 3000

struct assignment {
    uint64_t root;     /* a hash of the root's uid */
    uint64_t revision; /* of the ReplicaSet's */
    unsigned number;   /* of the shard */
    unsigned rank;
    uint64_t at_ms;
    bool seen;
};

struct assignments {
    uint64_t first;                           /* mark of the oldest */
    uint64_t next;                            /* mark of the one that comes next */
    struct assignment items[ASSIGNMENTS_MAX]; /* by their marks, one after the other */
};

/* `random`: marks begin there, so that no other process has the same ones. */
void assignments_init(struct assignments *m, uint64_t random);

/* The mark of the next one, never 0. */
uint64_t assignments_mark(const struct assignments *m);
void assignments_add(struct assignments *m, const struct assignment *a);
/* A pod with that mark was seen. Marks of others are ignored. */
void assignments_see(struct assignments *m, uint64_t mark);
/* Forgets what is too old. */
void assignments_expire(struct assignments *m, uint64_t now_ms);
/* Those that were not seen, one after the other; NULL begins, and ends. */
const struct assignment *assignments_next(const struct assignments *m, const struct assignment *a);

#endif
