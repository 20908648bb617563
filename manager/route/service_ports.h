/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_ports.h - which ports a Service is to have so that reviews reach the pods of each shard:
 * from the Service as it is to the object that is applied. No clock, no cluster.
 *
 * A port of ours leads to the pods that have a container port of its name (object/route_names.h).
 * Its number is kept once given: by the Service, or by entries when the Service was made anew.
 *
 * Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
#ifndef MANAGER_ROUTE_SERVICE_PORTS_H
#define MANAGER_ROUTE_SERVICE_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/selector.h"
#include "object/route_names.h"

#define SERVICE_PORTS_MAX 64 /* of one Service, those of others included */

struct service_port {
    char name[ROUTE_PORT_SIZE];
    uint16_t number; /* that entries lead to; 0: none do */
};

enum service_ports_fault {
    SERVICE_PORTS_FINE,
    SERVICE_PORTS_UNNAMED,  /* its only port has no name, so it cannot have a second one */
    SERVICE_PORTS_TOO_MANY, /* there would be more than SERVICE_PORTS_MAX */
};

struct service_ports {
    enum service_ports_fault fault;
    bool right;   /* the Service has these ports, and none of ours beside them */
    cJSON *apply; /* else: what makes it so; the caller frees. NULL: nothing is to be done, or there
                     is a fault */
};

/* `ports`: which ones it is to have, each name once. Their numbers are set to those that they have
 * or get; they are usable only if there is no fault. */
void service_ports_plan(const cJSON *service, struct service_port *ports, size_t count,
                        struct service_ports *out);

/* Whether the Service has the port, as it is to be: then reviews may be sent there. */
bool service_ports_has(const cJSON *service, const struct service_port *port);

/* Where a port of a Service leads to. */
enum service_ports_target {
    SERVICE_PORTS_ABSENT, /* there is no port of that number */
    SERVICE_PORTS_OTHER,  /* to another number than that */
    SERVICE_PORTS_THERE,  /* to that number; or to a name, of which nothing can be told */
};
enum service_ports_target service_ports_target(const cJSON *service, double number,
                                               double container_port);
/* The name of that port, "" if it has none; NULL: there is none of that number. */
const char *service_ports_name(const cJSON *service, double number);

/* Which pods the Service selects; the caller frees. NULL: none, for others write its Endpoints, or
 * it is another name of something else; or its labels are not valid. */
MUST_CHECK struct selector *service_ports_selector(const cJSON *service);

#endif
