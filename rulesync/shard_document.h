/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_document.h - what is carried to localproxy: the rules of a shard, or its traffic policies.
 *
 * A small value that holds a reference to either, or to none. What the two have in common is asked
 * here; all that differs is asked of the rules or the traffic policies themselves.
 */
#ifndef RULESYNC_SHARD_DOCUMENT_H
#define RULESYNC_SHARD_DOCUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "control/state.h"
#include "rules/rules.h"
#include "traffic/traffic.h"

struct shard_document {
    enum control_document kind;
    struct rules *rules;     /* of CONTROL_RULES; NULL: none */
    struct traffic *traffic; /* of CONTROL_TRAFFIC; NULL: none */
};

/* These take over the caller's reference; NULL: none. */
struct shard_document shard_document_rules(struct rules *r);
struct shard_document shard_document_traffic(struct traffic *t);

/* Parses and validates. 0, or with `e` set -EINVAL, -E2BIG or -ENOMEM; then *out is none. */
MUST_CHECK int shard_document_parse(enum control_document kind, struct slice text,
                                    struct shard_document *out, struct err *e);

struct shard_document shard_document_ref(const struct shard_document *d);
/* *d is none then. */
void shard_document_unref(struct shard_document *d);

bool shard_document_is_none(const struct shard_document *d);

/* Of a document that is not none: */

uint64_t shard_document_generation(const struct shard_document *d);
const char *shard_document_checksum(const struct shard_document *d);
const char *shard_document_namespace(const struct shard_document *d);
const char *shard_document_shard(const struct shard_document *d);
/* How many limits, or policies, it has. */
size_t shard_document_size(const struct shard_document *d);
/* Whether it is of `shard`, NAMESPACE/NAME. */
bool shard_document_is_of(const struct shard_document *d, const char *shard);
/* Appends the canonical form. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int shard_document_to_json(const struct shard_document *d, struct buf *out);

/* Of the same kind: of one shard, with one generation and checksum; or both none. */
bool shard_document_same(const struct shard_document *a, const struct shard_document *b);

#endif
