/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_report.h - what the condition WebhookRouted of a ShardingConfig says: whether reviews for
 * its operator's webhooks reach the shard that owns the object.
 */
#ifndef MANAGER_ROUTE_ROUTE_REPORT_H
#define MANAGER_ROUTE_ROUTE_REPORT_H

#include "object/conditions.h"
#include "route/route_verdict.h"

#define ROUTE_CONDITION "WebhookRouted"

enum route_state {
    ROUTE_NOT_ASKED, /* no configuration with the label leads there: there is no such condition */
    ROUTE_UNKNOWN,   /* not yet: what was said before stays */
    ROUTE_KNOWN,
};

struct route_report {
    enum route_state state;
    struct route_verdict verdict; /* if ROUTE_KNOWN; its text is never "" */
};

/* Adds the condition. `r` NULL: as ROUTE_NOT_ASKED. */
void route_report_add(const struct conditions *c, const struct route_report *r);

/* The reason of the Event for a change of the condition. NULL: no Event, since the condition has
 * not changed, or will by itself. Either argument may be NULL: there is no such condition. */
const char *route_report_event(const cJSON *before, const cJSON *now);

#endif
