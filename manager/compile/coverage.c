/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/coverage.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/overlap.h"
#include "rules/sharding.h"

/* The different limits by control labels of a shard. */
struct member {
    const struct rules *rules;
    const struct rules_entry **entries;
    size_t count;
    bool has; /* the namespace that is being looked at */
};

/* The labels of a namespace's objects. */
struct values {
    struct slice namespace;
    struct slice hash;
    char text[16];
};

struct coverage {
    struct coverage_bounds left;
    bool over; /* they were reached */
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

/* What the label is in the namespace; NULL: it is no control label. */
static const struct slice *value_of(const struct rules *rules, const char *key,
                                    const struct values *v)
{
    static const struct slice yes = {.ptr = "true", .len = 4};
    const struct rules_labels *labels = rules_labels(rules);
    return strcmp(key, labels->namespace) == 0    ? &v->namespace
           : strcmp(key, labels->shard_hash) == 0 ? &v->hash
           : strcmp(key, labels->control) == 0    ? &yes
                                                  : NULL;
}

static size_t count_of(const struct rules_entry *entry)
{
    size_t count;
    (void)selector_requirements(entry->compiled, &count);
    return count;
}

/* By the control labels alone. *asks: whether it asks for any. */
static bool accepts(const struct rules *rules, const struct rules_entry *entry,
                    const struct values *v, bool *asks)
{
    size_t count;
    const struct selector_requirement *r = selector_requirements(entry->compiled, &count);
    bool accepted = true;
    *asks = false;
    for (size_t i = 0; i < count && accepted; i++) {
        const struct slice *value = value_of(rules, r[i].key, v);
        *asks = *asks || value != NULL;
        accepted = value == NULL || selector_requirement_matches(&r[i], value);
    }
    return accepted;
}

static bool asks_for_labels(const struct rules *rules, const struct rules_entry *entry)
{
    static const struct values none;
    size_t count;
    const struct selector_requirement *r = selector_requirements(entry->compiled, &count);
    bool asks = false;
    for (size_t i = 0; i < count && !asks; i++) {
        asks = value_of(rules, r[i].key, &none) != NULL;
    }
    return asks;
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

static int fill_member(struct member *m, const struct rules *rules)
{
    size_t patterns = rules_pattern_count(rules);
    m->rules = rules;
    m->entries = calloc(patterns + 1, sizeof(void *));
    if (m->entries == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < patterns; i++) {
        const struct rules_entry *entry = entry_at(rules, i);
        if (entry != NULL && asks_for_labels(rules, entry)) {
            m->entries[m->count++] = entry;
        }
    }
    leave_one_of_each(m);
    return 0;
}

static bool has(struct coverage *c, const struct member *m, const struct values *v)
{
    bool found = false;
    bool asks = false;
    for (size_t i = 0; i < m->count && !found && take_steps(c, count_of(m->entries[i])); i++) {
        found = accepts(m->rules, m->entries[i], v, &asks);
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
        c->last.overlap = overlap_between(a->compiled, b->compiled) != OVERLAP_NONE;
    }
    return c->last.overlap;
}

/* Of the resources that `one` limits. */
static bool share_any(struct coverage *c, const struct member *one, const struct member *other,
                      const struct values *v)
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
            accepts(one->rules, a, v, &x) && accepts(other->rules, b, v, &y) && x && y &&
            can_share(c, a, b)) {
            return true;
        }
    }
    return false;
}

/* ---- all ---- */

struct coverage *coverage_new(const struct rules *const *shards, size_t count,
                              const struct coverage_bounds *bounds)
{
    struct coverage *c = calloc(1, sizeof *c + count * sizeof c->members[0]);
    if (c == NULL) {
        return NULL;
    }
    c->left = bounds != NULL ? *bounds : (struct coverage_bounds){.steps = SIZE_MAX};
    c->count = count;
    for (size_t i = 0; i < count; i++) {
        if (fill_member(&c->members[i], shards[i]) != 0) {
            coverage_free(c);
            return NULL;
        }
    }
    return c;
}

bool coverage_by_namespace(const struct coverage *c)
{
    bool all = c->count > 0;
    for (size_t i = 0; i < c->count; i++) {
        all = all && c->members[i].count > 0;
    }
    return all;
}

static bool find_overlap(struct coverage *c, const struct values *v, size_t *a, size_t *b)
{
    for (*a = 0; *a < c->count; (*a)++) {
        const struct member *one = &c->members[*a];
        for (*b = *a + 1; one->has && *b < c->count && take_steps(c, 1); (*b)++) {
            const struct member *other = &c->members[*b];
            if (other->has && (share_any(c, one, other, v) || share_any(c, other, one, v))) {
                return true;
            }
        }
    }
    return false;
}

enum coverage_verdict coverage_look(struct coverage *c, const char *ns, size_t *a, size_t *b)
{
    struct values v;
    size_t number = 0;
    int len = snprintf(v.text, sizeof v.text, "%u", sharding_hash(ns));
    v.namespace = slice_str(ns);
    v.hash = slice_of(v.text, (size_t)len);
    for (size_t i = 0; i < c->count; i++) {
        c->members[i].has = has(c, &c->members[i], &v);
        number += c->members[i].has;
    }
    bool overlap = number > 1 && find_overlap(c, &v, a, b);
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
