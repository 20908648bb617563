/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selector_overlap.h - whether label selectors can select the same objects.
 *
 * Decided from the selectors alone, for all objects that there could be.
 */
#ifndef CORE_KUBE_SELECTOR_OVERLAP_H
#define CORE_KUBE_SELECTOR_OVERLAP_H

#include <stdbool.h>

#include "kube/selector.h"

enum overlap {
    OVERLAP_NONE,     /* no object can have the labels for both */
    OVERLAP_POSSIBLE, /* one could, but each asks for a label that the other does not know */
    OVERLAP_CERTAIN,  /* the labels that one asks for are among those that the other asks for */
};

enum overlap selector_overlap(const struct selector *a, const struct selector *b);

/* Whether some object can match `a` and `b` and not `out`; NULL matches everything. Where that is
 * not sure, which takes `>` or `<`: yes. */
bool selector_overlap_outside(const struct selector *a, const struct selector *b,
                              const struct selector *out);

/* Whether some object can match it at all. */
bool selector_satisfiable(const struct selector *s);

#endif
