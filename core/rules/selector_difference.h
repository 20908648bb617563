/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selector_difference.h - which label selectors list exactly what one selector matches and another
 * does not.
 *
 * A selector is a conjunction, so "B and not A" is none in general, but it is a union of few: with
 * A = a1,a2 the selectors `B,!a1` and `B,a1,!a2`, which have no object in common. What B implies of
 * A drops out, and requirements on one key are merged: from `ns in (a,b,c)` to `ns in (b,c,d)` it
 * is `ns in (d)` that is gained and `ns in (a)` that is lost. All negations are exact, since a
 * missing key satisfies `!=`, `notin` and `!key`; only `>` and `<` have none (besides what is not
 * greater there is what is no number, or missing).
 */
#ifndef CORE_RULES_SELECTOR_DIFFERENCE_H
#define CORE_RULES_SELECTOR_DIFFERENCE_H

#include <stddef.h>

#include "base/err.h"
#include "kube/selector.h"

#define SELECTOR_DIFFERENCE_MAX 8 /* selectors */

/* No object matches two of the selectors. None: there is no such object. */
struct selector_difference {
    /* Canonical texts, encoded for a query (query_encode); RULES_ESCAPED_MAX bytes in sum. An empty
     * one, which stands alone, matches everything: there is nothing to inject then. */
    char *escaped[SELECTOR_DIFFERENCE_MAX];
    size_t count;
};

/* What `of` matches and `without` does not; NULL matches everything. Needs no initialized `out`,
 * and leaves it empty on error: -ENOTSUP (it would take the negation of a `>` or `<`), -E2BIG (over
 * the bounds above or those of a selector), -ENOMEM. */
MUST_CHECK int selector_difference(const struct selector *of, const struct selector *without,
                                   struct selector_difference *out, struct err *e);

/* Frees the texts; `d` is empty then. */
void selector_difference_deinit(struct selector_difference *d);

#endif
