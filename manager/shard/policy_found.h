/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_found.h - the shards and the pods that a traffic policy is for, and how it stands with
 * them.
 */
#ifndef MANAGER_SHARD_POLICY_FOUND_H
#define MANAGER_SHARD_POLICY_FOUND_H

#include "policy/policy_status.h"
#include "shard/controller_internal.h"

/* All zero: nothing. Texts are valid until the loop runs on. */
struct policy_found {
    struct policy_shard *shards; /* both in the order of their names */
    size_t shard_count;
    struct policy_pod *pods;
    size_t pod_count;
    bool early;   /* a pod has not been asked yet */
    bool pending; /* a shard has not been looked at since the policies changed */
};

void policy_found_look(const struct controller *c, const struct policy_object *o,
                       struct policy_found *out);
void policy_found_deinit(struct policy_found *f);

#endif
