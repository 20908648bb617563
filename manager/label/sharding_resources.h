/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharding_resources.h - which resources get control labels: the file of --sharding-resources.
 *
 *     groupVersionKinds:
 *       v1: [Pod, Service, ConfigMap]
 *       apps/v1: ["*"]
 *
 * A ConfigMap manifest with that text under its one key is taken too. Kinds are resolved by
 * discovery; "*" is every namespaced kind that can be listed, watched and patched, but Events,
 * which must be named. In place of a group version "*" is any. Of a resource in several versions
 * one is taken. Namespaces are labelled in any case.
 */
#ifndef MANAGER_LABEL_SHARDING_RESOURCES_H
#define MANAGER_LABEL_SHARDING_RESOURCES_H

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/client/discovery.h"
#include "object/warnings.h"

struct sharding_resources;

/* One resource that is to be labelled. */
struct sharding_resource {
    const char *group; /* "" is the core group */
    const char *version;
    const char *plural;
    const char *kind;
};

/* Reads YAML or JSON; `name` is for messages, which give line and field. NULL with `e` set:
 * -EINVAL. */
MUST_CHECK struct sharding_resources *sharding_resources_parse(struct slice text, const char *name,
                                                               struct err *e);
/* The same of the file of --sharding-resources, which the message names. */
MUST_CHECK struct sharding_resources *sharding_resources_load(const char *path, struct err *e);
/* v1: Pod, Service, ConfigMap, Secret, ServiceAccount, PersistentVolumeClaim, Endpoints; apps/v1:
 * "*"; batch/v1: "*"; "*": EndpointSlice: what is used without a file. */
MUST_CHECK struct sharding_resources *sharding_resources_default(void);

/* All that there is, Events too: to take labels away. */
MUST_CHECK struct sharding_resources *sharding_resources_everything(void);

/* Those that the API server has, sorted, each once; the caller frees all of it with one free() of
 * the array, which is not NULL. What is named but cannot be labelled is noted, as "v1/Pood: the API
 * server has no such kind". */
MUST_CHECK struct sharding_resource *sharding_resources_resolve(const struct sharding_resources *s,
                                                                const struct discovery *d,
                                                                size_t *count,
                                                                struct warnings *warnings);

void sharding_resources_free(struct sharding_resources *s);

#endif
