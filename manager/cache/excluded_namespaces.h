/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excluded_namespaces.h - which namespaces a webhook does not look at, by its namespaceSelector.
 *
 * Only these are followed at the API server, for they are few: of each requirement of the selector
 * the namespaces that do not meet it, by a selector that says the opposite.
 */
#ifndef MANAGER_CACHE_EXCLUDED_NAMESPACES_H
#define MANAGER_CACHE_EXCLUDED_NAMESPACES_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "net/loop.h"

/* Of a selector with more requirements, or with a longer opposite, nothing is known. */
#define LEFT_OUT_REQUIREMENTS_MAX 8
#define LEFT_OUT_TEXT_MAX 4096 /* bytes */

struct excluded_namespaces;

struct excluded_namespaces_options {
    struct kube_client *client; /* must outlive it */
    /* excluded_namespaces_has may answer another thing. From the loop; may not free. NULL: nobody
     * asks. */
    void (*on_change)(void *data);
    void *data;
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

/* Nothing is known yet. */
MUST_CHECK struct excluded_namespaces *
excluded_namespaces_new(struct net_loop *l, const struct excluded_namespaces_options *o);

/* The selector, a metav1.LabelSelector; absent or empty: none is left out. 1: it is another one
 * than before, of which on_change tells only when namespaces are known; 0: the same; or an error,
 * and then nothing is known: -EINVAL, -E2BIG, -ENOBUFS, -ENOTSUP. */
MUST_CHECK int excluded_namespaces_set(struct excluded_namespaces *f, const cJSON *selector);
/* It is not known. */
void excluded_namespaces_forget(struct excluded_namespaces *f);

/* Whether that namespace is certainly left out. */
bool excluded_namespaces_has(const struct excluded_namespaces *f, const char *ns);

/* NULL is ignored. */
void excluded_namespaces_free(struct excluded_namespaces *f);

#endif
