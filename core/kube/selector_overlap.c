/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/selector_overlap.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Values times requirements that are compared one by one. */
enum { PRODUCT_MAX = 4096 };

/* Requirements of one selector, by key. */
struct run {
    const struct selector_requirement *items;
    size_t count;
};

static struct run run_of(const struct selector *s)
{
    struct run r = {.count = 0};
    r.items = s == NULL ? NULL : selector_requirements(s, &r.count);
    return r;
}

/* Takes those with the key off the front of `r`, where they stand together. */
static struct run take_key(struct run *r, const char *key)
{
    struct run taken = {.items = r->items};
    while (r->count > 0 && strcmp(r->items[0].key, key) == 0) {
        r->items++;
        r->count--;
        taken.count++;
    }
    return taken;
}

static bool all_match(struct run r, const struct slice *value)
{
    for (size_t i = 0; i < r.count; i++) {
        if (!selector_requirement_matches(&r.items[i], value)) {
            return false;
        }
    }
    return true;
}

/* Whether a value that no requirement names is good for it. */
static bool takes_others(const struct selector_requirement *r)
{
    switch (r->op) {
    case SELECTOR_EXISTS:
    case SELECTOR_NOT_EQUALS:
    case SELECTOR_NOT_IN:
    case SELECTOR_GREATER: /* two of them may leave no number between them: rather say yes */
    case SELECTOR_LESS:
        return true;
    default:
        return false;
    }
}

/* Whether a value that it does not name is no good for it, or may not be. */
static bool refuses_others(const struct selector_requirement *r)
{
    return r->op != SELECTOR_EXISTS && r->op != SELECTOR_NOT_EQUALS && r->op != SELECTOR_NOT_IN;
}

/* The shorter one of `best`, which may be NULL, and of those that name all the values they take. */
static const struct selector_requirement *find_list(struct run r,
                                                    const struct selector_requirement *best)
{
    for (size_t i = 0; i < r.count; i++) {
        enum selector_op op = r.items[i].op;
        bool names = op == SELECTOR_IN || op == SELECTOR_EQUALS || op == SELECTOR_DOUBLE_EQUALS;
        if (names && (best == NULL || r.items[i].value_count < best->value_count)) {
            best = &r.items[i];
        }
    }
    return best;
}

static bool takes_any_other(struct run r)
{
    for (size_t i = 0; i < r.count; i++) {
        if (!takes_others(&r.items[i])) {
            return false;
        }
    }
    return true;
}

/* All requirements that there are on one label. */
struct demands {
    struct run a;
    struct run b;
    const struct selector_requirement * not ; /* one that is not to be satisfied; NULL: none */
};

static bool all_meet(const struct demands *d, const struct slice *value)
{
    return all_match(d->a, value) && all_match(d->b, value) &&
           (d->not == NULL || !selector_requirement_matches(d->not, value));
}

/* One whose values are all that come into question; NULL: there is none. */
static const struct selector_requirement *find_values(const struct demands *d)
{
    const struct selector_requirement *list = find_list(d->b, find_list(d->a, NULL));
    bool named =
        d->not != NULL && (d->not ->op == SELECTOR_NOT_IN || d->not ->op == SELECTOR_NOT_EQUALS);
    return list == NULL && named ? d->not : list;
}

/* ---- many values ---- */

/* Values that are not to be, of all requirements that name such, sorted: for many values against
 * many requirements. */
struct excluded {
    const char **items;
    size_t count;
};

static bool excludes(const struct selector_requirement *r)
{
    return r->op == SELECTOR_NOT_IN || r->op == SELECTOR_NOT_EQUALS;
}

static size_t count_excluded(struct run r)
{
    size_t count = 0;
    for (size_t i = 0; i < r.count; i++) {
        count += excludes(&r.items[i]) ? r.items[i].value_count : 0;
    }
    return count;
}

static void add_excluded(struct excluded *x, struct run r)
{
    for (size_t i = 0; i < r.count; i++) {
        for (size_t j = 0; excludes(&r.items[i]) && j < r.items[i].value_count; j++) {
            x->items[x->count++] = r.items[i].values[j];
        }
    }
}

static bool is_excluded(const struct excluded *x, const char *value)
{
    return x->count > 0 &&
           bsearch(&value, x->items, x->count, sizeof *x->items, array_compare_texts) != NULL;
}

/* Whether the others take it. */
static bool rest_match(struct run r, const struct slice *value)
{
    for (size_t i = 0; i < r.count; i++) {
        if (!excludes(&r.items[i]) && !selector_requirement_matches(&r.items[i], value)) {
            return false;
        }
    }
    return true;
}

