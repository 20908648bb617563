/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - decides whether a document may take the place of the rules that are in use.
 *
 * Only rules that are valid, of the same shard, and newer may: whatever else comes is refused.
 */
#ifndef RULESYNC_VALIDATE_H
#define RULESYNC_VALIDATE_H

#include "base/err.h"
#include "base/slice.h"
#include "rules/rules.h"

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

/* Whether these are rules of `shard` (as above). -EINVAL with `e` set when not. */
MUST_CHECK int validate_shard(const struct rules *r, const char *shard, const char *place,
                              struct err *e);

#endif
