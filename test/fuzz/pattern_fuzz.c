/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says how long the expression is, the rest is the text. What is taken stays within
 * its bounds, gives the same answer twice, and the same when its budget is shared. A text that is
 * quoted is found where it is, and nowhere else.
 */
#include "traffic/pattern.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"

static void check_steps(const struct pattern *p, struct pattern_scratch *s, struct slice text)
{
    uint32_t left = PATTERN_BUDGET_STEPS;
    enum pattern_result first = pattern_match(p, s, text, &left);
    uint32_t took = PATTERN_BUDGET_STEPS - left;
    CHECK(took <= PATTERN_STEPS_MAX);
    CHECK(pattern_match(p, s, text, &left) == first);
    CHECK(PATTERN_BUDGET_STEPS - left == 2 * took);
    if (took > 0 && first != PATTERN_EXHAUSTED) {
        left = took - 1;
        CHECK(pattern_match(p, s, text, &left) == PATTERN_EXHAUSTED);
        CHECK(left == 0);
    }
    left = took < 1 ? 1 : took;
    CHECK(pattern_match(p, s, text, &left) == first);
}

static void check_any_case(const char *expression, struct pattern_scratch *s, struct slice text)
{
    struct pattern *p = NULL;
    uint32_t left = PATTERN_BUDGET_STEPS;
    if (pattern_compile_any_case(expression, &p, NULL) == 0) {
        CHECK(pattern_match(p, s, text, &left) <= PATTERN_EXHAUSTED);
    }
    pattern_free(p);
}

static void check_quoted(const char *expression, struct pattern_scratch *s, struct slice text)
{
    struct buf quoted = BUF_INIT(1024);
    struct pattern *p = NULL;
    uint32_t left = PATTERN_BUDGET_STEPS;
    if (strstr(expression, "\\E") != NULL || text.len == 0) {
        return;
    }
    buf_printf(&quoted, "\\Q%s\\E", expression);
    CHECK(pattern_compile(buf_cstr(&quoted), &p, NULL) == 0);
    enum pattern_result r = pattern_match(p, s, text, &left);
    bool there = memmem(text.ptr, text.len, expression, strlen(expression)) != NULL;
    CHECK(r == PATTERN_EXHAUSTED || (r == PATTERN_MATCHES) == there);
    pattern_free(p);
    buf_reset(&quoted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct pattern *p = NULL;
    if (size < 1) {
        return 0;
    }
    size_t len = data[0] < size - 1 ? data[0] : size - 1;
    char *expression = strndup((const char *)data + 1, len);
    size_t rest = size - 1 - len;
    /* A copy of the exact size: reading past the end shows. */
    char *text = malloc(rest);
    struct pattern_scratch *s = pattern_scratch_new();
    CHECK(expression != NULL && (text != NULL || rest == 0) && s != NULL);
    memcpy(text, data + 1 + len, rest);
    int rc = pattern_compile(expression, &p, &e);
    CHECK(rc == 0 || (e.code == rc && e.msg[0] != '\0'));
    if (rc == 0) {
        check_steps(p, s, slice_of(text, rest));
    }
    pattern_free(p);
    check_any_case(expression, s, slice_of(text, rest));
    check_quoted(expression, s, slice_of(text, rest));
    pattern_scratch_free(s);
    free(text);
    free(expression);
    return 0;
}
