/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage.h - in which shards of one operator a namespace is: in one, in none, or in several.
 *
 * A shard has a namespace if one of its limits by control labels accepts the labels that objects of
 * that namespace get. Two shards that have it overlap if an object in it can match both, whatever
 * its other labels: those by which two limits exclude each other are taken into account.
 */
#ifndef MANAGER_COMPILE_COVERAGE_H
#define MANAGER_COMPILE_COVERAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "compile/sharing.h"
#include "rules/rules.h"

struct coverage;

enum coverage_verdict {
    COVERAGE_ONE,
    COVERAGE_GAP,
    COVERAGE_OVERLAP,
    COVERAGE_UNKNOWN, /* the bounds were reached before it was known */
};

/* A look may take shards x shards x limits steps: requirements and values to compare, mostly in
 * some 50 ns each. */
struct coverage_bounds {
    size_t steps;            /* for all looks together */
    const atomic_bool *stop; /* set by another thread: nobody asks any more; NULL: that does not
                                happen */
};

/* Of the shards with these rules, which must outlive it and whose reference counts it leaves alone.
 * `bounds` NULL: there are none; copied. */
struct coverage *coverage_new(const struct rules *const *shards, size_t count,
                              const struct coverage_bounds *bounds);

/* Namespaces that the shards share on purpose, and which so are covered by several as by one. Must
 * outlive it. */
void coverage_set_shared(struct coverage *c, const struct sharing_set *shared);

/* Whether all of them have limits by control labels. If not, namespaces tell nothing. */
bool coverage_by_namespace(const struct coverage *c);

/* Also two shards by their places, a before b, that overlap. Once it is COVERAGE_UNKNOWN, it stays
 * so. */
enum coverage_verdict coverage_look(struct coverage *c, const char *ns, size_t *a, size_t *b);

/* Whether the shard at that place has the namespace that was looked at last. */
bool coverage_has(const struct coverage *c, size_t shard);

/* NULL is ignored. */
void coverage_free(struct coverage *c);

#endif
