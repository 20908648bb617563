/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/pattern.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/buf.h"

static struct pattern *make(const char *text)
{
    struct err e = ERR_INIT;
    struct pattern *p = NULL;
    if (pattern_compile(text, &p, &e) != 0) {
        fail_msg("%s: %s", text, e.msg);
    }
    return p;
}

/* What is found with a budget of its own, of which *steps are taken. */
static enum pattern_result find(const struct pattern *p, struct slice text, uint32_t *steps)
{
    struct pattern_scratch *s = pattern_scratch_new();
    assert_non_null(s);
    uint32_t left = PATTERN_BUDGET_STEPS;
    enum pattern_result r = pattern_match(p, s, text, &left);
    *steps = PATTERN_BUDGET_STEPS - left;
    pattern_scratch_free(s);
    return r;
}

static void test_syntax_of_go(void **state)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "x", true},
        {"b", "abc", true},
        {"^b", "abc", false},
        {"b$", "abc", false},
        {"c$", "abc", true},
        {"c$", "abc\n", false}, /* the end of the text, not of a line */
        {"\\Aabc\\z", "abc", true},
        {"a.c", "a\nc", false},
        {"(?s)a.c", "a\nc", true},
        {"(?i)ABC", "abc", true},
        {"ABC", "abc", false},
        {"(?P<name>a|b)c", "bc", true},
        {"(?:a|b)c", "bc", true},
        {"^[[:alpha:]]+$", "abc", true},
        {"^\\d{1,3}(\\.\\d{1,3}){3}$", "127.0.0.1", true},
        {".*(127.0.0.1).*", "http127.0.0.1:80", true},
        {"^[a-z0-9-]+\\.corp\\.example(:443)?$", "a-1.corp.example:443", true},
        {"^[a-z0-9-]+\\.corp\\.example(:443)?$", "a-1.corp.example.org", false},
        {"^a.b$",
         "a\xc3\xa4"
         "b",
         false}, /* bytes */
        {"^a..b$",
         "a\xc3\xa4"
         "b",
         true},
        {"\\Qa.b\\E", "a.b", true},
        {"\\Qa.b\\E", "axb", false},
        {"(?U)a+", "aa", true},
        {"\\bexample\\b", "an.example.org", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pattern *p = make(cases[i].pattern);
        uint32_t steps;
        enum pattern_result want = cases[i].matches ? PATTERN_MATCHES : PATTERN_DIFFERS;
        if (find(p, slice_str(cases[i].text), &steps) != want) {
            fail_msg("%s and %s", cases[i].pattern, cases[i].text);
        }
        pattern_free(p);
    }
}

static void test_any_case(void **state)
{
    struct pattern *p = NULL;
    uint32_t steps;
    (void)state;
    assert_int_equal(pattern_compile_any_case("^Example\\.[a-z]+$", &p, NULL), 0);
    assert_int_equal(find(p, SLICE("eXAMPLE.Org"), &steps), PATTERN_MATCHES);
    assert_int_equal(find(p, SLICE("eXAMPLE_Org"), &steps), PATTERN_DIFFERS);
    pattern_free(p);
}

/* A text with a zero in it is seen to its end. */
static void test_zero_bytes(void **state)
{
    struct pattern *p = make("^a.b$");
    uint32_t steps;
    (void)state;
    assert_int_equal(find(p, slice_of("a\0b", 3), &steps), PATTERN_MATCHES);
    assert_int_equal(find(p, slice_of("a\0b\0", 4), &steps), PATTERN_DIFFERS);
    assert_int_equal(find(p, slice_of(NULL, 0), &steps), PATTERN_DIFFERS);
    pattern_free(p);
}

/* The words are PCRE2's, and not the same in each version. */
static void test_refused(void **state)
{
    static const struct {
        const char *pattern;
        int code;
        const char *message;
    } cases[] = {
        {"ab(c", -EINVAL, "at offset 4: missing closing parenthesis"},
        {"a[b", -EINVAL, "at offset 3: missing terminating ]"},
        {"*a", -EINVAL, "at offset "},
        {"a\\C", -EINVAL, "at offset "},
        {"(*UTF)a", -EINVAL, "at offset "},
        {"(*UCP)a", -EINVAL, "at offset "},
        {"(a)\\1", -EINVAL, "at offset "},
        {"\\x{100}", -EINVAL, "at offset "},
        {"((a{1000}){1000}){1000}", -E2BIG, "the expression is too large when its repetitions"},
        {"(((a{30}){30}){30}){2}", -E2BIG, "the expression is too large when its repetitions"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct pattern *p = NULL;
        assert_int_equal(pattern_compile(cases[i].pattern, &p, &e), cases[i].code);
        assert_int_equal(e.code, cases[i].code);
        if (strncmp(e.msg, cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("%s: %s", cases[i].pattern, e.msg);
        }
        assert_null(p);
    }
}

static char *repeated(const char *text, size_t count, const char *end)
{
    struct buf b = BUF_INIT(1 << 20);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(&b, text);
    }
    buf_append_str(&b, end);
    assert_int_equal(buf_error(&b), 0);
    char *copy = strdup(buf_cstr(&b));
    assert_non_null(copy);
    buf_reset(&b);
    return copy;
}

static void test_bounds_of_texts(void **state)
{
    struct err e = ERR_INIT;
    struct pattern *p = NULL;
    (void)state;
    char *longest = repeated("a", PATTERN_TEXT_MAX, "");
    char *longer = repeated("a", PATTERN_TEXT_MAX, "a");
    char *deep = repeated("(", PATTERN_NESTING_MAX + 2, "");
    assert_int_equal(pattern_compile(longest, &p, &e), 0);
    pattern_free(p);
    assert_int_equal(pattern_compile(longer, &p, &e), -E2BIG);
    assert_string_equal(e.msg, "the expression has more than 2048 bytes");
    assert_int_equal(pattern_compile(deep, &p, &e), -EINVAL);
    if (strstr(e.msg, "too deeply nested") == NULL) {
        fail_msg("%s", e.msg);
    }
    free(longest);
    free(longer);
    free(deep);
}

/* Whatever they are like, they end within the bound. */
static void test_exhausted(void **state)
{
    static const char *const patterns[] = {
        "(a+)+$",        "(a*)*$",           "(a|aa)+$",
        "(a|a?)+$",      "(.*)*b$",          "([a-z]{20}|[a-z]{19}|[a-z]{18}|[a-z]{17})*$",
        "(?R)?b",        /* recursion without an end */
        "(a|(?R)a)*?b$", /* and with one */
        "(?=(a+)+$)x",   "(?<n>a+)+\\k<n>$",
    };
    (void)state;
    char *text = repeated("a", 262, "!");
    char *path = repeated("a", 8000, "b!");
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct pattern *p = make(patterns[i]);
        uint32_t steps;
        if (find(p, slice_str(text), &steps) == PATTERN_MATCHES || steps > PATTERN_STEPS_MAX) {
            fail_msg("%s: %u steps", patterns[i], steps);
        }
        assert_int_not_equal(find(p, slice_str(path), &steps), PATTERN_MATCHES);
        assert_true(steps <= PATTERN_STEPS_MAX);
        pattern_free(p);
    }
    struct pattern *bomb = make("(a+)+$");
    uint32_t steps;
    assert_int_equal(find(bomb, slice_str(text), &steps), PATTERN_EXHAUSTED);
    assert_int_equal(steps, PATTERN_STEPS_MAX);
    pattern_free(bomb);
    free(text);
    free(path);
}

