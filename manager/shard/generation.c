/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/generation.h"

#include <string.h>

static bool rises(struct generation *g, uint64_t generation)
{
    if (generation > g->largest && generation < RULES_GENERATION_MAX) {
        *g = (struct generation){.largest = generation};
    }
    return generation == g->largest && generation != 0;
}

void generation_known(struct generation *g, uint64_t generation, const char *checksum,
                      const char *compiled)
{
    if (!rises(g, generation)) {
        return;
    }
    if (checksum != NULL && strcmp(checksum, compiled) == 0) {
        g->same = true;
    } else {
        g->other = true;
    }
}

void generation_heard(struct generation *g, uint64_t generation)
{
    (void)rises(g, generation);
}

uint64_t generation_next(const struct generation *g)
{
    return g->same && !g->other ? g->largest : g->largest + 1;
}
