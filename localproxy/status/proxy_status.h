/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy_status.h - what the manager wants to know of a localproxy, for whatever way it is told:
 * GET /status (admin.c), the Lease (status_lease.h).
 */
#ifndef LOCALPROXY_STATUS_PROXY_STATUS_H
#define LOCALPROXY_STATUS_PROXY_STATUS_H

#include "bypass/bypass_watch.h"
#include "control/status.h"
#include "request/proxy.h"

/* The rules in force, and whether earlier ones still matter. */
void proxy_status_rules(const struct proxy *p, struct control_proxy_status *out);
/* For how long they are valid; no seconds: as long as they are in force. */
void proxy_status_lease(const struct proxy *p, struct control_rules_lease *out);
/* Whether the operator comes this way, and another one. `bypass` NULL: that is not watched; the
 * question begins a look (bypass_watch.h). */
void proxy_status_use(const struct proxy *p, struct bypass_watch *bypass,
                      struct control_proxy_use *out);
/* Adds to the root what it has done for clients, if it counts that. */
void proxy_status_load(const struct proxy *p, cJSON *root);

#endif
