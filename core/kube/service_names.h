/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_names.h - the names of the API server's Service, as clients in a pod have them.
 *
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
 */
#ifndef CORE_KUBE_SERVICE_NAMES_H
#define CORE_KUBE_SERVICE_NAMES_H

#include "base/slice.h"

#define KUBE_CLUSTER_DOMAIN "cluster.local" /* unless the cluster has another one */

enum { KUBE_SERVICE_NAMES = 4, KUBE_SERVICE_NAME_SIZE = 280 };

/* The last one is in the domain of the cluster. What is longer than DNS takes is cut. */
void kube_service_names(struct slice domain,
                        char names[KUBE_SERVICE_NAMES][KUBE_SERVICE_NAME_SIZE]);

#endif
