/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_service.h - a Service that webhooks lead to, followed by its name, and which of its ports
 * have pods behind them.
 */
#ifndef MANAGER_ROUTE_ROUTE_SERVICE_H
#define MANAGER_ROUTE_ROUTE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/table.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"
#include "kube/selector.h"
#include "net/clock.h"
#include "net/loop.h"
#include "object/route_names.h"

/* It is believed to be there for so long after it is gone, for it may be made anew: ms. */
#define ROUTE_SERVICE_GRACE_MS 1000

struct route_service {
    struct table_node node; /* "namespace/name" */
    char *ns;
    const char *name;
    struct informer *informer;
    /* As it is, and as it was for a while after it is gone; NULL: it is not there, or not known. */
    cJSON *object;
    struct selector *selector; /* of pods; NULL: none */
    uint64_t gone_at;          /* since when it is not there; 0: it is, or is not known */

    struct informer *slices; /* NULL: nobody waits for pods */
    unsigned api;            /* by which they are followed */
    bool api_absent;         /* the API server has none */

    struct net_loop *loop;
    struct kube_client *client;
    const struct reflector_ops *ops;
    const struct net_clock *clock;
    void (*on_change)(void *data);
    void *data;
    /* The user's: */
    bool used;
    uint64_t specs;       /* digest of those of the shards there */
    uint64_t restless_at; /* when that has changed */
    char key[];
};

struct route_service_options {
    struct kube_client *client; /* must outlive it */
    const struct reflector_ops *ops;
    const struct net_clock *clock;
    void (*on_change)(void *data); /* from the loop */
    void *data;
};

/* Never NULL. */
MUST_CHECK struct route_service *route_service_new(struct net_loop *l, const char *ns,
                                                   const char *name,
                                                   const struct route_service_options *o);

enum route_service_state {
    ROUTE_SERVICE_UNKNOWN, /* it is being read */
    ROUTE_SERVICE_DENIED,  /* it may not be read, and never was */
    ROUTE_SERVICE_GONE,    /* for longer than a moment */
    ROUTE_SERVICE_THERE,
};
/* *again_ms: after so long it may have changed without a call of on_change; UINT64_MAX: never. */
enum route_service_state route_service_look(struct route_service *s, uint64_t *again_ms);
/* What keeps it from being followed, for people; NULL: nothing. */
const char *route_service_error(const struct route_service *s);

/* Follows which ports have ready pods, or ends to. Not to be called inside on_change. */
void route_service_watch_pods(struct route_service *s, bool on);
/* Whether the port of that name has, as far as is known. */
bool route_service_has_pods(const struct route_service *s, const char *port);
/* Whether some pods are reached at a port of the container by the port of that name, at which none
 * of the ports named `others` reaches them, but at another one; then these are the two. */
bool route_service_differs(const struct route_service *s, const char *port,
                           const char *const *others, size_t count, int *number, int *other_number);
/* Why that cannot be known; NULL: nothing hinders it. */
const char *route_service_pods_error(const struct route_service *s);

/* NULL is ignored. Not to be called inside on_change. */
void route_service_free(struct route_service *s);

#endif
