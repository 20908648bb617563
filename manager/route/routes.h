/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes.h - leads reviews for operators' own webhooks to the shard that owns the object: keeps the
 * ports of their Services, the entries in our own webhook configurations, and the selectors that
 * narrow the originals, as they are to be.
 *
 * Only the leader has one: it begins with routes_new and ends with routes_free. Its state is at the
 * API server, where the entries say who is asked about which namespace. A new leader reads it
 * there.
 *
 *     originals, Services, entries, shards, pods ----> look -> decide (routes_world.c)
 *          -> ports of a Service, by server-side apply
 *          -> entries of a kind, one merge patch of the routes object
 *          -> selectors of an original, one merge patch       each over the version that was seen
 *
 * Whatever happens, all is looked at anew, soon and all together: no step remembers the one before.
 */
#ifndef MANAGER_ROUTE_ROUTES_H
#define MANAGER_ROUTE_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "cache/namespaces.h"
#include "cache/shard_cache.h"
#include "compile/compile.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "label/labels.h"
#include "net/clock.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "route/originals.h"
#include "route/route_report.h"
#include "runtime/reconciler.h"

struct routes;

/* What was written. */
enum routes_write {
    ROUTES_ENTRIES,
    ROUTES_PORTS,    /* of a Service */
    ROUTES_ORIGINAL, /* selectors */
    ROUTES_WRITES,
};

/* Counts go on from one leadership to the next: they belong to whoever makes routes. All zero at
 * first. */
struct routes_counts {
    uint64_t moves; /* of namespaces by name, or of all of one hash, to another owner */
    uint64_t writes[ROUTES_WRITES][RECONCILE_RESULTS];
};

struct routes_options {
    struct kube_client *client; /* these four must outlive it */
    struct shard_cache *cache;
    struct originals *originals; /* which listens to nobody else */
    struct routes_counts *counts;
    struct namespaces *namespaces;  /* as controller_options; NULL: not known */
    const struct labels_keys *keys; /* must outlive it */
    const char *namespace;          /* the manager's own; kept, not copied; NULL: none */
    struct compile_labels labels;   /* texts are kept, not copied; prefix is not NULL */
    /* Whether this process leads at this very moment: asked right before each write. */
    bool (*may_write)(void *data);
    /* As controller_in_force. */
    bool (*in_force)(void *data, const struct shard_cache_config *config, struct rules **published);
    /* What routes_report says of a shard is other than before; `key` NULL: perhaps of all. NULL:
     * nobody asks. */
    void (*on_report)(void *data, const char *key);
    void *data;
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
    const struct net_clock *clock;   /* kept, not copied; NULL: the system's */
};

/* Never NULL. */
MUST_CHECK struct routes *routes_new(struct net_loop *l, const struct routes_options *o);

/* What in_force says of this shard may be other than before. */
void routes_look(struct routes *r, const char *key);

/* What the condition WebhookRouted of a shard is to say; valid until the loop runs on. */
const struct route_report *routes_report(struct routes *r, const char *key);

/* Whether the shard may publish these rules: not while it is asked about what they do not show,
 * and is to hold such reviews (spec.webhook.duringHandover). They are held from now on, and it is
 * to ask again. */
bool routes_release(struct routes *r, const char *key, struct rules *to);

/* Adds who is asked about what. `r` NULL: nothing. */
void routes_status(struct routes *r, cJSON *root);
/* Appends metrics, cmesh_manager_route_..., without those of its queue. `r` NULL: this process does
 * not lead. Errors stay in `out`. */
void routes_metrics(const struct routes *r, const struct routes_counts *n, struct buf *out);
const struct work_queue *routes_queue(const struct routes *r);

/* At once: requests are broken off; what was sent may be done all the same. NULL is ignored. */
void routes_free(struct routes *r);

#endif
