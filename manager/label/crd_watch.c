/* SPDX-License-Identifier: Apache-2.0 */
#include "label/crd_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "kube/client/reflector.h"
#include "net/timer.h"

/* A definition is seen here a little before the API server serves what it defines. */
enum { SERVED_MS = 8000 };

struct crd_watch {
    struct discovery *discovery;
    const struct net_clock *clock;
    struct reflector *reflector;
    struct net_timer *timer;
};

static void on_timer(void *data)
{
    struct crd_watch *d = data;
    discovery_refresh(d->discovery);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct crd_watch *d = data;
    (void)object;
    /* What is there at start discovery has asked for already. */
    if (change != REFLECTOR_LISTED || reflector_stats(d->reflector)->synced) {
        discovery_refresh(d->discovery);
        net_clock_set_timer(d->clock, d->timer, SERVED_MS);
    }
}

static void on_state(void *data, const char *error)
{
    (void)data;
    if (error != NULL) {
        log_warn("cannot watch CustomResourceDefinitions; new resources will be discovered late",
                 log_str("error", error));
    }
}

static const struct reflector_handlers handlers = {.on_object = on_object, .on_state = on_state};

struct crd_watch *crd_watch_new(struct net_loop *l, struct kube_client *c,
                                struct discovery *discovery, const struct net_clock *clock,
                                struct err *e)
{
    const struct reflector_options o = {
        .client = c,
        .path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        .metadata_only = true,
    };
    struct crd_watch *d = calloc(1, sizeof *d);
    if (d == NULL) {
        err_memory(e);
        return NULL;
    }
    d->discovery = discovery;
    d->clock = clock;
    d->timer = net_timer_new(l, on_timer, d);
    d->reflector = reflector_new(l, &o, &handlers, d, e);
    if (d->timer == NULL || d->reflector == NULL) {
        crd_watch_free(d);
        err_memory(e);
        return NULL;
    }
    return d;
}

void crd_watch_free(struct crd_watch *d)
{
    if (d != NULL) {
        reflector_free(d->reflector);
        net_timer_free(d->timer);
        free(d);
    }
}
