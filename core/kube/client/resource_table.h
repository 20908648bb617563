/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_table.h - the resources that an API server says it has, read from its discovery
 * documents.
 *
 * Filled from several documents, then sorted, then looked into. What a document has of no use or of
 * another form (a name that cannot stand in a path) is left out; subresources too.
 *
 * Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api.
 */
#ifndef CORE_KUBE_CLIENT_RESOURCE_TABLE_H
#define CORE_KUBE_CLIENT_RESOURCE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"

/* More than a server can have: what is above is left out. */
#define RESOURCE_TABLE_MAX 20000

enum discovery_verb {
    DISCOVERY_GET = 1 << 0,
    DISCOVERY_LIST = 1 << 1,
    DISCOVERY_WATCH = 1 << 2,
    DISCOVERY_CREATE = 1 << 3,
    DISCOVERY_UPDATE = 1 << 4,
    DISCOVERY_PATCH = 1 << 5,
    DISCOVERY_DELETE = 1 << 6,
    DISCOVERY_DELETECOLLECTION = 1 << 7,
};

struct discovery_resource {
    const char *group; /* "": core */
    const char *version;
    const char *kind;   /* "Deployment" */
    const char *plural; /* "deployments" */
    bool namespaced;
    bool preferred; /* of the versions that have it the one that the group prefers */
    unsigned verbs; /* of enum discovery_verb; others are left out */
    unsigned rank;  /* of its version in the group: 0 is preferred to all */
};

/* Appends the path of its collection: "/apis/apps/v1/namespaces/demo/deployments". `namespace`
 * NULL: of the cluster, or in all namespaces. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int discovery_path(const struct discovery_resource *r, const char *namespace,
                              struct buf *out);

/* A version of a group that a document names without its resources. */
struct resource_version {
    struct list link;
    unsigned rank;
    bool stale;          /* its server does not answer the API server */
    const char *group;   /* "": core */
    const char *version; /* "v1" */
    char text[];
};

struct resource_table {
    struct discovery_resource *items;
    size_t count;
    size_t room;
    struct resource_text *texts; /* that the items point to */
};

/* All zero: empty. Then it is empty again. */
void resource_table_deinit(struct resource_table *t);

/* Adds what an APIGroupDiscoveryList has. What it only names (APIVersions, APIGroupList, versions
 * that are stale) is appended to `versions`, a list of struct resource_version, each to be freed by
 * the caller. 0; -EINVAL with `e` set: another document. */
MUST_CHECK int resource_table_add_root(struct resource_table *t, const cJSON *document,
                                       struct list *versions, struct err *e);
/* Adds an APIResourceList, which is of that version. Errors as above. */
MUST_CHECK int resource_table_add_list(struct resource_table *t, const cJSON *document,
                                       const struct resource_version *version, struct err *e);
/* Adds what `from` has of the group in any version (`version` NULL) or one. */
void resource_table_copy(struct resource_table *t, const struct resource_table *from,
                         const char *group, const char *version);
/* Adds what `from` has of all groups but the core. */
void resource_table_copy_groups(struct resource_table *t, const struct resource_table *from);

/* Sorts by group, version and plural, drops what is there twice, and finds the preferred ones:
 * nothing may be added any more. */
void resource_table_finish(struct resource_table *t);

/* Of finished ones. */
bool resource_table_same(const struct resource_table *a, const struct resource_table *b);

#endif
