/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/rules_gain.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "kube/selector_overlap.h"

/* Pairs of such a group and such a resource that are looked at. */
#define CELLS_MAX ((size_t)64 * 1024)
/* Requirements and values that are compared for them, each in some tens of nanoseconds. */
#define STEPS_MAX ((size_t)2 * 1024 * 1024)

enum { KNOWN_BITS = 8, KNOWN = 1 << KNOWN_BITS };

/* Names, sorted, each once. */
struct axis {
    struct slice *names;
    size_t count;
};

/* What the three rules say of one resource; NULL: no limit mentions it. */
struct cell {
    const struct rules_entry *from;
    const struct rules_entry *to;
    const struct rules_entry *others;
};

static int compare_names(const void *a, const void *b)
{
    const struct slice *x = a;
    const struct slice *y = b;
    int order = memcmp(x->ptr, y->ptr, x->len < y->len ? x->len : y->len);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static void sort_names(struct axis *a)
{
    size_t count = 0;
    qsort(a->names, a->count, sizeof *a->names, compare_names);
    for (size_t i = 0; i < a->count; i++) {
        if (count == 0 || !slice_eq(a->names[count - 1], a->names[i])) {
            a->names[count++] = a->names[i];
        }
    }
    a->count = count;
}

static size_t count_patterns(const struct rules *r)
{
    return r == NULL ? 0 : rules_pattern_count(r);
}

static bool is_any(struct slice name)
{
    return slice_eq(name, SLICE("*"));
}

/* Groups of which some rules limit all resources, and resources that some limit in all groups. The
 * caller frees the names of both. */
static void collect_wide(const struct rules *const list[3], struct axis *groups,
                         struct axis *resources)
{
    size_t room = 1;
    for (size_t i = 0; i < 3; i++) {
        room += count_patterns(list[i]);
    }
    groups->names = xcalloc(room, sizeof *groups->names);
    resources->names = xcalloc(room, sizeof *resources->names);
    for (size_t i = 0; i < 3; i++) {
        for (size_t p = 0; p < count_patterns(list[i]); p++) {
            struct slice group;
            struct slice resource;
            rules_pattern(list[i], p, &group, &resource);
            if (is_any(resource) && !is_any(group)) {
                groups->names[groups->count++] = group;
            } else if (is_any(group) && !is_any(resource)) {
                resources->names[resources->count++] = resource;
            }
        }
    }
    sort_names(groups);
    sort_names(resources);
}

static const struct rules_entry *match(const struct rules *r, struct slice group,
                                       struct slice resource)
{
    return r == NULL ? NULL : rules_match(r, group, resource);
}

static const struct selector *selector_of(const struct rules_entry *e)
{
    return e == NULL ? NULL : e->compiled;
}

static size_t size_of(const struct rules_entry *e)
{
    return e == NULL ? 0 : selector_size(e->compiled);
}

/* `nothing`: without any rules, nothing is seen before. */
static bool is_gained(const struct cell *c, bool nothing)
{
    const struct selector *to = selector_of(c->to);
    const struct selector *others = selector_of(c->others);
    if (!nothing) {
        bool same = c->from == NULL || (c->to != NULL && c->from->id == c->to->id);
        return !same && selector_overlap_outside(to, others, c->from->compiled);
    }
    if (to == NULL || others == NULL) {
        const struct selector *one = to != NULL ? to : others;
        return one != NULL && selector_satisfiable(one); /* NULL: every shard sees it */
    }
    return selector_overlap(to, others) != OVERLAP_NONE;
}

/* Cells of which nothing is gained, the last ones of each place: resources have few different
 * limits, in whatever order their names come. All zero: of no rules at all, where nothing is. */
struct known {
    struct cell cells[KNOWN];
};

static uint64_t number_of(const struct rules_entry *e)
{
    return e == NULL ? 0 : e->id;
}

static struct cell *place_of(struct known *k, const struct cell *c)
{
    uint64_t mixed = number_of(c->from);
    mixed = mixed * 31 + number_of(c->to);
    mixed = mixed * 31 + number_of(c->others);
    return &k->cells[mixed * UINT64_C(0x9e3779b97f4a7c15) >> (64 - KNOWN_BITS)];
}

static bool is_same(const struct cell *a, const struct cell *b)
{
    return a->from == b->from && a->to == b->to && a->others == b->others;
}

/* What is looked at is known by its name to all three rules. */
struct look {
    const struct rules *const *list;
    struct known known;
    size_t steps;
};

static bool cell_gained(struct look *l, struct slice group, struct slice resource)
{
    struct cell c = {match(l->list[0], group, resource), match(l->list[1], group, resource),
                     match(l->list[2], group, resource)};
    struct cell *place = place_of(&l->known, &c);
    if (is_same(place, &c)) {
        return false;
    }
    *place = c;
    l->steps += size_of(c.from) + size_of(c.to) + size_of(c.others);
    return l->steps > STEPS_MAX || is_gained(&c, l->list[0] == NULL);
}

/* Shards of one operator name the same. */
static bool is_named_before(const struct look *l, size_t place, struct slice group,
                            struct slice resource)
{
    bool found = false;
    for (size_t i = 0; i < place && !found; i++) {
        found = l->list[i] != NULL && rules_has_pattern(l->list[i], group, resource);
    }
    return found;
}

static bool named_gained(struct look *l)
{
    bool gained = cell_gained(l, SLICE("*"), SLICE("*"));
    for (size_t i = 0; i < 3; i++) {
        for (size_t p = 0; p < count_patterns(l->list[i]) && !gained; p++) {
            struct slice group;
            struct slice resource;
            rules_pattern(l->list[i], p, &group, &resource);
            gained = !is_named_before(l, i, group, resource) && cell_gained(l, group, resource);
        }
    }
    return gained;
}

/* Where one of the rules limits all resources of a group, and another one that resource of all
 * groups. */
static bool crossing_gained(struct look *l, const struct axis *groups, const struct axis *resources)
{
    bool gained = false;
    for (size_t g = 0; g < groups->count && !gained; g++) {
        for (size_t r = 0; r < resources->count && !gained; r++) {
            gained = cell_gained(l, groups->names[g], resources->names[r]);
        }
    }
    return gained;
}

/* Every resource is limited as one of these cells is: as itself, if it is named; or as others of
 * its group, or of its name, or as all that nobody names. */
bool rules_gain(const struct rules *from, const struct rules *to, const struct rules *others)
{
    const struct rules *const list[3] = {from, to, others};
    struct look l = {.list = list};
    struct axis groups = {.names = NULL};
    struct axis resources = {.names = NULL};
    bool gained = true;
    collect_wide(list, &groups, &resources);
    if (resources.count == 0 || groups.count <= CELLS_MAX / resources.count) {
        gained = named_gained(&l) || crossing_gained(&l, &groups, &resources);
    }
    free(groups.names);
    free(resources.names);
    return gained;
}
