/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/selector_difference.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "kube/query.h"
#include "rules/rules.h"

/* NULL: everything. */
static struct selector *parse(const char *text)
{
    struct err e = ERR_INIT;
    if (text == NULL) {
        return NULL;
    }
    struct selector *s = selector_parse(slice_str(text), &e);
    if (s == NULL) {
        fail_msg("'%s': %s", text, e.msg);
    }
    return s;
}

static int difference(const char *of, const char *without, struct selector_difference *out,
                      struct err *e)
{
    struct selector *a = parse(of);
    struct selector *b = parse(without);
    memset(out, 0xff, sizeof *out);
    int rc = selector_difference(a, b, out, e);
    selector_free(a);
    selector_free(b);
    return rc;
}

/* The texts, decoded, with " ; " between them. */
static void join(const struct selector_difference *d, struct buf *out)
{
    for (size_t i = 0; i < d->count; i++) {
        assert_int_equal(i == 0 ? 0 : buf_append_str(out, " ; "), 0);
        assert_int_equal(query_decode(slice_str(d->escaped[i]), out), 0);
    }
}

struct row {
    const char *of;
    const char *without;
    const char *want; /* NULL: -ENOTSUP */
};

static void check_row(const struct row *row)
{
    struct selector_difference d;
    struct err e = ERR_INIT;
    int rc = difference(row->of, row->without, &d, &e);
    assert_int_equal(rc, row->want == NULL ? -ENOTSUP : 0);
    struct buf got = BUF_INIT(1 << 20);
    join(&d, &got);
    if (strcmp(buf_cstr(&got), row->want == NULL ? "" : row->want) != 0) {
        fail_msg("'%s' without '%s' is '%s', not '%s'", row->of, row->without, buf_cstr(&got),
                 row->want);
    }
    buf_reset(&got);
    selector_difference_deinit(&d);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_row(&rows[i]);
    }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void a_changed_list_costs_one_short_selector_a_side(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"ns in (b,c,d)", "ns in (a,b,c)", "ns in (d)"},
        {"ns in (a,b,c)", "ns in (b,c,d)", "ns in (a)"},
        {"app=foo,ns in (b,c,d),x!=y", "app=foo,ns in (a,b,c),x!=y", "app=foo,ns in (d),x!=y"},
        {"ns in (a,b)", "ns in (a,b,c)", ""},
        {"ns in (a,b)", "ns in (c,d)", "ns in (a,b)"},
        {"ns notin (a)", "ns notin (b,c)", "ns in (b,c)"},
        {"ns=a", "ns=b", "ns=a"},
        {"ns in (a,b)", "ns=b", "ns=a"},
        {"ns=a", "ns in (a,b)", ""},
        {"ns=a", "ns==a", ""},
        {"ns in (a)", "ns=a", ""},
    };
    CHECK_ROWS(rows);
}

static void negations_are_exact(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "k in (a,b)", "k notin (a,b)"},
        {"", "k notin (a,b)", "k in (a,b)"},
        {"", "k=a", "k!=a"},
        {"", "k!=a", "k=a"},
        {"", "k", "!k"},
        {"", "!k", "k"},
        {"k", "k in (a,b)", "k,k notin (a,b)"},
        {"k", "k!=a", "k=a"},
        {"!k", "k=a", "!k"},
        {"!k", "k!=a", ""},
        {"", "k,k!=a", "!k ; k=a"},
        {"k!=b", "k,k notin (a,b)", "!k ; k=a"},
        {"", "k=", "k!="},
    };
    CHECK_ROWS(rows);
}

static void several_requirements_make_disjoint_selectors(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "a=1,b=2,c", "a!=1 ; a=1,b!=2 ; a=1,b=2,!c"},
        {"a=1", "a=1,b=2", "a=1,b!=2"},
        {"a=1,b=2", "a=1", ""},
        {"hash in (1,2),ns in (b,c)", "hash in (2,3),ns in (a,b)",
         "hash in (1),ns in (b,c) ; hash in (2),ns in (c)"},
        {"app=foo", "ns=a", "app=foo,ns!=a"},
    };
    CHECK_ROWS(rows);
}

