/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_configmap.h - rules and traffic policies from a ConfigMap, by list and watch at the API
 * server.
 */
#ifndef RULESYNC_SOURCE_CONFIGMAP_H
#define RULESYNC_SOURCE_CONFIGMAP_H

#include "kube/client/client.h"
#include "net/loop.h"
#include "source.h"

struct source_configmap;

/* `name` is NAMESPACE/NAME; the client must outlive the source. Asks first when the loop runs. NULL
 * with `e` set. */
MUST_CHECK struct source_configmap *
source_configmap_new(struct net_loop *l, struct kube_client *client, const char *name,
                     const struct source_handlers *h, void *data, struct err *e);
/* Its traffic policies go there. Before the loop runs. */
void source_configmap_take_traffic(struct source_configmap *s, const struct source_taker *taker);
/* Asks again when the loop runs. */
void source_configmap_look(struct source_configmap *s);
/* NULL is ignored. */
void source_configmap_free(struct source_configmap *s);

#endif
