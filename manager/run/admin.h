/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - what the running manager tells on its admin server.
 */
#ifndef MANAGER_RUN_ADMIN_H
#define MANAGER_RUN_ADMIN_H

#include "admin/admin_server.h"
#include "cache/shard_cache.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "kube/client/event_recorder.h"
#include "run/crd_watch.h"
#include "run/leader.h"
#include "run/server_version.h"
#include "webhook/serving.h"

/* All outlive the server. */
struct manager_admin {
    struct kube_client *client;
    const struct health *health;
    const struct discovery *discovery;
    const struct crd_watch *definitions;
    const struct shard_cache *cache;
    const struct event_recorder *events;
    const struct server_version *version;
    const bool *native;  /* whether injected sidecars are native ones, now */
    bool version_needed; /* to tell that: by --native-sidecars=auto */
    const struct leader *leader;
    const struct webhook_serving *webhook; /* NULL: there is none */
};

/* With a struct manager_admin as data. */
extern const struct admin_server_ops manager_admin_ops;

#endif
