/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - what RBAC lets a service account do, by the roles that are bound to it by name or to
 * the service accounts of its namespace or of all. Groups that every user is in do not count.
 *
 * Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
 */
#ifndef MANAGER_READINESS_GRANTS_H
#define MANAGER_READINESS_GRANTS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "kube/client/resource_table.h"

/* Lists, as the API server answers them. NULL: could not be read, and counts as empty. */
struct grants_source {
    const cJSON *roles; /* these two of all namespaces */
    const cJSON *role_bindings;
    const cJSON *cluster_roles;
    const cJSON *cluster_role_bindings;
};

/* The rules of one binding; texts and trees are the source's. */
struct grant {
    const cJSON *rules;
    const char *ns; /* where they hold; NULL: everywhere */
};

struct grants {
    struct grant *items;
    size_t count;
};

/* The caller calls grants_deinit. */
void grants_find(const struct grants_source *from, const char *ns, const char *account,
                 struct grants *out);
void grants_deinit(struct grants *g);

/* What rules that name the resource, or all of its group, allow with it: of enum discovery_verb. A
 * rule for its status, or another part by which the object is written, is one to write it.
 * `ns` NULL: everywhere; else there alone, and in addition to that. Rules for objects of some names
 * count as all others. */
unsigned grants_verbs(const struct grants *g, const struct discovery_resource *r, const char *ns);

/* The verb of that name, of enum discovery_verb; 0: another one. */
unsigned grants_verb(const char *name);

/* Whether a rule is about all resources of all groups: what is used of it cannot be told. */
bool grants_are_open(const struct grants *g);

#endif
