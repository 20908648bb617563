/* SPDX-License-Identifier: Apache-2.0 */
/*
 * also_served.h - limits on one of two groups in which an API server serves the same objects: in
 * the other one the shard sees them all.
 */
#ifndef MANAGER_VALIDATE_ALSO_SERVED_H
#define MANAGER_VALIDATE_ALSO_SERVED_H

#include <stdbool.h>

#include "object/warnings.h"
#include "rules/rules.h"

/* Whether the API server serves it. */
typedef bool (*also_served_cb)(const void *data, const char *group, const char *resource);

/* Warns of each resource that is not limited while the same objects in another group are. `path` is
 * that of the limits. `served`
 * NULL: no API server is known, so of what each serves that still gets releases, and of old groups
 * where they are what is limited. */
void also_served_note(const struct rules *rules, const char *path, also_served_cb served,
                      const void *data, struct warnings *warnings);

#endif
