/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "kube/selector_overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "growth.h"

static struct selector *parse(const char *text)
{
    struct err e = ERR_INIT;
    struct selector *s = selector_parse(slice_str(text), &e);
    if (s == NULL) {
        fail_msg("the test's own selector: %s: %s", e.msg, text);
    }
    return s;
}

static void pairs(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        enum overlap want;
    } cases[] = {
        {"a=1", "a=1", OVERLAP_CERTAIN},
        {"a=1", "a=2", OVERLAP_NONE},
        {"a in (1,2)", "a in (2,3)", OVERLAP_CERTAIN},
        {"a in (1,2)", "a in (3,4)", OVERLAP_NONE},
        {"a in (1,2)", "a notin (1)", OVERLAP_CERTAIN},
        {"a in (1,2)", "a notin (1,2)", OVERLAP_NONE},
        {"a in (1,2)", "a!=1,a!=2", OVERLAP_NONE},
        {"a in (1,2)", "a!=1,a!=3", OVERLAP_CERTAIN},
        {"a", "!a", OVERLAP_NONE},
        {"a", "a notin (1)", OVERLAP_CERTAIN},
        {"a notin (1)", "!a", OVERLAP_CERTAIN},
        {"a notin (1)", "a notin (2)", OVERLAP_CERTAIN},
        {"a=1", "!a", OVERLAP_NONE},
        {"a>1", "a<5", OVERLAP_CERTAIN},
        {"a>1", "a=0", OVERLAP_NONE},
        {"a>1", "a=2", OVERLAP_CERTAIN},
        /* One asks for more than the other. */
        {"app=x", "app=x,shard=a", OVERLAP_CERTAIN},
        {"app=x,shard=b", "app=x,shard=a", OVERLAP_NONE},
        {"app=x,canary", "app=x,!canary", OVERLAP_NONE},
        {"", "a=1", OVERLAP_CERTAIN},
        {"", "", OVERLAP_CERTAIN},
        /* Labels that have nothing to do with each other. */
        {"app=x", "tier=y", OVERLAP_POSSIBLE},
        {"app=x,shard=a", "app=x,tier=y", OVERLAP_POSSIBLE},
        {"app=x,shard=a", "app=z,tier=y", OVERLAP_NONE},
        /* A contradiction selects nothing, whatever the other says. */
        {"k,!k", "a=1", OVERLAP_NONE},
        {"a=1", "b=1,b=2", OVERLAP_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct selector *a = parse(cases[i].a);
        struct selector *b = parse(cases[i].b);
        if (selector_overlap(a, b) != cases[i].want || selector_overlap(b, a) != cases[i].want) {
            fail_msg("%s and %s: %d, %d", cases[i].a, cases[i].b, (int)selector_overlap(a, b),
                     (int)selector_overlap(b, a));
        }
        selector_free(a);
        selector_free(b);
    }
}

static void alone(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool want;
    } cases[] = {
        {"", true},      {"a=1,b in (1,2),!c", true},      {"a=1,a=2", false},
        {"a,!a", false}, {"a in (1,2),a notin (1)", true}, {"a in (1,2),a notin (1,2)", false},
        {"a=", true},    {"a notin (1),a", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct selector *s = parse(cases[i].text);
        if (selector_satisfiable(s) != cases[i].want) {
            fail_msg("%s", cases[i].text);
        }
        selector_free(s);
    }
}

/* Whatever labels of a small world an object has: if both match, the answer is not NONE; and if
 * none can, it is. */
static void every_object_of_a_small_world(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "", "a", "!a", "a=1", "a!=1", "a in (1,2)", "a notin (1,2)", "a=3"};
    static const char *const values[] = {NULL, "1", "2", "3", "other"};
    size_t n = ARRAY_LEN(parts);
    for (size_t i = 0; i < n * n * n * n; i++) {
        char a_text[64];
        char b_text[64];
        const char *p[] = {parts[i % n], parts[i / n % n], parts[i / n / n % n],
                           parts[i / n / n / n]};
        (void)snprintf(a_text, sizeof a_text, "%s%s%s", p[0], *p[0] && *p[1] ? "," : "", p[1]);
        (void)snprintf(b_text, sizeof b_text, "%s%s%s", p[2], *p[2] && *p[3] ? "," : "", p[3]);
        struct selector *a = parse(a_text);
        struct selector *b = parse(b_text);
        bool both = false;
        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            struct selector_label label = {.key = SLICE("a"), .value = slice_str(values[v])};
            size_t count = values[v] == NULL ? 0 : 1;
            both =
                both || (selector_matches(a, &label, count) && selector_matches(b, &label, count));
        }
        if (both != (selector_overlap(a, b) != OVERLAP_NONE)) {
            fail_msg("%s and %s", a_text, b_text);
        }
        selector_free(a);
        selector_free(b);
    }
}

static bool has(const struct selector *s, const char *value)
{
    struct selector_label label = {.key = SLICE("a"), .value = slice_str(value)};
    return selector_matches(s, &label, value == NULL ? 0 : 1);
}

