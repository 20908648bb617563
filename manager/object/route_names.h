/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_names.h - what ports are called by which reviews for an operator's own webhooks reach the
 * pods of one shard: those of its containers, and of the Service that leads to them. And what the
 * configurations with our entries are called, and the labels and annotations of the operator's own.
 */
#ifndef MANAGER_OBJECT_ROUTE_NAMES_H
#define MANAGER_OBJECT_ROUTE_NAMES_H

#include <stdbool.h>

/* The ValidatingWebhookConfiguration and the MutatingWebhookConfiguration that are ours, and the
 * field manager of the ports that we add to Services. */
#define ROUTE_OBJECT "cmesh-routes"
#define ROUTE_FIELD_MANAGER "cmesh-routes"

/* Names below the prefix of labels and annotations (label/labels.h), of the operator's
 * configuration. */
#define ROUTE_LABEL "route"             /* label: "true" asks for routing */
#define ROUTE_SERVICE "route-service"   /* annotation: the Service that gets our ports */
#define ROUTE_NARROWED "route-narrowed" /* annotation: what we narrowed, as it was before */

/* Of our own ValidatingWebhookConfiguration: the Services that have ports of ours, "NS/NAME", with
 * commas between them, so that whoever leads next can take them away. */
#define ROUTE_SERVICES "route-services"
/* Of both of ours: the originals of that kind that are contested, so that whoever leads next leaves
 * them alone, {name: generation at which nothing of ours was left, or 0}. */
#define ROUTE_CONTESTS "route-contested"

/* The first number that a port gets that we add to a Service. */
#define ROUTE_FIRST_PORT 20443

#define ROUTE_PORT_PREFIX "wh-"
/* A port of the Service that no container has: nobody answers there. */
#define ROUTE_HOLD_PORT "wh-hold"

enum { ROUTE_PORT_HASH_LEN = 8 };
/* Bytes with the final one. The name of a port has 15 characters at most. */
enum { ROUTE_PORT_SIZE = sizeof ROUTE_PORT_PREFIX + ROUTE_PORT_HASH_LEN };

/* Of the shard "NAMESPACE/NAME": "wh-" and the first eight hex digits of the SHA-256 of that.
 * Returns `out`. */
const char *route_port_name(const char *shard, char out[ROUTE_PORT_SIZE]);

/* Whether it is the name of some shard's port, or ROUTE_HOLD_PORT. */
bool route_port_is(const char *name);

#endif
