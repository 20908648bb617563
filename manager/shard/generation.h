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

/* Larger ones are not believed: whoever wrote them would leave no room to count on. */
#define GENERATION_MAX (UINT64_C(1) << 52)

/* All zero: nobody knows of any. */
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
