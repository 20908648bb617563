/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leader.h - the part of the manager that writes, which of several managers one alone does: the
 * controllers of shards, of roots and of routes, the rollers and the labeller, made when this
 * process comes to lead and freed when it does not any more.
 */
#ifndef MANAGER_RUN_LEADER_H
#define MANAGER_RUN_LEADER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "cache/excluded_namespaces.h"
#include "cache/shard_cache.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "kube/client/event_recorder.h"
#include "label/labels.h"
#include "label/sharding_resources.h"
#include "net/loop.h"
#include "route/originals.h"
#include "run/flags.h"

struct leader;

/* All must outlive the leader. */
struct leader_options {
    const struct manager_flags *settings;
    struct kube_client *client;
    const char *namespace; /* the manager's own */
    const char *identity;
    struct namespaces *namespaces; /* the cache's */
    struct shard_cache *cache;
    struct discovery *discovery;
    struct event_recorder *events;
    const struct sharding_resources *resources;
    const struct labels_keys *keys;
    struct originals *originals;
    const struct excluded_namespaces *left_out; /* by the webhook for pods */
    uint64_t minute_ms;                         /* as roots_options */
    /* This process has come to lead. From the loop. */
    void (*on_lead)(void *data);
    void *data;
};

/* Stands for election, or leads with the loop's next turn if there is none. NULL with `e` set. */
MUST_CHECK struct leader *leader_new(struct net_loop *l, const struct leader_options *o,
                                     struct err *e);

/* Whether this process may write at this very moment. `data` is the leader. */
bool leader_may_write(void *data);
/* Whether somebody leads, or led until a moment ago, or the API server cannot be asked. false: it
 * refuses the Lease for longer than four times --lease-duration, and `why` says how. */
bool leader_ready(const struct leader *l, char *why, size_t size);
/* To be called in discovery's on_change, and in its on_complete. */
void leader_discovered(struct leader *l);
void leader_discovery_complete(struct leader *l);
/* Another namespace is left out, or one less. */
void leader_left_out(struct leader *l);

/* For the admin pages; errors stay in `out`. */
void leader_metrics(const struct leader *l, struct buf *out);
void leader_status(const struct leader *l, cJSON *root);

/* Writes nothing any more, and gives the Lease back; `cb` when that is done, perhaps before this
 * returns. */
void leader_resign(struct leader *l, void (*cb)(void *data), void *data);
/* At once. NULL is ignored. */
void leader_free(struct leader *l);

#endif
