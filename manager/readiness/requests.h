/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.h - what an operator asked for, as the localproxies of its pods count it
 * (localproxy/metrics/resource_requests.h).
 */
#ifndef MANAGER_READINESS_REQUESTS_H
#define MANAGER_READINESS_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "kube/client/resource_table.h"

struct resource_verbs {
    char *group;
    char *plural;
    unsigned verbs; /* of enum discovery_verb */
};

/* All zero: none. */
struct requests_seen {
    struct resource_verbs *items;
    size_t count;
    uint64_t total; /* requests, */
    size_t pods;    /* of so many */
};

/* Adds what the metrics of one localproxy say. */
void requests_seen_add(struct requests_seen *s, struct slice metrics);
/* What was done with a resource, in any version. */
unsigned requests_seen_verbs(const struct requests_seen *s, const struct discovery_resource *r);
void requests_seen_deinit(struct requests_seen *s);

#endif
