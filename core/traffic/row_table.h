/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_table.h - finds the resource rules (rows) that a request meets, as sets of bits: each value
 * that a row names has the set of the rows that name it.
 *
 * Add all, build, then look up: a look-up is some binary searches and ANDs of a few words.
 */
#ifndef CORE_TRAFFIC_ROW_TABLE_H
#define CORE_TRAFFIC_ROW_TABLE_H

#include "traffic/match.h"

enum row_dimension { ROW_NAMESPACE, ROW_GROUP, ROW_RESOURCE, ROW_VERB, ROW_DIMENSIONS };

struct row_name {
    const char *value; /* the document's; "*" is any */
    uint16_t row;
};

struct row_names {
    struct row_name *all; /* while they are added; sorted by value when built */
    size_t count;
    size_t room;
    const char **values; /* built: each different one, */
    uint64_t *sets;      /* and `words` for each */
    size_t value_count;
    uint64_t any[TRAFFIC_SET_WORDS];
};

struct row_table {
    uint16_t rule[TRAFFIC_ROWS_MAX]; /* of each row; never falls */
    size_t count;
    size_t words; /* of 64 rows */
    struct row_names names[ROW_DIMENSIONS];
};

/* A new row of that rule; there are no more than TRAFFIC_ROWS_MAX. */
uint16_t row_table_add(struct row_table *t, size_t rule);
/* A value of it. 0 or -ENOMEM. */
MUST_CHECK int row_table_name(struct row_table *t, uint16_t row, enum row_dimension d,
                              const char *value);
/* 0 or -ENOMEM. */
MUST_CHECK int row_table_build(struct row_table *t);
void row_table_deinit(struct row_table *t);

/* Of the rows in `active`, the most specific that match; false: none does. */
bool row_table_most_specific(const struct row_table *t, const uint64_t *active,
                             const struct traffic_request *r, uint64_t *out);
/* All that match. */
bool row_table_all(const struct row_table *t, const uint64_t *active,
                   const struct traffic_request *r, uint64_t *out);

/* The rules of the rows in a set, each once, ascending. */
void row_table_rules(const struct row_table *t, const uint64_t *set, struct traffic_found *out);

#endif
