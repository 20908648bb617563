/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_text.h - rules as lines of plain text, each below what it belongs to:
 *
 *     leader election: operator-leader
 *     limits:
 *       pods in any group:
 *         app=foo
 *         ctrlmesh.kusionstack.io/namespace in:
 *           ns-a
 *           ns-b
 *
 * All limits on the same resources are shown as the one selector that they are together. The order
 * does not depend on that of the document: what is equal has equal lines, and the lines of two
 * documents can be merged.
 */
#ifndef MANAGER_COMMANDS_RULES_TEXT_H
#define MANAGER_COMMANDS_RULES_TEXT_H

#include <stddef.h>

#include "base/err.h"
#include "rules/rules.h"

struct rules_text_line {
    char *key;        /* what it stands below, and itself: lines are sorted by it (strcmp) */
    const char *text; /* the last part of the key */
    unsigned depth;
};

struct rules_text {
    struct rules_text_line *lines;
    size_t count;
    size_t cap;
};

#define RULES_TEXT_INIT                                                                            \
    {                                                                                              \
        .lines = NULL, .count = 0, .cap = 0                                                        \
    }

/* 0; -E2BIG: selectors are too large together. rules_text_deinit is due in any case. */
MUST_CHECK int rules_text_add(struct rules_text *t, const struct rules *rules, struct err *e);

/* Parts of a key are joined by a byte that no name has and that sorts before all others: so a line
 * stands before those below it, and these before the next of its kind. */
#define RULES_TEXT_JOIN '\x01'

/* For other texts of this kind: adds a line below that of `path`, which is a key; "" on top. */
void rules_text_line(struct rules_text *t, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends them: sorts. */
void rules_text_settle(struct rules_text *t);

void rules_text_deinit(struct rules_text *t);

#endif
