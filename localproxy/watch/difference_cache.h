/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difference_cache.h - what is lost and what is gained from one selector to another, worked out
 * once for all watches that a change of the rules moves from the one to the other.
 */
#ifndef LOCALPROXY_WATCH_DIFFERENCE_CACHE_H
#define LOCALPROXY_WATCH_DIFFERENCE_CACHE_H

#include <stdint.h>

#include "base/err.h"
#include "rules/selector_difference.h"

/* Pairs of selectors that are kept. */
#define DIFFERENCE_CACHE_MAX 16

/* Immutable, reference-counted. */
struct difference {
    unsigned refs;
    uint64_t from; /* ids of the selectors (rules_entry.id) */
    uint64_t to;
    struct selector_difference lost;
    struct selector_difference gained;
};

/* All zero: empty. */
struct difference_cache {
    struct difference *kept[DIFFERENCE_CACHE_MAX];
    unsigned next;
};

/* A selector and its id; everything: NULL and 0. */
struct difference_side {
    uint64_t id;
    const struct selector *selector;
};

/* The caller holds a reference. NULL with `e` set as selector_difference does. */
MUST_CHECK struct difference *difference_cache_get(struct difference_cache *d,
                                                   struct difference_side from,
                                                   struct difference_side to, struct err *e);
/* NULL is ignored. */
void difference_unref(struct difference *d);

void difference_cache_deinit(struct difference_cache *d);

#endif
