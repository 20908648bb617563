/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_recover.h - the annotation of a CircuitBreaker that closes breakers.
 */
#ifndef MANAGER_POLICY_POLICY_RECOVER_H
#define MANAGER_POLICY_POLICY_RECOVER_H

#include "policy/policy.h"

/* The tokens of these limitings, by their names; the caller deletes them. NULL: it has no such
 * annotation, or one that is too long. */
MUST_CHECK cJSON *policy_read_recover(const cJSON *object, const struct schema_list *limitings,
                                      struct policy_findings *out);

#endif
