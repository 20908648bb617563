/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator_coverage.h - of each operator with shards by namespace, which namespaces are in none of
 * them and which in two: the condition Covered.
 *
 * The shards of an operator are those ShardingConfigs of one namespace that have the same
 * leaderElectionName, or none.
 */
#ifndef MANAGER_SHARD_OPERATOR_COVERAGE_H
#define MANAGER_SHARD_OPERATOR_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "rules/rules.h"
#include "shard/coverage_scan.h"

struct controller;
struct operator_coverage;

/* Follows the namespaces. */
MUST_CHECK struct operator_coverage *operator_coverage_new(struct controller *c);

/* A shard got these rules, or has them no more: its operator is looked at again, and then those of
 * its shards for which something else was found, or that asked meanwhile. NULL is ignored, twice.
 */
void operator_coverage_note(struct operator_coverage *v, const struct rules *rules);

/* What was found last; NULL: nothing yet, or `rules` is. */
const struct covered *operator_coverage_find(const struct operator_coverage *v,
                                             const struct rules *rules);

/* The condition's status, and its reason. */
const char *operator_coverage_status(const struct covered *c);
const char *operator_coverage_reason(const struct covered *c);

/* Metrics of the operators, as far as OPERATOR_COVERAGE_SERIES_MAX. */
#define OPERATOR_COVERAGE_SERIES_MAX 200
void operator_coverage_metrics(const struct operator_coverage *v, struct buf *out);

/* NULL is ignored. */
void operator_coverage_free(struct operator_coverage *v);

#endif
