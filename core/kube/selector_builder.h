/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selector_builder.h - puts a selector together; shared by the sources of selectors, for no one
 * else.
 *
 *     selector_builder_init, then for each requirement: selector_builder_open and any number of
 *     selector_builder_value; at the end selector_builder_finish or selector_builder_deinit.
 */
#ifndef CORE_KUBE_SELECTOR_BUILDER_H
#define CORE_KUBE_SELECTOR_BUILDER_H

#include "base/buf.h"
#include "kube/selector.h"

struct selector {
    size_t count;
    struct selector_requirement items[]; /* followed by what they point to */
};

/* Texts and values are kept as positions until the end, since the memory moves as it grows. */
struct selector_builder {
    struct buf text;   /* NUL-terminated strings, one after the other */
    struct buf values; /* size_t: positions in `text` */
    struct buf items;  /* struct selector_draft */
};

struct selector_draft {
    enum selector_op op;
    size_t key;         /* position in `text` */
    size_t first_value; /* index in `values` */
    size_t value_count;
};

void selector_builder_init(struct selector_builder *b);
void selector_builder_deinit(struct selector_builder *b);

/* Begins a requirement. Copies and checks the key: -EINVAL (*why says what is wrong with it, in
 * Kubernetes' words), -E2BIG, -ENOMEM. */
MUST_CHECK int selector_builder_open(struct selector_builder *b, struct slice key,
                                     enum selector_op op, const char **why);

/* Adds a value to the last requirement, checked as its operator demands. Errors as above. */
MUST_CHECK int selector_builder_value(struct selector_builder *b, struct slice value,
                                      const char **why);

/* Makes the selector: sorted, values without doubles; `merge` drops doubles of whole requirements
 * too. Empties the builder in any case. NULL without memory. */
MUST_CHECK struct selector *selector_builder_finish(struct selector_builder *b, bool merge);

/* Sorts the requirements, and drops those that stand there twice. */
void selector_builder_merge(struct selector *s);
/* In canonical order; 0: they say the same. */
int selector_builder_compare(const struct selector_requirement *a,
                             const struct selector_requirement *b);

#endif