/* One budget is for all of them, and what is exhausted takes no more. */
static void test_shared_budget(void **state)
{
    struct pattern_scratch *s = pattern_scratch_new();
    struct pattern *bomb = make("(a+)+$");
    struct pattern *good = make("a");
    uint32_t left = PATTERN_BUDGET_STEPS;
    (void)state;
    char *text = repeated("a", 262, "!");
    assert_non_null(s);
    for (int i = 0; i < PATTERN_BUDGET_STEPS / PATTERN_STEPS_MAX; i++) {
        assert_int_not_equal(left, 0);
        assert_int_equal(pattern_match(good, s, SLICE("a"), &(uint32_t){1000}), PATTERN_MATCHES);
        assert_int_equal(pattern_match(bomb, s, slice_str(text), &left), PATTERN_EXHAUSTED);
    }
    assert_int_equal(left, 0);
    assert_int_equal(pattern_match(good, s, SLICE("a"), &left), PATTERN_EXHAUSTED);
    pattern_scratch_free(s);
    pattern_free(bomb);
    pattern_free(good);
    free(text);
}

/* What is usual takes few steps, so that as many expressions as a document may have are not
 * exhausted by a host of usual length. */
static void test_steps_of_usual_ones(void **state)
{
    static const char *const patterns[] = {
        "^[a-z0-9-]+\\.corp\\.example(:443)?$",
        "^.*\\.svc[0-9]+\\.example\\.com$",
        ".*(127.0.0.1).*",
        "example\\.com",
        "^(a|b|c)[^.]*\\.(x|y|z)\\.example$",
        "([a-z0-9]+[.-])+example\\.org",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct pattern *p = make(patterns[i]);
        uint32_t steps;
        (void)find(p, SLICE("some-service-1234.prod.svc.cluster.example.com:8443"), &steps);
        if (steps > PATTERN_BUDGET_STEPS / 256 / 2) {
            fail_msg("%s: %u steps", patterns[i], steps);
        }
        pattern_free(p);
    }
}

static void test_matching_allocates_nothing(void **state)
{
    static const char *const patterns[] = {"(a+)+$", "(a|aa)+$", "(?<n>a+)+\\k<n>$", "a.*b"};
    struct pattern_scratch *s = pattern_scratch_new();
    (void)state;
    char *text = repeated("a", 262, "!");
    assert_non_null(s);
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct pattern *p = make(patterns[i]);
        uint32_t left = PATTERN_BUDGET_STEPS;
        sweep_failed = false;
        sweep_left = 0;
        enum pattern_result first = pattern_match(p, s, slice_str(text), &left);
        enum pattern_result second = pattern_match(p, s, slice_str(text), &left);
        sweep_left = -1;
        assert_false(sweep_failed);
        assert_int_equal(first, second);
        pattern_free(p);
    }
    pattern_scratch_free(s);
    free(text);
}

static bool scenario(void *data)
{
    struct err e = ERR_INIT;
    struct pattern *p = NULL;
    (void)data;
    int rc = pattern_compile("^(?<a>x+)(?<b>[a-z]*)$", &p, &e);
    if (rc != 0) {
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(e.code, -ENOMEM);
        return false;
    }
    struct pattern_scratch *s = pattern_scratch_new();
    uint32_t left = PATTERN_BUDGET_STEPS;
    if (s != NULL) {
        assert_int_equal(pattern_match(p, s, SLICE("xxyz"), &left), PATTERN_MATCHES);
    }
    pattern_scratch_free(s);
    pattern_free(p);
    return s != NULL;
}

static void test_memory(void **state)
{
    (void)state;
    assert_true(sweep_allocations(scenario, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax_of_go),
        cmocka_unit_test(test_any_case),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds_of_texts),
        cmocka_unit_test(test_exhausted),
        cmocka_unit_test(test_shared_budget),
        cmocka_unit_test(test_steps_of_usual_ones),
        cmocka_unit_test(test_matching_allocates_nothing),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
