/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a decision: gather the classes that the limits, what stands and what is shared tell
 * apart; refuse if two shards have one of them for good and other labels tell them apart; decide
 * class by class (next_owner); leave out the names that go with their hash.
 */
#include "route/partitioner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "inject/inject_options.h"
#include "route/limit_classes.h"

/* Names that one decision looks at: those of a partition, those that take their place, and some. */
#define UNIVERSE_MAX ((size_t)4 * PARTITION_NAMES_MAX)

/* The limits of one shard on one resource; NULL: it shows nothing. */
struct side {
    struct limit *wanted;
    struct limit *published;
};

/* A resource that was asked for. Those of one kind are limited in the same way by each shard. */
struct known_resource {
    struct table_node node;
    struct side *sides; /* by shards */
    size_t kind;        /* its place in the list of kinds */
    char text[];        /* GROUP/RESOURCE */
};

struct partitioner {
    const struct partition_facts *facts;
    struct limit_classes *classes;
    struct table resources;
    const struct known_resource **kinds; /* one of each */
    size_t kind_count;
    struct partition_resource *patterns; /* that the rules name; NULL: not listed yet */
    size_t pattern_count;
    size_t *marks; /* by class: the number of the last decision that has it */
    size_t mark_room;
    size_t decision;
};

struct decision {
    struct partitioner *p;
    const struct partition_shard *shards;
    size_t count;
    const struct side *sides;
    size_t *classes; /* the hashes first */
    size_t class_count;
    size_t class_room;
};

struct partitioner *partitioner_new(const struct partition_facts *facts)
{
    struct partitioner *p = xcalloc(1, sizeof *p);
    p->facts = facts;
    p->classes = limit_classes_new();
    return p;
}

void partitioner_free(struct partitioner *p)
{
    struct table_node *next;
    for (struct table_node *n = table_next(&p->resources, NULL); n != NULL; n = next) {
        struct known_resource *k = LIST_ITEM(n, struct known_resource, node);
        next = table_next(&p->resources, n);
        free(k->sides);
        free(k);
    }
    table_deinit(&p->resources);
    free(p->kinds);
    free(p->patterns);
    limit_classes_free(p->classes);
    free(p->marks);
    free(p);
}

const struct partition_facts *partitioner_facts(const struct partitioner *p)
{
    return p->facts;
}

/* ---- limits ---- */

static const struct rules *rules_of(const struct partition_shard *s)
{
    return s->wanted != NULL ? s->wanted : s->published;
}

const struct partition_shard *partitioner_unlimited(const struct partitioner *p,
                                                    const struct partition_resource *r)
{
    for (size_t i = 0; i < p->facts->count; i++) {
        const struct rules *rules = rules_of(&p->facts->shards[i]);
        if (rules != NULL && rules_match(rules, r->group, r->resource) == NULL) {
            return &p->facts->shards[i];
        }
    }
    return NULL;
}

static struct limit *limit_of(struct partitioner *p, const struct rules *rules,
                              const struct partition_resource *r)
{
    return rules == NULL ? NULL : limit_classes_find(p->classes, rules, r->group, r->resource);
}

static struct side side_of(struct partitioner *p, const struct partition_shard *s,
                           const struct partition_resource *r)
{
    return (struct side){.wanted = limit_of(p, rules_of(s), r),
                         .published = limit_of(p, s->published, r)};
}

static bool accepts(const struct partitioner *p, struct limit *l, size_t class)
{
    return l != NULL && limit_accepts(p->classes, l, class);
}

/* ---- two resources ---- */

static bool agree_on(const struct partitioner *p, struct limit *a, struct limit *b,
                     const size_t *classes, size_t count)
{
    bool same = true;
    for (size_t i = 0; i < count && same; i++) {
        same = accepts(p, a, classes[i]) == accepts(p, b, classes[i]);
    }
    return same;
}

