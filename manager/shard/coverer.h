/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverer.h - of each operator with shards by namespace, which namespaces are in none of them and
 * which in two: the condition Covered.
 *
 * The shards of an operator are those ShardingConfigs of one namespace that have the same
 * leaderElectionName, or none.
 */
#ifndef MANAGER_SHARD_COVERER_H
#define MANAGER_SHARD_COVERER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "rules/rules.h"
#include "shard/cover_look.h"

struct controller;
struct coverer;

/* Follows the namespaces. NULL with `e` set: -ENOMEM. */
MUST_CHECK struct coverer *coverer_new(struct controller *c, struct err *e);

/* A shard got these rules, or has them no more: its operator is looked at again, and then those of
 * its shards for which something else was found, or that asked meanwhile. NULL is ignored, twice.
 */
void coverer_note(struct coverer *v, const struct rules *rules);

/* What was found last; NULL: nothing yet, or `rules` is. */
const struct covered *coverer_find(const struct coverer *v, const struct rules *rules);

/* The condition's status, and its reason. */
const char *coverer_status(const struct covered *c);
const char *coverer_reason(const struct covered *c);

/* Metrics of the operators, as far as COVERER_SERIES_MAX. 0, -ENOBUFS or -ENOMEM. */
#define COVERER_SERIES_MAX 200
MUST_CHECK int coverer_metrics(const struct coverer *v, struct buf *out);

/* NULL is ignored. */
void coverer_free(struct coverer *v);

#endif
