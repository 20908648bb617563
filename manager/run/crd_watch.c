/* SPDX-License-Identifier: Apache-2.0 */
#include "run/crd_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"
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
    struct crd_watch *w = data;
    discovery_refresh(w->discovery);
}

static void ask_again(struct crd_watch *w)
{
    discovery_refresh(w->discovery);
    net_clock_set_timer(w->clock, w->timer, SERVED_MS);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    (void)object;
    if (change != REFLECTOR_LISTED) { /* on_synced comes once for all of these */
        ask_again(data);
    }
}

static void on_synced(void *data)
{
    ask_again(data);
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)data;
    if (error != NULL) {
        log_at(level,
               "cannot watch CustomResourceDefinitions; new resources will be discovered late",
               log_str("error", error));
    } else {
        log_at(level, "can watch CustomResourceDefinitions again");
    }
}

static const struct reflector_handlers handlers = {
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

struct crd_watch *crd_watch_new(struct net_loop *l, struct kube_client *c,
                                struct discovery *discovery, const struct net_clock *clock)
{
    const struct reflector_options o = {
        .client = c,
        .path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        .metadata_only = true,
    };
    struct crd_watch *w = xcalloc(1, sizeof *w);
    w->discovery = discovery;
    w->clock = clock != NULL ? clock : &net_clock_system;
    w->timer = xptr(net_timer_new(l, on_timer, w));
    w->reflector = xptr(reflector_new(l, &o, &handlers, w, NULL));
    return w;
}

const char *crd_watch_error(const struct crd_watch *w)
{
    return reflector_error(w->reflector);
}

void crd_watch_free(struct crd_watch *w)
{
    if (w != NULL) {
        reflector_free(w->reflector);
        net_timer_free(w->timer);
        free(w);
    }
}
