/* SPDX-License-Identifier: Apache-2.0 */
#include "ownership/generation.h"

#include <string.h>

static bool is_far(const struct generation *g, uint64_t generation)
{
    return generation >= g->own + GENERATION_FAR || generation >= RULES_GENERATION_MAX;
}

static bool rises(struct generation *g, uint64_t generation)
{
    if (generation > g->largest) {
        g->largest = generation;
        g->same = false;
        g->other = false;
    }
    return generation == g->largest && generation != 0;
}

static void note_far(struct generation *g, uint64_t generation)
{
    if (g->far == 0 || generation < g->far) {
        g->far = generation;
    }
}

void generation_known(struct generation *g, uint64_t generation, const char *checksum,
                      const char *compiled)
{
    if (is_far(g, generation)) {
        note_far(g, generation);
    } else if (!rises(g, generation)) {
        return;
    } else if (checksum != NULL && strcmp(checksum, compiled) == 0) {
        g->same = true;
    } else {
        g->other = true;
    }
}

void generation_heard(struct generation *g, uint64_t generation)
{
    if (!is_far(g, generation)) {
        (void)rises(g, generation);
    }
}

void generation_seen(struct generation *g, uint64_t generation)
{
    if (is_far(g, generation)) {
        note_far(g, generation);
    } else {
        (void)rises(g, generation);
    }
}

uint64_t generation_next(const struct generation *g)
{
    return g->same && !g->other ? g->largest : g->largest + 1;
}

uint64_t generation_voids(const struct generation *g, uint64_t before)
{
    uint64_t next = generation_next(g);
    uint64_t first = g->own + GENERATION_FAR;
    if (before > next && (g->far == 0 || before <= g->far)) {
        return before;
    }
    if (g->far == 0) {
        return 0;
    }
    return first > next ? first : next + 1;
}