static bool same_limits(const struct partitioner *p, struct limit *a, struct limit *b)
{
    if (a == b) {
        return true;
    }
    bool same = limit_is_by_namespace(a) == limit_is_by_namespace(b);
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE && same; hash++) {
        same = agree_on(p, a, b, &hash, 1);
    }
    size_t count;
    const size_t *mentions = limit_mentions(a, &count);
    same = same && agree_on(p, a, b, mentions, count);
    mentions = limit_mentions(b, &count);
    return same && agree_on(p, a, b, mentions, count);
}

static bool same_sides(const struct partitioner *p, const struct side *a, const struct side *b)
{
    bool same = true;
    for (size_t i = 0; i < p->facts->count && same; i++) {
        same = same_limits(p, a[i].wanted, b[i].wanted) &&
               same_limits(p, a[i].published, b[i].published);
    }
    return same;
}

static void find_kind(struct partitioner *p, struct known_resource *k)
{
    while (k->kind < p->kind_count && !same_sides(p, k->sides, p->kinds[k->kind]->sides)) {
        k->kind++;
    }
    if (k->kind == p->kind_count) {
        p->kinds = xrealloc(p->kinds, (p->kind_count + 1) * sizeof(struct known_resource *));
        p->kinds[p->kind_count++] = k;
    }
}

static const struct known_resource *know(struct partitioner *p, const struct partition_resource *r)
{
    size_t len = r->group.len + 1 + r->resource.len;
    char *text = xasprintf("%.*s/%.*s", (int)r->group.len, r->group.ptr, (int)r->resource.len,
                           r->resource.ptr);
    struct known_resource *k =
        xptr(TABLE_PROVIDE(&p->resources, slice_of(text, len), struct known_resource, text));
    free(text);
    if (k->sides == NULL) {
        k->sides = xcalloc(p->facts->count + 1, sizeof *k->sides);
        for (size_t i = 0; i < p->facts->count; i++) {
            k->sides[i] = side_of(p, &p->facts->shards[i], r);
        }
        find_kind(p, k);
    }
    return k;
}

bool partitioner_same(struct partitioner *p, const struct partition_resource *a,
                      const struct partition_resource *b)
{
    return know(p, a)->kind == know(p, b)->kind;
}

/* ---- wildcards ---- */

static void list_patterns_of(struct partitioner *p, const struct rules *rules)
{
    size_t count = rules == NULL ? 0 : rules_pattern_count(rules);
    p->patterns = xrealloc(p->patterns, (p->pattern_count + count + 1) * sizeof *p->patterns);
    for (size_t i = 0; i < count; i++) {
        struct partition_resource *r = &p->patterns[p->pattern_count++];
        rules_pattern(rules, i, &r->group, &r->resource);
    }
}

