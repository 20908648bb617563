/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collection.h - request targets that list and watch a collection of the API server, or a part of
 * it.
 */
#ifndef CORE_KUBE_CLIENT_COLLECTION_H
#define CORE_KUBE_CLIENT_COLLECTION_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct collection {
    const char *path;           /* "/api/v1/namespaces/demo/configmaps" */
    const char *name;           /* only the object of that name; NULL: all */
    const char *label_selector; /* plain text; NULL: none */
    const char *field_selector; /* plain text; NULL: none */
};

/* Longest target: bytes. kube-apiserver takes heads of 1 MiB. */
#define COLLECTION_TARGET_MAX ((size_t)1024 * 1024)

/* Whether this is a path in which nothing needs an escape, without query. NULL is none. */
bool collection_is_path(const char *path);

/* Appends the path and the selectors, which all targets begin with; ends with `?` or `&`. 0,
 * -ENOMEM; -EINVAL with `e` set: what cannot be a path or a name; -ENOBUFS: too long. */
MUST_CHECK int collection_base(const struct collection *c, struct buf *out, struct err *e);

/* Append the target of one page; `token` NULL: the first. Of a watch from `version` on, that the
 * server ends after so many seconds. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int collection_list(struct slice base, unsigned limit, const char *token,
                               struct buf *out);
MUST_CHECK int collection_watch(struct slice base, const char *version, unsigned seconds,
                                struct buf *out);

#endif
