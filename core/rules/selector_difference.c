/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/selector_difference.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/decimal.h"
#include "kube/query.h"
#include "kube/selector_builder.h"
#include "rules/rules.h"

/* What requirements on one key leave of it: whether it may be missing, and which values it may
 * have. Texts are the selectors'. */
struct domain {
    bool missing;  /* an object without the label is in it */
    bool inverted; /* all values are in it but `values`, of all numbers from `least` to `most` if
                      `numeric`; otherwise only `values` are */
    bool numeric;
    bool single; /* somebody wrote `key=value`, not a list: written so again */
    int64_t least;
    int64_t most;
    const char *const *values; /* sorted, without doubles */
    size_t count;
    const char **memory; /* where they are, unless in a requirement */
};

/* Requirements in a row. */
struct run {
    const struct selector_requirement *items;
    size_t count;
};

/* The work on one key. */
struct cell {
    const char *key;
    struct domain of;
    struct domain without;
    struct domain both;
};

struct table {
    struct cell *cells; /* by key */
    size_t count;
    struct selector_difference *out;
    size_t room; /* bytes that further texts may have */
    struct err *e;
};

static void domain_deinit(struct domain *d)
{
    free(d->memory);
}

static bool domain_is_empty(const struct domain *d)
{
    return !d->missing && !d->inverted && d->count == 0;
}

static bool domain_has(const struct domain *d, const char *value)
{
    bool listed = d->count > 0 && bsearch(&value, d->values, d->count, sizeof d->values[0],
                                          array_compare_texts) != NULL;
    if (!d->inverted || listed || !d->numeric) {
        return listed != d->inverted;
    }
    int64_t n;
    return decimal_parse(slice_str(value), &n) && d->least <= n && n <= d->most;
}

/* Gives the domain memory for so many values. */
static int reserve_values(struct domain *d, size_t count)
{
    if (count == 0) {
        return 0;
    }
    d->memory = malloc(count * sizeof d->memory[0]);
    d->values = d->memory;
    return d->memory == NULL ? -ENOMEM : 0;
}

/* Adds the values of `from` that `by` has, or has not. */
static void add_values(struct domain *d, const struct domain *from, const struct domain *by,
                       bool wanted)
{
    for (size_t i = 0; i < from->count; i++) {
        if (domain_has(by, from->values[i]) == wanted) {
            d->memory[d->count++] = from->values[i];
        }
    }
}

static void sort_values(struct domain *d)
{
    if (d->count > 1) {
        qsort(d->memory, d->count, sizeof d->memory[0], array_compare_texts);
    }
}

/* Makes it one of numbers. */
static void limit_numbers(struct domain *d, int64_t least, int64_t most)
{
    d->least = d->numeric && d->least > least ? d->least : least;
    d->most = d->numeric && d->most < most ? d->most : most;
    d->numeric = true;
    d->inverted = d->least <= d->most;
}

static struct domain domain_of_comparison(const struct selector_requirement *r)
{
    struct domain d = {.missing = false};
    int64_t n;
    if (!decimal_parse(slice_str(r->values[0]), &n)) {
        return d;
    }
    if (r->op == SELECTOR_GREATER && n < INT64_MAX) {
        limit_numbers(&d, n + 1, INT64_MAX);
    } else if (r->op == SELECTOR_LESS) { /* label values have no sign */
        limit_numbers(&d, INT64_MIN, n - 1);
    }
    return d;
}

static struct domain domain_of_requirement(const struct selector_requirement *r)
{
    struct domain d = {.values = r->values, .count = r->value_count};
    switch (r->op) {
    case SELECTOR_GREATER:
    case SELECTOR_LESS:
        return domain_of_comparison(r);
    case SELECTOR_EXISTS:
        d.inverted = true;
        break;
    case SELECTOR_NOT_EXISTS:
        d.missing = true;
        break;
    case SELECTOR_NOT_EQUALS:
    case SELECTOR_NOT_IN:
        d.missing = true;
        d.inverted = true;
        d.single = r->op == SELECTOR_NOT_EQUALS;
        break;
    case SELECTOR_EQUALS:
    case SELECTOR_DOUBLE_EQUALS:
    case SELECTOR_IN:
        d.single = r->op != SELECTOR_IN;
        break;
    }
    return d;
}

/* Both exclude values: what either does, as far as the other would let it in. */
static void intersect_inverted(const struct domain *a, const struct domain *b, struct domain *out)
{
    struct domain range = {.inverted = true};
    const struct domain *sides[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        if (sides[i]->numeric) {
            limit_numbers(&range, sides[i]->least, sides[i]->most);
        }
    }
    out->inverted = range.inverted;
    out->numeric = range.numeric;
    out->least = range.least;
    out->most = range.most;
    if (!out->inverted) {
        return;
    }
    add_values(out, a, &range, true);
    range.values = a->values;
    range.count = a->count;
    add_values(out, b, &range, true);
    sort_values(out);
}

