/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permission.h - permissions that a program lacks, as rows of the table of health.h: "list
 * leases.coordination.k8s.io in namespace demo".
 */
#ifndef CORE_KUBE_CLIENT_PERMISSION_H
#define CORE_KUBE_CLIENT_PERMISSION_H

#include "kube/client/health.h"
#include "kube/request_info.h"

/* A request was answered 403. `message` is the server's. `granted_by`: as kube_client_options has
 * it. False: it is a write that was allowed, and refused by an admission plugin. */
bool permission_denied(struct health *h, const char *(*granted_by)(const struct request_info *ri),
                       struct slice method, struct slice target, const char *message);
/* It was answered otherwise. Cheap while no permission is missing. */
void permission_granted(struct health *h, struct slice method, struct slice target);

#endif
