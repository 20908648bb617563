/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incompatible_pods.h - which pods of a shard do not read rules of a later version: these wait for
 * them, since such a pod would keep the rules that it has for ever.
 */
#ifndef MANAGER_OWNERSHIP_INCOMPATIBLE_PODS_H
#define MANAGER_OWNERSHIP_INCOMPATIBLE_PODS_H

#include "base/buf.h"
#include "ownership/ownership.h"

/* How many of them; appends the names of some. `first`: there were no rules before. */
size_t incompatible_pods(const struct ownership_pod *pods, size_t count, enum rules_version version,
                         bool first, struct buf *names);

#endif