static int domain_intersect(const struct domain *a, const struct domain *b, struct domain *out)
{
    *out = (struct domain){.missing = a->missing && b->missing, .single = a->single || b->single};
    int rc = reserve_values(out, a->count + b->count);
    if (rc != 0) {
        return rc;
    }
    if (!a->inverted) {
        add_values(out, a, b, true);
    } else if (!b->inverted) {
        add_values(out, b, a, true);
    } else {
        intersect_inverted(a, b, out);
    }
    return 0;
}

/* Whether all that is not listed in `a` is not listed in `b` either. */
static bool is_within(const struct domain *a, const struct domain *b)
{
    return !b->numeric || (a->numeric && b->least <= a->least && a->most <= b->most);
}

/* `a` without `b`. -ENOTSUP, -ENOMEM. */
static int domain_subtract(const struct domain *a, const struct domain *b, struct domain *out)
{
    *out = (struct domain){.missing = a->missing && !b->missing, .single = a->single || b->single};
    if (a->inverted && b->inverted && !is_within(a, b)) {
        return -ENOTSUP;
    }
    int rc = reserve_values(out, a->count + b->count);
    if (rc != 0) {
        return rc;
    }
    if (!a->inverted) {
        add_values(out, a, b, false);
        return 0;
    }
    if (!b->inverted) {
        out->inverted = true;
        out->numeric = a->numeric;
        out->least = a->least;
        out->most = a->most;
        add_values(out, a, a, false);
    }
    add_values(out, b, a, true);
    sort_values(out);
    return 0;
}

/* Of requirements on one key, halving so that long lists are not merged over and over. */
static int domain_of(struct run run, struct domain *out)
{
    if (run.count <= 1) {
        *out = run.count == 1 ? domain_of_requirement(run.items)
                              : (struct domain){.missing = true, .inverted = true};
        return 0;
    }
    struct domain low;
    struct domain high = {.missing = false};
    *out = high;
    size_t half = run.count / 2;
    int rc = domain_of((struct run){run.items, half}, &low);
    if (rc == 0) {
        rc = domain_of((struct run){run.items + half, run.count - half}, &high);
    }
    if (rc == 0) {
        rc = domain_intersect(&low, &high, out);
    }
    domain_deinit(&low);
    domain_deinit(&high);
    return rc;
}

static int write_texts(struct selector_builder *b, const char *key, enum selector_op op,
                       const char *const *values, size_t count)
{
    const char *why;
    int rc = selector_builder_open(b, slice_str(key), op, &why);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = selector_builder_value(b, slice_str(values[i]), &why);
    }
    return rc;
}

static int write_number(struct selector_builder *b, const char *key, enum selector_op op, int64_t n)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, n);
    const char *value = text;
    return write_texts(b, key, op, &value, 1);
}

static int write_range(struct selector_builder *b, const char *key, const struct domain *d)
{
    int rc = 0;
    if (d->least > INT64_MIN) {
        rc = write_number(b, key, SELECTOR_GREATER, d->least - 1);
    }
    if (rc == 0 && d->most < INT64_MAX) {
        rc = write_number(b, key, SELECTOR_LESS, d->most + 1);
    }
    return rc;
}

/* A domain that is not empty; of one with listed values and a missing label only the values. */
static int write_domain(struct selector_builder *b, const char *key, const struct domain *d)
{
    bool single = d->single && d->count == 1;
    if (!d->inverted) {
        enum selector_op op = single ? SELECTOR_EQUALS : SELECTOR_IN;
        return write_texts(b, key, d->count == 0 ? SELECTOR_NOT_EXISTS : op, d->values, d->count);
    }
    int rc = 0;
    if (d->numeric) {
        rc = write_range(b, key, d);
    } else if (!d->missing) {
        rc = write_texts(b, key, SELECTOR_EXISTS, NULL, 0);
    }
    if (rc != 0 || d->count == 0) {
        return rc;
    }
    return write_texts(b, key, single ? SELECTOR_NOT_EQUALS : SELECTOR_NOT_IN, d->values, d->count);
}

static int too_large(struct table *t)
{
    return err_set(t->e, -E2BIG, "the difference of the selectors is too large");
}

static int add_selector_text(struct table *t, const struct selector *s)
{
    struct buf text = BUF_INIT(RULES_ESCAPED_MAX);
    struct buf escaped = BUF_INIT((size_t)3 * RULES_ESCAPED_MAX);
    int rc = selector_print(s, &text);
    if (rc == 0) {
        rc = query_encode(buf_slice(&text), &escaped);
    }
    size_t len = escaped.len;
    rc = rc == 0 && len > t->room ? -ENOBUFS : rc;
    char *copy = rc == 0 ? buf_take_str(&escaped) : NULL;
    buf_reset(&text);
    buf_reset(&escaped);
    if (copy == NULL) {
        return rc == -ENOBUFS ? too_large(t) : err_memory(t->e);
    }
    t->room -= len;
    t->out->escaped[t->out->count++] = copy;
    return 0;
}

