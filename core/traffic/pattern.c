/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCRE2 bounds the steps from each place of the text at which it begins anew, not those of a whole
 * search. So expressions are compiled with a callout before each item, which counts.
 *
 * It asks for memory while it matches, for a vector that it keeps and makes larger: it gets one of
 * two places by turns, for it copies the old one into the new one.
 */
#include "traffic/pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/array.h"

/* All that compiling one asks for, one after the other: what it reads the text into, names, and the
 * result. A text of the longest needs 60 KiB. */
#define COMPILE_MEMORY (256 * 1024)

/* Between two callouts an item may look at all that is left of the text: so many bytes are a step.
 */
#define BYTES_PER_STEP 32

/* Of PCRE2's own, from each place. An item takes one or two; callouts end it sooner. */
#define OWN_STEPS_MAX (4 * PATTERN_STEPS_MAX)

/* ---- compiling ---- */

struct compile_memory {
    size_t left;
    bool failed; /* the system has none */
};

struct pattern {
    pcre2_code *code;
    struct compile_memory memory; /* which the code frees itself by */
};

static void *compile_malloc(size_t size, void *data)
{
    struct compile_memory *m = data;
    if (size > m->left) {
        return NULL;
    }
    m->left -= size;
    void *p = malloc(size);
    m->failed = m->failed || p == NULL;
    return p;
}

static void compile_free(void *p, void *data)
{
    (void)data;
    free(p);
}

static int too_large(struct err *e)
{
    return err_set(e, -E2BIG, "the expression is too large when its repetitions are written out");
}

/* What PCRE2 says, which begins in lower case and has no line breaks. */
static int refuse(const struct compile_memory *m, int code, size_t offset, struct err *e)
{
    PCRE2_UCHAR text[256] = "";
    /* It has no name in the header: an expression larger than its links can hold. */
    enum { PATTERN_TOO_LARGE = 120 };
    if (m->failed) {
        return err_memory(e);
    }
    if (code == PCRE2_ERROR_HEAP_FAILED || code == PATTERN_TOO_LARGE) {
        return too_large(e);
    }
    (void)pcre2_get_error_message(code, text, ARRAY_LEN(text));
    return err_set(e, -EINVAL, "at offset %zu: %s", offset, (const char *)text);
}

static pcre2_compile_context *compile_context(struct compile_memory *m)
{
    pcre2_general_context *general = pcre2_general_context_create(compile_malloc, compile_free, m);
    if (general == NULL) {
        return NULL;
    }
    pcre2_compile_context *c = pcre2_compile_context_create(general);
    pcre2_general_context_free(general);
    if (c != NULL) {
        (void)pcre2_set_parens_nest_limit(c, PATTERN_NESTING_MAX);
    }
    return c;
}

static int compile_code(struct pattern *p, const char *text, uint32_t options, struct err *e)
{
    int code = 0;
    size_t offset = 0;
    size_t size = 0;
    pcre2_compile_context *c = compile_context(&p->memory);
    if (c == NULL) {
        return err_memory(e);
    }
    p->code = pcre2_compile((PCRE2_SPTR)text, strlen(text), options, &code, &offset, c);
    pcre2_compile_context_free(c);
    if (p->code == NULL) {
        return refuse(&p->memory, code, offset, e);
    }
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &size);
    return size > PATTERN_COMPILED_MAX ? too_large(e) : 0;
}

