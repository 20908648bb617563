/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_review.h - the webhook's answer to a request for a CircuitBreaker or a FaultInjection.
 *
 * A change that leaves the spec as it is, and one on the way to deletion, is always allowed: what
 * came past the webhook must not get stuck, and its labels, annotations and finalizers are how it
 * is switched off, recovered and released.
 */
#ifndef MANAGER_WEBHOOK_POLICY_REVIEW_H
#define MANAGER_WEBHOOK_POLICY_REVIEW_H

#include "base/err.h"
#include "compile/shards.h"
#include "object/admission_review.h"
#include "object/warnings.h"
#include "policy/policy.h"

/* What can be told from the request alone. 0, with the policy in *out, which the caller unrefs, or
 * NULL if nothing more is to be said; -EINVAL or -E2BIG with the message. Any thread may, not the
 * loop: it reads files. */
MUST_CHECK int policy_review(const struct admission_request *r, const struct policy_options *o,
                             struct warnings *warnings, struct policy **out, struct err *e);

/* Warns if it is for no shard of its namespace, in which case nobody enforces it. */
void policy_review_shards(const struct policy *p, const char *ns, const struct shards_list *shards,
                          struct warnings *warnings);

#endif
