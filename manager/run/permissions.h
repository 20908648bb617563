/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permissions.h - which of the installation's roles allow the manager what (k8s/base).
 */
#ifndef MANAGER_RUN_PERMISSIONS_H
#define MANAGER_RUN_PERMISSIONS_H

#include "kube/request_info.h"

/* What to do when the request is forbidden. Never NULL; a constant. */
const char *permissions_granted_by(const struct request_info *ri);

#endif