static void requirements_on_one_key_are_merged(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"k,k in (a,b),k in (b,c),k notin (x)", "z", "k in (b),!z"},
        {"k in (a,b,c),k notin (b),k!=c", "z", "k=a,!z"},
        {"k notin (b,a),k notin (b,c)", "z", "k notin (a,b,c),!z"},
        {"!k,k!=a", "z", "!k,!z"},
        {"k>5,k>3,k<9,k", "z", "k>5,k<9,!z"},
        {"k>3,k notin (x,2,7)", "z", "k notin (7),k>3,!z"},
        {"k in (1,5,x),k>3", "z", "k in (5),!z"},
    };
    CHECK_ROWS(rows);
}

static void everything_and_nothing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {NULL, NULL, ""},
        {"", NULL, ""},
        {"ns=a", NULL, ""},
        {"ns=a", "", ""},
        {NULL, "ns in (a)", "ns notin (a)"},
        {"a,!a", "b", ""},
        {"a in (x,y),a in (z)", "b", ""},
        {"a>5,a<6", "b", ""},
        {"a>9223372036854775807", "b", ""},
        {"a,b=c", "k,!k", "a,b=c"},
        {"a,b=c", "a=x,k>5,k<3", "a,b=c"},
        {"k,!k", "k,!k", ""},
    };
    CHECK_ROWS(rows);
}

static void everything_but_nothing_needs_no_selector(void **state)
{
    (void)state;
    struct selector_difference d;
    assert_int_equal(difference(NULL, "k,!k", &d, NULL), 0);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.escaped[0], "");
    selector_difference_deinit(&d);
    assert_int_equal(d.count, 0);
}

static void comparisons_are_kept_but_not_negated(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "k>5", NULL},
        {"k", "k<5", NULL},
        {"k>3", "k>5", NULL},
        {"a=b", "a=c,k>5", "a=b"}, /* nothing in common */
        {"k>5", "k>3", ""},
        {"k>5,ns in (a,b)", "k>5,ns in (b)", "k>5,ns in (a)"},
        {"k>5", "k<4", "k>5"},
        {"k>5", "k in (1,6,x)", "k notin (6),k>5"},
        {"k>5", "k notin (1,6,x)", "k in (6)"},
        {"k in (4,6,x)", "k>5", "k in (4,x)"},
        {"!k", "k>5", "!k"},
        {"k<9223372036854775807", "k=5", "k!=5,k<9223372036854775807"},
    };
    CHECK_ROWS(rows);
    struct selector_difference d;
    struct err e = ERR_INIT;
    assert_int_equal(difference("a", "k>5", &d, &e), -ENOTSUP);
    assert_non_null(strstr(e.msg, "label k:"));
}

static void texts_are_ready_for_a_query(void **state)
{
    (void)state;
    struct selector_difference d;
    assert_int_equal(difference("x.io/ns in (b,c,d),a!=1", "x.io/ns in (b),a!=1", &d, NULL), 0);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.escaped[0], "a%21%3D1%2Cx.io%2Fns%20in%20%28c%2Cd%29");
    selector_difference_deinit(&d);
}

static void at_most_eight_selectors(void **state)
{
    (void)state;
    struct selector_difference d;
    struct err e = ERR_INIT;
    assert_int_equal(difference("", "a,b,c,d,e,f,g,h", &d, NULL), 0);
    assert_int_equal(d.count, SELECTOR_DIFFERENCE_MAX);
    selector_difference_deinit(&d);
    assert_int_equal(difference("", "a,b,c,d,e,f,g,h,i", &d, &e), -E2BIG);
    assert_int_equal(d.count, 0);
    assert_non_null(strstr(e.msg, "more than 8"));
}

