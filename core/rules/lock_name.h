/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_name.h - what the leader election lock of one shard is called: NAME---SHARD. localproxy
 * renames the operator's lock so, and the manager finds it there.
 */
#ifndef CORE_RULES_LOCK_NAME_H
#define CORE_RULES_LOCK_NAME_H

#include <stdbool.h>

#include "kube/name.h"

#define LOCK_NAME_BETWEEN "---"
#define LOCK_NAME_SIZE (NAME_SUBDOMAIN_MAX + 1)

/* False, and "": it would be longer than names may be. */
bool lock_name_of_shard(const char *name, const char *shard, char out[LOCK_NAME_SIZE]);

#endif
