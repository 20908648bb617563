/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_diff.h - what changes for a shard, for people: as `diff -u` shows it, over the lines of
 * rules_text.h.
 */
#ifndef MANAGER_COMMANDS_RULES_DIFF_H
#define MANAGER_COMMANDS_RULES_DIFF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "rules/rules.h"

/* Appends the difference. `before` may be NULL: there were none. The rules after get the generation
 * that follows, whatever they carry. Rules with equal checksums get one line that says so; *equal
 * tells. 0 or -E2BIG (too large to compare); errors of `out` stay there. */
MUST_CHECK int rules_diff(const struct rules *before, const struct rules *after, struct buf *out,
                          bool *equal, struct err *e);

#endif
