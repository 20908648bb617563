/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_life.h - for how long a shard has lived, or been dead, by the clock of who looks: one that
 * begins to look counts anew. No cluster.
 */
#ifndef MANAGER_ROOT_ROOT_LIFE_H
#define MANAGER_ROOT_ROOT_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "root/layout.h"

/* All zero: nothing was seen yet. */
struct root_life {
    bool seen;
    bool alive;
    uint64_t since; /* ms of net_clock_now */
};

/* What is seen of its pods now. */
struct root_life_sight {
    bool alive;          /* one at least is ready, */
    uint64_t alive_ms;   /* by what it says of itself, for so long; 0: it does not */
    uint64_t now;        /* net_clock_now */
    unsigned takeover_s; /* root_auto.takeover_s */
};

/* *wake_ms: when it comes to another result if nothing changes; 0: never. */
enum layout_life root_life_look(struct root_life *l, const struct root_life_sight *s,
                                uint64_t *wake_ms);

#endif
