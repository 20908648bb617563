/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition.h - which shard is asked about each namespace.
 *
 * Glossary: a *class* is what a partition tells apart: one namespace by its name, or all namespaces
 * of one hash that are not named. Each class has one *owner*: a shard, by its place in the list of
 * shards; REST, which is any pod of the Service; or HELD, a port without pods.
 *
 * A partition is minimal: it names no namespace whose owner is that of its hash, but for shared
 * ones (compile/sharing.h), whose label has their name in place of the hash.
 */
#ifndef MANAGER_ROUTE_PARTITION_H
#define MANAGER_ROUTE_PARTITION_H

#include <stdbool.h>
#include <stddef.h>

#include "rules/sharding.h"

#define PARTITION_NAMES_MAX 4096

enum { PARTITION_REST = -1, PARTITION_HELD = -2 };

struct partition_name {
    const char *name;
    int owner;
};

struct partition {
    int hashes[SHARDING_HASH_SIZE]; /* owners */
    struct partition_name *names;   /* sorted by byte, each once */
    size_t count;
    char *text; /* the memory of the names */
};

/* All is REST. */
void partition_init(struct partition *p);
void partition_deinit(struct partition *p);
/* Takes a copy of these names, of which the first one of each counts, up to the maximum. */
void partition_set_names(struct partition *p, const struct partition_name *names, size_t count);

int partition_owner(const struct partition *p, const char *ns);
bool partition_equal(const struct partition *a, const struct partition *b);
/* Whether any class has that owner. */
bool partition_has(const struct partition *p, int owner);

#endif
