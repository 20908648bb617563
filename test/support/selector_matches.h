/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selector_matches.h - whether an object has what a selector requires: the judge of tests. The
 * programs have selectors matched by the API server.
 */
#ifndef TEST_SUPPORT_SELECTOR_MATCHES_H
#define TEST_SUPPORT_SELECTOR_MATCHES_H

#include "kube/selector.h"

struct selector_label {
    struct slice key;
    struct slice value;
};

static inline const struct slice *selector_find_label(const struct selector_label *labels,
                                                      size_t count, struct slice key)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_eq(labels[i].key, key)) {
            return &labels[i].value;
        }
    }
    return NULL;
}

/* Of labels with the same key the first counts. */
static inline bool selector_matches(const struct selector *s, const struct selector_label *labels,
                                    size_t label_count)
{
    size_t count;
    const struct selector_requirement *r = selector_requirements(s, &count);
    for (size_t i = 0; i < count; i++) {
        const struct slice *value = selector_find_label(labels, label_count, slice_str(r[i].key));
        if (!selector_requirement_matches(&r[i], value)) {
            return false;
        }
    }
    return true;
}

#endif
