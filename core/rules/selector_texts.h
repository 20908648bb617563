/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selector_texts.h - the selectors of a rules document, each once however many limits have it; the
 * inside of rules.h.
 */
#ifndef CORE_RULES_SELECTOR_TEXTS_H
#define CORE_RULES_SELECTOR_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/table.h"
#include "kube/selector.h"

struct selector_text {
    struct table_node node;
    uint32_t place;  /* the how-manieth of its document it is, from 0 */
    size_t length;   /* of the canonical text */
    char *canonical; /* may be what was written */
    char written[];  /* as it stood there */
};

/* All zero: none, and nothing is to be freed. */
struct selector_texts {
    struct table table;
    struct selector **compiled; /* by their places */
    size_t room;
    size_t requirements; /* of all */
};

/* NULL: it is new. */
const struct selector_text *selector_texts_find(const struct selector_texts *t,
                                                const char *written);
/* Adds a new one; takes `compiled` in any case. NULL without memory. */
MUST_CHECK const struct selector_text *
selector_texts_add(struct selector_texts *t, const char *written, struct selector *compiled);

/* Bytes of memory that they take, about. */
size_t selector_texts_weight(const struct selector_texts *t);

void selector_texts_deinit(struct selector_texts *t);

#endif
