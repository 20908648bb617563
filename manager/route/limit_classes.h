/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_classes.h - which classes of namespaces (route/partition.h) a limit accepts, remembered:
 * for the partitioner, no one else.
 *
 * A class is a number: the first ones are the hashes, each with a representative that no limit can
 * name, since its name is no value of a label; then come names in the order in which they are met.
 * What a limit accepts by its control labels is asked once for each class, however many resources,
 * shards and webhooks have that limit.
 */
#ifndef MANAGER_ROUTE_LIMIT_CLASSES_H
#define MANAGER_ROUTE_LIMIT_CLASSES_H

#include <stdbool.h>
#include <stddef.h>

#include "rules/rules.h"

struct limit_classes;
struct limit;

struct limit_classes *limit_classes_new(void);
void limit_classes_free(struct limit_classes *c);

/* The class of a name, for as long as `c` lives. */
size_t limit_classes_of(struct limit_classes *c, const char *name);
const char *limit_classes_name(const struct limit_classes *c, size_t class);
/* How many there are by now. */
size_t limit_classes_count(const struct limit_classes *c);

/* What limits the resource in these rules, which must outlive `c`. Equal limits are one. */
struct limit *limit_classes_find(struct limit_classes *c, const struct rules *rules,
                                 struct slice group, struct slice resource);
bool limit_accepts(struct limit_classes *c, struct limit *l, size_t class);
/* The names that it mentions, as classes. */
const size_t *limit_mentions(const struct limit *l, size_t *count);
/* Whether control labels alone tell what it selects. */
bool limit_is_by_namespace(const struct limit *l);

#endif
