/* SPDX-License-Identifier: Apache-2.0 */
#include "run/permissions.h"

#include "base/array.h"
#include "object/route_names.h"

#define AND_BIND " and bind it to the manager's service account"

static const char own[] =
    "apply the ClusterRole cmesh-manager of k8s/base/cluster_role.yaml" AND_BIND;
static const char own_namespace[] =
    "apply the Role cmesh-manager of k8s/base/role.yaml in the manager's namespace" AND_BIND;
static const char takeover[] =
    "apply the ClusterRole cmesh-manager-takeover of k8s/base/user_roles.yaml" AND_BIND
    "; without it nothing is taken over from pods that nobody reaches";
#define LABELS                                                                                     \
    "allow list, watch, get and patch on this resource by a ClusterRole with the label "           \
    "ctrlmesh.kusionstack.io/aggregate-to-labels: \"true\" (k8s/base/labelled_resources.yaml, "    \
    "ClusterRole cmesh-labels-default), or take it out of --sharding-resources"
#define WEBHOOKS                                                                                   \
    "bind the ClusterRole cmesh-manager-webhooks of k8s/base/user_roles.yaml to the manager's "    \
    "service account, by a RoleBinding in the operator's namespace"
static const char labels[] = LABELS;
static const char webhooks[] = WEBHOOKS;
static const char labels_or_webhooks[] = LABELS "; for an operator's webhooks " WEBHOOKS;
static const char narrowing[] =
    "allow patch on this configuration by its name, as k8s/base/user_roles.yaml says, or narrow it "
    "yourself";
static const char discovery[] =
    "bind the ClusterRole system:discovery, which every authenticated user has by default";

/* Of cluster_role.yaml, what labelled_resources.yaml has as well. */
static const struct {
    struct slice group;
    struct slice resource;
    bool get; /* allowed there, too; */
    bool patch;
} shared[] = {
    {{"", 0}, {"pods", 4}, false, true},
    {{"", 0}, {"configmaps", 10}, true, true},
    {{"apps", 4}, {"statefulsets", 12}, false, true},
    {{"apps", 4}, {"deployments", 11}, false, false},
};

static bool is_shared(const struct request_info *ri)
{
    for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
        if (slice_eq(ri->group, shared[i].group) && slice_eq(ri->resource, shared[i].resource)) {
            return ri->verb == VERB_GET     ? shared[i].get
                   : ri->verb == VERB_PATCH ? shared[i].patch
                                            : true;
        }
    }
    return false;
}

static bool is_own(const struct request_info *ri)
{
    static const struct slice groups[] = {{"ctrlmesh.kusionstack.io", 23},
                                          {"apiextensions.k8s.io", 20},
                                          {"admissionregistration.k8s.io", 28}};
    static const struct slice core[] = {{"namespaces", 10}, {"events", 6}};
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (slice_eq(ri->group, groups[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(core); i++) {
        if (ri->group.len == 0 && slice_eq(ri->resource, core[i])) {
            return true;
        }
    }
    return is_shared(ri) || ri->subresource.len > 0;
}

/* What leads to the pods of one shard, of an operator with webhooks. Elsewhere the labeller lists
 * it, everywhere at once. NULL: it is something else. */
static const char *of_service(const struct request_info *ri)
{
    bool service = ri->group.len == 0 && slice_eq(ri->resource, SLICE("services"));
    bool endpoints = (ri->group.len == 0 && slice_eq(ri->resource, SLICE("endpoints"))) ||
                     (slice_eq(ri->group, SLICE("discovery.k8s.io")) &&
                      slice_eq(ri->resource, SLICE("endpointslices")));
    bool follows = ri->verb == VERB_LIST || ri->verb == VERB_WATCH;
    if (ri->namespace.len == 0 || !(service || endpoints)) {
        return NULL;
    }
    return follows ? webhooks : service ? labels_or_webhooks : NULL;
}

/* One that is not ours. */
static bool is_narrowing(const struct request_info *ri)
{
    return slice_eq(ri->group, SLICE("admissionregistration.k8s.io")) && ri->verb == VERB_PATCH &&
           ri->name.len > 0 && !slice_eq(ri->name, SLICE("cmesh")) &&
           !slice_eq(ri->name, SLICE(ROUTE_OBJECT));
}

static const char *of_lease(const struct request_info *ri)
{
    bool follows = ri->verb == VERB_LIST || ri->verb == VERB_WATCH;
    return follows ? own : ri->verb == VERB_PATCH ? takeover : own_namespace;
}

const char *permissions_granted_by(const struct request_info *ri)
{
    if (!ri->is_resource) {
        return discovery;
    }
    if (slice_eq(ri->group, SLICE("coordination.k8s.io")) &&
        slice_eq(ri->resource, SLICE("leases"))) {
        return of_lease(ri);
    }
    if (ri->group.len == 0 && slice_eq(ri->resource, SLICE("secrets")) && ri->namespace.len > 0 &&
        ri->verb != VERB_GET) {
        return own_namespace;
    }
    const char *of_webhooks = is_narrowing(ri) ? narrowing : of_service(ri);
    if (of_webhooks != NULL) {
        return of_webhooks;
    }
    return is_own(ri) ? own : labels;
}
