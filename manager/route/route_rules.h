/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_rules.h - which rules of a webhook can be routed, and what the entries have of them.
 *
 * A rule is routed as a whole or not at all, and not if it can match a request that a rule which is
 * not routed matches, too. Of each only the part for namespaced objects is routed: what is
 * cluster-scoped stays with the original. Only Namespaces with control labels do not, since their
 * own labels count for the namespaceSelector: the entry for other rules has them.
 */
#ifndef MANAGER_ROUTE_ROUTE_RULES_H
#define MANAGER_ROUTE_ROUTE_RULES_H

#include <cjson/cJSON.h>

#include "route/partitioner.h"
#include "route/route_verdict.h"

struct route_rules {
    struct route_verdict verdict; /* ROUTE_ROUTED: some rules can be; else why none can */
    struct route_verdict left;    /* of the first rule that cannot; ROUTE_ROUTED: there is none */
    struct partition_resource resource; /* if ROUTE_ROUTED: whose limits the partition follows;
                                           part of the webhook's text */
    cJSON *routed;                      /* rules of the shards' entries; NULL: none */
    cJSON *others;                      /* rules of the entry for the others; NULL: none */
};

/* The webhook and the partitioner must outlive it. */
void route_rules_init(struct route_rules *r, struct partitioner *p, const cJSON *webhook);
/* Nothing is routed, for that reason, so that all are others. */
void route_rules_give_up(struct route_rules *r, const cJSON *webhook,
                         const struct route_verdict *why);
void route_rules_deinit(struct route_rules *r);

#endif
