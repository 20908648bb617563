/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_environment.h - the variables that the manager's --sidecar-env gives to the sidecars of
 * all pods.
 *
 * Each is NAME=VALUE. One that is a setting of localproxy (CMESH_...) goes to localproxy alone, for
 * other programs may have one of the same name; those of the log, and all others, go to rulesync
 * and the init containers, too, but not to the one that has a right in the pod (nat-init).
 */
#ifndef MANAGER_INJECT_INJECT_ENVIRONMENT_H
#define MANAGER_INJECT_INJECT_ENVIRONMENT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "json/edit.h"

/* Whether they can be given: NAME is a name that Kubernetes takes, there once, and not one that the
 * injection sets, that tells where the API server is, or that the dynamic linker and the C library
 * read (inject_variables.h); CMESH_... are flags that --proxy-arg would take. `list` ends with
 * NULL, and may be NULL. 0, or -EINVAL with a message that begins with --sidecar-env. */
MUST_CHECK int inject_environment_check(const char *const *list, struct err *e);

/* Adds to a container what is for it, behind what it has, but no variable of a name that it has. */
void inject_environment_add(struct edit *ed, const char *const *list, bool proxy, cJSON *container);

#endif
