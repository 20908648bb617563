/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_verdict.h - whether reviews are routed, or the reason why not: what the condition
 * WebhookRouted says.
 */
#ifndef MANAGER_ROUTE_ROUTE_VERDICT_H
#define MANAGER_ROUTE_ROUTE_VERDICT_H

enum route_reason {
    ROUTE_ROUTED,
    ROUTE_NOTHING,          /* no rule is about namespaced objects: nothing is to be said of it */
    ROUTE_NOT_BY_NAMESPACE, /* shards are not told apart by namespaces */
    ROUTE_SEEN_BY_ALL,      /* no limit names the resource in some shard */
    ROUTE_MIXED,            /* resources that shards limit in different ways */
    ROUTE_BY_URL,           /* clientConfig.url */
    ROUTE_TOO_MANY,         /* names, entries, bytes or ports */
    ROUTE_PORT_UNNAMED,     /* the Service's only port has no name */
    ROUTE_NO_PORT,          /* the shard has no spec.webhook.port */
    ROUTE_OTHER_PORT,       /* the Service leads to another port than spec.webhook.port */
    ROUTE_SAME_PORT,        /* two shards whose ports have the same name */
    ROUTE_NOT_ALLOWED,      /* RBAC or a policy refuses a write */
    ROUTE_NOT_INSTALLED,    /* there is no cmesh-routes */
    ROUTE_NO_SERVICE,       /* the Service does not exist */
    ROUTE_NO_PODS,          /* no pod has been ready yet */
    ROUTE_OLD_PODS,         /* pods of an earlier injection, without the port */
    ROUTE_REFUSED,          /* the API server does not take the entries */
    ROUTE_NOT_NARROWED,     /* the original is asked, too, for nobody may narrow it or does */
    ROUTE_UNLABELLED,       /* nobody asks for it any more, but its owner has it narrow */
    ROUTE_SETTLING,         /* on its way */
    ROUTE_CONTESTED,        /* somebody undoes what we write */
    ROUTE_REASONS,
};

/* As the condition has it: "Routed", "SeenByAll" and so on. */
const char *route_reason_text(enum route_reason reason);

#define ROUTE_VERDICT_SIZE 1024

struct route_verdict {
    enum route_reason reason;
    char text[ROUTE_VERDICT_SIZE]; /* for people, without a full stop; "" for ROUTE_ROUTED */
};

void route_verdict_set(struct route_verdict *v, enum route_reason reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
