/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_roots.h - the shards of the roots among ShardingConfigs of files, made as the manager would
 * in the end, when all pods of the target are there and live.
 *
 * Shards of a root that the files hold too, as `kubectl get` prints them, are what there is:
 * buckets stay where they are, as far as they can. They are replaced by what is made.
 */
#ifndef MANAGER_COMMANDS_SHARD_ROOTS_H
#define MANAGER_COMMANDS_SHARD_ROOTS_H

#include "commands/shard_files.h"

/* When namespaces are known, and before anything is compiled. What is wrong with a root is not
 * told: validation does. */
void shard_roots_expand(struct shard_files *r);

#endif
