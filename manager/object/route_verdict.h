/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_verdict.h - the condition WebhookRouted of a ShardingConfig: whether reviews for its
 * operator's webhooks reach the shard that owns the object, or why not.
 */
#ifndef MANAGER_OBJECT_ROUTE_VERDICT_H
#define MANAGER_OBJECT_ROUTE_VERDICT_H

#define ROUTE_CONDITION "WebhookRouted"

/* Reasons of False that others look for. */
#define ROUTE_SETTLING "Settling"   /* it ends by itself */
#define ROUTE_CONTESTED "Contested" /* somebody undoes what is written */

enum route_state {
    ROUTE_NONE,    /* nobody asks for it: there is no such condition */
    ROUTE_UNKNOWN, /* not yet: what was said before stays */
    ROUTE_YES,
    ROUTE_NO,
};

enum { ROUTE_MESSAGE_SIZE = 1024 };

struct route_verdict {
    enum route_state state;
    const char *reason; /* one word; static */
    char message[ROUTE_MESSAGE_SIZE];
};

#endif
