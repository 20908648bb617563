/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h - takes rules from where they arrive to the last known good copy.
 *
 * The copy is replaced only by rules that are valid, of the same shard, and newer: whatever else
 * arrives, what was stored stays, byte for byte.
 */
#ifndef RULESYNC_SYNC_H
#define RULESYNC_SYNC_H

#include <stdbool.h>

#include "base/err.h"
#include "kube/rules.h"

#define SYNC_KEY "rules.json" /* of the ConfigMap, so its name in the mounted folder */

struct sync_options {
    const char *from;  /* a folder that holds SYNC_KEY, or a file */
    const char *to;    /* the last known good copy; its folder must exist */
    const char *shard; /* NAMESPACE/NAME that the rules must be for; NULL: any */
};

struct sync_outcome {
    struct rules *rules; /* what `to` holds now; the caller unrefs */
    bool unchanged;      /* it held the same before and was not written */
};

/* Reads, checks and stores once. Blocks. On error the message names the file, and `to` is as it
 * was: -EINVAL for bad rules, a checksum that does not fit, another shard, or other rules of the
 * stored generation; -ESTALE for an older generation; else what the file system said. A stored copy
 * that is damaged is replaced, with a warning in the log. */
MUST_CHECK int sync_once(const struct sync_options *o, struct sync_outcome *outcome, struct err *e);

#endif
