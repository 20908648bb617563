/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_server_names.h - by what names clients in a pod know the API server.
 *
 * localproxy stands in its place for them, so its certificate has to bear them.
 *
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
 */
#ifndef LOCALPROXY_LISTEN_API_SERVER_NAMES_H
#define LOCALPROXY_LISTEN_API_SERVER_NAMES_H

#include <stddef.h>

#include "base/slice.h"

enum { API_SERVER_NAMES_MAX = 8, API_SERVER_NAME_SIZE = 256 };

struct api_server_names {
    char names[API_SERVER_NAMES_MAX][API_SERVER_NAME_SIZE];
    size_t count;
};

/* Of the Service kubernetes, by itself and in the domain of the cluster, which the text of a pod's
 * resolv.conf(5) tells (else cluster.local); and `host`, a name or an IP literal that the kubelet
 * gives as KUBERNETES_SERVICE_HOST (NULL: none). */
void api_server_names_make(struct slice resolv_conf, const char *host,
                           struct api_server_names *out);
/* The same, with the resolv.conf(5) of this machine; as if it was empty where it cannot be read. */
void api_server_names_read(const char *host, struct api_server_names *out);

#endif
