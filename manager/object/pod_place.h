/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_place.h - the annotation by which a webhook knows the pods of a Deployment that it assigned
 * to a shard (assign/assignment.h): "RANK-MARK", the latter in hexadecimal.
 */
#ifndef MANAGER_OBJECT_POD_PLACE_H
#define MANAGER_OBJECT_POD_PLACE_H

#include <stdint.h>

#define POD_PLACE_SIZE 32

struct pod_place {
    unsigned rank; /* in its shard and ReplicaSet, from 1; 0: it has none */
    uint64_t mark; /* of the assignment; 0: none */
};

void pod_place_print(const struct pod_place *p, char out[POD_PLACE_SIZE]);
/* Anybody may write it: all zero of what makes no sense. */
struct pod_place pod_place_parse(const char *text);

#endif
