/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes_making.h - what the makers of a world share (routes_world.c): for no one else.
 */
#ifndef MANAGER_ROUTE_ROUTES_MAKING_H
#define MANAGER_ROUTE_ROUTES_MAKING_H

#include "route/routes_internal.h"
#include "json/field.h"

/* What is being made. */
struct making {
    struct routes *r;
    struct route_world *w;
    uint64_t now;
};

#define EACH_WEBHOOK(w, h)                                                                         \
    for (struct route_config *c_ = (w)->configs; c_ < (w)->configs + (w)->config_count; c_++)      \
        for (struct route_webhook *h = c_->webhooks; h < c_->webhooks + c_->count; h++)

/* What helps where no other role of the manager allows it. */
#define MAKING_BIND                                                                                \
    "; bind the ClusterRole cmesh-manager-webhooks to the manager's service account in that "      \
    "namespace"

/* All is to be looked at again in so many ms; UINT64_MAX: not for this reason. */
static inline void making_again(struct making *m, uint64_t ms)
{
    m->w->again_ms = ms < m->w->again_ms ? ms : m->w->again_ms;
}

/* For how long something is so; *at has since when, 0: it is not. */
static inline uint64_t making_since(const struct making *m, uint64_t *at, bool is_so)
{
    *at = !is_so ? 0 : *at != 0 ? *at : m->now;
    return is_so ? m->now - *at : 0;
}

static inline const cJSON *making_entries(const struct making *m, enum originals_kind kind)
{
    return field_get(m->r->objects[kind].object, "webhooks");
}

/* ---- routes_services.c ---- */

/* Targets: the Services that webhooks lead to, and those that have ports of ours. */
void making_targets(struct making *m);
/* What the next leader is to know of them: world.services. */
void making_note_services(struct making *m);

/* ---- routes_shards.c ---- */

/* Which shards each target has, what ports it is to have, and which shards may be asked; and what
 * the entries say of each webhook. */
void making_shards(struct making *m);
/* The name of the port by which its pods are asked without routing, "" if it has none; NULL: it is
 * not known, or of a Service that has no ports of ours. */
const char *making_own_port(const struct route_webhook *h);
/* For entries.h. */
struct entries_webhook making_describe(const struct making *m, const struct route_webhook *h);

#endif
