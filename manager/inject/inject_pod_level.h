/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_pod_level.h - the resources of a pod as a whole, which bound those of its containers.
 *
 * Source: "Specify pod-level resources" in
 * https://kubernetes.io/docs/tasks/configure-pod-container/ and
 * https://github.com/kubernetes/enhancements/issues/2837. The API server refuses a pod whose
 * containers request more together than the pod, or of which one has a higher limit than the pod.
 */
#ifndef MANAGER_INJECT_INJECT_POD_LEVEL_H
#define MANAGER_INJECT_INJECT_POD_LEVEL_H

#include "json/edit.h"

/* Raises the cpu and memory of the pod by what localproxy and rulesync have, which are in `spec`,
 * so that all other containers keep what they had. `before`: the spec as the pod came. What the pod
 * as a whole does not have stays absent. */
void inject_pod_level_raise(struct edit *ed, const cJSON *before, cJSON *spec);

#endif
