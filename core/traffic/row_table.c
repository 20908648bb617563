/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/row_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ensure.h"
#include "base/grow.h"

/* Longer than any resource with its subresource that a document can name. */
#define RESOURCE_MAX 512

/* ---- building ---- */

uint16_t row_table_add(struct row_table *t, size_t rule)
{
    ensure(t->count < TRAFFIC_ROWS_MAX);
    t->rule[t->count] = (uint16_t)rule;
    return (uint16_t)t->count++;
}

int row_table_name(struct row_table *t, uint16_t row, enum row_dimension d, const char *value)
{
    struct row_names *n = &t->names[d];
    if (strcmp(value, "*") == 0) {
        n->any[row / 64] |= UINT64_C(1) << row % 64;
        return 0;
    }
    struct row_name *all = grow_array(n->all, n->count, &n->room, sizeof *all);
    if (all == NULL) {
        return -ENOMEM;
    }
    n->all = all;
    n->all[n->count++] = (struct row_name){.value = value, .row = row};
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct row_name *)a)->value, ((const struct row_name *)b)->value);
}

static int build_names(struct row_names *n, size_t words)
{
    if (n->count == 0) {
        return 0;
    }
    qsort(n->all, n->count, sizeof *n->all, compare_names);
    n->values = calloc(n->count, sizeof *n->values);
    n->sets = calloc(n->count * words, sizeof *n->sets);
    if (n->values == NULL || n->sets == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n->count; i++) {
        const struct row_name *name = &n->all[i];
        if (n->value_count == 0 || strcmp(n->values[n->value_count - 1], name->value) != 0) {
            n->values[n->value_count++] = name->value;
        }
        n->sets[(n->value_count - 1) * words + name->row / 64] |= UINT64_C(1) << name->row % 64;
    }
    free(n->all);
    n->all = NULL;
    return 0;
}