/* 65,536 values of five bytes: 524 kB when encoded. */
static void add_long_list(struct buf *text, const char *key)
{
    assert_int_equal(buf_printf(text, "%s in (", key), 0);
    for (unsigned i = 0; i < SELECTOR_VALUES_MAX; i++) {
        assert_int_equal(buf_printf(text, i == 0 ? "v%04x" : ",v%04x", i), 0);
    }
    assert_int_equal(buf_append_char(text, ')'), 0);
}

static void texts_are_bounded_in_sum(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    struct selector_difference d;
    add_long_list(&text, "k");
    assert_int_equal(difference(buf_cstr(&text), "a", &d, NULL), 0);
    assert_int_equal(d.count, 1);
    assert_true(strlen(d.escaped[0]) > RULES_ESCAPED_MAX / 2);
    selector_difference_deinit(&d);
    assert_int_equal(difference(buf_cstr(&text), "a,b", &d, NULL), -E2BIG);
    assert_int_equal(d.count, 0);
    assert_int_equal(buf_append_char(&text, ','), 0);
    add_long_list(&text, "l");
    assert_int_equal(difference(buf_cstr(&text), "a", &d, NULL), -E2BIG);
    buf_reset(&text);
}

/* Per key one state of each kind that the selectors of random_selector can tell apart: so a
 * selector that matches no label set of these matches none at all. */
static const char *const states[] = {NULL, "", "x", "y", "z", "2", "3", "4", "5", "6"};
static const char *const keys[] = {"a", "b", "c"};

enum { STATES = ARRAY_LEN(states), KEYS = 3, UNIVERSE = STATES * STATES * STATES };

static size_t make_labels(unsigned n, struct selector_label *labels)
{
    size_t count = 0;
    for (size_t i = 0; i < KEYS; i++, n /= STATES) {
        if (states[n % STATES] != NULL) {
            labels[count++] = (struct selector_label){.key = slice_str(keys[i]),
                                                      .value = slice_str(states[n % STATES])};
        }
    }
    return count;
}

static unsigned draw(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

static void random_list(uint64_t *seed, struct buf *text)
{
    static const char *const values[] = {"x", "y", "3", "5", ""};
    unsigned count = 1 + draw(seed, 3);
    for (unsigned i = 0; i < count; i++) {
        const char *value = values[draw(seed, i == 0 ? 5 : 4)];
        assert_int_equal(buf_printf(text, "%s%s", i == 0 ? "(" : ",", value), 0);
    }
    assert_int_equal(buf_append_char(text, ')'), 0);
}

static void random_requirement(uint64_t *seed, struct buf *text)
{
    static const char *const forms[] = {
        "%s",   "!%s",    "%s=x",   "%s!=y",  "%s>3",   "%s<5",      "%s>5",      "%s=3",
        "%s!=", "%s in ", "%s in ", "%s in ", "%s in ", "%s notin ", "%s notin ", "%s notin "};
    const char *form = forms[draw(seed, ARRAY_LEN(forms))];
    for (; *form != '\0'; form++) {
        bool key = *form == '%';
        form += key;
        assert_int_equal(
            key ? buf_append_str(text, keys[draw(seed, KEYS)]) : buf_append_char(text, *form), 0);
    }
    if (form[-1] == ' ') {
        random_list(seed, text);
    }
}

static struct selector *random_selector(uint64_t *seed)
{
    struct buf text = BUF_INIT(4096);
    unsigned count = draw(seed, 6);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(i == 0 ? 0 : buf_append_char(&text, ','), 0);
        random_requirement(seed, &text);
    }
    struct selector *s = parse(buf_cstr(&text));
    buf_reset(&text);
    return s;
}

