/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_table.h - from (group, resource) to the selectors that limit it; the inside of rules.h.
 *
 * A *pattern* is a pair of group and resource of which either may be `*`. The table holds, besides
 * those that were added, the pair (g, r) for each (g, *) and (*, r): so the most specific pattern
 * that fits a resource stands for all limits on it, and a look-up ends at the first hit.
 */
#ifndef CORE_RULES_RULES_TABLE_H
#define CORE_RULES_RULES_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/selector.h"
#include "rules/rules.h"

struct rules_pattern {
    struct slice group;
    struct slice resource;
    uint32_t *limits; /* the places of their selectors */
    size_t limit_count;
    size_t limit_cap;
    const struct rules_entry *entry; /* set by rules_table_compile; several patterns may share it */
};

/* Of one selector it is that of the limit; of several it is made. */
struct table_entry {
    struct rules_entry seen;
    struct selector *made; /* NULL: seen.compiled is the limit's */
};

struct rules_table {
    struct rules_pattern *patterns;
    size_t count;
    size_t cap;
    uint32_t *index; /* open addressing: position in `patterns` plus 1, 0 is free */
    size_t index_size;
    size_t texts;                 /* bytes of all escaped texts */
    bool plain;                   /* no entry has an escaped text; set before it is compiled */
    struct table_entry **entries; /* each once, to free them */
    size_t entry_count;
};

void rules_table_deinit(struct rules_table *t);

/* Adds a limit by the place of its selector; the slices must outlive the table. -E2BIG or -ENOMEM.
 */
MUST_CHECK int rules_table_add(struct rules_table *t, struct slice group, struct slice resource,
                               uint32_t selector);

/* Makes the entries. `selectors` are those of the limits by their places, of which each must
 * outlive the table. -E2BIG, -ENOMEM. */
MUST_CHECK int rules_table_compile(struct rules_table *t, const struct selector *const *selectors,
                                   struct err *e);

const struct rules_entry *rules_table_match(const struct rules_table *t, struct slice group,
                                            struct slice resource);
/* Bytes of memory that it takes, about; without the selectors of limits. */
size_t rules_table_weight(const struct rules_table *t);
/* Whether there is that pattern itself. */
bool rules_table_has(const struct rules_table *t, struct slice group, struct slice resource);

#endif
