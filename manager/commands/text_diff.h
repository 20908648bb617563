/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_diff.h - what differs between two texts of rules_text.h, in hunks as `diff -u` prints them.
 */
#ifndef MANAGER_COMMANDS_TEXT_DIFF_H
#define MANAGER_COMMANDS_TEXT_DIFF_H

#include <stddef.h>

#include "base/buf.h"
#include "commands/rules_text.h"

/* Appends the hunks, without names before them; errors stay in `out`. Returns how many lines are
 * removed or added. */
size_t text_diff(const struct rules_text *a, const struct rules_text *b, struct buf *out);

#endif
