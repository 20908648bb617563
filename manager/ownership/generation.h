/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.h - which generation a shard's compiled rules get.
 *
 * It never goes back, whoever leads and whatever was deleted: it is counted on from the largest
 * that is known of. Proxies refuse other rules under a generation that they know, so it stays only
 * where all who know it say that it means these rules.
 *
 * There is a largest one, and who may write a ConfigMap may write that. So what is *far*, which
 * nobody reaches by counting, is not counted on: the rules name it void.
 */
#ifndef MANAGER_OWNERSHIP_GENERATION_H
#define MANAGER_OWNERSHIP_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/rules.h"

/* From this one on it is far from one that a manager wrote. */
#define GENERATION_FAR (UINT64_C(1) << 32)
/* Larger ones that a status tells are not believed: half of what proxies take stays to count on. */
#define GENERATION_TOLD_MAX (RULES_GENERATION_MAX / 2)

/* Whether who was told of one knows of the published one: of that, or of a later that is not far.
 */
static inline bool generation_was_told(uint64_t told, uint64_t published)
{
    return told >= published && told - published < GENERATION_FAR;
}

/* All zero: nobody knows of any. */
struct generation {
    uint64_t own;     /* the largest that a manager is known to have written; set before all else */
    uint64_t largest; /* that is not far */
    bool same;        /* somebody who knows it says that it means the compiled rules, */
    bool other;       /* that it means others, or does not say */
    uint64_t far;     /* the smallest that is; 0: none */
};

/* Somebody knows of a generation; `checksum` of its rules, "" or NULL: that is not told. */
void generation_known(struct generation *g, uint64_t generation, const char *checksum,
                      const char *compiled);
/* Pods may have been told of it, which need not be asked what it means. A far one is ignored. */
void generation_heard(struct generation *g, uint64_t generation);
/* Pods may have rules of it. */
void generation_seen(struct generation *g, uint64_t generation);

/* The one for the compiled rules. */
uint64_t generation_next(const struct generation *g);
/* From which one on all are void; 0: none is. `before` is what the rules that are published say of
 * it, and stays while it will do. */
uint64_t generation_voids(const struct generation *g, uint64_t before);

#endif
