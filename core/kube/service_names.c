/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/service_names.h"

#include <stdio.h>

#define SERVICE "kubernetes.default.svc"

void kube_service_names(struct slice domain, char names[KUBE_SERVICE_NAMES][KUBE_SERVICE_NAME_SIZE])
{
    (void)snprintf(names[0], KUBE_SERVICE_NAME_SIZE, "kubernetes");
    (void)snprintf(names[1], KUBE_SERVICE_NAME_SIZE, "kubernetes.default");
    (void)snprintf(names[2], KUBE_SERVICE_NAME_SIZE, SERVICE);
    (void)snprintf(names[3], KUBE_SERVICE_NAME_SIZE, SERVICE ".%.*s", (int)domain.len, domain.ptr);
}
