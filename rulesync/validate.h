/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - decides whether a document may take the place of the one that is in use.
 *
 * Only rules that are valid, of the same shard, and newer may: whatever else comes is refused.
 * Traffic policies have no order: these need be valid and of the shard.
 */
#ifndef RULESYNC_VALIDATE_H
#define RULESYNC_VALIDATE_H

#include "base/err.h"
#include "base/slice.h"
#include "rules/rules.h"
#include "shard_document.h"
#include "traffic/traffic.h"

enum refusal {
    REFUSAL_NONE,
    REFUSAL_INVALID,  /* cannot be read, over a bound, or its checksum does not fit */
    REFUSAL_SHARD,    /* of another shard */
    REFUSAL_OLDER,    /* an older generation */
    REFUSAL_CONFLICT, /* other rules of the same generation */
    REFUSAL_MEMORY,   /* no memory to read it: says nothing of the document */
    REFUSALS,
};

/* "invalid", "shard", ...: for metrics and status. */
const char *refusal_text(enum refusal r);

/* What a document said of itself, as far as it could be read. */
struct offer {
    struct rules *rules; /* NULL when refused as invalid; else the caller unrefs, refused or not */
    enum refusal refusal;
};

/* `place` is where the text is from, for the message: "/etc/cmesh/rules.json". `shard` is
 * NAMESPACE/NAME or NULL (any); `current` the rules in use or NULL. 0, or -EINVAL, -E2BIG, -ESTALE
 * or -ENOMEM with `e` set. The same rules as the current ones are accepted. */
MUST_CHECK int validate_rules(struct slice text, const char *place, const char *shard,
                              const struct rules *current, struct offer *out, struct err *e);

/* The same of traffic policies; *refusal says why not. *out is none when they are refused as
 * invalid; else the caller unrefs, refused or not. */
MUST_CHECK int validate_traffic(struct slice text, const char *place, const char *shard,
                                struct shard_document *out, enum refusal *refusal, struct err *e);

/* Whether the document is of `shard` (as above). -EINVAL with `e` set when not. */
MUST_CHECK int validate_shard(const struct shard_document *d, const char *shard, const char *place,
                              struct err *e);

#endif
