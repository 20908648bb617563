/* SPDX-License-Identifier: Apache-2.0 */
/*
 * never_labelled.h - limits by control labels on resources that never get any: the shard sees none
 * of their objects.
 */
#ifndef MANAGER_VALIDATE_NEVER_LABELLED_H
#define MANAGER_VALIDATE_NEVER_LABELLED_H

#include <stddef.h>

#include "object/warnings.h"
#include "rules/rules.h"

struct never_labelled {
    const char *group; /* "" is the core group */
    const char *resource;
};

/* Resources of Kubernetes' own that are not namespaced, for who knows no API server. */
extern const struct never_labelled never_labelled_anywhere[];
extern const size_t never_labelled_anywhere_count;

/* Notes in one warning, which names the first few, those of the resources that limits, found at
 * `path`, select by control labels. */
void never_labelled_note(const struct rules *rules, const char *path,
                         const struct never_labelled *list, size_t count,
                         struct warnings *warnings);

#endif
