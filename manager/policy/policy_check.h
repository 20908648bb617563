/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_check.h - asks the parser of the proxies whether it takes what was written.
 */
#ifndef MANAGER_POLICY_POLICY_CHECK_H
#define MANAGER_POLICY_POLICY_CHECK_H

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "traffic/traffic.h"

/* Appends one entry of a document in canonical form, as the parser has it in a document of its own:
 * 0; -EINVAL or -E2BIG: it would be refused, the message says why. */
MUST_CHECK int policy_check_entry(enum traffic_kind kind, const cJSON *entry, struct buf *out,
                                  struct err *e);

/* The document of a shard with these lists of entries, which are JSON arrays without brackets; NULL
 * with the error set. */
MUST_CHECK struct traffic *policy_check_document(const char *ns, const char *shard,
                                                 uint64_t generation, struct slice breakers,
                                                 struct slice faults, struct err *e);

#endif