int row_table_build(struct row_table *t)
{
    t->words = (t->count + 63) / 64;
    for (size_t d = 0; d < ROW_DIMENSIONS; d++) {
        int rc = build_names(&t->names[d], t->words);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

void row_table_deinit(struct row_table *t)
{
    for (size_t d = 0; d < ROW_DIMENSIONS; d++) {
        free(t->names[d].all);
        free(t->names[d].values);
        free(t->names[d].sets);
    }
}

/* ---- looking up ---- */

static int compare_value(struct slice value, const char *name)
{
    int order = value.len == 0 ? 0 : strncmp(value.ptr, name, value.len);
    return order != 0 || name[value.len] == '\0' ? order : -1;
}

/* The rows that name it; NULL: none does. */
static const uint64_t *find(const struct row_table *t, enum row_dimension d, struct slice value)
{
    const struct row_names *n = &t->names[d];
    size_t low = 0;
    size_t high = n->value_count;
    if (value.len > 0 && memchr(value.ptr, '\0', value.len) != NULL) {
        return NULL;
    }
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_value(value, n->values[middle]);
        if (order == 0) {
            return &n->sets[middle * t->words];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* By "resource/subresource". */
static const uint64_t *find_subresource(const struct row_table *t, struct slice resource,
                                        struct slice subresource)
{
    char name[RESOURCE_MAX];
    size_t len = resource.len + 1 + subresource.len;
    if (subresource.len == 0 || len > sizeof name) {
        return NULL;
    }
    memcpy(name, resource.ptr, resource.len);
    name[resource.len] = '/';
    memcpy(name + resource.len + 1, subresource.ptr, subresource.len);
    return find(t, ROW_RESOURCE, slice_of(name, len));
}

/* The rows that may match, by how each names what was asked; NULL: none. */
struct candidates {
    const uint64_t *named[ROW_DIMENSIONS]; /* but for the resource: */
    const uint64_t *resource[3];           /* "pods/eviction", "x/eviction" with x any, "pods" */
    uint64_t verbs[TRAFFIC_SET_WORDS];     /* those of two verbs together */
};

/* Those that name the one verb or the other. */
static const uint64_t *find_verbs(const struct row_table *t, const struct traffic_request *r,
                                  uint64_t both[TRAFFIC_SET_WORDS])
{
    const uint64_t *one = find(t, ROW_VERB, r->verb);
    const uint64_t *other = r->or_verb.len == 0 ? NULL : find(t, ROW_VERB, r->or_verb);
    if (one == NULL || other == NULL) {
        return one != NULL ? one : other;
    }
    for (size_t w = 0; w < t->words; w++) {
        both[w] = one[w] | other[w];
    }
    return both;
}

static void find_candidates(const struct row_table *t, const struct traffic_request *r,
                            struct candidates *out)
{
    out->named[ROW_NAMESPACE] = find(t, ROW_NAMESPACE, r->namespace);
    out->named[ROW_GROUP] = find(t, ROW_GROUP, r->group);
    out->named[ROW_RESOURCE] = NULL;
    out->named[ROW_VERB] = find_verbs(t, r, out->verbs);
    out->resource[0] = find_subresource(t, r->resource, r->subresource);
    out->resource[1] = r->named_only ? NULL : find_subresource(t, SLICE("*"), r->subresource);
    out->resource[2] = find(t, ROW_RESOURCE, r->resource);
}

/* Those that are in all four sets and active. */
static bool intersect(const struct row_table *t, const uint64_t *active,
                      const uint64_t *const sets[ROW_DIMENSIONS], uint64_t *out)
{
    uint64_t some = 0;
    for (size_t d = 0; d < ROW_DIMENSIONS; d++) {
        if (sets[d] == NULL) {
            return false;
        }
    }
    for (size_t w = 0; w < t->words; w++) {
        out[w] = active[w] & sets[0][w] & sets[1][w] & sets[2][w] & sets[3][w];
        some |= out[w];
    }
    return some != 0;
}

/* Bit d of `wild`: by `*` in that dimension. */
static bool match_mask(const struct row_table *t, const uint64_t *active,
                       const struct candidates *c, unsigned wild, uint64_t *out)
{
    const uint64_t *sets[ROW_DIMENSIONS];
    for (size_t d = 0; d < ROW_DIMENSIONS; d++) {
        sets[d] = (wild >> d & 1) != 0 ? t->names[d].any : c->named[d];
    }
    if ((wild >> ROW_RESOURCE & 1) != 0) {
        return intersect(t, active, sets, out);
    }
    for (size_t i = 0; i < ARRAY_LEN(c->resource); i++) {
        sets[ROW_RESOURCE] = c->resource[i];
        if (intersect(t, active, sets, out)) {
            return true;
        }
    }
    return false;
}

bool row_table_most_specific(const struct row_table *t, const uint64_t *active,
                             const struct traffic_request *r, uint64_t *out)
{
    enum { N = 1 << ROW_NAMESPACE, G = 1 << ROW_GROUP, R = 1 << ROW_RESOURCE, V = 1 << ROW_VERB };
    /* What is `*`: as few as possible, and first that which stands first. */
    static const uint8_t order[] = {
        0,     N,     G,     R,         V,         N | G,     N | R,     G | R,
        N | V, G | V, R | V, N | G | R, N | G | V, N | R | V, G | R | V, N | G | R | V};
    struct candidates c;
    find_candidates(t, r, &c);
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        bool skipped = r->named_only && (order[i] & R) != 0;
        if (!skipped && match_mask(t, active, &c, order[i], out)) {
            return true;
        }
    }
    return false;
}

static uint64_t word(const uint64_t *set, size_t w)
{
    return set == NULL ? 0 : set[w];
}

bool row_table_all(const struct row_table *t, const uint64_t *active,
                   const struct traffic_request *r, uint64_t *out)
{
    struct candidates c;
    uint64_t some = 0;
    find_candidates(t, r, &c);
    for (size_t w = 0; w < t->words; w++) {
        out[w] = active[w];
        for (size_t d = 0; d < ROW_DIMENSIONS; d++) {
            uint64_t any = d == ROW_RESOURCE && r->named_only ? 0 : t->names[d].any[w];
            uint64_t named = d == ROW_RESOURCE ? word(c.resource[0], w) | word(c.resource[1], w) |
                                                     word(c.resource[2], w)
                                               : word(c.named[d], w);
            out[w] &= any | named;
        }
        some |= out[w];
    }
    return some != 0;
}

void row_table_rules(const struct row_table *t, const uint64_t *set, struct traffic_found *out)
{
    out->count = 0;
    for (size_t w = 0; w < t->words; w++) {
        for (uint64_t bits = set[w]; bits != 0; bits &= bits - 1) {
            uint16_t rule = t->rule[w * 64 + (size_t)__builtin_ctzll(bits)];
            if (out->count == 0 || out->index[out->count - 1] != rule) {
                out->index[out->count++] = rule;
            }
        }
    }
}