static int compare_slices(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.ptr, b.ptr, len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_resources(const void *left, const void *right)
{
    const struct partition_resource *a = left;
    const struct partition_resource *b = right;
    int order = compare_slices(a->group, b->group);
    return order != 0 ? order : compare_slices(a->resource, b->resource);
}

/* Each once, of all shards. */
static void list_patterns(struct partitioner *p)
{
    for (size_t i = 0; i < p->facts->count; i++) {
        const struct partition_shard *s = &p->facts->shards[i];
        list_patterns_of(p, s->wanted);
        list_patterns_of(p, s->published == s->wanted ? NULL : s->published);
    }
    size_t kept = 0;
    if (p->pattern_count > 0) {
        qsort(p->patterns, p->pattern_count, sizeof *p->patterns, compare_resources);
    }
    for (size_t i = 0; i < p->pattern_count; i++) {
        if (i == 0 || compare_resources(&p->patterns[i], &p->patterns[kept - 1]) != 0) {
            p->patterns[kept++] = p->patterns[i];
        }
    }
    p->pattern_count = kept;
}

static bool is_any(struct slice text)
{
    return slice_eq(text, SLICE("*"));
}

/* What both have in common: false if that is nothing. */
static bool meet(struct slice a, struct slice b, struct slice *both)
{
    *both = is_any(a) ? b : a;
    return is_any(a) || is_any(b) || slice_eq(a, b);
}

bool partitioner_same_within(struct partitioner *p, const struct partition_resource *r,
                             struct partition_resource *other)
{
    if (p->patterns == NULL) {
        list_patterns(p);
    }
    for (size_t i = 0; i < p->pattern_count; i++) {
        if (meet(r->group, p->patterns[i].group, &other->group) &&
            meet(r->resource, p->patterns[i].resource, &other->resource) &&
            !partitioner_same(p, r, other)) {
            return false;
        }
    }
    return true;
}

/* ---- the classes of a decision ---- */

static void mark(struct decision *d, size_t class)
{
    struct partitioner *p = d->p;
    if (class >= p->mark_room) {
        size_t room = limit_classes_count(p->classes) * 2;
        p->marks = xrealloc(p->marks, room * sizeof *p->marks);
        memset(p->marks + p->mark_room, 0, (room - p->mark_room) * sizeof *p->marks);
        p->mark_room = room;
    }
    if (p->marks[class] == p->decision) {
        return;
    }
    p->marks[class] = p->decision;
    if (d->class_count == d->class_room) {
        d->class_room = d->class_room == 0 ? 2 * SHARDING_HASH_SIZE : 2 * d->class_room;
        d->classes = xrealloc(d->classes, d->class_room * sizeof *d->classes);
    }
    d->classes[d->class_count++] = class;
}

static void mark_mentions(struct decision *d, const struct limit *l)
{
    size_t count = 0;
    const size_t *mentions = l == NULL ? NULL : limit_mentions(l, &count);
    for (size_t i = 0; i < count; i++) {
        mark(d, mentions[i]);
    }
}

static void mark_all(struct decision *d, const struct partition *present)
{
    const struct sharing_set *shared = d->p->facts->shared;
    d->p->decision++;
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE; hash++) {
        mark(d, hash);
    }
    for (size_t i = 0; i < d->count; i++) {
        mark_mentions(d, d->sides[i].wanted);
        mark_mentions(d, d->sides[i].published);
    }
    for (size_t i = 0; shared != NULL && i < shared->count; i++) {
        mark(d, limit_classes_of(d->p->classes, shared->names[i]));
    }
    for (size_t i = 0; i < d->p->facts->own_count; i++) {
        mark(d, limit_classes_of(d->p->classes, d->p->facts->own[i]));
    }
    for (size_t i = 0; i < present->count; i++) {
        mark(d, limit_classes_of(d->p->classes, present->names[i].name));
    }
}

static void decision_init(struct decision *d, struct partitioner *p,
                          const struct partition_resource *r, const struct partition *present)
{
    *d = (struct decision){.p = p, .shards = p->facts->shards, .count = p->facts->count};
    d->sides = know(p, r)->sides;
    mark_all(d, present);
}

/* ---- one class ---- */

static bool wants(const struct decision *d, size_t shard, size_t class)
{
    return accepts(d->p, d->sides[shard].wanted, class);
}

static bool shows(const struct decision *d, size_t shard, size_t class)
{
    return accepts(d->p, d->sides[shard].published, class);
}

static bool may_have(const struct decision *d, size_t shard, size_t class)
{
    const struct partition_shard *s = &d->shards[shard];
    return s->can_gain && s->confirmed && shows(d, shard, class);
}

static bool is_wanted(const struct decision *d, size_t class)
{
    for (size_t i = 0; i < d->count; i++) {
        if (wants(d, i, class)) {
            return true;
        }
    }
    return false;
}

/* Whether some shard that has it or wants it holds what moves. */
static bool holds(const struct decision *d, size_t class, int owner)
{
    bool found = owner >= 0 && d->shards[owner].hold;
    for (size_t i = 0; i < d->count && !found; i++) {
        found = d->shards[i].hold && wants(d, i, class);
    }
    return found;
}

/* What is held stays so even if the one that had it does not hold, or is gone. */
static bool any_holds(const struct decision *d)
{
    bool found = false;
    for (size_t i = 0; i < d->count && !found; i++) {
        found = d->shards[i].hold;
    }
    return found;
}

