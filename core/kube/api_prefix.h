/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_prefix.h - paths below which an API server serves the API of another one.
 *
 * A *gateway* is such a path: /apis/cluster.example/v1/clusterextensions/NAME/proxy carries
 * everything behind it to the API server of the cluster NAME. A *prefix* names gateways: it is the
 * path, in which `*` stands for any one segment but `api` and `apis`.
 */
#ifndef CORE_KUBE_API_PREFIX_H
#define CORE_KUBE_API_PREFIX_H

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

/* Borrowed; each one was checked. */
struct api_prefixes {
    const char *const *items;
    size_t count;
};

/* Whether `prefix` can only match gateways, so that no request to the API server's own API is read
 * as another one: it may pass /apis only up to the `proxy` subresource of a named kind of object,
 * and /api not at all. 0 or -EINVAL, which does not quote it. -ENOMEM. */
MUST_CHECK int api_prefix_check(const char *prefix, struct err *e);

/* How long the beginning of `path` is that one of them matches, the longest if there are several;
 * 0: none does. `path` is decoded and has no slash in front; none is counted at the end. */
size_t api_prefix_match(const struct api_prefixes *prefixes, struct slice path);

#endif
