/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_version.h - which version the API server has: asked every two seconds until it answers,
 * and then every ten minutes, for it may be upgraded. What was answered last is believed until it
 * answers another thing.
 */
#ifndef MANAGER_RUN_SERVER_VERSION_H
#define MANAGER_RUN_SERVER_VERSION_H

#include <stdbool.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "net/clock.h"
#include "net/loop.h"

struct server_version;

/* From the loop, at first and whenever it has changed: "1" and "29+". Valid during the call. */
typedef void (*server_version_cb)(void *data, const char *major, const char *minor);

/* Begins with the loop's next turn. `clock` NULL: the system's. */
MUST_CHECK struct server_version *server_version_new(struct net_loop *l, struct kube_client *c,
                                                     const struct net_clock *clock,
                                                     server_version_cb cb, void *data);

bool server_version_known(const struct server_version *v);
/* As in the callback; "": not known yet. */
const char *server_version_major(const struct server_version *v);
const char *server_version_minor(const struct server_version *v);
/* Why the last request failed; NULL: it did not. Valid until the loop runs on. */
const char *server_version_error(const struct server_version *v);

/* NULL is ignored. */
void server_version_free(struct server_version *v);

#endif
