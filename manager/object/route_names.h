/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_names.h - what ports are called by which reviews for an operator's own webhooks reach the
 * pods of one shard: those of its containers, and of the Service that leads to them.
 */
#ifndef MANAGER_OBJECT_ROUTE_NAMES_H
#define MANAGER_OBJECT_ROUTE_NAMES_H

#include <stdbool.h>

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
