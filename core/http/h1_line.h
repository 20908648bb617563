/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1_line.h - the lines of HTTP/1.1 framing, as they come in pieces.
 *
 * CR LF ends a line; any other CR or LF, and any control byte but HT, is bad (RFC 9112 section 2.2
 * would let a recipient be lenient; two recipients that are so differently can be played off
 * against each other). The outcome does not depend on how a line is cut into pieces.
 */
#ifndef CORE_HTTP_H1_LINE_H
#define CORE_HTTP_H1_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* All zero: a line begins. */
struct h1_line {
    size_t len; /* bytes so far, without CR and LF */
    bool cr;    /* the last piece ended with CR */
};

enum h1_line_result { H1_LINE_OPEN, H1_LINE_DONE, H1_LINE_BAD };

/* Takes the next piece: up to the LF, or all. *used is what was taken. */
MUST_CHECK enum h1_line_result h1_line_scan(struct h1_line *l, const char *data, size_t len,
                                            size_t *used);

/* Whether the line begins with white space at `data`: it continues the line before (obs-fold). */
static inline bool h1_line_folds(const struct h1_line *l, const char *data)
{
    return l->len == 0 && !l->cr && (data[0] == ' ' || data[0] == '\t');
}

#endif