/* Adds the selector of what both match in the cells before `at`, `there` in that one, and what the
 * first matches in those behind it. */
static int add_selector(struct table *t, size_t at, const struct domain *there)
{
    if (t->out->count == SELECTOR_DIFFERENCE_MAX) {
        return err_set(t->e, -E2BIG, "the difference of the selectors takes more than %d",
                       SELECTOR_DIFFERENCE_MAX);
    }
    struct selector_builder b;
    selector_builder_init(&b);
    int rc = 0;
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        const struct cell *c = &t->cells[i];
        rc = write_domain(&b, c->key, i < at ? &c->both : i == at ? there : &c->of);
    }
    if (rc != 0) {
        selector_builder_deinit(&b);
        return rc == -E2BIG ? too_large(t) : err_memory(t->e);
    }
    struct selector *s = selector_builder_finish(&b, true);
    rc = s == NULL ? err_memory(t->e) : add_selector_text(t, s);
    selector_free(s);
    return rc;
}

/* A missing label beside listed values is no single selector. */
static int add_domain(struct table *t, size_t at, const struct domain *d)
{
    int rc = 0;
    if (d->missing && !d->inverted && d->count > 0) {
        struct domain missing = {.missing = true};
        rc = add_selector(t, at, &missing);
    }
    return rc == 0 && !domain_is_empty(d) ? add_selector(t, at, d) : rc;
}

static int add_cell(struct table *t, size_t at)
{
    const struct cell *c = &t->cells[at];
    struct domain rest;
    int rc = domain_subtract(&c->of, &c->without, &rest);
    if (rc == 0) {
        rc = add_domain(t, at, &rest);
    } else if (rc == -ENOTSUP) {
        (void)err_set(t->e, rc, "label %s: '>' and '<' have no negation", c->key);
    } else {
        rc = err_memory(t->e);
    }
    domain_deinit(&rest);
    return rc;
}

static struct run run_of(const struct selector *s)
{
    struct run run = {.count = 0};
    if (s != NULL) {
        run.items = selector_requirements(s, &run.count);
    }
    return run;
}

/* Takes the requirements on this key off the front. */
static struct run take_key(struct run *from, const char *key)
{
    struct run taken = {.items = from->items};
    while (from->count > 0 && strcmp(from->items->key, key) == 0) {
        taken.count++;
        from->items++;
        from->count--;
    }
    return taken;
}

static const char *first_key(const struct run *a, const struct run *b)
{
    if (a->count == 0 || b->count == 0) {
        return a->count > 0 ? a->items->key : b->items->key;
    }
    return strcmp(a->items->key, b->items->key) <= 0 ? a->items->key : b->items->key;
}

/* Goes through both lists of requirements, which are sorted by key. */
static int make_cells(struct table *t, struct run of, struct run without)
{
    if (of.count + without.count == 0) {
        return 0;
    }
    t->cells = calloc(of.count + without.count, sizeof t->cells[0]);
    if (t->cells == NULL) {
        return err_memory(t->e);
    }
    while (of.count + without.count > 0) {
        struct cell *c = &t->cells[t->count++];
        c->key = first_key(&of, &without);
        if (domain_of(take_key(&of, c->key), &c->of) != 0 ||
            domain_of(take_key(&without, c->key), &c->without) != 0 ||
            domain_intersect(&c->of, &c->without, &c->both) != 0) {
            return err_memory(t->e);
        }
    }
    return 0;
}

static void free_cells(struct table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        domain_deinit(&t->cells[i].of);
        domain_deinit(&t->cells[i].without);
        domain_deinit(&t->cells[i].both);
    }
    free(t->cells);
}

static int subtract_cells(struct table *t)
{
    bool apart = false;
    for (size_t i = 0; i < t->count; i++) {
        if (domain_is_empty(&t->cells[i].of)) {
            return 0;
        }
        apart = apart || domain_is_empty(&t->cells[i].both);
    }
    if (apart) { /* nothing is in common: all of it */
        return add_selector(t, 0, &t->cells[0].of);
    }
    int rc = 0;
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        rc = add_cell(t, i);
    }
    return rc;
}

int selector_difference(const struct selector *of, const struct selector *without,
                        struct selector_difference *out, struct err *e)
{
    *out = (struct selector_difference){.count = 0};
    struct table t = {.out = out, .room = RULES_ESCAPED_MAX, .e = e};
    int rc = make_cells(&t, run_of(of), run_of(without));
    if (rc == 0) {
        rc = subtract_cells(&t);
    }
    free_cells(&t);
    if (rc != 0) {
        selector_difference_deinit(out);
    }
    return rc;
}

void selector_difference_deinit(struct selector_difference *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->escaped[i]);
    }
    d->count = 0;
}
