/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator_check.h - whether an operator is ready to work in shards: what its workload, its pods,
 * its roles and the webhooks that lead to it tell. Changes nothing, and needs no cluster.
 *
 * docs/operator-checklist.md says what an operator must fulfil, and what cannot be seen from here.
 */
#ifndef MANAGER_READINESS_OPERATOR_CHECK_H
#define MANAGER_READINESS_OPERATOR_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/resource_table.h"
#include "label/sharding_resources.h"
#include "readiness/findings.h"
#include "readiness/requests.h"

/* What is looked at: lists, as the API server answers them, of all namespaces where nothing else is
 * said. */
enum operator_list {
    OPERATOR_PODS, /* of its namespace */
    OPERATOR_LEASES,
    OPERATOR_CONFIG_MAPS, /* of its namespace: old locks */
    OPERATOR_SERVICES,    /* of its namespace */
    OPERATOR_ROLES,
    OPERATOR_ROLE_BINDINGS,
    OPERATOR_CLUSTER_ROLES,
    OPERATOR_CLUSTER_ROLE_BINDINGS,
    OPERATOR_MUTATING_WEBHOOKS,
    OPERATOR_VALIDATING_WEBHOOKS,
    OPERATOR_DEFINITIONS, /* CustomResourceDefinitions */
    OPERATOR_LISTS,
};

/* Whose path it is, for a namespace: "/api/v1/namespaces/demo/pods". The caller frees. */
char *operator_list_path(enum operator_list list, const char *ns);
/* For messages: "Pods". */
const char *operator_list_name(enum operator_list list);

struct operator_facts {
    const char *prefix;                         /* of labels and annotations */
    const cJSON *workload;                      /* a Deployment or StatefulSet */
    const cJSON *lists[OPERATOR_LISTS];         /* NULL: could not be read: */
    const char *errors[OPERATOR_LISTS];         /* why */
    const struct discovery_resource *resources; /* all that the API server has */
    size_t resource_count;
    struct requests_seen seen;                /* of pods in the mesh; none: */
    const char *seen_error;                   /* why; NULL: no pod is in the mesh */
    const struct sharding_resource *labelled; /* that get control labels */
    size_t labelled_count;
};

/* Whether it is one of the workload's, runs, and has the sidecars: its localproxy tells what it
 * asks for (operator_facts.seen). */
bool operator_pod_in_mesh(const struct operator_facts *facts, const cJSON *pod);

/* `about`: "Deployment demo/op: 3 pods, 1 of them in the mesh"; the caller frees. 0, or -EINVAL
 * with `e` set: this is no workload. findings_deinit is due in any case. */
MUST_CHECK int operator_check(const struct operator_facts *facts, struct findings *out,
                              char **about, struct err *e);

#endif
