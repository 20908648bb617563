/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - which limitings and faults of a traffic document a request meets.
 *
 * Nothing here allocates. Of limitings the most specific resource rules decide, as KusionStack's
 * controller mesh has it: the request's namespace, group, resource and verb are looked for by name;
 * then with one of these being `*`, then two, three, four. The first that any rule has decides, and
 * rules that are less specific are not asked. `pods` is also for the subresources of pods; a rule
 * that names `pods/eviction`, or else one with any resource before `/eviction`, is more specific.
 * Of faults all that match are met.
 */
#ifndef CORE_TRAFFIC_MATCH_H
#define CORE_TRAFFIC_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "kube/selector.h"
#include "traffic/traffic.h"

/* What a request asks of the API server (kube/request_info.h). */
struct traffic_request {
    struct slice namespace; /* "": it belongs to none */
    struct slice group;
    struct slice resource;
    struct slice subresource; /* "": none */
    struct slice verb;
    struct slice or_verb; /* what it is as well; "": nothing */
    /* Only rules that name the resource are for it, none with `*`: leases, the operator's lock,
     * and what asks who somebody is. */
    bool named_only;
};

#define TRAFFIC_SET_WORDS (TRAFFIC_ROWS_MAX / 64)

/* Of resource rules: those of the policies that select this pod. */
struct traffic_active {
    uint64_t limitings[TRAFFIC_SET_WORDS];
    uint64_t faults[TRAFFIC_SET_WORDS];
    bool any_limiting; /* whether one is set */
    bool any_fault;
    /* The same of what is for other places than the API server (external.h). */
    uint64_t urls[TRAFFIC_SET_WORDS];
    uint64_t http[TRAFFIC_SET_WORDS];
    uint64_t intercepts[TRAFFIC_INTERCEPTS_MAX / 64];
    bool any_external;
};

/* Which policies are for a pod with these labels. */
void traffic_active_set(struct traffic_active *a, const struct traffic *t,
                        const struct selector_label *labels, size_t count);
/* Whether that policy is. */
bool traffic_policy_selects(const struct traffic_policy *p, const struct selector_label *labels,
                            size_t count);

/* The rules that a request meets, in the order of evaluation. */
struct traffic_found {
    uint16_t index[TRAFFIC_ROWS_MAX]; /* for traffic_limiting_at, or traffic_fault_at */
    size_t count;
};

void traffic_find_limitings(const struct traffic *t, const struct traffic_active *a,
                            const struct traffic_request *r, struct traffic_found *out);
void traffic_find_faults(const struct traffic *t, const struct traffic_active *a,
                         const struct traffic_request *r, struct traffic_found *out);

#endif
