/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_access.h - how localproxy reaches the API server in place of the operator: with the
 * kubeconfig that the operator had, or as the pod's service account.
 */
#ifndef MANAGER_INJECT_INJECT_ACCESS_H
#define MANAGER_INJECT_INJECT_ACCESS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject_options.h"
#include "object/warnings.h"

#define INJECT_PATH_SIZE 1024

struct inject_access {
    char kubeconfig[INJECT_PATH_SIZE]; /* in localproxy's container; "": the service account */
    cJSON *mounts;                     /* volumeMounts that it needs */
    cJSON *env;                        /* where the operator was told that the API server is */
    char hidden[INJECT_PATH_SIZE];     /* a volume that the operator must not have any more */
};

/* Whether a container of the pod is one of the operator's. */
bool inject_access_concerns(const struct inject_options *o, const cJSON *container);

/* The next argument, from `item` on, that holds what `--kubeconfig` names, behind a `=` or by
 * itself behind the flag; NULL: there is none. *path points into it. */
const cJSON *inject_access_argument(const cJSON *item, const char **path);

/* Looks at spec of the pod as it came. `ours` is the path of the kubeconfig that leads to
 * localproxy. 0, then inject_access_deinit is due; or -EINVAL with the field. */
MUST_CHECK int inject_access_init(struct inject_access *a, const struct inject_options *o,
                                  const cJSON *spec, const char *ours, struct warnings *warnings,
                                  struct err *e);
void inject_access_deinit(struct inject_access *a);

#endif