/* The same of what matches two and not a third. */
static void what_is_outside_in_a_small_world(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "", "a", "!a", "a=1", "a!=1", "a in (1,2)", "a notin (1,2)", "a=3"};
    static const char *const values[] = {NULL, "1", "2", "3", "other"};
    size_t n = ARRAY_LEN(parts);
    for (size_t i = 0; i < n * n * n * n; i++) {
        char text[64];
        const char *last = parts[i / n / n / n];
        (void)snprintf(text, sizeof text, "%s%sb=1", last, *last ? "," : "");
        struct selector *a = parse(parts[i % n]);
        struct selector *b = parse(parts[i / n % n]);
        struct selector *out = parse(parts[i / n / n % n]);
        struct selector *narrow = parse(text); /* labels of another key are outside of this */
        bool any = false;
        bool both = false;
        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            both = both || (has(a, values[v]) && has(b, values[v]));
            any = any || (has(a, values[v]) && has(b, values[v]) && !has(out, values[v]));
        }
        if (any != selector_overlap_outside(a, b, out) ||
            both != selector_overlap_outside(a, b, narrow)) {
            fail_msg("%s and %s, not %s, not %s", parts[i % n], parts[i / n % n],
                     parts[i / n / n % n], text);
        }
        selector_free(a);
        selector_free(b);
        selector_free(out);
        selector_free(narrow);
    }
}

static void what_is_outside(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b; /* NULL: everything */
        const char *out;
        bool want;
    } cases[] = {
        {"ns in (1,2,3)", "ns in (3,4)", "ns in (1,2)", true},
        {"ns in (1,2,3)", "ns in (4,5)", "ns in (1,2)", false},
        {"ns in (1,2,3)", NULL, "ns in (1,2)", true},
        {"ns in (1,2)", NULL, "ns in (1,2,3)", false},
        {"ns in (1,2),app=x", NULL, "ns in (1,2)", false},
        {"ns in (1,2)", "app=y", "ns in (1,2),app=x", true},
        {"ns in (1,2)", "app=x", "ns in (1,2),app=x", false},
        {"hash in (1,2)", "ns in (a)", "hash=1", true},
        {"k>3", NULL, "k>3", false},
        {"k>3,ns=1", "ns in (1,2)", "k>3,ns=1", false},
        {"k>3", NULL, "k>4", true},
        {"k in (5)", NULL, "k>4", false},
        {"k in (3)", NULL, "k>4", true},
        {"k,!k", NULL, "a=1", false},
        {"a=1", NULL, "k,!k", true},
        {"a=1", NULL, "", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct selector *a = parse(cases[i].a);
        struct selector *b = cases[i].b == NULL ? NULL : parse(cases[i].b);
        struct selector *out = parse(cases[i].out);
        if (selector_overlap_outside(a, b, out) != cases[i].want ||
            selector_overlap_outside(b, a, out) != cases[i].want) {
            fail_msg("%zu: %s, not %s", i, cases[i].a, cases[i].out);
        }
        selector_free(a);
        selector_free(b);
        selector_free(out);
    }
    struct selector *one = parse("a=1");
    assert_true(selector_overlap_outside(NULL, NULL, one));
    assert_false(selector_overlap_outside(NULL, NULL, NULL));
    selector_free(one);
}

/* "k in (v0,v1,...)": none of which is left by the other selector, "k!=v0,k!=v1,...". */
static struct selector *many_values(size_t count, bool listed)
{
    struct buf text = BUF_INIT(1 << 20);
    buf_append_str(&text, listed ? "k in (" : "");
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "%s%sv%05zu", i > 0 ? "," : "", listed ? "" : "k!=", i);
    }
    buf_append_str(&text, listed ? ")" : "");
    struct selector *s = parse(buf_cstr(&text));
    buf_reset(&text);
    return s;
}

static void parse_all(void *data, size_t count)
{
    (void)data;
    selector_free(many_values(count, true));
}

/* A selector of one key for each. */
static struct selector *many_keys(size_t count)
{
    struct buf text = BUF_INIT(1 << 20);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "%sk%05zu=1", i > 0 ? "," : "", i);
    }
    struct selector *s = parse(buf_cstr(&text));
    buf_reset(&text);
    return s;
}

struct pair {
    struct selector *a;
    struct selector *b;
};

static void compare_pair(void *data, size_t count)
{
    const struct pair *p = data;
    (void)count;
    assert_int_equal(selector_overlap(p->a, p->b), OVERLAP_NONE);
}

static void look_outside(void *data, size_t count)
{
    const struct pair *p = data;
    (void)count;
    assert_false(selector_overlap_outside(p->a, p->a, p->a));
}

/* Measured by what it takes to read the larger one. */
static void large_selectors_do_not_take_long(void **state)
{
    enum { VALUES = 60000, REQUIREMENTS = 1000, TIMES = 20 };
    struct pair values = {many_values(VALUES, true), NULL};
    struct selector *excluded = many_values(REQUIREMENTS, false);
    struct selector *never = parse("k>1"); /* refuses all, after the others took them */
    const struct selector *const parts[] = {excluded, never};
    values.b = selector_and(parts, 2, NULL);
    struct pair keys = {many_keys(REQUIREMENTS), NULL};
    (void)state;
    uint64_t unit = growth_ns(parse_all, NULL, VALUES);
    uint64_t compared = growth_ns(compare_pair, &values, 0);
    uint64_t outside = growth_ns(look_outside, &keys, 0);
    if (compared > TIMES * unit || outside > TIMES * unit) {
        fail_msg("reading takes %lu ns, comparing %lu ns, looking outside %lu ns",
                 (unsigned long)unit, (unsigned long)compared, (unsigned long)outside);
    }
    selector_free(excluded);
    selector_free(never);
    selector_free(values.a);
    selector_free(values.b);
    selector_free(keys.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),
        cmocka_unit_test(alone),
        cmocka_unit_test(every_object_of_a_small_world),
        cmocka_unit_test(what_is_outside),
        cmocka_unit_test(what_is_outside_in_a_small_world),
        cmocka_unit_test(large_selectors_do_not_take_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
