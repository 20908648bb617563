/* SPDX-License-Identifier: Apache-2.0 */
#include "config/overlap.h"

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
    r.items = selector_requirements(s, &r.count);
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

/* All requirements that there are on one label, of both selectors. */
static bool label_satisfiable(struct run a, struct run b)
{
    if (all_match(a, NULL) && all_match(b, NULL)) {
        return true;
    }
    const struct selector_requirement *list = find_list(a);
    list = list != NULL ? list : find_list(b);
    if (list == NULL) {
        return takes_any_other(a) && takes_any_other(b);
    }
    for (size_t i = 0; i < list->value_count; i++) {
        struct slice value = slice_str(list->values[i]);
        if (all_match(a, &value) && all_match(b, &value)) {
            return true;
        }
    }
    return false;
}

enum overlap overlap_between(const struct selector *a, const struct selector *b)
{
    struct run x = run_of(a);
    struct run y = run_of(b);
    size_t only_a = 0;
    size_t only_b = 0;
    while (x.count > 0 || y.count > 0) {
        bool from_x = y.count == 0 || (x.count > 0 && strcmp(x.items[0].key, y.items[0].key) <= 0);
        const char *key = from_x ? x.items[0].key : y.items[0].key;
        struct run of_a = take_key(&x, key);
        struct run of_b = take_key(&y, key);
        if (!label_satisfiable(of_a, of_b)) {
            return OVERLAP_NONE;
        }
        only_a += of_b.count == 0 ? 1 : 0;
        only_b += of_a.count == 0 ? 1 : 0;
    }
    return only_a == 0 || only_b == 0 ? OVERLAP_CERTAIN : OVERLAP_POSSIBLE;
}

bool overlap_satisfiable(const struct selector *s)
{
    return overlap_between(s, s) != OVERLAP_NONE;
}