/* The first one that wants it and may have it; PARTITION_REST: none. One that only shows it still
 * is about to lose it. */
static int find_gainer(const struct decision *d, size_t class)
{
    for (size_t i = 0; i < d->count; i++) {
        if (wants(d, i, class) && may_have(d, i, class)) {
            return (int)i;
        }
    }
    return PARTITION_REST;
}

static const char *name_of(const struct decision *d, size_t class)
{
    return class < SHARDING_HASH_SIZE ? NULL : limit_classes_name(d->p->classes, class);
}

static bool is_shared(const struct decision *d, size_t class)
{
    const char *name = name_of(d, class);
    return name != NULL && sharing_set_has(d->p->facts->shared, name);
}

static bool is_own(const struct decision *d, size_t class)
{
    const struct partition_facts *f = d->p->facts;
    const char *name = name_of(d, class);
    bool found = false;
    for (size_t i = 0; name != NULL && i < f->own_count && !found; i++) {
        found = strcmp(f->own[i], name) == 0;
    }
    return found;
}

/* So every pod may be asked. */
static bool is_shared_by_all(const struct decision *d, size_t class)
{
    bool all = is_shared(d, class);
    for (size_t i = 0; i < d->count && all; i++) {
        all = d->sides[i].wanted == NULL || wants(d, i, class);
    }
    return all;
}

/* To one that may have it; else it waits, held or where it is. */
static int move(const struct decision *d, size_t class, int owner, bool hold)
{
    int gainer = find_gainer(d, class);
    if (gainer >= 0) {
        return gainer;
    }
    bool held = hold || (owner == PARTITION_HELD && any_holds(d));
    if (!is_wanted(d, class) && !d->p->facts->restless) {
        return PARTITION_REST;
    }
    if (held) {
        return PARTITION_HELD;
    }
    return owner == PARTITION_HELD ? PARTITION_REST : owner;
}

/* With hold it leaves as soon as the shard is to lose it; else as late as it can. */
static bool stays(const struct decision *d, size_t class, size_t shard, bool hold)
{
    if (hold) {
        return wants(d, shard, class) && shows(d, shard, class);
    }
    return may_have(d, shard, class) || (!is_wanted(d, class) && shows(d, shard, class));
}

static int next_owner(const struct decision *d, size_t class, int owner)
{
    if (is_own(d, class) || is_shared_by_all(d, class)) {
        return PARTITION_REST;
    }
    bool hold = holds(d, class, owner);
    return owner >= 0 && stays(d, class, (size_t)owner, hold) ? owner : move(d, class, owner, hold);
}

/* ---- whether namespaces tell shards apart ---- */

static bool lists(const char *shares_with, const char *key)
{
    return shares_with != NULL && (inject_options_lists(shares_with, strchr(key, '/') + 1) ||
                                   inject_options_lists(shares_with, "*"));
}

static bool share(const struct partition_shard *a, const struct partition_shard *b)
{
    return lists(a->shares_with, b->key) || lists(b->shares_with, a->key);
}

/* For good, not only while something moves. */
static bool has(const struct decision *d, size_t shard, size_t class)
{
    return wants(d, shard, class) && shows(d, shard, class);
}

static bool are_told_apart_otherwise(const struct decision *d, size_t a, size_t b)
{
    return !limit_is_by_namespace(d->sides[a].wanted) || !limit_is_by_namespace(d->sides[b].wanted);
}

static void say_overlap(const struct decision *d, size_t class, size_t a, size_t b,
                        struct route_verdict *why)
{
    char what[128];
    const char *name = name_of(d, class);
    if (name != NULL) {
        (void)snprintf(what, sizeof what, "namespace %.63s", name);
    } else {
        (void)snprintf(what, sizeof what, "namespaces of hash %zu", class);
    }
    route_verdict_set(why, ROUTE_NOT_BY_NAMESPACE,
                      "shards %.320s and %.320s both see %s, and reviews can be routed by "
                      "namespaces only, not by other labels",
                      d->shards[a].key, d->shards[b].key, what);
}