static bool some_rest(const struct demands *d, const struct selector_requirement *list,
                      const struct excluded *x)
{
    for (size_t i = 0; i < list->value_count; i++) {
        struct slice value = slice_str(list->values[i]);
        if (!is_excluded(x, list->values[i]) && rest_match(d->a, &value) &&
            rest_match(d->b, &value) &&
            (d->not == NULL || !selector_requirement_matches(d->not, &value))) {
            return true;
        }
    }
    return false;
}

static bool some_meet(const struct demands *d, const struct selector_requirement *list)
{
    for (size_t i = 0; i < list->value_count; i++) {
        struct slice value = slice_str(list->values[i]);
        if (all_meet(d, &value)) {
            return true;
        }
    }
    return false;
}

/* Whether one of these values meets all. Without memory the long way is gone. */
static bool any_meets(const struct demands *d, const struct selector_requirement *list)
{
    if (list->value_count * (d->a.count + d->b.count) <= PRODUCT_MAX) {
        return some_meet(d, list);
    }
    struct excluded x = {.count = 0};
    x.items = malloc((count_excluded(d->a) + count_excluded(d->b) + 1) * sizeof *x.items);
    if (x.items == NULL) {
        return some_meet(d, list);
    }
    add_excluded(&x, d->a);
    add_excluded(&x, d->b);
    qsort(x.items, x.count, sizeof *x.items, array_compare_texts);
    bool met = some_rest(d, list, &x);
    free(x.items);
    return met;
}

/* Whether it is a bound that one of these demands too. */
static bool is_bound_of(struct run r, const struct selector_requirement * not )
{
    for (size_t i = 0; i < r.count; i++) {
        if ((not ->op == SELECTOR_GREATER || not ->op == SELECTOR_LESS) &&
            r.items[i].op == not ->op && strcmp(r.items[i].values[0], not ->values[0]) == 0) {
            return true;
        }
    }
    return false;
}

static bool label_satisfiable(const struct demands *d)
{
    if (d->not != NULL && (is_bound_of(d->a, d->not ) || is_bound_of(d->b, d->not ))) {
        return false;
    }
    if (all_meet(d, NULL)) {
        return true;
    }
    const struct selector_requirement *list = find_values(d);
    if (list == NULL) {
        return takes_any_other(d->a) && takes_any_other(d->b) &&
               (d->not == NULL || refuses_others(d->not ));
    }
    return any_meets(d, list);
}

/* Takes the requirements on the first of the keys off both. */
static struct demands take_first(struct run *x, struct run *y)
{
    bool from_x = y->count == 0 || (x->count > 0 && strcmp(x->items[0].key, y->items[0].key) <= 0);
    const char *key = from_x ? x->items[0].key : y->items[0].key;
    struct demands d = {.a = take_key(x, key)};
    d.b = take_key(y, key);
    return d;
}

enum overlap selector_overlap(const struct selector *a, const struct selector *b)
{
    struct run x = run_of(a);
    struct run y = run_of(b);
    size_t only_a = 0;
    size_t only_b = 0;
    while (x.count > 0 || y.count > 0) {
        struct demands d = take_first(&x, &y);
        if (!label_satisfiable(&d)) {
            return OVERLAP_NONE;
        }
        only_a += d.b.count == 0 ? 1 : 0;
        only_b += d.a.count == 0 ? 1 : 0;
    }
    return only_a == 0 || only_b == 0 ? OVERLAP_CERTAIN : OVERLAP_POSSIBLE;
}

/* Takes those on a key before `key` off the front. */
static void skip_before(struct run *r, const char *key)
{
    while (r->count > 0 && strcmp(r->items[0].key, key) < 0) {
        r->items++;
        r->count--;
    }
}

/* One that satisfies both and not all of `out` fails one of these requirements, and differs in that
 * label alone from what is known to be satisfiable. */
bool selector_overlap_outside(const struct selector *a, const struct selector *b,
                              const struct selector *out)
{
    struct run x = run_of(a);
    struct run y = run_of(b);
    struct run excluded = run_of(out);
    if (selector_overlap(a, b) == OVERLAP_NONE) {
        return false;
    }
    for (size_t i = 0; i < excluded.count; i++) {
        const struct selector_requirement *one = &excluded.items[i];
        skip_before(&x, one->key);
        skip_before(&y, one->key);
        struct run of_x = x;
        struct run of_y = y;
        struct demands d = {.a = take_key(&of_x, one->key), .not = one};
        d.b = take_key(&of_y, one->key);
        struct demands alone = {.not = one};
        if (label_satisfiable(&alone) && label_satisfiable(&d)) {
            return true;
        }
    }
    return false;
}

bool selector_satisfiable(const struct selector *s)
{
    return selector_overlap(s, s) != OVERLAP_NONE;
}
