/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_operator.h - leads the operator's containers through localproxy.
 */
#ifndef MANAGER_INJECT_INJECT_OPERATOR_H
#define MANAGER_INJECT_INJECT_OPERATOR_H

#include <cjson/cJSON.h>

#include "inject/inject_access.h"
#include "inject/inject_options.h"
#include "object/warnings.h"
#include "json/edit.h"

#define INJECT_LOGS_VOLUME "cmesh-logs"

/* Gives each the kubeconfig: its volume, KUBECONFIG, `--kubeconfig`. What could not be done is
 * noted. */
void inject_operator_lead(struct edit *ed, const struct inject_options *o,
                          const struct inject_access *a, cJSON *spec, struct warnings *warnings);

/* Whether something that runs beside the operator is not led: containers that operator-containers
 * leaves out, and init containers of the pod's own that keep running. */
bool inject_operator_leaves_out(const struct inject_options *o, const cJSON *spec);

/* Whether all that runs in the pod is the operator's for certain: one container, or each is named.
 * Another one may talk to the API server itself, and rightly so. */
bool inject_operator_is_all(const struct inject_options *o, const cJSON *spec);

/* The name of the volume that a container of the pod's own has at that path; NULL: none has. */
const char *inject_operator_volume_at(const cJSON *containers, const char *path);

/* Lets all containers have the folder of log-path in common. */
void inject_operator_share_logs(struct edit *ed, const struct inject_options *o, cJSON *spec);

#endif