static bool find_overlap(const struct decision *d, size_t class, struct route_verdict *why)
{
    for (size_t a = 0; a < d->count; a++) {
        for (size_t b = a + 1; b < d->count && has(d, a, class); b++) {
            if (has(d, b, class) && are_told_apart_otherwise(d, a, b) &&
                !share(&d->shards[a], &d->shards[b])) {
                say_overlap(d, class, a, b, why);
                return true;
            }
        }
    }
    return false;
}

static bool overlaps(const struct decision *d, struct route_verdict *why)
{
    for (size_t i = 0; i < d->class_count; i++) {
        size_t class = d->classes[i];
        if (!is_own(d, class) && !is_shared(d, class) && find_overlap(d, class, why)) {
            return true;
        }
    }
    return false;
}

/* ---- all ---- */

static bool is_too_much(size_t count, size_t max, struct route_verdict *why)
{
    if (count > max) {
        route_verdict_set(why, ROUTE_TOO_MANY,
                          "limits name %zu namespaces, and reviews are routed for up to %zu: "
                          "limit by the hash of namespaces instead",
                          count, max);
    }
    return count > max;
}

static void decide(const struct decision *d, const struct partition *present,
                   struct partition *next, struct partition_name *named, size_t *count)
{
    *count = 0;
    partition_init(next);
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE; hash++) {
        next->hashes[hash] = next_owner(d, hash, present->hashes[hash]);
    }
    for (size_t i = SHARDING_HASH_SIZE; i < d->class_count; i++) {
        size_t class = d->classes[i];
        const char *name = name_of(d, class);
        int owner = next_owner(d, class, partition_owner(present, name));
        if (owner != next->hashes[sharding_hash(name)] || is_shared(d, class)) {
            named[(*count)++] = (struct partition_name){.name = name, .owner = owner};
        }
    }
}

static enum route_reason find_next(const struct decision *d, const struct partition *present,
                                   struct partition *next, struct route_verdict *why)
{
    size_t names = d->class_count - SHARDING_HASH_SIZE;
    if (is_too_much(names, UNIVERSE_MAX, why) || overlaps(d, why)) {
        return why->reason;
    }
    struct partition_name *named = xmalloc((names + 1) * sizeof *named);
    struct partition made;
    size_t count;
    decide(d, present, &made, named, &count);
    bool fits = !is_too_much(count, PARTITION_NAMES_MAX, why);
    if (fits) {
        partition_set_names(&made, named, count);
        *next = made;
    }
    free(named);
    return fits ? ROUTE_ROUTED : ROUTE_TOO_MANY;
}

enum route_reason partitioner_next(struct partitioner *p, const struct partition_resource *r,
                                   const struct partition *present, struct partition *next,
                                   struct route_verdict *why)
{
    struct decision d;
    decision_init(&d, p, r, present);
    enum route_reason reason = find_next(&d, present, next, why);
    free(d.classes);
    return reason;
}

/* ---- what moves away ---- */

static bool shows_all(struct limit_classes *c, struct limit *l, const struct partition *p,
                      int owner)
{
    bool shown = true;
    size_t count;
    const size_t *mentions = limit_mentions(l, &count);
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE && shown; hash++) {
        shown = p->hashes[hash] != owner || limit_accepts(c, l, hash);
    }
    for (size_t i = 0; i < p->count && shown; i++) {
        shown = p->names[i].owner != owner ||
                limit_accepts(c, l, limit_classes_of(c, p->names[i].name));
    }
    for (size_t i = 0; i < count && shown; i++) {
        shown = partition_owner(p, limit_classes_name(c, mentions[i])) != owner ||
                limit_accepts(c, l, mentions[i]);
    }
    return shown;
}

bool partition_is_shown(const struct partition *p, int owner, const struct rules *rules,
                        const struct partition_resource *r)
{
    struct limit_classes *c = limit_classes_new();
    struct limit *l = limit_classes_find(c, rules, r->group, r->resource);
    bool shown = shows_all(c, l, p, owner);
    limit_classes_free(c);
    return shown;
}
