/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_advice.h - what is valid in a policy, but may not be what its author means: warnings, and
 * how many of its rules do something.
 */
#ifndef MANAGER_POLICY_POLICY_ADVICE_H
#define MANAGER_POLICY_POLICY_ADVICE_H

#include "traffic/policy.h"

struct policy_tally {
    size_t rules;    /* that do something; */
    size_t external; /* of them those with an external part, */
    size_t blind;    /* and of these those that do not hold in tunnels */
};

/* Of a spec that was read, right or wrong, at that path. */
void policy_advise(struct schema_reader *r, enum traffic_kind kind, const struct schema_path *at,
                   const struct traffic_spec *spec, struct policy_tally *out);

#endif
