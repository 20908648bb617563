/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h - regular expressions over short texts such as hosts and paths, with a bound for what
 * each may cost.
 *
 * The syntax is that of PCRE2, in which expressions of Go's RE2 mean the same: `$` is the end of
 * the text, `.` any byte but a newline, and a match may be anywhere in the text. It sees bytes, not
 * characters. Groups capture nothing unless they are named, so there is no `\1`; `\C` is refused.
 *
 * A *step* is one item of an expression that is tried at one place of the text, about 10 ns; over
 * long texts it counts as several. An expression that needs more steps or memory than it may have
 * is *exhausted*: whether it matches is not known. Measured, one takes at most 0.3 ms, and all that
 * share a budget 3 ms; compiling one takes at most 0.5 ms, and 64 KiB for as long.
 */
#ifndef CORE_TRAFFIC_PATTERN_H
#define CORE_TRAFFIC_PATTERN_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

#define PATTERN_TEXT_MAX 2048      /* bytes of an expression */
#define PATTERN_COMPILED_MAX 32768 /* bytes that it takes when it is compiled */
#define PATTERN_NESTING_MAX 100    /* of parentheses */
#define PATTERN_STEPS_MAX 25000    /* that one may take for one text */
#define PATTERN_BUDGET_STEPS                                                                       \
    200000 /* that all may take together which one request is held against */
#define PATTERN_HEAP_MAX (256 * 1024) /* bytes that one may take to remember where it was */

struct pattern;

/* 0, and *out is the caller's. -EINVAL: the message says what is wrong, and at which byte of it;
 * -E2BIG: it is over the bounds above; -ENOMEM. */
MUST_CHECK int pattern_compile(const char *text, struct pattern **out, struct err *e);
/* The same of one that matches without regard to the case of ASCII letters. */
MUST_CHECK int pattern_compile_any_case(const char *text, struct pattern **out, struct err *e);
/* NULL is ignored. */
void pattern_free(struct pattern *p);

/* The memory in which expressions match, one after the other: twice PATTERN_HEAP_MAX, of which no
 * more becomes resident than is needed. */
struct pattern_scratch;

/* NULL: out of memory. */
MUST_CHECK struct pattern_scratch *pattern_scratch_new(void);
/* NULL is ignored. */
void pattern_scratch_free(struct pattern_scratch *s);

enum pattern_result {
    PATTERN_MATCHES,
    PATTERN_DIFFERS,
    PATTERN_EXHAUSTED,
};

/* Allocates nothing. Takes its steps out of *budget; when there are none left it is exhausted. */
MUST_CHECK enum pattern_result pattern_match(const struct pattern *p, struct pattern_scratch *s,
                                             struct slice text, uint32_t *budget);

#endif