static struct selector *read_back(const char *escaped)
{
    struct buf text = BUF_INIT(1 << 20);
    struct buf again = BUF_INIT(1 << 20);
    assert_int_equal(query_decode(slice_str(escaped), &text), 0);
    struct selector *s = parse(buf_cstr(&text));
    assert_int_equal(selector_print(s, &again), 0);
    assert_string_equal(buf_cstr(&again), buf_cstr(&text));
    buf_reset(&text);
    buf_reset(&again);
    return s;
}

static void check_universe(const struct selector *of, const struct selector *without,
                           const struct selector_difference *d)
{
    struct selector *parts[SELECTOR_DIFFERENCE_MAX];
    unsigned matched[SELECTOR_DIFFERENCE_MAX] = {0};
    for (size_t i = 0; i < d->count; i++) {
        parts[i] = read_back(d->escaped[i]);
    }
    for (unsigned n = 0; n < UNIVERSE; n++) {
        struct selector_label labels[KEYS];
        size_t count = make_labels(n, labels);
        unsigned hits = 0;
        for (size_t i = 0; i < d->count; i++) {
            bool hit = selector_matches(parts[i], labels, count);
            hits += hit;
            matched[i] += hit;
        }
        bool wanted =
            selector_matches(of, labels, count) && !selector_matches(without, labels, count);
        assert_int_equal(hits, wanted ? 1 : 0);
    }
    for (size_t i = 0; i < d->count; i++) {
        assert_int_not_equal(matched[i], 0); /* no request for nothing */
        selector_free(parts[i]);
    }
}

static bool compares(const struct selector *s)
{
    size_t count;
    const struct selector_requirement *r = selector_requirements(s, &count);
    for (size_t i = 0; i < count; i++) {
        if (r[i].op == SELECTOR_GREATER || r[i].op == SELECTOR_LESS) {
            return true;
        }
    }
    return false;
}

static void each_label_set_is_listed_once_or_not_at_all(void **state)
{
    (void)state;
    uint64_t seed = 4;
    unsigned exact = 0;
    enum { ROUNDS = 3000 };
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct selector *of = random_selector(&seed);
        struct selector *without = random_selector(&seed);
        struct selector_difference d;
        int rc = selector_difference(of, without, &d, NULL);
        assert_true(rc == 0 || (rc == -ENOTSUP && compares(without) && d.count == 0));
        if (rc == 0) {
            check_universe(of, without, &d);
            exact++;
        }
        selector_difference_deinit(&d);
        selector_free(of);
        selector_free(without);
    }
    assert_true(exact > ROUNDS * 3 / 4);
}

static bool scenario(void *data)
{
    struct selector *const *sides = data;
    struct selector_difference d;
    struct err e = ERR_INIT;
    int rc = selector_difference(sides[0], sides[1], &d, &e);
    if (rc != 0) {
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(d.count, 0);
        assert_string_equal(e.msg, "out of memory");
        return false;
    }
    assert_int_equal(d.count, 4);
    selector_difference_deinit(&d);
    return true;
}

static void out_of_memory(void **state)
{
    (void)state;
    struct selector *sides[] = {parse("k notin (a,b),k notin (b,c),k!=d,n>3,n!=5,ns in (a,b)"),
                                parse("k,k notin (a,f),n notin (7),ns in (b,c)")};
    assert_true(sweep_allocations(scenario, sides) > 20);
    selector_free(sides[0]);
    selector_free(sides[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_list_costs_one_short_selector_a_side),
        cmocka_unit_test(negations_are_exact),
        cmocka_unit_test(several_requirements_make_disjoint_selectors),
        cmocka_unit_test(requirements_on_one_key_are_merged),
        cmocka_unit_test(everything_and_nothing),
        cmocka_unit_test(everything_but_nothing_needs_no_selector),
        cmocka_unit_test(comparisons_are_kept_but_not_negated),
        cmocka_unit_test(texts_are_ready_for_a_query),
        cmocka_unit_test(at_most_eight_selectors),
        cmocka_unit_test(texts_are_bounded_in_sum),
        cmocka_unit_test(each_label_set_is_listed_once_or_not_at_all),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
