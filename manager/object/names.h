/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - what the mesh's part of a pod is called: for those who put it there and those who
 * look for it.
 */
#ifndef MANAGER_OBJECT_NAMES_H
#define MANAGER_OBJECT_NAMES_H

#include "kube/name.h"

/* Containers. */
#define SIDECAR_PROXY "cmesh-localproxy"
#define SIDECAR_RULESYNC "cmesh-rulesync"
#define SIDECAR_KUBECONFIG "cmesh-kubeconfig" /* init */
#define SIDECAR_RULES "cmesh-rules"           /* init */
#define SIDECAR_NAT_INIT "cmesh-nat"          /* init, where it is asked for */

/* Ports. */
#define SIDECAR_API_PORT 5443      /* localproxy, for the operator, on 127.0.0.1 */
#define SIDECAR_TLS_PORT 5446      /* the same with TLS, also on ::1 */
#define SIDECAR_ADMIN_PORT 5441    /* localproxy's health, metrics and status */
#define SIDECAR_RULESYNC_PORT 5442 /* rulesync's */

/* What they are called in containers' ports. */
#define SIDECAR_API_PORT_NAME "cmesh-api"
#define SIDECAR_TLS_PORT_NAME "cmesh-tls"
#define SIDECAR_ADMIN_PORT_NAME "cmesh-admin"
#define SIDECAR_RULESYNC_PORT_NAME "cmesh-rulesync"
#define SIDECAR_EGRESS_PORT_NAME "cmesh-egress"

/* The ConfigMap with a shard's rules, in its namespace: the prefix and the shard's name, which has
 * that many characters at most. */
#define RULES_MAP_PREFIX "cmesh-rules-"
#define RULES_MAP_SHARD_MAX (NAME_SUBDOMAIN_MAX - ((int)sizeof RULES_MAP_PREFIX - 1))

/* Names below the prefix of labels and annotations (labels.h). */
#define SIDECAR_ENABLE "enable-proxy"               /* label: "true" asks for injection */
#define SIDECAR_INJECTED "sharding-config-injected" /* annotation and label: the shard's name */
#define SIDECAR_KEEP_ACCOUNT "keep-service-account" /* "true": the operator has the pod's own */
#define SIDECAR_NAT "enable-iptables"  /* "true": the kernel redirects the pod's connections */
#define SIDECAR_BY_NAME "lead-by-name" /* "true": the API server's names lead to localproxy */
#define SIDECAR_EGRESS                                                                             \
    "egress" /* "proxy", "chain", "off": requests to other places (inject_egress.h) */
#define SIDECAR_USER_AGENT "user-agent"   /* of the operator at the API server */
#define SIDECAR_RULES_LEASE "rules-lease" /* annotation: seconds; "0": none */
/* "true", of a pod or its ShardingConfig: what is done for each bucket is counted
 * (localproxy/metrics/load.h) */
#define SIDECAR_COUNT_LOAD "count-load"
/* The label that StatefulSets give to their pods. */
#define POD_NAME_LABEL "statefulset.kubernetes.io/pod-name"
/* Label of the pods of a Deployment with automatic shards: the ShardingConfig of their shard, by
 * which that selects them. The webhook for pods sets it. */
#define POD_SHARD "shard"
/* Annotation of them: which place they have in it (object/pod_place.h). */
#define POD_PLACE "shard-place"
/* Annotation on a ShardingConfig: the names of others, separated by commas, or "*", with which it
 * shares objects on purpose. */
#define SHARDING_SHARES_WITH "shares-with"
/* annotation: the generation of the rules that the pod was told of last */
#define POD_GENERATION "rules-generation"
/* annotation: the same of the traffic document; 0: that there is none */
#define POD_TRAFFIC "traffic-generation"
/* annotation: "true" on a pod that other shards are not to wait for any more, by somebody who knows
 * that it works on nothing */
#define POD_LET_GO "let-go"
#define SIDECAR_ALLOW_BYPASS "allow-bypass" /* annotation: "true": its bypassing is on purpose */

/* Bytes with the final one: of what may be a key, which is checked elsewhere. */
#define NAMES_KEY_SIZE 512

/* "PREFIX/NAME", or `name` itself if it is a whole key, with a slash. Returns `out`. */
const char *names_key(const char *prefix, const char *name, char out[NAMES_KEY_SIZE]);

/* The shard whose rules a ConfigMap of that name has, a part of `name`; NULL: it is none. */
const char *names_shard_of_map(const char *name);

#endif
