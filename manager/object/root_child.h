/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_child.h - how to tell a ShardingConfig that a root made, and what it is for.
 */
#ifndef MANAGER_OBJECT_ROOT_CHILD_H
#define MANAGER_OBJECT_ROOT_CHILD_H

#include <cjson/cJSON.h>

/* Below the prefix of labels. Label of each child: the name of its root. */
#define ROOT_LABEL "auto-sharding-root"
/* Annotations: of each normal child its buckets (buckets_print); and of each child "true" while
 * others have its share. */
#define ROOT_BUCKETS "auto-sharding-buckets"
#define ROOT_TAKEN_OVER "auto-sharding-taken-over"
/* Name of who owns the fields of children. */
#define ROOT_FIELD_MANAGER "cmesh-root"

/* The name of the root that made it, as its label says; "": somebody else did. */
const char *root_child_parent(const cJSON *config, const char *prefix);

/* What the canary asks for beside what all children do: the last requirement of its first limit.
 * Of a child as it is applied, or as config_spec_rest keeps it. NULL: there is none. */
const cJSON *root_child_share(const cJSON *child);

#endif
