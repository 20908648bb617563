/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_version.h - asks the API server for its version until it answers.
 */
#ifndef MANAGER_RUN_SERVER_VERSION_H
#define MANAGER_RUN_SERVER_VERSION_H

#include "base/err.h"
#include "kube/client/client.h"
#include "net/loop.h"

struct server_version;

/* From the loop, once: "1" and "29+". Valid during the call. */
typedef void (*server_version_cb)(void *data, const char *major, const char *minor);

/* NULL with `e` set: -ENOMEM. */
MUST_CHECK struct server_version *server_version_new(struct net_loop *l, struct kube_client *c,
                                                     server_version_cb cb, void *data,
                                                     struct err *e);
/* NULL is ignored. */
void server_version_free(struct server_version *v);

#endif
