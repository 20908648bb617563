/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/also_served.h"

#include <stddef.h>

#include "base/array.h"

struct served_as {
    const char *resource;
    const char *group; /* "" is the core group */
};

/* Objects of which there is one, to be read and written as either. */
struct twins {
    struct served_as now;
    struct served_as before;
    bool everywhere; /* each API server has both; else old ones, or those of a distribution */
};

/* Kubernetes: https://kubernetes.io/docs/reference/using-api/deprecation-guide. OpenShift's groups
 * of authorization and projects are views of Kubernetes' own objects. */
static const struct twins known[] = {
    {{"events", "events.k8s.io"}, {"events", ""}, true},
    {{"ingresses", "networking.k8s.io"}, {"ingresses", "extensions"}, false},
    {{"networkpolicies", "networking.k8s.io"}, {"networkpolicies", "extensions"}, false},
    {{"podsecuritypolicies", "policy"}, {"podsecuritypolicies", "extensions"}, false},
    {{"daemonsets", "apps"}, {"daemonsets", "extensions"}, false},
    {{"deployments", "apps"}, {"deployments", "extensions"}, false},
    {{"replicasets", "apps"}, {"replicasets", "extensions"}, false},
    {{"roles", "rbac.authorization.k8s.io"}, {"roles", "authorization.openshift.io"}, false},
    {{"rolebindings", "rbac.authorization.k8s.io"},
     {"rolebindings", "authorization.openshift.io"},
     false},
    {{"clusterroles", "rbac.authorization.k8s.io"},
     {"clusterroles", "authorization.openshift.io"},
     false},
    {{"clusterrolebindings", "rbac.authorization.k8s.io"},
     {"clusterrolebindings", "authorization.openshift.io"},
     false},
    {{"namespaces", ""}, {"projects", "project.openshift.io"}, false},
};

static bool is_limited(const struct rules *rules, const struct served_as *r)
{
    return rules_match(rules, slice_str(r->group), slice_str(r->resource)) != NULL;
}

static const char *dot(const struct served_as *r)
{
    return r->group[0] != '\0' ? "." : "";
}

static void note(const char *path, const struct served_as *open, const struct served_as *limited,
                 struct warnings *warnings)
{
    warnings_add(warnings,
                 "%s: %s%s%s serves the same objects as %s%s%s, and is not limited: there "
                 "the shard sees all of them",
                 path, open->resource, dot(open), open->group, limited->resource, dot(limited),
                 limited->group);
}

static bool is_served(const struct served_as *r, bool unless_known, also_served_cb served,
                      const void *data)
{
    return served == NULL ? unless_known : served(data, r->group, r->resource);
}

void also_served_note(const struct rules *rules, const char *path, also_served_cb served,
                      const void *data, struct warnings *warnings)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct twins *t = &known[i];
        bool now = is_limited(rules, &t->now);
        bool before = is_limited(rules, &t->before);
        if (before && !now && is_served(&t->now, true, served, data)) {
            note(path, &t->now, &t->before, warnings);
        } else if (now && !before && is_served(&t->before, t->everywhere, served, data)) {
            note(path, &t->before, &t->now, warnings);
        }
    }
}