static int compile(const char *text, uint32_t options, struct pattern **out, struct err *e)
{
    if (strlen(text) > PATTERN_TEXT_MAX) {
        return err_set(e, -E2BIG, "the expression has more than %d bytes", PATTERN_TEXT_MAX);
    }
    struct pattern *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return err_memory(e);
    }
    p->memory.left = COMPILE_MEMORY;
    int rc =
        compile_code(p, text,
                     options | PCRE2_AUTO_CALLOUT | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
                         PCRE2_NEVER_UCP | PCRE2_NEVER_UTF | PCRE2_NO_AUTO_CAPTURE,
                     e);
    if (rc != 0) {
        pattern_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

int pattern_compile(const char *text, struct pattern **out, struct err *e)
{
    return compile(text, 0, out, e);
}

int pattern_compile_any_case(const char *text, struct pattern **out, struct err *e)
{
    return compile(text, PCRE2_CASELESS, out, e);
}

void pattern_free(struct pattern *p)
{
    if (p != NULL) {
        pcre2_code_free(p->code);
        free(p);
    }
}

/* ---- matching ---- */

struct place {
    void *memory;
    bool used;
};

struct pattern_scratch {
    struct place places[2];
    bool ready; /* nothing is allocated any more */
    uint32_t left;
    pcre2_match_context *context;
    pcre2_match_data *match;
};

static void *scratch_malloc(size_t size, void *data)
{
    struct pattern_scratch *s = data;
    if (!s->ready) {
        return malloc(size);
    }
    for (size_t i = 0; size <= PATTERN_HEAP_MAX && i < ARRAY_LEN(s->places); i++) {
        if (!s->places[i].used) {
            s->places[i].used = true;
            return s->places[i].memory;
        }
    }
    return NULL;
}

static void scratch_free(void *p, void *data)
{
    struct pattern_scratch *s = data;
    for (size_t i = 0; i < ARRAY_LEN(s->places); i++) {
        if (p != NULL && s->places[i].memory == p) {
            s->places[i].used = false;
            return;
        }
    }
    free(p);
}

/* Before each item. What ends the search is its result. */
static int on_item(pcre2_callout_block *at, void *data)
{
    struct pattern_scratch *s = data;
    size_t steps = 1 + (at->subject_length - at->current_position) / BYTES_PER_STEP;
    if (steps > s->left) {
        s->left = 0;
        return PCRE2_ERROR_MATCHLIMIT;
    }
    s->left -= (uint32_t)steps;
    return 0;
}

static bool scratch_init(struct pattern_scratch *s)
{
    for (size_t i = 0; i < ARRAY_LEN(s->places); i++) {
        s->places[i].memory = malloc(PATTERN_HEAP_MAX);
        if (s->places[i].memory == NULL) {
            return false;
        }
    }
    pcre2_general_context *general = pcre2_general_context_create(scratch_malloc, scratch_free, s);
    if (general == NULL) {
        return false;
    }
    s->context = pcre2_match_context_create(general);
    s->match = pcre2_match_data_create(1, general);
    pcre2_general_context_free(general);
    if (s->context == NULL || s->match == NULL) {
        return false;
    }
    (void)pcre2_set_callout(s->context, on_item, s);
    (void)pcre2_set_match_limit(s->context, OWN_STEPS_MAX);
    (void)pcre2_set_depth_limit(s->context, OWN_STEPS_MAX);
    (void)pcre2_set_heap_limit(s->context, PATTERN_HEAP_MAX / 1024);
    s->ready = true;
    return true;
}

struct pattern_scratch *pattern_scratch_new(void)
{
    struct pattern_scratch *s = calloc(1, sizeof *s);
    if (s != NULL && !scratch_init(s)) {
        pattern_scratch_free(s);
        return NULL;
    }
    return s;
}

void pattern_scratch_free(struct pattern_scratch *s)
{
    if (s == NULL) {
        return;
    }
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    for (size_t i = 0; i < ARRAY_LEN(s->places); i++) {
        free(s->places[i].memory);
    }
    free(s);
}

enum pattern_result pattern_match(const struct pattern *p, struct pattern_scratch *s,
                                  struct slice text, uint32_t *budget)
{
    const char *from = text.len == 0 ? "" : text.ptr;
    uint32_t may = *budget < PATTERN_STEPS_MAX ? *budget : PATTERN_STEPS_MAX;
    if (may == 0) {
        return PATTERN_EXHAUSTED;
    }
    s->left = may;
    int rc = pcre2_match(p->code, (PCRE2_SPTR)from, text.len, 0, 0, s->match, s->context);
    *budget -= may - s->left;
    if (rc == PCRE2_ERROR_NOMATCH) {
        return PATTERN_DIFFERS;
    }
    return rc >= 0 ? PATTERN_MATCHES : PATTERN_EXHAUSTED;
}
