/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_target.h - request targets of single objects of the API server.
 */
#ifndef CORE_KUBE_CLIENT_OBJECT_TARGET_H
#define CORE_KUBE_CLIENT_OBJECT_TARGET_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct object_target {
    const char *path;          /* of the collection: "/api/v1/namespaces/demo/configmaps" */
    const char *name;          /* NULL: the collection itself */
    const char *subresource;   /* "status"; NULL: none; needs a name */
    const char *field_manager; /* NULL: none */
    bool force;
    bool dry_run;
};

/* Appends the target. 0, -ENOBUFS, -ENOMEM; -EINVAL with `e` set: what cannot be a path, a name or
 * a subresource. A name may be what k8s.io/apimachinery/pkg/api/validation/path takes for one:
 * anything without slash and percent sign but "." and "..". */
MUST_CHECK int object_target_write(const struct object_target *t, struct buf *out, struct err *e);

#endif
