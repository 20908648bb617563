/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/overlap.h"

#include <stddef.h>
#include <string.h>

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

/* One that names all the values it takes; NULL: there is none. */
static const struct selector_requirement *find_list(struct run r)
{
    for (size_t i = 0; i < r.count; i++) {
        enum selector_op op = r.items[i].op;
        if (op == SELECTOR_IN || op == SELECTOR_EQUALS || op == SELECTOR_DOUBLE_EQUALS) {
            return &r.items[i];
        }
    }
    return NULL;
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
    const struct selector_requirement *list = find_list(d->a);
    list = list != NULL ? list : find_list(d->b);
    bool named =
        d->not != NULL && (d->not ->op == SELECTOR_NOT_IN || d->not ->op == SELECTOR_NOT_EQUALS);
    return list == NULL && named ? d->not : list;
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
    for (size_t i = 0; i < list->value_count; i++) {
        struct slice value = slice_str(list->values[i]);
        if (all_meet(d, &value)) {
            return true;
        }
    }
    return false;
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

enum overlap overlap_between(const struct selector *a, const struct selector *b)
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

/* Whether some object satisfies all of both, and not that one. */
static bool satisfiable_without(struct run x, struct run y,
                                const struct selector_requirement * not )
{
    struct demands alone = {.not = not };
    bool met = label_satisfiable(&alone);
    while (met && (x.count > 0 || y.count > 0)) {
        struct demands d = take_first(&x, &y);
        const char *key = d.a.count > 0 ? d.a.items[0].key : d.b.items[0].key;
        d.not = strcmp(key, not ->key) == 0 ? not : NULL;
        met = label_satisfiable(&d);
    }
    return met;
}

bool overlap_outside(const struct selector *a, const struct selector *b, const struct selector *out)
{
    struct run excluded = run_of(out);
    for (size_t i = 0; i < excluded.count; i++) {
        if (satisfiable_without(run_of(a), run_of(b), &excluded.items[i])) {
            return true;
        }
    }
    return false;
}

bool overlap_satisfiable(const struct selector *s)
{
    return overlap_between(s, s) != OVERLAP_NONE;
}
