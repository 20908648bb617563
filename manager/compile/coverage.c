/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/coverage.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "kube/selector_overlap.h"

/* The different limits by control labels of a shard. */
struct member {
    const struct rules *rules;
    const struct rules_entry **entries;
    size_t count;
    bool has; /* the namespace that is being looked at */
};

struct coverage {
    struct coverage_bounds left;
    bool over; /* they were reached */
    const struct sharing_set *shared;
    size_t count;
    struct {
        const struct rules_entry *a;
        const struct rules_entry *b;
        bool overlap;
    } last; /* that were compared */
    struct member members[];
};

static bool take_steps(struct coverage *c, size_t steps)
{
    c->over = c->over || steps >= c->left.steps || (c->left.stop != NULL && *c->left.stop);
    c->left.steps -= c->over ? 0 : steps;
    return !c->over;
}

/* ---- one limit ---- */

static size_t count_of(const struct rules_entry *entry)
{
    size_t count;
    (void)selector_requirements(entry->compiled, &count);
    return count;
}

/* ---- one shard ---- */

static const struct rules_entry *entry_at(const struct rules *rules, size_t i)
{
    struct slice group;
    struct slice resource;
    rules_pattern(rules, i, &group, &resource);
    return rules_match(rules, group, resource);
}

static int compare_entries(const void *left, const void *right)
{
    const struct rules_entry *const *a = left;
    const struct rules_entry *const *b = right;
    return ((uintptr_t)*a > (uintptr_t)*b) - ((uintptr_t)*a < (uintptr_t)*b);
}

/* Resources whose limits have the same selectors share an entry. */
static void leave_one_of_each(struct member *m)
{
    size_t kept = 0;
    qsort(m->entries, m->count, sizeof *m->entries, compare_entries);
    for (size_t i = 0; i < m->count; i++) {
        if (i == 0 || m->entries[i] != m->entries[i - 1]) {
            m->entries[kept++] = m->entries[i];
        }
    }
    m->count = kept;
}

static void fill_member(struct member *m, const struct rules *rules)
{
    size_t patterns = rules_pattern_count(rules);
    m->rules = rules;
    m->entries = xcalloc(patterns + 1, sizeof(void *));
    for (size_t i = 0; i < patterns; i++) {
        const struct rules_entry *entry = entry_at(rules, i);
        if (entry != NULL && control_labels_ask(rules, entry)) {
            m->entries[m->count++] = entry;
        }
    }
    leave_one_of_each(m);
}

static bool has(struct coverage *c, const struct member *m, struct slice ns)
{
    bool found = false;
    bool asks = false;
    for (size_t i = 0; i < m->count && !found && take_steps(c, count_of(m->entries[i])); i++) {
        found = control_labels_accept(m->rules, m->entries[i], ns, &asks);
    }
    return found;
}

/* ---- two shards ---- */

static bool can_share(struct coverage *c, const struct rules_entry *a, const struct rules_entry *b)
{
    if (c->last.a != a || c->last.b != b) {
        (void)take_steps(c, selector_size(a->compiled) + selector_size(b->compiled));
        c->last.a = a;
        c->last.b = b;
        c->last.overlap = selector_overlap(a->compiled, b->compiled) != OVERLAP_NONE;
    }
    return c->last.overlap;
}

/* Of the resources that `one` limits. */
static bool share_any(struct coverage *c, const struct member *one, const struct member *other,
                      struct slice ns)
{
    size_t patterns = rules_pattern_count(one->rules);
    for (size_t i = 0; i < patterns && take_steps(c, 1); i++) {
        struct slice group;
        struct slice resource;
        bool x = false;
        bool y = false;
        rules_pattern(one->rules, i, &group, &resource);
        const struct rules_entry *a = rules_match(one->rules, group, resource);
        const struct rules_entry *b = rules_match(other->rules, group, resource);
        if (a != NULL && b != NULL && take_steps(c, count_of(a) + count_of(b)) &&
            control_labels_accept(one->rules, a, ns, &x) &&
            control_labels_accept(other->rules, b, ns, &y) && x && y && can_share(c, a, b)) {
            return true;
        }
    }
    return false;
}

/* ---- all ---- */

struct coverage *coverage_new(const struct rules *const *shards, size_t count,
                              const struct coverage_bounds *bounds)
{
    struct coverage *c = xcalloc(1, sizeof *c + count * sizeof c->members[0]);
    c->left = bounds != NULL ? *bounds : (struct coverage_bounds){.steps = SIZE_MAX};
    c->count = count;
    for (size_t i = 0; i < count; i++) {
        fill_member(&c->members[i], shards[i]);
    }
    return c;
}

void coverage_set_shared(struct coverage *c, const struct sharing_set *shared)
{
    c->shared = shared;
}

bool coverage_by_namespace(const struct coverage *c)
{
    bool all = c->count > 0;
    for (size_t i = 0; i < c->count; i++) {
        all = all && c->members[i].count > 0;
    }
    return all;
}

static bool find_overlap(struct coverage *c, struct slice ns, size_t *a, size_t *b)
{
    for (*a = 0; *a < c->count; (*a)++) {
        const struct member *one = &c->members[*a];
        for (*b = *a + 1; one->has && *b < c->count && take_steps(c, 1); (*b)++) {
            const struct member *other = &c->members[*b];
            if (other->has && (share_any(c, one, other, ns) || share_any(c, other, one, ns))) {
                return true;
            }
        }
    }
    return false;
}

enum coverage_verdict coverage_look(struct coverage *c, const char *ns, size_t *a, size_t *b)
{
    struct slice name = slice_str(ns);
    size_t number = 0;
    for (size_t i = 0; i < c->count; i++) {
        c->members[i].has = has(c, &c->members[i], name);
        number += c->members[i].has;
    }
    bool overlap = number > 1 && !sharing_set_has(c->shared, ns) && find_overlap(c, name, a, b);
    return c->over       ? COVERAGE_UNKNOWN
           : number == 0 ? COVERAGE_GAP
           : overlap     ? COVERAGE_OVERLAP
                         : COVERAGE_ONE;
}

bool coverage_has(const struct coverage *c, size_t shard)
{
    return c->members[shard].has;
}

void coverage_free(struct coverage *c)
{
    for (size_t i = 0; c != NULL && i < c->count; i++) {
        free(c->members[i].entries);
    }
    free(c);
}
