/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.h - which generation a shard's compiled rules get.
 *
 * It never goes back, whoever leads and whatever was deleted: it is counted on from the largest
 * that is known of. Proxies refuse other rules under a generation that they know, so it stays only
 * where all who know it say that it means these rules.
 */
#ifndef MANAGER_SHARD_GENERATION_H
#define MANAGER_SHARD_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/rules.h"

/* Larger ones that a status or an annotation tells are not believed, which more people may write
 * than rules: half of what proxies take stays to count on. */
#define GENERATION_TOLD_MAX (RULES_GENERATION_MAX / 2)

/* Whether who was told of one knows of the published one: of that, or of a later that is believed.
 */
static inline bool generation_was_told(uint64_t told, uint64_t published)
{
    return told == published || (told > published && told <= GENERATION_TOLD_MAX);
}

/* All zero: nobody knows of any. The largest that proxies take is not believed either: nothing
 * could follow it. */
struct generation {
    uint64_t largest;
    bool same;  /* somebody who knows it says that it means the compiled rules, */
    bool other; /* that it means others, or does not say */
};

/* Somebody knows of a generation; `checksum` of its rules, "" or NULL: that is not told. */
void generation_known(struct generation *g, uint64_t generation, const char *checksum,
                      const char *compiled);
/* Somebody knows of it and need not be asked what it means: an annotation. */
void generation_heard(struct generation *g, uint64_t generation);

/* The one for the compiled rules. */
uint64_t generation_next(const struct generation *g);

#endif
