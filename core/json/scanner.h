/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scanner.h - finds values in JSON text where they stand, without making a tree.
 *
 * For callers that change one value and must leave every other byte as it is. A value is a slice of
 * the text, without white space around it; its first byte tells what it is: `{`, `[`, `"`, `t`,
 * `f`, `n`, `-` or a digit. Nothing here allocates.
 */
#ifndef CORE_JSON_SCANNER_H
#define CORE_JSON_SCANNER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

#define JSON_SCAN_DEPTH_MAX 1000

/* Checks that the text is one whole document as RFC 8259 has it, whatever bytes above 0x7f its
 * strings hold and however often a key stands in an object, and gives its value. -EINVAL, with line
 * and column. */
MUST_CHECK int json_scan_document(struct slice text, struct slice *value, struct err *e);

/* The same for a document that becomes a tree: all strings are UTF-8, escaped surrogates come in
 * pairs, and no number has more than 63 characters. */
MUST_CHECK int json_check(struct slice text, struct err *e);

/* What is wrong at a place of the text: "line 2, column 7: <problem>". Returns -EINVAL. */
int json_fail_at(struct slice text, const char *at, const char *problem, struct err *e);
/* From 1. */
unsigned json_line_at(struct slice text, const char *at);

/* The members of a checked object or the items of a checked array, to iterate over, with the
 * closing bracket. Empty for other values. */
struct slice json_scan_inside(struct slice value);

/* Takes the next one off `inside`; false at the end. `key` keeps its quotes; in an array it is
 * empty. */
bool json_scan_next(struct slice *inside, struct slice *key, struct slice *value);

/* The value of that key in a checked object: 1; 0: not there, or no object; -EINVAL: there twice.
 * `key` is ASCII. */
MUST_CHECK int json_scan_member(struct slice object, struct slice key, struct slice *value);

/* Not fewer values, members and items than a tree of the text would have, whatever it is. */
size_t json_count_values(struct slice text);

/* Whether the value is a string that says `plain`, which is ASCII, however it is escaped. */
bool json_scan_equal(struct slice value, struct slice plain);

#endif
